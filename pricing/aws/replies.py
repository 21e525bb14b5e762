"""Reading of one field of a reply: exact numbers, times with a zone, lists that must be there. Each fault names its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pricing.amounts import UPFRONT, billed_decimal, shown
from pricing.errors import ReplyError
from pricing.source import ANY_TYPE


def untold(faults: Iterable[ReplyError]) -> frozenset[str]:
    """Return the instance types of which rows could not be read or told, `ANY_TYPE` for a row that does not say of which it is."""
    return frozenset(fault.instance_type or ANY_TYPE for fault in faults)


def mapping(value: Any, *, source: str, where: str) -> Mapping[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, Mapping):
        raise ReplyError(source=source, where=where, why=f"must be an object, not {kind(value)}")
    return value


def sequence(value: Any, *, source: str, where: str) -> Sequence[Any]:
    """Return a JSON list."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise ReplyError(source=source, where=where, why=f"must be a list, not {kind(value)}")
    return value


def rows_of(reply: Any, key: str, *, source: str) -> Sequence[Any]:
    """Return the list under `key`. A body that was cut or is HTML comes through the SDK as a reply without it: never an empty answer."""
    reply = mapping(reply, source=source, where="reply")
    if key not in reply:
        raise ReplyError(
            source=source,
            where="reply",
            why=f"has no {key}: a cut or foreign body, ask again (it holds {', '.join(sorted(reply)) or 'nothing'})",
        )
    return sequence(reply[key], source=source, where=key)


def text(row: Mapping[str, Any], key: str, *, source: str, where: str) -> str:
    """Return a text that must be there and not empty."""
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise ReplyError(source=source, where=where, why=f"{key} must be a text, not {kind(value)}")
    return value


def whole(row: Mapping[str, Any], key: str, *, source: str, where: str) -> int:
    """Return a whole number of at least zero."""
    value = row.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ReplyError(source=source, where=where, why=f"{key} must be a whole number, not {kind(value)}")
    return value


def price(value: Any, *, source: str, where: str) -> Decimal:
    """Return an exact price of at least zero, without padding zeros (lists write 1.0060000000); upfront payments are prices too.

    Prices are texts on the wire; a float has already lost digits and is refused.
    """
    if not isinstance(value, str):
        raise ReplyError(source=source, where=where, why=f"a price must be a text, not {kind(value)}")
    amount = billed_decimal(value)
    if amount is None or not 0 <= amount <= UPFRONT.most:
        raise ReplyError(source=source, where=where, why=f"{shown(value)} is not a price")
    return Decimal(f"{amount.normalize():f}")


def instant(value: Any, *, source: str, where: str) -> datetime:
    """Return a time in UTC from ISO text with a zone, or from what the SDK already parsed."""
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError) as e:
        raise ReplyError(
            source=source, where=where, why=f"must be a time like 2026-07-20T03:10:00Z, not {value!r}"
        ) from e
    if at.tzinfo is None:
        raise ReplyError(source=source, where=where, why=f"the time {value!s} has no zone")
    return at.astimezone(UTC)


def kind(value: Any) -> str:
    """Return how a wrong value is named in a message."""
    return "missing" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
