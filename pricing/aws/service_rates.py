"""What a plan pays for besides machines: block and object storage, Lustre, data transfer, NAT gateways and public addresses.

From the same price list as the machines. Prices that depend on the amount have one row a tier. Items and units are those of the shipped
table, so that a live rate takes the place of a shipped one. What no cost line needs is counted and left out.

Reference: AWS Price List Query API, GetProducts: AmazonEC2, AmazonVPC, AmazonS3, AmazonFSx, AWSDataTransfer; read 2026-11.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from pricing.aws.paging import pages
from pricing.aws.product import (
    SOURCE,
    Product,
    Tier,
    is_readable,
    parse_price_list_page,
    parse_product,
    start_of,
    terms_of,
    tiers_of,
)
from pricing.aws.regions import misspelt
from pricing.aws.service_items import SERVICES, TO_INTERNET, TRANSFER, thing_of
from pricing.aws.session import Aws
from pricing.errors import NotOnePrice, ReplyError, SourceFailed
from pricing.market import Notice, NoticeKind
from pricing.model import Rate
from pricing.source import Ask, Scope, Source, SourceReading

NAME = "storage"
PROVIDER = "aws"
MOST_RESULTS = 100
READINGS = 2
UNKNOWN_SERVICE = ("NotFoundException", "InvalidParameterException")
"""What a list says that does not have a service (China's, GovCloud's): the others are not worse for it."""
FREE_GB = Decimal(100)
"""Out to the internet, a month and account, over all regions: no tier of the list has it."""
TYPICAL = "out to other regions (typical)"
QUERIES: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (  # service, attribute of the region, other filters
    ("AmazonEC2", "regionCode", (("productFamily", "Storage"),)),
    ("AmazonEC2", "regionCode", (("productFamily", "System Operation"),)),
    ("AmazonEC2", "regionCode", (("productFamily", "Provisioned Throughput"),)),
    ("AmazonEC2", "regionCode", (("productFamily", "Storage Snapshot"),)),
    ("AmazonEC2", "regionCode", (("productFamily", "NAT Gateway"),)),
    ("AmazonVPC", "regionCode", ()),
    ("AmazonS3", "regionCode", (("productFamily", "Storage"),)),
    ("AmazonS3", "regionCode", (("productFamily", "API Request"),)),
    ("AmazonFSx", "regionCode", (("fileSystemType", "Lustre"),)),
    ("AWSDataTransfer", "fromRegionCode", ()),  # it has no regionCode
)
UNITS: Mapping[str, tuple[str, Decimal]] = {
    "gb-mo": ("GB-month", Decimal(1)),
    "iops-mo": ("IOPS-month", Decimal(1)),
    "gibps-mo": ("MB/s-month", Decimal(1) / 1024),  # 40.96 a GiB/s is 0.04 a MiB/s; volumes are sized in MiB/s
    "mibps-mo": ("MB/s-month", Decimal(1)),
    "requests": ("1000 requests", Decimal(1000)),  # the list's price is of one request
    "hrs": ("hour", Decimal(1)),
    "gb": ("GB", Decimal(1)),
}
"""Unit of the list in small letters -> ours, and by what its price is multiplied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The prices of one thing as one SKU states them from a day on."""

    sku: str
    source: str
    effective_from: datetime | None
    tiers: tuple[Tier, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesReading:
    """Rates of a region; `unresolved` for things that several SKUs price differently; rows left out, by reason."""

    rates: tuple[Rate, ...]
    unresolved: tuple[NotOnePrice, ...]
    excluded: Mapping[str, int]
    unreadable: tuple[ReplyError, ...]


def storage_source(aws: Aws) -> Source:
    """Return the source of storage and network prices."""
    return Source(
        name=NAME,
        regional=True,
        needs_credentials=True,
        default=True,
        what="EBS, S3, FSx for Lustre, data transfer, NAT gateways, public IPv4 addresses",
        permissions=("pricing:GetProducts",),
        read=lambda ask: read_service_rates(aws, ask),
    )


def read_service_rates(aws: Aws, ask: Ask) -> SourceReading:
    """Return the rates of a region. The reading speaks for the services of which it has rates; others are noted."""
    if ask.region is None:
        raise ValueError("storage and network prices are asked region by region")
    client = aws.pricing(ask.region)
    documents: list[str] = []
    notices: list[Notice] = []
    for code, attribute, more in QUERIES:
        filters = [
            {"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in ((attribute, ask.region), *more)
        ]
        try:
            documents += products_of(client, ask, code, filters)
        except SourceFailed as e:
            if not e.why.startswith(UNKNOWN_SERVICE):
                raise
            notices.append(_notice(NoticeKind.NOTE, f"{code} {ask.region}", e.why))
    reading = parse_service_rates(documents, region=ask.region, at=ask.at)
    if not reading.rates:
        raise SourceFailed(
            source=SOURCE, why=f"no storage or network price in {ask.region}", remedy=misspelt(ask.region)
        )
    found = {rate.service for rate in reading.rates}
    for service in sorted(set(SERVICES) - found):
        why = "the list has no row of it, which does not say that it costs nothing"
        notices.append(_notice(NoticeKind.UNRESOLVED, f"{service} {ask.region}", why))
    notices += [_notice(NoticeKind.UNRESOLVED, e.where, e.why) for e in (*reading.unresolved, *reading.unreadable)]
    published = sorted(rate.source.partition(", published ")[2] for rate in reading.rates)
    return SourceReading(
        source=NAME,
        scope=Scope(provider=PROVIDER, region=ask.region, tables=frozenset({"rates"}), services=frozenset(found)),
        retrieved_at=ask.at,
        published=published[0] or None,
        rates=reading.rates,
        excluded=reading.excluded,
        notices=tuple(notices),
    )


def products_of(client: Any, ask: Ask, code: str, filters: list[dict[str, str]]) -> list[str]:
    """Return the products of a query; where a text cannot be read, those of a second reading."""
    found: list[str] = []
    for _ in range(READINGS):
        answer = pages(
            client,
            "get_products",
            "PriceList",
            source=SOURCE,
            keep=parse_price_list_page,
            on_answer=ask.on_answer,
            ServiceCode=code,
            FormatVersion="aws_v1",
            Filters=filters,
            MaxResults=MOST_RESULTS,
        )
        found = [document for page in answer for document in page]
        if all(is_readable(document) for document in found):
            break
    return found


def parse_service_rates(documents: Iterable[str], *, region: str, at: datetime) -> RatesReading:
    """Return the rates of a region as in effect `at`, a row for each tier. Order and repetition of documents change nothing."""
    offers: dict[tuple[str, str], list[Offer]] = defaultdict(list)
    excluded: Counter[str] = Counter()
    unreadable: list[ReplyError] = []
    unresolved: list[NotOnePrice] = []
    texts: set[str] = set()
    for document in documents:
        if document in texts:
            excluded["repeated across pages"] += 1
            continue
        texts.add(document)
        try:
            product = parse_product(document)
            thing = thing_of(product, region)
            if isinstance(thing, str):
                excluded[thing] += 1
                continue
            service, item, unit = thing
            for offer in _offers(product, at, unit, excluded):
                offers[service, item].append(offer)
        except ReplyError as e:
            unreadable.append(e)
    if unreadable:
        excluded["cannot be read"] = len(unreadable)
    rates: list[Rate] = []
    for (service, item), found in sorted(offers.items()):
        try:
            offer = _the_one(found, where=f"{service} {item} {region}", excluded=excluded)
        except NotOnePrice as e:
            unresolved.append(e)
        else:
            rates += _rates(offer, service=service, item=item, region=region, at=at)
    rates += _typical(rates)
    return RatesReading(
        rates=tuple(rates), unresolved=tuple(unresolved), excluded=dict(excluded), unreadable=tuple(unreadable)
    )


def _offers(product: Product, at: datetime, unit: str, excluded: Counter[str]) -> Iterator[Offer]:
    """Yield the terms of a product that are in effect and have a price in the unit."""
    terms = terms_of(product, "OnDemand")
    if not terms:
        excluded["no on-demand term"] += 1
    for where, term in terms:
        effective, tiers = start_of(term, where), tiers_of(term, where)
        if effective is not None and effective > at:
            excluded["starts in the future"] += 1
        elif not tiers:
            excluded["term without a price"] += 1
        elif UNITS.get(tiers[0].unit.casefold(), ("", None))[0] != unit:
            excluded[f"unit {tiers[0].unit}"] += 1
        elif not any(tier.amount for tier in tiers):
            excluded["price of zero"] += 1
        else:
            yield Offer(sku=product.sku, source=product.source, effective_from=effective, tiers=tiers)


def _the_one(offers: list[Offer], *, where: str, excluded: Counter[str]) -> Offer:
    """Return the offer in effect: all say the same, or one starts last. Several of one day are not decided by price."""
    starts = [offer.effective_from for offer in offers if offer.effective_from is not None]
    if len({offer.tiers for offer in offers}) > 1 and len(starts) == len(offers):
        latest = max(starts)
        newest = [offer for offer in offers if offer.effective_from == latest]
        excluded["superseded by a later price"] += len(offers) - len(newest)
        offers = newest
    if len({offer.tiers for offer in offers}) > 1:
        left = tuple(f"SKU {o.sku} from {o.tiers[0].amount:f} {o.tiers[0].currency}" for o in sorted(offers, key=lambda o: o.sku))  # fmt: skip
        raise NotOnePrice(source=SOURCE, where=where, left=left, excluded={})
    return min(offers, key=lambda offer: offer.sku)


def _rates(offer: Offer, *, service: str, item: str, region: str, at: datetime) -> Iterator[Rate]:
    """Yield a rate for each tier; a thing with one price for every amount has no tiers. A tier that is free is none."""
    for tier in offer.tiers:
        if tier.amount == 0:
            continue
        unit, factor = UNITS[tier.unit.casefold()]
        begin, note = tier.begin, "" if factor == 1 else f"the list says {tier.amount:f} per {tier.unit}"
        if item == TO_INTERNET and begin == 0 and not region.startswith(("cn-", "us-gov-")):
            begin, note = FREE_GB, "first 100 GB per month free across all regions"
        tiered = len(offer.tiers) > 1 or begin > 0
        yield Rate(
            provider=PROVIDER,
            service=service,
            item=item,
            region=region,
            unit_price=Decimal(f"{(tier.amount * factor).normalize():f}"),
            currency=tier.currency,
            unit=unit,
            tier_from=float(begin) if tiered else None,
            tier_to=None if tier.end is None else float(tier.end),
            source=offer.source,
            sku=offer.sku,
            rate_code=tier.code,
            retrieved_on=at.date(),
            notes=note,
        )


def _typical(rates: list[Rate]) -> Iterator[Rate]:
    """Yield the commonest price to another region, the dearer one where two are as common; the pair of one area apart."""
    out = [rate for rate in rates if rate.service == TRANSFER and re.fullmatch(r"out to [a-z]+(-[a-z]+)+-[0-9]+", rate.item)]  # fmt: skip
    if not out:
        return
    counts = Counter(rate.unit_price for rate in out)
    price, count = max(counts.items(), key=lambda entry: (entry[1], entry[0]))
    model = next(rate for rate in out if rate.unit_price == price)
    yield Rate(
        provider=PROVIDER,
        service=TRANSFER,
        item=TYPICAL,
        region=model.region,
        unit_price=price,
        currency=model.currency,
        unit=model.unit,
        source=model.source,
        retrieved_on=model.retrieved_on,
        notes=f"the price to {count} of {len(out)} regions",
    )


def _notice(kind: NoticeKind, subject: str, detail: str) -> Notice:
    return Notice(kind=kind, source=NAME, subject=subject, detail=detail)
