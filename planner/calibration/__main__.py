"""The maintainers' commands: `python -m planner.calibration fit|cross-validate WORKLOAD`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from planner.calibration.facts import shipped_facts
from planner.calibration.folds import FOLDS, LeftOut, cross_validated
from planner.calibration.model import Workload
from planner.calibration.report import lines_of
from planner.calibration.trials import figures_checked, fitted, trial_of


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m planner.calibration", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    cross = commands.add_parser("cross-validate", help="left-out errors of the shipped tables")
    cross.add_argument("workload", choices=[w.value for w in Workload])
    cross.add_argument("--leave-out", choices=[each.value for each in LeftOut], action="append")
    cross.add_argument("--folds", type=int, default=FOLDS)
    cross.add_argument("--sample", type=int)
    cross.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    trial = trial_of(Workload(args.workload), shipped_facts(), sample=args.sample, seed=args.seed)
    _say(f"{len(trial.reading.cases)} cases read, {len(trial.reading.skipped)} rows skipped")
    whole = fitted(trial)
    _say(f"fitted: noise {whole.noise_sd:.3f}, {len(whole.deviations)} deviations")
    left = [
        cross_validated(
            trial.problem,
            trial.reading.labels,
            whole,
            left_out=LeftOut(each),
            folds=args.folds,
            seed=args.seed,
            told=lambda done, all_of: _say(f"{done} of {all_of} folds"),
        )
        for each in args.leave_out or [LeftOut.GROUPS]
    ]
    for each in left:
        sys.stdout.write(f"\n{each.left_out.value} left out\n")
        sys.stdout.write("\n".join(lines_of(figures_checked(trial, left, each, whole))) + "\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
