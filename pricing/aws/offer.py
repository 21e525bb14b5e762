"""What is chosen from a regional EC2 offer file, whichever format it is read from: documents like those of GetProducts.

An offer file holds every machine of a region, some 100,000 products, of which a few thousand are of types that we plan with and one a
type is the plain use of the machine. Products are looked at one by one: what is not plain use is counted by type and reason, and only of
plain use attributes and terms are kept. What is kept is put together as the very text that GetProducts gives for a product, and read by
the same function: a price is chosen in one place, whatever it comes through. Memory goes with the number of types, not of products.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pricing.aws.instance_types import NOT_WANTED, is_wanted
from pricing.aws.price_list import FAMILIES, PLAIN_USE, PriceListReading, parse_price_list, why_left_out
from pricing.aws.product import SOURCE as PRICE_LIST
from pricing.aws.product import Product
from pricing.errors import NotOnePrice, ReplyError

SOURCE = "AWS price list files"
ATTRIBUTES = ("instanceType", "regionCode", *(wanted.attribute for wanted in PLAIN_USE))
"""What decides about a product; everything else that is said of it is let go."""
SORTS = ("OnDemand", "Reserved")
MOST_TWINS = 20
"""Products of plain use that are kept of one type. There is one, or a few while a change is announced; more cannot be told apart."""
MOST_VERDICTS = 50_000
MOST_ERRORS = 100
"""Products that cannot be read are told one by one up to here, and counted from then on."""
CROWDED = "one of too many products of plain use"

Key = tuple[str, str]  # instance type and region
Terms = dict[str, dict[str, Any]]  # by sort, then by SKU and term code


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferReading:
    """The prices of a file, how many products it lists, and the publication and version that it states."""

    prices: PriceListReading
    products: int
    published: str | None
    version: str | None


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a product's attributes say of it; `reason` is None for plain use."""

    product: Product
    reason: str | None
    machine: bool  # one of a region, rather than a host or in a Local Zone


