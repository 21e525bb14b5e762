"""What becomes of readings: which rows they replace, what stays, what is refused, what is to be said. Pure.

A reading replaces the rows of its scope. What the shipped tables (the floor) have and a live list has not stays, with its own source
and age; what a live list had before and has no more is withdrawn. Shipped spot prices alone give way as a whole. A reading that is much shorter than the one before is refused, as
an answer that was cut looks like a withdrawal. Prices of imported sheets are nobody's scope. The same readings give the same rows
in whatever order they came.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from pricing.checks import quote_key
from pricing.contents import SnapshotContents, midnight, sources_of
from pricing.discounts import apply_agreement, as_listed
from pricing.history import extended, list_price, period_key
from pricing.market import Discount, Notice, NoticeKind, PricePeriod, SpotChange, SpotStatistics
from pricing.model import InstanceType, Interruption, PurchaseOption, Quote, Rate
from pricing.refresh.specs import curated_keys, merged_types
from pricing.source import Scope, SourceReading
from pricing.spot_statistics import on_demand_prices, statistics_of

LEAST_SHARE = Decimal("0.9")
"""A reading with fewer of the rows that its source had before is taken for an incomplete answer."""

JUMP = Decimal("0.3")
"""Share by which a list price may move before it is flagged."""

SPOT_WINDOW = timedelta(days=30)
SHEET = "price sheet"
"""How the source of an imported price begins."""

CATALOG = "catalog"
"""Source of the notices that follow from the whole snapshot and are worked out anew each time."""

MOST_NAMES = 8
COMPARED = ("quotes", "rates", "interruptions", "zone_offerings", "quotas")
"""Tables whose rows are counted against the reading before. Capacity blocks, scores and spot changes come and go."""

COMMITTED = frozenset({PurchaseOption.RESERVED_1YR, PurchaseOption.RESERVED_3YR})
PLANS = frozenset({PurchaseOption.SAVINGS_PLAN_1YR, PurchaseOption.SAVINGS_PLAN_3YR})
SPEAKS_FOR: Mapping[str, tuple[str, frozenset[PurchaseOption]]] = {
    "price_list": ("quotes", COMMITTED | {PurchaseOption.ON_DEMAND}),
    "price_list_files": ("quotes", COMMITTED | {PurchaseOption.ON_DEMAND}),
    "storage": ("rates", frozenset()),
    "instance_types": ("instance_types", frozenset()),
    "offerings": ("zone_offerings", frozenset()),
    "spot": ("quotes", frozenset({PurchaseOption.SPOT})),
    "savings_plans": ("quotes", PLANS),
    "savings_plan_files": ("quotes", PLANS),
    "capacity_blocks": ("capacity_blocks", frozenset()),
    "spot_advisor": ("interruptions", frozenset()),
    "quotas": ("quotas", frozenset()),
    "placement_scores": ("placement_scores", frozenset()),
}
"""What a source would have replaced: a reading says so itself, a failure cannot."""

Row = TypeVar("Row")
Thing = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A source that gave no complete answer about a region, and why."""

    source: str
    region: str | None
    why: str
    provider: str = "aws"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A failure with the age of what stays: `as_of` is the newest figure of that source and region, None where there is none."""

    failure: Failure
    as_of: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The new contents and what led to them. `refused`: readings that were not taken, by (source, region)."""

    contents: SnapshotContents
    refused: Mapping[tuple[str, str | None], str]
    kept: tuple[Kept, ...]
    changes: Mapping[str, int]  # new, changed, withdrawn, unchanged: prices
    notices: tuple[Notice, ...]  # what this merge has to say; the contents hold earlier ones as well
    accepted: int  # readings that were taken


@dataclass(slots=True)
class _Origin:
    """Where rows come from: the shipped tables, an imported sheet, or (anything else) a live source."""

    floor_sources: set[tuple[str, str]] = field(default_factory=set)

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


