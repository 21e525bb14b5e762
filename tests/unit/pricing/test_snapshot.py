"""The snapshot file: what goes in comes out, nothing half-written, nothing overwritten, nothing foreign or damaged accepted."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_contents import LATER, MOMENT, quote, shape, small_contents

from pricing import snapshot
from pricing.errors import SnapshotError, SnapshotNotWritten
from pricing.model import PurchaseOption
from pricing.publish import main, publish_shipped
from pricing.snapshot import (
    content_id,
    open_snapshot,
    read_meta,
    snapshot_file_name,
    stated_moment,
    verify_snapshot,
    write_snapshot,
    write_snapshot_in,
)
from pricing.static import load_tables


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "a folder #1?" / "prices.sqlite"  # characters that mean something in a URI
    write_snapshot(target, small_contents(), published_at=LATER, origin="import")
    return target


def names_in(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


def test_what_goes_in_comes_out(path: Path) -> None:
    asked = small_contents()
    with open_snapshot(path) as catalog:
        found = catalog.contents()
    for table in ("accelerators", "instance_types", "quotes", "rates", "interruptions", "sources"):
        there, wanted = getattr(found, table), getattr(asked, table)
        assert len(there) == len(wanted), table
        assert all(row in there for row in wanted), table
    assert found.aliases == asked.aliases
    assert (
        next(q for q in found.quotes if q.region == "us-west-2").effective_unit_price.as_tuple()
        == Decimal("55.040").as_tuple()
    )  # to the digit


def test_meta_says_what_is_in_it(path: Path) -> None:
    meta = read_meta(path)
    assert (meta.quote_count, meta.instance_type_count, meta.origin) == (7, 5, "import")
    assert (meta.as_of, meta.published_at) == (MOMENT, LATER)
    assert meta.sources == small_contents().sources
    assert meta == open_snapshot(path).meta == verify_snapshot(path)
    assert snapshot_file_name(meta) == f"2026-11-30-{meta.snapshot_id}.sqlite"


def test_as_of_is_the_day_of_the_newest_on_demand_quote_even_if_spot_is_newer(tmp_path: Path) -> None:
    spot = quote("aws", "g6.xlarge", "us-east-1", "0.3", PurchaseOption.SPOT, retrieved_at=LATER)
    meta = write_snapshot(
        tmp_path / "s", small_contents(quotes=(*small_contents().quotes, spot)), published_at=LATER, origin="import"
    )
    assert meta.as_of == MOMENT


def test_the_id_is_the_hash_of_sorted_lines_of_json_whatever_works_it_out() -> None:
    """The id names what was published years ago: here it is spelled out with nothing of ours."""
    odd = quote("aws", 'g6.x"large\\ü\n', "us-east-1", "0.80480", upfront=Decimal("-0.0"), notes="", derived=True)
    same = replace(odd, instance_type="g6.2xlarge", effective_unit_price=Decimal("0.8048"), retrieved_at=datetime(2026, 7, 20, 2, tzinfo=timezone(timedelta(hours=2))))  # fmt: skip
    flat = shape("aws", "z", "L4", 1, memory_gib=-0.0, network_gbps=0.0, vcpus=1, device_fraction=1e-7)
    contents = small_contents(
        quotes=(*small_contents().quotes, odd, same), instance_types=(*small_contents().instance_types, flat)
    )
    lines = [f"aliases\t{alias}\t{name}" for alias, name in contents.aliases.items()]
    for table in ("accelerators", "instance_types", "quotes", "rates", "interruptions", "sources"):
        for row in getattr(contents, table):
            said = {field.name: plain(getattr(row, field.name)) for field in fields(row)}
            known = {name: value for name, value in said.items() if value is not None}
            lines.append(f"{table}\t{json.dumps(known, sort_keys=True, separators=(',', ':'), ensure_ascii=False)}")
    assert content_id(contents) == hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def plain(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return json.dumps(dict(value), sort_keys=True, separators=(",", ":"))
    return value


@given(st.randoms(use_true_random=False))
def test_id_depends_on_content_not_on_order(random: object) -> None:
    contents = small_contents()
    shuffled = {}
    for table in ("accelerators", "instance_types", "quotes"):
        rows = list(getattr(contents, table))
        random.shuffle(rows)  # type: ignore[attr-defined]
        shuffled[table] = tuple(rows)
    assert content_id(replace(contents, **shuffled)) == content_id(contents)


@pytest.mark.parametrize(
    "changed",
    [
        small_contents(aliases={"H100": "H100 SXM5 80GB"}),
        small_contents(quotes=small_contents().quotes[1:]),
        small_contents(
            quotes=(
                replace(small_contents().quotes[0], effective_unit_price=Decimal("55.05")),
                *small_contents().quotes[1:],
            )
        ),
        small_contents(rates=()),
        small_contents(interruptions=()),
        small_contents(sources=()),
    ],
)
def test_id_changes_with_any_table(changed: object) -> None:
    assert content_id(changed) != content_id(small_contents())  # type: ignore[arg-type]


def test_same_content_makes_the_same_file(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    backwards = small_contents(quotes=small_contents().quotes[::-1])
    assert write_snapshot(one, small_contents(), published_at=LATER, origin="import") == write_snapshot(
        two, backwards, published_at=LATER, origin="import"
    )
    assert one.read_bytes() == two.read_bytes()


def test_a_snapshot_is_never_overwritten(path: Path) -> None:
    before = path.read_bytes()
    write_snapshot(
        path, small_contents(), published_at=datetime.now(UTC), origin="refresh"
    )  # same content: the file that is there stays
    assert path.read_bytes() == before
    with pytest.raises(SnapshotError, match="never overwritten"):
        write_snapshot(path, small_contents(rates=()), published_at=LATER, origin="import")
    assert path.read_bytes() == before
    assert names_in(path.parent) == [path.name]


def test_nothing_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot.os, "fsync", full)
    with pytest.raises(SnapshotError, match="No space left"):
        write_snapshot(tmp_path / "s.sqlite", small_contents(), published_at=LATER, origin="import")
    assert names_in(tmp_path) == []


def test_the_name_goes_to_whoever_is_first_on_file_systems_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(snapshot.os, "link", unsupported)
    meta = write_snapshot(tmp_path / "s.sqlite", small_contents(), published_at=LATER, origin="import")
    assert verify_snapshot(tmp_path / "s.sqlite") == meta
    assert names_in(tmp_path) == ["s.sqlite"]


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        (small_contents(quotes=()), "at least one on-demand quote"),
        (
            small_contents(quotes=(*small_contents().quotes, small_contents().quotes[0])),
            "two rows of quotes for aws, us-east-1, p5.48xlarge",
        ),
        (
            small_contents(instance_types=(shape("aws", "x", "L4"), shape("aws", "x", "L4"))),
            "two rows of instance_types for aws, x",
        ),
        (
            small_contents(quotes=(quote("aws", "x", "r", "1", retrieved_at=MOMENT), quote("aws", "y", "r", "NaN"))),
            "effective_unit_price must be a finite Decimal",
        ),
        (
            small_contents(instance_types=(shape("aws", "x", "L4", memory_gib=float("inf")),)),
            "memory_gib must be finite",
        ),
    ],
)
def test_content_that_cannot_be_kept_is_refused(tmp_path: Path, contents: object, why: str) -> None:
    with pytest.raises(SnapshotError, match=why):
        write_snapshot(tmp_path / "s.sqlite", contents, published_at=LATER, origin="import")  # type: ignore[arg-type]
    assert names_in(tmp_path) == []


def test_times_without_a_zone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="time zone"):
        write_snapshot(tmp_path / "s", small_contents(), published_at=datetime(2026, 1, 1), origin="import")  # noqa: DTZ001
    naive = quote("aws", "x", "r", "1", PurchaseOption.SPOT, retrieved_at=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(SnapshotError, match=r"Quote.retrieved_at must say its time zone"):
        write_snapshot(
            tmp_path / "s",
            small_contents(quotes=(*small_contents().quotes, naive)),
            published_at=LATER,
            origin="import",
        )


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("provider,price\n" * 50)


def foreign(path: Path) -> None:
    path.unlink()
    edit(path, "CREATE TABLE meta (key, value)")


def newer(path: Path) -> None:
    edit(path, "PRAGMA user_version = 99")


def without_meta(path: Path) -> None:
    edit(path, "DROP TABLE meta")


def without_id(path: Path) -> None:
    edit(path, "DELETE FROM meta WHERE key = 'snapshot_id'")


def scrambled(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[100:4096] = b"\xff" * (4096 - 100)  # the first page holds the schema
    path.write_bytes(whole)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)  # opening it would wait for a writer


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (truncated, "damaged snapshot: .* bytes, should be"),
        (emptied, "not a price snapshot; remove"),
        (text, "not a price snapshot; remove"),
        (foreign, "not a price snapshot; remove"),
        (newer, "snapshot format 99, this version reads format 3; upgrade planner, or remove"),
        (piped, "not a price snapshot but a named pipe; remove"),
        (without_meta, "damaged snapshot: no such table: meta"),
        (without_id, "damaged snapshot"),
        (scrambled, "damaged snapshot"),
        (Path.unlink, "no such snapshot"),
    ],
)
def test_a_foreign_or_damaged_file_is_one_clear_line(path: Path, damage: Callable[[Path], None], why: str) -> None:
    damage(path)
    with pytest.raises(SnapshotError, match=why) as caught:
        open_snapshot(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "told"),
    [(truncated, True), (newer, True), (without_id, True), (scrambled, True), (emptied, False), (text, False), (piped, False), (Path.unlink, False)],
)  # fmt: skip
def test_a_damaged_file_may_still_say_when_it_was_published(
    path: Path, damage: Callable[[Path], None], told: bool
) -> None:
    damage(path)
    assert stated_moment(path) == (LATER if told else None)


@pytest.mark.parametrize("read", [open_snapshot, read_meta, verify_snapshot])
@pytest.mark.parametrize(
    "damage", [truncated, emptied, text, foreign, newer, without_meta, without_id, scrambled, piped]
)
def test_the_remedy_is_for_that_file_and_the_shipped_one_has_its_own(
    path: Path, damage: Callable[[Path], None], read: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(path)
    with pytest.raises(SnapshotError) as caught:
        read(path)
    assert str(caught.value).endswith(f"remove {path}")
    assert "pricing.publish" not in str(caught.value)
    monkeypatch.setattr(snapshot, "shipped_snapshot_path", lambda: path)
    with pytest.raises(SnapshotError, match=r"python -m pricing\.publish") as caught:
        read(path)
    assert f"remove {path}" not in str(caught.value)


def test_a_folder_and_a_device_are_no_snapshots(tmp_path: Path) -> None:
    for thing, kind in ((tmp_path, "a folder"), (Path("/dev/zero"), "a device")):
        with pytest.raises(SnapshotError, match=f"not a price snapshot but {kind}; remove {thing}"):
            open_snapshot(thing)


def test_rows_that_are_damaged_say_what_to_remove(path: Path) -> None:
    edit(path, "UPDATE quotes SET purchase_option = 'stolen'")
    with pytest.raises(SnapshotError, match=r"a row of quotes cannot be read.*; remove ") as caught:
        open_snapshot(path).quotes()
    assert str(caught.value).endswith(f"remove {path}")
    edit(path, "DROP TABLE quotes")
    with pytest.raises(SnapshotError, match="damaged snapshot: no such table: quotes; remove "):
        open_snapshot(path).quotes()


def test_a_changed_price_is_found_by_verification(path: Path) -> None:
    whole = path.read_bytes()
    assert whole.count(b"16.95") == 1
    path.write_bytes(whole.replace(b"16.95", b"11.95"))
    with pytest.raises(SnapshotError, match="damaged snapshot: its content has id"):
        verify_snapshot(path)


def test_a_row_that_cannot_be_read_names_its_table(path: Path) -> None:
    edit(path, "UPDATE quotes SET purchase_option = 'stolen' WHERE region = 'us-west-2'")
    catalog = open_snapshot(path)
    assert len(catalog.quotes(regions=["us-east-1"])) == 4
    with pytest.raises(SnapshotError, match="a row of quotes cannot be read"):
        catalog.quotes(regions=["us-west-2"])


def test_a_missing_shipped_file_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "shipped_snapshot_path", lambda: tmp_path / "snapshot-0.sqlite")
    with pytest.raises(SnapshotError, match=r"no such snapshot; run `python -m pricing\.publish`"):
        open_snapshot(tmp_path / "snapshot-0.sqlite")


def test_reading_leaves_no_trace(path: Path) -> None:
    before = path.stat().st_mtime_ns
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        with open_snapshot(path) as catalog:
            assert len(catalog.quotes()) == 7
        assert names_in(path.parent) == [path.name]
        assert path.stat().st_mtime_ns == before
    finally:
        path.parent.chmod(0o755)


def test_the_file_cannot_be_written_through_a_catalog(path: Path) -> None:
    catalog = open_snapshot(path)
    with pytest.raises(SnapshotError, match="readonly database"):
        catalog._rows("DELETE FROM quotes", ())


READER = """
import sys, time
from pathlib import Path
from pricing.errors import SnapshotError, SnapshotNotWritten
from pricing.snapshot import open_snapshot
path, until, seen = Path(sys.argv[1]), time.monotonic() + 60, set()
print("ready", flush=True)
while not Path(sys.argv[2]).exists() and time.monotonic() < until:
    with open_snapshot(path) as catalog:
        quotes = catalog.quotes()
        assert len(quotes) == catalog.meta.quote_count, (len(quotes), catalog.meta)
        seen.add(catalog.meta.snapshot_id)
