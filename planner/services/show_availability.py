"""`show_availability`: what is known of getting a type in a region, as the document of `planner prices availability`.

None of it is a promise: offered is not "has capacity", a placement score is no interruption rate, and a quota says what an account
may start, not what there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from planner.ports import Document
from planner.services.list_history import SpotChanges, zone_names
from planner.services.list_prices import plain
from pricing.catalog import Catalog
from pricing.history import same_price
from pricing.market import CapacityBlock, PlacementScore, Quota, SpotStatistics, ZoneOffering
from pricing.model import InstanceType, PurchaseOption, Quote
from pricing.quotas import counts, groups_of, instances_possible, verdict

ZONE_FIELDS = (
    "availability_zone_id",
    "availability_zone",
    "offered",
    "spot_unit_price",
    "currency",
    "spot_at_on_demand_cap",
    "spot_retrieved_at",
    "source",
    "retrieved_at",
    "spot_since",
)
UNKNOWN_VCPUS = "not known: no table says how many vCPU one needs"


def show_availability(
    catalog: Catalog,
    instance_type: str,
    *,
    region: str,
    provider: str | None = None,
    kept: SpotChanges | None = None,
) -> Document:
    """Return `{instance_type, region, snapshot_id, as_of, zones[…], spot_statistics[…], interruption, placement_scores[…], capacity_blocks[…], quotas[…], quota_codes[…]}`.

    `zones` are those in which the type can be asked for and those that have a spot price; `offered` is null where no source was
    asked. `spot_at_on_demand_cap` is true where spot costs what on-demand costs: nothing is to be had. `spot_since` is the moment since
    when the spot price holds, where the changes that are `kept` tell it. `quota_codes` are the quotas that count the type, known whether
    the account was asked or not. `as_of` is the newest figure.
    """
    shape = catalog.instance_type(instance_type, None if provider is None else catalog.provider(provider))
    where = catalog.region(region)
    name, seller = shape.instance_type, shape.provider
    offerings = [z for z in catalog.zone_offerings(name, where) if z.provider == seller]
    spot = catalog.quotes(
        providers=[seller], instance_types=[name], regions=[where], purchase_options=[PurchaseOption.SPOT]
    )
    statistics = [s for s in catalog.spot_statistics(name, where) if s.provider == seller]
    blocks = [b for b in catalog.capacity_blocks(name, where) if b.provider == seller]
    scores = [s for s in catalog.placement_scores(where) if s.provider == seller and asked_for(s, name)]
    quotas = [q for q in catalog.quotas(where) if q.provider == seller and counts(q, shape.family)]
    interruption = catalog.interruption(name, where)
    dated: tuple[ZoneOffering | SpotStatistics | CapacityBlock | PlacementScore | Quota | Quote, ...] = (
        *offerings, *spot, *statistics, *blocks, *scores, *quotas,
    )  # fmt: skip
    return {
        "instance_type": name,
        "region": where,
        "snapshot_id": catalog.meta.snapshot_id,
        "as_of": plain(max((row.retrieved_at for row in dated), default=catalog.meta.as_of)),
        "zones": zones(offerings, spot, since_when(spot, kept, name, catalog)),
        "spot_statistics": [plainly(s) for s in statistics],
        "interruption": None if interruption is None else plainly(interruption),
        "placement_scores": [plainly(s) for s in scores],
        "capacity_blocks": [
            {**plainly(b), "unit_price": plain(b.unit_price)}
            for b in sorted(blocks, key=lambda b: (b.starts_at, b.instance_count, b.minutes, b.offering_id))
        ],
        "quotas": [quota(q, shape) for q in quotas],
        "quota_codes": [
            {"code": group.code, "purchase_option": group.purchase_option.value, "families": group.families}
            for group in (groups_of(shape.family) if seller == "aws" else ())
        ],
    }


def since_when(
    spot: Sequence[Quote], kept: SpotChanges | None, name: str, catalog: Catalog
) -> dict[tuple[str, str], datetime]:
    """Return since when the price of each pool (zone, currency) holds: its last change up to the quote, if that is to the price quoted."""
    if kept is None or not spot:
        return {}
    changes = kept.spot_changes(
        instance_type=name,
        region=spot[0].region,
        since=min(q.retrieved_at for q in spot),  # the changes in force then come with them
        until=catalog.meta.published_at,
        provider=spot[0].provider,
    )
    found: dict[tuple[str, str], datetime] = {}
    for quote in spot:
        before = [
            c
            for c in changes
            if c.currency == quote.currency
            and c.since <= quote.retrieved_at
            and not zone_names(c).isdisjoint(zone_names(quote))
            and (c.availability_zone_id or quote.availability_zone_id) == quote.availability_zone_id
        ]
        last = max(before, key=lambda c: c.since, default=None)
        if last is not None and same_price(last.unit_price, quote.effective_unit_price):
            found[place_of(quote), quote.currency] = last.since
    return found


def place_of(row: ZoneOffering | Quote) -> str:
    """Return the zone of a row: its id, or its name where no id is known."""
    return row.availability_zone_id or row.availability_zone or ""


def zones(
    offerings: list[ZoneOffering], spot: list[Quote], since: Mapping[tuple[str, str], datetime]
) -> list[Document]:
    """Return the zones by id, those that a source offers and those that only have a spot price."""
    found: dict[str, Document] = {}
    for zone in offerings:
        row = found.setdefault(place_of(zone), dict.fromkeys(ZONE_FIELDS))
        row |= {
            "availability_zone_id": zone.availability_zone_id,
            "availability_zone": zone.availability_zone,
            "offered": True,
            "source": zone.source,
            "retrieved_at": plain(zone.retrieved_at),
        }
    complete = bool(offerings)  # a source that was asked names every zone that offers the type
    for quote in sorted(spot, key=lambda q: q.retrieved_at):
        row = found.setdefault(place_of(quote), dict.fromkeys(ZONE_FIELDS))
        if row["offered"] is None:
            row |= {
                "availability_zone_id": quote.availability_zone_id,
                "availability_zone": quote.availability_zone,
                "offered": False if complete else None,
                "source": quote.source,
                "retrieved_at": plain(quote.retrieved_at),
            }
        row |= {
            "spot_unit_price": plain(quote.effective_unit_price),
            "currency": quote.currency,
            "spot_at_on_demand_cap": quote.at_on_demand_cap,
            "spot_retrieved_at": plain(quote.retrieved_at),
            "spot_since": plain(since.get((place_of(quote), quote.currency))),
        }
    return [found[name] for name in sorted(found)]


def asked_for(score: PlacementScore, name: str) -> bool:
    """Return whether a placement score is of types that include this one."""
    return name in {each.strip() for each in score.instance_types.split(",")}


def quota(each: Quota, shape: InstanceType) -> Document:
    """Return a quota with what one instance needs of it, how many it allows, and that in words."""
    document = plainly(each)
    return {
        **document,
        "vcpus_needed_for_one": shape.vcpus,
        "instances_possible": None if shape.vcpus is None else instances_possible(each, shape.vcpus),
        "verdict": UNKNOWN_VCPUS if shape.vcpus is None else verdict(each, shape.vcpus),
    }


def plainly(row: Any) -> Document:
    """Return the fields of a frozen value as plain JSON values."""
    return {f.name: plain(getattr(row, f.name)) for f in fields(row)}
