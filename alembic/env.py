"""Runs migrations: on the connection that `planner.store.schema` passes, or on one of our own for the `alembic` command."""

from __future__ import annotations

import os
from logging.config import fileConfig

from alembic import context
from sqlalchemy import Connection

from planner.store.engine import make_engine, parse_url
from planner.store.schema import migrating
from planner.store.tables import Base
from planner.store.types import ExactDecimal, UtcDateTime


def render_item(kind: str, item: object, _context: object) -> str | bool:
    """Write our column types out in new migrations, so that an old migration never changes with the code."""
    if kind == "type" and isinstance(item, UtcDateTime):
        return 'sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")'
    if kind == "type" and isinstance(item, ExactDecimal):
        return 'sa.Text().with_variant(sa.Numeric(), "postgresql")'
    return False


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        compare_type=True,
        compare_server_default=True,
        render_item=render_item,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


def database_url() -> str:
    if url := context.get_x_argument(as_dictionary=True).get("url") or os.environ.get("PLANNER_DATABASE_URL"):
        return url
    from planner import bootstrap  # noqa: PLC0415 - only the alembic command needs it

    return bootstrap.database_url()


def run_from_the_command_line() -> None:
    if context.is_offline_mode():
        raise SystemExit("these migrations run on a connection only: give a database, without --sql")
    if context.config.config_file_name is not None:
        fileConfig(context.config.config_file_name, disable_existing_loggers=False)
    engine = make_engine(parse_url(database_url()))
    with migrating(engine) as connection:
        run(connection)
    engine.dispose()


given = context.config.attributes.get("connection")
if isinstance(given, Connection):
    run(given)
else:
    run_from_the_command_line()
