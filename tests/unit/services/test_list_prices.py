"""`list_prices` and `list_instances` over the shipped tables. Expected prices: AWS's public on-demand prices, us-east-1, July 2026."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from planner.recommend.errors import BadRequest
from planner.services.documents import to_json_bytes
from planner.services.list_instances import list_instances
from planner.services.list_prices import list_prices
from pricing.catalog import Catalog
from pricing.errors import UnknownName
from pricing.publish import publish_shipped
from pricing.snapshot import open_snapshot

CONTRACT = [
    "provider", "instance_type", "region", "availability_zone_id", "availability_zone", "purchase_option", "plan_type", "offering_class", "term_years",
    "payment_option", "currency", "unit", "list_unit_price", "contracted_unit_price", "upfront", "effective_unit_price", "source", "sku", "rate_code", "effective_from",
    "retrieved_at",
]  # fmt: skip


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with open_snapshot(publish_shipped(tmp_path_factory.mktemp("shipped") / "snapshot-0.sqlite")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("instance_type", "usd_per_hour"),
    [
        ("p4d.24xlarge", "21.957642"),
        ("p5.48xlarge", "55.04"),
        ("g5.xlarge", "1.006"),
        ("g5.2xlarge", "1.212"),
        ("g4dn.xlarge", "0.526"),
        ("g6e.xlarge", "1.861"),
    ],
)
def test_one_on_demand_price(catalog: Catalog, instance_type: str, usd_per_hour: str) -> None:
    (price,) = list_prices(
        catalog, provider="aws", instance_type=instance_type, region="us-east-1", purchase_option="on_demand"
    )["prices"]
    assert list(price) == CONTRACT
    assert Decimal(price["effective_unit_price"]) == Decimal(usd_per_hour)
    assert isinstance(price["effective_unit_price"], str)
    assert (price["currency"], price["unit"], price["purchase_option"]) == ("USD", "Hrs", "on_demand")
    assert price["availability_zone_id"] is None  # does not apply to on-demand
    assert price["source"]
    assert price["retrieved_at"].endswith("Z")


def test_the_document_says_which_snapshot(catalog: Catalog) -> None:
    document = list_prices(catalog, limit=1)
    assert list(document) == ["snapshot_id", "as_of", "prices"]
    assert document["snapshot_id"] == catalog.meta.snapshot_id
    aws = list_prices(catalog, provider="aws", region="us-east-1", purchase_option="on_demand")
    assert aws["as_of"] == "2026-07-20T00:00:00Z", "the day of these prices, not of another cloud's newer ones"
    assert json.loads(to_json_bytes(document)) == document  # plain JSON values throughout


def test_filters_and_limit(catalog: Catalog) -> None:
    spot = list_prices(
        catalog,
        instance_type=["p5.48xlarge", "P4D.24xlarge"],
        region=["us-east-1", "us-west-2"],
        purchase_option=["spot"],
    )["prices"]
    assert {p["instance_type"] for p in spot} == {"p5.48xlarge", "p4d.24xlarge"}
    assert {p["purchase_option"] for p in spot} == {"spot"}
    assert {p["region"] for p in spot} <= {"us-east-1", "us-west-2"}
    assert all(p["availability_zone_id"] for p in spot)  # a spot price is that of a zone
    assert (
        list_prices(catalog, region="us-east-1", limit=3)["prices"]
        == list_prices(catalog, region="US-EAST-1")["prices"][:3]
    )
    everything = list_prices(catalog)["prices"]
    assert list_prices(catalog, region="all")["prices"] == everything
    assert len(everything) == catalog.meta.quote_count


def test_a_type_without_a_price_has_no_rows_rather_than_a_zero(catalog: Catalog) -> None:
    assert list_prices(catalog, instance_type="p5e.48xlarge", purchase_option="on_demand")["prices"] == []
    assert all(Decimal(p["effective_unit_price"]) > 0 for p in list_prices(catalog)["prices"])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"region": "us-esat-1"}, r"unknown region 'us-esat-1'; did you mean us-east-1"),
        ({"instance_type": "g5.xlrage"}, r"unknown instance type 'g5\.xlrage'; did you mean g5\.xlarge"),
        ({"instance_type": "g5.xlarge", "provider": "gcp"}, "unknown instance type 'g5.xlarge'"),
        ({"provider": "asw"}, "unknown provider 'asw'; did you mean aws"),
        ({"purchase_option": "ondemand"}, "unknown purchase option 'ondemand'; did you mean on_demand"),
    ],
)
def test_a_name_that_nothing_has_is_an_error_not_an_empty_list(
    catalog: Catalog, given: dict[str, Any], why: str
) -> None:
    with pytest.raises(UnknownName, match=why):
        list_prices(catalog, **given)


def prices(catalog: Catalog, **filters: Any) -> list[dict[str, Any]]:
    found = list_prices(catalog, **filters)["prices"]
    assert isinstance(found, list)
    return found


def test_filters_by_chip_and_family(catalog: Catalog) -> None:
    l4 = {p["instance_type"].split(".")[0] for p in prices(catalog, accelerator="nvidia l4", provider="aws")}
    assert l4 == {"g6", "g6f", "gr6", "gr6f"}, "the families of AWS with an L4, whole or in part"
    p5 = {p["instance_type"] for p in prices(catalog, family="P5", region="us-east-1")}
    assert p5 == {"p5.4xlarge", "p5.48xlarge"}, "p5e and p5en are families of their own"
    both = prices(catalog, accelerator="H100", family=["p5", "g6"], purchase_option="on_demand", region="us-east-1")
    assert {p["instance_type"] for p in both} == {"p5.4xlarge", "p5.48xlarge"}, "a chip and a family, not one of them"


def test_filters_by_the_terms_of_a_commitment(catalog: Catalog) -> None:
    reserved = prices(catalog, term="1yr", payment_option="All Upfront", offering_class="STANDARD")
    assert reserved
    assert {(p["term_years"], p["payment_option"], p["offering_class"]) for p in reserved} == {(1, "all_upfront", "standard")}  # fmt: skip
    assert {p["purchase_option"] for p in prices(catalog, term=["3"])} == {"savings_plan_3yr", "reserved_3yr"}
    assert {p["plan_type"] for p in prices(catalog, plan_type="ec2-instance")} == {"ec2_instance"}
    assert prices(catalog, offering_class="convertible") == [], "such reservations exist, the tables have none"


def test_filters_by_zone_currency_and_price(catalog: Catalog) -> None:
    zone = prices(catalog, zone="USE1-AZ6", instance_type="p5.48xlarge")
    assert [(p["availability_zone_id"], p["effective_unit_price"]) for p in zone] == [("use1-az6", "16.9508")]
    assert len(prices(catalog, currency="usd")) == catalog.meta.quote_count
    cheap = prices(catalog, max_price=Decimal("0.526"), purchase_option="on_demand", region="us-east-1", provider="aws")
    assert "g4dn.xlarge" in {p["instance_type"] for p in cheap}, "up to and with 0.526"
    assert "g5.xlarge" not in {p["instance_type"] for p in cheap}
    assert {p["unit"] for p in prices(catalog, max_price=Decimal(1000))} == {"Hrs"}, "other units do not compare"


@pytest.mark.parametrize("sort", ["price", "instance", "region", "purchase", "newest"])
def test_sorted_the_same_prices_in_another_order(catalog: Catalog, sort: str) -> None:
    found = prices(catalog, sort=sort, region=["us-east-1", "us-west-2"])
    plainly = prices(catalog, region=["us-east-1", "us-west-2"])
    assert sorted(map(str, found)) == sorted(map(str, plainly))
    key = {"instance": "instance_type", "region": "region"}.get(sort)
    if key:
        assert [p[key] for p in found] == sorted(p[key] for p in found)
    if sort == "price":
        hourly = [Decimal(p["effective_unit_price"]) for p in found if p["unit"] == "Hrs"]
        assert hourly == sorted(hourly)
        assert [p["unit"] for p in found] == sorted((p["unit"] for p in found), key=lambda unit: unit != "Hrs")
    if sort == "newest":
        assert [p["retrieved_at"] for p in found] == sorted((p["retrieved_at"] for p in found), reverse=True)
    assert prices(catalog, sort=sort, region=["us-east-1", "us-west-2"], limit=5) == found[:5]


@pytest.mark.parametrize(
    ("given", "error", "why"),
    [
        ({"accelerator": "H100 SMX"}, UnknownName, "unknown accelerator 'H100 SMX'; did you mean"),
        ({"family": "p55"}, UnknownName, "unknown family 'p55'; did you mean p5"),
        ({"term": "2"}, UnknownName, "unknown term '2'; did you mean 1 or 3"),
        ({"payment_option": "No-Upfrnt"}, UnknownName, "unknown payment option 'No-Upfrnt'; did you mean no_upfront"),
        ({"plan_type": "computer"}, UnknownName, "unknown plan type 'computer'; did you mean compute"),
        ({"offering_class": "std"}, UnknownName, "unknown offering class 'std'; did you mean convertible or standard"),
        ({"zone": "use1-az99"}, UnknownName, "unknown zone 'use1-az99'; did you mean use1-az"),
        ({"currency": "EUR"}, UnknownName, "unknown currency 'EUR'; did you mean USD"),
        ({"max_price": Decimal(0)}, BadRequest, "max_price: '0' must be more than 0"),
        ({"sort": "prise"}, BadRequest, "sort: 'prise' is not one of price, instance, region, purchase, newest; did you mean price"),
    ],
)  # fmt: skip
def test_filters_that_cannot_be(catalog: Catalog, given: dict[str, Any], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        list_prices(catalog, **given)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(catalog: Catalog, limit: int) -> None:
    with pytest.raises(BadRequest, match="limit"):
        list_prices(catalog, limit=limit)
    with pytest.raises(BadRequest, match="limit"):
        list_instances(catalog, limit=limit)
