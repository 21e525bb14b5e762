"""Which quote stands for an instance type in a region under a purchase option, or why none does."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from planner.perf.model import RejectionReason
from planner.recommend.model import Offer, Rejection
from planner.recommend.today import ENDED, Today, agreed_line
from pricing.discounts import CONTRACTED, as_listed
from pricing.market import Discount, SpotStatistics
from pricing.model import INSTANCE_HOUR, InstanceType, PurchaseOption, Quote
from pricing.money import UsdPerHour

LOCAL_ZONE = re.compile(r"^[a-z0-9]+-[a-z]{3}\d+-az\d+$")
"""Zone ids of Local Zones carry a city between region and zone: use1-atl2-az1."""

NOTEWORTHY_RISE = Decimal("1.1")
"""Today's spot price is told apart from its pool's median where that is so many times as high."""

NOTEWORTHY_CAP = 0.02
"""Share of the known time at the on-demand cap (nothing to be had) from which it is told."""

COMMITMENTS = frozenset(
    {
        PurchaseOption.SAVINGS_PLAN_1YR,
        PurchaseOption.SAVINGS_PLAN_3YR,
        PurchaseOption.RESERVED_1YR,
        PurchaseOption.RESERVED_3YR,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the request says about commitments; None = any."""

    plan_type: str | None = None
    payment_option: str | None = None
    offering_class: str | None = None

    def admit(self, quote: Quote) -> bool:
        """Return whether a commitment's quote has the asked terms."""
        return all(
            wanted is None or has is None or wanted == has
            for wanted, has in (
                (self.plan_type, quote.plan_type),
                (self.payment_option, quote.payment_option),
                (self.offering_class, quote.offering_class),
            )
        )


def offer_or_rejection(
    instance: InstanceType,
    region: str,
    option: PurchaseOption,
    quotes: Sequence[Quote],
    *,
    quoted: frozenset[PurchaseOption],
    terms: Terms,
    elsewhere: frozenset[PurchaseOption],
    today: Today | None = None,
    discounts: Sequence[Discount] = (),
) -> Offer | Rejection:
    """Return the offer for `option`, or the rejection with its reason.

    `quotes` are those of this type in this region for the asked options and on-demand; `quoted` holds every option that has a quote
    there, `elsewhere` those that have one in any region. `today` knows the blocks behind the prices of capacity blocks, `discounts` the
    agreement behind contracted ones.
    Not offered is said only where the option exists elsewhere; a type that nobody quotes for it has no price.
    A price of zero or in another currency is no price: it is named in the rejection and never ranked.
    """

    def rejected(reason: RejectionReason, detail: str) -> Rejection:
        return Rejection(
            provider=instance.provider,
            instance_type=instance.instance_type,
            reason=reason,
            region=region,
            purchase_option=option.value,
            detail=detail,
        )

    if instance.capacity_block_only and option is not PurchaseOption.CAPACITY_BLOCK:
        return rejected(
            RejectionReason.CAPACITY_BLOCK_ONLY, "sold through Capacity Blocks only; ask with --purchase capacity_block"
        )
    if today is not None and option is PurchaseOption.CAPACITY_BLOCK:
        began = today.begun.get((instance.provider, instance.instance_type, region))
        if began is not None:
            return rejected(
                RejectionReason.NO_PRICE,
                f"every block that was offered has begun, the last on {began:%Y-%m-%d %H:%M} UTC, and is sold no more: refresh the prices",
            )
    if not quoted:
        if option in elsewhere:
            return rejected(RejectionReason.NOT_OFFERED, "no quote of any kind in this region; other regions have some")
        if elsewhere:
            others = ", ".join(sorted(o.value for o in elsewhere))
            return rejected(
                RejectionReason.NO_PRICE,
                f"no {option.value} price was found in any region; other regions have one for {others}",
            )
        return rejected(RejectionReason.NO_PRICE, "no price of any kind was found for this type, in any region")
    asked = [q for q in quotes if q.purchase_option is option]
    if option in COMMITMENTS:
        asked = [q for q in asked if terms.admit(q)]
    if not asked:
        others = ", ".join(sorted(o.value for o in quoted))
        return rejected(
            RejectionReason.NO_PRICE,
            f"no {option.value} price{_of_terms(option, terms)} was found; there is one for {others}",
        )
    usable = [q for q in asked if q.currency == "USD" and q.unit == INSTANCE_HOUR and q.effective_unit_price > 0]
    if not usable:
        return rejected(RejectionReason.NO_PRICE, _why_unusable(asked))
    best = _best_offer(instance, option, usable, on_demand=_on_demand_price(quotes), discounts=discounts)
    if option is not PurchaseOption.CAPACITY_BLOCK or today is None:
        return best
    return dataclasses.replace(best, block=today.blocks.get(best.quote.sku or ""))


