"""What a source of prices is: asked about one region, it answers with a reading that says what it speaks for.

A source asks and reads; it decides nothing. What becomes of a reading (which rows it replaces, what is kept, what is flagged) is
decided in `pricing.merge`. A source raises `SourceFailed` when it has no complete answer: half an answer is never returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pricing.market import CapacityBlock, Notice, PlacementScore, Quota, SpotChange, ZoneOffering
from pricing.model import Accelerator, InstanceType, Interruption, PurchaseOption, Quote, Rate

ANY_TYPE = "any type"
"""Stands in `untold` for a row of which not even the type could be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One question: a region (None for sources that answer for all at once), the moment, and what is known already."""

    region: str | None
    at: datetime  # now, timezone-aware; prices that start later are not in effect
    chips: tuple[Accelerator, ...]  # the chip table, to read instance types with
    instance_types: frozenset[
        str
    ]  # types of the provider that the catalog describes; accelerated families are wanted as well
    spot_since: datetime | None = None  # spot changes before are known; None: as far back as the source goes
    on_answer: Callable[[], None] = lambda: None  # called after each page or part, for progress; may raise to stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a reading speaks for: rows of these tables, of this provider and region, are its to replace."""

    provider: str
    region: str | None  # None: every region
    tables: frozenset[str]  # names as in SnapshotContents, "spot_changes" for the history kept in the database
    purchase_options: frozenset[PurchaseOption] = frozenset()  # of quotes
    services: frozenset[str] = frozenset()  # of rates: "EBS", "S3", …


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReading:
    """Everything one source said to one `Ask`. Rows carry their own source text and time."""

    source: str  # name of the source as `--source` takes it: "price_list"
    scope: Scope
    retrieved_at: datetime
    published: str | None = None  # the publication or version that the provider states
    quotes: tuple[Quote, ...] = ()
    instance_types: tuple[InstanceType, ...] = ()
    rates: tuple[Rate, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    zone_offerings: tuple[ZoneOffering, ...] = ()
    capacity_blocks: tuple[CapacityBlock, ...] = ()
    placement_scores: tuple[PlacementScore, ...] = ()
    quotas: tuple[Quota, ...] = ()
    spot_changes: tuple[SpotChange, ...] = ()
    excluded: Mapping[str, int] = field(default_factory=dict)  # rows left out, by reason
    untold: frozenset[str] = (
        frozenset()
    )  # instance types of which a row could not be read or told: absence says nothing of them
    notices: tuple[
        Notice, ...
    ] = ()  # anything else worth saying: prices that could not be told, rows that could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source: its name, whether it is asked region by region, what it needs, and the function that asks it."""

    name: str
    provider: str = "aws"  # whose prices it gives
    regional: bool
    needs_credentials: bool
    default: bool  # asked without being named
    what: str  # in a line, for `--help`
    permissions: tuple[str, ...] = ()  # IAM actions
    read: Callable[[Ask], SourceReading]