print(len(seen))
"""


def test_readers_never_see_half_a_file_while_another_publishes(tmp_path: Path) -> None:
    path, stop = tmp_path / "snapshot.sqlite", tmp_path / "stop"
    one, two = small_contents(), small_contents(quotes=small_contents().quotes[:3])
    write_snapshot(path, one, published_at=LATER, origin="shipped")
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(path), str(stop)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
        for i in range(30):
            write_snapshot(path, (two, one)[i % 2], published_at=LATER, origin="shipped", replace=True)
            time.sleep(0.01)
    finally:
        stop.touch()
        said = [reader.communicate(timeout=60) for reader in readers]
    assert [err for _, err in said] == ["", "", ""]
    assert max(int(out) for out, _ in said) == 2  # at least one of them saw both


def test_publishers_of_one_name_agree(tmp_path: Path) -> None:
    script = "import sys; sys.path.insert(0, sys.argv[2]); from small_contents import *; from pricing.snapshot import *; from pathlib import Path\n"
    script += (
        "print(write_snapshot(Path(sys.argv[1]), small_contents(), published_at=LATER, origin='import').snapshot_id)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "s.sqlite"), str(Path(__file__).parent)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [w.communicate(timeout=60) for w in writers]
    assert said == [(content_id(small_contents()) + "\n", "")] * 4
    assert names_in(tmp_path) == ["s.sqlite"]


def test_shipped_tables_publish_the_same_file_every_time(tmp_path: Path) -> None:
    one, two = publish_shipped(tmp_path / "1.sqlite"), publish_shipped(tmp_path / "2.sqlite")
    assert one.read_bytes() == two.read_bytes()
    inode = one.stat().st_ino
    publish_shipped(one)  # already holds them: left alone
    assert one.stat().st_ino == inode
    two.write_bytes(b"half a file")
    publish_shipped(two)
    assert one.read_bytes() == two.read_bytes()
    contents, meta = load_tables(), verify_snapshot(one)
    assert meta.snapshot_id == content_id(contents)
    assert (meta.origin, meta.quote_count) == ("shipped", len(contents.quotes))
    newest = max(
        [q.retrieved_at.date() for q in contents.quotes]
        + [r.retrieved_on for t in (contents.rates, contents.interruptions) for r in t]
    )
    assert meta.published_at.date() >= newest
    assert meta.published_at == publish_time_by_hand(contents)


def publish_time_by_hand(contents: object) -> datetime:
    days = set()
    for rows in (contents.accelerators, contents.instance_types, contents.rates, contents.interruptions):  # type: ignore[attr-defined]
        days |= {row.retrieved_on for row in rows if row.retrieved_on}
    days |= {q.retrieved_at.date() for q in contents.quotes}  # type: ignore[attr-defined]
    return datetime.combine(max(days), datetime.min.time(), tzinfo=UTC)


def test_publishing_says_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "snapshot-0.sqlite"
    monkeypatch.setattr("pricing.publish.shipped_snapshot_path", lambda: target)
    assert main() == 0
    said = capsys.readouterr().out
    assert str(target) in said
    assert read_meta(target).snapshot_id in said


def test_publishing_needs_the_standard_library_alone(tmp_path: Path) -> None:
    root = Path(snapshot.__file__).parents[1]
    script = f"import sys; sys.path.insert(0, {str(root)!r}); from pathlib import Path; from pricing.publish import publish_shipped; print(publish_shipped(Path(sys.argv[1])))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(tmp_path / "s.sqlite")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert verify_snapshot(tmp_path / "s.sqlite").origin == "shipped"


@pytest.mark.benchmark
def test_opening_and_reading_a_region_takes_milliseconds(tmp_path: Path) -> None:
    path = publish_shipped(tmp_path / "s.sqlite")
    took_ms = []
    for _ in range(20):
        start = time.perf_counter()
        with open_snapshot(path) as catalog:
            quotes, types = catalog.quotes(regions=["us-east-1"]), catalog.instance_types()
        took_ms.append(1000 * (time.perf_counter() - start))
    said = f"open + {len(quotes)} quotes of us-east-1 + {len(types)} instance types: best {min(took_ms):.1f} ms, median {sorted(took_ms)[10]:.1f} ms"
    sys.stdout.write(said)  # shown by pytest -s -m benchmark
    assert min(took_ms) < 25, said


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SnapshotNotWritten, match=r"file/deeper/s\.sqlite: cannot write the snapshot: Not a directory"):
        write_snapshot(tmp_path / "file" / "deeper" / "s.sqlite", small_contents(), published_at=LATER, origin="import")


def test_a_full_disk_is_one_clear_line_and_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path; from small_contents import *; from pricing.snapshot import write_snapshot\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "write_snapshot(Path(sys.argv[1]), small_contents(), published_at=LATER, origin='import')"
    )
    folder = tmp_path / "full"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "s.sqlite")],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "SnapshotNotWritten" in done.stderr.splitlines()[-1]
    assert names_in(folder) == []


def test_a_snapshot_is_written_into_its_folder_under_its_own_name(tmp_path: Path) -> None:
    path, meta = write_snapshot_in(tmp_path / "new", small_contents(), published_at=LATER, origin="refresh")
    assert path == tmp_path / "new" / f"2026-11-30-{content_id(small_contents())}.sqlite"
    assert verify_snapshot(path) == meta
