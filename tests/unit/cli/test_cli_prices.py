"""The verbs about prices, in process, on the shipped tables and on snapshots published beside them. Figures: AWS's public price lists."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from planner.bootstrap import open_catalog, open_store
from planner.cli.history_table import history_text
from planner.cli.list_tables import prices_text
from planner.cli.main import main
from planner.cli.market_tables import aged, availability_text
from planner.cli.verbs.prices_diff import DIFF_COLUMNS
from planner.cli.verbs.prices_history import HISTORY_COLUMNS
from planner.services.list_rates import RATE_FIELDS
from pricing.market import SpotChange
from pricing.model import PurchaseOption
from pricing.snapshot import open_snapshot, shipped_snapshot_path, write_snapshot


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
    assert row.split()[:3] == ["on-demand", "55.04", "-44.0"]
    assert " in us-east-1" in out.splitlines()[0]
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


MOVED_TO = datetime(2026, 11, 30, 12, tzinfo=UTC)


def publish_moved(folder: Path) -> str:
    """Publish the shipped snapshot with the on-demand price of p5.48xlarge in us-east-1 a tenth higher, and that of g5.xlarge gone."""
    with open_snapshot(shipped_snapshot_path()) as shipped:
        contents = shipped.contents()
    quotes = []
    for q in contents.quotes:
        place = (q.provider, q.instance_type, q.region, q.purchase_option)
        if place == ("aws", "g5.xlarge", "us-east-1", PurchaseOption.ON_DEMAND):
            continue
        dearer = place == ("aws", "p5.48xlarge", "us-east-1", PurchaseOption.ON_DEMAND)
        quotes.append(dataclasses.replace(q, effective_unit_price=Decimal("60.544")) if dearer else q)
    moved = dataclasses.replace(contents, quotes=tuple(quotes))
    meta = write_snapshot(folder / "snapshots" / "2026-11-30-x.sqlite", moved, published_at=MOVED_TO, origin="refresh")
    return meta.snapshot_id


def test_diff_of_two_snapshots(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = publish_moved(data)
    out = said(capsys, "prices", "diff", "shipped", new[:8])
    assert max(map(len, out.splitlines())) <= 80
    (row,) = [line for line in out.splitlines() if "+10.0 %" in line]  # 55.04 x 1.1 = 60.544
    assert row.split() == ["p5.48xlarge", "on-demand", "us-east-1", "55.04", "60.54", "+10.0", "%"]
    with open_snapshot(shipped_snapshot_path()) as shipped:
        rest = shipped.meta.quote_count - 2
    assert out.splitlines()[-1] == f"1 changed, 0 added, 1 removed, {rest:,} unchanged"
    less = said(capsys, "prices", "diff", "shipped", "latest", "--min-change", "11")
    assert less.splitlines()[-1] == f"0 changed by 11 % or more, 1 by less, 0 added, 1 removed, {rest:,} unchanged"
    rows = list(csv.DictReader(io.StringIO(said(capsys, "prices", "diff", "2026-07-21", "latest", "--format", "csv"))))
    assert tuple(rows[0]) == DIFF_COLUMNS
    assert [(r["state"], r["instance_type"], r["old_unit_price"], r["new_unit_price"]) for r in rows] == [
        ("changed", "p5.48xlarge", "55.04", "60.544"),
        ("removed", "g5.xlarge", "1.006", ""),
    ]
    document = json.loads(
        said(capsys, "prices", "diff", "shipped", "latest", "--min-change", "11%", "--format", "json")
    )
    assert (document["changed"], len(document["removed"])) == ([], 1)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("shipped",), "planner prices diff: SNAP2 is missing"),
        (("shiped", "latest"), "planner prices diff: SNAP1: unknown snapshot 'shiped'; did you mean shipped?; `planner prices snapshots` lists them"),
        (("shipped", "2026-02-30"), "planner prices diff: SNAP2: '2026-02-30' is not a day (day "),
        (("2001-01-01", "latest"), "planner prices diff: SNAP1: '2001-01-01' is before the oldest price snapshot here"),
        (("shipped", "latest", "--min-change", "some"), "planner prices diff: --min-change: 'some' is not an amount"),
        (("shipped", "latest", "--min-change=-5%"), "planner prices diff: --min-change: '-5%' must be at least 0"),
        (("shipped", "latest", "--region", "us-esat-1"), "planner prices diff: --region: unknown region 'us-esat-1'; did you mean us-east-1"),
    ],
)  # fmt: skip
def test_a_diff_that_cannot_be(
    words: tuple[str, ...], complaint: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prices", "diff", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(complaint)
    assert err.count("\n") == 1


def test_snapshots_that_are_kept_and_one_that_cannot_be_read(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = publish_moved(data)
    (data / "snapshots" / "2026-08-01-0123456789abcdef.sqlite").write_bytes(b"torn")
    document = json.loads(said(capsys, "prices", "snapshots", "--format", "json"))
    first, second = document["snapshots"]
    assert (first["snapshot_id"], first["origin"], first["day"], first["published_at"]) == (new, "refresh", "2026-11-30", "2026-11-30T12:00:00Z")  # fmt: skip
    assert (second["origin"], second["day"]) == ("shipped", "2026-07-20")
    assert second["bytes"] == shipped_snapshot_path().stat().st_size
    assert second["quotes"] == first["quotes"] + 1
    (bad,) = document["unreadable"]
    assert "not a price snapshot" in bad["why"]
    out = said(capsys, "prices", "snapshots")
    assert out.splitlines()[2].startswith(f"{new}  2026-11-30  refresh"), "what answers use stands first"
    assert "Cannot be read: " in " ".join(out.split())
    assert said(capsys, "prices", "snapshots", "--limit", "1").count("shipped") == 0


def test_availability_says_what_is_not_known_and_what_the_cap_means(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = said(capsys, "prices", "availability", "p5.48xlarge")
    assert "p5.48xlarge in us-east-1" in out
    (row,) = [line for line in out.splitlines() if line.startswith("use1-az4")]
    assert "55.04" in row, "spot costs what on-demand costs"
    assert "nothing to be had" in row
    assert "not that there is capacity" in out
    assert "an account has to opt in: use1-atl2-az1." in " ".join(out.split()), "a Local Zone"
    assert "`planner prices refresh --source quotas` asks (needs servicequotas:GetServiceQuota)" in " ".join(
        out.split()
    )
    assert "what counts it: L-417A185B on demand, L-C4BD4855 as spot" in " ".join(out.split())
    assert main(["prices", "availability", "p5.48xlarge", "--format", "csv"]) == 0
    written = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(written.out)))
    assert written.err == "planner prices availability: csv has the zones alone; interruption: --format json or table\n"
    assert {r["availability_zone_id"]: r["spot_at_on_demand_cap"] for r in rows}["use1-az4"] == "true"
    assert main(["prices", "availability", "p5.48xlarg"]) == 2
    assert "did you mean p5.48xlarge" in capsys.readouterr().err


def test_storage_prices_are_listed_with_their_unit_currency_and_source(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("prices", "list", "--storage", "--region", "us-east-1")
    out = said(capsys, *words, "--service", "ebs")
    (gp3,) = [line for line in out.splitlines() if "gp3 storage" in line]
    assert "0.08 USD" in gp3  # public: 0.08 a GB-month in us-east-1
    assert "GB-month" in gp3
    tiers = [line for line in said(capsys, *words, "--service", "data transfer").splitlines() if "internet" in line]
    assert [("100 to 10,240" in tiers[0], "0.09 USD" in tiers[0]), ("from 153,600" in tiers[-1], "0.05 USD" in tiers[-1])] == [(True, True)] * 2  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(said(capsys, *words, "--format", "csv"))))
    assert {r["region"] for r in rows} == {"us-east-1"}
    assert tuple(rows[0]) == RATE_FIELDS
    document = json.loads(said(capsys, *words, "--format", "json"))
    assert len(document["rates"]) == len(rows)
    assert document["snapshot_id"] == open_catalog().meta.snapshot_id


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--storage", "--instance", "p5.48xlarge"), "--instance: does not go with --storage"),
        (("--storage", "--sort", "price"), "--sort: does not go with --storage"),
        (("--service", "EBS"), "--service: goes with --storage"),
        (("--storage", "--service", "EBSS"), "--service: unknown service 'EBSS'; did you mean EBS?"),
        (("--storage", "--region", "us-esat-1"), "--region: unknown region 'us-esat-1'; did you mean us-east-1"),
    ],
)
def test_storage_prices_refuse_what_they_cannot_be_asked(data: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], complaint: str) -> None:  # fmt: skip
    assert main(["prices", "list", *words]) == 2
    said_ = capsys.readouterr()
    assert (said_.out, said_.err.count("\n")) == ("", 1)
    assert complaint in said_.err


def test_every_amount_of_a_list_with_another_currency_says_which(capsys: pytest.CaptureFixture[str]) -> None:
    common = {"provider": "aws", "instance_type": "g5.xlarge", "availability_zone_id": None, "plan_type": None, "offering_class": "standard",
              "purchase_option": "reserved_1yr", "payment_option": "partial_upfront", "retrieved_at": "2026-11-30T11:00:00Z", "source": "list",
              "effective_unit_price": "4.2", "list_unit_price": "2.5", "contracted_unit_price": "4.2"}  # fmt: skip
    yuan = common | {"region": "cn-north-1", "currency": "CNY", "upfront": "15000"}
    usd = common | {"region": "us-east-1", "currency": "USD", "upfront": "2000"}
    head = {"snapshot_id": "0123456789abcdef", "as_of": "2026-11-30T11:00:00Z"}
    alone = prices_text({**head, "prices": [yuan]}, found=1, width=200, colour=False)
    assert "$" not in alone
    for amount in ("15,000 CNY", "4.200 CNY", "2.500 CNY"):
        assert amount in alone
    mixed = prices_text({**head, "prices": [yuan, usd]}, found=2, width=200, colour=False)
    assert "$" not in mixed
    assert "2,000 USD" in mixed
    dollars = prices_text({**head, "prices": [usd]}, found=1, width=200, colour=False)
    assert "Upfront $" in dollars
    assert "USD" not in dollars


def test_a_withdrawn_price_says_that_it_is_no_longer_listed() -> None:
    key = {"region": "us-east-1", "purchase_option": "capacity_block", "plan_type": None, "offering_class": None, "term_years": None,
           "payment_option": "all_upfront", "currency": "USD", "unit": "Hrs", "source": "list"}  # fmt: skip
    periods = [
        key | {"unit_price": "31.46", "first_seen": "2025-06-23T00:00:00Z", "last_seen": "2025-12-30T00:00:00Z", "change_fraction": None, "listed": False},
        key | {"unit_price": "21.96", "first_seen": "2026-01-02T00:00:00Z", "last_seen": "2026-11-30T00:00:00Z", "change_fraction": -0.302, "listed": False},
    ]  # fmt: skip
    document = {"instance_type": "p4d.24xlarge", "provider": "aws", "snapshot_id": "0123456789abcdef", "as_of": "2026-11-30T00:00:00Z", "periods": periods, "spot_changes": [], "spot_statistics": []}  # fmt: skip

    def text() -> str:
        return history_text(document, most=9, spot_hint="", seen_until={}, now=MOVED_TO, width=140, colour=False)

    assert text().count("not in the newest list") == 1, "said of the last price alone"
    periods[1]["listed"] = True
    assert "not in the newest list" not in text()


def test_availability_of_what_was_asked() -> None:
    document = {
        "instance_type": "p5.48xlarge", "region": "us-east-1", "snapshot_id": "0123456789abcdef", "as_of": "2026-11-30T11:00:00Z",
        "zones": [{"availability_zone_id": "use1-az4", "availability_zone": "us-east-1b", "offered": True, "spot_unit_price": None, "currency": None,
                   "spot_at_on_demand_cap": None, "spot_retrieved_at": None, "source": "offerings", "retrieved_at": "2026-11-30T11:00:00Z", "spot_since": None}],
        "spot_statistics": [],
        "interruption": {"band": "10-15%", "savings_over_on_demand_fraction": 0.63, "source": "advisor", "retrieved_on": "2026-11-29"},
        "placement_scores": [{"availability_zone_id": "use1-az4", "score": 3, "target_capacity": 1, "target_unit": "units", "instance_types": "p5.48xlarge,p5en.48xlarge", "retrieved_at": "2026-11-30T11:00:00Z"}],
        "capacity_blocks": [{"starts_at": "2026-12-01T12:17:00Z", "minutes": 1393, "instance_count": 2, "availability_zone_id": "use1-az4", "availability_zone": None,
                             "upfront": "1857.33", "unit_price": "39.99992821249102656137832017", "currency": "USD", "retrieved_at": "2026-11-30T11:00:00Z"}],
        "quotas": [{"purchase_option": "spot", "code": "L-C4BD4855", "name": "All P5 Spot Instance Requests", "applied": False, "instances_possible": 0,
                    "verdict": "needs 192 vCPU of L-C4BD4855, the account may run 0: ask for an increase", "retrieved_at": "2026-11-30T11:00:00Z"}],
        "quota_codes": [{"code": "L-C4BD4855", "purchase_option": "spot", "families": "p5,p6"}],
    }  # fmt: skip
    out = availability_text(document, now=MOVED_TO, width=100, colour=False)
    said = " ".join(out.split())
    for part in (
        "newest figure 2026-11-30, 1 hour old",
        "no price",
        "10-15% of spot instances were interrupted in a month; spot was 63 % below on-demand",
        "no promise, and no interruption rate",
        "23.22 h",
        "1,857 USD",
        "40.00",
        "spot: 0 instances at once; needs 192 vCPU of L-C4BD4855, the account may run 0: ask for an increase",
        "the default of every account",
        "(2026-11-29, yesterday; advisor)",
    ):
        assert part in said, part


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026-11-30", "today"),  # at noon, and at midnight too: no hour is known
        ("2026-12-01", "today"),  # read where it was tomorrow already
        ("2026-11-29", "yesterday"),
        ("2026-11-20", "10 days old"),
        ("2026-07-20", "4 months old"),
        ("2026-11-30T11:00:00Z", "1 hour old"),
        (None, "·"),
    ],
)
def test_the_age_of_a_figure_with_a_day_and_no_hour_is_in_days(text: str | None, words: str) -> None:
    assert aged(text, MOVED_TO) == words


def spot_change(price: str, since: datetime, zone: str) -> SpotChange:
    return SpotChange(
        provider="aws",
        instance_type="p5.48xlarge",
        region="us-east-1",
        availability_zone_id=zone,
        availability_zone=None,
        unit_price=Decimal(price),
        since=since,
    )


def test_spot_changes_that_are_kept_with_a_chart_and_statistics(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shipped spot prices were read on 2026-07-09: a window of 10 days before it has 20 USD for 6 days and 55.04 for 4."""
    publish_moved(data)
    with open_store() as store:
        store.upgrade()
        june, july = datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 7, 5, tzinfo=UTC)
        store.record_spot_changes([spot_change("20", june, "use1-az4"), spot_change("55.04", july, "use1-az4")])
        store.record_spot_changes([spot_change("18", june, "use1-az6")])
    words = (*P5, "--purchase", "spot")
    out = said(capsys, *words, "--window", "10d")
    assert max(map(len, out.splitlines())) <= 80
    (row,) = [line.split() for line in out.splitlines() if line.startswith("use1-az4 ")]
    # now, median, mean (6 x 20 + 4 x 55.04) / 10 = 34.016, p95, least, most, volatility, share at the cap of 55.04 or more
    assert row[1:7] == ["55.04", "20.00", "34.02", "55.04", "20.00", "55.04"]
    assert "a use1-az4  b use1-az6" in out
    assert "3 changes" in out
    document = json.loads(said(capsys, *words, "--zone", "use1-az4", "--since", "2026-07-01", "--format", "json"))
    assert [(c["unit_price"], c["since"]) for c in document["spot_changes"]] == [
        ("20", "2026-06-01T00:00:00Z"),
        ("55.04", "2026-07-05T00:00:00Z"),
    ]
    assert main([*words, "--window", "0d"]) == 2
    assert capsys.readouterr().err == "planner prices history: --window: '0d' must be 1 to 3660 days\n"


def test_without_a_record_of_spot_prices_it_says_what_brings_one(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = said(capsys, *P5, "--purchase", "spot")
    assert "`planner prices refresh --source spot` brings 90 days" in " ".join(out.split())
    assert not data.exists(), "a look makes no database"