def _of_terms(option: PurchaseOption, terms: Terms) -> str:
    asked = [t for t in (terms.plan_type, terms.payment_option, terms.offering_class) if t is not None]
    return f" with {', '.join(asked)}" if asked and option in COMMITMENTS else ""


def _why_unusable(quotes: Sequence[Quote]) -> str:
    quote = min(quotes, key=lambda q: (q.currency, q.effective_unit_price, q.availability_zone_id or ""))
    if quote.currency != "USD":
        return f"quoted at {quote.effective_unit_price.normalize():f} {quote.currency} per hour; no exchange rate is stated, so it cannot be ranked against USD: state one with --usd-rate {quote.currency}=UNITS_PER_USD"
    if quote.unit != INSTANCE_HOUR:
        return f"quoted per {quote.unit}: not the price of a whole instance"
    return f"the source says {quote.effective_unit_price.normalize():f} USD per hour, which is a hole in the data and not a price"


def _on_demand_price(quotes: Sequence[Quote]) -> Decimal | None:
    prices = [
        at_list(q)
        for q in quotes
        if q.purchase_option is PurchaseOption.ON_DEMAND
        and q.currency == "USD"
        and q.unit == INSTANCE_HOUR
        and q.effective_unit_price > 0
    ]
    return min(prices, default=None)


def at_list(quote: Quote) -> Decimal:
    """Return what a quote costs per hour without a private agreement: what the market says, whatever this buyer pays."""
    if quote.contracted_unit_price is None:
        return quote.effective_unit_price
    return as_listed(quote).effective_unit_price


def contract_note(quote: Quote, discounts: Sequence[Discount] = ()) -> str | None:
    """Return under which agreement a price is contracted, until when, and what it is at list; or that it no longer is; None for a list price."""
    listed = at_list(quote)
    if quote.contracted_unit_price is None:
        return next((part.removeprefix(ENDED) for part in parts_of(quote) if part.startswith(ENDED)), None)
    if listed == quote.effective_unit_price:  # a seller's own offer, no agreement of ours
        return f"contracted price{f': {quote.notes}' if quote.notes else ''}"
    line = agreed_line(quote, discounts)
    agreed = next(part for part in parts_of(quote) if part.startswith(CONTRACTED))
    until = (
        "" if line is None else ", no end is stated" if line.ends_on is None else f", until {line.ends_on.isoformat()}"
    )
    return f"{agreed}{until}; at list {listed.normalize():f} {quote.currency} per hour"


def parts_of(quote: Quote) -> list[str]:
    """Return the separate things that the notes of a quote say."""
    return [part for part in quote.notes.split("; ") if part]


def own_notes(quote: Quote) -> str:
    """Return what the notes of a quote say besides its agreement."""
    return "; ".join(part for part in parts_of(quote) if not part.startswith((CONTRACTED, ENDED)))


