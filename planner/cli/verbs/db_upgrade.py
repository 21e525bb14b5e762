"""`planner db upgrade`: bring the database to the newest schema."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit
from planner.cli.verbs.db_current import add_database_flag, show_schema


def add_flags(parser: ArgumentParser) -> None:
    """Add which database."""
    add_database_flag(parser)


def run(args: Namespace) -> int:
    """Upgrade, and say to which revision."""
    from planner.bootstrap import open_store

    with open_store(args.database_url) as store:
        revision = store.upgrade()
        show_schema(
            {"database": store.where, "revision": revision, "expected_revision": revision, "current": True}, args.format
        )
    return Exit.ANSWER
