"""`planner prices billed`, on a bill written here and on a Cost Explorer that answers from this machine."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from planner.cli.main import main
from pricing.errors import AccessDenied

HEADER = "BilledCost,EffectiveCost,ListCost,ContractedCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ProviderName,SkuMeter,RegionId,ChargeDescription"
HOUR = "2026-11-27T14:00:00Z,2026-11-27T15:00:00Z,AWS"


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def bill(tmp_path: Path) -> str:
    path = tmp_path / "bill.csv"
    rows = [
        f"1.006,1.006,1.006,1.006,USD,Usage,{HOUR},BoxUsage:g5.xlarge,us-east-1,",
        f"755.14,0,755.14,755.14,USD,Purchase,{HOUR},CapacityBlockFee:p5.48xlarge,us-east-1,",
        f"-2.5,-2.5,0,0,USD,Credit,{HOUR},,,=cmd",
    ]
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return str(path)


def test_a_table_ends_with_the_sum_of_one_cost(bill: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "billed", bill]) == 0
    text = capsys.readouterr().out
    assert "753.65 USD billed" in text  # 1.006 + 755.14 - 2.5
    assert "capacity block, purchase" in text
    assert main(["prices", "billed", bill, "--cost", "effective"]) == 0
    assert "-1.49 USD effective" in capsys.readouterr().out


def test_json_and_csv_have_every_line(bill: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "billed", bill, "--format", "json", "--instance", "p5.48xlarge"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [line["billed_cost"] for line in document["lines"]] == ["755.14"]
    assert document["totals"][0]["amount"] == "755.14"
    assert main(["prices", "billed", bill, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["billed_cost"] for row in rows] == ["1.006", "755.14", "-2.5"]
    assert rows[2]["description"] == "'=cmd"  # no formula of a spreadsheet


def test_a_limit_shows_fewer_lines_and_sums_all(bill: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "billed", bill, "--limit", "1"]) == 0
    text = capsys.readouterr().out
    assert "1 of 3 lines of bill.csv (FOCUS 1.1)" in text
    assert "753.65 USD billed" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "FILE is missing"),
        ([""], "FILE is empty: give an export"),
        ([".", "--cost", "list"], ".: is a folder; give a plain file"),
        (["none.csv"], "none.csv: No such file or directory"),
        (["BILL", "--from-aws"], "--from-aws: excludes FILE"),
        (["--from-aws", "--start", "2026-11-27"], "--from-aws: needs --start and --end"),
        (["--from-aws", "--start", "2026-11-27", "--end", "2026-11-28", "--region", "x"], "--region: Cost Explorer's lines are by"),
        (["BILL", "--cost", "efective"], "--cost: 'efective' is not one of billed, effective, list, contracted; did you mean effective?"),
        (["BILL", "--profile", "x"], "--profile: goes with --from-aws"),
        (["BILL", "--start", "2026-11-28", "--end", "2026-11-28"], "--end: '2026-11-28' is not after --start 2026-11-28"),
        (["BILL", "--limit", "0"], "--limit: 0 must be at least 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_in_a_line(words: list[str], said: str, bill: str, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    assert main(["prices", "billed", *[bill if word == "BILL" else word for word in words]]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err


def test_a_faulty_bill_gives_no_part_of_an_answer(bill: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(bill)
    path.write_text(path.read_text(encoding="utf-8").replace("-2.5,-2.5", "x,-2.5"), encoding="utf-8")
    for form in ("table", "json", "csv"):
        assert main(["prices", "billed", bill, "--format", form]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "bill.csv: nothing was counted: line 4: BilledCost: must be a number, not 'x'" in err


def test_cost_explorer_that_refuses_is_a_source_that_is_unavailable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    def refuse(*_: object, **__: object) -> None:
        raise AccessDenied(
            source="AWS Cost Explorer", permission="ce:GetCostAndUsage", why="access denied to ce:GetCostAndUsage"
        )

    monkeypatch.setattr("pricing.aws.cost_explorer.billed_lines", refuse)
    assert main(["prices", "billed", "--from-aws", "--start", "2026-11-27", "--end", "2026-11-28"]) == 4
    assert capsys.readouterr().err == "planner prices billed: AWS Cost Explorer: access denied to ce:GetCostAndUsage\n"


@pytest.mark.parametrize(("flag", "variable"), [(["--profile", "nosuch"], ""), ([], "nosuch")])
def test_a_profile_that_is_none_is_refused_as_a_refresh_refuses_it(flag: list[str], variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    if variable:
        monkeypatch.setenv("AWS_PROFILE", variable)
    assert main(["prices", "billed", "--from-aws", "--start", "2026-11-27", "--end", "2026-11-28", *flag]) == 2
    assert f"{'AWS_PROFILE' if variable else '--profile'}: unknown profile 'nosuch'" in capsys.readouterr().err


def test_an_address_with_a_password_is_refused_unsaid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:SEC/RET@127.0.0.1:1")
    assert main(["prices", "billed", "--from-aws", "--start", "2026-11-27", "--end", "2026-11-28"]) == 2
    said = capsys.readouterr().err
    assert "AWS_ENDPOINT_URL: must be http(s)://" in said
    assert "SEC" not in said
