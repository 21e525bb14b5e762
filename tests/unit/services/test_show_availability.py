"""`show_availability`: zones by id, spot at the cap, blocks by the hour and quotas, each against a figure worked out by hand."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planner.services.documents import to_json_bytes
from planner.services.show_availability import show_availability
from pricing.catalog import Catalog
from pricing.errors import UnknownName
from pricing.market import CapacityBlock, PlacementScore, Quota, SpotChange, ZoneOffering
from pricing.model import PurchaseOption, Quote
from pricing.snapshot import open_snapshot, shipped_snapshot_path, write_snapshot

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
P5: dict[str, Any] = {"provider": "aws", "instance_type": "p5.48xlarge", "region": "us-east-1"}


def spot(price: str, zone: str, cap: bool) -> Quote:
    return Quote(
        **P5, purchase_option=PurchaseOption.SPOT, availability_zone_id=zone, effective_unit_price=Decimal(price), at_on_demand_cap=cap,
        source="spot history", retrieved_at=NOW,
    )  # fmt: skip


def quota(code: str, option: PurchaseOption, families: str, vcpus: float) -> Quota:
    return Quota(
        provider="aws", region="us-east-1", code=code, name=f"quota {code}", purchase_option=option, families=families, vcpus=vcpus, applied=vcpus > 0,
        source="quotas", retrieved_at=NOW,
    )  # fmt: skip


TABLES: dict[str, Any] = {
    "quotes": (
        Quote(
            **P5,
            purchase_option=PurchaseOption.ON_DEMAND,
            effective_unit_price=Decimal("55.04"),
            source="price list",
            retrieved_at=NOW,
        ),
        spot("18.7", "use1-az2", False),
        spot("55.04", "use1-az4", True),
        spot("20.1", "use1-az1", False),
    ),
    "zone_offerings": tuple(
        ZoneOffering(**P5, availability_zone_id=zone, availability_zone=name, source="offerings", retrieved_at=NOW)
        for zone, name in (("use1-az4", "us-east-1b"), ("use1-az2", "us-east-1a"))
    ),
    "capacity_blocks": (
        CapacityBlock(
            **P5, offering_id="cb-1", instance_count=2, starts_at=datetime(2026, 12, 1, 12, 17, tzinfo=UTC), ends_at=datetime(2026, 12, 2, 11, 30, tzinfo=UTC),
            minutes=1393, upfront=Decimal("1857.33"), source="blocks", retrieved_at=NOW,
        ),
    ),
    "placement_scores": (
        PlacementScore(provider="aws", instance_types="p4d.24xlarge,p5.48xlarge,p5en.48xlarge", region="us-east-1", availability_zone_id="use1-az2", target_capacity=1, target_unit="units", score=3, source="scores", retrieved_at=NOW),
        PlacementScore(provider="aws", instance_types="g5.xlarge,g6.xlarge,g6e.xlarge", region="us-east-1", availability_zone_id=None, target_capacity=1, target_unit="units", score=9, source="scores", retrieved_at=NOW),
    ),
    "quotas": (
        quota("L-417A185B", PurchaseOption.ON_DEMAND, "p", 384.0),
        quota("L-7212CCBC", PurchaseOption.SPOT, "p2,p3,p4", 1000.0),
        quota("L-C4BD4855", PurchaseOption.SPOT, "p5,p6", 0.0),
        quota("L-DB2E81BA", PurchaseOption.ON_DEMAND, "g,gr,vt", 64.0),
    ),
}  # fmt: skip


@pytest.fixture
def snapshot(tmp_path: Path) -> Iterator[Callable[..., Catalog]]:
    with ExitStack() as stack:

        def made(**tables: Any) -> Catalog:
            with open_snapshot(shipped_snapshot_path()) as shipped:
                contents = dataclasses.replace(shipped.contents(), **(TABLES | tables))
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite"
            write_snapshot(path, contents, published_at=NOW, origin="refresh")
            return stack.enter_context(open_snapshot(path))

        yield made


def test_the_document_is_that_of_the_contract(snapshot: Callable[..., Catalog]) -> None:
    document = show_availability(snapshot(), "p5.48xlarge", region="US-east-1")
    assert list(document) == [
        "instance_type", "region", "snapshot_id", "as_of", "zones", "spot_statistics", "interruption", "placement_scores", "capacity_blocks", "quotas", "quota_codes",
    ]  # fmt: skip
    assert document["region"] == "us-east-1"
    assert document["as_of"] == "2026-11-30T12:00:00Z"
    assert json.loads(to_json_bytes(document)) == document


def test_zones_by_id_and_the_cap(snapshot: Callable[..., Catalog]) -> None:
    zones = show_availability(snapshot(), "p5.48xlarge", region="us-east-1")["zones"]
    assert [(z["availability_zone_id"], z["offered"], z["spot_unit_price"], z["spot_at_on_demand_cap"]) for z in zones] == [
        ("use1-az1", False, "20.1", False),
        ("use1-az2", True, "18.7", False),
        ("use1-az4", True, "55.04", True),
    ]  # fmt: skip
    unasked = show_availability(snapshot(zone_offerings=()), "p5.48xlarge", region="us-east-1")["zones"]
    assert {z["offered"] for z in unasked} == {None}, "nobody asked: that is not a no"


def test_a_block_by_the_hour_goes_by_its_own_minutes(snapshot: Callable[..., Catalog]) -> None:
    (block,) = show_availability(snapshot(), "p5.48xlarge", region="us-east-1")["capacity_blocks"]
    # 1857.33 / (2 instances x 1393 minutes / 60) = 40.0000; by the 24 hours that were asked for it would be 38.69
    assert abs(Decimal(block["unit_price"]) - Decimal("1857.33") * 60 / (2 * 1393)) <= Decimal("1e-12")
    assert round(Decimal(block["unit_price"]), 2) == Decimal("40.00")
    assert block["upfront"] == "1857.33"


def test_scores_are_those_that_were_asked_with_this_type(snapshot: Callable[..., Catalog]) -> None:
    (score,) = show_availability(snapshot(), "p5.48xlarge", region="us-east-1")["placement_scores"]
    assert (score["score"], score["availability_zone_id"]) == (3, "use1-az2")


def test_quotas_count_vcpus_and_spot_of_p5_has_its_own(snapshot: Callable[..., Catalog]) -> None:
    """A p5.48xlarge has 192 vCPU; spot of P5 is L-C4BD4855, L-7212CCBC is P2 to P4 only."""
    quotas = show_availability(snapshot(), "p5.48xlarge", region="us-east-1")["quotas"]
    found = {q["code"]: (q["purchase_option"], q["vcpus_needed_for_one"], q["instances_possible"]) for q in quotas}
    assert found == {"L-417A185B": ("on_demand", 192, 2), "L-C4BD4855": ("spot", 192, 0)}
    verdicts = {q["code"]: q["verdict"] for q in quotas}
    assert "192" in verdicts["L-C4BD4855"]
    assert "ask for an increase" in verdicts["L-C4BD4855"]
    assert "may start" in verdicts["L-417A185B"]


class Kept:
    """A record of spot changes that gives what it was given, as far as it is asked for."""

    def __init__(self, *changes: SpotChange) -> None:
        self.changes = changes

    def spot_changes(self, *, instance_type: str, until: datetime, **_: Any) -> list[SpotChange]:
        return [c for c in self.changes if c.instance_type == instance_type and c.since <= until]


def change(price: str, zone: str, since: datetime) -> SpotChange:
    return SpotChange(**P5, availability_zone_id=zone, availability_zone=None, unit_price=Decimal(price), since=since)


def test_the_moment_since_when_a_spot_price_holds_is_that_of_its_last_change(snapshot: Callable[..., Catalog]) -> None:
    moment = datetime(2026, 11, 29, 14, 3, 7, tzinfo=UTC)
    kept = Kept(
        change("17.0", "use1-az2", datetime(2026, 11, 20, tzinfo=UTC)),
        change("18.70", "use1-az2", moment),
        change("19.9", "use1-az1", moment),  # another price than the quoted one: the record lacks a change
        change("55.04", "use1-az4", datetime(2026, 11, 30, 12, 30, tzinfo=UTC)),  # after the snapshot
    )
    zones = show_availability(snapshot(), "p5.48xlarge", region="us-east-1", kept=kept)["zones"]
    since = {z["availability_zone_id"]: z["spot_since"] for z in zones}
    assert since == {"use1-az1": None, "use1-az2": "2026-11-29T14:03:07Z", "use1-az4": None}
    without = show_availability(snapshot(), "p5.48xlarge", region="us-east-1")["zones"]
    assert {z["spot_since"] for z in without} == {None}


@pytest.mark.parametrize(
    ("instance_type", "codes"),
    [
        ("p5.48xlarge", {"on_demand": "L-417A185B", "spot": "L-C4BD4855"}),
        ("p4d.24xlarge", {"on_demand": "L-417A185B", "spot": "L-7212CCBC"}),
        ("g5.xlarge", {"on_demand": "L-DB2E81BA", "spot": "L-3819A6DF"}),
    ],
)
def test_the_codes_that_count_a_type_are_known_before_anybody_asked(snapshot: Callable[..., Catalog], instance_type: str, codes: dict[str, str]) -> None:  # fmt: skip
    document = show_availability(snapshot(quotas=()), instance_type, region="us-east-1")
    assert document["quotas"] == []
    assert {c["purchase_option"]: c["code"] for c in document["quota_codes"]} == codes


def test_a_type_and_a_region_that_nothing_has(snapshot: Callable[..., Catalog]) -> None:
    catalog = snapshot()
    with pytest.raises(UnknownName, match=r"unknown instance type 'p5\.48xlarg'; did you mean p5\.48xlarge"):
        show_availability(catalog, "p5.48xlarg", region="us-east-1")
    with pytest.raises(UnknownName, match="unknown region 'us-est-1'; did you mean us-east-1"):
        show_availability(catalog, "p5.48xlarge", region="us-est-1")


def test_what_was_never_asked_is_empty_or_null_and_no_zero() -> None:
    with open_snapshot(shipped_snapshot_path()) as catalog:
        document = show_availability(catalog, "p5e.48xlarge", region="us-east-1")
    assert (document["zones"], document["spot_statistics"], document["placement_scores"]) == ([], [], [])
    assert (document["capacity_blocks"], document["quotas"]) == ([], [])
