"""Replicas under Poisson arrivals, simulated and modelled: the cases that the tests and the benchmark of the open loop share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from arrivals_simulation import Seen, quantile, simulate_arrivals, weighted_quantile

from planner.perf.queue_serving import Queue, Replica, quantile_of, queue_at

QUANTILES = (0.5, 0.99)


@dataclass(frozen=True)
class Shape:
    """Request lengths, prompt tokens of a step, and step times in seconds: base + each x requests, prompt."""

    input_tokens: int
    output_tokens: int
    step_tokens: int
    base_s: float
    each_s: float
    prompt_s: float


SHAPES = {
    "chat": Shape(500, 200, 2048, 0.010, 5e-5, 0.020),
    "even": Shape(1000, 1000, 2048, 0.012, 6e-5, 0.040),
    "retrieval": Shape(4000, 200, 2048, 0.010, 1e-4, 0.200),
    "summary": Shape(8000, 100, 2048, 0.015, 2e-4, 0.500),
    "label": Shape(128, 64, 8192, 0.008, 3e-5, 0.004),
    "story": Shape(200, 2000, 2048, 0.020, 1e-4, 0.010),
}


def replica(shape: Shape, slots: int) -> Replica:
    grid = np.array([1.0, max(2.0, float(slots))])
    return Replica(
        slots=np.asarray(float(slots)),
        in_flight=grid,
        decode_s=shape.base_s + shape.each_s * grid,
        prefill_s=np.full(2, shape.prompt_s),
        step_tokens=np.asarray(float(shape.step_tokens)),
        input_tokens=float(shape.input_tokens),
        output_tokens=float(shape.output_tokens),
    )


def capacity_per_s(shape: Shape, slots: int) -> float:
    return float(queue_at(replica(shape, slots), np.asarray(1e-9)).capacity_per_s)


def simulated(shape: Shape, slots: int, rate_per_s: float, *, requests: int, seed: int) -> Seen:
    return simulate_arrivals(
        rate_per_s=rate_per_s,
        slots=slots,
        input_tokens=shape.input_tokens,
        output_tokens=shape.output_tokens,
        step_tokens=shape.step_tokens,
        decode_s=lambda n: shape.base_s + shape.each_s * n,
        prefill_s=shape.prompt_s,
        requests=requests,
        seed=seed,
    )


def figures_seen(seen: Seen) -> dict[str, float]:
    """Return "ttft p50" and so on of a simulation, and the mean in flight."""
    out = {"in flight": seen.in_flight}
    for q in QUANTILES:
        percent = f"p{q * 100:g}"
        out |= {f"{name} {percent}": quantile(getattr(seen, name), q) for name in ("ttft", "tpot", "e2e")}
        if seen.itl:
            out[f"itl {percent}"] = weighted_quantile(seen.itl, q)
    return out


def figures_modelled(queue: Queue) -> dict[str, float]:
    """Return the same of the model."""
    out = {"in flight": float(queue.in_flight)}
    for q in QUANTILES:
        at = quantile_of(queue, q)
        out |= {f"{name} p{q * 100:g}": float(getattr(at, name)) for name in ("ttft", "tpot", "e2e", "itl")}
    return out


def ratios(shape: Shape, slots: int, load: float, *, requests: int, seed: int) -> dict[str, float]:
    """Return modelled over simulated figures at a share `load` of the capacity."""
    rate = load * capacity_per_s(shape, slots)
    seen = figures_seen(simulated(shape, slots, rate, requests=requests, seed=seed))
    modelled = figures_modelled(queue_at(replica(shape, slots), np.asarray(rate)))
    return {name: modelled[name] / value for name, value in seen.items()}
