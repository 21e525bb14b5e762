"""Products of the AWS price list (GetProducts) read into quotes: one Linux on-demand price per type and region, and its reservations.

`PriceList` is a list of JSON texts, one product each. A type has dozens of products in a region: other systems, tenancies,
reservations and blocks, some of them at 0. Only one is the plain use of the machine, and `PLAIN_USE` says attribute by attribute
what it looks like. What is left out is counted by reason; that several or none are left is `NotOnePrice`, never the cheapest.
Prices are exact and stay in the currency of the list (see `pricing.aws.currency`).

Reference: AWS Price List Query API, GetProducts; shapes of products and terms as read in public price list files, 2026-11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pricing.aws import replies
from pricing.aws.product import SOURCE, Product, parse_product, rates_of, start_of, terms_of
from pricing.errors import NotOnePrice, ReplyError
from pricing.model import INSTANCE_HOUR, PurchaseOption, Quote
from pricing.money import HOURS_PER_YEAR

PROVIDER = "aws"
UPFRONT = "Quantity"
"""Unit of a fee that is paid once; per-hour prices carry `Hrs`. Decided by unit: order and codes of dimensions are not fixed."""
FAMILIES = ("Compute Instance", "Compute Instance (bare metal)")
"""Hosts ("Dedicated Host") and everything else are other products. Bare metal is listed with tenancy Dedicated."""
REPEATED = "repeated across pages"
SUPERSEDED = "superseded by a later price"
CLASSES = ("standard", "convertible")
TERMS = {"1yr": (1, PurchaseOption.RESERVED_1YR), "3yr": (3, PurchaseOption.RESERVED_3YR)}
PAYMENTS = {
    "noupfront": "no_upfront",
    "partialupfront": "partial_upfront",
    "allupfront": "all_upfront",
}  # other services write it without spaces; the utilisation classes of before 2014 are none of these


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One attribute of plain use, and what else would match without it."""

    attribute: str
    value: str
    otherwise: str
    may_be_absent: bool = False


