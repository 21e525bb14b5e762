"""`list_history`: which prices of an instance type were seen when, as the document of `planner prices history`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import UTC, date, datetime, time, timedelta
from typing import Protocol

from planner.ports import Document
from planner.recommend.errors import BadRequest
from planner.services.list_prices import known_purchase_option, known_regions, names, plain
from pricing.catalog import Catalog, near_misses
from pricing.errors import UnknownName
from pricing.history import extended, period_key
from pricing.market import PricePeriod, SpotChange, SpotStatistics
from pricing.model import PurchaseOption, Quote
from pricing.spot_statistics import on_demand_prices, statistics_of

PERIOD_FIELDS = (
    "region",
    "purchase_option",
    "plan_type",
    "offering_class",
    "term_years",
    "payment_option",
    "currency",
    "unit",
    "unit_price",
    "first_seen",
    "last_seen",
    "change_fraction",
    "source",
    "listed",
)
KEY_FIELDS = PERIOD_FIELDS[:8]
"""What tells the history of one price from that of another, of one type and provider."""

SPOT_CHANGE_FIELDS = ("region", "availability_zone_id", "availability_zone", "currency", "unit_price", "since")
ORDER = {option: place for place, option in enumerate(PurchaseOption)}


class SpotChanges(Protocol):
    """Where changes of spot prices are kept."""

    def spot_changes(
        self,
        *,
        instance_type: str,
        region: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        provider: str = "aws",
    ) -> Sequence[SpotChange]:
        """Return a type's changes in [since, until] by region, zone and time, and the one in force at `since` of each zone."""


def list_history(
    catalog: Catalog,
    instance_type: str,
    *,
    provider: str | None = None,
    region: Sequence[str] | str | None = None,
    purchase_option: Sequence[str] | str | None = None,
    zone: Sequence[str] | str | None = None,
    since: date | None = None,
    until: date | None = None,
    kept: SpotChanges | None = None,
    window_days: int | None = None,
) -> Document:
    """Return `{instance_type, provider, snapshot_id, as_of, periods[…], spot_changes[…], spot_statistics[…]}`, oldest first.

    `periods` are list prices per `unit`: those of the snapshot's record and its current quotes. A period that was last seen before
    `since` is still told where nothing else is known of that day. `change_fraction` is against the period before, -0.44 for a cut by
    44 %; null for the first. `listed` is whether the snapshot has a price of the same key: where it has none, the last price that was
    seen is not today's. `spot_changes` are those that are `kept`, none without; what came after the snapshot is left out, so that
    one snapshot gives one answer. Statistics are the snapshot's, where their window has any of the days asked about; over another window (`window_days` up to the last look) they are made
    of the changes, where any are kept. A name that nothing has is an `UnknownName` with near misses.
    """
    if since is not None and until is not None and since > until:
        raise BadRequest(field="since", value=since.isoformat(), why=f"is after until, {until.isoformat()}")
    shape = catalog.instance_type(instance_type, None if provider is None else catalog.provider(provider))
    name, seller = shape.instance_type, shape.provider
    record = [p for p in catalog.price_periods(name) if p.provider == seller]
    regions = known_regions(catalog, region, more=(p.region for p in record))
    options = {known_purchase_option(each) for each in names(purchase_option)} or set(PurchaseOption)
    if names(zone) and PurchaseOption.SPOT not in options:
        raise BadRequest(field="zone", value=names(zone), why="is for spot prices: others hold in the whole region")
    begin, end = moments(since, until)

    quotes = catalog.quotes(providers=[seller], instance_types=[name], regions=regions)
    recorded = [p for p in record if wanted(p.region, regions)]
    periods = [p for p in extended(recorded, quotes) if p.purchase_option in options]
    shown = in_view(periods, begin, end)
    listed = {period_key(q) for q in quotes}

    changes: list[SpotChange] = []
    statistics: list[SpotStatistics] = []
    if PurchaseOption.SPOT in options:
        known_until = catalog.meta.published_at
        if kept is not None:
            found = kept.spot_changes(instance_type=name, until=known_until, provider=seller)
            changes = [c for c in found if wanted(c.region, regions)]
        statistics = [s for s in catalog.spot_statistics(name) if s.provider == seller and wanted(s.region, regions)]
        published = bool(statistics) and all(length_days(s) == window_days for s in statistics)
        if window_days is not None and not published:
            last = min(known_until if end is None else end, looked_at(quotes, changes, default=known_until))
            statistics = over_window(changes, quotes, days=window_days, until=last)
        spot_quotes = [q for q in quotes if q.purchase_option is PurchaseOption.SPOT]
        zones = known_zones([*changes, *statistics, *spot_quotes], zone)
        changes = [c for c in changes if zones is None or not zones.isdisjoint(zone_names(c))]
        statistics = [
            s
            for s in statistics
            if (zones is None or not zones.isdisjoint(zone_names(s)))
            and (begin is None or s.window_end >= begin)
            and (end is None or s.window_start <= end)
        ]
        changes = spot_in_view(changes, begin, end)
    seen = [p.last_seen for p, _ in shown] + [s.window_end for s in statistics] + [c.since for c in changes]
    return {
        "instance_type": name,
        "provider": seller,
        "snapshot_id": catalog.meta.snapshot_id,
        "as_of": plain(max(seen, default=catalog.meta.as_of)),
        "periods": [period(p, before, listed=period_key(p) in listed) for p, before in shown],
        "spot_changes": [{f: plain(getattr(c, f)) for f in SPOT_CHANGE_FIELDS} for c in changes],
        "spot_statistics": [{f.name: plain(getattr(s, f.name)) for f in fields(s)} for s in statistics],
    }


