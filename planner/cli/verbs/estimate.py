"""`planner estimate`: one layout on one instance type or accelerator."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.cli.options import add_request_flags, request_from
from planner.ports import Document
from planner.recommend.request import EstimateRequest


def add_flags(parser: ArgumentParser) -> None:
    """Add every field of the request."""
    add_request_flags(parser, EstimateRequest)


def run(args: Namespace) -> int:
    """Answer and render; 3 when it does not fit."""
    request = request_from(args, EstimateRequest)
    from planner.bootstrap import answer_estimate
    from planner.cli.render import answer_columns, show

    document = answer_estimate(request)

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import ESTIMATE_COLUMNS, rows_of

        return ESTIMATE_COLUMNS, rows_of(estimates(document), ESTIMATE_COLUMNS, answer_columns(document))

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.estimate_table import estimate_text

        return estimate_text(answer, width=width, colour=colour)

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER if estimates(document) else Exit.NOTHING_FITS


def estimates(document: Document) -> list[Document]:
    """Return the estimates of an answer: none when the layout does not fit."""
    found = document.get("estimates")
    return list(found) if found is not None else [document["estimate"]] if document.get("estimate") else []
