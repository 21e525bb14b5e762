"""Whether carrying measurements over pays: rows predicted from their neighbours, beside the model alone, by fits that had not seen them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from planner.calibration.evidence import MeasuredSpeed, as_request, by_place
from planner.perf.evidence import NUGGET, SOURCE, Distances, correction_of
from planner.perf.intervals import NORMAL_90

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Log errors [rows] of the model alone and of the model with evidence, and whether the row lay in the 80 % interval that is left."""

    model: Array
    evidence: Array
    inside_80: npt.NDArray[np.bool_]

    def line(self, name: str) -> str:
        """Return median and p90 of |measured / predicted - 1| for both, in one line."""
        if not len(self.model):
            return f"{name:40} {0:6} rows"
        m, e = np.expm1(np.abs(self.model)), np.expm1(np.abs(self.evidence))
        return (
            f"{name:40} {len(m):6} rows   model {np.median(m):6.1%} / {np.quantile(m, 0.9):6.1%}   with evidence "
            f"{np.median(e):6.1%} / {np.quantile(e, 0.9):6.1%}   inside 80 % interval {np.mean(self.inside_80):6.1%}"
        )


SHARES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Variances of "another source" that are tried, as shares of the level. At the last a published row of equal conditions weighs some 0.4:
that neither helped nor harmed language models' rows, whose sources the fit has already weighed against each other."""
LONGEST = 1.0
"""Log errors beyond this count as this much where source variances are compared."""


def with_source_variance(
    found: Sequence[MeasuredSpeed],
    ratios: Array,
    fold: npt.NDArray[np.int64],
    distances: Distances,
    *,
    folds: Collection[int] | None = None,
) -> Distances:
    """Return the distances with the variance of "another source" under which left-out rows are predicted best from other sources' rows.

    Not by pairs as the other conditions: rows of other sources have been fitted, so their log errors are smaller than those of the row.
    """

    def misfit(share: float) -> float:
        tried = at_share(distances, share)
        off = checked(found, ratios, fold, tried, same_source=False, folds=folds).evidence
        return float(np.mean(np.minimum(np.abs(off), LONGEST))) if len(off) else 0.0

    return at_share(distances, min(SHARES, key=lambda share: (misfit(share), -share)))


def at_share(distances: Distances, share: float) -> Distances:
    """Return the distances with the variance of "another source" at a share of the level."""
    return Distances(variances={**distances.variances, SOURCE: share * distances.level})


def nested(found: Sequence[MeasuredSpeed], ratios: Array, fold: npt.NDArray[np.int64], distances: Distances) -> Checked:
    """Return rows predicted from other sources', half of the folds with the source variance that the other half asks for."""
    parts = []
    for half in (0, 1):
        here = {k for k in fold.tolist() if k % 2 == half}
        elsewhere = {k for k in fold.tolist() if k % 2 != half}
        chosen = with_source_variance(found, ratios, fold, distances, folds=elsewhere)
        parts.append(checked(found, ratios, fold, chosen, same_source=False, folds=here))
    return Checked(
        model=np.concatenate([p.model for p in parts]),
        evidence=np.concatenate([p.evidence for p in parts]),
        inside_80=np.concatenate([p.inside_80 for p in parts]),
    )


def checked(
    found: Sequence[MeasuredSpeed],
    ratios: Array,
    fold: npt.NDArray[np.int64],
    distances: Distances,
    *,
    same_source: bool,
    folds: Collection[int] | None = None,
) -> Checked:
    """Return each row predicted from neighbours of its model and chip, by the fit that left its group out.

    `same_source`: from rows of its own source under other conditions (own measurements nearby); else from rows of other sources, and the
    row is asked as a user's request is: of no source. Rows of other sources in the same fold were not seen by the fit either and are no
    evidence at that moment.
    """
    model, evidence, inside = [], [], []
    for members in by_place(found).values():
        for each in members:
            own, at = each.witness.conditions, int(fold[each.case])
            if folds is not None and at not in folds:
                continue
            others = [
                f
                for f in members
                if (
                    f.source == each.source and f.witness.conditions != own
                    if same_source
                    else f.source != each.source and fold[f.case] != at
                )
            ]
            witnesses = [replace(f.witness, log_ratio=float(ratios[at, f.case])) for f in others]
            correction = correction_of(own if same_source else as_request(own), witnesses, distances)
            if correction is None:
                continue
            ratio = float(ratios[at, each.case])
            off = ratio - correction.log_factor
            model.append(ratio)
            evidence.append(off)
            sd = np.sqrt((distances.level + distances.variances[NUGGET]) * correction.left_fraction)
            inside.append(abs(off) <= NORMAL_90 * sd)
    return Checked(
        model=np.array(model),
        evidence=np.array(evidence),
        inside_80=np.array(inside, dtype=np.bool_),
    )