def merge(
    base: SnapshotContents,
    floor: SnapshotContents,
    readings: Iterable[SourceReading],
    *,
    at: datetime,
    failures: Iterable[Failure] = (),
    spot_changes: Mapping[str, Sequence[SpotChange]] | None = None,
    discounts: tuple[Discount, ...] | None = None,
    accept_incomplete: bool = False,
    notices: Iterable[Notice] = (),
) -> Merged:
    """Return the contents of the next snapshot.

    `base` is the newest snapshot and `floor` the shipped one, which can be newer where planner was upgraded. `spot_changes`: what the
    database knows of a region's spot prices, else the reading's own changes are summarised. `discounts`: a new agreement, None for
    the base's. `notices`: what else is to be said with it.
    """
    taken = sorted(readings, key=lambda r: (r.source, r.scope.provider, r.scope.region or ""))
    shipped: tuple[Any, ...] = (*floor.quotes, *floor.rates, *floor.interruptions)
    origin = _Origin({(row.provider, row.source) for row in shipped})
    start = _raised(base, floor, origin)
    refused: dict[tuple[str, str | None], str] = {}
    accepted: list[SourceReading] = []
    for reading in taken:
        why = fault_of(reading) or (None if accept_incomplete else _shortfall(start, reading, origin))
        if why is None:
            accepted.append(reading)
        else:
            refused[reading.source, reading.scope.region] = why
    failed = [
        *failures,
        *(Failure(source=source, region=region, why=why) for (source, region), why in refused.items()),
    ]
    kept = tuple(Kept(failure=f, as_of=_newest(start, f)) for f in failed)

    said: list[Notice] = [*notices, *(_kept_notice(k) for k in kept)]
    tables: dict[str, Any] = {}
    quotes = start.quotes
    rates, bands = start.rates, start.interruptions
    for reading in accepted:
        said += _excluded(reading)
        said += reading.notices
        if "quotes" in reading.scope.tables:
            quotes = _quotes(quotes, reading, start, origin, said)
        if "rates" in reading.scope.tables:
            rates = _rates(rates, reading, origin, said)
        if "interruptions" in reading.scope.tables:
            bands = _bands(bands, reading, origin, said)
        for table in ("zone_offerings", "capacity_blocks", "placement_scores", "quotas"):
            if table in reading.scope.tables:
                before = tables.get(table, getattr(start, table))
                stay = [row for row in before if not _covers(reading.scope, row)]
                tables[table] = (*stay, *getattr(reading, table))
    types, type_notices = merged_types(
        start.instance_types,
        curated_keys(floor.instance_types),
        [(r.source, t) for r in accepted if "instance_types" in r.scope.tables for t in r.instance_types],
        (chip.name for chip in start.accelerators),
    )
    said += type_notices
    listed = [as_listed(q) for q in quotes]
    caps = on_demand_prices(listed)
    listed = [_capped(q, caps, origin) for q in listed]
    periods = extended(_periods(base, floor), listed)
    agreement = base.discounts if discounts is None else discounts
    applied = apply_agreement(listed, agreement, at.date())
    said += applied.notices
    said += _about_all(applied.quotes, types)
    statistics = _statistics(start.spot_statistics, accepted, spot_changes or {}, caps, at)
    all_said = _counted([*_carried(base.notices, taken, failed), *said])
    contents = replace(
        start,
        instance_types=types,
        quotes=tuple(sorted(applied.quotes, key=_order)),
        rates=rates,
        interruptions=bands,
        price_periods=periods,
        spot_statistics=statistics,
        notices=all_said,
        discounts=agreement,
        sources=tuple(
            sources_of(
                accelerators=start.accelerators,
                instance_types=types,
                quotes=applied.quotes,
                rates=rates,
                interruptions=bands,
            )
        ),
        **tables,
    )
    return Merged(
        contents=contents,
        refused=refused,
        kept=kept,
        changes=changes_between(base.quotes, contents.quotes),
        notices=_counted(said),
        accepted=len(accepted),
    )


