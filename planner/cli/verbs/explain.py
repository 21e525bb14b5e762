"""`planner explain`: every figure of a recommendation down to its quote or formula."""

from __future__ import annotations

import dataclasses
from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit, UsageError
from planner.cli.options import add_request_flags, request_from, whole_number
from planner.ports import Document
from planner.recommend.request import RecommendRequest


def add_flags(parser: ArgumentParser) -> None:
    """Add every field of the request, and which row to explain."""
    add_request_flags(parser, RecommendRequest)
    parser.add_argument(
        "--rank", metavar="N", default="1", help="which recommendation to explain (default 1, the best)"
    )


def run(args: Namespace) -> int:
    """Answer with explanations and show the derivation of one row; 3 when nothing fits."""
    rank = whole_number("--rank", args.rank)
    if rank < 1:
        raise UsageError(f"--rank: {rank} must be at least 1")
    request = request_from(args, RecommendRequest)
    request = dataclasses.replace(request, explain=True, top=max(request.top, rank))
    from planner.bootstrap import answer_recommendation

    document = answer_recommendation(request)
    if not document["recommendations"]:
        from planner.cli.verbs.recommend import show_answer

        show_answer(document, args.format)
        return Exit.NOTHING_FITS
    if rank > len(document["recommendations"]):
        raise UsageError(
            f"--rank: {rank} is more than the {len(document['recommendations'])} recommendations there are"
        )
    show_derivation(document, document["recommendations"][rank - 1], args.format)
    return Exit.ANSWER


def show_derivation(document: Document, row: Document, form: str) -> None:
    """Write the derivation of one row; JSON is the whole answer, as `recommend --explain` gives it."""
    from planner.cli.render import show

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import TERM_COLUMNS, rows_of

        common = {name: row[name] for name in ("rank", "instance_type", "region", "purchase_option")}
        return TERM_COLUMNS, rows_of(row["explanation"], TERM_COLUMNS, common)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.explain_table import derivation_text

        return derivation_text(answer, row, width=width, colour=colour)

    show(document, form, rows=rows, table=table)
