"""`SnapshotContents`: everything that a price snapshot holds, before it has an id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from pricing.market import (
    CapacityBlock,
    Discount,
    Notice,
    PlacementScore,
    PricePeriod,
    Quota,
    SpotStatistics,
    ZoneOffering,
)
from pricing.model import Accelerator, InstanceType, Interruption, PurchaseOption, Quote, Rate, SourceAge


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotContents:
    """Everything that a price snapshot holds, before it has an id."""

    accelerators: tuple[Accelerator, ...]
    aliases: Mapping[str, str]
    instance_types: tuple[InstanceType, ...]
    quotes: tuple[Quote, ...]
    rates: tuple[Rate, ...]
    interruptions: tuple[Interruption, ...]
    sources: tuple[SourceAge, ...]
    price_periods: tuple[PricePeriod, ...] = ()
    zone_offerings: tuple[ZoneOffering, ...] = ()
    capacity_blocks: tuple[CapacityBlock, ...] = ()
    spot_statistics: tuple[SpotStatistics, ...] = ()
    placement_scores: tuple[PlacementScore, ...] = ()
    quotas: tuple[Quota, ...] = ()
    notices: tuple[Notice, ...] = ()
    discounts: tuple[Discount, ...] = ()


KIND_OF_QUOTE = {PurchaseOption.ON_DEMAND: "on_demand", PurchaseOption.SPOT: "spot"}  # all others: commitment


def sources_of(
    *,
    accelerators: Iterable[Accelerator],
    instance_types: Iterable[InstanceType],
    quotes: Iterable[Quote],
    rates: Iterable[Rate],
    interruptions: Iterable[Interruption],
) -> Iterator[SourceAge]:
    """Yield each source by kind with the moment of its oldest figure (an age is never understated) and how many quotes it gave."""
    found: dict[tuple[str, str], list[datetime]] = defaultdict(list)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for quote in quotes:
        key = (KIND_OF_QUOTE.get(quote.purchase_option, "commitment"), quote.source)
        found[key].append(quote.retrieved_at)
        counts[key] += 1
    groups: tuple[tuple[str, Iterable[Accelerator | InstanceType | Rate | Interruption]], ...] = (
        ("specs", accelerators),
        ("specs", instance_types),
        ("storage", rates),
        ("interruption", interruptions),
    )
    for kind, things in groups:
        for thing in things:
            if thing.retrieved_on is not None:
                for source in thing.source.split("; "):  # a chip or a type can rest on several
                    found[kind, source].append(midnight(thing.retrieved_on))
    for (kind, source), moments in sorted(found.items()):
        yield SourceAge(source=source, kind=kind, as_of=min(moments), quotes=counts[kind, source])


def midnight(day: date) -> datetime:
    """Return the start of a day, UTC."""
    return datetime.combine(day, time(), tzinfo=UTC)
