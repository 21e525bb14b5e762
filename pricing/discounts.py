"""A private agreement: read from TOML, and applied as contracted prices beside the list prices.

    agreement = "EDP 2026"          # how it is called; default: the file's name
    provider  = "aws"               # default
    starts_on = 2026-01-01          # dates hold for every discount that has none of its own; both days are included
    ends_on   = 2026-12-31

    [[discount]]                    # a share off the list price of whatever the selectors name; without any: of everything
    percent_off     = 9
    purchase_option = ["on_demand", "savings_plan_1yr", "savings_plan_3yr"]

    [[discount]]                    # a negotiated price, per hour of one instance
    instance_type   = "p5.48xlarge"
    region          = "us-east-1"
    purchase_option = "on_demand"
    unit_price      = "44.00"
    currency        = "USD"         # default

Selectors are `sku`, `instance_type`, `family` (aws), `region` and `purchase_option`; each takes a text or a list of texts. For each
price the most exact line holds alone, and shares are not added up: a line that names a SKU goes before one that names a type, then
family, region, purchase option. Two lines that are equally exact on one day are a fault of the agreement.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from itertools import combinations, product
from typing import Any

from pricing.amounts import HOURLY_PRICE, PERCENT_OFF, shown, stated_number
from pricing.errors import SheetError
from pricing.market import Discount, Notice, NoticeKind
from pricing.model import PurchaseOption, Quote
from pricing.money import HOURS_PER_YEAR

NAME = "discounts"
"""Source of the notices about an agreement."""

SELECTORS = ("sku", "instance_type", "family", "region", "purchase_option")
"""Most exact first: this order decides which line holds."""

OPTIONS = tuple(option.value for option in PurchaseOption)
HEAD_KEYS = ("agreement", "provider", "currency", "starts_on", "ends_on")
LINE_KEYS = (*SELECTORS, "percent_off", "unit_price", "currency", "starts_on", "ends_on")
LINES = "discount"
LINE_START = re.compile(r"^[ \t]*\[\[[ \t]*discount[ \t]*\]\]", re.MULTILINE)
CONTRACTED = "contracted under "
"""How the note of a contracted quote begins; by it the quote is led back to its list price."""

BETWEEN_NOTES = "; "
MOST_FAULTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Quotes with contracted prices, in the order in which they were given, and what is to be said of the agreement."""

    quotes: tuple[Quote, ...]
    notices: tuple[Notice, ...]


def parse_agreement(text: str, name: str) -> tuple[Discount, ...]:
    """Return the lines of an agreement; `name` is the file's, for messages. SheetError with every fault, and then nothing of it holds."""
    import tomllib  # noqa: PLC0415 - contracted prices are read far more often than agreements

    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError, InvalidOperation) as e:
        why = "a number beyond all" if isinstance(e, InvalidOperation) else e
        raise SheetError(sheet=name, faults=(f"is not TOML: {why}",)) from e
    faults: list[str] = []
    given = document.pop(LINES, [])
    head = _Reader(document, "", faults)
    head.known(HEAD_KEYS)
    starts, ends = head.day("starts_on"), head.day("ends_on")
    if starts is not None and ends is not None and ends < starts:
        head.fault(f"the agreement ends on {ends}, before it starts on {starts}")
        starts = ends = None  # told once, and not of each discount
    defaults = {
        "agreement": head.words("agreement") or name,
        "provider": head.words("provider") or "aws",
        "currency": head.currency(),
        "starts_on": starts,
        "ends_on": ends,
    }
    if not isinstance(given, list) or not all(isinstance(line, dict) for line in given):
        faults.append(f"{LINES} must be a list of tables, each begun by [[{LINES}]]")
        given = []
    elif not given:
        faults.append(f"holds no [[{LINES}]]: nothing would change")
    begun = [text.count("\n", 0, match.start()) + 1 for match in LINE_START.finditer(text)]
    lines = begun if len(begun) == len(given) else [None] * len(given)
    discounts: list[Discount] = []
    for number, (line, at) in enumerate(zip(given, lines, strict=True), start=1):
        place = f"{LINES} {number}" + (f" (line {at})" if at is not None else "")
        discounts += _line(line, place, defaults, source=f"{name}, {LINES} {number}", faults=faults)
    faults += clashes(discounts)
    if faults:
        more = [f"and {len(faults) - MOST_FAULTS} more"] if len(faults) > MOST_FAULTS else []
        raise SheetError(sheet=name, faults=(*faults[:MOST_FAULTS], *more))
    return tuple(discounts)


def contracted(quotes: Iterable[Quote], discounts: Iterable[Discount], on: date) -> tuple[Quote, ...]:
    """Return every quote, those that a line in effect holds for with their contracted price; see `apply_agreement`."""
    return apply_agreement(quotes, discounts, on).quotes


def apply_agreement(quotes: Iterable[Quote], discounts: Iterable[Discount], on: date) -> Applied:
    """Return the quotes as paid under an agreement on a day.

    The list price and the list upfront stay; `contracted_unit_price` is what the hour costs, `effective_unit_price` what is paid per hour,
    the contracted upfront of a commitment spread over its term (`contracted_upfront` gives it). Quotes that were contracted before start
    from their list price, so that applying twice is applying once, and an agreement that has ended leaves no trace. A contracted price
    that a seller's own sheet states is no list price: it stays. SheetError where two lines are equally exact.
    """
    discounts = tuple(discounts)
    if faults := clashes(discounts):
        raise SheetError(sheet="price agreement", faults=tuple(faults))
    index: dict[tuple[str, str], list[Discount]] = defaultdict(list)
    for line in discounts:
        if in_effect(line, on):
            index[_bucket(line)].append(line)
    said: list[Notice] = []
    used: Counter[Discount] = Counter()
    out: list[Quote] = []
    for given in quotes:
        quote = as_listed(given)
        holds = None if quote.contracted_unit_price is not None else _line_for(quote, index, said)
        if holds is None:
            out.append(quote)
            continue
        used[holds] += 1
        out.append(_under(quote, holds, said))
    for line in discounts:
        if line.ends_on is not None and line.ends_on < on:
            said.append(_notice(_selected(line), f"ended on {line.ends_on}: list prices hold", line))
        elif in_effect(line, on) and not used[line]:
            said.append(_notice(_selected(line), "holds for no price of the snapshot", line))
    return Applied(quotes=tuple(out), notices=_counted(said))


def as_listed(quote: Quote) -> Quote:
    """Return a quote without what an agreement made of it; the quote itself where none did."""
    notes = quote.notes.split(BETWEEN_NOTES)
    own = [note for note in notes if not note.startswith(CONTRACTED)]
    if len(own) == len(notes) or quote.list_unit_price is None:
        return quote
    return replace(
        quote,
        contracted_unit_price=None,
        effective_unit_price=quote.list_unit_price + _spread(quote, quote.upfront),
        notes=BETWEEN_NOTES.join(own),
    )


def contracted_upfront(quote: Quote) -> Decimal | None:
    """Return what is paid at once under an agreement for a commitment, None where nothing was agreed or nothing is paid at once."""
    if quote.contracted_unit_price is None or quote.upfront is None or not quote.term_years:
        return None
    return (quote.effective_unit_price - quote.contracted_unit_price) * HOURS_PER_YEAR * quote.term_years


def in_effect(line: Discount, on: date) -> bool:
    """Return whether a line holds on a day; its first and its last day are days on which it does."""
    return (line.starts_on is None or line.starts_on <= on) and (line.ends_on is None or on <= line.ends_on)


def exactness(line: Discount) -> tuple[bool, ...]:
    """Return which selectors a line names, the most exact first: the larger tuple goes before the smaller."""
    return tuple(getattr(line, name) is not None for name in SELECTORS)


def clashes(discounts: Iterable[Discount]) -> list[str]:
    """Return the faults of lines that name the same things and share a day: which of them holds cannot be told.

    Lines that are equally exact meet in one price only if they name the same things.
    """
    same: dict[tuple[object, ...], list[Discount]] = defaultdict(list)
    for line in discounts:
        same[line.provider, *(getattr(line, name) for name in SELECTORS)].append(line)
    return [
        f"{a.source} and {b.source} are equally exact ({_selected(a)}) and hold on the same days: leave one out"
        for lines in same.values()
        for a, b in combinations(lines, 2)
        if (a.starts_on or date.min) <= (b.ends_on or date.max) and (b.starts_on or date.min) <= (a.ends_on or date.max)
    ]


def _line_for(quote: Quote, index: Mapping[tuple[str, str], list[Discount]], said: list[Notice]) -> Discount | None:
    """Return the most exact line in effect that a quote falls under."""
    buckets = (
        ("sku", quote.sku or ""),
        ("instance_type", quote.instance_type),
        ("family", family_of(quote)),
        ("", ""),
    )
    for bucket in buckets:
        fitting = [line for line in index.get(bucket, ()) if _matches(line, quote)]
        for line in fitting:
            if line.unit_price is not None and line.currency != quote.currency:
                why = f"is in {line.currency}, the price in {quote.currency}: not applied"
                said.append(_notice(_subject(quote), why, line))
        usable = [line for line in fitting if line.unit_price is None or line.currency == quote.currency]
        if usable:
            return max(usable, key=exactness)
    return None


def _under(quote: Quote, line: Discount, said: list[Notice]) -> Quote:
    """Return a listed quote at the price of a line."""
    listed = quote.list_unit_price
    if listed is None:
        listed = quote.effective_unit_price - _spread(quote, quote.upfront)
    if line.percent_off is not None:
        share = (100 - line.percent_off) / 100
        hourly, upfront = listed * share, None if quote.upfront is None else quote.upfront * share
        how = f"{line.percent_off.normalize():f} % off"
    else:
        assert line.unit_price is not None  # noqa: S101 - a line has one of the two
        hourly, upfront = line.unit_price, None
        how = "negotiated price"
        if hourly > quote.effective_unit_price:
            why = f"negotiated {hourly:f} {quote.currency} per hour is above the list price of {quote.effective_unit_price:f}"
            said.append(_notice(_subject(quote), why, line))
    note = f"{CONTRACTED}{line.agreement} ({line.source}): {how}"
    return replace(
        quote,
        list_unit_price=listed,
        contracted_unit_price=hourly,
        effective_unit_price=hourly + _spread(quote, upfront),
        notes=BETWEEN_NOTES.join(part for part in (quote.notes, note) if part),
    )


def _spread(quote: Quote, upfront: Decimal | None) -> Decimal:
    """Return an upfront payment per hour of the term, zero where none is paid on top of the hourly price.

    What is stated for a term is on top, of whatever option: a reservation's, a sheet's plan, an own server's. AWS's Savings Plans state
    none, as their rate holds it; a capacity block states its fee and no term, and its hourly price is that fee.
    """
    if upfront is None or not quote.term_years:
        return Decimal(0)
    return upfront / (HOURS_PER_YEAR * quote.term_years)


def _bucket(line: Discount) -> tuple[str, str]:
    """Return under what a line is looked up: the most exact of what it names, but for region and purchase option."""
    return next(((name, value) for name in SELECTORS[:3] if (value := getattr(line, name)) is not None), ("", ""))


def _matches(line: Discount, quote: Quote) -> bool:
    return line.provider == quote.provider and all(
        wanted is None or wanted == has
        for wanted, has in (
            (line.sku, quote.sku),
            (line.instance_type, quote.instance_type),
            (line.family, family_of(quote)),
            (line.region, quote.region),
            (line.purchase_option, quote.purchase_option),
        )
    )


def family_of(quote: Quote) -> str:
    """Return the family of an AWS type: "p5" of p5.48xlarge."""
    return quote.instance_type.partition(".")[0]


def _subject(quote: Quote) -> str:
    return f"{quote.instance_type} {quote.region} {quote.purchase_option.value}"


def _selected(line: Discount) -> str:
    """Return what a line is about: "p5.48xlarge us-east-1 on_demand", "everything of aws"."""
    named = [str(value) for name in SELECTORS if (value := getattr(line, name)) is not None]
    return " ".join(named) or f"everything of {line.provider}"


def _notice(subject: str, why: str, line: Discount) -> Notice:
    return Notice(kind=NoticeKind.NOTE, source=NAME, subject=subject, detail=f"{why} ({line.source})")


