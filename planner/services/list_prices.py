"""`list_prices`: the quotes of the snapshot that pass some filters, as the document of `planner prices list` and `GET /v1/prices`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any

from planner.ports import Document
from planner.recommend.errors import BadRequest
from planner.services.documents import instant, unit_price
from pricing.catalog import Catalog, near_misses
from pricing.errors import UnknownName
from pricing.model import INSTANCE_HOUR, PurchaseOption, Quote

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
    "rate_code",
    "effective_from",
    "retrieved_at",
)
ROW = attrgetter(*FIELDS)
PLAIN_TYPES = frozenset({str, int, type(None)})
EVERYWHERE = "all"  # a region filter that filters nothing


PLAN_TYPES = ("compute", "ec2_instance")
PAYMENT_OPTIONS = ("no_upfront", "partial_upfront", "all_upfront")
OFFERING_CLASSES = ("standard", "convertible")
TERMS_YEARS = (1, 3)
FEW = 3  # names that an error lists in full
SORTS = ("price", "instance", "region", "purchase", "newest")


def list_prices(
    catalog: Catalog,
    *,
    provider: Sequence[str] | str | None = None,
    instance_type: Sequence[str] | str | None = None,
    region: Sequence[str] | str | None = None,
    purchase_option: Sequence[str] | str | None = None,
    accelerator: Sequence[str] | str | None = None,
    family: Sequence[str] | str | None = None,
    plan_type: Sequence[str] | str | None = None,
    payment_option: Sequence[str] | str | None = None,
    offering_class: Sequence[str] | str | None = None,
    term: Sequence[str] | str | None = None,
    zone: Sequence[str] | str | None = None,
    currency: Sequence[str] | str | None = None,
    max_price: Decimal | None = None,
    sort: str | None = None,
    limit: int | None = None,
) -> Document:
    """Return `{snapshot_id, as_of, prices[…]}`, prices as exact decimal text per `unit`, at most `limit` of them.

    `as_of` is the newest figure in the list. Without `sort` the order is that of the snapshot: provider, region, type, purchase option,
    zone, terms. Sorted by price, unlike currencies and units stand apart. `max_price` is per hour of one instance in `currency`, USD
    where none or several are given; prices in another currency or unit cannot be compared with it and are left out.

    A filter that is None or empty lets everything pass. A name that nothing has (a region, type, provider or purchase option)
    is an `UnknownName` with near misses, not an empty list; a type that exists without a price has an empty list.
    """
    check_limit(limit)
    quotes = find_quotes(
        catalog,
        sort=sort,
        provider=provider,
        instance_type=instance_type,
        region=region,
        purchase_option=purchase_option,
        accelerator=accelerator,
        family=family,
        plan_type=plan_type,
        payment_option=payment_option,
        offering_class=offering_class,
        term=term,
        zone=zone,
        currency=currency,
        max_price=max_price,
    )
    return prices_document(catalog, quotes[:limit])


def find_quotes(catalog: Catalog, *, sort: str | None = None, **filters: Any) -> list[Quote]:
    """Return the quotes that pass the filters of `list_prices`, in its order; for who counts them and shows a few."""
    if sort is not None and sort not in ORDERS:
        near = near_misses(sort, SORTS)
        raise BadRequest(
            field="sort",
            value=sort,
            why=f"is not one of {', '.join(SORTS)}",
            expected=f"did you mean {near[0]}?" if near else "",
        )
    quotes = matching(catalog, selected([catalog], **filters))
    if sort is not None:
        quotes.sort(key=ORDERS[sort])  # what is equal stays in the order of the snapshot
    return quotes


def prices_document(catalog: Catalog, quotes: Sequence[Quote], *, of: Sequence[Quote] | None = None) -> Document:
    """Return the document of some quotes; `as_of` is the newest figure of them, or of those that they were cut from."""
    newest = max((q.retrieved_at for q in (quotes if of is None else of)), default=catalog.meta.as_of)
    return {"snapshot_id": catalog.meta.snapshot_id, "as_of": plain(newest), "prices": [price(q) for q in quotes]}


ORDERS: dict[str, Callable[[Quote], Any]] = {
    "price": lambda q: (q.currency != "USD", q.currency, q.unit != INSTANCE_HOUR, q.unit, q.effective_unit_price),
    "instance": lambda q: (q.instance_type, q.provider),
    "region": lambda q: (q.region, q.provider),
    "purchase": lambda q: list(PurchaseOption).index(q.purchase_option),
    "newest": lambda q: -q.retrieved_at.timestamp(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Filters whose names are known to exist. None lets everything pass."""

    providers: list[str] | None
    instance_types: list[str] | None
    regions: list[str] | None
    purchase_options: list[PurchaseOption] | None
    shapes: frozenset[tuple[str, str]] | None  # (provider, instance type) with the accelerators and families
    terms: tuple[tuple[str, frozenset[Any]], ...]  # field of the quote and the values that pass
    zones: frozenset[str] | None
    max_price: Decimal | None
    max_price_currency: str


