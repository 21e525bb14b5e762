"""DescribeSpotPriceHistory read into every change of a spot price, and the price in effect of each pool (zone and type).

A row says: from this time on, this price, until the pool's next row. The price in effect is therefore the newest row of the pool,
not the lowest and not the first. Rows come in any order, repeat across pages, and hold other systems' prices beside Linux.
The answer goes back to 90 days and has the last change before its start as well, so no pool is without a price.

Reference: AWS EC2 API, DescribeSpotPriceHistory; read 2026-11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any

from pricing.aws import replies
from pricing.aws.instance_types import ACCELERATED, PATTERNS
from pricing.aws.paging import pages
from pricing.aws.session import Aws
from pricing.errors import ReplyError, SourceFailed
from pricing.market import Notice, NoticeKind, SpotChange
from pricing.model import PurchaseOption, Quote
from pricing.source import Ask, Scope, Source, SourceReading
from pricing.spot_statistics import SOURCE

NAME = "spot"
OPERATION = "describe_spot_price_history"
PERMISSION = "ec2:DescribeSpotPriceHistory"
LINUX = "Linux/UNIX"
VPC_SUFFIX = " (Amazon VPC)"
"""Left over from EC2-Classic: the same pool at the same price under a second spelling."""
KEPT_FOR = timedelta(days=90)
"""How far back AWS answers."""
OVERLAP = timedelta(hours=6)
"""Asked again although it is known: a row that came late would be missed for ever. Changes are recorded once however often they are read."""
ROWS_A_PAGE = 1000
FILTER_VALUES = 200
"""Most values that AWS takes in one filter."""
NOT_WANTED = "not a type we plan with"
CHEAPER_TWIN = "the cheaper of two prices at one instant"


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
    """Every change and the price in effect of every pool, by type, zone and time; rows left out, by reason."""

    changes: tuple[SpotPrice, ...]
    prices: tuple[SpotPrice, ...]
    excluded: Mapping[str, int]
    notes: tuple[str, ...]


def spot_source(aws: Aws) -> Source:
    """Return the source of spot prices."""
    return Source(
        name=NAME,
        regional=True,
        needs_credentials=True,
        default=True,
        what="Linux spot prices by zone: those in effect, and every change of up to 90 days",
        permissions=(PERMISSION,),
        read=lambda ask: read_spot(aws, ask),
    )


def read_spot(aws: Aws, ask: Ask) -> SourceReading:
    """Return a region's spot prices in effect and their changes since `ask.spot_since`, or of 90 days; every page or SourceFailed."""
    if ask.region is None:
        raise ValueError("spot prices are asked region by region")
    client = aws.client("ec2", ask.region)
    found: list[Any] = []
    for asked in questions(ask):
        found += pages(client, OPERATION, "SpotPriceHistory", source=SOURCE, on_answer=ask.on_answer, **asked)
    try:
        reading = parse_spot_history(
            found,
            at=ask.at,
            wanted=lambda name: name in ask.instance_types or ACCELERATED.match(name) is not None,
        )
    except ReplyError as e:
        raise SourceFailed(source=SOURCE, why=f"{ask.region}: {e.where}: {e.why}") from e
    return SourceReading(
        source=NAME,
        scope=Scope(
            provider="aws",
            region=ask.region,
            tables=frozenset({"quotes", "spot_changes"}),
            purchase_options=frozenset({PurchaseOption.SPOT}),
        ),
        retrieved_at=ask.at,
        quotes=spot_quotes(reading, region=ask.region, retrieved_at=ask.at),
        spot_changes=spot_changes(reading, region=ask.region),
        excluded=reading.excluded,
        notices=tuple(
            Notice(kind=NoticeKind.NOTE, source=NAME, subject=f"spot prices {ask.region}", detail=note)
            for note in reading.notes
        ),
    )


