"""How long a recommendation takes while prices are refreshed beside it: `python -m tests.benchmarks.bench_serve_refresh`.

A server with one worker and a loopback AWS; requests go out one after another, first with nothing else going on, then while refreshes run.
"""

# ruff: noqa: T201 - a command that prints its result

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.fakes.aws_server import FakeAws

REQUESTS = 60


def timed(url: str) -> float:
    """Return the seconds of one recommendation."""
    body = json.dumps({"model": "7b", "mode": "inference"}).encode()
    request = urllib.request.Request(
        f"{url}/v1/recommendations", data=body, headers={"Content-Type": "application/json"}
    )
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - began


def running(url: str) -> bool:
    """Say whether a refresh is under way."""
    with urllib.request.urlopen(f"{url}/readyz", timeout=60) as answer:
        refresh = json.load(answer)["refresh"]
    return bool(refresh and refresh["running"])


def line(what: str, seconds: list[float]) -> str:
    """Return the figures of one row."""
    ordered = sorted(seconds)
    p95 = ordered[int(len(ordered) * 0.95) - 1]
    return f"{what:28} {len(ordered):4} requests   median {statistics.median(ordered) * 1000:6.0f} ms   p95 {p95 * 1000:6.0f} ms   max {ordered[-1] * 1000:6.0f} ms"


def measure(words: list[str], aws: FakeAws, folder: Path, *, only_while_running: bool) -> list[float]:
    """Return the seconds of some requests to a server that was started so."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = int(s.getsockname()[1])
    environment = os.environ | aws.environment() | {"PLANNER_DATA_DIR": str(folder)}
    hasty = Path(__file__).parents[1] / "fakes" / "hasty.py"  # takes an interval of a second
    command = [sys.executable, str(hasty), "serve", "--port", str(port), *words]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                timed(url)
                break
            except OSError:
                time.sleep(0.1)
        found: list[float] = []
        end = time.monotonic() + 150
        while len(found) < REQUESTS and time.monotonic() < end:
            if only_while_running and not running(url):
                time.sleep(0.02)
                continue
            took = timed(url)
            if not only_while_running or running(url):
                found.append(took)
        return found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def main() -> None:
    """Print both rows."""
    with FakeAws() as aws, tempfile.TemporaryDirectory() as folder:
        print(line("no refresh", measure([], aws, Path(folder) / "a", only_while_running=False)))
        words = ["--refresh-every", "1s"]
        print(line("while prices are refreshed", measure(words, aws, Path(folder) / "b", only_while_running=True)))


if __name__ == "__main__":
    main()
