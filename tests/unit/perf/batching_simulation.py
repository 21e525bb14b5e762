"""A discrete-event simulation of a server that gathers samples into batches: the oracle for the batching model."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Batches:
    latencies: list[float]  # sorted
    mean_batch: float
    busy: float

    def quantile(self, q: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(q * len(self.latencies)))]


def simulate_batches(
    *,
    rate_per_s: float,
    batch_s: Callable[[int], float],
    max_batch: int,
    max_delay_s: float,
    samples: int,
    seed: int = 1,
) -> Batches:
    rng = random.Random(seed)
    came = 0.0
    arrivals = deque[float]()
    for _ in range(samples):
        came += rng.expovariate(rate_per_s)
        arrivals.append(came)
    free, busy, batches = 0.0, 0.0, 0
    latencies: list[float] = []
    while arrivals:
        full = arrivals[max_batch - 1] if len(arrivals) >= max_batch else float("inf")
        start = max(free, min(arrivals[0] + max_delay_s, full))
        taken = 0
        batch = []
        while arrivals and taken < max_batch and arrivals[0] <= start:
            batch.append(arrivals.popleft())
            taken += 1
        end = start + batch_s(taken)
        latencies.extend(end - a for a in batch)
        busy, free, batches = busy + end - start, end, batches + 1
    return Batches(sorted(latencies), samples / batches, busy / free)
