"""From the bytes of a request to JSON values, strictly: what could be read in two ways is refused."""

from __future__ import annotations

import json
import math
from typing import Any, Never

from fastapi import Request

from planner.api.problems import Problem

JSON_TYPES = {"application/json"}
LONGEST_INTEGER = 18
UTF8 = {"", "utf-8", "utf8", "us-ascii"}


class _RefusedError(ValueError):
    """JSON that could be read in two ways, or not at all by other programs."""


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body; raise the problem that fits otherwise."""
    check_content_type(request.headers.get("content-type"), request.headers.get("content-encoding"))
    return parse_object(await request.body())


def check_content_type(content_type: str | None, content_encoding: str | None) -> None:
    """Raise 415 unless the body is declared as plain JSON in UTF-8."""
    media, _, parameters = (content_type or "").partition(";")
    charset = next(
        (
            v.strip().strip('"').lower()
            for n, _, v in (p.partition("=") for p in parameters.split(";"))
            if n.strip().lower() == "charset"
        ),
        "",
    )
    if media.strip().lower() not in JSON_TYPES or charset not in UTF8:
        given = f"it says {content_type[:80]!r}" if content_type else "it says nothing"
        raise Problem(
            slug="unsupported-media-type",
            detail=f"send Content-Type: application/json; {given}",
            headers={"Accept-Post": "application/json"},
        )
    if (content_encoding or "identity").strip().lower() != "identity":
        raise Problem(
            slug="unsupported-media-type",
            detail="send the body without Content-Encoding",
            headers={"Accept-Encoding": "identity"},
        )


def parse_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in `raw`: UTF-8, no duplicate names, no NaN or Infinity, no nesting that only serves to hurt."""
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_int=_int,
            parse_float=_float,
        )
    except UnicodeDecodeError as e:
        raise _malformed(f"byte {e.start} is not UTF-8") from e
    except json.JSONDecodeError as e:
        raise _malformed(
            "the body is empty" if not raw.strip() else f"line {e.lineno}, column {e.colno}: {e.msg}"
        ) from e
    except RecursionError:
        raise _malformed("it is nested too deeply") from None
    except _RefusedError as e:
        raise _malformed(str(e)) from e
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _malformed("a text in it holds half of a surrogate pair, which is no character") from None
    if not isinstance(value, dict):
        raise _malformed(f"expected an object {{…}}, got {_called(value)}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for name, value in pairs:
        if name in names:
            raise _RefusedError(f"the name {name[:80]!r} is given twice")
        names[name] = value
    return names


def _refuse_constant(name: str) -> Never:
    raise _RefusedError(f"{name} is not JSON")


def _int(digits: str) -> int:
    if len(digits) > LONGEST_INTEGER:
        raise _RefusedError(f"{digits[:12]}… has more than {LONGEST_INTEGER} digits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _RefusedError(f"{digits[:20]} is larger than any number here")
    return value


def _malformed(detail: str) -> Problem:
    return Problem(slug="malformed-json", detail=detail)


def _called(value: object) -> str:
    return {list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}.get(
        type(value), "null"
    )
