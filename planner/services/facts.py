"""Facts turned into what the pure middle works on: offers from quotes, hardware from types, outcomes from `perf`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from planner.perf.hardware import UnknownChipFigure, hardware_of
from planner.perf.model import Hardware, Infeasible, RejectionReason
from planner.recommend.as_of import moment_of
from planner.recommend.model import InterruptionRisk, Offer, Rejection
from planner.recommend.offers import Terms, movement_note, offer_or_rejection
from planner.recommend.request import EstimateRequest, RecommendRequest, usd_rates
from planner.recommend.today import Today, as_they_stand
from planner.tco.assumptions import Assumptions
from pricing.catalog import Catalog
from pricing.market import CapacityBlock
from pricing.model import InstanceType, PurchaseOption, Quote

OPEN_BAND_HIGH_FRACTION = 1.0  # how a table writes a band without an upper edge (">20%")


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareSet:
    """Distinct hardware, and for each (provider, type) its place in it, or why it has none."""

    distinct: tuple[Hardware, ...]
    place: dict[tuple[str, str], int]
    unknown: dict[tuple[str, str], Infeasible]


def prices_today(
    request: RecommendRequest | EstimateRequest, quotes: Sequence[Quote], catalog: Catalog, now: datetime
) -> Today:
    """Return the quotes of a request as they stand: see `planner.recommend.today`. Blocks are read only where one is quoted."""
    quoted = {q.region for q in quotes if q.purchase_option is PurchaseOption.CAPACITY_BLOCK and q.sku is not None}
    blocks: list[CapacityBlock] = []
    for region in sorted(quoted):
        blocks += catalog.capacity_blocks_in(region)
    return as_they_stand(
        quotes,
        at=moment_of(request.prices_as_of, now=now, published_at=catalog.meta.published_at),
        published_at=catalog.meta.published_at,
        blocks=blocks,
        discounts=catalog.discounts,
        rates=usd_rates(request.usd_rate),
    )


def offers_of(
    types: Sequence[InstanceType],
    today: Today,
    *,
    regions_of: dict[str, tuple[str, ...]],
    options: Sequence[str],
    terms: Terms,
    catalog: Catalog,
    assumptions: Assumptions,
) -> tuple[list[Offer], list[Rejection]]:
    """Return the offer, or the reason for none, of every type x region x purchase option.

    `today` has the quotes of the asked options and on-demand; which others exist is asked of the catalog.
    """
    by_place: dict[tuple[str, str, str], list[Quote]] = {}
    for quote in today.quotes:
        by_place.setdefault((quote.provider, quote.instance_type, quote.region), []).append(quote)
    asked = {region for regions in regions_of.values() for region in regions}
    quoted = catalog.options_quoted_in(asked)
    offers: list[Offer] = []
    rejections: list[Rejection] = []
    for instance in types:
        for region in regions_of.get(instance.provider, ()):
            here = by_place.get((instance.provider, instance.instance_type, region), [])
            options_here = quoted.get((instance.provider, instance.instance_type, region), frozenset())
            elsewhere = (
                frozenset() if options_here else catalog.options_of(instance)
            )  # asked for only where there is none
            for option in dict.fromkeys(options):
                found = offer_or_rejection(
                    instance,
                    region,
                    PurchaseOption(option),
                    here,
                    quoted=options_here,
                    terms=terms,
                    elsewhere=elsewhere,
                    today=today,
                    discounts=catalog.discounts,
                )
                if isinstance(found, Rejection):
                    rejections.append(found)
                elif found.quote.purchase_option is PurchaseOption.SPOT:
                    offers.append(at_risk(found, catalog, assumptions))
                else:
                    offers.append(found)
    return offers, rejections


def at_risk(offer: Offer, catalog: Catalog, assumptions: Assumptions) -> Offer:
    """Return a spot offer with how often it is interrupted, and what its pool's last weeks say against today's price."""
    quote = offer.quote
    note = movement_note(quote, catalog.spot_statistics(quote.instance_type, quote.region))
    return dataclasses.replace(
        offer,
        interruption=risk_of(quote, catalog, assumptions),
        notes=offer.notes if note is None else (*offer.notes, note),
    )


def risk_of(quote: Quote, catalog: Catalog, assumptions: Assumptions) -> InterruptionRisk:
    """Return the interruption share of a type in a region: its band, the middle expected; an assumption where no source has one."""
    band = catalog.interruption(quote.instance_type, quote.region)
    if band is None or band.provider != quote.provider:
        share = assumptions.spot_interruption_fraction_per_month
        return InterruptionRisk(
            low_fraction=share / 2,
            fraction=share,
            high_fraction=min(0.99, share * 2),
            source=f"assumed {share:.0%} of instances a month: no source gives a band here",
            assumed=True,
        )
    high = band.monthly_high_fraction
    if high >= OPEN_BAND_HIGH_FRACTION:
        high = max(band.monthly_low_fraction, assumptions.spot_open_band_high_fraction)
    return InterruptionRisk(
        low_fraction=band.monthly_low_fraction,
        fraction=(band.monthly_low_fraction + high) / 2,
        high_fraction=high,
        source=f"interruption band {band.band} of instances a month, {band.retrieved_on.isoformat()}: {band.source}",
    )


def hardware_set(types: Sequence[InstanceType], catalog: Catalog) -> HardwareSet:
    """Return each distinct hardware once, so that `perf` is asked once about equal machines."""
    by_content: dict[str, int] = {}
    distinct: list[Hardware] = []
    place: dict[tuple[str, str], int] = {}
    unknown: dict[tuple[str, str], Infeasible] = {}
    for instance in types:
        key = (instance.provider, instance.instance_type)
        chip = None if instance.accelerator is None else catalog.accelerators.get(instance.accelerator)
        if chip is None:
            unknown[key] = Infeasible(
                reason=RejectionReason.ENGINE_UNSUPPORTED, detail="which chip does the work is not known"
            )
            continue
        try:
            hardware = hardware_of(instance, chip)
        except UnknownChipFigure as e:
            unknown[key] = Infeasible(reason=RejectionReason.LAYOUT_IMPOSSIBLE, detail=str(e))
            continue
        content = repr(hardware)
        if content not in by_content:
            by_content[content] = len(distinct)
            distinct.append(hardware)
        place[key] = by_content[content]
    return HardwareSet(distinct=tuple(distinct), place=place, unknown=unknown)
