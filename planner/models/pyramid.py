"""Image classifiers whose feature map shrinks stage by stage: ConvNeXt (arXiv:2201.03545) and Swin (arXiv:2103.14030). One sample = one image.

Work is linear in the pixels: Swin's attention stays inside windows of `window_size` x `window_size` patches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from planner.models.assemble import assemble
from planner.models.encoder_stack import label_count
from planner.models.fields import MAX_HEADS, MAX_LAYERS, MAX_WIDTH, Fields
from planner.models.sample_work import sample_of
from planner.models.spec import ModelKind, ModelSpec, OperatorWork, TensorClass, WorkCurve
from planner.models.tally import Tally
from planner.models.towers import MAX_IMAGE

MAX_STAGES = 16
WINDOW_OPERATORS, WINDOW_WIDTHS = 18.5, 21.6
"""What a Swin block launches besides its products, and how many times its width that writes: norms, softmax, GELU, sums, copies into
windows and back; every other block shifts. Counted in timm 1.0.31."""


@dataclass(slots=True)
class _Pyramid:
    """A tally with work per patch of the first stage; `share` is the current map's share of those patches."""

    tally: Tally = field(default_factory=Tally)
    share: float = 1.0
    flops: float = 0.0
    outputs: float = 0.0
    products: int = 0
    others: float = 0.0
    elementwise: float = 0.0
    grouped_flops: float = 0.0

    def written(self, width: int, *, times: int = 1) -> None:
        """Count operators that are no products: norms, activation functions, factors, sums."""
        self.others += times
        self.elementwise += times * width * self.share

    def norm(self, width: int, *, times: int = 1) -> None:
        """Add layer norms over every position."""
        self.tally.norm("norms", width, times=times, bias=True)
        self.written(width, times=times)

    def matrix(
        self, name: str, kind: TensorClass, inputs: int, outputs: int, *, bias: bool = True, quantisable: bool = True
    ) -> None:
        """Add a matrix (or a convolution as wide as its patch) applied to every position."""
        self.tally.linear(name, kind, inputs, outputs, bias=bias, quantisable=quantisable)
        self.flops += 2.0 * inputs * outputs * self.share
        self.outputs += outputs * self.share
        self.products += 1

    def depthwise(self, width: int, kernel: int) -> None:
        """Add a convolution of each channel by itself."""
        self.tally.linear("convolution.depthwise", TensorClass.CONVOLUTION, kernel * kernel, width, bias=True)
        flops = 2.0 * kernel * kernel * width * self.share
        self.flops += flops
        self.grouped_flops += flops
        self.outputs += width * self.share
        self.products += 1


def _spec(config: Fields, net: _Pyramid, *, width: int, depths: tuple[int, ...], patch: int) -> ModelSpec:
    labels = label_count(config)
    net.tally.norm("norms", width, bias=True)
    net.tally.linear("classifier.out", TensorClass.HEAD, width, labels, bias=True, quantisable=False)
    curve = WorkCurve(
        what="{size}x{size} image",
        image=True,
        flops=(2.0 * width * labels, net.flops, 0.0),
        activations=(float(labels), net.outputs, 0.0),
        patch=patch,
        operators=OperatorWork(
            products=net.products + 1,
            operators=round(net.products + 1 + net.others + 2),  # the classifier; its norm, the mean over all positions
            elementwise=net.elementwise,
            grouped_flops=net.grouped_flops,
        ),
    )
    return assemble(
        config,
        net.tally,
        kind=ModelKind.VISION,
        hidden_size=width,
        layers=sum(depths),
        vocab_size=0,
        max_context=None,
        sample=sample_of(curve, config.integer("image_size", maximum=MAX_IMAGE, default=224)),
        default_dtype="fp32",
    )


def _stages(config: Fields) -> tuple[int, ...]:
    depths = config.integers("depths", minimum=1, maximum=MAX_LAYERS, longest=MAX_STAGES)
    if not depths:
        raise config.error("depths", "is missing; it should list the blocks of each stage, such as [3, 3, 9, 3]")
    return depths


