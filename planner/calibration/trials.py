"""The shipped tables fitted and left out in turn: what the maintainers' commands and `planner validate --leave-out` run.

trial = trial_of(Workload.SERVING, facts)         rows read, problem posed
whole = fitted(trial)                             all rows explained
left = cross_validated(trial.problem, …)          each row predicted by a fit that had not seen it
figures_of(trial, left, intervals)                with intervals, as figures for `statistics`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import cast

import numpy as np

from planner.calibration import hierarchy
from planner.calibration.columns import Measurements, shipped_measurements
from planner.calibration.folds import Predictions
from planner.calibration.hierarchy import Problem
from planner.calibration.intervals import conformal, halves
from planner.calibration.model import Facts, Figure, Physics, Reading, Row, Workload
from planner.perf.intervals import bounds
from planner.perf.parameters import IntervalRow, Parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A table as read, and the fit that it poses."""

    rows: Sequence[Row]
    reading: Reading
    problem: Problem
    sha256: str  # of the whole table

    @property
    def groups(self) -> list[str]:
        """Return the (source, model, accelerator) group of each case."""
        return [labels.group for labels in self.reading.labels]


def physics_of(workload: Workload) -> Physics:
    """Return what reads, poses and predicts the rows of a workload."""
    return cast("Physics", import_module(f"planner.calibration.{workload.value}"))


def trial_of(
    workload: Workload,
    facts: Facts,
    *,
    measurements: Measurements | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> Trial:
    """Return the trial of the shipped table of a workload, or of other measurements; of about `sample` rows in whole groups where given."""
    source = shipped_measurements(workload) if measurements is None else measurements
    rows = source.rows if sample is None else sampled(source.rows, sample, seed)
    physics = physics_of(workload)
    reading = physics.read(rows, facts)
    return Trial(rows=rows, reading=reading, problem=physics.problem(reading), sha256=source.sha256)


def sampled(rows: Sequence[Row], count: int, seed: int = 0) -> list[Row]:
    """Return about `count` rows: whole (source, model, gpu) groups in an order of chance, in the order of the table."""
    names = [(row["source"], row["model"], row["gpu"]) for row in rows]
    distinct = sorted(set(names))
    order = [distinct[i] for i in np.random.default_rng(seed).permutation(len(distinct))]
    sizes: dict[tuple[str, str, str], int] = {}
    for name in names:
        sizes[name] = sizes.get(name, 0) + 1
    taken: set[tuple[str, str, str]] = set()
    total = 0
    for name in order:
        if total + sizes[name] <= count:
            taken.add(name)
            total += sizes[name]
    return [row for row, name in zip(rows, names, strict=True) if name in taken]


def fitted(trial: Trial, *, version: str = "", fitted_on: str = "", start: Parameters | None = None) -> Parameters:
    """Return the parameters that explain all rows of a trial; without intervals."""
    return hierarchy.fit(trial.problem, start=start, version=version, fitted_on=fitted_on, data_sha256=trial.sha256)


def figures_of(
    trial: Trial, left: Predictions, intervals: Mapping[str, IntervalRow], whole: Parameters
) -> list[Figure]:
    """Return the left-out predictions as figures in the unit of the table."""
    reading = trial.reading
    measured = np.asarray(reading.measured, dtype=np.float64)
    predicted = measured * np.exp(-left.residual)
    low, high = bounds(replace(whole, intervals=intervals), predicted, left.sd, left.novelty)
    return [
        Figure(
            row_id=reading.row_ids[i],
            main=reading.main[i],
            labels=reading.labels[i],
            measured=float(measured[i]),
            predicted=float(predicted[i]),
            low=float(low[i]),
            high=float(high[i]),
            novelty=left.novelty[i],
        )
        for i in range(len(measured))
    ]


def figures_checked(trial: Trial, left: Sequence[Predictions], which: Predictions, whole: Parameters) -> list[Figure]:
    """Return the figures of one cross-validation with intervals from residuals of the other half of the groups.

    Multiples from all residuals would cover what they were made from; so each half of the groups gets those of the other.
    """
    first = halves(trial.groups)
    figures: list[Figure | None] = [None] * len(first)
    for half in (first, ~first):
        intervals = conformal(left, trial.groups, used=~half)
        for i, figure in enumerate(figures_of(trial, which, intervals, whole)):
            if half[i]:
                figures[i] = figure
    return [figure for figure in figures if figure is not None]
