"""`planner prices availability`: what is known of getting an instance type in a region."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.cli.figures import words
from planner.cli.options import add_snapshot_flag, positional, snapshot_of, some
from planner.cli.verbs.db_current import add_database_flag
from planner.cli.verbs.prices_history import spot_record
from planner.ports import Document

REGION = "us-east-1"
PARTS = ("spot_statistics", "interruption", "placement_scores", "capacity_blocks", "quotas")
"""What is told besides the zones."""


def add_flags(parser: ArgumentParser) -> None:
    """Add the type and where."""
    parser.add_argument("instance_type", metavar="TYPE", help="instance type, for example p5.48xlarge")
    parser.add_argument("--region", metavar="TEXT", type=some, default=REGION, help=f"region (default {REGION})")
    parser.add_argument("--provider", metavar="TEXT", type=some, help="cloud, where several have a type of this name")
    add_snapshot_flag(parser)
    add_database_flag(parser)


def run(args: Namespace) -> int:
    """Show zones, spot, blocks and quotas as the snapshot has them."""
    from planner.bootstrap import open_catalog, utc_now
    from planner.cli.render import show
    from planner.services.show_availability import ZONE_FIELDS, show_availability

    catalog = open_catalog(snapshot_of(args))
    with positional("instance type"), spot_record(args.database_url, wanted=True) as kept:
        document = show_availability(catalog, args.instance_type, region=args.region, provider=args.provider, kept=kept)

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import rows_of

        return ZONE_FIELDS, rows_of(document["zones"], ZONE_FIELDS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.market_tables import availability_text

        return availability_text(answer, now=utc_now(), width=width, colour=colour)

    show(document, args.format, rows=rows, table=table)
    others = [words(part) for part in PARTS if document[part]]
    if args.format == "csv" and others:
        from planner.cli.output import complain

        complain(f"planner prices availability: csv has the zones alone; {', '.join(others)}: --format json or table")
    return Exit.ANSWER
