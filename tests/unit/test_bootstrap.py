"""Which snapshot is read, where data lies, and that nothing is written unasked."""

from __future__ import annotations

import dataclasses
import gc
import os
import weakref
from datetime import UTC, date, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from planner import bootstrap
from planner.cli.verbs.db_current import schema_of
from planner.cli.verbs.prices_history import spot_record
from planner.recommend.errors import BadRequest
from planner.recommend.request import RecommendRequest
from planner.services.documents import to_json_bytes
from pricing.errors import SnapshotError, UnknownName
from pricing.snapshot import open_snapshot, read_meta, shipped_snapshot_path, write_snapshot


@pytest.fixture
def data(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("PLANNER_DATABASE_URL", raising=False)
    return tmp_path / "data"


def publish(folder: Path, days_later: int, name: str | None = None, minutes: int = 0):
    with open_snapshot(shipped_snapshot_path()) as shipped:
        contents, as_of = shipped.contents(), shipped.meta.as_of
    shift = timedelta(days=days_later, minutes=minutes)
    moved = dataclasses.replace(
        contents, quotes=tuple(dataclasses.replace(q, retrieved_at=q.retrieved_at + shift) for q in contents.quotes)
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or f"{as_of + shift:%Y-%m-%d}-x{days_later}-{minutes}.sqlite")
    return write_snapshot(path, moved, published_at=as_of + shift, origin="refresh")


def test_without_published_snapshots_the_shipped_one_is_read_and_nothing_written(data):
    assert bootstrap.open_catalog().meta.origin == "shipped"
    assert bootstrap.data_dir() == data
    assert not data.exists()


def test_the_newest_snapshot_wins_and_a_day_goes_back(data):
    shipped = bootstrap.open_catalog().meta
    first, second = publish(data / "snapshots", 10), publish(data / "snapshots", 20)
    odd = publish(data / "snapshots", 15, name="mine.sqlite")
    assert bootstrap.open_catalog().meta.snapshot_id == second.snapshot_id
    day = shipped.as_of.date()
    for later, expected in ((0, shipped), (9, shipped), (10, first), (14, first), (15, odd), (19, odd), (400, second)):
        assert bootstrap.open_catalog(day + timedelta(days=later)).meta.snapshot_id == expected.snapshot_id, later


def test_of_two_snapshots_of_a_day_each_can_be_asked_for(data):
    first, second = (publish(data / "snapshots", n, name=f"2026-11-30-{n}.sqlite") for n in (10, 11))
    for meta in (first, second):
        assert bootstrap.open_catalog(meta.snapshot_id).meta == meta
        assert bootstrap.open_catalog(meta.snapshot_id[:6].upper()).meta == meta
    assert bootstrap.open_catalog("latest").meta == second
    assert bootstrap.open_catalog("shipped").meta.origin == "shipped"


def test_a_name_of_no_snapshot_is_of_the_field_it_was_given_in(data):
    meta = publish(data / "snapshots", 10)
    near = meta.snapshot_id[:-1] + ("0" if meta.snapshot_id[-1] != "0" else "1")
    with pytest.raises(BadRequest, match=f"did you mean {meta.snapshot_id}") as caught:
        bootstrap.open_catalog(near)
    assert (caught.value.field, caught.value.value) == ("prices_as_of", near)
    with pytest.raises(BadRequest, match=r"is the name of no price snapshot here; `planner prices snapshots`"):
        bootstrap.open_catalog("zzzzzz")


def test_a_beginning_of_several_ids_names_them(data, monkeypatch):
    metas = [publish(data / "snapshots", n) for n in (10, 11)]
    same = [dataclasses.replace(m, snapshot_id=f"abcdef{n}") for n, m in enumerate(metas)]
    kept = [dataclasses.replace(k, meta=m) for k, m in zip(bootstrap.kept_snapshots()[1:], same, strict=True)]
    monkeypatch.setattr(bootstrap, "kept_snapshots", lambda: kept)
    with pytest.raises(BadRequest, match="begins the ids of 2 snapshots; abcdef0 or abcdef1") as caught:
        bootstrap.open_catalog("abcdef")
    assert caught.value.field == "prices_as_of"


def test_the_same_request_of_a_named_snapshot_is_the_same_answer_whatever_came_since(data, monkeypatch):
    first = publish(data / "snapshots", 10)
    request = RecommendRequest(model="7b", prices_as_of=first.snapshot_id[:8], purchase=("on_demand", "spot", "capacity_block"))  # fmt: skip
    answers = []
    for days in (1, 200):
        monkeypatch.setattr(bootstrap, "utc_now", lambda days=days: first.published_at + timedelta(days=days))
        answers.append(without_ages(bootstrap.answer_recommendation(request)))
        publish(data / "snapshots", 11)
    assert to_json_bytes(answers[0]) == to_json_bytes(answers[1])
    assert answers[0]["request"]["prices_as_of"] == first.snapshot_id[:8]
    assert answers[0]["prices"]["snapshot_id"] == first.snapshot_id


def without_ages(value):
    """Return a document without what follows the clock."""
    if isinstance(value, dict):
        ages = {"age_hours", "stale", "after_clock"}
        return {name: without_ages(each) for name, each in value.items() if name not in ages}
    return [without_ages(each) for each in value] if isinstance(value, list) else value


def test_a_day_before_all_snapshots_names_the_oldest(data):
    publish(data / "snapshots", 10)
    shipped = read_meta(shipped_snapshot_path())
    with pytest.raises(BadRequest) as caught:
        bootstrap.open_catalog(date(2020, 1, 1))
    assert caught.value.field == "prices_as_of"
    assert shipped.snapshot_id in str(caught.value)
    assert shipped.as_of.date().isoformat() in str(caught.value)


def cut(path: Path) -> None:
    """Take the end of a file away."""
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size // 2)


def overwritten(path: Path) -> None:
    """Put something else in its place, and leave it the time at which the snapshot was published."""
    at = read_meta(path).published_at.timestamp()
    path.write_bytes(b"no snapshot")
    os.utime(path, (at, at))


def two_of_a_day(data: Path) -> list[Path]:
    """Publish two snapshots of one day, the newer one last."""
    for minutes in (1, 2):
        publish(data / "snapshots", 10, minutes=minutes)
    return sorted((data / "snapshots").iterdir())


@pytest.mark.parametrize("damage", [cut, overwritten])
def test_a_damaged_snapshot_is_passed_over_unless_it_may_be_the_one_wanted(data, damage):
    older, newer = two_of_a_day(data)
    meta = read_meta(newer)
    damage(older)
    assert bootstrap.open_catalog().meta == meta
    assert bootstrap.open_catalog(meta.day).meta == meta
    assert [f.path for f in bootstrap.kept_snapshots() if f.why is not None] == [older]
    damage(newer)
    with pytest.raises(SnapshotError, match=r"\.sqlite: .*remove "):
        bootstrap.open_catalog()


@pytest.mark.parametrize("damage", [cut, overwritten])
def test_the_newest_snapshot_is_not_passed_over_for_an_older_one_of_its_day(data, damage):
    _, newer = two_of_a_day(data)
    damage(newer)
    with pytest.raises(SnapshotError) as caught:
        bootstrap.open_catalog()
    assert str(newer) in str(caught.value)


def test_a_file_that_is_no_snapshot_by_name_or_content_stops_nothing(data):
    meta = publish(data / "snapshots", 10)
    (data / "snapshots" / "notes.sqlite").write_bytes(b"notes")
    assert bootstrap.open_catalog().meta == meta
    with pytest.raises(BadRequest, match="is before the oldest price snapshot"):
        bootstrap.open_catalog(date(2020, 1, 1))


def test_a_damaged_shipped_snapshot_is_not_needed_beside_a_published_one(data, monkeypatch, tmp_path):
    meta = publish(data / "snapshots", 10)
    shipped = tmp_path / "snapshot-0.sqlite"
    shipped.write_bytes(b"cut")
    monkeypatch.setattr("pricing.snapshot.shipped_snapshot_path", lambda: shipped)
    assert bootstrap.open_catalog().meta == meta
    with pytest.raises(SnapshotError, match="snapshot-0"):
        bootstrap.open_catalog(date(2020, 1, 1))


def test_a_snapshot_that_is_replaced_is_opened_anew(data):
    first = publish(data / "snapshots", 10, name="mine.sqlite")
    assert bootstrap.open_catalog().meta.snapshot_id == first.snapshot_id
    (data / "snapshots" / "mine.sqlite").unlink()
    second = publish(data / "snapshots", 12, name="mine.sqlite")
    assert bootstrap.open_catalog().meta.snapshot_id == second.snapshot_id


def test_a_long_running_process_keeps_few_snapshots_open_and_those_in_use_stay_valid(data):
    many = bootstrap.MOST_OPEN + 4
    metas = [publish(data / "snapshots", day) for day in range(10, 10 + many)]
    in_use = bootstrap.open_catalog(metas[0].day)
    links = [weakref.ref(bootstrap.open_catalog(meta.day)) for meta in metas[1:]]
    gc.collect()
    assert sum(link() is not None for link in links) <= bootstrap.MOST_OPEN
    assert len(in_use.quotes(regions=["us-east-1"])) > 0
    assert bootstrap.open_catalog().meta == metas[-1]
    again = bootstrap.open_catalog(metas[0].day)  # let go by the cache, and asked for once more
    assert again.meta == in_use.meta
    assert again.quotes() == in_use.quotes()
    if Path("/proc/self/fd").exists():
        opened = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        assert sum(name.startswith(str(data / "snapshots")) for name in opened) <= bootstrap.MOST_OPEN + 1


def test_many_snapshots_of_one_day_are_looked_at_without_being_kept_open(data):
    shipped = bootstrap.open_catalog().meta
    names = [f"{shipped.day + timedelta(days=10)}-{n:02}.sqlite" for n in range(bootstrap.MOST_OPEN + 4)]
    first = publish(data / "snapshots", 10, name=names[0])
    for name in names[1:]:
        (data / "snapshots" / name).write_bytes((data / "snapshots" / names[0]).read_bytes())
    before = bootstrap._opened.cache_info().misses
    for _ in range(3):
        assert bootstrap.open_catalog().meta == first
    assert bootstrap._opened.cache_info().misses == before + 1


def test_the_database_is_a_file_in_the_data_directory_unless_told(data, monkeypatch):
    assert bootstrap.database_url() == f"sqlite:///{data / 'planner.sqlite'}"
    monkeypatch.setenv("PLANNER_DATABASE_URL", "postgresql://host/db")
    assert bootstrap.database_url() == "postgresql://host/db"


@pytest.mark.parametrize("name", ["a?b", "50%", "with%20it", "a b", "d#1", "é", "a+b@c:d", "q?mode=ro"])
def test_a_data_directory_of_any_name_holds_its_own_database(tmp_path, monkeypatch, name):
    folder = tmp_path / name
    monkeypatch.setenv("PLANNER_DATA_DIR", str(folder))
    assert bootstrap.database_file() == folder / "planner.sqlite"
    assert bootstrap.database_file(bootstrap.database_url()) == folder / "planner.sqlite"
    with bootstrap.open_store() as store:
        store.upgrade()
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]
    assert (folder / "planner.sqlite").is_file()
    assert schema_of(None)["current"]
    with spot_record(None, wanted=True) as kept:
        assert kept is not None