def fault_of(reading: SourceReading) -> str | None:
    """Return why a reading cannot be right in itself, None where nothing speaks against it.

    Its rows must lie in its scope, each price above zero and given once: two prices of one thing are never decided here.
    """
    scope = reading.scope
    seen: dict[Thing, Quote] = {}
    for quote in reading.quotes:
        where = _where(quote)
        if not _speaks_for(scope, quote):
            return f"{where}: a price outside of what the source speaks for"
        if not quote.effective_unit_price.is_finite() or quote.effective_unit_price <= 0:
            return f"{where}: a price of {quote.effective_unit_price}"
        other = seen.setdefault(quote_key(quote), quote)
        if other is not quote:
            return (
                f"{where}: two prices, {other.effective_unit_price} and {quote.effective_unit_price} {quote.currency}"
            )
    for rate in reading.rates:
        if not _covers_rate(scope, rate):
            return f"{rate.service} {rate.item} {rate.region}: a price outside of what the source speaks for"
    for table in ("zone_offerings", "capacity_blocks", "placement_scores", "quotas", "interruptions"):
        for row in getattr(reading, table):
            if not _covers(scope, row):
                return f"{table} of {row.provider} {row.region}: outside of what the source speaks for"
    return None


def changes_between(before: Iterable[Quote], after: Iterable[Quote]) -> dict[str, int]:
    """Return how many prices are new, changed, withdrawn and unchanged, by what is paid."""
    old = {quote_key(q): (q.effective_unit_price, q.currency, q.unit) for q in before}
    new = {quote_key(q): (q.effective_unit_price, q.currency, q.unit) for q in after}
    both = old.keys() & new.keys()
    changed = sum(old[key] != new[key] for key in both)
    return {
        "new": len(new.keys() - old.keys()),
        "changed": changed,
        "withdrawn": len(old.keys() - new.keys()),
        "unchanged": len(both) - changed,
    }


# -- what a scope covers ------------------------------------------------------------------------------------------


def _covers(scope: Scope, row: Any) -> bool:
    return bool(row.provider == scope.provider and (scope.region is None or row.region == scope.region))


def _speaks_for(scope: Scope, quote: Quote) -> bool:
    return _covers(scope, quote) and quote.purchase_option in scope.purchase_options


def _covers_rate(scope: Scope, rate: Rate) -> bool:
    return _covers(scope, rate) and rate.service in scope.services


def _shortfall(base: SnapshotContents, reading: SourceReading, origin: _Origin) -> str | None:
    """Return why a reading is taken for incomplete: one of its tables (one purchase option of its quotes) is much shorter than before."""
    scope = reading.scope
    for table in COMPARED:
        if table not in scope.tables:
            continue
        before: Counter[str] = Counter()
        now: Counter[str] = Counter()
        for counts, rows in ((before, getattr(base, table)), (now, getattr(reading, table))):
            for row in rows:
                if counts is before and not origin.live(row):
                    continue
                if table == "quotes":
                    if _speaks_for(scope, row) and row.purchase_option is not PurchaseOption.CAPACITY_BLOCK:
                        counts[f"{row.purchase_option.value} prices"] += 1
                elif table == "rates":
                    counts[table] += _covers_rate(scope, row)
                else:
                    counts[table.replace("_", " ")] += _covers(scope, row)
        for what, had in before.items():
            if now[what] < had * LEAST_SHARE:
                return f"incomplete: {now[what]} {what}, {had} before; --accept-incomplete takes it as it is"
    return None


# -- base and floor -----------------------------------------------------------------------------------------------


