"""Errors of `planner.recommend`.

BadRequest   a request cannot be right: which field, its value, why, and what would be right
NotInstalled what a request asks for needs an extra that is not installed here
"""

from __future__ import annotations


class BadRequest(Exception):  # noqa: N818 - as HTTP and the CLI call it
    """A request that cannot be answered as it is asked."""

    def __init__(self, *, field: str, value: object, why: str, expected: str = "") -> None:
        super().__init__(f"{field}: {value!r} {why}{f'; {expected}' if expected else ''}")
        self.field, self.value, self.why, self.expected = field, value, why, expected


class NotInstalled(BadRequest):
    """A request for what only an extra has, and that extra is not installed here."""
