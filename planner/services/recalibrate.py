"""`recalibrate`: a user's own rows fitted on top of the shipped parameters, kept in the data directory and apart from ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from planner.calibration import hierarchy
from planner.calibration.columns import Measurements
from planner.calibration.hierarchy import Problem
from planner.calibration.model import Facts, Reading, Workload
from planner.calibration.own import asked, recalibrated
from planner.calibration.trials import physics_of
from planner.perf.parameters import Parameters, shipped, to_json
from planner.ports import Document
from planner.services.own_evidence import based_on
from planner.services.validate import write_whole
from pricing.errors import NotReadable

FOLDER = "calibration"
FARTHEST = 10.0
"""A rate so many times off the shipped prediction is of another unit or another work: no set-up makes that of hardware."""


class TooFewRows(NotReadable):
    """A file of measurements has too little to fit on."""


def parameters_file(data: Path, workload: Workload) -> Path:
    """Return where a user's own parameters are kept."""
    return data / FOLDER / f"own_{workload.value}.json"


def rows_file(data: Path, workload: Workload) -> Path:
    """Return where a user's own rows are kept, which answer requests of the same work."""
    return data / FOLDER / f"own_rows_{workload.value}.csv"


def recalibrate(
    path: Path,
    measurements: Measurements,
    content: str,
    facts: Facts,
    *,
    data: Path,
    now: datetime,
    told: Callable[[int, int], None] | None = None,
) -> Document:
    """Fit the rows of a file, and keep parameters and rows where left-out rows are predicted no worse than before.

    The document says what was fitted, the left-out errors before and after, and whether it was kept.
    """
    workload = measurements.workload
    physics = physics_of(workload)
    reading = physics.read(measurements.rows, facts)
    ours = shipped(workload.value)
    if not reading.cases:
        raise TooFewRows(path=str(path), why="has no row that can be predicted; `planner validate` says why")
    problem = physics.problem(reading)
    finite = np.isfinite(problem.log_measured)
    if not finite.all():
        raise TooFewRows(path=str(path), why="has figures that are not above zero")
    _refuse_the_absurd(path, reading, problem, ours)
    try:
        found = recalibrated(problem, ours, told=told)
    except ValueError as e:
        raise TooFewRows(path=str(path), why=str(e)) from e
    own = replace(
        found.parameters,
        version=based_on(ours),
        fitted_on=now.date().isoformat(),
        data_sha256=measurements.sha256,
    )
    if found.better:
        target = parameters_file(data, workload)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise NotReadable(path=str(target.parent), why=f"cannot be made: {e.strerror or e}") from e
        write_whole(rows_file(data, workload), content)
        write_whole(target, to_json(own))
    return {
        "workload": workload.value,
        "kept": found.better,
        "why": "left-out rows are predicted at least as well"
        if found.better
        else "left-out rows would be predicted worse than by the shipped parameters: nothing was written",
        "rows_used": found.parameters.rows,
        "groups": found.parameters.groups,
        "rows_skipped": len(reading.skipped),
        "left_out": found.left_out,
        "folds": found.folds,
        "before": asdict(found.before),
        "after": asdict(found.after),
        "shifts": shifts_of(own, ours),
        "data_sha256": measurements.sha256,
        "file": str(parameters_file(data, workload)) if found.better else None,
    }


def _refuse_the_absurd(path: Path, reading: Reading, problem: Problem, ours: Parameters) -> None:
    """Raise NotReadable naming the row that is farthest off, where one is too far."""
    log_ratio = problem.log_measured - hierarchy.predict(asked(problem), ours)[0]
    worst = int(np.argmax(np.abs(log_ratio)))
    times = float(np.exp(np.abs(log_ratio[worst])))
    if times > FARTHEST:
        measured = float(np.exp(problem.log_measured[worst]))
        metric = reading.labels[worst].metric
        raise NotReadable(
            path=str(path),
            why=f"row {reading.row_ids[worst]}: {metric} of {measured:,.6g} is {times:,.0f} times {'above' if log_ratio[worst] > 0 else 'below'} "
            "what is predicted; correct its unit or its shape, or leave it out",
        )


def forget(data: Path) -> Document:
    """Remove a user's own parameters and rows, and say which there were."""
    removed = []
    for workload in Workload:
        for path in (parameters_file(data, workload), rows_file(data, workload)):
            if path.is_file():
                path.unlink()
                removed.append(str(path))
    return {"removed": removed}


def shifts_of(own: Parameters, ours: Parameters) -> list[dict[str, Any]]:
    """Return what the own rows moved, as factors in link space, the largest first."""
    moved = []
    for (slot, level, key), deviation in own.deviations.items():
        before = ours.deviations.get((slot, level, key))
        shift = deviation.x - (before.x if before else 0.0)
        if abs(shift) > 1e-3:
            moved.append({"parameter": slot, "level": level, "key": key or "own", "factor": float(np.exp(shift))})
    return sorted(moved, key=lambda item: (-abs(np.log(float(str(item["factor"])))), str(item["parameter"])))
