"""Changes of spot prices in the database: written once however often they are read, and read in bulk.

For statistics each pool comes as one row, its times and its prices together, and is summed up in Python: as fast as SQL would be, the
same figures from either database, and exact, where SQLite keeps decimals as text. `tests/benchmarks/bench_spot.py` measures it.

Pools are kept as the rows named them. Which names and ids are the same zone is decided when they are read, from all of a region's.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    Text,
    cast,
    func,
    literal,
    select,
    true,
    type_coerce,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from planner.store.tables import Base
from planner.store.types import UtcDateTime
from pricing.market import SpotChange
from pricing.spot_statistics import EPOCH, MICROSECOND, Pool, Zone, zone_ids

POOLS = Base.metadata.tables["spot_pools"]
CHANGES = Base.metadata.tables["spot_price_changes"]
COVERAGE = Base.metadata.tables["spot_coverage"]
POOL_KEY = ("provider", "region", "instance_type", "zone", "currency")
POOL_FIELDS = (*POOL_KEY, "availability_zone_id", "availability_zone")
A_BATCH = {"sqlite": 5_000, "postgresql": 20_000}
"""Rows of one transaction. SQLite lets one write at a time: others wait for as long as one takes, some hundredths of a second."""

POSTGRES_EPOCH_US = 946_684_800_000_000
"""Microseconds from 1970 to 2000, where PostgreSQL counts from."""

INSERT_COLUMNS = """
INSERT INTO spot_price_changes (pool_id, since, unit_price)
SELECT * FROM unnest(%s::integer[], %s::timestamptz[], %s::numeric[])
ON CONFLICT DO NOTHING
"""
"""PostgreSQL: a whole column is one parameter, in less than half the time of a row a statement."""

INSERT_ROW = "INSERT INTO spot_price_changes (pool_id, since, unit_price) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
"""SQLite: rows are bound here, in half the time that the general way takes."""

Columns = dict[Pool, tuple[list[int], list[Decimal]]]
"""Of each pool the times (microseconds since 1970, in order) and the prices from then on."""


Row = tuple[int, datetime, str]
"""Number of the pool, moment in UTC, price as text."""


def check(changes: Iterable[SpotChange]) -> None:
    """Raise ValueError for a change whose price is none or whose moment has no time zone."""
    for change in changes:
        if not (change.unit_price.is_finite() and change.unit_price > 0):
            raise ValueError(f"{change.instance_type} {change.region}: {change.unit_price} is no spot price")
        if change.since.tzinfo is None:
            raise ValueError(f"a moment needs a time zone, got {change.since.isoformat()}")


def known_zones(connection: Connection, regions: Iterable[tuple[str, str]]) -> list[Zone]:
    """Return the zones of the pools that are kept, of (provider, region) each."""
    return [zone for provider, region in regions for zone in _zones(_stored_pools(connection, provider, [region]))]


def rows_of(
    changes: Sequence[SpotChange], of_each: Sequence[Pool], numbers: Mapping[tuple[str, ...], int]
) -> list[Row]:
    """Return the changes as rows, the oldest first."""
    pools = {id(pool): pool for pool in of_each}  # a pool is one object
    number_of = {key: numbers[pool_key(pool)] for key, pool in pools.items()}
    rows = [
        (number_of[id(pool)], change.since.astimezone(UTC), _shortest(change.unit_price))
        for pool, change in zip(of_each, changes, strict=True)
    ]
    rows.sort(key=itemgetter(1))
    return rows


def batches(rows: Sequence[Row], size: int) -> Iterator[list[Row]]:
    """Yield the rows in batches of `size`, each a bit larger where it would part rows of one instant.

    Within a batch they are in one order whoever writes: two that write the same wait for each other and never in a circle.
    """
    first = 0
    while first < len(rows):
        last = min(first + size, len(rows))
        while last < len(rows) and rows[last][1] == rows[last - 1][1]:
            last += 1
        yield sorted(rows[first:last])
        first = last


def changes_of(
    connection: Connection,
    *,
    provider: str,
    instance_type: str,
    region: str | None,
    since: datetime | None,
    until: datetime | None,
) -> list[SpotChange]:
    """Return a type's changes by region, zone and time; the one in force at `since` comes with them, as the price until the next."""
    stored = _stored_pools(connection, provider, None if region is None else [region])
    in_window = _in_window(provider, region, since, until).where(POOLS.c.instance_type == instance_type)
    rows: dict[Pool, set[tuple[datetime, Decimal]]] = defaultdict(set)
    for pool_id, at, price in connection.execute(in_window):
        rows[stored[pool_id]].add((at, price))
    found = []
    for pool in sorted(rows, key=pool_key):
        in_force = max((at for at, _ in rows[pool] if since is not None and at <= since), default=None)
        latest: dict[datetime, Decimal] = dict(sorted(rows[pool]))  # of one instant the dearest, which comes last
        found += [
            SpotChange(
                provider=pool.provider,
                instance_type=pool.instance_type,
                region=pool.region,
                availability_zone_id=pool.availability_zone_id,
                availability_zone=pool.availability_zone,
                currency=pool.currency,
                unit_price=price,
                since=at,
            )
            for at, price in latest.items()
            if in_force is None or at >= in_force
        ]
    return found


