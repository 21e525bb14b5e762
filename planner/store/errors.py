"""Errors of `planner.store`. No message ever carries a password.

StoreError
├── BadDatabaseUrl      the URL cannot be used (what is wrong, what would be right; the URL itself is not repeated)
├── StoreUnavailable    the database does not answer, or broke off in the middle
└── SchemaNotCurrent    the database has another schema revision than this version works with (which, and what to run)
"""

from __future__ import annotations


class StoreError(Exception):
    """Base of what goes wrong between us and the database."""


class BadDatabaseUrl(StoreError):  # noqa: N818 - reads as the field's own word
    """The database URL cannot be used."""


class StoreUnavailable(StoreError):  # noqa: N818
    """The database does not answer. `where` is the URL without its password."""

    def __init__(self, *, where: str, why: str) -> None:
        super().__init__(f"database {where} is not available: {why}")
        self.where, self.why = where, why


class SchemaNotCurrent(StoreError):  # noqa: N818
    """The schema is empty, older or newer than this version works with; `found` is None for an empty database."""

    def __init__(self, *, where: str, found: str | None, expected: str, newer: bool = False) -> None:
        state = "has no tables yet" if found is None else f"is at revision {found}"
        remedy = "it was written by a newer planner: upgrade this one" if newer else "run `planner db upgrade`"
        super().__init__(f"database {where} {state}, this version works with {expected}; {remedy}")
        self.where, self.found, self.expected, self.newer = where, found, expected, newer
