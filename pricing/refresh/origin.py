"""Where rows come from and whose they are: the shipped tables (the floor), imported sheets, live sources; the scope of a reading. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar

from pricing.checks import quote_key
from pricing.contents import SnapshotContents, midnight
from pricing.history import period_key
from pricing.market import Notice, NoticeKind, PricePeriod
from pricing.model import InstanceType, Interruption, Quote, Rate
from pricing.source import Scope, SourceReading

CATALOG = "catalog"
"""Source of the notices that follow from the whole snapshot and are worked out anew each time."""

EMPTIED = "shipped prices gave way to a list without any, read at "
"""How the notice begins that keeps them away."""

SHEET = "price sheet"
"""How the source of an imported price begins."""

OPEN_TERMS = ("plan_type", "offering_class", "payment_option")
"""Terms of a commitment that a table may leave open and a list states."""

Row = TypeVar("Row")
Thing = tuple[Hashable, ...]
"""What a row is a price or a fact of."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows come from: the shipped tables, an imported sheet, or (anything else) a live source."""

    floor_sources: frozenset[tuple[str, str]]  # (provider, source)

    def floor(self, row: Any) -> bool:
        """Return whether a row is of the shipped tables."""
        return (row.provider, row.source) in self.floor_sources

    @staticmethod
    def sheet(row: Any) -> bool:
        """Return whether a row is of an imported sheet."""
        return bool(row.source.startswith(SHEET))

    def live(self, row: Any) -> bool:
        """Return whether a row is of a live source."""
        return not self.floor(row) and not self.sheet(row)


def covers(scope: Scope, row: Any) -> bool:
    """Return whether a row is of the provider and region that a scope is about."""
    return bool(row.provider == scope.provider and (scope.region is None or row.region == scope.region))


def speaks_for(scope: Scope, quote: Quote) -> bool:
    """Return whether a price is a scope's to replace."""
    return covers(scope, quote) and quote.purchase_option in scope.purchase_options


def says_less(quote: Quote, others: Iterable[Quote]) -> bool:
    """Return whether one of other prices of the same type, region and purchase option says of its terms what a price leaves open."""
    return any(
        getattr(quote, term) is None and getattr(other, term) is not None for other in others for term in OPEN_TERMS
    )


def covers_rate(scope: Scope, rate: Rate) -> bool:
    """Return whether a rate is a scope's to replace."""
    return covers(scope, rate) and rate.service in scope.services


def raised(base: SnapshotContents, floor: SnapshotContents, origin: Origin) -> SnapshotContents:
    """Return the base with what newer shipped tables know: nothing changes where the base was made from the same tables."""
    chips = {c.name: c for c in base.accelerators} | {c.name: c for c in floor.accelerators}
    types: dict[tuple[str, str], InstanceType] = {(t.provider, t.instance_type): t for t in base.instance_types}
    for shipped in floor.instance_types:
        key = (shipped.provider, shipped.instance_type)
        if key not in types or newer(shipped.retrieved_on, types[key].retrieved_on):
            types[key] = shipped
    return replace(
        base,
        accelerators=tuple(chips[name] for name in sorted(chips)),
        aliases=dict(base.aliases) | dict(floor.aliases),
        instance_types=tuple(types[key] for key in sorted(types)),
        quotes=grown(
            base.quotes,
            floor.quotes,
            origin,
            thing=quote_key,
            group=lambda q: (q.provider, q.region, q.purchase_option.value),
            when=lambda q: q.retrieved_at,
            emptied=emptied(base.notices),
        ),
        rates=grown(
            base.rates,
            floor.rates,
            origin,
            thing=rate_thing,
            group=lambda r: (r.provider, r.region, r.service),
            when=lambda r: midnight(r.retrieved_on),
        ),
        interruptions=grown(
            base.interruptions,
            floor.interruptions,
            origin,
            thing=band_thing,
            group=lambda i: (i.provider, i.region),
            when=lambda i: midnight(i.retrieved_on),
        ),
    )


def newer(one: Any, other: Any) -> bool:
    """Return whether a day is later than another, which may be unknown."""
    return one is not None and (other is None or one > other)


