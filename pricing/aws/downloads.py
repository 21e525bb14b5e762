"""Public files fetched whole: resumed where they were cut, checked, put in place at once, and not fetched again while unchanged.

A file is written as it comes over the wire (a gzip encoding stays: length, ETag and ranges all speak of those bytes) to NAME.part, with
NAME.part.json saying which address and ETag it is of, so that another attempt, also of a later process, goes on from there. When all
bytes are there it is renamed to NAME, with NAME.json beside it; a kill at any moment leaves either the old file or the new one.

Storage behind a content network answers 403 for a file that does not exist. 5xx, 429, closed connections, and web pages in place of the
file are tried again. Proxies come from the environment (HTTPS_PROXY, NO_PROXY), as httpx reads it.

Reference: RFC 9110, conditional and range requests; read 2026-11.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
import re
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from pricing.addresses import holds_user, marked, told
from pricing.aws.silence import SILENT_ATTEMPTS
from pricing.errors import ReplyError, SourceFailed, Unreachable

if TYPE_CHECKING:
    import httpx

ATTEMPTS = 6
"""Attempts without progress before a file is given up; one that got further than any before counts as the first again. Silence is borne less often."""
PAUSE_S, LONGEST_PAUSE_S = 0.5, 20.0
"""Pause before the second attempt, doubled each time."""
CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 5.0, 20.0
PART = 1 << 20
LARGEST_DOCUMENT = 64 << 20
"""Bytes of a file that is read into memory: indexes have some 100 kB, the spot advisor's 6 MB."""
GZIP_MAGIC = b"\x1f\x8b"
CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")

T = TypeVar("T")


