"""What becomes of readings: which rows they replace, what stays, what is refused, what is to be said. Pure.

A reading replaces the rows of its scope. What the shipped tables (the floor) have and a live list has not stays, with its own source
and age (spot prices alone give way as a whole); what a live list had before and has no more is withdrawn. A reading that is much
shorter than the one before is refused, as an answer that was cut looks like a withdrawal; one without a row takes no shipped figure
away. Prices of imported sheets are nobody's scope. The same readings give the same rows in whatever order they came.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pricing.checks import quote_key
from pricing.contents import SnapshotContents, sources_of
from pricing.difference import changes_between
from pricing.discounts import apply_agreement, as_listed
from pricing.history import extended
from pricing.market import Discount, Notice, NoticeKind, SpotStatistics
from pricing.model import Interruption, PurchaseOption, Quote, Rate
from pricing.refresh.before import Before, before_of
from pricing.refresh.completeness import fault_of, is_empty, newest, shortfall, untold_by
from pricing.refresh.origin import (
    CATALOG,
    Origin,
    band_thing,
    covers,
    covers_rate,
    earlier_periods,
    emptied_notices,
    raised,
    rate_thing,
    says_less,
    speaks_for,
)
from pricing.refresh.said import (
    Failure,
    Kept,
    about_all,
    carried,
    counted,
    empty_notice,
    excluded,
    gone_notices,
    held_notices,
    jump_notices,
    kept_notice,
    named,
    note,
    place,
    quote_key_text,
    rate_jump_notices,
    stay_notices,
    vague_notices,
)
from pricing.refresh.specs import curated_keys, merged_types
from pricing.source import ANY_TYPE, SourceReading
from pricing.spot_statistics import on_demand_prices, statistics_of

SPOT_WINDOW = timedelta(days=30)
SHIPPED_TABLES = "shipped tables"
"""Subject of the notice that says over which of them a snapshot was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The new contents and what led to them. `refused`: readings that were not taken, by (source, region)."""

    contents: SnapshotContents
    refused: Mapping[tuple[str, str | None], str]
    kept: tuple[Kept, ...]
    changes: Mapping[str, int]  # new, changed, withdrawn, unchanged: prices
    notices: tuple[Notice, ...]  # what this merge has to say; the contents hold earlier ones as well
    accepted: int  # readings that were taken


def merge(
    base: SnapshotContents,
    floor: SnapshotContents,
    readings: Iterable[SourceReading],
    *,
    at: datetime,
    failures: Iterable[Failure] = (),
    summarised: frozenset[str] = frozenset(),
    discounts: tuple[Discount, ...] | None = None,
    accept_incomplete: bool = False,
    notices: Iterable[Notice] = (),
    floor_id: str = "",
) -> Merged:
    """Return the contents of the next snapshot.

    `base` is the newest snapshot and `floor` the shipped one, which can be newer where planner was upgraded. `summarised`:
    regions whose spot statistics are made elsewhere, from recorded changes; of the others the reading's own are summed up.
    `discounts`: a new agreement, None for the base's. `notices`: what else is to be said with it. `floor_id`: id of the
    shipped snapshot; a base that says that it was made over the same one is taken as it is, so that what a list has left out since
    does not come back from the tables.
    """
    taken = sorted(readings, key=lambda r: (r.source, r.scope.provider, r.scope.region or ""))
    shipped: tuple[Any, ...] = (*floor.quotes, *floor.rates, *floor.interruptions)
    origin = Origin(frozenset((row.provider, row.source) for row in shipped))
    over = note(CATALOG, SHIPPED_TABLES, f"of snapshot {floor_id}")
    start = base if floor_id and over in base.notices else raised(base, floor, origin)
    earlier = before_of(start, origin)
    refused: dict[tuple[str, str | None], str] = {}
    accepted: list[SourceReading] = []
    for reading in taken:
        why = fault_of(reading) or (None if accept_incomplete else shortfall(start, earlier, reading, origin))
        if why is None:
            accepted.append(reading)
        else:
            refused[reading.source, reading.scope.region] = why
    failed = [
        *failures,
        *(
            Failure(source=r.source, region=r.scope.region, why=refused[key], provider=r.scope.provider)
            for r in taken
            if (key := (r.source, r.scope.region)) in refused
        ),
    ]
    kept = tuple(Kept(failure=f, as_of=newest(start, f)) for f in failed)

    said: list[Notice] = [*notices, *(kept_notice(k) for k in kept)]
    tables: dict[str, Any] = {}
    places: dict[tuple[str, str], list[Quote]] = defaultdict(list)
    for quote in start.quotes:
        places[quote.provider, quote.region].append(quote)
    rates, bands = start.rates, start.interruptions
    for reading in accepted:
        said += excluded(reading)
        said += reading.notices
        if is_empty(reading):
            said.append(empty_notice(reading))
        if "quotes" in reading.scope.tables:
            _take_quotes(places, reading, earlier, origin, said)
        if "rates" in reading.scope.tables:
            rates = _rates(rates, reading, origin, said)
        if "interruptions" in reading.scope.tables:
            bands = _bands(bands, reading, origin, said)
        for table in ("zone_offerings", "capacity_blocks", "placement_scores", "quotas"):
            if table in reading.scope.tables:
                before = tables.get(table, getattr(start, table))
                stay = [row for row in before if not covers(reading.scope, row)]
                tables[table] = (*stay, *getattr(reading, table))
    types, type_notices = merged_types(
        start.instance_types,
        curated_keys(floor.instance_types),
        [(r.source, t) for r in accepted if "instance_types" in r.scope.tables for t in r.instance_types],
        (chip.name for chip in start.accelerators),
    )
    said += type_notices
    listed = [as_listed(q) for rows in places.values() for q in rows]
    caps = on_demand_prices(listed)
    listed = [_capped(q, caps, origin) for q in listed]
    periods = extended(earlier_periods(base, floor), listed)
    agreement = base.discounts if discounts is None else discounts
    applied = apply_agreement(listed, agreement, at.date())
    said += applied.notices
    said += about_all(applied.quotes, types)
    lasting = emptied_notices(base.notices, accepted, floor.quotes, applied.quotes, origin)
    statistics = _statistics(start.spot_statistics, accepted, summarised, caps, at)
    all_said = counted([*carried(base.notices, taken, failed), *said, *lasting, *([over] if floor_id else [])])
    contents = replace(
        start,
        instance_types=types,
        quotes=tuple(sorted(applied.quotes, key=quote_key_text)),
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
        notices=counted(said),
        accepted=len(accepted),
    )


# -- one reading --------------------------------------------------------------------------------------------------


def _take_quotes(
    places: dict[tuple[str, str], list[Quote]],
    reading: SourceReading,
    earlier: Before,
    origin: Origin,
    said: list[Notice],
) -> None:
    """Put the quotes of a reading in the place of its scope; `places` are the quotes of each provider and region."""
    scope = reading.scope
    new: dict[tuple[str, str], list[Quote]] = defaultdict(list)
    for quote in reading.quotes:
        new[quote.provider, quote.region].append(quote)
    covered = {key for key in places if key[0] == scope.provider and scope.region in (None, key[1])}
    for key in sorted(covered | new.keys()):
        places[key] = _quotes(places.get(key, ()), new[key], reading, origin, said)
    said += jump_notices(reading.source, earlier, reading.quotes)


def _quotes(
    before: Iterable[Quote], read: Iterable[Quote], reading: SourceReading, origin: Origin, said: list[Notice]
) -> list[Quote]:
    """Return the quotes of one region with those that were read in the place of the scope.

    Shipped spot prices do not stay where any were read: a history without a row of a pool says that there was none to be had, and a
    price of months ago beside it would be the cheapest. One without any row says nothing of the sort. A rate of capacity blocks gives way to blocks of the type that were offered, which have a zone;
    and a shipped commitment that does not say of which payment option, plan or class it is, to those of the list that do.
    """
    new = {quote_key(q): q for q in read}
    exact: dict[tuple[str, str, PurchaseOption], list[Quote]] = defaultdict(list)
    for quote in new.values():
        exact[quote.instance_type, quote.region, quote.purchase_option].append(quote)
    blocks = {(q.instance_type, q.region) for q in new.values() if q.purchase_option is PurchaseOption.CAPACITY_BLOCK}
    out: list[Quote] = []
    stay: list[Quote] = []
    gone: list[Quote] = []
    old: list[Quote] = []
    vague: list[Quote] = []
    held: list[Quote] = []
    untold, empty = untold_by(reading), is_empty(reading)
    for quote in before:
        if not speaks_for(reading.scope, quote):
            out.append(quote)
        elif origin.sheet(quote):
            out.append(quote)
            if new.pop(quote_key(quote), None) is not None:
                said.append(
                    note(reading.source, place(quote), "an imported price sheet has a price of it, which stays")
                )
        elif quote_key(quote) in new:
            continue
        elif not untold.isdisjoint((quote.instance_type, ANY_TYPE)) and (origin.live(quote) or quote.purchase_option is PurchaseOption.SPOT):  # fmt: skip
            out.append(quote)
            held.append(quote)
        elif not origin.floor(quote):
            gone.append(quote)
        elif empty:
            out.append(quote)
        elif quote.purchase_option is PurchaseOption.SPOT:
            old.append(quote)
        elif quote.purchase_option is PurchaseOption.CAPACITY_BLOCK and (quote.instance_type, quote.region) in blocks:
            continue
        elif says_less(quote, exact[quote.instance_type, quote.region, quote.purchase_option]):
            vague.append(quote)
        else:
            out.append(quote)
            stay.append(quote)
    said += stay_notices(reading.source, stay)
    said += vague_notices(reading.source, vague)
    said += held_notices(reading, held, untold)
    if old:
        said.append(_spot_gave_way(reading, old, new.values()))
    said += gone_notices(reading, gone, [*out, *new.values()], origin)
    return [*out, *new.values()]


def _spot_gave_way(reading: SourceReading, old: Iterable[Quote], new: Iterable[Quote]) -> Notice:
    """Return what became of shipped spot prices: how many pools (a type in a zone) were read again, and which are gone."""
    was, now = (
        {(q.instance_type, q.availability_zone_id or q.availability_zone) for q in quotes}
        for quotes in (old, list(new))
    )
    gone = len(was - now)
    nowhere = {name for name, _ in was} - {name for name, _ in now}
    said = f"spot prices of the shipped tables gave way to those that were read; {gone} spot {'pool' if gone == 1 else 'pools'} of the tables {'is' if gone == 1 else 'are'} gone"
    said += f", every one of {named(nowhere)}" if nowhere else ""
    return note(reading.source, reading.scope.region or "all regions", said, len(was))


def _rates(before: tuple[Rate, ...], reading: SourceReading, origin: Origin, said: list[Notice]) -> tuple[Rate, ...]:
    new = {rate_thing(r) for r in reading.rates}
    out: list[Rate] = []
    stay, gone, held = 0, [], []
    empty = is_empty(reading)
    unread = bool(untold_by(reading))
    subjects = [n.subject for n in reading.notices if n.kind is NoticeKind.UNRESOLVED]
    for rate in before:
        if not covers_rate(reading.scope, rate) or origin.sheet(rate):
            out.append(rate)
        elif rate_thing(rate) in new:
            continue
        elif origin.floor(rate):
            out.append(rate)
            stay += not empty
        elif unread or any(f"{rate.service} {rate.item}" in subject for subject in subjects):
            out.append(rate)
            held.append(rate)
        else:
            gone.append(f"{rate.service} {rate.item}")
    if stay:
        said.append(note(reading.source, reading.scope.region or "all regions", "rates of the shipped tables that the list does not have stay, with their own age", stay))  # fmt: skip
    if held:
        said.append(
            Notice(kind=NoticeKind.KEPT, source=reading.source, subject=reading.scope.region or "all regions", detail=f"a row could not be read or told, so nobody knows that these are gone: {named(f'{r.service} {r.item}' for r in held)} stay, of {max(r.retrieved_on for r in held)}", count=len(held))
        )  # fmt: skip
    if gone:
        said.append(
            Notice(kind=NoticeKind.WITHDRAWN, source=reading.source, subject=reading.scope.region or "all regions", detail=named(gone), count=len(gone))
        )  # fmt: skip
    said += rate_jump_notices(reading.source, before, reading.rates)
    return (*out, *reading.rates)


def _bands(
    before: Iterable[Interruption], reading: SourceReading, origin: Origin, said: list[Notice]
) -> tuple[Interruption, ...]:
    new = {band_thing(i) for i in reading.interruptions}
    unread = bool(untold_by(reading))
    out = [
        band
        for band in before
        if not covers(reading.scope, band) or (band_thing(band) not in new and (unread or origin.floor(band)))
    ]
    stay = sum(covers(reading.scope, band) and origin.floor(band) for band in out)
    if stay:
        said.append(note(reading.source, "interruption bands", "bands of the shipped tables that the list does not have stay, with their own age", stay))  # fmt: skip
    return (*out, *reading.interruptions)


def _statistics(
    before: Iterable[SpotStatistics],
    accepted: Iterable[SourceReading],
    summarised: frozenset[str],
    caps: Mapping[tuple[str, str, str, str], Decimal],
    at: datetime,
) -> tuple[SpotStatistics, ...]:
    """Return the statistics, those of the regions whose spot changes were read worked out anew over the window before `at`."""
    read = [r for r in accepted if "spot_changes" in r.scope.tables and not is_empty(r)]
    stay = [s for s in before if not any(covers(r.scope, s) for r in read)]
    made: list[SpotStatistics] = []
    for reading in read:
        if reading.spot_changes and reading.scope.region not in summarised:
            made += statistics_of(
                reading.spot_changes,
                window_start=at - SPOT_WINDOW,
                window_end=at,
                on_demand=caps,
                retrieved_at=reading.retrieved_at,
            )
    return (*stay, *made)


def _capped(quote: Quote, caps: Mapping[tuple[str, str, str, str], Decimal], origin: Origin) -> Quote:
    """Return a live spot quote with whether it stands at the on-demand price: nothing to be had rather than a market price."""
    if quote.purchase_option is not PurchaseOption.SPOT or not origin.live(quote):
        return quote
    cap = caps.get((quote.provider, quote.instance_type, quote.region, quote.currency))
    return replace(quote, at_on_demand_cap=None if cap is None else quote.effective_unit_price >= cap)