def newest(connection: Connection, *, provider: str, region: str) -> datetime | None:
    """Return when the newest change of a region began, None without any."""
    of_pool = select(func.max(CHANGES.c.since)).where(CHANGES.c.pool_id == POOLS.c.pool_id).scalar_subquery()
    in_region = (POOLS.c.provider == provider, POOLS.c.region == region)
    found: datetime | None = connection.scalar(select(func.max(of_pool)).where(*in_region))
    return found


def mark_known(
    connection: Connection, until: Mapping[tuple[str, str], datetime], instance_types: Iterable[str]
) -> None:
    """Write down that every change of these types is kept, of each (provider, region) up to its moment; what was known stays known."""
    rows = [
        {"provider": provider, "region": region, "instance_type": name, "known_until": at}
        for name in sorted(set(instance_types))
        for (provider, region), at in sorted(until.items())
    ]
    if not rows:
        return
    insert_of = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    new = insert_of(COVERAGE)
    later = new.excluded.known_until > COVERAGE.c.known_until
    key = ("provider", "region", "instance_type")
    connection.execute(
        new.on_conflict_do_update(index_elements=key, set_={"known_until": new.excluded.known_until}, where=later), rows
    )


def known_until(
    connection: Connection, *, provider: str, region: str, instance_types: Iterable[str]
) -> datetime | None:
    """Return until when the changes of every one of the types are kept, None where one was never asked for."""
    kept = select(COVERAGE.c.instance_type, COVERAGE.c.known_until).where(
        COVERAGE.c.provider == provider, COVERAGE.c.region == region
    )
    of_type = {str(name): at for name, at in connection.execute(kept)}
    wanted = set(instance_types)
    return min((of_type[name] for name in wanted), default=None) if wanted <= of_type.keys() else None


def columns_of(
    connection: Connection, *, provider: str, regions: Sequence[str], since: datetime, until: datetime
) -> Columns:
    """Return each pool's changes in [since, until] and the last one before."""
    stored = _stored_pools(connection, provider, regions)
    in_window = (
        CHANGES.c.pool_id == POOLS.c.pool_id,
        CHANGES.c.since <= until,
        CHANGES.c.since >= _begin(since),
    )
    columns = _postgresql_columns if connection.dialect.name == "postgresql" else _sqlite_columns
    of_pools = (POOLS.c.provider == provider, POOLS.c.region.in_(regions))
    found: dict[Pool, list[tuple[list[int], list[Decimal]]]] = defaultdict(list)
    for pool_id, times, prices in columns(connection, in_window, of_pools):
        found[stored[pool_id]].append((times, prices))
    return {pool: _joined(parts) for pool, parts in found.items()}


PoolColumns = Iterator[tuple[int, list[int], list[Decimal]]]
Conditions = Sequence[ColumnElement[bool]]


