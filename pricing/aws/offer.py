"""What is chosen from a regional EC2 offer file, whichever format it is read from: documents like those of GetProducts.

An offer file holds every machine of a region, some 100,000 products, of which a few thousand are of types that we plan with and one a
type is the plain use of the machine. Products are looked at one by one; of a wanted one its deciding attributes are kept, terms only of
plain use. What is kept is put together as the very text that GetProducts gives for a product, and read by the same function: a price
is chosen in one place, whatever it comes through.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pricing.aws import replies
from pricing.aws.instance_types import NOT_WANTED, is_wanted
from pricing.aws.price_list import PLAIN_USE, PriceListReading, parse_price_list, why_left_out
from pricing.aws.product import Product
from pricing.errors import ReplyError

SOURCE = "AWS price list files"
ATTRIBUTES = ("instanceType", "regionCode", *(wanted.attribute for wanted in PLAIN_USE))
"""What decides about a product; everything else that is said of it is let go."""
SORTS = ("OnDemand", "Reserved")
Terms = dict[str, dict[str, Any]]  # by sort, then by SKU and term code


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferReading:
    """The prices of a file, how many products it lists, and the publication and version that it states."""

    prices: PriceListReading
    products: int
    published: str | None
    version: str | None


@dataclass(slots=True, kw_only=True)
class Offer:
    """Collects what is kept of one file."""

    region: str
    instance_types: frozenset[str]
    published: str | None = None
    version: str | None = None
    products: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    _plain: dict[str, tuple[Product, Terms]] = field(default_factory=dict)
    _others: list[str] = field(default_factory=list)  # texts without terms
    _broken: list[ReplyError] = field(default_factory=list)
    _known: dict[str, bool] = field(default_factory=dict)

    def wants(self, instance_type: str) -> bool:
        """Whether a type is one that we plan with."""
        known = self._known.get(instance_type)
        if known is None:
            known = self._known[instance_type] = is_wanted(instance_type, self.instance_types)
        return known

    def look_at(self, sku: str, family: str | None, attributes: Mapping[str, Any]) -> None:
        """Count a product, and keep what is needed of it."""
        self.products += 1
        if not self.wants(str(attributes.get("instanceType") or "")):
            self.excluded[NOT_WANTED] += 1
            return
        kept = {name: attributes[name] for name in ATTRIBUTES if name in attributes}
        product = Product(sku=sku, family=family, attributes=kept, terms={}, published=self.published)
        if why_left_out(product) is not None:
            self._others.append(_document(product, {}, None))
        elif product.key[1] != self.region:
            self.excluded[f"regionCode {product.key[1] or 'missing'}"] += 1
        else:
            self._plain[sku] = (product, {})

    def terms_of(self, sku: str) -> Terms | None:
        """Return the terms of a product of plain use, to be filled in; None for every other product."""
        kept = self._plain.get(sku)
        return None if kept is None else kept[1]

    def cannot_read(self, error: ReplyError) -> None:
        """Note a product that cannot be read; it loses no other."""
        self._broken.append(error)

    def reading(self, *, at: datetime, retrieved_at: datetime) -> OfferReading:
        """Return the quotes of what was kept, as in effect `at`; ReplyError for a file without products."""
        if not self.products:
            raise ReplyError(source=SOURCE, where="products", why="there are none: this is no offer file")
        prices = parse_price_list(self._documents(), at=at, retrieved_at=retrieved_at)
        excluded = self.excluded + Counter(prices.excluded)
        if self._broken:
            excluded["cannot be read"] += len(self._broken)
        return OfferReading(
            prices=replace(prices, excluded=dict(excluded), unreadable=(*prices.unreadable, *self._broken)),
            products=self.products,
            published=self.published,
            version=self.version,
        )

    def _documents(self) -> Iterator[str]:
        yield from self._others
        for product, terms in self._plain.values():
            yield _document(product, terms, self.published)


def _document(product: Product, terms: Terms, published: str | None) -> str:
    family = {} if product.family is None else {"productFamily": product.family}
    said = {} if published is None else {"publicationDate": published}
    return json.dumps({"product": {"sku": product.sku, "attributes": product.attributes, **family}, "terms": terms, **said})  # fmt: skip


def text_or_none(value: Any) -> str | None:
    """Return a text, None for anything else."""
    return value if isinstance(value, str) and value else None


def parsed_product(sku: str, value: Any) -> tuple[str, str | None, Mapping[str, Any]]:
    """Return SKU, family and attributes of a product as an offer file lists it."""
    product = replies.mapping(value, source=SOURCE, where=f"SKU {sku}")
    attributes = replies.mapping(product.get("attributes"), source=SOURCE, where=f"SKU {sku}")
    return sku, text_or_none(product.get("productFamily")), attributes
