"""DescribeCapacityBlockOfferings read into blocks that could be reserved now, and the cheapest of each type and zone as a quote.

No price list has the price of a block (its rows are the system's fee, 0 for Linux). The offering states the fee of the whole block.
Blocks end at 11:30 UTC, so one can be shorter than the hours that were asked: the price of an hour is the fee over the time from
start to end. The two fields of duration are not used for that, as AWS documents the minutes as an addition to the hours and they
have been seen as the whole. Example: 1,485.63 USD for 2,833 minutes is 31.46 USD an hour; over the 48 hours asked it would be 30.95.

Asking costs nothing. An offering is of the moment, not held, and what is bought cannot be given back.

Reference: AWS EC2 API, DescribeCapacityBlockOfferings; Capacity Blocks for ML in the EC2 user guide; read 2026-11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pricing.aws import replies
from pricing.aws.instance_types import MOST_RESULTS, PATTERNS
from pricing.aws.paging import asked, pages
from pricing.aws.session import Aws
from pricing.errors import AccessDenied, ReplyError, SourceFailed
from pricing.market import CapacityBlock, Notice, NoticeKind
from pricing.model import PurchaseOption, Quote
from pricing.source import Ask, Scope, Source, SourceReading

NAME = "capacity_blocks"
SOURCE = "AWS DescribeCapacityBlockOfferings"
OPERATION = "describe_capacity_block_offerings"
USAGE_CLASS = "capacity-block"
DURATIONS_H = (24, 168)
"""A day and a week: the shortest block, and one at which a longer one's price shows. AWS sells 1 to 14 days, then whole weeks to 182 days."""
INSTANCES = 1
PAYMENT = "all_upfront"
"""How every block is paid, as the shipped rates say it too: one key of history for both."""
NOT_SOLD = frozenset({"Unsupported", "UnsupportedOperation", "InvalidInstanceType"})
"""A type that the region has no blocks of. Nothing is wrong with the question."""
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityBlocksReading:
    """Blocks by type, zone, start and id; rows left out, by reason; what else is to be said."""

    blocks: tuple[CapacityBlock, ...]
    excluded: Mapping[str, int]
    notes: tuple[str, ...]


def capacity_blocks_source(aws: Aws) -> Source:
    """Return the source of capacity blocks."""
    return Source(
        name=NAME,
        regional=True,
        needs_credentials=True,
        default=True,
        what="capacity blocks that could be reserved: a day and a week of one instance, with the fee",
        permissions=(
            "ec2:DescribeCapacityBlockOfferings",
            "ec2:DescribeInstanceTypes",
            "ec2:DescribeAvailabilityZones",
        ),
        read=lambda ask: read_capacity_blocks(aws, ask),
    )


def read_capacity_blocks(aws: Aws, ask: Ask) -> SourceReading:
    """Return a region's offerings of every type that is sold in blocks; SourceFailed unless every type was answered."""
    if ask.region is None:
        raise ValueError("capacity blocks are asked region by region")
    client = aws.client("ec2", ask.region)
    found: list[Any] = []
    excluded: Counter[str] = Counter()
    try:
        types = sold_in_blocks(client, on_answer=ask.on_answer)
    except ReplyError as e:
        raise SourceFailed(source=SOURCE, why=f"{ask.region}: {e.where}: {e.why}") from e
    for instance_type in types:
        try:
            for hours in DURATIONS_H:
                found += pages(
                    client,
                    OPERATION,
                    "CapacityBlockOfferings",
                    source=SOURCE,
                    on_answer=ask.on_answer,
                    InstanceType=instance_type,
                    InstanceCount=INSTANCES,
                    CapacityDurationHours=hours,
                )
        except SourceFailed as e:
            if not is_not_sold(e, instance_type):
                raise
            excluded["types without blocks in the region"] += 1
    notes: list[str] = []
    try:
        names = zone_names(found)
        ids = zone_ids(client, names, notes, on_answer=ask.on_answer) if names else {}
        reading = parse_capacity_blocks(found, region=ask.region, zone_ids=ids, retrieved_at=ask.at)
    except ReplyError as e:
        raise SourceFailed(source=SOURCE, why=f"{ask.region}: {e.where}: {e.why}") from e
    return SourceReading(
        source=NAME,
        scope=Scope(
            provider="aws",
            region=ask.region,
            tables=frozenset({"quotes", "capacity_blocks"}),
            purchase_options=frozenset({PurchaseOption.CAPACITY_BLOCK}),
        ),
        retrieved_at=ask.at,
        quotes=capacity_block_quotes(reading.blocks),
        capacity_blocks=reading.blocks,
        excluded=dict(excluded + Counter(reading.excluded)),
        notices=tuple(
            Notice(kind=NoticeKind.NOTE, source=NAME, subject=f"capacity blocks {ask.region}", detail=note)
            for note in (*notes, *reading.notes)
        ),
    )


