"""What random (Poisson) arrivals make of a layout: the most that it takes within its latency limits, and latencies at a rate.

Two kinds of queue: continuous batching (`queue_serving`) for models that generate tokens, batches that are gathered (`queue_batching`) for
those priced per sample. A rate is that of the evaluated instances together; it falls evenly and at random on their replicas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from planner.perf.model import Latencies, LatencyLimits, Percentiles, Term
from planner.perf.queue_batching import Batching, batching_latency
from planner.perf.queue_limits import lone_holds, most_rates
from planner.perf.queue_serving import OpenLatency, Queue, Replica, quantile_of, queue_at

Array = npt.NDArray[np.float64]

QUANTILES = (0.5, 0.99)
ALMOST = 1e-9  # a count that misses a whole number by less is that number
BATCHING_ROUNDS, LEAST_PART = 9, 1e-3
"""Halvings of the search for the most that a batching server takes: to 0.2 % of its capacity, and what it takes at least if it takes any."""
FEW, MOST_TRIED = 2, 8
"""Numbers of copies that are tried before that search, and after it."""
SOURCE = "methodology: latency under random arrivals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A layout under random arrivals. `latencies` is None where the queue grows without bound."""

    rate_per_s: float  # of one replica
    capacity_per_s: float  # of one replica
    latencies: Latencies | None
    waiting: float  # share of requests that wait for a slot; of samples, share of the time in which a batch runs
    terms: tuple[Term, ...]

    @property
    def utilisation(self) -> float:
        """Return the rate over the capacity."""
        return self.rate_per_s / self.capacity_per_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingArrivals:
    """Replicas of continuous batching, all alike. `replica` has no leading axis; its times are those of the model."""

    replica: Replica
    replicas: int  # of the evaluated instances
    limits: LatencyLimits
    speed: float = 1.0  # measured over modelled: all times are divided by it
    known: dict[float, float] = field(default_factory=dict)

    def faster(self, factor: float) -> ServingArrivals:
        """Return the same replicas at another speed."""
        return replace(self, speed=self.speed * factor, known={})

    def within(self, limits: LatencyLimits) -> ServingArrivals:
        """Return the same replicas under other limits."""
        return replace(self, limits=limits, known={})

    def possible(self) -> bool:
        """Return whether a lone request keeps the limits."""
        return bool(lone_holds(stacked([self.replica], [self.speed]), self.limits)[0])

    def most_per_s(self, factor: float = 1.0) -> float | None:
        """Return the largest rate of all replicas that keeps the limits at `factor` times the speed; None without limits."""
        if not self.limits.any:
            return None
        if factor not in self.known:
            cell = stacked([self.replica], [self.speed * factor])
            self.known[factor] = float(most_rates(cell, self.limits)[0])
        return self.known[factor] * self.replicas

    def copies_for(self, rate_per_s: float, *, at_least: int, factor: float = 1.0) -> int | None:
        """Return the fewest copies, `at_least` so many, that keep the limits at a rate of all of them; None where none do."""
        most = self.most_per_s(factor)
        if most is None:
            return at_least
        return None if not most > 0 else max(at_least, math.ceil(rate_per_s / most - ALMOST))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchingArrivals:
    """Servers that gather samples into batches, all alike: t(b) in seconds for b = 1 … the most in a batch."""

    batch_s: tuple[float, ...]
    max_delay_s: float
    replicas: int  # of the evaluated instances
    limits: LatencyLimits
    speed: float = 1.0

    def faster(self, factor: float) -> BatchingArrivals:
        """Return the same servers at another speed."""
        return replace(self, speed=self.speed * factor)

    def at(self, rate_per_s: float, factor: float, quantiles: Sequence[float]) -> Batching:
        """Return one server at its own rate."""
        return _batching(self.batch_s, self.speed * factor, self.max_delay_s, rate_per_s, tuple(quantiles))

    def most_per_s(self, factor: float = 1.0) -> float | None:
        """Return the largest rate of all servers that is known to keep the end-to-end limit; None without one, 0 where a lone sample breaks it."""
        limit = self.limits.e2e_ms
        if limit is None:
            return None
        if not self.possible(factor):
            return 0.0
        share = self.limits.percentile / 100
        return _most_gathered(self.batch_s, self.speed * factor, self.max_delay_s, limit, share) * self.replicas

    def copies_for(self, rate_per_s: float, *, at_least: int, factor: float = 1.0) -> int | None:
        """Return the copies, `at_least` so many, that keep the limit at a rate of all of them; None where none do.

        A few numbers are tried one after another, then what the largest rate of one asks for: the search for that takes longer. With a delay,
        latency falls and rises again with the rate, so what is found is tried too.
        """
        if self.limits.e2e_ms is None:
            return at_least
        if not self.possible(factor):
            return None
        few = next((n for n in range(at_least, at_least + FEW) if self._kept(rate_per_s / n, factor)), None)
        if few is not None:
            return few
        most = self.most_per_s(factor) or math.inf
        copies = max(at_least + FEW, math.ceil(rate_per_s / most - ALMOST))
        return next((n for n in range(copies, copies + MOST_TRIED) if self._kept(rate_per_s / n, factor)), None)

    def _kept(self, rate_per_s: float, factor: float) -> bool:
        share = (*QUANTILES, self.limits.percentile / 100)
        return self.at(rate_per_s / self.replicas, factor, share).latency_s[-1] * 1e3 <= (
            self.limits.e2e_ms or math.inf
        )

    def within(self, limits: LatencyLimits) -> BatchingArrivals:
        """Return the same servers under other limits."""
        return replace(self, limits=limits)

    def possible(self, factor: float = 1.0) -> bool:
        """Return whether a sample that comes alone keeps the limit."""
        limit = self.limits.e2e_ms
        return limit is None or (self.max_delay_s + self.batch_s[0] / (self.speed * factor)) * 1e3 <= limit