class NoSuchFile(SourceFailed):
    """The server has no file of this address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Which bytes a file holds: address (`marked`, so that no secret is stored), ETag and encoding as the server said, and how many there are in all (None: it did not say)."""

    url: str
    etag: str | None
    encoding: str
    size_bytes: int | None

    @property
    def strong_etag(self) -> str | None:
        """Return the ETag where it stands for these very bytes; a weak one only stands for the content."""
        return None if self.etag is None or self.etag.startswith("W/") else self.etag


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A file that is here whole. `unchanged`: the server said that it is still the one fetched earlier."""

    path: Path
    unchanged: bool

    def discard(self) -> None:
        """Remove a file whose content turned out to be wrong, so that it is not taken for good next time."""
        _aside(self.path).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


class _Again(Exception):  # noqa: N818 - never leaves this file
    """An attempt failed, and another one may not."""

    def __init__(self, why: str, *, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.after_s = after_s


def http_client(source: str) -> httpx.Client:
    """Return a client with our time-outs, for asking a source. Accepts gzip only: what else httpx could decode depends on what is installed."""
    import httpx  # noqa: PLC0415 - takes a while, and only a refresh needs it

    timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    headers = {"Accept-Encoding": "gzip", "User-Agent": "gpu-cost-planner"}
    try:
        return httpx.Client(timeout=timeout, headers=headers, follow_redirects=True)
    except (ValueError, ImportError, OSError, httpx.InvalidURL) as e:
        said = (
            "a proxy's address is none" if isinstance(e, httpx.InvalidURL) else told(str(e))
        )  # which can hold a password
        raise SourceFailed(
            source=source,
            why=f"the proxy or the certificates that the environment states cannot be used: {said}",
            remedy="check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR",
        ) from e


def fetch_document(
    client: httpx.Client, url: str, *, source: str, sleep: Callable[[float], None] = time.sleep
) -> tuple[Any, str | None]:
    """Return a small JSON file as values, and when the server says that it was last modified."""

    def once() -> tuple[Any, str | None]:
        with client.stream("GET", url) as response:
            _checked(response, url, source)
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                if len(body) > LARGEST_DOCUMENT:
                    raise SourceFailed(source=source, why=f"{url} has more than {LARGEST_DOCUMENT:,} bytes")
        try:
            return json.loads(body.decode("utf-8-sig")), response.headers.get("Last-Modified")
        except RecursionError as e:
            raise _Again("the file is cut or is no JSON: nested too deeply") from e
        except ValueError as e:
            raise _Again(f"the file is cut or is no JSON: {e}") from e

    return _attempted(once, lambda: 0, url, source, sleep)


def fetch_file(
    client: httpx.Client,
    url: str,
    into: Path,
    *,
    source: str,
    on_part: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Fetched:
    """Return the file of an address, kept as `into`. NoSuchFile when there is none, Unreachable when it cannot be had whole."""
    into.parent.mkdir(parents=True, exist_ok=True)
    part = _part_of(into)
    with _alone(into, on_part):
        fetched = _attempted(
            lambda: _once(client, url, into, source=source, on_part=on_part), lambda: _size(part), url, source, sleep
        )
        for used in (into, _aside(into)):  # files that nobody has used for long are removed by their time
            with contextlib.suppress(OSError):
                os.utime(used)
        return fetched


@contextlib.contextmanager
def opened(path: Path, *, source: str) -> Iterator[BinaryIO]:
    """Open a fetched file for reading what it holds, decompressed where it is gzip. ReplyError where that cannot be done to its end."""
    with path.open("rb") as raw:
        magic = raw.read(len(GZIP_MAGIC))
        raw.seek(0)
        try:
            if magic != GZIP_MAGIC:
                yield raw
                return
            with (
                gzip.GzipFile(fileobj=raw) as unpacked,
                io.BufferedReader(cast("io.RawIOBase", unpacked), PART) as file,
            ):
                yield cast("BinaryIO", file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as e:
            raise ReplyError(source=source, where=path.name, why=f"the compressed file is cut or damaged: {e}") from e


def _once(client: httpx.Client, url: str, into: Path, *, source: str, on_part: Callable[[], None]) -> Fetched:
    """Make one attempt: go on with the part where there is one, ask for a change where the whole file is here, else begin."""
    part = _part_of(into)
    kept, begun = _record(into), _record(part)
    have = _size(part)
    if kept is not None and (kept.url != marked(url) or kept.size_bytes != _size(into)):
        kept = None
    resume = begun is not None and begun.url == marked(url) and begun.strong_etag is not None and have > 0
    headers: dict[str, str] = {}
    if resume and begun is not None and begun.strong_etag is not None:
        headers = {"Range": f"bytes={have}-", "If-Range": begun.strong_etag}
    elif kept is not None and kept.etag is not None:
        headers = {"If-None-Match": kept.etag}
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == 304 and kept is not None:
            return Fetched(path=into, unchanged=True)
        if response.status_code == 416:
            _forget(part)
            raise _Again("the file is shorter than the part of it that was here")
        _checked(response, url, source)
        if response.status_code == 206 and begun is not None:
            _check_continued(response, begun, have, part)
            record = begun
        else:
            length = response.headers.get("Content-Length")
            record = Record(
                url=marked(url),
                etag=response.headers.get("ETag"),
                encoding=response.headers.get("Content-Encoding", "").strip().lower(),
                size_bytes=int(length) if length and length.isdecimal() else None,
            )
            if record.encoding not in ("", "identity", "gzip"):
                raise SourceFailed(
                    source=source, why=f"{url} came in the encoding {record.encoding!r}, which nobody asked for"
                )
            _forget(part)
            part.touch()
            _write(_aside(part), record)
        with part.open("ab") as file:
            told = file.tell()
            for piece in response.iter_raw():  # as they come: in larger ones, what had come before a cut would be lost
                if file.tell() == 0 and piece.lstrip()[:1] == b"<":
                    raise _Again("a web page came in place of the file")
                file.write(piece)
                if file.tell() - told >= PART:
                    told = file.tell()
                    on_part()
            on_part()
            file.flush()
            os.fsync(file.fileno())
    return _in_place(record, part, into)


def _in_place(record: Record, part: Path, into: Path) -> Fetched:
    """Check the length and put the part in the place of the file. Its record goes first and comes last: never one for other bytes."""
    size = _size(part)
    if record.size_bytes is not None and size != record.size_bytes:
        if size > record.size_bytes:
            _forget(part)
        raise _Again(f"{size:,} of {record.size_bytes:,} bytes came")
    _aside(into).unlink(missing_ok=True)
    part.replace(into)
    _aside(part).unlink(missing_ok=True)
    _write(_aside(into), Record(url=record.url, etag=record.etag, encoding=record.encoding, size_bytes=size))
    return Fetched(path=into, unchanged=False)


def _checked(response: httpx.Response, url: str, source: str) -> None:
    """Raise what a reply means that does not bring the file."""
    status = response.status_code
    if status in (403, 404, 410):
        raise NoSuchFile(source=source, why=f"there is no file {url} (HTTP {status})")
    if status == 429 or status >= 500:
        after = response.headers.get("Retry-After", "")
        raise _Again(f"HTTP {status}", after_s=float(after) if after.isdecimal() else 0.0)
    if status not in (200, 206):
        raise SourceFailed(source=source, why=f"HTTP {status} for {url}")
    if "html" in response.headers.get("Content-Type", "").lower():
        raise _Again("a web page came in place of the file")


def _check_continued(response: httpx.Response, begun: Record, have: int, part: Path) -> None:
    """Refuse a continuation that does not follow the part: another file, another place, another length."""
    stated = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    etag, encoding = (
        response.headers.get("ETag", begun.etag),
        response.headers.get("Content-Encoding", "").strip().lower(),
    )
    follows = (
        stated is not None
        and int(stated[1]) == have
        and (begun.size_bytes is None or stated[2] in ("*", str(begun.size_bytes)))
        and etag == begun.etag
        and encoding == begun.encoding
    )
    if not follows:
        _forget(part)
        raise _Again("the rest that came is not of the part that was here")


def _attempted(
    once: Callable[[], T], progress: Callable[[], int], url: str, source: str, sleep: Callable[[float], None]
) -> T:
    """Return what an attempt gives, the first that gives anything."""
    import httpx  # noqa: PLC0415

    best, failed, total, silent = progress(), 0, 0, 0
    while True:
        try:
            return once()
        except _Again as e:
            last: Exception = e
            why, after_s = str(e), e.after_s
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as e:
            raise SourceFailed(
                source=source, why=f"{url}: {'is no address' if holds_user(url) else told(str(e))}"
            ) from e
        except (httpx.TransportError, httpx.DecodingError) as e:
            last = e
            why, after_s = f"{type(e).__name__} {told(str(e))}".strip(), 0.0
        except OSError as e:
            raise SourceFailed(source=source, why=f"the file cannot be kept here: {e}", remedy="check the disk") from e
        total += 1
        if (here := progress()) > best:
            best, failed, silent = here, 0, 0
        failed += 1
        silent = silent + 1 if isinstance(last, httpx.TimeoutException) else 0
        if failed >= ATTEMPTS or silent >= SILENT_ATTEMPTS:
            raise Unreachable(
                source=source, why=f"{url} could not be fetched in {total} attempts: {why}", remedy="check the network and any proxy, or try again later"
            ) from last  # fmt: skip
        pause = min(LONGEST_PAUSE_S, PAUSE_S * 2 ** (failed - 1))
        sleep(max(min(after_s, LONGEST_PAUSE_S), pause * random.uniform(0.5, 1.0)))  # noqa: S311 - spreads attempts


@contextlib.contextmanager
def _alone(into: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Keep other processes and threads from fetching the same file at the same time; who waits finds it there. POSIX only."""
    try:
        import fcntl  # noqa: PLC0415 - there is none on Windows
    except ImportError:  # pragma: no cover
        yield
        return
    with into.with_name(f"{into.name}.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting()
                time.sleep(0.2)
        yield  # closing the file lets go


def _part_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _forget(part: Path) -> None:
    _aside(part).unlink(missing_ok=True)
    part.unlink(missing_ok=True)


def _write(path: Path, record: Record) -> None:
    whole = path.with_name(f"{path.name}.new")
    whole.write_text(json.dumps(asdict(record)), encoding="utf-8")
    whole.replace(path)


def _record(path: Path) -> Record | None:
    """Return what is written beside a file; None where there is none, or it is not to be read."""
    try:
        said = json.loads(_aside(path).read_text(encoding="utf-8"))
        record = Record(**said)
    except (OSError, ValueError, TypeError):
        return None
    sound = isinstance(record.url, str) and isinstance(record.encoding, str)
    sound = sound and (record.etag is None or isinstance(record.etag, str))
    return record if sound and (record.size_bytes is None or isinstance(record.size_bytes, int)) else None
