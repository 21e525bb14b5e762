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
    from planner.cli.render import show

    document = answer_estimate(request)

    if "scaling" in document:
        return show_scaling(document, args.format)
    works = document["layout"] is not None

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import ESTIMATE_COLUMNS, rows_of

        return ESTIMATE_COLUMNS, rows_of([document] if works else [], ESTIMATE_COLUMNS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.estimate_table import estimate_text

        return estimate_text(answer, width=width, colour=colour)

    show(document, args.format, rows=rows, table=table)
    if args.format == "csv" and not works:
        from planner.cli.output import complain

        complain("planner estimate: it does not fit; --format table or json says why")
    return Exit.ANSWER if works else Exit.NOTHING_FITS


def show_scaling(document: Document, form: str) -> int:
    """Render a comparison of numbers of machines; 3 when none of them fits."""
    from planner.cli.render import show

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import SCALING_COLUMNS, rows_of

        return SCALING_COLUMNS, rows_of(document["scaling"], SCALING_COLUMNS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.scaling_table import scaling_text

        return scaling_text(answer, width=width, colour=colour)

    show(document, form, rows=rows, table=table)
    works = any(row["layout"] is not None for row in document["scaling"])
    return Exit.ANSWER if works else Exit.NOTHING_FITS
