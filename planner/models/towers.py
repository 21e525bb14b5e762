"""Vision towers and projectors of multimodal models: how many numbers they hold.

They run once per image, not per token, so they count towards memory and not towards FLOPs per token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from planner.models.encoder_stack import EncoderStack
from planner.models.fields import Fields
from planner.models.spec import TensorClass
from planner.models.tally import Tally

MAX_IMAGE = 100_000

SIGLIP_DEFAULTS = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 224,
    "patch_size": 16,
}
CLIP_DEFAULTS = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 224,
    "patch_size": 32,
}
PIXTRAL_DEFAULTS = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 1024,
    "patch_size": 16,
}
QWEN2_VL_DEFAULTS = {
    "depth": 32,
    "embed_dim": 1280,
    "hidden_size": 3584,
    "mlp_ratio": 4,
    "num_heads": 16,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
QWEN2_5_VL_DEFAULTS = {
    "depth": 32, "hidden_size": 3584, "intermediate_size": 3420, "num_heads": 16, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 3584,
}  # fmt: skip
LLAMA4_DEFAULTS = {
    "hidden_size": 768, "num_hidden_layers": 34, "num_attention_heads": 16, "intermediate_size": 5632, "vision_output_dim": 7680, "image_size": 448, "patch_size": 14,
    "projector_input_dim": 4096, "projector_output_dim": 4096,
}  # fmt: skip


def add_tower(tally: Tally, numbers: int) -> None:
    """Add a whole tower as one group: kept in 16 bits by common quantisation recipes."""
    tally.add("vision_tower", TensorClass.VISION_TOWER, numbers, tower="vision")


def add_projector(tally: Tally, numbers: int) -> None:
    """Add the projector from the tower to the text model."""
    tally.add("vision_projector", TensorClass.VISION_TOWER, numbers, tower="vision")


def _stack(vision: Fields) -> EncoderStack:
    hidden, heads = vision.integer("hidden_size"), vision.head_count()
    return EncoderStack(
        layers=vision.layer_count(),
        hidden=hidden,
        heads=heads,
        intermediate=vision.integer("intermediate_size"),
        head_dim=vision.divisible("hidden_size", hidden, "num_attention_heads", heads),
    )


def _numbers(stack: EncoderStack) -> int:
    tally = Tally()
    stack.add_to(tally)
    return tally.total()


def _patches(vision: Fields) -> tuple[int, int]:
    """Return (numbers of one patch, patches of an image)."""
    patch = vision.integer("patch_size", maximum=MAX_IMAGE)
    channels = vision.integer("num_channels", "in_channels", "in_chans", maximum=1000, default=3)
    image = vision.optional_integer("image_size", maximum=MAX_IMAGE)
    side = 0 if image is None else image // patch
    return channels * patch * patch, side * side


def siglip(vision: Fields) -> int:
    """SigLIP: biased patch convolution, positions without a class token, a pooling head unless `vision_use_head` is false."""
    stack = _stack(vision)
    h, (patch, count) = stack.hidden, _patches(vision)
    head = 0
    if vision.flag("vision_use_head", default=True):
        head = h + (4 * h * h + 4 * h) + 2 * h + (2 * h * stack.intermediate + stack.intermediate + h)
    return patch * h + h + count * h + _numbers(stack) + 2 * h + head


def clip(vision: Fields) -> int:
    """CLIP: class token, positions, norms before and after."""
    stack = _stack(vision)
    h, (patch, count) = stack.hidden, _patches(vision)
    return h + patch * h + (count + 1) * h + 4 * h + _numbers(stack)


def pixtral(vision: Fields) -> int:
    """Pixtral: gated layers without biases, rotary positions."""
    stack = replace(_stack(vision), gated=True, qkv_bias=False, o_bias=False, mlp_bias=False, norm_bias=False)
    patch, _ = _patches(vision)
    return patch * stack.hidden + stack.hidden + _numbers(stack)


def llama4_vision(vision: Fields) -> int:
    """Llama 4: linear patches, class token, positions, norms before and after, and a pixel-shuffle adapter."""
    stack = _stack(vision)
    h, (patch, count) = stack.hidden, _patches(vision)
    adapter = stack.intermediate * vision.integer("projector_input_dim") + vision.integer("projector_output_dim") ** 2
    return patch * h + h + (count + 1) * h + 4 * h + _numbers(stack) + adapter


def qwen2_vl_vision(vision: Fields) -> int:
    """Qwen2-VL: patches over two frames, biased blocks, a merger of 2 x 2 patches into the text width."""
    h, heads = vision.integer("embed_dim"), vision.head_count("num_heads")
    stack = EncoderStack(
        layers=vision.layer_count("depth"),
        hidden=h,
        heads=heads,
        intermediate=int(h * vision.number("mlp_ratio", minimum=0.1, maximum=64)),
        head_dim=vision.divisible("embed_dim", h, "num_heads", heads),
    )
    merged = h * vision.integer("spatial_merge_size", maximum=64) ** 2
    merger = 2 * h + merged * merged + merged + merged * vision.integer("hidden_size") + vision.integer("hidden_size")
    return _patches(vision)[0] * vision.integer("temporal_patch_size", maximum=64) * h + _numbers(stack) + merger


def qwen2_5_vl_vision(vision: Fields) -> int:
    """Qwen2.5-VL: gated biased blocks with RMS norms, the same merger."""
    h, heads = vision.integer("hidden_size"), vision.head_count("num_heads")
    stack = EncoderStack(
        layers=vision.layer_count("depth"),
        hidden=h,
        heads=heads,
        intermediate=vision.integer("intermediate_size"),
        head_dim=vision.divisible("hidden_size", h, "num_heads", heads),
        gated=True,
        norm_bias=False,
    )
    merged, out = h * vision.integer("spatial_merge_size", maximum=64) ** 2, vision.integer("out_hidden_size")
    merger = h + merged * merged + merged + merged * out + out
    return _patches(vision)[0] * vision.integer("temporal_patch_size", maximum=64) * h + _numbers(stack) + merger


def qwen3_vl_vision(vision: Fields) -> int:
    """Qwen3-VL and Qwen3.5: biased patches, a position table, biased blocks, one merger and one more for each deep-stack layer."""
    h, heads = vision.integer("hidden_size"), vision.head_count("num_heads")
    stack = EncoderStack(
        layers=vision.layer_count("depth"),
        hidden=h,
        heads=heads,
        intermediate=vision.integer("intermediate_size"),
        head_dim=vision.divisible("hidden_size", h, "num_heads", heads),
    )
    merged, out = h * vision.integer("spatial_merge_size", maximum=64) ** 2, vision.integer("out_hidden_size")
    merger = merged * merged + merged + merged * out + out
    deep = len(vision.integers("deepstack_visual_indexes") or ())
    patch = _patches(vision)[0] * vision.integer("temporal_patch_size", maximum=64) * h + h
    positions = vision.integer("num_position_embeddings") * h
    return patch + positions + _numbers(stack) + merger + 2 * h + deep * (merger + 2 * merged)


def mllama_vision(vision: Fields) -> int:
    """Llama 3.2 Vision: tiles of an image, local and gated global layers, tables for each aspect ratio."""
    h, heads = vision.integer("hidden_size"), vision.head_count("attention_heads", "num_attention_heads")
    layers, global_layers = vision.layer_count(), vision.layer_count("num_global_layers")
    stack = EncoderStack(
        layers=layers + global_layers,
        hidden=h,
        heads=heads,
        intermediate=vision.integer("intermediate_size"),
        head_dim=vision.divisible("hidden_size", h, "attention_heads", heads),
        qkv_bias=False,
        o_bias=False,
    )
    ratios = vision.data.get("supported_aspect_ratios")
    rows = (len(ratios) if isinstance(ratios, list) else 8) + 1
    tiles = vision.integer("max_num_tiles", maximum=1000)
    patch, count = _patches(vision)
    positions = count + 1
    tables = 2 * (rows * tiles * h + 1) + positions * h + rows * tiles * positions * h + 1
    return patch * h + h + tables + 4 * h + _numbers(stack) + 2 * global_layers


MLLAMA_DEFAULTS: Mapping[str, int | list[int]] = {
    "hidden_size": 1280, "num_hidden_layers": 32, "num_global_layers": 8, "attention_heads": 16, "intermediate_size": 5120, "vision_output_dim": 7680,
    "image_size": 448, "patch_size": 14, "max_num_tiles": 4,
}  # fmt: skip
QWEN3_VL_DEFAULTS: Mapping[str, int | list[int]] = {
    "num_position_embeddings": 2304,
    "deepstack_visual_indexes": [8, 16, 24],
}

TOWERS: dict[str, tuple[Callable[[Fields], int], Mapping[str, int | list[int]], str]] = {
    "siglip_vision_model": (siglip, SIGLIP_DEFAULTS, "SiglipVisionConfig"),
    "clip_vision_model": (clip, CLIP_DEFAULTS, "CLIPVisionConfig"),
    "pixtral": (pixtral, PIXTRAL_DEFAULTS, "PixtralVisionConfig"),
    "llama4_vision_model": (llama4_vision, LLAMA4_DEFAULTS, "Llama4VisionConfig"),
    "qwen2_vl": (qwen2_vl_vision, QWEN2_VL_DEFAULTS, "Qwen2VLVisionConfig"),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe"), (qwen3_vl_vision, QWEN3_VL_DEFAULTS, "Qwen3VLVisionConfig")),
    **dict.fromkeys(
        ("qwen3_5", "qwen3_5_moe"), (qwen3_vl_vision, {"num_position_embeddings": 2304}, "Qwen3_5VisionConfig")
    ),
    "mllama": (mllama_vision, MLLAMA_DEFAULTS, "MllamaVisionConfig"),
    "qwen2_5_vl": (qwen2_5_vl_vision, QWEN2_5_VL_DEFAULTS, "Qwen2_5_VLVisionConfig"),
}
