"""One answer in the format that was asked for: exactly the service's JSON bytes, CSV rows, or a table for this terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from planner.cli.output import coloured, width, write, write_bytes
from planner.ports import Document


def show(
    document: Document,
    form: str,
    *,
    rows: Callable[[], tuple[Sequence[str], list[list[str]]]],
    table: Callable[..., str],
) -> None:
    """Write a document as `form`. `rows` gives CSV columns and rows; `table` gives text for a width, with or without colour."""
    if form == "json":
        from planner.services.documents import to_json_bytes

        write_bytes(to_json_bytes(document))
    elif form == "csv":
        from planner.reports.flat import to_csv

        write(to_csv(*rows()))
    else:
        write(table(document, width=width(), colour=coloured()))


def answer_columns(document: Document) -> dict[str, Any]:
    """Return the columns that say which answer a row belongs to."""
    from planner.reports.flat import ANSWER_COLUMNS, value_at

    return {column: value_at(document, column) for column in ANSWER_COLUMNS}
