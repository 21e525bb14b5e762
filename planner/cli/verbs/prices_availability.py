"""`planner prices availability`: what is known of getting an instance type in a region."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.cli.options import add_snapshot_flag, positional, snapshot_of, some
from planner.ports import Document

REGION = "us-east-1"


def add_flags(parser: ArgumentParser) -> None:
    """Add the type and where."""
    parser.add_argument("instance_type", metavar="TYPE", help="instance type, for example p5.48xlarge")
    parser.add_argument("--region", metavar="TEXT", type=some, default=REGION, help=f"region (default {REGION})")
    parser.add_argument("--provider", metavar="TEXT", type=some, help="cloud, where several have a type of this name")
    add_snapshot_flag(parser)


def run(args: Namespace) -> int:
    """Show zones, spot, blocks and quotas as the snapshot has them."""
    from planner.bootstrap import open_catalog, utc_now
    from planner.cli.render import show
    from planner.services.show_availability import ZONE_FIELDS, show_availability

    catalog = open_catalog(snapshot_of(args))
    with positional("instance type"):
        document = show_availability(catalog, args.instance_type, region=args.region, provider=args.provider)

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import rows_of

        return ZONE_FIELDS, rows_of(document["zones"], ZONE_FIELDS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.market_tables import availability_text

        return availability_text(answer, now=utc_now(), width=width, colour=colour)

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER
