"""The verbs about prices, in process, on the shipped tables and on snapshots published beside them. Figures: AWS's public price lists."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from planner.cli.main import main
from planner.cli.verbs.prices_history import HISTORY_COLUMNS


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("PLANNER_DATABASE_URL", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "data"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


P5 = ("prices", "history", "p5.48xlarge", "--region", "us-east-1")


def test_the_cut_of_june_2025_in_80_columns(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, *P5, "--purchase", "on_demand")
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out, "no colour in a pipe"
    (row,) = [line for line in out.splitlines() if "-44.0 %" in line]
    assert row.split()[:3] == ["us-east-1", "on-demand", "55.04"]
    assert "2025-06-23" in row
    assert any(line.startswith("98.32 ┤━") for line in out.splitlines())
    assert any(line.startswith("55.04 ┤ ") for line in out.splitlines())
    assert not data.exists(), "nothing is written"


def test_history_as_csv_and_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(said(capsys, *P5, "--purchase", "on_demand", "--format", "csv"))))
    assert tuple(rows[0]) == HISTORY_COLUMNS
    assert [(r["unit_price"], r["change_fraction"]) for r in rows] == [("98.32", ""), ("55.04", "-0.440195")]
    document = json.loads(said(capsys, *P5, "--purchase", "on_demand", "--format", "json"))
    assert [p["unit_price"] for p in document["periods"]] == ["98.32", "55.04"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("history",), "planner prices history: TYPE is missing"),
        (("history", "p5.48xlrge"), "planner prices history: unknown instance type 'p5.48xlrge'; did you mean p5.48xlarge"),
        (("history", "p5.48xlarge", "--since", "June"), "planner prices history: --since: 'June' is not a day; write it as YYYY-MM-DD"),
        (("history", "p5.48xlarge", "--since", "2025-02-01", "--until", "2025-01-31"), "planner prices history: --since: '2025-02-01' is after until, 2025-01-31"),
        (("history", "p5.48xlarge", "--region", "us-esat-1"), "planner prices history: --region: unknown region 'us-esat-1'; did you mean us-east-1"),
        (("list", "--family", "p55"), "planner prices list: --family: unknown family 'p55'; did you mean p5"),
        (("list", "--max-price", "cheap"), "planner prices list: --max-price: 'cheap' is not an amount; write it as 55, 55.04 or 1_000"),
        (("list", "--max-price", "nan"), "planner prices list: --max-price: 'nan' is not an amount"),
        (("list", "--sort", "prise"), "planner prices list: --sort: 'prise' is not one of price, instance, region, purchase, newest; did you mean price?"),
        (("list", "--term", "2"), "planner prices list: --term: unknown term '2'; did you mean 1 or 3?"),
    ],
)  # fmt: skip
def test_a_bad_request_is_one_line(
    words: tuple[str, ...], complaint: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prices", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(complaint)
    assert err.count("\n") == 1


def test_the_cheapest_of_a_chip(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """AWS's public list, July 2026: p5.4xlarge 6.88 and p5.48xlarge 55.04 in us-east-1."""
    words = ("prices", "list", "--accelerator", "H100", "--provider", "aws", "--region", "us-east-1")
    out = said(capsys, *words, "--purchase", "on_demand", "--sort", "price", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(r["instance_type"], r["effective_unit_price"]) for r in rows] == [("p5.4xlarge", "6.88"), ("p5.48xlarge", "55.04")]  # fmt: skip
