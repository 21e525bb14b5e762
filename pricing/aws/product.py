"""One product document of the price list: its attributes, its terms, the rates of a term. What is read, not what is chosen.

A document is a JSON text: product (sku, productFamily, attributes, all of them texts) and terms by sort; a term has a start and
rates, a rate a unit and a price as text. Any of terms, rates and prices may be missing, which is not zero.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from pricing.aws import replies
from pricing.aws.regions import code_of_location
from pricing.errors import ReplyError

SOURCE = "AWS price list"
NAMED = re.compile(r'"instanceType"\s*:\s*"([a-z0-9.-]+)"')
"""The type that a broken text is about, to say whose price is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One product document: attributes are all texts."""

    sku: str
    family: str | None
    attributes: Mapping[str, Any]
    terms: Mapping[str, Any]
    published: str | None

    @property
    def key(self) -> tuple[str, str]:
        """Instance type and region code; empty where the product has none."""
        return str(self.attributes.get("instanceType") or ""), self.region

    @property
    def region(self) -> str:
        """The region's code; where a list has its location alone, the code of that, in either spelling ("EU (Ireland)", "Europe (Ireland)")."""
        code = self.attributes.get("regionCode")
        return str(code) if code else code_of_location(str(self.attributes.get("location") or ""))

    @property
    def source(self) -> str:
        """Where a price of this product is from: the list and its publication."""
        return f"{SOURCE}, published {self.published}" if self.published else SOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A price and the part of a month's amount that it is for, counted in its unit; the last part has no end."""

    unit: str
    currency: str
    amount: Decimal
    begin: Decimal
    end: Decimal | None
    code: str = field(default="", compare=False)  # of the rate: two products that price alike have codes of their own


def parse_price_list_page(page: Any) -> tuple[str, ...]:
    """Return the product texts of one GetProducts reply; ReplyError where the body is cut (the SDK does not raise on that)."""
    documents = replies.rows_of(page, "PriceList", source=SOURCE)
    if not all(isinstance(document, str) for document in documents):
        raise ReplyError(source=SOURCE, where="PriceList", why="must hold JSON texts")
    return tuple(documents)


def parse_product(document: str) -> Product:
    """Return one product of its JSON text."""
    try:
        whole = json.loads(document)
    except (ValueError, RecursionError) as e:
        named = NAMED.search(document)
        where = f"a product of {named[1]}" if named else f"product {document[:40]!r}…"
        raise ReplyError(
            source=SOURCE,
            where=where,
            why=f"is not JSON: {'nested too deeply' if isinstance(e, RecursionError) else e}",
            instance_type=named[1] if named else None,
        ) from e
    whole = replies.mapping(whole, source=SOURCE, where="product")
    product = replies.mapping(whole.get("product"), source=SOURCE, where="product")
    sku = replies.text(product, "sku", source=SOURCE, where="product")
    where = f"SKU {sku}"
    family, published = product.get("productFamily"), whole.get("publicationDate")
    return Product(
        sku=sku,
        family=family if isinstance(family, str) else None,
        attributes=replies.mapping(product.get("attributes"), source=SOURCE, where=where),
        terms=replies.mapping(whole.get("terms", {}), source=SOURCE, where=where),
        published=published if isinstance(published, str) else None,
    )


def is_readable(document: str) -> bool:
    """Whether a text is a product."""
    try:
        parse_product(document)
    except ReplyError:
        return False
    return True


def terms_of(product: Product, sort: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return each term of a sort ("OnDemand", "Reserved") with its place, in the order of their codes; a product may have none."""
    terms = replies.mapping(product.terms.get(sort, {}), source=SOURCE, where=f"SKU {product.sku} {sort}")
    return [
        (f"term {name}", replies.mapping(term, source=SOURCE, where=f"term {name}"))
        for name, term in sorted(terms.items())
    ]


def start_of(term: Mapping[str, Any], where: str) -> datetime | None:
    """Return since when a term holds; None where it does not say."""
    start = term.get("effectiveDate")
    return None if start is None else replies.instant(start, source=SOURCE, where=f"{where} effectiveDate")


def rates_of(term: Mapping[str, Any], where: str) -> Iterator[tuple[str, str, str, Decimal]]:
    """Yield code ("SKU.TERM.RATE"), unit, currency and price of each rate of a term, in the order of their codes. A rate without a price yields nothing: missing is not zero."""
    dimensions = replies.mapping(term.get("priceDimensions", {}), source=SOURCE, where=where)
    for name, dimension in sorted(dimensions.items()):
        rate = replies.mapping(dimension, source=SOURCE, where=f"rate {name}")
        unit = replies.text(rate, "unit", source=SOURCE, where=f"rate {name}")
        prices = replies.mapping(rate.get("pricePerUnit", {}), source=SOURCE, where=f"rate {name}")
        if len(prices) > 1:
            raise ReplyError(
                source=SOURCE, where=f"rate {name}", why=f"is in {' and '.join(sorted(prices))}: which one is meant?"
            )
        for currency, amount in prices.items():
            yield str(name), unit, str(currency), replies.price(amount, source=SOURCE, where=f"rate {name}")


def tiers_of(term: Mapping[str, Any], where: str) -> tuple[Tier, ...]:
    """Return the prices of a term from the first unit to the last. ReplyError where they leave a gap, overlap or are unlike."""
    dimensions = replies.mapping(term.get("priceDimensions", {}), source=SOURCE, where=where)
    tiers: list[Tier] = []
    for name, dimension in dimensions.items():
        rate = replies.mapping(dimension, source=SOURCE, where=f"rate {name}")
        begin, end = _bound(rate.get("beginRange"), name), _bound(rate.get("endRange", "Inf"), name)
        for code, unit, currency, amount in rates_of({"priceDimensions": {name: dimension}}, where):
            start = begin or Decimal(0)
            tiers.append(Tier(unit=unit, currency=currency, amount=amount, begin=start, end=end, code=code))
    tiers.sort(key=lambda tier: tier.begin)
    ends = [Decimal(0), *(tier.end for tier in tiers)]
    if tiers and ([tier.begin for tier in tiers] != ends[:-1] or ends[-1] is not None):
        parts = ", ".join(f"{tier.begin}-{'Inf' if tier.end is None else tier.end}" for tier in tiers)
        raise ReplyError(source=SOURCE, where=where, why=f"its tiers leave a gap or overlap: {parts}")
    if len({(tier.unit, tier.currency) for tier in tiers}) > 1:
        raise ReplyError(source=SOURCE, where=where, why="its tiers have several units or currencies")
    return tuple(tiers)


def _bound(value: Any, name: str) -> Decimal | None:
    """Return a bound of a tier; None for "Inf" and for one that is not there."""
    return None if value in (None, "", "Inf") else replies.price(value, source=SOURCE, where=f"rate {name} range")
