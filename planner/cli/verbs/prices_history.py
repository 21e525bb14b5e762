"""`planner prices history`: which prices of a type were seen when, as table, chart, CSV or JSON."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from planner.cli.errors import Exit, UsageError
from planner.cli.options import (
    add_snapshot_flag,
    day,
    limit_of,
    listed,
    positional,
    snapshot_of,
    some,
    whole_number,
)
from planner.cli.verbs.db_current import add_database_flag
from planner.ports import Document
from pricing.difference import KEY_FIELDS
from pricing.model import INSTANCE_HOUR

if TYPE_CHECKING:
    from planner.store import SqlStore
    from pricing.catalog import Catalog

TABLE_ROWS = 40
LONGEST_WINDOW_DAYS = 3660
NO_CHANGES = (
    "No change of a spot price is kept in the database for this; `planner prices refresh --source spot` brings 90 days. "
    "Current spot prices: `planner prices list --purchase spot`."
)
HISTORY_COLUMNS = (
    *KEY_FIELDS,
    "unit_price",
    "first_seen",
    "last_seen",
    "change_fraction",
    "source",
    "listed",
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
    parser.add_argument(
        "--window",
        metavar="DAYS",
        help="window of the spot statistics up to the last look, for example 7d (default: that of the snapshot, 30d), made of the changes that are kept",
    )
    add_snapshot_flag(parser)
    parser.add_argument(
        "--limit", metavar="N", help=f"at most so many rows in each table (default {TABLE_ROWS}); csv and json have all"
    )
    add_database_flag(parser)


def run(args: Namespace) -> int:
    """Show the history. The database is only opened for changes of spot prices."""
    from planner.bootstrap import open_catalog, utc_now
    from planner.cli.render import show
    from planner.services.list_history import list_history

    limit = limit_of(args.limit)
    window = None if args.window is None else days_of("--window", args.window)
    since = day("--since", args.since) if args.since else None
    until = day("--until", args.until) if args.until else None
    options = listed(args.purchase)
    catalog = open_catalog(snapshot_of(args))
    with positional("instance type"), spot_record(args.database_url, wanted="spot" in options or bool(window)) as kept:
        document = list_history(
            catalog,
            args.instance_type,
            provider=args.provider,
            region=listed(args.region),
            purchase_option=options,
            zone=listed(args.zone),
            since=since,
            until=until,
            kept=kept,
            window_days=window,
        )
    hint = ""
    if ("spot" in options or window) and not document["spot_changes"]:
        hint = NO_CHANGES

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import rows_of

        return HISTORY_COLUMNS, rows_of(flat_rows(document), HISTORY_COLUMNS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.history_table import history_text

        return history_text(
            answer,
            most=TABLE_ROWS if limit is None else limit,
            spot_hint=hint,
            seen_until=last_looks(catalog, answer),
            now=utc_now(),
            width=width,
            colour=colour,
        )

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER


@contextmanager
def spot_record(url: str | None, *, wanted: bool) -> Iterator[SqlStore | None]:
    """Give the database that keeps changes of spot prices; None where it is not asked for, or where there is none yet."""
    if not wanted:
        yield None
        return
    from planner.bootstrap import database_file, open_store

    file = database_file(url)
    if file is not None and not file.exists():  # a look makes no file
        yield None
        return
    with open_store(url) as store:
        yield store


def last_looks(catalog: Catalog, document: Document) -> dict[str, datetime]:
    """Return when the spot prices of the type were last looked at, by region."""
    spot = catalog.quotes(
        providers=[document["provider"]], instance_types=[document["instance_type"]], purchase_options=["spot"]
    )
    looks: dict[str, datetime] = {}
    for quote in spot:
        looks[quote.region] = max(quote.retrieved_at, looks.get(quote.region, quote.retrieved_at))
    return looks


def days_of(flag: str, text: str) -> int:
    """Return a window in days, written as 30d or 30."""
    days = whole_number(flag, text.strip().lower().removesuffix("d") or text)
    if not 1 <= days <= LONGEST_WINDOW_DAYS:
        raise UsageError(f"{flag}: {text!r} must be 1 to {LONGEST_WINDOW_DAYS} days")
    return days


def flat_rows(document: Document) -> list[Document]:
    """Return the periods and the spot changes as rows of one table."""
    common = {"provider": document["provider"], "instance_type": document["instance_type"]}
    changes = [
        {**c, "purchase_option": "spot", "unit": INSTANCE_HOUR, "first_seen": c["since"]}
        for c in document["spot_changes"]
    ]
    return [{**common, **row} for row in (*document["periods"], *changes)]
