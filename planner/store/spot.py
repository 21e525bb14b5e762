"""Changes of spot prices in the database: written once however often they are read, and read in bulk.

For statistics each pool comes as one text of times and one of prices and is summed up in Python: as fast as SQL would be, the same
figures from either database, and exact, where SQLite keeps decimals as text. `tests/benchmarks/bench_spot.py` measures it.

Pools are kept as the rows named them. Which names and ids are the same zone is decided when they are read, from all of a region's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Text,
    cast,
    extract,
    func,
    literal,
    select,
    type_coerce,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from planner.store.tables import Base
from planner.store.types import UtcDateTime
from pricing.market import SpotChange
from pricing.spot_statistics import EPOCH, MICROSECOND, Pool, Zone, pools_of, zone_ids

POOLS = Base.metadata.tables["spot_pools"]
CHANGES = Base.metadata.tables["spot_price_changes"]
POOL_KEY = ("provider", "region", "instance_type", "zone", "currency")
POOL_FIELDS = (*POOL_KEY, "availability_zone_id", "availability_zone")
AT_ONCE = 50_000
"""Rows of one insert into PostgreSQL."""

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


def insert_changes(connection: Connection, changes: Sequence[SpotChange]) -> int:
    """Write the changes that are not there yet and return how many those were."""
    for change in changes:
        if not (change.unit_price.is_finite() and change.unit_price > 0):
            raise ValueError(f"{change.instance_type} {change.region}: {change.unit_price} is no spot price")
        if change.since.tzinfo is None:
            raise ValueError(f"a moment needs a time zone, got {change.since.isoformat()}")
    regions = sorted({(change.provider, change.region) for change in changes})
    zones = [zone for provider, region in regions for zone in _zones(_stored_pools(connection, provider, [region]))]
    of_each = pools_of(changes, known=zones)
    pools = {id(pool): pool for pool in of_each}  # a pool is one object
    numbers = _pool_ids(connection, regions, pools.values())
    number_of = {key: numbers[_key(pool)] for key, pool in pools.items()}
    rows = [
        (number_of[id(pool)], change.since.astimezone(UTC), _shortest(change.unit_price))
        for pool, change in zip(of_each, changes, strict=True)
    ]
    rows.sort()  # in one order whoever writes: two that write the same wait for each other and never in a circle
    return _insert_rows(connection, rows)


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
    for pool in sorted(rows, key=_key):
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


def columns_of(
    connection: Connection, *, provider: str, regions: Sequence[str], since: datetime, until: datetime
) -> Columns:
    """Return each pool's changes in [since, until] and the last one before."""
    stored = _stored_pools(connection, provider, regions)
    on_postgresql = connection.dialect.name == "postgresql"
    row: ColumnElement[str] = type_coerce(CHANGES.c.since, Text) + "," + type_coerce(CHANGES.c.unit_price, Text)
    all_rows: ColumnElement[str] = func.group_concat(row)
    if on_postgresql:
        us = cast(extract("epoch", CHANGES.c.since) * 1_000_000, BigInteger)
        row = cast(us, Text) + "," + cast(CHANGES.c.unit_price, Text)
        all_rows = func.string_agg(row, postgresql.aggregate_order_by(literal(","), CHANGES.c.since))
    together = (
        select(all_rows)
        .where(CHANGES.c.pool_id == POOLS.c.pool_id, CHANGES.c.since <= until, CHANGES.c.since >= _begin(since))
        .scalar_subquery()
    )
    wanted = select(POOLS.c.pool_id, together).where(POOLS.c.provider == provider, POOLS.c.region.in_(regions))
    found: dict[Pool, list[tuple[list[int], list[Decimal]]]] = defaultdict(list)
    for pool_id, text in connection.execute(wanted):
        if text is None:
            continue
        cells = text.split(",")
        moments = cells[::2]
        times = (
            [int(us) for us in moments]
            if on_postgresql
            else [(at - EPOCH) // MICROSECOND for at in map(datetime.fromisoformat, moments)]
        )
        found[stored[pool_id]].append((times, [Decimal(price) for price in cells[1::2]]))
    return {pool: _joined(parts) for pool, parts in found.items()}


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
        found[row["pool_id"]] = made.setdefault(_key(pool), pool)
    return found


def _zones(stored: dict[int, Pool]) -> Iterable[Zone]:
    return {(p.provider, p.region, p.availability_zone, p.availability_zone_id) for p in stored.values()}


def _pool_ids(
    connection: Connection, regions: Iterable[tuple[str, str]], wanted: Iterable[Pool]
) -> dict[tuple[str, ...], int]:
    """Return the number of each pool by its key. New pools are written first, and names of zones that were not known."""
    kept, unnamed = _numbers(connection, regions)
    new = []
    for pool in sorted(wanted, key=_key):
        if _key(pool) not in kept:
            new.append({field: getattr(pool, field) for field in POOL_FIELDS})
        elif kept[_key(pool)] in unnamed and pool.availability_zone is not None:
            of_it = update(POOLS).where(POOLS.c.pool_id == kept[_key(pool)])
            connection.execute(of_it.values(availability_zone=pool.availability_zone))
    if not new:
        return kept
    insert_of = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert_of(POOLS).on_conflict_do_nothing(), new)
    return _numbers(connection, regions)[0]


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


def _insert_rows(connection: Connection, rows: Sequence[tuple[int, datetime, str]]) -> int:
    if connection.dialect.name == "postgresql":
        new = 0
        for first in range(0, len(rows), AT_ONCE):
            columns = tuple(map(list, zip(*rows[first : first + AT_ONCE], strict=True)))
            new += connection.exec_driver_sql(INSERT_COLUMNS, columns).rowcount
        return new
    moment, dialect = UtcDateTime(), connection.dialect
    values = [(pool_id, moment.process_bind_param(since, dialect), price) for pool_id, since, price in rows]
    return connection.execution_options(preserve_rowcount=True).exec_driver_sql(INSERT_ROW, values).rowcount


def _key(pool: Pool) -> tuple[str, ...]:
    return pool.provider, pool.region, pool.instance_type, pool.zone, pool.currency


def _shortest(price: Decimal) -> str:
    """Return the price as text without exponent and trailing zeros, every digit kept: 0.50 and 0.5 are one row."""
    text = f"{price:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
