"""`SqlStore`: recommendations, price snapshots and changes of spot prices in SQLite or PostgreSQL."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol, Self

from sqlalchemy import Connection, Dialect, Table, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from planner.ports import Clock, Document
from planner.services.documents import to_json_bytes
from planner.store import schema, spot
from planner.store.engine import LOCK_WAIT_S, PATIENT, WRITES, is_busy, make_engine, parse_url, shown
from planner.store.errors import StoreBusy, StoreUnavailable
from planner.store.rows import (
    instance_type_of,
    instance_type_values,
    meta_of,
    quote_of,
    quote_values,
    snapshot_values,
    source_of,
    source_values,
)
from planner.store.tables import Base, InstanceTypeRow, QuoteRow, RecommendationRow, SnapshotRow, SnapshotSourceRow
from pricing.market import SpotChange, SpotStatistics
from pricing.model import InstanceType, Quote, SnapshotMeta
from pricing.spot_statistics import OnDemand, pools_of, statistics_of_columns

LET_OTHERS_WRITE_S = 0.03
"""Pause between two transactions of a long write to SQLite."""


class PublishedSnapshot(Protocol):
    """What `record_snapshot` reads of a catalog."""

    @property
    def meta(self) -> SnapshotMeta:
        """What the snapshot says of itself."""

    def quotes(self) -> Sequence[Quote]:
        """Every quote, in the snapshot's order."""

    def instance_types(self) -> Sequence[InstanceType]:
        """Every instance type, in the snapshot's order."""


def utc_now() -> datetime:
    """Return the time, UTC."""
    return datetime.now(UTC)


