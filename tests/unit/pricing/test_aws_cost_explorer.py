"""Cost Explorer replies, written by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from scripted_aws import scripted_aws

from pricing.aws.cost_explorer import billed_lines, parse_cost_and_usage
from pricing.bills.model import CostColumn, totals
from pricing.errors import AccessDenied, ReplyError, Unreachable

START, END = date(2026, 11, 27), date(2026, 11, 29)
EC2 = "Amazon Elastic Compute Cloud - Compute"


def money(text: str, unit: str = "USD") -> dict[str, str]:
    return {"Amount": text, "Unit": unit}


def group(*keys: str, quantity: str = "24", unit: str = "Hrs", **costs: str) -> dict[str, Any]:
    metrics = {name: money(amount) for name, amount in costs.items()} | {"UsageQuantity": money(quantity, unit)}
    return {"Keys": list(keys), "Metrics": metrics}


def page(*groups: Any, day: int = 27, estimated: bool = False, names: tuple[str, ...] = ("SERVICE", "USAGE_TYPE"), **more: Any) -> dict[str, Any]:  # fmt: skip
    result = {"TimePeriod": {"Start": f"2026-11-{day}", "End": f"2026-11-{day + 1}"}, "Total": {}, "Groups": list(groups), "Estimated": estimated}  # fmt: skip
    return {"ResultsByTime": [result], "GroupDefinitions": [{"Type": "DIMENSION", "Key": n} for n in names], **more}


BOX = group(EC2, "BoxUsage:g5.xlarge", UnblendedCost="24.144", AmortizedCost="17.3832")
SPOT = group(EC2, "SpotUsage:g4dn.xlarge", UnblendedCost="5.3020800000", AmortizedCost="5.3020800000")
BLOCK = group("EC2 - Other", "CapacityBlockFee:p5.48xlarge", quantity="1", unit="N/A", UnblendedCost="755.136", AmortizedCost="755.136")  # fmt: skip


def test_a_group_is_a_line() -> None:
    (line,) = parse_cost_and_usage([page(BOX, estimated=True)])
    assert (line.charge_period_start, line.charge_period_end) == (datetime(2026, 11, 27, tzinfo=UTC), datetime(2026, 11, 28, tzinfo=UTC))  # fmt: skip
    assert (line.billed_cost, line.effective_cost, line.list_cost) == (Decimal("24.144"), Decimal("17.3832"), None)
    assert (line.service, line.usage_type, line.instance_type) == (EC2, "BoxUsage:g5.xlarge", "g5.xlarge")
    assert (line.consumed_quantity, line.consumed_unit, line.estimated) == (Decimal(24), "Hrs", True)
    assert line.purchase_option is None  # on demand and what a plan covers are added up


def test_spot_and_blocks_tell_themselves_apart() -> None:
    spot, block = parse_cost_and_usage([page(SPOT, BLOCK)])
    assert (spot.purchase_option, block.purchase_option, block.charge_category) == (
        "spot",
        "capacity_block",
        "Purchase",
    )
    assert (block.consumed_quantity, block.consumed_unit) == (None, None)  # "1 N/A" is no quantity
    assert block.description == "Cost Explorer does not spread this fee over the block"


@pytest.mark.parametrize(
    ("purchase", "option"),
    [
        ("Savings Plans", "savings_plan"),
        ("Standard Reserved Instances", "reserved"),
        ("On Demand Instances", "on_demand"),
        ("", None),
    ],
)
def test_grouped_by_purchase_type_the_lines_say_what_covered_them(purchase: str, option: str | None) -> None:
    entry = BOX | {"Keys": [purchase, "BoxUsage:g5.xlarge"]}
    (line,) = parse_cost_and_usage([page(entry, names=("PURCHASE_TYPE", "USAGE_TYPE"))])
    assert line.purchase_option == option


def test_net_amounts_go_before_gross_ones() -> None:
    (line,) = parse_cost_and_usage(
        [page(group(EC2, "BoxUsage:g5.xlarge", UnblendedCost="24.144", NetUnblendedCost="21.97"))]
    )
    assert (line.billed_cost, line.effective_cost) == (Decimal("21.97"), None)
    (total,) = totals([line], CostColumn.EFFECTIVE)
    assert (total.amount, total.lines_without) == (None, 1)


def test_a_credit_is_negative_and_tax_is_told() -> None:
    credit, tax = parse_cost_and_usage(
        [page(group("Credits", "NoUsageType", UnblendedCost="-3.5"), group("Tax", "NoUsageType", UnblendedCost="0.21"))]
    )
    assert (credit.billed_cost, credit.charge_category) == (Decimal("-3.5"), None)
    assert tax.charge_category == "Tax"


def test_without_groups_there_is_a_total() -> None:
    reply = {"ResultsByTime": [{"TimePeriod": {"Start": "2026-11-01", "End": "2026-12-01"}, "Total": {"UnblendedCost": money("812.5")}, "Groups": [], "Estimated": True}]}  # fmt: skip
    (line,) = parse_cost_and_usage([reply])
    assert (line.billed_cost, line.usage_type) == (Decimal("812.5"), None)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (group(EC2, "x"), "has none of NetUnblendedCost"),
        (group(EC2, "x", UnblendedCost="n/a"), "'n/a' is not an amount"),
        ({"Keys": [EC2, "x"]}, "must be an object, not missing"),
        ({"Keys": [EC2, "x"], "Metrics": {"UnblendedCost": money("1"), "AmortizedCost": money("1", "CNY")}}, "is in CNY and USD"),
    ],
)  # fmt: skip
def test_a_group_that_cannot_be_right_is_refused(broken: Any, why: str) -> None:
    with pytest.raises(ReplyError, match=why):
        parse_cost_and_usage([page(broken)])


def test_a_day_over_two_pages_is_whole_and_a_repeated_group_counts_once() -> None:
    lines = parse_cost_and_usage([page(BOX), page(BOX, SPOT)])
    assert [line.usage_type for line in lines] == ["BoxUsage:g5.xlarge", "SpotUsage:g4dn.xlarge"]
    with pytest.raises(ReplyError, match="given twice with unlike amounts"):
        parse_cost_and_usage([page(BOX), page(group(EC2, "BoxUsage:g5.xlarge", UnblendedCost="1"))])


def test_every_page_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {None: page(BOX, NextPageToken="p1"), "p1": page(SPOT, day=28, estimated=True)}
    with scripted_aws(monkeypatch, lambda _, a: (200, answers[a.get("NextPageToken")])) as (aws, calls):
        lines = billed_lines(aws, start=START, end=END)
    assert [(line.charge_period_start.day, line.estimated) for line in lines] == [(27, False), (28, True)]
    assert [operation for operation, _ in calls] == ["GetCostAndUsage"] * 2
    first = calls[0][1]
    assert first["TimePeriod"] == {"Start": "2026-11-27", "End": "2026-11-29"}
    assert [g["Key"] for g in first["GroupBy"]] == ["SERVICE", "USAGE_TYPE"]


def test_a_token_that_repeats_is_an_error_and_not_a_bill_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        scripted_aws(monkeypatch, lambda *_: (200, page(BOX, NextPageToken="p1"))) as (aws, calls),
        pytest.raises(Unreachable, match="repeats"),
    ):
        billed_lines(aws, start=START, end=END)
    assert len(calls) == 8


def test_the_permission_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        scripted_aws(monkeypatch, lambda *_: (400, {"__type": "AccessDeniedException"})) as (aws, _),
        pytest.raises(AccessDenied, match="ce:GetCostAndUsage"),
    ):
        billed_lines(aws, start=START, end=END)


def test_an_empty_period_is_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_aws(monkeypatch, lambda *_: (200, {})) as (aws, calls), pytest.raises(ValueError, match="not after"):
        billed_lines(aws, start=END, end=END)
    assert not calls