def looked_at(quotes: Iterable[Quote], changes: Iterable[SpotChange], *, default: datetime) -> datetime:
    """Return when spot prices were last looked at: the last price holds until then, and is not known after."""
    moments_ = [q.retrieved_at for q in quotes if q.purchase_option is PurchaseOption.SPOT]
    return max([*moments_, *(c.since for c in changes)], default=default)


def over_window(
    changes: Sequence[SpotChange], quotes: Iterable[Quote], *, days: int, until: datetime
) -> list[SpotStatistics]:
    """Return the statistics of each zone over the days before `until`, of the changes that are kept."""
    return list(
        statistics_of(
            changes,
            window_start=until - timedelta(days=days),
            window_end=until,
            on_demand=on_demand_prices(q for q in quotes if q.purchase_option is PurchaseOption.ON_DEMAND),
        )
    )


def length_days(statistics: SpotStatistics) -> int:
    """Return the length of the window of some statistics in whole days."""
    return round((statistics.window_end - statistics.window_start) / timedelta(days=1))


def moments(since: date | None, until: date | None) -> tuple[datetime | None, datetime | None]:
    """Return the first moment of `since` and the last one of `until`, UTC."""
    return (
        None if since is None else datetime.combine(since, time(), tzinfo=UTC),
        None if until is None else datetime.combine(until, time.max, tzinfo=UTC),
    )


def wanted(name: str, allowed: Sequence[str] | None) -> bool:
    """Return whether a filter lets a name pass; None lets everything."""
    return allowed is None or name in allowed


def in_view(
    periods: Iterable[PricePeriod], begin: datetime | None, end: datetime | None
) -> list[tuple[PricePeriod, PricePeriod | None]]:
    """Return the periods that overlap a window, or are the last before it, each with the period of the same price before it."""
    ordered = sorted(periods, key=order)
    out: list[tuple[PricePeriod, PricePeriod | None]] = []
    for n, each in enumerate(ordered):
        before = ordered[n - 1] if n and period_key(ordered[n - 1]) == period_key(each) else None
        after = ordered[n + 1] if n + 1 < len(ordered) and period_key(ordered[n + 1]) == period_key(each) else None
        unseen_until = each.last_seen if after is None else after.first_seen  # it may have held until then
        if (begin is None or max(each.last_seen, unseen_until) >= begin) and (end is None or each.first_seen <= end):
            out.append((each, before))
    return out


def order(period: PricePeriod) -> tuple[object, ...]:
    """Return the order of the answer: by region and way to buy, oldest first."""
    terms = (period.plan_type, period.offering_class, period.term_years, period.payment_option)
    return (
        period.region,
        ORDER[period.purchase_option],
        *((term is not None, term) for term in terms),  # pairs: None and text do not compare
        period.currency,
        period.unit,
        period.first_seen,
    )


def period(each: PricePeriod, before: PricePeriod | None, *, listed: bool) -> Document:
    """Return one period as plain JSON values."""
    told = {
        "change_fraction": None if before is None else float(each.unit_price / before.unit_price - 1),
        "listed": listed,
    }
    return {name: told[name] if name in told else plain(getattr(each, name)) for name in PERIOD_FIELDS}


def spot_in_view(changes: Sequence[SpotChange], begin: datetime | None, end: datetime | None) -> list[SpotChange]:
    """Return the changes of a window and, for each zone, the last one before it: that price held when the window began."""
    ordered = sorted(changes, key=lambda c: (c.region, c.availability_zone_id or c.availability_zone or "", c.since))
    out: list[SpotChange] = []
    for n, each in enumerate(ordered):
        after = ordered[n + 1] if n + 1 < len(ordered) and pool(ordered[n + 1]) == pool(each) else None
        if end is not None and each.since > end:
            continue
        if begin is None or each.since >= begin or after is None or after.since > begin:
            out.append(each)
    return out


def pool(change: SpotChange) -> tuple[str, str | None, str]:
    """Return what tells the spot prices of two places apart; the id of a zone is the same for every account."""
    return change.region, change.availability_zone_id or change.availability_zone, change.currency


def zone_names(row: SpotChange | SpotStatistics | Quote) -> set[str]:
    """Return the names by which a zone can be asked for."""
    return {name for name in (row.availability_zone_id, row.availability_zone) if name is not None}


def known_zones(
    rows: Iterable[SpotChange | SpotStatistics | Quote], zone: Sequence[str] | str | None
) -> set[str] | None:
    """Return the zones of a filter as the rows spell them, None for all; UnknownName with near misses otherwise."""
    given = names(zone)
    if not given:
        return None
    known = {name.casefold(): name for row in rows for name in zone_names(row)}
    for name in given:
        if name.strip().casefold() not in known:
            raise UnknownName("zone", name, near_misses(name, known.values()))
    return {known[name.strip().casefold()] for name in given}
