"""`list_rates`: prices of storage and network, as the document of `planner prices list --storage` and `GET /v1/prices/rates`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time
from operator import attrgetter

from planner.ports import Document
from planner.services.list_prices import EVERYWHERE, check_limit, known, names, plain
from pricing.catalog import Catalog
from pricing.model import Rate

RATE_FIELDS = (
    "provider",
    "service",
    "item",
    "region",
    "tier_from",
    "tier_to",
    "unit_price",
    "currency",
    "unit",
    "source",
    "sku",
    "rate_code",
    "retrieved_on",
    "confidence",
    "notes",
)
ROW = attrgetter(*RATE_FIELDS)


def list_rates(
    catalog: Catalog,
    *,
    provider: Sequence[str] | str | None = None,
    region: Sequence[str] | str | None = None,
    service: Sequence[str] | str | None = None,
    limit: int | None = None,
) -> Document:
    """Return `{snapshot_id, as_of, rates[…]}`, prices as exact decimal text per `unit`, in the order of the snapshot, at most `limit` of them.

    A rate with tiers has a row for each: it holds from `tier_from` to `tier_to` units a month, null for the first and the last. A rate of
    region "any" is one price for all. `as_of` is the newest day in the list. A region, service or provider that no rate has is an
    `UnknownName` with near misses.
    """
    check_limit(limit)
    return rates_document(catalog, find_rates(catalog, provider=provider, region=region, service=service)[:limit])


def find_rates(
    catalog: Catalog,
    *,
    provider: Sequence[str] | str | None = None,
    region: Sequence[str] | str | None = None,
    service: Sequence[str] | str | None = None,
) -> list[Rate]:
    """Return the rates that pass the filters of `list_rates`, in its order; for who counts them and shows a few."""
    rates = catalog.rates()
    everywhere = any(name.strip().casefold() == EVERYWHERE for name in names(region))
    filters = {"provider": names(provider), "region": () if everywhere else names(region), "service": names(service)}
    for field, given in filters.items():
        spellings = {getattr(rate, field) for rate in rates}
        if wanted := {known(field, name, spellings) for name in given}:
            rates = tuple(rate for rate in rates if getattr(rate, field) in wanted)
    return list(rates)


def rates_document(catalog: Catalog, rates: Sequence[Rate], *, of: Sequence[Rate] | None = None) -> Document:
    """Return the document of some rates; `as_of` is the newest day of them, or of those that they were cut from."""
    days = [rate.retrieved_on for rate in (rates if of is None else of)]
    newest = datetime.combine(max(days), time(), tzinfo=UTC) if days else catalog.meta.as_of
    return {
        "snapshot_id": catalog.meta.snapshot_id,
        "as_of": plain(newest),
        "rates": [dict(zip(RATE_FIELDS, map(plain, ROW(rate)), strict=True)) for rate in rates],
    }
