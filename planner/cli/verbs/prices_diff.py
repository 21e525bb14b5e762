"""`planner prices diff`: what changed from one price snapshot to another."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from planner.cli.errors import Exit, UsageError
from planner.cli.options import amount, limit_of, positional
from planner.cli.verbs.prices_list import add_filters, filters_of
from planner.ports import Document
from pricing.difference import KEY_FIELDS

if TYPE_CHECKING:
    from pricing.catalog import Catalog

TABLE_ROWS = 30
WHICH = "latest, shipped, a day (the newest not after it), an id of `planner prices snapshots`, or the beginning of one"
DIFF_COLUMNS = (
    "state",
    *KEY_FIELDS,
    "old_unit_price",
    "new_unit_price",
    "change_fraction",
)
"""Columns of `prices diff`: `state` is changed, added or removed; what is not in a snapshot has no price there."""


def add_flags(parser: ArgumentParser) -> None:
    """Add the two snapshots and the filters."""
    parser.add_argument("old", metavar="SNAP1", help=f"the older snapshot: {WHICH}")
    parser.add_argument("new", metavar="SNAP2", help="the newer one, named alike")
    parser.add_argument(
        "--min-change", metavar="PERCENT", help="only prices that moved by at least so much, 5%% or 5 (default: any)"
    )
    add_filters(parser)
    parser.add_argument(
        "--limit", metavar="N", help=f"at most so many rows of each sort in a table (default {TABLE_ROWS})"
    )


def run(args: Namespace) -> int:
    """Compare what is paid in each, upfront spread over the term."""
    from planner.cli.render import show
    from planner.services.diff_prices import at_least, diff_prices

    limit = limit_of(args.limit)
    least = Decimal(0) if args.min_change is None else share("--min-change", args.min_change)
    old, new = opened("SNAP1", args.old), opened("SNAP2", args.new)
    filters: dict[str, Any] = filters_of(args)
    everything = diff_prices(old, new, **filters)
    document = at_least(everything, least)
    smaller = len(everything["changed"]) - len(document["changed"])

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import rows_of

        return DIFF_COLUMNS, rows_of(flat_rows(document), DIFF_COLUMNS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.market_tables import diff_text

        return diff_text(
            answer,
            most=TABLE_ROWS if limit is None else limit,
            smaller=smaller,
            least_percent=float(least * 100),
            width=width,
            colour=colour,
        )

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER


def opened(place: str, text: str) -> Catalog:
    """Return the snapshot that a word names; an error says which of the two words it is about."""
    from planner.bootstrap import open_snapshot_by
    from planner.recommend.errors import BadRequest

    try:
        with positional("snapshot"):
            return open_snapshot_by(text)
    except UsageError as e:
        raise UsageError(f"{place}: {e}; `planner prices snapshots` lists them") from e
    except BadRequest as e:
        raise UsageError(f"{place}: {text!r} {e.why}{f'; {e.expected}' if e.expected else ''}") from e


def share(flag: str, text: str) -> Decimal:
    """Return a share written in per cent, "5%" or "5", as a fraction."""
    percent = amount(flag, text.strip().removesuffix("%").strip() or text)
    if percent < 0:
        raise UsageError(f"{flag}: {text!r} must be at least 0; a fall counts like a rise")
    return percent / 100


def flat_rows(document: Document) -> list[Document]:
    """Return what changed, came and went as rows of one table."""
    return [
        *({**row, "state": "changed"} for row in document["changed"]),
        *({**row, "state": "added", "new_unit_price": row["unit_price"]} for row in document["added"]),
        *({**row, "state": "removed", "old_unit_price": row["unit_price"]} for row in document["removed"]),
    ]
