"""A refresh against a loopback AWS with a database: what it records is what the command line and the API tell, on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fakes.aws_server import FakeAws

from planner.store import SqlStore

HISTORY = "instance_type=p5.48xlarge&region=us-east-1&purchase_option=spot"
SHARES = ("0.40", "0.42", "0.44", "0.46", "0.50", "0.48", "0.45", "0.43", "0.41")
"""Of 55.04 USD: what p5.48xlarge cost on spot in us-east-1a from 100, 80, 60, 40, 20, 10, 5, 2 and 1 days ago on (`aws_world`)."""


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    with FakeAws() as fake:
        fake.page_size = 100
        yield fake


@pytest.fixture
def planner(aws: FakeAws, tmp_path: Path, database_url: str) -> Callable[..., Any]:
    """Give a function that runs a command and returns its JSON document."""
    environment = aws.environment() | environment_of(tmp_path, database_url)

    def run(*words: str) -> Any:
        command = [sys.executable, "-m", "planner", *words, "--format", "json"]
        done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def environment_of(folder: Path, database_url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PLANNER_DATA_DIR": str(folder / "data"),
        "PLANNER_DATABASE_URL": database_url,
    }


def told_by_the_api(path: str, folder: Path, database_url: str) -> Any:
    """Start a server on the same database, ask it once and end it."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = int(s.getsockname()[1])
    command = [sys.executable, "-m", "planner", "serve", "--port", str(port)]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment_of(folder, database_url), stdout=out, stderr=out)
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError:
                raise
            except OSError:  # it does not listen yet
                time.sleep(0.1)
        raise AssertionError(log.read_text())
    finally:
        process.terminate()
        process.wait(timeout=30)


def prices(changes: list[dict[str, Any]], zone: str = "use1-az4") -> list[Decimal]:
    return [Decimal(c["unit_price"]) for c in changes if c["availability_zone_id"] == zone]


def since(calls: list[Any]) -> datetime:
    """From when on changes were asked for."""
    return min(datetime.fromisoformat(call.given["StartTime"]) for call in calls)


def test_what_a_refresh_records_is_what_history_tells(planner: Callable[..., Any], aws: FakeAws, tmp_path: Path, database_url: str) -> None:  # fmt: skip
    refresh = ("prices", "refresh", "--source", "price_list,spot", "--region", "us-east-1")
    first = planner(*refresh)
    assert first["published"]
    assert not [n for n in first["notices"] if n["subject"] == "database"]
    expected = [Decimal("55.04") * Decimal(share) for share in SHARES]
    history = planner("prices", "history", "p5.48xlarge", "--region", "us-east-1", "--purchase", "spot")
    assert prices(history["spot_changes"]) == expected
    assert told_by_the_api(f"/v1/prices/history?{HISTORY}", tmp_path, database_url) == history

    # the window is 30 days: 10 days at 0.46, 10 at 0.50, 5 at 0.48, 3 at 0.45, 1 at 0.43 and the last at 0.41
    (zone,) = (s for s in history["spot_statistics"] if s["availability_zone_id"] == "use1-az4")
    by_days = ((10, "0.46"), (10, "0.50"), (5, "0.48"), (3, "0.45"), (1, "0.43"), (1, "0.41"))
    mean = Decimal("55.04") * sum(days * Decimal(share) for days, share in by_days) / 30
    assert float(zone["mean_unit_price"]) == pytest.approx(float(mean), rel=0.002)  # the fake counts from the full hour
    assert Decimal(zone["last_unit_price"]) == Decimal("22.5664")

    with SqlStore(database_url) as store:
        assert [m.snapshot_id for m in store.snapshots()] == [first["snapshot_id"]]
        recorded = store.quotes(first["snapshot_id"])
        assert len(recorded) == first["quotes"]
        (price,) = (q for q in recorded if (q.provider, q.instance_type, q.region, q.purchase_option) == ("aws", "p5.48xlarge", "us-east-1", "on_demand"))  # fmt: skip
        assert price.effective_unit_price == Decimal("55.04")

    aws.world.add_spot("p5.48xlarge", "us-east-1a", "30.5", datetime.now(UTC) - timedelta(minutes=10))
    before = aws.calls_of("DescribeSpotPriceHistory")
    assert since(before) < datetime.now(UTC) - timedelta(days=89)  # nothing was known
    planner(*refresh)
    # from the newest change on, which is a day old, and some hours more
    assert since(aws.calls_of("DescribeSpotPriceHistory")[len(before) :]) > datetime.now(UTC) - timedelta(days=2)
    history = planner("prices", "history", "p5.48xlarge", "--region", "us-east-1", "--purchase", "spot")
    assert prices(history["spot_changes"]) == [
        *expected,
        Decimal("30.5"),
    ]  # each change once, however often it was read
