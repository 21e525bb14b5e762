"""Prices as they stand at the moment of a request: a snapshot is never changed, but what it offers begins, ends, or is in another currency.

A capacity block that has begun can no longer be bought, and an agreement that has ended is no longer paid. Both are dated in the snapshot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal

from pricing.aws.currency import ExchangeRate, in_usd
from pricing.discounts import CONTRACTED, apply_agreement, as_listed, in_effect
from pricing.market import CapacityBlock, Discount
from pricing.model import PurchaseOption, Quote

Place = tuple[str, str, str]
"""Provider, instance type and region."""

STATED = "stated in the request"
ENDED = "no longer paid: "
"""How the note of a price begins that was contracted when the snapshot was made and is not any more."""

ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Today:
    """Quotes as they stand, the blocks behind those of capacity blocks, and where every offered block has begun."""

    quotes: tuple[Quote, ...]
    blocks: Mapping[str, CapacityBlock] = field(default_factory=dict)  # by offering id
    begun: Mapping[Place, datetime] = field(default_factory=dict)  # when the last of them began
    turned: tuple[
        str, ...
    ] = ()  # what the moment changed: offerings that have begun, agreements that hold or no longer do


def as_they_stand(
    quotes: Sequence[Quote],
    *,
    at: datetime,
    published_at: datetime,
    blocks: Iterable[CapacityBlock] = (),
    discounts: Sequence[Discount] = (),
    rates: Mapping[str, Decimal] | None = None,  # units per USD
) -> Today:
    """Return the quotes of a snapshot as they stand at a moment, in their order."""
    offered = {block.offering_id: block for block in blocks}
    kept, begun, started = _not_begun(quotes, offered, at) if offered else (tuple(quotes), {}, ())
    changed = tuple(line for line in discounts if _turned(line, published_at, at))
    if changed or (started and discounts):
        kept = _as_agreed(kept, discounts, at.date())
    if rates:
        kept = tuple(_converted(quote, rates, at.date()) for quote in kept)
    turned = {
        f"{line.source} {line.agreement} {'holds' if in_effect(line, at.date()) else 'does not hold'}"
        for line in changed
    }
    return Today(quotes=kept, blocks=offered, begun=begun, turned=(*started, *sorted(turned)))


def _not_begun(
    quotes: Sequence[Quote], offered: Mapping[str, CapacityBlock], at: datetime
) -> tuple[tuple[Quote, ...], dict[Place, datetime], tuple[str, ...]]:
    """Return the quotes with each begun block's place taken by the cheapest hour of its zone's others; where none is left, and what began."""
    ahead: dict[tuple[str, ...], CapacityBlock] = {}
    for block in sorted(offered.values(), key=lambda b: (b.unit_price, b.starts_at, b.offering_id)):
        if block.starts_at > at:
            ahead.setdefault(_pool(block), block)
    kept: list[Quote] = []
    began: dict[Place, datetime] = {}
    started: list[str] = []
    for quote in quotes:
        own = offered.get(quote.sku or "") if quote.purchase_option is PurchaseOption.CAPACITY_BLOCK else None
        if own is None or own.starts_at > at:
            kept.append(quote)
            continue
        started.append(own.offering_id)
        following = ahead.get(_pool(own))
        if following is not None:
            kept.append(_quoted(as_listed(quote), following))
    buyable = {_place(q) for q in kept if q.purchase_option is PurchaseOption.CAPACITY_BLOCK}
    if started:
        for block in offered.values():
            place = (block.provider, block.instance_type, block.region)
            if place not in buyable:
                began[place] = max(block.starts_at, began.get(place, block.starts_at))
    return tuple(kept), began, tuple(sorted(started))


def _quoted(quote: Quote, block: CapacityBlock) -> Quote:
    """Return the listed quote of one block as that of another of its pool."""
    return dataclasses.replace(
        quote,
        sku=block.offering_id,
        availability_zone_id=block.availability_zone_id,
        availability_zone=block.availability_zone,
        list_unit_price=block.unit_price,
        contracted_unit_price=None,
        upfront=block.upfront / block.instance_count,
        effective_unit_price=block.unit_price,
        retrieved_at=block.retrieved_at,
        source=block.source,
        notes="an offering of the moment, not held",
    )


def _pool(block: CapacityBlock) -> tuple[str, ...]:
    zone = block.availability_zone_id or block.availability_zone or ""
    return block.provider, block.instance_type, block.region, zone, block.currency


def _place(quote: Quote) -> Place:
    return quote.provider, quote.instance_type, quote.region


def _turned(line: Discount, published_at: datetime, at: datetime) -> bool:
    """Return whether a line holds now and did not when the snapshot was made, or the other way round.

    A snapshot is published up to a day after its prices were asked for, so the day before counts as well.
    """
    now = in_effect(line, at.date())
    return any(in_effect(line, day.date()) != now for day in (published_at, published_at - ONE_DAY))


def _as_agreed(quotes: Sequence[Quote], discounts: Sequence[Discount], on: date) -> tuple[Quote, ...]:
    """Return the quotes as paid under what is agreed for a day; the note of one that falls back to its list price says since when."""
    paid = apply_agreement(quotes, discounts, on).quotes
    return tuple(
        _told(after, line)
        if (line := agreed_line(before, discounts)) is not None and after.contracted_unit_price is None
        else after
        for before, after in zip(quotes, paid, strict=True)
    )


def _told(after: Quote, line: Discount) -> Quote:
    ended = "is not in effect" if line.ends_on is None else f"ended on {line.ends_on.isoformat()}"
    note = f"{ENDED}agreement {line.agreement} {ended}: this is the list price"
    return dataclasses.replace(after, notes="; ".join(part for part in (after.notes, note) if part))


def agreed_line(quote: Quote, discounts: Iterable[Discount]) -> Discount | None:
    """Return the line of an agreement that a contracted price comes from; None where none is named."""
    note = next((part for part in quote.notes.split("; ") if part.startswith(CONTRACTED)), None)
    if note is None:
        return None
    named = (line for line in discounts if note.startswith(f"{CONTRACTED}{line.agreement} ({line.source}): "))
    return next(named, None)


def _converted(quote: Quote, rates: Mapping[str, Decimal], on: date) -> Quote:
    """Return a quote in USD where a rate of its currency is stated, its source with the rate; the quote itself otherwise."""
    per_usd = rates.get(quote.currency)
    if per_usd is None:
        return quote
    rate = ExchangeRate(currency=quote.currency, per_usd=per_usd, source=STATED, as_of=on)
    source = f"{quote.source}, at {per_usd.normalize():f} {rate.currency} per USD {STATED}"
    return dataclasses.replace(in_usd(quote, rate), source=source)
