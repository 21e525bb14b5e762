"""Storage and network prices: public us-east-1 list prices of July 2026, in the shape of the price list."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest
from aws_doors import NOW, TABLES, asking, door_to, loopback
from hypothesis import given
from hypothesis import strategies as st

from pricing.aws.product import tiers_of
from pricing.aws.service_items import ITEMS, SERVICES
from pricing.aws.service_rates import RatesReading, parse_service_rates, storage_source
from pricing.errors import AccessDenied, ReplyError, SourceFailed
from pricing.market import NoticeKind

EC2 = {"servicecode": "AmazonEC2", "regionCode": "us-east-1", "locationType": "AWS Region"}
TRANSFER = {"servicecode": "AWSDataTransfer", "fromRegionCode": "us-east-1", "fromLocationType": "AWS Region"}
OUT = TRANSFER | {"usagetype": "DataTransfer-Out-Bytes", "transferType": "AWS Outbound", "toLocation": "External"}
FOUR_TIERS = (("0", "10240", "0.09"), ("10240", "51200", "0.085"), ("51200", "153600", "0.07"), ("153600", "Inf", "0.05"))  # fmt: skip


def term(unit: str, *tiers: tuple[str, str, str], start: str = "2026-11-01T00:00:00Z", currency: str = "USD") -> Any:
    rates = {
        f"r{number}": {"unit": unit, "beginRange": begin, "endRange": end, "pricePerUnit": {currency: price}}
        for number, (begin, end, price) in enumerate(reversed(tiers))  # the order of dimensions means nothing
    }
    return {"effectiveDate": start, "priceDimensions": rates}


def product(attributes: dict[str, str], unit: str, *tiers: tuple[str, str, str], sku: str = "A1", family: str = "Storage", **more: Any) -> str:  # fmt: skip
    return json.dumps(
        {
            "product": {"sku": sku, "productFamily": family, "attributes": attributes},
            "publicationDate": "2026-11-20T19:42:11Z",
            "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term(unit, *tiers, **more)}},
        }
    )


def ebs(usage: str, unit: str, price: str, **more: Any) -> str:
    return product(EC2 | {"usagetype": usage}, unit, ("0", "Inf", price), **more)


def read(*documents: str, region: str = "us-east-1") -> RatesReading:
    return parse_service_rates(documents, region=region, at=NOW)


def one(*documents: str) -> tuple[str, str, Decimal, str]:
    (rate,) = read(*documents).rates
    return rate.service, rate.item, rate.unit_price, rate.unit


def test_gp3_is_three_prices_told_apart_by_usage_and_unit() -> None:
    reading = read(
        ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.0800000000"),
        ebs("EBS:VolumeP-IOPS.gp3", "IOPS-Mo", "0.0050000000", sku="B2"),
        ebs("EBS:VolumeP-Throughput.gp3", "GiBps-mo", "40.9600000000", sku="C3"),
    )
    assert [(r.item, r.unit_price, r.unit) for r in reading.rates] == [
        ("gp3 provisioned IOPS above 3000", Decimal("0.005"), "IOPS-month"),
        ("gp3 provisioned throughput above 125 MB/s", Decimal("0.04"), "MB/s-month"),  # 40.96 / 1,024
        ("gp3 storage", Decimal("0.08"), "GB-month"),
    ]
    assert reading.rates[1].notes == "the list says 40.96 per GiBps-mo"


def test_a_price_of_another_unit_is_not_taken_for_it() -> None:
    reading = read(ebs("EBS:VolumeUsage.gp3", "GB-Hours", "0.08"), ebs("EBS:VolumeP-IOPS.gp3", "GB-Mo", "0.08", sku="B2"))  # fmt: skip
    assert (reading.rates, reading.excluded) == ((), {"unit GB-Hours": 1, "unit GB-Mo": 1})


def test_throughput_that_a_list_states_per_mib_is_not_divided() -> None:
    assert one(ebs("EBS:VolumeP-Throughput.gp3", "MiBps-Mo", "0.04"))[2:] == (Decimal("0.04"), "MB/s-month")


@pytest.mark.parametrize(
    ("usage", "unit", "price", "expected"),
    [
        ("EUC1-EBS:VolumeUsage.gp3", "GB-Mo", "0.0952", ("EBS", "gp3 storage", Decimal("0.0952"), "GB-month")),
        ("EU-EBS:VolumeUsage.io2", "GB-Mo", "0.138", ("EBS", "io2 storage", Decimal("0.138"), "GB-month")),
        ("EBS:VolumeP-IOPS.io2", "IOPS-Mo", "0.065", ("EBS", "io2 provisioned IOPS up to 32000", Decimal("0.065"), "IOPS-month")),
        ("EBS:VolumeP-IOPS.io2.tier2", "IOPS-Mo", "0.0455", ("EBS", "io2 provisioned IOPS 32001 to 64000", Decimal("0.0455"), "IOPS-month")),
        ("EBS:VolumeP-IOPS.io2.tier3", "IOPS-Mo", "0.03185", ("EBS", "io2 provisioned IOPS above 64000", Decimal("0.03185"), "IOPS-month")),
        ("EBS:VolumeUsage.piops", "GB-Mo", "0.125", ("EBS", "io1 storage", Decimal("0.125"), "GB-month")),
        ("EBS:SnapshotUsage", "GB-Mo", "0.05", ("EBS", "snapshot storage", Decimal("0.05"), "GB-month")),
        ("USW2-NatGateway-Hours", "Hrs", "0.045", ("NAT gateway", "hour", Decimal("0.045"), "hour")),
        ("NatGateway-Bytes", "GB", "0.045", ("NAT gateway", "data processed", Decimal("0.045"), "GB")),
        ("USE1-PublicIPv4:InUseAddress", "Hrs", "0.005", ("public IPv4 address", "in use or idle", Decimal("0.005"), "hour")),
        ("Requests-Tier1", "Requests", "0.0000050000", ("S3", "Standard PUT, COPY, POST, LIST requests", Decimal("0.005"), "1000 requests")),
        ("APN1-Requests-Tier2", "Requests", "0.0000004000", ("S3", "Standard GET and other requests", Decimal("0.0004"), "1000 requests")),
    ],
)  # fmt: skip
def test_a_usage_type_is_read_without_its_regions_prefix(usage: str, unit: str, price: str, expected: tuple[str, str, Decimal, str]) -> None:  # fmt: skip
    assert one(ebs(usage, unit, price)) == expected


def test_usage_that_looks_alike_is_another() -> None:
    reading = read(*(ebs(usage, "GB-Mo", "1", sku=f"A{n}") for n, usage in enumerate(("EBS:SnapshotUsageUnderBilling", "EBS:VolumeUsage", "EBS:VolumeIOUsage", "TimedStorage-INT-FA-ByteHrs", "EBS:VolumeUsage.gp3x"))))  # fmt: skip
    assert (reading.rates, reading.excluded) == ((), {"usage that no cost line needs": 5})


def test_tiers_are_a_row_each_and_the_free_gigabytes_come_off_the_first() -> None:
    reading = read(product(OUT, "GB", *FOUR_TIERS, family="Data Transfer"))
    assert [(r.item, r.tier_from, r.tier_to, r.unit_price) for r in reading.rates] == [
        ("out to internet", 100.0, 10240.0, Decimal("0.09")),
        ("out to internet", 10240.0, 51200.0, Decimal("0.085")),
        ("out to internet", 51200.0, 153600.0, Decimal("0.07")),
        ("out to internet", 153600.0, None, Decimal("0.05")),
    ]
    shipped = {(r.tier_from, r.tier_to, r.unit_price) for r in TABLES.rates if (r.item, r.region) == ("out to internet", "us-east-1")}  # fmt: skip
    assert {(r.tier_from, r.tier_to, r.unit_price) for r in reading.rates} == shipped


def test_a_rate_names_the_line_that_it_stands_in() -> None:
    reading = read(
        product(OUT, "GB", *FOUR_TIERS, family="Data Transfer")
    )  # its dimensions are in reverse: r3 is the first
    assert [(r.sku, r.rate_code) for r in reading.rates] == [("A1", "r3"), ("A1", "r2"), ("A1", "r1"), ("A1", "r0")]
    twins = [ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.08", sku=sku) for sku in ("B2", "A1")]
    for documents in (twins, twins[::-1]):
        (rate,) = read(*documents).rates
        assert (rate.sku, rate.rate_code) == ("A1", "r0")


def test_china_gives_nothing_away() -> None:
    here = OUT | {"fromRegionCode": "cn-north-1", "usagetype": "CNN1-DataTransfer-Out-Bytes"}
    (rate,) = read(product(here, "GB", ("0", "Inf", "0.933"), currency="CNY"), region="cn-north-1").rates
    assert (rate.tier_from, rate.currency, rate.unit_price) == (None, "CNY", Decimal("0.933"))


def test_a_free_first_tier_is_no_price() -> None:
    usage = EC2 | {"usagetype": "TimedStorage-ByteHrs"}
    (rate,) = read(product(usage, "GB-Mo", ("0", "5", "0"), ("5", "Inf", "0.023"))).rates
    assert (rate.tier_from, rate.tier_to, rate.unit_price) == (5.0, None, Decimal("0.023"))


@pytest.mark.parametrize(
    "tiers",
    [
        (("0", "10", "1"), ("20", "Inf", "2")),  # a gap
        (("0", "10", "1"), ("5", "Inf", "2")),  # an overlap
        (("0", "10", "1"), ("10", "50", "2")),  # no end
        (("10", "Inf", "1"),),  # no beginning
        (("0", "Inf", "1"), ("0", "Inf", "2")),  # two prices at once
    ],
)
def test_tiers_that_do_not_join_are_not_read(tiers: tuple[tuple[str, str, str], ...]) -> None:
    with pytest.raises(ReplyError, match="its tiers leave a gap or overlap"):
        tiers_of(term("GB", *tiers), "term")
    reading = read(product(OUT, "GB", *tiers), ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.08", sku="B2"))
    assert [r.item for r in reading.rates] == ["gp3 storage"]
    assert reading.excluded == {"cannot be read": 1}
    assert len(reading.unreadable) == 1


def test_tiers_of_two_units_are_not_read() -> None:
    mixed = term("GB", ("0", "10", "1"))
    mixed["priceDimensions"]["x"] = {"unit": "TB", "beginRange": "10", "endRange": "Inf", "pricePerUnit": {"USD": "2"}}
    with pytest.raises(ReplyError, match="several units"):
        tiers_of(mixed, "term")


def to_region(region: str, price: str, **change: str) -> str:
    attributes = TRANSFER | {"transferType": "InterRegion Outbound", "toRegionCode": region, "toLocationType": "AWS Region", "usagetype": f"USE1-{region}-AWS-Out-Bytes"} | change  # fmt: skip
    return product(attributes, "GB", ("0", "Inf", price), sku=f"T{region}", family="Data Transfer")


def test_another_region_has_a_price_each_and_the_commonest_is_the_typical_one() -> None:
    reading = read(
        to_region("us-west-2", "0.02"),
        to_region("eu-west-1", "0.02"),
        to_region("af-south-1", "0.147"),
        to_region("us-east-2", "0.01"),
        to_region("us-west-2-lax-1", "0.02", toLocationType="AWS Local Zone"),
        to_region("eu-west-2", "0.04", usagetype="USE1-EUW2-AWS-Out-ABytes"),  # S3 transfer acceleration
    )
    found = {r.item: r.unit_price for r in reading.rates}
    assert found == {
        "between us-east-1 and us-east-2": Decimal("0.01"),
        "out to af-south-1": Decimal("0.147"),
        "out to eu-west-1": Decimal("0.02"),
        "out to us-west-2": Decimal("0.02"),
        "out to other regions (typical)": Decimal("0.02"),
    }
    assert reading.rates[-1].notes == "the price to 2 of 3 regions"
    assert reading.excluded == {"data transfer to a AWS Local Zone": 1, "usage that no cost line needs": 1}


def test_between_zones_is_a_price_for_each_direction_and_inwards_is_not_ours() -> None:
    zones = TRANSFER | {"usagetype": "DataTransfer-Regional-Bytes", "transferType": "IntraRegion", "toRegionCode": "us-east-1", "toLocationType": "AWS Region"}  # fmt: skip
    inwards = {"servicecode": "AWSDataTransfer", "usagetype": "DataTransfer-In-Bytes", "toRegionCode": "us-east-1"}
    reading = read(product(zones, "GB", ("0", "Inf", "0.01")), product(inwards, "GB", ("0", "Inf", "0"), sku="B2"))
    assert [(r.item, r.unit_price) for r in reading.rates] == [("across availability zones in one region (each direction)", Decimal("0.01"))]  # fmt: skip
    assert reading.excluded == {"of another region": 1}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"throughputCapacity": "125"}, "persistent 2 SSD 125 MB/s per TiB"),
        ({"throughputCapacity": "1000 MB/s/TiB"}, "persistent 2 SSD 1000 MB/s per TiB"),
        ({"throughputCapacity": "50"}, "persistent 1 SSD 50 MB/s per TiB"),
        ({"throughputCapacity": "12", "storageType": "HDD"}, "persistent 1 HDD 12 MB/s per TiB"),
        ({"throughputCapacity": "200", "deploymentOption": "Scratch_2"}, "scratch 2 SSD 200 MB/s per TiB"),
        ({"throughputCapacity": "200"}, None),  # scratch or persistent: it is not told
        ({"throughputCapacity": "N/A"}, None),
        ({"fileSystemType": "Windows", "throughputCapacity": "125"}, None),
    ],
)
def test_lustre_is_told_by_its_attributes(given: dict[str, str], expected: str | None) -> None:
    attributes = EC2 | {"servicecode": "AmazonFSx", "usagetype": "Lustre-x", "fileSystemType": "Lustre", "storageType": "SSD", "deploymentOption": "Single-AZ"} | given  # fmt: skip
    reading = read(product(attributes, "GB-Mo", ("0", "Inf", "0.145")))
    assert [(r.service, r.item) for r in reading.rates] == ([("FSx for Lustre", expected)] if expected else [])
    assert sum(reading.excluded.values()) == (0 if expected else 1)


def test_local_zones_and_other_regions_are_left_out() -> None:
    zone = ebs("LAX1-EBS:VolumeUsage.gp3", "GB-Mo", "0.12").replace('"AWS Region"', '"AWS Local Zone"')
    other = ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.08", sku="B2").replace('"us-east-1"', '"us-east-2"')
    reading = read(zone, other)
    assert (reading.rates, reading.excluded) == ((), {"locationType AWS Local Zone": 1, "of another region": 1})


def test_future_prices_wait_zero_is_none_and_the_later_of_two_holds() -> None:
    plain = ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.08")
    later = ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.07", sku="B2", start="2026-12-01T00:00:00Z")
    zero = ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.0000000000", sku="C3")
    older = ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.10", sku="D4", start="2020-12-01T00:00:00Z")
    reading = read(plain, later, zero, older, plain)
    assert [r.unit_price for r in reading.rates] == [Decimal("0.08")]
    assert reading.excluded == {"starts in the future": 1, "price of zero": 1, "superseded by a later price": 1, "repeated across pages": 1}  # fmt: skip


def test_two_prices_of_one_day_are_not_decided_by_which_is_lower() -> None:
    reading = read(ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.08"), ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.04", sku="B2"))
    assert reading.rates == ()
    assert "2 prices are left where one must be: SKU A1 from 0.08 USD; SKU B2 from 0.04 USD" in str(reading.unresolved[0])  # fmt: skip
    same = read(ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.08"), ebs("EBS:VolumeUsage.gp3", "GB-Mo", "0.08", sku="B2"))
    assert [r.unit_price for r in same.rates] == [Decimal("0.08")]


@given(st.randoms(use_true_random=False))
def test_order_of_products_changes_nothing(shuffler: random.Random) -> None:
    documents = [ebs(usage, "GB-Mo", "0.08", sku=f"A{n}") for n, usage in enumerate(ITEMS)]
    documents += [product(OUT, "GB", *FOUR_TIERS, sku="X"), to_region("us-west-2", "0.02"), to_region("eu-west-1", "0.03")]  # fmt: skip
    expected = read(*documents)
    shuffler.shuffle(documents)
    assert read(*documents) == expected


def test_items_and_units_are_those_of_the_shipped_table() -> None:
    shipped = {(r.service, r.item, r.unit) for r in TABLES.rates if r.provider == "aws"}
    assert set(ITEMS.values()) <= shipped
    assert set(SERVICES) <= {service for service, _, _ in shipped}


def test_rates_of_a_region_against_the_loopback_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback(page_size=2) as fake, door_to(fake, monkeypatch) as aws:
        reading = storage_source(aws).read(asking())
        found = {(r.item, r.tier_from): (r.unit_price, r.unit) for r in reading.rates}
        assert found["gp3 provisioned throughput above 125 MB/s", None] == (Decimal("0.04"), "MB/s-month")
        assert found["Standard storage", 512000.0] == (Decimal("0.021"), "GB-month")
        assert found["Standard GET and other requests", None] == (Decimal("0.0004"), "1000 requests")
        assert found["persistent 2 SSD 1000 MB/s per TiB", None] == (Decimal("0.6"), "GB-month")
        assert found["out to internet", 153600.0] == (Decimal("0.05"), "GB")
        assert found["out to us-west-2", None] == (Decimal("0.02"), "GB")
        assert found["hour", None] == (Decimal("0.045"), "hour")
        assert found["in use or idle", None] == (Decimal("0.005"), "hour")
        assert reading.scope.services == set(SERVICES)
        assert (reading.scope.tables, reading.scope.region) == ({"rates"}, "us-east-1")
        assert reading.published == fake.world.edition.published
        assert reading.notices == ()
        shipped = {(r.service, r.item, r.region, r.tier_from): (r.unit_price, r.unit) for r in TABLES.rates}
        shared = {r for r in reading.rates if (r.service, r.item, r.region, r.tier_from) in shipped}
        assert len(shared) > 20
        for rate in shared:  # the shipped table has the same public prices, from other sources
            key = (rate.service, rate.item, rate.region, rate.tier_from)
            assert (rate.unit_price, rate.unit) == shipped[key], key
        fake.fail("malformed_item", times=1)
        assert storage_source(aws).read(asking()) == reading
        fake.fail("duplicate_page")
        assert storage_source(aws).read(asking()).rates == reading.rates


def test_a_service_that_the_list_does_not_have_is_not_spoken_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback() as fake, door_to(fake, monkeypatch) as aws:
        whole = storage_source(aws).read(asking())
        vpc = next(n for n, call in enumerate(fake.calls) if call.given["ServiceCode"] == "AmazonVPC")
        fake.fail("error", code="NotFoundException", status=400, after=vpc, times=1)
        reading = storage_source(aws).read(asking())
        assert reading.scope.services == set(SERVICES) - {"public IPv4 address"}
        assert {(n.kind, n.subject) for n in reading.notices} == {
            (NoticeKind.NOTE, "AmazonVPC us-east-1"),
            (NoticeKind.UNRESOLVED, "public IPv4 address us-east-1"),
        }
        assert set(reading.rates) == {r for r in whole.rates if r.service != "public IPv4 address"}
        fake.fail("error", code="ValidationException", status=400, after=vpc, times=1)
        with pytest.raises(SourceFailed, match="ValidationException"):  # anything else is no answer
            storage_source(aws).read(asking())
        fake.fail("access_denied", after=vpc)
        with pytest.raises(AccessDenied, match="pricing:GetProducts"):
            storage_source(aws).read(asking())


def test_a_region_without_any_price_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback() as fake, door_to(fake, monkeypatch) as aws, pytest.raises(SourceFailed, match="no storage or network price in us-east-9"):  # fmt: skip
        storage_source(aws).read(asking("us-east-9"))
