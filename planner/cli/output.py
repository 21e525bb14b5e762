"""Writing to the terminal: encodings that lack a sign, readers that go away, widths and colours."""

# ruff: noqa: RUF001 - this file maps typographic signs to plain ones

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Mapping
from typing import Protocol

from planner.cli.errors import CommandError, Exit

UNKNOWN_WIDTH = 120  # columns, when the output is not a terminal and COLUMNS is not set
NARROWEST = 32
LONGEST_LINE = 1000  # characters of an error line; a refused value can be a whole file

PLAIN: Mapping[int, str] = str.maketrans(
    {
        "×": "x", "–": "-", "—": "-", "−": "-", "…": "~", "·": "|", "•": "*", "≈": "~", "≤": "<", "≥": ">", "→": ">", "─": "-", "━": "=", "│": "|",
        "╭": "+", "╮": "+", "╰": "+", "╯": "+", "├": "+", "┤": "+", "┼": "+", "“": '"', "”": '"', "‘": "'", "’": "'", "µ": "u", "é": "e", "÷": "/", "²": "2",
    }
)  # fmt: skip
"""Signs and what stands for them where the encoding has only ASCII: one character each, so that columns stay aligned."""


class Writable(Protocol):
    """A stream of bytes."""

    def write(self, data: memoryview, /) -> int | None:
        """Take some of the bytes and return how many, None where it would block."""


def write(text: str) -> None:
    """Write text to standard output and flush it; a sign that the encoding lacks is replaced, never a crash."""
    if sys.stdout is None:
        raise CommandError("standard output is closed; the answer cannot be written", code=Exit.FAULT)
    try:
        shown = encodable(text, sys.stdout.encoding)
        raw = getattr(sys.stdout, "buffer", None)
        if isinstance(raw, io.RawIOBase):  # PYTHONUNBUFFERED
            put(raw, shown.encode(sys.stdout.encoding))
        else:
            sys.stdout.write(shown)
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as e:
        discard_stdout()
        raise CommandError(f"the answer could not be written: {e.strerror}", code=Exit.FAULT) from e


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output unchanged, whatever its encoding (JSON is UTF-8 always)."""
    if sys.stdout is None:
        raise CommandError("standard output is closed; the answer cannot be written", code=Exit.FAULT)
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # a text-only replacement, as in tests and notebooks
        write(data.decode())
        return
    try:
        sys.stdout.flush()
        put(buffer, data)
        buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as e:
        discard_stdout()
        raise CommandError(f"the answer could not be written: {e.strerror}", code=Exit.FAULT) from e


def put(stream: Writable, data: bytes) -> None:
    """Write all of the bytes: a stream without a buffer may take a part at a time, and say so only in what it returns."""
    rest = memoryview(data)
    while rest:
        taken = stream.write(rest)
        if taken is None:  # it would block: somebody made it so
            time.sleep(0.01)
            continue
        rest = rest[taken:]


def complain(message: str) -> None:
    """Write one line to standard error; a message with line breaks is joined into one."""
    if sys.stderr is None:
        return
    line = printable(" ".join(part.strip() for part in message.splitlines() if part.strip()))
    line = line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
    try:
        sys.stderr.write(encodable(line, sys.stderr.encoding) + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody is left to be told


def printable(text: str) -> str:
    """Return text without signs that would move the cursor or change its colour: a file's name may hold any."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def encodable(text: str, encoding: str | None) -> str:
    """Return text in signs that an encoding has; ASCII stand-ins where it does not."""
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return text.translate(PLAIN).encode(encoding or "ascii", "replace").decode(encoding or "ascii")
    return text


def discard_stdout() -> None:
    """Point standard output at nowhere, so that the interpreter's last flush cannot fail."""
    if sys.stdout is None:
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # not a real file: nothing will be flushed to it


def width() -> int:
    """Return how many columns there are: COLUMNS, else the terminal's, else 120."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated) > 0:
        return max(NARROWEST, int(stated))
    for stream in (sys.stdout, sys.stderr, sys.stdin):
        try:
            columns = os.get_terminal_size(stream.fileno()).columns
        except (AttributeError, ValueError, OSError):
            continue
        if columns > 0:
            return max(NARROWEST, columns)
    return UNKNOWN_WIDTH


def coloured() -> bool:
    """Return whether colour is wanted: a terminal, and neither NO_COLOR nor TERM=dumb."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or sys.stdout is None:
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
