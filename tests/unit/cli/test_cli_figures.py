"""Figures as they are shown: checked against roundings done by hand."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cli import figures


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234.5, "1,230"),  # 1.2345e3 -> 1.23e3
        (0.012345, "0.0123"),
        (999.6, "1,000"),  # carries into a fourth digit
        (9.996, "10.0"),
        (0.0999, "0.0999"),
        (1, "1.00"),
        (55.04, "55.0"),
        (0, "0"),
        ("129.6", "130"),  # money arrives as text
        (1234567, "1,230,000"),
        (0.0000123, "1.23e-5"),
        (-1234.5, "-1,230"),
        (1.5e15, "1,500,000,000,000,000"),
        (1.5e16, "1.50e+16"),  # nobody counts the zeros
        (None, "·"),  # unknown is not zero
    ],
)
def test_three_significant_digits_with_thousands_separators(value: object, shown: str) -> None:
    assert figures.figure(value) == shown


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_figure_is_wider_than_a_column_can_be(value: float) -> None:
    assert len(figures.figure(value)) <= 22


@given(st.floats(min_value=1e-4, max_value=1e12))
def test_a_shown_figure_is_within_half_a_unit_of_its_third_digit(value: float) -> None:
    shown = float(figures.figure(value).replace(",", ""))
    assert abs(shown - value) <= 0.00501 * value  # three digits: at most 0.5 % off


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("55.04", "55.04"),
        ("1.006", "1.006"),
        ("0.526", "0.526"),
        ("21.957642", "21.96"),
        ("440.32", "440.32"),
        ("0.0042", "0.00420"),
        ("1234.5", "1,234.50"),
        (None, "·"),
    ],
)
def test_hourly_prices_keep_cents_and_small_ones_tenths_of_a_cent(value: str | None, shown: str) -> None:
    assert figures.dollars_per_hour(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [("1358.53", "1,359"), ("12.346", "12.35"), ("0.012345", "0.0123"), (Decimal(1000), "1,000"), (None, "·")],
)
def test_amounts(value: object, shown: str) -> None:
    assert figures.dollars(value) == shown


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (28.43, "28.4 ms"),
        (999.4, "999 ms"),
        (999.6, "1.00 s"),
        (76_379.8, "76.4 s"),
        (900_000, "15.0 min"),
        (None, "·"),
    ],
)
def test_latencies_change_their_unit(ms: float | None, shown: str) -> None:
    assert figures.milliseconds(ms) == shown


@pytest.mark.parametrize(
    ("h", "shown"), [(0.01, "36.0 s"), (0.5, "30.0 min"), (3.39, "3.39 h"), (2400, "100 days"), (None, "·")]
)
def test_durations_change_their_unit(h: float | None, shown: str) -> None:
    assert figures.hours(h) == shown


@pytest.mark.parametrize(
    ("n", "shown"),
    [
        (7_615_616_512, "7.62 billion"),
        (66_362_880, "66.4 million"),
        (999_600_000, "1.00 billion"),
        (512, "512"),
        (1.04e12, "1.04 trillion"),
    ],
)
def test_large_counts_in_words(n: float, shown: str) -> None:
    assert figures.count_of(n) == shown


@pytest.mark.parametrize(
    ("old", "shown"),
    [
        (0.5, "less than an hour old"),
        (1, "1 hour old"),
        (47, "47 hours old"),
        (48, "2 days old"),
        (24 * 40, "40 days old"),
        (3209, "4 months old"),
        (8760 * 2, "2 years old"),
        (None, "of unknown age"),
    ],
)
def test_ages_in_words(old: float | None, shown: str) -> None:
    assert figures.age(old) == shown


def test_a_range_needs_both_ends() -> None:
    assert figures.spread("104.2", 175) == "104\N{EN DASH}175"
    assert figures.spread(None, 175) == ""


def test_counts_are_whole_where_they_can_be() -> None:
    assert [figures.whole(v) for v in (8, 0.125, 1000.0, None)] == ["8", "0.125", "1,000", "·"]


def test_a_path_that_is_not_there_is_none() -> None:
    assert figures.at({"a": {"b": 1}}, "a.b") == 1
    assert figures.at({"a": None}, "a.b") is None
