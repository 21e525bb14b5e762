"""Query parameters, strictly: an unknown name, a second value where one is meant, or a word for a number is refused."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from planner.api.problems import FieldError, invalid

LONGEST_VALUE = 200
MOST_VALUES = 200
LARGEST_NUMBER = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One query parameter: repeatable names, or one whole number of at least `minimum`."""

    help: str
    minimum: int | None = None
    example: str | int

    @property
    def is_number(self) -> bool:
        """Whether it is a number; names otherwise."""
        return self.minimum is not None

    def to_openapi(self, name: str) -> dict[str, Any]:
        """Return the OpenAPI description."""
        one: dict[str, Any] = (
            {"type": "integer", "minimum": self.minimum, "maximum": LARGEST_NUMBER}
            if self.is_number
            else {"type": "string", "maxLength": LONGEST_VALUE}
        )
        schema = one if self.is_number else {"type": "array", "items": one, "maxItems": MOST_VALUES}
        return {
            "name": name,
            "in": "query",
            "required": False,
            "description": self.help,
            "schema": schema,
            "example": self.example if self.is_number else [self.example],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The parameters of a request: names given for each filter, and the numbers."""

    names: Mapping[str, tuple[str, ...]]
    numbers: Mapping[str, int]


def read_query(request: Request, known: Mapping[str, Parameter]) -> Query:
    """Return the query parameters, or raise one problem that names every one that is wrong."""
    names: dict[str, tuple[str, ...]] = {}
    numbers: dict[str, int] = {}
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
            if number < (parameter.minimum or 0) or number > LARGEST_NUMBER:
                wrong.append(
                    FieldError(
                        field=name,
                        value=", ".join(values),
                        why=f"must be one whole number from {parameter.minimum} to {LARGEST_NUMBER}",
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
        else:
            names[name] = tuple(values)
    if wrong:
        raise invalid(wrong)
    return Query(names=names, numbers=numbers)


def no_query(request: Request) -> None:
    """Refuse any query parameter."""
    read_query(request, {})
