"""What `doctor` finds: the days of the prices it names are those of the answers, and a damaged snapshot does not look well."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from planner import bootstrap
from planner.cli.examination import check, examine, price_ages, price_snapshot
from planner.perf.parameters import shipped, to_json
from planner.services.own_evidence import based_on
from planner.store.schema import head
from pricing.model import PurchaseOption
from pricing.snapshot import open_snapshot, shipped_snapshot_path, write_snapshot

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("PLANNER_DATABASE_URL", raising=False)
    monkeypatch.setattr(bootstrap, "utc_now", lambda: NOW)
    return tmp_path / "data"


def publish(data: Path, **days: datetime) -> Path:
    """Publish the shipped snapshot with the on-demand prices of AWS and of the other clouds moved to those days; return the file."""
    with open_snapshot(shipped_snapshot_path()) as shipped:
        contents = shipped.contents()
    quotes = tuple(
        replace(q, retrieved_at=days["aws" if q.provider == "aws" else "others"])
        for q in contents.quotes
        if q.purchase_option is PurchaseOption.ON_DEMAND
    )
    path = data / "snapshots" / f"{days['aws']:%Y-%m-%d}-x.sqlite"
    write_snapshot(path, replace(contents, quotes=quotes), published_at=NOW, origin="refresh")
    return path


def found_in(name: str) -> dict[str, Any]:
    return next(c for c in examine()["checks"] if c["name"] == name)


def test_the_snapshots_own_day_and_the_range_of_days_are_both_said(data: Path) -> None:
    publish(data, aws=datetime(2026, 10, 21, tzinfo=UTC), others=datetime(2026, 11, 25, tzinfo=UTC))
    state, said = price_ages()
    # 21 October 0:00 to 30 November 12:00 are 40.5 days; 25 November is newer, and another cloud's
    assert said.startswith(
        "snapshot of 2026-10-21, 40 days old; on-demand 2026-10-21 to 2026-11-25, the oldest 40 days old;"
    )
    assert state == "note"
    assert "stale: on-demand" in said


def test_prices_of_one_day_are_that_day(data: Path) -> None:
    publish(data, aws=datetime(2026, 11, 28, tzinfo=UTC), others=datetime(2026, 11, 28, tzinfo=UTC))
    state, said = price_ages()
    assert said.startswith("snapshot of 2026-11-28, 2 days old; on-demand 2026-11-28, 2 days old;")
    assert state == "ok"


def test_prices_dated_after_the_clock_are_a_note(data: Path) -> None:
    publish(data, aws=NOW + timedelta(days=30), others=NOW + timedelta(days=30))
    state, said = price_ages()
    assert said.startswith(
        "snapshot of 2026-12-30, after this machine's clock; on-demand 2026-12-30, dated after this machine's clock;"
    )
    assert (state, "less than an hour" in said) == ("note", False)


def test_a_snapshot_whose_content_is_not_what_its_id_says_is_a_fault(data: Path) -> None:
    path = publish(data, aws=datetime(2026, 11, 28, tzinfo=UTC), others=datetime(2026, 11, 28, tzinfo=UTC))
    assert price_snapshot()[0] == "ok"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE quotes SET effective_unit_price = '0.01' WHERE rowid = 7")
    found = check("price snapshot", price_snapshot)
    assert found["state"] == "fault"
    assert "its content has id" in found["found"]
    assert found["found"].endswith(f"remove {path}")


def test_tables_of_another_program_are_a_fault_with_what_to_do(data: Path) -> None:
    data.mkdir()
    with closing(sqlite3.connect(data / "planner.sqlite")) as db, db:
        db.execute("CREATE TABLE recommendations (song TEXT)")
    found = found_in("database")
    assert found["state"] == "fault"
    assert "give planner a database of its own" in found["found"]
    assert "db upgrade" not in found["found"]


@pytest.mark.parametrize(
    ("revision", "state", "remedy"),
    [("20991231_1", "fault", "of a newer planner: upgrade this one"), ("20261130_1", "note", "`planner db upgrade`")],
)
def test_a_schema_of_another_version_says_what_helps(data: Path, revision: str, state: str, remedy: str) -> None:
    with bootstrap.open_store() as store:
        store.upgrade()
    with closing(sqlite3.connect(data / "planner.sqlite")) as db, db:
        db.execute(f"UPDATE alembic_version SET version_num = '{revision}'")
    found = found_in("database")
    assert found["state"] == state
    assert found["found"].endswith(f"schema {revision}; this version of planner works with {head()}: {remedy}")


def test_a_damaged_snapshot_that_is_not_needed_is_a_note(data: Path) -> None:
    path = publish(data, aws=datetime(2026, 11, 28, tzinfo=UTC), others=datetime(2026, 11, 28, tzinfo=UTC))
    other = path.with_name("2026-11-01-0123456789abcdef.sqlite")
    other.write_bytes(b"cut")
    state, said = price_snapshot()
    assert state == "note"
    assert f"content and id agree; passed over: {other}: not a price snapshot; remove {other}" in said


def kept(data: Path) -> Path:
    """Keep one own row and the shipped parameters as if fitted to it; return the folder."""
    ours = shipped("serving")
    folder = data / "calibration"
    folder.mkdir(parents=True)
    header = "row_id,model,gpu,precision_weights,input_len,output_len,metric_name,metric_value"
    line = "a1,meta-llama/Llama-2-7b-hf,A100 SXM4 80GB,fp16,128,128,output_tok_s,1000"
    (folder / "own_rows_serving.csv").write_text(f"{header}\n{line}\n")
    (folder / "own_serving.json").write_text(to_json(replace(ours, version=based_on(ours))))
    return folder


def test_own_measurements_that_are_whole_are_well(data: Path) -> None:
    assert found_in("own measurements")["state"] == "ok"
    kept(data)
    found = found_in("own measurements")
    assert (found["state"], "speed follows own measurements of serving" in found["found"]) == ("ok", True)


def test_own_measurements_of_other_shipped_parameters_are_named_as_left_aside(data: Path) -> None:
    (kept(data) / "own_serving.json").write_text(to_json(replace(shipped("serving"), version="own, on others")))
    found = found_in("own measurements")
    assert (found["state"], "left aside" in found["found"]) == ("note", True)


@pytest.mark.parametrize("name", ["own_rows_serving.csv", "own_serving.json"])
@pytest.mark.parametrize("harm", ["damaged", "missing", "a folder"])
def test_own_measurements_that_cannot_be_used_do_not_look_well(data: Path, name: str, harm: str) -> None:
    path = kept(data) / name
    path.unlink()
    if harm == "damaged":
        path.write_text("{")
    elif harm == "a folder":
        path.mkdir()
    document = examine()
    found = next(c for c in document["checks"] if c["name"] == "own measurements")
    assert (document["well"], found["state"]) == (False, "fault")
    assert name in found["found"]
    assert harm in found["found"]
    assert "planner validate --" in found["found"]
