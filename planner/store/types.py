"""Column types that give back exactly what was put in, on SQLite and on PostgreSQL.

SQLite has neither decimals nor times: SQLAlchemy would squeeze `Numeric` through a binary float and drop the time zone. So both
are text there, while PostgreSQL uses its own exact types. Equal values come back equal on either.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import DateTime, Dialect, Numeric, Text
from sqlalchemy.types import TypeDecorator, TypeEngine


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC, to the microsecond. Refuses a time without a zone: nobody could say which moment it is.

    SQLite: text of one width, `2026-11-30T16:46:49.000000+00:00`, so that order of text is order of time.
    PostgreSQL: `timestamp with time zone`.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the dialect's own type."""
        return dialect.type_descriptor(DateTime(timezone=True) if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        """Turn a moment into what the driver is given."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a moment needs a time zone, got {value.isoformat()}")
        moment = value.astimezone(UTC)
        return moment if dialect.name == "postgresql" else moment.isoformat(timespec="microseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Turn what the driver gives into a moment in UTC."""
        if value is None:
            return None
        moment = value if dialect.name == "postgresql" else datetime.fromisoformat(value)
        return moment.astimezone(UTC)


class ExactDecimal(TypeDecorator[Decimal]):
    """A finite decimal, never through a binary float.

    SQLite: text without exponent (`0.000001`); compare and sum in Python, not in SQL. PostgreSQL: `numeric` without limits.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the dialect's own type."""
        return dialect.type_descriptor(Numeric() if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> Decimal | str | None:
        """Turn a decimal into what the driver is given."""
        if value is None:
            return None
        if not isinstance(value, Decimal) or not value.is_finite():
            raise ValueError(f"expected a finite Decimal, got {value!r}")
        return value if dialect.name == "postgresql" else f"{value:f}"

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        """Turn what the driver gives into a decimal."""
        del dialect
        return None if value is None else Decimal(value)
