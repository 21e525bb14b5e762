"""GetProducts asked region by region: on-demand prices and reservations of the machines that we plan with.

Two filters, region and system, and every other attribute is looked at here. The nine of plain use would bring a tenth of the pages,
and two faults: an attribute that a product lacks never matches, so that a list which drops one would lose its prices in silence;
and nothing could be said of a type without a price. With these two a look-alike comes in and is counted by name, and a type that is
sold in capacity blocks only says so. Other systems stay away: their rows are three quarters of a region's and answer no question here.
A large region has some 27 Linux rows a type, so about 270 pages of 100: a minute at the 5 calls a second that AWS allows. A second,
short query counts what Local Zones and Wavelength charge for plain use: their codes begin with the region's.

Reference: AWS Price List Query API, GetProducts and its Filter; quotas of that API; read 2026-11.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pricing.aws.instance_types import NOT_WANTED, is_wanted
from pricing.aws.paging import Page, pages
from pricing.aws.price_list import FAMILIES, PLAIN_USE, PROVIDER, parse_price_list
from pricing.aws.product import SOURCE, parse_price_list_page, parse_product
from pricing.aws.regions import misspelt
from pricing.aws.replies import untold
from pricing.aws.session import Aws
from pricing.errors import ReplyError, SourceFailed, Unreachable
from pricing.market import Notice, NoticeKind
from pricing.model import PurchaseOption
from pricing.source import Ask, Scope, Source, SourceReading

NAME = "price_list"
SERVICE = "AmazonEC2"
MOST_RESULTS = 100
READINGS = 3
"""How often a list is read at most where it is published anew meanwhile; for a text that cannot be read, twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is kept of one page: texts of wanted types, how many of others, and which publications it is of."""

    documents: tuple[str, ...]
    others: int
    broken: int
    published: frozenset[str]


def price_list_source(aws: Aws) -> Source:
    """Return the source of on-demand prices and reservations by the Query API."""
    return Source(
        name=NAME,
        regional=True,
        needs_credentials=True,
        default=True,
        what="on-demand prices and reservations (Price List Query API)",
        permissions=("pricing:GetProducts",),
        read=lambda ask: read_price_list(aws, ask),
    )


def read_price_list(aws: Aws, ask: Ask) -> SourceReading:
    """Return every certain price of a region's Linux machines, and what was left out by reason."""
    if ask.region is None:
        raise ValueError("the price list is asked region by region")
    client = aws.pricing(ask.region)
    parts = one_publication(client, ask, region_filters(ask.region))
    if not any(part.documents or part.others for part in parts):
        raise SourceFailed(
            source=SOURCE,
            why=f"no product in {ask.region}: a misspelt filter gives an empty list too, so this does not say that nothing is offered",
            remedy=misspelt(ask.region),
        )
    notices: list[Notice] = []
    try:
        zones = products(client, ask, zone_filters(ask.region))
    except SourceFailed as e:
        zones = []
        notices.append(_note(ask.region, f"Local Zones were not counted: {e.why}"))
    documents = chain.from_iterable(part.documents for part in (*parts, *zones))
    reading = parse_price_list(documents, at=ask.at, retrieved_at=ask.at)
    excluded = Counter(reading.excluded)
    excluded[NOT_WANTED] += sum(part.others for part in (*parts, *zones))
    if not reading.quotes:
        gone = ", ".join(f"{count} x {reason}" for reason, count in sorted(excluded.items()) if count)
        raise SourceFailed(source=SOURCE, why=f"no price of a type we plan with in {ask.region} (left out: {gone})")
    published = sorted(frozenset().union(*(part.published for part in parts)))
    if len(published) > 1:
        notices.append(_note(ask.region, f"the list is of several publications: {', '.join(published)}"))
    faults = (*reading.unresolved, *reading.unreadable)
    notices += [Notice(kind=NoticeKind.UNRESOLVED, source=NAME, subject=e.where, detail=e.why) for e in faults]
    options = {PurchaseOption.ON_DEMAND, PurchaseOption.RESERVED_1YR, PurchaseOption.RESERVED_3YR}
    return SourceReading(
        source=NAME,
        scope=Scope(
            provider=PROVIDER,
            region=ask.region,
            tables=frozenset({"quotes"}),
            purchase_options=frozenset(options),
        ),
        retrieved_at=ask.at,
        published=published[0] if published else None,
        quotes=reading.quotes,
        excluded={reason: count for reason, count in sorted(excluded.items()) if count},
        untold=untold(faults),
        notices=tuple(notices),
    )


def region_filters(region: str) -> list[dict[str, str]]:
    """Return the `Filters` that bring a region's Linux machines: virtual, bare metal and dedicated hosts."""
    wanted = (("regionCode", region), ("operatingSystem", "Linux"))
    return [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted]


def zone_filters(region: str) -> list[dict[str, str]]:
    """Return the `Filters` that bring plain use in a region's Local Zones and Wavelength ("us-west-2-lax-1")."""
    plain = [(w.attribute, w.value) for w in PLAIN_USE if w.attribute not in ("servicecode", "locationType")]
    exact = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in plain]
    family = {"Type": "TERM_MATCH", "Field": "productFamily", "Value": FAMILIES[0]}
    return [family, *exact, {"Type": "CONTAINS", "Field": "regionCode", "Value": f"{region}-"}]


def one_publication(client: Any, ask: Ask, filters: list[dict[str, str]]) -> list[Part]:
    """Return a list that is whole and of one publication; one that mixes several or has a broken text is read again.

    A list that mixes the same ones twice is like that, and was not published while it was read; a text that stays broken is reported.
    """
    before: frozenset[str] = frozenset()
    for reading in range(READINGS):
        parts = products(client, ask, filters)
        published = frozenset().union(*(part.published for part in parts))
        settled = len(published) <= 1 or published == before
        if settled and (reading or not any(part.broken for part in parts)):
            return parts
        before = published
    raise Unreachable(
        source=SOURCE,
        why=f"{ask.region}: published anew in each of {READINGS} readings ({', '.join(sorted(before))})",
        remedy="try again later",
    )


def products(client: Any, ask: Ask, filters: list[dict[str, str]]) -> list[Part]:
    """Return every page of a query, each as the part that we keep."""

    def keep(page: Page) -> Part:
        return part_of(page, ask.instance_types)

    return pages(
        client,
        "get_products",
        "PriceList",
        source=SOURCE,
        keep=keep,
        on_answer=ask.on_answer,
        ServiceCode=SERVICE,
        FormatVersion="aws_v1",
        Filters=filters,
        MaxResults=MOST_RESULTS,
    )


def part_of(page: Page, known: frozenset[str]) -> Part:
    """Return what is kept of a page. A text that cannot be read is kept, to be reported."""
    documents: list[str] = []
    published: set[str] = set()
    others = broken = 0
    for document in parse_price_list_page(page):
        try:
            product = parse_product(document)
        except ReplyError:
            documents.append(document)
            broken += 1
            continue
        published |= {product.published} if product.published else set()
        if is_wanted(product.key[0], known):
            documents.append(document)
        else:
            others += 1
    return Part(documents=tuple(documents), others=others, broken=broken, published=frozenset(published))


def _note(region: str, detail: str) -> Notice:
    return Notice(kind=NoticeKind.NOTE, source=NAME, subject=f"price list {region}", detail=detail)
