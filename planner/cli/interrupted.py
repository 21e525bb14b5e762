"""A refresh that is ended by Ctrl+C or SIGTERM says on one line what is kept of it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from planner.cli.errors import Exit
from planner.cli.output import complain

if TYPE_CHECKING:
    from pricing.refresh.run import Progress


class Terminated(BaseException):
    """SIGTERM came."""


def terminate(number: int, frame: FrameType | None) -> None:
    """Take SIGTERM as Ctrl+C is taken: what is under way is let go in order."""
    del number, frame
    raise Terminated


@dataclass(slots=True)
class Ended:
    """How far a refresh has come, and the exit code where it was ended."""

    code: Exit | None = None
    progress: Progress | None = None

    def heard(self, state: Progress) -> None:
        """Remember the progress."""
        self.progress = state

    def line(self) -> str:
        """Return what is kept: answers, not failures, each staged as it came."""
        from pricing.refresh.staging import OLDEST

        if self.progress is None:
            return "interrupted before anything was asked"
        if self.progress.done == self.progress.total:
            return "interrupted when all answers were there; those that are not published yet are kept, the next refresh goes on from there"
        kept = self.progress.done - self.progress.failed
        if not kept:
            return f"interrupted; none of {self.progress.total} answers was there yet"
        return (
            f"interrupted; {kept} of {self.progress.total} answers are kept for {OLDEST.total_seconds() / 3600:g} h, "
            "the next refresh goes on from there"
        )


@contextmanager
def told_how_far() -> Iterator[Ended]:
    """Give what hears of the progress; an interruption ends the block with a line on standard error and its exit code."""
    ended = Ended()
    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield ended
    except (KeyboardInterrupt, Terminated) as e:
        ended.code = Exit.TERMINATED if isinstance(e, Terminated) else Exit.INTERRUPTED
        complain(ended.line())
    finally:
        signal.signal(signal.SIGTERM, previous)
