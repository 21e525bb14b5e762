"""DescribeSpotPriceHistory replies, written by hand."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.aws.spot_history import parse_spot_history, spot_quotes
from pricing.errors import ReplyError

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def row(price: str, at: str = "2026-11-30T10:00:00Z", *, zone: str | None = "us-east-2a", **other: Any) -> dict[str, Any]:  # fmt: skip
    base = {"InstanceType": "g6.xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": price, "Timestamp": at}
    return {k: v for k, v in (base | {"AvailabilityZone": zone} | other).items() if v is not None}


def page(*rows: Any) -> dict[str, Any]:
    return {"SpotPriceHistory": list(rows), "NextToken": ""}


def test_the_newest_row_is_the_price_not_the_lowest_and_not_the_first() -> None:
    reading = parse_spot_history([page(row("0.10", "2026-11-29T00:00:00Z"), row("0.30")), page(row("0.20", "2026-11-30T09:59:59Z"))], at=NOW)  # fmt: skip
    assert [p.amount for p in reading.prices] == [Decimal("0.30")]
    assert reading.excluded == {"superseded": 2}


def test_other_systems_are_counted_and_left_out() -> None:
    rows = [row("0.1", ProductDescription=p) for p in ("Windows", "SUSE Linux", "Red Hat Enterprise Linux (Amazon VPC)")]  # fmt: skip
    reading = parse_spot_history([page(*rows, row("0.4"))], at=NOW)
    assert [p.amount for p in reading.prices] == [Decimal("0.4")]
    assert reading.excluded == {
        "product Windows": 1,
        "product SUSE Linux": 1,
        "product Red Hat Enterprise Linux": 1,
    }


def test_both_spellings_of_linux_are_one_pool_and_repeats_count_once() -> None:
    again = row("0.4", ProductDescription="Linux/UNIX (Amazon VPC)")
    reading = parse_spot_history([page(row("0.4"), again), page(row("0.4", Timestamp=datetime(2026, 11, 30, 10, tzinfo=UTC)))], at=NOW)  # fmt: skip
    assert len(reading.prices) == 1
    assert reading.excluded == {"repeated": 2}


def test_rows_with_and_without_a_zone_id_are_one_pool() -> None:
    old = row("0.2", "2026-11-01T00:00:00Z", AvailabilityZoneId="use2-az1")
    (price,) = parse_spot_history([page(old, row("0.4"))], at=NOW).prices
    assert (price.amount, price.availability_zone_id) == (Decimal("0.4"), "use2-az1")


def test_zone_names_of_two_accounts_are_not_mixed() -> None:
    rows = [row("0.2", AvailabilityZoneId="use2-az1"), row("0.4", AvailabilityZoneId="use2-az2")]
    with pytest.raises(ReplyError, match="two accounts"):
        parse_spot_history([page(*rows)], at=NOW)


def test_two_prices_at_one_instant_take_the_dearer_one_and_say_so() -> None:
    for rows in ((row("0.4"), row("0.5")), (row("0.5"), row("0.4"))):
        reading = parse_spot_history([page(*rows)], at=NOW)
        assert [p.amount for p in reading.prices] == [Decimal("0.5")]
        assert "two prices at 2026-11-30T10:00:00+00:00" in reading.notes[0]


def test_zero_and_later_rows_are_no_price_of_now() -> None:
    reading = parse_spot_history([page(row("0.4"), row("0", "2026-11-30T11:00:00Z"), row("0.3", "2026-11-30T12:00:01Z"))], at=NOW)  # fmt: skip
    assert [p.amount for p in reading.prices] == [Decimal("0.4")]
    assert reading.excluded == {"price of zero": 1, "starts later": 1}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"ResponseMetadata": {}}], "has no SpotPriceHistory"),
        ([page("text")], "must be an object"),
        ([page(row("0.4", zone=None))], "neither AvailabilityZone nor"),
        ([page(row("0.4", "2026-11-30T10:00:00"))], "has no zone"),
        ([page(row("0.4", "yesterday"))], "must be a time"),
        ([page(row("cheap"))], "'cheap' is not a price"),
        ([page(row("0.4", SpotPrice=0.4))], "must be a text"),
        ([page(row("0.4", InstanceType=""))], "InstanceType"),
    ],
)
def test_what_cannot_be_right_is_an_error(rows: list[Any], message: str) -> None:
    with pytest.raises(ReplyError, match=message):
        parse_spot_history(rows, at=NOW)


def test_quotes_keep_the_region_that_was_asked() -> None:
    reading = parse_spot_history([page(row("0.4", zone="us-west-2-lax-1a", AvailabilityZoneId="usw2-lax1-az1"))], at=NOW)  # fmt: skip
    (quote,) = spot_quotes(reading, region="us-west-2", retrieved_at=NOW)
    assert (quote.region, quote.availability_zone_id, quote.currency) == ("us-west-2", "usw2-lax1-az1", "USD")
    assert (quote.effective_unit_price, quote.purchase_option) == (Decimal("0.4"), "spot")
    (china,) = spot_quotes(reading, region="cn-north-1", retrieved_at=NOW)
    assert china.currency == "CNY"


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from("abc"), st.integers(1, 3)), min_size=1, max_size=20, unique_by=lambda t: t[:2]
    ),
    st.randoms(use_true_random=False),
    st.integers(1, 5),
)  # fmt: skip
def test_pages_and_order_change_nothing(changes: list[tuple[int, str, int]], shuffler: random.Random, size: int) -> None:  # fmt: skip
    def at(hour: int) -> str:
        return (NOW - timedelta(hours=hour)).isoformat()

    rows = [row(f"0.{cents}", at(hour), zone=f"us-east-2{zone}") for hour, zone, cents in changes]
    newest: dict[str, tuple[int, int]] = {}
    for hour, zone, cents in changes:
        newest[zone] = min(newest.get(zone, (99, 0)), (hour, cents))
    repeated = rows + rows[: len(rows) // 2]
    shuffler.shuffle(repeated)
    pages = [page(*repeated[i : i + size]) for i in range(0, len(repeated), size)]
    reading = parse_spot_history(pages, at=NOW)
    assert {p.availability_zone: p.amount for p in reading.prices} == {
        f"us-east-2{zone}": Decimal(f"0.{cents}") for zone, (_, cents) in newest.items()
    }
