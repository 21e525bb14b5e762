"""The server as users start it: `planner serve` on a loopback port, called over HTTP, against the command line and a real database."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

Start = Callable[..., httpx.Client]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Give a function that starts a server with its own data directory and returns a client of it; all are stopped at the end."""
    with ExitStack() as stack:

        def started(**variables: str) -> httpx.Client:
            port, folder = free_port(), tmp_path_factory.mktemp("serve")
            log = stack.enter_context((folder / "log").open("w"))
            variables = {"PLANNER_DATA_DIR": str(folder / "data")} | variables
            command = [sys.executable, "-m", "planner", "serve", "--port", str(port)]
            process = subprocess.Popen(
                command,
                env=os.environ | variables,
                cwd=folder,
                stdout=log,
                stderr=log,
            )
            stack.callback(process.wait, 20)
            stack.callback(process.terminate)
            client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60))
            client.headers["x-folder"] = str(folder)
            for _ in range(300):
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    if client.get("/healthz").status_code == 200:
                        return client
                except httpx.TransportError:
                    time.sleep(0.1)
            raise AssertionError((folder / "log").read_text())

        yield started


@pytest.fixture(scope="module")
def server(start: Start) -> httpx.Client:
    """Give a client of a server with its default database."""
    return start()


def by_command_line(*words: str) -> bytes:
    shipped_prices_alone = os.environ | {"PLANNER_DATA_DIR": str(Path(__file__).parent / "no-such-folder")}
    command = [sys.executable, "-m", "planner", *words, "--format", "json"]
    done = subprocess.run(command, env=shipped_prices_alone, capture_output=True, timeout=60, check=False)
    assert done.returncode in {0, 3}, done.stderr
    return done.stdout


def same(ask_one: Callable[[], bytes], ask_other: Callable[[], bytes]) -> bool:
    """Return whether both give the same bytes; asks again when the hour turned between the two, for ages are whole hours."""
    return ask_one() == ask_other() or ask_one() == ask_other()


SAME_REQUESTS: list[tuple[list[str], dict[str, Any]]] = [
    (["--model", "7b", "--mode", "inference"], {"model": "7b", "mode": "inference"}),
    (["--params", "6.7e9", "--region", "us-east-1", "--region", "eu-west-1", "--purchase", "on_demand"], {"params": 6.7e9, "region": ["us-east-1", "eu-west-1"], "purchase": ["on_demand"]}),
    (["--model", "8b", "--requests-per-s", "20", "--input-tokens", "2000", "--output-tokens", "300", "--max-ttft-ms", "1000", "--explain"], {"model": "8b", "requests_per_s": 20, "input_tokens": 2000, "output_tokens": 300, "max_ttft_ms": 1000, "explain": True}),
    (["--model", "7b", "--mode", "training", "--method", "lora", "--dataset-tokens", "50e6", "--epochs", "3"], {"model": "7b", "mode": "training", "method": "lora", "dataset_tokens": 50000000, "epochs": 3}),
    (["--model", "7b", "--stage", "production", "--utilisation", "1", "--purchase", "on_demand", "--purchase", "spot"], {"model": "7b", "stage": "production", "utilisation": 1, "purchase": ["on_demand", "spot"]}),
    (["--model", "405b", "--instance", "g4dn.xlarge"], {"model": "405b", "instance": ["g4dn.xlarge"]}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "body"), SAME_REQUESTS, ids=[" ".join(words) for words, _ in SAME_REQUESTS])
def test_command_line_and_rest_give_the_same_bytes(
    server: httpx.Client, words: list[str], body: dict[str, Any]
) -> None:
    assert same(
        lambda: by_command_line("recommend", *words), lambda: server.post("/v1/recommendations", json=body).content
    )


