"""`list_billed`: the lines of a bill and the sum of one stated cost column, as the document of `planner prices billed`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from datetime import UTC, date, datetime, time
from typing import Any

from planner.ports import Document
from planner.recommend.errors import BadRequest
from planner.services.list_prices import plain
from pricing.bills.model import BilledLine, CostColumn, Total, Totals

FIELDS = tuple(f.name for f in fields(BilledLine))


def list_billed(
    lines: Iterable[BilledLine],
    *,
    source: str,
    form: str,
    column: CostColumn = CostColumn.BILLED,
    instance_types: Collection[str] = (),
    regions: Collection[str] = (),
    start: date | None = None,
    end: date | None = None,
    most: int | None = None,
    excluded: Mapping[str, int] | None = None,
) -> Document:
    """Return `{source, format, cost_column, start, end, found, excluded{reason: count}, totals[…], lines[…]}`; costs are exact decimal text in their currency.

    Totals and `found` count every line that passes the filters, `lines` holds the first `most` of them. A line belongs to the period in
    which it starts; `end` is not in it. `excluded` is read after the last line. The four costs are never added to each other, nor are currencies.
    """
    check_period(start, end)
    first, last = (None if day is None else datetime.combine(day, time(), tzinfo=UTC) for day in (start, end))
    types = {name.casefold() for name in instance_types}
    places = {name.casefold() for name in regions}
    sums, found = Totals(column), 0
    shown: list[Document] = []
    for line in lines:
        if (
            (types and (line.instance_type or "").casefold() not in types)
            or (places and (line.region or "").casefold() not in places)
            or (first is not None and line.charge_period_start < first)
            or (last is not None and line.charge_period_start >= last)
        ):
            continue
        found += 1
        sums.add(line)
        if most is None or len(shown) < most:
            shown.append(line_document(line))
    return {
        "source": source,
        "format": form,
        "cost_column": column.value,
        "start": plain(start),
        "end": plain(end),
        "found": found,
        "excluded": dict(excluded or {}),
        "totals": [total_document(total) for total in sums.by_currency()],
        "lines": shown,
    }


def check_period(start: date | None, end: date | None) -> None:
    """Raise `BadRequest` unless the end, where both are given, is after the start."""
    if start is not None and end is not None and end <= start:
        raise BadRequest(
            field="end",
            value=end.isoformat(),
            why=f"is not after --start {start.isoformat()}; the end is not in the period",
        )


def line_document(line: BilledLine) -> Document:
    """Return one line as plain JSON values, in the order of its fields."""
    return {name: _plain(getattr(line, name)) for name in FIELDS}


def total_document(total: Total) -> Document:
    """Return the sum of one currency; null where no line has the figure."""
    return {
        "currency": total.currency,
        "amount": plain(total.amount),
        "lines": total.lines,
        "lines_without": total.lines_without,
        "lines_estimated": total.lines_estimated,
    }


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else plain(value)