def _raised(base: SnapshotContents, floor: SnapshotContents, origin: _Origin) -> SnapshotContents:
    """Return the base with what newer shipped tables know: nothing changes where the base was made from the same tables."""
    chips = {c.name: c for c in base.accelerators} | {c.name: c for c in floor.accelerators}
    types: dict[tuple[str, str], InstanceType] = {(t.provider, t.instance_type): t for t in base.instance_types}
    for shipped in floor.instance_types:
        key = (shipped.provider, shipped.instance_type)
        if key not in types or _newer(shipped.retrieved_on, types[key].retrieved_on):
            types[key] = shipped
    return replace(
        base,
        accelerators=tuple(chips[name] for name in sorted(chips)),
        aliases=dict(base.aliases) | dict(floor.aliases),
        instance_types=tuple(types[key] for key in sorted(types)),
        quotes=_grown(
            base.quotes,
            floor.quotes,
            origin,
            thing=quote_key,
            group=lambda q: (q.provider, q.region, q.purchase_option),
            when=lambda q: q.retrieved_at,
        ),
        rates=_grown(
            base.rates,
            floor.rates,
            origin,
            thing=_rate_thing,
            group=lambda r: (r.provider, r.region, r.service),
            when=lambda r: midnight(r.retrieved_on),
        ),
        interruptions=_grown(
            base.interruptions,
            floor.interruptions,
            origin,
            thing=_band_thing,
            group=lambda i: (i.provider, i.region),
            when=lambda i: midnight(i.retrieved_on),
        ),
    )


def _newer(one: Any, other: Any) -> bool:
    return one is not None and (other is None or one > other)


def _grown(
    base: Iterable[Row],
    floor: Iterable[Row],
    origin: _Origin,
    *,
    thing: Callable[[Row], Thing],
    group: Callable[[Row], Thing],
    when: Callable[[Row], datetime],
) -> tuple[Row, ...]:
    """Return the rows of the base, a newer row of the floor in the place of an older one, and what only the floor has.

    What a live list of the same group has left out since is not brought back.
    """
    ours, shipped = _by_thing(base, thing), _by_thing(floor, thing)
    read: dict[Thing, datetime] = {}
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


def _by_thing(rows: Iterable[Row], thing: Callable[[Row], Thing]) -> dict[Thing, list[Row]]:
    found: dict[Thing, list[Row]] = defaultdict(list)
    for row in rows:
        found[thing(row)].append(row)
    return found


def _rate_thing(rate: Rate) -> Thing:
    return rate.provider, rate.service, rate.item, rate.region  # all tiers of one price together


def _band_thing(band: Interruption) -> Thing:
    return band.provider, band.instance_type, band.region


def _periods(base: SnapshotContents, floor: SnapshotContents) -> tuple[PricePeriod, ...]:
    """Return the history of the base, and before its beginning that of the floor."""
    first: dict[Thing, datetime] = {}
    for period in base.price_periods:
        key = period_key(period)
        first[key] = min(first.get(key, period.first_seen), period.first_seen)
    earlier = [p for p in floor.price_periods if (key := period_key(p)) not in first or p.last_seen < first[key]]
    return (*earlier, *base.price_periods)


# -- one reading --------------------------------------------------------------------------------------------------


def _quotes(
    before: Iterable[Quote], reading: SourceReading, base: SnapshotContents, origin: _Origin, said: list[Notice]
) -> tuple[Quote, ...]:
    """Return the quotes with those of a reading in the place of its scope.

    Shipped spot prices do not stay: a history without a row of a pool says that there was none to be had, and a price of months ago
    beside it would be the cheapest.
    """
    new = {quote_key(q): q for q in reading.quotes}
    out: list[Quote] = []
    stay: list[Quote] = []
    gone: list[Quote] = []
    old: list[Quote] = []
    for quote in before:
        if not _speaks_for(reading.scope, quote):
            out.append(quote)
        elif origin.sheet(quote):
            out.append(quote)
            if new.pop(quote_key(quote), None) is not None:
                said.append(
                    _note(reading.source, _where(quote), "an imported price sheet has a price of it, which stays")
                )
        elif quote_key(quote) in new:
            continue
        elif not origin.floor(quote):
            gone.append(quote)
        elif quote.purchase_option is PurchaseOption.SPOT:
            old.append(quote)
        else:
            out.append(quote)
            stay.append(quote)
    said += _stay_notices(reading.source, stay)
    if old:
        said.append(_note(reading.source, reading.scope.region or "all regions", f"spot prices of the shipped tables gave way to those that were read; {_names({q.instance_type for q in old} - {q.instance_type for q in new.values()}) or 'no type'} had none", len(old)))  # fmt: skip
    said += _gone_notices(reading, base, gone, [*out, *new.values()], origin)
    said += _jump_notices(reading.source, base, new)
    return (*out, *new.values())


