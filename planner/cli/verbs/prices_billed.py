"""`planner prices billed`: what was billed, from an export or from Cost Explorer."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.errors import Exit, SourceUnavailable, UsageError
from planner.cli.options import day, limit_of, listed, some
from planner.ports import Document

if TYPE_CHECKING:
    from pricing.bills.model import BilledLine, CostColumn

COSTS = ("billed", "effective", "list", "contracted")
GRANULARITIES = ("daily", "monthly")
TABLE_ROWS = 50  # what a person reads; JSON and CSV give everything


def add_flags(parser: ArgumentParser) -> None:
    """Add where to read, what to sum and what to leave out."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="an export in FOCUS 1.0 to 1.2 or CUR 2.0: CSV, gzip CSV, or Parquet (which needs the extra `parquet`)",
    )
    parser.add_argument(
        "--from-aws", action="store_true", help="ask Cost Explorer instead, which charges 0.01 USD a page; needs --start and --end"
    )  # fmt: skip
    parser.add_argument("--start", metavar="YYYY-MM-DD", help="first day")
    parser.add_argument("--end", metavar="YYYY-MM-DD", help="the day after the last one")
    parser.add_argument(
        "--cost",
        type=str.lower,
        default=COSTS[0],
        metavar="CHOICE",
        help=f"the cost that is summed; they are never added to each other (one of {', '.join(COSTS)}; default {COSTS[0]})",
    )
    parser.add_argument(
        "--granularity", type=str.lower, metavar="CHOICE", help="of --from-aws: daily (default) or monthly"
    )
    parser.add_argument("--by-purchase", action="store_true", help="with --from-aws: group by how it was paid instead of by service")  # fmt: skip
    for flag, what in (("region", "only these regions"), ("instance", "only these instance types")):
        parser.add_argument(
            f"--{flag}", action="append", type=some, metavar="TEXT", help=f"{what} (repeatable or comma-separated)"
        )
    parser.add_argument("--limit", metavar="N", help=f"at most so many lines (default: {TABLE_ROWS} in a table, all in json and csv); totals count all")  # fmt: skip
    parser.add_argument("--profile", metavar="NAME", help="with --from-aws: the AWS profile to ask as")


def run(args: Namespace) -> int:
    """List the lines and sum one cost."""
    from planner.cli.render import show

    limit = limit_of(args.limit)
    document = _document(args, TABLE_ROWS if limit is None and args.format == "table" else limit)

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import rows_of
        from planner.services.list_billed import FIELDS

        return FIELDS, rows_of(document["lines"], FIELDS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.billed_table import billed_text

        return billed_text(answer, width=width, colour=colour)

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER


def _document(args: Namespace, most: int | None) -> Document:
    from planner.services.list_billed import check_period, list_billed
    from pricing.bills.model import CostColumn
    from pricing.bills.read import open_bill

    start = day("--start", args.start) if args.start is not None else None
    end = day("--end", args.end) if args.end is not None else None
    check_period(start, end)
    column: CostColumn = CostColumn(_chosen("--cost", args.cost, COSTS))
    instance_types, regions = listed(args.instance), listed(args.region)

    def listing(lines: Iterable[BilledLine], source: str, form: str, excluded: Mapping[str, int]) -> Document:
        return list_billed(
            lines,
            source=source,
            form=form,
            column=column,
            instance_types=instance_types,
            regions=regions,
            start=start,
            end=end,
            most=most,
            excluded=excluded,
        )

    if args.from_aws:
        if args.file is not None:
            raise UsageError("--from-aws: excludes FILE; give one of them")
        if start is None or end is None:
            raise UsageError("--from-aws: needs --start and --end, for example --start 2026-07-01 --end 2026-08-01")
        if regions:
            raise UsageError("--region: Cost Explorer's lines are by service and usage type, without region; give FILE")
        return listing(_asked(args, start, end), "AWS Cost Explorer", "GetCostAndUsage", {})
    for flag, value in (
        ("granularity", args.granularity),
        ("by-purchase", args.by_purchase),
        ("profile", args.profile),
    ):
        if value:
            raise UsageError(f"--{flag}: goes with --from-aws, which is missing")
    if args.file is None:
        raise UsageError("FILE is missing: give an export, or --from-aws with --start and --end")
    if not args.file.strip():
        raise UsageError("FILE is empty: give an export, or --from-aws with --start and --end")
    with open_bill(Path(args.file)) as bill:
        return listing(bill, bill.path.name, bill.format.name, bill.excluded)


def _asked(args: Namespace, start: date, end: date) -> tuple[BilledLine, ...]:
    from planner.cli.verbs.prices_refresh import check_addresses, check_identity
    from pricing.aws.cost_explorer import billed_lines
    from pricing.aws.session import Access, Aws
    from pricing.errors import ReplyError, SourceFailed

    granularity = _chosen("--granularity", args.granularity or GRANULARITIES[0], GRANULARITIES).upper()
    groups = ("PURCHASE_TYPE" if args.by_purchase else "SERVICE", "USAGE_TYPE")
    check_addresses()
    check_identity(args.profile, None)
    try:
        return billed_lines(Aws(Access(profile=args.profile)), start=start, end=end, granularity=granularity, groups=groups)  # fmt: skip
    except (SourceFailed, ReplyError) as e:
        raise SourceUnavailable(str(e)) from e


def _chosen(flag: str, text: str, choices: tuple[str, ...]) -> str:
    """Return a choice, or refuse it with the nearest."""
    if text not in choices:
        from planner.cli.parser import hint

        raise UsageError(f"{flag}: {text!r} is not one of {', '.join(choices)}{hint(text, choices)}")
    return text
