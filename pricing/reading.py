"""Reading of the tables: cells into exact values, long-form rows into things, each fault with its table, line and column."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from pricing.errors import TableError

CONFIDENCES = ("high", "medium", "low")  # best first
FIGURE_COLUMNS = ("parameter", "value", "unit", "source", "retrieved_on", "confidence", "note")

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table; every reader raises `TableError` with the place when the cell cannot be right."""

    table: str
    line: int
    cells: Mapping[str, str]

    def wrong(self, column: str, why: str) -> TableError:
        """Return the error that names this row and `column`."""
        return TableError(table=self.table, line=self.line, column=column, why=why)

    def text(self, column: str) -> str:
        """Return a cell that must not be empty."""
        if not (value := self.cells[column]):
            raise self.wrong(column, "must not be empty")
        return value

    def optional(self, column: str) -> str | None:
        """Return a cell, None when empty."""
        return self.cells[column] or None

    def decimal(self, column: str) -> Decimal:
        """Return an exact finite number."""
        text = self.text(column)
        try:
            value = Decimal(text)
        except InvalidOperation:
            value = Decimal("NaN")
        if not value.is_finite():
            raise self.wrong(column, f"must be a number, not {text!r}")
        return value

    def number(self, column: str) -> float:
        """Return a physical quantity."""
        return float(self.decimal(column))

    def whole(self, column: str) -> int:
        """Return an integer."""
        value = self.decimal(column)
        if value != value.to_integral_value():
            raise self.wrong(column, f"must be a whole number, not {value}")
        return int(value)

    def yes_no(self, column: str) -> bool:
        """Return a truth value written as yes or no."""
        text = self.text(column)
        if text not in ("yes", "no"):
            raise self.wrong(column, f"must be yes or no, not {text!r}")
        return text == "yes"

    def day(self, column: str = "retrieved_on") -> date:
        """Return a day in ISO form (2026-07-20)."""
        text = self.text(column)
        try:
            return date.fromisoformat(text)
        except ValueError as e:
            raise self.wrong(column, f"must be a day like 2026-07-20, not {text!r}") from e

    def midnight(self, column: str = "retrieved_on") -> datetime:
        """Return the start of a day, UTC."""
        return datetime.combine(self.day(column), time(), tzinfo=UTC)

    def confidence(self) -> str:
        """Return high, medium or low."""
        text = self.text("confidence")
        if text not in CONFIDENCES:
            raise self.wrong("confidence", f"must be one of {', '.join(CONFIDENCES)}, not {text!r}")
        return text

    def member(self, column: str, kind: type[E]) -> E:
        """Return a member of a closed set by its value."""
        text = self.text(column)
        try:
            return kind(text)
        except ValueError as e:
            raise self.wrong(column, f"must be one of {', '.join(kind)}, not {text!r}") from e

    def unit_is(self, unit: str) -> None:
        """Refuse another unit than the one that this figure is kept in."""
        if self.cells["unit"] != unit:
            raise self.wrong("unit", f"must be {unit!r}, not {self.cells['unit']!r}")


Reader = Callable[[Row], Any]
"""Turns the `value` cell of a row into what the parameter holds."""


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the lines of a table whose header must be exactly `columns`."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if header != list(columns):
                raise TableError(table=path.name, line=1, column=None, why=f"the header must be {','.join(columns)}")
            for cells in reader:
                if len(cells) != len(columns):
                    why = f"has {len(cells)} cells, must have {len(columns)}"
                    raise TableError(table=path.name, line=reader.line_num, column=None, why=why)
                yield Row(path.name, reader.line_num, dict(zip(columns, cells, strict=True)))
    except OSError as e:
        raise TableError(table=path.name, line=None, column=None, why=f"cannot be read: {e.strerror or e}") from e
    except (csv.Error, UnicodeDecodeError) as e:
        raise TableError(table=path.name, line=None, column=None, why=f"is not a CSV table in UTF-8: {e}") from e


def long_form(
    path: Path,
    key: tuple[str, ...],
    parameters: Mapping[str, tuple[str, Reader]],
    required: tuple[str, ...],
) -> Iterator[tuple[tuple[str, ...], dict[str, Any], dict[str, Row]]]:
    """Yield one thing of a long-form table at a time: its key, its values and the rows that they came from."""
    things: dict[tuple[str, ...], dict[str, Row]] = defaultdict(dict)
    for row in read_rows(path, (*key, *FIGURE_COLUMNS)):
        parameter = row.text("parameter")
        rows = things[tuple(row.text(column) for column in key)]
        if parameter not in parameters:
            raise row.wrong("parameter", f"unknown: {parameter!r}; known are {', '.join(parameters)}")
        if parameter in rows:
            raise row.wrong("parameter", f"{parameter} is given twice, first on line {rows[parameter].line}")
        row.unit_is(parameters[parameter][0])
        row.text("source")
        row.day()
        row.confidence()
        rows[parameter] = row
    for name, rows in things.items():
        if missing := [parameter for parameter in required if parameter not in rows]:
            first = next(iter(rows.values()))
            raise first.wrong("parameter", f"{' '.join(name)} lacks {', '.join(missing)}")
        yield name, {parameter: parameters[parameter][1](row) for parameter, row in rows.items()}, rows


def provenance(rows: Mapping[str, Row], deciding: Iterable[str]) -> dict[str, Any]:
    """Return source, date (the oldest), confidence (the weakest of the deciding figures) and notes of one thing."""
    decisive = [rows[p].confidence() for p in deciding if p in rows] or [row.confidence() for row in rows.values()]
    notes: dict[str, list[str]] = defaultdict(list)
    for parameter, row in rows.items():
        if note := row.optional("note"):
            notes[note].append(parameter)
    return {
        "source": "; ".join(dict.fromkeys(row.text("source") for row in rows.values())),
        "retrieved_on": min(row.day() for row in rows.values()),
        "confidence": max(decisive, key=CONFIDENCES.index),
        "notes": "; ".join(notes),
    }