def _rates(before: Iterable[Rate], reading: SourceReading, origin: _Origin, said: list[Notice]) -> tuple[Rate, ...]:
    new = {_rate_thing(r) for r in reading.rates}
    out: list[Rate] = []
    stay, gone = 0, []
    for rate in before:
        if not _covers_rate(reading.scope, rate) or origin.sheet(rate):
            out.append(rate)
        elif _rate_thing(rate) in new:
            continue
        elif origin.floor(rate):
            out.append(rate)
            stay += 1
        else:
            gone.append(f"{rate.service} {rate.item}")
    if stay:
        said.append(_note(reading.source, reading.scope.region or "all regions", "rates of the shipped tables that the list does not have stay, with their own age", stay))  # fmt: skip
    if gone:
        said.append(
            Notice(kind=NoticeKind.WITHDRAWN, source=reading.source, subject=reading.scope.region or "all regions", detail=_names(gone), count=len(gone))
        )  # fmt: skip
    return (*out, *reading.rates)


def _bands(
    before: Iterable[Interruption], reading: SourceReading, origin: _Origin, said: list[Notice]
) -> tuple[Interruption, ...]:
    new = {_band_thing(i) for i in reading.interruptions}
    out = [
        band
        for band in before
        if not _covers(reading.scope, band) or (_band_thing(band) not in new and origin.floor(band))
    ]
    stay = sum(_covers(reading.scope, band) for band in out)
    if stay:
        said.append(_note(reading.source, "interruption bands", "bands of the shipped tables that the list does not have stay, with their own age", stay))  # fmt: skip
    return (*out, *reading.interruptions)


def _statistics(
    before: Iterable[SpotStatistics],
    accepted: Iterable[SourceReading],
    recorded: Mapping[str, Sequence[SpotChange]],
    caps: Mapping[tuple[str, str, str, str], Decimal],
    at: datetime,
) -> tuple[SpotStatistics, ...]:
    """Return the statistics, those of the regions whose spot changes were read worked out anew over the window before `at`."""
    read = [r for r in accepted if "spot_changes" in r.scope.tables]
    stay = [s for s in before if not any(_covers(r.scope, s) for r in read)]
    made: list[SpotStatistics] = []
    for reading in read:
        changes = recorded.get(reading.scope.region or "", ()) or reading.spot_changes
        if changes:
            made += statistics_of(
                changes, window_start=at - SPOT_WINDOW, window_end=at, on_demand=caps, retrieved_at=reading.retrieved_at
            )
    return (*stay, *made)


def _capped(quote: Quote, caps: Mapping[tuple[str, str, str, str], Decimal], origin: _Origin) -> Quote:
    """Return a live spot quote with whether it stands at the on-demand price: nothing to be had rather than a market price."""
    if quote.purchase_option is not PurchaseOption.SPOT or not origin.live(quote):
        return quote
    cap = caps.get((quote.provider, quote.instance_type, quote.region, quote.currency))
    return replace(quote, at_on_demand_cap=None if cap is None else quote.effective_unit_price >= cap)


# -- what is to be said -------------------------------------------------------------------------------------------


def _note(source: str, subject: str, detail: str, count: int = 1) -> Notice:
    return Notice(kind=NoticeKind.NOTE, source=source, subject=subject, detail=detail, count=count)


def _excluded(reading: SourceReading) -> list[Notice]:
    where = f"left out in {reading.scope.region or 'all regions'}"
    return [
        Notice(kind=NoticeKind.EXCLUDED, source=reading.source, subject=reason, detail=where, count=count)
        for reason, count in reading.excluded.items()
        if count
    ]


