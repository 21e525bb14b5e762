"""Open-loop latencies against a discrete-event simulation, by hand and by what must hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_cases import SHAPES, capacity_per_s, ratios, replica

from planner.perf.queue_serving import Replica, gamma_cdf, normal_cdf, quantile_of, queue_at

LOADS = (0.1, 0.5, 0.8, 0.9)


@pytest.fixture(scope="module")
def errors() -> dict[str, list[float]]:
    """Return |model / simulation - 1| of every figure over shapes, slots and loads up to 90 % of capacity."""
    out: dict[str, list[float]] = {}
    for number, (shape, slots) in enumerate(
        [("chat", 1), ("chat", 16), ("chat", 128), ("even", 64), ("retrieval", 16), ("retrieval", 64), ("label", 32)]
    ):
        for load in LOADS:
            requests = 12000 if load < 0.9 else 40000
            found = ratios(SHAPES[shape], slots, load, requests=requests, seed=number * 100 + int(load * 10))
            for name, ratio in found.items():
                out.setdefault(name, []).append(abs(ratio - 1))
    return out


@pytest.mark.parametrize(
    ("figure", "median", "most"),
    [
        ("in flight", 0.02, 0.10),
        ("ttft p50", 0.05, 0.20),
        ("ttft p99", 0.10, 0.30),
        ("tpot p50", 0.02, 0.20),
        ("tpot p99", 0.03, 0.25),
        ("e2e p50", 0.03, 0.15),
        ("e2e p99", 0.06, 0.20),
        ("itl p50", 0.02, 0.10),
        ("itl p99", 0.03, 0.10),
    ],
)
def test_the_simulation_agrees(errors: dict[str, list[float]], figure: str, median: float, most: float) -> None:
    assert np.median(errors[figure]) <= median
    assert np.quantile(errors[figure], 0.9) <= most


def test_one_slot_is_the_textbook_queue() -> None:
    # One slot, equal lengths: M/D/1 with D = 0.020 + 199 x 0.01005 = 2.01995 s. At half its capacity half of the requests find it busy, and
    # these wait D / (2 (1 - u)) = D on average (Pollaczek-Khinchine over the chance of waiting).
    one = replica(SHAPES["chat"], 1)
    service = 0.020 + 199 * 0.01005
    queue = queue_at(one, np.asarray(0.5 / service), length_variation=0.0)
    assert float(queue.capacity_per_s) == pytest.approx(1 / service)
    assert float(queue.waiting) == pytest.approx(0.5)
    assert float(queue.slot_wait_s) == pytest.approx(service)
    assert float(quantile_of(queue, 0.4).ttft) == pytest.approx(0.020)
    # exponential lengths: M/M/1, whose wait is exponential with D / (1 - u)
    wild = queue_at(one, np.asarray(0.5 / service), length_variation=1.0)
    assert float(wild.slot_wait_s) == pytest.approx(2 * service)


def test_erlangs_formula_where_steps_take_as_long_whatever_they_carry() -> None:
    # Steps of 10 ms whatever is in flight and prompts of no work: M/G/B. Erlang's C for 4 slots at a load of 2.8 erlang is 0.4287.
    offered, slots = 2.8, 4
    terms = [offered**k / math.factorial(k) for k in range(slots)]
    last = offered**slots / math.factorial(slots) * slots / (slots - offered)
    flat = Replica(
        slots=np.asarray(4.0),
        in_flight=np.array([1.0, 4.0]),
        decode_s=np.array([0.01, 0.01]),
        prefill_s=np.array([1e-12, 1e-12]),
        step_tokens=np.asarray(1e12),
        input_tokens=1.0,
        output_tokens=1e6,
    )
    queue = queue_at(flat, np.asarray(offered / (1e6 * 0.01)))
    assert last / (sum(terms) + last) == pytest.approx(0.4287, abs=1e-4)
    assert float(queue.waiting) == pytest.approx(0.4287, abs=1e-3)
    assert float(queue.in_flight) == pytest.approx(offered, rel=1e-4)  # Little: what is offered is in a slot


def test_a_seldom_request_is_alone() -> None:
    # 500 tokens in 20 ms, then 199 steps of 10.05 ms: 2.01995 s
    queue = queue_at(replica(SHAPES["chat"], 64), np.asarray(1e-7))
    for q in (0.5, 0.99):
        at = quantile_of(queue, q)
        assert float(at.ttft) == pytest.approx(0.020, rel=1e-3)
        assert float(at.tpot) == pytest.approx(0.01005, rel=1e-3)
        assert float(at.e2e) == pytest.approx(2.01995, rel=1e-3)


def test_more_than_can_be_served_has_no_latency() -> None:
    most = capacity_per_s(SHAPES["even"], 64)
    queue = queue_at(replica(SHAPES["even"], 64), np.array([most * 0.99, most, most * 2]))
    assert queue.stable.tolist() == [True, False, False]
    assert np.isinf(quantile_of(queue, 0.5).ttft).tolist() == [False, True, True]
    assert np.isinf(quantile_of(queue, 0.5).e2e).tolist() == [False, True, True]


def test_prompts_that_fill_every_step_bound_the_capacity() -> None:
    # 8,000 tokens are 3.90625 steps of 2,048: from O / 3.90625 = 25 in flight on, every step carries 2,048 prompt tokens and a request ends
    # each 3.90625 steps, whatever the slots: 100 slots serve no more than 25.
    assert capacity_per_s(SHAPES["summary"], 100) == pytest.approx(capacity_per_s(SHAPES["summary"], 25))


def test_distributions_by_tables() -> None:
    # Φ(1.96) = 0.9750021, Φ(-1) = 0.1586553; chi-squared with 4 degrees (shape 2, scale 2): 9.488 is its 95th percentile, 13.277 its 99th
    assert normal_cdf(np.array([1.96, -1.0])) == pytest.approx([0.9750021, 0.1586553], abs=2e-7)
    assert gamma_cdf(np.array([9.488, 13.277]), np.asarray(4.0), np.asarray(8.0)) == pytest.approx(
        [0.95, 0.99], abs=1e-3
    )


@given(
    isl=st.integers(1, 20000),
    osl=st.integers(1, 3000),
    slots=st.integers(1, 300),
    base=st.floats(1e-3, 0.1),
    each=st.floats(0, 1e-3),
    prompt=st.floats(1e-4, 2.0),
)
def test_what_must_hold(*, isl: int, osl: int, slots: int, base: float, each: float, prompt: float) -> None:
    """p99 is not below p50, nothing is faster than alone, and latency grows with the rate."""
    grid = np.array([1.0, 400.0])
    one = Replica(
        slots=np.asarray(float(slots)),
        in_flight=grid,
        decode_s=base + each * grid,
        prefill_s=np.full(2, prompt),
        step_tokens=np.asarray(2048.0),
        input_tokens=float(isl),
        output_tokens=float(osl),
    )
    capacity = float(queue_at(one, np.asarray(1e-12)).capacity_per_s)
    queue = queue_at(one, capacity * np.array([1e-4, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98]))
    p50, p99 = quantile_of(queue, 0.5), quantile_of(queue, 0.99)
    alone = prompt + (osl - 1) * (base + each)
    assert (p50.ttft >= prompt * (1 - 1e-9)).all()
    assert (p50.e2e >= alone * (1 - 1e-9)).all()
    names = ("ttft", "e2e") if osl == 1 else ("ttft", "tpot", "itl", "e2e")
    for name in names:
        low, high = getattr(p50, name), getattr(p99, name)
        assert (high >= low * (1 - 1e-9)).all()
    for at in (p50, p99):
        assert (np.diff(at.e2e) >= -0.02 * at.e2e[:-1]).all()
    assert (np.diff(queue.in_flight) > 0).all()


def test_a_short_prompt_beside_others_costs_what_it_costs_there() -> None:
    # Alone a prompt of one token reads all weights, 70 ms; beside others it rides in a step of 70 ms. With two requests in flight at times, a
    # third waits for a step and takes part in the next: never more than two steps and two prompts' worth.
    one = Replica(
        slots=np.asarray(16.0),
        in_flight=np.array([1.0, 2.0, 16.0]),
        decode_s=np.full(3, 0.070),
        prefill_s=np.array([0.070, 0.0002, 0.0002]),
        step_tokens=np.asarray(2048.0),
        input_tokens=1.0,
        output_tokens=2.0,
    )
    for rate in (0.5, 2.0, 5.0, 10.0, 20.0):
        assert float(quantile_of(queue_at(one, np.asarray(rate)), 0.99).ttft) < 0.22
