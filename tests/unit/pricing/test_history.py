"""How the record of list prices grows with each price seen."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.history import extended, list_price
from pricing.market import PricePeriod
from pricing.model import PurchaseOption, Quote

JUNE = datetime(2025, 6, 23, tzinfo=UTC)
APRIL = datetime(2025, 4, 28, tzinfo=UTC)


def quote(price: str = "55.04", at: datetime = JUNE, **changes) -> Quote:
    whole = Quote(
        provider="aws",
        instance_type="p5.48xlarge",
        region="us-east-1",
        purchase_option=PurchaseOption.ON_DEMAND,
        list_unit_price=Decimal(price),
        effective_unit_price=Decimal(price),
        source="a list",
        retrieved_at=at,
    )
    return replace(whole, **changes)


def shown(periods) -> list[tuple[str, datetime, datetime]]:
    return [(str(p.unit_price), p.first_seen, p.last_seen) for p in sorted(periods, key=lambda p: p.first_seen)]


def test_the_same_price_seen_later_extends_its_period_and_another_begins_one():
    first = extended((), [quote("98.32", APRIL)])
    assert shown(first) == [("98.32", APRIL, APRIL)]
    cut = extended(first, [quote("55.04", JUNE)])
    assert shown(cut) == [("98.32", APRIL, APRIL), ("55.04", JUNE, JUNE)]
    later = extended(cut, [quote("55.0400000000", JUNE + timedelta(days=392), source="price_list")])
    assert shown(later)[1:] == [("55.04", JUNE, datetime(2026, 7, 20, tzinfo=UTC))]
    assert later[1].source == "price_list"


def test_an_older_sighting_reaches_back_or_is_a_period_before():
    periods = extended((), [quote("55.04", JUNE)])
    assert shown(extended(periods, [quote("55.04", APRIL)])) == [("55.04", APRIL, JUNE)]
    assert shown(extended(periods, [quote("98.32", APRIL)])) == [("98.32", APRIL, APRIL), ("55.04", JUNE, JUNE)]


def test_a_price_within_a_period_of_another_is_left_out():
    periods = extended((), [quote("55.04", APRIL), quote("55.04", JUNE)])
    assert extended(periods, [quote("60", APRIL + timedelta(days=1))]) == periods


def test_a_price_that_returns_is_a_new_period():
    days = [APRIL + timedelta(days=n) for n in range(3)]
    periods = extended((), [quote(p, d) for p, d in zip(("2", "1", "2"), days, strict=True)])
    assert [p for p, _, _ in shown(periods)] == ["2", "1", "2"]


def test_one_price_with_more_or_fewer_decimals_is_one_price():
    periods = extended((), [quote("21.957642", APRIL), quote("21.95764", JUNE)])
    assert shown(periods) == [("21.957642", APRIL, JUNE)]


def test_the_price_of_a_sheet_is_a_period_of_its_own_so_that_it_can_be_taken_out_again():
    august = JUNE + timedelta(days=50)
    sheet = quote("55.04", JUNE + timedelta(days=1), source="price sheet ours: offer 1")
    later = quote("55.04", august, source="price sheet ours: offer 2")
    periods = extended((), [quote("55.04", JUNE), sheet, later])
    assert [(p.source, p.last_seen) for p in periods] == [("a list", JUNE), ("price sheet ours: offer 2", august)]
    other = extended(periods, [quote("55.04", august + timedelta(days=1), source="price sheet theirs")])
    assert len(other) == 3


def test_spot_and_prices_worked_out_by_a_ratio_are_no_list_prices():
    assert extended((), [quote(purchase_option=PurchaseOption.SPOT), quote(derived=True)]) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"currency": "CNY"},
        {"unit": "Hrs of the accelerators without their host"},
        {"region": "us-east-2"},
        {"provider": "other"},
        {"payment_option": "all_upfront"},
        {"purchase_option": PurchaseOption.CAPACITY_BLOCK},
    ],
)
def test_unlike_things_are_no_history_of_each_other(change):
    assert len(extended((), [quote("1", APRIL), quote("1", JUNE, **change)])) == 2


def test_the_list_price_of_a_reservation_spreads_its_upfront_and_a_contracted_price_is_not_in_the_record():
    """8,760 upfront for a year are 1.00 an hour: 1.00 + 0.50."""
    reserved = quote(
        "0.5",
        term_years=1,
        upfront=Decimal(8760),
        effective_unit_price=Decimal("1.5"),
        payment_option="partial_upfront",
    )
    assert list_price(reserved) == Decimal("1.5")
    agreed = replace(reserved, contracted_unit_price=Decimal("0.9"), effective_unit_price=Decimal("0.9"))
    assert list_price(agreed) == Decimal("1.5")
    assert list_price(quote(contracted_unit_price=Decimal(40), effective_unit_price=Decimal(40))) == Decimal("55.04")
    assert list_price(replace(agreed, list_unit_price=None)) is None


@given(st.lists(st.tuples(st.sampled_from(["1", "2"]), st.integers(0, 20)), max_size=12), st.randoms())
def test_periods_never_overlap_and_the_order_of_quotes_does_not_matter(seen, random):
    quotes = [quote(price, APRIL + timedelta(days=day)) for price, day in seen]
    periods = extended((), quotes)
    shuffled = list(quotes)
    random.shuffle(shuffled)
    assert extended((), shuffled) == periods
    assert extended(periods, quotes) == periods
    ordered: list[PricePeriod] = sorted(periods, key=lambda p: p.first_seen)
    assert all(p.first_seen <= p.last_seen for p in ordered)
    assert all(a.last_seen < b.first_seen for a, b in pairwise(ordered))
    assert all(a.unit_price != b.unit_price for a, b in pairwise(ordered))
