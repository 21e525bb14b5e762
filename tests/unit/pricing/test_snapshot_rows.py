"""Values as rows: any quote and chip reads back from the file as it was written, and what cannot be kept is refused."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, date, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_contents import LATER, MOMENT, chip, quote, small_contents

from pricing.errors import SnapshotError
from pricing.model import PurchaseOption, Quote
from pricing.rows import canonical, cells, columns, from_canonical, values
from pricing.snapshot import open_snapshot, verify_snapshot, write_snapshot

money = st.decimals(min_value=0, max_value=10**9, allow_nan=False, allow_infinity=False)
words = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
EARLY, LATE = (day.replace(tzinfo=None) for day in (MOMENT.replace(year=2000), MOMENT.replace(year=2100)))
moments = st.datetimes(EARLY, LATE, timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]))
quotes = st.builds(
    Quote,
    provider=words,
    instance_type=words,
    region=words,
    availability_zone_id=st.none() | words,
    purchase_option=st.sampled_from(PurchaseOption),
    term_years=st.none() | st.integers(1, 3),
    upfront=st.none() | money,
    effective_unit_price=money,
    source=words,
    effective_from=st.none() | st.dates(),
    retrieved_at=moments,
    derived=st.booleans(),
    at_on_demand_cap=st.none() | st.booleans(),
    notes=words,
)


@given(quotes)
def test_a_quote_reads_back(one: Quote) -> None:
    (back,) = values(Quote, [cells(one)])
    assert back == one
    assert back.effective_unit_price.as_tuple() == Decimal(f"{one.effective_unit_price:f}").as_tuple()
    assert canonical(back) == canonical(one)
    assert from_canonical(Quote, canonical(one)) == one


@pytest.mark.parametrize("line", ["", "[]", "{", '{"price":1}', '{"retrieved_at":"soon"}', '{"upfront":"dear"}'])
def test_a_line_that_is_no_quote_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        from_canonical(Quote, line)


@settings(max_examples=25, deadline=None)
@given(st.lists(quotes, max_size=5, unique_by=lambda q: (q.instance_type, q.region)))
def test_quotes_read_back_from_the_file(some: list[Quote]) -> None:
    asked = small_contents(
        quotes=(quote("aws", "p5.48xlarge", "us-east-1", "55.04"), *(replace(q, provider="other") for q in some))
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.sqlite"
        meta = write_snapshot(path, asked, published_at=LATER, origin="import")
        assert verify_snapshot(path) == meta
        with open_snapshot(path) as catalog:
            found = catalog.quotes()
    assert len(found) == len(asked.quotes)
    assert all(q in found for q in asked.quotes)


def test_small_prices_have_no_exponent_and_no_rounding() -> None:
    one = quote("aws", "x", "r", "1E-9")
    row = dict(zip((c.name for c in columns(Quote)), cells(one), strict=True))
    assert row["effective_unit_price"] == "0.000000001"
    assert (
        dict(
            zip(
                (c.name for c in columns(Quote)),
                cells(quote("aws", "x", "r", "0.10000000000000000000001")),
                strict=True,
            )
        )["effective_unit_price"]
        == "0.10000000000000000000001"
    )


def test_the_same_moment_in_another_zone_is_the_same_content() -> None:
    there = MOMENT.astimezone(timezone(timedelta(hours=9)))
    assert canonical(quote("aws", "x", "r", "1", retrieved_at=there)) == canonical(quote("aws", "x", "r", "1"))


def test_a_whole_number_in_a_field_of_fractions_is_the_same_content() -> None:
    assert canonical(chip("L4", memory_gib=24)) == canonical(chip("L4", memory_gib=24.0))


def test_an_unknown_value_is_left_out_so_that_a_new_field_changes_no_id() -> None:
    assert "upfront" not in canonical(quote("aws", "x", "r", "1"))


@pytest.mark.parametrize("price", [1.5, 1, "1"])
def test_a_price_that_is_no_decimal_is_refused(price: object) -> None:
    with pytest.raises(TypeError, match=r"Quote\.effective_unit_price must be a finite Decimal"):
        cells(replace(quote("aws", "x", "r", "1"), effective_unit_price=price))


def test_a_field_of_a_type_that_has_no_column_is_refused() -> None:
    @dataclass(frozen=True)
    class Odd:
        when: date
        parts: bytes

    with pytest.raises(TypeError, match="parts: do not know how to keep"):
        columns(Odd)


def test_text_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="cannot publish"):
        write_snapshot(
            tmp_path / "s",
            small_contents(quotes=(quote("aws", "\udc80", "r", "1"),)),
            published_at=LATER,
            origin="import",
        )
