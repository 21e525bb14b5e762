"""Writing where signs, streams or terminals are missing."""

import io
import sys
from typing import Any

import pytest

from planner.cli import output
from planner.cli.errors import CommandError, Exit
from planner.cli.main import main


class Gone(io.StringIO):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, _: str) -> int:
        raise self.error


def test_signs_that_the_encoding_lacks_become_plain_ones_of_the_same_width() -> None:
    text = "8 \N{MULTIPLICATION SIGN} L40S, 1.10\N{EN DASH}1.92 …"
    assert output.encodable(text, "ascii") == "8 x L40S, 1.10-1.92 ~"
    assert output.encodable(text, "utf-8") == text
    assert len(output.encodable(text, "ascii")) == len(text)
    assert output.encodable("naïve ☃", "ascii") == "na?ve ?"
    assert output.encodable(text, None) == text


def test_every_stand_in_is_one_plain_character() -> None:
    assert all(isinstance(plain, str) and len(plain) == 1 and plain.isascii() for plain in output.PLAIN.values())


def test_a_closed_output_is_said_and_is_exit_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    for write in (lambda: output.write("x"), lambda: output.write_bytes(b"x")):
        with pytest.raises(CommandError, match="standard output is closed") as caught:
            write()
        assert caught.value.code == Exit.FAULT


def test_a_full_disk_is_said_and_is_exit_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdout", Gone(OSError(28, "No space left on device")))
    assert main(["glossary", "TTFT"]) == 1
    assert capsys.readouterr().err == "planner glossary: the answer could not be written: No space left on device\n"


def test_a_reader_that_went_away_is_141_and_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Gone(BrokenPipeError(32, "Broken pipe")))
    assert main(["glossary", "TTFT"]) == 141
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("columns", "width"),
    [("100", 100), ("7", output.NARROWEST), ("0", output.UNKNOWN_WIDTH), ("wide", output.UNKNOWN_WIDTH)],
)
def test_width_of_a_pipe(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.StringIO())
    assert output.width() == width


@pytest.mark.parametrize(
    ("env", "tty", "wanted"),
    [({}, True, True), ({}, False, False), ({"NO_COLOR": "1"}, True, False), ({"TERM": "dumb"}, True, False), ({"FORCE_COLOR": "1"}, False, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False)],
)  # fmt: skip
def test_colour_only_where_it_is_wanted(
    env: dict[str, str], tty: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: tty, raising=False)
    monkeypatch.setattr(sys, "stdout", stream)
    assert output.coloured() is wanted


class Sparing(io.RawIOBase):
    """A stream without a buffer that takes seven bytes at a time, nothing now and then, and `room` bytes at most."""

    def __init__(self, room: int = 10**9) -> None:
        self.held = b""
        self.room = room
        self.calls = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int | None:
        self.calls += 1
        if self.calls % 5 == 0:
            return None
        taken = bytes(data)[: min(7, self.room - len(self.held))]
        if not taken:
            raise OSError(28, "No space left on device")
        self.held += taken
        return len(taken)


class Unbuffered(io.TextIOBase):
    """Standard output as PYTHONUNBUFFERED makes it."""

    encoding = "utf-8"

    def __init__(self, raw: Sparing) -> None:
        self.buffer = raw


@pytest.mark.parametrize("writer", ["write", "write_bytes"])
def test_a_stream_that_takes_a_part_at_a_time_gets_all_or_it_is_a_fault(
    writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "figures, 1.10\u20131.92\n" * 20
    answer: Any = text if writer == "write" else text.encode()
    whole = Sparing()
    monkeypatch.setattr("sys.stdout", Unbuffered(whole))
    getattr(output, writer)(answer)
    assert whole.held == text.encode()
    monkeypatch.setattr("sys.stdout", Unbuffered(Sparing(room=100)))
    with pytest.raises(CommandError, match="could not be written"):
        getattr(output, writer)(answer)
