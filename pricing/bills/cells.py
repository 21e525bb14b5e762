"""The cells of one row of an export, whatever file it came from: CSV has texts, Parquet values. Each fault names its place and column."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

from pricing.amounts import billed_decimal

E = TypeVar("E", bound=StrEnum)
LONGEST_SHOWN = 40


class RowFault(Exception):  # noqa: N818 - one row's fault, gathered with those of others
    """Why one row cannot be right; never leaves `pricing.bills`."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row. Empty texts, absent columns and nulls are all None."""

    place: str  # "line 17" of a CSV, "row 16" of a Parquet file
    cells: Mapping[str, Any]

    def wrong(self, column: str, why: str) -> RowFault:
        """Return the fault of a cell."""
        return RowFault(f"{self.place}: {column}: {why}")

    def value(self, column: str) -> Any:
        """Return a cell."""
        value = self.cells.get(column)
        return None if value == "" else value

    def text(self, column: str) -> str | None:
        """Return a text."""
        value = self.cells.get(column)
        if not value:
            return None if value is None or value == "" else str(value)
        return (value if isinstance(value, str) else str(value)).strip() or None

    def must(self, column: str) -> str:
        """Return a text that must be there."""
        if (value := self.text(column)) is None:
            raise self.wrong(column, "must not be empty")
        return value

    def first(self, *columns: str) -> str | None:
        """Return the first of several columns that has a text."""
        return next((value for column in columns if (value := self.text(column)) is not None), None)

    def amount(self, column: str) -> Decimal | None:
        """Return an exact number, negative for credits. A binary float of a Parquet file becomes the shortest decimal that reads back as it."""
        value = self.value(column)
        if value is None:
            return None
        number = billed_decimal(value)
        if number is None:
            hint = (
                ", without thousands marks" if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", str(value).strip()) else ""
            )
            raise self.wrong(column, f"must be a number{hint}, not {shown(value)}")
        return number

    def must_amount(self, column: str) -> Decimal:
        """Return an exact number that must be there."""
        if (value := self.amount(column)) is None:
            raise self.wrong(column, "must not be empty")
        return value

    def instant(self, column: str) -> datetime:
        """Return a time in UTC. Text must state its zone; the timestamps of a Parquet file without one are in UTC, as AWS writes them."""
        value = self.value(column)
        try:
            at: datetime = value if isinstance(value, datetime) else datetime.fromisoformat(value)
            if at.tzinfo is None and isinstance(value, datetime):
                return at.replace(tzinfo=UTC)
            if at.tzinfo is not None:
                return at.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            raise self.wrong(column, f"must be a time like 2026-11-27T14:00:00Z, not {shown(value)}") from None
        raise self.wrong(column, f"must state its zone, like 2026-11-27T14:00:00Z, not {shown(value)}")

    def period(self, start: str, end: str) -> tuple[datetime, datetime]:
        """Return a half-open period, which does not end before it starts."""
        first, last = self.instant(start), self.instant(end)
        if last <= first:
            raise self.wrong(end, f"must be after {start}, {first.isoformat()}, not {last.isoformat()}")
        return first, last

    def currency(self, column: str) -> str:
        """Return an ISO 4217 code."""
        if not re.fullmatch(r"[A-Z]{3}", value := self.must(column)):
            raise self.wrong(column, f"must be a currency code like USD, not {shown(value)}")
        return value

    def member(self, column: str, kind: type[E]) -> E:
        """Return a member of a closed set."""
        value = self.must(column)
        try:
            return kind(value)
        except ValueError:
            raise self.wrong(column, f"must be one of {', '.join(kind)}, not {shown(value)}") from None

    def mapping(self, column: str) -> dict[str, str]:
        """Return a map: JSON text in a CSV, a list of pairs or an object in Parquet. Values that are null are left out."""
        value = self.value(column)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                raise self.wrong(column, f"must be a JSON object, not {shown(value)}") from None
        if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
            value = dict(value)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(column, f"must be a JSON object, not {shown(value)}")
        return {str(k): v if isinstance(v, str) else json.dumps(v) for k, v in sorted(value.items()) if v is not None}


def shown(value: Any) -> str:
    """Return a wrong value as a message shows it."""
    if value is None:
        return "empty"
    text = repr(str(value))
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
