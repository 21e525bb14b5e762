"""`planner validate`: how far the model is off measurements: a file of them, or the shipped tables with whole groups left out."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.cli.errors import Exit, UsageError

if TYPE_CHECKING:
    from planner.calibration.columns import Measurements
    from planner.calibration.model import Workload
    from planner.ports import Document
    from planner.services.validate import Validated

WORKLOADS = ("serving", "samples", "training")
LEFT_OUT = ("groups", "sources", "chips", "models")
FOLDS = 5
REGRET_LEAVES_OUT = "groups"
"""What `--regret` leaves out by default: regret on rows that the fit has seen flatters."""
MOST_FOLDS = 100
PARAMETERS = ("shipped", "own")


def add_flags(parser: ArgumentParser) -> None:
    """Add what is validated and where the rows go."""
    what = parser.add_argument_group("what is validated")
    what.add_argument(
        "--measurements",
        metavar="FILE.csv",
        help="measured rows, of serving, samples or training: which is seen from the header (default: the shipped tables)",
    )
    what.add_argument(
        "--workload", metavar="CHOICE", help=f"which shipped table: one of {', '.join(WORKLOADS)} (default: all)"
    )
    what.add_argument(
        "--leave-out",
        metavar="CHOICE",
        help=f"fit the shipped tables anew without a part, predict that part, and so for every part: one of {', '.join(LEFT_OUT)}",
    )
    what.add_argument("--folds", metavar="N", help=f"how many parts are left out in turn (default {FOLDS})")
    what.add_argument("--sample", metavar="N", help="of each shipped table about so many rows, in whole groups")
    what.add_argument("--seed", metavar="N", help="another order of chance for folds and samples (default 0)")
    what.add_argument(
        "--regret",
        action="store_true",
        help="what following the predicted cheapest accelerator costs where measured work ran on several, at on-demand prices: groups left out (or --leave-out), and with all rows seen",
    )
    what.add_argument(
        "--silicon",
        action="store_true",
        help="measured operator tables (the extra silicon), the model, and both together on the serving rows that the tables have, left out; nothing is written",
    )
    own = parser.add_argument_group("your own measurements")
    own.add_argument(
        "--recalibrate",
        action="store_true",
        help="fit the measurements on top of the shipped parameters and keep them, apart from ours, where left-out rows gain by it",
    )
    own.add_argument(
        "--parameters",
        metavar="CHOICE",
        help=f"with --measurements, whose parameters predict: one of {', '.join(PARAMETERS)} (default shipped); own are those that --recalibrate kept",
    )
    own.add_argument("--forget", action="store_true", help="remove what --recalibrate kept")
    parser.add_argument_group("output").add_argument(
        "--out",
        metavar="FILE.csv",
        help="write a row for each figure: row_id, measured, predicted, low, high, ape, and what they are of",
    )


def run(args: Namespace) -> int:
    """Validate, render, and write the rows where asked."""
    checked(args)
    from planner.cli.output import complain

    try:
        if args.silicon:
            return silicon(args)
        if args.forget or args.recalibrate:
            return recalibrated(args)
        answers = list(answered(args))
    except KeyboardInterrupt:
        complain("planner validate: interrupted; nothing was written")
        return Exit.INTERRUPTED
    if args.measurements is not None:
        refuse_the_unpredicted(args.measurements, answers[0].document)
    if args.out is not None:
        write_rows(Path(args.out), answers)
    if args.regret:
        regretted(args, answers)
        return Exit.ANSWER
    shown([each.document for each in answers], args.format)
    return Exit.ANSWER


def checked(args: Namespace) -> None:
    """Refuse words that cannot be right before anything is read."""
    from planner.cli.options import listed, whole_number
    from planner.recommend.request import suggestion

    for flag, known in (("workload", WORKLOADS), ("leave_out", LEFT_OUT), ("parameters", PARAMETERS)):
        given = getattr(args, flag)
        if given is not None and given not in known:
            near = suggestion(given, known)
            name = "--" + flag.replace("_", "-")
            raise UsageError(f"{name}: {given!r} is not one of {', '.join(known)}{f'; {near}' if near else ''}")
    for flag, least, most in (("folds", 2, MOST_FOLDS), ("sample", 20, 10**9), ("seed", 0, 2**32 - 1)):
        text = getattr(args, flag)
        if text is None:
            continue
        value = whole_number(f"--{flag}", text)
        if not least <= value <= most:
            raise UsageError(f"--{flag}: {value} must be between {least} and {most:,}")
        setattr(args, flag, value)
    if args.silicon:
        others = (
            "measurements",
            "workload",
            "leave_out",
            "folds",
            "sample",
            "seed",
            "regret",
            "recalibrate",
            "forget",
            "out",
            "parameters",
        )
        given = [name for name in others if getattr(args, name) not in (None, False)]
        if given:
            raise UsageError(
                f"--silicon goes alone, not with --{given[0].replace('_', '-')}: it leaves out groups, then sources"
            )
    if args.parameters is not None and (args.measurements is None or args.recalibrate):
        raise UsageError("--parameters goes with --measurements: whose parameters predict its rows")
    if args.forget and (args.measurements is not None or args.recalibrate):
        raise UsageError("--forget goes alone: it removes what --recalibrate kept")
    if args.recalibrate and args.measurements is None:
        raise UsageError("--recalibrate needs --measurements FILE.csv: the rows to fit")
    if (args.recalibrate or args.forget) and args.regret:
        raise UsageError("--regret goes with a validation, not with --recalibrate or --forget")
    if (args.recalibrate or args.forget) and args.out is not None:
        raise UsageError("--out goes with a validation, not with --recalibrate or --forget")
    if args.measurements is not None:
        for flag in ("workload", "leave_out", "sample", "folds", "seed"):
            if getattr(args, flag) is not None:
                raise UsageError(
                    f"--{flag.replace('_', '-')} goes with the shipped tables; --measurements is predicted as it is"
                )
        if not listed([args.measurements]):
            raise UsageError("--measurements: needs a value, for example --measurements measured.csv")
    elif args.leave_out is None and (args.folds is not None or args.seed is not None) and args.sample is None:
        raise UsageError("--folds and --seed go with --leave-out or --sample")
    if args.regret and args.measurements is None and args.leave_out is None:
        args.leave_out = REGRET_LEAVES_OUT
    if args.out is not None and not args.out.strip():
        raise UsageError("--out: needs a value, for example --out rows.csv")


def answered(args: Namespace) -> list[Validated]:
    """Return the answer for the file, or for each shipped table."""
    from planner.bootstrap import validation_facts
    from planner.services import validate

    if args.measurements is not None:
        return [measured(args)]
    from planner.calibration.folds import LeftOut
    from planner.calibration.model import Workload

    chosen = [Workload(args.workload)] if args.workload else list(Workload)
    if args.leave_out is None:
        return in_sample(args)
    return [
        validate.validate_left_out(
            each,
            validation_facts(),
            left_out=LeftOut(args.leave_out),
            folds=args.folds or FOLDS,
            sample=args.sample,
            seed=args.seed or 0,
            told=Progress(each),
        )
        for each in chosen
    ]


def measured(args: Namespace) -> Validated:
    """Return the answer for the file, by the shipped parameters or the user's own, and say that there are others."""
    from planner.bootstrap import open_evidence, validation_facts
    from planner.services import validate
    from planner.services.own_evidence import own_fit

    path = Path(args.measurements)
    measurements = validate.read_measurements(path)
    warn_of_columns(measurements)
    workload = measurements.workload.value
    kept = open_evidence().fitted.get(workload)
    own = None if kept is None else own_fit(workload, kept)
    if args.parameters == "own":
        if own is None:
            why = "there are none" if kept is None else "they were fitted on other shipped parameters than these"
            raise UsageError(
                f"--parameters own: {why}, of {workload}; planner validate --measurements {path} --recalibrate fits them"
            )
        return validate.validate_measurements(measurements, validation_facts(), parameters=own)
    found = validate.validate_measurements(measurements, validation_facts())
    if own is not None:
        found.document["notes"].append(
            f"by the shipped parameters; --parameters own predicts by yours, fitted {own.fitted_on} to {own.rows:,} rows"
        )
    return found