def read_convnext(config: Fields) -> ModelSpec:
    """ConvNeXt: 7x7 depthwise convolutions and a feed-forward of four times the width."""
    depths = _stages(config)
    widths = config.integers("hidden_sizes", minimum=1, maximum=MAX_WIDTH, longest=MAX_STAGES)
    if widths is None or len(widths) != len(depths):
        raise config.error("hidden_sizes", "should have as many entries as depths")
    channels, patch = (
        config.integer("num_channels", maximum=1000, default=3),
        config.integer("patch_size", maximum=MAX_IMAGE, default=4),
    )
    scaled = config.number("layer_scale_init_value", minimum=0, maximum=1, default=1e-6) > 0
    net = _Pyramid()
    net.matrix("convolution.patch", TensorClass.CONVOLUTION, channels * patch * patch, widths[0])
    net.norm(widths[0])
    before = widths[0]
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if stage:
            net.norm(before)
            net.share /= 4
            net.matrix("convolution.reduce", TensorClass.CONVOLUTION, 4 * before, width)
        for _ in range(depth):
            net.depthwise(width, 7)
            net.norm(width)
            net.matrix("mlp.up", TensorClass.MLP, width, 4 * width)
            net.written(4 * width)  # GELU
            net.matrix("mlp.down", TensorClass.MLP, 4 * width, width)
            net.tally.add("layer_scale", TensorClass.NORM, width if scaled else 0)
            net.written(width, times=2 if scaled else 1)  # the scale and the sum
        before = width
    return _spec(config, net, width=before, depths=depths, patch=patch)


def read_swin(config: Fields) -> ModelSpec:
    """Swin: attention inside windows with a table of relative positions; the width doubles from stage to stage."""
    depths = _stages(config)
    heads = config.integers("num_heads", minimum=1, maximum=MAX_HEADS, longest=MAX_STAGES)
    if heads is None or len(heads) != len(depths):
        raise config.error("num_heads", "should have as many entries as depths")
    width, patch = (
        config.integer("embed_dim", maximum=MAX_WIDTH // 2 ** len(depths)),
        config.integer("patch_size", maximum=MAX_IMAGE, default=4),
    )
    image, window = (
        config.integer("image_size", maximum=MAX_IMAGE, default=224),
        config.integer("window_size", maximum=1000, default=7),
    )
    ratio, bias = (
        config.number("mlp_ratio", minimum=0.1, maximum=64, default=4.0),
        config.flag("qkv_bias", default=True),
    )
    net = _Pyramid()
    net.matrix(
        "convolution.patch",
        TensorClass.CONVOLUTION,
        config.integer("num_channels", maximum=1000, default=3) * patch * patch,
        width,
    )
    net.norm(width)
    if config.flag("use_absolute_embeddings", default=False):
        net.tally.table("position_embedding", (image // patch) ** 2, width)
    for stage, (depth, count) in enumerate(zip(depths, heads, strict=True)):
        if stage:
            net.share /= 4
            net.norm(4 * width)
            net.matrix("convolution.reduce", TensorClass.CONVOLUTION, 4 * width, 2 * width, bias=False)
            width *= 2
        for _ in range(depth):
            _window_block(net, width, heads=count, window=window, wide=int(ratio * width), bias=bias)
    return _spec(config, net, width=width, depths=depths, patch=patch)


def _window_block(net: _Pyramid, width: int, *, heads: int, window: int, wide: int, bias: bool) -> None:
    """Add one block: windowed attention and a feed-forward, each with a norm."""
    for name in ("attention.q", "attention.k", "attention.v"):
        net.matrix(name, TensorClass.ATTENTION, width, width, bias=bias)
    net.matrix("attention.o", TensorClass.ATTENTION, width, width)
    net.tally.add("relative_positions", TensorClass.EMBEDDING, (2 * window - 1) ** 2 * heads)
    net.flops += 4.0 * width * window * window * net.share
    net.outputs += width * net.share
    net.matrix("mlp.up", TensorClass.MLP, width, wide)
    net.matrix("mlp.down", TensorClass.MLP, wide, width)
    net.tally.norm("norms", width, times=2, bias=True)
    # Of products there are six: q, k and v are one, scores and their use two.
    net.others += WINDOW_OPERATORS
    net.elementwise += WINDOW_WIDTHS * width * net.share


PYRAMID_READERS: dict[str, Callable[[Fields], ModelSpec]] = {"convnext": read_convnext, "swin": read_swin}
