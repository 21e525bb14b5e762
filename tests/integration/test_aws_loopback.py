"""Every source of AWS against a loopback AWS, through the SDK's own clients and paginators: pages, traps, faults.

The world that it sells stands in `fakes/aws_world.py` and its neighbours; what is to be found there is counted by hand here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from fakes.aws_server import FakeAws
from fakes.aws_world import World

from pricing.aws.pace import TokenBucket
from pricing.aws.session import Access, Aws
from pricing.aws.sources import aws_sources
from pricing.errors import AccessDenied, CredentialsMissing, SourceFailed, Unreachable
from pricing.market import NoticeKind
from pricing.model import PurchaseOption
from pricing.source import Ask, Source, SourceReading
from pricing.static import load_tables

NOW = datetime(2026, 7, 20, 12, tzinfo=UTC)
SOURCES = {source.name: source for source in aws_sources(Aws())}
CHIPS = load_tables().accelerators
Read = Callable[..., SourceReading]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeAws]:
    """Give one server for all tests: clients take a while to make, and one may be used again at the same address."""
    with FakeAws(world=World(now=NOW)) as running:
        yield running


@pytest.fixture(scope="module")
def door(server: FakeAws) -> Iterator[Aws]:
    """Give the door to it. Waiting is cut short; everything else of the SDK is as it is."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        patch.delenv("AWS_PROFILE", raising=False)
        patch.setattr("pricing.aws.paging.PAUSE_S", 0.0)
        patch.setattr("pricing.aws.downloads.PAUSE_S", 0.0)
        patch.setattr("pricing.aws.session.PRICING_BUCKET", TokenBucket(10_000.0, 10_000))
        patch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)
        patch.setattr("botocore.retries.adaptive.ClientRateLimiter.on_sending_request", lambda *_, **__: None)
        aws = Aws(Access(endpoint_url=server.url))
        yield aws
        close(aws)


@pytest.fixture
def fake(server: FakeAws, door: Aws) -> FakeAws:
    """Give the loopback AWS with a world of its own, whose clock stands at NOW."""
    server.reset(World(now=NOW))
    return server


@pytest.fixture
def read(fake: FakeAws, door: Aws) -> Read:
    """Give a function that asks one source once."""
    return lambda name, **more: ask(door, name, **more)


def ask(aws: Aws, name: str, *, region: str = "us-east-1", **more: Any) -> SourceReading:
    """Return what a source answers; `more` are fields of the question."""
    source: Source = {s.name: s for s in aws_sources(aws)}[name]
    where = region if source.regional else None
    question = Ask(region=where, at=NOW, chips=CHIPS, instance_types=frozenset())
    return source.read(replace(question, **more))


def close(aws: Aws) -> None:
    """Close the connections of every client."""
    for client in aws._clients.values():
        client.close()


def rows_of(reading: SourceReading) -> dict[str, list[str]]:
    """Return the rows of a reading by table, in an order of their own."""
    tables = [f.name for f in fields(reading) if isinstance(getattr(reading, f.name), tuple) and f.name != "notices"]
    return {name: sorted(map(repr, getattr(reading, name))) for name in tables}


def price_of(reading: SourceReading, instance_type: str, **wanted: Any) -> Decimal:
    """Return the one effective price of a type."""
    wanted.setdefault("purchase_option", PurchaseOption.ON_DEMAND)
    found = [
        q.effective_unit_price
        for q in reading.quotes
        if q.instance_type == instance_type and all(getattr(q, name) == value for name, value in wanted.items())
    ]
    assert len(found) == 1, found
    return found[0]


# what is there


PUBLIC = {
    "g4dn.metal": "7.824", "g4dn.xlarge": "0.526", "g5.2xlarge": "1.212", "g5.xlarge": "1.006", "g6.xlarge": "0.8048", "g6e.xlarge": "1.861",
    "g6f.xlarge": "0.2375", "inf2.xlarge": "0.7582", "p4d.24xlarge": "21.957642", "p4de.24xlarge": "27.44705", "p5.48xlarge": "55.04",
    "p5.4xlarge": "6.88", "p5en.48xlarge": "63.296", "p6-b200.48xlarge": "113.9328", "p6-b300.48xlarge": "142.416", "trn1.32xlarge": "21.5",
    "vt1.3xlarge": "0.65",
}  # fmt: skip
"""Linux on-demand in us-east-1 as published, USD an hour."""


