"""Cross-validation that leaves out whole groups, sources, chips or models, and predicts what the fit has not seen.

Each fold is fitted anew on the other rows, from the whole fit with its spreads and noise (a handful of hyper-parameters that no single
fold moves), for a few rounds. Keys that only left-out rows have are unknown to the fold's parameters, so a left-out source has no
deviation of its own and its interval widens, as it would for anybody's next measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from planner.calibration import hierarchy
from planner.calibration.hierarchy import Mask, Problem
from planner.calibration.model import Labels
from planner.perf.intervals import novelty_of
from planner.perf.parameters import Parameters

Array = npt.NDArray[np.float64]

FOLDS = 5
ROUNDS = 4
"""Gauss-Newton steps of a fold, from the whole fit."""


class LeftOut(StrEnum):
    """What is left out whole."""

    GROUPS = "groups"  # (source, model, accelerator)
    SOURCES = "sources"
    CHIPS = "chips"
    MODELS = "models"


KEY_OF: dict[LeftOut, Callable[[Labels], str]] = {
    LeftOut.GROUPS: lambda labels: labels.group,
    LeftOut.SOURCES: lambda labels: labels.source,
    LeftOut.CHIPS: lambda labels: labels.accelerator,
    LeftOut.MODELS: lambda labels: labels.model,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """What was predicted for each case [cases] by a fit that had not seen it, in the order of the problem."""

    left_out: LeftOut
    fold: npt.NDArray[np.int64]
    log_predicted: Array
    sd: Array  # of log(measured / predicted)
    novelty: tuple[str, ...]
    log_measured: Array

    @property
    def residual(self) -> Array:
        """Return log(measured / predicted)."""
        return self.log_measured - self.log_predicted


def fold_of(keys: Sequence[str], folds: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Return the fold of each row: whole keys in an order of chance, each into the fold with the fewest rows so far.

    Keys with more rows than a fold's share come first, so that a source with half of all rows is left out alone.
    """
    rows_of: dict[str, int] = {}
    for key in keys:
        rows_of[key] = rows_of.get(key, 0) + 1
    names = sorted(rows_of)
    np.random.default_rng(seed).shuffle(names)
    share = len(keys) / folds
    names.sort(key=lambda name: -rows_of[name] if rows_of[name] > share else 0)
    filled = [0] * folds
    at: dict[str, int] = {}
    for name in names:
        at[name] = min(range(folds), key=filled.__getitem__)
        filled[at[name]] += rows_of[name]
    return np.array([at[key] for key in keys], dtype=np.int64)


def cross_validated(
    problem: Problem,
    labels: Sequence[Labels],
    whole: Parameters,
    *,
    left_out: LeftOut = LeftOut.GROUPS,
    folds: int = FOLDS,
    seed: int = 0,
    rounds: int = ROUNDS,
    told: Callable[[int, int], None] | None = None,
) -> Predictions:
    """Return the prediction of every case by the fit of the other folds; `told` hears (folds done, folds)."""
    keys = [KEY_OF[left_out](each) for each in labels]
    folds = min(folds, len(set(keys)))
    if folds < 2:
        raise ValueError(f"{left_out.value} cannot be left out: all rows are of one ({keys[0] if keys else 'none'})")
    fold = fold_of(keys, folds, seed)
    log_predicted, sd = np.empty(len(keys)), np.empty(len(keys))
    novelty = [""] * len(keys)
    for number, held in _held(fold, folds):
        fitted = refit(problem, ~held, whole, rounds=rounds)
        predicted, spread = hierarchy.predict(problem, fitted)
        classes = novelty_of(fitted, problem.keys, len(keys))
        log_predicted[held], sd[held] = predicted[held], spread[held]
        for i in np.flatnonzero(held).tolist():
            novelty[i] = classes[i]
        if told is not None:
            told(number + 1, folds)
    return Predictions(
        left_out=left_out,
        fold=fold,
        log_predicted=log_predicted,
        sd=sd,
        novelty=tuple(novelty),
        log_measured=problem.log_measured,
    )


def refit(problem: Problem, used: Mask, whole: Parameters, *, rounds: int = ROUNDS) -> Parameters:
    """Return the fit of the used rows alone, from the whole fit, with its spreads and noise."""
    fitted = hierarchy.fit(
        problem, used=used, start=whole, spreads=whole.spreads, noise_sd=whole.noise_sd, rounds=rounds
    )
    return replace(fitted, intervals=whole.intervals)


def _held(fold: npt.NDArray[np.int64], folds: int) -> Iterator[tuple[int, Mask]]:
    for number in range(folds):
        yield number, fold == number
