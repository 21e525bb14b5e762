"""Lines of a bill and the sum of one cost. Figures by hand: an hour at 1.006, one that a plan covers at 0.7243, a block of 755.14 USD."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from planner.recommend.errors import BadRequest
from planner.services.list_billed import list_billed
from pricing.bills.model import BilledAs, BilledLine, ChargeCategory, CostColumn

START = datetime(2026, 11, 27, 14, tzinfo=UTC)


def line(billed: str | None, effective: str | None, *, start: datetime = START, **over: Any) -> BilledLine:
    known: dict[str, Any] = {"provider": "aws", "billing_currency": "USD", "source": "bill.csv:2", "instance_type": "g5.xlarge", "region": "us-east-1"}  # fmt: skip
    return BilledLine(
        charge_period_start=start,
        charge_period_end=start + timedelta(hours=1),
        billed_cost=None if billed is None else Decimal(billed),
        effective_cost=None if effective is None else Decimal(effective),
        **(known | over),
    )


LINES = (
    line(
        "1.006", "1.006", purchase_option=BilledAs.ON_DEMAND, charge_category=ChargeCategory.USAGE, tags={"team": "ml"}
    ),
    line("0", "0.7243", purchase_option=BilledAs.SAVINGS_PLAN, estimated=True),
    line("755.14", "0", instance_type="p5.48xlarge", start=datetime(2026, 11, 28, tzinfo=UTC)),
    line("3.81", None, billing_currency="CNY", region="cn-north-1"),
)


def listed(**over: Any) -> dict[str, Any]:
    return list_billed(LINES, source="bill.csv", form="FOCUS 1.2", **over)


def test_one_cost_is_summed_for_each_currency() -> None:
    assert listed()["totals"] == [
        {"currency": "CNY", "amount": "3.81", "lines": 1, "lines_without": 0, "lines_estimated": 0},
        {"currency": "USD", "amount": "756.146", "lines": 3, "lines_without": 0, "lines_estimated": 1},
    ]
    effective = listed(column=CostColumn.EFFECTIVE)
    assert effective["cost_column"] == "effective"
    assert [(t["amount"], t["lines_without"]) for t in effective["totals"]] == [(None, 1), ("1.7303", 0)]


def test_a_line_is_plain_values() -> None:
    first = listed()["lines"][0]
    assert first["charge_period_start"] == "2026-11-27T14:00:00Z"
    assert (first["billed_cost"], first["list_cost"], first["purchase_option"], first["charge_category"]) == ("1.006", None, "on_demand", "Usage")  # fmt: skip
    assert type(first["purchase_option"]) is str
    assert first["tags"] == {"team": "ml"}


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"instance_types": ["P5.48xlarge"]}, 1),
        ({"regions": ["cn-north-1"]}, 1),
        ({"start": date(2026, 11, 28)}, 1),
        ({"end": date(2026, 11, 28)}, 3),  # the end is not in the period
        ({"start": date(2026, 11, 27), "end": date(2026, 11, 29)}, 4),
        ({"instance_types": ["g5.2xlarge"]}, 0),
    ],
)
def test_filters(filters: dict[str, Any], found: int) -> None:
    document = listed(**filters)
    assert document["found"] == len(document["lines"]) == found
    assert sum(t["lines"] for t in document["totals"]) == found


def test_totals_count_every_line_however_few_are_shown() -> None:
    document = listed(most=1)
    assert (len(document["lines"]), document["found"]) == (1, 4)
    assert document["totals"] == listed()["totals"]


def test_rows_left_out_are_counted() -> None:
    assert listed()["excluded"] == {}
    assert listed(excluded={"taken back": 2})["excluded"] == {"taken back": 2}


def test_a_period_ends_after_it_starts() -> None:
    with pytest.raises(BadRequest, match="is not after"):
        listed(start=date(2026, 12, 1), end=date(2026, 12, 1))