class SqlStore:
    """Keeps answers and snapshots. Safe to share between threads; other processes may use the same database.

    Reads and writes only a database of the revision that this version works with; `lock_wait_s` is how long it waits for locks.
    """

    def __init__(self, url: str, *, clock: Clock = utc_now, lock_wait_s: float = LOCK_WAIT_S) -> None:
        parsed = parse_url(url)
        self.where = shown(parsed)
        self._engine = make_engine(parsed, lock_wait_s=lock_wait_s)
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection that is not in use."""
        self._engine.dispose()

    # -- schema ---------------------------------------------------------------------------------------------------

    def upgrade(self) -> str:
        """Bring the schema up to this version, from an empty or an older database; return the revision it is at then."""
        with self._translated():
            schema.upgrade(self._engine)
        return schema.head()

    def check(self) -> str:
        """Return the schema's revision; raise unless the database answers and has the revision this version works with."""
        with self._translated():
            return schema.check(self._engine)

    # -- recommendations ------------------------------------------------------------------------------------------

    def save(self, document: Document) -> None:
        """Store an answer under its id. The first answer of an id stays: equal requests on equal facts are one row."""
        values = {
            "id": document["id"],
            "created_at": self._clock(),
            "planner_version": document["planner_version"],
            "snapshot_id": document["prices"]["snapshot_id"],
            "request": document["request"],
            "document": to_json_bytes(document).decode(),
        }
        with self._writing() as connection:
            connection.execute(_insert_if_new(connection, _table(RecommendationRow)), values)

    def get(self, recommendation_id: str) -> Document | None:
        """Return a stored answer, None when there is none of that id."""
        with self._reading() as connection:
            text = connection.scalar(
                select(RecommendationRow.document).where(RecommendationRow.id == recommendation_id)
            )
        return None if text is None else dict(json.loads(text))

    # -- snapshots ------------------------------------------------------------------------------------------------

    def record_snapshot(self, catalog: PublishedSnapshot, *, patient: bool = False) -> bool:
        """Write a snapshot with its sources, quotes and instance types; return False when it was there already.

        One transaction: a snapshot is there as a whole or not at all, also when several processes record it at once. `patient`:
        wait for those that record it just now for as long as they need.
        """
        meta = catalog.meta
        with self._reading() as connection:
            if (
                connection.scalar(select(SnapshotRow.snapshot_id).where(SnapshotRow.snapshot_id == meta.snapshot_id))
                is not None
            ):
                return False
        key = meta.snapshot_id
        children: list[tuple[Table, list[dict[str, Any]]]] = [
            (_table(SnapshotSourceRow), [source_values(key, n, source) for n, source in enumerate(meta.sources)]),
            (
                _table(InstanceTypeRow),
                [instance_type_values(key, n, kind) for n, kind in enumerate(catalog.instance_types())],
            ),
            (_table(QuoteRow), [quote_values(key, n, quote) for n, quote in enumerate(catalog.quotes())]),
        ]
        bound = [_bound(table, rows, self._engine.dialect) for table, rows in children if rows]
        with self._writing(patient=patient) as connection:  # others wait meanwhile: all that can be is made before
            counted = connection.execution_options(preserve_rowcount=True)
            if counted.execute(_insert_if_new(connection, _table(SnapshotRow)), snapshot_values(meta)).rowcount != 1:
                return False
            for statement, values in bound:
                connection.exec_driver_sql(statement, values)
        return True

    def snapshots(self) -> list[SnapshotMeta]:
        """Return what each recorded snapshot says of itself, newest prices first."""
        newest_first = select(_table(SnapshotRow)).order_by(
            SnapshotRow.as_of.desc(), SnapshotRow.published_at.desc(), SnapshotRow.snapshot_id
        )
        in_order = select(_table(SnapshotSourceRow)).order_by(SnapshotSourceRow.snapshot_id, SnapshotSourceRow.position)
        with self._reading() as connection:
            rows = connection.execute(newest_first).mappings().all()
            sources = connection.execute(in_order).mappings().all()
        return [
            meta_of(dict(row), tuple(source_of(dict(s)) for s in sources if s["snapshot_id"] == row["snapshot_id"]))
            for row in rows
        ]

    def quotes(self, snapshot_id: str) -> list[Quote]:
        """Return the quotes of a recorded snapshot, in its order; none when the snapshot was never recorded."""
        return [quote_of(row) for row in self._rows(_table(QuoteRow), snapshot_id)]

    def instance_types(self, snapshot_id: str) -> list[InstanceType]:
        """Return the instance types of a recorded snapshot, in its order; none when the snapshot was never recorded."""
        return [instance_type_of(row) for row in self._rows(_table(InstanceTypeRow), snapshot_id)]

    # -- spot prices ----------------------------------------------------------------------------------------------

    def record_spot_changes(self, changes: Iterable[SpotChange], *, asked: Iterable[str] = ()) -> int:
        """Write changes of spot prices and return how many are new: any order, any number of times.

        Many are written in batches, the oldest first, each a short transaction, so that others can write between them. What is cut off
        leaves a beginning without gaps: it goes on from `newest_spot_change`. `asked`: the types that were asked for, whose changes are
        known from then on up to the newest one (`spot_known_until`). ValueError for what is no price (zero, negative) or has no time
        zone; nothing is written then.
        """
        given = list(changes)
        spot.check(given)
        if not given:
            return 0
        until: dict[tuple[str, str], datetime] = {}
        for change in given:
            key = change.provider, change.region
            until[key] = max(until.get(key, change.since), change.since)
        regions = sorted(until)
        with self._reading() as connection:
            zones = spot.known_zones(connection, regions)
        of_each = pools_of(given, known=zones)
        pools = {id(pool): pool for pool in of_each}.values()
        with self._reading() as connection:
            numbers, missing, names = spot.numbered(connection, regions, pools)
        if missing or names:
            with self._writing() as connection:
                spot.insert_pools(connection, missing, names)
                numbers, _, _ = spot.numbered(connection, regions, pools)
        backend, new = self._engine.dialect.name, 0
        for n, batch in enumerate(spot.batches(spot.rows_of(given, of_each, numbers), spot.A_BATCH[backend])):
            if n and backend == "sqlite":  # who waits for its lock only looks now and then
                time.sleep(LET_OTHERS_WRITE_S)
            with self._writing() as connection:
                new += spot.insert_rows(connection, batch)
        types = frozenset(asked)
        if types:
            with self._writing() as connection:
                spot.mark_known(connection, until, types)
        return new

    def spot_changes(
        self,
        *,
        instance_type: str,
        region: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        provider: str = "aws",
    ) -> list[SpotChange]:
        """Return a type's changes by region, zone and time, both bounds included, and the one in force at `since` of each zone."""
        with self._reading() as connection:
            return spot.changes_of(
                connection, provider=provider, instance_type=instance_type, region=region, since=since, until=until
            )

    def newest_spot_change(self, region: str, *, provider: str = "aws") -> datetime | None:
        """Return when the newest change of a region began, of whatever type. None when none is kept."""
        with self._reading() as connection:
            return spot.newest(connection, provider=provider, region=region)

    def spot_known_until(self, region: str, instance_types: Iterable[str], *, provider: str = "aws") -> datetime | None:
        """Return until when every change of all these types is kept: from there on a refresh has to ask. None: one was never asked for."""
        with self._reading() as connection:
            return spot.known_until(connection, provider=provider, region=region, instance_types=instance_types)

    def spot_statistics(
        self,
        regions: Iterable[str],
        window_start: datetime,
        window_end: datetime,
        on_demand: OnDemand,
        *,
        provider: str = "aws",
    ) -> tuple[SpotStatistics, ...]:
        """Return how the spot price of every pool of the regions moved in the window; see `pricing.spot_statistics`."""
        with self._reading() as connection:
            columns = spot.columns_of(
                connection, provider=provider, regions=sorted(set(regions)), since=window_start, until=window_end
            )
        return statistics_of_columns(columns, window_start=window_start, window_end=window_end, on_demand=on_demand)

    # -- plumbing -------------------------------------------------------------------------------------------------

    def _rows(self, table: Table, snapshot_id: str) -> list[dict[str, Any]]:
        wanted = select(table).where(table.c.snapshot_id == snapshot_id).order_by(table.c.position)
        with self._reading() as connection:
            return [dict(row) for row in connection.execute(wanted).mappings()]

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._translated(), self._engine.connect() as connection:
            schema.require_current(connection)
            yield connection

    @contextmanager
    def _writing(self, *, patient: bool = False) -> Iterator[Connection]:
        options = WRITES | PATIENT if patient else WRITES
        with self._translated(), self._engine.connect().execution_options(**options) as connection, connection.begin():
            schema.require_current(connection)
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the driver's errors into ours, without the statement and its values."""
        try:
            yield
        except DBAPIError as e:
            lines = str(e.orig).strip().splitlines() or [type(e.orig).__name__]
            if is_busy(e.orig):
                raise StoreBusy(where=self.where, why=f"{lines[0]}; another program is writing to it") from e
            self._blame_schema(e)
            raise StoreUnavailable(where=self.where, why=lines[0]) from e
        except OSError as e:  # the folder of a SQLite file cannot be made
            raise StoreUnavailable(where=self.where, why=e.strerror or type(e).__name__) from e

    def _blame_schema(self, error: DBAPIError) -> None:
        """Raise `SchemaNotCurrent` or `ForeignDatabase` when a missing table or column explains the error."""
        if not error.connection_invalidated and error.statement is not None:
            try:
                schema.check(self._engine)
            except DBAPIError:
                return


