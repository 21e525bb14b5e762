"""Keeps snapshots and answers in a database. SQLAlchemy is imported here and nowhere else."""

from planner.store.errors import (
    BadDatabaseUrl,
    ForeignDatabase,
    SchemaNotCurrent,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from planner.store.sql import SqlStore

__all__ = [
    "BadDatabaseUrl",
    "ForeignDatabase",
    "SchemaNotCurrent",
    "SqlStore",
    "StoreBusy",
    "StoreError",
    "StoreUnavailable",
]
