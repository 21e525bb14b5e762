"""Statistics of samples, against NumPy, hand calculation and cases from the field."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.stats import (
    drift_fraction,
    enough_for,
    percentile,
    samples_needed,
    spread_fraction,
    summarise,
    too_short,
    unsteady,
    warmup_end,
)

positive = st.floats(min_value=1e-6, max_value=1e6)


@given(st.lists(positive, min_size=1, max_size=60), st.floats(min_value=0, max_value=100))
def test_percentiles_are_those_of_numpy(samples: list[float], percent: float) -> None:
    assert percentile(samples, percent) == pytest.approx(float(np.percentile(samples, percent)), rel=1e-9)


def test_percentile_of_nothing_is_unknown() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 50)
    with pytest.raises(ValueError, match="between 0 and 100"):
        percentile([1.0], 101)


def test_start_up_is_not_service() -> None:
    """Ten slow first requests of a hundred: with them p95 is 50 s, without them every request took 0.7 s."""
    latencies_s = [50.0] * 10 + [0.7] * 90
    assert percentile(latencies_s, 95) == 50.0
    summary = summarise(latencies_s, warmup=10)
    assert (summary.p95, summary.p99, summary.count, summary.warmup) == (0.7, 0.7, 90, 10)
    assert summary.too_few_for == ()
    assert summarise(latencies_s) == summary  # found without being told


def test_three_samples_carry_no_p99() -> None:
    """Position (3 - 1) x 0.99 = 1.98 between 20 and 30: 29.8; but it is two samples' line, and the summary says so."""
    summary = summarise([10.0, 20.0, 30.0], warmup=0)
    assert summary.p95 == pytest.approx(29.0)
    assert summary.p99 == pytest.approx(29.8)
    assert summary.too_few_for == ("p90", "p95", "p99")


@pytest.mark.parametrize(
    ("percent", "confidence", "count"),
    [
        (99, 0.5, 69),  # 0.99^68 = 0.5049, 0.99^69 = 0.4998
        (95, 0.5, 14),  # 0.95^13 = 0.513, 0.95^14 = 0.488
        (50, 0.5, 1),
        (99, 0.95, 299),  # 0.99^298 = 0.0500 (a little more), 0.99^299 = 0.0495
    ],
)
def test_samples_needed(percent: float, confidence: float, count: int) -> None:
    assert samples_needed(percent, confidence) == count
    assert (percent / 100) ** count <= 1 - confidence < (percent / 100) ** (count - 1)
    if confidence == 0.5:
        assert enough_for(count, percent)
        assert not enough_for(count - 1, percent)


def test_summary_of_all_warm_up_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples after warm-up"):
        summarise([1.0, 2.0], warmup=2)
    with pytest.raises(ValueError, match="at least 0"):
        summarise([1.0, 2.0], warmup=-1)


@given(st.integers(0, 40), st.floats(min_value=2, max_value=100), st.integers(0, 2**32 - 1))
def test_a_slow_start_is_cut_and_nothing_else(slow: int, factor: float, seed: int) -> None:
    steady = np.random.default_rng(seed).normal(1.0, 0.01, 100)
    samples = [factor] * slow + steady.tolist()
    assert slow <= warmup_end(samples) <= len(samples) // 2


def test_warm_up_against_the_definition() -> None:
    """MSER written out as in the paper, without running sums."""
    samples = [9.0, 5.0, 3.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.1, 0.9, 1.0]
    scores = [
        (sum((x - np.mean(samples[d:])) ** 2 for x in samples[d:]) / (len(samples) - d) ** 2, d)
        for d in range(len(samples) // 2 + 1)
    ]
    assert warmup_end(samples) == min(scores)[1] == 3
    assert warmup_end([1.0, 1.0, 1.0, 1.0]) == 0  # a tie keeps everything
    assert warmup_end([5.0, 1.0, 1.0]) == 0  # too few to tell


@given(st.lists(positive, min_size=1, max_size=50))
def test_summaries_are_ordered(samples: list[float]) -> None:
    s = summarise(samples)
    assert s.minimum <= s.p50 <= s.p90 <= s.p95 <= s.p99 <= s.maximum
    assert s.minimum <= s.mean * (1 + 1e-12)
    assert s.count + s.warmup == len(samples)


def test_steadiness() -> None:
    assert unsteady([1.0, 1.01] * 50, max_spread_fraction=0.1, max_drift_fraction=0.05) == ()
    drifting = [1 + i / 100 for i in range(100)]
    # halves have medians 1.245 and 1.745
    assert drift_fraction(drifting) == pytest.approx(1.745 / 1.245 - 1)
    (reason,) = unsteady(drifting, max_spread_fraction=1, max_drift_fraction=0.05)
    assert "second half is 40.2% slower" in reason
    (faster,) = unsteady(drifting[::-1], max_spread_fraction=1, max_drift_fraction=0.05)
    assert "28.7% faster" in faster
    # quartiles of 1 and 2 in turn are 1 and 2, the median 1.5
    assert spread_fraction([1.0, 2.0] * 10) == pytest.approx(1 / 1.5)
    (wide,) = unsteady([1.0, 2.0] * 10, max_spread_fraction=0.15, max_drift_fraction=1)
    assert "spreads over 66.7% of the median" in wide
    assert unsteady([1.0], max_spread_fraction=1, max_drift_fraction=1) == ("1 samples cannot show a steady state",)
    with pytest.raises(ValueError, match="two samples"):
        drift_fraction([1.0])


def test_too_short() -> None:
    assert too_short(count=100, duration_s=2, min_samples=100, min_duration_s=2) == ()
    few, brief = too_short(count=99, duration_s=1.5, min_samples=100, min_duration_s=2)
    assert few == "too short: 99 samples, at least 100 are needed"
    assert brief == "too short: 1.5 s of samples, at least 2 s are needed"


def test_percentiles_do_not_sort_the_caller_s_list() -> None:
    samples = [3.0, 1.0, 2.0]
    percentile(samples, 50)
    assert samples == [3.0, 1.0, 2.0]
    assert math.isclose(percentile(samples, 50), 2.0)
