"""Cost lines and what they add up to. Decimal throughout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from pricing.money import MICRO_USD, Usd


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One line of a bill: `usd` = quantity x unit price, rounded to a millionth of a dollar so that totals equal their lines."""

    name: str
    quantity: Decimal
    unit: str
    unit_price: Decimal  # USD per unit
    usd: Usd
    source: str

    @classmethod
    def of(cls, *, name: str, quantity: Decimal, unit: str, unit_price: Decimal, source: str) -> CostLine:
        """Return the line whose amount is quantity x unit price."""
        return cls(
            name=name,
            quantity=quantity,
            unit=unit,
            unit_price=unit_price,
            usd=Usd(quantity * unit_price).rounded(MICRO_USD),
            source=source,
        )


def total(lines: Iterable[CostLine]) -> Usd:
    """Return the sum of the lines, exactly."""
    amount = Usd(0)
    for line in lines:
        amount = amount + line.usd
    return amount
