"""Which numbers are taken from files and persons."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pricing.amounts import HOURLY_PRICE, Bounds, billed_decimal, plain_decimal, shown


@pytest.mark.parametrize(("text", "number"), [("2.49", "2.49"), ("2490", "2490"), ("+.5", "0.5"), ("3.", "3"), ("-1", "-1")])  # fmt: skip
def test_a_plain_number_is_exact(text: str, number: str) -> None:
    assert plain_decimal(text) == Decimal(number)


@pytest.mark.parametrize(
    "text", ["", ".", "1e5", "1e999", "2_490", "2,490", "1 000", "\uff12", "\u0663", "nan", "inf", "0x10", "9" * 41]
)
def test_what_is_written_otherwise_is_no_number(text: str) -> None:
    assert plain_decimal(text) is None


def test_bounds_hold_both_their_ends() -> None:
    assert HOURLY_PRICE.why_not(Decimal("0.000001")) is None
    assert HOURLY_PRICE.why_not(Decimal(10_000_000)) is None
    assert HOURLY_PRICE.why_not(Decimal("NaN")) == "must be from 0.000001 to 10,000,000 an hour, not NaN"
    assert HOURLY_PRICE.why_not(Decimal("1e999")) == "must be from 0.000001 to 10,000,000 an hour, not 1.000e+999"
    assert Bounds(Decimal(1), Decimal(2)).why_not(Decimal(3)) == "must be from 1 to 2, not 3"


@pytest.mark.parametrize(
    ("value", "number"),
    [("-0.30", "-0.30"), ("0", "0"), ("1.5E-7", "0.00000015"), (0.1, "0.1"), (12, "12"), (" 5 ", "5"), ("0E-60", "0")],
)
def test_a_billed_amount_may_be_negative_zero_and_in_powers_of_ten(value: object, number: str) -> None:
    assert billed_decimal(value) == Decimal(number)


@pytest.mark.parametrize(
    "value", ["1e999", "1e-300", "1e19", 10**19, 5e-324, float("nan"), "2_490", "\u0663", "1,000", True, None, b"1"]
)
def test_what_no_bill_can_hold_is_none(value: object) -> None:
    assert billed_decimal(value) is None


def test_a_refused_value_is_shown_short() -> None:
    assert len(shown(Decimal("1e999"))) < 20
    assert len(shown(Decimal("0." + "1" * 500))) == 31
    assert len(shown("x" * 10_000)) == 31
    assert shown(0x10**9999) == "a number of very many digits"
