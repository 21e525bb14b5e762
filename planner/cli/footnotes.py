"""What stands under a ranking: notes to its rows, and what was turned down, both folded so that like is said once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import count, words
from planner.cli.paint import QUIET, STRONG, indented

Document = Mapping[str, Any]

EVERY_ROW = "all"
BAND = re.compile(
    r"may be interrupted: interruption band (?P<band>\S+) of instances a month, (?P<day>[\d-]+): (?P<source>.*)"
)
UNSAVED = re.compile(
    r"expected (?P<saved>\S+) h with checkpoints; without any the same run would be expected to take (?P<unsaved>.+)"
)
MISSED = (re.compile(r"needs ([\d,.]+) GiB.*?([\d,.]+) available"), re.compile(r" ([\d,.]+) ms \(limit ([\d,.]+)\)"))
"""How rejections say what is needed, or reached, and what there is, or may be."""


def note_marks(rows: Sequence[Document]) -> list[tuple[str, str]]:
    """Return (mark, note) pairs, notes that differ only in the row's own names folded into one; what is said of every row is marked "all"."""
    rows_with: dict[str, int] = {}
    for row in rows:
        for key in {template(note, row): None for note in row.get("notes") or ()}:
            rows_with[key] = rows_with.get(key, 0) + 1
    of_some = [key for key, number in rows_with.items() if number < len(rows) or len(rows) == 1]
    return [(letter(i), key) for i, key in enumerate(of_some)] + [
        (EVERY_ROW, key) for key in rows_with if key not in of_some
    ]


def marks_of(row: Document, marks: Sequence[tuple[str, str]]) -> str:
    """Return the marks of one row's notes: "a,c"."""
    own = {template(note, row) for note in row.get("notes") or ()}
    return ",".join(mark for mark, key in marks if key in own and mark != EVERY_ROW)


def template(note: str, row: Document) -> str:
    """Return a note with what is the row's own left out, so that the same note about two rows is the same text."""
    if band := BAND.fullmatch(note):
        return f"share of spot instances interrupted in a month, {band['source']}, {band['day']}: {{}}"
    if UNSAVED.fullmatch(note):
        return "expected hours with checkpoints, and without any: {}"
    for name in ("accelerator", "instance_type"):
        if row.get(name) and row[name] in note:
            return note.replace(row[name], "{}")
    return note


def filling(note: str, row: Document) -> str:
    """Return what the row puts into the gap of its note."""
    if band := BAND.fullmatch(note):
        return f"{band['band']} {row['instance_type']}"
    if hours := UNSAVED.fullmatch(note):
        return f"{row['instance_type']} {hours['saved']} h and {hours['unsaved']}"
    return str(
        row["accelerator"] if row.get("accelerator") and row["accelerator"] in note else row.get("instance_type")
    )


def notes(rows: Sequence[Document], marks: Sequence[tuple[str, str]]) -> list[RenderableType]:
    """Return the notes under their letters, each with the names that it is about."""
    names: dict[str, dict[str, None]] = {key: {} for _, key in marks}
    for row in rows:
        for note in row.get("notes") or ():
            key = template(note, row)
            if "{}" in key:
                names[key].setdefault(filling(note, row))
    lines = [f"[{mark}] {key.replace('{}', ', '.join(names[key]))}" for mark, key in marks]
    return [Text("Notes", style=STRONG), *(indented(line) for line in lines)]


def letter(index: int) -> str:
    """Return a, b, … z, aa, ab, … ."""
    return (letter(index // 26 - 1) if index >= 26 else "") + chr(ord("a") + index % 26)


WITH_A_RATE = "--usd-rate"
"""What a rejection says that the asker can undo on the spot: it is the example that is shown."""


def rejections(items: Sequence[Document]) -> list[RenderableType]:
    """Return what was turned down, by reason: how many types, and an example with its figures (for memory: the nearest miss)."""
    by_reason: dict[str, list[Document]] = {}
    for item in items:
        by_reason.setdefault(item["reason"], []).append(item)
    types = len({(item.get("provider"), item["instance_type"]) for item in items})
    title = Text.assemble(("Turned down  ", STRONG))
    title.append(
        f"{count(types, 'instance type')}, wholly or for some ways to buy; each with its figures: --format json",
        style=QUIET,
    )
    lines: list[RenderableType] = [title]
    for reason, group in sorted(by_reason.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        example = min(group, key=lambda item: (WITH_A_RATE not in item["detail"], shortfall(item)))
        line = Text(f"{words(reason)}  ")
        line.append(count(len({item["instance_type"] for item in group}), "type"), style=STRONG)
        line.append(
            f"{', such as' if len(group) > 1 else ':'} {example['instance_type']}: {example['detail']}", style=QUIET
        )
        lines.append(indented(line))
    return lines


def shortfall(item: Document) -> float:
    """Return needed / available memory, or reached latency / limit, where a rejection says so; 0 elsewhere, which leaves the order as it is."""
    for pattern in MISSED:
        if missed := pattern.search(item["detail"]):
            needed, available = (float(text.replace(",", "").rstrip(".")) for text in missed.groups())
            return needed / available if available else float("inf")
    return 0.0
