"""Latency formulas against a discrete-event simulation of continuous batching and by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_simulation import Seen, simulate

from planner.perf.latency import Load, latency_at, residence_s


def load(*, b: float, i: int, o: int, m: int, decode: float, prefill: float) -> Load:
    a = np.asarray
    return Load(
        concurrency=a(b),
        input_tokens=i,
        output_tokens=o,
        step_tokens=a(float(m)),
        decode_s=a(decode),
        prefill_s=a(prefill),
        alone_s=a(prefill),
    )


def decode_time(base: float, each: float) -> Callable[[int], float]:
    return lambda running: base + each * running


@pytest.mark.parametrize(
    ("b", "i", "o", "m", "base", "each", "prefill"),
    [
        (1, 1000, 100, 2048, 0.010, 1e-5, 0.05),
        (8, 1000, 100, 2048, 0.010, 1e-5, 0.05),
        (32, 1000, 200, 2048, 0.010, 5e-5, 0.04),
        (64, 500, 100, 2048, 0.010, 5e-5, 0.02),
        (32, 4000, 100, 2048, 0.010, 5e-5, 0.20),
    ],
)
def test_against_the_simulation(*, b: int, i: int, o: int, m: int, base: float, each: float, prefill: float) -> None:
    decode = decode_time(base, each)
    seen = simulate(
        concurrency=b,
        input_tokens=i,
        output_tokens=o,
        step_tokens=m,
        decode_s=decode,
        prefill_s=prefill,
        requests=max(600, 250 * b),
    )
    at = load(b=b, i=i, o=o, m=m, decode=decode(b), prefill=prefill)
    p50, p99, q = latency_at(at, 0.5), latency_at(at, 0.99), Seen.quantile
    assert seen.requests_per_s == pytest.approx(b / float(residence_s(at)), rel=0.02)
    assert q(seen.tpot, 0.5) == pytest.approx(float(p50.tpot), rel=0.03)
    assert q(seen.tpot, 0.99) == pytest.approx(float(p99.tpot), rel=0.05)
    assert q(seen.e2e, 0.5) == pytest.approx(float(p50.e2e), rel=0.02)
    assert q(seen.e2e, 0.99) == pytest.approx(float(p99.e2e), rel=0.05)
    assert q(seen.ttft, 0.5) == pytest.approx(float(p50.ttft), rel=0.20)
    assert q(seen.ttft, 0.99) == pytest.approx(float(p99.ttft), rel=0.20)


def test_a_lone_request_by_hand() -> None:
    # Prefill 50 ms, then 100 steps of 10 ms in flight altogether: 1.05 s; TPOT = (1.05 - 0.05) / 99.
    at = load(b=1, i=1000, o=100, m=2048, decode=0.010, prefill=0.050)
    for quantile in (0.5, 0.99):
        found = latency_at(at, quantile)
        assert float(found.ttft) == pytest.approx(0.050)
        assert float(found.e2e) == pytest.approx(1.05)
        assert float(found.tpot) == pytest.approx(1.0 / 99)


def test_a_single_output_token_has_no_tpot() -> None:
    found = latency_at(load(b=4, i=1000, o=1, m=2048, decode=0.010, prefill=0.050), 0.99)
    assert math.isnan(float(found.tpot))
    assert float(found.e2e) == float(found.ttft)


@given(
    b=st.integers(1, 512),
    i=st.integers(1, 20000),
    o=st.integers(1, 5000),
    m=st.sampled_from([2048, 8192]),
    decode=st.floats(1e-4, 1.0),
    prefill=st.floats(1e-4, 5.0),
)
def test_quantiles_are_ordered_and_never_below_the_work(
    *, b: int, i: int, o: int, m: int, decode: float, prefill: float
) -> None:
    at = load(b=b, i=i, o=o, m=m, decode=decode, prefill=prefill)
    p50, p90, p99 = (latency_at(at, q) for q in (0.5, 0.9, 0.99))
    assert float(p50.ttft) <= float(p90.ttft) + 1e-12 <= float(p99.ttft) + 2e-12
    assert float(p50.e2e) <= float(p99.e2e) + 1e-9
    assert float(p50.ttft) >= prefill * (1 - 1e-9)
    if o > 1:
        assert float(p50.tpot) >= decode * (1 - 1e-9)
        assert float(p50.tpot) <= float(p99.tpot)
