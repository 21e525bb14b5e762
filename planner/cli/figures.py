"""Figures as a person reads them: three significant digits, thousands separators, units. Rounding happens here and nowhere before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

DASH = "\N{EN DASH}"  # between the ends of a range, as in print
TIMES = "\N{MULTIPLICATION SIGN}"
ABSENT = "·"  # what does not apply, or was not found; never shown as 0

MOST_DIGITS = 15  # a figure of more than these is written with an exponent: nobody counts the zeros

BASIS_WORDS: Mapping[str, str] = {
    "measured": "measured on this hardware",
    "silicon": "from measured operator tables",
    "published": "published by others",
    "modelled": "roofline of the chip's datasheet with fitted efficiencies",
}


def figure(value: Any, digits: int = 3) -> str:
    """Return a number at `digits` significant digits with thousands separators: 1234.5 is "1,230", 0.012345 is "0.0123"."""
    if value is None:
        return ABSENT
    exact = Decimal(str(value))
    if exact == 0:
        return "0"
    rounded = Decimal(f"{exact:.{digits - 1}e}")
    power = rounded.adjusted()
    if power < -4 or power > MOST_DIGITS:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:,.{max(0, digits - 1 - power)}f}"


def whole(value: Any) -> str:
    """Return a count with thousands separators, and a fraction only where there is one: "1,000", "0.125"."""
    if value is None:
        return ABSENT
    return f"{int(value):,}" if value == int(value) else figure(value)


def spread(low: Any, high: Any, digits: int = 3) -> str:
    """Return the range of a figure, "1.10-1.92" with an en dash; nothing where either end is missing."""
    if low is None or high is None:
        return ""
    ends = (figure(low, digits), figure(high, digits))
    return f"{ends[0]}{DASH}{ends[1]}"


def dollars_per_hour(value: Any) -> str:
    """Return an hourly price: cents from 10 dollars up, tenths of a cent below."""
    if value is None:
        return ABSENT
    exact = Decimal(str(value))
    return f"{exact:,.2f}" if exact >= 10 else f"{exact:.3f}" if exact >= Decimal("0.01") else figure(exact)


def dollars(value: Any) -> str:
    """Return an amount: whole dollars from 1,000 up, cents from 1 up, three significant digits below."""
    if value is None:
        return ABSENT
    exact = Decimal(str(value))
    return f"{exact:,.0f}" if exact >= 1000 else f"{exact:.2f}" if exact >= 1 else figure(exact)


def milliseconds(value: Any) -> str:
    """Return a latency with its unit: "28.4 ms", "1.24 s", "3.1 min"."""
    if value is None:
        return ABSENT
    if value < 999.5:
        return f"{figure(value)} ms"
    if value < 599_500:
        return f"{figure(value / 1000)} s"
    return f"{figure(value / 60_000)} min"


def hours(value: Any) -> str:
    """Return a duration with its unit: "42.0 s", "12.3 min", "7.5 h", "31 days" from 1,000 h up."""
    if value is None:
        return ABSENT
    if value < 1 / 60:
        return f"{figure(value * 3600)} s"
    if value < 1:
        return f"{figure(value * 60)} min"
    return f"{figure(value)} h" if value < 1000 else f"{figure(value / 24)} days"


def count_of(value: Any) -> str:
    """Return a large count in words of thousands: "7.62 billion", "66.4 million"; plain below a million."""
    if value is None:
        return ABSENT
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size * 0.9995:
            return f"{figure(value / size)} {word}"
    return f"{value:,.0f}"


def age(hours_old: Any) -> str:
    """Return an age in words: "3 hours", "12 days", "5 months"; months are 730 h."""
    if hours_old is None:
        return "of unknown age"
    for unit_hours, word, least in ((8760.0, "year", 2), (730.0, "month", 3), (24.0, "day", 2), (1.0, "hour", 1)):
        units = int(hours_old / unit_hours)
        if units >= least:
            return f"{units} {word}{'' if units == 1 else 's'} old"
    return "less than an hour old"


def day_of(moment: Any) -> str:
    """Return the day of an ISO time stamp, "2026-07-20"."""
    if not moment:
        return ABSENT
    text = str(moment)
    try:
        return datetime.fromisoformat(text).date().isoformat()
    except ValueError:
        return text[:10]


def words(name: str) -> str:
    """Return a word of the contract as prose: "on_demand" is "on-demand", "savings_plan_1yr" is "savings plan 1yr"."""
    return {"on_demand": "on-demand", "kv_cache": "KV cache", "slo_infeasible": "latency limit missed"}.get(
        name, name.replace("_", " ")
    )


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a counted noun: "1 type", "12 types"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def at(document: Any, path: str) -> Any:
    """Return the value at a dotted path of a document, or None where any part is missing."""
    value = document
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
