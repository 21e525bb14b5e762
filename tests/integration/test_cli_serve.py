"""`planner serve` as a process: it answers what the command line answers, and refuses a busy port in one line."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("serve")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PLANNER_DATA_DIR": str(tmp_path / "data"),
        "LANG": "C.UTF-8",
    }


@pytest.fixture
def server(environment: dict[str, str], tmp_path: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A running server and its port."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", "serve", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=tmp_path,
    )
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                break
        except OSError:
            time.sleep(0.1)
    yield port, process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def planner(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "planner", *words],
        capture_output=True,
        check=False,
        env=env,
        cwd=env["HOME"],
        timeout=120,
    )


def without_ages(body: bytes) -> bytes:
    """The same text without the lines that follow the clock, which may strike between two answers."""
    return b"\n".join(line for line in body.split(b"\n") if b'"age_hours"' not in line)


def test_the_server_gives_the_command_lines_answer_byte_for_byte(
    server: tuple[int, subprocess.Popen[bytes]], environment: dict[str, str]
) -> None:
    port, _ = server
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/recommendations",
        data=json.dumps({"model": "7b", "mode": "inference"}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        served = reply.read()
    printed = planner("recommend", "--model", "7b", "--mode", "inference", "--format", "json", env=environment).stdout
    assert without_ages(served) == without_ages(printed)
    with urllib.request.urlopen(
        f"http://127.0.0.1:{port}/v1/recommendations/{json.loads(served)['id']}", timeout=60
    ) as reply:
        assert json.loads(reply.read())["id"] == json.loads(served)["id"]


def test_a_busy_port_is_one_line_and_exit_4(environment: dict[str, str]) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        done = planner("serve", "--port", str(port), env=environment)
    assert (done.returncode, done.stdout) == (4, b"")
    assert f"--port: {port} on 127.0.0.1 is in use".encode() in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_ctrl_c_stops_the_server_without_a_traceback(server: tuple[int, subprocess.Popen[bytes]]) -> None:
    _, process = server
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert b"Traceback" not in said
    assert process.returncode in {0, 130}


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "nonsense"])
def test_a_database_url_that_cannot_be_used_is_one_line_and_exit_2(url: str, environment: dict[str, str]) -> None:
    done = planner("serve", "--port", str(free_port()), "--database-url", url, env=environment)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"\n") == 1
