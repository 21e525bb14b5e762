"""Flags made from the fields of a request: `field_name` becomes `--field-name`, and its `Option` the help, the choices and the unit.

Values arrive as text and are parsed here, each with one clear error line. Nothing heavy is imported.
"""

from __future__ import annotations

import dataclasses
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from planner.cli.errors import UsageError
from planner.recommend.as_of import WHICH, AsOf, as_of
from planner.recommend.request import Option, RecommendRequest, suggestion
from planner.recommend.stages import request_of

if TYPE_CHECKING:
    from argparse import ArgumentParser

Request = TypeVar("Request")

LARGEST_SERIES = 64 * 2**20
"""Bytes of a file of hourly values."""

GROUP_TITLES: Mapping[str, str] = {
    "general": "what runs",
    "inference": "inference",
    "training": "training",
    "constraints": "constraints",
    "prices": "what may be bought",
    "output": "output",
}


SNAPSHOT = "DAY|SNAPSHOT"
"""What stands for a price snapshot in the help."""


def flag_of(field_name: str) -> str:
    """Return the flag of a request field: `max_ttft_ms` is `--max-ttft-ms`."""
    return "--" + field_name.replace("_", "-")


def add_request_flags(parser: ArgumentParser, request: type[Any]) -> None:
    """Add one flag for every field of a request class, grouped as its options say."""
    groups: dict[str, Any] = {}
    for f in dataclasses.fields(request):
        what: Option = f.metadata["option"]
        if what.group not in groups:
            groups[what.group] = parser.add_argument_group(GROUP_TITLES.get(what.group, what.group))
        settings: dict[str, Any] = {"dest": f.name, "default": None, "help": help_text(f, what)}
        if type_of(f) == "bool":
            settings["action"] = "store_true"
        else:
            settings["metavar"] = metavar(f, what)
            if what.repeatable and what.column is None:
                settings["action"] = "append"
        groups[what.group].add_argument(flag_of(f.name), **settings)


def type_of(f: dataclasses.Field[Any]) -> str:
    """Return the plain type of a field: "int", "float", "str", "bool", "AsOf" or, for repeatable ones, that of one element."""
    text = f.type if isinstance(f.type, str) else getattr(f.type, "__name__", str(f.type))
    text = text.replace(" | None", "").strip()
    return text.removeprefix("tuple[").split(",")[0].rstrip("]").strip() if text.startswith("tuple[") else text


def metavar(f: dataclasses.Field[Any], what: Option) -> str:
    """Return the word that stands for the value in the help."""
    if what.column is not None:
        return "FILE.csv"
    if what.choices:
        return "CHOICE"
    return {"int": "N", "float": "NUMBER", "AsOf": SNAPSHOT}.get(type_of(f), "TEXT")


def help_text(f: dataclasses.Field[Any], what: Option) -> str:
    """Return the help line of a field: meaning, unit, choices, default."""
    extras = []
    if what.unit and what.unit not in what.help:
        extras.append(f"in {what.unit}" if what.unit != "fraction" else "a fraction, 0 to 1")
    if what.choices:
        extras.append("one of " + ", ".join(what.choices))
    if what.column is not None:
        extras.append(f"CSV with a column {what.column}, one row an interval")
    elif what.repeatable:
        extras.append("repeatable or comma-separated")
    if f.default not in (None, (), False, dataclasses.MISSING) and "default" not in what.help:
        extras.append(
            "default "
            + (
                ", ".join(map(str, f.default))
                if isinstance(f.default, tuple)
                else f"{f.default:g}"
                if isinstance(f.default, float)
                else str(f.default)
            )
        )
    return (what.help + (f" ({'; '.join(extras)})" if extras else "")).replace("%", "%%")


def request_from(args: Namespace, request: type[Request]) -> Request:
    """Return the request that the parsed flags describe; fields that were not given keep their defaults."""
    given: dict[str, Any] = {}
    for f in dataclasses.fields(request):  # type: ignore[arg-type]  # every request is a dataclass
        text = getattr(args, f.name, None)
        if text is None:
            continue
        what: Option = f.metadata["option"]
        if type_of(f) == "bool":
            given[f.name] = text
        elif what.column is not None:
            given[f.name] = series(flag_of(f.name), text, what.column, longest=what.longest)
        elif what.repeatable:
            given[f.name] = tuple(
                dict.fromkeys(parsed(f, what, part.strip()) for item in text for part in item.split(","))
            )
        else:
            given[f.name] = parsed(f, what, text)
    return request_of(given) if request is RecommendRequest else request(**given)  # type: ignore[return-value]  # it is one


def parsed(f: dataclasses.Field[Any], what: Option, text: str) -> Any:
    """Return one value of a field from its text."""
    flag = flag_of(f.name)
    if not text.strip():
        raise UsageError(f"{flag}: needs a value, for example {flag} {example(f, what)}")
    if what.choices:
        chosen = (
            text
            if text in what.choices
            else text.lower().replace("-", "_")
            if text.lower().replace("-", "_") in what.choices
            else text.lower()
        )
        if chosen not in what.choices:
            near = suggestion(text, what.choices)
            raise UsageError(f"{flag}: {text!r} is not one of {', '.join(what.choices)}{f'; {near}' if near else ''}")
        return int(chosen) if type_of(f) == "int" else chosen
    reader = READERS.get(type_of(f))
    return text if reader is None else reader(flag, text)


