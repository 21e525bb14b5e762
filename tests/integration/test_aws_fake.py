"""The loopback AWS itself: what it sends has the shapes of the SDK's service models, and nothing is lost on the wire."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from fakes import aws_ec2
from fakes.aws_server import ACTIONS, LIST_OF, FakeAws
from fakes.aws_world import World

NOW = datetime(2026, 7, 20, 12, tzinfo=UTC)
GIVEN: dict[str, dict[str, Any]] = {
    "GetProducts": {"ServiceCode": "AmazonEC2"},
    "GetAttributeValues": {"ServiceCode": "AmazonEC2", "AttributeName": "instanceType"},
    "ListPriceLists": {"ServiceCode": "AmazonEC2", "EffectiveDate": NOW, "CurrencyCode": "USD"},
    "GetPriceListFileUrl": {
        "PriceListArn": "arn:aws:pricing:::price-list/aws/AmazonEC2/USD/20260718120000/us-east-1",
        "FileFormat": "csv",
    },
    "GetSpotPlacementScores": {"InstanceTypes": ["g5.xlarge", "g6.xlarge", "g6e.xlarge"], "TargetCapacity": 1},
    "DescribeCapacityBlockOfferings": {"InstanceType": "p5.48xlarge", "InstanceCount": 1, "CapacityDurationHours": 24},
    "ListServiceQuotas": {"ServiceCode": "ec2"},
    "ListAWSDefaultServiceQuotas": {"ServiceCode": "ec2"},
    "GetServiceQuota": {"ServiceCode": "ec2", "QuotaCode": "L-417A185B"},
    "GetAWSDefaultServiceQuota": {"ServiceCode": "ec2", "QuotaCode": "L-417A185B"},
    "GetCostAndUsage": {
        "TimePeriod": {"Start": "2026-07-18", "End": "2026-07-21"},
        "Granularity": "DAILY",
        "Metrics": ["UnblendedCost"],
    },
    "AssumeRole": {"RoleArn": "arn:aws:iam::123456789012:role/prices", "RoleSessionName": "test"},
}


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeAws]:
    with FakeAws(world=World(now=NOW)) as server:
        yield server


@pytest.fixture(scope="module")
def client(fake: FakeAws) -> Iterator[Callable[..., Any]]:
    """Give a function that makes clients, which are closed at the end."""
    made: dict[tuple[str, str], Any] = {}

    def of(service: str, region: str = "us-east-1") -> Any:
        if (service, region) not in made:
            made[service, region] = boto3.client(
                service, region_name=region, endpoint_url=fake.url, aws_access_key_id="a", aws_secret_access_key="b", config=Config(retries={"total_max_attempts": 1}),
            )  # fmt: skip
        return made[service, region]

    yield of
    for each in made.values():
        each.close()


def foreign(value: Any, shape: Any, where: str) -> Iterator[str]:
    """Yield what a value has that the model does not know, or has of another type."""
    if value is None:
        return
    kind = shape.type_name
    if kind == "structure":
        if not isinstance(value, dict):
            yield f"{where} is no structure"
            return
        for name, part in value.items():
            if name not in shape.members:
                yield f"{where}.{name}"
            else:
                yield from foreign(part, shape.members[name], f"{where}.{name}")
    elif kind == "list":
        for part in value:
            yield from foreign(part, shape.member, f"{where}[]")
    elif kind == "map":
        for part in value.values():
            yield from foreign(part, shape.value, f"{where}{{}}")
    else:
        fits = {"string": (str,), "integer": (int,), "long": (int,), "double": (float,), "boolean": (bool,), "timestamp": (str, datetime)}  # fmt: skip
        if type(value) not in fits[kind]:
            yield f"{where} is {type(value).__name__}, the model has {kind}"


@pytest.mark.parametrize(("service", "action"), list(ACTIONS))
def test_answers_are_of_the_model(fake: FakeAws, service: str, action: str) -> None:
    model = botocore.session.get_session().get_service_model(service)
    given = dict(GIVEN.get(action, {}))
    if service == "ec2":  # as they come in, without the plural
        given = {k.removesuffix("s") if isinstance(v, list) else k: v for k, v in given.items()}
        given = {k: str(v) if isinstance(v, int) else v for k, v in given.items()}
    members = ACTIONS[service, action](fake, "us-east-1", given | ({"EffectiveDate": NOW.timestamp()} if "EffectiveDate" in given else {}))  # fmt: skip
    assert list(foreign(members, model.operation_model(action).output_shape, action)) == []
    assert members


@pytest.mark.parametrize(("service", "action"), [pair for pair in ACTIONS if pair[1] in LIST_OF])
def test_every_list_comes_through_the_client(fake: FakeAws, client: Callable[..., Any], service: str, action: str) -> None:  # fmt: skip
    each = client(service)
    method = next(m for m, a in each.meta.method_to_api_mapping.items() if a == action)
    assert getattr(each, method)(**GIVEN.get(action, {}))[LIST_OF[action]]


def test_instance_types_lose_nothing_on_the_wire(fake: FakeAws, client: Callable[..., Any]) -> None:
    def without_none(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: without_none(v) for k, v in value.items() if v is not None}
        return [without_none(v) for v in value] if isinstance(value, list) else value

    pages = client("ec2").get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 5})
    received = [t for page in pages for t in page["InstanceTypes"]]
    assert received == [without_none(aws_ec2.describe(m)) for m in fake.world.machines("us-east-1")]
    assert len(received) == 19


def test_spot_rows_lose_nothing_on_the_wire(fake: FakeAws, client: Callable[..., Any]) -> None:
    received = [
        row
        for page in client("ec2").get_paginator("describe_spot_price_history").paginate()
        for row in page["SpotPriceHistory"]
    ]
    sent = aws_ec2.spot_history(fake.world, "us-east-1", {}, {})
    assert [{k: v for k, v in row.items() if v is not None} for row in sent] == received


def test_filters_are_real(client: Callable[..., Any]) -> None:
    def found(**wanted: str) -> int:
        filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in wanted.items()]
        return len(client("pricing").get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"])

    one = {
        "regionCode": "us-east-1", "instanceType": "g5.xlarge", "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA",
        "capacitystatus": "Used", "licenseModel": "No License required", "marketoption": "OnDemand", "productFamily": "Compute Instance",
    }  # fmt: skip
    assert found(**one) == 1
    # what also matches without one of them
    assert {name: found(**{k: v for k, v in one.items() if k != name}) for name in one} == {
        "regionCode": 3,  # us-west-2, eu-central-1
        "instanceType": 22,
        "operatingSystem": 5,  # Windows, RHEL, SUSE, Ubuntu Pro
        "tenancy": 3,  # Dedicated, Host
        "preInstalledSw": 2,  # SQL Web
        "capacitystatus": 3,  # Reservation, UnusedBox
        "licenseModel": 1,
        "marketoption": 1,
        "productFamily": 1,
    }
    assert found(**one | {"instanceType": "p5.48xlarge"}) == 1
    assert found(**{k: v for k, v in (one | {"instanceType": "p5.48xlarge"}).items() if k != "marketoption"}) == 3
    assert found(instanceType="g5.xlagre") == 0  # no error
    assert found(instanceType="trn1.32xlarge", gpu="16") == 0  # what a product lacks never matches


def test_token_belongs_to_its_request(client: Callable[..., Any]) -> None:
    pricing = client("pricing")
    token = pricing.get_products(ServiceCode="AmazonEC2", MaxResults=5)["NextToken"]
    assert pricing.get_products(ServiceCode="AmazonEC2", MaxResults=5, NextToken=token)["PriceList"]
    with pytest.raises(ClientError, match="InvalidNextTokenException"):
        pricing.get_products(ServiceCode="AmazonS3", MaxResults=5, NextToken=token)
    with pytest.raises(ClientError, match="InvalidNextTokenException"):
        pricing.get_products(ServiceCode="AmazonEC2", NextToken="made up")
    with pytest.raises(ClientError, match="maxResults must be between 1 and 100"):
        pricing.get_products(ServiceCode="AmazonEC2", MaxResults=101)
    with pytest.raises(ClientError, match="serviceCode cannot be null or empty"):
        pricing.get_products(ServiceCode="")


def test_type_that_is_not_offered_fails_the_whole_call(client: Callable[..., Any]) -> None:
    with pytest.raises(ClientError, match=r"InvalidInstanceType.*p6-b200.48xlarge"):
        client("ec2", "us-west-2").describe_instance_types(InstanceTypes=["g5.xlarge", "p6-b200.48xlarge"])


def test_last_page_of_spot_prices_names_an_empty_token(client: Callable[..., Any]) -> None:
    assert client("ec2", "cn-north-1").describe_spot_price_history()["NextToken"] == ""


def test_spot_now_is_one_price_a_pool(client: Callable[..., Any]) -> None:
    pages = client("ec2", "us-west-2").get_paginator("describe_spot_price_history").paginate(StartTime=NOW, EndTime=NOW)
    rows = [r for page in pages for r in page["SpotPriceHistory"]]
    assert len(rows) == len({(r["InstanceType"], r["AvailabilityZone"], r["ProductDescription"]) for r in rows})


def test_files_have_tags_and_ranges(fake: FakeAws) -> None:
    url = f"{fake.url}/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.csv"

    def get(**headers: str) -> tuple[int, bytes, Any]:
        request = urllib.request.Request(url, headers={k.replace("_", "-"): v for k, v in headers.items()})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as e:
            with e:
                return e.code, e.read(), e.headers

    status, whole, headers = get()
    tag = headers["ETag"]
    assert status == 200
    assert int(headers["Content-Length"]) == len(whole)
    assert get(If_None_Match=tag)[:2] == (304, b"")
    assert get(Range="bytes=100-199", If_Range=tag)[:2] == (206, whole[100:200])
    assert get(Range=f"bytes={len(whole) - 10}-")[1] == whole[-10:]
    assert get(Range="bytes=100-199", If_Range='"older"')[:2] == (200, whole)  # another edition: from the beginning
    assert get(Range=f"bytes={len(whole)}-")[0] == 416


def test_list_of_an_earlier_day_has_its_prices(client: Callable[..., Any]) -> None:
    with FakeAws(world=World(now=NOW)) as own:
        own.world.set_price("p5.48xlarge", "31.464")
        pricing = boto3.client("pricing", region_name="us-east-1", endpoint_url=own.url, aws_access_key_id="a", aws_secret_access_key="b")  # fmt: skip
        prices = {}
        for day in (datetime(2026, 7, 18, tzinfo=UTC), NOW):
            (listed,) = pricing.list_price_lists(ServiceCode="AmazonEC2", EffectiveDate=day, CurrencyCode="USD", RegionCode="us-east-1")["PriceLists"]  # fmt: skip
            url = pricing.get_price_list_file_url(PriceListArn=listed["PriceListArn"], FileFormat="json")["Url"]
            with urllib.request.urlopen(url) as answer:
                whole = json.load(answer)
            (sku,) = [s for s, p in whole["products"].items() if p["attributes"].get("instanceType") == "p5.48xlarge" and p["attributes"]["usagetype"] == "BoxUsage:p5.48xlarge" and p["attributes"]["operation"] == "RunInstances" and p["attributes"]["preInstalledSw"] == "NA" and p["attributes"]["tenancy"] == "Shared"]  # fmt: skip
            (term,) = whole["terms"]["OnDemand"][sku].values()
            (rate,) = term["priceDimensions"].values()
            prices[day.day] = rate["pricePerUnit"]["USD"]
        pricing.close()
    assert prices == {18: "55.0400000000", 20: "31.4640000000"}


@pytest.mark.parametrize("words", [["-m", "tests.fakes.aws_server"], ["tests/fakes/aws_server.py"]])
def test_it_runs_as_a_program_and_is_told_what_to_do(words: list[str]) -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, *words, "--until-stdin-ends"], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:  # fmt: skip
        assert program.stdin is not None
        assert program.stdout is not None
        url = program.stdout.readline().strip()

        def told(path: str, **body: Any) -> Any:
            request = urllib.request.Request(f"{url}/_control/{path}", data=json.dumps(body).encode())
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)

        told("fail", kind="missing", action="/spot-advisor-data.json", times=1)
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(f"{url}/spot-advisor-data.json")
        refused.value.close()
        told("price", instance_type="p5.48xlarge", price="31.464")
        told("remove", name="p4d")
        with urllib.request.urlopen(f"{url}/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.csv") as answer:
            text = answer.read().decode()
        assert '"31.4640000000"' in text
        assert "p4d.24xlarge" not in text
        assert [c["status"] for c in told("calls")] == [403, 200]
        program.stdin.close()
    assert program.returncode == 0