def test_price_list_has_every_public_price_and_no_other(read: Read) -> None:
    reading = read("price_list")
    found = {q.instance_type: str(q.effective_unit_price) for q in reading.quotes if q.purchase_option == PurchaseOption.ON_DEMAND}  # fmt: skip
    assert found == PUBLIC
    assert reading.published == "2026-07-18T12:00:00Z"
    # 16 types with 12 reservations each; p5en has none
    assert len(reading.quotes) == 17 + 16 * 12


def test_every_page_of_the_price_list_is_read(fake: FakeAws, read: Read) -> None:
    # Linux rows of us-east-1: 18 types (metal has 1, 17 others 6 each, 7 of them a block row more), 8 single traps with trn2's block,
    # and 2 hosts: 1 + 102 + 7 + 8 + 2 = 120
    read("price_list")
    asked = [c for c in fake.calls_of("GetProducts") if {f["Field"] for f in c.given["Filters"]} == {"regionCode", "operatingSystem"}]  # fmt: skip
    assert [c.rows for c in asked] == [25, 25, 25, 25, 20]
    assert [c.page for c in asked] == [1, 2, 3, 4, 5]
    assert {c.given["MaxResults"] for c in asked} == {100}


EXCLUDED_FROM_PRICE_LIST = {
    # one of each for the 16 virtual machines that we plan with
    "capacitystatus AllocatedCapacityReservation": 16,
    "capacitystatus UnusedCapacityReservation": 16,
    "preInstalledSw SQL Web": 16,
    "tenancy Dedicated": 16,
    "tenancy Host": 16,
    "reservation of an old or unknown sort": 16,  # Heavy Utilization; p5en has no reservations, metal has
    # p4d, p4de, two p5, p5en, two p6, and trn2 which has nothing else
    "marketoption CapacityBlock": 8,
    "operation RunInstances:CB": 1,
    "locationType AWS Wavelength Zone": 1,
    "productFamily Dedicated Host": 2,
    "productFamily missing": 1,
    "no on-demand term": 1,
    "term without a price": 1,
    "price of zero": 1,
    "starts in the future": 1,
    "superseded by a later price": 1,
    "not a type we plan with": 6,  # m5.large
}


@pytest.mark.parametrize("reason", EXCLUDED_FROM_PRICE_LIST)
def test_trap_of_the_price_list_is_counted_by_name(read: Read, reason: str) -> None:
    assert read("price_list").excluded[reason] == EXCLUDED_FROM_PRICE_LIST[reason]


def test_nothing_else_is_left_out_of_the_price_list(read: Read) -> None:
    assert read("price_list").excluded == EXCLUDED_FROM_PRICE_LIST


def test_local_zone_is_not_the_price_of_its_region(read: Read) -> None:
    reading = read("price_list", region="us-west-2")
    assert reading.excluded["locationType AWS Local Zone"] == 1
    assert price_of(reading, "g4dn.xlarge") == Decimal("0.526")


def test_type_sold_in_blocks_alone_has_no_price_and_says_so(read: Read) -> None:
    reading = read("price_list")
    assert not [q for q in reading.quotes if q.instance_type == "trn2.48xlarge"]
    said = [n for n in reading.notices if n.kind == NoticeKind.UNRESOLVED]
    assert [n.subject for n in said] == ["trn2.48xlarge us-east-1"]


def test_china_is_in_yuan(read: Read) -> None:
    reading = read("price_list", region="cn-north-1")
    assert {q.currency for q in reading.quotes} == {"CNY"}
    assert price_of(reading, "g4dn.xlarge") == Decimal("4.123")


