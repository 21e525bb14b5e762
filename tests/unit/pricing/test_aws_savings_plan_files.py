"""A Savings Plan file in the shape that AWS documents, written by hand: lists instead of maps, plans apart from their rates."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fakes.file_server import FileServer, serving

from pricing.aws.savings_plan_files import (
    PlanFileReading,
    parse_savings_plan_file,
    read_savings_plan_files,
    savings_plan_files_source,
)
from pricing.aws.savings_plans import parse_offering_rates, plan_quotes
from pricing.aws.session import Access, Aws
from pricing.errors import ReplyError, SourceFailed
from pricing.model import PurchaseOption
from pricing.source import Ask

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PUBLISHED = "2026-11-20T19:42:11Z"


def plan(sku: str, family: str = "ComputeSavingsPlans", payment: str = "No Upfront") -> dict[str, Any]:
    attributes = {"purchaseOption": payment, "granularity": "hourly", "instanceType": "", "purchaseTerm": "1yr", "location": "Any"}  # fmt: skip
    return {"sku": sku, "productFamily": family, "serviceCode": "ComputeSavingsPlans", "usageType": "ComputeSP:1yr", "operation": "", "attributes": attributes}  # fmt: skip


def rate(usd: str = "3.95", *, kind: str = "p5.4xlarge", usage: str = "BoxUsage", **over: Any) -> dict[str, Any]:
    given = {
        "discountedSku": "SKU1", "discountedUsageType": f"{usage}:{kind}", "discountedOperation": "RunInstances", "discountedServiceCode": "AmazonEC2",
        "rateCode": "A.SKU1", "unit": "Hrs", "discountedRate": {"price": usd, "currency": "USD"}, "discountedRegionCode": "us-east-1",
        "discountedInstanceType": kind,
    }  # fmt: skip
    return {k: v for k, v in (given | over).items() if v is not None}


def term(sku: str, *rates: dict[str, Any], years: int = 1, **over: Any) -> dict[str, Any]:
    return {"sku": sku, "description": "…", "effectiveDate": "2026-10-05T18:51:13Z", "leaseContractLength": {"duration": years, "unit": "year"}, "rates": list(rates)} | over  # fmt: skip


def whole(*plans: dict[str, Any], terms: list[dict[str, Any]], terms_first: bool = False) -> bytes:
    head: dict[str, Any] = {"version": "20261120194211", "publicationDate": PUBLISHED, "regionCode": "us-east-1"}
    products, offered = {"products": list(plans)}, {"terms": {"savingsPlan": terms}}
    return json.dumps(head | (offered | products if terms_first else products | offered), indent=1).encode()


def parsed(data: bytes, *, region: str = "us-east-1", types: frozenset[str] = frozenset()) -> PlanFileReading:
    return parse_savings_plan_file(io.BytesIO(data), region=region, instance_types=types, at=NOW, retrieved_at=NOW)


SIX = whole(
    plan("A"), plan("B", payment="Partial Upfront"), plan("C", payment="All Upfront"), plan("D", "EC2InstanceSavingsPlans"),
    terms=[term("A", rate("3.95")), term("B", rate("3.85")), term("C", rate("3.80")), term("D", rate("2.97"), years=3)],
)  # fmt: skip


def test_each_plan_and_payment_is_a_quote_whose_rate_is_the_whole_price() -> None:
    found = parsed(SIX)
    assert {(q.plan_type, q.term_years, q.payment_option): str(q.effective_unit_price) for q in found.quotes} == {
        ("compute", 1, "no_upfront"): "3.95",
        ("compute", 1, "partial_upfront"): "3.85",
        ("compute", 1, "all_upfront"): "3.8",
        ("ec2_instance", 3, "no_upfront"): "2.97",
    }
    assert all(q.list_unit_price == q.effective_unit_price and q.upfront is None for q in found.quotes)
    assert {q.purchase_option for q in found.quotes} == {PurchaseOption.SAVINGS_PLAN_1YR, PurchaseOption.SAVINGS_PLAN_3YR}  # fmt: skip
    assert (found.unresolved, found.unreadable, found.excluded) == ((), (), {})


def test_a_quote_says_publication_day_and_rate() -> None:
    quote = next(q for q in parsed(SIX).quotes if q.plan_type == "ec2_instance")
    assert quote.source == f"AWS Savings Plan price list files, published {PUBLISHED}"
    assert (quote.sku, quote.effective_from, quote.unit, quote.currency) == ("D.SKU1", date(2026, 10, 5), "Hrs", "USD")
    assert quote.rate_code == "A.SKU1"  # as the file writes it


def test_quotes_are_of_the_form_of_the_api() -> None:
    row = {
        "savingsPlanOffering": {"offeringId": "o-1", "paymentOption": "No Upfront", "planType": "EC2Instance", "durationSeconds": 94608000, "currency": "USD"},
        "rate": "2.97", "unit": "Hrs", "productType": "EC2", "serviceCode": "AmazonEC2", "usageType": "BoxUsage:p5.4xlarge", "operation": "RunInstances",
        "properties": [{"name": "region", "value": "us-east-1"}, {"name": "instanceType", "value": "p5.4xlarge"}, {"name": "productDescription", "value": "Linux/UNIX"}, {"name": "tenancy", "value": "shared"}],
    }  # fmt: skip
    (of_api,) = plan_quotes(parse_offering_rates([{"searchResults": [row]}], region="us-east-1"), retrieved_at=NOW)
    of_file = next(q for q in parsed(SIX).quotes if q.plan_type == "ec2_instance")
    assert (of_api.sku, of_api.rate_code) == ("o-1", None)  # the API names the offering alone
    ids = {"source": of_api.source, "sku": "o-1", "rate_code": None}
    assert dataclasses.replace(of_file, effective_from=None, **ids) == of_api


def test_terms_may_stand_before_the_plans() -> None:
    assert parsed(whole(plan("A"), terms=[term("A", rate())], terms_first=True)) == parsed(whole(plan("A"), terms=[term("A", rate())]))  # fmt: skip


def test_a_plans_sku_may_stand_behind_its_rates() -> None:
    late = term("A", rate())
    late = {"rates": late.pop("rates")} | late
    assert len(parsed(whole(plan("A"), terms=[late])).quotes) == 1


LOOK_ALIKES = {
    "usage DedicatedUsage": rate("4", usage="DedicatedUsage"),
    "usage UnusedBox": rate(usage="UnusedBox"),
    "usage HostBoxUsage": rate("0", usage="HostBoxUsage"),
    "usage of no instance": rate(discountedUsageType="Lambda-GB-Second"),
    "serviceCode AWSLambda": rate(discountedServiceCode="AWSLambda"),
    "operation RunInstances:0002": rate("6", discountedOperation="RunInstances:0002"),  # Windows
    "operation RunInstances:0010": rate("5", discountedOperation="RunInstances:0010"),  # RHEL
    "operation missing": rate(discountedOperation=None),
    "unit Request": rate(unit="Request"),
    "region us-west-2": rate(discountedRegionCode="us-west-2", discountedUsageType="USW2-BoxUsage:p5.4xlarge"),
    "currency CNY where USD is billed": rate(discountedRate={"price": "20", "currency": "CNY"}),
    "rate of zero": rate("0"),
    "not a type we plan with": rate(kind="m7i.large"),
}


@pytest.mark.parametrize(("reason", "other"), LOOK_ALIKES.items())
def test_each_look_alike_is_left_out_by_name(reason: str, other: dict[str, Any]) -> None:
    found = parsed(whole(plan("A"), terms=[term("A", other, rate("3.95"))]))
    assert [str(q.effective_unit_price) for q in found.quotes] == ["3.95"]
    assert found.excluded == {reason: 1}


def test_a_rate_that_starts_later_is_not_in_effect() -> None:
    later = term("B", rate("3.1"), effectiveDate="2026-12-01T00:00:00Z")
    found = parsed(whole(plan("A"), plan("B", payment="All Upfront"), terms=[term("A", rate()), later]))
    assert [q.payment_option for q in found.quotes] == ["no_upfront"]
    assert found.excluded == {"starts in the future": 1}


def test_a_type_of_the_catalog_is_wanted() -> None:
    data = whole(plan("A"), terms=[term("A", rate("0.05", kind="m7i.large"))])
    assert [q.instance_type for q in parsed(data, types=frozenset({"m7i.large"})).quotes] == ["m7i.large"]


def test_plans_for_other_services_are_left_out() -> None:
    found = parsed(whole(plan("A"), plan("S", "SageMakerSavingsPlans"), terms=[term("A", rate()), term("S", rate("1"))]))  # fmt: skip
    assert [q.plan_type for q in found.quotes] == ["compute"]
    assert found.excluded == {"plan SageMakerSavingsPlans, No Upfront, 31536000 s": 1}


def test_two_rates_of_one_plan_are_not_decided_by_price() -> None:
    found = parsed(whole(plan("A"), terms=[term("A", rate("3.95"), rate("3.94", discountedSku="SKU2"))]))
    assert found.quotes == ()
    assert [(len(e.left), e.instance_type) for e in found.unresolved] == [(2, "p5.4xlarge")]


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ([term("X", rate())], "its plan X is not among the products"),
        ([term("A", rate(), leaseContractLength={"duration": 12, "unit": "month"})], "in 'month', not in years"),
        ([term("A", rate(), leaseContractLength=None)], "must be an object"),
        ([term("A", rate(discountedRate={"price": 3.95, "currency": "USD"}))], "a price must be a text"),
        ([term("A", rate(discountedRate=None))], "must be an object"),
    ],
)
def test_a_rate_that_cannot_be_read_is_said_and_loses_no_other(terms: list[dict[str, Any]], why: str) -> None:
    found = parsed(whole(plan("A"), plan("B", payment="All Upfront"), terms=[*terms, term("B", rate("3.80"))]))
    assert [q.payment_option for q in found.quotes] == ["all_upfront"]
    assert why in str(found.unreadable[0])
    assert found.excluded == {"cannot be read": 1}


@pytest.mark.parametrize("data", [b"{}", b'{"products": []}', b"<html>", SIX[:-3], SIX[: len(SIX) // 2], whole(plan("A"), terms=[])])  # fmt: skip
def test_what_is_no_whole_file_is_no_reading(data: bytes) -> None:
    with pytest.raises(ReplyError):
        parsed(data)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    for name in (
        "PLANNER_AWS_PRICE_LIST_URL",
        "AWS_ENDPOINT_URL",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    with serving() as running:
        index = "/savingsPlan/v1.0/aws/AWSComputeSavingsPlan/current/region_index.json"
        file = "/savingsPlan/v1.0/aws/AWSComputeSavingsPlan/20261120194211/us-east-1/index.json"
        running.files = {
            "/offers/v1.0/aws/index.json": json.dumps({"offers": {"AmazonEC2": {"currentSavingsPlanIndexUrl": index}}}).encode(),
            index: json.dumps({"regions": [{"regionCode": "us-east-1", "versionUrl": file}]}).encode(),
            file: SIX,
        }  # fmt: skip
        yield running


def ask(region: str | None = "us-east-1") -> Ask:
    return Ask(region=region, at=NOW, chips=(), instance_types=frozenset())


def test_the_source_reads_a_regions_file(server: FileServer, tmp_path: Path) -> None:
    aws = Aws(Access(endpoint_url=server.url))
    found = read_savings_plan_files(aws, ask(), directory=tmp_path)
    assert sorted(q.effective_unit_price for q in found.quotes) == [Decimal("2.97"), Decimal("3.8"), Decimal("3.85"), Decimal("3.95")]  # fmt: skip
    assert (found.source, found.published, found.scope.region) == ("savings_plan_files", PUBLISHED, "us-east-1")
    assert found.scope.purchase_options == {"savings_plan_1yr", "savings_plan_3yr"}
    assert read_savings_plan_files(aws, ask(), directory=tmp_path) == found
    assert server.asked[-1].status == 304


def test_without_the_indexs_address_the_usual_one_is_asked(server: FileServer) -> None:
    server.files["/offers/v1.0/aws/index.json"] = b'{"offers": {"AmazonEC2": {}}}'
    assert read_savings_plan_files(Aws(Access(endpoint_url=server.url)), ask()).quotes


def test_a_region_without_a_file_and_a_file_without_a_rate(server: FileServer, tmp_path: Path) -> None:
    aws = Aws(Access(endpoint_url=server.url))
    with pytest.raises(SourceFailed, match="does not list eu-west-9"):
        read_savings_plan_files(aws, ask("eu-west-9"))
    (path,) = (p for p in server.files if "/20261120194211/" in p)
    server.files[path] = whole(plan("A"), terms=[term("A", rate(kind="m7i.large"))])
    with pytest.raises(SourceFailed, match="no rate of a type we plan with in us-east-1"):
        read_savings_plan_files(aws, ask())
    server.files[path] = SIX[:-5]
    with pytest.raises(SourceFailed, match=r"cannot be read: character [\d,]+"):
        read_savings_plan_files(aws, ask(), directory=tmp_path)
    assert {p.suffix for p in (tmp_path / "downloads").iterdir()} == {".lock"}


def test_the_source_is_asked_only_by_name_and_needs_no_credentials() -> None:
    source = savings_plan_files_source(Aws())
    assert (source.name, source.regional, source.needs_credentials, source.default) == ("savings_plan_files", True, False, False)  # fmt: skip
    with pytest.raises(ValueError, match="region by region"):
        source.read(ask(None))
