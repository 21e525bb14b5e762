"""`silicon`: how far measured operators, the model, and both together are off measured servers that neither had seen."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict

from planner.calibration.folds import LeftOut, cross_validated
from planner.calibration.model import Facts, Workload
from planner.calibration.silicon import Compared, Errors, compared, errors_of, shares_of, timed_cases
from planner.calibration.trials import fitted, trial_of
from planner.perf.silicon import Share
from planner.ports import Document, Predictor

COLUMNS = (
    *("left_out", "of", "predictor", "rows", "groups", "median_ape", "p90_ape", "mean_ape", "p90_factor", "within_2x"),
    *("bias", "coverage_80", "median_interval_factor", "group_median_ape", "group_p90_ape", "group_coverage_80"),
)
"""Columns of `validate --silicon` and of the table that the page of validation shows."""


def silicon_compared(
    facts: Facts, predictor: Predictor, *, told: Callable[[str, int, int], None] | None = None
) -> list[Compared]:
    """Return the shipped serving rows that the tables answer, beside the model's predictions with whole groups, then sources left out."""

    def tell(what: str, done: int, of: int) -> None:
        if told is not None:
            told(what, done, of)

    tell("reading", 0, 1)
    trial = trial_of(Workload.SERVING, facts)
    tell("asking the tables", 0, 1)
    timed = timed_cases(trial.reading, predictor.steps)
    tell("fitting all rows", 0, 1)
    whole = fitted(trial)
    out = []
    for each in (LeftOut.GROUPS, LeftOut.SOURCES):

        def told_of(done: int, of: int, what: str = f"leaving out {each.value}") -> None:
            tell(what, done, of)

        model = cross_validated(trial.problem, trial.reading.labels, whole, left_out=each, told=told_of)
        out.append(compared(trial.reading, timed, model))
    return out


def silicon_document(predictor: Predictor, rows: Sequence[Compared]) -> Document:
    """Return the errors of all predictors on the same rows, and the shares that follow from them."""
    groups, _ = rows
    return {
        "source": predictor.source,
        "errors": [dict(each) for part in rows for each in errors_of(part)],
        "shares": [asdict(each) for each in shares_of(groups)],
    }


def errors_csv(errors: Sequence[Errors]) -> str:
    """Return errors as a table of text, figures to four digits."""
    return _csv(COLUMNS, [[each[name] for name in COLUMNS] for each in errors])


def shares_csv(shares: Sequence[Share]) -> str:
    """Return shares as the table that `planner.perf.silicon` reads."""
    columns = tuple(Share.__dataclass_fields__)
    return _csv(columns, [[getattr(each, name) for name in columns] for each in shares])


def _csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    return out.getvalue()
