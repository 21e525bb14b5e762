"""DescribeInstanceTypeOfferings read into `ZoneOffering`: the zones in which a type can be asked for. That is no promise of capacity.

Zones are named by their id: the same name (us-east-1a) is other hardware in another account. Names come from DescribeAvailabilityZones,
which also tells zones of a region from Local Zones and Wavelength. Nothing is filtered: a region has about five pages of 1,000.

Reference: AWS EC2 API, DescribeInstanceTypeOfferings and DescribeAvailabilityZones; read 2026-11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pricing.aws import replies
from pricing.aws.instance_types import NOT_WANTED, is_wanted
from pricing.aws.paging import asked, pages
from pricing.aws.session import Aws
from pricing.errors import ReplyError
from pricing.market import Notice, NoticeKind, ZoneOffering
from pricing.source import Ask, Scope, Source, SourceReading

NAME = "offerings"
SOURCE = "AWS DescribeInstanceTypeOfferings"
ZONES = "AWS DescribeAvailabilityZones"
LOCATION_TYPE = "availability-zone-id"
OF_THE_REGION = "availability-zone"
MOST_RESULTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One zone of a region, or hung on to it."""

    name: str | None  # in this account
    sort: str  # "availability-zone" of the region itself, "local-zone", "wavelength-zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferingsReading:
    """Where the wanted types are offered, by type and zone; rows left out, by reason."""

    offerings: tuple[ZoneOffering, ...]
    excluded: Mapping[str, int]
    unreadable: tuple[ReplyError, ...]


def offerings_source(aws: Aws) -> Source:
    """Return the source of the zones that offer a type."""
    return Source(
        name=NAME,
        regional=True,
        needs_credentials=True,
        default=True,
        what="zones in which each type is offered",
        permissions=("ec2:DescribeInstanceTypeOfferings", "ec2:DescribeAvailabilityZones"),
        read=lambda ask: read_offerings(aws, ask),
    )


def read_offerings(aws: Aws, ask: Ask) -> SourceReading:
    """Return the zones of a region in which each wanted type is offered."""
    if ask.region is None:
        raise ValueError("offerings are asked region by region")
    client = aws.client("ec2", ask.region)
    zones = parse_zones(
        asked(client, "describe_availability_zones", "AvailabilityZones", source=ZONES, AllAvailabilityZones=True)
    )
    ask.on_answer()
    found = parse_offerings(
        pages(
            client,
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            source=SOURCE,
            on_answer=ask.on_answer,
            LocationType=LOCATION_TYPE,
            PaginationConfig={"PageSize": MOST_RESULTS},
        ),
        zones=zones,
        region=ask.region,
        known=ask.instance_types,
        retrieved_at=ask.at,
    )
    return SourceReading(
        source=NAME,
        scope=Scope(provider="aws", region=ask.region, tables=frozenset({"zone_offerings"})),
        retrieved_at=ask.at,
        zone_offerings=found.offerings,
        excluded=found.excluded,
        notices=tuple(
            Notice(kind=NoticeKind.UNRESOLVED, source=NAME, subject=f"{e.where} {ask.region}", detail=e.why)
            for e in found.unreadable
        ),
    )


def parse_zones(page: Any) -> dict[str, Zone]:
    """Return the zones of a region by their ids."""
    zones: dict[str, Zone] = {}
    for index, given in enumerate(replies.rows_of(page, "AvailabilityZones", source=ZONES)):
        row = replies.mapping(given, source=ZONES, where=f"row {index}")
        zone_id, name, sort = row.get("ZoneId"), row.get("ZoneName"), row.get("ZoneType")
        if zone_id:  # without an id it names no zone of ours, and the offering does without its name
            zones[zone_id] = Zone(name=name or None, sort=sort or OF_THE_REGION)  # older replies have no ZoneType
    return zones


def parse_offerings(
    answer: Iterable[Any], *, zones: Mapping[str, Zone], region: str, known: Container[str], retrieved_at: datetime
) -> OfferingsReading:
    """Return each wanted type in each zone of the region, once. A zone that is not listed is kept, without a name."""
    found: dict[tuple[str, str], ZoneOffering] = {}
    excluded: Counter[str] = Counter()
    unreadable: list[ReplyError] = []
    for page in answer:
        for index, given in enumerate(replies.rows_of(page, "InstanceTypeOfferings", source=SOURCE)):
            try:
                name, zone_id = _offered(given, where=f"row {index}")
            except ReplyError as e:
                unreadable.append(e)
                continue
            zone = zones.get(zone_id, Zone(name=None, sort=OF_THE_REGION))
            if not is_wanted(name, known):
                excluded[NOT_WANTED] += 1
            elif zone.sort != OF_THE_REGION:
                excluded[f"{zone.sort}, not a zone of the region"] += 1
            elif (name, zone_id) in found:
                excluded["repeated across pages"] += 1
            else:
                found[name, zone_id] = ZoneOffering(
                    provider="aws",
                    instance_type=name,
                    region=region,
                    availability_zone_id=zone_id,
                    availability_zone=zone.name,
                    source=SOURCE,
                    retrieved_at=retrieved_at,
                )
    if unreadable:
        excluded["cannot be read"] = len(unreadable)
    return OfferingsReading(
        offerings=tuple(row for _, row in sorted(found.items())),
        excluded=dict(excluded),
        unreadable=tuple(unreadable),
    )


def _offered(given: Any, *, where: str) -> tuple[str, str]:
    """Return type and zone id of one row."""
    row = replies.mapping(given, source=SOURCE, where=where)
    name = replies.text(row, "InstanceType", source=SOURCE, where=where)
    zone_id = replies.text(row, "Location", source=SOURCE, where=where)
    if row.get("LocationType", LOCATION_TYPE) != LOCATION_TYPE:
        why = f"is of the sort {row['LocationType']}, and zone ids were asked for"
        raise ReplyError(source=SOURCE, where=f"{where} {zone_id}", why=why)
    return name, zone_id
