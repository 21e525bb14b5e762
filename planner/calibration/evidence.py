"""Evidence from measured rows: what each says beside the model, and how log errors drift apart with conditions.

Every row is predicted as a user's request would be: as one of no source and no group. `measured_speeds` keeps log(measured / model) at
given parameters, for the shipped table or for the user's own rows; `left_out_ratios` has it from fits that have not seen the row's
group, with which `distances_of` fits the variances of `planner.perf.evidence.Distances` to all pairs of rows of one model and chip: by
the composite likelihood of their differences (Cressie 1993, sec. 2.6), multiplicative updates as in Févotte, Bertin, Durrieu 2009
(eq. 3.7). `python -m planner.calibration.evidence_files` writes the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from planner.calibration import hierarchy
from planner.calibration.evidence_conditions import conditions_of
from planner.calibration.folds import FOLDS, fold_of, refit
from planner.calibration.hierarchy import Problem
from planner.calibration.model import Facts, Labels, Reading, Row, Workload
from planner.models.spec import ModelSpec
from planner.perf.evidence import (
    LEVEL,
    NUGGET,
    NUMBERS,
    SOURCE,
    WORDS,
    Conditions,
    Distances,
    Witness,
    difference,
    fingerprint,
)
from planner.perf.parameters import Parameters

Array = npt.NDArray[np.float64]
Kept = TypeVar("Kept")

MOST_ROWS = 250
"""Rows of one model and chip that enter pairs (a draw of chance where there are more)."""
ROUNDS = 200
FOLD_ROUNDS = 3
LONGEST = 9.0
"""Squared differences beyond this many times their expectation count as this many: repeats do go wrong by factors."""
BLIND_LEVELS = ("source", "group")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSpeed:
    """A measured speed as evidence: of which case, whose tensors, on which chip, and what it says beside the model."""

    case: int  # index in the reading
    witness: Witness
    model: str  # fingerprint of its tensors
    accelerator: str
    source: str

    @property
    def place(self) -> tuple[str, str]:
        """Return what must be equal for evidence: tensors and chip."""
        return (self.model, self.accelerator)


def blind(problem: Problem) -> Problem:
    """Return the problem with rows of no source and no group, as requests are."""
    rows = len(problem.log_measured)
    return replace(problem, keys={**problem.keys, **{level: [""] * rows for level in BLIND_LEVELS}})


def measured_speeds(
    reading: Reading, problem: Problem, parameters: Parameters, rows: Mapping[str, Row], facts: Facts
) -> list[MeasuredSpeed]:
    """Return every row that speaks of a known model's speed, beside its prediction as anybody's request; `rows` by their ids."""
    log_predicted, _ = hierarchy.predict(blind(problem), parameters)
    ratios = speed_ratios(reading, problem.log_measured - log_predicted)
    out = []
    for i, labels in enumerate(reading.labels):
        row = rows[reading.row_ids[i]]
        spec = model_of(row, facts)
        if spec is None or not (reading.main[i] and of_speed(labels)):
            continue
        stated = conditions_of(reading.workload, reading.cases[i], row, labels)
        source = source_of(row)
        out.append(
            MeasuredSpeed(
                case=i,
                witness=Witness(
                    row_id=reading.row_ids[i],
                    conditions=replace(stated, words={SOURCE: source, **stated.words}),
                    log_ratio=float(ratios[i]),
                ),
                model=fingerprint(spec),
                accelerator=labels.accelerator,
                source=source,
            )
        )
    return out


def left_out_ratios(
    reading: Reading,
    problem: Problem,
    whole: Parameters,
    *,
    folds: int = FOLDS,
    seed: int = 0,
    told: Callable[[int, int], None] | None = None,
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return log(measured / model) of speed by the fit of each fold [folds, cases], rows as requests, and each case's fold."""
    fold = fold_of([labels.group for labels in reading.labels], folds, seed)
    out = np.empty((folds, len(fold)))
    asked = blind(problem)
    for number in range(folds):
        parameters = refit(problem, fold != number, whole, rounds=FOLD_ROUNDS)
        log_predicted, _ = hierarchy.predict(asked, parameters)
        out[number] = speed_ratios(reading, problem.log_measured - log_predicted)
        if told is not None:
            told(number + 1, folds)
    return out, fold


