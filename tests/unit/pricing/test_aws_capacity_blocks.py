"""Offerings of capacity blocks, written by hand; prices of an hour worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.stub import ANY

from pricing.aws.capacity_blocks import (
    capacity_block_quotes,
    capacity_blocks_source,
    parse_capacity_blocks,
)
from pricing.errors import AccessDenied, ReplyError, SourceFailed
from pricing.model import PurchaseOption
from pricing.source import Ask, Scope
from pricing.static import load_tables

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ENDS = datetime(2026, 12, 5, 11, 30, tzinfo=UTC)
ZONE_IDS = {"us-east-2a": "use2-az1", "us-east-2b": "use2-az2"}


def row(name: str = "cb-1", fee: str = "755.14", minutes: int = 1440, **other: Any) -> dict[str, Any]:
    base = {
        "CapacityBlockOfferingId": name,
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": "us-east-2a",
        "InstanceCount": 1,
        "StartDate": ENDS - timedelta(minutes=minutes),
        "EndDate": ENDS,
        "CapacityBlockDurationHours": minutes // 60,
        "CapacityBlockDurationMinutes": minutes % 60,
        "UpfrontFee": fee,
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }
    return {k: v for k, v in (base | other).items() if v is not None}


def parse(*rows: Any, pages: int = 1) -> Any:
    answer = [{"CapacityBlockOfferings": list(rows)}] * pages
    return parse_capacity_blocks(answer, region="us-east-2", zone_ids=ZONE_IDS, retrieved_at=NOW)


def test_a_block_shorter_than_asked_is_priced_by_its_minutes() -> None:
    """48 h were asked; from 12:17 to 11:30 two days later are 47 h 13 min = 2,833 minutes. 1,416.50 USD x 60 / 2,833 = 30 USD an hour."""
    (block,) = parse(row(fee="1416.50", minutes=2833)).blocks
    assert (block.minutes, block.unit_price) == (2833, Decimal(30))
    assert block.starts_at == datetime(2026, 12, 3, 12, 17, tzinfo=UTC)
    assert (block.upfront, block.currency) == (Decimal("1416.5"), "USD")
    assert (block.availability_zone_id, block.availability_zone) == ("use2-az1", "us-east-2a")


@pytest.mark.parametrize(
    ("hours", "minutes"),
    [
        (47, 13),  # as documented: minutes on top of the hours
        (47, 2833),  # as also seen: the minutes are the whole
        (None, 2833),
    ],
)
def test_both_meanings_of_the_stated_minutes_are_understood(hours: int | None, minutes: int) -> None:
    reading = parse(row(minutes=2833, CapacityBlockDurationHours=hours, CapacityBlockDurationMinutes=minutes))
    assert [b.minutes for b in reading.blocks] == [2833]
    assert reading.notes == ()


def test_a_stated_duration_that_start_and_end_do_not_make_is_said() -> None:
    reading = parse(row(minutes=2833, CapacityBlockDurationHours=48, CapacityBlockDurationMinutes=0))
    assert [b.minutes for b in reading.blocks] == [2833]
    assert "cb-1: lasts 2833 minutes from start to end" in reading.notes[0]


def test_the_fee_is_that_of_all_instances() -> None:
    """Two instances for a day at 1,510.28 USD: 755.14 each, 31.464166… an hour."""
    (block,) = parse(row(fee="1510.28", InstanceCount=2)).blocks
    assert block.unit_price * 48 == pytest.approx(Decimal("1510.28"), rel=Decimal("1e-25"))
    (quote,) = capacity_block_quotes([block])
    assert quote.upfront == Decimal("755.14")
    assert quote.effective_unit_price * 24 == pytest.approx(Decimal("755.14"), rel=Decimal("1e-25"))


def test_one_quote_a_type_and_zone_is_the_cheapest_hour() -> None:
    blocks = parse(
        row("day", "755.14"),  # 31.46 an hour
        row("week", "5040", 10080),  # 30 an hour, though the dearest fee
        row("later week", "5040", 10080, StartDate=ENDS, EndDate=ENDS + timedelta(days=7)),
        row("other zone", "700", AvailabilityZone="us-east-2b"),
        row("other type", "283.20", InstanceType="p4d.24xlarge"),
    ).blocks
    quotes = capacity_block_quotes(reversed(blocks))
    assert [(q.instance_type, q.availability_zone_id, q.sku) for q in quotes] == [
        ("p4d.24xlarge", "use2-az1", "other type"),
        ("p5.48xlarge", "use2-az1", "week"),
        ("p5.48xlarge", "use2-az2", "other zone"),
    ]
    week = quotes[1]
    shipped = {q.payment_option for q in load_tables().quotes if q.purchase_option is PurchaseOption.CAPACITY_BLOCK}
    assert shipped == {q.payment_option for q in quotes} == {"all_upfront"}  # one key of history and diff
    assert (week.effective_unit_price, week.list_unit_price, week.upfront) == (Decimal(30), Decimal(30), Decimal(5040))
    assert week.purchase_option is PurchaseOption.CAPACITY_BLOCK
    assert week.notes == "block of 168 h 0 min, 2026-11-28 11:30 to 2026-12-05 11:30 UTC, paid at once; an offering of the moment, not held"  # fmt: skip


def test_what_is_no_block_of_one_type_in_one_zone_is_left_out_by_reason() -> None:
    segment = {"InstanceType": "p5.48xlarge", "AvailabilityZone": "us-east-2b"}
    reading = parse(
        row("good"),
        row("good"),
        row("ultra", UltraserverType="u-p6e-gb200x36"),
        row("parts", CapacityBlockOfferingSegments=[segment, segment]),
        row("one part", CapacityBlockOfferingSegments=[segment]),
        row("own", Tenancy="dedicated"),
        row("free", fee="0.00"),
    )
    assert [b.offering_id for b in reading.blocks] == ["good", "one part"]
    assert reading.excluded == {
        "repeated": 1,
        "of a whole UltraServer": 1,
        "of several segments, each with a zone and a schedule of its own": 1,
        "tenancy dedicated": 1,
        "fee of zero": 1,
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (row(UpfrontFee=None), "UpfrontFee: a price must be a text"),
        (row(UpfrontFee="755,14"), "is not a price"),
        (row(CurrencyCode=None), "CurrencyCode must be a text"),
        (row(EndDate=ENDS - timedelta(minutes=1440)), "for 0 minutes"),
        (row(InstanceCount=0), "is of 0 instances"),
        (row(StartDate=None), "StartDate: must be a time"),
        ("text", "must be an object"),
    ],
)
def test_what_cannot_be_right_is_an_error(given: Any, message: str) -> None:
    with pytest.raises(ReplyError, match=message):
        parse(given)


class Client:
    """The SDK's own EC2 client with answers laid ready in the order in which they must be asked for."""

    def __init__(self) -> None:
        import boto3
        from botocore.stub import Stubber

        self.ec2 = boto3.client("ec2", region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="y")
        self.stub = Stubber(self.ec2)

    def __enter__(self) -> Client:
        self.stub.activate()
        return self

    def __exit__(self, *error: object) -> None:
        self.stub.deactivate()
        self.ec2.close()

    def client(self, service: str, region: str) -> Any:
        assert (service, region) == ("ec2", "us-east-2")
        return self.ec2

    def answers(self, instance_type: str, hours: int, *rows: Any, token: str | None = None, after: str | None = None) -> None:  # fmt: skip
        asked = {"InstanceType": instance_type, "InstanceCount": 1, "CapacityDurationHours": hours}
        reply = {"CapacityBlockOfferings": list(rows)} | ({"NextToken": token} if token else {})
        self.stub.add_response(
            "describe_capacity_block_offerings", reply, asked | ({"NextToken": after} if after else {})
        )

    def sells(self, *types: str, others: Iterable[str] = ()) -> None:
        rows = [{"InstanceType": name, "SupportedUsageClasses": ["on-demand", "capacity-block"]} for name in types]
        rows += [{"InstanceType": name, "SupportedUsageClasses": ["on-demand", "spot"]} for name in others]
        asked = {"Filters": [{"Name": "instance-type", "Values": ANY}], "MaxResults": 100}
        self.stub.add_response("describe_instance_types", {"InstanceTypes": rows}, asked)

    def zones(self) -> None:
        known = [{"ZoneName": name, "ZoneId": zone_id} for name, zone_id in ZONE_IDS.items()]
        self.stub.add_response("describe_availability_zones", {"AvailabilityZones": known}, {})

    def read(self) -> Any:
        ask = Ask(region="us-east-2", at=NOW, chips=(), instance_types=frozenset())
        reading = capacity_blocks_source(self).read(ask)  # type: ignore[arg-type]
        self.stub.assert_no_pending_responses()
        return reading


def test_every_type_that_aws_sells_so_is_asked_for_a_day_and_a_week_to_the_last_page() -> None:
    with Client() as aws:
        aws.sells("p5.48xlarge", "p4d.24xlarge", others=["g5.xlarge"])
        aws.answers("p4d.24xlarge", 24, row("a", "283.2", InstanceType="p4d.24xlarge"), token="more")
        aws.answers("p4d.24xlarge", 24, row("b", "288", InstanceType="p4d.24xlarge"), after="more")
        aws.answers("p4d.24xlarge", 168)
        aws.answers("p5.48xlarge", 24, row("c"))
        aws.answers("p5.48xlarge", 168, row("c"), row("d", "5040", 10080))
        aws.zones()
        reading = aws.read()
    assert {b.offering_id for b in reading.capacity_blocks} == {"a", "b", "c", "d"}
    assert [(q.sku, q.availability_zone_id, q.effective_unit_price) for q in reading.quotes] == [
        ("a", "use2-az1", Decimal("11.8")),
        ("d", "use2-az1", Decimal(30)),
    ]
    assert reading.excluded == {"repeated": 1}
    assert reading.scope == Scope(provider="aws", region="us-east-2", tables=frozenset({"quotes", "capacity_blocks"}), purchase_options=frozenset({PurchaseOption.CAPACITY_BLOCK}))  # fmt: skip


