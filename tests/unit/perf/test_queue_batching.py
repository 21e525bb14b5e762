"""Dynamic batching against a discrete-event simulation, by textbook queues and by what must hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from batching_simulation import simulate_batches

from planner.perf.queue_batching import batching_latency

Q = (0.5, 0.99)


def linear(base: float, each: float, most: int) -> list[float]:
    return [base + each * b for b in range(1, most + 1)]


def test_the_simulation_agrees() -> None:
    errors = []
    for number, (base, each, most, delay) in enumerate(
        [(0.005, 5e-4, 8, 0.0), (0.005, 5e-4, 16, 0.002), (0.02, 1e-4, 32, 0.01), (0.002, 0.002, 4, 0.01)]
    ):
        times = linear(base, each, most)
        for load in (0.1, 0.5, 0.8, 0.9):
            rate = load * most / times[-1]
            seen = simulate_batches(
                rate_per_s=rate, batch_s=[0.0, *times].__getitem__, max_batch=most, max_delay_s=delay, samples=40_000, seed=number
            )  # fmt: skip
            found = batching_latency(rate, times, most, delay, Q)
            errors.append(
                (
                    abs(found.latency_s[0] / seen.quantile(0.5) - 1),
                    abs(found.latency_s[1] / seen.quantile(0.99) - 1),
                    abs(found.mean_batch / seen.mean_batch - 1),
                    abs(found.busy / seen.busy - 1),
                )
            )
    assert (np.median(errors, axis=0) <= [0.03, 0.05, 0.01, 0.01]).all()
    assert (np.max(errors, axis=0) <= [0.20, 0.25, 0.06, 0.05]).all()


def test_one_at_a_time_is_the_textbook_queue() -> None:
    # M/D/1 with 10 ms at half load: mean 10 + 0.5 x 10 / (2 x 0.5) = 15 ms (Pollaczek-Khinchine); half of the requests wait for nothing
    found = batching_latency(50.0, [0.010], 1, 0.0, (0.49,))
    assert found.mean_latency_s == pytest.approx(0.015, rel=0.02)
    assert found.latency_s[0] == pytest.approx(0.010)
    assert [found.mean_batch, found.busy] == pytest.approx([1.0, 0.5])


def test_a_seldom_sample_waits_out_the_delay_alone() -> None:
    # one sample: 5 ms of delay, then a batch of one in 2 ms
    found = batching_latency(1e-3, linear(0.001, 0.001, 8), 8, 0.005, Q)
    assert list(found.latency_s) == pytest.approx([0.007, 0.007], rel=1e-3)
    assert found.mean_batch == pytest.approx(1.0, rel=1e-3)


def test_more_than_can_be_served_has_no_latency() -> None:
    found = batching_latency(8 / 0.009, linear(0.001, 0.001, 8), 8, 0.005, Q)  # 8 in 9 ms are all it can do
    assert not found.stable
    assert list(found.latency_s) == [math.inf, math.inf]
    assert found.capacity_per_s == pytest.approx(8 / 0.009)


def test_p99_is_not_below_p50_and_more_load_fills_batches() -> None:
    times = linear(0.005, 0.0005, 16)
    found = [batching_latency(u * 16 / times[-1], times, 16, 0.004, Q) for u in (0.05, 0.3, 0.6, 0.9)]
    assert all(f.latency_s[0] <= f.latency_s[1] for f in found)
    assert all(a.mean_batch < b.mean_batch and a.busy < b.busy for a, b in itertools.pairwise(found))


@pytest.mark.parametrize(("rate", "most", "delay"), [(0.0, 1, 0.0), (1.0, 2, 0.0), (1.0, 1, -0.1)])
def test_what_means_nothing_is_refused(rate: float, most: int, delay: float) -> None:
    with pytest.raises(ValueError, match="positive rate"):
        batching_latency(rate, [0.01], most, delay, Q)


def test_near_saturation_waits_are_those_of_the_textbook() -> None:
    # M/D/1 with 10 ms at 99 %: 10 + 0.99 x 10 / (2 x 0.01) = 505 ms on average (Pollaczek-Khinchine); its wait is all but exponential, so
    # 99 of 100 stay within 10 + 495 x ln 100 = 2,290 ms
    found = batching_latency(99.0, [0.010], 1, 0.0, (0.99,))
    assert found.mean_latency_s == pytest.approx(0.505, rel=0.03)
    assert found.latency_s[0] == pytest.approx(2.290, rel=0.04)
    # and nothing jumps where the chain hands over
    below, above = (batching_latency(load * 100, [0.010], 1, 0.0, Q).latency_s for load in (0.9699, 0.9701))
    assert above == pytest.approx(below, rel=0.03)
