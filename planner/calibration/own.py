"""A user's own measurements on top of the shipped parameters, which stay as they are: few shifts, held by what the shipped fit expects of them.

    x(row) = x_shipped(row, source unknown) + shift_own + shift_chip + shift_engine

`shift_own` is how the user's set-up as a whole leans (the shipped fit knows how far sources lean: that is its prior spread), the others
how their chips and engines differ from ours. Nothing else moves, so that ten rows cannot bend the physics. The result is a parameter
set in which the source of a user's request ("") is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from planner.calibration import hierarchy
from planner.calibration.folds import FOLDS, fold_of
from planner.calibration.hierarchy import Mask, Problem, values_of
from planner.calibration.statistics import Statistics, statistics
from planner.perf.intervals import SOURCE_LEVEL, bounds, novelty_of
from planner.perf.parameters import Deviation, Link, Parameters, Slot

Array = npt.NDArray[np.float64]

ASKED = ""
"""The source key of a user's request, and of nobody else."""
SHIFTED = ("chip", "engine")
GROUP_LEVEL = "group"
ROUNDS = 8
FEWEST_ROWS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalibration:
    """The user's parameters, and the errors on rows that a fit had not seen, before and after."""

    parameters: Parameters
    before: Statistics
    after: Statistics
    folds: int
    left_out: str  # "groups" where there are enough, else "rows"
    better: (
        bool  # the mean of |log(predicted / measured)| of left-out rows is no larger than with the shipped parameters
    )


def asked(problem: Problem) -> Problem:
    """Return the problem with its rows as a user's requests: of no source and group that is known."""
    rows = len(problem.log_measured)
    return replace(problem, keys={**problem.keys, SOURCE_LEVEL: [ASKED] * rows, GROUP_LEVEL: [ASKED] * rows})


def shifted(problem: Problem, shipped: Parameters, *, used: Mask | None = None) -> Parameters:
    """Return the shipped parameters with the shifts that the used rows of a user's problem speak for."""
    mine = asked(problem)
    rows = len(mine.log_measured)
    base = shipped.points(mine.keys, rows)
    slots = tuple(_shift_of(slot, shipped) for slot in shipped.slots)

    def forward(factors: Array) -> Array:
        return problem.forward(values_of(shipped.slots, base + np.log(factors)))

    shifts = hierarchy.fit(
        replace(mine, slots=slots, forward=forward),
        used=used,
        spreads={(slot.name, level): sd for slot in slots for level, sd in slot.levels.items()},
        noise_sd=shipped.noise_sd,
        rounds=ROUNDS,
    )
    deviations = dict(shipped.deviations)
    for slot in shipped.slots:
        if SOURCE_LEVEL in slot.levels:
            deviations[slot.name, SOURCE_LEVEL, ASKED] = Deviation(
                x=shifts.centres[slot.name], sd=shifts.centre_sds[slot.name], rows=shifts.rows, groups=shifts.groups
            )
    for (name, level, key), shift in shifts.deviations.items():
        known = deviations.get((name, level, key))
        deviations[name, level, key] = Deviation(
            x=shift.x + (known.x if known else 0.0), sd=shift.sd, rows=shift.rows, groups=shift.groups
        )
    return replace(shipped, deviations=deviations, rows=shifts.rows, groups=shifts.groups)


def recalibrated(
    problem: Problem, shipped: Parameters, *, told: Callable[[int, int], None] | None = None
) -> Recalibration:
    """Return the user's parameters with their left-out errors.

    Raises
    ------
    ValueError
        Fewer rows than can be left out in turn.
    """
    rows = len(problem.log_measured)
    if rows < FEWEST_ROWS:
        raise ValueError(f"{rows} usable rows are too few to fit on and to check: {FEWEST_ROWS} are the least")
    left_out = "groups" if len(set(problem.groups)) >= FOLDS else "rows"
    keys = list(problem.groups) if left_out == "groups" else [str(i) for i in range(rows)]
    fold = fold_of(keys, FOLDS)
    mine = asked(problem)
    first, first_sd = hierarchy.predict(mine, shipped)
    then, then_sd = np.empty(rows), np.empty(rows)
    novelty = [""] * rows
    for number in range(FOLDS):
        held = fold == number
        fitted = shifted(problem, shipped, used=~held)
        predicted, sd = hierarchy.predict(mine, fitted)
        then[held], then_sd[held] = predicted[held], sd[held]
        classes = novelty_of(fitted, mine.keys, rows)
        for i in np.flatnonzero(held).tolist():
            novelty[i] = classes[i]
        if told is not None:
            told(number + 1, FOLDS)
    return Recalibration(
        parameters=shifted(problem, shipped),
        before=_statistics(problem, shipped, first, first_sd, novelty_of(shipped, mine.keys, rows)),
        after=_statistics(problem, shipped, then, then_sd, novelty),
        folds=FOLDS,
        left_out=left_out,
        better=float(np.abs(then - problem.log_measured).mean()) <= float(np.abs(first - problem.log_measured).mean()),
    )


def _shift_of(slot: Slot, shipped: Parameters) -> Slot:
    """Return a shift as a slot of a fit: its prior spread is that between sources, or between keys of a level."""
    lean = float(
        np.hypot(
            shipped.spreads.get((slot.name, SOURCE_LEVEL), 0.0), shipped.spreads.get((slot.name, GROUP_LEVEL), 0.0)
        )
    )
    moves = SOURCE_LEVEL in slot.levels
    return Slot(
        name=slot.name,
        unit="factor in link space",
        link=Link.LOG,
        start=1.0,
        start_sd=max(lean, 1e-3) if moves else 1e-4,
        levels={level: _typical_sd(shipped, slot.name, level) for level in SHIFTED if level in slot.levels},
    )


def _typical_sd(shipped: Parameters, slot: str, level: str) -> float:
    """Return how unsure the shipped fit is of a key of a level, at the median; the spread of the level where it knows none."""
    known = [d.sd for (s, lv, _), d in shipped.deviations.items() if (s, lv) == (slot, level)]
    return max(float(np.median(known)) if known else shipped.spreads.get((slot, level), 0.0), 1e-3)


def _statistics(
    problem: Problem, shipped: Parameters, log_predicted: Array, sd: Array, novelty: list[str]
) -> Statistics:
    predicted = np.exp(log_predicted)
    low, high = bounds(shipped, predicted, sd, novelty)
    return statistics(np.exp(problem.log_measured), predicted, problem.groups, low=low, high=high)
