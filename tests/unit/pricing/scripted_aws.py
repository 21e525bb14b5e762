"""A server on this machine that answers the real client of the SDK with what a test wrote down, reply by reply."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pricing.aws.session import Access, Aws

Answer = tuple[int, Any]
"""HTTP status and what is sent: bytes as they are, anything else as JSON."""
Script = Callable[[str, dict[str, Any]], Answer]
"""From the operation and its arguments to the answer."""


@contextmanager
def scripted_aws(monkeypatch: Any, script: Script) -> Iterator[tuple[Aws, list[tuple[str, dict[str, Any]]]]]:
    """Yield the door to AWS, leading to `script`, and the calls as they come in. Broken answers are begun again at once."""
    calls: list[tuple[str, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            operation = (self.headers.get("X-Amz-Target") or self.path.strip("/")).rpartition(".")[2]
            arguments = json.loads(body or b"{}")
            calls.append((operation, arguments))
            status, answer = script(operation, arguments)
            sent = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
            """Say nothing."""

    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setattr("pricing.aws.paging.PAUSE_S", 0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    aws = Aws(Access(endpoint_url=f"http://127.0.0.1:{server.server_port}"))
    try:
        yield aws, calls
    finally:
        for client in aws._clients.values():
            client.close()
        server.shutdown()
        thread.join()
        server.server_close()
