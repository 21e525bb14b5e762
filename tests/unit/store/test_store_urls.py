"""Database URLs: which are taken, what people get to see of them, and that no password ever gets out."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import pytest

from planner.store import BadDatabaseUrl, SqlStore, StoreUnavailable
from planner.store.engine import make_engine, parse_url, shown

PASSWORD = "hunter2-not-in-any-log"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_postgresql_uses_the_driver_of_the_base_install(scheme: str) -> None:
    url = parse_url(f"{scheme}://me:{PASSWORD}@db.example:5433/planner")
    assert url.drivername == "postgresql+psycopg"
    assert (url.username, url.password, url.host, url.port, url.database) == (
        "me",
        PASSWORD,
        "db.example",
        5433,
        "planner",
    )


@pytest.mark.parametrize("text", ["sqlite:////tmp/x.sqlite", "sqlite+pysqlite:////tmp/x.sqlite"])
def test_sqlite_files_are_taken(text: str) -> None:
    assert parse_url(text).database == "/tmp/x.sqlite"


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "http://example.org/x", f"mysql://me:{PASSWORD}@h/d", f"postgresql+asyncpg://me:{PASSWORD}@h/d", "sqlite://", "sqlite:///:memory:",
        f"postgresql://me:{PASSWORD}@h:notaport/d", "sqlite:///file.sqlite?mode=ro",
    ],
)  # fmt: skip
def test_other_urls_are_refused_in_one_line_without_repeating_them(text: str) -> None:
    with pytest.raises(BadDatabaseUrl) as refused:
        parse_url(text)
    message = str(refused.value)
    assert PASSWORD not in message
    assert "\n" not in message
    assert "sqlite:///FILE" in message


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{PASSWORD}@h/d",
        f"postgresql://h/d?user=me&password={PASSWORD}",
        f"postgresql://h/d?sslpassword={PASSWORD}&host=a",
    ],
)
def test_a_url_is_shown_without_passwords(text: str) -> None:
    assert PASSWORD not in shown(parse_url(text))


def test_an_unreachable_server_is_one_error_without_password_in_it_its_cause_or_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    store = SqlStore(f"postgresql://me:{PASSWORD}@127.0.0.1:1/planner")
    with pytest.raises(StoreUnavailable) as down:
        store.check()
    assert "127.0.0.1" in str(down.value)
    assert "\n" not in str(down.value)
    assert PASSWORD not in str(down.value) + str(down.value.__cause__) + caplog.text


def test_a_sqlite_file_is_made_with_its_folder_in_wal_mode_and_with_foreign_keys(tmp_path: Path) -> None:
    engine = make_engine(parse_url(f"sqlite:///{tmp_path / 'a' / 'b' / 'planner.sqlite'}"))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 5_000
    engine.dispose()
    assert (tmp_path / "a" / "b" / "planner.sqlite").exists()


def test_a_file_that_is_no_database_is_unavailable_not_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "planner.sqlite"
    file.write_text("these are not the tables you are looking for" * 100)
    with SqlStore(f"sqlite:///{file}") as store, pytest.raises(StoreUnavailable, match="not a database"):
        store.upgrade()


def test_a_folder_that_cannot_be_made_is_unavailable_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        SqlStore(f"sqlite:///{tmp_path / 'file' / 'planner.sqlite'}") as store,
        pytest.raises(StoreUnavailable, match=r"(?i)exists|directory"),
    ):
        store.upgrade()


def test_making_a_store_touches_nothing(tmp_path: Path) -> None:
    with SqlStore(f"sqlite:///{tmp_path / 'new' / 'planner.sqlite'}"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_locked_file_is_waited_for(tmp_path: Path) -> None:
    import threading

    url = f"sqlite:///{tmp_path / 'planner.sqlite'}"
    with SqlStore(url) as store:
        store.upgrade()
        other = sqlite3.connect(tmp_path / "planner.sqlite", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")

        def let_go() -> None:
            other.execute("COMMIT")

        threading.Timer(0.3, let_go).start()
        store.save({"id": "a", "planner_version": "1", "prices": {"snapshot_id": "s"}, "request": {}})
        assert store.get("a") is not None
        other.close()
