"""Taking and judging a series, with a timer that tells the times we want."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest

from workers.bench import validity_of
from workers.bench.series import BANDWIDTH, TFLOPS, calls_per_sample, take_series
from workers.model import Rules, Series, Shape


class Clock:
    """A timer whose calls take the given seconds each."""

    def __init__(self, seconds: Iterator[float]) -> None:
        self.seconds, self.calls = seconds, 0

    def __call__(self, call: Callable[[], object], calls: int) -> float:
        call()
        self.calls += calls
        return sum(next(self.seconds) for _ in range(calls))


RULES = Rules(warmup_s=0.5, min_duration_s=1.0, min_samples=20, max_samples=200)


def taken(seconds: Iterator[float], rules: Rules = RULES) -> Series:
    return take_series(
        "matmul",
        Shape(dtype="bf16", m=1000, n=1000, k=1000),
        lambda: None,
        timer=Clock(seconds),
        work_per_call={"flop": 2e9},
        rate=TFLOPS,
        rules=rules,
    )


def test_a_steady_series_is_valid_and_gives_work_over_time() -> None:
    series = taken(repeat(0.01))  # 2e9 FLOP in 10 ms = 0.2 TFLOP/s
    assert series.validity.valid
    (figure,) = series.figures
    assert (figure.unit, figure.value, figure.low, figure.high) == (
        "TFLOP/s",
        pytest.approx(0.2),
        pytest.approx(0.2),
        pytest.approx(0.2),
    )
    assert series.warmup.calls == 50  # 0.5 s of 10 ms
    # a sample of one call lasts 10 ms, the duration of 1 s needs a hundred of them
    assert (series.shape.calls_per_sample, len(series.samples_s)) == (1, 100)
    assert series.duration_s == pytest.approx(1.0)


def test_warm_up_is_not_among_the_samples() -> None:
    series = taken(
        chain(repeat(0.25, 4), repeat(0.01))
    )  # a slow start that eats the warm-up time: at least three calls are made
    assert (series.warmup.calls, max(series.samples_s)) == (3, 0.25)
    assert series.unsettled == 1  # the fourth slow call came after the warm-up; it is kept and left out of the figure
    assert series.figures[0].value == pytest.approx(0.2)
    assert series.validity.valid


def test_short_calls_are_timed_together() -> None:
    assert calls_per_sample(1e-5, RULES) == 1000  # samples of 10 ms: 200 of them make twice the 1 s asked for
    assert calls_per_sample(1e-5, Rules(min_duration_s=0.1)) == 100  # never shorter than 1 ms
    assert calls_per_sample(3.0, RULES) == 1
    series = taken(repeat(1e-5))
    assert series.samples_s[0] == pytest.approx(1e-5)  # seconds per call, not per sample
    assert series.shape.calls_per_sample == 1000
    assert series.duration_s >= 1.0


def test_a_low_and_a_high_figure_come_from_slow_and_fast_samples() -> None:
    times = [0.0100, 0.0101] * 5
    series = taken(chain(repeat(0.01, 50), iter(times * 20)))
    (figure,) = series.figures
    assert figure.low == pytest.approx(2e9 / 0.0101 / 1e12)
    assert figure.high == pytest.approx(2e9 / 0.0100 / 1e12)
    assert figure.low < figure.value < figure.high


def test_a_drift_makes_it_invalid() -> None:
    series = taken(chain(repeat(0.01, 50), (0.01 * (1 + i / 200) for i in range(10_000))))
    assert not series.validity.valid
    assert any("slower than the first" in reason for reason in series.validity.reasons)


def test_what_is_too_slow_ends_and_is_too_short() -> None:
    clock = Clock(repeat(40.0))
    series = take_series(
        "copy",
        Shape(buffer_bytes=1),
        lambda: None,
        timer=clock,
        work_per_call={"bytes": 8e10},
        rate=BANDWIDTH,
        rules=RULES,
    )
    assert clock.calls == 4  # two calls of warm-up, two of samples: both end after 60 s
    assert series.validity.reasons[0] == "too short: 2 samples, at least 20 are needed"
    assert series.figures[0].value == pytest.approx(2.0)  # 80 GB in 40 s


def test_a_warm_up_that_was_slower_than_the_rest_does_not_make_the_samples_too_short() -> None:
    """Calls of 20 ms while another process is busy, 0.1 ms after: one call a sample would end after 200 x 0.1 ms = 0.02 s."""
    series = taken(chain(repeat(0.02, 25), repeat(0.0001)))
    assert series.validity.valid
    assert series.duration_s >= 1.0
    # 200 samples of 1, 2, 4, 8, 16, 32 calls are too short (0.02 s … 0.64 s), with 64 calls of 0.1 ms 157 samples make 1 s
    assert (series.shape.calls_per_sample, len(series.samples_s)) == (64, 157)
    assert series.warmup.calls == 25 + 200 * (1 + 2 + 4 + 8 + 16 + 32)
    assert series.figures[0].value == pytest.approx(20.0)


def test_few_samples_are_made_long() -> None:
    series = taken(repeat(0.001), Rules(warmup_s=0, min_duration_s=10.0, min_samples=5, max_samples=5))
    assert series.validity.valid  # samples are made long enough: 4 s each
    assert series.duration_s == pytest.approx(20.0)


def test_a_whole_is_valid_when_all_its_parts_are() -> None:
    good, bad = taken(repeat(0.01)), taken(repeat(40.0))
    assert validity_of((good, good)).valid
    mixed = validity_of((good, bad))
    assert mixed.reasons == ("matmul bf16 1000x1000x1000: too short: 2 samples, at least 20 are needed",)
    assert validity_of(()).reasons == ("nothing could be measured: every part was skipped",)
