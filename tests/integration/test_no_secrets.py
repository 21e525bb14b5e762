"""Whatever goes wrong in a refresh, no password, key, token or signature is printed or stored."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SECRETS = ("PASSW0RD", "SECRETQ", "AKIAABCDEFGHIJKLMNOP", "HUSHHUSH", "T0KENT0KEN")
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAABCDEFGHIJKLMNOP",
    "AWS_SECRET_ACCESS_KEY": "HUSHHUSH",
    "AWS_SESSION_TOKEN": "T0KENT0KEN",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_MAX_ATTEMPTS": "1",
}
SOURCES = "spot,spot_advisor,quotas,savings_plans,instance_types,price_list_files"


class Mirror(BaseHTTPRequestHandler):
    """Refuses everything with 403 and a body that holds the request's own headers, as a debugging proxy does."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = f"{self.requestline}\n{self.headers}".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - the names that the base class looks for

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def mirror() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def refresh(data: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "planner", "prices", "refresh", "--region", "us-east-1", *words],
        env={**kept, **KEYS, "PLANNER_DATA_DIR": str(data), **variables},
        text=True, capture_output=True, timeout=180, check=False,
    )  # fmt: skip


def leaks(done: subprocess.CompletedProcess[str], data: Path) -> list[str]:
    """Return where any secret is found: the two outputs, and every file that was written."""
    places = {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    places |= {str(file): file.read_bytes() for file in data.rglob("*") if file.is_file()}
    return [f"{secret} in {place}" for place, held in places.items() for secret in SECRETS if secret.encode() in held]


@pytest.mark.parametrize("form", ["table", "json"])
def test_an_endpoint_that_reflects_the_request(tmp_path: Path, mirror: str, form: str) -> None:
    done = refresh(tmp_path, "--source", SOURCES, "--endpoint-url", f"http://{mirror}", "--format", form)
    assert done.returncode == 4, done.stderr
    assert leaks(done, tmp_path) == []


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("AWS_ENDPOINT_URL", "http://u:PASSW0RD/SECRETQ@127.0.0.1:1"),
        ("AWS_ENDPOINT_URL_EC2", "http://u:PASSW0RD SECRETQ@127.0.0.1:1"),
        ("PLANNER_AWS_PRICE_LIST_URL", "http://127.0.0.1:1/?k=SECRETQ"),
        ("PLANNER_AWS_SPOT_ADVISOR_URL", "http://127.0.0.1:1/spot.json?X-Amz-Signature=SECRETQ"),
    ],
)
def test_a_secret_in_the_environments_address_is_refused_on_one_line(tmp_path: Path, name: str, address: str) -> None:
    done = refresh(tmp_path, "--source", "spot", **{name: address})
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert f"{name}: must be http(s)://" in done.stderr
    assert leaks(done, tmp_path) == []


@pytest.mark.parametrize(
    "proxy",
    ["http://u:PASSW0RD@127.0.0.1:1", "http://u:PASSW0RD/x@127.0.0.1:1", "http://u:a PASSW0RD'SECRETQ@127.0.0.1:1"],
)
def test_a_proxy_with_a_password(tmp_path: Path, proxy: str) -> None:
    done = refresh(tmp_path, "--source", "spot_advisor", HTTPS_PROXY=proxy, HTTP_PROXY=proxy)
    assert done.returncode == 4, done.stderr
    assert leaks(done, tmp_path) == []


@pytest.mark.parametrize("address", ["http://u:PASSW0RD@127.0.0.1:1/?k=SECRETQ", "http://u:a PASSW0RD'SECRETQ@h:1"])
def test_a_user_in_the_flag_is_refused_on_one_line(tmp_path: Path, address: str) -> None:
    done = refresh(tmp_path, "--source", "spot", "--endpoint-url", address)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--endpoint-url: must be http(s)://" in done.stderr
    assert leaks(done, tmp_path) == []
