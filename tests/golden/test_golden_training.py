"""Training: hours and bills of runs, worked out by hand from the figures of `hand_catalog`."""

from __future__ import annotations

import math

import pytest
from hand_catalog import IMAGES, NOW, SPEC, TOO_SMALL, catalog_of, training

from planner.recommend.errors import BadRequest
from planner.recommend.request import RecommendRequest
from planner.recommend.stages import request_of
from planner.services.recommend import recommend

FREE = ("startup_minutes=0", "checkpoint_write_gb_per_s=100000", "restart_minutes=0")
"""Start-up and restarts at no time, and checkpoints at next to none (12 GB at 100,000 GB/s: 0.12 ms)."""
COUNTS = {"Old 24GB": {1: 10.0, 2: 19.0, 4: 35.0}, "New 24GB": {1: 20.0, 2: 38.0, 4: 70.0}}


@pytest.fixture(autouse=True)
def plain_outcomes(monkeypatch):
    import planner.perf.training

    def evaluate(spec, hardware, work, instance_counts, *, explain=True, parameters=None):
        return [
            [training(COUNTS[h.accelerator][n], instances=n) if h.accelerator in COUNTS else TOO_SMALL for n in instance_counts]
            for h in hardware
        ]  # fmt: skip

    monkeypatch.setattr(planner.perf.training, "evaluate_training", evaluate)


def answer(catalog, spec=SPEC, **request):
    request = {"max_instances": 4, "dataset_size": 360_000.0, "epochs": 10.0, "assume": FREE} | request
    return recommend(RecommendRequest(model="hand", mode="training", **request), catalog=catalog, spec=spec, now=NOW)


def test_hours_and_usd_per_epoch_and_in_total(tmp_path):
    rows = answer(catalog_of(tmp_path), purchase=("on_demand",))["recommendations"]
    # 360,000 samples x 10 epochs / 20 a second = 50 h x 1.50; old: 100 h x 1.00. One instance is cheapest: two are not twice as fast.
    table = [
        (
            r["instance_type"],
            r["instance_count"],
            r["cost"]["usd_total"],
            r["cost"]["usd_per_epoch"],
            r["cost"]["usd_per_hour"],
        )
        for r in rows
    ]
    assert [(t[0], t[1]) for t in table] == [("new.xlarge", 1), ("old.xlarge", 1)]
    assert [float(t[2]) for t in table] == pytest.approx([75.0, 100.0], abs=1e-3)
    assert [float(t[3]) for t in table] == pytest.approx([7.5, 10.0], abs=1e-4)
    assert [t[4] for t in table] == ["1.500000", "1.000000"]
    assert [r["time"]["hours_total"] for r in rows] == pytest.approx([50.0, 100.0], rel=1e-6)
    assert [r["time"]["hours_per_epoch"] for r in rows] == pytest.approx([5.0, 10.0], rel=1e-6)
    assert rows[0]["cost"]["usd_per_million_inferences"] is None
    assert rows[0]["cost"]["usd_per_month"] is None
    # 250 W x 1.15 for 50 h
    assert rows[0]["energy"]["kwh_total"] == pytest.approx(0.25 * 1.15 * 50)


def test_every_cost_of_a_run_is_a_line(tmp_path):
    row = answer(
        catalog_of(tmp_path),
        purchase=("on_demand",),
        instance=("old.xlarge",),
        assume=("evaluation_fraction=0.1", "checkpoint_interval_minutes=60"),
    )["recommendations"][0]
    # compute 100 h; start-up 10 min; 110 h of work = 110 checkpoints of 12 GB (1e9 parameters x 12 bytes) at 1 GB/s = 1,320 s; evaluation 10 h
    assert {line["name"]: (line["quantity"], line["usd"]) for line in row["cost"]["lines"]} == {
        "compute": (100, "100.000000"),
        "start_up": (0.166667, "0.166667"),
        "checkpoint_writing": (0.366667, "0.366667"),
        "evaluation": (10, "10.000000"),
    }
    assert row["cost"]["usd_total"] == "110.533334"
    assert row["time"]["hours_total"] == pytest.approx(100 + 1 / 6 + 1320 / 3600 + 10)


