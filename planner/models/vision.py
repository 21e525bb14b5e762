"""Image classifiers made of transformer layers: ViT (arXiv:2010.11929), DeiT, DINOv2, and the vision tower of CLIP and SigLIP by itself. One sample = one image."""

from __future__ import annotations

from collections.abc import Callable

from planner.models.assemble import architecture_of, assemble
from planner.models.encoder_stack import EncoderStack, label_count
from planner.models.fields import MAX_WIDTH, Fields
from planner.models.sample_work import sample_of
from planner.models.spec import ModelKind, ModelSpec, TensorClass, WorkCurve
from planner.models.tally import Tally
from planner.models.towers import MAX_IMAGE


def read_vit(config: Fields) -> ModelSpec:
    """ViT: one class token; a pooler only in the bare model."""
    return _image_transformer(config, tokens=1)


def read_deit(config: Fields) -> ModelSpec:
    """DeiT: a class and a distillation token; the teacher variant has two classifiers."""
    return _image_transformer(config, tokens=2, classifiers=2 if architecture_of(config).endswith("WithTeacher") else 1)


def read_dinov2(config: Fields) -> ModelSpec:
    """DINOv2: mask token, scale vectors in each layer, a classifier over class token and patch mean."""
    if config.flag("use_swiglu_ffn", default=False):
        raise config.error("use_swiglu_ffn", "is true; only DINOv2 with a plain feed-forward is counted")
    return _image_transformer(
        config,
        tokens=1,
        scales=2,
        mask_token=config.flag("use_mask_token", default=True),
        classifier_inputs=2,
        pooler=False,
    )


def _image_transformer(
    config: Fields,
    *,
    tokens: int,
    scales: int = 0,
    mask_token: bool = False,
    classifier_inputs: int = 1,
    classifiers: int = 1,
    pooler: bool = True,
) -> ModelSpec:
    h, heads = config.integer("hidden_size"), config.head_count()
    image, patch = (
        config.integer("image_size", maximum=MAX_IMAGE, default=224),
        config.integer("patch_size", maximum=MAX_IMAGE),
    )
    if patch > image:
        raise config.error("patch_size", f"is {patch}, larger than image_size = {image}")
    channels, layers = config.integer("num_channels", maximum=1000, default=3), config.layer_count()
    wide = config.integer("intermediate_size", default=0, minimum=0) or int(
        h * config.number("mlp_ratio", minimum=0.1, maximum=64)
    )
    if wide > MAX_WIDTH:
        raise config.error("mlp_ratio", f"makes a feed-forward of {wide}; it should be at most {MAX_WIDTH}")
    stack = EncoderStack(
        layers=layers,
        hidden=h,
        heads=heads,
        intermediate=wide,
        head_dim=config.divisible("hidden_size", h, "num_attention_heads", heads),
        qkv_bias=config.flag("qkv_bias", default=True),
    )
    tally, patches = Tally(), (image // patch) ** 2
    tally.linear("patch.projection", TensorClass.CONVOLUTION, channels * patch * patch, h, bias=True)
    tally.table("position_embedding", patches + tokens, h)
    tally.add("class_token", TensorClass.EMBEDDING, h, times=tokens + (1 if mask_token else 0))
    stack.add_to(tally)
    tally.add("layer_scale", TensorClass.NORM, h, times=scales * layers)
    tally.norm("norms", h, bias=True)
    once = 0.0
    if architecture_of(config).endswith(("ForImageClassification", "WithTeacher")):
        labels = label_count(config)
        tally.linear(
            "classifier.out",
            TensorClass.HEAD,
            h * classifier_inputs,
            labels,
            bias=True,
            times=classifiers,
            quantisable=False,
        )
        once = float(h * classifier_inputs * labels * classifiers)
    elif pooler:
        tally.linear("pooler.dense", TensorClass.OTHER, h, h, bias=True)
        once = float(h * h)
    embed = 2.0 * channels * patch * patch * h  # per patch; the class token has none
    flops, written = stack.flops(), stack.activations()
    curve = WorkCurve(
        what="{size}x{size} image",
        image=True,
        flops=(2.0 * once - tokens * embed, flops[1] + embed, flops[2]),
        activations=(0.0, written[1] + h, 0.0),
        patch=patch,
        extra=tokens,
    )
    return assemble(
        config,
        tally,
        kind=ModelKind.VISION,
        hidden_size=h,
        layers=layers,
        vocab_size=0,
        max_context=None,
        attention=(stack.attention(),),
        feed_forward=(stack.feed_forward(),),
        sample=sample_of(curve, image),
        default_dtype="fp32",
    )


VISION_READERS: dict[str, Callable[[Fields], ModelSpec]] = {"vit": read_vit, "deit": read_deit, "dinov2": read_dinov2}
