"""What is known of the market besides quotes and rates.

Where a type is offered, how its spot price moved, what an account may start, what was agreed in private, which prices held when,
and what the making of a snapshot has to say.

Frozen values like those of `pricing.model`. Money is `Decimal` in the stated currency per hour of one instance; times are timezone-aware, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from pricing.model import PurchaseOption


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneOffering:
    """A zone in which a type can be asked for. Offered is not "has capacity"."""

    provider: str
    instance_type: str
    region: str
    availability_zone_id: str | None
    availability_zone: str | None = None
    source: str
    retrieved_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityBlock:
    """One block that could be reserved: whole instances for a fixed window, the fee paid at once."""

    provider: str
    instance_type: str
    region: str
    availability_zone_id: str | None = None
    availability_zone: str | None = None
    offering_id: str
    instance_count: int
    starts_at: datetime
    ends_at: datetime
    minutes: int  # how long it really lasts: blocks end at 11:30 UTC, so this can differ from the hours asked
    currency: str = "USD"
    upfront: Decimal  # of the whole block
    source: str
    retrieved_at: datetime

    @property
    def unit_price(self) -> Decimal:
        """Return the fee per hour of one instance."""
        return self.upfront * 60 / (self.instance_count * self.minutes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotChange:
    """From `since` on, this price, until the pool's next change. A pool is a type in a zone."""

    provider: str
    instance_type: str
    region: str
    availability_zone_id: str | None  # the same for every account; older replies lack it
    availability_zone: str | None  # the same name is other hardware in another account
    currency: str = "USD"
    unit_price: Decimal
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotStatistics:
    """How the spot price of one pool moved in a window. Every statistic is weighted by the time that a price held."""

    provider: str
    instance_type: str
    region: str
    availability_zone_id: str | None
    availability_zone: str | None = None
    currency: str = "USD"
    window_start: datetime
    window_end: datetime
    observed_fraction: float  # share of the window in which the price is known
    changes: int  # within the window
    last_unit_price: Decimal
    mean_unit_price: Decimal
    median_unit_price: Decimal
    p95_unit_price: Decimal
    minimum_unit_price: Decimal
    maximum_unit_price: Decimal
    volatility_fraction: float  # standard deviation of the price over its mean
    at_on_demand_cap_fraction: (
        float | None
    )  # share of the known time at or above the on-demand price; None: no on-demand price is known
    source: str
    retrieved_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementScore:
    """How likely a spot request is to be met, 1 to 10. Not a promise and not an interruption rate."""

    provider: str
    instance_types: str  # those asked together, comma-separated: the score is theirs, not one type's
    region: str
    availability_zone_id: str | None
    target_capacity: int
    target_unit: str  # "units" (instances) | "vcpu" | "memory-mib"
    score: int
    source: str
    retrieved_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How many vCPUs of some families an account may run at once in a region."""

    provider: str
    region: str
    code: str  # "L-417A185B"
    name: str
    purchase_option: PurchaseOption  # on_demand or spot
    families: str  # prefixes of the families that it counts, comma-separated: "p2,p3,p4"
    vcpus: float
    applied: bool  # False: the default of every account, as this one never had a value of its own
    source: str
    retrieved_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePeriod:
    """One list price and the first and last moment at which it was seen. Between two periods the change happened, it is not known when."""

    provider: str
    instance_type: str
    region: str
    purchase_option: PurchaseOption
    plan_type: str | None = None
    offering_class: str | None = None
    term_years: int | None = None
    payment_option: str | None = None
    currency: str = "USD"
    unit: str
    unit_price: Decimal  # effective at list price, per `unit`
    first_seen: datetime
    last_seen: datetime
    source: str


class NoticeKind(StrEnum):
    """What sort of thing a refresh or an import has to say."""

    EXCLUDED = "excluded"  # rows left out, by reason, with their count
    UNRESOLVED = "unresolved"  # a price that could not be told: none or several left
    PRICE_JUMP = "price_jump"  # moved by more than the stated share
    WITHDRAWN = "withdrawn"  # a complete list no longer has it
    VANISHED_FAMILY = "vanished_family"  # every type of a family is gone from a region
    KEPT = "kept"  # a source failed: its last good figures stay, with their age
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing that the making of a snapshot has to say; kept in it, so it is never lost."""

    kind: NoticeKind
    source: str
    subject: str  # "p5.48xlarge us-east-1 on_demand", "capacitystatus AllocatedCapacityReservation", …
    detail: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Discount:
    """One line of a private agreement: a share off the list price, or a negotiated price. None in a selector means any.

    Exactly one of `percent_off` and `unit_price` is set. The most exact line wins; see `pricing.discounts`.
    """

    provider: str
    agreement: str  # how the user calls it: "EDP 2026"
    purchase_option: PurchaseOption | None = None
    region: str | None = None
    family: str | None = None
    instance_type: str | None = None
    sku: str | None = None
    percent_off: Decimal | None = None
    unit_price: Decimal | None = None  # per hour of one instance, upfront none
    currency: str = "USD"
    starts_on: date | None = None
    ends_on: date | None = None  # the last day on which it holds
    source: str  # file name and place in it
