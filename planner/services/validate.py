"""`validate`: what the model predicts for measured rows, and how far off it is: overall, by dimension, and row by row."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from planner.calibration.columns import (
    ROW_ID,
    Measurements,
    MeasurementsError,
    parse_measurements,
    shipped_measurements,
)
from planner.calibration.folds import FOLDS, LeftOut, cross_validated
from planner.calibration.model import Facts, Figure, Physics, Reading, Skipped, Workload
from planner.calibration.noise import PLAUSIBLE, floor_of, repeats_of
from planner.calibration.own import ASKED
from planner.calibration.report import by_novelty, worst_groups
from planner.calibration.statistics import DIMENSIONS, listed, of_figures
from planner.calibration.trials import figures_checked, fitted, physics_of, sampled, trial_of
from planner.perf.parameters import Parameters, shipped
from planner.ports import Document
from pricing.errors import NotReadable
from pricing.plain_files import read_plain, reason

LARGEST_BYTES = 256 * 2**20
NOT_PREDICTED = "not predicted"
"""Reason of a row that was read and for which the model gave no figure above zero."""
NOT_PLAUSIBLE = "not a plausible figure"
"""Reason of a row whose measured figure is more than `PLAUSIBLE` times off what is predicted: of another unit, or a slip."""
MOST_ROWS_NAMED = 5
"""Rows named of each reason for which rows are skipped."""

FIRST_COLUMNS = ("row_id", "measured", "predicted", "low", "high", "ape")
ROW_COLUMNS = (
    *FIRST_COLUMNS,
    *(
        "metric",
        "unit",
        "group",
        "source",
        "model",
        "accelerator",
        "engine",
        "family",
        "precision",
        "parallelism",
        "novelty",
    ),
)
FURTHER_COLUMNS = ("measured", "predicted", "low", "high", "ape")
"""Of each figure beside the main one; the column is `METRIC.measured` and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """The answer, and every figure behind it."""

    document: Document
    figures: Sequence[Figure]


def read_measurements(path: Path) -> Measurements:
    """Return the measurements of a file; NotReadable in one line where it is none."""
    data = read_plain(path, most_bytes=LARGEST_BYTES)
    try:
        return parse_measurements(data)
    except MeasurementsError as e:
        raise NotReadable(path=str(path), why=str(e)) from e


def validate_measurements(
    measurements: Measurements, facts: Facts, *, parameters: Parameters | None = None, physics: Physics | None = None
) -> Validated:
    """Return the errors of the model on measurements: with the shipped parameters and physics of their workload, or others."""
    workload = measurements.workload
    physics = physics or physics_of(workload)
    reading = physics.read(measurements.rows, facts)
    used = parameters or shipped(workload.value)
    figures = as_asked(reading, used, physics) if reading.cases else ()
    return validated(measurements, reading, figures, used)


def as_asked(reading: Reading, parameters: Parameters, physics: Physics) -> Sequence[Figure]:
    """Return what the model predicts for each case; by a user's own parameters as for a request of theirs, whatever source a row names."""
    if not parameters.own:
        return physics.figures(reading, parameters)
    asked = replace(reading, labels=[replace(labels, source=ASKED) for labels in reading.labels])
    found = physics.figures(asked, parameters)
    return [replace(figure, labels=labels) for figure, labels in zip(found, reading.labels, strict=True)]


def validate_shipped(workload: Workload, facts: Facts, *, sample: int | None = None, seed: int = 0) -> Validated:
    """Return the errors of the shipped parameters on the shipped table, or on a sample of it in whole groups."""
    table = shipped_measurements(workload)
    if sample is not None:
        table = replace(table, rows=sampled(table.rows, sample, seed))
    return validate_measurements(table, facts)


