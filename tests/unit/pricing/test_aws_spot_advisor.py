"""The spot advisor's file, written by hand in its shape. Bands and savings of g5.xlarge and p5.48xlarge are made up."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from fakes.file_server import Fault, FileServer, serving

from pricing.aws.session import Access, Aws
from pricing.aws.spot_advisor import (  # fmt: skip
    AdvisorReading,
    parse_ranges,
    parse_spot_advisor,
    read_spot_advisor,
    spot_advisor_source,
)
from pricing.errors import ReplyError, SourceFailed, Unreachable
from pricing.source import Ask

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = date(2026, 11, 30)
RANGES = [
    {"index": 0, "label": "<5%", "dots": 0, "max": 5},
    {"index": 1, "label": "5-10%", "dots": 1, "max": 11},
    {"index": 2, "label": "10-15%", "dots": 2, "max": 16},
    {"index": 3, "label": "15-20%", "dots": 3, "max": 22},
    {"index": 4, "label": ">20%", "dots": 4, "max": 100},
]
DOCUMENT: dict[str, Any] = {
    "ranges": RANGES,
    "global_rate": "<10%",
    "instance_types": {"g5.xlarge": {"emr": True, "cores": 4, "ram_gb": 16.0}},
    "spot_advisor": {
        "us-east-1": {
            "Linux": {"g5.xlarge": {"s": 51, "r": 0}, "p5.48xlarge": {"s": 32, "r": 4}, "m5.large": {"s": 60, "r": 1}},
            "Windows": {"g5.xlarge": {"s": 20, "r": 3}},
        },
        "eu-west-1": {"Linux": {"g5.xlarge": {"s": 0, "r": 2}}},
        "ap-east-2": {"Linux": {}},
        "mx-central-1": {},
    },
}


def parsed(document: Any = DOCUMENT, types: frozenset[str] = frozenset()) -> AdvisorReading:
    return parse_spot_advisor(document, instance_types=types, retrieved_on=DAY)


def changed(**rows: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    document["spot_advisor"]["us-east-1"]["Linux"] |= rows
    return document


def test_the_band_is_counted_from_zero() -> None:
    bands = {(i.region, i.instance_type): (i.band, i.monthly_low_fraction, i.monthly_high_fraction) for i in parsed().interruptions}  # fmt: skip
    assert bands == {
        ("us-east-1", "g5.xlarge"): ("<5%", 0.0, 0.05),
        ("us-east-1", "p5.48xlarge"): (">20%", 0.20, 1.0),
        ("eu-west-1", "g5.xlarge"): ("10-15%", 0.10, 0.15),
    }


def test_savings_are_per_cent_there_and_a_share_here() -> None:
    savings = {(i.region, i.instance_type): i.savings_over_on_demand_fraction for i in parsed().interruptions}
    assert savings == {("us-east-1", "g5.xlarge"): 0.51, ("us-east-1", "p5.48xlarge"): 0.32, ("eu-west-1", "g5.xlarge"): 0.0}  # fmt: skip
    (row,) = parsed(changed(**{"p5.48xlarge": {"r": 1}, "g5.xlarge": {"r": 0, "s": None}})).interruptions[1:2]
    assert row.savings_over_on_demand_fraction is None  # not stated, which is not nothing saved


def test_missing_regions_types_and_systems_are_no_error() -> None:
    assert {i.region for i in parsed().interruptions} == {"us-east-1", "eu-west-1"}
    assert parsed().unreadable == ()


def test_other_systems_and_types_are_counted() -> None:
    assert parsed().excluded == {"not a type we plan with": 1, "system Windows": 1}
    assert "m5.large" in {i.instance_type for i in parsed(types=frozenset({"m5.large"})).interruptions}


def test_rows_say_source_and_day() -> None:
    assert {(i.provider, i.source, i.retrieved_on) for i in parsed().interruptions} == {("aws", "AWS Spot Instance Advisor", DAY)}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"s": 51, "r": 5}, "r is 5 and there are 5 ranges"),
        ({"s": 51, "r": -1}, "r must be a whole number"),
        ({"s": 51}, "r must be a whole number, not missing"),
        ({"s": 51, "r": True}, "r must be a whole number"),
        ({"s": "51%", "r": 1}, "s must be a saving in per cent"),
        ({"s": 1000, "r": 1}, "s must be a saving in per cent"),
        ("<5%", "must be an object"),
    ],
)
def test_a_row_that_cannot_be_right_is_said_and_loses_no_other(row: Any, why: str) -> None:
    found = parsed(changed(**{"p4d.24xlarge": row}))
    assert [i.instance_type for i in found.interruptions] == ["g5.xlarge", "g5.xlarge", "p5.48xlarge"]
    assert why in str(found.unreadable[0])
    assert found.excluded["cannot be read"] == 1


def test_ranges_of_another_cut_are_read_by_their_highest_values() -> None:
    assert parse_ranges(
        [{"index": 1, "label": "over 8%", "max": 100}, {"index": 0, "label": "up to 8%", "max": 8}]
    ) == (
        ("up to 8%", 0.0, 0.08),
        ("over 8%", 0.08, 1.0),
    )


@pytest.mark.parametrize(
    ("ranges", "why"),
    [
        ([], "is empty"),
        (RANGES[1:], "ranges count from 0"),
        ([RANGES[0], RANGES[0] | {"index": 1}], "must be above the one before"),
        ([RANGES[0] | {"max": 101}], "at most 100"),
        ([RANGES[0] | {"label": ""}], "label must be a text"),
        ([{"label": "<5%", "max": 5}], "index must be a whole number"),
        (["<5%"], "must be an object"),
    ],
)
def test_ranges_that_cannot_be_right_are_refused(ranges: list[Any], why: str) -> None:
    with pytest.raises(ReplyError, match=why):
        parsed(DOCUMENT | {"ranges": ranges})


@pytest.mark.parametrize("document", [[], {}, {"ranges": RANGES}, DOCUMENT | {"spot_advisor": {}}, DOCUMENT | {"spot_advisor": {"us-east-1": {"Windows": {"g5.xlarge": {"s": 1, "r": 1}}}}}])  # fmt: skip
def test_a_file_without_a_band_is_no_reading(document: Any) -> None:
    with pytest.raises(ReplyError):
        parsed(document)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    for name in (
        "PLANNER_AWS_SPOT_ADVISOR_URL",
        "AWS_ENDPOINT_URL",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    with serving() as running:
        running.files = {"/spot-advisor-data.json": json.dumps(DOCUMENT).encode()}
        yield running


ASK = Ask(region=None, at=NOW, chips=(), instance_types=frozenset())


def test_the_source_asks_once_for_every_region(server: FileServer) -> None:
    server.faults = [Fault(status=200, body=b"<html>"), Fault(cut_after=100)]
    found = read_spot_advisor(Aws(Access(endpoint_url=server.url)), ASK, sleep=lambda _: None)
    assert found.interruptions == parsed().interruptions
    assert (found.scope.region, found.scope.tables, found.source) == (None, {"interruptions"}, "spot_advisor")
    assert len(server.asked) == 3


def test_the_source_fails_in_one_line(server: FileServer) -> None:
    aws = Aws(Access(endpoint_url=server.url))
    server.files["/spot-advisor-data.json"] = b'{"ranges": []}'
    with pytest.raises(SourceFailed, match="AWS Spot Instance Advisor: ranges: is empty"):
        read_spot_advisor(aws, ASK)
    server.files["/spot-advisor-data.json"] = b"<html>Sign in</html>"
    with pytest.raises(Unreachable, match="no JSON"):
        read_spot_advisor(aws, ASK, sleep=lambda _: None)
    server.files.clear()
    with pytest.raises(SourceFailed, match=r"there is no file .* \(HTTP 403\)"):
        read_spot_advisor(aws, ASK)


def test_the_source_needs_no_credentials() -> None:
    source = spot_advisor_source(Aws())
    assert (source.name, source.regional, source.needs_credentials, source.default) == ("spot_advisor", False, False, True)  # fmt: skip
