"""ResNet (arXiv:1512.03385) in the form of Hugging Face `resnet` configs: stages of basic or bottleneck blocks. One sample = one image.

A convolution k x k from a to b channels over n output pixels: a·b·k² numbers, 2·a·b·k²·n FLOPs, b·n activation elements. v1.5: the 3x3
convolution of a bottleneck carries the stride.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from planner.models.assemble import assemble
from planner.models.encoder_stack import label_count
from planner.models.fields import MAX_LAYERS, MAX_WIDTH, Fields
from planner.models.sample_work import sample_of
from planner.models.spec import ModelKind, ModelSpec, OperatorWork, TensorClass, WorkCurve
from planner.models.tally import Tally

DEFAULT_IMAGE = 224
REDUCTION = 4  # of a bottleneck


@dataclass(slots=True)
class _Network:
    """A tally with the work per input pixel. `scale` is the edge of the current feature map relative to the image."""

    tally: Tally = field(default_factory=Tally)
    flops_per_pixel: float = 0.0
    outputs_per_pixel: float = 0.0
    convolutions: int = 0
    others: int = 0
    elementwise_per_pixel: float = 0.0

    def convolution(self, inputs: int, outputs: int, kernel: int, scale: float) -> None:
        """Add a convolution without bias and its batch norm, with output at `scale`."""
        numbers = inputs * outputs * kernel * kernel
        self.tally.add("convolution", TensorClass.CONVOLUTION, numbers, matmul=numbers, quantisable=True)
        self.tally.norm("norms", outputs, bias=True)
        self.flops_per_pixel += 2.0 * numbers * scale * scale
        self.outputs_per_pixel += outputs * scale * scale
        self.convolutions += 1
        self.elementwise(outputs, scale)  # the norm

    def elementwise(self, channels: int, scale: float, times: int = 1) -> None:
        """Add norms, activation functions, sums or poolings with output at `scale`."""
        self.others += times
        self.elementwise_per_pixel += times * channels * scale * scale


def read_resnet(config: Fields) -> ModelSpec:
    """ResNet-18 to -152 and their kin."""
    depths, widths = (
        config.integers("depths", minimum=1, maximum=MAX_LAYERS, longest=32),
        config.integers("hidden_sizes", minimum=1, maximum=MAX_WIDTH, longest=32),
    )
    for name, value in (("depths", depths), ("hidden_sizes", widths)):
        if not value:
            raise config.error(name, "is missing; it should list one whole number for each stage, such as [3, 4, 6, 3]")
    if depths is None or widths is None or len(depths) != len(widths):
        raise config.error("hidden_sizes", "should have as many entries as depths")
    kind = config.text("layer_type", choices=("basic", "bottleneck"), default="bottleneck")
    first, channels, labels = (
        config.integer("embedding_size"),
        config.integer("num_channels", maximum=1000, default=3),
        label_count(config),
    )
    net = _Network()
    net.convolution(channels, first, 7, 1 / 2)
    net.elementwise(first, 1 / 2)
    scale, inputs = 1 / 4, first  # a max-pool halves again
    net.elementwise(first, scale)
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        stride = 2 if stage > 0 or config.flag("downsample_in_first_stage", default=False) else 1
        for block in range(depth):
            step = stride if block == 0 else 1
            _block(
                net,
                kind,
                inputs,
                width,
                scale=scale,
                step=step,
                reduce_first=config.flag("downsample_in_bottleneck", default=False),
            )
            scale, inputs = scale / step, width
    net.tally.linear("classifier.out", TensorClass.HEAD, widths[-1], labels, bias=True, quantisable=False)
    curve = WorkCurve(
        what="{size}x{size} image",
        image=True,
        flops=(2.0 * widths[-1] * labels, net.flops_per_pixel, 0.0),
        activations=(float(labels), net.outputs_per_pixel, 0.0),
        operators=OperatorWork(
            products=net.convolutions + 1,
            operators=net.convolutions + 1 + net.others + 1,  # the classifier, the mean over all pixels
            elementwise=net.elementwise_per_pixel,
        ),
    )
    return assemble(
        config,
        net.tally,
        kind=ModelKind.VISION,
        hidden_size=widths[-1],
        layers=sum(depths),
        vocab_size=0,
        max_context=None,
        sample=sample_of(curve, DEFAULT_IMAGE),
        default_dtype="fp32",
    )


def _block(net: _Network, kind: str, inputs: int, width: int, *, scale: float, step: int, reduce_first: bool) -> None:
    """Add one residual block whose output is at scale / step."""
    after = scale / step
    net.elementwise(width, after, times=2)  # the sum and what follows it
    if inputs != width or step != 1:
        net.convolution(inputs, width, 1, after)
    if kind == "basic":
        net.convolution(inputs, width, 3, after)
        net.elementwise(width, after)
        net.convolution(width, width, 3, after)
        return
    narrow = max(1, width // REDUCTION)
    net.convolution(inputs, narrow, 1, after if reduce_first else scale)
    net.elementwise(narrow, after if reduce_first else scale)
    net.convolution(narrow, narrow, 3, after)
    net.elementwise(narrow, after)
    net.convolution(narrow, width, 1, after)


CONVNET_READERS: dict[str, Callable[[Fields], ModelSpec]] = {"resnet": read_resnet}
