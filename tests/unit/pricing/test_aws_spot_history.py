"""DescribeSpotPriceHistory replies, written by hand."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.aws.spot_history import parse_spot_history, questions, spot_changes, spot_quotes, spot_source
from pricing.errors import AccessDenied, ReplyError, SourceFailed
from pricing.market import NoticeKind
from pricing.model import PurchaseOption
from pricing.source import Ask, Scope

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def row(price: str, at: str = "2026-11-30T10:00:00Z", *, zone: str | None = "us-east-2a", **other: Any) -> dict[str, Any]:  # fmt: skip
    base = {"InstanceType": "g6.xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": price, "Timestamp": at}
    return {k: v for k, v in (base | {"AvailabilityZone": zone} | other).items() if v is not None}


def page(*rows: Any) -> dict[str, Any]:
    return {"SpotPriceHistory": list(rows), "NextToken": ""}


def test_the_newest_row_is_the_price_not_the_lowest_and_not_the_first() -> None:
    reading = parse_spot_history([page(row("0.10", "2026-11-29T00:00:00Z"), row("0.30")), page(row("0.20", "2026-11-30T09:59:59Z"))], at=NOW)  # fmt: skip
    assert [p.amount for p in reading.prices] == [Decimal("0.30")]
    assert [c.amount for c in reading.changes] == [Decimal("0.10"), Decimal("0.20"), Decimal("0.30")]
    assert reading.excluded == {}


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


def test_local_zones_are_kept_with_the_region_that_was_asked() -> None:
    rows = [row("0.4", zone="us-west-2-lax-1a", AvailabilityZoneId="usw2-lax1-az1"), row("0.3", zone="us-west-2a", AvailabilityZoneId="usw2-az2")]  # fmt: skip
    changes = spot_changes(parse_spot_history([page(*rows)], at=NOW), region="us-west-2")
    assert {(c.region, c.availability_zone, c.availability_zone_id) for c in changes} == {
        ("us-west-2", "us-west-2-lax-1a", "usw2-lax1-az1"),
        ("us-west-2", "us-west-2a", "usw2-az2"),
    }


def test_every_change_comes_once_and_in_order() -> None:
    rows = [
        row("0.3", "2026-11-30T09:00:00Z", AvailabilityZoneId="use2-az1"),
        row("0.2", "2026-11-29T09:00:00Z", ProductDescription="Linux/UNIX (Amazon VPC)"),
        row("0.2", "2026-11-29T09:00:00Z"),
        row("0.25", "2026-11-29T09:00:00Z"),  # at the same instant, dearer
        row("0.1", "2026-08-01T00:00:00Z"),  # before any window: in force since
        row("0.30", "2026-11-30T09:00:00Z"),  # the same price without the id of its zone
        row("0.7", zone="us-east-2b"),
    ]
    reading = parse_spot_history([page(*rows[3:]), page(*rows[:4])], at=NOW)
    changes = spot_changes(reading, region="us-east-2")
    assert [(c.availability_zone, str(c.unit_price), c.since.isoformat()) for c in changes] == [
        ("us-east-2b", "0.7", "2026-11-30T10:00:00+00:00"),
        ("us-east-2a", "0.1", "2026-08-01T00:00:00+00:00"),
        ("us-east-2a", "0.25", "2026-11-29T09:00:00+00:00"),
        ("us-east-2a", "0.3", "2026-11-30T09:00:00+00:00"),
    ]
    assert {c.availability_zone_id for c in changes if c.availability_zone == "us-east-2a"} == {"use2-az1"}
    assert reading.excluded == {"repeated": 3, "the cheaper of two prices at one instant": 1}


class Client:
    """The SDK's own EC2 client with replies laid ready; `expected` are the arguments that it must be asked with."""

    def __init__(self, *replies: dict[str, Any], refuse: str | None = None, expected: list[Any] | None = None) -> None:
        import boto3
        from botocore.stub import ANY, Stubber

        self.ec2 = boto3.client("ec2", region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="y")
        self.stub = Stubber(self.ec2)
        for n, reply in enumerate(replies):
            common = dict.fromkeys(("ProductDescriptions", "StartTime", "EndTime", "Filters", "MaxResults"), ANY)
            token = {"NextToken": ANY} if n and replies[n - 1].get("NextToken") else {}
            self.stub.add_response(
                "describe_spot_price_history", reply, expected[n] if expected else {**common, **token}
            )
        if refuse:
            self.stub.add_client_error("describe_spot_price_history", refuse, "no", 403)

    def __enter__(self) -> Client:
        self.stub.activate()
        return self

    def __exit__(self, *error: object) -> None:
        self.stub.deactivate()
        self.ec2.close()

    def client(self, service: str, region: str) -> Any:
        assert (service, region) == ("ec2", "us-east-2")
        return self.ec2


