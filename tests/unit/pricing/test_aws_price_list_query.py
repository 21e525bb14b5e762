"""The price list asked region by region, against the loopback AWS: what is a price, and what every look-alike is counted as."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from aws_doors import NOW, asking, door_to, loopback
from fakes.aws_server import FakeAws
from fakes.aws_world import PUBLIC

from pricing.aws.instance_types import NOT_WANTED
from pricing.aws.price_list_query import part_of, price_list_source
from pricing.aws.session import Aws
from pricing.errors import AccessDenied, ReplyError, SourceFailed, Unreachable
from pricing.market import NoticeKind
from pricing.model import PurchaseOption
from pricing.source import ANY_TYPE, SourceReading

PLAN = ("m5.large",)  # a CPU type that no table of ours has


@contextmanager
def both(monkeypatch: pytest.MonkeyPatch, **how: Any) -> Iterator[tuple[FakeAws, Aws]]:
    with loopback(**{"page_size": 30} | how) as fake, door_to(fake, monkeypatch) as aws:
        yield fake, aws


def read(aws: Aws, region: str = "us-east-1", **how: Any) -> SourceReading:
    return price_list_source(aws).read(asking(region, **how))


def prices(reading: SourceReading) -> dict[str, Decimal]:
    return {
        q.instance_type: q.effective_unit_price for q in reading.quotes if q.purchase_option is PurchaseOption.ON_DEMAND
    }


def test_public_prices_are_found_among_all_their_look_alikes(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        reading = read(aws)
        assert len(fake.calls) > 3
    assert prices(reading) == {name: Decimal(price) for name, price in PUBLIC.items() if name not in PLAN}
    assert reading.published == fake.world.edition.published
    assert {q.source for q in reading.quotes} == {f"AWS price list, published {reading.published}"}
    scope = reading.scope
    assert (scope.provider, scope.region, scope.tables) == ("aws", "us-east-1", {"quotes"})
    assert scope.purchase_options == {PurchaseOption.ON_DEMAND, PurchaseOption.RESERVED_1YR, PurchaseOption.RESERVED_3YR}  # fmt: skip


def test_every_trap_row_is_left_out_by_its_name_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (_, aws):
        reading = read(aws)
    # 17 planned types, of which one is bare metal and has no look-alikes; 6 of the 16 are sold in blocks too, and trn2 in blocks alone
    blocks = [name for name in PUBLIC if name.startswith(("p4", "p5", "p6"))]
    usual = len(PUBLIC) - len(PLAN) - 1
    assert reading.excluded == {
        "preInstalledSw SQL Web": usual,  # SQL Server on Linux, whose operatingSystem is Linux
        "tenancy Dedicated": usual,
        "tenancy Host": usual,  # at 0: the host is paid
        "capacitystatus AllocatedCapacityReservation": usual,  # at 0
        "capacitystatus UnusedCapacityReservation": usual,  # at the full price, for nothing running
        "marketoption CapacityBlock": len(blocks) + 1,  # at 0 for Linux: the fee of the system alone
        "operation RunInstances:CB": 1,  # a block's row of before the attribute marketoption
        "productFamily Dedicated Host": 2,
        "productFamily missing": 1,
        "starts in the future": 1,  # g6e.xlarge
        "price of zero": 1,  # the twin of g5.2xlarge
        "superseded by a later price": 1,  # last year's g6.xlarge
        "no on-demand term": 1,  # p4de.24xlarge
        "term without a price": 1,  # p4d.24xlarge
        "locationType AWS Wavelength Zone": 1,
        "reservation of an old or unknown sort": 16,  # Heavy Utilization, of every planned type but p5en
        NOT_WANTED: 6,  # m5.large, plain and its look-alikes
    }
    assert [(n.kind, n.subject) for n in reading.notices] == [(NoticeKind.UNRESOLVED, "trn2.48xlarge us-east-1")]
    assert "no price is left (left out: 1 x marketoption CapacityBlock)" in reading.notices[0].detail
    assert reading.untold == {"trn2.48xlarge"}


def test_a_local_zone_is_counted_and_no_price_of_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (_, aws):
        reading = read(aws, "us-west-2")
    assert prices(reading)["g4dn.xlarge"] == Decimal("0.526")  # and not the 0.631 of Los Angeles
    assert reading.excluded["locationType AWS Local Zone"] == 1
    assert {q.region for q in reading.quotes} == {"us-west-2"}


def test_a_reservation_is_its_hourly_price_and_its_fee_over_the_term(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (_, aws):
        reading = read(aws)
    found = {(q.term_years, q.offering_class, q.payment_option): q for q in reading.quotes if q.instance_type == "p5.48xlarge" and q.term_years}  # fmt: skip
    assert len(found) == 12
    # 55.04 x 0.58 x 8,760 h = 279,647.23, which the list writes as a whole fee of 279,647 and an hourly price of 0
    up_front = found[1, "standard", "all_upfront"]
    assert (up_front.list_unit_price, up_front.upfront) == (0, Decimal(279647))
    assert up_front.effective_unit_price == pytest.approx(Decimal("31.92317"), abs=Decimal("0.00001"))
    assert found[3, "convertible", "no_upfront"].effective_unit_price == Decimal("27.52")  # 55.04 x 0.50
    assert not [q for q in reading.quotes if q.instance_type == "p5en.48xlarge" and q.term_years]  # it has none


def test_what_we_plan_with_is_what_the_catalog_knows_and_every_accelerated_family(monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    with both(monkeypatch) as (_, aws):
        nothing_known = read(aws, instance_types=frozenset())
        with_cpu = read(aws, instance_types=frozenset(PLAN))
    assert "vt1.3xlarge" in prices(nothing_known)
    assert "m5.large" not in prices(nothing_known)
    assert prices(with_cpu)["m5.large"] == Decimal("0.096")
    assert NOT_WANTED not in with_cpu.excluded


def test_chinas_prices_are_asked_of_its_own_list_and_stay_in_yuan(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        reading = read(aws, "cn-north-1")
        assert {call.region for call in fake.calls} == {"cn-northwest-1"}
    assert prices(reading) == {"g4dn.xlarge": Decimal("4.123")}
    assert {q.currency for q in reading.quotes} == {"CNY"}


def test_prices_of_europe_are_asked_in_us_east_1(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        assert prices(read(aws, "eu-central-1"))["g5.xlarge"] == Decimal("1.258")
        assert {call.region for call in fake.calls} == {"us-east-1"}
        filters = [{f["Field"]: f["Value"] for f in call.given["Filters"]} for call in fake.calls]
        assert all(call.given["MaxResults"] == 100 for call in fake.calls)
    assert all(f["regionCode"] in ("eu-central-1", "eu-central-1-") for f in filters)


def test_duplicates_across_pages_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        whole = read(aws)
        fake.fail("duplicate_page")
        reading = read(aws)
    assert reading.quotes == whole.quotes
    more = Counter(reading.excluded) - Counter(whole.excluded)
    assert set(more) <= {"repeated across pages", NOT_WANTED}
    assert more["repeated across pages"] > 0


def test_an_empty_list_of_a_region_is_a_failure_and_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (_, aws), pytest.raises(SourceFailed, match=r"no product in eu-centra1-1: a misspelt filter gives an empty list too.*check the region's name"):  # fmt: skip
        read(aws, "eu-centra1-1")


def test_a_list_without_terms_has_no_price_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        fake.fail("no_terms")
        with pytest.raises(SourceFailed, match=r"no price of a type we plan with in us-east-1 \(left out: .*\d+ x no on-demand term"):  # fmt: skip
            read(aws)


def test_a_text_that_is_broken_once_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        whole = read(aws)
        fake.fail("malformed_item", times=1)
        assert read(aws) == whole


def test_a_text_that_stays_broken_is_counted_and_named_and_loses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        whole = read(aws)
        fault = fake.fail("malformed_item", action="GetProducts", page=2)
        reading = read(aws)
    assert fault.struck == 2
    assert reading.excluded["cannot be read"] == 1
    lost = set(whole.quotes) - set(reading.quotes)
    assert len({q.instance_type for q in lost}) <= 1
    (broken,) = (n for n in reading.notices if "is not JSON" in n.detail)
    named = broken.subject.removeprefix("a product of ") if broken.subject.startswith("a product of ") else ANY_TYPE
    assert reading.untold - {"trn2.48xlarge"} == {named}
    assert {q.instance_type for q in lost} <= {named} or named == ANY_TYPE


def republished(fake: FakeAws, monkeypatch: pytest.MonkeyPatch, *, at_calls: set[int]) -> None:
    """Let a new list come out just before the calls of these numbers."""
    answer, count = FakeAws.answer, [0]

    def answered(self: FakeAws, *request: Any) -> Any:
        count[0] += 1
        if count[0] in at_calls:
            self.world.set_price("p5.48xlarge", "31.464")
        return answer(self, *request)

    monkeypatch.setattr(FakeAws, "answer", answered)


def test_a_list_that_was_published_anew_meanwhile_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        republished(fake, monkeypatch, at_calls={3})
        reading = read(aws)
    assert prices(reading)["p5.48xlarge"] == Decimal("31.464")
    assert reading.published == fake.world.edition.published
    assert [call.page for call in fake.calls].count(1) == 3  # the list twice, and the Local Zones


def test_a_list_that_is_published_all_the_time_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        republished(fake, monkeypatch, at_calls=set(range(2, 100)))
        with pytest.raises(Unreachable, match=r"us-east-1: published anew in each of 3 readings \(2026.*try again later"):  # fmt: skip
            read(aws)


def test_access_denied_names_the_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        fake.fail("access_denied", action="GetProducts")
        with pytest.raises(AccessDenied, match="pricing:GetProducts") as caught:
            read(aws)
    assert caught.value.permission == "pricing:GetProducts" == price_list_source(aws).permissions[0]


def test_prices_do_not_fail_for_the_sake_of_counting_local_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch, page_size=1000) as (fake, aws):
        whole = read(aws)
        calls = len(fake.calls) - 1
        fake.fail("error", code="InvalidParameterException", status=400, after=calls)
        reading = read(aws)
    assert reading.quotes == whole.quotes
    assert reading.notices[0].detail.startswith("Local Zones were not counted: InvalidParameterException")


def test_a_page_keeps_the_texts_of_wanted_types_and_counts_the_others() -> None:
    def text(name: str, published: str) -> str:
        return json.dumps({"product": {"sku": name, "attributes": {"instanceType": name}}, "publicationDate": published})  # fmt: skip

    page = {"PriceList": [text("g5.xlarge", "a"), text("m5.large", "b"), text("c7i.large", "a"), '{"product":']}
    part = part_of(page, frozenset({"c7i.large"}))
    assert (len(part.documents), part.others, part.broken, part.published) == (3, 1, 1, {"a", "b"})
    with pytest.raises(ReplyError, match="has no PriceList"):
        part_of({"ResponseMetadata": {}}, frozenset())


def test_the_moment_of_asking_decides_what_is_in_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    later = NOW.replace(year=2027, month=3)
    with both(monkeypatch) as (_, aws):
        reading = read(aws, at=later)
    assert prices(reading)["g6e.xlarge"] == Decimal("1.5")  # 1.861 until the end of January 2027
    assert {q.retrieved_at for q in reading.quotes} == {later}