PLAIN_USE = (
    Wanted(attribute="servicecode", value="AmazonEC2", otherwise="prices of other services"),
    Wanted(attribute="locationType", value="AWS Region", otherwise="Local Zones, Wavelength and Outposts"),
    Wanted(attribute="operatingSystem", value="Linux", otherwise="Windows, RHEL, SUSE, Ubuntu Pro: the system's fee is in it"),
    Wanted(attribute="preInstalledSw", value="NA", otherwise="SQL Server on Linux, with operatingSystem still Linux"),
    Wanted(attribute="licenseModel", value="No License required", otherwise="Windows with its own licence at the Linux price"),
    Wanted(attribute="tenancy", value="Shared", otherwise="Dedicated (dearer) and Host (0: the host is paid)"),
    Wanted(
        attribute="capacitystatus",
        value="Used",
        otherwise="AllocatedCapacityReservation (0) and UnusedCapacityReservation (full price, for nothing running)",
    ),
    Wanted(
        attribute="marketoption",
        value="OnDemand",
        otherwise="CapacityBlock: the system's fee alone, 0 for Linux; the block itself is in no price list",
        may_be_absent=True,  # an attribute that older lists lack; the operation below tells blocks apart there
    ),
    Wanted(attribute="operation", value="RunInstances", otherwise="RunInstances:CB, and the codes of every other system"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Hourly:
    """An hourly on-demand price that is in effect."""

    product: Product
    amount: Decimal
    currency: str
    code: str
    effective_from: datetime | None

    def __str__(self) -> str:
        since = f" since {self.effective_from.date().isoformat()}" if self.effective_from else ""
        return f"SKU {self.product.sku} at {self.amount.normalize():f} {self.currency}{since}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceListReading:
    """Quotes of the types whose price is certain; `unresolved` for those that have none or several; what was left out, by reason."""

    quotes: tuple[Quote, ...]
    unresolved: tuple[NotOnePrice, ...]
    excluded: Mapping[str, int]
    unreadable: tuple[ReplyError, ...]


@dataclass(slots=True)
class _Found:
    machines: bool = False  # machines of a region, rather than hosts or Local Zones
    prices: list[Hourly] = field(default_factory=list)
    excluded: Counter[str] = field(default_factory=Counter)


def parse_price_list(documents: Iterable[str], *, at: datetime, retrieved_at: datetime) -> PriceListReading:
    """Return on-demand and reserved quotes of every type and region in the documents, as in effect `at`.

    One text that cannot be read does not lose the others. Order and repetition of documents change nothing.
    """
    found, unreadable = _collected(documents, at)
    quotes: list[Quote] = []
    unresolved: list[NotOnePrice] = []
    excluded: Counter[str] = Counter({"cannot be read": len(unreadable)} if unreadable else {})
    for (instance_type, region), entry in sorted(found.items()):
        if instance_type and region:
            try:
                hourly = _the_one(entry, where=f"{instance_type} {region}")
                quotes.append(_on_demand(hourly, retrieved_at))
                quotes += _reserved(hourly.product, at, retrieved_at, entry.excluded)
            except NotOnePrice as e:
                e.instance_type = instance_type
                if entry.machines:
                    unresolved.append(e)
            except ReplyError as e:
                e.instance_type = instance_type
                unreadable.append(e)
                excluded["cannot be read"] += 1
        excluded.update(entry.excluded)
    return PriceListReading(
        quotes=tuple(quotes), unresolved=tuple(unresolved), excluded=dict(excluded), unreadable=tuple(unreadable)
    )


def on_demand_quote(
    documents: Iterable[str], *, instance_type: str, region: str, at: datetime, retrieved_at: datetime
) -> Quote:
    """Return the one plain Linux on-demand quote of a type in a region; NotOnePrice with the evidence where none or several are left."""
    found, unreadable = _collected(documents, at)
    entry = found.get((instance_type, region), _Found())
    if unreadable and not entry.prices:
        raise unreadable[0]
    return _on_demand(_the_one(entry, where=f"{instance_type} {region}"), retrieved_at)


def why_left_out(product: Product) -> str | None:
    """Return why a product is not the plain use of a machine, or None when it is."""
    if product.family not in FAMILIES:
        return f"productFamily {product.family or 'missing'}"
    metal = product.family == FAMILIES[1]
    for wanted in PLAIN_USE:
        value = product.attributes.get(wanted.attribute)
        if value == wanted.value or (value is None and wanted.may_be_absent):
            continue
        if metal and wanted.attribute == "tenancy" and value == "Dedicated":
            continue
        return f"{wanted.attribute} {value or 'missing'}"
    return None


def _collected(documents: Iterable[str], at: datetime) -> tuple[dict[tuple[str, str], _Found], list[ReplyError]]:
    """Return what each type and region has, and the texts that cannot be read."""
    found: dict[tuple[str, str], _Found] = {}
    unreadable: list[ReplyError] = []
    seen: set[tuple[object, ...]] = set()
    texts: dict[str, str] = {}
    for document in documents:
        product = None
        try:
            product = parse_product(document)
            kept, left_out = _prices(product, at)
        except ReplyError as e:
            e.instance_type = e.instance_type or (product.key[0] or None if product is not None else None)
            unreadable.append(e)
            continue
        entry = found.setdefault(product.key, _Found())
        if texts.get(product.sku) == document:
            entry.excluded[REPEATED] += 1
            continue
        texts[product.sku] = document
        entry.excluded.update(left_out)
        entry.machines |= product.family in FAMILIES and product.attributes.get("locationType") == "AWS Region"
        for hourly in kept:
            same = (product.sku, hourly.amount, hourly.currency, hourly.effective_from)
            if same in seen:
                entry.excluded[REPEATED] += 1
            else:
                seen.add(same)
                entry.prices.append(hourly)
    return found, unreadable


def _prices(product: Product, at: datetime) -> tuple[list[Hourly], Counter[str]]:
    """Return the hourly prices of a product in effect, and what was left out by reason."""
    left_out: Counter[str] = Counter()
    if (reason := why_left_out(product)) is not None:
        left_out[reason] += 1
        return [], left_out
    kept: list[Hourly] = []
    terms = terms_of(product, "OnDemand")
    if not terms:
        left_out["no on-demand term"] += 1
    for where, term in terms:
        effective = start_of(term, where)
        if effective is not None and effective > at:
            left_out["starts in the future"] += 1
            continue
        dimensions = list(rates_of(term, where))
        if not dimensions:
            left_out["term without a price"] += 1
        for code, unit, currency, amount in dimensions:
            if unit != INSTANCE_HOUR:
                left_out[f"unit {unit}"] += 1
            elif amount == 0:
                left_out["price of zero"] += 1
            else:
                kept.append(
                    Hourly(product=product, amount=amount, currency=currency, code=code, effective_from=effective)
                )
    return kept, left_out


def _the_one(entry: _Found, *, where: str) -> Hourly:
    """Return the price in effect: the only one, or the one with the latest start among dated ones. Ties are not decided by price."""
    prices = sorted(_listed_once(entry), key=lambda p: (p.product.sku, p.currency, p.amount))
    starts = [p.effective_from for p in prices if p.effective_from is not None]
    if len(prices) > 1 and len(starts) == len(prices) and starts.count(latest := max(starts)) == 1:
        entry.excluded[SUPERSEDED] += len(prices) - 1
        return next(p for p in prices if p.effective_from == latest)
    if len(prices) != 1:
        raise NotOnePrice(source=SOURCE, where=where, left=tuple(str(p) for p in prices), excluded=entry.excluded)
    return prices[0]


def _listed_once(entry: _Found) -> Iterator[Hourly]:
    """Yield the prices, without the Dedicated twin of a bare-metal machine that is also listed as Shared at the same price."""
    shared = {(p.amount, p.currency) for p in entry.prices if p.product.attributes.get("tenancy") == "Shared"}
    for price in entry.prices:
        if price.product.attributes.get("tenancy") == "Dedicated" and (price.amount, price.currency) in shared:
            entry.excluded["tenancy Dedicated"] += 1
        else:
            yield price


def _on_demand(hourly: Hourly, retrieved_at: datetime) -> Quote:
    instance_type, region = hourly.product.key
    return Quote(
        provider=PROVIDER,
        instance_type=instance_type,
        region=region,
        purchase_option=PurchaseOption.ON_DEMAND,
        currency=hourly.currency,
        list_unit_price=hourly.amount,
        effective_unit_price=hourly.amount,
        source=hourly.product.source,
        sku=hourly.product.sku,
        rate_code=hourly.code,
        effective_from=hourly.effective_from.date() if hourly.effective_from else None,
        retrieved_at=retrieved_at,
    )


def _reserved(product: Product, at: datetime, retrieved_at: datetime, left_out: Counter[str]) -> Iterator[Quote]:
    """Yield the reservations of a product, each at its latest price that is in effect."""
    latest: dict[tuple[object, ...], Quote] = {}
    for where, term in terms_of(product, "Reserved"):
        quote = _reservation(product, term, where, at, retrieved_at)
        if isinstance(quote, str):
            left_out[quote] += 1
            continue
        key = (quote.term_years, quote.offering_class, quote.payment_option)
        if key in latest:
            left_out[SUPERSEDED] += 1
        if key not in latest or (quote.effective_from or date.min) > (latest[key].effective_from or date.min):
            latest[key] = quote
    yield from latest.values()


def _reservation(
    product: Product, term: Mapping[str, Any], where: str, at: datetime, retrieved_at: datetime
) -> Quote | str:
    """Return a reservation, or why it is none: effective price = hourly + upfront / (8,760 x years), owed for every hour of the term."""
    instance_type, region = product.key
    attributes = replies.mapping(term.get("termAttributes"), source=SOURCE, where=where)
    length = TERMS.get(str(attributes.get("LeaseContractLength")))
    payment = PAYMENTS.get(str(attributes.get("PurchaseOption")).replace(" ", "").casefold())
    offering_class = str(attributes.get("OfferingClass"))
    effective = start_of(term, where)
    if length is None or payment is None or offering_class not in CLASSES:
        return "reservation of an old or unknown sort"
    if effective is not None and effective > at:
        return "reservation that starts in the future"
    amounts: dict[str, Decimal] = {}
    codes: dict[str, str] = {}
    currencies = set()
    for code, unit, currency, amount in rates_of(term, where):
        if unit not in (INSTANCE_HOUR, UPFRONT) or unit in amounts:
            why = f"a reservation has one price per hour and one fee, not {unit!r} too"
            raise ReplyError(source=SOURCE, where=where, why=why)
        amounts[unit], codes[unit] = amount, code
        currencies.add(currency)
    years, option = length
    hourly, upfront = amounts.get(INSTANCE_HOUR, Decimal(0)), amounts.get(UPFRONT, Decimal(0))
    price = hourly + upfront / (HOURS_PER_YEAR * years)
    if len(currencies) != 1 or price == 0:
        return "reservation without a price"
    return Quote(
        provider=PROVIDER,
        instance_type=instance_type,
        region=region,
        purchase_option=option,
        offering_class=offering_class,
        term_years=years,
        payment_option=payment,
        currency=currencies.pop(),
        list_unit_price=hourly,
        upfront=upfront,
        effective_unit_price=price,
        source=product.source,
        sku=product.sku,
        rate_code=codes[
            INSTANCE_HOUR if hourly else UPFRONT
        ],  # all upfront is listed with an hourly price of 0 as well
        effective_from=effective.date() if effective else None,
        retrieved_at=retrieved_at,
    )
