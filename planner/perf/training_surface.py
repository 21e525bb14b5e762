"""Memory, time and rate of every training layout of many instance types and counts at once (NumPy).

One optimizer step of a data-parallel job takes

    t_step = A x max(t_compute, t_launch) + t_exposed + t_optimizer

A = accumulation steps; t_compute = executed FLOPs over peak x efficiency (plus activation traffic over bandwidth for models not
counted in tokens); t_launch = host time to launch the kernels; t_exposed = collective time that does not hide under the
computation; t_optimizer = traffic of the optimizer states. All arrays have the axes (hardware, instance count, sharding,
checkpointing, micro-batch).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelKind, ModelSpec
from planner.perf.fractions import TRAINING, Efficiency, parameter
from planner.perf.memory import ENGINE_SHARE, GIB
from planner.perf.model import Hardware, TrainingWork
from planner.perf.training_memory import (
    SHARDING,
    ActivationBytes,
    StateBytes,
    activation_bytes,
    activations_kept,
    runtime_reserve_gib,
    shares,
    state_bytes,
)
from planner.perf.training_network import (
    expert_seconds,
    link_bytes_per_s,
    network_bytes_per_s,
    seconds_per_byte,
    step_traffic,
)
from planner.perf.training_work import SampleFlops, counted_in_tokens, dense_share, dequantised_bytes, routed_elements

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

CHECKPOINTING = ("none", "full")
MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
STEP_TOKENS = {"full": 2**19, "lora": 2**17, "qlora": 2**17}
"""Tokens per optimizer step when no global batch is given: 0.5 M (GPT-3's smaller models), 131 k for adapters."""
OVERLAP = 0.7
"""Share of the computation that collectives can hide under."""
EXPOSED_AT_LEAST = 0.1
"""Share of each collective that never hides (first and last bucket)."""
LAUNCH_S_PER_BLOCK = 0.3e-3
"""Host time to launch one block's forward and backward kernels: about 60 kernels of 5 us."""
IMAGES_PER_S_PER_VCPU = 100.0
"""Images decoded and augmented per second and vCPU (JPEG, random crop, flip, on the CPU)."""
OPTIMIZER_BANDWIDTH_SHARE = 0.8
DEQUANTISATION_SHARE = 0.7
"""Share of the bandwidth that NF4 dequantisation reaches: about 0.85 in torchtune (Llama-3.2-3B, A100: 8,035 against 8,210 tokens/s
with LoRA at 8,192 tokens a micro-batch), lower in eager kernels (litgpt on A10G, Qwen README)."""
TRAINING_PASSES = 6
"""Times one activation crosses the memory bus: written and read in the forward pass, twice that in the backward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One hardware that can train the model, before instance count and layout."""

    index: int
    hardware: Hardware
    engine: str
    precision: str
    peak_flops: float  # FLOP/s of one device
    efficiency: Efficiency
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """Arrays over (hardware, instance count, sharding, checkpointing, micro-batch)."""

    state: StateBytes
    kept: ActivationBytes
    required_bytes: Array
    fits: Mask
    allowed: Mask
    accumulation: Array
    compute_s: Array  # of one optimizer step
    exposed_s: Array
    optimizer_s: Array
    step_s: Array
    experts_inside: Mask  # experts are dealt out inside each instance, not over all
    free_per_s: Array  # samples/s if the input pipeline kept up
    loader_bound: Mask
    samples_per_s: Array


def step_samples(spec: ModelSpec, work: TrainingWork) -> float | None:
    """Return the samples of one optimizer step; None where one micro-batch per device is as good as any (vision)."""
    if work.global_batch is not None:
        return float(work.global_batch)
    if counted_in_tokens(spec):
        return float(max(1, STEP_TOKENS[work.method] // work.sequence_length))
    return None


def compute_surface(
    spec: ModelSpec, items: Sequence[Prepared], work: TrainingWork, counts: Sequence[int], flops: SampleFlops
) -> Surface:
    """Return memory, time and rate of every layout; `items` share one width of number (16- or 32-bit)."""
    precision = items[0].precision
    width = 4.0 if precision in {"fp32", "tf32"} else 2.0

    def column(values: list[float]) -> Array:
        return np.array(values, dtype=np.float64).reshape(-1, 1, 1, 1, 1)

    def by_sharding(values: list[Array]) -> Array:
        return np.concatenate(values, axis=2)

    devices = column([float(i.hardware.devices) for i in items])
    bandwidth = column([(i.hardware.memory_bandwidth_gb_s or np.inf) * 1e9 for i in items])
    visible = column([i.hardware.memory_visible_gib for i in items])
    runtime_reserve = column([runtime_reserve_gib(i.hardware.memory_visible_gib) * GIB for i in items])
    network = column([network_bytes_per_s(i.hardware) or np.nan for i in items])
    instances = np.array(counts, dtype=np.float64).reshape(1, -1, 1, 1, 1)
    micro = np.array(MICRO_BATCHES, dtype=np.float64).reshape(1, 1, 1, 1, -1)
    recompute = np.array([0.0, 1.0]).reshape(1, 1, 1, -1, 1)
    ranks = devices * instances

    state = state_bytes(spec, work, precision)
    kept = activation_bytes(spec, work, precision)
    state_memory, optimizer_bytes = [], []
    per_step, per_micro = [], []
    for sharding in SHARDING:
        w, g, o = shares(sharding, ranks)
        gathered = state.gathered + state.gathered_experts / devices if sharding == "zero3" else 0.0 * devices
        working = np.where(ranks > 1, np.maximum(state.working, gathered), state.working)
        state_memory.append(state.weights * w + state.gradients * g + state.optimizer * o + working)
        optimizer_bytes.append((2 * state.optimizer + state.gradients + width * state.trainable) * o)
        moved = step_traffic(sharding, state.gradients, state.weights, dense_share(spec))
        per_step.append(moved.per_step + 0 * ranks)
        per_micro.append(moved.per_micro_batch + 0 * ranks)

    activations = np.where(recompute > 0, activations_kept(kept, "full"), activations_kept(kept, "none")) + kept.logits
    required = by_sharding(state_memory) + micro * activations + runtime_reserve

    wanted = step_samples(spec, work)
    accumulation = np.ones_like(ranks * micro) if wanted is None else np.ceil(wanted / (micro * ranks))
    accumulation = np.maximum(1.0, accumulation)
    samples_in_step = micro * ranks * accumulation
    if work.global_batch is not None:
        samples_in_step = np.minimum(samples_in_step, float(work.global_batch))

    rate = column([i.peak_flops * i.efficiency.value for i in items])
    executed = flops.model_flops + recompute * flops.forward
    if counted_in_tokens(spec):
        tokens = micro * flops.tokens
        ramp = tokens / (tokens + parameter(TRAINING, "half_rate_tokens"))
        micro_s = micro * executed / (rate * ramp)
    elif items[0].efficiency.workload == "convolution":
        # Both at full speed, one after the other, over one efficiency: convolutions wait for memory as much as for arithmetic.
        traffic = TRAINING_PASSES * kept.written * (1 + recompute / 3)
        micro_s = micro * (executed / rate + traffic / (bandwidth * column([i.efficiency.value for i in items])))
    else:
        micro_s = micro * executed / rate
    if work.method == "qlora":  # every pass widens the base again: forward, backward, recomputed forward
        micro_s = micro_s + (2 + recompute) * dequantised_bytes(spec) / (bandwidth * DEQUANTISATION_SHARE)
    launch_s = LAUNCH_S_PER_BLOCK * max(1, spec.layers) * (1 + recompute / 3)
    compute_s = accumulation * np.maximum(micro_s, launch_s)

    link = column([link_bytes_per_s(i.hardware) for i in items])
    cost = seconds_per_byte(devices, instances, link, network)
    expert_s: Array = np.zeros_like(ranks)
    experts_inside = np.zeros_like(ranks, dtype=np.bool_)
    if spec.experts and counted_in_tokens(spec):
        # Tokens go to their experts and back: forward, backward, recomputed forward.
        exchanged = (2 + recompute) * micro * flops.tokens * routed_elements(spec) * width
        expert_bytes = (2 * state.weights + state.gradients) * (1 - dense_share(spec))
        everywhere, inside = expert_seconds(
            exchanged, expert_bytes, devices=devices, instances=instances, link=link, network=network
        )
        experts_inside = inside < everywhere
        sharded = np.array([float(sharding == "zero3") for sharding in SHARDING]).reshape(1, 1, -1, 1, 1)
        expert_s = sharded * np.minimum(everywhere, inside)
    hidden_micro = OVERLAP * np.maximum(micro_s, launch_s)
    exposed_s = exposed(by_sharding(per_step) * cost, hidden_micro) + accumulation * exposed(
        by_sharding(per_micro) * cost + expert_s, hidden_micro
    )
    optimizer_s = by_sharding(optimizer_bytes) / (bandwidth * OPTIMIZER_BANDWIDTH_SHARE)
    step_s = compute_s + exposed_s + optimizer_s
    free_rate = samples_in_step / step_s

    loader = np.full_like(devices, np.inf)
    if spec.kind is ModelKind.VISION:
        loader = column([i.hardware.vcpus * IMAGES_PER_S_PER_VCPU if i.hardware.vcpus else np.inf for i in items])
    loader = loader * instances

    single = ranks <= 1
    allowed = np.broadcast_to(np.isfinite(free_rate), required.shape).copy()
    allowed &= ~(single & (np.arange(len(SHARDING)).reshape(1, 1, -1, 1, 1) > 0))
    if work.checkpointing is not None:
        allowed &= np.array([name == work.checkpointing for name in CHECKPOINTING]).reshape(1, 1, 1, -1, 1)
    if work.global_batch is not None:
        allowed &= micro * ranks <= work.global_batch
    shape = required.shape
    return Surface(
        state=state,
        kept=kept,
        required_bytes=required,
        fits=required <= visible * GIB * ENGINE_SHARE,
        allowed=allowed,
        accumulation=np.broadcast_to(accumulation, shape),
        compute_s=np.broadcast_to(compute_s, shape),
        exposed_s=np.broadcast_to(exposed_s, shape),
        optimizer_s=np.broadcast_to(optimizer_s, shape),
        step_s=np.broadcast_to(step_s, shape),
        experts_inside=np.broadcast_to(experts_inside, shape),
        free_per_s=np.broadcast_to(free_rate, shape),
        loader_bound=np.broadcast_to(free_rate > loader, shape),
        samples_per_s=np.broadcast_to(np.minimum(free_rate, loader), shape),
    )


def exposed(collective_s: Array, hidden_s: Array) -> Array:
    """Return the part of a collective that adds to the step, s."""
    return np.maximum(collective_s - hidden_s, EXPOSED_AT_LEAST * collective_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Figures of the chosen layout of each hardware and instance count, as nested lists (hardware, count)."""

    index: list[list[int]]  # flat (sharding, checkpointing, micro-batch); -1 where nothing fits
    accumulation: list[list[float]]
    compute_s: list[list[float]]
    exposed_s: list[list[float]]
    optimizer_s: list[list[float]]
    step_s: list[list[float]]
    loader_bound: list[list[bool]]
    experts_inside: list[list[bool]]
    samples_per_s: list[list[float]]


def choose(surface: Surface, enough: float = 0.995) -> Chosen:
    """Return the layout to use everywhere.

    The fastest wins; within half a percent of it the first in the order no sharding, no checkpointing, small micro-batch.
    """
    rate = np.where(surface.fits & surface.allowed, surface.free_per_s, 0.0)
    flat = rate.reshape(*rate.shape[:2], -1)
    best = flat.max(axis=-1, keepdims=True)
    first = np.argmax((flat >= enough * best) & (flat > 0), axis=-1)[..., None]

    def at(values: npt.NDArray[Any]) -> list[list[Any]]:
        chosen: list[list[Any]] = np.take_along_axis(values.reshape(flat.shape), first, axis=-1)[..., 0].tolist()
        return chosen

    return Chosen(
        index=np.where(best > 0, first, -1)[..., 0].tolist(),
        accumulation=at(surface.accumulation),
        compute_s=at(surface.compute_s),
        exposed_s=at(surface.exposed_s),
        optimizer_s=at(surface.optimizer_s),
        step_s=at(surface.step_s),
        loader_bound=at(surface.loader_bound),
        experts_inside=at(surface.experts_inside),
        samples_per_s=at(surface.samples_per_s),
    )
