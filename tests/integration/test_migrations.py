"""Migrations on every database: from nothing to the newest and back, no difference from the tables in code, and safe when many start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect, text

from planner.store import SchemaNotCurrent, SqlStore, schema
from planner.store.engine import WRITES, make_engine, parse_url

ROOT = Path(__file__).parents[2]
TABLES = {
    "price_snapshots",
    "price_snapshot_sources",
    "price_quotes",
    "instance_types",
    "recommendations",
    "spot_pools",
    "spot_coverage",
    "spot_price_changes",
}


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = make_engine(parse_url(database_url))
    yield engine
    engine.dispose()


def tables(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names()) - {"alembic_version"}


def columns(engine: Engine) -> set[tuple[str, str]]:
    """Return every table with each of its columns."""
    found = inspect(engine)
    return {(table, column["name"]) for table in tables(engine) for column in found.get_columns(table)}


def test_up_from_nothing_down_and_up_again(engine: Engine) -> None:
    schema.upgrade(engine)
    assert tables(engine) == TABLES
    assert schema.check(engine) == schema.head()
    schema.downgrade(engine)
    assert tables(engine) == set()
    schema.upgrade(engine)
    assert tables(engine) == TABLES


def test_each_step_goes_up_and_down_by_itself(engine: Engine) -> None:
    from alembic.script import ScriptDirectory

    revisions = [s.revision for s in ScriptDirectory.from_config(schema.alembic_config()).walk_revisions()][::-1]
    for revision in revisions:
        schema.upgrade(engine, revision)
        before = columns(engine)
        schema.downgrade(engine, "-1")
        assert columns(engine) < before
        schema.upgrade(engine, revision)
        assert columns(engine) == before


def test_the_migrated_schema_is_that_of_the_code(engine: Engine) -> None:
    schema.upgrade(engine)
    assert schema.differences(engine) == []


def test_a_missing_column_would_be_seen(engine: Engine) -> None:
    schema.upgrade(engine)
    with engine.connect().execution_options(**WRITES) as connection, connection.begin():
        connection.execute(text("ALTER TABLE price_quotes DROP COLUMN notes"))
    assert any("notes" in str(difference) for difference in schema.differences(engine))


def test_an_empty_and_an_older_database_say_so(database_url: str, engine: Engine) -> None:
    with SqlStore(database_url) as store:
        with pytest.raises(SchemaNotCurrent, match=r"no tables yet.*planner db upgrade"):
            store.check()
        schema.upgrade(engine, "20261130_1")
        with pytest.raises(SchemaNotCurrent, match=r"20261130_1.*planner db upgrade"):
            store.check()
        assert store.upgrade() == store.check()


def test_a_newer_database_is_left_alone(database_url: str, engine: Engine) -> None:
    schema.upgrade(engine)
    with engine.connect().execution_options(**WRITES) as connection, connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = '29991231_1'"))
    with SqlStore(database_url) as store:
        for attempt in (store.check, store.upgrade):
            with pytest.raises(SchemaNotCurrent, match="newer planner"):
                attempt()


def test_many_processes_that_start_together_upgrade_once(database_url: str) -> None:
    code = "import sys; from planner.store import SqlStore\nwith SqlStore(sys.argv[1]) as s: print(s.upgrade())"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, database_url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out.strip()) == (0, schema.head()), err


def test_many_threads_that_start_together_upgrade_once(database_url: str) -> None:
    with SqlStore(database_url) as store, ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: store.upgrade(), range(4))) == {schema.head()}


def test_a_failed_upgrade_leaves_no_trace(engine: Engine) -> None:
    def broken() -> None:
        with schema.migrating(engine) as connection:
            connection.execute(text("CREATE TABLE half (n INTEGER)"))
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        broken()
    assert tables(engine) == set()


def test_upgrading_keeps_what_is_there(database_url: str, engine: Engine) -> None:
    schema.upgrade(engine, "20261130_1")
    with engine.connect().execution_options(**WRITES) as connection, connection.begin():
        connection.execute(
            text(
                "INSERT INTO price_snapshots VALUES ('s', '2026-01-01T00:00:00.000000+00:00', '2026-01-01T00:00:00.000000+00:00', 'shipped', 0, 0)"
            )
        )
    with SqlStore(database_url) as store:
        store.upgrade()
        assert [meta.snapshot_id for meta in store.snapshots()] == ["s"]


def test_quotes_that_were_stored_without_a_rate_code_keep_none(database_url: str, engine: Engine) -> None:
    schema.upgrade(engine, "20261130_5")
    moment = "2026-01-01T00:00:00.000000+00:00"
    row = {"snapshot_id": "s", "position": 0, "provider": "aws", "instance_type": "g5.xlarge", "region": "us-east-1", "purchase_option": "on_demand",
           "currency": "USD", "unit": "Hrs", "effective_unit_price": "1.006", "source": "made up", "retrieved_at": moment, "derived": False,
           "confidence": "high", "notes": ""}  # fmt: skip
    with engine.connect().execution_options(**WRITES) as connection, connection.begin():
        connection.execute(text(f"INSERT INTO price_snapshots VALUES ('s', '{moment}', '{moment}', 'shipped', 1, 0)"))
        connection.execute(
            text(f"INSERT INTO price_quotes ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})"), row
        )
    with SqlStore(database_url) as store:
        store.upgrade()
        (quote,) = store.quotes("s")
        assert (str(quote.effective_unit_price), quote.rate_code) == ("1.006", None)


@pytest.mark.slow
def test_the_alembic_command_upgrades_and_checks(database_url: str) -> None:
    def alembic(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "alembic", *words],
            cwd=ROOT,
            env=os.environ | {"PLANNER_DATABASE_URL": database_url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert alembic("upgrade", "head").returncode == 0
    checked = alembic("check")
    assert checked.returncode == 0, checked.stderr
    assert "No new upgrade operations detected" in checked.stdout + checked.stderr
    assert alembic("downgrade", "base").returncode == 0


def test_the_scripts_folder_is_no_package_and_its_files_are_dated() -> None:
    folder = schema.scripts_folder()
    assert not (folder / "__init__.py").exists()
    assert not (folder / "versions" / "__init__.py").exists()
    names = [path.name for path in (folder / "versions").glob("*.py")]
    assert len(names) >= 3
    assert all(name[:15].replace("_", "").isdigit() for name in names)
