"""Shapes of the answers about prices over time and what can be had."""

from __future__ import annotations

from pydantic import Field

from planner.api.shape import Money, Paged, Shape


class PricePeriodRow(Shape):
    """One list price and when it was seen first and last; `change_fraction` is against the period before of the same price."""

    region: str
    purchase_option: str
    plan_type: str | None
    offering_class: str | None
    term_years: int | None
    payment_option: str | None
    currency: str
    unit: str
    unit_price: Money
    first_seen: str
    last_seen: str
    change_fraction: float | None
    source: str
    listed: bool


class SpotChangeRow(Shape):
    """From `since` on, this spot price, until the zone's next change."""

    region: str
    availability_zone_id: str | None
    availability_zone: str | None
    currency: str
    unit_price: Money
    since: str


class SpotStatisticsRow(Shape):
    """How the spot price of a zone moved in a window, weighted by the time that each price held."""

    provider: str
    instance_type: str
    region: str
    availability_zone_id: str | None
    availability_zone: str | None
    currency: str
    window_start: str
    window_end: str
    observed_fraction: float
    changes: int
    last_unit_price: Money
    mean_unit_price: Money
    median_unit_price: Money
    p95_unit_price: Money
    minimum_unit_price: Money
    maximum_unit_price: Money
    volatility_fraction: float
    at_on_demand_cap_fraction: float | None
    source: str
    retrieved_at: str


class PriceHistory(Paged):
    """Prices of a type as they were seen, oldest first."""

    instance_type: str
    provider: str
    snapshot_id: str
    as_of: str
    periods: list[PricePeriodRow]
    spot_changes: list[SpotChangeRow]
    spot_statistics: list[SpotStatisticsRow]


class SnapshotMeant(Shape):
    """Which snapshot it is."""

    snapshot_id: str
    day: str
    published_at: str


class PriceKey(Shape):
    """What tells one price from another."""

    provider: str
    instance_type: str
    region: str
    availability_zone_id: str | None
    availability_zone: str | None
    purchase_option: str
    plan_type: str | None
    offering_class: str | None
    term_years: int | None
    payment_option: str | None
    currency: str
    unit: str


class ChangedPrice(PriceKey):
    """A price that moved."""

    old_unit_price: Money
    new_unit_price: Money
    change_fraction: float


class OneSidedPrice(PriceKey):
    """A price that one of two snapshots has."""

    unit_price: Money


class PriceDiff(Paged):
    """What two snapshots have unlike, the largest changes first."""

    from_: SnapshotMeant = Field(alias="from")
    to: SnapshotMeant
    changed: list[ChangedPrice]
    added: list[OneSidedPrice]
    removed: list[OneSidedPrice]
    unchanged: int


class SnapshotLine(Shape):
    """One kept snapshot."""

    snapshot_id: str
    day: str
    origin: str
    published_at: str
    as_of: str
    age_hours: int
    quotes: int
    instance_types: int
    bytes: int
    path: str = Field(description="name of its file")


class UnreadableFile(Shape):
    """A file among the snapshots that cannot be read."""

    path: str
    bytes: int
    why: str


class SnapshotList(Paged):
    """The snapshots that are kept, the one that answers use first."""

    snapshots: list[SnapshotLine]
    unreadable: list[UnreadableFile]


class ZoneRow(Shape):
    """A zone: whether the type is offered there (null: no source was asked), and what its spot costs."""

    availability_zone_id: str | None
    availability_zone: str | None
    offered: bool | None
    spot_unit_price: Money | None
    currency: str | None
    spot_at_on_demand_cap: bool | None
    spot_retrieved_at: str | None
    source: str | None
    retrieved_at: str | None
    spot_since: str | None


class InterruptionBand(Shape):
    """Share of spot instances that were interrupted in the last month."""

    provider: str
    instance_type: str
    region: str
    band: str
    monthly_low_fraction: float
    monthly_high_fraction: float
    savings_over_on_demand_fraction: float | None
    source: str
    retrieved_on: str


class PlacementScoreRow(Shape):
    """How likely a spot request of these types is to be met, 1 to 10."""

    provider: str
    instance_types: str
    region: str
    availability_zone_id: str | None
    target_capacity: int
    target_unit: str
    score: int
    source: str
    retrieved_at: str


class CapacityBlockRow(Shape):
    """A block that could be reserved; `unit_price` is per hour of one instance."""

    provider: str
    instance_type: str
    region: str
    availability_zone_id: str | None
    availability_zone: str | None
    offering_id: str
    instance_count: int
    starts_at: str
    ends_at: str
    minutes: int
    currency: str
    upfront: Money
    source: str
    retrieved_at: str
    unit_price: Money


class QuotaRow(Shape):
    """vCPUs that the account may run at once, and what that allows of this type."""

    provider: str
    region: str
    code: str
    name: str
    purchase_option: str
    families: str
    vcpus: float
    applied: bool
    source: str
    retrieved_at: str
    vcpus_needed_for_one: int | None
    instances_possible: int | None
    verdict: str


class QuotaCode(Shape):
    """A quota that counts the type, whether the account was asked for its value or not."""

    code: str
    purchase_option: str
    families: str


class Availability(Shape):
    """What is known of getting a type in a region; none of it is a promise."""

    instance_type: str
    region: str
    snapshot_id: str
    as_of: str
    zones: list[ZoneRow]
    spot_statistics: list[SpotStatisticsRow]
    interruption: InterruptionBand | None
    placement_scores: list[PlacementScoreRow]
    capacity_blocks: list[CapacityBlockRow]
    quotas: list[QuotaRow]
    quota_codes: list[QuotaCode]
