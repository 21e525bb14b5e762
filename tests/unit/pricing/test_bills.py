"""Bills in FOCUS and CUR 2.0, row by row. Figures by hand: g5.xlarge at 1.006 USD/h on demand, 0.7243 under a plan."""

from __future__ import annotations

import gzip
import random
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from bill_files import CUR_ROW, FOCUS_ROW, PLAN, RESERVATION, text_of, written

from pricing.bills.model import BilledAs, BilledLine, ChargeCategory, CostColumn, totals
from pricing.bills.read import open_bill
from pricing.bills.usage_types import usage_of
from pricing.errors import SheetError

D = Decimal


def read(path: Path) -> list[BilledLine]:
    with open_bill(path) as bill:
        return list(bill)


def focus(tmp_path: Path, **over: str) -> BilledLine:
    (line,) = read(written(tmp_path, FOCUS_ROW | over))
    return line


def cur(tmp_path: Path, **over: str) -> list[BilledLine]:
    return read(written(tmp_path, CUR_ROW | over))


def fault(path: Path) -> str:
    with pytest.raises(SheetError) as refused:
        read(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_focus_row_is_a_line(tmp_path: Path) -> None:
    assert focus(tmp_path) == BilledLine(
        provider="aws",
        charge_period_start=datetime(2026, 11, 27, 14, tzinfo=UTC),
        charge_period_end=datetime(2026, 11, 27, 15, tzinfo=UTC),
        billing_currency="USD",
        billed_cost=D("1.006"),
        effective_cost=D("1.006"),
        list_cost=D("1.006"),
        contracted_cost=D("1.006"),
        pricing_quantity=D(1),
        pricing_unit="Hours",
        consumed_quantity=D(1),
        consumed_unit="Hours",
        service="Amazon Elastic Compute Cloud",
        region="us-east-1",
        instance_type="g5.xlarge",
        usage_type="BoxUsage:g5.xlarge",
        purchase_option=BilledAs.ON_DEMAND,
        charge_category=ChargeCategory.USAGE,
        resource_id="i-0a1b",
        account="210987654321",
        billing_account="123456789012",
        tags={"team": "ml"},
        description="$1.006 per On Demand Linux g5.xlarge Instance Hour",
        estimated=False,
        source="bill.csv:2",
    )


@pytest.mark.parametrize(
    ("over", "option", "instance_type"),
    [
        ({}, "on_demand", "g5.xlarge"),
        ({"SkuMeter": "EUC1-SpotUsage:g4dn.xlarge", "PricingCategory": "Dynamic"}, "spot", "g4dn.xlarge"),
        ({"SkuMeter": "CapacityBlockFee:p5.48xlarge", "ChargeCategory": "Purchase", "EffectiveCost": "0"}, "capacity_block", "p5.48xlarge"),
        ({"SkuMeter": "BoxUsage:p5.48xlarge", "x_Operation": "RunInstances:CB"}, "capacity_block", "p5.48xlarge"),
        ({"PricingCategory": "Committed", "CommitmentDiscountId": PLAN, "CommitmentDiscountType": "Compute Savings Plans"}, "savings_plan", "g5.xlarge"),
        ({"PricingCategory": "Committed", "CommitmentDiscountId": RESERVATION, "CommitmentDiscountType": "Reserved"}, "reserved", "g5.xlarge"),
        ({"CommitmentDiscountId": PLAN}, "savings_plan", "g5.xlarge"),
        ({"SkuMeter": "HeavyUsage:p4d.24xlarge"}, "reserved", "p4d.24xlarge"),
        ({"SkuMeter": "UnusedBox:g5.xlarge"}, "on_demand", "g5.xlarge"),
        ({"SkuMeter": "EBS:VolumeUsage.gp3"}, None, None),
        ({"SkuMeter": "USE1-USW2-AWS-Out-Bytes"}, None, None),
        ({"ChargeCategory": "Tax", "SkuMeter": ""}, None, None),
    ],
)  # fmt: skip
def test_how_a_machine_was_paid(tmp_path: Path, over: dict[str, str], option: str | None, instance_type: str | None) -> None:  # fmt: skip
    line = focus(tmp_path, **over)
    assert (line.purchase_option, line.instance_type) == (option, instance_type)


def test_other_clouds_tell_by_pricing_category(tmp_path: Path) -> None:
    azure = {"ProviderName": "Microsoft", "SkuMeter": "ND96isr H100 v5", "ServiceSubcategory": "Virtual Machines"}
    spot = focus(tmp_path, **azure, PricingCategory="Dynamic", SkuPriceDetails='{"InstanceType": "Standard_ND96isr_H100_v5"}')  # fmt: skip
    assert (spot.provider, spot.purchase_option, spot.instance_type) == ("azure", "spot", "Standard_ND96isr_H100_v5")
    assert focus(tmp_path, **azure | {"ServiceSubcategory": "Object Storage"}).purchase_option is None
    covered = focus(tmp_path, **azure, PricingCategory="Committed", CommitmentDiscountType="Reservation")
    assert covered.purchase_option is BilledAs.RESERVED


BOOK = (
    FOCUS_ROW,
    FOCUS_ROW
    | {"BilledCost": "0", "EffectiveCost": "0.7243", "PricingCategory": "Committed", "CommitmentDiscountId": PLAN, "CommitmentDiscountStatus": "Used"},
    FOCUS_ROW
    | {"BilledCost": "0", "EffectiveCost": "4.1", "ListCost": "0", "ContractedCost": "0", "SkuMeter": "", "CommitmentDiscountId": PLAN, "CommitmentDiscountStatus": "Unused"},
    FOCUS_ROW | {"BilledCost": "10", "EffectiveCost": "0", "ChargeCategory": "Purchase", "SkuMeter": "", "CommitmentDiscountId": PLAN},
    FOCUS_ROW | {"BilledCost": "-0.006", "EffectiveCost": "-0.006", "ChargeCategory": "Credit", "SkuMeter": ""},
    FOCUS_ROW | {"BilledCost": "3.81", "BillingCurrency": "CNY", "InvoiceId": ""},
)  # fmt: skip


def test_one_column_is_summed_by_currency_and_never_two(tmp_path: Path) -> None:
    lines = read(written(tmp_path, *BOOK))
    billed, effective = totals(lines, CostColumn.BILLED), totals(lines, CostColumn.EFFECTIVE)
    assert [(t.currency, t.amount, t.lines) for t in billed] == [("CNY", D("3.81"), 1), ("USD", D("11.000"), 5)]
    assert {t.currency: t.amount for t in effective} == {
        "CNY": D("1.006"),
        "USD": D("5.8243"),
    }  # 1.006 + 0.7243 + 4.1 - 0.006
    assert [t.lines_estimated for t in billed] == [1, 0]
    assert [line.commitment_status for line in lines] == [None, "Used", "Unused", None, None, None]


@pytest.mark.parametrize(
    "over",
    [{"CommitmentDiscountId": PLAN, "SkuMeter": ""}, {"SkuMeter": "CapacityBlockFee:p5.48xlarge"}],
)
def test_a_purchase_for_later_use_must_not_be_counted_twice(tmp_path: Path, over: dict[str, str]) -> None:
    row = FOCUS_ROW | {"ChargeCategory": "Purchase", "BilledCost": "10", "EffectiveCost": "10"} | over
    assert "line 2: EffectiveCost: a purchase for later use has 0 here" in fault(written(tmp_path, row))
    assert (
        focus(tmp_path, ChargeCategory="Purchase", SkuMeter="", EffectiveCost="10").effective_cost == 10
    )  # a support fee


@pytest.mark.parametrize(
    ("over", "why"),
    [
        ({"BilledCost": ""}, "BilledCost: must not be empty"),
        ({"BilledCost": "1,234.50"}, "BilledCost: must be a number, without thousands marks, not '1,234.50'"),
        ({"EffectiveCost": "nan"}, "EffectiveCost: must be a number"),
        ({"PricingQuantity": "one"}, "PricingQuantity: must be a number, not 'one'"),
        ({"BilledCost": "1e999"}, "BilledCost: must be a number, not '1e999'"),
        ({"BilledCost": "2_490"}, "BilledCost: must be a number, not '2_490'"),
        ({"BilledCost": "1e-300"}, "BilledCost: must be a number, not '1e-300'"),
        ({"BillingCurrency": "$"}, "BillingCurrency: must be a currency code like USD"),
        ({"ChargePeriodStart": "2026-11-27 14:00:00"}, "ChargePeriodStart: must state its zone"),
        (
            {"ChargePeriodStart": "yesterday"},
            "ChargePeriodStart: must be a time like 2026-11-27T14:00:00Z, not 'yesterday'",
        ),
        ({"ChargePeriodStart": "0001-01-01T00:00:00+05:00"}, "ChargePeriodStart: must be a time like"),
        ({"ChargePeriodEnd": "2026-11-27T14:00:00Z"}, "ChargePeriodEnd: must be after ChargePeriodStart"),
        (
            {"ChargeCategory": "usage"},
            "ChargeCategory: must be one of Usage, Purchase, Tax, Credit, Adjustment, not 'usage'",
        ),
        ({"ChargeClass": "Correct"}, "ChargeClass: must be empty or Correction"),
        ({"CommitmentDiscountStatus": "Idle"}, "CommitmentDiscountStatus: must be Used, Unused or empty"),
        ({"ProviderName": ""}, "ProviderName: must not be empty"),
        ({"Tags": "team=ml"}, "Tags: must be a JSON object, not 'team=ml'"),
        ({"Tags": "[1]"}, "Tags: must be a JSON object"),
    ],
)
def test_a_row_that_cannot_be_right_is_named_by_line_and_column(tmp_path: Path, over: dict[str, str], why: str) -> None:
    told = fault(written(tmp_path, FOCUS_ROW, FOCUS_ROW | over))
    assert told.startswith(f"bill.csv: nothing was counted: line 3: {why}")


def test_a_bill_in_another_encoding_is_said_without_the_codecs_words(tmp_path: Path) -> None:
    path = written(tmp_path, FOCUS_ROW, FOCUS_ROW | {"ChargeDescription": "M\u00fcnchen"})
    path.write_bytes(path.read_text(encoding="utf-8").encode("latin-1"))
    told = fault(path)
    assert "UTF-8" in told
    assert "codec" not in told
    assert "Latin-1" in told


def test_every_fault_is_told_with_the_line_of_the_file(tmp_path: Path) -> None:
    long = FOCUS_ROW | {"ChargeDescription": "two\nlines"}
    rows = [long, FOCUS_ROW | {"BilledCost": "x"}, FOCUS_ROW, FOCUS_ROW | {"ListCost": "y"}]
    told = fault(written(tmp_path, *rows))
    assert "line 4: BilledCost" in told  # the first row takes lines 2 and 3
    assert "line 6: ListCost" in told
    many = fault(written(tmp_path, *[FOCUS_ROW | {"BilledCost": "x"}] * 50))
    assert many.count("BilledCost") == 20
    assert "reading ended after 20 faults" in many


def test_lines_after_a_fault_are_not_given_out(tmp_path: Path) -> None:
    given: list[BilledLine] = []
    with open_bill(written(tmp_path, FOCUS_ROW, FOCUS_ROW | {"BilledCost": "x"}, FOCUS_ROW)) as bill, pytest.raises(SheetError):  # fmt: skip
        given.extend(bill)
    assert len(given) <= 1


def test_a_bill_cut_in_its_last_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bill.csv"
    text = text_of([FOCUS_ROW, FOCUS_ROW])
    path.write_text(text[: text.rindex("i-0a1b")], encoding="utf-8")
    assert f"line 3: has 24 cells, the header {len(FOCUS_ROW)}" in fault(path)


def test_gzip_is_told_by_its_content_and_a_cut_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    whole = gzip.compress(text_of(BOOK).encode("utf-8-sig"))
    path.write_bytes(whole)
    plain = read(written(tmp_path, *BOOK))
    assert [line.billed_cost for line in read(path)] == [line.billed_cost for line in plain]
    path.write_bytes(whole[:-20])
    assert "is cut or damaged" in fault(path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"a,b\n1,2\n", "the header is of no known export"),
        (b"\xff\xfe\x00", "is no CSV file in UTF-8, gzip CSV or Parquet"),
        (b"ChargePeriodStart,ChargeCategory\n", "is FOCUS 1.0 and lacks BilledCost, EffectiveCost, ListCost, ContractedCost, BillingCurrency, ChargePeriodEnd, ProviderName"),
        (b"BilledCost,BilledCost\n", "the header names BilledCost twice"),
        (b"PAR1", "Parquet"),
    ],
)  # fmt: skip
def test_what_is_no_bill_is_refused_in_a_line(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "bill"
    path.write_bytes(content)
    assert why in fault(path)


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        ({"InvoiceId"}, "FOCUS 1.2"),
        ({"SkuMeter"}, "FOCUS 1.1"),
        (set(), "FOCUS 1.0"),
    ],
)
def test_the_header_says_which_version(tmp_path: Path, extra: set[str], name: str) -> None:
    row = {k: v for k, v in FOCUS_ROW.items() if k not in {"InvoiceId", "SkuMeter"} or k in extra}
    with open_bill(written(tmp_path, row | {"x_UsageType": "BoxUsage:g5.xlarge"})) as bill:
        (line,) = bill
        assert bill.format.name == name
    assert line.instance_type == "g5.xlarge"
    assert not line.estimated


