"""`planner serve --refresh-every` as processes, with a loopback AWS: refreshed prices answer, from every worker, and nobody waits for them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fakes.aws_server import FakeAws

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve")]

SOURCES = "price_list,spot,quotas"
HASTY = Path(__file__).parents[1] / "fakes" / "hasty.py"
PRICE = "/v1/prices?instance_type=p5.48xlarge&region=us-east-1&purchase_option=on_demand&provider=aws"


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    with FakeAws() as fake:
        fake.page_size = 100  # GetProducts is asked five times a second at most
        yield fake


class Server:
    """A running `planner serve`."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.url, self.process, self._log = url, process, log

    def log(self) -> str:
        return self._log.read_text()

    def get(self, path: str) -> Any:
        # a connection of its own each time, so that any worker may take it
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:
            return json.load(answer)

    def recommend(self) -> Any:
        request = urllib.request.Request(
            f"{self.url}/v1/recommendations",
            data=json.dumps({"model": "7b", "mode": "inference"}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def refresh(self) -> Any:
        return self.get("/readyz")["refresh"]

    def until(self, what: Callable[[Any], bool], seconds: float = 60) -> Any:
        for _ in range(int(seconds / 0.1)):
            if what(state := self.refresh()):
                return state
            time.sleep(0.1)
        raise AssertionError(f"it never came: {state}\n{self.log()}")

    def processes(self) -> list[int]:
        """Return those that the server has started, and what those have started."""
        stats = [(int(p.name), p / "stat") for p in Path("/proc").iterdir() if p.name.isdecimal()]
        parents: dict[int, int] = {}
        for pid, stat in stats:
            with contextlib.suppress(OSError):  # it has ended
                parents[pid] = int(stat.read_text().rpartition(")")[2].split()[1])
        own = {self.process.pid}
        for _ in range(3):
            own |= {pid for pid, parent in parents.items() if parent in own}
        return sorted(own - {self.process.pid})

    def holds(self, pid: int, file: Path) -> bool:
        """Say whether a process has a file open."""
        with contextlib.suppress(OSError):
            return any(fd.readlink() == file for fd in Path(f"/proc/{pid}/fd").iterdir())
        return False


@pytest.fixture
def serve(tmp_path: Path, aws: FakeAws) -> Iterator[Callable[..., Server]]:
    """Give a function that starts a server; all are stopped at the end."""
    running: list[subprocess.Popen[bytes]] = []

    def started(*words: str) -> Server:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = int(s.getsockname()[1])
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "LANG": "C.UTF-8",
            "PLANNER_DATA_DIR": str(tmp_path / "data"),
            **aws.environment(),
        }
        log = tmp_path / f"log-{port}"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, str(HASTY), "serve", "--port", str(port), *words],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=tmp_path,
            )
        running.append(process)
        server = Server(f"http://127.0.0.1:{port}", process, log)
        for _ in range(300):
            try:
                server.get("/healthz")
            except OSError:
                time.sleep(0.1)
            else:
                return server
        raise AssertionError(server.log())

    yield started
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def test_prices_are_refreshed_beside_the_answers_of_every_worker(serve: Callable[..., Server], aws: FakeAws) -> None:
    server = serve("--workers", "2", "--refresh-every", "3s", "--refresh-source", SOURCES, "--refresh-region", "us-east-1")  # fmt: skip
    first = server.until(lambda s: s["last_success"] is not None)
    assert (first["failures"], first["failed_sources"], first["every_s"]) == (0, [], 3.0)
    (row,) = server.get(PRICE)["prices"]
    assert (Decimal(row["effective_unit_price"]), row["source"][:14]) == (Decimal("55.04"), "AWS price list")

    aws.world.set_price("p5.48xlarge", "31.464")
    server.until(lambda s: s["snapshot_id"] != first["snapshot_id"])
    told = {json.dumps(server.get(PRICE)["prices"][0]["effective_unit_price"]) for _ in range(20)}
    assert told == {'"31.464"'}  # whichever worker answers

    answer = server.recommend()
    newest = server.get("/v1/prices/snapshots")["snapshots"][0]
    assert newest["origin"] == "refresh"
    assert answer["prices"]["origin"] == "refresh"
    (change,) = [c for c in server.get("/v1/prices/diff?from=shipped&provider=aws&family=p5&purchase_option=on_demand&region=us-east-1")["changed"] if c["instance_type"] == "p5.48xlarge"]  # fmt: skip
    assert change["change_fraction"] == pytest.approx(-0.4283, abs=1e-4)  # 31.464 / 55.04 - 1


