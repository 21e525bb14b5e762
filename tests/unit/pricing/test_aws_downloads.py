"""Files fetched from a server on this machine that cuts, changes, compresses and refuses them."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fakes.file_server import Fault, FileServer, serving

from pricing.aws import downloads
from pricing.aws.downloads import ATTEMPTS, NoSuchFile, fetch_document, fetch_file, http_client, opened
from pricing.errors import ReplyError, SourceFailed, Unreachable

TEXT = bytes(random.Random(1).choices(b"abcdefgh,\n", k=300_000))
OTHER = TEXT[::-1]
PAGE = b"\n <!DOCTYPE html><title>Sign in to the network</title>"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as running:
        running.files["/big.csv"] = TEXT
        yield running


class Fetcher:
    def __init__(self, url: str, into: Path) -> None:
        self.url, self.into = url, into
        self.naps: list[float] = []
        self.parts = 0

    def part(self) -> None:
        self.parts += 1

    def __call__(self, path: str = "/big.csv") -> downloads.Fetched:
        with http_client("test") as client:
            return fetch_file(client, self.url + path, self.into, source="test", on_part=self.part, sleep=self.naps.append)  # fmt: skip


@pytest.fixture
def fetch(server: FileServer, tmp_path: Path) -> Fetcher:
    return Fetcher(server.url, tmp_path / "downloads" / "big.csv")


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} - {"big.csv.lock"}


def test_a_file_is_fetched_whole_and_its_part_is_gone(fetch: Fetcher) -> None:
    file = fetch()
    assert (file.path.read_bytes(), file.unchanged) == (TEXT, False)
    assert names(fetch.into.parent) == {"big.csv", "big.csv.json"}
    assert fetch.parts >= 1


def test_an_unchanged_file_is_not_fetched_again(server: FileServer, fetch: Fetcher) -> None:
    fetch()
    assert fetch().unchanged
    assert [a.status for a in server.asked] == [200, 304]
    server.files["/big.csv"] = OTHER
    assert fetch().path.read_bytes() == OTHER
    assert server.asked[-1].status == 200


def test_a_cut_file_goes_on_where_it_was_cut(server: FileServer, fetch: Fetcher) -> None:
    server.faults = [Fault(cut_after=100_000), Fault(cut_after=50_000)]
    assert fetch().path.read_bytes() == TEXT
    assert [(a.range, a.status) for a in server.asked] == [(None, 200), ("bytes=100000-", 206), ("bytes=150000-", 206)]
    assert all(a.if_range for a in server.asked[1:])
    assert len(fetch.naps) == 2


def test_a_file_that_changes_while_it_is_cut_is_begun_again(server: FileServer, fetch: Fetcher) -> None:
    server.faults = [Fault(cut_after=100_000, then=lambda: server.files.update({"/big.csv": OTHER}))]
    assert fetch().path.read_bytes() == OTHER
    assert [a.status for a in server.asked] == [200, 200]


def test_a_later_process_goes_on_with_the_part(server: FileServer, fetch: Fetcher) -> None:
    server.faults = [Fault(cut_after=120_000)] + [Fault(status=503)] * ATTEMPTS
    with pytest.raises(Unreachable, match="HTTP 503"):
        fetch()
    assert names(fetch.into.parent) == {"big.csv.part", "big.csv.part.json"}
    later = Fetcher(server.url, fetch.into)
    assert later().path.read_bytes() == TEXT
    assert server.asked[-1].range == "bytes=120000-"


def test_a_part_of_another_address_is_not_continued(server: FileServer, fetch: Fetcher) -> None:
    server.files["/next.csv"] = OTHER
    server.faults = [Fault(cut_after=120_000)] + [Fault(status=503)] * ATTEMPTS
    with pytest.raises(Unreachable):
        fetch()
    assert fetch("/next.csv").path.read_bytes() == OTHER
    assert server.asked[-1].range is None


@pytest.mark.parametrize("setting", ["etags", "weak"])
def test_without_a_strong_etag_nothing_is_continued(server: FileServer, fetch: Fetcher, setting: str) -> None:
    setattr(server, setting, setting == "weak")
    server.faults = [Fault(cut_after=100_000)]
    assert fetch().path.read_bytes() == TEXT
    assert [a.range for a in server.asked] == [None, None]


def test_a_rest_that_is_not_of_the_part_is_refused(server: FileServer, fetch: Fetcher) -> None:
    wrong = Fault(status=206, headers=(("Content-Range", f"bytes 7-{len(TEXT) - 1}/{len(TEXT)}"),), body=TEXT[7:])
    server.faults = [Fault(cut_after=100_000), wrong]
    assert fetch().path.read_bytes() == TEXT
    assert [a.range for a in server.asked] == [None, "bytes=100000-", None]


def test_a_part_as_long_as_the_file_is_begun_again(server: FileServer, fetch: Fetcher) -> None:
    server.faults = [Fault(cut_after=100_000)] + [Fault(status=503)] * ATTEMPTS
    with pytest.raises(Unreachable):
        fetch()
    with fetch.into.with_name("big.csv.part").open("ab") as part:
        part.write(TEXT[100_000:] + b"more")
    assert fetch().path.read_bytes() == TEXT
    assert [a.status for a in server.asked[-2:]] == [416, 200]


def test_the_old_file_stays_until_the_new_one_is_whole(server: FileServer, fetch: Fetcher) -> None:
    fetch()
    server.files["/big.csv"] = OTHER
    server.faults = [Fault(cut_after=1000)] + [Fault(status=500)] * ATTEMPTS
    with pytest.raises(Unreachable):
        fetch()
    assert fetch.into.read_bytes() == TEXT
    assert fetch().path.read_bytes() == OTHER


def test_a_file_that_is_not_what_its_record_says_is_fetched_again(server: FileServer, fetch: Fetcher) -> None:
    fetch()
    fetch.into.write_bytes(TEXT[:-1])
    assert fetch().path.read_bytes() == TEXT
    fetch.into.with_name("big.csv.json").write_text("{", encoding="utf-8")
    assert fetch().path.read_bytes() == TEXT
    assert [a.status for a in server.asked] == [200, 200, 200]


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_server_that_is_busy_is_asked_again(server: FileServer, fetch: Fetcher, status: int) -> None:
    server.faults = [Fault(status=status), Fault(status=status, headers=(("Retry-After", "7"),))]
    assert fetch().path.read_bytes() == TEXT
    assert len(fetch.naps) == 2
    assert 0.25 <= fetch.naps[0] <= 0.5
    assert fetch.naps[1] == 7


def test_a_server_that_stays_busy_is_given_up(server: FileServer, fetch: Fetcher) -> None:
    server.faults = [Fault(status=503)] * 100
    with pytest.raises(Unreachable, match=r"big.csv could not be fetched in 6 attempts: HTTP 503; check the network"):
        fetch()
    assert len(server.asked) == ATTEMPTS == 6


def test_attempts_that_get_further_do_not_count_against_it(server: FileServer, fetch: Fetcher) -> None:
    server.faults = [Fault(cut_after=20_000)] * 12
    assert fetch().path.read_bytes() == TEXT
    assert len(server.asked) == 13


def test_403_means_that_there_is_no_such_file(server: FileServer, fetch: Fetcher) -> None:
    with pytest.raises(NoSuchFile, match=r"there is no file http://.*/none.csv \(HTTP 403\)"):
        fetch("/none.csv")
    assert len(server.asked) == 1


@pytest.mark.parametrize("headers", [(("Content-Type", "text/html; charset=utf-8"),), ()])
def test_a_web_page_is_not_the_file(server: FileServer, fetch: Fetcher, headers: Any) -> None:
    server.faults = [Fault(status=200, headers=headers, body=PAGE)]
    assert fetch().path.read_bytes() == TEXT
    server.faults = [Fault(status=200, headers=headers, body=PAGE)] * ATTEMPTS
    server.files["/big.csv"] = OTHER
    with pytest.raises(SourceFailed, match="a web page came in place of the file"):
        fetch()
    assert fetch.into.read_bytes() == TEXT


def test_a_compressed_file_is_kept_as_it_came_and_read_as_it_was(server: FileServer, fetch: Fetcher) -> None:
    server.compressed = True
    server.faults = [Fault(cut_after=40_000)]
    file = fetch()
    assert gzip.decompress(file.path.read_bytes()) == TEXT
    assert [a.status for a in server.asked] == [200, 206]
    with opened(file.path, source="test") as content:
        assert content.read() == TEXT
        content.seek(0)
        assert content.read(5) == TEXT[:5]
    file.path.write_bytes(file.path.read_bytes()[:-2000])
    with (
        pytest.raises(ReplyError, match="compressed file is cut or damaged"),
        opened(file.path, source="test") as content,
    ):
        content.read()


def test_an_encoding_that_nobody_asked_for_is_refused(server: FileServer, fetch: Fetcher) -> None:
    server.faults = [Fault(status=200, headers=(("Content-Encoding", "br"),), body=b"...")]
    with pytest.raises(SourceFailed, match="encoding 'br'"):
        fetch()


def test_nobody_at_the_address(tmp_path: Path) -> None:
    nowhere = Fetcher("http://127.0.0.1:9", tmp_path / "x")
    with pytest.raises(Unreachable, match="in 6 attempts: ConnectError"):
        nowhere()
    assert len(nowhere.naps) == ATTEMPTS - 1


def test_who_is_told_of_a_part_may_stop_and_the_part_stays(server: FileServer, fetch: Fetcher) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with http_client("test") as client, pytest.raises(KeyboardInterrupt):
        fetch_file(client, f"{server.url}/big.csv", fetch.into, source="test", on_part=stop)
    assert "big.csv.part" in names(fetch.into.parent)
    assert fetch().path.read_bytes() == TEXT


def test_two_at_once_fetch_it_once(server: FileServer, fetch: Fetcher) -> None:
    server.faults = [Fault(then=lambda: time.sleep(0.3), cut_after=1000)]
    second = Fetcher(server.url, fetch.into)
    threads = [threading.Thread(target=fetch), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(a.status for a in server.asked) == [200, 206, 304]
    assert fetch.into.read_bytes() == TEXT


KILLED = """
import sys, pathlib
from pricing.aws.downloads import fetch_file, http_client
with http_client('test') as client:
    fetch_file(client, sys.argv[1], pathlib.Path(sys.argv[2]), source="test")