def test_without_an_invoice_a_line_may_change(tmp_path: Path) -> None:
    assert focus(tmp_path, InvoiceId="").estimated
    assert cur(tmp_path, bill_invoice_id="")[0].estimated


def test_a_cur_row_is_a_line(tmp_path: Path) -> None:
    (line,) = cur(tmp_path)
    assert (line.provider, line.service, line.region, line.availability_zone) == (
        "aws",
        "AmazonEC2",
        "us-west-2",
        "us-west-2a",
    )
    assert (line.billed_cost, line.effective_cost, line.list_cost, line.contracted_cost) == (
        D("1.006"),
        D("1.006"),
        D("1.006"),
        None,
    )
    assert (line.instance_type, line.purchase_option, line.account) == ("g5.xlarge", "on_demand", "210987654321")
    assert (line.consumed_quantity, line.consumed_unit, line.tags) == (D("1.0"), "Hrs", {"user_team": "ml"})


def test_a_cur_spot_hour(tmp_path: Path) -> None:
    (line,) = cur(tmp_path, line_item_usage_type="SpotUsage:g4dn.xlarge", line_item_unblended_cost="0.22092")
    assert (line.purchase_option, line.instance_type) == ("spot", "g4dn.xlarge")


def test_an_hour_that_a_plan_covers_is_billed_once_and_its_negation_left_out(tmp_path: Path) -> None:
    covered = CUR_ROW | {
        "line_item_line_item_type": "SavingsPlanCoveredUsage",
        "savings_plan_savings_plan_a_r_n": PLAN,
        "savings_plan_savings_plan_effective_cost": "0.7243",
    }
    negation = covered | {"line_item_line_item_type": "SavingsPlanNegation", "line_item_unblended_cost": "-1.006"}
    with open_bill(written(tmp_path, covered, negation)) as bill:
        (line,) = bill
        assert bill.excluded == {"SavingsPlanNegation: the hour that it takes back is billed at 0 already": 1}
    assert (line.billed_cost, line.effective_cost, line.list_cost) == (0, D("0.7243"), D("1.006"))
    assert (line.purchase_option, line.commitment_status, line.commitment_id) == ("savings_plan", "Used", PLAN)


