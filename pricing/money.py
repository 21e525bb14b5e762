"""Money that refuses to add unlike things, and the hours that turn one period into another.

`Usd` is an amount, `UsdPerHour` a rate. Both hold an exact `Decimal`; neither accepts a binary float (see `from_measured`,
the one place where a measured float meets money). Rounding happens when a figure is rendered, never before.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

HOURS_PER_MONTH = 730
"""Hours in a billing month, as cloud price calculators use it (8,760 / 12)."""

HOURS_PER_YEAR = 8760
"""Hours in a year of 365 days, as reservations and Savings Plans use it."""

CENT = Decimal("0.01")
MICRO_USD = Decimal("0.000001")
WIDE = Context(prec=400, rounding=ROUND_HALF_EVEN)
"""Sums and roundings of what can be large; `quantized` takes a wider one where even that is too narrow."""


def quantized(amount: Decimal, quantum: Decimal) -> Decimal:
    """Return a finite amount rounded half-even to a quantum, however large it is: rounding never fails."""
    digits = amount.adjusted() - quantum.adjusted() + 2
    context = WIDE if digits <= WIDE.prec else Context(prec=digits, rounding=ROUND_HALF_EVEN)
    return amount.quantize(quantum, context=context)


def _exact(value: Decimal | int | str) -> Decimal:
    if isinstance(value, float):
        raise TypeError("money is built from Decimal, int or text, not from a binary float: use from_measured()")
    number = Decimal(value)
    if not number.is_finite():
        raise ValueError(f"money must be finite, got {value!r}")
    return number


def from_measured(value: float) -> Decimal:
    """Return the shortest decimal that reads back as `value`: the one door from measured floats into money arithmetic."""
    number = Decimal(repr(float(value)))
    if not number.is_finite():
        raise ValueError(f"a measured quantity must be finite to be priced, got {value!r}")
    return number


@dataclass(frozen=True, slots=True, order=True)
class Usd:
    """An amount in US dollars, exact."""

    amount: Decimal

    def __init__(self, amount: Decimal | int | str) -> None:
        object.__setattr__(self, "amount", _exact(amount))

    def __add__(self, other: Usd) -> Usd:
        return Usd(self.amount + other.amount) if isinstance(other, Usd) else NotImplemented

    def __sub__(self, other: Usd) -> Usd:
        return Usd(self.amount - other.amount) if isinstance(other, Usd) else NotImplemented

    def __mul__(self, factor: Decimal | int) -> Usd:
        return Usd(self.amount * factor) if isinstance(factor, (Decimal, int)) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, divisor: Decimal | int) -> Usd:
        return Usd(self.amount / divisor) if isinstance(divisor, (Decimal, int)) else NotImplemented

    def rounded(self, quantum: Decimal = MICRO_USD) -> Usd:
        """Return the amount rounded half-even to `quantum` (a millionth of a dollar unless told)."""
        return Usd(quantized(self.amount, quantum))

    def __str__(self) -> str:
        return f"{self.amount:f}"


@dataclass(frozen=True, slots=True, order=True)
class UsdPerHour:
    """A rate in US dollars per hour, exact."""

    amount: Decimal

    def __init__(self, amount: Decimal | int | str) -> None:
        object.__setattr__(self, "amount", _exact(amount))

    def __add__(self, other: UsdPerHour) -> UsdPerHour:
        return UsdPerHour(self.amount + other.amount) if isinstance(other, UsdPerHour) else NotImplemented

    def __mul__(self, factor: Decimal | int) -> UsdPerHour:
        return UsdPerHour(self.amount * factor) if isinstance(factor, (Decimal, int)) else NotImplemented

    __rmul__ = __mul__

    def for_hours(self, hours: Decimal | int) -> Usd:
        """Return what `hours` of this rate cost."""
        return Usd(self.amount * hours)

    def __str__(self) -> str:
        return f"{self.amount:f}"
