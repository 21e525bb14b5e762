"""`planner prices refresh` as a process of its own against a loopback AWS: published, failed, interrupted, killed, watched."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fakes.aws_server import FakeAws
from fakes.aws_world import World

from planner.store import SqlStore
from pricing.refresh.lock import only_refresh
from pricing.snapshot import open_snapshot, read_meta, shipped_snapshot_path, verify_snapshot

QUICK = ("--source", "instance_types,offerings,spot", "--region", "us-east-1,us-west-2")
"""Sources that are not paced: GetProducts may be asked five times a second, whoever answers."""

COMMAND = [sys.executable, "-m", "planner", "prices", "refresh"]
HASTY = [sys.executable, str(Path(__file__).parents[1] / "fakes" / "hasty.py"), "prices", "refresh"]
KILLS = 12


@pytest.fixture(scope="module")
def server() -> Iterator[FakeAws]:
    with FakeAws() as running:
        yield running


@pytest.fixture
def aws(server: FakeAws) -> FakeAws:
    server.reset(World(now=datetime.now(UTC)))
    return server


class Shell:
    """Runs the command with a data directory of its own."""

    def __init__(self, folder: Path, aws: FakeAws) -> None:
        self.data = folder / "data"
        kept = ("PATH", "HOME", "LANG", "TMPDIR")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ}
        self.environment |= aws.environment() | {"PLANNER_DATA_DIR": str(self.data)}

    def start(self, *words: str, command: Sequence[str] = COMMAND) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, *words], env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*COMMAND, *words], env=self.environment, text=True, capture_output=True, timeout=120, check=False)  # fmt: skip

    def refreshed(self, *words: str) -> dict[str, Any]:
        done = self.run(*words, "--format", "json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def snapshots(self) -> list[Path]:
        files = sorted((self.data / "snapshots").glob("*.sqlite"))
        return sorted(files, key=lambda f: read_meta(f).published_at)


@pytest.fixture
def shell(tmp_path: Path, aws: FakeAws) -> Shell:
    return Shell(tmp_path, aws)


def content(path: Path) -> dict[str, Any]:
    """Everything of a snapshot that does not hold the moment at which it was read."""
    with open_snapshot(path) as catalog:
        whole = catalog.contents()
    never = datetime(2000, 1, 1, tzinfo=UTC)
    return {
        "quotes": {replace(q, retrieved_at=never) for q in whole.quotes},
        "types": set(map(repr, whole.instance_types)),
        "zones": {replace(z, retrieved_at=never) for z in whole.zone_offerings},
    }


def test_after_a_refresh_recommend_answers_with_those_prices_their_day_and_source(shell, aws):
    aws.world.set_price("g6.xlarge", "0.4321")
    document = shell.refreshed("--source", "price_list,instance_types", "--region", "us-east-1")
    assert document["complete"] is True
    words = ["recommend", "--model", "8b", "--instance", "g6.xlarge", "--purchase", "on_demand", "--format", "json"]
    done = subprocess.run([*COMMAND[:3], *words], env=shell.environment, text=True, capture_output=True, check=True)
    answer = json.loads(done.stdout)
    best = answer["recommendations"][0]
    assert answer["prices"]["snapshot_id"] == document["snapshot_id"]
    assert best["price"]["usd_per_instance_hour"] == "0.4321"
    assert best["price"]["source"].startswith("AWS price list, published ")
    assert best["price"]["as_of"][:10] == document["day"]


def test_a_missing_permission_is_one_line_and_the_rest_is_published(shell, aws):
    aws.fail("access_denied", action="DescribeSpotPriceHistory")
    done = shell.run(*QUICK, "--format", "json")
    document = json.loads(done.stdout)
    assert done.returncode == 4
    assert (document["published"], document["complete"]) == (True, False)
    said = [line for line in done.stderr.splitlines() if line.startswith("spot ")]
    assert len(said) == 1
    assert "ec2:DescribeSpotPriceHistory" in said[0]
    assert "us-east-1, us-west-2" in said[0]
    assert "Traceback" not in done.stderr


def test_without_credentials_the_public_files_are_read_and_what_is_missing_is_said(shell):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del shell.environment[name]
    done = shell.run("--source", "price_list,spot,spot_advisor", "--region", "us-east-1", "--format", "json", "--no-store")  # fmt: skip
    states = {s["source"]: s["state"] for s in json.loads(done.stdout)["sources"]}
    assert done.returncode == 4
    assert states == {"price_list": "failed", "price_list_files": "read", "spot": "failed", "spot_advisor": "read"}
    assert "set AWS_PROFILE or AWS_ACCESS_KEY_ID" in done.stderr
    with open_snapshot(shell.snapshots()[-1]) as catalog:
        (price,) = catalog.quotes(instance_types=["p5.48xlarge"], regions=["us-east-1"], purchase_options=["on_demand"])
    assert (str(price.effective_unit_price.normalize()), price.retrieved_at.date()) == ("55.04", datetime.now(UTC).date())  # fmt: skip


def test_a_table_and_a_csv_say_what_was_read(shell):
    table = shell.run(*QUICK)
    assert table.returncode == 0
    assert "read in 2 regions" in table.stdout
    assert "published" in table.stdout
    rows = list(csv.DictReader(io.StringIO(shell.run(*QUICK, "--format", "csv").stdout)))
    assert {(r["source"], r["region"], r["state"]) for r in rows} == {
        (name, region, "read")
        for name in ("instance_types", "offerings", "spot")
        for region in ("us-east-1", "us-west-2")
    }


def test_on_a_terminal_there_is_a_bar_that_is_taken_away(shell):
    ours, theirs = pty.openpty()
    with subprocess.Popen([*COMMAND, *QUICK], env=shell.environment | {"TERM": "xterm"}, stdout=subprocess.PIPE, stderr=theirs) as process:  # fmt: skip
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # how Linux says that the other end is closed
                break
            if not part:
                break
            seen += part
        process.communicate()
    os.close(ours)
    assert process.returncode == 0
    assert b"refreshing" in seen
    assert b"of 6, " in seen
    assert b"Traceback" not in seen


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--region", "us-esat-1"), "planner prices refresh: --region: unknown region 'us-esat-1'; did you mean us-east-1"),
        (("--source", "prices"), "planner prices refresh: unknown source 'prices'"),
        (("--workers", "0"), "planner prices refresh: --workers: 0 must be from 1 to 64"),
        (("--watch", "often"), "planner prices refresh: --watch: 'often' is not an interval; write it as 30m, 6h or 1d"),
        (("--watch", "59s"), "planner prices refresh: --watch: '59s' is too often; at least 1m"),
        (("--profile", "nobody"), "planner prices refresh: --profile: unknown profile 'nobody'; `aws configure list-profiles` lists them"),
        (("--role-arn", "reader"), "planner prices refresh: --role-arn: 'reader' is not the ARN of a role; write it as arn:aws:iam::123456789012:role/NAME"),
        (("--role-arn", "arn:aws:iam::123:role/reader"), "planner prices refresh: --role-arn: 'arn:aws:iam::123:role/reader' is not the ARN of a role"),
        (("--discounts", "none.toml"), "planner prices refresh: --discounts: none.toml: No such file or directory"),
        (("--external-id", "x"), "planner prices refresh: --external-id: goes with --role-arn, which is missing"),
        (("--region", ","), "planner prices refresh: --region: needs a value"),
    ],
)  # fmt: skip
def test_a_bad_request_is_one_line(shell, words, message):
    done = shell.run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(message), done.stderr
    assert done.stderr.count("\n") == 1
    assert not shell.snapshots()


def test_while_another_process_refreshes_there_is_one_line(shell):
    with only_refresh(shell.data):
        done = shell.run(*QUICK)
    assert done.returncode == 4
    assert done.stderr == f"planner prices refresh: {shell.data}/refresh.lock: process {os.getpid()} is refreshing the prices; wait until it has ended\n"  # fmt: skip


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_a_database_that_is_not_ours_does_not_cost_the_snapshot_and_is_one_line(shell, form):
    shell.data.mkdir()
    (shell.data / "planner.sqlite").write_text("this is no database, but somebody's notes" * 10)
    done = shell.run(*QUICK, "--format", form)
    assert done.returncode == 4
    assert len(shell.snapshots()) == 1
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("database: ")]
    assert said.startswith(
        f"database: not recorded: spot changes and the snapshot: database sqlite:///{shell.data}/planner.sqlite "
    )
    assert said.endswith("put that right and refresh again, or say --no-store where no record is wanted")
    again = shell.run(*QUICK, "--format", form, "--no-store")
    assert (again.returncode, "database" in again.stderr) == (0, False)


@pytest.mark.parametrize(
    ("url", "why"), [("no url", "cannot be read"), ("mysql://host/db", "'mysql' is not supported")]
)
def test_an_address_that_is_no_database_is_refused_before_anything_is_asked(shell, aws, url, why):
    shell.environment["PLANNER_DATABASE_URL"] = url
    done = shell.run(*QUICK)
    assert done.returncode == 2
    assert done.stderr.startswith("planner prices refresh: --database-url or PLANNER_DATABASE_URL: ")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    assert (aws.calls, shell.snapshots()) == ([], [])


def test_a_database_of_another_revision_is_left_alone_and_said(shell):
    with SqlStore(f"sqlite:///{shell.data}/planner.sqlite") as store:
        store.upgrade()
    with closing(sqlite3.connect(shell.data / "planner.sqlite")) as db:
        db.execute("UPDATE alembic_version SET version_num = '2099_01_01_later'")
        db.commit()
    done = shell.run(*QUICK)
    assert done.returncode == 4
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("database: not recorded: spot changes and the snapshot: ")]  # fmt: skip
    assert "2099_01_01_later" in said
    assert len(shell.snapshots()) == 1


def test_a_broken_file_of_watches_is_one_line_and_fails_nothing(shell):
    shell.data.mkdir()
    (shell.data / "alerts.toml").write_text("[[watch]\n")
    done = shell.run(*QUICK)
    assert done.returncode == 0
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("alerts: ")]
    assert f"no alert was made: {shell.data}/alerts.toml: is not TOML" in said


def test_that_the_account_may_not_list_its_regions_is_said_and_not_complete(shell, aws):
    aws.fail("access_denied", action="DescribeRegions")
    done = shell.run("--source", "spot_advisor,quotas", "--format", "json")
    document = json.loads(done.stdout)
    assert done.returncode == 4
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("regions: ")]
    assert "ec2:DescribeRegions" in said
    assert "--region names them" in said
    assert (document["complete"], [f["subject"] for f in document["faults"]]) == (False, ["regions"])


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_keeps_what_was_read_and_says_so(shell, aws, sent, code):
    aws.fail("slow", action="DescribeSpotPriceHistory", seconds=3)
    with shell.start(*QUICK) as process:
        _until(lambda: any((shell.data / "staging").glob("offerings*")), process)
        time.sleep(0.5)  # staged a moment before it is counted; the spot prices take three seconds
        process.send_signal(sent)
        said = process.communicate(timeout=20)[1]
    assert process.returncode == code
    assert "Traceback" not in said
    told = re.fullmatch(r"interrupted; (\d+) of (\d+) answers are kept for 6 h, the next refresh goes on from there", said.splitlines()[-1])  # fmt: skip
    assert told is not None, said
    # an answer that was in the air may be staged after the line was written
    assert 0 < int(told[1]) <= len(list((shell.data / "staging").glob("*.jsonl"))) < int(told[2])
    assert not shell.snapshots()
    aws.heal()
    document = shell.refreshed(*QUICK)
    assert "resumed" in {s["state"] for s in document["sources"]}
    assert document["complete"] is True


def _until(true: Any, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while not true() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_watch_goes_on_after_a_failure_and_ends_at_sigterm(shell, aws):
    aws.fail("access_denied", action="Describe*", times=1)
    with shell.start(*QUICK, "--no-store", "--watch", "1s", command=HASTY) as process:
        _until(lambda: len(list((shell.data / "snapshots").glob("*.sqlite"))) >= 3, process)
        process.terminate()
        out, said = process.communicate(timeout=20)
    assert process.returncode == 0
    lines = out.splitlines()
    assert len(lines) >= 2
    assert "; failed: " in lines[0]
    assert "failed" not in lines[1]
    assert all(" published; " in line for line in lines)
    assert said.splitlines()[-1] == "ended by SIGTERM; what was published stays"
    assert "next refresh at " in said


def test_killed_at_any_moment_the_snapshot_is_whole_and_the_next_refresh_completes(shell, aws, tmp_path):
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")  # noqa: T201 - shown when it fails, to try again
    chance = random.Random(seed)
    words = (*QUICK, "--no-store")
    aws.fail("slow", seconds=0.01)
    other = Shell(tmp_path / "other", aws)
    began = time.monotonic()
    whole = other.refreshed(*words)
    takes_s = time.monotonic() - began
    expected = content(other.snapshots()[-1])
    killed = resumed = 0
    for attempt in range(3 * KILLS):
        before = shell.snapshots()
        with shell.start(*words) as process:
            # half of the moments in the last third, where the snapshot is made and published
            moment = takes_s * (chance.uniform(0.65, 1.05) if attempt % 2 else chance.uniform(0.1, 1.0))
            try:
                process.communicate(timeout=moment)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        killed += process.returncode == -signal.SIGKILL
        resumed += any((shell.data / "staging").glob("*.jsonl"))
        after = shell.snapshots()
        assert after[: len(before)] == before
        assert len(after) - len(before) in (0, 1)
        for path in after[-1:]:
            assert verify_snapshot(path).snapshot_id in path.name, (seed, attempt)
        for path in after[len(before) :]:
            assert content(path) == expected, (seed, attempt)
        if killed >= KILLS:
            break
    assert killed >= KILLS
    assert resumed > 0
    document = shell.refreshed(*words)
    assert document["complete"] is True
    rows = {(s["source"], s["region"]): s["rows"] for s in whole["sources"]}
    assert {(s["source"], s["region"]): s["rows"] for s in document["sources"]} == rows
    assert content(shell.snapshots()[-1]) == expected
    assert not list((shell.data / "staging").glob("*.jsonl"))
    assert read_meta(shipped_snapshot_path()).origin == "shipped"
