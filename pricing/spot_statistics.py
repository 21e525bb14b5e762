"""How a spot price moved: each price holds until the pool's next change, so every statistic is weighted by time.

The mean of the rows would be wrong: a price of an hour counts as much there as a price of a month. With prices p_i that held for
w_i within the window, and W = sum w_i:

    mean        sum(w_i p_i) / W
    median      the least price that, with those below it, held for at least half of W; p95 the same with 95 %
    volatility  sqrt(sum(w_i (p_i - mean)^2) / W) / mean = sqrt(W sum(w_i p_i^2) - sum(w_i p_i)^2) / sum(w_i p_i)
    at the cap  sum(w_i where p_i >= on-demand price) / W

Prices are scaled to whole numbers and times are whole microseconds, so the sums are exact and the order of the changes is
nothing to them. Example: 1 USD for 6 hours, then 3 USD for 2: mean 1.5, median 1, p95 3, volatility sqrt(0.75) / 1.5 = 0.577.

A pool is a type in a zone. The zone's id says which; older replies have its name alone, which is the same pool where that name
has one id. The price before a pool's first change is unknown and not made up: `observed_fraction` says how much is known.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from itertools import accumulate, repeat
from operator import lt, mul, ne, sub

from pricing.market import SpotChange, SpotStatistics
from pricing.model import INSTANCE_HOUR, PurchaseOption, Quote

SOURCE = "AWS DescribeSpotPriceHistory"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DIGITS = Context(prec=28)
"""Significant digits of a mean, which seldom ends by itself; every other price here is one that was seen."""

EXACTLY = Context(prec=60, traps=[Inexact, InvalidOperation])
"""Arithmetic that raises instead of rounding."""
MILLION = Decimal(1_000_000)

Zone = tuple[str, str, str | None, str | None]
"""Provider, region, and the zone's name and id as a row states them."""

OnDemand = Mapping[tuple[str, str, str, str], Decimal]
"""(provider, instance type, region, currency) -> list price of one instance-hour on demand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Whose price it is. `zone` is the id of the zone, or its name where no id is known."""

    provider: str
    region: str
    instance_type: str
    zone: str
    currency: str
    availability_zone_id: str | None
    availability_zone: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """The figures of one pool in a window."""

    known_us: int  # microseconds of the window in which the price is known
    changes: int
    last: Decimal
    mean: Decimal
    median: Decimal
    p95: Decimal
    minimum: Decimal
    maximum: Decimal
    volatility_fraction: float
    at_cap_fraction: float | None


def statistics_of(
    changes: Iterable[SpotChange],
    *,
    window_start: datetime,
    window_end: datetime,
    on_demand: OnDemand,
    source: str = SOURCE,
    retrieved_at: datetime | None = None,
) -> tuple[SpotStatistics, ...]:
    """Return the statistics of each pool whose price is known for some of the window, by region, type and zone.

    `changes` may be repeated and in any order, and have to hold the last one before the window where there is one. Of two prices
    at one instant the dearer one counts; a price of zero is a hole in the data and is passed over.
    """
    given = list(changes)
    pools = pools_of(given)
    rows: dict[int, list[tuple[int, Decimal]]] = {id(pool): [] for pool in pools}  # a pool is one object
    for pool, change in zip(pools, given, strict=True):
        rows[id(pool)].append((microseconds(change.since), change.unit_price))
    columns = {}
    for pool in {id(pool): pool for pool in pools}.values():
        ordered = sorted(rows[id(pool)])
        columns[pool] = ([at for at, _ in ordered], [price for _, price in ordered])
    return statistics_of_columns(
        columns,
        window_start=window_start,
        window_end=window_end,
        on_demand=on_demand,
        source=source,
        retrieved_at=retrieved_at,
    )


