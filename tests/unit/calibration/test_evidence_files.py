"""The shipped tables of evidence: complete, and of the parameters that are shipped; distances from pairs of known spread."""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np
import pytest

from planner.calibration.columns import ROW_ID, shipped_measurements
from planner.calibration.evidence import MeasuredSpeed, clipped_variance, distances_of
from planner.calibration.evidence_files import shipped_speeds
from planner.calibration.facts import shipped_facts
from planner.calibration.model import Workload
from planner.calibration.trials import trial_of
from planner.perf.evidence import SOURCE, Conditions, Witness


def lines(workload: str) -> list[dict[str, str]]:
    text = files("planner.perf").joinpath("tables", f"evidence_{workload}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("workload", list(Workload))
def test_every_line_is_a_measured_row_and_those_of_a_model_stand_together(workload: Workload) -> None:
    known = {row[ROW_ID[workload]] for row in shipped_measurements(workload).rows}
    found = lines(workload.value)
    assert found
    assert {line["row_id"] for line in found} <= known
    models = [line["model"] for line in found]
    assert models == sorted(models)


@pytest.mark.parametrize("workload", list(Workload))
def test_ratios_are_those_to_the_shipped_parameters(workload: Workload) -> None:
    """Fails when parameters were fitted anew: `python -m planner.calibration.evidence_files` writes the tables again."""
    trial = trial_of(workload, shipped_facts(), sample=400, seed=3)
    now = {t.witness.row_id: t.witness.log_ratio for t in shipped_speeds(trial, workload)}
    then = {line["row_id"]: float(line["log_ratio"]) for line in lines(workload.value)}
    assert now
    assert {row: then.get(row) for row in now} == pytest.approx(now, abs=2e-3)


def test_distances_of_known_spread_are_found_again() -> None:
    """40 sources of one model on one chip, 12 rows each: 0.2 between sources, 0.1 between repeats."""
    draw = np.random.default_rng(5)
    found, ratios = [], []
    for source in range(40):
        own = 0.2 * draw.standard_normal()
        for _ in range(12):
            conditions = Conditions(words={SOURCE: str(source), "engine": draw.choice(["x", "y"])})
            ratios.append(own + 0.1 * draw.standard_normal())
            row = Witness(row_id=str(len(found)), conditions=conditions, log_ratio=ratios[-1])
            found.append(
                MeasuredSpeed(
                    case=len(found), witness=row, model="m", accelerator=f"chip {source % 8}", source=str(source)
                )
            )
    fold = np.zeros(len(found), dtype=np.int64)
    distances = distances_of(found, np.array(ratios)[None, :], fold, Workload.SAMPLES)
    assert distances.variances["nugget"] == pytest.approx(0.01, rel=0.25)
    assert distances.level == pytest.approx(0.04, rel=0.4)
    assert distances.variances["engine"] < 0.002
    assert distances.variances[SOURCE] > 0.03


def test_one_wild_row_does_not_make_the_variance() -> None:
    calm = np.random.default_rng(1).normal(0, 0.1, 1000)
    assert clipped_variance(np.append(calm, 5.0)) == pytest.approx(0.01, rel=0.15)