def test_a_plans_fee_is_a_purchase_and_its_unused_part_a_line_of_its_own(tmp_path: Path) -> None:
    fee = {
        "line_item_line_item_type": "SavingsPlanRecurringFee",
        "line_item_usage_type": "ComputeSP:1yrNoUpfront",
        "line_item_unblended_cost": "10",
        "savings_plan_savings_plan_a_r_n": PLAN,
        "savings_plan_total_commitment_to_date": "10",
        "savings_plan_used_commitment": "5.9",
        "product_instance_type": "",
    }
    bought, unused = cur(tmp_path, **fee)
    assert (bought.charge_category, bought.billed_cost, bought.effective_cost) == ("Purchase", 10, 0)
    assert (unused.charge_category, unused.billed_cost, unused.effective_cost) == ("Usage", 0, D("4.1"))
    assert unused.commitment_status == "Unused"
    assert len(cur(tmp_path, **fee | {"savings_plan_used_commitment": "10"})) == 1


def test_a_reservation_spreads_its_fee_over_its_hours(tmp_path: Path) -> None:
    hour = {"line_item_line_item_type": "DiscountedUsage", "line_item_unblended_cost": "0", "reservation_effective_cost": "0.63", "reservation_reservation_a_r_n": RESERVATION}  # fmt: skip
    (line,) = cur(tmp_path, **hour)
    assert (line.billed_cost, line.effective_cost, line.purchase_option, line.commitment_status) == (
        0,
        D("0.63"),
        "reserved",
        "Used",
    )
    upfront = {
        "line_item_line_item_type": "Fee",
        "line_item_unblended_cost": "2750",
        "reservation_reservation_a_r_n": RESERVATION,
    }
    (paid,) = cur(tmp_path, **upfront)
    assert (paid.billed_cost, paid.effective_cost, paid.charge_category) == (2750, 0, "Purchase")
    monthly = {"line_item_line_item_type": "RIFee", "line_item_unblended_cost": "180", "reservation_reservation_a_r_n": RESERVATION, "reservation_unused_recurring_fee": "12.5", "reservation_unused_amortized_upfront_fee_for_billing_period": "2.5"}  # fmt: skip
    assert [(x.billed_cost, x.effective_cost) for x in cur(tmp_path, **monthly)] == [(180, 0), (0, 15)]