def test_one_of_the_workers_refreshes_and_another_takes_over(serve: Callable[..., Server], aws: FakeAws, tmp_path: Path) -> None:  # fmt: skip
    server = serve("--workers", "3", "--refresh-every", "4s", "--refresh-source", "quotas", "--refresh-region", "us-east-1")  # fmt: skip
    server.until(lambda s: s["last_success"] is not None)
    time.sleep(5)
    # 13 quotas and 11 that have their default: 24 calls a refresh, and never two at once
    runs = len(aws.calls_of("GetServiceQuota")) / 13
    assert 1 <= runs <= 4
    lock = (tmp_path / "data" / "schedule.lock").resolve()
    leaders = [pid for pid in server.processes() if server.holds(pid, lock)]
    assert len(leaders) == 1
    os.kill(leaders[0], signal.SIGKILL)
    killed = time.monotonic()
    before = len(aws.calls_of("GetServiceQuota"))
    while len(aws.calls_of("GetServiceQuota")) < before + 26:
        assert time.monotonic() - killed < 40, server.log()
        time.sleep(0.1)
    assert server.get("/readyz")["status"] == "ready"


def test_failed_sources_are_told_and_leave_the_server_ready(serve: Callable[..., Server], aws: FakeAws) -> None:
    aws.fail("access_denied", action="DescribeSpotPriceHistory")
    server = serve("--refresh-every", "5s", "--refresh-source", SOURCES, "--refresh-region", "us-east-1")
    state = server.until(lambda s: s["last_published"] is not None)
    assert server.get("/readyz")["status"] == "ready"
    assert [(f["source"], f["region"]) for f in state["failed_sources"]] == [("spot", "us-east-1")]
    assert "access denied to ec2:DescribeSpotPriceHistory" in state["failed_sources"][0]["why"]
    assert state["last_success"] is None
    assert state["failures"] >= 1
    aws.heal()
    healed = server.until(lambda s: s["last_success"] is not None)
    assert (healed["failures"], healed["failed_sources"], healed["why"]) == (0, [], None)


def test_a_broken_file_of_watches_does_not_fail_the_refresh(serve: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "alerts.toml").write_text("[[watch]\nname = 5\n", encoding="utf-8")
    server = serve("--refresh-every", "1h", "--refresh-source", "quotas", "--refresh-region", "us-east-1")
    state = server.until(lambda s: s["last_run"] is not None and not s["running"])
    assert (state["failures"], state["why"], state["failed_sources"]) == (0, None, [])
    assert state["last_published"] == state["last_success"] is not None
    (fault,) = state["alert_faults"]
    assert fault.startswith("no alert was made: alerts.toml: is not TOML: ")
    assert sum("alerts.toml" in line for line in server.log().splitlines()) == 1
    assert "Traceback" not in server.log()


