"""`planner models list`: what `--model` knows by name."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.ports import Document


def add_flags(parser: ArgumentParser) -> None:
    """Add nothing: the list is short."""


def run(args: Namespace) -> int:
    """List the models."""
    from planner.cli.render import show
    from planner.services.list_models import list_models

    document = list_models()

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import MODEL_LIST_COLUMNS, rows_of

        return MODEL_LIST_COLUMNS, rows_of(document["models"], MODEL_LIST_COLUMNS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.list_tables import models_text

        return models_text(answer, width=width, colour=colour)

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER
