"""Taking one series: warm up, choose how many calls make a sample, sample until the rules are met, judge. No torch: the timer is passed in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import perf_counter

from workers.model import Figure, Rules, Series, Shape, Validity, Warmup
from workers.stats import percentile, too_short, unsteady, warmup_end

Progress = Callable[[str], None]
Timer = Callable[[Callable[[], object], int], float]
"""Runs a call so many times back to back and returns the seconds they took together, the device's work included."""

LEAST_SAMPLE_S = 0.001  # shorter samples would measure the clock and the launch
LEAST_WARMUP_CALLS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How a figure follows from a call: `work_per_call[work]` / seconds / `scale`."""

    name: str
    unit: str
    work: str
    scale: float


TFLOPS = Rate(name="throughput", unit="TFLOP/s", work="flop", scale=1e12)
TOPS = Rate(name="throughput", unit="TOP/s", work="flop", scale=1e12)  # whole-number arithmetic
BANDWIDTH = Rate(name="bandwidth", unit="GB/s", work="bytes", scale=1e9)


def take_series(
    name: str,
    shape: Shape,
    call: Callable[[], object],
    *,
    timer: Timer,
    work_per_call: Mapping[str, float],
    rate: Rate,
    rules: Rules,
) -> Series:
    """Return the samples of one call and the rate that follows from them, judged by the rules."""
    warmup, call_s = warm_up(call, timer, rules)
    calls = calls_per_sample(call_s, rules)
    samples, duration_s = take_samples(call, calls, timer, rules)
    while duration_s < min(rules.min_duration_s, rules.max_duration_s):
        # the warm-up was slower than what followed, so samples came out too short: that round was warm-up too
        warmup = Warmup(calls=warmup.calls + calls * len(samples), duration_s=warmup.duration_s + duration_s)
        calls *= 2
        samples, duration_s = take_samples(call, calls, timer, rules)
    return judged(
        Series(
            name=name,
            shape=replace(shape, calls_per_sample=calls),
            work_per_call=dict(work_per_call),
            warmup=warmup,
            duration_s=duration_s,
            samples_s=tuple(samples),
            validity=Validity(valid=True),
        ),
        rate=rate,
        rules=rules,
    )


def take_samples(call: Callable[[], object], calls: int, timer: Timer, rules: Rules) -> tuple[list[float], float]:
    """Return samples in seconds per call, and the seconds that all of them took, when there are enough of both or a limit is reached."""
    samples: list[float] = []
    duration_s = 0.0
    while (
        (len(samples) < rules.min_samples or duration_s < rules.min_duration_s)
        and len(samples) < rules.max_samples
        and duration_s < rules.max_duration_s
    ):
        elapsed_s = timer(call, calls)
        duration_s += elapsed_s
        samples.append(elapsed_s / calls)
    return samples, duration_s


def warm_up(call: Callable[[], object], timer: Timer, rules: Rules) -> tuple[Warmup, float]:
    """Call until `warmup_s` have passed (at least three times, unless one call takes longer than a series may); return also the fastest call's seconds."""
    start = perf_counter()
    calls, fastest_s, spent_s = 0, math.inf, 0.0
    while (spent_s < rules.warmup_s or calls < LEAST_WARMUP_CALLS) and (
        not calls or spent_s < max(rules.max_duration_s, rules.warmup_s)
    ):
        elapsed_s = timer(call, 1)
        calls += 1
        spent_s += elapsed_s
        fastest_s = min(fastest_s, elapsed_s)
    return Warmup(calls=calls, duration_s=perf_counter() - start), fastest_s


def calls_per_sample(call_s: float, rules: Rules) -> int:
    """Return how many calls make a sample: long enough to be timed, and so that the duration asked for is reached by half the most samples."""
    target_s = max(LEAST_SAMPLE_S, 2 * rules.min_duration_s / rules.max_samples)
    return max(1, math.ceil(target_s / call_s)) if call_s > 0 else 1000


def judged(series: Series, *, rate: Rate, rules: Rules) -> Series:
    """Return the series with its figure and its validity. The samples before it settled (at most half) are kept, but make no figure."""
    unsettled = warmup_end(series.samples_s)
    steady = series.samples_s[unsettled:]
    reasons = too_short(
        count=len(series.samples_s),
        duration_s=series.duration_s,
        min_samples=rules.min_samples,
        min_duration_s=rules.min_duration_s,
    )
    reasons += unsteady(
        steady, max_spread_fraction=rules.max_spread_fraction, max_drift_fraction=rules.max_drift_fraction
    )
    work = series.work_per_call[rate.work] / rate.scale
    median, slow, fast = (work / percentile(steady, p) for p in (50, 90, 10))
    figure = Figure(name=rate.name, unit=rate.unit, value=median, low=slow, high=fast)
    return replace(
        series, unsettled=unsettled, figures=(figure,), validity=Validity(valid=not reasons, reasons=reasons)
    )
