"""`python -m planner.calibration.evidence_files [WORKLOAD ...]`: writes the tables of evidence from the shipped measurements and parameters.

`tables/evidence_WORKLOAD.csv` is each measured speed of a known model beside the shipped model's prediction for it; it is written anew
whenever parameters are. With `--distances` the variances of `tables/evidence_distance.csv` are fitted as well, which takes the folds of a
cross-validation, and what evidence brings is printed.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import planner.perf
from planner.calibration.columns import ROW_ID, shipped_measurements
from planner.calibration.evidence import MeasuredSpeed, distances_of, left_out_ratios, measured_speeds
from planner.calibration.evidence_check import checked, nested, with_source_variance
from planner.calibration.facts import shipped_facts
from planner.calibration.model import Workload
from planner.calibration.trials import Trial, trial_of
from planner.perf.evidence import NUMBERS, SOURCE, WORDS, Distances, shipped_distances
from planner.perf.parameters import shipped

TABLES = Path(planner.perf.__file__).with_name("tables")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the tables; return 0."""
    parser = argparse.ArgumentParser(prog="python -m planner.calibration.evidence_files", description=__doc__)
    parser.add_argument("workload", nargs="*")
    parser.add_argument("--distances", action="store_true", help="fit distances anew and print what evidence brings")
    args = parser.parse_args(argv)
    found = dict(shipped_distances()) if (TABLES / "evidence_distance.csv").exists() else {}
    for workload in [Workload(name) for name in args.workload or [w.value for w in Workload]]:
        trial = trial_of(workload, shipped_facts())
        speeds = shipped_speeds(trial, workload)
        (TABLES / f"evidence_{workload.value}.csv").write_text(table_of(speeds, workload), encoding="utf-8")
        sys.stderr.write(f"{workload.value}: {len(speeds)} rows of {len({t.place for t in speeds})} models on a chip\n")
        if args.distances:
            found[workload.value] = fitted_distances(trial, speeds, workload)
            (TABLES / "evidence_distance.csv").write_text(distance_table(found), encoding="utf-8")
    return 0


def shipped_speeds(trial: Trial, workload: Workload) -> list[MeasuredSpeed]:
    """Return the shipped rows as evidence beside the shipped parameters."""
    rows = {row[ROW_ID[workload]]: row for row in shipped_measurements(workload).rows}
    return measured_speeds(trial.reading, trial.problem, shipped(workload.value), rows, shipped_facts())


def fitted_distances(trial: Trial, speeds: Sequence[MeasuredSpeed], workload: Workload) -> Distances:
    """Return the distances of a workload; what evidence brings on rows that no fit has seen is printed."""
    ratios, fold = left_out_ratios(trial.reading, trial.problem, shipped(workload.value))
    distances = with_source_variance(speeds, ratios, fold, distances_of(speeds, ratios, fold, workload))
    own = checked(speeds, ratios, fold, distances, same_source=True)
    others = nested(speeds, ratios, fold, distances)
    sys.stdout.write(own.line(f"{workload.value}: other rows of the source") + "\n")
    sys.stdout.write(others.line(f"{workload.value}: rows of other sources") + "\n")
    return distances


def table_of(speeds: Sequence[MeasuredSpeed], workload: Workload) -> str:
    """Return the table of evidence of a workload as CSV: sorted by model, so that the rows of one stand together."""
    words, numbers = (SOURCE, *WORDS[workload.value]), NUMBERS[workload.value]
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(["model", "row_id", "accelerator", *words, *numbers, "log_ratio"])
    for each in sorted(speeds, key=lambda t: (t.model, t.accelerator, t.witness.row_id)):
        c = each.witness.conditions
        stated = [c.words.get(name, "") for name in words]
        stated += [f"{c.numbers[name]:.6g}" if name in c.numbers else "" for name in numbers]
        lines.writerow([each.model, each.witness.row_id, each.accelerator, *stated, f"{each.witness.log_ratio:.4f}"])
    return out.getvalue()


def distance_table(found: Mapping[str, Distances]) -> str:
    """Return the distances as CSV."""
    lines = ["workload,condition,variance"]
    for workload, distances in sorted(found.items()):
        lines += [f"{workload},{name},{variance:.4g}" for name, variance in sorted(distances.variances.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
