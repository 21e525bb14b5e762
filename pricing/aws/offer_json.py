"""A regional EC2 offer file as JSON: products by SKU, terms by sort and SKU, in whatever order.

Products usually come first, and then one pass is enough. Where terms stand before them, a second pass reads the terms of the products
that the first one chose. Neither keeps more than the chosen ones (see `pricing.aws.offer`).

Reference: AWS Price List bulk API, reading the service price list file; read 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, BinaryIO

from pricing.aws import json_stream, replies
from pricing.aws.offer import SORTS, SOURCE, Offer, OfferReading, attribute_values, text_or_none
from pricing.errors import ReplyError


def parse_offer_json(
    file: BinaryIO, *, region: str, instance_types: Iterable[str], at: datetime, retrieved_at: datetime
) -> OfferReading:
    """Return the prices of a region's machines in an offer file. `file` can be rewound. ReplyError for what is no whole offer file."""
    offer = Offer(region=region, instance_types=frozenset(instance_types))
    seen: dict[str, None] = {}  # keys at the top, in the order of the file
    for path, value in json_stream.values_of(file, _entered, source=SOURCE):
        seen.setdefault(str(path[0]) if path else "")
        if len(path) == 2 and path[0] == "products":
            try:
                _look_at(offer, str(path[1]), value)
            except ReplyError as e:
                offer.cannot_read(e)
        elif len(path) == 3 and path[0] == "terms":
            _keep_terms(offer, path, value)
        elif path == ("publicationDate",):
            offer.published = text_or_none(value)
        elif path == ("version",):
            offer.version = text_or_none(value)
    if missing := [key for key in ("products", "terms") if key not in seen]:
        raise ReplyError(
            source=SOURCE, where="document", why=f"has no {' and no '.join(missing)}: this is no offer file"
        )
    if list(seen).index("terms") < list(seen).index("products"):
        file.seek(0)
        for path, value in json_stream.values_of(file, _entered, source=SOURCE):
            if len(path) == 3 and path[0] == "terms":
                _keep_terms(offer, path, value)
    return offer.reading(at=at, retrieved_at=retrieved_at)


def _entered(path: json_stream.Path) -> bool:
    """Enter the document, everything at its top, and each sort of terms."""
    return len(path) < 2 or (len(path) == 2 and path[0] == "terms")


def _look_at(offer: Offer, sku: str, value: Any) -> None:
    where = f"SKU {sku}"
    product = replies.mapping(value, source=SOURCE, where=where)
    attributes = replies.mapping(product.get("attributes"), source=SOURCE, where=where)
    instance_type = attributes.get("instanceType")
    if isinstance(instance_type, str) and offer.wants(instance_type):
        offer.look_at(sku, text_or_none(product.get("productFamily")), attribute_values(attributes, where))
    else:
        offer.pass_over()


def _keep_terms(offer: Offer, path: json_stream.Path, value: Any) -> None:
    _, sort, sku = path
    terms = offer.terms_of(str(sku))
    if terms is not None and sort in SORTS:
        try:
            terms[str(sort)] = dict(replies.mapping(value, source=SOURCE, where=f"SKU {sku} {sort}"))
        except ReplyError as e:
            offer.cannot_read(e)
