"""A large JSON file read value by value: chosen containers are entered, everything below them is built one value at a time.

Memory is bounded by one value, not by the file. Nothing rests on the order of keys or on white space. The values are built by the
standard library's scanner over a text buffer that slides along the file: on offer files of a region one pass is about as fast as one
pass of ijson (yajl), and it gives products, both sorts of terms and the heading, for which ijson's `kvitems` needs a pass each.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Protocol

from pricing.errors import ReplyError

Path = tuple[str | int, ...]
"""Keys and positions from the top: ("terms", "savingsPlan", 3, "rates", 17)."""

CHUNK = 1 << 18
"""Bytes that are read at a time."""
LARGEST_VALUE = 16 << 20
"""Characters of one value that is not entered; the largest of offer files (all reservations of a product) have some 30,000."""
SPACE = re.compile(r"[ \t\n\r]*")
NUMBER = re.compile(r"[-+.0-9eE]+")
NUMBER_STARTS = frozenset("-0123456789")


class Readable(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""


def values_of(
    file: Readable, enters: Callable[[Path], bool], *, source: str, chunk: int = CHUNK
) -> Iterator[tuple[Path, Any]]:
    """Yield path and value of everything in the containers that `enters` says are entered, in the order of the file.

    A container that is not entered is one value. Numbers with a point are Decimal. ReplyError with the place where the text is no JSON,
    or ends too early; values before that place have been yielded by then, so a caller must not use them before the end is reached.
    """
    text = _Sliding(file, source, chunk)
    yield from _value(text, (), enters)
    if text.following():
        raise text.wrong("something follows the end of the document")


def _value(text: _Sliding, path: Path, enters: Callable[[Path], bool]) -> Iterator[tuple[Path, Any]]:
    opening = text.must_follow()
    if opening not in "{[" or not enters(path):
        yield path, text.decoded(opening)
        return
    closing = "}" if opening == "{" else "]"
    text.at += 1
    if text.must_follow() == closing:
        text.at += 1
        return
    position = 0
    while True:
        key: str | int = position
        if opening == "{":
            if text.must_follow() != '"':
                raise text.wrong("a key must stand here")
            key = text.decoded('"')
            if text.must_follow() != ":":
                raise text.wrong("':' must follow a key")
            text.at += 1
        inner = (*path, key)
        first = text.must_follow()
        if first in "{[" and enters(inner):
            yield from _value(text, inner, enters)
        else:
            yield inner, text.decoded(first)
        position += 1
        after = text.must_follow()
        if after not in (",", closing):
            raise text.wrong(f"',' or '{closing}' must follow a value")
        text.at += 1
        if after == closing:
            return


class _Sliding:
    """The part of the text that is being read: `at` is where. What lies before is let go when more is read."""

    def __init__(self, file: Readable, source: str, chunk: int) -> None:
        self._file, self._source, self._chunk = file, source, chunk
        self._bytes = codecs.getincrementaldecoder("utf-8-sig")()
        self._decode = json.JSONDecoder(parse_float=Decimal).raw_decode
        self._buffer, self._before, self._ended = "", 0, False
        self.at = 0

    def following(self) -> str:
        """Return the next character that is not white space, "" at the end of the file; `at` stands on it."""
        while True:
            self.at = self._end_of(SPACE)
            if self.at < len(self._buffer):
                return self._buffer[self.at]
            if not self._more():
                return ""

    def must_follow(self) -> str:
        """Return the next character that is not white space; ReplyError at the end of the file."""
        if not (character := self.following()):
            raise self.wrong("the document ends before it is complete: it was cut")
        return character

    def decoded(self, first: str) -> Any:
        """Return the value that begins at `at` with the character `first`, and go behind it."""
        if first in NUMBER_STARTS:
            self._see_whole_number()
        while True:
            try:
                value, self.at = self._decode(self._buffer, self.at)
            except json.JSONDecodeError as e:
                why = e.msg
            except RecursionError:
                raise self.wrong("values are nested too deeply") from None
            else:
                return value
            if len(self._buffer) - self.at > LARGEST_VALUE:
                raise self.wrong(f"no JSON value, or one of more than {LARGEST_VALUE:,} characters ({why})")
            if not self._more():
                raise self.wrong(f"{why}: the document is cut or is no JSON")

    def wrong(self, why: str) -> ReplyError:
        """Return the error of this place."""
        return ReplyError(source=self._source, where=f"character {self._before + self.at + 1:,}", why=why)

    def _see_whole_number(self) -> None:
        """Read on while a number reaches the end of the buffer: its last digits may be in the next part."""
        while self._end_of(NUMBER) == len(self._buffer) and self._more():
            if len(self._buffer) - self.at > LARGEST_VALUE:
                raise self.wrong("a number without an end")

    def _end_of(self, characters: re.Pattern[str]) -> int:
        """Return where a run of characters ends that begins at `at`; it may have none."""
        match = characters.match(self._buffer, self.at)
        return self.at if match is None else match.end()

    def _more(self) -> bool:
        """Read on; False at the end of the file. At least doubles what is unread, so that a long value is not scanned again too often."""
        if self._ended:
            return False
        raw = self._file.read(max(self._chunk, len(self._buffer) - self.at))
        self._ended = not raw
        try:
            text = self._bytes.decode(raw, final=self._ended)
        except UnicodeDecodeError as e:
            raise self.wrong(f"is not text in UTF-8 from here on ({e.reason})") from e
        self._before += self.at
        self._buffer, self.at = self._buffer[self.at :] + text, 0
        return not self._ended