def example(f: dataclasses.Field[Any], what: Option) -> str:
    """Return an example value of a field for an error message."""
    if what.example is not None:
        first = what.example[0] if isinstance(what.example, list) else what.example
        return f"{first:g}" if isinstance(first, float) else str(first)
    if what.choices:
        return what.choices[0]
    return {"int": "8", "float": "1.5"}.get(type_of(f), "NAME")


def listed(given: list[str] | None) -> tuple[str, ...]:
    """Return the values of a repeatable flag, commas split: `--region a,b --region c` is a, b, c."""
    return tuple(dict.fromkeys(part.strip() for item in given or () for part in item.split(",") if part.strip()))


@contextmanager
def positional(kind: str) -> Iterator[None]:
    """Name a kind of thing that is given without a flag as what it is: an unknown type is not said of `--instance`."""
    from pricing.errors import UnknownName

    try:
        yield
    except UnknownName as e:
        if e.kind != kind:
            raise
        raise UsageError(str(e)) from e


def some(text: str) -> str:
    """Return a value of a filter; an empty one (an unset variable of a script) must not mean everything."""
    if not text.replace(",", "").strip():
        raise ArgumentTypeError("needs a value; without the flag nothing is filtered by it")
    return text


def number(flag: str, text: str) -> float:
    """Return a number written as 1000, 1_000, 1.5 or 50e6."""
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not a number; write it as 1000, 1_000, 1.5 or 50e6") from None


def amount(flag: str, text: str) -> Decimal:
    """Return an amount of money, exact, written as 55, 55.04 or 1_000."""
    try:
        value = Decimal(text.replace("_", ""))
    except ArithmeticError:
        value = Decimal("NaN")
    if not value.is_finite():
        raise UsageError(f"{flag}: {text!r} is not an amount; write it as 55, 55.04 or 1_000")
    return value


def whole_number(flag: str, text: str) -> int:
    """Return a whole number written as 1000, 1_000 or 1e3."""
    value = number(flag, text)
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):  # noqa: PLR0124 - NaN differs from itself
        raise UsageError(f"{flag}: {text!r} is not a whole number; write it as 8, 1_000 or 1e3")
    try:
        return int(text)
    except ValueError:
        return int(value)


def series(flag: str, path: str, column: str, *, longest: int) -> tuple[float, ...]:
    """Return one column of a CSV file as numbers; an error names the line."""
    import csv
    import io

    from pricing.errors import NotReadable
    from pricing.plain_files import read_text

    try:
        with io.StringIO(read_text(Path(path), most_bytes=LARGEST_SERIES), newline="") as file:
            rows = csv.DictReader(file)
            if column not in (rows.fieldnames or ()):
                raise UsageError(f"{flag}: {path}: has no column {column!r}; its first line must name its columns")
            values: list[float] = []
            for row in rows:
                if len(values) == longest:
                    raise UsageError(f"{flag}: {path}: has more than {longest} rows; give means of longer intervals")
                text = row[column] or ""
                try:
                    values.append(float(text))
                except ValueError:
                    raise UsageError(f"{flag}: {path}:{rows.line_num}: {column}: {text!r} is not a number") from None
    except NotReadable as e:
        raise UsageError(f"{flag}: {e}") from None
    except csv.Error as e:
        raise UsageError(f"{flag}: {path}: is not a CSV file: {e}") from None
    if not values:
        raise UsageError(f"{flag}: {path}: has no rows below its column names")
    return tuple(values)


def limit_of(text: str | None) -> int | None:
    """Return the value of `--limit`, None where it was not given."""
    if text is None:
        return None
    limit = whole_number("--limit", text)
    if limit < 1:
        raise UsageError(f"--limit: {limit} must be at least 1")
    return limit


def day(flag: str, text: str) -> date:
    """Return a day written as YYYY-MM-DD."""
    try:
        return date.fromisoformat(text)
    except ValueError as e:
        why = f" ({e})" if len(text.split("-")) == 3 and "Invalid" not in str(e) else ""
        raise UsageError(
            f"{flag}: {text!r} is not a day{why}; write it as YYYY-MM-DD, for example 2026-07-01"
        ) from None


def snapshot(flag: str, text: str) -> AsOf:
    """Return which price snapshot is meant: a day, or its name."""
    try:
        return as_of(text.strip())
    except ValueError as e:
        raise UsageError(f"{flag}: {text!r} {e}") from None


def add_snapshot_flag(parser: ArgumentParser) -> None:
    """Add `--prices-as-of` to a command that is not made from a request."""
    parser.add_argument("--prices-as-of", metavar=SNAPSHOT, help=f"which price snapshot: {WHICH} (default: latest)")


def snapshot_of(args: Namespace) -> AsOf | None:
    """Return the value of `--prices-as-of`, None where it was not given; an empty one must not mean the newest."""
    return None if args.prices_as_of is None else snapshot("--prices-as-of", args.prices_as_of)


READERS: Mapping[str, Callable[[str, str], Any]] = {"int": whole_number, "float": number, "AsOf": snapshot}