def test_reservations_of_other_services_and_held_capacity_are_told_apart(tmp_path: Path) -> None:
    database = {
        "line_item_line_item_type": "Fee",
        "line_item_unblended_cost": "900",
        "line_item_usage_type": "HeavyUsage:db.r6g.large",
    }
    (fee,) = cur(tmp_path, **database, reservation_reservation_a_r_n="arn:aws:rds:us-east-1:123456789012:ri:my-ri")
    assert (fee.billed_cost, fee.effective_cost, fee.purchase_option) == (900, 0, "reserved")
    (held,) = cur(
        tmp_path, reservation_reservation_a_r_n="arn:aws:ec2:us-east-1:123456789012:capacity-reservation/cr-0a1b"
    )
    assert (held.effective_cost, held.purchase_option, held.commitment_id) == (D("1.006"), "on_demand", None)


def test_a_capacity_block_in_a_cur(tmp_path: Path) -> None:
    fee = {"line_item_line_item_type": "Fee", "line_item_usage_type": "USE1-CapacityBlockFee:p5.48xlarge", "line_item_unblended_cost": "755.14", "product_instance_type": ""}  # fmt: skip
    (line,) = cur(tmp_path, **fee)
    assert (line.purchase_option, line.instance_type, line.billed_cost, line.effective_cost) == ("capacity_block", "p5.48xlarge", D("755.14"), 0)  # fmt: skip


