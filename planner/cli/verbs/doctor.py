"""`planner doctor`: what is installed, where data lives, and whether all of it works."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.cli.verbs.db_current import add_database_flag
from planner.ports import Document


def add_flags(parser: ArgumentParser) -> None:
    """Add which database to try."""
    add_database_flag(parser)


def run(args: Namespace) -> int:
    """Examine everything; 1 when something is broken. Writes nothing."""
    from planner.cli.examination import examine
    from planner.cli.render import show

    document = examine(args.database_url)

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import CHECK_COLUMNS, rows_of

        return CHECK_COLUMNS, rows_of(document["checks"], CHECK_COLUMNS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.list_tables import checks_text

        return checks_text(answer, width=width, colour=colour)

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER if document["well"] else Exit.FAULT
