"""Whole answers: pages that are none, tokens that repeat or expire, and what is not asked twice. Against the real client and paginators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aws_doors import door_to, loopback
from botocore.parsers import ResponseParserError
from fakes.aws_server import FakeAws

from pricing.aws.paging import WHOLE_ANSWERS, asked, followed, pages
from pricing.aws.session import Aws
from pricing.errors import AccessDenied, CredentialsMissing, SourceFailed, Unreachable

SOURCE = "AWS price list"
FILTERS = [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"}]


@contextmanager
def both(monkeypatch: pytest.MonkeyPatch, **how: Any) -> Iterator[tuple[FakeAws, Aws]]:
    with loopback(**{"page_size": 40} | how) as fake, door_to(fake, monkeypatch) as aws:
        yield fake, aws


def products(aws: Aws, on_answer: Callable[[], None] = lambda: None) -> list[str]:
    answer = pages(aws.pricing("us-east-1"), "get_products", "PriceList", source=SOURCE, on_answer=on_answer, ServiceCode="AmazonEC2", Filters=FILTERS, MaxResults=100)  # fmt: skip
    return [document for page in answer for document in page["PriceList"]]


def types(aws: Aws) -> list[str]:
    answer = pages(aws.client("ec2", "us-east-1"), "describe_instance_types", "InstanceTypes", source="AWS EC2")
    return [row["InstanceType"] for page in answer for row in page["InstanceTypes"]]


def plans(aws: Aws) -> list[dict[str, Any]]:
    answer = followed(aws.client("savingsplans", "us-east-1"), "describe_savings_plans_offerings", "searchResults", source="AWS Savings Plans", maxResults=20)  # fmt: skip
    return [row for page in answer for row in page["searchResults"]]


def test_every_page_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    with both(monkeypatch) as (fake, aws):
        found = products(aws, lambda: counted.append(1))
        assert len(counted) == len(fake.calls) > 3
        assert [call.page for call in fake.calls] == list(range(1, len(fake.calls) + 1))
        fake.page_size = 1000
        assert sorted(found) == sorted(products(aws))
        assert len(fake.calls) - len(counted) == len(found) // 100 + 1  # no more than 100 a page, whatever there is


@pytest.mark.parametrize("kind", ["truncated", "html", "cut"])
def test_boto3_drops_a_broken_json_page_without_an_error_and_here_the_answer_is_begun_again(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:  # fmt: skip
    with both(monkeypatch) as (fake, aws):
        whole = products(aws)
        fake.fail(kind, page=2, times=1)
        paginator = aws.pricing("us-east-1").get_paginator("get_products")
        alone = list(paginator.paginate(ServiceCode="AmazonEC2", Filters=FILTERS))
        assert len(alone) == 2  # the fact that this guards against: no error, and the list has ended
        assert "PriceList" not in alone[1]
        fake.heal()
        fake.fail(kind, page=2, times=1)
        fake.forget()
        assert products(aws) == whole
        assert [call.page for call in fake.calls[:3]] == [1, 2, 1]


@pytest.mark.parametrize("kind", ["truncated", "html", "cut"])
def test_a_page_that_stays_broken_is_no_answer(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with both(monkeypatch) as (fake, aws):
        fault = fake.fail(kind, action="GetProducts", page=2)
        with pytest.raises(Unreachable, match=r"no whole answer in 4 attempts: has no PriceList.*try again later"):
            products(aws)
        assert fault.struck == WHOLE_ANSWERS


@pytest.mark.parametrize("kind", ["truncated", "cut"])
def test_xml_that_was_cut_is_begun_again(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with both(monkeypatch, page_size=7) as (fake, aws):
        whole = types(aws)
        fake.fail(kind, page=2, times=1)
        with pytest.raises(ResponseParserError):  # not retried by the client
            list(aws.client("ec2", "us-east-1").get_paginator("describe_instance_types").paginate())
        fake.fail(kind, page=2, times=2)
        assert types(aws) == whole
        fake.fail(kind, page=2)
        with pytest.raises(Unreachable, match=r"in 4 attempts: a cut or foreign body \(ResponseParserError\)"):
            types(aws)


def test_a_web_page_that_is_good_xml_is_no_answer_of_ec2(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch, page_size=7) as (fake, aws):
        whole = types(aws)
        fake.fail("html", page=2, times=1)
        alone = list(aws.client("ec2", "us-east-1").get_paginator("describe_instance_types").paginate())
        assert [("InstanceTypes" in page) for page in alone] == [True, False]  # no error here either
        fake.fail("html", page=2, times=1)
        assert types(aws) == whole


def test_a_repeated_next_token_ends_with_an_error_and_not_never(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        whole = products(aws)
        fake.fail("repeated_token", times=2)
        assert products(aws) == whole
        fake.fail("repeated_token")
        with pytest.raises(Unreachable, match="the same token came twice"):
            products(aws)


def test_savings_plans_has_no_paginator_and_a_repeated_token_does_not_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch, page_size=20) as (fake, aws):
        assert not aws.client("savingsplans", "us-east-1").can_paginate("describe_savings_plans_offerings")
        whole = plans(aws)
        assert len(fake.calls) > 2
        fake.fail("repeated_token")
        with pytest.raises(Unreachable, match=r"in 4 attempts: nextToken '[^']+' repeats: the answer would never end; try again later$"):  # fmt: skip
            plans(aws)
        fake.heal()
        fake.fail("truncated", page=2, times=1)
        assert plans(aws) == whole


def test_an_expired_next_token_restarts_from_the_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        whole = products(aws)
        fake.forget()
        fake.fail("expired_next_token", page=3, times=1)
        assert products(aws) == whole
        assert [call.page for call in fake.calls[:4]] == [1, 2, 3, 1]
        fake.fail("expired_next_token", page=2)
        with pytest.raises(Unreachable, match="ExpiredNextTokenException"):
            products(aws)


def test_an_empty_page_with_a_token_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        whole = products(aws)
        fake.fail("empty_page")
        assert products(aws) == whole
        assert len(types(aws)) > 5
        assert len(plans(aws)) > 5


def test_throttled_to_the_end_is_said_and_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        fault = fake.fail("throttle", action="GetProducts")
        with pytest.raises(Unreachable, match=r"throttled through 2 attempts \(ThrottlingException\); try again later"):
            products(aws)
        assert fault.struck == 2  # the attempts of one call


@pytest.mark.parametrize("kind", ["http500", "http502", "http503", "http504"])
def test_a_server_error_passes_or_is_said(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with both(monkeypatch) as (fake, aws):
        whole = products(aws)
        fake.fail(kind, times=1)
        assert products(aws) == whole
        fake.fail(kind)
        with pytest.raises(Unreachable, match=f"HTTP {kind[4:]} .*through 2 attempts"):
            products(aws)


@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [
        ("access_denied", AccessDenied, "access denied to pricing:GetProducts; grant it"),
        ("expired_token", CredentialsMissing, "the session's token has expired"),
        ("unrecognised_client", CredentialsMissing, "AWS does not know this key"),
        ("clock_skew", CredentialsMissing, "check this machine's clock"),
        ("error", SourceFailed, "ValidationException"),
    ],
)
def test_what_a_call_refuses_is_one_clear_line_and_not_asked_twice(monkeypatch: pytest.MonkeyPatch, kind: str, error: type[SourceFailed], said: str) -> None:  # fmt: skip
    with both(monkeypatch) as (fake, aws):
        fault = fake.fail(kind, **({"code": "ValidationException", "status": 400} if kind == "error" else {}))
        with pytest.raises(error, match=said) as caught:
            products(aws)
        assert fault.struck == 1
        assert "\n" not in str(caught.value)


def test_ec2_names_its_own_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        fake.fail("access_denied")
        with pytest.raises(AccessDenied, match="ec2:DescribeInstanceTypes"):
            types(aws)
        with pytest.raises(AccessDenied, match="savingsplans:DescribeSavingsPlansOfferings"):
            plans(aws)


def test_one_page_is_checked_like_many(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):

        def quota() -> Any:
            client = aws.client("service-quotas", "us-east-1")
            return asked(client, "get_service_quota", "Quota", source="AWS quotas", ServiceCode="ec2", QuotaCode="L-417A185B")["Quota"]  # fmt: skip

        assert quota()["Value"] == 192.0
        fake.fail("truncated", times=1)
        assert quota()["Value"] == 192.0
        fake.fail("truncated")
        with pytest.raises(Unreachable, match="has no Quota"):
            quota()


def test_what_is_kept_of_a_page_and_a_stop_between_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Exception):  # noqa: N818
        pass

    def stop() -> None:
        raise Stopped

    with both(monkeypatch) as (fake, aws):
        client = aws.pricing("us-east-1")
        sizes = pages(client, "get_products", "PriceList", source=SOURCE, keep=lambda page: len(page["PriceList"]), ServiceCode="AmazonEC2", Filters=FILTERS)  # fmt: skip
        assert sizes[:-1] == [40] * (len(sizes) - 1)
        fake.forget()
        with pytest.raises(Stopped):
            products(aws, stop)
        assert len(fake.calls) == 1


def test_nobody_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(monkeypatch) as (fake, aws):
        fake.stop()
        with pytest.raises(Unreachable, match="Could not connect to the endpoint URL"):
            types(aws)
