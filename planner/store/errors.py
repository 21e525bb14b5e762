"""Errors of `planner.store`. No message ever carries a password.

StoreError
├── BadDatabaseUrl      the URL cannot be used (what is wrong, what would be right; the URL itself is not repeated)
├── StoreUnavailable    the database does not answer, or broke off in the middle
│   └── StoreBusy       another writer holds the lock for longer than we wait
├── SchemaNotCurrent    the database has another schema revision than this version works with (which, and what to run)
└── ForeignDatabase     the database holds tables of another program under names that ours have
"""

from __future__ import annotations

from collections.abc import Sequence


class StoreError(Exception):
    """Base of what goes wrong between us and the database."""


class BadDatabaseUrl(StoreError):  # noqa: N818 - reads as the field's own word
    """The database URL cannot be used."""


class StoreUnavailable(StoreError):  # noqa: N818
    """The database does not answer. `where` is the URL without its password."""

    def __init__(self, *, where: str, why: str) -> None:
        super().__init__(f"database {where} is not available: {why}")
        self.where, self.why = where, why


class StoreBusy(StoreUnavailable):
    """Another writer holds the lock for longer than we wait: the same may work a moment later."""


class SchemaNotCurrent(StoreError):  # noqa: N818
    """The schema is empty, older or newer than this version works with; `found` is None for an empty database."""

    def __init__(self, *, where: str, found: str | None, expected: str, newer: bool = False) -> None:
        state = "has no tables yet" if found is None else f"is at revision {found}"
        remedy = "it was written by a newer planner: upgrade this one" if newer else "run `planner db upgrade`"
        self.why = f"{state}, this version works with {expected}; {remedy}"
        super().__init__(f"database {where} {self.why}")
        self.where, self.found, self.expected, self.newer = where, found, expected, newer


class ForeignDatabase(StoreError):  # noqa: N818
    """The database belongs to another program; `tables` are what was found in it."""

    def __init__(self, *, where: str, found: str | None, tables: Sequence[str]) -> None:
        named = ", ".join(tables[:5]) + (f" and {len(tables) - 5} more" if len(tables) > 5 else "")
        said = f"revision {found}, which is not ours" if found is not None else "no revision of ours"
        holds = f"tables of another program ({named}) and {said}" if tables else said
        self.why = f"holds {holds}; nothing was changed: give planner a database of its own"
        super().__init__(f"database {where} {self.why}")
        self.where, self.found, self.tables = where, found, tuple(tables)
