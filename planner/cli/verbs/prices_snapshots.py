"""`planner prices snapshots`: which price snapshots are kept here."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.cli.options import limit_of
from planner.ports import Document


def add_flags(parser: ArgumentParser) -> None:
    """Add how many to list."""
    parser.add_argument("--limit", metavar="N", help="at most so many snapshots, the newest (default: all)")


def run(args: Namespace) -> int:
    """List them, the one that answers use first. A file that cannot be read is told with its reason, and is no error."""
    from planner.bootstrap import kept_snapshots, snapshots_dir, utc_now
    from planner.cli.render import show
    from planner.services.list_snapshots import SNAPSHOT_FIELDS, list_snapshots

    limit = limit_of(args.limit)
    document = list_snapshots(kept_snapshots(), now=utc_now())
    found = len(document["snapshots"])
    document["snapshots"] = document["snapshots"][:limit]

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import rows_of

        return SNAPSHOT_FIELDS, rows_of(document["snapshots"], SNAPSHOT_FIELDS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.market_tables import snapshots_text

        return snapshots_text(
            answer, found=found, folder=str(snapshots_dir()), width=width, colour=colour, now=utc_now()
        )

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER
