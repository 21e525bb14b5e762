"""A price sheet in CSV: a neocloud's offer, a colocation contract, owned hardware. Text in, quotes and instance types out; pure.

A sheet is read whole or refused whole: `SheetError` holds every fault with its line. A price in another currency stays in it unless the
row states a rate; a price per accelerator-hour or month becomes one per hour of the instance, and the note says how.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

from pricing.amounts import HOURLY_PRICE, MONTHLY_PRICE
from pricing.aws.currency import ExchangeRate, in_usd
from pricing.checks import quote_key
from pricing.contents import midnight
from pricing.errors import SheetError
from pricing.model import INSTANCE_HOUR, InstanceType, PurchaseOption, Quote
from pricing.money import HOURS_PER_MONTH, HOURS_PER_YEAR
from pricing.sheet_rows import Reading, sheet_of, sheet_rows, sheet_source
from pricing.sheet_types import Known, sheet_types, type_key

NAME = re.compile(r"[^\s:;][^:;\n]{0,79}")
PROVIDER = re.compile(r"[a-z0-9][a-z0-9._-]*")
CURRENCY = re.compile(r"[A-Z]{3}")
UNITS = {
    "": "hour",
    "h": "hour",
    "hour": "hour",
    "hrs": "hour",
    "accelerator_hour": "accelerator_hour",
    "gpu_hour": "accelerator_hour",
    "month": "month",
}
YEARS = {
    PurchaseOption.SAVINGS_PLAN_1YR: 1,
    PurchaseOption.SAVINGS_PLAN_3YR: 3,
    PurchaseOption.RESERVED_1YR: 1,
    PurchaseOption.RESERVED_3YR: 3,
}
PLANS = {PurchaseOption.SAVINGS_PLAN_1YR, PurchaseOption.SAVINGS_PLAN_3YR}
RESERVATIONS = {PurchaseOption.RESERVED_1YR, PurchaseOption.RESERVED_3YR}


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSheet:
    """What a sheet says: its prices, and the instance types that it describes itself."""

    name: str
    quotes: tuple[Quote, ...]
    instance_types: tuple[InstanceType, ...]
    lines: Mapping[tuple[Hashable, ...], int] = field(default_factory=dict)  # line of the file by `quote_key`


def parse_sheet(text: str, *, name: str, known: Known, today: date) -> PriceSheet:
    """Return what a sheet says; SheetError with every fault and its line when any row cannot be right.

    `today` bounds `quoted_on` and `effective_from`: a price of the future is no price yet.
    """
    faults: list[str] = []
    if not NAME.fullmatch(name):
        raise SheetError(sheet=name, faults=("the name of a sheet has 1 to 80 characters, none of them : or ;",))
    rows = list(sheet_rows(text, name, faults))
    if not rows and not faults:
        faults.append("it holds no price")
    types = sheet_types(rows, name, known, faults)
    regions = {region.casefold(): region for region in known.regions}
    quotes: dict[tuple[Hashable, ...], Quote] = {}
    lines: dict[tuple[Hashable, ...], int] = {}
    for row in rows:
        quote = _quote(Reading(row, faults), name, regions=regions, types=types, today=today)
        if quote is None:
            continue
        key = quote_key(quote)
        if key in quotes:
            faults.append(f"line {row.line}: the same thing is priced on line {lines[key]}")
            continue
        quotes[key], lines[key] = quote, row.line
    if faults:
        raise SheetError(sheet=name, faults=tuple(sorted(dict.fromkeys(faults), key=_line_of)))
    new = tuple(i for i in types.values() if sheet_of(i.source) == name)
    return PriceSheet(name=name, quotes=tuple(quotes.values()), instance_types=new, lines=lines)


def _line_of(fault: str) -> int:
    found = re.match(r"line (\d+)", fault)
    return int(found[1]) if found else 0


def _quote(
    reading: Reading,
    name: str,
    *,
    regions: Mapping[str, str],
    types: Mapping[tuple[str, str], InstanceType],
    today: date,
) -> Quote | None:
    row = reading.row
    provider = reading.text("provider").casefold()
    if provider and not PROVIDER.fullmatch(provider):
        reading.fault("provider", f"must be a word of letters, digits, . _ and -, not {row.cells['provider']!r}")
    reading.text("instance_type")
    region = reading.text("region")
    region = regions.get(region.casefold(), region)
    option = _option(reading)
    quoted = reading.day("quoted_on", today)
    if not row.cells["quoted_on"]:
        reading.fault("quoted_on", "must not be empty: a price has a day")
    effective_from = reading.day("effective_from", today)
    currency = (row.cells["currency"] or "USD").upper()
    if not CURRENCY.fullmatch(currency):
        reading.fault("currency", f"must be three letters like USD, not {row.cells['currency']!r}")
    unit = UNITS.get(row.cells["unit"].casefold().replace(" ", "_").replace("-", "_"))
    if unit is None:
        reading.fault("unit", f"must be hour, accelerator_hour or month, not {row.cells['unit']!r}")
    rate = _rate(reading, currency, today)
    price = reading.positive("unit_price", zero=True, within=MONTHLY_PRICE if unit == "month" else HOURLY_PRICE)
    if price is None and not row.cells["unit_price"]:
        reading.fault("unit_price", "must not be empty")
    upfront = reading.positive("upfront", zero=True)
    plan, offering, payment = (reading.choice(c) for c in ("plan_type", "offering_class", "payment_option"))
    years = _years(reading, option)
    if option is not None and price is not None:
        _check_terms(reading, option, price=price, upfront=upfront, years=years, payment=payment)
    instance = types.get(type_key(row))
    if not reading.sound or instance is None or option is None or price is None or unit is None or quoted is None:
        return None
    hourly, how = _per_hour(reading, price, unit, currency, instance)
    if hourly is None:
        return None
    spread = upfront / (HOURS_PER_YEAR * years) if upfront and years else Decimal(0)
    quote = Quote(
        provider=instance.provider,
        instance_type=instance.instance_type,
        region=region,
        purchase_option=option,
        plan_type=plan,
        offering_class=offering,
        term_years=years,
        payment_option=payment,
        currency=currency,
        unit=INSTANCE_HOUR,
        list_unit_price=hourly,
        upfront=upfront,
        effective_unit_price=hourly + spread,
        source=sheet_source(name, row.cells["source"].replace(";", ",")),
        effective_from=effective_from,
        retrieved_at=midnight(quoted),
        notes="; ".join(text for text in (row.cells["note"], how) if text),
    )
    if rate is not None:
        quote = in_usd(quote, rate)
    if (why := HOURLY_PRICE.why_not(quote.effective_unit_price)) is not None:
        reading.fault("unit_price", f"the whole instance, with everything in it, {why}")
        return None
    return quote


def _option(reading: Reading) -> PurchaseOption | None:
    text = reading.text("purchase_option").casefold().replace("-", "_").replace(" ", "_")
    if text in set(PurchaseOption):
        return PurchaseOption(text)
    if text:
        reading.fault("purchase_option", f"must be one of {', '.join(PurchaseOption)}, not {text!r}")
    return None


def _years(reading: Reading, option: PurchaseOption | None) -> int | None:
    """Return the years of the term: as stated for owned hardware, else those that the purchase option names."""
    years = reading.positive("term_years")
    if years is not None and years != years.to_integral_value():
        reading.fault("term_years", f"must be a whole number, not {years}")
        return None
    if option is None or option is PurchaseOption.OWNED:
        return None if years is None else int(years)
    term = YEARS.get(option)
    if years is not None and years != term:
        reading.fault("term_years", f"{years} does not go with {option}")
    return term


def _check_terms(
    reading: Reading,
    option: PurchaseOption,
    *,
    price: Decimal,
    upfront: Decimal | None,
    years: int | None,
    payment: str | None,
) -> None:
    """Report terms that do not go together."""
    if option not in PLANS and reading.row.cells["plan_type"]:
        reading.fault("plan_type", f"does not go with {option}")
    if option not in RESERVATIONS and reading.row.cells["offering_class"]:
        reading.fault("offering_class", f"does not go with {option}")
    if option not in YEARS and option is not PurchaseOption.CAPACITY_BLOCK and payment:
        reading.fault("payment_option", f"does not go with {option}")
    if upfront and years is None:
        why = (
            "owned hardware needs term_years to spread it over"
            if option is PurchaseOption.OWNED
            else f"does not go with {option}"
        )
        reading.fault("upfront", why)
    elif price == 0 and not upfront:
        reading.fault("unit_price", "must be above zero where nothing is paid upfront")
    if payment == "no_upfront" and upfront:
        reading.fault("upfront", "must be empty or zero with payment_option no_upfront")
    if payment == "partial_upfront" and not (upfront and price):
        reading.fault("payment_option", "partial_upfront has an upfront and a unit_price above zero")
    if payment == "all_upfront" and upfront and price:
        reading.fault("unit_price", "must be zero with payment_option all_upfront: all is in upfront")


def _rate(reading: Reading, currency: str, today: date) -> ExchangeRate | None:
    row = reading.row
    given = [column for column in ("usd_rate", "rate_source", "rate_on") if row.cells[column]]
    if not given:
        return None
    per_usd, day = reading.positive("usd_rate"), reading.day("rate_on", today)
    if len(given) < len(("usd_rate", "rate_source", "rate_on")):
        reading.fault("usd_rate", "a rate needs usd_rate, rate_source and rate_on")
    elif currency == "USD":
        reading.fault("usd_rate", "the price is in USD already")
    if not reading.sound or per_usd is None or day is None:
        return None
    return ExchangeRate(currency=currency, per_usd=per_usd, source=row.cells["rate_source"], as_of=day)


def _per_hour(
    reading: Reading, price: Decimal, unit: str, currency: str, instance: InstanceType
) -> tuple[Decimal | None, str]:
    """Return the price of an instance-hour, and how it was worked out: 2.49 an accelerator-hour x 8 = 19.92; a month has 730 hours."""
    if unit == "hour":
        return price, ""
    if unit == "month":
        return price / HOURS_PER_MONTH, f"{price} {currency} a month of {HOURS_PER_MONTH} h"
    chips = instance.accelerators_per_instance
    if chips is None:
        reading.fault("unit", f"{instance.instance_type} has no accelerator: price it by the hour")
        return None, ""
    return price * Decimal(str(chips)), f"{price} {currency} an accelerator-hour x {chips:g}"
