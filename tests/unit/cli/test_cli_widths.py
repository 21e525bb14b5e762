"""Tables at any width: a figure is whole or its column is named as left out; texts are wrapped between words, never cut."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from planner.cli.billed_table import billed_text
from planner.cli.history_table import history_text
from planner.cli.import_table import import_text
from planner.cli.list_tables import prices_text
from planner.cli.market_tables import aged, availability_text, diff_text, snapshots_text
from planner.cli.paint import Cell, Column, rendered, table
from planner.cli.refresh_table import refresh_text

NOW = datetime(2026, 7, 20, 12, tzinfo=UTC)
AT = "2026-07-20T10:00:00Z"
WIDTHS = (64, 72, 80, 100, 120)

PLAN = {
    "provider": "aws",
    "instance_type": "p6e-gb200.36xlarge",
    "region": "ap-northeast-1",
    "availability_zone_id": None,
    "availability_zone": None,
    "purchase_option": "savings_plan_1yr",
    "plan_type": "ec2_instance",
    "offering_class": None,
    "term_years": 1,
    "payment_option": "partial_upfront",
    "currency": "USD",
    "unit": "Hrs",
    "source": "test list",
}
SPOT = PLAN | {
    "purchase_option": "spot",
    "plan_type": None,
    "term_years": None,
    "payment_option": None,
    "availability_zone_id": "apne1-az4",
    "currency": "CNY",
}


def cells(text: str) -> str:
    """Return a table's words, each line's gaps as one blank: a wrapped name is whole but for its line."""
    return " ".join(text.split())


def amounts(text: str) -> list[str]:
    return re.findall(r"[\d,]+\.\d+", text)


@pytest.mark.parametrize("width", WIDTHS)
def test_prices_list(width: int) -> None:
    more = {"sku": None, "rate_code": None, "effective_from": None, "retrieved_at": AT, "contracted_unit_price": None, "upfront": None, "at_on_demand_cap": None}  # fmt: skip
    rows: list[dict[str, Any]] = [
        PLAN | more | {"list_unit_price": "761.904", "effective_unit_price": "761.904"},
        SPOT | more | {"list_unit_price": "1234.56", "effective_unit_price": "1234.56"},
    ]
    document = {"snapshot_id": "0123456789abcdef", "as_of": AT, "prices": rows}
    text = prices_text(document, found=2, marks=[(False, False), (True, True)], width=width, colour=False)
    assert {"761.90", "1,234.56"} <= set(amounts(text))
    assert "1,234.56 CNY" in text
    assert "…" not in text
    for part in ("p6e-gb200.36xlarge", "savings", "plan", "1yr", "ec2", "instance", "ap-northeast-1"):
        assert part in text.split()
    assert "!: stale, older than 24 h for spot, 30 days for on-demand, 90 days for commitments" in cells(text)
    assert "cap: at the on-demand price" in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_prices_diff(width: int) -> None:
    ends = {"snapshot_id": "0123456789abcdef", "day": "2026-07-20", "published_at": AT}
    document = {
        "from": ends,
        "to": ends,
        "changed": [PLAN | {"old_unit_price": "1761.904", "new_unit_price": "1234.5678", "change_fraction": -0.299}],
        "added": [SPOT | {"unit_price": "4321.98"}],
        "removed": [PLAN | {"unit_price": "0.0123456", "currency": "CNY"}],
        "unchanged": 12,
    }
    text = diff_text(document, most=30, smaller=0, least_percent=0, width=width, colour=False)
    assert {"1,761.90", "1,234.57", "4,321.98", "0.012"} <= set(amounts(text))
    assert "-29.9 %" in text
    assert "…" not in text
    assert "savings plan 1yr" in cells(text)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_prices_history_and_its_statistics(width: int) -> None:
    kept = {"first_seen": "2026-01-01T00:00:00Z", "last_seen": AT, "change_fraction": None, "listed": False}
    figures = {
        "last_unit_price": "1001.11",
        "median_unit_price": "1002.22",
        "mean_unit_price": "1003.33",
        "p95_unit_price": "1004.44",
        "minimum_unit_price": "1005.55",
        "maximum_unit_price": "1006.66",
    }
    document = {
        "instance_type": "p6e-gb200.36xlarge",
        "provider": "aws",
        "snapshot_id": "0123456789abcdef",
        "as_of": AT,
        "periods": [PLAN | kept | {"unit_price": "761.904"}],
        "spot_changes": [],
        "spot_statistics": [
            SPOT
            | figures
            | {
                "volatility_fraction": 0.25,
                "at_on_demand_cap_fraction": 0.5,
                "changes": 12,
                "observed_fraction": 0.1,
                "window_start": "2026-06-20T10:00:00Z",
                "window_end": AT,
            }
        ],
    }
    text = history_text(document, most=40, spot_hint="", seen_until={}, now=NOW, width=width, colour=False)
    assert {"761.90", "1,001.11"} <= set(amounts(text))
    left_out = re.findall(r"left out at this width: (.*(?:\n[A-Z].*)?)", text)
    for title, amount in (("Mean", "1,003.33"), ("Least", "1,005.55"), ("Most", "1,006.66")):
        assert amount in text or title in cells(" ".join(left_out))
    assert "10 % of the time" in cells(text), "what is known of the window is said at every width"
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_prices_availability(width: int) -> None:
    document = {
        "instance_type": "p6e-gb200.36xlarge",
        "region": "ap-northeast-1",
        "snapshot_id": "0123456789abcdef",
        "as_of": AT,
        "zones": [
            {"availability_zone_id": "apne1-tpe1-az1", "availability_zone": "ap-northeast-1-tpe-1a", "offered": True, "spot_unit_price": "1234.56",
             "currency": "CNY", "spot_at_on_demand_cap": True, "spot_retrieved_at": AT, "retrieved_at": AT, "source": "test", "spot_since": AT}
        ],
        "spot_statistics": [],
        "interruption": None,
        "placement_scores": [
            {"availability_zone_id": None, "score": 7, "target_capacity": 1, "target_unit": "units", "instance_types": "p6e-gb200.36xlarge, p6-b200.48xlarge, p5en.48xlarge, p5.48xlarge", "retrieved_at": AT}
        ],
        "capacity_blocks": [
            {"starts_at": AT, "minutes": 1440, "instance_count": 64, "availability_zone_id": "apne1-az4", "availability_zone": None, "upfront": "1234567.89", "currency": "CNY",
             "unit_price": "761.904", "retrieved_at": AT}
        ],
        "quotas": [],
        "quota_codes": [{"code": "L-417A185B", "purchase_option": "on_demand", "families": "p"}],
    }  # fmt: skip
    text = availability_text(document, now=NOW, width=width, colour=False)
    assert {"1,234.56", "761.90"} <= set(amounts(text))
    assert "1,234,568 CNY" in text
    for name in ("p6e-gb200.36xlarge,", "p6-b200.48xlarge,", "p5en.48xlarge,", "apne1-tpe1-az1"):
        assert name in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_prices_billed(width: int) -> None:
    line = {
        "charge_period_start": AT,
        "instance_type": None,
        "usage_type": "APN1-DataTransfer-Regional-Bytes:p6e-gb200.36xlarge.Something",
        "description": None,
        "service": "Amazon Elastic Compute Cloud",
        "purchase_option": "savings_plan_1yr",
        "charge_category": "Adjustment",
        "commitment_status": "Unused",
        "region": "ap-northeast-1",
        "consumed_quantity": "1234.5",
        "consumed_unit": "Hrs",
        "pricing_quantity": None,
        "pricing_unit": None,
        "billed_cost": "1234567.89",
        "billing_currency": "CNY",
        "account": "123456789012",
    }
    document = {
        "lines": [line],
        "found": 1,
        "cost_column": "billed",
        "source": "bill.csv",
        "format": "FOCUS 1.0",
        "excluded": {},
        "totals": [],
    }
    text = billed_text(document, width=width, colour=False)
    assert "1,234,567.89 CNY" in text
    assert "…" not in text
    assert "APN1-DataTransfer-Regional-Byt" in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_prices_import(width: int) -> None:
    changed = PLAN | {"old_unit_price": "1761.904", "new_unit_price": "1234.5678", "change_fraction": -0.299, "old_currency": "USD"}  # fmt: skip
    document = {
        "kind": "price sheet",
        "name": "acme",
        "did": "imported",
        "dry_run": False,
        "snapshot_id": "0123456789abcdef",
        "previous_snapshot_id": "fedcba9876543210",
        "changes": {"new": [SPOT | {"effective_unit_price": "4321.98"}], "changed": [changed], "withdrawn": []},
        "instance_types_added": [],
        "notices": [],
    }
    text = import_text(document, width=width, colour=False)
    assert {"1,761.90", "1,234.57", "4,321.98"} <= set(amounts(text))
    assert "4,321.98 CNY" in text
    assert "…" not in text
    assert {"savings", "plan", "1yr", "partial", "upfront,", "ec2", "instance"} <= set(text.split())
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_prices_snapshots(width: int) -> None:
    row = {"snapshot_id": "0123456789abcdef", "day": "2026-07-20", "origin": "shipped", "as_of": AT, "age_hours": 3000, "quotes": 1234567, "instance_types": 1234, "bytes": 12_345_678}  # fmt: skip
    text = snapshots_text({"snapshots": [row], "unreadable": []}, found=1, folder="/tmp", width=width, colour=False)
    assert "0123456789abcdef" in text
    assert "1,234,567" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


def test_a_figure_that_is_dated_ahead_has_no_age() -> None:
    """Clocks differ by an hour at most; a day without an hour can be the next one by the time zone."""
    ahead = {"snapshot_id": "0123456789abcdef", "day": "2026-07-21", "origin": "refresh", "as_of": "2026-07-20T14:00:00Z", "age_hours": 0, "quotes": 1, "instance_types": 1, "bytes": 1}  # fmt: skip
    text = snapshots_text({"snapshots": [ahead], "unreadable": []}, found=1, folder="/tmp", width=120, colour=False, now=NOW)  # fmt: skip
    assert "2026-07-20, in the future: check the clock" in text
    assert "less than an hour old" not in text
    assert aged("2026-07-20T12:30:00Z", NOW) == "less than an hour old"
    assert aged("2026-07-20T13:30:00Z", NOW) == aged("2026-07-22", NOW) == "in the future: check the clock"
    assert aged("2026-07-21", NOW) == aged("2026-07-20", NOW) == "today"


@pytest.mark.parametrize("width", WIDTHS)
def test_prices_refresh(width: int) -> None:
    def asked(region: str, state: str) -> dict[str, Any]:
        return {"source": "savings_plan_files", "region": region, "state": state, "rows": 1234567, "excluded": {"a": 7654321}, "published": AT, "why": None, "kept_as_of": None}  # fmt: skip

    document = {
        "sources": [asked("us-east-1", "failed"), asked("eu-west-1", "resumed")],
        "published": True,
        "snapshot_id": "0123456789abcdef",
        "quotes": 1,
        "complete": False,
        "changes": {"new": 0, "changed": 0, "withdrawn": 0, "unchanged": 1},
        "notices": [],
        "faults": [],
        "alerts": [],
    }
    text = refresh_text(document, width=width, colour=False)
    assert "2,469,134" in text
    assert "savings_plan_files" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", range(64, 140, 4))
def test_no_table_cuts_a_figure_or_a_word(width: int) -> None:
    columns = [
        Column("Name", cells=[Cell("a rather long name of several words", "and what qualifies it")]),
        Column("Other name", cells=[Cell("another long name")]),
        *(Column(f"C{n}", right=True, keep=n % 3, cells=[Cell(f"{n}23,456.78")]) for n in range(1, 7)),
    ]
    text = rendered(table(columns, width), width=width, colour=False)
    assert "…" not in text
    left_out = text.partition("left out at this width: ")[2].split(", ")
    for n in range(1, 7):
        assert (f"{n}23,456.78" in text) != (f"C{n}" in [name.strip() for name in left_out])
    for word in ["a", "rather", "long", "name", "of", "several", "words", "another", "and", "what", "qualifies", "it"]:
        assert word in text.split()


def test_what_fits_no_table_is_cards() -> None:
    columns = [Column(f"C{n}", right=True, cells=[Cell(f"{n}23,456,789.01")]) for n in range(1, 9)]
    text = rendered(table(columns, 80), width=80, colour=False)
    assert all(f"{n}23,456,789.01" in text for n in range(1, 9))
    assert "C8: 823,456,789.01" in text


def test_many_imported_changes_are_summed_up_by_family_and_way_to_buy() -> None:
    def moved(n: int, kind: str, option: str, share: float) -> dict[str, Any]:
        return PLAN | {"instance_type": f"{kind}.x{n}", "region": f"r-{n % 3}", "purchase_option": option, "old_unit_price": "10", "new_unit_price": "9", "change_fraction": share, "old_currency": "USD"}  # fmt: skip

    changed = [moved(n, "p5", "on_demand", -0.1) for n in range(40)]
    changed += [moved(n, "g6", "spot", -0.05 if n else -0.15) for n in range(12)]
    document = {
        "kind": "agreement",
        "name": "edp",
        "did": "imported",
        "dry_run": False,
        "snapshot_id": "0123456789abcdef",
        "previous_snapshot_id": "fedcba9876543210",
        "changes": {"new": [SPOT | {"effective_unit_price": "1"}], "changed": changed, "withdrawn": []},
        "instance_types_added": [],
        "notices": [],
    }
    lines = [" ".join(line.split()) for line in import_text(document, width=80, colour=False).splitlines()]
    assert "p5 on-demand 3 40 -10.0 %" in lines
    assert "g6 spot 3 12 -15.0 to -5.0 %" in lines
    assert "p6e-gb200 spot 1 1 new" in lines
    assert "53 changes summed up; --format csv gives each with its prices" in lines
    assert not any("p5.x1" in line for line in lines)
