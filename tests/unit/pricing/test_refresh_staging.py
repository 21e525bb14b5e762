"""Readings on the disk: whole or not there, and used only by who asked the same question of the same account not long ago."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from refreshing import NOW, ask, reading_of, source
from small_contents import shape

from pricing.market import CapacityBlock, Notice, NoticeKind, PlacementScore, Quota, SpotChange, ZoneOffering
from pricing.model import Interruption, PurchaseOption, Rate
from pricing.refresh import staging as staging_module
from pricing.refresh.errors import NotWritable
from pricing.refresh.plan import Unit
from pricing.refresh.staging import Staging
from pricing.source import SourceReading

UNIT = Unit(source=source(), region="us-east-1")


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(folder=tmp_path / "staging", access="account 1")


def full_reading() -> SourceReading:
    """One row of every table, with what is awkward to write: exact decimals, None, signs, line breaks."""
    moment = datetime(2026, 11, 30, 11, 59, 59, 123456, tzinfo=UTC)
    return reading_of(
        "price_list",
        ask(),
        {"p5.48xlarge": "55.0400000000"},
        published="2026-11-28T00:00:00Z",
        excluded={"tenancy Host": 16, "licence “own”": 1},
        untold=frozenset({"trn2.48xlarge"}),
        instance_types=(shape("aws", "g6f.xlarge", "L4", 1, device_fraction=0.125),),
        rates=(Rate(provider="aws", service="S3", item="Standard", region="us-east-1", unit_price=Decimal("0.023"), unit="GB-month", tier_from=0.0, source="s", retrieved_on=date(2026, 11, 30), notes="two\nlines"),),
        interruptions=(Interruption(provider="aws", instance_type="g6.xlarge", region="us-east-1", band="<5%", monthly_low_fraction=0.0, monthly_high_fraction=0.05, savings_over_on_demand_fraction=None, source="s", retrieved_on=date(2026, 11, 30)),),
        zone_offerings=(ZoneOffering(provider="aws", instance_type="g6.xlarge", region="us-east-1", availability_zone_id="use1-az1", source="s", retrieved_at=moment),),
        capacity_blocks=(CapacityBlock(provider="aws", instance_type="p5.48xlarge", region="us-east-1", offering_id="cb-1", instance_count=1, starts_at=moment, ends_at=moment + timedelta(days=1), minutes=1393, upfront=Decimal("912.10"), source="s", retrieved_at=moment),),
        placement_scores=(PlacementScore(provider="aws", instance_types="p5.48xlarge", region="us-east-1", availability_zone_id=None, target_capacity=1, target_unit="units", score=3, source="s", retrieved_at=moment),),
        quotas=(Quota(provider="aws", region="us-east-1", code="L-417A185B", name="P", purchase_option=PurchaseOption.SPOT, families="p2,p3", vcpus=0.0, applied=False, source="s", retrieved_at=moment),),
        spot_changes=(SpotChange(provider="aws", instance_type="g6.xlarge", region="us-east-1", availability_zone_id=None, availability_zone="us-east-1a", unit_price=Decimal("0.3000"), since=moment),),
        notices=(Notice(kind=NoticeKind.UNRESOLVED, source="price_list", subject="trn2.48xlarge us-east-1", detail="none left"),),
    )  # fmt: skip


def test_a_reading_comes_back_as_it_was(staging):
    staging.keep(UNIT, ask(), full_reading())
    assert staging.kept(UNIT, ask(at=NOW + timedelta(hours=5)), newer_than=None) == full_reading()


def test_every_table_of_a_reading_is_staged():
    tables = {name for name in SourceReading.__dataclass_fields__ if isinstance(getattr(full_reading(), name), tuple)}
    assert set(staging_module.TABLES) == tables


def test_no_two_units_share_a_file(staging):
    for name, region in (
        ("price_list", "us-east-1"),
        ("price_list", "us-west-2"),
        ("spot", "us-east-1"),
        ("spot", None),
    ):
        unit = Unit(source=source(name), region=region)
        staging.keep(unit, ask(region), reading_of(name, ask(region), {"p5.48xlarge": "50"}))
    assert len(list(staging.folder.iterdir())) == 4
    assert all(path.suffix == ".jsonl" for path in staging.folder.iterdir())


@pytest.mark.parametrize(
    ("hours", "used"), [(0, True), (5.99, True), (6, True), (6.01, False), (-0.05, True), (-1, False)]
)
def test_a_reading_is_used_for_six_hours_and_never_from_a_clock_ahead(staging, hours, used):
    staging.keep(UNIT, ask(), full_reading())
    assert (staging.kept(UNIT, ask(at=NOW + timedelta(hours=hours)), newer_than=None) is not None) is used


def test_what_the_newest_snapshot_was_made_after_is_not_used_again(staging):
    staging.keep(UNIT, ask(), full_reading())
    assert staging.kept(UNIT, ask(), newer_than=NOW - timedelta(seconds=1)) is not None
    assert staging.kept(UNIT, ask(), newer_than=NOW) is None


@pytest.mark.parametrize(
    "other",
    [
        (Staging(folder=Path(), access="account 2"), UNIT, ask()),
        (Staging(folder=Path(), access="account 1"), UNIT, ask(types=frozenset({"p5.48xlarge", "g6.xlarge"}))),
        (Staging(folder=Path(), access="account 1"), Unit(source=source(), region="us-west-2"), ask("us-west-2")),
    ],
    ids=["account", "types", "region"],
)
def test_another_question_is_not_answered_with_it(staging, other):
    staging.keep(UNIT, ask(), full_reading())
    asker, unit, question = other
    assert replace(asker, folder=staging.folder).kept(unit, question, newer_than=None) is None


def test_another_version_of_the_rows_is_not_read(staging, monkeypatch):
    staging.keep(UNIT, ask(), full_reading())
    monkeypatch.setattr(staging_module, "TABLES", {**staging_module.TABLES, "quotes": Rate})
    assert staging.kept(UNIT, ask(), newer_than=None) is None


def test_a_file_cut_anywhere_or_changed_is_not_used(staging):
    staging.keep(UNIT, ask(), full_reading())
    (path,) = staging.folder.iterdir()
    whole = path.read_bytes()
    for cut in (*range(0, len(whole), 97), len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert staging.kept(UNIT, ask(), newer_than=None) is None, cut
    path.write_bytes(whole.replace(b"55.04", b"15.04"))
    assert staging.kept(UNIT, ask(), newer_than=None) is None
    path.write_bytes(whole)
    assert staging.kept(UNIT, ask(), newer_than=None) is not None


def test_a_full_disk_is_one_clear_line_and_leaves_no_part(staging, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotWritable, match="No space left on device; the snapshot before stays"):
        staging.keep(UNIT, ask(), full_reading())
    assert list(staging.folder.iterdir()) == []


def test_dropping_what_is_not_there_is_nothing(staging):
    staging.drop(UNIT)
    staging.keep(UNIT, ask(), full_reading())
    staging.drop(UNIT)
    assert list(staging.folder.iterdir()) == []
