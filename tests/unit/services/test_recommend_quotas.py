"""Quotas of the account in `recommend`, on the shipped prices: a p5.48xlarge takes 192 vCPUs, a p4d.24xlarge 96, a g5.xlarge 4."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planner.recommend.errors import BadRequest
from planner.recommend.request import RecommendRequest
from planner.services.find_model import find_model
from planner.services.recommend import recommend
from pricing.discounts import contracted, parse_agreement
from pricing.market import Quota
from pricing.model import PurchaseOption
from pricing.snapshot import open_snapshot, write_snapshot
from pricing.static import load_tables

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SHIPPED = load_tables()


def quota(code: str, vcpus: float, families: str = "p", option: str = "on_demand", region: str = "us-east-1") -> Quota:
    return Quota(
        provider="aws", region=region, code=code, name=code, purchase_option=PurchaseOption(option), families=families, vcpus=vcpus, applied=True,
        source="test", retrieved_at=NOW,
    )  # fmt: skip


P0 = quota("L-417A185B", 0.0)


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Any]:
    """Give a function that answers a request on the shipped prices and some quotas."""
    with ExitStack() as stack:

        def answer(quotas: tuple[Quota, ...], contents: Any = SHIPPED, **request: Any) -> dict[str, Any]:
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.snapshot"
            write_snapshot(path, dataclasses.replace(contents, quotas=quotas), published_at=NOW, origin="refresh")
            catalog = stack.enter_context(open_snapshot(path))
            spec = find_model(request.get("model", "7b"), None)
            wanted = {"model": "7b", "purchase": ("on_demand",), "instance": ("p5.48xlarge",)} | request
            return recommend(RecommendRequest(**wanted), catalog=catalog, spec=spec, now=NOW)

        yield answer


def beyond(row: dict[str, Any]) -> list[str]:
    return [note for note in row["notes"] if "vCPU of L-" in note]


def test_an_account_without_quota_is_told_and_still_answered(ask: Any) -> None:
    (row,) = ask((P0,))["recommendations"]
    assert beyond(row) == ["needs 192 vCPU of L-417A185B, the account may run 0: ask for an increase"]


def test_several_instances_need_the_sum_of_their_vcpus(ask: Any) -> None:
    (row,) = ask((quota("L-417A185B", 192.0),), requests_per_s=200.0)["recommendations"]
    count = row["instance_count"]
    assert count > 1
    assert beyond(row) == [f"needs {count * 192:,} vCPU of L-417A185B, the account may run 192: ask for an increase"]


@pytest.mark.parametrize(
    "quotas",
    [
        (),  # never asked for: nothing is known
        (quota("L-417A185B", 192.0),),
        (quota("L-417A185B", 0.0, region="us-west-2"),),
        (quota("L-DB2E81BA", 0.0, families="g,gr,vt"),),
        (quota("L-C4BD4855", 0.0, families="p5,p6", option="spot"),),
    ],
)
def test_nothing_is_said_where_the_quota_suffices_or_is_not_known(ask: Any, quotas: tuple[Quota, ...]) -> None:
    for mode in ("note", "enforce"):
        (row,) = ask(quotas, quota=mode)["recommendations"]
        assert beyond(row) == []


def test_enforced_the_row_is_a_rejection_with_its_figures(ask: Any) -> None:
    answer = ask((P0,), quota="enforce", instance=("p5.48xlarge", "g5.xlarge"))
    assert [row["instance_type"] for row in answer["recommendations"]] == ["g5.xlarge"]
    (rejection,) = answer["rejections"]
    assert {name: rejection[name] for name in ("instance_type", "reason", "regions", "purchase_options", "detail")} == {
        "instance_type": "p5.48xlarge",
        "reason": "no_quota",
        "regions": ["us-east-1"],
        "purchase_options": ["on_demand"],
        "detail": "needs 192 vCPU of L-417A185B, the account may run 0: ask for an increase",
    }


def test_each_quota_has_a_rejection_of_its_own(ask: Any) -> None:
    """On demand a p5.48xlarge counts against L-417A185B, as spot against L-C4BD4855."""
    quotas = (P0, quota("L-C4BD4855", 96.0, families="p5,p6", option="spot"))
    rejections = ask(quotas, quota="enforce", purchase=("on_demand", "spot"))["rejections"]
    assert [
        (r["reason"], r["purchase_options"], r["detail"].split(",")[0]) for r in rejections if r["reason"] == "no_quota"
    ] == [
        ("no_quota", ["on_demand"], "needs 192 vCPU of L-417A185B"),
        ("no_quota", ["spot"], "needs 192 vCPU of L-C4BD4855"),
    ]


def test_ignored_nothing_is_said(ask: Any) -> None:
    (row,) = ask((P0,), quota="ignore")["recommendations"]
    assert beyond(row) == []


def test_spot_has_quotas_of_its_own(ask: Any) -> None:
    quotas = (P0, quota("L-C4BD4855", 192.0, families="p5,p6", option="spot"))
    rows = ask(quotas, purchase=("on_demand", "spot"))["recommendations"]
    assert {row["purchase_option"]: bool(beyond(row)) for row in rows} == {"on_demand": True, "spot": False}


def test_commitments_count_as_on_demand_and_capacity_blocks_do_not(ask: Any) -> None:
    (plan,) = ask((quota("L-DB2E81BA", 0.0, "g,gr,vt"),), purchase=("savings_plan_3yr",), instance=("g5.xlarge",))[
        "recommendations"
    ]
    assert beyond(plan) == ["needs 4 vCPU of L-DB2E81BA, the account may run 0: ask for an increase"]
    (block,) = ask((P0,), purchase=("capacity_block",))["recommendations"]
    assert beyond(block) == []


TRAINING = {"model": "llama-3.1-8b", "mode": "training", "dataset_tokens": 1e9, "instance": ("p4d.24xlarge",)}


def test_a_run_takes_fewer_instances_where_the_quota_is_small(ask: Any) -> None:
    free = ask((), **TRAINING, deadline_hours=5.0)["recommendations"][0]
    assert free["instance_count"] > 1
    small = quota("L-417A185B", 96.0 * (free["instance_count"] // 2))
    noted = ask((small,), **TRAINING, deadline_hours=5.0)["recommendations"][0]
    assert len(beyond(noted)) == 1
    answer = ask((small,), **TRAINING, deadline_hours=5.0, quota="enforce")
    assert answer["recommendations"] == []
    assert [r["reason"] for r in answer["rejections"]] == ["no_quota"]  # not the deadline: more instances would meet it
    relaxed = ask((small,), **TRAINING, quota="enforce")["recommendations"][0]
    assert relaxed["instance_count"] * 96 <= small.vcpus


def test_what_cannot_run_anyway_keeps_its_own_reason(ask: Any) -> None:
    answer = ask((P0,), **TRAINING | {"deadline_hours": 0.01}, quota="enforce")
    assert [r["reason"] for r in answer["rejections"]] == ["deadline"]


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(BadRequest, match="not one of note, enforce, ignore"):
        RecommendRequest(model="7b", quota="strict")


AGREEMENT = '[[discount]]\npurchase_option = "on_demand"\npercent_off = 60\n'


def test_a_contracted_price_is_paid_and_its_list_price_told(ask: Any) -> None:
    lines = parse_agreement(AGREEMENT, "edp.toml")
    deal = dataclasses.replace(SHIPPED, quotes=contracted(SHIPPED.quotes, lines, date(2026, 11, 30)))
    (row,) = ask((), contents=deal)["recommendations"]
    assert Decimal(row["cost"]["usd_per_hour"]) == Decimal("22.016")  # 55.04 x 0.4
    assert "contracted under edp.toml (edp.toml, discount 1): 60 % off; at list 55.04 USD per hour" in row["notes"]


def test_a_cheap_agreement_does_not_make_spot_look_sold_out(ask: Any) -> None:
    """Spot of a g5.xlarge is above 40 % of on-demand: dearer than what this buyer pays on demand, and no sign of missing capacity."""
    lines = parse_agreement(AGREEMENT, "edp.toml")
    deal = dataclasses.replace(SHIPPED, quotes=contracted(SHIPPED.quotes, lines, date(2026, 11, 30)))
    wanted = {"instance": ("g5.xlarge",), "purchase": ("on_demand", "spot")}
    at_list = {r["purchase_option"]: r for r in ask((), **wanted)["recommendations"]}
    agreed = {r["purchase_option"]: r for r in ask((), contents=deal, **wanted)["recommendations"]}
    assert agreed["spot"]["cost"]["usd_per_hour"] == at_list["spot"]["cost"]["usd_per_hour"]
    assert Decimal(agreed["on_demand"]["cost"]["usd_per_hour"]) < Decimal(agreed["spot"]["cost"]["usd_per_hour"])
    assert agreed["spot"]["notes"] == at_list["spot"]["notes"]
