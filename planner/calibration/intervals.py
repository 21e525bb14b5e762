"""Conformal intervals: the multiples of the predicted spread between which 80 % of rows lay that a fit had not seen, by novelty class.

    z = log(measured / predicted) / sd,   low, high = 10th and 90th percentile of z in the class

Percentiles are corrected for the finite number of rows (n + 1 instead of n), and asymmetric, as errors are. Vovk et al. 2005,
Algorithmic Learning in a Random World; Lei et al. 2018, Distribution-Free Predictive Inference for Regression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from planner.calibration.folds import LeftOut, Predictions
from planner.calibration.statistics import quantile
from planner.perf.intervals import (
    KNOWN_SOURCE,
    NEW_CHIP,
    NEW_MODEL,
    NEW_SOURCE,
    NEW_SOURCE_AND_CHIP,
    bounds,
    novelty_of,
)
from planner.perf.parameters import IntervalRow

__all__ = ["FEWEST_GROUPS", "FEWEST_ROWS", "bounds", "conformal", "halves", "multiples", "novelty_of"]

Array = npt.NDArray[np.float64]

LOW_SHARE, HIGH_SHARE = 0.1, 0.9
SHOWN_BY: Mapping[str, tuple[LeftOut, ...]] = {
    KNOWN_SOURCE: (LeftOut.GROUPS,),
    NEW_SOURCE: (LeftOut.GROUPS, LeftOut.SOURCES),
    NEW_CHIP: (LeftOut.GROUPS, LeftOut.CHIPS),
    NEW_MODEL: (LeftOut.GROUPS, LeftOut.MODELS),
}
"""Which ways of leaving out show the errors of a class; all where it is not named. A row of a known source whose whole chip or model was
left out errs more than the next group of that source does."""
NO_NARROWER: Mapping[str, tuple[str, ...]] = {
    NEW_SOURCE: (KNOWN_SOURCE,),
    NEW_CHIP: (KNOWN_SOURCE,),
    NEW_MODEL: (KNOWN_SOURCE,),
    NEW_SOURCE_AND_CHIP: (KNOWN_SOURCE, NEW_SOURCE, NEW_CHIP),
}
"""Of whom a class knows less than others do, it takes no smaller multiples, however well its few rows happened to be met."""
FEWEST_ROWS, FEWEST_GROUPS = 20, 4
"""A class with fewer left-out rows or groups gets no multiples of its own: those of the next wider class hold for it."""


def multiples(z: Array) -> tuple[float, float]:
    """Return the 10th and 90th percentile of z [rows], a little further out as only so many were seen.

    All rows weigh the same: weights that give groups more of a say made samples and Volta fall short, see the page of validation.
    """
    share = min(1.0, HIGH_SHARE * (len(z) + 1) / len(z))
    return quantile(z, 1 - share), quantile(z, share)


def conformal(
    predictions: Sequence[Predictions], groups: Sequence[str], *, used: npt.NDArray[np.bool_] | None = None
) -> Mapping[str, IntervalRow]:
    """Return the multiples of each novelty class from cross-validations of the same problem, whose rows are of these groups.

    `used` [rows]: of which rows residuals are taken, all by default.
    """
    z_of: dict[str, list[float]] = {}
    groups_of: dict[str, list[str]] = {}
    for each in predictions:
        z = each.residual / each.sd
        for i in range(len(z)) if used is None else np.flatnonzero(used).tolist():
            name = each.novelty[i]
            if each.left_out in SHOWN_BY.get(name, tuple(LeftOut)):
                z_of.setdefault(name, []).append(float(z[i]))
                groups_of.setdefault(name, []).append(groups[i])
    out = {}
    for name, values in sorted(z_of.items()):
        count = len(set(groups_of[name]))
        if len(values) >= FEWEST_ROWS and count >= FEWEST_GROUPS:
            low, high = multiples(np.array(values))
            # An interval holds the prediction itself, whatever the bias of a class.
            out[name] = IntervalRow(low=min(low, -0.05), high=max(high, 0.05), rows=len(values), groups=count)
    return {
        name: _no_narrower(row, [out[n] for n in NO_NARROWER.get(name, ()) if n in out]) for name, row in out.items()
    }


def _no_narrower(row: IntervalRow, than: Sequence[IntervalRow]) -> IntervalRow:
    return (
        replace(row, low=min(row.low, *(o.low for o in than)), high=max(row.high, *(o.high for o in than)))
        if than
        else row
    )


def halves(groups: Sequence[str], seed: int = 0) -> npt.NDArray[np.bool_]:
    """Return a split of rows into two halves by whole groups: multiples from one are checked on the other."""
    names = sorted(set(groups))
    np.random.default_rng(seed).shuffle(names)
    first = set(names[: len(names) // 2])
    return np.array([group in first for group in groups], dtype=np.bool_)
