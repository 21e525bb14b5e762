"""Which price snapshot an answer is made from: a day, or the name of one. What is written, before anything is opened."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from typing import TypeAlias

AsOf: TypeAlias = date | str
"""A day (the newest snapshot not after it), or `latest`, `shipped`, a snapshot's id or the beginning of one."""

WHICH = "the newest not after a day (YYYY-MM-DD), or the one of an id or its first 6 digits or more, shipped, latest"
PATTERN = "[0-9]{4}-[0-9]{2}-[0-9]{2}|latest|shipped|[0-9a-fA-F]{6,64}"
DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
NAME = re.compile(r"latest|shipped|[0-9a-f]{6,64}", re.IGNORECASE)


def as_of(text: str) -> AsOf:
    """Return a day as a date and the name of a snapshot as it is written; ValueError, whose message says what would be right."""
    why = ""
    if DAY.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError as e:
            why = f" that exists ({e})"
    if NAME.fullmatch(text):
        return text
    raise ValueError(
        f"must be a day{why}, YYYY-MM-DD, or the name of a snapshot: shipped, latest, an id or its first 6 digits or more"
    )


def moment_of(prices_as_of: AsOf | None, *, now: datetime, published_at: datetime) -> datetime:
    """Return the moment for which an answer is asked: now, the end of a past day, or when the snapshot that is named was published.

    What is asked of a named snapshot is so the same whenever it is asked.
    """
    if isinstance(prices_as_of, date):
        return min(now, datetime.combine(prices_as_of, time.max, tzinfo=UTC))
    return now if prices_as_of is None or prices_as_of.lower() == "latest" else min(now, published_at)
