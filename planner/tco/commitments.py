"""What a commitment costs per hour once its upfront payment is spread over the term."""

from __future__ import annotations

from decimal import Decimal

from pricing.money import HOURS_PER_YEAR, Usd, UsdPerHour


def effective_hourly(*, upfront: Usd, hourly: UsdPerHour, term_years: int) -> UsdPerHour:
    """Return USD per hour of the term: hourly + upfront / (8,760 x years), straight-line, no discounting.

    Example: 4,000 upfront and 0.21 an hour over 3 years is 0.21 + 4000/26280 = 0.362207.
    """
    return hourly + UsdPerHour(upfront.amount / term_hours(term_years))


def term_total(*, upfront: Usd, hourly: UsdPerHour, term_years: int) -> Usd:
    """Return what the whole term costs in USD, used or not."""
    return upfront + hourly.for_hours(term_hours(term_years))


def term_hours(term_years: int) -> Decimal:
    """Return the hours of a term (365-day years, as AWS counts them)."""
    if term_years < 1:
        raise ValueError(f"a term has at least one year, got {term_years!r}")
    return Decimal(HOURS_PER_YEAR * term_years)
