"""How the record of list prices grows: each price seen either extends the period of that price or begins another.

Pure. A period says when a price was first and last seen, never when it began or ended: between two periods the change happened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import replace
from decimal import Decimal

from pricing.market import PricePeriod
from pricing.model import PurchaseOption, Quote
from pricing.money import HOURS_PER_YEAR

AS_ROUNDED = Decimal("0.000005")
"""Sources round prices to five decimals or more: two prices this near are one price, in any currency."""


SHEET = "price sheet "
"""How the source of an imported price begins."""


def period_key(row: PricePeriod | Quote) -> tuple[Hashable, ...]:
    """Return what tells the histories of two prices apart; prices of unlike currency or unit are no history of each other."""
    return (
        row.provider,
        row.instance_type,
        row.region,
        row.purchase_option,
        row.plan_type,
        row.offering_class,
        row.term_years,
        row.payment_option,
        row.currency,
        row.unit,
    )


def list_price(quote: Quote) -> Decimal | None:
    """Return the price of one unit at list, any upfront spread over the term; None where only a contracted price is known.

    1.00 an hour and 8,760 upfront for a year are 2.00.
    """
    if quote.contracted_unit_price is None:
        return quote.effective_unit_price
    if quote.list_unit_price is None or quote.upfront is None:
        return quote.list_unit_price
    if quote.term_years is None:
        return None
    return quote.list_unit_price + quote.upfront / (HOURS_PER_YEAR * quote.term_years)


def recorded(quote: Quote) -> bool:
    """Return whether a quote is a price that somebody lists: not spot, which has its own history, and not one that was worked out by a ratio."""
    return quote.purchase_option is not PurchaseOption.SPOT and not quote.derived


def extended(periods: Iterable[PricePeriod], quotes: Iterable[Quote]) -> tuple[PricePeriod, ...]:
    """Return the periods with every quote's list price seen at its `retrieved_at`; neither order of input changes the result.

    A price that is seen later, earlier or between two periods extends the neighbour with the same price or is a period of its own; so
    is a price that an imported sheet states, whatever its neighbours.
    One seen within a period of another price is left out: what was seen before and after it stands.
    """
    known: dict[tuple[Hashable, ...], list[PricePeriod]] = defaultdict(list)
    for period in periods:
        known[period_key(period)].append(period)
    seen: dict[tuple[Hashable, ...], list[PricePeriod]] = defaultdict(list)
    for quote in quotes:
        if recorded(quote) and (price := list_price(quote)) is not None:
            seen[period_key(quote)].append(_moment(quote, price))
    for key, moments in seen.items():
        history = sorted(known[key], key=_order)
        for moment in sorted(moments, key=_order):
            history = _with(history, moment)
        known[key] = history
    return tuple(period for history in known.values() for period in history)


def _with(history: list[PricePeriod], moment: PricePeriod) -> list[PricePeriod]:
    at = moment.first_seen
    before = [p for p in history if p.last_seen < at]
    after = [p for p in history if p.first_seen > at]
    if len(before) + len(after) < len(history):  # within a period
        return history
    if before and _continues(before[-1], moment):
        before[-1] = replace(before[-1], last_seen=at, source=moment.source)
        return [*before, *after]
    if after and _continues(after[0], moment):
        after[0] = replace(after[0], first_seen=at)
        return [*before, *after]
    return [*before, moment, *after]


def _continues(period: PricePeriod, moment: PricePeriod) -> bool:
    """Return whether a sighting is of the period's price. A sheet's is its own: taken out again, it takes no list price with it."""
    sheets = {source.partition(":")[0] for source in (period.source, moment.source) if source.startswith(SHEET)}
    both = period.source.startswith(SHEET) == moment.source.startswith(SHEET)
    return both and len(sheets) <= 1 and same_price(period.unit_price, moment.unit_price)


def same_price(one: Decimal, other: Decimal) -> bool:
    """Return whether two prices are one price, written with more or fewer decimals: 21.957642 and 21.95764."""
    return abs(one - other) <= AS_ROUNDED


def _moment(quote: Quote, price: Decimal) -> PricePeriod:
    return PricePeriod(
        provider=quote.provider,
        instance_type=quote.instance_type,
        region=quote.region,
        purchase_option=quote.purchase_option,
        plan_type=quote.plan_type,
        offering_class=quote.offering_class,
        term_years=quote.term_years,
        payment_option=quote.payment_option,
        currency=quote.currency,
        unit=quote.unit,
        unit_price=price,
        first_seen=quote.retrieved_at,
        last_seen=quote.retrieved_at,
        source=quote.source,
    )


def _order(period: PricePeriod) -> tuple[object, ...]:
    return period.first_seen, period.unit_price, period.source