def speed_ratios(reading: Reading, log_ratios: Array) -> Array:
    """Return log ratios of speed: those of times turned round."""
    signs = np.array([-1.0 if is_time(labels) else 1.0 for labels in reading.labels])
    return np.asarray(log_ratios * signs, dtype=np.float64)


def source_of(row: Row) -> str:
    """Return whose a row is."""
    return row.get("source_family") or row.get("source", "")


def model_of(row: Row, facts: Facts) -> ModelSpec | None:
    """Return the model of a row where its config is known; a shape made up from a number of parameters is nobody's."""
    return facts.find_model(row.get("model", ""))


def is_time(labels: Labels) -> bool:
    """Return whether less is faster."""
    return labels.metric.endswith("_ms") or labels.unit in {"ms", "s", "min"}


def of_speed(labels: Labels) -> bool:
    """Return whether a figure speaks of speed in steady state: a rate, or the time of a request or step; not the first token's."""
    return "memory" not in labels.metric and not labels.metric.startswith("ttft")


def distances_of(
    found: Sequence[MeasuredSpeed],
    ratios: Array,
    fold: npt.NDArray[np.int64],
    workload: Workload,
    *,
    seed: int = 0,
) -> Distances:
    """Return the distances that pairs of rows of one model and chip speak of.

    `ratios` [folds, cases] are read in the fold of the first of a pair, which has not seen its group: what a request meets.
    """
    names = (SOURCE, *WORDS[workload.value], *NUMBERS[workload.value])
    differences, squares = [], []
    draw = np.random.default_rng(seed)
    for members in by_place(found).values():
        kept = drawn(members, draw)
        if len(kept) < 2:
            continue
        at = [f.witness.conditions for f in kept]
        cases = np.array([f.case for f in kept])
        one, other = np.nonzero(~np.eye(len(kept), dtype=np.bool_))
        differences.append(np.stack([difference(n, at, at)[one, other] for n in names], axis=1))
        seen = fold[cases[one]]
        squares.append((ratios[seen, cases[one]] - ratios[seen, cases[other]]) ** 2 / 2)
    held = np.array([ratios[fold[f.case], f.case] for f in found])
    level = clipped_variance(held)
    X, y = np.concatenate(differences), np.concatenate(squares)
    X = np.concatenate([X, np.ones((len(y), 1))], axis=1)
    w = np.full(X.shape[1], level / X.shape[1])
    for _ in range(ROUNDS):
        kept_share = np.exp(-(X[:, :-1] @ w[:-1]) / level)
        v = level * (1 - kept_share) + w[-1]
        clipped = np.minimum(y, LONGEST * v)
        slope = np.concatenate([X[:, :-1] * kept_share[:, None], X[:, -1:]], axis=1)
        w = w * np.sqrt((slope.T @ (clipped / v**2)) / np.maximum(slope.T @ (1 / v), 1e-12))
    variances = {name: float(x) for name, x in zip(names, w[:-1], strict=True)}
    return Distances(variances={**variances, NUGGET: float(w[-1]), LEVEL: max(level - float(w[-1]), 1e-3)})


def drawn(members: Sequence[Kept], draw: np.random.Generator) -> Sequence[Kept]:
    """Return all members, or as many of them as enter pairs, by chance."""
    if len(members) <= MOST_ROWS:
        return members
    return [members[i] for i in draw.permutation(len(members))[:MOST_ROWS]]


def clipped_variance(ratios: Array) -> float:
    """Return the mean square of log errors, none counted for more than `LONGEST` times it."""
    level = float(np.mean(ratios**2))
    for _ in range(ROUNDS):
        level = float(np.mean(np.minimum(ratios**2, LONGEST * level)))
    return level


def by_place(found: Sequence[MeasuredSpeed]) -> Mapping[tuple[str, str], list[MeasuredSpeed]]:
    """Return the rows of each model and chip."""
    out: dict[tuple[str, str], list[MeasuredSpeed]] = {}
    for each in found:
        out.setdefault(each.place, []).append(each)
    return out


def as_request(conditions: Conditions) -> Conditions:
    """Return conditions as a request of no source has them."""
    return replace(conditions, words={**conditions.words, SOURCE: ""})