def test_estimates_are_the_same_by_either_door(server: httpx.Client) -> None:
    assert same(
        lambda: by_command_line("estimate", "--model", "7b", "--instance", "g5.xlarge"),
        lambda: server.post("/v1/estimates", json={"model": "7b", "instance": "g5.xlarge"}).content,
    )


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["prices", "list"], "/v1/prices"),
        (["instances"], "/v1/instance-types"),
        (["models", "list"], "/v1/models"),
        (["models", "show", "7b"], "/v1/models/7b"),
    ],
)
def test_lists_are_the_same_by_either_door(server: httpx.Client, words: list[str], path: str) -> None:
    assert by_command_line(*words) == server.get(path).content


def test_a_fresh_server_is_ready_with_a_database_under_the_data_directory_alone(server: httpx.Client) -> None:
    ready = server.get("/readyz")
    assert ready.status_code == 200, ready.text
    folder = Path(server.headers["x-folder"])
    assert {path.name for path in folder.iterdir()} == {"data", "log"}
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in (folder / "data").iterdir()} == {
        "planner.sqlite"
    }


def test_the_log_says_where_answers_are_kept_and_what_was_asked(server: httpx.Client) -> None:
    server.get("/v1/models/7b")
    log = (Path(server.headers["x-folder"]) / "log").read_text()
    assert "answers are stored in sqlite:///" in log
    assert '"GET /v1/models/7b HTTP/1.1" 200' in log
    assert "Traceback" not in log


def test_an_answer_outlives_the_server(start: Start, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kept.sqlite'}"
    given = start(PLANNER_DATABASE_URL=url).post("/v1/recommendations", json={"model": "7b", "top": 2})
    kept = start(PLANNER_DATABASE_URL=url).get(f"/v1/recommendations/{given.json()['id']}")
    assert kept.content == given.content


def test_no_banner_says_what_the_server_is_made_of(server: httpx.Client) -> None:
    assert "server" not in server.get("/healthz").headers


def test_a_broken_off_body_and_a_large_header_do_no_harm(server: httpx.Client) -> None:
    assert server.base_url.port
    with socket.create_connection(("127.0.0.1", server.base_url.port), timeout=10) as raw:
        raw.sendall(
            b"POST /v1/recommendations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
    with socket.create_connection(("127.0.0.1", server.base_url.port), timeout=10) as raw:
        raw.sendall(
            b"POST /v1/recommendations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10000000\r\n\r\n"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 413")
    assert server.get("/readyz").status_code == 200


def test_a_client_that_is_still_sending_a_large_body_gets_its_answer(server: httpx.Client) -> None:
    size = 7 * 1024 * 1024
    head = b"POST /v1/recommendations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    declared = b"Content-Length: %d\r\n\r\n" % size + b" " * size
    chunked = (
        b"Transfer-Encoding: chunked\r\n\r\n"
        + b"%x\r\n%s\r\n" % (65_536, b" " * 65_536) * (size // 65_536)
        + b"0\r\n\r\n"
    )
    for body in (declared, chunked):
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", server.base_url.port or 0), timeout=20) as raw:
                raw.sendall(head + body)  # all of it before anything is read, as simple clients do
                answer = b"".join(iter(lambda connection=raw: connection.recv(65_536), b""))  # up to the orderly end
            assert answer.startswith(b"HTTP/1.1 413")
            assert b"body-too-large" in answer


@pytest.mark.slow
def test_several_processes_on_postgresql_store_equal_requests_once(start: Start, postgres_url: str) -> None:
    import psycopg

    one, other = (start(PLANNER_DATABASE_URL=postgres_url) for _ in range(2))
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda n: (one, other)[n % 2].post("/v1/recommendations", json={"model": "7b"}), range(8))
        )
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert other.get(f"/v1/recommendations/{answers[0].json()['id']}").status_code == 200
    with psycopg.connect(postgres_url) as connection:
        counts = connection.execute(
            "SELECT (SELECT count(*) FROM recommendations), (SELECT count(*) FROM price_snapshots)"
        ).fetchone()
    assert counts == (1, 1)
