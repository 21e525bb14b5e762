"""`BilledLine`: one line of a bill, whoever exported it; and sums of one cost column.

The four costs are four answers to different questions and are never added to each other: billed is what an invoice asks for, effective
has payments for later use spread over that use, list is without any discount, contracted with the negotiated ones alone. Costs are
exact, in the billing currency, negative for credits. A figure that an export does not have is None, never zero.

Reference: FOCUS 1.2 (FinOps Open Cost and Usage Specification), column definitions; read 2026-11.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from pricing.money import WIDE


class CostColumn(StrEnum):
    """Which of the four costs is meant."""

    BILLED = "billed"
    EFFECTIVE = "effective"
    LIST = "list"
    CONTRACTED = "contracted"


class BilledAs(StrEnum):
    """How the use of a machine was paid. Bills do not say the term of a commitment on its use."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    SAVINGS_PLAN = "savings_plan"
    RESERVED = "reserved"
    CAPACITY_BLOCK = "capacity_block"


class ChargeCategory(StrEnum):
    """What sort of charge it is, in FOCUS's words."""

    USAGE = "Usage"
    PURCHASE = "Purchase"
    TAX = "Tax"
    CREDIT = "Credit"
    ADJUSTMENT = "Adjustment"


CORRECTION = "Correction"
"""The one charge class that there is: a line that corrects an earlier period's invoice."""
USED, UNUSED = "Used", "Unused"


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledLine:
    """One charge. Periods are half-open, UTC."""

    provider: str  # "aws", "azure", "gcp", …
    charge_period_start: datetime
    charge_period_end: datetime
    billing_currency: str
    billed_cost: Decimal | None
    effective_cost: Decimal | None
    list_cost: Decimal | None = None
    contracted_cost: Decimal | None = None
    pricing_quantity: Decimal | None = None
    pricing_unit: str | None = None
    consumed_quantity: Decimal | None = None
    consumed_unit: str | None = None
    service: str | None = None
    region: str | None = None
    availability_zone: str | None = None
    instance_type: str | None = None
    usage_type: str | None = None
    purchase_option: BilledAs | None = None  # None: not the use of a machine, or it cannot be told
    charge_category: ChargeCategory | None = None  # None: it cannot be told
    charge_class: str | None = None
    commitment_id: str | None = None
    commitment_status: str | None = None  # "Used" | "Unused": of the commitment that this line is about
    resource_id: str | None = None
    account: str | None = None  # that used it
    billing_account: str | None = None  # that is asked to pay
    tags: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    estimated: bool = False  # not invoiced yet: it may change
    source: str  # where it stands: "bill.csv:17"

    def cost(self, column: CostColumn) -> Decimal | None:
        """Return one of the costs."""
        found: Decimal | None = getattr(self, f"{column.value}_cost")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The sum of one cost column in one currency."""

    currency: str
    column: CostColumn
    amount: Decimal | None  # None: no line has the figure
    lines: int  # that are in the sum
    lines_without: int  # that do not have the figure: the sum is short of theirs
    lines_estimated: int


class Totals:
    """Sums of one cost column, by currency, line by line."""

    def __init__(self, column: CostColumn) -> None:
        self.column = column
        self._amounts: dict[str, Decimal] = defaultdict(Decimal)
        self._counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])

    def add(self, line: BilledLine) -> None:
        """Add a line to the sum of its currency."""
        cost, counts = line.cost(self.column), self._counts[line.billing_currency]
        counts[2] += line.estimated
        if cost is None:
            counts[1] += 1
            return
        self._amounts[line.billing_currency] = WIDE.add(self._amounts[line.billing_currency], cost)
        counts[0] += 1

    def by_currency(self) -> tuple[Total, ...]:
        """Return the sums so far, by currency."""
        return tuple(
            Total(currency=c, column=self.column, amount=self._amounts[c] if n[0] else None, lines=n[0], lines_without=n[1], lines_estimated=n[2])
            for c, n in sorted(self._counts.items())
        )  # fmt: skip


def totals(lines: Iterable[BilledLine], column: CostColumn) -> tuple[Total, ...]:
    """Return the sum of one cost column by currency; currencies are never added to each other."""
    sums = Totals(column)
    for line in lines:
        sums.add(line)
    return sums.by_currency()