def sold_in_blocks(client: Any, *, on_answer: Callable[[], None]) -> list[str]:
    """Return the accelerated types of a region that AWS says are sold in capacity blocks, by name."""
    answer = pages(
        client,
        "describe_instance_types",
        "InstanceTypes",
        source=SOURCE,
        on_answer=on_answer,
        Filters=[{"Name": "instance-type", "Values": list(PATTERNS)}],
        PaginationConfig={"PageSize": MOST_RESULTS},
    )
    found = set()
    for page in answer:
        for index, given in enumerate(replies.rows_of(page, "InstanceTypes", source=SOURCE)):
            row = replies.mapping(given, source=SOURCE, where=f"type {index}")
            if USAGE_CLASS in (row.get("SupportedUsageClasses") or ()):
                found.add(replies.text(row, "InstanceType", source=SOURCE, where=f"type {index}"))
    return sorted(found)


def is_not_sold(error: SourceFailed, instance_type: str) -> bool:
    """Return whether AWS said that it has no blocks of this type here, by its code or by naming the type in a wrong value."""
    response = getattr(error.__cause__, "response", None)
    said = response.get("Error", {}) if isinstance(response, Mapping) else {}
    code, message = str(said.get("Code", "")), str(said.get("Message", ""))
    return code in NOT_SOLD or (code == "InvalidParameterValue" and instance_type in message)


def zone_names(answer: Iterable[Any]) -> set[str]:
    """Return the names of the zones in an answer. Offerings state no ids."""
    found = set()
    for page in answer:
        for index, given in enumerate(replies.rows_of(page, "CapacityBlockOfferings", source=SOURCE)):
            row = replies.mapping(given, source=SOURCE, where=f"row {index}")
            found.add(replies.text(row, "AvailabilityZone", source=SOURCE, where=f"row {index}"))
    return found


def zone_ids(client: Any, names: set[str], notes: list[str], *, on_answer: Callable[[], None]) -> dict[str, str]:
    """Return this account's zone ids by name, for the same name is another zone in another account; none, with a note, when denied."""
    try:
        reply = asked(client, "describe_availability_zones", "AvailabilityZones", source=SOURCE)
    except AccessDenied as e:
        notes.append(f"zones have no ids: {e.why}")
        return {}
    on_answer()
    found = {}
    for index, given in enumerate(replies.rows_of(reply, "AvailabilityZones", source=SOURCE)):
        row = replies.mapping(given, source=SOURCE, where=f"zone {index}")
        name, zone_id = row.get("ZoneName"), row.get("ZoneId")
        if name in names and zone_id:
            found[str(name)] = str(zone_id)
    return found


def parse_capacity_blocks(
    answer: Iterable[Any], *, region: str, zone_ids: Mapping[str, str], retrieved_at: datetime
) -> CapacityBlocksReading:
    """Return each block once. A week's question can be answered with a block of the day's."""
    found: dict[str, CapacityBlock] = {}
    excluded: Counter[str] = Counter()
    notes = set()
    for page in answer:
        for index, given in enumerate(replies.rows_of(page, "CapacityBlockOfferings", source=SOURCE)):
            row = replies.mapping(given, source=SOURCE, where=f"row {index}")
            reason = left_out(row)
            if reason is not None:
                excluded[reason] += 1
                continue
            block = parse_capacity_block(
                row, region=region, zone_ids=zone_ids, retrieved_at=retrieved_at, where=f"row {index}"
            )
            if found.setdefault(block.offering_id, block) is not block:
                excluded["repeated"] += 1
            if not block.upfront:
                excluded["fee of zero"] += 1
                del found[block.offering_id]
            elif block.minutes not in durations_of(row):
                notes.add(
                    f"{block.instance_type} {block.offering_id}: lasts {block.minutes} minutes from start to end, which its "
                    "stated duration does not say; the time from start to end is used"
                )
    return CapacityBlocksReading(
        blocks=tuple(sorted(found.values(), key=_order)),
        excluded=dict(excluded),
        notes=tuple(sorted(notes)),
    )


def left_out(row: Mapping[str, Any]) -> str | None:
    """Return why an offering is no block of one type in one zone, None when it is."""
    if row.get("UltraserverType"):
        return "of a whole UltraServer"
    if len(row.get("CapacityBlockOfferingSegments") or ()) > 1:
        return "of several segments, each with a zone and a schedule of its own"
    if row.get("Tenancy", "default") != "default":
        return f"tenancy {row.get('Tenancy')}"
    return None


def parse_capacity_block(
    row: Mapping[str, Any], *, region: str, zone_ids: Mapping[str, str], retrieved_at: datetime, where: str
) -> CapacityBlock:
    """Return one block; minutes from its start to its end."""
    starts_at = replies.instant(row.get("StartDate"), source=SOURCE, where=f"{where} StartDate")
    ends_at = replies.instant(row.get("EndDate"), source=SOURCE, where=f"{where} EndDate")
    count = replies.whole(row, "InstanceCount", source=SOURCE, where=where)
    minutes = (ends_at - starts_at) // MINUTE
    if minutes <= 0 or count == 0:
        raise ReplyError(source=SOURCE, where=where, why=f"is of {count} instances for {minutes} minutes")
    zone = replies.text(row, "AvailabilityZone", source=SOURCE, where=where)
    return CapacityBlock(
        provider="aws",
        instance_type=replies.text(row, "InstanceType", source=SOURCE, where=where),
        region=region,
        availability_zone_id=zone_ids.get(zone),
        availability_zone=zone,
        offering_id=replies.text(row, "CapacityBlockOfferingId", source=SOURCE, where=where),
        instance_count=count,
        starts_at=starts_at,
        ends_at=ends_at,
        minutes=minutes,
        currency=replies.text(row, "CurrencyCode", source=SOURCE, where=where),
        upfront=replies.price(row.get("UpfrontFee"), source=SOURCE, where=f"{where} UpfrontFee"),
        source=SOURCE,
        retrieved_at=retrieved_at,
    )


def durations_of(row: Mapping[str, Any]) -> set[int]:
    """Return the minutes that the stated duration can mean: hours and minutes on top, minutes alone as the whole."""
    hours, minutes = row.get("CapacityBlockDurationHours"), row.get("CapacityBlockDurationMinutes")
    whole, more = (n if isinstance(n, int) else 0 for n in (hours, minutes))
    return {whole * 60 + more, more}


def capacity_block_quotes(blocks: Iterable[CapacityBlock]) -> tuple[Quote, ...]:
    """Return one quote a type and zone: the block with the cheapest hour of an instance, the soonest of equal ones.

    `upfront` is the fee of one instance for the whole block; `effective_unit_price` is that fee over its time.
    """
    cheapest: dict[tuple[str, str, str], CapacityBlock] = {}
    for block in sorted(blocks, key=_order):
        key = (block.instance_type, block.availability_zone_id or block.availability_zone or "", block.currency)
        if key not in cheapest or block.unit_price < cheapest[key].unit_price:
            cheapest[key] = block
    return tuple(
        Quote(
            provider=block.provider,
            instance_type=block.instance_type,
            region=block.region,
            availability_zone_id=block.availability_zone_id,
            availability_zone=block.availability_zone,
            purchase_option=PurchaseOption.CAPACITY_BLOCK,
            payment_option=PAYMENT,
            currency=block.currency,
            list_unit_price=block.unit_price,
            upfront=block.upfront / block.instance_count,
            effective_unit_price=block.unit_price,
            source=block.source,
            sku=block.offering_id,
            retrieved_at=block.retrieved_at,
            notes=(
                f"block of {block.minutes // 60} h {block.minutes % 60} min, {block.starts_at:%Y-%m-%d %H:%M} to "
                f"{block.ends_at:%Y-%m-%d %H:%M} UTC, paid at once; an offering of the moment, not held"
            ),
        )
        for _, block in sorted(cheapest.items())
    )


def _order(block: CapacityBlock) -> tuple[Any, ...]:
    zone = block.availability_zone_id or block.availability_zone or ""
    return block.instance_type, zone, block.starts_at, block.minutes, block.instance_count, block.offering_id
