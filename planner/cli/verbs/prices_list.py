"""`planner prices list`: the quotes of the newest snapshot."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.cli.options import day, limit_of, listed, some
from planner.ports import Document

TABLE_ROWS = 50  # what a person reads; JSON and CSV give everything


def add_flags(parser: ArgumentParser) -> None:
    """Add the filters."""
    for flag, what in (
        ("region", "only these regions"),
        ("instance", "only these instance types"),
        ("provider", "only these clouds"),
        ("purchase", "only these purchase options"),
    ):
        parser.add_argument(
            f"--{flag}", action="append", type=some, metavar="TEXT", help=f"{what} (repeatable or comma-separated)"
        )
    parser.add_argument("--prices-as-of", metavar="YYYY-MM-DD", help="use the newest price snapshot not after this day")
    parser.add_argument(
        "--limit", metavar="N", help=f"at most so many prices (default: {TABLE_ROWS} in a table, all in json and csv)"
    )


def run(args: Namespace) -> int:
    """List what passes the filters."""
    from planner.bootstrap import open_catalog
    from planner.cli.render import show
    from planner.services.list_prices import list_prices

    limit = limit_of(args.limit)
    catalog = open_catalog(day("--prices-as-of", args.prices_as_of) if args.prices_as_of else None)
    document = list_prices(
        catalog,
        region=listed(args.region),
        instance_type=listed(args.instance),
        provider=listed(args.provider),
        purchase_option=listed(args.purchase),
        limit=None if args.format == "table" else limit,  # a table says how many there are in all
    )

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import PRICE_COLUMNS, rows_of

        return PRICE_COLUMNS, rows_of(document["prices"], PRICE_COLUMNS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.list_tables import prices_text

        return prices_text(answer, most=TABLE_ROWS if limit is None else limit, width=width, colour=colour)

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER
