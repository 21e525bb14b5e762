"""Flags from the request's fields, and values from text."""

import dataclasses
import os
from argparse import Namespace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cli.errors import UsageError
from planner.cli.options import day, flag_of, help_text, listed, number, request_from, series, whole_number
from planner.cli.parser import parse, parser_for
from planner.recommend.request import EstimateRequest, RecommendRequest


def request(*words: str) -> RecommendRequest:
    parser, _ = parser_for("recommend")
    return request_from(parse(parser, words), RecommendRequest)


def complaint(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        request(*words)
    return str(caught.value)


@pytest.mark.parametrize(
    ("verb", "kind"), [("recommend", RecommendRequest), ("explain", RecommendRequest), ("estimate", EstimateRequest)]
)
def test_every_field_of_a_request_is_a_flag(verb: str, kind: type[Any]) -> None:
    parser, _ = parser_for(verb)
    flags = {s for a in parser._actions for s in a.option_strings}
    assert {"--" + f.name.replace("_", "-") for f in dataclasses.fields(kind)} <= flags


def test_what_is_not_given_keeps_its_default() -> None:
    assert request("--model", "7b") == RecommendRequest(model="7b")


def test_values_of_every_type() -> None:
    got = request(
        *(
            "--model",
            "7b",
            "--mode",
            "training",
            "--dataset-tokens",
            "50e6",
            "--epochs",
            "1.5",
            "--max-instances",
            "1_6",
            "--top",
            "2e1",
        ),
        *(
            "--region",
            "us-east-1,us-west-2",
            "--region",
            "us-east-1",
            "--purchase",
            "spot",
            "--prices-as-of",
            "2026-07-20",
            "--explain",
        ),
    )
    assert got == RecommendRequest(
        model="7b", mode="training", dataset_tokens=50_000_000.0, epochs=1.5, max_instances=16, top=20,
        region=("us-east-1", "us-west-2"), purchase=("spot",), prices_as_of=date(2026, 7, 20), explain=True,
    )  # fmt: skip


def test_the_percentile_is_a_number_in_the_request() -> None:
    assert request("--model", "7b", "--percentile", "95").percentile == 95


def test_choices_forgive_case_and_hyphens() -> None:
    assert request("--model", "7b", "--purchase", "On-Demand").purchase == ("on_demand",)


def test_a_wrong_choice_is_refused_with_all_choices_and_the_nearest() -> None:
    assert (
        complaint("--model", "7b", "--mode", "inferance")
        == "--mode: 'inferance' is not one of inference, training; did you mean inference?"
    )


def test_a_wrong_element_of_a_list_is_named() -> None:
    assert complaint("--model", "7b", "--purchase", "spot,spott").startswith(
        "--purchase: 'spott' is not one of on_demand, spot,"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--top", "1.5"), "--top: '1.5' is not a whole number; write it as 8, 1_000 or 1e3"),
        (("--top", "inf"), "--top: 'inf' is not a whole number; write it as 8, 1_000 or 1e3"),
        (("--top", "nan"), "--top: 'nan' is not a whole number; write it as 8, 1_000 or 1e3"),
        (("--epochs", "three"), "--epochs: 'three' is not a number; write it as 1000, 1_000, 1.5 or 50e6"),
        (("--dataset-tokens", "1,000"), "--dataset-tokens: '1,000' is not a number; write it as 1000, 1_000, 1.5 or 50e6"),
        (("--prices-as-of", "20.7.2026"), "--prices-as-of: '20.7.2026' must be a day, YYYY-MM-DD, or the name of a snapshot: shipped, latest, an id or its first 6 digits or more"),
        (("--prices-as-of", "2026-02-30"), "--prices-as-of: '2026-02-30' must be a day that exists (day is out of range for month), YYYY-MM-DD, or the name of a snapshot: shipped, latest, an id or its first 6 digits or more"),
        (("--region", ""), "--region: needs a value, for example --region us-east-1"),
        (("--top",), "--top: needs a value"),
        (("--modle", "7b"), "unknown flag --modle; did you mean --mode or --model?"),
        (("extra",), "unexpected 'extra'; values belong to flags, for example --model 7b"),
        (("--format", "jsn"), "--format: 'jsn' is not one of table, json, csv; did you mean json?"),
    ],
)  # fmt: skip
def test_each_bad_value_is_one_line_that_says_what_would_be_right(words: tuple[str, ...], said: str) -> None:
    assert complaint("--model", "7b", *words) == said


def test_flags_are_not_abbreviated() -> None:
    assert complaint("--mod", "7b").startswith("unknown flag --mod")


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_whole_numbers_come_back_however_they_are_written(n: int) -> None:
    assert whole_number("--n", str(n)) == n
    assert whole_number("--n", f"{n:_}") == n
    assert number("--n", repr(float(n))) == float(n)


@given(st.dates())
def test_days_come_back(d: date) -> None:
    assert day("--d", d.isoformat()) == d


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_one_clear_line(text: str) -> None:
    said = ""
    try:
        number("--x", text)
    except UsageError as e:
        said = str(e)
    assert said.startswith("--x: ") if said else isinstance(float(text), float)


def test_lists_drop_blanks_and_repetitions() -> None:
    assert listed(["a, b", "b,,c"]) == ("a", "b", "c")
    assert listed(None) == ()


def test_help_says_unit_choices_and_default() -> None:
    fields = {f.name: f for f in dataclasses.fields(RecommendRequest)}
    said = help_text(fields["utilisation"], fields["utilisation"].metadata["option"])
    assert "a fraction, 0 to 1" in said
    assert "default 1" in said
    assert "one of cost, time, latency, energy; default cost" in help_text(
        fields["sort"], fields["sort"].metadata["option"]
    )


def test_flag_names() -> None:
    assert flag_of("max_ttft_ms") == "--max-ttft-ms"


def test_a_namespace_without_flags_is_the_request_of_defaults() -> None:
    assert request_from(Namespace(model="7b"), RecommendRequest) == RecommendRequest(model="7b")


def test_a_series_is_a_column_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "traffic.csv"
    path.write_text("hour,requests_per_s\n0,2\n1,9.5\n", encoding="utf-8")
    assert series("--traffic", str(path), "requests_per_s", longest=10) == (2.0, 9.5)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hour,load\n0,2\n", "has no column 'requests_per_s'"),
        ("requests_per_s\n2\nx\n", ":3: requests_per_s: 'x' is not a number"),
        ("requests_per_s\n", "has no rows below its column names"),
        ("requests_per_s\n1\n1\n1\n", "has more than 2 rows"),
        ("", "has no column"),
    ],
)
def test_a_series_that_cannot_be_read_says_where_and_why(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "traffic.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        series("--traffic", str(path), "requests_per_s", longest=2)
    assert why in str(caught.value)


def test_a_series_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; give a plain file"):
        series("--traffic", str(tmp_path), "requests_per_s", longest=2)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(UsageError, match="is a named pipe, which may never end"):
        series("--traffic", str(tmp_path / "pipe.csv"), "requests_per_s", longest=2)
    (tmp_path / "x.csv").write_bytes(b"requests_per_s\n\xff\n")
    with pytest.raises(UsageError, match="line 2: is not text in UTF-8"):
        series("--traffic", str(tmp_path / "x.csv"), "requests_per_s", longest=2)
