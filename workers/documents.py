"""Documents of the wire contract: frozen values to JSON and strictly back, and the hash of their content.

Strict: a field that is missing, unknown, of another type or not finite is a `DocumentError` that names it. Nothing is guessed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from workers.errors import DocumentError

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return a frozen value as plain JSON values, fields in their order, unknown as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    return value


def content_hash(plain: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of a plain document without its own `content_hash`; spacing and the order of keys do not matter."""
    rest = {key: value for key, value in plain.items() if key != "content_hash"}
    return hashlib.sha256(
        json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    ).hexdigest()


def parse_json(text: str | bytes, *, source: str) -> Any:
    """Return the plain values of a JSON text; NaN, infinities and repeated keys are errors."""

    def refuse_number(token: str) -> NoReturn:
        raise DocumentError(source, f"{token} is not a number that JSON has")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            twice = next(key for i, (key, _) in enumerate(pairs) if key in {k for k, _ in pairs[:i]})
            raise DocumentError(source, f"field {twice!r} occurs twice")
        return out

    try:
        return json.loads(text, parse_constant=refuse_number, object_pairs_hook=unique)
    except json.JSONDecodeError as e:
        raise DocumentError(source, f"not JSON: {e.msg} (line {e.lineno}, column {e.colno})") from e
    except UnicodeDecodeError as e:
        raise DocumentError(source, f"not UTF-8 text: {e.reason} at byte {e.start}") from e
    except RecursionError as e:
        raise DocumentError(source, "nested too deeply") from e


def from_plain(kind: type[T], plain: Any, where: str) -> T:
    """Return the frozen value that `plain` describes; `where` is the path of the value, for messages."""
    if not isinstance(plain, Mapping):
        raise DocumentError(where, f"must be an object, not {_name(plain)}")
    hints = get_type_hints(kind)
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]  # kind is always one of our dataclasses
    for name in plain:
        if name not in known:
            raise DocumentError(f"{where}.{name}", f"unknown field; known are {', '.join(known)}")
    given = {name: _value(hints[name], plain[name], f"{where}.{name}") for name in known if name in plain}
    for name, f in known.items():
        if name not in given and f.default is MISSING and f.default_factory is MISSING:
            raise DocumentError(f"{where}.{name}", "is missing")
    try:
        return kind(**given)
    except ValueError as e:
        raise DocumentError(where, str(e)) from e


def _value(annotation: Any, plain: Any, where: str) -> Any:
    arguments = get_args(annotation)
    if type(None) in arguments:
        if plain is None:
            return None
        (annotation,) = (a for a in arguments if a is not type(None))
        arguments = get_args(annotation)
    if get_origin(annotation) is tuple:
        if not isinstance(plain, list):
            raise DocumentError(where, f"must be a list, not {_name(plain)}")
        return tuple(_value(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(plain))
    if get_origin(annotation) is Mapping:
        if not isinstance(plain, Mapping):
            raise DocumentError(where, f"must be an object, not {_name(plain)}")
        return {key: _value(arguments[1], item, f"{where}.{key}") for key, item in plain.items()}
    if is_dataclass(annotation) and isinstance(annotation, type):
        return from_plain(annotation, plain, where)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _member(annotation, plain, where)
    if annotation is datetime:
        return _moment(plain, where)
    return _scalar(annotation, plain, where)


def _moment(plain: Any, where: str) -> datetime:
    try:
        moment = datetime.fromisoformat(plain)
    except (TypeError, ValueError) as e:
        raise DocumentError(where, f"must be an ISO 8601 time, not {_name(plain)}") from e
    if moment.tzinfo is None:
        raise DocumentError(where, f"must say its time zone, not {_name(plain)}")
    return moment


def _member(annotation: type[Enum], plain: Any, where: str) -> Enum:
    try:
        return annotation(plain)
    except ValueError as e:
        raise DocumentError(where, f"{plain!r} is not one of {', '.join(str(m.value) for m in annotation)}") from e


def _scalar(annotation: Any, plain: Any, where: str) -> Any:
    if annotation is float and isinstance(plain, (int, float)) and not isinstance(plain, bool):
        number = float(plain)
        if not math.isfinite(number):
            raise DocumentError(where, f"must be finite, not {plain!r}")
        return number
    expected = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}[annotation]
    if not isinstance(plain, annotation) or (isinstance(plain, bool) and annotation is not bool):
        raise DocumentError(where, f"must be {expected}, not {_name(plain)}")
    return plain


def _name(plain: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: f"the text {plain!r}", type(None): "null"}
    return kinds.get(type(plain), repr(plain))[:80]


def write_whole(path: Path, text: str) -> None:
    """Write a text file in one step: readers see the old file or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
