"""The one serialisation."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.services.documents import age_fields, age_hours, money, to_json_bytes, unit_price, whole


def test_floats_have_six_significant_digits_and_the_request_is_left_alone():
    document = {
        "request": {"dataset_size": 1281167, "budget_usd": 12345.678},
        "a": 1234567.8,
        "b": [0.000123456789],
        "lines": [{"quantity": 1234.567891, "usd": "1.000000"}],
        "n": None,
    }
    assert json.loads(to_json_bytes(document)) == document | {"a": 1234570.0, "b": [0.000123457]}


def test_bytes_are_utf8_with_indent_and_a_newline():
    assert to_json_bytes({"ä": 1}) == '{\n  "ä": 1\n}\n'.encode()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_twice_changes_nothing(x):
    once = to_json_bytes({"x": x})
    assert to_json_bytes(json.loads(once)) == once


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)  # surrogates are no text in UTF-8
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(words | st.sampled_from(["request", "quantity"]), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


def rounded(value):
    """Plain values with each float at 6 significant digits; the request and quantities as they are."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: inner if key in {"request", "quantity"} else rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, (list, tuple)) else value


@given(plain_values)
def test_the_bytes_are_those_of_the_standard_encoder(value):
    expected = json.dumps(rounded([value]), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    assert to_json_bytes([value]).decode() == expected


def test_what_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match=r"(?i)float values are not JSON compliant"):
        to_json_bytes({"x": float("nan")})


@pytest.mark.parametrize(
    ("amount", "text"),
    [("1", "1.000000"), ("0.0000005", "0.000000"), ("0.0000015", "0.000002"), ("1E+3", "1000.000000")],
)
def test_money_is_a_plain_decimal_string(amount, text):
    assert money(Decimal(amount)) == text
    assert money(None) is None


def test_ages_are_whole_hours_and_never_negative():
    at = datetime(2026, 7, 1, tzinfo=UTC)
    assert age_hours(at, datetime(2026, 7, 2, 1, 59, tzinfo=UTC)) == 25
    assert age_hours(at, datetime(2026, 6, 1, tzinfo=UTC)) == 0


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (datetime(2026, 7, 2, tzinfo=UTC), (24, False, False)),
        (datetime(2026, 7, 2, 1, tzinfo=UTC), (25, True, False)),  # spot: stale over 24 h
        (datetime(2026, 6, 30, 23, tzinfo=UTC), (0, False, False)),  # clocks may differ by an hour
        (datetime(2026, 6, 30, 22, 59, tzinfo=UTC), (0, True, True)),
        (datetime(1999, 1, 1, tzinfo=UTC), (0, True, True)),
    ],
)
def test_what_is_dated_after_the_clock_has_no_known_age_and_is_stale(now, expected):
    fields = age_fields(datetime(2026, 7, 1, tzinfo=UTC), now, "spot")
    assert tuple(fields.values()) == expected
    assert list(fields) == ["age_hours", "stale", "after_clock"]


def test_whole_chips_are_integers_and_fractions_stay():
    assert (whole(8.0), type(whole(8.0)), whole(0.125)) == (8, int, 0.125)


def test_a_quoted_price_is_exact_and_a_quotient_without_end_has_twelve_decimals() -> None:
    assert unit_price(Decimal("0.0000004000")) == "0.0000004000"
    assert unit_price(Decimal(5182) / 8760) == "0.591552511416"  # 5,182 upfront over a year: 0.59155251141552…
    assert unit_price(None) is None