@lru_cache(maxsize=512)
def _batching(
    batch_s: tuple[float, ...], speed: float, delay_s: float, rate_per_s: float, quantiles: tuple[float, ...]
) -> Batching:
    """Return a batching server under load; many instances have the same chips."""
    return batching_latency(rate_per_s, np.asarray(batch_s) / speed, len(batch_s), delay_s, quantiles)


@lru_cache(maxsize=512)
def _most_gathered(batch_s: tuple[float, ...], speed: float, delay_s: float, limit_ms: float, share: float) -> float:
    """Return the largest rate found, by bisection, at which a share of samples is within a limit, samples/s of one server."""
    capacity = len(batch_s) / batch_s[-1] * speed
    low, high = 0.0, 1.0
    for _ in range(BATCHING_ROUNDS):
        middle = (low + high) / 2
        found = batching_latency(middle * capacity, np.asarray(batch_s) / speed, len(batch_s), delay_s, (share,))
        low, high = (middle, high) if found.latency_s[0] * 1e3 <= limit_ms else (low, middle)
    return max(low, LEAST_PART) * capacity


Arrivals = ServingArrivals | BatchingArrivals


def most_known(cases: Sequence[tuple[Arrivals, float]]) -> None:
    """Find the most within the limits of each (arrivals, factor on its speed) in one pass, so that asking for it takes no time."""
    wanted = {
        (id(a), f): (a, f) for a, f in cases if isinstance(a, ServingArrivals) and a.limits.any and f not in a.known
    }
    if not wanted:
        return
    pairs = list(wanted.values())
    rates = most_rates(stacked([a.replica for a, _ in pairs], [a.speed * f for a, f in pairs]), pairs[0][0].limits)
    for (a, f), rate in zip(pairs, rates.tolist(), strict=True):
        a.known[f] = rate


def under_load(cases: Sequence[tuple[Arrivals, float, float]]) -> list[Loaded]:
    """Return each (arrivals, rate of all its replicas, factor on its speed) under that load; continuous batching in one pass."""
    out: dict[int, Loaded] = {}
    serving = [(i, a, rate, factor) for i, (a, rate, factor) in enumerate(cases) if isinstance(a, ServingArrivals)]
    if serving:
        cells = stacked([a.replica for _, a, _, _ in serving], [a.speed * f for _, a, _, f in serving])
        queue = queue_at(cells, np.array([rate / a.replicas for _, a, rate, _ in serving]))
        at = [quantile_of(queue, q) for q in QUANTILES]
        for row, (i, a, _, _) in enumerate(serving):
            out[i] = _served(queue, at, row, int(a.replica.slots))
    for i, (server, rate, factor) in enumerate(cases):
        if isinstance(server, BatchingArrivals):
            out[i] = _gathered(server, rate / server.replicas, factor)
    return [out[i] for i in range(len(cases))]