def statistics_of_columns(
    columns: Mapping[Pool, tuple[Sequence[int], Sequence[Decimal]]],
    *,
    window_start: datetime,
    window_end: datetime,
    on_demand: OnDemand,
    source: str = SOURCE,
    retrieved_at: datetime | None = None,
) -> tuple[SpotStatistics, ...]:
    """Return the same from each pool's times (microseconds since 1970, in order) and prices, side by side."""
    if not window_start < window_end:
        raise ValueError(f"the window ends ({window_end.isoformat()}) before it starts ({window_start.isoformat()})")
    start, end = microseconds(window_start), microseconds(window_end)
    found = []
    for pool in sorted(columns, key=lambda p: (p.provider, p.region, p.instance_type, p.zone, p.currency)):
        times, prices = columns[pool]
        cap = on_demand.get((pool.provider, pool.instance_type, pool.region, pool.currency))
        moved = movement(times, prices, start=start, end=end, cap=cap)
        if moved is None:
            continue
        found.append(
            SpotStatistics(
                provider=pool.provider,
                instance_type=pool.instance_type,
                region=pool.region,
                availability_zone_id=pool.availability_zone_id,
                availability_zone=pool.availability_zone,
                currency=pool.currency,
                window_start=window_start,
                window_end=window_end,
                observed_fraction=moved.known_us / (end - start),
                changes=moved.changes,
                last_unit_price=moved.last,
                mean_unit_price=moved.mean,
                median_unit_price=moved.median,
                p95_unit_price=moved.p95,
                minimum_unit_price=moved.minimum,
                maximum_unit_price=moved.maximum,
                volatility_fraction=moved.volatility_fraction,
                at_on_demand_cap_fraction=moved.at_cap_fraction,
                source=source,
                retrieved_at=window_end if retrieved_at is None else retrieved_at,
            )
        )
    return tuple(found)


