"""What a usage type of an AWS bill says: `EUC1-SpotUsage:g5.xlarge` is spot use of a g5.xlarge.

The prefix is the region's (us-east-1 has none, or USE1); it is not read, since bills state the region elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pricing.bills.model import BilledAs

USAGE_TYPE = re.compile(r"(?:[A-Z]{2,4}\d?-)?(?P<sort>[A-Za-z]+):(?P<type>[a-z][a-z0-9-]*\.[a-z0-9-]+)")
SORTS = {
    "BoxUsage": BilledAs.ON_DEMAND,
    "DedicatedUsage": BilledAs.ON_DEMAND,
    "UnusedBox": BilledAs.ON_DEMAND,  # a reservation of capacity that stands idle, at the on-demand price
    "UnusedDed": BilledAs.ON_DEMAND,
    "SpotUsage": BilledAs.SPOT,
    "HeavyUsage": BilledAs.RESERVED,  # hours of a reservation, used or not
    "CapacityBlockFee": BilledAs.CAPACITY_BLOCK,
}
BLOCK_FEE = "CapacityBlockFee"
BLOCK_OPERATION = "RunInstances:CB"
"""Hours in a Capacity Block: a BoxUsage at the fee of the operating system alone."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a usage type is about; both None where it is no machine's."""

    sort: str | None = None
    instance_type: str | None = None

    @property
    def billed_as(self) -> BilledAs | None:
        """How it is paid if no commitment covers it."""
        return SORTS.get(self.sort or "")


def usage_of(text: str | None) -> Usage:
    """Return what a usage type says of the use of a machine; nothing for storage, traffic and other services."""
    found = USAGE_TYPE.fullmatch(text or "")
    if found is None or found["sort"] not in SORTS:
        return Usage()
    return Usage(found["sort"], found["type"])


def billed_as(usage: Usage, *, operation: str | None, commitment: str | None) -> BilledAs | None:
    """Return how the use of a machine was paid. `commitment` is the kind or the id (ARN) of the one that covers it."""
    if usage.sort == BLOCK_FEE or (usage.sort is not None and (operation or "").startswith(BLOCK_OPERATION)):
        return BilledAs.CAPACITY_BLOCK
    if commitment:
        return committed_as(commitment)
    return usage.billed_as


def committed_as(commitment: str) -> BilledAs | None:
    """Return which commitment a kind or an id is of: "Compute Savings Plans", "arn:…:reserved-instances/…"."""
    folded = re.sub(r"[^a-z]", "", commitment.casefold())
    if "savingsplan" in folded:
        return BilledAs.SAVINGS_PLAN
    return BilledAs.RESERVED if "reserv" in folded else None
