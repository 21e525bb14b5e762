"""`list_prices`: the quotes of the snapshot that pass some filters, as the document of `planner prices list` and `GET /v1/prices`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from planner.ports import Document
from planner.recommend.errors import BadRequest
from planner.services.documents import instant, unit_price
from pricing.catalog import Catalog, near_misses
from pricing.errors import UnknownName
from pricing.model import PurchaseOption, Quote

FIELDS = (
    "provider",
    "instance_type",
    "region",
    "availability_zone_id",
    "availability_zone",
    "purchase_option",
    "plan_type",
    "offering_class",
    "term_years",
    "payment_option",
    "currency",
    "unit",
    "list_unit_price",
    "contracted_unit_price",
    "upfront",
    "effective_unit_price",
    "source",
    "sku",
    "effective_from",
    "retrieved_at",
)
EVERYWHERE = "all"  # a region filter that filters nothing


def list_prices(
    catalog: Catalog,
    *,
    provider: Sequence[str] | str | None = None,
    instance_type: Sequence[str] | str | None = None,
    region: Sequence[str] | str | None = None,
    purchase_option: Sequence[str] | str | None = None,
    limit: int | None = None,
) -> Document:
    """Return `{snapshot_id, as_of, prices[…]}`, prices as exact decimal text per `unit`, at most `limit` of them.

    `as_of` is the newest figure in the list.

    A filter that is None or empty lets everything pass. A name that nothing has (a region, type, provider or purchase option)
    is an `UnknownName` with near misses, not an empty list; a type that exists without a price has an empty list.
    """
    check_limit(limit)
    providers = [catalog.provider(name) for name in names(provider)] or None
    types = [
        t.instance_type for name in names(instance_type) for t in catalog.instance_types_named(name, providers)
    ] or None
    quotes = catalog.quotes(
        providers=providers,
        instance_types=types,
        regions=known_regions(catalog, region),
        purchase_options=[known_purchase_option(name) for name in names(purchase_option)] or None,
    )
    listed = quotes[:limit]
    return {
        "snapshot_id": catalog.meta.snapshot_id,
        "as_of": plain(max((q.retrieved_at for q in listed), default=catalog.meta.as_of)),
        "prices": [price(q) for q in listed],
    }


def price(quote: Quote) -> Document:
    """Return one quote as plain JSON values, in the order of the contract."""
    return {name: plain(getattr(quote, name)) for name in FIELDS}


def names(given: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return a filter as a tuple of names: one name, several, or none."""
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def known_regions(catalog: Catalog, region: Sequence[str] | str | None) -> list[str] | None:
    """Return the regions as the quotes spell them, or None for everywhere (nothing given, or `all`)."""
    given = names(region)
    return (
        None
        if not given or any(name.strip().casefold() == EVERYWHERE for name in given)
        else [catalog.region(name) for name in given]
    )


def known_purchase_option(name: str) -> PurchaseOption:
    """Return the purchase option of that name; UnknownName with near misses otherwise."""
    try:
        return PurchaseOption(name)
    except ValueError as e:
        raise UnknownName("purchase option", name, near_misses(name, (p.value for p in PurchaseOption))) from e


def check_limit(limit: int | None) -> None:
    """Raise `BadRequest` unless the limit is None or at least 1."""
    if limit is not None and limit < 1:
        raise BadRequest(field="limit", value=limit, why="must be at least 1")


def plain(value: Any) -> Any:
    """Return a value as JSON has it: money as decimal text, times as RFC 3339 in UTC, days as ISO dates."""
    if isinstance(value, Decimal):
        return unit_price(value)
    if isinstance(value, datetime):
        return instant(value.astimezone(UTC))
    if isinstance(value, date):
        return value.isoformat()
    return value.value if isinstance(value, PurchaseOption) else value
