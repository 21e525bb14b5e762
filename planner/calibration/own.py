"""A user's own measurements on top of the shipped parameters, which stay as they are: few shifts, held by what the shipped fit expects of them.

    x(row) = x_shipped(row, source unknown) + shift_own + shift_chip + shift_engine + shift_group

`shift_own` is how the user's set-up as a whole leans: at least the parameters in `LEANING`, which scale its times, as far as sources lean;
the others how their chips and engines differ from ours, each held as firmly as the shipped fit knows it; groups (source, model,
accelerator) scatter as ours do, and are not kept. Nothing else moves, so that ten rows cannot bend the physics. The result is a parameter set in
which the source of a user's request ("") is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from planner.calibration import hierarchy
from planner.calibration.folds import FOLDS, fold_of
from planner.calibration.hierarchy import Mask, Problem, values_of
from planner.calibration.statistics import Statistics, statistics
from planner.perf.intervals import bounds, novelty_of
from planner.perf.parameters import SOURCE_LEVEL, Deviation, Link, Parameters, Slot

Array = npt.NDArray[np.float64]

ASKED = ""
"""The source key of a user's request, and of nobody else."""
SHIFTED = ("chip", "engine")
GROUP_LEVEL = "group"
LEANING = {
    "serving": ("set_up",),
    "samples": ("pace",),
    "training": ("matmul_share", "expert_share", "attention_share", "traffic_share"),
}
"""Parameters that scale the times of a workload, whether or not sources of the shipped fit were given leans in them."""
LEAN_SD = 0.3
"""How far a set-up may lean in them, log: repeats of the same work differ by 1.2 to 1.45 between sources (`planner.calibration noise`)."""
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
    names = {level: sorted({key for key in mine.keys.get(level, ()) if key}) for level in SHIFTED}
    slots = tuple(_shift_of(slot, shipped, names) for slot in shipped.slots)
    # A level of its own for each key, as what is known of one key differs from what is known of another.
    alone = {GROUP_LEVEL: list(problem.groups)} | {
        _alone(level, key): [each if each == key else "" for each in mine.keys[level]]
        for level, keys in names.items()
        for key in keys
    }

    def forward(factors: Array) -> Array:
        return problem.forward(values_of(shipped.slots, base + np.log(factors)))

    shifts = hierarchy.fit(
        replace(mine, keys=alone, slots=slots, forward=forward),
        used=used,
        spreads={(slot.name, level): sd for slot in slots for level, sd in slot.levels.items()},
        noise_sd=shipped.noise_sd,
        rounds=ROUNDS,
    )
    leaning = {slot.name: _lean_sd(slot, shipped) for slot in shipped.slots if _leans(slot, shipped)}
    deviations = dict(shipped.deviations)
    for name in leaning:
        deviations[name, SOURCE_LEVEL, ASKED] = Deviation(
            x=shifts.centres[name], sd=shifts.centre_sds[name], rows=shifts.rows, groups=shifts.groups
        )
    levels = {_alone(level, key): level for level, keys in names.items() for key in keys}
    for (name, of_one, key), shift in shifts.deviations.items():
        if of_one == GROUP_LEVEL:
            continue
        level = levels[of_one]
        known = deviations.get((name, level, key))
        deviations[name, level, key] = Deviation(
            x=shift.x + (known.x if known else 0.0),
            sd=shift.sd,
            rows=shift.rows + (known.rows if known else 0),
            groups=shift.groups + (known.groups if known else 0),
        )
    return replace(
        shipped,
        slots=tuple(
            replace(slot, levels={**slot.levels, SOURCE_LEVEL: leaning[slot.name]}) if slot.name in leaning else slot
            for slot in shipped.slots
        ),
        deviations=deviations,
        rows=shifts.rows,
        groups=shifts.groups,
    )


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


def _leans(slot: Slot, shipped: Parameters) -> bool:
    return SOURCE_LEVEL in slot.levels or slot.name in LEANING[shipped.workload]


def _lean_sd(slot: Slot, shipped: Parameters) -> float:
    """Return how far a set-up may lean in a parameter: as far as sources do."""
    between = shipped.spreads.get((slot.name, SOURCE_LEVEL), 0.0)
    return max(between, LEAN_SD if slot.name in LEANING[shipped.workload] else 1e-3)


def _alone(level: str, key: str) -> str:
    return f"{level} {key}"


def _shift_of(slot: Slot, shipped: Parameters, names: Mapping[str, Sequence[str]]) -> Slot:
    """Return a shift as a slot of a fit: its prior spread is that between sources; of chips and engines how unsure the shipped fit is of them.

    `names`: the keys of each level that the user's rows have.
    """
    group_sd = max(shipped.spreads.get((slot.name, GROUP_LEVEL), 0.0), 1e-3)
    moves = _leans(slot, shipped)
    return Slot(
        name=slot.name,
        unit="factor in link space",
        link=Link.LOG,
        start=1.0,
        start_sd=_lean_sd(slot, shipped) if moves else 1e-4,
        levels={
            _alone(level, key): _sd(shipped, slot.name, level, key)
            for level, keys in names.items()
            if level in slot.levels
            for key in keys
        }
        | ({GROUP_LEVEL: group_sd} if GROUP_LEVEL in slot.levels else {}),
    )


def _sd(shipped: Parameters, slot: str, level: str, key: str) -> float:
    """Return how unsure the shipped fit is of a key of a level: the spread of the level where it does not know it."""
    known = shipped.deviations.get((slot, level, key))
    return max(shipped.spreads.get((slot, level), 0.0) if known is None else known.sd, 1e-3)


def _statistics(
    problem: Problem, shipped: Parameters, log_predicted: Array, sd: Array, novelty: list[str]
) -> Statistics:
    predicted = np.exp(log_predicted)
    low, high = bounds(shipped, predicted, sd, novelty)
    return statistics(np.exp(problem.log_measured), predicted, problem.groups, low=low, high=high)
