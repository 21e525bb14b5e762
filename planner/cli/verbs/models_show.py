"""`planner models show`: one model's parameters and bytes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.ports import Document


def add_flags(parser: ArgumentParser) -> None:
    """Add the model."""
    parser.add_argument(
        "model", metavar="MODEL", help="alias (7b), name (Qwen2.5-7B) or path of a Hugging Face config.json"
    )


def run(args: Namespace) -> int:
    """Show the model."""
    from planner.cli.render import show
    from planner.services.find_model import find_model
    from planner.services.show_model import show_model

    document = show_model(find_model(args.model, None))

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import MODEL_COLUMNS, rows_of

        return MODEL_COLUMNS, rows_of([document], MODEL_COLUMNS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.list_tables import model_text

        return model_text(answer, width=width, colour=colour)

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER
