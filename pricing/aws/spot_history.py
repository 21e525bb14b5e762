"""DescribeSpotPriceHistory read into the spot prices in effect, one a pool (zone and type).

A row says: from this time on, this price, until the pool's next row. The price in effect is therefore the newest row of the pool,
not the lowest and not the first. Rows come in any order, repeat across pages, and hold other systems' prices beside Linux.

Reference: AWS EC2 API, DescribeSpotPriceHistory; read 2026-11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from pricing.aws import replies
from pricing.errors import ReplyError
from pricing.model import PurchaseOption, Quote

SOURCE = "AWS DescribeSpotPriceHistory"
LINUX = "Linux/UNIX"
VPC_SUFFIX = " (Amazon VPC)"
"""Left over from EC2-Classic: the same pool at the same price under a second spelling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPrice:
    """One change of a pool's price."""

    instance_type: str
    availability_zone: str | None  # name; the same name is other hardware in another account
    availability_zone_id: str | None  # the same for every account; older replies lack it
    product: str
    amount: Decimal  # USD per hour
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotReading:
    """The price in effect of every pool, by type and zone; rows left out, by reason."""

    prices: tuple[SpotPrice, ...]
    excluded: Mapping[str, int]
    notes: tuple[str, ...]


def parse_spot_history(pages: Iterable[Any], *, at: datetime, product: str = LINUX) -> SpotReading:
    """Return the newest price of each pool that began no later than `at`.

    Two prices of one pool at one instant: the dearer one, with a note. A price of zero is a hole in the data and is left out.
    """
    changes: set[SpotPrice] = set()
    excluded: Counter[str] = Counter()
    for page in pages:
        for index, row in enumerate(replies.rows_of(page, "SpotPriceHistory", source=SOURCE)):
            change = parse_spot_row(row, where=f"row {index}")
            if change.product != product:
                excluded[f"product {change.product}"] += 1
            elif change.amount == 0:
                excluded["price of zero"] += 1
            elif change.since > at:
                excluded["starts later"] += 1
            elif change in changes:
                excluded["repeated"] += 1
            else:
                changes.add(change)
    ids = _zone_ids(changes)
    known = {
        replace(c, availability_zone_id=c.availability_zone_id or ids.get(c.availability_zone or "")) for c in changes
    }
    excluded["repeated"] += len(changes) - len(known)
    newest: dict[tuple[str, str], SpotPrice] = {}
    notes = set()
    for change in sorted(known, key=lambda c: (c.since, c.amount, c.availability_zone or "")):
        zone = change.availability_zone_id or change.availability_zone or ""
        pool = (change.instance_type, zone)
        before = newest.get(pool)
        if before is not None and before.since == change.since and before.amount != change.amount:
            notes.add(
                f"{change.instance_type} {zone}: two prices at {change.since.isoformat()}, the dearer one is used"
            )
        newest[pool] = change
    excluded["superseded"] = len(known) - len(newest)
    return SpotReading(
        prices=tuple(price for _, price in sorted(newest.items())),
        excluded={reason: count for reason, count in excluded.items() if count},
        notes=tuple(sorted(notes)),
    )


def parse_spot_row(row: Any, *, where: str) -> SpotPrice:
    """Return one row; both spellings of a product become one."""
    row = replies.mapping(row, source=SOURCE, where=where)
    name, zone_id = row.get("AvailabilityZone"), row.get("AvailabilityZoneId")
    if not name and not zone_id:
        raise ReplyError(source=SOURCE, where=where, why="has neither AvailabilityZone nor AvailabilityZoneId")
    return SpotPrice(
        instance_type=replies.text(row, "InstanceType", source=SOURCE, where=where),
        availability_zone=name or None,
        availability_zone_id=zone_id or None,
        product=replies.text(row, "ProductDescription", source=SOURCE, where=where).removesuffix(VPC_SUFFIX),
        amount=replies.price(row.get("SpotPrice"), source=SOURCE, where=f"{where} SpotPrice"),
        since=replies.instant(row.get("Timestamp"), source=SOURCE, where=f"{where} Timestamp"),
    )


def spot_quotes(reading: SpotReading, *, region: str, retrieved_at: datetime) -> tuple[Quote, ...]:
    """Return the quotes of a reading. `region` is the one that was asked: a Local Zone's name does not tell it."""
    return tuple(
        Quote(
            provider="aws",
            instance_type=price.instance_type,
            region=region,
            availability_zone_id=price.availability_zone_id,
            availability_zone=price.availability_zone,
            purchase_option=PurchaseOption.SPOT,
            currency="CNY"
            if region.startswith("cn-")
            else "USD",  # rows carry no currency; China's partition bills CNY
            list_unit_price=price.amount,
            effective_unit_price=price.amount,
            source=SOURCE,
            effective_from=price.since.date(),
            retrieved_at=retrieved_at,
        )
        for price in reading.prices
    )


def _zone_ids(changes: Iterable[SpotPrice]) -> dict[str, str]:
    """Return the id of each zone name, where rows state both: rows with and without the id are one pool."""
    ids: dict[str, str] = {}
    for change in changes:
        if change.availability_zone and change.availability_zone_id:
            first = ids.setdefault(change.availability_zone, change.availability_zone_id)
            if first != change.availability_zone_id:
                raise ReplyError(
                    source=SOURCE,
                    where=change.availability_zone,
                    why=f"is both {first} and {change.availability_zone_id}: rows of two accounts must not be mixed",
                )
    return ids
