"""Our frozen values as database rows and as canonical text, driven by the fields of the dataclass.

A field's annotation decides how it is kept: money as exact decimal text, days and times as ISO 8601 (UTC), enums by their value,
maps as JSON with sorted keys, numbers and text as they are. A type that is not listed here is refused rather than guessed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

Row = TypeVar("Row")
Cell = str | int | float | None


class Column(NamedTuple):
    """One field of a dataclass as a column: its SQLite type and the way there and back."""

    name: str
    sql_type: str
    to_cell: Callable[[Any], Cell]
    from_cell: Callable[[Any], Any] | None  # None: the cell is the value


def _money_text(value: Decimal) -> str:
    if not isinstance(value, Decimal) or not value.is_finite():
        raise TypeError(f"must be a finite Decimal, not {value!r}")
    return f"{value:f}"


def _finite(value: float) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"must be finite, not {value!r}")
    return number


def _utc_text(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError(f"must say its time zone: {value.isoformat()}")
    return value.astimezone(UTC).isoformat()


def _map_text(value: Mapping[str, float]) -> str:
    return json.dumps({key: _finite(number) for key, number in value.items()}, sort_keys=True, separators=(",", ":"))


def _column(name: str, annotation: Any) -> Column:
    if get_origin(annotation) is not None and type(None) in get_args(annotation):
        (annotation,) = (a for a in get_args(annotation) if a is not type(None))
    if annotation is Decimal:
        return Column(name, "TEXT", _money_text, cache(Decimal))
    if annotation is datetime:
        return Column(name, "TEXT", _utc_text, cache(datetime.fromisoformat))
    if annotation is date:
        return Column(name, "TEXT", date.isoformat, cache(date.fromisoformat))
    if annotation is bool:
        return Column(name, "INTEGER", int, bool)
    if annotation is int:
        return Column(name, "INTEGER", int, None)
    if annotation is float:
        return Column(name, "REAL", _finite, None)
    if annotation is str:
        return Column(name, "TEXT", str, None)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return Column(
            name, "TEXT", lambda v: annotation(v).value, {member.value: member for member in annotation}.__getitem__
        )
    if get_origin(annotation) is Mapping:
        return Column(name, "TEXT", _map_text, json.loads)
    raise TypeError(f"{name}: do not know how to keep {annotation!r} in a row")


UNLIKE_WHERE_EQUAL = frozenset({_money_text, _finite})
"""Ways to a cell that differ for equal values: 55.04 and 55.040, 0.0 and -0.0."""

JSON_TEXT: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode
"""A text as JSON writes it."""

_KNOWN: dict[type, tuple[Column, ...]] = {}


def columns(kind: type[Any]) -> tuple[Column, ...]:
    """Return the columns of a dataclass, in the order of its fields."""
    if kind not in _KNOWN:
        hints = get_type_hints(kind)
        _KNOWN[kind] = tuple(_column(f.name, hints[f.name]) for f in fields(kind))
    return _KNOWN[kind]


def cells(value: Any) -> tuple[Cell, ...]:
    """Return the cells of one frozen value; raises ValueError or TypeError, naming the field, on what cannot be kept."""
    out: list[Cell] = []
    for column in columns(type(value)):
        item = getattr(value, column.name)
        try:
            out.append(None if item is None else column.to_cell(item))
        except (TypeError, ValueError) as e:
            raise type(e)(f"{type(value).__name__}.{column.name} {e}") from e
    return tuple(out)


def canonical(value: Any) -> str:
    """Return one line of JSON that is the same for equal values: sorted keys, unknown (None) left out."""
    named = {c.name: cell for c, cell in zip(columns(type(value)), cells(value), strict=True) if cell is not None}
    return json.dumps(named, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def cell_columns(kind: type[Any], rows: Sequence[Any]) -> list[list[Cell]]:
    """Return the cells of many values of one kind, column by column; raises like `cells`.

    A column holds the same few days, names and options over and over: each is turned once, where equal values have equal cells.
    """
    cols = columns(kind)
    try:
        return [_cells_of(column, map(attrgetter(column.name), rows)) for column in cols]
    except (TypeError, ValueError):  # once more, row by row: it names the field
        return list(map(list, zip(*map(cells, rows), strict=True)))


def _cells_of(column: Column, items: Iterable[Any]) -> list[Cell]:
    turn = column.to_cell
    if turn in UNLIKE_WHERE_EQUAL:
        return [None if item is None else turn(item) for item in items]
    return list(map(_Once(turn).__getitem__, items))


class _Once(dict[Any, Any]):
    """Turns each value once; None stays None."""

    def __init__(self, turn: Callable[[Any], Any]) -> None:
        super().__init__({None: None})
        self._turn = turn

    def __missing__(self, value: Any) -> Any:
        made = self[value] = self._turn(value)
        return made


def _named_text(name: str) -> Callable[[str], str]:
    return lambda cell: name + JSON_TEXT(cell)


def canonical_lines(kind: type[Any], made: Sequence[Sequence[Cell]], before: str = "") -> list[str]:
    """Return the lines of `canonical` for rows given as columns of cells, `before` in front of each."""
    parts = []
    for column, column_cells in sorted(zip(columns(kind), made, strict=True), key=lambda pair: pair[0].name):
        if column_cells.count(None) == len(column_cells):
            continue
        name = f'"{column.name}":'
        if column.sql_type == "TEXT":
            parts.append(list(map(_Once(_named_text(name)).__getitem__, column_cells)))
        else:
            parts.append([None if cell is None else f"{name}{cell!r}" for cell in column_cells])
    if not parts:
        return [f"{before}{{}}"] * (len(made[0]) if made else 0)
    if any(None in part for part in parts):
        return [f"{before}{{{','.join(filter(None, row))}}}" for row in zip(*parts, strict=True)]
    return [f"{before}{{{','.join(row)}}}" for row in zip(*parts, strict=True)]


def from_canonical(kind: type[Row], line: str) -> Row:
    """Return the frozen value that a line of `canonical` stands for; ValueError for a line that is not one of that kind."""
    try:
        named = json.loads(line)
        if not isinstance(named, dict) or not named.keys() <= {c.name for c in columns(kind)}:
            raise ValueError(f"not a row of {kind.__name__}")
        (value,) = values(kind, [[named.get(c.name) for c in columns(kind)]])
    except (ArithmeticError, KeyError, TypeError, json.JSONDecodeError) as e:
        raise ValueError(f"not a row of {kind.__name__}: {e}") from e
    return value


def values(kind: type[Row], rows: Iterable[Sequence[Any]]) -> Iterator[Row]:
    """Yield the frozen values of rows whose cells stand in the order of `columns(kind)`."""
    cols = columns(kind)
    names = [c.name for c in cols]
    decoders = [(i, c.from_cell) for i, c in enumerate(cols) if c.from_cell is not None]
    for row in rows:
        cells_ = list(row)
        for i, decode in decoders:
            if cells_[i] is not None:
                cells_[i] = decode(cells_[i])
        yield kind(**dict(zip(names, cells_, strict=True)))
