"""Memory of models priced per sample on one device: lines, and the most that would fit.

    bytes = cores · (W + w · (a · A_max + K) · b) + reserve + companions

W = weight bytes of one replica (a NeuronCore each, else the device), w = bytes of a number, A_max = numbers that all layers of the largest
pass write, a = share of them that lives at once, K = cached keys and values of a sample (speech), b = samples of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from planner.models.sample_work import MAX_SIZE
from planner.models.spec import ModelKind, ModelSpec, SampleWork
from planner.perf.memory import ENGINE_SHARE, GIB
from planner.perf.model import Infeasible, MemoryFit, MemoryLine, RejectionReason
from planner.perf.samples_loads import PreparedSample, cache_elements, most_written, written_at

Array = npt.NDArray[np.float64]

LIVE_ACTIVATION_SHARE = 0.15
"""Share of all activations of a sample that live at once: a layer's input and output, and what skips around it."""
RESERVE_GIB = 0.75
"""Driver context, library kernels and workspaces of one process."""
COMPANION_BYTES = 2
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def held_elements(spec: ModelSpec, sample: SampleWork) -> tuple[float, float]:
    """Return activations that live at once and cached keys and values of one sample, in elements."""
    cached = cache_elements(spec, sample.size or 0) if spec.kind is ModelKind.SPEECH else 0.0
    return LIVE_ACTIVATION_SHARE * most_written(spec), cached


def usable_bytes(item: PreparedSample) -> float:
    """Return the bytes of a device that may be filled."""
    return item.hardware.memory_visible_gib * GIB * ENGINE_SHARE


def fixed_bytes(spec: ModelSpec, item: PreparedSample) -> float:
    """Return the bytes of a device before any sample."""
    return item.cores * item.weight_bytes + RESERVE_GIB * GIB + COMPANION_BYTES * spec.companion_parameters


def required_bytes(spec: ModelSpec, sample: SampleWork, items: Sequence[PreparedSample], batches: Array) -> Array:
    """Return bytes per device of batches [hardware, batches], in the same shape."""
    per_sample = np.array([i.cores * i.width for i in items])[:, None] * sum(held_elements(spec, sample))
    fixed = np.array([fixed_bytes(spec, i) for i in items])[:, None]
    return np.asarray(fixed + per_sample * batches)


def batches_of(spec: ModelSpec, sample: SampleWork, items: Sequence[PreparedSample], most: int | None) -> Array:
    """Return the batches to choose from, ascending, one row per hardware: powers of two, and the largest that `most` and memory permit.

    `most` is a cap, not a size: what lies above it is left out, and what memory does not hold is never worth more than what it does.
    """
    powers = [b for b in BATCHES if most is None or b < most]
    rows = np.tile(np.array(powers, dtype=np.float64), (len(items), 1))
    if most is None:
        return rows
    held = np.array([elements_free(spec, i) for i in items]) / sum(held_elements(spec, sample))
    held = np.clip(np.floor(held), 1, most)
    return np.sort(np.hstack([rows, held[:, None]]), axis=1)


def elements_free(spec: ModelSpec, item: PreparedSample) -> float:
    """Return the numbers that one replica has room for beside its weights."""
    return (usable_bytes(item) - fixed_bytes(spec, item)) / (item.cores * item.width)


def memory_fit(spec: ModelSpec, sample: SampleWork, item: PreparedSample, batch: int) -> MemoryFit:
    """Return the memory of one device as lines, and the largest batch and sample that it would hold."""
    live, cached = held_elements(spec, sample)
    each = f" on each of {item.cores} cores" if item.cores > 1 else ""
    lines = [
        MemoryLine(name="weights", gib=item.cores * item.weight_bytes / GIB, note=item.format.weights + each),
        MemoryLine(
            name="activations",
            gib=item.cores * item.width * live * batch / GIB,
            note=f"batch {batch}{each}, {LIVE_ACTIVATION_SHARE:.0%} of them live at once",
        ),
        MemoryLine(name="runtime_reserve", gib=RESERVE_GIB),
    ]
    if spec.companion_parameters:
        gib = COMPANION_BYTES * spec.companion_parameters / GIB
        lines.insert(1, MemoryLine(name="companions", gib=gib, note="text encoders and image decoder, 16-bit"))
    if cached:
        lines.insert(
            1,
            MemoryLine(
                name="kv_cache", gib=item.cores * item.width * cached * batch / GIB, note=f"batch {batch}{each}"
            ),
        )
    room = elements_free(spec, item)
    return MemoryFit(
        lines=tuple(lines),
        available_gib_per_accelerator=item.hardware.memory_visible_gib * ENGINE_SHARE,
        max_batch_at_size=int(room / (live + cached)) if room > 0 else None,
        max_size=largest_size(spec, sample, room / batch),
        max_size_of_one=largest_size(spec, sample, room),
    )


def largest_size(spec: ModelSpec, sample: SampleWork, room: float) -> int | None:
    """Return the largest size of a sample (tokens, pixels along the edge, output tokens) that holds at most `room` elements.

    At most what the model's position tables and the size of a request allow, a whole number of patches; None where nothing fits, or the
    size cannot be chosen.
    """
    curve = sample.curve
    if curve is None or sample.size is None:
        return None
    step = curve.patch if curve.image else 1

    def held(steps: int) -> float:
        size = steps * step
        cached = cache_elements(spec, size) if spec.kind is ModelKind.SPEECH else 0.0
        return LIVE_ACTIVATION_SHARE * written_at(spec, sample, size) + cached

    steps = most(lambda n: held(n) <= room, (curve.largest or MAX_SIZE) // step)
    return steps * step or None


def most(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest whole number up to a limit that fits, 0 where none does; what fits at n fits below it."""
    if fits(limit):
        return limit
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def out_of_memory(spec: ModelSpec, sample: SampleWork, item: PreparedSample) -> Infeasible:
    """Return the refusal of a device that does not hold one sample."""
    fit = memory_fit(spec, sample, item, 1)
    need, have = fit.required_gib_per_accelerator, fit.available_gib_per_accelerator
    return Infeasible(
        reason=RejectionReason.OUT_OF_MEMORY,
        detail=f"{spec.name} needs {need:.1f} GiB for a batch of one; {have:.1f} GiB usable",
        figures={
            "accelerator": item.hardware.accelerator,
            "required_gib_per_accelerator": need,
            "available_gib_per_accelerator": have,
        },
    )
