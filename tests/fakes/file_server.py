"""A server of files on this machine that keeps to RFC 9110 (ETag, If-None-Match, Range, If-Range) and breaks as it is told."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(slots=True)
class Asked:
    """One request: its path, the headers that steer a download, and what was answered."""

    path: str
    range: str | None
    if_range: str | None
    if_none_match: str | None
    status: int = 0


@dataclass(slots=True)
class FileServer:
    """Files by path. `faults` are taken one a request: each may answer in place of the server, or change how the file goes out."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    faults: list[Fault | None] = field(default_factory=list)
    compressed: bool = False  # sent with Content-Encoding: gzip
    etags: bool = True
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with one request."""

    status: int | None = None  # answered in place of the file
    headers: tuple[tuple[str, str], ...] = ()  # sent as well, in place of the server's own
    body: bytes = b""
    drip_s: float = 0.0  # pause after every 8 kB of the body
    cut_after: int | None = None  # the connection is closed after so many bytes of the body
    then: Callable[[], None] = lambda: None  # called when the answer is out


@contextlib.contextmanager
def serving() -> Iterator[FileServer]:
    """Give a server that runs until the end of the block."""
    server = FileServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            _answer(self, server)

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # clients that go away in the middle are part of the tests

    http = Quiet(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def _answer(handler: BaseHTTPRequestHandler, server: FileServer) -> None:
    path = handler.path.removeprefix("http://").partition("/")[2] if "://" in handler.path else handler.path[1:]
    given = handler.headers
    asked = Asked(f"/{path}", given.get("Range"), given.get("If-Range"), given.get("If-None-Match"))
    server.asked.append(asked)
    fault = (server.faults.pop(0) if server.faults else None) or Fault()
    body = server.files.get(asked.path)
    headers: dict[str, str] = {}
    if fault.status is not None:
        status, body = fault.status, fault.body
    elif body is None:
        status, body = (
            403,
            b"<Error><Code>AccessDenied</Code></Error>",
        )  # as storage does for a file that does not exist
        headers["Content-Type"] = "application/xml"
    else:
        if server.compressed:
            body = gzip.compress(body, mtime=0)
            headers["Content-Encoding"] = "gzip"
        etag = f'{"W/" if server.weak else ""}"{hashlib.md5(body).hexdigest()}"'
        if server.etags:
            headers["ETag"] = etag
        status = 200
        if asked.if_none_match == etag:
            status, body = 304, b""
        elif asked.range and (asked.if_range is None or asked.if_range == etag):
            start = int(asked.range.removeprefix("bytes=").rstrip("-"))
            status = 206 if start < len(body) else 416
            headers["Content-Range"] = (
                f"bytes {start}-{len(body) - 1}/{len(body)}" if status == 206 else f"bytes */{len(body)}"
            )
            body = body[start:] if status == 206 else b""
    headers |= {"Content-Length": str(len(body))} | dict(fault.headers)
    asked.status = status
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    body = body if fault.cut_after is None else body[: fault.cut_after]
    for start in range(0, len(body), 8192 if fault.drip_s else max(1, len(body))):
        handler.wfile.write(body[start : start + 8192] if fault.drip_s else body)
        handler.wfile.flush()
        time.sleep(fault.drip_s)
    if fault.cut_after is not None:
        handler.close_connection = True
    fault.then()
