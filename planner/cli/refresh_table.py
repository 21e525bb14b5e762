"""What came of a refresh, for a person: source by source, then what is to be known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import count
from planner.cli.output import printable
from planner.cli.paint import BAD, CARE, GOOD, QUIET, STRONG, Cell, Column, indented, rendered, table

Document = Mapping[str, Any]

TOLD = ("price_jump", "vanished_family", "withdrawn", "kept", "unresolved", "note")
"""Kinds of notices in the order in which they are shown; what was left out stands in the column."""

MOST = 8  # notices of one kind


def refresh_text(document: Document, *, width: int, colour: bool) -> str:
    """Return the outcome of a refresh for a terminal of `width` columns."""
    by_source: dict[str, list[Document]] = defaultdict(list)
    for source in document["sources"]:
        by_source[source["source"]].append(source)
    states = [_state(each) for each in by_source.values()]
    columns = [
        Column("Source", cells=[Cell(name, style=STRONG) for name in by_source]),
        Column("State", cells=[Cell(text, style=style) for text, style in states]),
        Column("Rows", right=True, cells=[Cell(f"{sum(s['rows'] for s in each):,}") for each in by_source.values()]),
        Column(
            "Left out",
            right=True,
            keep=2,
            cells=[Cell(f"{sum(sum(s['excluded'].values()) for s in each):,}") for each in by_source.values()],
        ),
        Column("Published", keep=3, cells=[Cell(_published(each), style=QUIET) for each in by_source.values()]),
    ]
    parts: list[RenderableType] = [*table(columns, width)] if by_source else []
    changes = document["changes"]
    if document["published"]:
        said = f"Snapshot {document['snapshot_id'][:12]} published: {document['quotes']:,} prices, {changes['new']:,} new, {changes['changed']:,} changed, {changes['withdrawn']:,} withdrawn."
    else:
        said = f"Nothing was published; snapshot {document['snapshot_id'][:12]} stays."
    parts += [Text(""), Text(said, style=GOOD if document["complete"] and document["published"] else CARE)]
    for kind in TOLD:
        found = [n for n in document["notices"] if n["kind"] == kind]
        parts += [
            indented(printable(f"{kind.replace('_', ' ')}: {n['subject']}: {n['detail']}"), style=CARE)
            for n in found[:MOST]
        ]
        if len(found) > MOST:
            parts.append(
                indented(f"{count(len(found) - MOST, 'more notice')} of this kind: --format json", style=QUIET)
            )
    parts += [indented(printable(f"alert: {alert['message']}"), style=BAD) for alert in document["alerts"]]
    return rendered(parts, width=width, colour=colour)


def _state(each: list[Document]) -> tuple[str, Any]:
    """Return how one source did over its regions."""
    failed = [s for s in each if s["state"] == "failed"]
    regions = f" in {count(len(each), 'region')}" if each[0]["region"] is not None else ""
    if not failed:
        resumed = sum(s["state"] == "resumed" for s in each)
        return f"read{regions}{f', {resumed} of them before' if resumed else ''}", GOOD
    if len(failed) == len(each):
        return f"failed{regions}", BAD
    return f"failed in {len(failed)} of {count(len(each), 'region')}", BAD


def _published(each: list[Document]) -> str:
    known = sorted({s["published"] for s in each if s["published"]})
    return known[-1] if known else ""