def _counted(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return each notice once, with how often it was said (a type has several zones and terms)."""
    counts = Counter(notices)
    return tuple(replace(notice, count=count) for notice, count in counts.items())


def _line(
    line: Mapping[str, Any], place: str, defaults: Mapping[str, Any], *, source: str, faults: list[str]
) -> Iterator[Discount]:
    """Yield what one table of the file says: a discount for each combination of the texts that its selectors list."""
    before = len(faults)
    reader = _Reader(line, f"{place}: ", faults)
    reader.known(LINE_KEYS)
    named = {name: reader.several(name) for name in SELECTORS}
    percent, price = reader.amount("percent_off"), reader.amount("unit_price")
    starts, ends = reader.day("starts_on") or defaults["starts_on"], reader.day("ends_on") or defaults["ends_on"]
    currency = reader.currency() if "currency" in line else defaults["currency"]
    if ("percent_off" in line) == ("unit_price" in line):
        reader.fault("give exactly one of percent_off (of the list price) and unit_price (per hour of one instance)")
    if percent is not None and not 0 < percent < 100:
        reader.fault(f"percent_off must be above 0 and below 100, not {shown(percent)}")
    elif percent is not None and (why := PERCENT_OFF.why_not(percent)) is not None:
        reader.fault(f"percent_off {why}")
    if price is not None and price <= 0:
        reader.fault(f"unit_price must be above 0, not {shown(price)}")
    elif price is not None and (why := HOURLY_PRICE.why_not(price)) is not None:
        reader.fault(f"unit_price {why}")
    if "unit_price" in line and not (named["sku"] or named["instance_type"]):
        reader.fault("unit_price needs instance_type or sku: a price for types of unlike size cannot be meant")
    if "unit_price" in line and not named["purchase_option"]:
        reader.fault("unit_price needs purchase_option, for example on_demand")
    if named["family"] and defaults["provider"] != "aws":
        reader.fault(f"family selects types of aws only; for {defaults['provider']} name instance_type")
    if starts is not None and ends is not None and ends < starts:
        reader.fault(f"ends on {ends}, before it starts on {starts}")
    for text in named["purchase_option"]:
        if text not in OPTIONS:
            reader.fault(f"purchase_option {text!r} is not one of {', '.join(OPTIONS)}")
    if len(faults) > before:
        return
    for sku, instance_type, family, region, option in product(*(named[name] or (None,) for name in SELECTORS)):
        yield Discount(
            provider=defaults["provider"],
            agreement=defaults["agreement"],
            purchase_option=None if option is None else PurchaseOption(option),
            region=region,
            family=family,
            instance_type=instance_type,
            sku=sku,
            percent_off=percent,
            unit_price=price,
            currency=currency,
            starts_on=starts,
            ends_on=ends,
            source=source,
        )


class _Reader:
    """Reads the values of one table; what cannot be right is added to the faults, with its place."""

    def __init__(self, table: Mapping[str, Any], place: str, faults: list[str]) -> None:
        self._table, self._place, self._faults = table, place, faults

    def fault(self, why: str) -> None:
        """Add a fault."""
        self._faults.append(f"{self._place}{why}")

    def known(self, keys: tuple[str, ...]) -> None:
        """Add a fault for each key that nobody reads."""
        import difflib  # noqa: PLC0415 - only on the way to an error

        for key in self._table:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, n=1)
                self.fault(f"unknown key {key!r}" + (f"; did you mean {near[0]}?" if near else f"; known are {', '.join(keys)}"))  # fmt: skip

    def words(self, key: str) -> str | None:
        """Return a text that is one line and not empty, None where it is absent."""
        value = self._table.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or not value.isprintable() or BETWEEN_NOTES in value:
            self.fault(f"{key} must be a text on one line, without '{BETWEEN_NOTES}', not {value!r}")
            return None
        return value.strip()

    def several(self, key: str) -> tuple[str, ...]:
        """Return a text, or the texts of a list, each once; empty where it is absent."""
        value = self._table.get(key)
        if value is None:
            return ()
        listed = value if isinstance(value, list) else [value]
        if not listed or not all(isinstance(each, str) and each.strip() for each in listed):
            self.fault(f"{key} must be a text or a list of texts, not {value!r}")
            return ()
        return tuple(dict.fromkeys(each.strip() for each in listed))

    def amount(self, key: str) -> Decimal | None:
        """Return an exact number, written as a number or as text in plain digits."""
        value = self._table.get(key)
        if value is None:
            return None
        number = stated_number(value)
        if number is None:
            self.fault(f'{key} must be a number like 9 or "44.00", not {shown(value)}')
            return None
        return number

    def day(self, key: str) -> date | None:
        """Return a day."""
        value = self._table.get(key)
        if isinstance(value, str):
            try:
                value = date.fromisoformat(value)
            except ValueError:
                self.fault(f"{key} must be a day like 2026-01-01, not {value!r}")
                return None
        if value is not None and (not isinstance(value, date) or isinstance(value, datetime)):
            self.fault(f"{key} must be a day like 2026-01-01, not {value}")
            return None
        return value

    def currency(self) -> str:
        """Return an ISO 4217 code, USD where it is absent."""
        value = self._table.get("currency", "USD")
        if not isinstance(value, str) or not re.fullmatch(r"[A-Z]{3}", value):
            self.fault(f"currency must be a code like USD, not {value!r}")
            return "USD"
        return value
