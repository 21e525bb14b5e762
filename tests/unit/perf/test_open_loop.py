"""Layouts under random arrivals against simulations at the served rate: latencies of an answer, and the number of copies that keeps a limit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from arrivals_simulation import Seen, quantile, simulate_arrivals
from batching_simulation import simulate_batches
from hypothesis import given
from hypothesis import strategies as st
from queue_cases import SHAPES, capacity_per_s, replica
from serving_cases import bad, good, instance, machine, model, requests
from training_cases import RESNET_50

from planner.perf.arrivals import BatchingArrivals, ServingArrivals, stacked
from planner.perf.carried import faster, sped_up
from planner.perf.model import Evaluation, LatencyLimits, RejectionReason
from planner.perf.queue_limits import most_rates
from planner.perf.queue_serving import Replica, quantile_of, queue_at
from planner.recommend.arrivals import latency_ends, under_load
from planner.recommend.sizing import Load, groups_for

LENGTHS = {"input_tokens": 1000, "output_tokens": 200}


def load(rate: float) -> Load:
    return Load(requests_per_s=rate, utilisation=1.0, **LENGTHS)


def chosen(**more) -> Evaluation:
    return good(model("llama-3.1-8b"), instance("g6e.xlarge"), open_loop=True, **LENGTHS, **more)


def loaded(evaluation: Evaluation, rate: float) -> Evaluation:
    (found,) = under_load([evaluation], load(rate))
    assert isinstance(found, Evaluation)
    return found


def simulated(r: Replica, rate: float, *, count: int = 12000) -> Seen:
    """Simulate a replica with its decode steps, and prompts as they take with what is then in flight."""
    flying = float(queue_at(r, np.asarray(rate)).in_flight)
    return simulate_arrivals(
        rate_per_s=rate,
        slots=int(r.slots),
        input_tokens=int(r.input_tokens),
        output_tokens=int(r.output_tokens),
        step_tokens=int(r.step_tokens),
        decode_s=lambda n: float(np.interp(n, r.in_flight, r.decode_s)),
        prefill_s=float(np.interp(flying, r.in_flight, r.prefill_s)),
        requests=count,
        seed=11,
    )


def queue_replica(evaluation: Evaluation) -> Replica:
    assert isinstance(evaluation.arrivals, ServingArrivals)
    return evaluation.arrivals.replica


@pytest.mark.parametrize("part", [0.3, 0.85])
def test_the_latencies_of_an_answer_are_those_of_a_simulation(part: float) -> None:
    one = chosen()
    rate = requests(one) * part
    p = loaded(one, rate).performance
    seen = simulated(queue_replica(one), rate)
    for name in ("ttft", "tpot", "e2e"):
        told = getattr(p, f"{name}_ms")
        values = getattr(seen, name)
        assert told.p50 == pytest.approx(quantile(values, 0.5) * 1e3, rel=0.12), name
        assert told.p99 == pytest.approx(quantile(values, 0.99) * 1e3, rel=0.25), name
    assert p.under_load is not None
    assert p.under_load.requests_per_s == rate
    in_flight = next(t.value for t in p.terms if t.name == "queue_in_flight")
    assert in_flight == pytest.approx(seen.in_flight, rel=0.06)


def test_the_replica_begins_with_a_lone_request_and_ends_with_its_slots() -> None:
    one = chosen(max_concurrency=50)
    r = queue_replica(one)
    assert (float(r.slots), r.in_flight[0], r.in_flight[-1]) == (50, 1, 50)
    assert (np.diff(r.in_flight) >= 0).all()
    # a closed loop of one request: its prompt alone, then steps of one
    lone = good(model("llama-3.1-8b"), instance("g6e.xlarge"), max_concurrency=1, **LENGTHS).performance
    assert lone.ttft_ms is not None
    assert lone.tpot_ms is not None
    assert float(r.prefill_s[0]) * 1e3 == pytest.approx(lone.ttft_ms.p50, rel=0.02)
    assert float(r.decode_s[0]) * 1e3 == pytest.approx(lone.tpot_ms.p50, rel=0.02)


@pytest.mark.parametrize(
    "limits",
    [LatencyLimits(ttft_ms=400.0), LatencyLimits(tpot_ms=40.0, ttft_ms=2000.0), LatencyLimits(e2e_ms=7000.0, percentile=90)],
)  # fmt: skip
def test_the_copies_keep_the_limits_in_a_simulation_and_one_fewer_nearly_not(limits: LatencyLimits) -> None:
    one = chosen(limits=limits)
    assert one.arrivals is not None
    most = one.arrivals.most_per_s()
    assert most is not None
    rate = min(most, requests(one)) * 2.05
    copies = groups_for(load(rate), one)
    assert copies == 3

    def over(number: int) -> float:
        """Return the largest of simulated latency over limit with so many copies."""
        seen = simulated(queue_replica(one), rate / number, count=20000)
        at = {"ttft_ms": seen.ttft, "tpot_ms": seen.tpot, "e2e_ms": seen.e2e}
        return max(
            quantile(values, limits.percentile / 100) * 1e3 / getattr(limits, name)
            for name, values in at.items()
            if getattr(limits, name) is not None
        )

    assert over(3) <= 1.05
    assert over(2) >= 0.85
    assert over(1) > 1.5  # far from what it can serve


def test_a_limit_that_a_lone_request_breaks_is_refused() -> None:
    r = queue_replica(chosen())
    alone_ms = float(r.prefill_s[0]) * 1e3
    why = bad(model("llama-3.1-8b"), instance("g6e.xlarge"), open_loop=True, limits=LatencyLimits(ttft_ms=alone_ms * 0.5), **LENGTHS)  # fmt: skip
    assert why.reason is RejectionReason.SLO_INFEASIBLE
    little = chosen(limits=LatencyLimits(ttft_ms=alone_ms * 1.5))
    assert little.arrivals is not None
    assert 0 < (little.arrivals.most_per_s() or 0) < requests(chosen())


def test_a_limit_on_tpot_takes_fewer_slots() -> None:
    free = chosen()
    tight = chosen(limits=LatencyLimits(tpot_ms=30.0, ttft_ms=1000.0))
    assert (tight.layout.max_concurrency or 0) < (free.layout.max_concurrency or 0)


def test_measured_speed_is_that_of_all_times() -> None:
    one = chosen(limits=LatencyLimits(ttft_ms=400.0, e2e_ms=20000.0))
    twice = replace(one, performance=faster(one.performance, 2.0), arrivals=sped_up(one.arrivals, 2.0))
    assert one.arrivals is not None
    assert twice.arrivals is not None
    # twice the speed under the same limits = twice the rate under limits twice as long
    long = one.arrivals.within(LatencyLimits(ttft_ms=800.0, e2e_ms=40000.0)).most_per_s()
    assert long is not None
    assert twice.arrivals.most_per_s() == pytest.approx(2 * long, rel=1e-3)
    a, b = loaded(one, 2.0).performance, loaded(twice, 4.0).performance
    assert a.ttft_ms is not None
    assert b.ttft_ms is not None
    assert b.ttft_ms.p99 == pytest.approx(a.ttft_ms.p99 / 2, rel=1e-4)
    low, high = latency_ends(loaded(one, 2.0))
    assert low is not None
    assert low.ttft_ms is not None
    assert high is None or (high.ttft_ms is not None and high.ttft_ms.p99 > a.ttft_ms.p99)
    assert low.ttft_ms.p99 < a.ttft_ms.p99


def test_a_closed_loop_has_no_arrivals() -> None:
    one = good(model("llama-3.1-8b"), instance("g6e.xlarge"), **LENGTHS)
    assert one.arrivals is None
    assert under_load([one], load(1.0)) == [one]


@given(
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from([1, 8, 64]),
    st.floats(1.02, 30),
    st.sampled_from([50, 90, 99]),
)
def test_the_most_keeps_the_limit_and_a_little_more_does_not(shape: str, slots: int, slack: float, percentile: int) -> None:  # fmt: skip
    one = replica(SHAPES[shape], slots)
    limit = float(one.prefill_s[0]) * slack
    cell = stacked([one], [1.0])
    most = float(most_rates(cell, LatencyLimits(ttft_ms=limit * 1e3, percentile=percentile))[0])
    capacity = capacity_per_s(SHAPES[shape], slots)
    assert 0 < most < capacity
    at = quantile_of(queue_at(one, np.asarray(most)), percentile / 100)
    assert float(at.ttft) <= limit * 1.01  # the search for a quantile is that exact
    if most < capacity * 0.99:
        beyond = quantile_of(queue_at(one, np.asarray(most * 1.01)), percentile / 100)
        assert float(beyond.ttft) > limit * 0.99
    looser = float(most_rates(cell, LatencyLimits(ttft_ms=limit * 1.5e3, percentile=percentile))[0])
    assert looser >= most


def md1_p99(service_s: float, load_part: float) -> float:
    """Return the p99 of waiting and service in M/D/1, s: Erlang 1909, P(W <= t) = (1 - u) sum_k (u (k - t/D))^k / k! e^(-u (k - t/D))."""

    def waited(t: float) -> float:
        x = t / service_s
        return (1 - load_part) * sum(
            (load_part * (k - x)) ** k / math.factorial(k) * math.exp(-load_part * (k - x))
            for k in range(math.floor(x) + 1)
        )

    low, high = 0.0, 20 * service_s
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if waited(middle) >= 0.99 else (middle, high)
    return high + service_s


def test_one_sample_at_a_time_is_the_textbook_queue() -> None:
    one = good(RESNET_50, machine("T4"), open_loop=True, max_batch=1)
    service = 1 / requests(one)
    rate = 0.4 / service
    p = loaded(one, rate).performance
    assert one.layout.batch == 1
    assert p.e2e_ms is not None
    assert p.e2e_ms.p50 == pytest.approx(service * 1e3, rel=1e-3)  # 6 of 10 find the server idle
    assert p.e2e_ms.p99 == pytest.approx(md1_p99(service, 0.4) * 1e3, rel=0.06)


def test_a_batching_answer_is_that_of_a_simulation_and_its_copies_keep_the_limit() -> None:
    limits = LatencyLimits(e2e_ms=40.0)
    one = good(RESNET_50, machine("T4"), open_loop=True, max_batch=32, max_queue_delay_ms=4.0, limits=limits)  # fmt: skip
    assert isinstance(one.arrivals, BatchingArrivals)
    times = [0.0, *one.arrivals.batch_s]
    rate = requests(one) * 2.6  # 87 % of three copies: beyond, 60,000 samples say little of p99
    copies = groups_for(load(rate), one)
    assert copies is not None
    assert copies >= 3

    def seen(number: int) -> float:
        run = simulate_batches(
            rate_per_s=rate / number, batch_s=times.__getitem__, max_batch=32, max_delay_s=0.004, samples=60_000, seed=3
        )
        return run.quantile(0.99) * 1e3

    assert seen(copies) <= 40.0 * 1.05
    assert copies == 3 or seen(copies - 1) >= 40.0 * 0.9
    p = under_load([one], load(rate), copies=copies)[0].performance  # type: ignore[union-attr]
    assert p.e2e_ms is not None
    assert p.e2e_ms.p99 == pytest.approx(seen(copies), rel=0.1)


def test_a_limit_below_the_delay_is_refused() -> None:
    why = bad(RESNET_50, machine("T4"), open_loop=True, max_batch=8, max_queue_delay_ms=50.0, limits=LatencyLimits(e2e_ms=40.0))  # fmt: skip
    assert why.reason is RejectionReason.SLO_INFEASIBLE
