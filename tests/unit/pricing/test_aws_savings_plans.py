"""Savings Plan rates, written by hand. Figures: a rate of 0.6438 USD/h against 1.006 on demand, as AWS writes rates."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from scripted_aws import scripted_aws

from pricing.aws.owned_plans import owned_plans, parse_owned_plans
from pricing.aws.replies import untold
from pricing.aws.savings_plans import (
    parse_offering_rates,
    plan_notices,
    plan_quotes,
    savings_plans_source,
)
from pricing.errors import AccessDenied, ReplyError, Unreachable
from pricing.market import NoticeKind
from pricing.model import PurchaseOption
from pricing.source import ANY_TYPE, Ask

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
YEAR_S, THREE_YEARS_S = 31536000, 94608000


def row(rate: str = "0.6438", instance_type: str = "g5.xlarge", **over: Any) -> dict[str, Any]:
    """One rate of a one-year Compute plan without upfront; `offering` and `properties` change parts."""
    properties = {
        "tenancy": "shared",
        "region": "us-east-1",
        "productDescription": "Linux/UNIX",
        "instanceType": instance_type,
        "instanceFamily": instance_type.partition(".")[0],
    } | over.pop("properties", {})
    offering = {
        "offeringId": "a1",
        "paymentOption": "No Upfront",
        "planType": "Compute",
        "durationSeconds": YEAR_S,
        "currency": "USD",
    } | over.pop("offering", {})
    return {
        "savingsPlanOffering": offering,
        "rate": rate,
        "unit": "Hrs",
        "productType": "EC2",
        "serviceCode": "AmazonEC2",
        "usageType": f"BoxUsage:{instance_type}",
        "operation": "RunInstances",
        "properties": [{"name": k, "value": v} for k, v in properties.items() if v is not None],
    } | over


def page(*rows: Any, **more: Any) -> dict[str, Any]:
    return {"searchResults": list(rows), **more}


def read(*rows: Any, region: str = "us-east-1") -> Any:
    return parse_offering_rates([page(*rows)], region=region)


def test_the_rate_is_the_whole_price_and_no_upfront_is_added() -> None:
    all_upfront = {"offeringId": "b2", "paymentOption": "All Upfront", "planType": "EC2Instance", "durationSeconds": THREE_YEARS_S}  # fmt: skip
    (quote,) = plan_quotes(read(row("0.4000000000", offering=all_upfront)), retrieved_at=NOW)
    assert quote.list_unit_price == quote.effective_unit_price == Decimal("0.4")
    assert quote.upfront is None
    assert (quote.purchase_option, quote.plan_type, quote.payment_option, quote.term_years, quote.sku) == (
        PurchaseOption.SAVINGS_PLAN_3YR,
        "ec2_instance",
        "all_upfront",
        3,
        "b2",
    )


def test_every_term_payment_and_plan_is_a_quote_of_its_own() -> None:
    rows = [
        row(offering={"planType": plan, "paymentOption": payment, "durationSeconds": seconds})
        for plan in ("Compute", "EC2Instance")
        for payment in ("No Upfront", "Partial Upfront", "All Upfront")
        for seconds in (YEAR_S, THREE_YEARS_S)
    ]
    quotes = plan_quotes(read(*rows), retrieved_at=NOW)
    assert len({(q.plan_type, q.payment_option, q.term_years) for q in quotes}) == len(quotes) == 12
    assert {q.purchase_option.value for q in quotes} == {"savings_plan_1yr", "savings_plan_3yr"}


@pytest.mark.parametrize(
    ("look_alike", "reason"),
    [
        (row("0.6438", usageType="UnusedBox:g5.xlarge"), "usage UnusedBox"),
        (row("0.70", usageType="EUC1-DedicatedUsage:g5.xlarge", properties={"tenancy": "dedicated"}), "usage DedicatedUsage"),
        (row("0.70", properties={"tenancy": "dedicated"}), "tenancy dedicated"),
        (row("0.9", operation="RunInstances:0002", properties={"productDescription": "Windows"}), "productDescription Windows"),
        (row("0.9", operation="RunInstances:0g00"), "operation RunInstances:0g00"),
        (row("4.1", offering={"currency": "CNY"}), "currency CNY where USD is billed"),
        (row("0.000015", unit="Lambda-GB-Second", productType="Lambda", usageType="Lambda-GB-Second"), "productType Lambda"),
        (row("0.000015", unit="Lambda-GB-Second"), "unit Lambda-GB-Second"),
        (row("0"), "rate of zero"),
        (row(offering={"planType": "SageMaker"}), "plan SageMaker, No Upfront, 31536000 s"),
        (row(offering={"durationSeconds": 2 * YEAR_S}), "plan Compute, No Upfront, 63072000 s"),
        (row(properties={"region": "us-west-2-lax-1"}), "region us-west-2-lax-1"),
        (row(properties={"region": None}), "region missing"),
        (row(instance_type="m7i.large"), "not a type we plan with"),
    ],
)  # fmt: skip
def test_look_alikes_are_left_out_by_name(look_alike: dict[str, Any], reason: str) -> None:
    reading = read(look_alike, row("0.6438"))
    assert [rate.amount for rate in reading.rates] == [Decimal("0.6438")]
    assert reading.excluded == {reason: 1}
    assert not reading.unresolved


def test_a_known_type_without_accelerator_is_wanted() -> None:
    rows = [page(row("0.07", "m7i.large"), row("0.08", "c7g.large"))]
    reading = parse_offering_rates(rows, region="us-east-1", instance_types={"m7i.large"})
    assert [rate.instance_type for rate in reading.rates] == ["m7i.large"]


def test_china_is_billed_in_yuan() -> None:
    there = {"region": "cn-northwest-1"}
    rows = [
        row("3.81", usageType="CNW1-BoxUsage:g5.xlarge", offering={"currency": "CNY"}, properties=there),
        row("0.6", properties=there),
    ]
    reading = read(*rows, region="cn-northwest-1")
    (quote,) = plan_quotes(reading, retrieved_at=NOW)
    assert (quote.currency, quote.effective_unit_price) == ("CNY", Decimal("3.81"))
    assert reading.excluded == {"currency USD where CNY is billed": 1}


def test_unordered_properties_and_rows_change_nothing() -> None:
    rows = [
        row("0.6", "g5.xlarge"),
        row("6.9", "p5.4xlarge"),
        row("30", "p5.48xlarge", usageType="UnusedBox:p5.48xlarge"),
    ]
    shuffled = [r | {"properties": random.Random(7).sample(r["properties"], 5)} for r in reversed(rows)]
    assert read(*rows) == read(*shuffled)


def test_a_row_repeated_across_pages_counts_once() -> None:
    reading = parse_offering_rates([page(row()), page(row("0.643800"))], region="us-east-1")
    assert len(reading.rates) == 1
    assert reading.excluded == {"repeated across pages": 1}


def test_two_rates_of_one_thing_are_not_decided_by_price() -> None:
    reading = read(row("0.6438"), row("0.5000", offering={"offeringId": "z9"}), row("6.9", "p5.4xlarge"))
    assert [rate.instance_type for rate in reading.rates] == ["p5.4xlarge"]
    (notice,) = plan_notices(reading)
    assert (notice.kind, notice.subject) == (NoticeKind.UNRESOLVED, "g5.xlarge us-east-1 compute 1 no_upfront")
    assert "offering a1 at 0.6438 USD; offering z9 at 0.5 USD" in notice.detail
    assert untold(reading.unresolved) == {"g5.xlarge"}


def test_a_row_that_cannot_be_read_names_its_type_where_its_usage_does() -> None:
    reading = read(row("x"), row() | {"usageType": None, "properties": "none"})
    assert untold(reading.unreadable) == {"g5.xlarge", ANY_TYPE}


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (row(0.6438), "a price must be a text"),  # type: ignore[arg-type]
        (row("-1"), "is not a price"),
        (row(properties={"instanceType": "g5.2xlarge"}), "g5.2xlarge by its properties and for g5.xlarge by its usage"),
        ({"rate": "1"}, "must be an object, not missing"),
    ],
)
def test_a_row_that_cannot_be_right_is_told_and_loses_no_other(broken: Any, why: str) -> None:
    reading = read(broken, row("6.9", "p5.4xlarge"))
    assert [rate.instance_type for rate in reading.rates] == ["p5.4xlarge"]
    assert reading.excluded == {"cannot be read": 1}
    (notice,) = plan_notices(reading)
    assert why in notice.detail


def test_a_cut_body_is_no_empty_answer() -> None:
    with pytest.raises(ReplyError, match="has no searchResults"):
        parse_offering_rates([{"ResponseMetadata": {}}], region="us-east-1")


def ask() -> Ask:
    return Ask(region="us-east-1", at=NOW, chips=(), instance_types=frozenset())


def test_every_page_is_read_until_the_token_is_absent_or_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    for last in ({}, {"nextToken": ""}):
        answers = {
            None: page(row(), nextToken="t1"),
            "t1": page(nextToken="t2"),
            "t2": page(row("6.9", "p5.4xlarge"), **last),
        }
        with scripted_aws(monkeypatch, lambda _, a, answers=answers: (200, answers[a.get("nextToken")])) as (
            aws,
            calls,
        ):
            reading = savings_plans_source(aws).read(ask())
        assert [q.instance_type for q in reading.quotes] == ["g5.xlarge", "p5.4xlarge"]
        assert [a.get("nextToken") for _, a in calls] == [None, "t1", "t2"]
        assert calls[0][1]["maxResults"] == 1000
        assert {"name": "region", "values": ["us-east-1"]} in calls[0][1]["filters"]


def test_a_token_that_repeats_is_an_error_and_not_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        scripted_aws(monkeypatch, lambda *_: (200, page(row(), nextToken="same"))) as (aws, calls),
        pytest.raises(Unreachable, match=r"attempts: nextToken '[^']+' repeats: the answer would never end"),
    ):
        savings_plans_source(aws).read(ask())
    assert len(calls) == 8  # two pages of each of four beginnings


def test_a_body_that_is_cut_once_is_asked_again_from_the_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [(200, page(row(), nextToken="t1")), (200, b'{"searchRes'), (200, page(row(), nextToken="t1")), (200, page(row("6.9", "p5.4xlarge")))]  # fmt: skip
    with scripted_aws(monkeypatch, lambda *_: bodies.pop(0)) as (aws, _):
        reading = savings_plans_source(aws).read(ask())
    assert len(reading.quotes) == 2
    assert "repeated across pages" not in reading.excluded


def test_what_permission_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = {"__type": "AccessDeniedException", "message": "no"}
    with (
        scripted_aws(monkeypatch, lambda *_: (403, denied)) as (aws, _),
        pytest.raises(AccessDenied, match="savingsplans:DescribeSavingsPlansOfferingRates"),
    ):
        savings_plans_source(aws).read(ask())


OWNED = {
    "savingsPlanId": "06ea8e25",
    "offeringId": "abb52de0",
    "state": "active",
    "savingsPlanType": "EC2Instance",
    "region": "eu-central-1",
    "ec2InstanceFamily": "p5",
    "paymentOption": "Partial Upfront",
    "currency": "USD",
    "commitment": "10.00000000",
    "upfrontPaymentAmount": "43800.00000000",
    "recurringPaymentAmount": "5.00000000",
    "termDurationInSeconds": YEAR_S,
    "start": "2026-03-01T00:00:00.000Z",
    "end": "2027-02-28T23:59:59.000Z",
}


def test_an_owned_plan_is_read_with_what_is_paid_when() -> None:
    (plan,) = parse_owned_plans([{"savingsPlans": [OWNED]}])
    assert (plan.commitment_per_hour, plan.upfront, plan.recurring_per_hour) == (
        Decimal(10),
        Decimal(43800),
        Decimal(5),
    )
    assert plan.upfront / 8760 + plan.recurring_per_hour == plan.commitment_per_hour  # half of 10 x 8,760 h up front
    assert (plan.plan_type, plan.region, plan.family, plan.term_years) == ("ec2_instance", "eu-central-1", "p5", 1)
    assert plan.ends_at == datetime(2027, 2, 28, 23, 59, 59, tzinfo=UTC)


def test_owned_plans_without_upfront_and_unknown_payments_are_told_apart() -> None:
    (plan,) = parse_owned_plans(
        [{"savingsPlans": [OWNED | {"upfrontPaymentAmount": None, "paymentOption": "No Upfront"}]}]
    )
    assert plan.upfront is None
    with pytest.raises(ReplyError, match="paymentOption 'Monthly'"):
        parse_owned_plans([{"savingsPlans": [OWNED | {"paymentOption": "Monthly"}]}])


def test_owned_plans_are_asked_for_as_active_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        None: {"savingsPlans": [OWNED], "nextToken": "x"},
        "x": {"savingsPlans": [OWNED | {"savingsPlanId": "2"}]},
    }
    with scripted_aws(monkeypatch, lambda _, a: (200, answers[a.get("nextToken")])) as (aws, calls):
        assert [plan.plan_id for plan in owned_plans(aws)] == ["06ea8e25", "2"]
    assert calls[0] == ("DescribeSavingsPlans", {"states": ["active"], "maxResults": 1000})
