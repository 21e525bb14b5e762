"""Work of one sample of a model as passes, and what batches of it ask of devices: `Loads` for `samples_time`.

Operators of ResNet, ConvNeXt and Swin are counted by their readers. Elsewhere by kind of network (products, all operators): a transformer layer 7 and 20, a block of a residual network 3.4 and 11, a
level of a diffusion UNet 110 and 420; medians over the networks of `planner/calibration/sample_models.csv`, as are the shares below.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from planner.models.sample_work import polynomial
from planner.models.spec import AttentionKind, ModelKind, ModelSpec, SampleWork
from planner.perf.model import Hardware
from planner.perf.precision import Format, bits_of
from planner.perf.samples_time import Loads
from pricing.model import AcceleratorKind

Array = npt.NDArray[np.float64]

TRANSFORMER_SHARES = (0.84, 0.77)
"""Results of products, and of element-wise operators, over what layers write as `SampleWork` counts it (norms included)."""
CONVOLUTION_SHARES = (1.0, 2.4)
EAGER = "pytorch"
NEURON_CORES = {"NeuronCore-v1 x4": 4, "NeuronCore-v2 x2": 2}
"""Cores of a chip by its architecture; each runs a replica of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One phase of the work of a sample: figures of one repetition, elements and not bytes."""

    repeats: float
    flops: float
    grouped_flops: float = 0.0
    matrix_elements: float
    elementwise_elements: float
    cache_elements: float = 0.0
    weights: float  # parameters that the pass reads
    products: float  # matrix products and convolutions
    operators: float  # all operators that a framework launches one by one


FAMILY_WORDS = (
    ("efficientnet", ("efficientnet",)),
    ("mobilenet", ("mobilenet", "mnasnet", "ghostnet", "fbnet", "lcnet", "tinynet")),
    ("regnet", ("regnet",)),
    ("resnet", ("resnet", "resnext", "wide_resnet", "seresnet")),
    ("vit", ("mobilevit", "maxvit", "levit", "vit", "deit", "beit", "eva", "cait", "clip", "siglip", "dino")),
)


def passes_of(spec: ModelSpec) -> tuple[Pass, ...]:
    """Return the passes of one sample of a config's model. Speech: the encoder once, then a decoder step for each output token."""
    sample = spec.sample
    if sample is None:
        raise ValueError(f"{spec.name} is not priced per sample")
    transformer = bool(spec.attention)
    matrix_share, elementwise_share = TRANSFORMER_SHARES if transformer else CONVOLUTION_SHARES
    layers = max(1, spec.layers)
    products, operators = (7.0 * layers + 2, 20.0 * layers) if transformer else (3.4 * layers, 11.0 * layers)
    if spec.kind is ModelKind.DIFFUSION:
        products, operators = 110.0 * layers, 420.0 * layers
    curve = sample.curve
    if curve is not None and curve.operators is not None and sample.size is not None:
        counted, units = curve.operators, curve.units(sample.size)
        return (
            Pass(
                repeats=1,
                flops=sample.flops - counted.grouped_flops * units,
                grouped_flops=counted.grouped_flops * units,
                matrix_elements=sample.activation_elements,
                elementwise_elements=counted.elementwise * units,
                weights=float(spec.parameters_total),
                products=float(counted.products),
                operators=float(counted.operators),
            ),
        )
    if spec.kind is not ModelKind.SPEECH or curve is None or sample.size is None:
        steps = sample.steps * (curve.passes_per_step if curve is not None else 1)
        written = sample.activation_elements / steps
        return (
            Pass(
                repeats=steps,
                flops=sample.flops / steps,
                matrix_elements=matrix_share * written,
                elementwise_elements=elementwise_share * written,
                weights=float(spec.parameters_total),
                products=products,
                operators=operators,
            ),
        )
    tokens = sample.size
    encoder = sum(g.parameters for g in spec.tensors if g.tower == "encoder")
    step_written = curve.activations[1] + curve.activations[2] * tokens
    return (
        Pass(
            repeats=1,
            flops=curve.flops[0],
            matrix_elements=matrix_share * curve.activations[0],
            elementwise_elements=elementwise_share * curve.activations[0],
            weights=float(encoder),
            products=products,
            operators=operators,
        ),
        Pass(
            repeats=tokens,
            flops=curve.flops[1] + curve.flops[2] * tokens,
            matrix_elements=matrix_share * step_written,
            elementwise_elements=elementwise_share * step_written,
            cache_elements=cache_elements(spec, tokens / 2),
            weights=float(spec.parameters_total - encoder),
            products=1.5 * products,
            operators=1.5 * operators,
        ),
    )