def _table(row: type[Base]) -> Table:
    table = row.__table__
    assert isinstance(table, Table)  # noqa: S101 - every row class here is a plain table; tells the type checker so
    return table


def _bound(table: Table, rows: Sequence[Mapping[str, Any]], dialect: Dialect) -> tuple[str, list[tuple[Any, ...]]]:
    """Return an insert as the driver takes it: its text, and the values of each row in its order."""
    mark = "?" if dialect.paramstyle == "qmark" else "%s"
    names = [column.name for column in table.columns]
    to_driver = [column.type.dialect_impl(dialect).bind_processor(dialect) for column in table.columns]
    quoted = ", ".join(map(dialect.identifier_preparer.quote, names))
    text = f"INSERT INTO {table.name} ({quoted}) VALUES ({', '.join([mark] * len(names))})"  # noqa: S608 - our own names
    columns = [
        [row[name] for row in rows] if process is None else [process(row[name]) for row in rows]
        for name, process in zip(names, to_driver, strict=True)
    ]
    return text, list(zip(*columns, strict=True))


def _insert_if_new(connection: Connection, table: Table) -> Any:
    """Return an insert that leaves a row of the same primary key as it is."""
    insert_of: Callable[[Table], Any] = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    return insert_of(table).on_conflict_do_nothing()
