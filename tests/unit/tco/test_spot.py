"""Expected time on interruptible capacity, against hand calculation and simulation."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.tco.spot import best_interval_hours, expected_hours, interruptions_per_hour


def test_without_checkpoints_the_expectation_explodes():
    # (e^(0.15 x 48.5) - 1) / 0.15 = (1,443.75 - 1) / 0.15 = 9,618 h
    assert expected_hours(48.5, interval_hours=None, rate_per_hour=0.15) == pytest.approx(9618, abs=1)


def test_a_checkpoint_every_half_hour_tames_it():
    # 97 pieces x (e^0.075 - 1) / 0.15 = 97 x 0.0778842 / 0.15 = 50.4 h
    assert expected_hours(48.5, interval_hours=0.5, rate_per_hour=0.15) == pytest.approx(50.4, abs=0.05)


def test_no_interruptions_leave_the_writes():
    assert expected_hours(10, interval_hours=2, write_hours=0.1, rate_per_hour=0) == pytest.approx(10.5)
    assert expected_hours(0, interval_hours=2, rate_per_hour=0.1) == 0


def test_an_expectation_beyond_floats_is_infinite():
    assert expected_hours(1e6, interval_hours=None, rate_per_hour=1) == math.inf


def test_daly_agrees_with_a_simulation():
    rate, work, tau, delta, restart = 0.3, 12.0, 2.0, 0.1, 0.5
    random.seed(7)

    def one_run() -> float:
        clock, done = 0.0, 0.0
        while done < work:
            need = tau + delta
            strike = random.expovariate(rate)
            if strike >= need:
                clock, done = clock + need, done + tau
                continue
            clock += strike
            while (again := random.expovariate(rate)) < restart:  # a restart may be interrupted too
                clock += again
            clock += restart
        return clock

    runs = [one_run() for _ in range(20_000)]
    mean = sum(runs) / len(runs)
    assert expected_hours(
        work, interval_hours=tau, write_hours=delta, restart_hours=restart, rate_per_hour=rate
    ) == pytest.approx(mean, rel=0.01)


def test_the_rate_gives_back_the_monthly_share():
    assert 1 - math.exp(-730 * interruptions_per_hour(0.2)) == pytest.approx(0.2)
    assert interruptions_per_hour(0.2, 8) == pytest.approx(8 * interruptions_per_hour(0.2))
    with pytest.raises(ValueError, match="monthly"):
        interruptions_per_hour(1.0)


def test_the_best_interval_is_where_the_expectation_is_least():
    best = best_interval_hours(write_hours=0.05, rate_per_hour=0.1)
    assert best is not None
    assert best == pytest.approx(math.sqrt(2 * 0.05 / 0.1), rel=0.1)  # Young's first order

    def took(tau: float) -> float:
        return math.expm1(0.1 * (tau + 0.05)) / 0.1 / tau

    assert took(best) == pytest.approx(min(took(t / 1000) for t in range(100, 3000)), rel=1e-4)
    assert best_interval_hours(write_hours=0, rate_per_hour=0.1) is None
    assert best_interval_hours(write_hours=0.05, rate_per_hour=0) is None
    assert best_interval_hours(write_hours=5, rate_per_hour=1) == 1


@given(
    work=st.floats(0.1, 500),
    tau=st.floats(0.01, 50),
    delta=st.floats(0, 1),
    restart=st.floats(0, 1),
    rate=st.floats(0, 0.2),
    more=st.floats(1.01, 3),
)
def test_interruptions_never_save_time(*, work, tau, delta, restart, rate, more):
    undisturbed = expected_hours(work, interval_hours=tau, write_hours=delta, rate_per_hour=0)
    calm = expected_hours(work, interval_hours=tau, write_hours=delta, restart_hours=restart, rate_per_hour=rate)
    rough = expected_hours(
        work, interval_hours=tau, write_hours=delta, restart_hours=restart, rate_per_hour=rate * more
    )
    assert undisturbed <= calm * (1 + 1e-9)
    assert calm <= rough * (1 + 1e-9)
