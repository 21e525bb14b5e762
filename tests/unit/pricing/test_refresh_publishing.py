"""The last step: one refresh at a time, checked against the snapshot before, newer than it, and nothing half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from small_contents import LATER, quote, small_contents

from pricing.market import NoticeKind
from pricing.model import PurchaseOption
from pricing.refresh.errors import NotPublished, NotWritable, RefreshBusy
from pricing.refresh.lock import only_publisher, only_refresh
from pricing.refresh.publishing import checked, publish, remove_unused, sweep
from pricing.snapshot import verify_snapshot

BASE = small_contents()
TODAY = LATER.date()

HOLD = """
import sys, time
from pathlib import Path
from pricing.refresh.lock import only_refresh
with only_refresh(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_refresh_is_told_who_has_the_lock_and_gets_it_when_that_one_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RefreshBusy, match=f"process {other.pid} is refreshing the prices"), only_refresh(tmp_path):
            pass
        other.kill()
        other.wait()
    with only_refresh(tmp_path):
        pass


def test_two_locks_of_one_process_exclude_each_other_too(tmp_path):
    with only_refresh(tmp_path), pytest.raises(RefreshBusy), only_refresh(tmp_path):
        pass
    with only_refresh(tmp_path), only_publisher(tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_data_directory_is_one_clear_line(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(NotWritable, match="PLANNER_DATA_DIR"), only_refresh(tmp_path):
            pass
    finally:
        tmp_path.chmod(0o700)


def test_a_data_directory_that_is_a_file_is_one_clear_line(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(NotWritable, match="PLANNER_DATA_DIR"), only_refresh(tmp_path / "data"):
        pass


def test_what_the_base_did_not_have_and_cannot_be_right_blocks_publishing():
    wrong = replace(BASE, quotes=(*BASE.quotes, quote("aws", "g6.xlarge", "eu-west-1", "0.00")))
    with pytest.raises(NotPublished, match=r"prices_positive: aws g6\.xlarge eu-west-1 on_demand: price is 0\.00"):
        checked(BASE, wrong, today=TODAY)
    assert checked(wrong, wrong, today=TODAY).quotes == wrong.quotes  # the base had it already


def test_what_a_market_may_do_is_told_and_published():
    dear = quote("aws", "g6.xlarge", "us-east-1", "9.99", PurchaseOption.RESERVED_1YR, term_years=1, payment_option="no_upfront")  # fmt: skip
    cny = quote("aws", "g6.xlarge", "cn-north-1", "3.7", currency="CNY")
    made = checked(BASE, replace(BASE, quotes=(*BASE.quotes, dear, cny)), today=TODAY)
    said = [n for n in made.notices if n.kind is NoticeKind.NOTE and n.subject == "discounts_below_on_demand"]
    assert [n.count for n in said] == [1]
    assert "9.99 is above on-demand 0.8048" in said[0].detail


def test_a_snapshot_is_named_by_its_day_and_newer_than_the_one_before(tmp_path):
    path, first = publish(tmp_path, BASE, now=LATER, after=None)
    assert path.name == f"2026-11-30-{first.snapshot_id}.sqlite"
    more = replace(BASE, quotes=(*BASE.quotes, quote("aws", "g6.xlarge", "us-west-2", "0.9")))
    behind = LATER - timedelta(days=3)  # this machine's clock was put back
    path, second = publish(tmp_path, more, now=behind, after=first)
    assert second.published_at > first.published_at
    assert second.day == date(2026, 11, 30)
    assert verify_snapshot(path).snapshot_id == second.snapshot_id


def test_the_shipped_snapshot_does_not_push_the_time_of_the_next_one(tmp_path):
    _, shipped = publish(tmp_path / "a", BASE, now=LATER, after=None, origin="shipped")
    early = datetime(2026, 8, 1, tzinfo=UTC)
    more = replace(BASE, quotes=(*BASE.quotes, quote("aws", "g6.xlarge", "us-west-2", "0.9")))
    assert publish(tmp_path / "b", more, now=early, after=shipped)[1].published_at == early


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path):
    (tmp_path / "snapshots").write_text("")
    with pytest.raises(NotWritable, match="the snapshot before stays"):
        publish(tmp_path / "snapshots", BASE, now=LATER, after=None)


FULL_DISK = """
import resource, sys
from datetime import UTC, datetime
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
from small_contents import LATER, small_contents
from pricing.errors import SnapshotError
from pricing.refresh.publishing import publish
try:
    publish(Path(sys.argv[1]), small_contents(), now=LATER, after=None)
except SnapshotError as e:
    print(type(e).__name__, e)
"""


def test_a_disk_that_is_full_leaves_nothing_half_written(tmp_path):
    """A limit on the size of files stands in for a full disk: SQLite meets it in the middle of writing."""
    here = os.path.dirname(__file__)  # noqa: PTH120 - an argument of a process
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path / "snapshots"), here], capture_output=True, text=True, check=False)  # fmt: skip
    assert "the snapshot before stays" in done.stdout, done.stderr
    assert done.stdout.count("\n") == 1
    assert list((tmp_path / "snapshots").iterdir()) == []


def test_what_killed_processes_left_is_swept_and_what_is_being_written_is_not(tmp_path):
    old, new, other = tmp_path / ".a.sqlite.1-2.tmp", tmp_path / ".b.sqlite.3-4.tmp", tmp_path / "c.sqlite"
    for path in (old, new, other):
        path.write_text("")
    hours_ago = LATER.timestamp() - 2 * 3600
    os.utime(old, (hours_ago, hours_ago))
    os.utime(other, (hours_ago, hours_ago))
    os.utime(new, (LATER.timestamp(), LATER.timestamp()))
    sweep(tmp_path, now=LATER)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".b.sqlite.3-4.tmp", "c.sqlite"]


def test_prices_are_exact_in_what_is_published(tmp_path):
    exact = replace(BASE, quotes=(quote("aws", "p5.48xlarge", "us-east-1", "37.97751141552511415525114155"),))
    path, _ = publish(tmp_path, exact, now=LATER, after=None)
    from pricing.snapshot import open_snapshot

    with open_snapshot(path) as catalog:
        (row,) = catalog.quotes()
    assert row.effective_unit_price == Decimal("37.97751141552511415525114155")


def test_downloads_that_nobody_used_for_a_month_are_removed_and_nothing_else(tmp_path):
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    ages = {
        "old.csv": 31,
        "old.csv.json": 31,
        "old.csv.part": 31,
        "old.csv.lock": 400,
        "new.csv": 29,
        "new.csv.json": 29,
    }
    for name, days in ages.items():
        (tmp_path / name).write_text("x")
        moment = (now - timedelta(days=days)).timestamp()
        os.utime(tmp_path / name, (moment, moment))
    (tmp_path / "folder").mkdir()
    os.utime(tmp_path / "folder", (0, 0))
    assert remove_unused(tmp_path, now=now) == 3
    assert {p.name for p in tmp_path.iterdir()} == {"old.csv.lock", "new.csv", "new.csv.json", "folder"}
    assert remove_unused(tmp_path / "none", now=now) == 0