@pytest.mark.parametrize(
    ("years", "kind", "payment", "upfront", "effective"),
    [
        # 1.006 x 0.63, nothing at once
        (1, "standard", "no_upfront", "0", "0.63378"),
        # fee: 1.006 x 0.60 / 2 x 8760 = 2643.768, so 2643; hourly 0.3018; 2643/8760 = 0.3017123...
        (1, "standard", "partial_upfront", "2643", "0.6035123287671232876712328767"),
        # an hourly rate of 0 is not a price of 0: 1.006 x 0.58 x 8760 = 5111.28, so 5111 / 8760
        (1, "standard", "all_upfront", "5111", "0.5834474885844748858447488584"),
        # 1.006 x 0.45 x 26280 = 11896.956, so 11896 / 26280
        (3, "convertible", "all_upfront", "11896", "0.4526636225266362252663622527"),
    ],
)
def test_reservation_is_its_hourly_rate_and_its_fee_spread(  # noqa: PLR0917 - a row of the table
    read: Read, years: int, kind: str, payment: str, upfront: str, effective: str) -> None:  # fmt: skip
    option = PurchaseOption.RESERVED_1YR if years == 1 else PurchaseOption.RESERVED_3YR
    found = [
        q
        for q in read("price_list").quotes
        if (q.instance_type, q.purchase_option, q.offering_class, q.payment_option) == ("g5.xlarge", option, kind, payment)
    ]  # fmt: skip
    assert len(found) == 1
    assert found[0].upfront == Decimal(upfront)
    assert found[0].effective_unit_price == pytest.approx(Decimal(effective), abs=Decimal("1e-20"))


def test_instance_types_with_parts_of_a_gpu_and_wrong_memory(read: Read) -> None:
    reading = read("instance_types")
    found = {t.instance_type: t for t in reading.instance_types}
    assert len(found) == 17  # without m5, which is not asked for, and vt1
    assert reading.excluded == {"media accelerator, not for models": 1}
    part = found["g6f.xlarge"]  # Count is 0: an eighth of an L4, 2861 MiB
    assert (part.accelerator, part.device_count, part.device_fraction) == ("L4", 1, 0.125)
    whole = found["p5.4xlarge"]  # Count is 0 too: one whole H100
    assert (whole.accelerator, whole.device_count, whole.device_fraction) == ("H100 SXM5 80GB", 1, 1.0)
    assert found["trn2.48xlarge"].device_memory_gib == 96.0  # the reply says 512
    assert found["inf2.xlarge"].device_count == 1  # listed twice, counted once
    assert (found["p4d.24xlarge"].accelerator, found["p4de.24xlarge"].accelerator) == ("A100 SXM4 40GB", "A100 SXM4 80GB")  # fmt: skip
    assert found["p5.48xlarge"].memory_gib == 2048.0  # MiB of memory, GB of disks
    assert found["p5.48xlarge"].local_nvme_gb == 30400.0
    assert found["p5.48xlarge"].network_gbps == 3200.0


def test_offerings_are_by_zone_id_without_local_zones(read: Read) -> None:
    here, there = read("offerings"), read("offerings", region="us-west-2")
    assert {o.availability_zone_id for o in here.zone_offerings if o.instance_type == "p5.48xlarge"} == {"use1-az4", "use1-az6"}  # fmt: skip
    assert len(here.zone_offerings) == 9 * 2 + 9 * 4  # p and trn in two zones, the others in four
    assert here.excluded == {"not a type we plan with": 4}  # m5.large, four zones
    assert len(there.zone_offerings) == 2 * 2 + 2 * 3
    assert there.excluded == {"local-zone, not a zone of the region": 1}


def test_spot_changes_are_found_once_and_prices_in_effect(fake: FakeAws, read: Read) -> None:
    reading = read("spot")
    # pools: 8 types in two zones, 9 in four. Changes: nine each, metal one, p5.48xlarge in use1-az6 six, g5.xlarge in us-east-1b one more
    assert len(reading.quotes) == 8 * 2 + 9 * 4
    assert len(reading.spot_changes) == 15 * 9 + 6 + 32 * 9 + 4 * 1 + 1
    # 435 of these (two at one instant), 1 of the second spelling, 2 of zero, 6 that come twice beside
    assert sum(c.rows or 0 for c in fake.calls_of("DescribeSpotPriceHistory")) == 435 + 1 + 2 + 6
    assert reading.excluded == {"price of zero": 2, "repeated": 7, "the cheaper of two prices at one instant": 1}
    in_effect = {(q.instance_type, q.availability_zone_id): q.effective_unit_price for q in reading.quotes}
    assert in_effect["g5.xlarge", "use1-az4"] == Decimal("0.41246")  # 1.006 x 0.41 since yesterday
    assert in_effect["g4dn.metal", "use1-az4"] == Decimal("3.1296")  # 7.824 x 0.40 since a hundred days
    assert in_effect["p5.48xlarge", "use1-az6"] == Decimal("55.04")  # at the on-demand price: nothing to be had
    assert in_effect["g6e.xlarge", "use1-az4"] == Decimal("0.76301")  # 1.861 x 0.41: the row of zero is no price
    assert in_effect["g6.xlarge", "use1-az4"] == Decimal("0.35")  # the dearer of 0.35 and 0.8048 x 0.41 = 0.329968


def test_spot_row_without_a_zone_id_is_of_the_same_pool(read: Read) -> None:
    changes = [c for c in read("spot").spot_changes if c.instance_type == "g5.xlarge" and c.availability_zone == "us-east-1b"]  # fmt: skip
    assert len(changes) == 10
    assert {c.availability_zone_id for c in changes} == {"use1-az6"}
    assert [c.since for c in changes] == sorted(c.since for c in changes)


def test_spot_changes_before_the_window_are_the_price_at_its_start(read: Read) -> None:
    first = next(c for c in read("spot").spot_changes if (c.instance_type, c.availability_zone) == ("g5.xlarge", "us-east-1a"))  # fmt: skip
    assert first.unit_price == Decimal("0.4024")  # 1.006 x 0.40
    assert NOW - timedelta(days=101) < first.since < NOW - timedelta(days=100)


def test_spot_asked_since_a_moment_brings_the_changes_since_then(read: Read) -> None:
    reading = read("spot", spot_since=NOW - timedelta(days=4))
    of_pool = [c.unit_price for c in reading.spot_changes if (c.instance_type, c.availability_zone) == ("g5.xlarge", "us-east-1a")]  # fmt: skip
    assert of_pool == [Decimal("0.4527"), Decimal("0.43258"), Decimal("0.41246")]  # of 5, 2 and 1 days ago
    assert len(reading.quotes) == 52  # every pool all the same


def test_savings_plan_rates_without_look_alikes(fake: FakeAws, read: Read) -> None:
    reading = read("savings_plans")
    # 15 types; 13 with Compute and EC2 Instance plans (12 rates), two p6 with Compute alone (6)
    assert len(reading.quotes) == 13 * 12 + 2 * 6
    assert reading.excluded == {
        "usage UnusedBox": 14 * 12 + 2 * 6,  # the same, and m5.large
        "not a type we plan with": 12,
        "currency CNY where USD is billed": 1,
    }
    assert sum(c.rows or 0 for c in fake.calls_of("DescribeSavingsPlansOfferingRates")) == 168 + 180 + 12 + 1

    def rate(plan: str, years: int, payment: str) -> Decimal:
        option = PurchaseOption.SAVINGS_PLAN_1YR if years == 1 else PurchaseOption.SAVINGS_PLAN_3YR
        return price_of(reading, "p5.48xlarge", purchase_option=option, plan_type=plan, payment_option=payment)

    assert rate("compute", 1, "no_upfront") == Decimal("39.6288")  # 55.04 x 0.72
    assert rate("compute", 3, "all_upfront") == Decimal("26.9696")  # x 0.49
    assert rate("ec2_instance", 3, "partial_upfront") == Decimal("22.016")  # x 0.40


def test_quotas_applied_and_default(read: Read) -> None:
    found = {q.code: (q.vcpus, q.applied) for q in read("quotas").quotas}
    assert len(found) == 13
    assert found["L-417A185B"] == (192.0, True)  # P on demand: one p5.48xlarge
    assert found["L-C4BD4855"] == (0.0, False)  # P5 spot never had a value
    assert found["L-1216C47A"] == (5.0, False)


STORAGE = {
    # as AWS publishes them for us-east-1; in tiers, the first
    ("EBS", "gp2 storage"): "0.1",
    ("EBS", "gp3 storage"): "0.08",
    ("EBS", "gp3 provisioned IOPS above 3000"): "0.005",
    ("EBS", "gp3 provisioned throughput above 125 MB/s"): "0.04",  # listed as 40.96 per GiB/s: 0.04 x 1024
    ("EBS", "snapshot storage"): "0.05",
    ("S3", "Standard storage"): "0.023",
    ("S3", "Standard PUT, COPY, POST, LIST requests"): "0.005",  # a thousand; listed for one, 0.0000050000
    ("S3", "Standard GET and other requests"): "0.0004",
    ("NAT gateway", "hour"): "0.045",
    ("NAT gateway", "data processed"): "0.045",
    ("data transfer", "out to internet"): "0.09",
    ("data transfer", "across availability zones in one region (each direction)"): "0.01",
}


@pytest.mark.parametrize(("service", "item"), STORAGE)
def test_storage_and_traffic_cost_what_is_published(read: Read, service: str, item: str) -> None:
    reading = read("storage")
    found = [r for r in reading.rates if (r.service, r.item) == (service, item)]
    assert str(found[0].unit_price.normalize()) == str(Decimal(STORAGE[service, item]).normalize())
    assert {r.region for r in reading.rates} == {"us-east-1"}


def test_every_tier_of_traffic_is_there(read: Read) -> None:
    tiers = [(r.tier_from, r.tier_to, r.unit_price) for r in read("storage").rates if r.item == "out to internet"]
    assert [price for *_, price in tiers] == [Decimal("0.09"), Decimal("0.085"), Decimal("0.07"), Decimal("0.05")]
    assert [start for start, *_ in tiers][1:] == [Decimal(10240), Decimal(51200), Decimal(153600)]


def test_interruption_bands_count_from_0(read: Read) -> None:
    reading = read("spot_advisor")
    bands = {
        (i.region, i.instance_type): (i.monthly_low_fraction, i.monthly_high_fraction) for i in reading.interruptions
    }
    assert bands["us-east-1", "g4dn.xlarge"] == (0.0, 0.05)  # r = 0
    assert bands["us-east-1", "g5.xlarge"] == (0.10, 0.15)  # r = 2
    assert bands["us-east-1", "p5.48xlarge"] == (0.20, 1.0)  # r = 4
    # seven types in us-east-1, four in us-west-2
    assert len(bands) == 7 + 4
    assert reading.excluded == {"system Windows": 7 + 4}


def test_block_that_is_shorter_than_asked_costs_by_its_minutes(read: Read) -> None:
    reading = read("capacity_blocks")
    # eight types with blocks, a day and a week, two in the first zone and one in the second
    assert len(reading.capacity_blocks) == 8 * 2 * 3
    days = [b for b in reading.capacity_blocks if b.instance_type == "p5.48xlarge" and b.minutes < 2000]
    assert sorted((b.minutes, str(b.upfront), b.availability_zone_id) for b in days) == [
        (1393, "702.81", "use1-az4"),  # asked for 24 hours, and 47 minutes less
        (1440, "726.53", "use1-az4"),
        (1440, "726.53", "use1-az6"),
    ]
    short = next(b for b in days if b.minutes == 1393)
    assert short.unit_price == Decimal("702.81") * 60 / 1393  # not / 24: 29.28 would be a bargain that is none
    assert price_of(reading, "p5.48xlarge", purchase_option=PurchaseOption.CAPACITY_BLOCK, availability_zone_id="use1-az4") == pytest.approx(Decimal("30.2718"), abs=Decimal("0.0001"))  # fmt: skip


def test_region_without_blocks_of_a_type_is_no_failure(read: Read) -> None:
    reading = read("capacity_blocks", region="us-west-2")
    assert {b.instance_type for b in reading.capacity_blocks} == {"p4d.24xlarge", "p5.48xlarge"}


