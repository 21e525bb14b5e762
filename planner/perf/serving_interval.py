"""How far the rate of an operating point may be off: the spread of the fitted parameters carried through the roofline.

sd² = Σ over slots of (∂ log rate / ∂ slot)²·variance(slot) + noise² (+ 0.26² where groups share experts); p10 and p90 are multiples of sd that
held for left-out sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from planner.perf import llm
from planner.perf.intervals import KNOWN_SOURCE, NEW_SOURCE, bounds, novelty_of
from planner.perf.model import InferenceWork
from planner.perf.operating_point import Point
from planner.perf.parameters import Link, Parameters
from planner.perf.serving_parameters import Keys, by_level, points_and_variances
from planner.perf.serving_rates import machine, peaks_from, peaks_of
from planner.perf.spans import networked

Array = npt.NDArray[np.float64]

GROUPS_SD = 0.26
"""Added (as a variance) to the spread of log(measured / predicted) where groups share experts: the root mean square by which the
105 rows of models with experts that mention attention data parallelism (without its degree) are off in `tables/evidence_serving.csv`."""
DIFFERENCE = 1e-3
"""Step in link space of the differences."""


@lru_cache(maxsize=4096)
def moved_values(keys: Keys, parameters: Parameters) -> tuple[Array, Array]:
    """Return the values of the slots for some keys [1 + slot, slot], as they are and with one slot after the other moved; and variances."""
    at, variance = points_and_variances(keys, parameters)
    slots = len(parameters.slots)
    moved = np.repeat(at[None, :], slots + 1, axis=0)
    moved[np.arange(1, slots + 1), np.arange(slots)] += DIFFERENCE
    shares = [s.link is Link.FRACTION for s in parameters.slots]
    return np.where(shares, Link.FRACTION.reach(moved), Link.LOG.reach(moved)), variance


def factors_of(points: Sequence[Point], work: InferenceWork) -> list[tuple[float, float]]:
    """Return (p10, p90) of measured / predicted requests/s at operating points, all in one pass."""
    if not points:
        return []
    parameters, keys = points[0].candidate.parameters, [p.candidate.keys for p in points]
    found = [moved_values(k, parameters) for k in keys]
    values, variance = np.stack([f[0] for f in found]), np.stack([f[1] for f in found])
    peaks = np.array([peaks_of(p.candidate.hardware, p.candidate.form) for p in points])[:, None, :]
    m = networked(machine(values, peaks_from(peaks)), [p.candidate for p in points])
    shape = llm.columns([p.shape for p in points])
    concurrency = np.array([[float(p.concurrency)] for p in points])
    step = np.array([[float(p.step_tokens)] for p in points])
    each = np.array([[p.speculation.tokens_each] for p in points])
    faster = np.array([[p.speculation.factor] for p in points])
    stepped = llm.decode_step(shape, m, concurrency, each)
    decode, own = stepped.total * faster, stepped.classes if (each == 1).all() else None
    beside = np.where(np.array([[float(p.prefill.shared)] for p in points]) > 0, concurrency, 0.0)
    prefill = llm.prefill_of(
        shape, m, float(work.input_tokens), step * np.ones_like(decode), beside=beside, decoding=own
    ).total
    rate = np.log(llm.steady_requests_per_s(concurrency, work.output_tokens, decode, prefill))
    slope = (rate[:, 1:] - rate[:, :1]) / DIFFERENCE
    apart = np.array([GROUPS_SD if p.candidate.split.groups > 1 else 0.0 for p in points])
    sd = np.sqrt(np.sum(slope**2 * variance, axis=1) + parameters.noise_sd**2 + apart**2)
    least = KNOWN_SOURCE if parameters.own else NEW_SOURCE
    novelty = [least if n == KNOWN_SOURCE else n for n in novelty_of(parameters, by_level(keys), len(points))]
    one = np.ones(len(points))
    ends = [bounds(parameters, one, sd, classes) for classes in (novelty, [least] * len(points))]
    # What is new in more than its source gets at least the multiples of a new source.
    low, high = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
    return list(zip(low.tolist(), high.tolist(), strict=True))
