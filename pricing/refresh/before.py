"""What is known of the prices before a merge, looked up once for all its readings. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from pricing.checks import quote_key
from pricing.contents import SnapshotContents
from pricing.discounts import as_listed
from pricing.history import list_price, period_key
from pricing.model import PurchaseOption, Quote
from pricing.refresh.origin import Origin, Thing
from pricing.source import Scope

NOT_COUNTED = frozenset({PurchaseOption.CAPACITY_BLOCK})
"""Offers that come and go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The quotes by key, the last price of each history, and how many live prices there were."""

    quotes: Mapping[Thing, Quote]
    last: Mapping[Thing, tuple[datetime, Decimal]]
    live: Mapping[tuple[str, str, PurchaseOption], int]  # provider, region, purchase option

    def price_of(self, quote: Quote) -> Decimal | None:
        """Return the last list price of what a quote is a price of, in its currency and unit."""
        before = self.quotes.get(quote_key(quote))
        if before is None:
            return self.last.get(period_key(quote), (None, None))[1]
        if (before.currency, before.unit) != (quote.currency, quote.unit):
            return None
        return list_price(as_listed(before))

    def live_in(self, scope: Scope) -> Counter[PurchaseOption]:
        """Return how many live prices of each purchase option a scope had."""
        found: Counter[PurchaseOption] = Counter()
        for (provider, region, option), count in self.live.items():
            if provider == scope.provider and scope.region in (None, region) and option in scope.purchase_options:
                found[option] += count
        return found


def before_of(contents: SnapshotContents, origin: Origin) -> Before:
    """Return what is known of a snapshot's prices."""
    last: dict[Thing, tuple[datetime, Decimal]] = {}
    for period in contents.price_periods:
        key = period_key(period)
        if key not in last or period.last_seen > last[key][0]:
            last[key] = (period.last_seen, period.unit_price)
    live: Counter[tuple[str, str, PurchaseOption]] = Counter(
        (q.provider, q.region, q.purchase_option)
        for q in contents.quotes
        if q.purchase_option not in NOT_COUNTED and origin.live(q)
    )
    return Before(quotes={quote_key(q): q for q in contents.quotes}, last=last, live=live)
