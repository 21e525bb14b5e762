"""`planner recommend`: the main job."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.cli.options import add_request_flags, request_from
from planner.ports import Document
from planner.recommend.request import RecommendRequest


def add_flags(parser: ArgumentParser) -> None:
    """Add every field of the request, and `--save`."""
    add_request_flags(parser, RecommendRequest)
    parser.add_argument(
        "--save", action="store_true", help="store the answer in the database and print its id on standard error"
    )


def run(args: Namespace) -> int:
    """Answer, render, store when asked; 3 when nothing fits."""
    request = request_from(args, RecommendRequest)
    from planner.bootstrap import answer_recommendation

    document = answer_recommendation(request)
    show_answer(document, args.format)
    if args.save:
        save(document, request)
    return Exit.ANSWER if document["recommendations"] else Exit.NOTHING_FITS


def show_answer(document: Document, form: str) -> None:
    """Write the answer; CSV has no place for rejections, so that nothing fits is said on standard error."""
    from planner.cli.output import complain
    from planner.cli.render import answer_columns, show

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import RECOMMEND_COLUMNS, rows_of

        return RECOMMEND_COLUMNS, rows_of(document["recommendations"], RECOMMEND_COLUMNS, answer_columns(document))

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.recommend_table import recommendations_text

        return recommendations_text(answer, width=width, colour=colour)

    show(document, form, rows=rows, table=table)
    if form == "csv" and not document["recommendations"]:
        complain("planner recommend: nothing fits; --format table or json says why")


def save(document: Document, request: RecommendRequest) -> None:
    """Store an answer with the price snapshot it came from, and say under which id."""
    from planner.bootstrap import open_catalog, open_store
    from planner.cli.output import complain

    with open_store() as store:
        from planner.store.errors import SchemaNotCurrent

        try:
            store.check()
        except SchemaNotCurrent as e:
            if e.found is not None:  # an older or newer schema is the owner's to change
                raise
            store.upgrade()
        store.record_snapshot(open_catalog(request.prices_as_of))
        store.save(document)
    complain(f"saved as {document['id']}")
