"""Errors counted: percentiles of the absolute percentage error, bias, coverage; by row, and with each group weighing the same.

APE = |predicted / measured - 1|, a fraction. It flatters under-prediction (nothing predicted too low is ever off by more than 1), so the
90th percentile of the factor max(predicted / measured, measured / predicted) stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from planner.calibration.model import Figure

Array = npt.NDArray[np.float64]

DIMENSIONS: Mapping[str, Callable[[Figure], str]] = {
    "accelerator": lambda f: f.labels.accelerator,
    "engine": lambda f: f.labels.engine,
    "family": lambda f: f.labels.family,
    "precision": lambda f: f.labels.precision,
    "parallelism": lambda f: f.labels.parallelism,
    "metric": lambda f: f.labels.metric,
}
"""What errors are listed by, in the order of the document."""
PARTS: Mapping[str, Mapping[str, str]] = {
    "tpot_ms": {"tpot_ms": "tpot_steady_ms", "tpot_all_at_once_ms": "tpot_all_at_once_ms"},
}
"""Metrics that are told as a whole and in parts: whole -> label of a figure -> key of its part.

Time per token where all requests start at once is a mean over a run that ends with few of them, and a matter of its own."""
FURTHER = "metric"
"""The dimension that also has the figures beside the main one (TTFT, TPOT of a throughput row)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Errors of some figures. Fractions, not percent; `bias` is the factor exp(median log(predicted / measured)), below 1 for too low.

    `median_interval_factor`: how far p10 and p90 are from their geometric middle, sqrt(high / low). `group_…`: the same with each
    (source, model, accelerator) weighing the same however many rows it has. None where there is nothing to count.
    """

    rows: int
    groups: int
    median_ape: float | None
    p90_ape: float | None
    p90_factor: float | None
    within_2x: float | None
    bias: float | None
    coverage_80: float | None
    median_interval_factor: float | None
    group_median_ape: float | None
    group_p90_ape: float | None
    group_p90_factor: float | None
    group_within_2x: float | None
    group_bias: float | None
    group_coverage_80: float | None
    group_median_interval_factor: float | None


NOTHING = Statistics(
    rows=0,
    groups=0,
    median_ape=None,
    p90_ape=None,
    p90_factor=None,
    within_2x=None,
    bias=None,
    coverage_80=None,
    median_interval_factor=None,
    group_median_ape=None,
    group_p90_ape=None,
    group_p90_factor=None,
    group_within_2x=None,
    group_bias=None,
    group_coverage_80=None,
    group_median_interval_factor=None,
)
"""The errors of no figures."""


def quantile(values: Array, share: float, weights: Array | None = None) -> float:
    """Return a quantile of values, linear between neighbours (R type 7), also with weights: equal ones change nothing.

    With weights w sorted by value, value k stands at S_k = (k - 1) w_k + (n - 1) (w_1 + … + w_{k-1}) of S_n.
    """
    if weights is None:
        return float(np.quantile(values, share))
    order = np.argsort(values, kind="stable")
    v, w = values[order], weights[order]
    before = np.concatenate(([0.0], np.cumsum(w)[:-1]))
    places = np.arange(len(v)) * w + (len(v) - 1) * before
    return float(np.interp(share * places[-1], places, v)) if len(v) > 1 else float(v[0])


def weights_of(groups: Sequence[str]) -> Array:
    """Return the weight of each row with which every group weighs the same: one over the rows of its group."""
    counts: dict[str, int] = {}
    for group in groups:
        counts[group] = counts.get(group, 0) + 1
    return np.array([1.0 / counts[group] for group in groups])


def statistics(
    measured: Array, predicted: Array, groups: Sequence[str], *, low: Array | None = None, high: Array | None = None
) -> Statistics:
    """Return the errors of figures [rows], all above zero; without `low` and `high` nothing is said of intervals."""
    if len(measured) == 0:
        return NOTHING
    weights = weights_of(groups)
    ape = np.abs(predicted / measured - 1)
    ratio = np.log(predicted / measured)
    away = np.abs(ratio)
    within = (away <= np.log(2)).astype(np.float64)
    covered = None if low is None or high is None else ((low <= measured) & (measured <= high)).astype(np.float64)
    widths = None if low is None or high is None else np.sqrt(high / low)
    return Statistics(
        rows=len(measured),
        groups=len(set(groups)),
        median_ape=quantile(ape, 0.5),
        p90_ape=quantile(ape, 0.9),
        p90_factor=float(np.exp(quantile(away, 0.9))),
        within_2x=float(within.mean()),
        bias=float(np.exp(quantile(ratio, 0.5))),
        coverage_80=None if covered is None else float(covered.mean()),
        median_interval_factor=None if widths is None else quantile(widths, 0.5),
        group_median_ape=quantile(ape, 0.5, weights),
        group_p90_ape=quantile(ape, 0.9, weights),
        group_p90_factor=float(np.exp(quantile(away, 0.9, weights))),
        group_within_2x=float(np.average(within, weights=weights)),
        group_bias=float(np.exp(quantile(ratio, 0.5, weights))),
        group_coverage_80=None if covered is None else float(np.average(covered, weights=weights)),
        group_median_interval_factor=None if widths is None else quantile(widths, 0.5, weights),
    )


def of_figures(figures: Sequence[Figure]) -> Statistics:
    """Return the errors of figures."""
    return statistics(
        np.array([f.measured for f in figures]),
        np.array([f.predicted for f in figures]),
        [f.labels.group for f in figures],
        low=np.array([f.low for f in figures]),
        high=np.array([f.high for f in figures]),
    )


def listed(figures: Sequence[Figure]) -> dict[str, list[dict[str, object]]]:
    """Return the errors by each dimension: a list of {key, rows, groups, …}, most rows first; main figures, and by metric all."""
    out = {
        name: by_key([f for f in figures if f.main or name == FURTHER], key_of) for name, key_of in DIMENSIONS.items()
    }
    for whole, parts in PARTS.items():
        of = [f for f in figures if f.labels.metric in parts]
        if len({f.labels.metric for f in of}) > 1:
            others = [row for row in out[FURTHER] if row["key"] not in parts]
            out[FURTHER] = sorted([*others, *_in_parts(of, whole, parts)], key=lambda row: -int(str(row["rows"])))
    return out


def by_key(figures: Sequence[Figure], key_of: Callable[[Figure], str]) -> list[dict[str, object]]:
    """Return the errors of the figures of each key, most rows first."""
    found: dict[str, list[Figure]] = {}
    for figure in figures:
        found.setdefault(key_of(figure), []).append(figure)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return [{"key": key, **asdict(of_figures(each))} for key, each in ordered]


def _in_parts(figures: Sequence[Figure], whole: str, parts: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the errors of all figures of a metric, then of each part."""
    return [*by_key(figures, lambda _: whole), *by_key(figures, lambda f: parts[f.labels.metric])]