def grown(
    base: Iterable[Row],
    floor: Iterable[Row],
    origin: Origin,
    *,
    thing: Callable[[Row], Thing],
    group: Callable[[Row], Thing],
    when: Callable[[Row], datetime],
    emptied: Mapping[Thing, datetime] = MappingProxyType({}),
) -> tuple[Row, ...]:
    """Return the rows of the base, a newer row of the floor in the place of an older one, and what only the floor has.

    What a live list of the same group has left out since is not brought back; `emptied`: when a list was read that left no row of it.
    """
    ours, shipped = by_thing(base, thing), by_thing(floor, thing)
    read: dict[Thing, datetime] = dict(emptied)
    for rows in ours.values():
        for row in rows:
            if origin.live(row):
                read[group(row)] = max(read.get(group(row), when(row)), when(row))
    out: list[Row] = []
    for key, rows in ours.items():
        other = shipped.get(key)
        newer = other is not None and max(map(when, other)) > max(map(when, rows))
        out += other if newer and other is not None and not any(map(origin.sheet, rows)) else rows
    for key, rows in shipped.items():
        if key not in ours and not any(group(row) in read and read[group(row)] >= when(row) for row in rows):
            out += rows
    return tuple(out)


def emptied(notices: Iterable[Notice]) -> dict[Thing, datetime]:
    """Return when the list was read that left no price of a (provider, region, purchase option), as a snapshot's notices say."""
    return {
        tuple(n.subject.split(" ")): datetime.fromisoformat(n.detail.removeprefix(EMPTIED))
        for n in notices
        if n.source == CATALOG and n.detail.startswith(EMPTIED)
    }


def emptied_notices(
    before: Iterable[Notice],
    readings: Iterable[SourceReading],
    floor: Iterable[Quote],
    left: Iterable[Quote],
    origin: Origin,
) -> list[Notice]:
    """Return what keeps shipped prices away that gave way to a list which has none in their place, until newer ones are shipped.

    Nothing needs to be said where live prices are left: their age says when the list was read.
    """
    after = tuple(left)
    there = {quote_key(q) for q in after}
    groups = {(q.provider, q.region, q.purchase_option.value) for q in floor if quote_key(q) not in there}
    groups -= {(q.provider, q.region, q.purchase_option.value) for q in after if origin.live(q)}
    moments = emptied(before)
    for reading in readings:
        scope = reading.scope
        options = {option.value for option in scope.purchase_options} if "quotes" in scope.tables else set()
        for group in groups:
            if group[0] == scope.provider and scope.region in {None, group[1]} and group[2] in options:
                moments[group] = max(moments.get(group, reading.retrieved_at), reading.retrieved_at)
    return [
        Notice(kind=NoticeKind.NOTE, source=CATALOG, subject=" ".join(map(str, group)), detail=f"{EMPTIED}{at.astimezone(UTC).isoformat()}")
        for group, at in moments.items()
        if group in groups
    ]  # fmt: skip


def by_thing(rows: Iterable[Row], thing: Callable[[Row], Thing]) -> dict[Thing, list[Row]]:
    """Return the rows of each thing."""
    found: dict[Thing, list[Row]] = defaultdict(list)
    for row in rows:
        found[thing(row)].append(row)
    return found


def rate_thing(rate: Rate) -> Thing:
    """Return what tells rates apart, tiers aside."""
    return rate.provider, rate.service, rate.item, rate.region  # all tiers of one price together


def band_thing(band: Interruption) -> Thing:
    """Return what tells interruption bands apart."""
    return band.provider, band.instance_type, band.region


def earlier_periods(base: SnapshotContents, floor: SnapshotContents) -> tuple[PricePeriod, ...]:
    """Return the history of the base, and before its beginning that of the floor."""
    first: dict[Thing, datetime] = {}
    for period in base.price_periods:
        key = period_key(period)
        first[key] = min(first.get(key, period.first_seen), period.first_seen)
    earlier = [p for p in floor.price_periods if (key := period_key(p)) not in first or p.last_seen < first[key]]
    return (*earlier, *base.price_periods)
