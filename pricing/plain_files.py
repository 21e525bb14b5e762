"""Reading a file that a person named: a plain file of a bounded size, or one clear error. Nothing here waits for ever.

A named pipe, a device, a folder, a loop of links and a file without end are refused at once: the file is opened without waiting, looked
at, and at most one byte more than allowed is read of it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

from pricing.errors import NotReadable

NOT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
WHAT_IT_IS = (
    (stat.S_ISDIR, "is a folder"),
    (stat.S_ISFIFO, "is a named pipe, which may never end"),
    (stat.S_ISCHR, "is a device, which may never end"),
    (stat.S_ISBLK, "is a device"),
    (stat.S_ISSOCK, "is a socket"),
)


def open_plain(path: Path) -> BinaryIO:
    """Return a plain file open for reading; NotReadable for whatever else is there, or not there."""
    try:
        number = os.open(path, os.O_RDONLY | NOT_WAITING)
    except (OSError, ValueError) as e:  # ValueError: a name that no file can have
        raise NotReadable(path=str(path), why=_not_plain(path) or reason(e)) from e
    return _opened(number, path, "rb")


def _opened(number: int, path: Path, mode: str) -> BinaryIO:
    try:
        what = _kind(os.fstat(number).st_mode)
        if what is None:
            return cast("BinaryIO", os.fdopen(number, mode))
    except BaseException:
        os.close(number)
        raise
    os.close(number)
    raise NotReadable(path=str(path), why=f"{what}; give a plain file")


def open_to_append(path: Path) -> BinaryIO:
    """Return a plain file open for adding to its end, made where its folder is there; NotReadable for whatever else is there."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NOT_WAITING, 0o666)
    except (OSError, ValueError) as e:
        why = f"there is no folder {path.parent}" if isinstance(e, FileNotFoundError) else reason(e)
        raise NotReadable(path=str(path), why=_not_plain(path) or why) from e
    return _opened(number, path, "ab")


def read_plain(path: Path, *, most_bytes: int) -> bytes:
    """Return what a plain file holds; NotReadable where it holds more than `most_bytes`, or cannot be read."""
    with open_plain(path) as file:
        try:
            data = file.read(most_bytes + 1)
        except OSError as e:
            raise NotReadable(path=str(path), why=f"cannot be read: {reason(e)}") from e
    if len(data) > most_bytes:
        raise NotReadable(path=str(path), why=f"is larger than {_size(most_bytes)}")
    return data


def read_text(path: Path, *, most_bytes: int) -> str:
    """Return the text of a plain file in UTF-8, with or without a byte-order mark; NotReadable names the line that is none."""
    data = read_plain(path, most_bytes=most_bytes)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise NotReadable(path=str(path), why=not_utf8(data, e.start)) from e


def not_utf8(data: bytes, at: int) -> str:
    """Return why bytes are no text: "line 3: is not text in UTF-8: save it in UTF-8", with the encoding that it may be in."""
    line = data.count(b"\n", 0, at) + 1
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return "is a text in UTF-16; save it in UTF-8"
    return f"line {line}: is not text in UTF-8 (perhaps Latin-1 or Windows-1252); save the file in UTF-8"


def _not_plain(path: Path) -> str | None:
    """Return what is there in the place of a plain file that could not be opened; None where nothing is, or it cannot be told."""
    try:
        what = _kind(path.stat().st_mode)
    except (OSError, ValueError):
        return None
    return None if what is None else f"{what}; give a plain file"


def _kind(mode: int) -> str | None:
    """Return what a file of this mode is where it is no plain file; None where it is one."""
    if stat.S_ISREG(mode):
        return None
    return next((what for test, what in WHAT_IT_IS if test(mode)), "is no plain file")


def reason(error: Exception) -> str:
    """Return the system's words for an error without its number and path: "No such file or directory"."""
    return (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split()) or "no reason"


def _size(count: int) -> str:
    return f"{count // 2**20} MiB" if count % 2**20 == 0 else f"{count:,} bytes"
