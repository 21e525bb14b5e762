"""What tells a price of one snapshot from that of another, and when it has moved: for the counts of a refresh and for a comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pricing.history import same_price
from pricing.model import Quote

KEY_FIELDS = (
    "provider",
    "instance_type",
    "region",
    "availability_zone_id",
    "availability_zone",
    "purchase_option",
    "plan_type",
    "offering_class",
    "term_years",
    "payment_option",
    "currency",
    "unit",
)
Key = tuple[Any, ...]


def key_of(quote: Quote) -> Key:
    """Return what tells a price from another. A zone is its id: its name is another zone for another account, and can be missing."""
    zone = quote.availability_zone_id or quote.availability_zone
    fields = (name for name in KEY_FIELDS if not name.startswith("availability_zone"))
    return (zone, *(getattr(quote, name) for name in fields))


def by_key(quotes: Iterable[Quote]) -> dict[Key, Quote]:
    """Return the quotes by what tells them apart; of several of one thing the one that is in effect last, then the one read last."""
    found: dict[Key, Quote] = {}
    for quote in quotes:
        key = key_of(quote)
        other = found.get(key)
        if other is None or newness(quote) > newness(other):
            found[key] = quote
    return found


def newness(quote: Quote) -> tuple[bool, Any, Any]:
    """Return what orders two quotes of one thing."""
    return (quote.effective_from is not None, quote.effective_from or quote.retrieved_at.date(), quote.retrieved_at)


def changes_between(before: Iterable[Quote], after: Iterable[Quote]) -> dict[str, int]:
    """Return how many prices are new, changed, withdrawn and unchanged, by what is paid: what `planner prices diff` lists."""
    old, new = by_key(before), by_key(after)
    both = old.keys() & new.keys()
    unchanged = sum(same_price(old[key].effective_unit_price, new[key].effective_unit_price) for key in both)
    return {
        "new": len(new.keys() - old.keys()),
        "changed": len(both) - unchanged,
        "withdrawn": len(old.keys() - new.keys()),
        "unchanged": unchanged,
    }