def stacked(replicas: Sequence[Replica], speeds: Sequence[float]) -> Replica:
    """Return replicas of the same lengths along a first axis, their times divided by `speeds`; shorter grids end in their last point."""
    width = max(r.in_flight.size for r in replicas)

    def padded(rows: Sequence[Array]) -> Array:
        return np.stack([np.pad(row, (0, width - row.size), mode="edge") for row in rows])

    by = np.asarray(speeds, dtype=np.float64)[:, None]
    return Replica(
        slots=np.array([float(r.slots) for r in replicas]),
        in_flight=padded([r.in_flight for r in replicas]),
        decode_s=padded([r.decode_s for r in replicas]) / by,
        prefill_s=padded([r.prefill_s for r in replicas]) / by,
        step_tokens=np.array([float(r.step_tokens) for r in replicas]),
        input_tokens=replicas[0].input_tokens,
        output_tokens=replicas[0].output_tokens,
    )


def _served(queue: Queue, at: Sequence[OpenLatency], row: int, slots: int) -> Loaded:
    def both(name: str) -> Percentiles:
        p50, p99 = (float(getattr(each, name)[row]) * 1e3 for each in at)
        return Percentiles(p50=p50, p99=p99)

    rate, capacity = float(queue.rate_per_s[row]), float(queue.capacity_per_s[row])
    stable = bool(queue.stable[row])
    return Loaded(
        rate_per_s=rate,
        capacity_per_s=capacity,
        latencies=Latencies(ttft_ms=both("ttft"), tpot_ms=None if queue.steps < 1 else both("tpot"), e2e_ms=both("e2e"))
        if stable
        else None,
        waiting=float(queue.waiting[row]) if stable else 1.0,
        terms=tuple(_queue_terms(queue, row, slots)) if stable else (_utilisation(rate, capacity),),
    )


def _utilisation(rate: float, capacity: float) -> Term:
    return Term(
        name="queue_utilisation",
        value=rate / capacity,
        unit="fraction of a replica's capacity",
        formula=f"{rate:.6g}/s arrive at random at each replica; it serves {capacity:.6g}/s at most"
        + ("" if rate < capacity else ": the queue grows without bound"),
        source=SOURCE,
    )


def _queue_terms(queue: Queue, row: int, slots: int) -> Iterator[Term]:
    yield _utilisation(float(queue.rate_per_s[row]), float(queue.capacity_per_s[row]))
    yield Term(
        name="queue_in_flight",
        value=float(queue.in_flight[row]),
        unit="requests in a replica",
        formula=f"mean of a birth-death chain whose n requests end at the rate of a closed loop with n in flight; {slots} slots",
        source=SOURCE,
    )
    yield Term(
        name="queue_waiting",
        value=float(queue.waiting[row]),
        unit="fraction of requests",
        formula=f"chance that an arrival finds all {slots} slots taken",
        source=SOURCE,
    )
    yield Term(
        name="queue_slot_wait",
        value=float(queue.slot_wait_s[row]) * 1e3,
        unit="ms",
        formula="mean wait for a slot of those that find none free: f / (capacity - rate), f by the spread of output lengths",
        source=SOURCE,
    )


def _gathered(a: BatchingArrivals, rate: float, factor: float) -> Loaded:
    found = a.at(rate, factor, (*QUANTILES, a.limits.percentile / 100))
    terms = [_utilisation(rate, found.capacity_per_s)]
    if found.stable:
        terms += [
            Term(
                name="queue_mean_batch",
                value=found.mean_batch,
                unit="samples in a batch",
                formula=f"steady state of the batches: at most {len(a.batch_s)}, the first sample held back {a.max_delay_s * 1e3:g} ms at most",
                source="methodology: dynamic batching",
            ),
            Term(
                name="queue_busy",
                value=found.busy,
                unit="fraction of the time",
                formula="share of the time in which a batch runs",
                source="methodology: dynamic batching",
            ),
        ]
    p50, p99 = (s * 1e3 for s in found.latency_s[:2])
    return Loaded(
        rate_per_s=rate,
        capacity_per_s=found.capacity_per_s,
        latencies=Latencies(ttft_ms=None, tpot_ms=None, e2e_ms=Percentiles(p50=p50, p99=p99)) if found.stable else None,
        waiting=found.busy,
        terms=tuple(terms),
    )
