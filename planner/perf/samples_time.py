"""Time of one batch of a model that is priced per sample, on one device.

A batch passes through phases, each repeated: one pass for vision and encoders, a denoising step each for diffusion, the encoder
and then one step per output token for speech. Compiled (TensorRT, Neuron, XLA), b samples take

    t(b) = sum over phases of r (n_b t_l + max(F b / (peak e), (W + (2 A + C) b) / (BW e_m)))

and launched operator by operator (PyTorch) max(n_b t_l, ...) of the same, because the host runs ahead of the device. F = FLOPs of
a sample in one pass, W = weight bytes of the stacks in work, A = activation bytes that a layer writes and the next reads, C =
cached keys and values that a decoding step reads, n_b = blocks, t_l = launch time of a block, r = repeats, e and e_m = fractions
of the peaks (`tables/efficiencies_samples.csv`). Reference for the roofline: Williams, Waterman, Patterson 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.models.spec import AttentionKind, ModelKind, ModelSpec, SampleWork
from planner.perf.fractions import SAMPLES, Efficiency, parameter
from planner.perf.model import Hardware
from planner.perf.precision import Format, bits_of
from pricing.model import AcceleratorKind

Array = npt.NDArray[np.float64]

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
EAGER = "pytorch"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSample:
    """One hardware that can run the model, before the batch is chosen."""

    index: int
    hardware: Hardware
    engine: str
    format: Format
    peak_flops: float
    efficiency: Efficiency
    weight_bytes: float
    width: float  # bytes of an activation or cached number


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of the work of one sample that runs `repeats` times: FLOPs and elements of one pass."""

    repeats: int
    flops: float
    activation_elements: float
    weight_share: float = 1.0  # of all weights that the pass reads
    cache_elements: float = 0.0


def phases_of(spec: ModelSpec, sample: SampleWork) -> tuple[Phase, ...]:
    """Return the passes of one sample. Speech: the encoder once, then a decoder step for each output token."""
    if spec.kind is not ModelKind.SPEECH or sample.curve is None or sample.size is None:
        steps = sample.steps
        return (
            Phase(repeats=steps, flops=sample.flops / steps, activation_elements=sample.activation_elements / steps),
        )
    tokens = sample.size
    flops, written = sample.curve.flops, sample.curve.activations
    encoder = sum(g.parameters for g in spec.tensors if g.tower == "encoder") / spec.parameters_total
    return (
        Phase(repeats=1, flops=flops[0], activation_elements=written[0], weight_share=encoder),
        Phase(
            repeats=tokens,
            flops=flops[1] + flops[2] * tokens,
            activation_elements=written[1] + written[2] * tokens,
            weight_share=1 - encoder,
            cache_elements=cache_elements(spec, tokens / 2),
        ),
    )


def cache_elements(spec: ModelSpec, earlier_tokens: float) -> float:
    """Return the cached numbers that one decoding step reads: all encoder positions, and the tokens before it."""
    positions = float(spec.encoder_positions or 0)
    return sum(
        a.count * a.cache_elements_per_token * (positions if a.kind is AttentionKind.CROSS else earlier_tokens)
        for a in spec.attention
    )


def activation_width(form: Format) -> float:
    """Return bytes per activation: those of the arithmetic."""
    return {"fp32": 4.0, "tf32": 4.0, "int8": 1.0, "fp8": 1.0}.get(form.compute, 2.0)


def weight_bytes(spec: ModelSpec, form: Format) -> float:
    """Return the bytes of all weights as the format stores them."""
    return sum(g.parameters * bits_of(g.stored_bits, quantisable=g.quantisable, form=form) / 8 for g in spec.tensors)


def batch_seconds(spec: ModelSpec, sample: SampleWork, items: Sequence[PreparedSample]) -> Array:
    """Return seconds per batch, one row per hardware, one column per batch size.

    Neuron compilers keep activations in on-chip memory (24 MiB a core), so they do not cross the memory bus there. Decoding
    reads memory in small pieces: its share of the bandwidth is the efficiency of speech itself.
    """

    def column(values: list[float]) -> Array:
        return np.array(values, dtype=np.float64)[:, None]

    batch = np.array(BATCHES, dtype=np.float64)[None, :]
    share = column(
        [i.efficiency.value if spec.kind is ModelKind.SPEECH else parameter(SAMPLES, "bandwidth_share") for i in items]
    )
    bandwidth = column([(i.hardware.memory_bandwidth_gb_s or np.inf) * 1e9 for i in items]) * share
    arithmetic = column([i.peak_flops * i.efficiency.value for i in items])
    weights = column([i.weight_bytes for i in items])
    width = column([i.width for i in items])
    off_chip = column([0.0 if i.hardware.kind is AcceleratorKind.NEURON else 1.0 for i in items])
    eager = column([float(i.engine == EAGER) for i in items]) > 0
    launch_s = max(1, spec.layers) * np.where(
        eager, parameter(SAMPLES, "eager_launch_s"), parameter(SAMPLES, "compiled_launch_s")
    )
    total = np.zeros((len(items), len(BATCHES)))
    for phase in phases_of(spec, sample):
        moved = width * (2 * off_chip * phase.activation_elements + phase.cache_elements)
        device_s = np.maximum(
            phase.flops * batch / arithmetic, (phase.weight_share * weights + moved * batch) / bandwidth
        )
        total += phase.repeats * np.where(eager, np.maximum(launch_s, device_s), launch_s + device_s)
    return total
