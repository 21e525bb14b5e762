"""The largest rate of random arrivals at which a replica keeps latency limits: bisection over the chance of keeping them.

At a rate λ a limit holds when its latency is kept by the asked share of requests, P(latency <= limit) >= q. Waits grow with λ, so what
holds is an interval from 0. Bisection in √(λ / capacity), whose steps are finer where little is carried; the end that holds is returned.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from planner.perf.model import LatencyLimits
from planner.perf.queue_serving import Queue, Replica, e2e_chance, queue_of, service_of, tpot_chance, ttft_chance

Array = npt.NDArray[np.float64]

FINE_ROUNDS = 18
"""Halvings for a figure that is answered: √(λ / capacity) to 4e-6."""
COARSE_ROUNDS = 9
"""Halvings where layouts are compared: √(λ / capacity) to 0.2 %."""
LEAST = 1e-9
"""Share of the capacity that stands for a lone request now and then."""
FULLEST = 1 - 1e-6
"""Share of the capacity beyond which waits are as good as endless."""


def holds(queue: Queue, limits: LatencyLimits) -> npt.NDArray[np.bool_]:
    """Return where a queue keeps every limit for the asked share of requests."""
    share = limits.percentile / 100
    ok = queue.stable.copy()
    if limits.ttft_ms is not None:
        ok &= ttft_chance(queue, np.asarray(limits.ttft_ms / 1e3)) >= share
    if limits.tpot_ms is not None and queue.steps >= 1:
        limit = limits.tpot_ms / 1e3
        ok &= np.where(queue.tpot_ceiling_s <= limit, 1.0, tpot_chance(queue, np.asarray(limit))) >= share
    if limits.e2e_ms is not None:
        limit = limits.e2e_ms / 1e3
        ok &= ttft_chance(queue, limit - queue.steps * queue.tpot_floor_s) >= share  # no request ends sooner than that
        ok &= e2e_chance(queue, np.asarray(limit)) >= share
    return ok


def lone_holds(replicas: Replica, limits: LatencyLimits) -> npt.NDArray[np.bool_]:
    """Return where a request that comes now and then, alone, keeps the limits."""
    service = service_of(replicas)
    return holds(queue_of(service, service.capacity * LEAST), limits)


def most_rates(replicas: Replica, limits: LatencyLimits, *, rounds: int = FINE_ROUNDS) -> Array:
    """Return the largest rate of each replica that keeps the limits, requests/s; 0 where even a lone request breaks them.

    `replicas` have one leading axis. Those with about as many slots go together, since each takes as long as it has slots.
    """
    slots = np.asarray(replicas.slots, dtype=np.float64)
    out = np.zeros(slots.shape)
    bands = np.ceil(np.log2(np.maximum(slots, 1.0)))
    for band in np.unique(bands):
        rows = np.flatnonzero(bands == band)
        out[rows] = _most(_rows(replicas, rows), limits, rounds)
    return out


def _rows(r: Replica, rows: npt.NDArray[np.intp]) -> Replica:
    return replace(
        r,
        slots=r.slots[rows],
        in_flight=r.in_flight[rows],
        decode_s=r.decode_s[rows],
        prefill_s=r.prefill_s[rows],
        step_tokens=r.step_tokens[rows],
    )


def _most(replica: Replica, limits: LatencyLimits, rounds: int) -> Array:
    service = service_of(replica)
    low, high = np.zeros_like(service.capacity), np.ones_like(service.capacity)
    possible = holds(queue_of(service, service.capacity * LEAST), limits)
    for _ in range(rounds if possible.any() else 0):
        middle = (low + high) / 2
        kept = holds(queue_of(service, service.capacity * middle**2 * FULLEST), limits)
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return np.where(possible, service.capacity * np.maximum(low**2 * FULLEST, LEAST), 0.0)