def _postgresql_columns(connection: Connection, in_window: Conditions, of_pools: Conditions) -> PoolColumns:
    """Yield number, times and prices of each pool. Times come as PostgreSQL keeps them, eight bytes each, and are read at once."""
    in_order = (CHANGES.c.since, CHANGES.c.unit_price)
    sent = func.timestamptz_send(CHANGES.c.since, type_=LargeBinary)
    nothing = cast(literal(""), LargeBinary)
    together = (
        select(
            func.string_agg(sent, postgresql.aggregate_order_by(nothing, *in_order), type_=LargeBinary).label("times"),
            func.string_agg(
                cast(CHANGES.c.unit_price, Text), postgresql.aggregate_order_by(literal(","), *in_order)
            ).label("prices"),
        )
        .where(*in_window)
        .correlate(POOLS)
        .lateral("together")
    )
    wanted = select(POOLS.c.pool_id, together.c.times, together.c.prices).join(together, true()).where(*of_pools)
    for pool_id, sent_times, text in connection.execute(wanted):
        if text is None:
            continue
        times = array("q", sent_times)
        if sys.byteorder == "little":
            times.byteswap()
        yield pool_id, list(map(POSTGRES_EPOCH_US.__add__, times)), list(map(Decimal, text.split(",")))


def _sqlite_columns(connection: Connection, in_window: Conditions, of_pools: Conditions) -> PoolColumns:
    """Yield number, times and prices of each pool."""
    row: ColumnElement[str] = type_coerce(CHANGES.c.since, Text) + "," + type_coerce(CHANGES.c.unit_price, Text)
    together = select(func.group_concat(row)).where(*in_window).scalar_subquery()
    for pool_id, text in connection.execute(select(POOLS.c.pool_id, together).where(*of_pools)):
        if text is None:
            continue
        cells = text.split(",")
        times = [(at - EPOCH) // MICROSECOND for at in map(datetime.fromisoformat, cells[::2])]
        yield pool_id, times, list(map(Decimal, cells[1::2]))


def _joined(parts: Sequence[tuple[list[int], list[Decimal]]]) -> tuple[list[int], list[Decimal]]:
    """Return the rows of one pool in order of time: SQLite keeps that of the key inside an aggregate, and does not promise to."""
    if len(parts) == 1 and parts[0][0] == sorted(parts[0][0]):
        return parts[0]
    pairs = sorted(pair for times, prices in parts for pair in zip(times, prices, strict=True))
    return [at for at, _ in pairs], [price for _, price in pairs]


def _in_window(provider: str, region: str | None, since: datetime | None, until: datetime | None) -> Any:
    """Select (pool, since, price) of the changes in a window and of each pool's last one before it."""
    rows = (
        select(CHANGES.c.pool_id, CHANGES.c.since, CHANGES.c.unit_price)
        .join(POOLS, POOLS.c.pool_id == CHANGES.c.pool_id)
        .where(POOLS.c.provider == provider)
    )
    if region is not None:
        rows = rows.where(POOLS.c.region == region)
    if until is not None:
        rows = rows.where(CHANGES.c.since <= until)
    if since is not None:
        rows = rows.where(CHANGES.c.since >= _begin(since))
    return rows


def _begin(since: datetime) -> ColumnElement[datetime]:
    """Return, inside a query of pools, when the last change before `since` began; `since` for a pool without one."""
    earlier = CHANGES.alias("earlier")
    last = select(func.max(earlier.c.since)).where(earlier.c.pool_id == POOLS.c.pool_id, earlier.c.since < since)
    return func.coalesce(last.correlate(POOLS).scalar_subquery(), since)


def _stored_pools(connection: Connection, provider: str, regions: Sequence[str] | None) -> dict[int, Pool]:
    """Return every pool by the number of its rows; rows with and without the id of one zone have the same pool."""
    wanted = select(POOLS).where(POOLS.c.provider == provider).order_by(POOLS.c.pool_id)
    if regions is not None:
        wanted = wanted.where(POOLS.c.region.in_(regions))
    rows = connection.execute(wanted).mappings().all()
    ids = zone_ids((r["provider"], r["region"], r["availability_zone"], r["availability_zone_id"]) for r in rows)
    zones = [r["availability_zone_id"] or ids.get((r["provider"], r["region"], r["availability_zone"])) for r in rows]
    names: dict[tuple[str, str | None], str] = {}
    for row, zone_id in zip(rows, zones, strict=True):
        if row["availability_zone"] is not None:
            names.setdefault((row["region"], zone_id or row["zone"]), row["availability_zone"])
    made: dict[tuple[str, ...], Pool] = {}
    found = {}
    for row, zone_id in zip(rows, zones, strict=True):
        zone = zone_id or row["zone"]
        pool = Pool(
            **{field: row[field] for field in ("provider", "region", "instance_type", "currency")},
            zone=zone,
            availability_zone_id=zone_id,
            availability_zone=names.get((row["region"], zone)),
        )
        found[row["pool_id"]] = made.setdefault(pool_key(pool), pool)
    return found


def _zones(stored: dict[int, Pool]) -> Iterable[Zone]:
    return {(p.provider, p.region, p.availability_zone, p.availability_zone_id) for p in stored.values()}


def numbered(
    connection: Connection, regions: Iterable[tuple[str, str]], wanted: Iterable[Pool]
) -> tuple[dict[tuple[str, ...], int], list[Pool], list[tuple[int, str]]]:
    """Return the number of each kept pool by its key, the pools that have none yet, and names of zones that were not known."""
    kept, unnamed = _numbers(connection, regions)
    new, names = [], []
    for pool in sorted(wanted, key=pool_key):
        number = kept.get(pool_key(pool))
        if number is None:
            new.append(pool)
        elif number in unnamed and pool.availability_zone is not None:
            names.append((number, pool.availability_zone))
    return kept, new, names


def insert_pools(connection: Connection, new: Iterable[Pool], names: Iterable[tuple[int, str]]) -> None:
    """Write pools that are not there yet, and names of zones that were not known."""
    for number, name in names:
        connection.execute(update(POOLS).where(POOLS.c.pool_id == number).values(availability_zone=name))
    rows = [{field: getattr(pool, field) for field in POOL_FIELDS} for pool in new]
    if rows:
        insert_of = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        connection.execute(insert_of(POOLS).on_conflict_do_nothing(), rows)


def _numbers(connection: Connection, regions: Iterable[tuple[str, str]]) -> tuple[dict[tuple[str, ...], int], set[int]]:
    """Return the number of each stored pool of the regions by its key, and the numbers of those whose zone has no name."""
    found, unnamed = {}, set()
    for provider, region in regions:
        wanted = select(POOLS).where(POOLS.c.provider == provider, POOLS.c.region == region)
        for row in connection.execute(wanted).mappings():
            found[tuple(str(row[name]) for name in POOL_KEY)] = int(row["pool_id"])
            if row["availability_zone"] is None:
                unnamed.add(int(row["pool_id"]))
    return found, unnamed


def insert_rows(connection: Connection, rows: Sequence[Row]) -> int:
    """Write the rows that are not there yet and return how many those were."""
    if connection.dialect.name == "postgresql":
        columns = tuple(map(list, zip(*rows, strict=True)))
        return connection.exec_driver_sql(INSERT_COLUMNS, columns).rowcount
    moment, dialect = UtcDateTime(), connection.dialect
    values = [(pool_id, moment.process_bind_param(since, dialect), price) for pool_id, since, price in rows]
    return connection.execution_options(preserve_rowcount=True).exec_driver_sql(INSERT_ROW, values).rowcount


def pool_key(pool: Pool) -> tuple[str, ...]:
    """Return what tells a pool from another."""
    return pool.provider, pool.region, pool.instance_type, pool.zone, pool.currency


def _shortest(price: Decimal) -> str:
    """Return the price as text without exponent and trailing zeros, every digit kept: 0.50 and 0.5 are one row."""
    text = f"{price:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
