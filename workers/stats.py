"""What samples say: percentiles, how many samples they need, where warm-up ends, whether a series is steady. Pure, standard library.

Percentiles are by linear interpolation between order statistics (definition 7 of Hyndman & Fan, "Sample Quantiles in Statistical
Packages", The American Statistician 50(4), 1996), as in NumPy.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Latencies in the unit of the samples, warm-up left out. `too_few_for` names percentiles that the samples cannot carry."""

    count: int
    warmup: int
    mean: float
    minimum: float
    maximum: float
    p50: float
    p90: float
    p95: float
    p99: float
    too_few_for: tuple[str, ...]


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return the given percentile (0 to 100), in the unit of the samples.

    >>> percentile([10, 20, 30], 95)
    29.0
    """
    if not samples:
        raise ValueError("no samples: a percentile of nothing is unknown")
    if not 0 <= percent <= 100:
        raise ValueError(f"a percentile lies between 0 and 100, not {percent!r}")
    ordered = sorted(samples)
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def samples_needed(percent: float, confidence: float = 0.5) -> int:
    """Return how many samples make it as likely as `confidence` that one of them lies beyond the percentile.

    n = ln(1 - confidence) / ln(percent / 100). With fewer than that at 0.5 (69 for p99, 14 for p95) even the largest sample is more
    likely below the true percentile than above it, so a figure would be too good to be true; 299 give p99 a 95 % upper bound.
    """
    if not 0 < percent < 100 or not 0 < confidence < 1:
        raise ValueError(
            f"percent must be between 0 and 100 and confidence between 0 and 1, not {percent!r} and {confidence!r}"
        )
    return math.ceil(math.log(1 - confidence) / math.log(percent / 100))


def enough_for(count: int, percent: float) -> bool:
    """Return whether so many samples can carry the percentile."""
    return count >= samples_needed(percent)


def summarise(samples: Sequence[float], *, warmup: int | None = None) -> Summary:
    """Return percentiles of the samples after `warmup` of them; None finds the end of the warm-up (`warmup_end`)."""
    skipped = warmup_end(samples) if warmup is None else warmup
    if skipped < 0:
        raise ValueError(f"warmup must be at least 0, not {skipped}")
    kept = samples[skipped:]
    if not kept:
        raise ValueError(f"no samples after warm-up: {len(samples)} taken, {skipped} of them warm-up")
    p50, p90, p95, p99 = (percentile(kept, percent) for percent in PERCENTILES)
    return Summary(
        count=len(kept),
        warmup=skipped,
        mean=statistics.fmean(kept),
        minimum=min(kept),
        maximum=max(kept),
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        too_few_for=tuple(f"p{percent}" for percent in PERCENTILES if not enough_for(len(kept), percent)),
    )


def warmup_end(samples: Sequence[float]) -> int:
    """Return how many leading samples belong to the warm-up: the cut that makes the mean of the rest most certain.

    MSER (White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69(6), 1997): the d that
    minimises sum((x_i - mean)^2, i >= d) / (n - d)^2, looked for in the first half, since a later cut means there is no steady rest.
    """
    n = len(samples)
    if n < 4:
        return 0
    best, best_d = math.inf, 0
    mean, squares = 0.0, 0.0
    for count, d in enumerate(range(n - 1, -1, -1), start=1):  # Welford's sums, from the back
        delta = samples[d] - mean
        mean += delta / count
        squares += delta * (samples[d] - mean)
        if d <= n // 2:
            score = squares / count**2
            if score <= best:  # at a tie the longer rest wins
                best, best_d = score, d
    return best_d


def spread_fraction(samples: Sequence[float]) -> float:
    """Return the interquartile range divided by the median: how far apart ordinary samples lie."""
    return (percentile(samples, 75) - percentile(samples, 25)) / percentile(samples, 50)


def drift_fraction(samples: Sequence[float]) -> float:
    """Return by how much the median of the second half differs from that of the first, as a signed share of the first."""
    if len(samples) < 2:
        raise ValueError("drift needs at least two samples")
    half = len(samples) // 2
    first, second = percentile(samples[:half], 50), percentile(samples[half:], 50)
    return second / first - 1


def unsteady(samples: Sequence[float], *, max_spread_fraction: float, max_drift_fraction: float) -> tuple[str, ...]:
    """Return why a series is not steady, in words with figures; empty when it is."""
    if len(samples) < 2:
        return (f"{len(samples)} samples cannot show a steady state",)
    reasons = []
    spread, drift = spread_fraction(samples), drift_fraction(samples)
    if spread > max_spread_fraction:
        reasons.append(
            f"unsteady: the middle half of the samples spreads over {spread:.1%} of the median, at most {max_spread_fraction:.0%} is allowed"
        )
    if abs(drift) > max_drift_fraction:
        reasons.append(
            f"unsteady: the second half is {abs(drift):.1%} {'slower' if drift > 0 else 'faster'} than the first, at most {max_drift_fraction:.0%} is allowed"
        )
    return tuple(reasons)


def too_short(*, count: int, duration_s: float, min_samples: int, min_duration_s: float) -> tuple[str, ...]:
    """Return why a series is too short, in words with figures; empty when it is long enough."""
    reasons = []
    if count < min_samples:
        reasons.append(f"too short: {count} samples, at least {min_samples} are needed")
    if duration_s < min_duration_s:
        reasons.append(f"too short: {duration_s:.3g} s of samples, at least {min_duration_s:g} s are needed")
    return tuple(reasons)