"""


def test_killed_at_any_moment_the_old_file_stays_and_the_next_process_goes_on(server: FileServer, fetch: Fetcher) -> None:  # fmt: skip
    fetch()
    server.files["/big.csv"] = OTHER
    server.faults = [Fault(drip_s=0.02)] * 100
    moments = random.Random(3)
    for _ in range(4):
        begun = len(server.asked)
        process = subprocess.Popen([sys.executable, "-c", KILLED, f"{server.url}/big.csv", str(fetch.into)])
        deadline = time.monotonic() + 30
        while len(server.asked) == begun and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(moments.uniform(0.0, 0.15))
        process.kill()
        process.wait()
        assert fetch.into.read_bytes() == TEXT
    server.faults = []
    assert fetch().path.read_bytes() == OTHER
    assert any(asked.status == 206 for asked in server.asked)
    assert names(fetch.into.parent) == {"big.csv", "big.csv.json"}


def test_discarded_it_is_fetched_anew(server: FileServer, fetch: Fetcher) -> None:
    fetch().discard()
    assert fetch().path.read_bytes() == TEXT
    assert [a.status for a in server.asked] == [200, 200]


def test_a_disk_that_takes_nothing_is_one_line(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "big.csv.part").mkdir()
    with pytest.raises(SourceFailed, match="cannot be kept here"):
        Fetcher(server.url, tmp_path / "big.csv")()


def test_a_small_document_comes_as_values_and_a_cut_one_is_asked_again(server: FileServer) -> None:
    server.files["/index.json"] = b'{"offers": {"AmazonEC2": 1}}'
    server.faults = [Fault(status=200, body=b'{"offers": {"Ama'), Fault(status=200, body=PAGE), Fault(cut_after=9)]
    naps: list[float] = []
    with http_client("test") as client:
        document, _ = fetch_document(client, f"{server.url}/index.json", source="test", sleep=naps.append)
    assert document == {"offers": {"AmazonEC2": 1}}
    assert len(naps) == 3


@pytest.mark.parametrize("body", [b"[" * 100_000, b'"\xff"', b""])
def test_a_small_document_that_stays_broken_is_one_line(server: FileServer, body: bytes) -> None:
    server.files["/index.json"] = body
    with (
        http_client("test") as client,
        pytest.raises(Unreachable, match="in 6 attempts: the file is cut or is no JSON"),
    ):
        fetch_document(client, f"{server.url}/index.json", source="test", sleep=lambda _: None)


def test_a_proxy_of_the_environment_is_used(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", server.url)
    assert Fetcher("http://price-list.invalid", tmp_path / "big.csv")().path.read_bytes() == TEXT


@pytest.mark.parametrize(
    ("name", "value"), [("HTTP_PROXY", "gopher://proxy:1"), ("ALL_PROXY", "socks9://x"), ("SSL_CERT_FILE", "/nowhere/ca.pem")]
)  # fmt: skip
def test_an_environment_that_cannot_be_used_is_one_line(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(
        SourceFailed, match=r"test: the proxy or the certificates .* cannot be used: .*; check HTTPS_PROXY"
    ):
        http_client("test")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/big.csv", "big.csv", "http://[::1"])
def test_an_address_that_is_none_is_not_tried_again(tmp_path: Path, url: str) -> None:
    wrong = Fetcher(url, tmp_path / "big.csv")
    with pytest.raises(SourceFailed, match="test: "):
        wrong("")
    assert wrong.naps == []


def test_a_file_that_is_used_again_is_young_again(fetch: Fetcher) -> None:
    file = fetch()
    for path in (file.path, file.path.with_name("big.csv.json")):
        os.utime(path, (0, 0))
    assert fetch().unchanged
    ages = [time.time() - path.stat().st_mtime for path in (file.path, file.path.with_name("big.csv.json"))]
    assert max(ages) < 3600


def test_who_never_answers_is_given_up_after_three_silences_and_who_gets_on_is_not() -> None:
    asked: list[str] = []
    said: list[int | None] = [None, None, 503, None, None, None]  # None: no byte within the time-out

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        status = said.pop(0)
        if status is None:
            raise httpx.ReadTimeout("timed out")
        return httpx.Response(status)

    with httpx.Client(transport=httpx.MockTransport(answer)) as client, pytest.raises(Unreachable, match="6 attempts"):
        fetch_document(client, "http://files.test/index.json", source="test", sleep=lambda _: None)
    assert len(asked) == 6
    said += [None] * 6
    with httpx.Client(transport=httpx.MockTransport(answer)) as client, pytest.raises(Unreachable, match="3 attempts"):
        fetch_document(client, "http://files.test/index.json", source="test", sleep=lambda _: None)
    assert len(asked) == 9
