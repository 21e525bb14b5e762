"""`planner glossary`: what a term of the trade means."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit, UsageError
from planner.cli.glossary import Term, find, near, read_glossary
from planner.ports import Document


def add_flags(parser: ArgumentParser) -> None:
    """Add the term."""
    parser.add_argument(
        "term",
        nargs="*",
        metavar="TERM",
        help="the term, in any case; without one: every term with the beginning of its meaning",
    )


def run(args: Namespace) -> int:
    """Explain one term, or list all."""
    from planner.cli.render import show

    terms = read_glossary()
    asked = " ".join(args.term).strip()
    found = list(terms) if not asked else find(asked, terms)
    if not found:
        similar = near(asked, terms)
        raise UsageError(
            f"no term {asked!r} in the glossary"
            + (f"; did you mean {' or '.join(similar)}?" if similar else "; `planner glossary` lists every term")
        )

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import GLOSSARY_COLUMNS, rows_of

        return GLOSSARY_COLUMNS, rows_of([document_of(t) for t in found], GLOSSARY_COLUMNS)

    def table(_: Document, *, width: int, colour: bool) -> str:
        from planner.cli.glossary_table import entry_text, index_text

        return (
            index_text(found, width=width, colour=colour)
            if not asked
            else entry_text(found, width=width, colour=colour)
        )

    show({"terms": [document_of(t) for t in found]}, args.format, rows=rows, table=table)
    return Exit.ANSWER


def document_of(term: Term) -> Document:
    """Return a term as plain JSON values; what it has not is null."""
    return {
        "term": term.term,
        "definition": term.definition,
        "unit": term.unit or None,
        "see_also": list(term.see_also),
        "source": term.source or None,
    }