def _kept_notice(kept: Kept) -> Notice:
    last = "nothing of it was known before" if kept.as_of is None else f"its last good figures, of {kept.as_of:%Y-%m-%d %H:%M} UTC, stay"  # fmt: skip
    failure = kept.failure
    return Notice(
        kind=NoticeKind.KEPT,
        source=failure.source,
        subject=failure.region or "all regions",
        detail=f"{failure.why}; {last}",
    )


def _stay_notices(source: str, stay: Iterable[Quote]) -> list[Notice]:
    groups: dict[tuple[str, str], list[Quote]] = defaultdict(list)
    for quote in stay:
        groups[quote.region, quote.purchase_option.value].append(quote)
    return [
        _note(
            source,
            f"{region} {option}",
            f"the list has no price of {_names(q.instance_type for q in rows)}: those of the shipped tables stay, the oldest of {min(q.retrieved_at for q in rows):%Y-%m-%d}",
            len(rows),
        )
        for (region, option), rows in sorted(groups.items())
    ]


def _gone_notices(
    reading: SourceReading, base: SnapshotContents, gone: Iterable[Quote], left: Iterable[Quote], origin: _Origin
) -> list[Notice]:
    """Return what a complete list no longer has: type by type, or a family at once when none of it is left."""
    del base
    remaining = {(_family(q), q.region, q.purchase_option) for q in left if origin.live(q)}
    types: Counter[tuple[str, str, str, PurchaseOption]] = Counter()
    families: dict[tuple[str, str, PurchaseOption], list[Quote]] = defaultdict(list)
    for quote in gone:
        family = (_family(quote), quote.region, quote.purchase_option)
        if family in remaining:
            types[quote.instance_type, quote.region, _family(quote), quote.purchase_option] += 1
        else:
            families[family].append(quote)
    said = [
        Notice(
            kind=NoticeKind.WITHDRAWN,
            source=reading.source,
            subject=f"{name} {region} {option.value}",
            detail="the list no longer has it",
            count=count,
        )
        for (name, region, _, option), count in types.items()
    ]
    said += [
        Notice(
            kind=NoticeKind.VANISHED_FAMILY,
            source=reading.source,
            subject=f"{family} {region} {option.value}",
            detail=f"the list no longer has any of it: {_names(q.instance_type for q in rows)}",
            count=len(rows),
        )
        for (family, region, option), rows in families.items()
    ]
    return said


def _jump_notices(source: str, base: SnapshotContents, new: Mapping[Thing, Quote]) -> list[Notice]:
    """Return list prices that moved by more than `JUMP` since they were last known; spot, which moves, in a line a region."""
    last: dict[Thing, tuple[datetime, Decimal]] = {}
    for period in base.price_periods:
        key = period_key(period)
        if key not in last or period.last_seen > last[key][0]:
            last[key] = (period.last_seen, period.unit_price)
    earlier = {quote_key(q): q for q in base.quotes}
    moves: dict[tuple[str, str, PurchaseOption], list[tuple[Decimal, Decimal, Quote]]] = defaultdict(list)
    for key, quote in new.items():
        before = earlier.get(key)
        price = list_price(quote)
        old = None
        if before is not None and (before.currency, before.unit) == (quote.currency, quote.unit):
            old = list_price(as_listed(before))
        elif before is None and period_key(quote) in last:
            old = last[period_key(quote)][1]
        if old and price is not None and abs(price / old - 1) > JUMP:
            spot = quote.purchase_option is PurchaseOption.SPOT
            name = "" if spot else quote.instance_type
            moves[name, quote.region, quote.purchase_option].append((price / old - 1, old, quote))
    said = []
    for (name, region, option), found in moves.items():
        share, old, quote = max(found, key=lambda move: (abs(move[0]), quote_key_text(move[2])))
        what = (
            f"{old.normalize():f} to {quote.effective_unit_price.normalize():f} {quote.currency} an hour ({share:+.0%})"
        )
        said.append(
            Notice(
                kind=NoticeKind.PRICE_JUMP,
                source=source,
                subject=f"{name} {region} {option.value}".strip(),
                detail=what if name else f"most of all {quote.instance_type}: {what}",
                count=len(found),
            )
        )
    return said


