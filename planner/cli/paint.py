"""Tables and text as a string for one width. rich is imported here alone, and only when a table is wanted.

A table whose columns do not fit drops the least important ones, in a stated order, and says which; texts that must stay are wrapped
between words; what fits even so no table, and all below `CARD_WIDTH`, is a card per row. A figure (a column that is `right`) is never cut.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

CARD_WIDTH = 64
WRAPPED_WIDTH = 30  # the least that a column which wraps is given
GAP = 2  # blank columns between two columns: one of padding, one of the box

RULED = Box("    \n    \n ── \n    \n    \n    \n    \n    \n")  # a line under the header, nothing else

GOOD, CARE, BAD, QUIET, STRONG = "green", "yellow", "red", "dim", "bold"


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure and, under it, what qualifies it (its range, where it was bought)."""

    main: str
    under: str = ""
    style: str = ""
    under_style: str = QUIET


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, what stands under the title (the unit), its cells, and when it may go.

    `keep` is the order of importance: columns with the highest number are dropped first, 0 is never dropped. Texts of a column
    with a `narrowest` are cut to that before anything is dropped; a column that `wraps` takes what is left, on several lines.
    """

    title: str
    unit: str = ""
    right: bool = False
    keep: int = 0
    narrowest: int | None = None
    wraps: bool = False
    held: int | None = None  # the width that a text is wrapped to, where there was no room for it on one line
    cells: list[Cell] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Columns of the terminal that the widest cell takes."""
        texts = [self.title, self.unit, *(text for c in self.cells for text in (c.main, c.under))]
        return max(cell_len(text) for text in texts)

    @property
    def longest_word(self) -> int:
        """Columns of the terminal that its longest word takes, at most `WRAPPED_WIDTH`: it is wrapped between words down to that."""
        texts = [self.title, self.unit, *(text for c in self.cells for text in (c.main, c.under))]
        return min(WRAPPED_WIDTH, max(cell_len(word) for text in texts for word in (text.split() or [""])))

    @property
    def least_width(self) -> int:
        """Columns of the terminal that it needs when it is cut or wrapped as far as it may be."""
        if self.held is not None:
            return self.held
        if self.wraps:
            return min(self.width, WRAPPED_WIDTH)
        return self.width if self.narrowest is None else min(self.width, self.narrowest)

    def cut(self, width: int) -> Column:
        """Return the column with longer texts cut to `width`, which an ellipsis shows."""
        cells = [Cell(shortened(c.main, width), shortened(c.under, width), c.style, c.under_style) for c in self.cells]
        return replace(self, narrowest=None, cells=cells)


def shortened(text: str, width: int) -> str:
    """Return a text cut to `width` columns, which an ellipsis shows."""
    return text if cell_len(text) <= width else text[: width - 1].rstrip() + "…"


def fitting(columns: Sequence[Column], width: int) -> tuple[list[Column], list[Column]]:
    """Return the columns that fit into `width` and those left out; empty columns go first, whatever the width."""
    kept = [c for c in columns if any(x.main or x.under for x in c.cells)]
    dropped: list[Column] = []
    while taken(kept) > width:
        least = max(kept, key=lambda c: c.keep)
        if least.keep == 0:
            break
        kept.remove(least)
        dropped.append(least)
    for column in sorted(dropped, key=lambda c: c.keep):  # a narrow one may still fit where a wide one did not
        again = [c for c in columns if c in kept or c is column]
        if taken(again) <= width:
            kept = again
            dropped = [c for c in dropped if c is not column]
    return widened(kept, width), dropped


def widened(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the columns, those that may be cut as wide as the room allows."""
    out = list(columns)
    for i, column in enumerate(out):
        if column.narrowest is not None:
            room = width - (taken(out) - column.least_width)
            out[i] = column.cut(min(column.width, max(column.narrowest, room)))
    return out


def wrapped(columns: Sequence[Column], width: int) -> list[Column] | None:
    """Return the columns with the widest texts wrapped between words until they fit into `width`; None where they cannot."""
    out = list(columns)
    while (over := taken(out) - width) > 0:
        widest = max((c for c in out if not c.right and c.longest_word < c.least_width), key=lambda c: c.least_width, default=None)  # fmt: skip
        if widest is None:
            return None
        out[out.index(widest)] = replace(widest, held=max(widest.longest_word, widest.least_width - over))
    return out


def taken(columns: Sequence[Column]) -> int:
    """Return how many columns of the terminal a table of these columns takes at least."""
    return sum(c.least_width + GAP for c in columns) - GAP


def table(columns: Sequence[Column], width: int) -> list[RenderableType]:
    """Return the columns as a table of at most `width`, and a quiet line naming what was left out."""
    kept, dropped = fitting(columns, width)
    fitted = wrapped(kept, width)
    if width < CARD_WIDTH or fitted is None:
        return cards(columns)
    kept = fitted
    out = Table(box=RULED, show_edge=False, padding=(0, GAP - 1, 0, 0), pad_edge=False, header_style="", expand=False)
    two_line = any(c.under for column in kept for c in column.cells)
    for column in kept:
        title = Text.assemble((column.title, STRONG))
        if column.unit:
            title.append(f"\n{column.unit}", style=QUIET)
        out.add_column(
            title,
            justify="right" if column.right else "left",
            width=column.held,
            no_wrap=not column.wraps and column.held is None,
            overflow="ellipsis" if column.narrowest is not None else "fold",
        )
    for row in range(len(kept[0].cells) if kept else 0):
        out.add_row(
            *(
                two_lines(column.cells[row])
                if two_line
                else Text(column.cells[row].main, style=column.cells[row].style)
                for column in kept
            )
        )
    parts: list[RenderableType] = [out]
    if dropped:
        names = ", ".join(c.title for c in dropped)
        parts.append(Text(f"left out at this width: {names}", style=QUIET))
    return parts


def two_lines(cell: Cell) -> Text:
    """Return a cell's figure with its qualifier on the next line."""
    text = Text.assemble((cell.main, cell.style))
    if cell.under:
        text.append("\n")
        text.append(cell.under, style=cell.under_style)
    return text


def cards(columns: Sequence[Column]) -> list[RenderableType]:
    """Return every row as a small block of "title: figure" lines, for terminals too narrow for a table."""
    out: list[RenderableType] = []
    for row in range(len(columns[0].cells) if columns else 0):
        head = " ".join(c.cells[row].main for c in columns[:2] if c.cells[row].main)
        out.append(Text(head, style=STRONG))
        if columns[1].cells[row].under:
            out.append(Padding(Text(columns[1].cells[row].under, style=QUIET), (0, 0, 0, 2)))
        for column in columns[2:]:
            cell = column.cells[row]
            if not cell.main:
                continue
            name = f"{column.title} ({column.unit})" if column.unit else column.title
            line = Text.assemble((f"{name}: ", QUIET))
            line.append(cell.main, style=cell.style)
            if cell.under:
                line.append(f", {cell.under}", style=QUIET)
            out.append(Padding(line, (0, 0, 0, 2)))
    return out


def rendered(parts: Sequence[RenderableType], *, width: int, colour: bool) -> str:
    """Return the parts, one under another, as text for a terminal of `width` columns."""
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    text = captured.get()
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def indented(text: Text | str, columns: int = 2, style: str = "") -> RenderableType:
    """Return text moved right, so that its wrapped lines stay under each other."""
    return Padding(Text(text, style=style) if isinstance(text, str) else text, (0, 0, 0, columns))
