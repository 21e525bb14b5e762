"""Statistics of spot prices against a calculation by hand and against counting minute by minute."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.market import SpotChange, SpotStatistics
from pricing.model import ACCELERATOR_PART_HOUR, PurchaseOption, Quote
from pricing.spot_statistics import on_demand_prices, statistics_of

START = datetime(2026, 9, 1, tzinfo=UTC)
END = START + timedelta(hours=10)
CAP = {("aws", "g6.xlarge", "us-east-2", "USD"): Decimal("0.8048")}


def change(price: str, hours: float, **other: Any) -> SpotChange:
    given = {
        "provider": "aws",
        "instance_type": "g6.xlarge",
        "region": "us-east-2",
        "availability_zone_id": "use2-az1",
        "availability_zone": "us-east-2a",
        "unit_price": Decimal(price),
        "since": START + timedelta(hours=hours),
    }
    return SpotChange(**(given | other))


def of(*changes: SpotChange, on_demand: Any = CAP, end: datetime = END) -> tuple[SpotStatistics, ...]:
    return statistics_of(changes, window_start=START, window_end=end, on_demand=on_demand)


def one(*changes: SpotChange, **more: Any) -> SpotStatistics:
    (only,) = of(*changes, **more)
    return only


def test_by_hand_each_price_counts_for_as_long_as_it_held() -> None:
    """Worked by hand: 1 USD for 6 h, 3 USD for 2 h, 0.5 USD for 2 h.

    Mean = (6 + 6 + 1) / 10 = 1.3, where the mean of the rows would be 1.5. Sorted: 0.5 to 2 h, 1 to 8 h (median at 5 h), 3 to
    10 h (p95 at 9.5 h). Variance = (2 x 0.64 + 6 x 0.09 + 2 x 2.89) / 10 = 0.76; 0.871780 / 1.3 = 0.670600.
    """
    got = one(change("1", 0), change("3", 6), change("0.5", 8), on_demand={("aws", "g6.xlarge", "us-east-2", "USD"): Decimal(3)})  # fmt: skip
    assert (got.mean_unit_price, got.median_unit_price, got.p95_unit_price) == (Decimal("1.3"), Decimal(1), Decimal(3))
    assert (got.minimum_unit_price, got.maximum_unit_price) == (Decimal("0.5"), Decimal(3))
    assert got.last_unit_price == Decimal("0.5")
    assert got.volatility_fraction == pytest.approx(0.670600, abs=1e-6)
    assert got.at_on_demand_cap_fraction == 0.2
    assert (got.observed_fraction, got.changes) == (1.0, 3)
    assert (got.availability_zone_id, got.availability_zone, got.currency) == ("use2-az1", "us-east-2a", "USD")
    assert (got.window_start, got.window_end, got.retrieved_at) == (START, END, END)


def test_the_change_before_the_window_holds_at_its_start() -> None:
    got = one(change("9", -50), change("1", -5), change("2", 5))
    assert (got.mean_unit_price, got.observed_fraction, got.changes) == (Decimal("1.5"), 1.0, 1)
    assert got.maximum_unit_price == Decimal(2)


def test_a_pool_without_rows_in_the_window_has_the_price_of_its_last_change() -> None:
    got = one(change("0.4", -1000))
    assert (got.mean_unit_price, got.last_unit_price, got.p95_unit_price) == (Decimal("0.4"),) * 3
    assert (got.changes, got.observed_fraction, got.volatility_fraction) == (0, 1.0, 0.0)


def test_what_is_not_known_is_not_made_up() -> None:
    got = one(change("2", 4), change("1", 7))
    assert got.observed_fraction == 0.6
    assert got.mean_unit_price == Decimal("1.5")  # 3 h of 2 and 3 h of 1; the first 4 h are nobody's
    assert of(change("1", 10)) == ()  # begins as the window ends
    assert of(change("1", 11)) == ()
    assert of() == ()


def test_changes_after_the_window_are_nothing_to_it() -> None:
    assert one(change("1", 0), change("5", 10.5)) == one(change("1", 0))


def test_repeated_rows_and_any_order_change_nothing() -> None:
    rows = [change("1", 0), change("3", 6), change("0.5", 8)]
    want = one(*rows)
    for seed in range(5):
        mixed = rows * 3
        random.Random(seed).shuffle(mixed)
        assert one(*mixed) == want


def test_a_row_that_repeats_the_price_in_force_is_no_change() -> None:
    got = one(change("1", -1), change("1", 2), change("2", 5), change("2.000", 7))
    assert (got.changes, got.mean_unit_price) == (1, Decimal("1.5"))


def test_of_two_prices_at_one_instant_the_dearer_one_counts() -> None:
    for rows in ([change("1", 0), change("2", 0)], [change("2", 0), change("1", 0)]):
        got = one(*rows)
        assert (got.mean_unit_price, got.minimum_unit_price, got.changes) == (Decimal(2), Decimal(2), 1)


def test_a_price_of_zero_is_a_hole_not_a_price() -> None:
    got = one(change("1", 0), change("0", 5))
    assert (got.minimum_unit_price, got.mean_unit_price, got.last_unit_price) == (Decimal(1),) * 3


def test_a_price_equal_to_on_demand_is_at_the_cap() -> None:
    rows = (change("0.8048", 0), change("0.80479", 5), change("0.9", 8))
    assert one(*rows).at_on_demand_cap_fraction == 0.7  # 5 h at it and 2 h above
    assert one(*rows, on_demand={}).at_on_demand_cap_fraction is None
    in_cny = {("aws", "g6.xlarge", "us-east-2", "CNY"): Decimal("0.1")}
    assert one(*rows, on_demand=in_cny).at_on_demand_cap_fraction is None  # never across currencies


def test_rows_without_the_zone_id_are_of_the_same_pool() -> None:
    got = one(change("1", 0, availability_zone_id=None), change("3", 5))
    assert (got.mean_unit_price, got.availability_zone_id) == (Decimal(2), "use2-az1")
    unnamed = one(change("1", 0, availability_zone_id=None))
    assert (unnamed.availability_zone_id, unnamed.availability_zone) == (None, "us-east-2a")


def test_one_zone_under_the_names_of_two_accounts_is_one_pool() -> None:
    got = one(change("1", 0, availability_zone="us-east-2c"), change("3", 5))
    assert (got.mean_unit_price, got.availability_zone) == (Decimal(2), "us-east-2a")  # the newest name


def test_a_name_that_two_accounts_use_for_two_zones_tells_nothing() -> None:
    rows = [change("1", 0), change("2", 0, availability_zone_id="use2-az2"), change("3", 0, availability_zone_id=None)]
    assert [(s.availability_zone_id, s.mean_unit_price) for s in of(*rows)] == [
        (None, Decimal(3)),
        ("use2-az1", Decimal(1)),
        ("use2-az2", Decimal(2)),
    ]


def test_a_local_zone_is_a_zone_of_its_parent_region() -> None:
    got = one(change("1", 0, region="us-west-2", availability_zone="us-west-2-lax-1a", availability_zone_id="usw2-lax1-az1"))  # fmt: skip
    assert (got.region, got.availability_zone, got.availability_zone_id) == ("us-west-2", "us-west-2-lax-1a", "usw2-lax1-az1")  # fmt: skip


def test_pools_are_told_apart_and_come_in_order() -> None:
    rows = [
        change("1", 0, region="us-west-2"),
        change("2", 0, instance_type="g5.xlarge"),
        change("3", 0, availability_zone_id="use2-az2", availability_zone="us-east-2b"),
        change("4", 0),
    ]
    assert [s.mean_unit_price for s in of(*rows)] == [Decimal(2), Decimal(4), Decimal(3), Decimal(1)]


def test_digits_beyond_the_sixth_and_large_prices_stay() -> None:
    small, large = "0.1234567890123456789", "123456789012345.000001"
    got = one(change(small, 0), change(large, 9))
    assert (got.minimum_unit_price, got.maximum_unit_price) == (Decimal(small), Decimal(large))
    assert got.mean_unit_price == pytest.approx((Decimal(small) * 9 + Decimal(large)) / 10, rel=Decimal("1e-25"))


def test_a_window_that_ends_before_it_starts_and_a_time_without_zone_are_refused() -> None:
    with pytest.raises(ValueError, match="before it starts"):
        of(change("1", 0), end=START)
    with pytest.raises(ValueError, match="time zone"):
        of(change("1", 0, since=datetime.fromisoformat("2026-09-01")))
    with pytest.raises(ValueError, match="neither the id nor the name"):
        of(change("1", 0, availability_zone_id=None, availability_zone=None))


def test_the_cap_is_the_list_price_of_a_whole_instance_hour() -> None:
    quote = Quote(
        provider="aws",
        instance_type="g6.xlarge",
        region="us-east-2",
        purchase_option=PurchaseOption.ON_DEMAND,
        list_unit_price=Decimal("0.8048"),
        contracted_unit_price=Decimal("0.7"),
        effective_unit_price=Decimal("0.7"),
        source="by hand",
        retrieved_at=END,
    )
    others = (
        replace(quote, purchase_option=PurchaseOption.SPOT, list_unit_price=Decimal("0.3")),
        replace(quote, unit=ACCELERATOR_PART_HOUR, list_unit_price=Decimal("0.1")),
        replace(quote, region="us-east-1", list_unit_price=None),
    )
    key = ("aws", "g6.xlarge", "us-east-1", "USD")
    assert on_demand_prices([quote, *others]) == CAP | {key: Decimal("0.7")}


@given(
    st.lists(st.tuples(st.integers(-60, 140), st.integers(1, 12)), max_size=25),
    st.integers(1, 120),
    st.integers(1, 12),
)
def test_agrees_with_counting_minute_by_minute(rows: list[tuple[int, int]], length: int, cap: int) -> None:
    """The oracle writes down the price of every minute of the window and takes plain statistics of that list."""
    end = START + timedelta(minutes=length)
    changes = [change(f"0.{cents:02}", minute / 60, since=START + timedelta(minutes=minute)) for minute, cents in rows]
    minutes = []
    for minute in range(length):
        begun = [(at, cents) for at, cents in rows if at <= minute]
        minutes += [max(begun)[1]] if begun else []
    got = statistics_of(
        changes,
        window_start=START,
        window_end=end,
        on_demand={("aws", "g6.xlarge", "us-east-2", "USD"): Decimal(cap) / 100},
    )
    if not minutes:
        assert got == ()
        return
    (found,) = got
    known, ordered = len(minutes), sorted(minutes)
    assert found.observed_fraction == pytest.approx(known / length)
    assert found.mean_unit_price == pytest.approx(Decimal(sum(minutes)) / known / 100, rel=Decimal("1e-20"))
    assert found.median_unit_price * 100 == ordered[math.ceil(known * 50 / 100) - 1]
    assert found.p95_unit_price * 100 == ordered[math.ceil(known * 95 / 100) - 1]
    assert (found.minimum_unit_price * 100, found.maximum_unit_price * 100) == (ordered[0], ordered[-1])
    assert found.volatility_fraction == pytest.approx(statistics.pstdev(minutes) / statistics.fmean(minutes), abs=1e-12)
    assert found.at_on_demand_cap_fraction == pytest.approx(sum(cents >= cap for cents in minutes) / known)
    assert found.last_unit_price * 100 == max(row for row in rows if row[0] <= length)[1]
    instants = {at: max(c for a, c in rows if a == at) for at, _ in rows if at <= length}
    in_order = sorted(instants)
    moved = [at for n, at in enumerate(in_order) if n == 0 or instants[at] != instants[in_order[n - 1]]]
    assert found.changes == sum(at >= 0 for at in moved)