def test_placement_scores_are_of_groups_and_zones(read: Read) -> None:
    found = {(s.instance_types.split(",")[0], s.availability_zone_id): s.score for s in read("placement_scores").placement_scores}  # fmt: skip
    assert {k: v for k, v in found.items() if k[0] == "g4dn.xlarge"} == {
        ("g4dn.xlarge", "use1-az1"): 4, ("g4dn.xlarge", "use1-az2"): 3, ("g4dn.xlarge", "use1-az4"): 2, ("g4dn.xlarge", "use1-az6"): 1,
    }  # fmt: skip
    assert (found["p4d.24xlarge", "use1-az4"], found["p4d.24xlarge", "use1-az6"]) == (4, 3)
    assert len(found) == 4 + 2 + 2  # the world sells no 12xlarge and 48xlarge of g


def test_used_up_questions_of_placement_scores_are_reported(fake: FakeAws, read: Read) -> None:
    fake.placement_configurations = 3
    try:
        with pytest.raises(
            SourceFailed, match=r"no further different question within 24 hours \(MaxConfigLimitExceeded\)"
        ):
            read("placement_scores")
    finally:
        fake.placement_configurations = 10


# faults: what a source may survive, and what it must report

SURVIVED = {
    "throttled twice": {"kind": "throttle", "times": 2},
    "HTTP 500 once": {"kind": "http500", "times": 1},
    "HTTP 503 once": {"kind": "http503", "times": 1},
    "slow": {"kind": "slow", "seconds": 0.05, "times": 3},
    "in pieces": {"kind": "drip", "seconds": 0.005, "times": 2},
    "truncated once": {"kind": "truncated", "times": 1},
    "truncated on a later page": {"kind": "truncated", "page": 2, "times": 1},
    "cut once": {"kind": "cut", "times": 1},
    "cut on a later page": {"kind": "cut", "page": 2, "times": 1},
    "a web page once": {"kind": "html", "times": 1},
    "an empty page first": {"kind": "empty_page", "times": 1},
    "a token that expired once": {"kind": "expired_next_token", "page": 2, "times": 1},
    "pages that overlap": {"kind": "duplicate_page"},
}
REPORTED: dict[str, tuple[dict[str, Any], type[SourceFailed], str]] = {
    "throttled for ever": ({"kind": "throttle"}, Unreachable, "throttled"),
    "HTTP 500 for ever": ({"kind": "http500"}, Unreachable, "500"),
    "HTTP 503 for ever": ({"kind": "http503"}, Unreachable, "503"),
    "truncated for ever": ({"kind": "truncated"}, Unreachable, ""),
    "cut for ever": ({"kind": "cut"}, Unreachable, ""),
    "a web page for ever": ({"kind": "html"}, Unreachable, ""),
    "expired token": ({"kind": "expired_token"}, CredentialsMissing, "expired"),
    "access denied": ({"kind": "access_denied"}, AccessDenied, "access denied to "),
    "unknown key": ({"kind": "unrecognised_client"}, CredentialsMissing, "does not know this key"),
    "clock": ({"kind": "clock_skew"}, CredentialsMissing, "clock"),
}
OF_SIGNED_CALLS = frozenset({"expired token", "unknown key", "clock", "access denied"})
OF_PAGES = frozenset({"truncated on a later page", "cut on a later page", "an empty page first", "a token that expired once", "pages that overlap"})  # fmt: skip
PLAIN_FILES = frozenset(name for name, source in SOURCES.items() if not source.needs_credentials)
"""Nobody signs in to read these, and they have no pages."""


@pytest.mark.parametrize(
    ("name", "fault"),
    [(name, fault) for name in SOURCES for fault in SURVIVED if name not in PLAIN_FILES or fault not in OF_PAGES],
)
def test_source_survives(fake: FakeAws, read: Read, name: str, fault: str) -> None:
    clean = rows_of(read(name))
    paged = max(c.page for c in fake.calls) > 1
    struck = fake.fail(**SURVIVED[fault])
    assert rows_of(read(name)) == clean
    assert struck.struck or not paged, "the fault never struck"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (name, fault)
        for name in SOURCES
        for fault in REPORTED
        if name not in PLAIN_FILES or fault not in OF_SIGNED_CALLS
    ],
)
def test_source_reports_in_one_line(fake: FakeAws, read: Read, name: str, fault: str) -> None:
    how, kind, words = REPORTED[fault]
    fake.fail(**how)
    begun = time.monotonic()
    with pytest.raises(SourceFailed) as caught:
        read(name)
    said = str(caught.value)
    if name not in PLAIN_FILES:
        assert isinstance(caught.value, kind)
        assert words in said
    assert "\n" not in said
    assert "Traceback" not in said
    assert 20 < len(said) < 600
    assert time.monotonic() - begun < 20
    if isinstance(caught.value, AccessDenied):
        assert caught.value.permission in SOURCES[name].permissions
        assert caught.value.permission in said


@pytest.mark.parametrize("name", sorted(PLAIN_FILES))
def test_plain_file_that_is_not_there_is_reported(fake: FakeAws, read: Read, name: str) -> None:
    fake.fail("missing", action="/*")
    with pytest.raises(SourceFailed, match="403"):
        read(name)


@pytest.mark.parametrize("name", ["price_list_files", "savings_plan_files"])
def test_public_files_say_what_the_api_says(read: Read, name: str) -> None:
    def prices(reading: SourceReading) -> dict[tuple[Any, ...], Decimal]:
        return {
            (
                q.instance_type,
                q.purchase_option,
                q.plan_type,
                q.offering_class,
                q.payment_option,
            ): q.effective_unit_price
            for q in reading.quotes
            if q.plan_type != "ec2_instance"  # the file is of Compute plans here
        }

    assert prices(read(name)) == prices(read({"price_list_files": "price_list", "savings_plan_files": "savings_plans"}[name]))  # fmt: skip


def test_public_files_name_the_rate_codes_of_the_api(read: Read) -> None:
    def codes(name: str) -> list[tuple[str | None, str | None]]:
        return sorted((q.sku, q.rate_code) for q in read(name).quotes)

    of_files = codes("price_list_files")
    assert of_files == codes("price_list")
    assert all(code is not None and code.count(".") == 2 for _, code in of_files)


def test_public_file_counts_the_rows_of_other_systems(read: Read) -> None:
    excluded = read("price_list_files").excluded
    # 16 virtual machines and metal: Windows 17, and with its own licence 16; Ubuntu Pro 16 and the fee of 7 blocks
    assert excluded["operatingSystem Windows"] == 17 + 16
    assert excluded["operatingSystem Ubuntu Pro"] == 16 + 7
    assert excluded["operatingSystem RHEL"] == excluded["operatingSystem SUSE"] == 16
    assert excluded["not a type we plan with"] == 6 + 5 + 7  # m5.large: Linux, other systems; EBS and NAT


def test_cut_download_goes_on_where_it_ended(fake: FakeAws, read: Read) -> None:
    fake.fail("cut", action="/offers/*/us-east-1/*", times=1)
    fake.forget()
    read("price_list_files")
    assert [c.status for c in fake.calls_of("/offers/*/us-east-1/*")] == [200, 206]


PAGED = [name for name in SOURCES if name not in PLAIN_FILES and name != "quotas"]


@pytest.mark.parametrize("name", PAGED)
def test_token_that_repeats_ends(fake: FakeAws, read: Read, name: str) -> None:
    fake.fail("repeated_token")
    with pytest.raises(Unreachable, match=r"no whole answer in 4 attempts"):
        read(name)
    assert len(fake.calls) < 40


@pytest.mark.parametrize("name", PAGED)
def test_row_without_sense_is_never_lost_in_silence(fake: FakeAws, read: Read, name: str) -> None:
    clean = read(name)
    # a zone without sense only costs its name: no row is lost
    fault = fake.fail("malformed_item", times=1, action={"offerings": "DescribeInstanceTypeOfferings"}.get(name, "*"))
    reading, said = None, ""
    try:
        reading = read(name)
    except SourceFailed as e:
        said = str(e)
    assert "\n" not in said
    if reading is not None and rows_of(reading) != rows_of(clean):
        assert reading.excluded != clean.excluded or len(reading.notices) > len(clean.notices)
        kept = rows_of(clean)
        assert all(set(rows) <= set(kept[table]) for table, rows in rows_of(reading).items())  # nothing was made of it
    assert fault.struck == 1


def test_overlapping_pages_are_counted(fake: FakeAws, read: Read) -> None:
    fake.fail("duplicate_page")
    reading = read("price_list")
    assert (
        reading.excluded["repeated across pages"] + reading.excluded["not a type we plan with"] - 6 == 4
    )  # five pages


def test_text_that_is_no_json_once_is_read_again(fake: FakeAws, read: Read) -> None:
    clean = rows_of(read("price_list"))
    fake.fail("malformed_item", times=1)
    reading = read("price_list")
    assert rows_of(reading) == clean
    assert "cannot be read" not in reading.excluded


def test_text_that_is_no_json_loses_no_other_and_is_reported(fake: FakeAws, read: Read) -> None:
    fake.fail("malformed_item", action="GetProducts", page=1)
    reading = read("price_list")
    assert reading.excluded["cannot be read"] == 2  # the first of the region, the first of its Local Zones
    said = [n.detail for n in reading.notices if n.kind == NoticeKind.UNRESOLVED and "JSON" in n.detail]
    assert len(said) == 2
    assert "\n" not in "".join(said)
    assert len({q.instance_type for q in reading.quotes}) >= 16


def test_products_without_terms_are_no_prices(fake: FakeAws, read: Read) -> None:
    fake.fail("no_terms")
    with pytest.raises(SourceFailed, match="no price of a type we plan with"):
        read("price_list")


def test_list_published_while_it_is_read_is_read_again(fake: FakeAws, read: Read) -> None:
    ready = fake.fail("slow", seconds=0.2, action="GetProducts", page=3, times=1)
    done: list[bool] = []

    def answered() -> None:
        if len(fake.calls_of("GetProducts")) == 2 and not done:
            done.append(True)
            fake.world.set_price("p5.48xlarge", "31.464")

    reading = read("price_list", on_answer=answered)
    assert ready.struck == 1
    assert price_of(reading, "p5.48xlarge") == Decimal("31.464")
    assert reading.published == "2026-07-20T12:00:00Z"


def test_price_that_changed_is_read_the_next_time(fake: FakeAws, read: Read) -> None:
    assert price_of(read("price_list"), "p5.48xlarge") == Decimal("55.04")
    fake.world.set_price("p5.48xlarge", "31.464")
    assert price_of(read("price_list"), "p5.48xlarge") == Decimal("31.464")


def test_family_that_vanished_is_not_in_the_reading(fake: FakeAws, read: Read) -> None:
    fake.world.remove("p5")
    reading = read("price_list")
    assert not [q for q in reading.quotes if q.instance_type.startswith("p5.")]
    assert [q for q in reading.quotes if q.instance_type == "p5en.48xlarge"]


def test_get_products_within_the_quota_of_aws(fake: FakeAws, door: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    # ten at once and five a second is what AWS allows. Asked at just that pace, jitter may cost a refusal or two and no more
    fake.bucket, fake.page_size = (10, 5.0), 10
    monkeypatch.setattr("pricing.aws.session.PRICING_BUCKET", TokenBucket(5.0, 10))
    own = Aws(Access(endpoint_url=fake.url))
    ask(own, "price_list")
    close(own)
    statuses = [c.status for c in fake.calls_of("GetProducts")]
    assert statuses.count(200) == 12 + 1
    assert statuses.count(400) <= 2


ROLE = "arn:aws:iam::123456789012:role/prices"


def test_role_is_assumed_and_its_keys_are_used(fake: FakeAws, door: Aws) -> None:
    aws = Aws(Access(endpoint_url=fake.url, role_arn=ROLE))
    ask(aws, "quotas")
    close(aws)
    assert [c.given["RoleArn"] for c in fake.calls_of("AssumeRole")] == [ROLE]


def test_role_that_may_not_be_assumed_names_the_permission(fake: FakeAws, door: Aws) -> None:
    fake.fail("access_denied", action="AssumeRole")
    aws = Aws(Access(endpoint_url=fake.url, role_arn=ROLE))
    with pytest.raises(AccessDenied, match=r"sts:AssumeRole"):
        ask(aws, "quotas")
    close(aws)
