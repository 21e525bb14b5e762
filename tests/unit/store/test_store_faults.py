"""A database that is removed, replaced, locked, newer or another program's while or before we use it: said at once, never written past."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planner.store import ForeignDatabase, SchemaNotCurrent, SqlStore, StoreBusy, schema
from pricing.market import SpotChange
from pricing.snapshot import open_snapshot, shipped_snapshot_path


def answer(name: str) -> dict[str, Any]:
    return {"id": name, "planner_version": "1", "prices": {"snapshot_id": "s"}, "request": {}}


def remove(file: Path) -> None:
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()


def run(file: Path, *statements: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as db, db:
        return [db.execute(statement).fetchall() for statement in statements]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "planner.sqlite"


@pytest.fixture
def store(file: Path) -> Any:
    with SqlStore(f"sqlite:///{file}", lock_wait_s=0.3) as store:
        store.upgrade()
        yield store


NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SPOT_CHANGE = SpotChange(provider="aws", instance_type="g5.xlarge", region="us-east-1", availability_zone_id="use1-az6", availability_zone="us-east-1a", unit_price=Decimal("0.4"), since=NOON)  # fmt: skip
DOORS: dict[str, Callable[[SqlStore], Any]] = {
    "save": lambda store: store.save(answer("a")),
    "get": lambda store: store.get("a"),
    "check": lambda store: store.check(),
    "record_snapshot": lambda store: store.record_snapshot(open_snapshot(shipped_snapshot_path())),
    "snapshots": lambda store: store.snapshots(),
    "record_spot_changes": lambda store: store.record_spot_changes([SPOT_CHANGE]),
    "spot_changes": lambda store: store.spot_changes(instance_type="g5.xlarge"),
    "newest_spot_change": lambda store: store.newest_spot_change("us-east-1"),
    "spot_known_until": lambda store: store.spot_known_until("us-east-1", ["g5.xlarge"]),
    "spot_statistics": lambda store: store.spot_statistics(["us-east-1"], NOON, NOON + timedelta(days=1), {}),
}
every_door = pytest.mark.parametrize("use", DOORS.values(), ids=DOORS)


@every_door
def test_a_file_that_was_removed_is_missed_by_the_next_use(
    store: SqlStore, file: Path, use: Callable[..., Any]
) -> None:
    store.save(answer("before"))
    remove(file)
    for _ in range(2):
        with pytest.raises(SchemaNotCurrent, match=r"no tables yet.*planner db upgrade"):
            use(store)


def test_a_file_that_was_replaced_is_the_one_that_is_used(store: SqlStore, file: Path, tmp_path: Path) -> None:
    store.save(answer("old"))
    other = tmp_path / "other.sqlite"
    with SqlStore(f"sqlite:///{other}") as made:
        made.upgrade()
        made.save(answer("new"))
    remove(file)
    other.rename(file)
    store.save(answer("later"))
    assert (store.get("old"), store.get("new"), store.get("later")) == (None, answer("new"), answer("later"))
    assert run(file, "SELECT count(*) FROM recommendations") == [[(2,)]]


def test_a_file_that_is_removed_while_several_threads_use_it_is_missed_by_all(store: SqlStore, file: Path) -> None:
    gate, found = threading.Barrier(4), []

    def use() -> None:
        store.get("a")
        gate.wait(10)  # all have read; one of them removes the file
        if gate.wait(10) == 0:
            remove(file)
        gate.wait(10)
        try:
            store.save(answer("a"))
        except SchemaNotCurrent as e:
            found.append(e)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 4


@every_door
def test_a_newer_schema_is_neither_written_nor_read(store: SqlStore, file: Path, use: Callable[..., Any]) -> None:
    run(file, "UPDATE alembic_version SET version_num = '20991231_1'")
    with pytest.raises(SchemaNotCurrent, match=r"20991231_1.*newer planner") as refused:
        use(store)
    assert refused.value.newer
    assert run(file, "SELECT count(*) FROM recommendations") == [[(0,)]]


def test_an_older_schema_is_not_written_even_where_the_table_is_there(store: SqlStore, file: Path) -> None:
    run(file, "UPDATE alembic_version SET version_num = '20261130_2'")
    with pytest.raises(SchemaNotCurrent, match=r"20261130_2.*planner db upgrade"):
        store.save(answer("a"))
    assert run(file, "SELECT count(*) FROM recommendations") == [[(0,)]]


@pytest.mark.parametrize("use", [*DOORS.values(), SqlStore.upgrade], ids=[*DOORS, "upgrade"])
@pytest.mark.parametrize("revision", [None, "a1b2c3d4"])
def test_tables_of_another_program_are_named_and_left_alone(
    file: Path, use: Callable[..., Any], revision: str | None
) -> None:
    table = "recommendations" if revision is None else "songs"
    run(file, f"CREATE TABLE {table} (song TEXT)", f"INSERT INTO {table} VALUES ('la')")
    if revision is not None:
        run(
            file,
            "CREATE TABLE alembic_version (version_num TEXT)",
            f"INSERT INTO alembic_version VALUES ('{revision}')",
        )
    with SqlStore(f"sqlite:///{file}") as store, pytest.raises(ForeignDatabase) as refused:
        use(store)
    said = str(refused.value)
    assert f"tables of another program ({table})" in said
    assert "give planner a database of its own" in said
    assert "db upgrade" not in said
    assert run(file, f"SELECT * FROM {table}", "SELECT name FROM sqlite_master WHERE name LIKE 'price%'") == [
        [("la",)],
        [],
    ]


def test_tables_that_are_not_in_our_way_may_stay(file: Path) -> None:
    run(file, "CREATE TABLE songs (song TEXT)")
    with SqlStore(f"sqlite:///{file}") as store:
        assert store.upgrade() == schema.head()
        store.save(answer("a"))


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_locked_file_is_waited_for_as_long_as_was_said_and_no_longer(file: Path, lock: str, journal: str) -> None:
    with SqlStore(f"sqlite:///{file}") as first:
        first.upgrade()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute(f"PRAGMA journal_mode = {journal}")
        other.execute(lock)
        with SqlStore(f"sqlite:///{file}", lock_wait_s=0.3) as store:
            began = time.monotonic()
            with pytest.raises(StoreBusy, match="locked"):
                store.save(answer("a"))
            waited_s = time.monotonic() - began
            other.execute("COMMIT")
            store.save(answer("a"))
    assert 0.25 <= waited_s < 1.5


@pytest.mark.slow
def test_a_locked_table_of_postgresql_is_waited_for_as_long_as_was_said(postgres_url: str) -> None:
    import psycopg

    with SqlStore(postgres_url, lock_wait_s=0.3) as store, psycopg.connect(postgres_url) as other:
        store.upgrade()
        other.execute("LOCK TABLE recommendations IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        with pytest.raises(StoreBusy):
            store.save(answer("a"))
        assert 0.25 <= time.monotonic() - began < 2
        other.rollback()
        store.save(answer("a"))


def test_bringing_up_to_date_waits_for_whoever_does_the_same(file: Path) -> None:
    with (
        SqlStore(f"sqlite:///{file}", lock_wait_s=0.1) as store,
        closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other,
    ):
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.6, lambda: other.execute("COMMIT")).start()
        assert store.upgrade() == schema.head()
