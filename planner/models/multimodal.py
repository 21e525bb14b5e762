"""Models that see: a decoder under `text_config` (or at the top), a vision tower under `vision_config`, a projector between them.

Published configs leave out what equals the class's default; such defaults are filled in and said in `assumptions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.models.decoder import DecoderShape
from planner.models.decoders import SHAPE_READERS, decoder_spec
from planner.models.errors import UnsupportedArchitecture
from planner.models.fields import Fields
from planner.models.llama_like import STYLES, read_llama_like
from planner.models.spec import ModelSpec, TensorClass
from planner.models.state_space import read_qwen3_next
from planner.models.tally import Tally
from planner.models.towers import TOWERS, add_projector, add_tower

TEXT_DEFAULTS: dict[str, tuple[str, dict[str, int]]] = {
    "llama": ("LlamaConfig", {"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32}),
    "mistral": (
        "MistralConfig",
        {"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8},
    ),
    "gemma3_text": (
        "Gemma3TextConfig",
        {
            "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
            "head_dim": 256, "sliding_window": 4096, "max_position_embeddings": 131072,
        },
    ),
}  # fmt: skip


def _text(config: Fields) -> Fields:
    name = config.nested("text_config").text("model_type", default="")
    owner, defaults = TEXT_DEFAULTS.get(name, ("", {}))
    return config.nested("text_config", defaults, owner)


def _text_shape(text: Fields) -> DecoderShape:
    name = text.text("model_type")
    if name not in SHAPE_READERS:
        raise UnsupportedArchitecture(
            source=text.source,
            field=text.path + "model_type",
            why=f"is {name!r}, a text model whose tensors we do not know how to count",
        )
    return SHAPE_READERS[name](text)


def _vision(config: Fields, kind: str | None = None) -> tuple[Fields, int]:
    """Return the vision config and the numbers of its tower; `kind` where the family fixes it."""
    name = kind or config.nested("vision_config").text("model_type")
    if name not in TOWERS:
        raise UnsupportedArchitecture(
            source=config.source,
            field="vision_config.model_type",
            why=f"is {name!r}; known towers are {', '.join(TOWERS)}",
        )
    count, defaults, owner = TOWERS[name]
    vision = config.nested("vision_config", defaults, owner)
    return vision, count(vision)


def _with_head(config: Fields, shape: DecoderShape) -> DecoderShape:
    """Let the outer config's tie_word_embeddings count where it is given."""
    return replace(shape, tied=config.flag("tie_word_embeddings", default=shape.tied))


def read_gemma3(config: Fields) -> ModelSpec:
    """Gemma 3: SigLIP tower, one projection matrix with a norm."""
    text, tally = _text(config), Tally()
    shape = _with_head(config, _text_shape(text))
    if config.has("vision_config"):
        vision, numbers = _vision(config, "siglip_vision_model")
        add_tower(tally, numbers)
        add_projector(tally, vision.integer("hidden_size") * (shape.hidden + 1))
    return decoder_spec(config, shape, tally)


def read_llama4(config: Fields) -> ModelSpec:
    """Llama 4: its own tower and one projection matrix."""
    shape, tally = _with_head(config, _text_shape(_text(config))), Tally()
    vision, numbers = _vision(config, "llama4_vision_model")
    add_tower(tally, numbers)
    add_projector(tally, vision.integer("vision_output_dim") * shape.hidden)
    return decoder_spec(config, shape, tally)


def read_llava(config: Fields) -> ModelSpec:
    """LLaVA 1.5 and LLaVA-NeXT: CLIP (or another tower), two matrices; NeXT has a newline vector."""
    shape, tally = _with_head(config, _text_shape(_text(config))), Tally()
    vision, numbers = _vision(config)
    add_tower(tally, numbers)
    bias = shape.hidden if config.flag("multimodal_projector_bias", default=True) else 0
    projector = vision.integer("hidden_size") * shape.hidden + bias + shape.hidden * shape.hidden + bias
    add_projector(tally, projector + (shape.hidden if config.text("model_type") == "llava_next" else 0))
    return decoder_spec(config, shape, tally)


def read_mistral3(config: Fields) -> ModelSpec:
    """Mistral Small 3.1 and later: Pixtral tower, patch merger, two matrices."""
    shape, tally = _with_head(config, _text_shape(_text(config))), Tally()
    vision, numbers = _vision(config)
    add_tower(tally, numbers)
    h = vision.integer("hidden_size")
    bias = shape.hidden if config.flag("multimodal_projector_bias", default=False) else 0
    merge = config.integer("spatial_merge_size", maximum=64, default=2)
    add_projector(tally, h + h * merge * merge * h + h * shape.hidden + bias + shape.hidden * shape.hidden + bias)
    return decoder_spec(config, shape, tally)


def read_qwen_vl(config: Fields) -> ModelSpec:
    """Qwen2-VL and Qwen2.5-VL: text fields at the top of older configs, under text_config in newer ones."""
    shape = (
        _text_shape(config.nested("text_config"))
        if config.has("text_config")
        else read_llama_like(config, STYLES["qwen2"])
    )
    shape, tally = _with_head(config, shape), Tally()
    _, numbers = _vision(config, config.text("model_type"))
    add_tower(tally, numbers)
    return decoder_spec(config, shape, tally)


def read_qwen3_5(config: Fields) -> ModelSpec:
    """Qwen3.5: a hybrid of gated delta networks and attention under text_config, the tower of Qwen3-VL."""
    text, tally = config.nested("text_config"), Tally()
    if config.has("vision_config"):
        _, numbers = _vision(config, config.text("model_type"))
        add_tower(tally, numbers)
    return read_qwen3_next(text, outer=config, tally=tally)


def read_mllama(config: Fields) -> ModelSpec:
    """Llama 3.2 Vision: a Llama whose extra layers attend to images; requests of text alone skip those layers."""
    text, tally = config.nested("text_config"), Tally()
    layers = text.layer_count()
    crossing = text.integers("cross_attention_layers", maximum=layers - 1)
    if crossing is None or len(set(crossing)) >= layers:
        raise text.error(
            "cross_attention_layers", "should list the layers that attend to images, fewer than num_hidden_layers"
        )
    cross = len(set(crossing))
    shape = replace(_with_head(config, read_llama_like(text, STYLES["mistral"])), layers=layers - cross, spans=())
    vision, numbers = _vision(config, "mllama")
    h, q_width, kv_width = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    one = 2 * h * q_width + 2 * h * kv_width + 2 * shape.head_dim + 3 * h * shape.intermediate + 2 * h + 2
    add_tower(tally, numbers)
    add_projector(tally, (vision.integer("vision_output_dim") + 1) * h)
    tally.add("vision_cross_attention", TensorClass.VISION_TOWER, one, times=cross, tower="vision")
    tally.table("token_embedding", 8, h)  # rows for image marks, without a place in the head
    config.assumed.append(
        f"requests of text alone: the {cross} layers that attend to images are in memory and not in the work"
    )
    return replace(decoder_spec(config, shape, tally), layers=layers)


MULTIMODAL_READERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "gemma3": read_gemma3,
    "llama4": read_llama4,
    "llava": read_llava,
    "llava_next": read_llava,
    "mistral3": read_mistral3,
    "qwen2_vl": read_qwen_vl,
    "qwen2_5_vl": read_qwen_vl,
    "qwen3_vl": read_qwen_vl,
    "qwen3_vl_moe": read_qwen_vl,
    "qwen3_5": read_qwen3_5,
    "mllama": read_mllama,
    "qwen3_5_moe": read_qwen3_5,
}
