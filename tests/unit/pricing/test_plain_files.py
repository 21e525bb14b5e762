"""Files that a person names: only plain ones of a bounded size, and no waiting for the others."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pricing.bills.read import open_bill
from pricing.errors import NotReadable
from pricing.plain_files import open_plain, read_plain, read_text


def refused(path: Path) -> str:
    with pytest.raises(NotReadable) as caught:
        read_plain(path, most_bytes=100)
    assert caught.value.path == str(path)
    return caught.value.why


def test_a_plain_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert read_plain(tmp_path / "link", most_bytes=100) == b"x" * 100
    with open_plain(tmp_path / "a") as file:
        assert file.read(3) == b"xxx"


def test_one_byte_more_is_too_much(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 101)
    assert refused(tmp_path / "a") == "is larger than 100 bytes"


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == "is a named pipe, which may never end; give a plain file"
    with pytest.raises(NotReadable, match="named pipe"):
        open_bill(tmp_path / "pipe")


def test_a_device_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    assert refused(tmp_path / "zero") == "is a device, which may never end; give a plain file"


def test_a_loop_of_links_a_folder_and_a_socket_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert refused(tmp_path / "a") == os.strerror(40)  # ELOOP
    assert refused(tmp_path) == "is a folder; give a plain file"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        assert refused(tmp_path / "s") == "is a socket; give a plain file"


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    assert refused(tmp_path / "none") == os.strerror(2)
    assert "null" in refused(tmp_path / "a\0b")
    assert refused(tmp_path / ("x" * 300)) == os.strerror(36)  # ENAMETOOLONG


def test_no_file_stays_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        refused(tmp_path / "pipe")
        refused(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_text_names_the_line_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("\ufeffgood\nM\u00fcnchen".encode())
    assert read_text(tmp_path / "a", most_bytes=100) == "good\nM\u00fcnchen"
    (tmp_path / "b").write_bytes("good\nM\u00fcnchen".encode("latin-1"))
    with pytest.raises(
        NotReadable, match=r"b: line 2: is not text in UTF-8 \(perhaps Latin-1 .*save the file in UTF-8"
    ):
        read_text(tmp_path / "b", most_bytes=100)
    (tmp_path / "c").write_bytes("good".encode("utf-16"))
    with pytest.raises(NotReadable, match="UTF-16"):
        read_text(tmp_path / "c", most_bytes=100)