def selected(
    catalogs: Sequence[Catalog],
    *,
    provider: Sequence[str] | str | None = None,
    instance_type: Sequence[str] | str | None = None,
    region: Sequence[str] | str | None = None,
    purchase_option: Sequence[str] | str | None = None,
    accelerator: Sequence[str] | str | None = None,
    family: Sequence[str] | str | None = None,
    plan_type: Sequence[str] | str | None = None,
    payment_option: Sequence[str] | str | None = None,
    offering_class: Sequence[str] | str | None = None,
    term: Sequence[str] | str | None = None,
    zone: Sequence[str] | str | None = None,
    currency: Sequence[str] | str | None = None,
    max_price: Decimal | None = None,
) -> Selection:
    """Return the filters with every name as one of the catalogs spells it; `UnknownName` with near misses where none has it."""
    if max_price is not None and not max_price > 0:
        raise BadRequest(field="max_price", value=str(max_price), why="must be more than 0")
    providers = of_any(catalogs, names(provider), lambda c, name: [c.provider(name)])
    types = of_any(
        catalogs,
        names(instance_type),
        lambda c, name: [t.instance_type for t in c.instance_types_named(name, providers)],
    )
    everywhere = any(name.strip().casefold() == EVERYWHERE for name in names(region))
    currencies = of_any(catalogs, names(currency), lambda c, name: [known_currency(c, name)])
    given_terms: list[tuple[str, list[Any]]] = [
        ("plan_type", [known_term("plan type", name, PLAN_TYPES) for name in names(plan_type)]),
        ("payment_option", [known_term("payment option", name, PAYMENT_OPTIONS) for name in names(payment_option)]),
        ("offering_class", [known_term("offering class", name, OFFERING_CLASSES) for name in names(offering_class)]),
        ("term_years", [known_years(name) for name in names(term)]),
        ("currency", currencies or []),
    ]
    zones = of_any(catalogs, names(zone), lambda c, name: [known_zone(c, name)])
    return Selection(
        providers=providers,
        instance_types=types,
        regions=None if everywhere else of_any(catalogs, names(region), lambda c, name: [c.region(name)]),
        purchase_options=[known_purchase_option(name) for name in names(purchase_option)] or None,
        shapes=shapes_of(catalogs, names(accelerator), names(family)),
        terms=tuple((field, frozenset(values)) for field, values in given_terms if values),
        zones=None if zones is None else frozenset(zones),
        max_price=max_price,
        max_price_currency=currencies[0] if currencies is not None and len(currencies) == 1 else "USD",
    )


def matching(catalog: Catalog, selection: Selection) -> list[Quote]:
    """Return the quotes of a catalog that pass, in the snapshot's order."""
    types = selection.instance_types
    if types is None and selection.shapes is not None:  # the file finds them faster than a look at every quote
        types = sorted({name for _, name in selection.shapes})
    quotes: Iterable[Quote] = catalog.quotes(
        providers=selection.providers,
        instance_types=types,
        regions=selection.regions,
        purchase_options=selection.purchase_options,
    )
    shapes, zones, most = selection.shapes, selection.zones, selection.max_price
    if shapes is not None:
        quotes = [q for q in quotes if (q.provider, q.instance_type) in shapes]
    for field, allowed in selection.terms:
        quotes = [q for q in quotes if getattr(q, field) in allowed]
    if zones is not None:
        quotes = [q for q in quotes if q.availability_zone_id in zones or q.availability_zone in zones]
    if most is not None:
        comparable = (selection.max_price_currency, INSTANCE_HOUR)
        quotes = [q for q in quotes if (q.currency, q.unit) == comparable and q.effective_unit_price <= most]
    return list(quotes)