def test_negotiated_costs_go_before_the_others(tmp_path: Path) -> None:
    (line,) = cur(tmp_path, line_item_net_unblended_cost="0.91546")
    assert (line.billed_cost, line.effective_cost, line.list_cost) == (D("0.91546"), D("0.91546"), D("1.006"))
    (off,) = cur(tmp_path, line_item_line_item_type="EdpDiscount", line_item_unblended_cost="-0.09054", line_item_net_unblended_cost="0")  # fmt: skip
    assert (off.charge_category, off.billed_cost) == ("Adjustment", 0)


@pytest.mark.parametrize(
    ("over", "why"),
    [
        ({"line_item_line_item_type": "Usages"}, "line 2: line_item_line_item_type: unknown: 'Usages'"),
        ({"line_item_unblended_cost": ""}, "line 2: line_item_unblended_cost: must not be empty"),
        ({"line_item_line_item_type": "DiscountedUsage"}, "line 2: reservation_effective_cost: must not be empty for DiscountedUsage"),
    ],
)  # fmt: skip
def test_a_cur_row_that_cannot_be_right_is_named(tmp_path: Path, over: dict[str, str], why: str) -> None:
    assert why in fault(written(tmp_path, CUR_ROW | over))


def test_a_figure_that_no_line_has_is_unknown_and_not_zero(tmp_path: Path) -> None:
    (total,) = totals(cur(tmp_path), CostColumn.CONTRACTED)
    assert (total.amount, total.lines, total.lines_without) == (None, 0, 1)


