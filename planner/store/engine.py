"""From a URL to a ready engine: which driver, which pragmas, and a URL that may be shown to people."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from planner.store.errors import BadDatabaseUrl

LOCK_WAIT_S = 5.0
"""How long a transaction waits for a lock that another one holds before it gives up, unless told otherwise."""

PATIENT_LOCK_WAIT_S = 60.0
"""The same where waiting is right: several processes that start together bring the database up to date one after the other."""

CONNECT_TIMEOUT_S = 10
"""How long a connection to PostgreSQL may take."""

WRITES = {"planner_writes": True}
"""Execution options of a connection that will write: on SQLite it takes the write lock at once, so that it cannot fail half-way."""

PATIENT = {"planner_patient": True}
"""Execution options of a connection that waits `PATIENT_LOCK_WAIT_S` for locks."""

OPENED_FILE = "planner_opened_file"
"""Where a pooled connection to SQLite keeps which file it opened."""

EXPECTED = "give sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


def parse_url(text: str) -> URL:
    """Return the URL with the driver we use. The text may hold a password, so no error repeats it."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise BadDatabaseUrl(f"the database URL cannot be read; {EXPECTED}") from None
    backend, _, driver = url.drivername.partition("+")
    if backend in {"postgres", "postgresql"} and driver in {"", "psycopg"}:
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and driver in {"", "pysqlite"}:
        if not url.database or url.database == ":memory:" or url.query:
            raise BadDatabaseUrl(
                "SQLite needs a plain file: a database in memory is not shared between the server's threads; give sqlite:///FILE"
            )
        return url.set(drivername="sqlite+pysqlite")
    raise BadDatabaseUrl(f"database {url.drivername!r} is not supported; {EXPECTED}")


def sqlite_url(file: Path) -> str:
    """Return the address of a SQLite file; signs that mean something in an address are escaped."""
    return URL.create("sqlite", database=str(file)).render_as_string(hide_password=False)


def sqlite_file(text: str) -> Path | None:
    """Return the file of a SQLite address; None for another kind of database, BadDatabaseUrl for an address that is none."""
    url = parse_url(text)
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def shown(url: URL) -> str:
    """Return the URL for people and logs: no password, neither before the host nor among the query parameters."""
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{url.database}"
    return url.set(
        query={name: value for name, value in url.query.items() if name in {"host", "port"}}
    ).render_as_string(hide_password=True)


def make_engine(url: URL, *, lock_wait_s: float = LOCK_WAIT_S) -> Engine:
    """Return an engine for the URL; its transactions wait `lock_wait_s` for locks.

    SQLite: WAL, foreign keys on, its folder is made when first connected, and a file that was removed or replaced is noticed.
    """
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, hide_parameters=True)
        _prepare_sqlite(engine, Path(str(url.database)), lock_wait_s)
    else:
        engine = create_engine(
            url, hide_parameters=True, pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_TIMEOUT_S}
        )
        _prepare_postgresql(engine, lock_wait_s)
    return engine


def is_busy(error: BaseException | None) -> bool:
    """Return whether a driver's error says that a lock was not to be had in time."""
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
    return getattr(error, "sqlstate", None) == "55P03"  # lock_not_available


def _lock_wait_ms(connection: Any, lock_wait_s: float) -> int:
    patient = connection.get_execution_options().get("planner_patient", False)
    return round(1000 * (max(PATIENT_LOCK_WAIT_S, lock_wait_s) if patient else lock_wait_s))


def _prepare_postgresql(engine: Engine, lock_wait_s: float) -> None:
    def set_zone(connection: Any, _record: ConnectionPoolEntry) -> None:
        """Read every moment in UTC, whatever the server's own zone is."""
        autocommit, connection.autocommit = connection.autocommit, True
        connection.execute("SET TIME ZONE 'UTC'")
        connection.autocommit = autocommit

    def begin(connection: Any) -> None:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {_lock_wait_ms(connection, lock_wait_s)}")

    event.listen(engine, "connect", set_zone)
    event.listen(engine, "begin", begin)


def _prepare_sqlite(engine: Engine, file: Path, lock_wait_s: float) -> None:
    def make_folder(_dialect: Any, _record: Any, _args: Any, _params: Any) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)

    def set_pragmas(connection: Any, record: ConnectionPoolEntry) -> None:
        record.info[OPENED_FILE] = _identity(file)
        connection.isolation_level = None  # we say BEGIN ourselves: the driver would leave DDL outside of transactions
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * lock_wait_s)}")
        _turn_wal_on(connection, lock_wait_s)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")

    def same_file(_connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        if _identity(file) != record.info[OPENED_FILE]:
            raise InvalidatePoolError(f"{file} was removed or replaced since it was opened")  # the pool opens it anew

    def begin(connection: Any) -> None:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {_lock_wait_ms(connection, lock_wait_s)}")
        writes = connection.get_execution_options().get("planner_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "do_connect", make_folder)
    event.listen(engine, "connect", set_pragmas)
    event.listen(engine, "checkout", same_file)
    event.listen(engine, "begin", begin)


def _identity(file: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one under the same name, None when the name leads nowhere."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _turn_wal_on(connection: Any, lock_wait_s: float) -> None:
    """Switch the file to write-ahead logging, which it then keeps. SQLite does not always wait for others here, so we do."""
    give_up_at = time.monotonic() + lock_wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as e:
            if not is_busy(e) or time.monotonic() >= give_up_at:
                raise
            time.sleep(0.02)
        else:
            return
