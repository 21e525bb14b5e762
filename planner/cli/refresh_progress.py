"""How far a refresh is, on standard error: a bar where that is a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from planner.cli.output import complain

if TYPE_CHECKING:
    from pricing.refresh.run import Progress

PAUSE_S = 5.0
"""Between two lines where there is no bar."""


@contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None]]:
    """Give the function that shows progress; a bar is taken away at the end, lines stay."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    with Bar(
        TextColumn("refreshing"),
        BarColumn(),
        TextColumn("{task.fields[said]}"),
        console=Console(file=sys.stderr),
        transient=True,
    ) as bar:
        task = bar.add_task("refresh", total=None, said="")

        def tell(state: Progress) -> None:
            bar.update(
                task, total=state.total, completed=state.done, said=f"{state.done} of {state.total}, {_rest(state)}"
            )

        yield tell


class _Lines:
    """A line at the beginning and the end, at most one every `PAUSE_S` between."""

    def __init__(self) -> None:
        self._last: float | None = None

    def __call__(self, state: Progress) -> None:
        now = time.monotonic()
        over = state.done == state.total and state.ended is not None
        if self._last is None or over or now - self._last >= PAUSE_S:
            self._last = now
            complain(f"refreshing: {state.done} of {state.total} answers, {_rest(state)}")


def _rest(state: Progress) -> str:
    """Return pages, rows, failures and what is left."""
    said = [f"{state.answers:,} pages", f"{state.rows:,} rows"]
    said += [f"{state.failed} failed"] if state.failed else []
    said += [f"{duration(state.eta_s)} left"] if state.eta_s is not None and state.done < state.total else []
    return ", ".join(said)


def duration(seconds: float) -> str:
    """Return a time to go: "40 s", "3 min", "2 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
