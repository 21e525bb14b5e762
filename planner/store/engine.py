"""From a URL to a ready engine: which driver, which pragmas, and a URL that may be shown to people."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from planner.store.errors import BadDatabaseUrl

BUSY_TIMEOUT_MS = 10_000
"""How long a SQLite writer waits for another one before it gives up."""

CONNECT_TIMEOUT_S = 10
"""How long a connection to PostgreSQL may take."""

WRITES = {"planner_writes": True}
"""Execution options of a connection that will write: on SQLite it takes the write lock at once, so that it cannot fail half-way."""

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


def shown(url: URL) -> str:
    """Return the URL for people and logs: no password, neither before the host nor among the query parameters."""
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{url.database}"
    return url.set(
        query={name: value for name, value in url.query.items() if name in {"host", "port"}}
    ).render_as_string(hide_password=True)


def make_engine(url: URL) -> Engine:
    """Return an engine for the URL. SQLite: WAL, waits for locks, foreign keys on; its folder is made when first connected."""
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, hide_parameters=True)
        _prepare_sqlite(engine, Path(str(url.database)))
    else:
        engine = create_engine(
            url, hide_parameters=True, pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_TIMEOUT_S}
        )
        event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_postgresql(connection: Any, _record: ConnectionPoolEntry) -> None:
    """Read every moment in UTC, whatever the server's own zone is."""
    autocommit, connection.autocommit = connection.autocommit, True
    connection.execute("SET TIME ZONE 'UTC'")
    connection.autocommit = autocommit


def _prepare_sqlite(engine: Engine, file: Path) -> None:
    def make_folder(_dialect: Any, _record: Any, _args: Any, _params: Any) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)

    def set_pragmas(connection: Any, _record: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves: the driver would leave DDL outside of transactions
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        _turn_wal_on(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")

    def begin(connection: Any) -> None:
        writes = connection.get_execution_options().get("planner_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "do_connect", make_folder)
    event.listen(engine, "connect", set_pragmas)
    event.listen(engine, "begin", begin)


def _turn_wal_on(connection: Any) -> None:
    """Switch the file to write-ahead logging, which it then keeps. SQLite does not wait for others here, so we do."""
    for pause_s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as e:
            if "locked" not in str(e):
                raise
            time.sleep(pause_s)
        else:
            return
    connection.execute("PRAGMA journal_mode = WAL")