def is_capped(quote: Quote, on_demand: Decimal | None) -> bool:
    """Return whether a spot price says "no spare capacity": marked so by its source, or not below the on-demand price, both at list."""
    return bool(quote.at_on_demand_cap) or (on_demand is not None and at_list(quote) >= on_demand)


def spot_pool(quotes: Sequence[Quote], on_demand: Decimal | None) -> tuple[Sequence[Quote], list[str]]:
    """Return the zones to choose from and what to say of the others.

    First the region's own zones with spare capacity, that is, below the on-demand cap; where there is none, Local Zones with spare
    capacity (an account has to opt in to each, and not every service is there); where there is none, all.
    """
    notes: list[str] = []
    free = [q for q in quotes if not is_capped(q, on_demand)]
    if not free:
        return quotes, [
            "spot price is at the on-demand cap in every zone: that usually means no spare capacity, not a market price"
        ]
    if len(free) < len(quotes):
        notes.append(f"{len(quotes) - len(free)} of {len(quotes)} zones are at the on-demand cap and were left out")
    local = [q for q in free if LOCAL_ZONE.search(q.availability_zone_id or "")]
    if len(local) == len(free):
        return free, [
            *notes,
            "a Local Zone: an account has to opt in to it, and not every service of the region is there",
        ]
    if local:
        cheapest = min(local, key=lambda q: (q.effective_unit_price, q.availability_zone_id or ""))
        notes.append(
            f"Local Zones are left out, as an account has to opt in to each ({cheapest.availability_zone_id}: {cheapest.effective_unit_price.normalize():f} USD/h)"
        )
    return [q for q in free if q not in local], notes


def movement_note(quote: Quote, pools: Sequence[SpotStatistics]) -> str | None:
    """Return what the pool's last weeks say against today's spot price; None where they say nothing against it, or are not known."""
    pool = next(
        (
            p
            for p in pools
            if p.currency == quote.currency
            and p.availability_zone_id == quote.availability_zone_id
            and (p.availability_zone_id is not None or p.availability_zone == quote.availability_zone)
        ),
        None,
    )
    if pool is None:
        return None
    said = []
    if pool.median_unit_price >= at_list(quote) * NOTEWORTHY_RISE:
        said.append(
            f"the median was {pool.median_unit_price.normalize():f} USD/h, 95 % of the time it was at most {pool.p95_unit_price.normalize():f}"
        )
    if (pool.at_on_demand_cap_fraction or 0) >= NOTEWORTHY_CAP:
        said.append(f"{pool.at_on_demand_cap_fraction:.0%} of the known time it stood at the on-demand cap")
    days = (pool.window_end - pool.window_start).days
    return f"spot price now, unlike the last {days} days in this zone: {'; '.join(said)}" if said else None


def _best_offer(
    instance: InstanceType,
    option: PurchaseOption,
    quotes: Sequence[Quote],
    *,
    on_demand: Decimal | None,
    discounts: Sequence[Discount],
) -> Offer:
    """Return the cheapest offer; for spot that of `spot_pool`."""
    pool, notes = spot_pool(quotes, on_demand) if option is PurchaseOption.SPOT else (quotes, [])
    quote = min(
        pool,
        key=lambda q: (
            q.effective_unit_price,
            q.availability_zone_id or "",
            q.term_years or 0,
            q.plan_type or "",
            q.offering_class or "",
            q.payment_option or "",
            q.source,
        ),
    )
    if (contract := contract_note(quote, discounts)) is not None:
        notes.append(contract)
    if quote.derived:
        notes.append(
            f"price derived, not quoted: {own_notes(quote)}"
            if own_notes(quote)
            else "price derived from another quote, not quoted itself"
        )
    elif quote.confidence != "high":
        notes.append(f"price of {quote.confidence} confidence{f': {own_notes(quote)}' if own_notes(quote) else ''}")
    return Offer(instance=instance, quote=quote, price=UsdPerHour(quote.effective_unit_price), notes=tuple(notes))