def _about_all(quotes: Iterable[Quote], types: Iterable[InstanceType]) -> list[Notice]:
    """Return what follows from the whole: prices in another currency, and prices of types that no table describes."""
    described = curated_keys(types)
    unknown: dict[tuple[str, str], list[Quote]] = defaultdict(list)
    foreign: dict[tuple[str, str, str], int] = Counter()
    for quote in quotes:
        if (quote.provider, quote.instance_type) not in described:
            unknown[quote.provider, quote.instance_type].append(quote)
        if quote.currency != "USD":
            foreign[quote.provider, quote.region, quote.currency] += 1
    said = [
        _note(
            CATALOG,
            f"{provider} {name}",
            f"has prices in {_names(q.region for q in rows)} and is described by no table: it is not recommended",
            len(rows),
        )
        for (provider, name), rows in unknown.items()
    ]
    said += [
        _note(CATALOG, f"{provider} {region}", f"prices are in {currency}: kept as they are, converted only at a stated rate", count)
        for (provider, region, currency), count in foreign.items()
    ]  # fmt: skip
    return said


def _carried(before: Iterable[Notice], taken: Iterable[SourceReading], failed: Iterable[Failure]) -> list[Notice]:
    """Return what was said before of sources and regions that were not asked this time."""
    asked: dict[str, set[str | None]] = defaultdict(set)
    for reading in taken:
        asked[reading.source].add(reading.scope.region)
    for failure in failed:
        asked[failure.source].add(failure.region)
    out = []
    for notice in before:
        regions = asked.get(notice.source)
        words = set(f"{notice.subject} {notice.detail}".replace(",", " ").replace(";", " ").split())
        if notice.source == CATALOG or (regions is not None and (None in regions or words & regions)):
            continue
        if notice.source != "discounts":
            out.append(notice)
    return out


def _counted(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return each notice once, in order; what was said twice counts twice."""
    found: dict[tuple[str, str, str, str], Notice] = {}
    for notice in notices:
        key = (notice.kind.value, notice.source, notice.subject, notice.detail)
        found[key] = notice if key not in found else replace(notice, count=notice.count + found[key].count)
    return tuple(found[key] for key in sorted(found))


def _newest(contents: SnapshotContents, failure: Failure) -> datetime | None:
    """Return the moment of the newest figure that a failed source could have replaced."""
    table, options = SPEAKS_FOR.get(failure.source, ("", frozenset()))
    found: list[datetime] = []
    for row in getattr(contents, table, ()):
        if row.provider != failure.provider or (options and row.purchase_option not in options):
            continue
        if failure.region is not None and getattr(row, "region", failure.region) != failure.region:
            continue
        if hasattr(row, "retrieved_at"):
            found.append(row.retrieved_at)
        elif row.retrieved_on is not None:
            found.append(midnight(row.retrieved_on))
    return max(found, default=None)


def _where(quote: Quote) -> str:
    zone = quote.availability_zone_id or quote.availability_zone
    return f"{quote.instance_type} {quote.region} {quote.purchase_option.value}" + (f" {zone}" if zone else "")


def quote_key_text(quote: Quote) -> str:
    """Return what tells two quotes apart, as text that sorts."""
    return "\t".join(str(part or "") for part in quote_key(quote))


def _order(quote: Quote) -> str:
    return quote_key_text(quote)


def _family(quote: Quote) -> str:
    return quote.instance_type.partition(".")[0]


def _names(names: Iterable[str]) -> str:
    """Return names, each once and in order, the first few of many."""
    each = sorted(set(names))
    more = f" and {len(each) - MOST_NAMES} more" if len(each) > MOST_NAMES else ""
    return ", ".join(each[:MOST_NAMES]) + more
