"""`python -m planner.silicon`: fits the factors of measured operators to measured servers and prints what they bring; needs the extra."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import planner
import planner.perf
from planner.calibration.facts import shipped_facts
from planner.calibration.folds import cross_validated
from planner.calibration.model import Workload
from planner.calibration.serving_cases import Case
from planner.calibration.silicon import fitted, question_of, timed_cases
from planner.calibration.trials import trial_of
from planner.perf.parameters import shipped, to_json
from planner.services.evidence import INSTALL
from planner.silicon import installed_version
from planner.silicon.tables import SiliconTables

FILE = Path(planner.perf.__file__).with_name("tables") / "parameters_silicon.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Fit, write the file, print errors; 4 where the tables are not installed."""
    argparse.ArgumentParser(prog="python -m planner.silicon", description=__doc__).parse_args(argv)
    version = installed_version()
    if version is None:
        sys.stderr.write(f"planner.silicon: {INSTALL}\n")
        return 4
    tables = SiliconTables(version)
    trial = trial_of(Workload.SERVING, shipped_facts())
    answers = {}
    for at, case in enumerate(trial.reading.cases):
        question = question_of(case) if isinstance(case, Case) else None
        answers[at] = None if question is None else tables.steps(question)
    timed = timed_cases(trial.reading, answers)
    found = fitted(
        trial.reading,
        timed,
        fitted_on=datetime.now(UTC).date().isoformat(),
        version=planner.__version__,
        data_sha256=trial.sha256,
    )
    FILE.write_text(to_json(found.parameters), encoding="utf-8")
    model = cross_validated(trial.problem, trial.reading.labels, shipped("serving"))
    sys.stdout.write("\n".join(found.lines(model, [t.at for t in timed])) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
