"""Flat rows: columns, nulls, and cells that a spreadsheet must not run."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.reports.flat import RECOMMEND_COLUMNS, cell, rows_of, to_csv


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (0, "0"), (True, "true"), (False, "false"), (1.23456789, "1.23457"), ("55.040000", "55.040000"), (["a", "b"], "a | b"), ([], ""),
        ("=1+1", "'=1+1"), ("+x", "'+x"), ("-x", "'-x"), ("@SUM(A1)", "'@SUM(A1)"), ("\tx", "'\tx"), ("\rx", "'\rx"), ("-1.5", "-1.5"), (-1.5, "-1.5"), (["=a", "b"], "'=a | b"),
    ],
)  # fmt: skip
def test_cells(value: object, text: str) -> None:
    assert cell(value) == text


@given(st.text(max_size=20))
def test_no_text_becomes_a_formula(text: str) -> None:
    shown = cell(text)
    assert not shown.startswith(("=", "@", "\t", "\r", "\n"))
    if shown.startswith(("+", "-")):
        float(shown)  # a number, which a spreadsheet shows as such


def test_a_row_takes_dotted_paths_and_leaves_what_is_missing_empty() -> None:
    item = {"rank": 1, "layout": {"precision": "bf16"}, "cost": None, "notes": ["a"]}
    assert rows_of([item], ("rank", "layout.precision", "cost.usd_per_hour", "notes", "id"), {"id": "x"}) == [
        ["1", "bf16", "", "a", "x"]
    ]


def test_quotes_commas_and_line_breaks_survive() -> None:
    rows = [['a"b', "c,d"], ["e\nf", ""]]
    assert list(csv.reader(io.StringIO(to_csv(("x", "y"), rows)))) == [["x", "y"], *rows]


def test_columns_are_unique_and_their_beginning_never_changes() -> None:
    assert len(set(RECOMMEND_COLUMNS)) == len(RECOMMEND_COLUMNS)
    assert RECOMMEND_COLUMNS[:6] == (
        "rank",
        "provider",
        "instance_type",
        "region",
        "availability_zone_id",
        "purchase_option",
    )
    assert "cost.usd_per_million_inferences" in RECOMMEND_COLUMNS