def questions(ask: Ask) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each question: the types we plan with, as many at once as a filter takes.

    Known types are named beside the patterns: where a wildcard were taken literally it would match nothing, and they still do.
    """
    earliest = ask.at - KEPT_FOR
    since = earliest if ask.spot_since is None else max(earliest, min(ask.spot_since, ask.at) - OVERLAP)
    names = sorted(name for name in ask.instance_types if "." in name and " " not in name)  # no UltraServers
    for values in _batches((*PATTERNS, *names), FILTER_VALUES):
        yield {
            "ProductDescriptions": [LINUX, LINUX + VPC_SUFFIX],  # Windows, Red Hat, SUSE: their fee is in the price
            "StartTime": since,
            "EndTime": ask.at,
            "Filters": [{"Name": "instance-type", "Values": values}],
            "PaginationConfig": {"PageSize": ROWS_A_PAGE},
        }


def parse_spot_history(
    answer: Iterable[Any], *, at: datetime, product: str = LINUX, wanted: Callable[[str], bool] = lambda _: True
) -> SpotReading:
    """Return the changes that began no later than `at`, and the newest price of each pool.

    Two prices of one pool at one instant: the dearer one, with a note. A price of zero is a hole in the data and is left out.
    """
    found: set[SpotPrice] = set()
    excluded: Counter[str] = Counter()
    for page in answer:
        for index, row in enumerate(replies.rows_of(page, "SpotPriceHistory", source=SOURCE)):
            change = parse_spot_row(row, where=f"row {index}")
            if change.product != product:
                excluded[f"product {change.product}"] += 1
            elif not wanted(change.instance_type):
                excluded[NOT_WANTED] += 1
            elif change.amount == 0:
                excluded["price of zero"] += 1
            elif change.since > at:
                excluded["starts later"] += 1
            elif change in found:
                excluded["repeated"] += 1
            else:
                found.add(change)
    ids = _zone_ids(found)
    known = {
        c if c.availability_zone_id else replace(c, availability_zone_id=ids.get(c.availability_zone or ""))
        for c in found
    }
    excluded["repeated"] += len(found) - len(known)
    changes: list[SpotPrice] = []
    newest: list[SpotPrice] = []
    notes = []
    for (instance_type, zone), pool in groupby(sorted(known, key=_by_pool_and_time), key=_pool):
        of_pool: list[SpotPrice] = []
        for change in pool:
            if of_pool and of_pool[-1].since == change.since:
                twin = of_pool.pop()
                excluded[CHEAPER_TWIN if twin.amount != change.amount else "repeated"] += 1
                if twin.amount != change.amount:
                    notes.append(f"{instance_type} {zone}: two prices at {change.since.isoformat()}, the dearer one is used")  # fmt: skip
            of_pool.append(change)
        changes += of_pool
        newest.append(of_pool[-1])
    return SpotReading(
        changes=tuple(changes),
        prices=tuple(newest),
        excluded={reason: count for reason, count in excluded.items() if count},
        notes=tuple(sorted(set(notes))),
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
            currency=billed_in(region),
            list_unit_price=price.amount,
            effective_unit_price=price.amount,
            source=SOURCE,
            effective_from=price.since.date(),
            retrieved_at=retrieved_at,
        )
        for price in reading.prices
    )


def spot_changes(reading: SpotReading, *, region: str) -> tuple[SpotChange, ...]:
    """Return every change of a reading, by type, zone and time; `region` is the one that was asked."""
    currency = billed_in(region)
    return tuple(
        SpotChange(
            provider="aws",
            instance_type=price.instance_type,
            region=region,
            availability_zone_id=price.availability_zone_id,
            availability_zone=price.availability_zone,
            currency=currency,
            unit_price=price.amount,
            since=price.since,
        )
        for price in reading.changes
    )


def billed_in(region: str) -> str:
    """Return the currency of a region's spot prices. Rows carry none; China's partition bills in CNY."""
    return "CNY" if region.startswith("cn-") else "USD"


def _pool(price: SpotPrice) -> tuple[str, str]:
    return price.instance_type, price.availability_zone_id or price.availability_zone or ""


def _by_pool_and_time(price: SpotPrice) -> tuple[Any, ...]:
    return (*_pool(price), price.since, price.amount, price.availability_zone or "")


def _batches(values: Sequence[str], size: int) -> Iterator[list[str]]:
    for first in range(0, len(values), size):
        yield list(values[first : first + size])


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