def test_a_deadline_buys_more_instances(tmp_path):
    document = answer(catalog_of(tmp_path), purchase=("on_demand",), deadline_hours=30)
    rows = {r["instance_type"]: r for r in document["recommendations"]}
    # new: 2 instances at 38/s take 3.6e6 / 38 / 3600 = 26.3 h; old: 4 at 35/s take 28.6 h
    assert rows["new.xlarge"]["instance_count"] == 2
    assert rows["old.xlarge"]["instance_count"] == 4
    assert float(rows["new.xlarge"]["cost"]["usd_total"]) == pytest.approx(3.6e6 / 38 / 3600 * 2 * 1.5, abs=1e-3)
    tight = answer(catalog_of(tmp_path), purchase=("on_demand",), deadline_hours=15)
    assert [(r["instance_type"], r["instance_count"]) for r in tight["recommendations"]] == [("new.xlarge", 4)]
    missed = next(r for r in tight["rejections"] if r["reason"] == "deadline")
    assert missed["instance_type"] == "old.xlarge"
    assert "28.6 h on 4 instances" in missed["detail"]


def test_a_budget_rejects_with_the_cheapest_found(tmp_path):
    document = answer(catalog_of(tmp_path), purchase=("on_demand",), budget_usd=80)
    assert [r["instance_type"] for r in document["recommendations"]] == ["new.xlarge"]
    over = next(r for r in document["rejections"] if r["reason"] == "budget")
    assert (over["instance_type"], "100.00 USD" in over["detail"]) == ("old.xlarge", True)


def test_spot_pays_for_the_work_that_is_lost(tmp_path):
    row = answer(
        catalog_of(tmp_path),
        purchase=("spot",),
        instance=("old.xlarge",),
        assume=(*FREE, "checkpoint_interval_minutes=30"),
    )["recommendations"][0]
    # band 5-10 %: 7.5 % of instances a month, rate = -ln(0.925) / 730 per hour; 100 h in 200 pieces of half an hour
    rate = -math.log(0.925) / 730
    expected = 200 * (math.exp(rate * 0.5) - 1) / rate
    assert row["time"]["hours_total"] == pytest.approx(expected, rel=1e-7)
    lines = {line["name"]: line for line in row["cost"]["lines"]}
    assert float(lines["expected_lost_work_and_restarts"]["usd"]) == pytest.approx((expected - 100) * 0.30, abs=2e-6)
    assert float(row["cost"]["usd_total"]) == pytest.approx(expected * 0.30, abs=1e-4)
    assert any("without any the same run would be expected to take" in n for n in row["notes"])
    # best: p90 of the rate (twice) and 5 %; worst: half the rate and 10 %
    worst_rate = -math.log(0.90) / 730
    assert float(row["cost"]["high"]["usd_total"]) == pytest.approx(
        400 * (math.exp(worst_rate * 0.5) - 1) / worst_rate * 0.30, abs=1e-3
    )


def test_any_of_several_instances_stops_the_run(tmp_path):
    row = answer(catalog_of(tmp_path), purchase=("spot",), instance=("old.xlarge",), deadline_hours=40, explain=True)[
        "recommendations"
    ][0]
    assert row["instance_count"] == 4
    rate = next(t for t in row["explanation"] if t["name"] == "interruptions_per_hour")
    assert rate["value"] == pytest.approx(4 * -math.log(0.925) / 730)


def test_tokens_are_trained_at_the_token_rate(tmp_path):
    row = answer(
        catalog_of(tmp_path),
        purchase=("on_demand",),
        instance=("old.xlarge",),
        dataset_size=None,
        dataset_tokens=36e6,
        epochs=1.0,
    )["recommendations"][0]
    assert row["time"]["hours_total"] == pytest.approx(36e6 / 10_000 / 3600, rel=1e-5)


def test_tokens_of_an_image_model_are_refused(tmp_path):
    with pytest.raises(BadRequest) as caught:
        answer(catalog_of(tmp_path), spec=IMAGES, dataset_size=None, dataset_tokens=1e9)
    assert (caught.value.field, "dataset_size" in str(caught.value)) == ("dataset_tokens", True)


@pytest.mark.parametrize("name", ["max_ttft_ms", "max_tpot_ms", "max_e2e_ms", "requests_per_s"])
def test_limits_of_serving_are_refused(tmp_path, name):
    with pytest.raises(BadRequest) as caught:
        answer(catalog_of(tmp_path), **{name: 10.0})
    assert caught.value.field == name


def test_pretrain_turns_to_training_on_fast_networks(tmp_path):
    request = request_of({"model": "hand", "stage": "pretrain", "dataset_size": 1e6})
    document = recommend(request, catalog=catalog_of(tmp_path), spec=SPEC, now=NOW)
    assert document["request"]["needs"] == ["efa"]
    assert document["recommendations"] == []
    assert {"excluded"} == {r["reason"] for r in document["rejections"]}
    with pytest.raises(BadRequest) as caught:  # without a data set the training that it means cannot be sized
        request_of({"model": "hand", "stage": "pretrain"})
    assert caught.value.field == "dataset_tokens"
