"""An endpoint whose answers are nested without end is a broken source, never a fault of ours."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

BODIES = {
    "lists": b"[" * 200_000,
    "objects": b'{"a":' * 200_000,
    "inside": b'{"PriceList": ["' + b"[" * 200_000 + b'"], "Quotas": [' + b"[" * 200_000,
    "product": b'{"FormatVersion": "aws_v1", "PriceList": ["' + b"[" * 200_000 + b'"]}',
    "elements": b"<a>" * 200_000,
}


class Deep(BaseHTTPRequestHandler):
    """Answers everything with one body."""

    body: ClassVar[bytes] = b""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_GET = do_POST = _answer  # noqa: N815 - the names that the base class looks for

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Deep) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("body", "sources"),
    [
        ("lists", "quotas,spot,spot_advisor,price_list_files,savings_plan_files"),
        ("objects", "price_list,savings_plans"),
        ("inside", "price_list,quotas"),
        ("product", "price_list"),
        ("elements", "spot,instance_types,offerings,capacity_blocks"),
    ],
)
def test_a_deep_answer_is_a_broken_one(tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch, body: str, sources: str) -> None:  # fmt: skip
    monkeypatch.setattr(Deep, "body", BODIES[body])
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "planner", "prices", "refresh", "--region", "us-east-1", "--source", sources, "--endpoint-url", endpoint, "--no-store"],
        env={**kept, "PLANNER_DATA_DIR": str(tmp_path), "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/nonexistent"},
        text=True, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    told = f"{done.stdout}{done.stderr}"
    assert "fault of planner" not in told
    assert "RecursionError" not in told
    assert "Traceback" not in told
    assert max(map(len, done.stderr.splitlines())) < 1500