def movement(
    times: Sequence[int], prices: Sequence[Decimal], *, start: int, end: int, cap: Decimal | None
) -> Movement | None:
    """Return the figures of one pool, None when no price is known within [start, end). Times in microseconds, ascending.

    A change counts when a new price begins in [start, end]; a row that repeats the price in force is none.
    """
    times, prices = one_an_instant(times, prices)
    after = bisect_right(times, end)
    first = max(bisect_right(times, start) - 1, 0)  # the last one before the window holds at its start
    if first >= after:
        return None
    begins = [max(times[first], start), *times[first + 1 : after]]
    weights = list(map(sub, [*begins[1:], end], begins))
    known = end - begins[0]
    if not known:
        return None  # its first price begins as the window ends
    held = prices[first:after]
    if not weights[-1]:
        held, weights = held[:-1], weights[:-1]
    whole, scale = in_whole_numbers(held)
    products = list(map(mul, weights, whole))
    total, squares = sum(products), sum(map(mul, products, whole))
    order = sorted(range(len(whole)), key=whole.__getitem__)
    ascending = list(map(held.__getitem__, order))
    running = list(accumulate(map(weights.__getitem__, order)))
    counted = max(bisect_left(times, start), 1)
    moved = sum(map(ne, prices[counted:after], prices[counted - 1 : after - 1]))
    return Movement(
        known_us=known,
        changes=moved + (times[0] >= start),
        last=prices[after - 1],
        mean=DIGITS.divide(Decimal(total), Decimal(known * scale)),
        median=ascending[bisect_left(running, -(-known * 50 // 100))],
        p95=ascending[bisect_left(running, -(-known * 95 // 100))],
        minimum=ascending[0],
        maximum=ascending[-1],
        volatility_fraction=math.sqrt((known * squares - total * total) / (total * total)),
        at_cap_fraction=None if cap is None else (known - _below(cap, ascending, running)) / known,
    )


def in_whole_numbers(prices: Sequence[Decimal]) -> tuple[list[int], int]:
    """Return the prices times a scale that makes each of them whole, and that scale.

    Six decimals are what AWS states. They take the short way, in which a digit beyond them would raise `Inexact`.
    """
    try:
        millions = map(EXACTLY.to_integral_exact, map(EXACTLY.multiply, prices, repeat(MILLION)))
        return list(map(int, millions)), int(MILLION)
    except (Inexact, InvalidOperation):
        ratios = [price.as_integer_ratio() for price in prices]
        scale = math.lcm(*{denominator for _, denominator in ratios})
        return [numerator * (scale // denominator) for numerator, denominator in ratios], scale


def _below(cap: Decimal, ascending: Sequence[Decimal], running: Sequence[int]) -> int:
    """Return how long the price was below `cap`; `running` is how long it was at each of the prices or below."""
    count = bisect_left(ascending, cap)
    return running[count - 1] if count else 0


def one_an_instant(times: Sequence[int], prices: Sequence[Decimal]) -> tuple[list[int], list[Decimal]]:
    """Return times and prices with the dearest of each instant, without prices of zero."""
    if all(map(lt, times, times[1:])) and all(prices):
        return list(times), list(prices)
    instants: list[int] = []
    kept: list[Decimal] = []
    latest: int | None = None
    for at, price in zip(times, prices, strict=True):
        if not price:
            continue
        if at != latest:
            instants.append(at)
            kept.append(price)
            latest = at
        elif price > kept[-1]:
            kept[-1] = price
    return instants, kept


def pools_of(changes: Sequence[SpotChange], *, known: Iterable[Zone] = ()) -> list[Pool]:
    """Return the pool of each change: one for rows with and without the id of their zone. `known` are zones seen elsewhere."""
    stated = [
        (c.provider, c.region, c.instance_type, c.currency, c.availability_zone, c.availability_zone_id)
        for c in changes
    ]
    newest: dict[tuple[str, str, str, str, str | None, str | None], datetime] = {}
    for row, change in zip(stated, changes, strict=True):
        if row not in newest or change.since > newest[row]:
            newest[row] = change.since
    zones = {(provider, region, name, zone_id) for provider, region, _, _, name, zone_id in newest}
    ids = zone_ids([*known, *zones])
    names: dict[tuple[str, str, str], tuple[datetime, str]] = {}  # the newest name of a zone
    zone_of = {}
    for row, since in newest.items():
        provider, region, instance_type, _, name, stated_id = row
        zone_id = stated_id or ids.get((provider, region, name or ""))
        zone = zone_id or name
        if zone is None:
            raise ValueError(f"{instance_type} {region}: a spot change has neither the id nor the name of its zone")
        zone_of[row] = zone, zone_id
        if name is not None:
            key = (provider, region, zone)
            names[key] = max(names.get(key, (since, name)), (since, name))
    made: dict[tuple[str, ...], Pool] = {}
    pool_of = {}
    for row, (zone, zone_id) in zone_of.items():
        provider, region, instance_type, currency, _, _ = row
        pool = Pool(
            provider=provider,
            region=region,
            instance_type=instance_type,
            zone=zone,
            currency=currency,
            availability_zone_id=zone_id,
            availability_zone=names.get((provider, region, zone), (None, None))[1],
        )
        pool_of[row] = made.setdefault((provider, region, instance_type, zone, currency), pool)
    return [pool_of[row] for row in stated]


def zone_ids(zones: Iterable[Zone]) -> dict[tuple[str, str, str], str]:
    """Return (provider, region, zone name) -> zone id, for names that have one id.

    A name with two ids comes from two accounts, and rows that have the name alone could be either's.
    """
    found: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for provider, region, name, zone_id in zones:
        if name and zone_id:
            found[provider, region, name].add(zone_id)
    return {key: ids.pop() for key, ids in found.items() if len(ids) == 1}


def on_demand_prices(quotes: Iterable[Quote]) -> dict[tuple[str, str, str, str], Decimal]:
    """Return the list price of an instance-hour of each on-demand quote, by provider, type, region and currency: the cap of spot."""
    return {
        (q.provider, q.instance_type, q.region, q.currency): q.effective_unit_price
        if q.list_unit_price is None
        else q.list_unit_price
        for q in quotes
        if q.purchase_option is PurchaseOption.ON_DEMAND and q.unit == INSTANCE_HOUR
    }


def microseconds(at: datetime) -> int:
    """Return the microseconds since 1970, exact; refuses a time without a zone."""
    if at.tzinfo is None:
        raise ValueError(f"a moment needs a time zone, got {at.isoformat()}")
    return (at - EPOCH) // MICROSECOND
