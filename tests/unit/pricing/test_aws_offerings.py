"""Where types are offered and which regions are enabled: moto's replies are copies of AWS's, the loopback AWS has the traps."""

from __future__ import annotations

from typing import Any

import pytest
from aws_doors import NOW, alone, asking, door_to, loopback
from moto import mock_aws

from pricing.aws.enabled_regions import enabled_regions, parse_regions
from pricing.aws.instance_types import NOT_WANTED
from pricing.aws.offerings import Zone, offerings_source, parse_offerings, parse_zones
from pricing.aws.session import Aws
from pricing.errors import AccessDenied, ReplyError, Unreachable

ZONES = {"use1-az1": Zone(name="us-east-1b", sort="availability-zone"), "use1-chi1-az1": Zone(name="us-east-1-chi-1a", sort="local-zone")}  # fmt: skip


def row(instance_type: str = "p5.48xlarge", location: str = "use1-az1", **more: Any) -> dict[str, Any]:
    return {"InstanceType": instance_type, "LocationType": "availability-zone-id", "Location": location} | more


def read(*rows: Any) -> Any:
    return parse_offerings([{"InstanceTypeOfferings": list(rows)}], zones=ZONES, region="us-east-1", known={"m7i.large"}, retrieved_at=NOW)  # fmt: skip


def test_a_zone_is_named_by_its_id_and_by_the_accounts_own_name() -> None:
    (found,) = read(row()).offerings
    assert (found.instance_type, found.region, found.availability_zone_id, found.availability_zone) == ("p5.48xlarge", "us-east-1", "use1-az1", "us-east-1b")  # fmt: skip
    (unlisted,) = read(row(location="use1-az9")).offerings
    assert (unlisted.availability_zone_id, unlisted.availability_zone) == ("use1-az9", None)


def test_local_zones_and_other_types_are_counted_and_repeated_rows_once() -> None:
    found = read(row(), row(), row(location="use1-chi1-az1"), row("t3.micro"), row("m7i.large"))
    assert [o.instance_type for o in found.offerings] == ["m7i.large", "p5.48xlarge"]
    assert found.excluded == {"repeated across pages": 1, "local-zone, not a zone of the region": 1, NOT_WANTED: 1}


def test_a_row_that_cannot_be_read_is_counted_and_loses_no_other() -> None:
    found = read(row(LocationType="availability-zone", Location="us-east-1a"), row(location=""), "text", row())
    assert [o.availability_zone_id for o in found.offerings] == ["use1-az1"]
    assert found.excluded == {"cannot be read": 3}
    said = [e.why for e in found.unreadable]
    assert (
        said[0] == "is of the sort availability-zone, and zone ids were asked for"
    )  # a name is another zone elsewhere
    assert said[1].startswith("Location must be a text")
    with pytest.raises(ReplyError, match="has no InstanceTypeOfferings"):
        parse_offerings([{}], zones={}, region="us-east-1", known=(), retrieved_at=NOW)


def test_malformed_rows_are_said_and_the_others_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback(page_size=10) as fake, door_to(fake, monkeypatch) as aws:
        whole = offerings_source(aws).read(asking("us-west-2"))
        fake.fail("malformed_item", action="DescribeInstanceTypeOfferings", page=1)
        reading = offerings_source(aws).read(asking("us-west-2"))
    assert len(whole.zone_offerings) - len(reading.zone_offerings) == 1
    assert (reading.excluded["cannot be read"], len(reading.notices)) == (1, 1)


def test_zones_say_what_sort_they_are() -> None:
    rows = [
        {"ZoneId": "use1-az1", "ZoneName": "us-east-1b", "ZoneType": "availability-zone"},
        {"ZoneId": "use1-chi1-az1", "ZoneName": "us-east-1-chi-1a", "ZoneType": "local-zone"},
    ]
    assert parse_zones({"AvailabilityZones": rows}) == ZONES
    older = parse_zones({"AvailabilityZones": [{"ZoneId": "use1-az1", "ZoneName": "us-east-1b"}]})
    assert older["use1-az1"].sort == "availability-zone"


def test_offerings_of_a_real_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    with mock_aws():
        aws = Aws()
        reading = offerings_source(aws).read(asking())
        aws.close()
    zones = {o.availability_zone_id for o in reading.zone_offerings if o.instance_type == "p5.48xlarge"}
    assert zones == {f"use1-az{n}" for n in range(1, 7)}
    assert {o.availability_zone_id for o in reading.zone_offerings if o.instance_type == "p4de.24xlarge"} < zones
    assert reading.excluded[NOT_WANTED] > 1000  # a region has some 6,000 rows, most of types that we do not plan with
    names = {o.availability_zone_id: o.availability_zone for o in reading.zone_offerings}
    assert names["use1-az6"] == "us-east-1a"  # as moto's account has it


def test_every_page_of_a_region_and_its_own_zones_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback(page_size=10) as fake, door_to(fake, monkeypatch) as aws:
        reading = offerings_source(aws).read(asking("us-west-2"))
        assert len(fake.calls_of("DescribeInstanceTypeOfferings")) > 1 == len(fake.calls_of("DescribeAvailabilityZones"))  # fmt: skip
        pools = {(o.instance_type, o.availability_zone_id) for o in reading.zone_offerings}
        assert {zone for name, zone in pools if name == "p5.48xlarge"} == {"usw2-az2", "usw2-az1"}
        assert {zone for name, zone in pools if name == "g5.xlarge"} == {"usw2-az2", "usw2-az1", "usw2-az3"}
        assert (reading.scope.region, reading.scope.tables) == ("us-west-2", {"zone_offerings"})
        fake.fail("truncated", page=2, times=1)
        assert offerings_source(aws).read(asking("us-west-2")) == reading
        fake.fail("truncated")
        with pytest.raises(Unreachable, match="DescribeAvailabilityZones: no whole answer"):
            offerings_source(aws).read(asking("us-west-2"))
        fake.heal()
        fake.fail("access_denied", action="DescribeInstanceTypeOfferings")
        with pytest.raises(AccessDenied, match="ec2:DescribeInstanceTypeOfferings") as caught:
            offerings_source(aws).read(asking("us-west-2"))
        assert caught.value.permission in offerings_source(aws).permissions


def test_regions_that_the_account_has_not_enabled_are_none_of_its_own() -> None:
    rows = [
        {"RegionName": "us-east-1", "OptInStatus": "opt-in-not-required"},
        {"RegionName": "ap-south-2", "OptInStatus": "not-opted-in"},
        {"RegionName": "eu-south-1", "OptInStatus": "opted-in"},
        {"RegionName": "cn-north-1"},
    ]
    assert parse_regions({"Regions": rows}) == ("cn-north-1", "eu-south-1", "us-east-1")
    with pytest.raises(ReplyError, match="has no Regions"):
        parse_regions({"ResponseMetadata": {}})


def test_the_regions_of_an_account_are_asked_in_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback() as fake, door_to(fake, monkeypatch) as aws:
        assert "us-east-1" in enabled_regions(aws)
        enabled_regions(aws, partition_of="cn-north-1")
        assert [call.region for call in fake.calls] == ["us-east-1", "cn-north-1"]
        fake.fail("access_denied")
        with pytest.raises(AccessDenied, match="ec2:DescribeRegions"):
            enabled_regions(aws)
