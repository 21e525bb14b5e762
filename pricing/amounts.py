"""Numbers that a person or a file states: plain decimals within bounds that a price can have, so that nothing after them overflows.

A number is written in ASCII digits with an optional sign and point: no thousands marks, no underscores, no digits of other scripts, and in
sheets no exponents. Bounds are wide: a thousandth of a cent up to ten million an hour holds every price of every currency.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from pricing.money import HOURS_PER_MONTH, WIDE

PLAIN = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})", re.ASCII)
WITH_EXPONENT = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)
LONGEST_SHOWN = 30


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most that a number can be, both included; `of` says of what, for messages."""

    least: Decimal
    most: Decimal
    of: str = ""

    def why_not(self, number: Decimal) -> str | None:
        """Return why a number cannot be: "must be from 0.000001 to 10,000,000 an hour, not 1e+999"; None where it can."""
        if number.is_finite() and self.least <= number <= self.most:
            return None
        return f"must be from {self.least:f} to {self.most:,f}{f' {self.of}' if self.of else ''}, not {shown(number)}"


HOURLY_PRICE = Bounds(Decimal("0.000001"), Decimal(10_000_000), "an hour")
MONTHLY_PRICE = Bounds(Decimal("0.001"), HOURLY_PRICE.most * HOURS_PER_MONTH, "a month")
UPFRONT = Bounds(Decimal("0.01"), Decimal(100_000_000_000))
"""A room of servers in a weak currency is within it."""
EXCHANGE_RATE = Bounds(Decimal("0.000001"), Decimal(10_000_000))
PERCENT_OFF = Bounds(Decimal("0.0001"), Decimal("99.9999"))
PERCENT_MOVED = Bounds(Decimal("0.0001"), Decimal(1_000_000))
TERM_YEARS = Bounds(Decimal(1), Decimal(50))
QUANTITY = Bounds(Decimal("0.001"), Decimal(1_000_000_000))
"""Of vCPUs, chips, GiB and GB/s: what is above is a slip."""
BILLED_MOST, BILLED_DECIMALS = Decimal(10) ** 18, 40


def plain_decimal(text: str) -> Decimal | None:
    """Return a number that is written plainly, None where it is not."""
    return Decimal(text) if PLAIN.fullmatch(text) else None


def stated_number(value: object) -> Decimal | None:
    """Return a finite number of a TOML file, written as a number or as a text in plain digits; None for anything else."""
    if isinstance(value, str):
        return plain_decimal(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    number = Decimal(value)
    return number if number.is_finite() else None


def in_plain_digits(text: str) -> str:
    """Return what a number that is not written plainly lacks, for messages; nothing to say where the text is none at all."""
    digits = any(sign.isnumeric() for sign in text)
    return " in plain digits like 2490 or 2.49" if digits else ""


def billed_decimal(value: object) -> Decimal | None:
    """Return an amount of a bill, which may be negative, zero and written with an exponent; None for what can be none.

    At most 10^18 either way, with at most 40 decimals; a binary float becomes the shortest decimal that reads back as it.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip()
        number = Decimal(text) if WITH_EXPONENT.fullmatch(text) else None
    elif isinstance(value, float):
        number = Decimal(repr(value))
    else:
        number = Decimal(value) if isinstance(value, (int, Decimal)) else None
    if number is None or not number.is_finite() or abs(number) > BILLED_MOST:
        return None
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -BILLED_DECIMALS:
        exponent = number.normalize(WIDE).as_tuple().exponent
        if isinstance(exponent, int) and exponent < -BILLED_DECIMALS:
            return None
    return number


def shown(value: object) -> str:
    """Return a refused number or text as a message shows it: short, whatever it is."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            return str(value)
        text = f"{value:f}" if abs(value.adjusted()) < LONGEST_SHOWN // 2 else f"{value:.3e}"
    else:
        try:
            text = repr(value)
        except ValueError:  # a whole number with more digits than Python writes
            return "a number of very many digits"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