def test_a_type_that_the_region_has_no_blocks_of_stops_nothing() -> None:
    refuse = "describe_capacity_block_offerings"
    with Client() as aws:
        aws.sells("p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge")
        aws.stub.add_client_error(refuse, "Unsupported", "not supported", 400)
        aws.stub.add_client_error(refuse, "InvalidParameterValue", "Value (p4de.24xlarge) is not valid", 400)
        aws.answers("p5.48xlarge", 24)
        aws.answers("p5.48xlarge", 168)
        reading = aws.read()
    assert (reading.quotes, reading.capacity_blocks) == ((), ())
    assert reading.excluded == {"types without blocks in the region": 2}


@pytest.mark.parametrize(
    ("code", "message", "error", "said"),
    [
        ("UnauthorizedOperation", "no", AccessDenied, "ec2:DescribeCapacityBlockOfferings"),
        ("InvalidParameterValue", "Value (24) for capacityDurationHours is invalid", SourceFailed, r"Value \(24\) for"),
    ],
)
def test_any_other_refusal_fails_the_source(code: str, message: str, error: type[SourceFailed], said: str) -> None:
    with Client() as aws:
        aws.sells("p5.48xlarge")
        aws.stub.add_client_error("describe_capacity_block_offerings", code, message, 400)
        with pytest.raises(error, match=said):
            aws.read()


def test_an_offering_that_cannot_be_read_fails_the_source() -> None:
    with Client() as aws:
        aws.sells("p5.48xlarge")
        aws.answers("p5.48xlarge", 24, row(fee="much"))
        aws.answers("p5.48xlarge", 168)
        aws.zones()
        with pytest.raises(SourceFailed, match=r"us-east-2: row 0 UpfrontFee: 'much' is not a price"):
            aws.read()


def test_without_the_permission_to_list_zones_blocks_have_names_alone_and_it_is_said() -> None:
    with Client() as aws:
        aws.sells("p5.48xlarge")
        aws.answers("p5.48xlarge", 24, row("c"))
        aws.answers("p5.48xlarge", 168)
        aws.stub.add_client_error("describe_availability_zones", "UnauthorizedOperation", "no", 403)
        reading = aws.read()
    (quote,) = reading.quotes
    assert (quote.availability_zone_id, quote.availability_zone) == (None, "us-east-2a")
    assert "ec2:DescribeAvailabilityZones" in reading.notices[0].detail