def ask(types: Iterable[str] = ("g6.xlarge",), **more: Any) -> Ask:
    return Ask(region="us-east-2", at=NOW, chips=(), instance_types=frozenset(types), **more)


def wire(price: str, at: datetime, **other: Any) -> dict[str, Any]:
    return row(price, **other) | {"Timestamp": at}


def test_the_source_reads_every_page_to_the_empty_token() -> None:
    hour = timedelta(hours=1)
    answers = [
        {"SpotPriceHistory": [wire("0.4", NOW - hour), wire("0.9", NOW - hour, InstanceType="c5.large")], "NextToken": "a"},
        {"SpotPriceHistory": [], "NextToken": "b"},  # an empty page with a token is no end
        {"SpotPriceHistory": [wire("0.3", NOW - 2 * hour), wire("5", NOW - hour, InstanceType="p9.48xlarge")], "NextToken": ""},
    ]  # fmt: skip
    seen: list[int] = []
    with Client(*answers) as aws:
        reading = spot_source(aws).read(ask(on_answer=lambda: seen.append(1)))  # type: ignore[arg-type]
        aws.stub.assert_no_pending_responses()
    assert [(q.instance_type, q.effective_unit_price) for q in reading.quotes] == [
        ("g6.xlarge", Decimal("0.4")),
        ("p9.48xlarge", Decimal(5)),  # a family that has accelerators, though no table knows the type
    ]
    assert [(c.instance_type, c.unit_price) for c in reading.spot_changes] == [
        ("g6.xlarge", Decimal("0.3")),
        ("g6.xlarge", Decimal("0.4")),
        ("p9.48xlarge", Decimal(5)),
    ]
    assert reading.excluded == {"not a type we plan with": 1}
    assert reading.scope == Scope(provider="aws", region="us-east-2", tables=frozenset({"quotes", "spot_changes"}), purchase_options=frozenset({PurchaseOption.SPOT}))  # fmt: skip
    assert len(seen) == 3


def test_the_source_says_of_two_prices_at_one_instant() -> None:
    rows = [wire("0.4", NOW), wire("0.5", NOW)]
    with Client({"SpotPriceHistory": rows, "NextToken": ""}) as aws:
        reading = spot_source(aws).read(ask())  # type: ignore[arg-type]
    assert [q.effective_unit_price for q in reading.quotes] == [Decimal("0.5")]
    (notice,) = reading.notices
    assert (notice.kind, notice.source) == (NoticeKind.NOTE, "spot")
    assert "the dearer one is used" in notice.detail


@pytest.mark.parametrize(
    ("since", "start"),
    [
        (None, NOW - timedelta(days=90)),  # as far back as AWS goes
        (NOW - timedelta(days=365), NOW - timedelta(days=90)),
        (NOW - timedelta(days=2), NOW - timedelta(days=2, hours=6)),  # a little again: a row can come late
        (NOW + timedelta(days=1), NOW - timedelta(hours=6)),  # a clock that was wrong
    ],
)
def test_what_is_asked(since: datetime | None, start: datetime) -> None:
    (asked,) = questions(ask(["m7i.xlarge", "g6.xlarge", "trn2 UltraServer"], spot_since=since))
    assert (asked["StartTime"], asked["EndTime"]) == (start, NOW)
    assert asked["ProductDescriptions"] == ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]
    (wanted,) = asked["Filters"]
    assert wanted["Name"] == "instance-type"
    assert {"g6.xlarge", "m7i.xlarge", "p*", "g*", "trn*"} <= set(wanted["Values"])
    assert not any(" " in value for value in wanted["Values"])


def test_more_types_than_a_filter_takes_are_asked_in_several_questions() -> None:
    asked = list(questions(ask(f"m7i.{n}xlarge" for n in range(450))))
    values = [value for q in asked for value in q["Filters"][0]["Values"]]
    assert [len(q["Filters"][0]["Values"]) for q in asked] == [200, 200, 57]
    assert len(values) == len(set(values))


def test_a_refusal_and_a_row_that_cannot_be_read_fail_the_source_in_one_line() -> None:
    with Client(refuse="UnauthorizedOperation") as aws, pytest.raises(AccessDenied, match="ec2:DescribeSpotPriceHistory"):  # fmt: skip
        spot_source(aws).read(ask())  # type: ignore[arg-type]
    broken = {"SpotPriceHistory": [wire("cheap", NOW)], "NextToken": ""}
    with Client(broken) as aws, pytest.raises(SourceFailed, match=r"us-east-2: row 0 SpotPrice: 'cheap' is not a price"):  # fmt: skip
        spot_source(aws).read(ask())  # type: ignore[arg-type]