def most_written(spec: ModelSpec) -> float:
    """Return the elements that all layers of the largest pass write."""
    share = TRANSFORMER_SHARES[0] if spec.attention else CONVOLUTION_SHARES[0]
    return max(p.matrix_elements for p in passes_of(spec)) / share


def written_at(spec: ModelSpec, sample: SampleWork, size: int) -> float:
    """Return the elements that all layers of the largest pass write at another size of a sample."""
    curve = sample.curve
    if curve is None:
        return most_written(spec)
    if spec.kind is ModelKind.SPEECH:
        return max(curve.activations[0], curve.activations[1] + curve.activations[2] * size)
    return polynomial(curve.activations, curve.units(size))


def cache_elements(spec: ModelSpec, earlier_tokens: float) -> float:
    """Return the cached numbers that one decoding step reads: all encoder positions, and the tokens before it."""
    positions = float(spec.encoder_positions or 0)
    return sum(
        a.count * a.cache_elements_per_token * (positions if a.kind is AttentionKind.CROSS else earlier_tokens)
        for a in spec.attention
    )


def family_of(spec: ModelSpec) -> str:
    """Return the family of a config's model."""
    if spec.kind is ModelKind.ENCODER:
        return "encoder"
    if spec.kind is ModelKind.VISION:
        return family_of_name(spec.name) if family_of_name(spec.name) != "other" else spec.model_type
    return spec.kind.value


def family_of_name(name: str) -> str:
    """Return the family that a name's words say, "other" where none does."""
    plain = name.lower().removeprefix("timm/").replace("-", "_")
    return next((family for family, words in FAMILY_WORDS if any(word in plain for word in words)), "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSample:
    """One hardware that can run the model, before the batch is chosen."""

    index: int
    hardware: Hardware
    engine: str
    format: Format
    peak_flops: float
    weight_bytes: float
    width: float  # bytes of an activation or cached number

    @property
    def cores(self) -> int:
        """Return the replicas that one device runs side by side."""
        return NEURON_CORES.get(self.hardware.architecture, 1)


@lru_cache(maxsize=1)
def _caches() -> dict[str, float]:
    text = files("planner.perf.tables").joinpath("caches.csv").read_text(encoding="utf-8")
    return {row["accelerator"]: 1e6 * float(row["cache_mb"]) for row in csv.DictReader(text.splitlines())}


def cache_bytes(accelerator: str) -> float:
    """Return the bytes of a chip's last-level cache; 0 where it has none or none is known."""
    return _caches().get(accelerator, 0.0)


def activation_width(form: Format) -> float:
    """Return bytes per activation: those of the arithmetic."""
    return {"fp32": 4.0, "tf32": 4.0, "int8": 1.0, "fp8": 1.0}.get(form.compute, 2.0)


def weight_bytes(spec: ModelSpec, form: Format) -> float:
    """Return the bytes of all weights as the format stores them."""
    return sum(g.parameters * bits_of(g.stored_bits, quantisable=g.quantisable, form=form) / 8 for g in spec.tensors)


def loads_of(spec: ModelSpec, items: Sequence[PreparedSample]) -> Loads:
    """Return what one sample asks of one core of each hardware.

    Neuron compilers keep activations in on-chip memory (24 MiB a core), so they do not cross the memory bus there.
    """
    passes = passes_of(spec)

    def column(values: list[float]) -> Array:
        return np.array(values, dtype=np.float64)

    def phases(name: str) -> Array:
        return np.tile(np.array([getattr(p, name) for p in passes], dtype=np.float64), (len(items), 1))

    eager = column([float(i.engine == EAGER) for i in items])
    stored = column([i.weight_bytes / spec.parameters_total for i in items])
    return Loads(
        repeats=phases("repeats"),
        flops=phases("flops"),
        grouped_flops=phases("grouped_flops"),
        matrix_elements=phases("matrix_elements"),
        elementwise_elements=phases("elementwise_elements"),
        cache_elements=phases("cache_elements"),
        weight_bytes=phases("weights") * stored[:, None],
        products=phases("products"),
        operators=phases("operators") * eager[:, None],
        width_bytes=column([i.width for i in items]),
        peak_flops=column([i.peak_flops / i.cores for i in items]),
        bandwidth=column([(i.hardware.memory_bandwidth_gb_s or np.inf) * 1e9 / i.cores for i in items]),
        cache_bytes=column([cache_bytes(i.hardware.accelerator) * i.hardware.fraction for i in items]),
        off_chip=column([0.0 if i.hardware.kind is AcceleratorKind.NEURON else 1.0 for i in items]),
    )