def of_any(
    catalogs: Sequence[Catalog], given: Iterable[str], find: Callable[[Catalog, str], list[str]]
) -> list[str] | None:
    """Return the names as the catalogs spell them, None where none is given; `UnknownName` for one that no catalog has."""
    found: dict[str, None] = {}
    for name in given:
        unknown: UnknownName | None = None
        spelled: list[str] = []
        for catalog in catalogs:
            try:
                spelled += find(catalog, name)
            except UnknownName as e:
                unknown = e
        if unknown is not None and not spelled:
            raise unknown
        found.update(dict.fromkeys(spelled))
    return list(found) or None


def shapes_of(
    catalogs: Sequence[Catalog], accelerator: Sequence[str], family: Sequence[str]
) -> frozenset[tuple[str, str]] | None:
    """Return (provider, instance type) of those with one of the accelerators and of one of the families; None without a filter."""
    if not accelerator and not family:
        return None
    chips = of_any(catalogs, accelerator, lambda c, name: [c.accelerator(name).name])
    families = of_any(catalogs, family, lambda c, name: [known_family(c, name)])
    return frozenset(
        (t.provider, t.instance_type)
        for catalog in catalogs
        for t in catalog.instance_types()
        if (chips is None or t.accelerator in chips) and (families is None or t.family in families)
    )


def known(kind: str, name: str, spellings: Iterable[str], *, written: str | None = None) -> str:
    """Return a name as it is spelled, case and outer blanks aside; `UnknownName` with near misses, or with all where they are few.

    `written` is the name in the form of the spellings, where it came in another.
    """
    folded = {each.casefold(): each for each in sorted(spellings)}
    form = (name if written is None else written).strip().casefold()
    if form not in folded:
        near = near_misses(form, folded.values()) or (tuple(folded.values()) if len(folded) <= FEW else ())
        raise UnknownName(kind, name, near)
    return folded[form]


def known_family(catalog: Catalog, name: str) -> str:
    """Return the family of instance types of that name: p5, g6e."""
    return known("family", name, {t.family for t in catalog.instance_types()})


def known_zone(catalog: Catalog, name: str) -> str:
    """Return the zone of that id or name that a spot price is quoted for."""
    quotes = catalog.quotes(purchase_options=[PurchaseOption.SPOT])
    zones = {z for q in quotes for z in (q.availability_zone_id, q.availability_zone) if z is not None}
    return known("zone", name, zones)


def known_currency(catalog: Catalog, name: str) -> str:
    """Return the currency in which something is quoted."""
    return known("currency", name, {q.currency for q in catalog.quotes()})


def known_term(kind: str, name: str, choices: Sequence[str]) -> str:
    """Return a term of a commitment; "no-upfront" and "No Upfront" are no_upfront."""
    return known(kind, name, choices, written="_".join(name.replace("-", " ").replace("_", " ").split()))


def known_years(name: str) -> int:
    """Return the length of a commitment in years, written as 1, 3, 1yr or 3yr."""
    years = name.strip().casefold().removesuffix("yr")
    return int(known("term", name, [str(each) for each in TERMS_YEARS], written=years))


def price(quote: Quote) -> Document:
    """Return one quote as plain JSON values, in the order of the contract."""
    return dict(zip(FIELDS, [v if type(v) in PLAIN_TYPES else plain(v) for v in ROW(quote)], strict=True))


def names(given: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return a filter as a tuple of names: one name, several, or none."""
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def known_regions(
    catalog: Catalog, region: Sequence[str] | str | None, *, more: Iterable[str] = ()
) -> list[str] | None:
    """Return the regions as the quotes spell them, or None for everywhere (nothing given, or `all`); `more` are known beside those."""
    given = names(region)
    if not given or any(name.strip().casefold() == EVERYWHERE for name in given):
        return None
    return [known("region", name, {*catalog.regions(), *more}) for name in given]


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
        return instant(value if value.tzinfo is UTC else value.astimezone(UTC))
    if isinstance(value, date):
        return value.isoformat()
    return value.value if isinstance(value, PurchaseOption) else value