def test_answers_do_not_wait_for_a_refresh_and_its_end_is_graceful(serve: Callable[..., Server], aws: FakeAws) -> None:
    aws.fail("slow", action="DescribeSpotPriceHistory", seconds=20)
    server = serve("--refresh-every", "1h", "--refresh-source", SOURCES, "--refresh-region", "us-east-1")
    server.until(lambda s: s["running"])
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: server.recommend(), range(10)))
    assert server.refresh()["running"]
    assert all(a["recommendations"] for a in answers)
    refreshers = [p for p in server.processes() if b"planner.api.refresher" in Path(f"/proc/{p}/cmdline").read_bytes()]
    assert len(refreshers) == 1
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=25) in (0, -signal.SIGTERM)  # uvicorn raises the signal again when all is done
    assert "Application shutdown complete" in server.log()
    assert "Traceback" not in server.log()
    assert not Path(f"/proc/{refreshers[0]}").exists()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"PLANNER_REFRESH_EVERY": "6"}, "PLANNER_REFRESH_EVERY: '6' is not an interval; write it as 30m, 6h or 1d"),
        ({"PLANNER_REFRESH_EVERY": "6h", "PLANNER_REFRESH_SOURCES": "spott"}, "PLANNER_REFRESH_SOURCES: unknown source 'spott'; did you mean spot?"),
        ({"PLANNER_REFRESH_EVERY": "6h", "PLANNER_REFRESH_REGIONS": "eu-west-33"}, "PLANNER_REFRESH_REGIONS: unknown region 'eu-west-33'; did you mean eu-west-3"),
        ({"PLANNER_DATABASE_URL": "oracle://x:secret@y/z"}, "database 'oracle' is not supported; give sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_end_any_server_in_one_line(tmp_path: Path, environment: dict[str, str], message: str) -> None:  # fmt: skip
    told = subprocess.run(
        [sys.executable, "-m", "uvicorn", "--factory", "planner.api.app:create_app", "--port", "0"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PLANNER_DATA_DIR": str(tmp_path / "data")} | environment,
        check=False,
        timeout=60,
    )  # fmt: skip
    assert told.returncode != 0
    assert told.stderr.startswith(f"planner: {message}")
    assert len(told.stderr.splitlines()) == 1


def test_no_refresh_unless_it_is_asked_for(serve: Callable[..., Server], aws: FakeAws) -> None:
    server = serve()
    assert server.refresh() is None
    time.sleep(1)
    assert aws.calls == []


@pytest.mark.parametrize(
    ("words", "environment", "message"),
    [
        (["--refresh-every", "often"], {}, "--refresh-every: 'often' is not an interval; write it as 30m, 6h or 1d"),
        (["--refresh-source", "spot"], {}, "--refresh-source: goes with --refresh-every, which is missing"),
        ([], {"PLANNER_REFRESH_EVERY": "6"}, "PLANNER_REFRESH_EVERY: '6' is not an interval; write it as 30m, 6h or 1d"),
        ([], {"PLANNER_REFRESH_EVERY": "1h", "PLANNER_REFRESH_SOURCES": "nope"}, "PLANNER_REFRESH_SOURCES: unknown source 'nope'"),
        (["--refresh-every", "1h", "--refresh-region", "us-esat-1"], {}, "PLANNER_REFRESH_REGIONS: unknown region 'us-esat-1'; did you mean us-east-1 or us-west-1 or us-west-2?"),
        (["--refresh-every", "5s"], {}, "--refresh-every: '5s' is too often; at least 1m"),
        ([], {"PLANNER_REFRESH_EVERY": "59s"}, "PLANNER_REFRESH_EVERY: '59s' is too often; at least 1m"),
    ],
)  # fmt: skip
def test_schedule_that_cannot_be_is_refused_in_one_line(tmp_path: Path, words: list[str], environment: dict[str, str], message: str) -> None:  # fmt: skip
    told = subprocess.run(
        [sys.executable, "-m", "planner", "serve", *words],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PLANNER_DATA_DIR": str(tmp_path / "data")} | environment,
        check=False,
        timeout=60,
    )  # fmt: skip
    assert told.returncode == 2
    assert told.stderr == f"planner serve: {message}\n"
    assert not (tmp_path / "data").exists()
