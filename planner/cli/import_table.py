"""What an import changed, as text for a terminal and as rows for CSV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import count, words
from planner.cli.history_table import percent
from planner.cli.list_tables import bought_cell, price_text
from planner.cli.output import printable
from planner.cli.paint import QUIET, STRONG, Cell, Column, rendered, table
from planner.ports import Document

KEYS = (
    "provider",
    "instance_type",
    "region",
    "purchase_option",
    "plan_type",
    "offering_class",
    "term_years",
    "payment_option",
    "currency",
    "unit",
)
CHANGE_COLUMNS = ("change", *KEYS, "old_unit_price", "new_unit_price", "change_fraction", "source")
MOST = 50  # changes that a person reads one by one; more are summed up, and JSON and CSV give all
NEW, CHANGED, GONE = "new", "changed", "withdrawn"


def changes_of(document: Document) -> Iterator[Document]:
    """Yield every change with its old and new price, None where there is none."""
    changes = document["changes"]
    for kind in (NEW, CHANGED, GONE):
        for row in changes[kind]:
            old = row["old_unit_price"] if kind == CHANGED else row["effective_unit_price"] if kind == GONE else None
            new = row["new_unit_price"] if kind == CHANGED else row["effective_unit_price"] if kind == NEW else None
            yield {key: row[key] for key in KEYS} | {
                "change": kind,
                "old_unit_price": old,
                "new_unit_price": new,
                "old_currency": row.get("old_currency", row["currency"]),
                "change_fraction": row.get("change_fraction"),
                "source": row["source"],
            }


def change_rows(document: Document) -> list[list[str]]:
    """Return one row a change."""
    return [["" if row[c] is None else str(row[c]) for c in CHANGE_COLUMNS] for row in changes_of(document)]


def import_text(document: Document, *, width: int, colour: bool) -> str:
    """Return what an import did, for a terminal of `width` columns."""
    rows = list(changes_of(document))
    parts: list[RenderableType] = [Text(headline(document), style=STRONG)]
    if rows:
        parts += [Text(""), *table(columns(rows) if len(rows) <= MOST else summed(rows), width)]
    if len(rows) > MOST:
        parts.append(Text(f"{len(rows):,} changes summed up; --format csv gives each with its prices", style=QUIET))
    for kind in document["instance_types_added"]:
        chips = kind["accelerators_per_instance"]
        what = kind["accelerator"] if chips is None else f"{chips:g} x {kind['accelerator']}"
        parts.append(Text(printable(f"new instance type: {kind['provider']} {kind['instance_type']}, {what}")))
    for notice in document["notices"]:
        many = f" ({notice['count']} times)" if notice["count"] > 1 else ""
        parts.append(Text(printable(f"note: {notice['subject']}: {notice['detail']}{many}")))
    if document["did"] == "nothing":
        last = f"snapshot {document['snapshot_id'][:12]} holds all of it already"
    elif document["dry_run"]:
        last = "a dry run: nothing was written"
    else:
        last = f"snapshot {document['snapshot_id'][:12]} published, made from {document['previous_snapshot_id'][:12]}"
    return rendered([*parts, Text(""), Text(last, style=QUIET)], width=width, colour=colour)


def headline(document: Document) -> str:
    """Return what was done, in a line: "price sheet acme imported: 3 prices new, 1 changed, 0 withdrawn"."""
    changes = document["changes"]
    counts = f"{count(len(changes[NEW]), 'price')} new, {len(changes[CHANGED])} changed, {len(changes[GONE])} withdrawn"
    did = {"nothing": "changes nothing", "imported": "imported", "removed": "removed"}[document["did"]]
    if document["dry_run"] and document["did"] != "nothing":
        did = f"would be {did}"
    return printable(
        f"{document['kind']} {document['name']} {did}" + (f": {counts}" if document["did"] != "nothing" else "")
    )


def summed(rows: list[Document]) -> list[Column]:
    """Return the columns of many changes: how many prices of a family and way to buy are new, gone or moved, and by how much."""
    groups: dict[tuple[str, str, str], list[Document]] = {}
    for row in rows:
        family = row["instance_type"].partition(".")[0] + ("" if row["provider"] == "aws" else f" ({row['provider']})")
        groups.setdefault((family, row["purchase_option"], row["change"]), []).append(row)
    ordered = sorted(groups.items())
    return [
        Column("Family", cells=[Cell(family) for (family, _, _), _ in ordered]),
        Column("Bought as", cells=[Cell(words(option)) for (_, option, _), _ in ordered]),
        Column("Regions", right=True, keep=1, cells=[Cell(f"{len({r['region'] for r in each}):,}") for _, each in ordered]),
        Column("Prices", right=True, cells=[Cell(f"{len(each):,}") for _, each in ordered]),
        Column("Change", right=True, cells=[Cell(moves(kind, each)) for (_, _, kind), each in ordered]),
    ]  # fmt: skip


def moves(kind: str, rows: list[Document]) -> str:
    """Return by how much prices moved, from the least to the most: "-12.0 %", "-15.0 to -5.0 %"; what else became of them."""
    shares = [row["change_fraction"] for row in rows if row["change_fraction"] is not None]
    if not shares:
        return kind
    least, most = percent(min(shares)), percent(max(shares))
    return least if least == most else f"{least.removesuffix(' %')} to {most}"


def columns(rows: list[Document]) -> list[Column]:
    """Return the columns of the changes."""

    def price(row: Document, which: str, currency: Any) -> Cell:
        return Cell("" if row[which] is None else price_text(row[which], currency))

    moved = [row["change_fraction"] for row in rows]
    return [
        Column("Instance", cells=[Cell(f"{row['instance_type']} ({row['provider']})") for row in rows]),
        Column("Bought as", cells=[bought_cell(row) for row in rows]),
        Column("Region", cells=[Cell(row["region"]) for row in rows]),
        Column("Before $/h", right=True, cells=[price(row, "old_unit_price", row["old_currency"]) for row in rows]),
        Column("Now $/h", right=True, cells=[price(row, "new_unit_price", row["currency"]) for row in rows]),
        Column(
            "Change",
            right=True,
            keep=1,
            cells=[
                Cell(row["change"] if share is None else f"{100 * share:+.1f} %")
                for row, share in zip(rows, moved, strict=True)
            ],
        ),
    ]