@dataclass(slots=True, kw_only=True)
class Offer:
    """Collects what is kept of one file."""

    region: str
    instance_types: frozenset[str]
    names: tuple[str, ...] = (
        ATTRIBUTES  # of the attributes that the file has, in the order in which `look_at` gets them
    )
    published: str | None = None
    version: str | None = None
    products: int = 0
    _others: int = 0
    _plain: dict[str, tuple[Product, Terms]] = field(default_factory=dict)
    _twins: Counter[Key] = field(default_factory=Counter)
    _left_out: defaultdict[Key, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _machines: set[Key] = field(default_factory=set)
    _unreadable: int = 0
    _broken: list[ReplyError] = field(default_factory=list)
    _known: dict[str, bool] = field(default_factory=dict)
    _verdicts: dict[tuple[object, ...], _Verdict] = field(default_factory=dict)

    def wants(self, instance_type: str) -> bool:
        """Whether a type is one that we plan with."""
        known = self._known.get(instance_type)
        if known is None:
            known = self._known[instance_type] = is_wanted(instance_type, self.instance_types)
        return known

    def pass_over(self) -> None:
        """Count a product of a type that is not wanted."""
        self.products += 1
        self._others += 1

    def look_at(self, sku: str, family: str | None, values: tuple[str, ...], *, counts: bool = True) -> Terms | None:
        """Return the terms of a product of plain use, to be filled in; None for another one. `values` are those of `names`, "" for missing.

        A product that was met before gives its terms again; `counts` is to be true at one meeting only.
        """
        self.products += counts
        if (kept := self._plain.get(sku)) is not None:
            return kept[1]
        verdict = self._verdicts.get((family, *values)) or self._judged(family, values)
        key = verdict.product.key
        if verdict.machine:
            self._machines.add(key)
        reason = verdict.reason
        if reason is None and self._twins[key] < MOST_TWINS:
            self._twins[key] += 1
            terms: Terms = {}
            self._plain[sku] = (replace(verdict.product, sku=sku), terms)
            return terms
        if counts:
            self._left_out[key][reason or CROWDED] += 1
        return None

    def terms_of(self, sku: str) -> Terms | None:
        """Return the terms of a product that was kept; None for every other one."""
        kept = self._plain.get(sku)
        return None if kept is None else kept[1]

    def cannot_read(self, error: ReplyError) -> None:
        """Note a product that cannot be read; it loses no other."""
        self._unreadable += 1
        if len(self._broken) < MOST_ERRORS:
            self._broken.append(error)

    def reading(self, *, at: datetime, retrieved_at: datetime) -> OfferReading:
        """Return the quotes of what was kept, as in effect `at`; ReplyError for a file without products."""
        if not self.products:
            raise ReplyError(source=SOURCE, where="products", why="there are none: this is no offer file")
        found = parse_price_list(self._documents(), at=at, retrieved_at=retrieved_at)
        excluded = Counter(found.excluded) + Counter({NOT_WANTED: self._others, "cannot be read": self._unreadable})
        for reasons in self._left_out.values():
            excluded += reasons
        undecided = {key for key, reasons in self._left_out.items() if CROWDED in reasons}
        prices = PriceListReading(
            quotes=tuple(q for q in found.quotes if (q.instance_type, q.region) not in undecided),
            unresolved=tuple(self._unresolved(found, undecided)),
            excluded=dict(excluded),
            unreadable=(*found.unreadable, *self._broken),
        )
        return OfferReading(prices=prices, products=self.products, published=self.published, version=self.version)

    def _judged(self, family: str | None, values: tuple[str, ...]) -> _Verdict:
        """Return what attributes say, and remember it: a type has the same dozens of them many times."""
        attributes = {name: value for name, value in zip(self.names, values, strict=True) if value}
        product = Product(sku="", family=family, attributes=attributes, terms={}, published=None)
        reason = why_left_out(product)
        if reason is None and product.key[1] != self.region:
            reason = f"regionCode {product.key[1] or 'missing'}"
        machine = (
            family in FAMILIES and attributes.get("locationType") == "AWS Region" and product.key[1] == self.region
        )
        if len(self._verdicts) >= MOST_VERDICTS:
            self._verdicts.clear()
        verdict = self._verdicts[(family, *values)] = _Verdict(product, reason, machine)
        return verdict

    def _unresolved(self, found: PriceListReading, undecided: set[Key]) -> Iterator[NotOnePrice]:
        """Yield the machines without a certain price, with everything that was left out of them."""
        told = {error.where: error for error in found.unresolved}
        for key in sorted(self._machines):
            where = " ".join(key)
            of_plain = told.get(where)
            if of_plain is None and self._twins[key] and key not in undecided:
                continue
            left = tuple(f"SKU {sku}" for sku, (product, _) in self._plain.items() if product.key == key)
            gone = self._left_out[key] + Counter(of_plain.excluded if of_plain else {})
            error = NotOnePrice(source=PRICE_LIST, where=where, left=of_plain.left if of_plain else left, excluded=gone)
            error.instance_type = key[0]
            yield error

    def _documents(self) -> Iterator[str]:
        for product, terms in self._plain.values():
            family = {} if product.family is None else {"productFamily": product.family}
            said = {} if self.published is None else {"publicationDate": self.published}
            whole = {
                "product": {"sku": product.sku, "attributes": product.attributes, **family},
                "terms": terms,
                **said,
            }
            yield json.dumps(whole)


def text_or_none(value: Any) -> str | None:
    """Return a text, None for anything else."""
    return value if isinstance(value, str) and value else None


def attribute_values(attributes: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the deciding attributes of a product in their order, "" for missing."""
    values = tuple([attributes.get(name) or "" for name in ATTRIBUTES])
    if set(map(type, values)) != {str}:
        raise ReplyError(source=SOURCE, where=where, why="its attributes must be texts")
    return values
