"""Offline means offline: no socket, no process, no write outside of the data directory, watched by the interpreter's own audit events."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WATCH = '''
"""Ends the process at the first socket, child process, or write outside of the folders in MAY_WRITE."""
import os
import sys

ALLOWED = tuple(filter(None, os.environ.get("MAY_WRITE", "").split(":"))) + ("/dev/null",)
CHANGES = {"os.mkdir": 0, "os.rename": 1, "os.remove": 0, "os.rmdir": 0, "os.link": 1, "os.symlink": 1, "os.truncate": 0, "os.chmod": 0}


def watch(event, args):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "urllib.")):
        forbidden(event, args)
    elif event == "open":
        path, mode, flags = args
        writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if writes and not isinstance(path, int):
            check(event, path)
    elif event in CHANGES:
        check(event, args[CHANGES[event]])


def check(event, path):
    path = os.path.abspath(os.fsdecode(path))
    if not path.startswith(ALLOWED):
        forbidden(event, path)


def forbidden(event, what):
    os.write(2, f"FORBIDDEN {event} {what!r}\\n".encode())
    os._exit(99)


sys.addaudithook(watch)
'''

COMMANDS = [
    ("recommend", "--model", "7b", "--mode", "inference"),
    ("recommend", "--model", "7b", "--format", "json"),
    ("recommend", "--model", "70b", "--region", "all", "--format", "csv"),
    (
        "recommend",
        "--model",
        "7b",
        "--mode",
        "training",
        "--method",
        "lora",
        "--dataset-tokens",
        "50e6",
        "--epochs",
        "3",
    ),
    ("explain", "--model", "7b"),
    ("estimate", "--model", "8b", "--instance", "g5.xlarge"),
    ("prices", "list"),
    ("prices", "history", "p5.48xlarge"),
    ("prices", "history", "p5.48xlarge", "--purchase", "spot", "--window", "7d"),
    ("prices", "diff", "shipped", "latest"),
    ("prices", "snapshots"),
    ("prices", "availability", "p5.48xlarge"),
    ("instances",),
    ("models", "list"),
    ("models", "show", "7b"),
    ("glossary", "TTFT"),
    ("db", "current"),
]


@pytest.fixture
def watched(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that is watched; its home is empty."""
    for name in ("site", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WATCH)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(tmp_path / "site"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }


def run(words: tuple[str, ...], env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "planner", *words],
        capture_output=True,
        check=False,
        env=env,
        cwd=env["HOME"],
        timeout=120,
    )


def test_the_watch_works(watched: dict[str, str]) -> None:
    """Else the tests below could not fail."""
    for deed in (
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "open('x', 'w')",
        "import os; os.mkdir('x')",
        "import sqlite3, os; open(os.path.expanduser('~/y'), 'ab')",
    ):
        done = subprocess.run(
            [sys.executable, "-c", deed], capture_output=True, check=False, env=watched, cwd=watched["HOME"], timeout=60
        )
        assert done.returncode == 99, deed


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_socket_and_no_write(words: tuple[str, ...], watched: dict[str, str]) -> None:
    done = run(words, watched)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout
    assert list(Path(watched["HOME"]).iterdir()) == []


def test_a_home_that_does_not_exist_is_no_hindrance(watched: dict[str, str]) -> None:
    env = watched | {"HOME": "/nonexistent/home"}
    done = subprocess.run(
        [sys.executable, "-m", "planner", *COMMANDS[0]], capture_output=True, check=False, env=env, cwd="/", timeout=120
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_saving_writes_in_the_data_directory_alone(watched: dict[str, str], tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = run((*COMMANDS[1], "--save"), watched | {"PLANNER_DATA_DIR": str(data), "MAY_WRITE": str(data)})
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(b"saved as ")
    assert {p.name.split("-")[0] for p in data.iterdir()} == {"planner.sqlite"}
    assert list(Path(watched["HOME"]).iterdir()) == []


def can_unshare() -> bool:
    program = shutil.which("unshare")
    return (
        program is not None
        and subprocess.run([program, "-rn", "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not can_unshare(), reason="this machine does not let us cut a process off the network")
def test_with_the_network_cut_the_answer_is_the_same(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "planner", "recommend", "--model", "7b", "--format", "csv"]
    cut = subprocess.run(
        ["unshare", "-rn", *command], capture_output=True, check=True, env=env, cwd=tmp_path, timeout=120
    )
    assert (
        cut.stdout
        == subprocess.run(command, capture_output=True, check=True, env=env, cwd=tmp_path, timeout=120).stdout
    )