def test_another_kind_of_database_has_no_file():
    assert bootstrap.database_file("postgresql://u:p@host/db") is None


def test_the_usual_place_is_the_users_own(monkeypatch):
    monkeypatch.delenv("PLANNER_DATA_DIR", raising=False)
    assert bootstrap.data_dir().name == "planner"
    assert bootstrap.utc_now().tzinfo is UTC


def test_a_snapshot_is_found_by_id_beginning_of_it_day_and_name(data):
    first, second = publish(data / "snapshots", 10), publish(data / "snapshots", 20)
    shipped = read_meta(shipped_snapshot_path())
    for word, expected in (
        ("latest", second),
        ("shipped", shipped),
        (first.snapshot_id, first),
        (first.snapshot_id[:8].upper(), first),
        (second.day.isoformat(), second),
        ((second.day - timedelta(days=1)).isoformat(), first),
        (shipped.snapshot_id[:12], shipped),
    ):
        assert bootstrap.open_snapshot_by(word).meta.snapshot_id == expected.snapshot_id, word


def test_what_names_no_snapshot_or_several_is_one_line(data):
    ids = sorted(publish(data / "snapshots", days).snapshot_id for days in range(1, 18))
    shared = next(a[0] for a, b in pairwise(ids) if a[0] == b[0])  # 17 ids, 16 first digits
    with pytest.raises(BadRequest, match=r"begins the ids of \d+ snapshots"):
        bootstrap.open_snapshot_by(shared)
    with pytest.raises(UnknownName, match="unknown snapshot 'shiped'; did you mean shipped"):
        bootstrap.open_snapshot_by("shiped")
    with pytest.raises(UnknownName, match="unknown snapshot ''"):
        bootstrap.open_snapshot_by("")
    with pytest.raises(BadRequest, match="is not a day"):
        bootstrap.open_snapshot_by("2026-02-30")
    with pytest.raises(BadRequest, match="before the oldest price snapshot"):
        bootstrap.open_snapshot_by("2001-01-01")


def test_kept_snapshots_tells_of_a_file_that_cannot_be_read(data):
    good = publish(data / "snapshots", 10)
    bad = data / "snapshots" / "2026-07-01-0123456789abcdef.sqlite"
    bad.write_bytes(b"no snapshot")
    kept = {file.path.name: file for file in bootstrap.kept_snapshots()}
    assert len(kept) == 3
    assert kept[bad.name].meta is None
    assert "not a price snapshot" in str(kept[bad.name].why)
    assert {f.meta.snapshot_id for f in kept.values() if f.meta} == {
        good.snapshot_id,
        read_meta(shipped_snapshot_path()).snapshot_id,
    }
    with pytest.raises(SnapshotError, match="not a price snapshot"):
        bootstrap.open_snapshot_by("0123456789")
    assert bootstrap.open_snapshot_by(good.snapshot_id[:10]).meta.snapshot_id == good.snapshot_id
