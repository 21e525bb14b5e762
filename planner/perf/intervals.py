"""How far a prediction may be off: novelty of what was asked, and the interval that held 80 % of the time for that class.

    low, high = predicted * exp(multiple_low * sd), predicted * exp(multiple_high * sd)

`sd` is the spread of log(measured / predicted) that the fitted parameters give (posterior where a key was measured, the spread
between keys of its level where it was not). The multiples come with the parameters, by novelty class, from rows that a fit had not
seen (`planner.calibration.intervals`): split-conformal prediction, Lei et al. 2018, with asymmetric ends as in Linusson et al. 2014.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from planner.perf.parameters import SOURCE_LEVEL, IntervalRow, Parameters

Array = npt.NDArray[np.float64]

KNOWN_SOURCE, NEW_SOURCE = "known source", "new source"
NEW_CHIP, NEW_SOURCE_AND_CHIP = "new chip", "new source and chip"
NEW_MODEL = "new model"
CLASSES = (KNOWN_SOURCE, NEW_SOURCE, NEW_CHIP, NEW_SOURCE_AND_CHIP, NEW_MODEL)

CHIP_LEVEL, MODEL_LEVEL = "chip", "model"
NEXT_WIDER: Mapping[str, tuple[str, ...]] = {
    KNOWN_SOURCE: (NEW_SOURCE,),
    NEW_SOURCE: (NEW_SOURCE_AND_CHIP, KNOWN_SOURCE),
    NEW_CHIP: (NEW_SOURCE_AND_CHIP, NEW_SOURCE),
    NEW_SOURCE_AND_CHIP: (NEW_CHIP, NEW_SOURCE),
    NEW_MODEL: (NEW_SOURCE, KNOWN_SOURCE),
}
"""Whose multiples are taken where too few rows of a class were left out to have its own."""
NORMAL_90 = 1.2815515655446004
"""The 90th percentile of a standard normal: the multiple of parameters that carry none."""


def novelty_of(parameters: Parameters, keys: Mapping[str, Sequence[str]], rows: int) -> list[str]:
    """Return the novelty class of each row: which of its source, chip and model no measurement speaks of.

    A level that the parameters do not have, or that the keys do not give, says nothing; an empty key ("" for a user's request) is new.
    """
    levels, known = _spoken_of(parameters)

    def new(level: str) -> list[bool]:
        if level not in levels or level not in keys:
            return [False] * rows
        there = known.get(level, set())
        return [key not in there for key in keys[level]]

    return [
        NEW_SOURCE_AND_CHIP
        if source and chip
        else NEW_CHIP
        if chip
        else NEW_SOURCE
        if source
        else NEW_MODEL
        if model
        else KNOWN_SOURCE
        for source, chip, model in zip(new(SOURCE_LEVEL), new(CHIP_LEVEL), new(MODEL_LEVEL), strict=True)
    ]


_SPOKEN: dict[int, tuple[Parameters, set[str], dict[str, set[str]]]] = {}
_MOST_KEPT = 8


def _spoken_of(parameters: Parameters) -> tuple[set[str], dict[str, set[str]]]:
    """Return the levels of some parameters and the keys of each that measurements speak of; kept for the last few parameters."""
    kept = _SPOKEN.get(id(parameters))
    if kept is None or kept[0] is not parameters:
        levels = {level for slot in parameters.slots for level in slot.levels}
        known: dict[str, set[str]] = {}
        for _, level, key in parameters.deviations:
            known.setdefault(level, set()).add(key)
        while len(_SPOKEN) >= _MOST_KEPT:
            del _SPOKEN[next(iter(_SPOKEN))]
        kept = _SPOKEN[id(parameters)] = (parameters, levels, known)
    return kept[1], kept[2]


def multiples_of(parameters: Parameters, novelty: Sequence[str]) -> tuple[Array, Array]:
    """Return the multiples (low, high) of the predicted spread for each row; those of the next wider class where its own is missing."""
    found = {name: _row(parameters.intervals, name) for name in set(novelty)}
    return np.array([found[n][0] for n in novelty]), np.array([found[n][1] for n in novelty])


def _row(intervals: Mapping[str, IntervalRow], name: str) -> tuple[float, float]:
    for candidate in (name, *NEXT_WIDER.get(name, (NEW_SOURCE, KNOWN_SOURCE))):
        if candidate in intervals:
            return intervals[candidate].low, intervals[candidate].high
    return -NORMAL_90, NORMAL_90


def bounds(parameters: Parameters, predicted: Array, sd: Array, novelty: Sequence[str]) -> tuple[Array, Array]:
    """Return p10 and p90 of figures [rows] in their own unit; `sd` is of log(measured / predicted)."""
    low, high = multiples_of(parameters, novelty)
    return predicted * np.exp(low * sd), predicted * np.exp(high * sd)
