"""Query parameters, strictly: an unknown name, a second value where one is meant, or a word for a number is refused."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from fastapi import Request

from planner.api.problems import FieldError, invalid

LONGEST_VALUE = 200
MOST_VALUES = 200
LARGEST_NUMBER = 10**9
LONGEST_DECIMAL = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One query parameter: repeatable names, one whole number from `minimum` to `maximum`, or one text that `read` understands."""

    help: str
    minimum: int | None = None
    maximum: int = LARGEST_NUMBER
    read: Callable[[str], Any] | None = None  # raises ValueError, whose message says what would be right
    needed: bool = False
    form: str | None = None  # "date" and the like, as OpenAPI names it
    example: str | int

    @property
    def is_number(self) -> bool:
        """Whether it is a number; names otherwise."""
        return self.minimum is not None

    def to_openapi(self, name: str) -> dict[str, Any]:
        """Return the OpenAPI description."""
        one: dict[str, Any] = (
            {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
            if self.is_number
            else {"type": "string", "maxLength": LONGEST_VALUE}
        )
        if self.form is not None:
            one["format"] = self.form
        single = self.is_number or self.read is not None
        schema = one if single else {"type": "array", "items": one, "maxItems": MOST_VALUES}
        return {
            "name": name,
            "in": "query",
            "required": self.needed,
            "description": self.help,
            "schema": schema,
            "example": self.example if single else [self.example],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The parameters of a request: names given for each filter, the numbers, and what single texts were read as."""

    names: Mapping[str, tuple[str, ...]]
    numbers: Mapping[str, int]
    values: Mapping[str, Any] = field(default_factory=dict)


def day(text: str) -> date:
    """Return a day written YYYY-MM-DD."""
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
            return date.fromisoformat(text)
    except ValueError as e:
        raise ValueError(f"must be a day that exists, YYYY-MM-DD ({e})") from None
    raise ValueError("must be a day, YYYY-MM-DD")


def amount(text: str) -> Decimal:
    """Return a decimal of at least zero, exactly as it is written."""
    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite() or found < 0 or len(text) > LONGEST_DECIMAL or abs(found.adjusted()) > LONGEST_DECIMAL:
        raise ValueError("must be a decimal of at least 0, written with a point")
    return found


def word(text: str) -> str:
    """Return one text as it is."""
    return text


def read_query(request: Request, known: Mapping[str, Parameter]) -> Query:
    """Return the query parameters, or raise one problem that names every one that is wrong."""
    names: dict[str, tuple[str, ...]] = {}
    numbers: dict[str, int] = {}
    read: dict[str, Any] = {}
    wrong: list[FieldError] = []
    for name in dict.fromkeys(key for key, _ in request.query_params.multi_items()):
        values = request.query_params.getlist(name)
        parameter = known.get(name)
        if parameter is None:
            near = difflib.get_close_matches(name.lower().replace("-", "_"), known, n=2, cutoff=0.6)
            wrong.append(
                FieldError(
                    field=name[:LONGEST_VALUE],
                    value=values[0],
                    why="is not a parameter of this path",
                    expected=f"did you mean {' or '.join(near)}?" if near else "",
                )
            )
        elif parameter.is_number:
            number = (
                int(values[0])
                if len(values) == 1 and len(values[0]) <= 10 and values[0].isascii() and values[0].isdigit()
                else -1
            )
            if number < (parameter.minimum or 0) or number > parameter.maximum:
                wrong.append(
                    FieldError(
                        field=name,
                        value=", ".join(values),
                        why=f"must be one whole number from {parameter.minimum} to {parameter.maximum}",
                    )
                )
            numbers[name] = number
        elif len(values) > MOST_VALUES or any(
            not value or len(value) > LONGEST_VALUE or not value.isprintable() for value in values
        ):
            wrong.append(
                FieldError(
                    field=name,
                    value=values[0],
                    why=f"must be 1 to {LONGEST_VALUE} printable characters, at most {MOST_VALUES} times",
                    expected=f"for example {name}={parameter.example}",
                )
            )
        elif parameter.read is not None and len(values) > 1:
            wrong.append(FieldError(field=name, value=", ".join(values), why="must be given once"))
        elif parameter.read is not None:
            try:
                read[name] = parameter.read(values[0])
            except ValueError as e:
                wrong.append(
                    FieldError(
                        field=name, value=values[0], why=str(e), expected=f"for example {name}={parameter.example}"
                    )
                )
        else:
            names[name] = tuple(values)
    wrong += [
        FieldError(field=name, value=None, why="must be given", expected=f"for example {name}={parameter.example}")
        for name, parameter in known.items()
        if parameter.needed and name not in request.query_params
    ]
    if wrong:
        raise invalid(wrong)
    return Query(names=names, numbers=numbers, values=read)


def no_query(request: Request) -> None:
    """Refuse any query parameter."""
    read_query(request, {})
