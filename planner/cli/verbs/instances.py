"""`planner instances`: the instance types and their accelerators."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.cli.options import add_snapshot_flag, limit_of, listed, snapshot_of, some
from planner.ports import Document

TABLE_ROWS = 60


def add_flags(parser: ArgumentParser) -> None:
    """Add the filters."""
    for flag, what in (
        ("instance", "only these instance types"),
        ("accelerator", "only types with these accelerators"),
        ("provider", "only these clouds"),
        ("region", "only types with a price in these regions"),
    ):
        parser.add_argument(
            f"--{flag}", action="append", type=some, metavar="TEXT", help=f"{what} (repeatable or comma-separated)"
        )
    add_snapshot_flag(parser)
    parser.add_argument(
        "--limit", metavar="N", help=f"at most so many types (default: {TABLE_ROWS} in a table, all in json and csv)"
    )


def run(args: Namespace) -> int:
    """List what passes the filters."""
    from planner.bootstrap import open_catalog
    from planner.cli.render import show
    from planner.services.list_instances import list_instances

    limit = limit_of(args.limit)
    catalog = open_catalog(snapshot_of(args))
    document = list_instances(
        catalog,
        instance_type=listed(args.instance),
        accelerator=listed(args.accelerator),
        provider=listed(args.provider),
        region=listed(args.region),
        limit=None if args.format == "table" else limit,  # a table says how many there are in all
    )

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import INSTANCE_COLUMNS, rows_of

        return INSTANCE_COLUMNS, rows_of(document["instance_types"], INSTANCE_COLUMNS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.list_tables import instances_text

        return instances_text(answer, most=TABLE_ROWS if limit is None else limit, width=width, colour=colour)

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER
