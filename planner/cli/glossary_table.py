"""The glossary in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from planner.cli.glossary import Term
from planner.cli.paint import QUIET, STRONG, indented, rendered


def entry_text(terms: Sequence[Term], *, width: int, colour: bool) -> str:
    """Return the full entry of each term."""
    parts: list[RenderableType] = []
    for t in terms:
        title = Text.assemble((t.term, STRONG))
        title.append(f"  ({', '.join(t.other_names)})" if t.other_names else "", style=QUIET)
        parts += [title, indented(t.definition)]
        parts += [indented(f"unit: {t.unit}", style=QUIET)] if t.unit else []
        parts += [indented(f"see: {', '.join(t.see_also)}", style=QUIET)] if t.see_also else []
        parts += [indented(f"source: {t.source}", style=QUIET)] if t.source else []
    return rendered(parts, width=min(width, 100), colour=colour)


def index_text(terms: Sequence[Term], *, width: int, colour: bool) -> str:
    """Return every term with as much of its meaning as fits on a line."""
    room = max(len(t.term) for t in terms) + 2
    parts: list[RenderableType] = []
    for t in terms:
        line = Text.assemble((f"{t.term:<{room}}", STRONG))
        line.append(beginning(t.definition, width - room), style=QUIET)
        parts.append(line)
    return rendered(
        [*parts, Text(""), Text("`planner glossary TERM` gives the whole entry.", style=QUIET)],
        width=width,
        colour=colour,
    )


def beginning(text: str, columns: int) -> str:
    """Return as many whole words of a text as fit, with a sign where something is left out."""
    if len(text) <= columns:
        return text
    return text[: max(0, columns - 1)].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"
