"""The maintainers' commands: `python -m planner.calibration fit|cross-validate|noise|document WORKLOAD`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from planner import __version__
from planner.calibration.documents import put, silicon_lines, tables_of
from planner.calibration.facts import shipped_facts
from planner.calibration.folds import FOLDS, LeftOut, Predictions, cross_validated
from planner.calibration.intervals import conformal
from planner.calibration.model import Workload
from planner.calibration.noise import noise_lines
from planner.calibration.pictures import drawn
from planner.calibration.report import lines_of
from planner.calibration.trials import Trial, figures_checked, fitted, trial_of
from planner.perf.parameters import Parameters, to_json

FOLDS_OF = {LeftOut.GROUPS: 5, LeftOut.SOURCES: 5, LeftOut.CHIPS: 5, LeftOut.MODELS: 5}
"""Folds from whose residuals the shipped intervals come: what is left out is large already where it is a source or a chip."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command."""
    args = parsed(argv)
    workloads = list(Workload) if args.workload == "all" else [Workload(args.workload)]
    for workload in workloads:
        trial = trial_of(workload, shipped_facts(), sample=args.sample, seed=args.seed)
        _say(f"{workload.value}: {len(trial.reading.cases)} cases read, {len(trial.reading.skipped)} rows skipped")
        COMMANDS[args.command](args, workload, trial)
    return 0


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the flags of a command."""
    parser = argparse.ArgumentParser(prog="python -m planner.calibration", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (
        ("fit", "fit the shipped tables and write the parameter files"),
        ("cross-validate", "print left-out errors of the shipped tables"),
        ("noise", "print how far repeats of the same work differ"),
        ("document", "write the tables and pictures of planner/docs/validation.md"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("workload", choices=[*(w.value for w in Workload), "all"])
        command.add_argument("--sample", type=int, help="about so many rows, in whole groups")
        command.add_argument("--seed", type=int, default=0)
        if name == "fit":
            command.add_argument(
                "--fitted-on", required=True, metavar="YYYY-MM-DD", help="the day that the file states"
            )
            command.add_argument("--parameters-version", default=__version__)
            command.add_argument("--to", type=Path, metavar="FOLDER", help="another folder than planner/perf/tables")
        if name == "cross-validate":
            command.add_argument("--leave-out", choices=[each.value for each in LeftOut], action="append")
            command.add_argument("--folds", type=int, default=FOLDS)
    return parser.parse_args(argv)


def fit(args: argparse.Namespace, workload: Workload, trial: Trial) -> None:
    """Fit all rows, take the intervals from rows left out, write the file."""
    whole = fitted(trial, version=args.parameters_version, fitted_on=args.fitted_on)
    _say(f"fitted: noise {whole.noise_sd:.3f}, {len(whole.deviations)} deviations")
    left = [_left(trial, whole, each, folds) for each, folds in FOLDS_OF.items()]
    whole = replace(whole, intervals=conformal(left, trial.groups))
    folder = Path(str(files("planner.perf"))) / "tables" if args.to is None else args.to
    path = folder / f"parameters_{workload.value}.json"
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(to_json(whole), encoding="utf-8")
    temporary.replace(path)
    _say(f"{path} written")


def cross_validate(args: argparse.Namespace, workload: Workload, trial: Trial) -> None:
    """Print the errors of rows left out."""
    del workload
    whole = fitted(trial)
    _say(f"fitted: noise {whole.noise_sd:.3f}, {len(whole.deviations)} deviations")
    left = [_left(trial, whole, LeftOut(each), args.folds) for each in args.leave_out or [LeftOut.GROUPS]]
    for each in left:
        _print(f"\n{each.left_out.value} left out", *lines_of(figures_checked(trial, left, each, whole)))


def noise(args: argparse.Namespace, workload: Workload, trial: Trial) -> None:
    """Print how far repeats of the same work differ."""
    del args, workload
    _print(*noise_lines(trial))


def document(args: argparse.Namespace, workload: Workload, trial: Trial) -> None:
    """Write the section of a workload on the page of validation, and its picture."""
    del args
    whole = fitted(trial)
    left = [_left(trial, whole, each, folds) for each, folds in FOLDS_OF.items()]
    figures = {each.left_out.value: figures_checked(trial, left, each, whole) for each in left}
    folder = Path(str(files("planner"))) / "docs"
    (folder / "figures").mkdir(exist_ok=True)
    title = f"{workload.value}: whole groups of (source, model, accelerator) left out"
    drawn(figures[LeftOut.GROUPS.value], title, folder / "figures" / f"validation_{workload.value}.png")
    page = folder / "validation.md"
    text = put(page.read_text(encoding="utf-8"), workload.value, tables_of(trial, figures))
    page.write_text(put(text, "silicon", "\n".join(silicon_lines())), encoding="utf-8")
    _say(f"{page} written")


COMMANDS: dict[str, Callable[[argparse.Namespace, Workload, Trial], None]] = {
    "fit": fit,
    "cross-validate": cross_validate,
    "noise": noise,
    "document": document,
}


def _left(trial: Trial, whole: Parameters, left_out: LeftOut, folds: int) -> Predictions:
    return cross_validated(
        trial.problem,
        trial.reading.labels,
        whole,
        left_out=left_out,
        folds=folds,
        told=lambda done, of: _say(f"{left_out.value} left out: {done} of {of} folds"),
    )


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _print(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