def validate_left_out(
    workload: Workload,
    facts: Facts,
    *,
    left_out: LeftOut,
    folds: int = FOLDS,
    sample: int | None = None,
    seed: int = 0,
    told: Callable[[str, int, int], None] | None = None,
) -> Validated:
    """Return the errors of the model on the shipped table of a workload, each row predicted by a fit that had not seen it.

    Whole groups, sources, chips or models are left out; intervals come from residuals of other groups. `told` hears (what, done, of).
    """

    def tell(what: str, done: int, of: int) -> None:
        if told is not None:
            told(what, done, of)

    tell("reading", 0, 1)
    trial = trial_of(workload, facts, sample=sample, seed=seed)
    tell("fitting all rows", 0, 1)
    whole = fitted(trial)
    left = []
    for each in dict.fromkeys((left_out, LeftOut.GROUPS, LeftOut.SOURCES)):
        # Intervals need residuals of known and of new sources, whichever is asked for.
        what = f"leaving out {each.value}"
        left.append(
            cross_validated(
                trial.problem,
                trial.reading.labels,
                whole,
                left_out=each,
                folds=folds,
                seed=seed,
                told=lambda done, of, what=what: tell(what, done, of),  # type: ignore[misc]  # the name is bound now
            )
        )
    figures = figures_checked(trial, left, left[0], whole)
    return validated(
        Measurements(workload=workload, rows=trial.rows, sha256=trial.sha256),
        trial.reading,
        figures,
        whole,
        left_out=left_out,
        folds=folds,
    )


def validated(
    measurements: Measurements,
    reading: Reading,
    figures: Sequence[Figure],
    parameters: Parameters,
    *,
    left_out: LeftOut | None = None,
    folds: int | None = None,
) -> Validated:
    """Return the document of some predictions, and the figures in the units of the file."""
    sound, unsound = _sound(figures)
    sound = as_stated(sound, measurements)
    main = [f for f in sound if f.main]
    total = len(measurements.rows)
    skipped = [*reading.skipped, *unsound]
    told_of = {f.row_id for f in main} | {s.row_id for s in skipped}
    silent = [row for row in measurements.rows if row[ROW_ID[measurements.workload]] not in told_of]
    reasons = Counter(s.reason for s in skipped)
    if silent:
        reasons[NOT_PREDICTED] += len(silent)
    key = ROW_ID[measurements.workload]
    named: dict[str, list[str]] = {}
    for reason_of, row_id in [*((s.reason, s.row_id) for s in skipped), *((NOT_PREDICTED, row[key]) for row in silent)]:
        ids = named.setdefault(reason_of, [])
        if len(ids) < MOST_ROWS_NAMED:
            ids.append(row_id)
    overall = asdict(of_figures(main))
    eligible = len(main) + sum(s.eligible for s in skipped) + len(silent)
    document: dict[str, Any] = {
        "overall": {
            "rows_total": total,
            "rows_eligible": eligible,
            "rows_used": len(main),
            "rows_skipped": total - len(main),
            "skipped_reasons": dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
            **{name: value for name, value in overall.items() if name != "rows"},
        },
        "skipped_rows": {reason_of: named[reason_of] for reason_of in sorted(named, key=lambda r: (-reasons[r], r))},
        "unknown_columns": [{"name": name, "nearest": near or None} for name, near in measurements.unknown.items()],
        "by": with_floors(listed(sound), sound, measurements),
        "workload": measurements.workload.value,
        "data_sha256": measurements.sha256,
        "left_out": None if left_out is None else left_out.value,
        "folds": folds,
        "noise": [
            asdict(each) | {"floor_median_ape": each.floor_median_ape}
            for each in repeats_of(measurements.workload, measurements.rows)
        ],
        "parameters": {
            "whose": "own" if parameters.own else "shipped",
            "version": parameters.version,
            "fitted_on": parameters.fitted_on,
            "data_sha256": parameters.data_sha256,
            "rows": parameters.rows,
        },
        **{name.replace(" ", "_"): rows for name, rows in by_novelty(sound).items()},
        "worst_groups": [
            {"group": name, "rows": rows, "median_factor": factor} for name, rows, factor in worst_groups(main)
        ],
        "notes": list(reading.notes),
    }
    return Validated(document=document, figures=sound)


