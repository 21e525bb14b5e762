"""Prices in another currency than USD (the China partition's are in CNY): kept as they are, converted only at a stated rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from pricing.errors import CurrencyError
from pricing.model import Quote


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRate:
    """How many units of a currency one USD is worth, who says so, and of which day."""

    currency: str  # ISO 4217, e.g. "CNY"
    per_usd: Decimal
    source: str
    as_of: date

    def __post_init__(self) -> None:
        if not self.per_usd.is_finite() or self.per_usd <= 0:
            raise CurrencyError(f"an exchange rate is a positive number of {self.currency} per USD, not {self.per_usd}")


def in_usd(quote: Quote, rate: ExchangeRate) -> Quote:
    """Return the quote in USD, marked derived, with the rate in its notes; refuses a rate of another currency."""
    if quote.currency != rate.currency:
        raise CurrencyError(
            f"{quote.instance_type} {quote.region}: quoted in {quote.currency}, the rate is for {rate.currency}"
        )

    def converted(amount: Decimal | None) -> Decimal | None:
        return None if amount is None else amount / rate.per_usd

    note = (
        f"{quote.effective_unit_price.normalize():f} {quote.currency} at {rate.per_usd.normalize():f} {rate.currency} "
        f"per USD ({rate.source}, {rate.as_of.isoformat()})"
    )
    return replace(
        quote,
        currency="USD",
        list_unit_price=converted(quote.list_unit_price),
        contracted_unit_price=converted(quote.contracted_unit_price),
        upfront=converted(quote.upfront),
        effective_unit_price=quote.effective_unit_price / rate.per_usd,
        derived=True,
        notes=f"{quote.notes}; {note}" if quote.notes else note,
    )