def warn_of_columns(measurements: Measurements) -> None:
    """Say in one line which columns of a file are not read, and what they may be."""
    from planner.cli.output import complain, printable

    if measurements.unknown:
        told = [f"{name} (did you mean {near}?)" if near else name for name, near in measurements.unknown.items()]
        complain(printable(f"planner validate: columns that are not known and not read: {', '.join(told)}"))


def refuse_the_unpredicted(name: str, document: Document) -> None:
    """Refuse a file none of whose rows could be predicted: there are no errors to answer with."""
    from planner.cli.validate_table import skipped_lines

    overall = document["overall"]
    if not overall["rows_used"]:
        why = "; ".join(skipped_lines(document))
        raise UsageError(f"{name}: none of its {overall['rows_total']:,} rows could be predicted: {why}")


def in_sample(args: Namespace) -> list[Validated]:
    """Return the answer of the shipped parameters for each shipped table, which they were fitted to."""
    from planner.bootstrap import validation_facts
    from planner.calibration.model import Workload
    from planner.services.validate import validate_shipped

    chosen = [Workload(args.workload)] if args.workload else list(Workload)
    return [validate_shipped(each, validation_facts(), sample=args.sample, seed=args.seed or 0) for each in chosen]


def regretted(args: Namespace, answers: list[Validated]) -> None:
    """Write the regret of the predictions of all answers."""
    from planner.bootstrap import open_catalog
    from planner.calibration.columns import shipped_measurements
    from planner.calibration.model import Workload
    from planner.cli.render import show
    from planner.cli.validate_table import REGRET_COLUMNS, regret_rows, regret_text
    from planner.services.regret import regret, side_by_side
    from planner.services.validate import read_measurements

    def told(predicted: list[Validated]) -> Document:
        own = args.measurements is not None
        workloads = [Workload(each.document["workload"]) for each in predicted]
        tables = [read_measurements(Path(args.measurements)) if own else shipped_measurements(w) for w in workloads]
        return regret(open_catalog(), [(t, each.figures) for t, each in zip(tables, predicted, strict=True)])

    if args.measurements is not None:
        document = told(answers) | {"left_out": None, "in_sample": None}
    else:
        document = side_by_side(told(answers), told(in_sample(args)), args.leave_out)
    show(document, args.format, rows=lambda: (REGRET_COLUMNS, regret_rows(document)), table=regret_text)


