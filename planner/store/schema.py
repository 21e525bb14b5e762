"""Brings a database to the revision this version works with, and says when it is not there.

The migration scripts lie in `alembic/` of a checkout and in `planner/store/migrations` of an installed wheel. Every upgrade is
one transaction under a lock, so several processes that start together upgrade once, and a failed upgrade leaves no trace.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from planner.store.engine import PATIENT, WRITES, shown
from planner.store.errors import ForeignDatabase, SchemaNotCurrent, StoreError
from planner.store.tables import Base

UPGRADE_LOCK = 7_265_033_180
"""Number of the advisory lock that upgrades of a PostgreSQL database take; only has to differ from other programs' numbers."""

_one_at_a_time = threading.Lock()  # alembic keeps the running migration in a module variable


def scripts_folder() -> Path:
    """Return the folder with the migration scripts: beside the package in a checkout, inside it in a wheel."""
    here = Path(__file__).resolve().parent
    for folder in (here / "migrations", here.parents[1] / "alembic"):
        if (folder / "env.py").is_file():
            return folder
    raise StoreError(
        f"the migration scripts are missing: neither {here / 'migrations'} nor {here.parents[1] / 'alembic'} has them; install planner again"
    )


def alembic_config(connection: Connection | None = None) -> Config:
    """Return alembic's settings for our scripts, run on `connection`."""
    config = Config()
    config.set_main_option("script_location", str(scripts_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


@cache
def head() -> str:
    """Return the revision this version works with."""
    revision = ScriptDirectory.from_config(alembic_config()).get_current_head()
    if revision is None:
        raise StoreError(f"no migration lies in {scripts_folder()}")
    return revision


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """Give a connection in one transaction, locked against other upgrades, that rolls back on any error.

    SQLite: foreign keys are off meanwhile (rebuilding a table would delete its children) and checked before the end.
    """
    sqlite = engine.dialect.name == "sqlite"
    with engine.connect().execution_options(**WRITES, **PATIENT) as connection:
        if sqlite:
            _foreign_keys(connection, on=False)
        try:
            with connection.begin():
                if not sqlite:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": UPGRADE_LOCK})
                yield connection
                if sqlite and (broken := connection.exec_driver_sql("PRAGMA foreign_key_check").all()):
                    raise StoreError(
                        f"the migration would leave {len(broken)} rows whose parent is missing; nothing was changed"
                    )
        finally:
            if sqlite:
                _foreign_keys(connection, on=True)


def _foreign_keys(connection: Connection, *, on: bool) -> None:
    driver = connection.connection.driver_connection
    if driver is not None:
        driver.execute(f"PRAGMA foreign_keys = {'ON' if on else 'OFF'}")


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the database up to `revision`; does nothing when it is there. Refuses a database of a newer version or of another program."""
    with _one_at_a_time, migrating(engine) as connection:
        found = current(connection)
        if (found is None and _ours(connection)) or (found is not None and not known(found)):
            raise not_current(connection, found)
        command.upgrade(alembic_config(connection), revision)


def downgrade(engine: Engine, revision: str = "base") -> None:
    """Take the database down to `revision`; data of the tables that go is lost."""
    with _one_at_a_time, migrating(engine) as connection:
        command.downgrade(alembic_config(connection), revision)


def current(connection: Connection) -> str | None:
    """Return the revision the database is at, None when it has none."""
    return MigrationContext.configure(connection).get_current_revision()


def known(revision: str) -> bool:
    """Return whether a migration of that revision is among our scripts."""
    return any(script.revision == revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions())


def check(engine: Engine) -> str:
    """Return the database's revision; raise unless it is the one this version works with."""
    with engine.connect() as connection:
        found = current(connection)
        if found != head():
            raise not_current(connection, found)
    return head()


def require_current(connection: Connection) -> None:
    """Raise unless the database is at the revision this version works with: one short query, in the caller's transaction."""
    found = connection.scalar(text("SELECT version_num FROM alembic_version"))
    if found != head():
        raise not_current(connection, found)


def not_current(connection: Connection, found: str | None) -> StoreError:
    """Return what is wrong with a database at revision `found`: empty, older, newer, or another program's."""
    where, ours = shown(connection.engine.url), _ours(connection)
    if found is None and ours:
        return ForeignDatabase(where=where, found=None, tables=ours)
    if found is not None and not known(found):
        if not ours:
            others = sorted(set(inspect(connection).get_table_names()) - {"alembic_version"})
            return ForeignDatabase(where=where, found=found, tables=others)
        return SchemaNotCurrent(where=where, found=found, expected=head(), newer=True)
    return SchemaNotCurrent(where=where, found=found, expected=head())


def _ours(connection: Connection) -> list[str]:
    """Return the tables in the database that have the name of one of ours."""
    return sorted(set(inspect(connection).get_table_names()) & set(Base.metadata.tables))


def differences(engine: Engine) -> list[object]:
    """Return what a migration would still have to change for the database to match `tables.py` (what `alembic check` looks at)."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, Base.metadata))