def with_floors(
    by: dict[str, list[dict[str, object]]], figures: Sequence[Figure], measurements: Measurements
) -> dict[str, list[dict[str, object]]]:
    """Return the errors by dimension with `noise_floor_ape` beside them: the median error that repeats of the same work leave to any model."""
    rows = {row[ROW_ID[measurements.workload]]: row for row in measurements.rows}
    for name, key_of in DIMENSIONS.items():
        ids: dict[str, set[str]] = {}
        for figure in figures:
            if figure.main:
                ids.setdefault(key_of(figure), set()).add(figure.row_id)
        for each in by[name]:
            of = [rows[i] for i in ids.get(str(each["key"]), ()) if i in rows]
            each["noise_floor_ape"] = floor_of(measurements.workload, of)
    return by


def as_stated(figures: Sequence[Figure], measurements: Measurements) -> list[Figure]:
    """Return the figures with main ones in the unit of the file's `metric_value`, where a reader turned it into another (per GPU into all)."""
    stated = {}
    for row in measurements.rows:
        try:
            stated[row[ROW_ID[measurements.workload]]] = float(row["metric_value"].replace(",", ""))
        except ValueError:
            continue
    out = []
    for figure in figures:
        value = stated.get(figure.row_id, figure.measured) if figure.main else figure.measured
        out.append(figure if value == figure.measured or value <= 0 else _scaled(figure, value / figure.measured))
    return out


def rows_of_figures(figures: Sequence[Figure]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return (columns, rows) of the per-row file: one row for each main figure, and the others of that row beside it."""
    metrics = sorted({f.labels.metric for f in figures if not f.main})
    columns = [*ROW_COLUMNS, *(f"{metric}.{name}" for metric in metrics for name in FURTHER_COLUMNS)]
    rows: dict[str, dict[str, Any]] = {}
    for f in figures:
        if f.main:
            rows[f.row_id] = dict.fromkeys(columns) | {
                "row_id": f.row_id,
                **_numbers(f),
                **{name: getattr(f.labels, name) for name in ROW_COLUMNS if hasattr(f.labels, name)},
                "novelty": f.novelty,
            }
    for f in figures:
        if not f.main and f.row_id in rows:
            rows[f.row_id] |= {f"{f.labels.metric}.{name}": value for name, value in _numbers(f).items()}
    return columns, list(rows.values())


def write_whole(path: Path, text: str) -> None:
    """Write a file at once or not at all: a reader sees the old one or the new one. NotReadable says why it cannot be."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise NotReadable(path=str(path), why="is no plain file; give the name of one")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as e:
        temporary.unlink(missing_ok=True)
        if isinstance(e, (OSError, ValueError)):
            why = f"there is no folder {path.parent}" if isinstance(e, FileNotFoundError) else reason(e)
            raise NotReadable(path=str(path), why=f"cannot be written: {why}") from e
        raise


def _numbers(f: Figure) -> dict[str, float]:
    return {
        "measured": f.measured,
        "predicted": f.predicted,
        "low": f.low,
        "high": f.high,
        "ape": abs(f.predicted / f.measured - 1),
    }


def _scaled(f: Figure, factor: float) -> Figure:
    return Figure(
        row_id=f.row_id,
        main=f.main,
        labels=f.labels,
        measured=f.measured * factor,
        predicted=f.predicted * factor,
        low=f.low * factor,
        high=f.high * factor,
        novelty=f.novelty,
    )


def _sound(figures: Sequence[Figure]) -> tuple[list[Figure], list[Skipped]]:
    """Return the figures that are plausible numbers above zero, and what is said of the rows whose main figure is none."""
    sound, unsound = [], []
    for f in figures:
        values = (f.measured, f.predicted, f.low, f.high)
        if all(np.isfinite(v) and v > 0 for v in values):
            if abs(np.log(f.measured) - np.log(f.predicted)) <= np.log(PLAUSIBLE):
                sound.append(f)
            elif f.main:
                detail = f"{f.measured:g} {f.labels.unit}, predicted {f.predicted:g}"
                unsound.append(Skipped(row_id=f.row_id, reason=NOT_PLAUSIBLE, detail=detail, eligible=True))
        elif f.main:
            detail = f"predicted {f.predicted:g} for {f.measured:g} {f.labels.unit}"
            unsound.append(Skipped(row_id=f.row_id, reason=NOT_PREDICTED, detail=detail, eligible=True))
    return sound, unsound