def silicon(args: Namespace) -> int:
    """Write the errors of measured operators beside the model's, on rows that neither had seen."""
    from planner.bootstrap import open_evidence, validation_facts
    from planner.calibration.model import Workload
    from planner.cli.errors import SourceUnavailable
    from planner.cli.render import show
    from planner.cli.validate_table import silicon_rows, silicon_text
    from planner.services.evidence import INSTALL
    from planner.services.silicon import COLUMNS, silicon_compared, silicon_document

    predictor = open_evidence().predictor
    if predictor is None:
        raise SourceUnavailable(f"--silicon {INSTALL}")
    found = silicon_compared(validation_facts(), predictor, told=Progress(Workload.SERVING))
    document = silicon_document(predictor, found)
    show(document, args.format, rows=lambda: (COLUMNS, silicon_rows(document)), table=silicon_text)
    return Exit.ANSWER


def recalibrated(args: Namespace) -> int:
    """Fit the user's rows and keep them, or forget them, and say what was done."""
    from planner.bootstrap import data_dir, utc_now, validation_facts
    from planner.cli.render import show
    from planner.cli.validate_table import (
        RECALIBRATION_COLUMNS,
        forgotten_text,
        recalibration_rows,
        recalibration_text,
    )
    from planner.services import recalibrate
    from planner.services.validate import LARGEST_BYTES, read_measurements
    from pricing.plain_files import read_text

    if args.forget:
        gone = recalibrate.forget(data_dir())
        show(gone, args.format, rows=lambda: (("removed",), [[path] for path in gone["removed"]]), table=forgotten_text)
        return Exit.ANSWER
    path = Path(args.measurements)
    measurements = read_measurements(path)
    warn_of_columns(measurements)
    tell = Progress(measurements.workload)
    document = recalibrate.recalibrate(
        path,
        measurements,
        read_text(path, most_bytes=LARGEST_BYTES),
        validation_facts(),
        data=data_dir(),
        now=utc_now(),
        told=lambda done, of: tell("own rows left out", done, of),
    )
    show(
        document,
        args.format,
        rows=lambda: (RECALIBRATION_COLUMNS, recalibration_rows(document)),
        table=recalibration_text,
    )
    return Exit.ANSWER


class Progress:
    """A line on standard error for each part of a long validation."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._said = ""

    def __call__(self, what: str, done: int, of: int) -> None:
        """Say what is being done, and how much of it is."""
        from planner.cli.output import complain

        line = f"validating {self._workload.value}: {what}" + (f", {done} of {of}" if of > 1 else "")
        if line != self._said:
            complain(line)
        self._said = line


def write_rows(path: Path, answers: list[Validated]) -> None:
    """Write the per-row file of all answers, at once or not at all."""
    from planner.reports.flat import cell, to_csv
    from planner.services.validate import rows_of_figures, write_whole

    figures = [figure for each in answers for figure in each.figures]
    columns, rows = rows_of_figures(figures)
    write_whole(path, to_csv(columns, ([cell(row[column]) for column in columns] for row in rows)))


def shown(documents: list[dict[str, Any]], form: str) -> None:
    """Write the errors: of one table as its document, of several under `tables`."""
    from planner.cli.render import show
    from planner.cli.validate_table import statistic_rows, validate_text
    from planner.reports.flat import VALIDATION_COLUMNS

    def table(_: object, *, width: int, colour: bool) -> str:
        return "\n".join(validate_text(each, width=width, colour=colour) for each in documents)

    show(
        documents[0] if len(documents) == 1 else {"tables": documents},
        form,
        rows=lambda: (VALIDATION_COLUMNS, [row for each in documents for row in statistic_rows(each)]),
        table=table,
    )
