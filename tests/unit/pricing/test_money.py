"""Money is exact and refuses to meet unlike things."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.money import CENT, HOURS_PER_MONTH, HOURS_PER_YEAR, Usd, UsdPerHour, from_measured

amounts = st.decimals(min_value="-1e9", max_value="1e9", places=6, allow_nan=False)


def test_a_month_and_a_year_of_p5_by_hand() -> None:
    # 55.04 x 730 = 40,179.20; 55.04 x 8,760 = 482,150.40
    rate = UsdPerHour("55.04")
    assert rate.for_hours(HOURS_PER_MONTH) == Usd("40179.20")
    assert rate.for_hours(HOURS_PER_YEAR) == Usd("482150.40")
    assert HOURS_PER_YEAR == 12 * HOURS_PER_MONTH


@pytest.mark.parametrize("wrong", [1.006, float("nan"), "NaN", "Infinity"])
def test_floats_and_non_numbers_are_refused(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        Usd(wrong)  # type: ignore[arg-type]


def test_an_amount_and_a_rate_do_not_add() -> None:
    with pytest.raises(TypeError):
        Usd(1) + UsdPerHour(1)  # type: ignore[operator]
    with pytest.raises(TypeError):
        UsdPerHour(1) * UsdPerHour(1)  # type: ignore[operator]
    with pytest.raises(TypeError):
        Usd(1) * 1.5  # type: ignore[operator]


def test_a_measured_float_enters_as_the_shortest_decimal() -> None:
    assert from_measured(0.1) == Decimal("0.1")
    with pytest.raises(ValueError):
        from_measured(float("inf"))


def test_rounding_is_half_even_and_only_on_request() -> None:
    assert Usd("0.125").rounded(CENT) == Usd("0.12")
    assert Usd("0.135").rounded(CENT) == Usd("0.14")
    assert Usd("0.125").amount == Decimal("0.125")


def test_an_absurdly_large_amount_still_rounds() -> None:
    assert Usd("1e90").rounded() == Usd("1e90")
    assert Usd("1e999").rounded() == Usd("1e999")
    assert Usd("1e-999").rounded() == Usd(0)
    assert Usd("1e-999").rounded(CENT) == Usd(0)


@given(amounts, amounts)
def test_sums_are_exact_and_commute(a: Decimal, b: Decimal) -> None:
    assert (Usd(a) + Usd(b)).amount == a + b
    assert Usd(a) + Usd(b) == Usd(b) + Usd(a)
    assert (Usd(a) + Usd(b)) - Usd(b) == Usd(a)
