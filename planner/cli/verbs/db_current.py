"""`planner db current`: which schema the database has."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit, UsageError
from planner.ports import Document


def add_database_flag(parser: ArgumentParser) -> None:
    """Add `--database-url`."""
    parser.add_argument(
        "--database-url",
        metavar="URL",
        type=database_url,
        help="database (default: PLANNER_DATABASE_URL, else a SQLite file under the user's data directory)",
    )


def database_url(text: str) -> str:
    """Return a URL that was given; an empty one (an unset variable of a script) must not mean the usual database."""
    if not text.strip():
        raise UsageError("--database-url: needs a value; sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE")
    return text


def add_flags(parser: ArgumentParser) -> None:
    """Add which database."""
    add_database_flag(parser)


def run(args: Namespace) -> int:
    """Say which schema revision the database has, and whether this version works with it. Makes no file."""
    show_schema(schema_of(args.database_url), args.format)
    return Exit.ANSWER


def schema_of(url: str | None) -> Document:
    """Return the database's address without its password, its revision (null when empty) and the one this version works with."""
    from planner.bootstrap import database_file, open_store
    from planner.store.errors import SchemaNotCurrent
    from planner.store.schema import head

    with open_store(url) as store:
        file = database_file(url)
        if file is not None and not file.exists():
            return {"database": store.where, "revision": None, "expected_revision": head(), "current": False}
        try:
            revision = store.check()
        except SchemaNotCurrent as e:
            return {"database": store.where, "revision": e.found, "expected_revision": e.expected, "current": False}
        return {"database": store.where, "revision": revision, "expected_revision": revision, "current": True}


def show_schema(document: Document, form: str) -> None:
    """Write what is known of the schema."""
    from planner.cli.render import show

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import SCHEMA_COLUMNS, rows_of

        return SCHEMA_COLUMNS, rows_of([document], SCHEMA_COLUMNS)

    show(document, form, rows=rows, table=lambda answer, **_: in_words(answer) + "\n")


def in_words(document: Document) -> str:
    """Return the state of a schema in a line."""
    where = document["database"]
    if document["current"]:
        return f"{where}: schema {document['revision']}, current"
    if document["revision"] is None:
        return f"{where}: no tables yet; `planner db upgrade` makes them (schema {document['expected_revision']})"
    remedy = "of a newer planner: upgrade this one" if is_newer(document) else "`planner db upgrade`"
    return f"{where}: schema {document['revision']}; this version of planner works with {document['expected_revision']}: {remedy}"


def is_newer(document: Document) -> bool:
    """Return whether the database has a revision that this version does not know, so that it can neither be used nor upgraded."""
    from planner.store.schema import known

    return document["revision"] is not None and not document["current"] and not known(document["revision"])
