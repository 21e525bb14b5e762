"""`planner prices history`: which prices of a type were seen when, as table, chart, CSV or JSON."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.cli.options import day, limit_of, listed, positional, some
from planner.ports import Document
from pricing.model import INSTANCE_HOUR

TABLE_ROWS = 40
HISTORY_COLUMNS = (
    "provider",
    "instance_type",
    "region",
    "availability_zone_id",
    "availability_zone",
    "purchase_option",
    "plan_type",
    "offering_class",
    "term_years",
    "payment_option",
    "currency",
    "unit",
    "unit_price",
    "first_seen",
    "last_seen",
    "change_fraction",
    "source",
)
"""Columns of `prices history`: one row per period of a list price and per change of a spot price (its `since` is `first_seen`)."""


def add_flags(parser: ArgumentParser) -> None:
    """Add the type and the filters."""
    parser.add_argument("instance_type", metavar="TYPE", help="instance type, for example p5.48xlarge")
    parser.add_argument("--provider", metavar="TEXT", type=some, help="cloud, where several have a type of this name")
    for flag, what in (
        ("region", "only these regions"),
        ("purchase", "only these purchase options; with spot: the changes that were kept, and statistics per zone"),
        ("zone", "only these zones of spot prices, by id (use1-az4) or name"),
    ):
        parser.add_argument(
            f"--{flag}", action="append", type=some, metavar="TEXT", help=f"{what} (repeatable or comma-separated)"
        )
    parser.add_argument("--since", metavar="YYYY-MM-DD", help="only prices that were in effect on or after this day")
    parser.add_argument("--until", metavar="YYYY-MM-DD", help="only prices that were seen on or before this day")
    parser.add_argument("--prices-as-of", metavar="YYYY-MM-DD", help="use the newest price snapshot not after this day")
    parser.add_argument(
        "--limit", metavar="N", help=f"at most so many rows in each table (default {TABLE_ROWS}); csv and json have all"
    )


def run(args: Namespace) -> int:
    """Show the history."""
    from planner.bootstrap import open_catalog, utc_now
    from planner.cli.render import show
    from planner.services.list_history import list_history

    limit = limit_of(args.limit)
    since = day("--since", args.since) if args.since else None
    until = day("--until", args.until) if args.until else None
    catalog = open_catalog(day("--prices-as-of", args.prices_as_of) if args.prices_as_of else None)
    with positional("instance type"):
        document = list_history(
            catalog,
            args.instance_type,
            provider=args.provider,
            region=listed(args.region),
            purchase_option=listed(args.purchase),
            zone=listed(args.zone),
            since=since,
            until=until,
        )

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import rows_of

        return HISTORY_COLUMNS, rows_of(flat_rows(document), HISTORY_COLUMNS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.history_table import history_text

        return history_text(
            answer,
            most=TABLE_ROWS if limit is None else limit,
            spot_hint=hint,
            seen_until={},
            now=utc_now(),
            width=width,
            colour=colour,
        )

    hint = ""
    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER


def flat_rows(document: Document) -> list[Document]:
    """Return the periods and the spot changes as rows of one table."""
    common = {"provider": document["provider"], "instance_type": document["instance_type"]}
    changes = [
        {**c, "purchase_option": "spot", "unit": INSTANCE_HOUR, "first_seen": c["since"]}
        for c in document["spot_changes"]
    ]
    return [{**common, **row} for row in (*document["periods"], *changes)]