@pytest.mark.parametrize(
    ("text", "sort", "instance_type"),
    [
        ("BoxUsage:g5.xlarge", "BoxUsage", "g5.xlarge"),
        ("USE1-BoxUsage:g5.xlarge", "BoxUsage", "g5.xlarge"),  # us-east-1 in some bills
        ("EU-SpotUsage:p6-b200.48xlarge", "SpotUsage", "p6-b200.48xlarge"),
        ("APN1-BoxUsage:u-6tb1.metal", "BoxUsage", "u-6tb1.metal"),
        ("BoxUsage", None, None),
        ("EBS:VolumeUsage.gp3", None, None),
        ("NatGateway-Hours", None, None),
        (None, None, None),
    ],
)
def test_usage_types(text: str | None, sort: str | None, instance_type: str | None) -> None:
    found = usage_of(text)
    assert (found.sort, found.instance_type) == (sort, instance_type)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "bill.parquet"
    path.write_bytes(b"PAR1" + b"\0" * 20 + b"PAR1")
    assert (
        fault(path)
        == "bill.parquet: nothing was counted: Parquet needs pyarrow: pip install 'gpu-cost-planner[parquet]'"
    )


def typed(row: Mapping[str, str]) -> dict[str, Any]:
    """Return a row with the types that an export to Parquet has: floats, timestamps, maps."""
    out: dict[str, Any] = {k: v or None for k, v in row.items()}
    for name, value in row.items():
        if name.endswith(("Cost", "_cost", "Quantity", "_amount")):
            out[name] = float(value)
        elif name.endswith(("PeriodStart", "PeriodEnd", "_date")):
            out[name] = datetime.fromisoformat(value).replace(tzinfo=None)
        elif name in ("Tags", "resource_tags", "product"):
            out[name] = {"team": "ml"}
    return out


@pytest.mark.parametrize("row", [FOCUS_ROW, CUR_ROW])
def test_parquet_gives_the_same_line_as_csv(tmp_path: Path, row: dict[str, str]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    tags = pyarrow.map_(pyarrow.string(), pyarrow.string())
    rows = [typed(row) for _ in range(3)]
    schema = pyarrow.schema(
        [
            (
                name,
                tags
                if isinstance(value, dict)
                else pyarrow.array([value]).type
                if value is not None
                else pyarrow.string(),
            )
            for name, value in rows[0].items()
        ]
    )
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), tmp_path / "bill.parquet")
    (from_csv,) = read(written(tmp_path, row))
    got = read(tmp_path / "bill.parquet")
    assert [line.source for line in got] == ["bill.parquet:1", "bill.parquet:2", "bill.parquet:3"]
    for name in (
        "billed_cost",
        "effective_cost",
        "consumed_quantity",
        "charge_period_end",
        "instance_type",
        "purchase_option",
    ):
        assert getattr(got[2], name) == getattr(from_csv, name)
    assert got[0].tags == {"team": "ml"}
    assert got[0].charge_period_end - got[0].charge_period_start == timedelta(hours=1)


def test_a_cut_parquet_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "bill.parquet"
    path.write_bytes(b"PAR1" + b"\0" * 100)
    assert "is no whole Parquet file" in fault(path)


@pytest.mark.parametrize("form", ["csv", "gzip"])
def test_damage_anywhere_is_a_line_and_never_a_crash(tmp_path: Path, form: str) -> None:
    """Bytes are changed, cut and added at random places: what comes is lines, or the one error of a refused bill."""
    rng, path = random.Random(20261130), tmp_path / "bill"
    plain = text_of(BOOK).encode()
    whole = gzip.compress(plain, mtime=0) if form == "gzip" else plain
    outcomes = set()
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 2, 4])):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        path.write_bytes(data)
        try:
            outcomes.add("read" if read(path) else "no lines")
        except SheetError as e:
            outcomes.add("refused" if "\n" not in str(e) else "refused in several lines")
    assert outcomes <= {"read", "no lines", "refused"}
    assert "refused" in outcomes
