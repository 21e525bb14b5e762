"""A step chart of prices over time in plain text: levels in USD (or another currency) per hour up, days across.

It needs no colour and no terminal: the same text reads in a pipe, a log and a mail. What was not looked at is dotted: a price that
was seen on two days with another one between them is not drawn as if it had changed on a known day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from planner.cli.figures import dollars_per_hour

SEEN, UNSEEN, CHANGE = "━", ".", "│"
SEVERAL = "*"  # two lines on one spot
MARKS = "abcdefghijklmnopqrstuvwxyz"
ROWS, ROWS_OF_SEVERAL = 9, 15
MOST_COLUMNS = 100  # of the plot: wider says nothing more
FROM_ZERO_BELOW = Decimal("0.7")  # the axis begins at 0 where the lowest price is below this share of the highest


@dataclass(frozen=True, slots=True)
class Step:
    """A price and the first and last moment at which it is known to have held."""

    price: Decimal
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class Line:
    """One price over time: its name and its steps, oldest first."""

    name: str
    steps: tuple[Step, ...]


def chart(lines: Sequence[Line], *, width: int, unit: str) -> list[str]:
    """Return the text lines of a chart of at most `width` columns; none where all there is was seen at one moment.

    One line is drawn with bars, several with a letter each and a legend.
    """
    steps = [step for line in lines for step in line.steps]
    if not steps:
        return []
    start, end = min(s.first for s in steps), max(s.last for s in steps)
    if start == end:
        return []
    low, high = min(s.price for s in steps), max(s.price for s in steps)
    base = Decimal(0) if low < high * FROM_ZERO_BELOW else low
    rows = 2 if high == low else ROWS if len(lines) == 1 else ROWS_OF_SEVERAL
    labels = axis_labels({s.price for s in steps}, base, high, rows)
    margin = max(len(text) for text in labels.values())
    columns = max(10, min(MOST_COLUMNS, width - margin - 3))

    def column(moment: datetime) -> int:
        return round((moment - start) / (end - start) * (columns - 1))

    grid = [[" "] * columns for _ in range(rows)]
    for n, line in enumerate(lines):
        draw(
            grid,
            [(level(s.price, base, high, rows), column(s.first), column(s.last)) for s in line.steps],
            mark=SEEN if len(lines) == 1 else MARKS[n % len(MARKS)],
        )
    out = [unit + ("" if base == 0 or high == low else f"; the axis begins at {dollars_per_hour(base)}, not at 0")]
    for row, cells in enumerate(grid):
        label = labels.get(row, "")
        out.append(f"{label:>{margin}} {'┤' if label else '│'}{''.join(cells)}".rstrip())
    changes = [s.first for line in lines for s in line.steps[1:]] if len(lines) == 1 else []
    ticks = day_ticks(start, end, changes, columns)
    out.append(f"{'':>{margin}} ┼" + "".join("┼" if x in ticks and x else "─" for x in range(columns)))
    out.append(f"{'':>{margin}}  " + under(ticks))
    if len(lines) > 1:
        out += legend(lines, width)
    elif any(UNSEEN in row for row in grid):
        out.append(f"{SEEN} seen  {UNSEEN} not looked at: it changed somewhere in there")
    return out


def level(price: Decimal, base: Decimal, high: Decimal, rows: int) -> int:
    """Return the row of a price, 0 at the top; `base` is the lowest row."""
    return 0 if high == base else round((high - price) / (high - base) * (rows - 1))


def axis_labels(prices: set[Decimal], base: Decimal, high: Decimal, rows: int) -> Mapping[int, str]:
    """Return the figure beside each labelled row: every price that was seen where they are few, else top, middle and bottom."""
    if len(prices) <= rows // 2:
        labels = {level(p, base, high, rows): dollars_per_hour(p) for p in sorted(prices)}
    else:
        labels = {
            row: dollars_per_hour(high - (high - base) * row / (rows - 1)) for row in (0, (rows - 1) // 2, rows - 1)
        }
    if base == 0:
        labels.setdefault(rows - 1, "0")
    return labels


def draw(grid: list[list[str]], steps: Sequence[tuple[int, int, int]], *, mark: str) -> None:
    """Draw one line into the grid: each step is its row, its first and its last column."""
    alone = mark == SEEN
    for n, (row, first, last) in enumerate(steps):
        following = steps[n + 1] if n + 1 < len(steps) else None
        if alone and following is not None:
            for x in range(last + 1, following[1]):
                grid[row][x] = UNSEEN
            for between in range(min(row, following[0]) + 1, max(row, following[0])):
                grid[between][following[1]] = CHANGE
        for x in range(first, last + 1):
            grid[row][x] = mark if alone or grid[row][x] in {" ", mark} else SEVERAL


def day_ticks(
    start: datetime, end: datetime, changes: Sequence[datetime], columns: int
) -> Mapping[int, tuple[int, str]]:
    """Return where each label under the axis begins and what it says, by the column of its tick.

    First and last day, then changes, newest first, as far as there is room; the middle where nothing changed.
    """
    form = "%m-%d %H:%M" if end - start < timedelta(days=3) else "%Y-%m-%d"
    placed: dict[int, tuple[int, str]] = {}
    for moment in (start, end, *(reversed(changes) if changes else [start + (end - start) / 2])):
        tick, text = round((moment - start) / (end - start) * (columns - 1)), moment.strftime(form)
        place = tick if tick + len(text) <= columns else tick + 1 - len(text)  # at the right end it ends at its tick
        if all(place + len(text) < other or place > other + len(said) for other, said in placed.values()):
            placed[tick] = (place, text)
    return placed


def under(ticks: Mapping[int, tuple[int, str]]) -> str:
    """Return the labels in their places."""
    out = ""
    for place, text in sorted(ticks.values()):
        out = out.ljust(place) + text
    return out


def legend(lines: Sequence[Line], width: int) -> list[str]:
    """Return what each letter stands for, on as many lines as it takes."""
    entries = [f"{MARKS[n % len(MARKS)]} {line.name}" for n, line in enumerate(lines)] + [f"{SEVERAL} several"]
    out = [""]
    for entry in entries:
        if out[-1] and len(out[-1]) + 2 + len(entry) > width:
            out.append("")
        out[-1] += ("  " if out[-1] else "") + entry
    return out
