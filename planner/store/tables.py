"""The tables, typed. Column names are those of the JSON contract; enumerations are kept as their text.

A snapshot is never changed after it was written, so its quotes and types are keyed by (snapshot, position): what is read back
is what was written, in the same order.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import JSON, Date, Double, ForeignKey, Index, Integer, MetaData, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from planner.store.types import ExactDecimal, UtcDateTime

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""Names of constraints, so that a migration can drop what another one made, on every database."""


class Base(DeclarativeBase):
    """Base of the tables; says which column type a Python type becomes."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it as a plain class attribute
        str: Text,
        datetime: UtcDateTime,
        date: Date,
        Decimal: ExactDecimal,
        float: Double,
        dict[str, Any]: JSON,
    }


class SnapshotRow(Base):
    """One price snapshot: what it says of itself."""

    __tablename__ = "price_snapshots"

    snapshot_id: Mapped[str] = mapped_column(primary_key=True)
    as_of: Mapped[datetime]
    published_at: Mapped[datetime]
    origin: Mapped[str]
    quote_count: Mapped[int]
    instance_type_count: Mapped[int]


class SnapshotSourceRow(Base):
    """One source of a snapshot and the moment its figures are of."""

    __tablename__ = "price_snapshot_sources"

    snapshot_id: Mapped[str] = mapped_column(
        ForeignKey("price_snapshots.snapshot_id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    source: Mapped[str]
    kind: Mapped[str]
    as_of: Mapped[datetime]
    quotes: Mapped[int]


class QuoteRow(Base):
    """One quote of a snapshot. `position` is its place in the snapshot's own order."""

    __tablename__ = "price_quotes"
    __table_args__ = (Index("ix_price_quotes_lookup", "instance_type", "region", "purchase_option", "snapshot_id"),)

    snapshot_id: Mapped[str] = mapped_column(
        ForeignKey("price_snapshots.snapshot_id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    provider: Mapped[str]
    instance_type: Mapped[str]
    region: Mapped[str]
    availability_zone_id: Mapped[str | None]
    availability_zone: Mapped[str | None]
    purchase_option: Mapped[str]
    plan_type: Mapped[str | None]
    offering_class: Mapped[str | None]
    term_years: Mapped[int | None]
    payment_option: Mapped[str | None]
    currency: Mapped[str]
    unit: Mapped[str]
    list_unit_price: Mapped[Decimal | None]
    contracted_unit_price: Mapped[Decimal | None]
    upfront: Mapped[Decimal | None]
    effective_unit_price: Mapped[Decimal]
    source: Mapped[str]
    sku: Mapped[str | None]
    rate_code: Mapped[str | None]
    effective_from: Mapped[date | None]
    retrieved_at: Mapped[datetime]
    derived: Mapped[bool]
    at_on_demand_cap: Mapped[bool | None]
    confidence: Mapped[str]
    notes: Mapped[str]


class InstanceTypeRow(Base):
    """One instance type as a snapshot describes it."""

    __tablename__ = "instance_types"

    snapshot_id: Mapped[str] = mapped_column(
        ForeignKey("price_snapshots.snapshot_id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    provider: Mapped[str]
    instance_type: Mapped[str] = mapped_column(index=True)
    family: Mapped[str]
    vcpus: Mapped[int | None]
    memory_gib: Mapped[float | None]
    cpu_arch: Mapped[str | None]
    accelerator: Mapped[str | None]
    accelerator_kind: Mapped[str]
    device_count: Mapped[int]
    device_fraction: Mapped[float]
    device_memory_gib: Mapped[float | None]
    interconnect_kind: Mapped[str]
    interconnect_gb_s_bidirectional: Mapped[float | None]
    network_gbps: Mapped[float | None]
    efa_supported: Mapped[bool]
    local_nvme_gb: Mapped[float | None]
    capacity_block_only: Mapped[bool]
    confidence: Mapped[str]
    source: Mapped[str]
    retrieved_on: Mapped[date | None]
    notes: Mapped[str]


class SpotPoolRow(Base):
    """One pool whose spot price is followed: a type in a zone. `zone` is the zone's id, or its name where no id is known."""

    __tablename__ = "spot_pools"
    __table_args__ = (
        UniqueConstraint("provider", "region", "instance_type", "zone", "currency", name="uq_spot_pools_pool"),
    )

    pool_id: Mapped[int] = mapped_column(Integer, primary_key=True)
    provider: Mapped[str]
    region: Mapped[str]
    instance_type: Mapped[str]
    zone: Mapped[str]
    currency: Mapped[str]
    availability_zone_id: Mapped[str | None]
    availability_zone: Mapped[str | None]


class SpotPriceChangeRow(Base):
    """From `since` on, this price, until the pool's next row. Two prices at one instant are two rows; who reads takes the dearer one."""

    __tablename__ = "spot_price_changes"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012 - rows lie in the order of their key, and once

    pool_id: Mapped[int] = mapped_column(
        ForeignKey("spot_pools.pool_id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    since: Mapped[datetime] = mapped_column(primary_key=True)
    unit_price: Mapped[Decimal] = mapped_column(primary_key=True)


class SpotCoverageRow(Base):
    """Every change of a type's spot prices in a region is kept up to `known_until`, for it was asked for and the answer written down."""

    __tablename__ = "spot_coverage"

    provider: Mapped[str] = mapped_column(primary_key=True)
    region: Mapped[str] = mapped_column(primary_key=True)
    instance_type: Mapped[str] = mapped_column(primary_key=True)
    known_until: Mapped[datetime]


class RecommendationRow(Base):
    """One answer with what it was made from. `document` is the answer's JSON text as it was sent, to the byte.

    `snapshot_id` is no foreign key: an answer from a snapshot file that this database never saw is kept all the same.
    """

    __tablename__ = "recommendations"
    __table_args__ = (Index(None, "created_at"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime]
    planner_version: Mapped[str]
    snapshot_id: Mapped[str] = mapped_column(index=True)
    request: Mapped[dict[str, Any]]
    document: Mapped[str]
