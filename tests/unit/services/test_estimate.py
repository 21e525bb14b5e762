"""Estimates of one layout, on the shipped prices and models."""

from __future__ import annotations

import dataclasses

import pytest

from planner import bootstrap
from planner.recommend.errors import BadRequest
from planner.recommend.request import EstimateRequest, RecommendRequest


@pytest.fixture(autouse=True)
def shipped_prices(monkeypatch, tmp_path):
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "none"))


def estimate(**request):
    return bootstrap.answer_estimate(EstimateRequest(**{"model": "7b", **request}))


def test_an_estimate_is_the_row_of_recommend_without_its_rank():
    document = estimate(instance="g5.xlarge")
    (row,) = bootstrap.answer_recommendation(
        RecommendRequest(model="7b", instance=("g5.xlarge",), purchase=("on_demand",))
    )["recommendations"]
    assert {k: document[k] for k in row if k not in {"rank", "pareto"}} == {
        k: v for k, v in row.items() if k not in {"rank", "pareto"}
    }
    assert "rank" not in document
    assert document["rejections"] == []


def test_instances_multiply_rates_and_bill():
    one, three = estimate(instance="g5.xlarge"), estimate(instance="g5.xlarge", instances=3)
    assert three["instance_count"] == 3
    assert three["performance"]["requests_per_s"] == pytest.approx(3 * one["performance"]["requests_per_s"])
    assert three["cost"]["usd_per_hour"] == "3.018000"  # 3 x 1.006
    assert float(three["cost"]["usd_per_million_inferences"]) == pytest.approx(
        float(one["cost"]["usd_per_million_inferences"]), rel=1e-5
    )


def test_accelerators_by_name_and_count_find_the_machine_that_is_priced():
    document = estimate(accelerator="h100", count=8, model="70b")
    assert (document["instance_type"], document["accelerators_per_instance"], document["cost"]["usd_per_hour"]) == (
        "p5.48xlarge",
        8,
        "55.040000",
    )


def test_accelerators_that_no_cloud_here_sells_have_figures_and_no_cost():
    document = estimate(accelerator="h100", count=2, model="70b", explain=True)
    assert document["cost"] is None
    assert (document["instance_type"], document["accelerator"], document["accelerators_per_instance"]) == (
        None,
        "H100 SXM5 80GB",
        2,
    )
    assert document["performance"]["requests_per_s"] > 0
    assert any("not priced" in note for note in document["notes"])
    assert {"weights_bf16", "memory_weights"} <= {t["name"] for t in document["explanation"]}
    assert document["rejections"] == []


def test_an_instance_without_a_price_has_figures_and_says_why_no_cost():
    document = estimate(instance="p5e.48xlarge")
    assert document["cost"] is None
    assert document["performance"]["requests_per_s"] > 0
    assert any("no on_demand price" in note for note in document["notes"])


def test_what_cannot_work_is_a_rejection_in_the_same_grammar():
    document = estimate(instance="g5.xlarge", model="70b")
    assert (document["layout"], document["cost"]) == (None, None)
    (rejection,) = document["rejections"]
    assert (rejection["instance_type"], rejection["reason"], rejection["regions"], rejection["count"]) == (
        "g5.xlarge",
        "out_of_memory",
        ["us-east-1"],
        1,
    )


def test_training_is_priced_by_the_hour_until_the_data_set_is_known():
    document = estimate(instance="g5.12xlarge", mode="training", method="lora")
    assert (document["cost"]["usd_per_hour"], document["cost"]["usd_total"], document["time"]["hours_total"]) == (
        "5.672000",
        None,
        None,
    )
    known = estimate(instance="g5.12xlarge", mode="training", method="lora", dataset_tokens=1e6)
    assert float(known["cost"]["usd_total"]) > 0
    assert known["time"]["hours_total"] > 0


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({}, "instance"),
        ({"instance": "g5.xlarge", "accelerator": "L4"}, "instance"),
        ({"instance": "g5.xlarge", "count": 2}, "count"),
        ({"instance": "g5.xlarg"}, "instance"),
        ({"accelerator": "H1000"}, "accelerator"),
        ({"instance": "g5.xlarge", "region": "us-eas-1"}, "region"),
        ({"instance": "g5.xlarge", "model": None}, "model"),
        ({"accelerator": "EPYC 9R14"}, "accelerator"),
    ],
)
def test_bad_requests_name_their_field(request_, field):
    with pytest.raises(BadRequest) as caught:
        estimate(**request_)
    assert caught.value.field == field


def test_every_field_has_an_option_for_the_flags_and_schema():
    for f in dataclasses.fields(EstimateRequest):
        assert f.metadata["option"].help


def test_the_cache_of_an_explanation_is_as_wide_as_it_is_kept() -> None:
    # Llama-3.1-8B: 32 layers x 8 heads x 128 x 2 = 65,536 numbers a token: 131,072 B in 16 bits, 65,536 in 8, 34,816 in 4.25.
    for kv, size in ((None, 131_072), ("fp8", 65_536), ("int4", 34_816)):
        found = estimate(model="8b", accelerator="h100", count=1, explain=True, kv_precision=kv)
        (term,) = [t for t in found["explanation"] if t["name"] == "kv_bytes_per_token"]
        assert term["value"] == size, kv


def test_the_weights_of_an_explanation_are_those_of_the_checkpoint() -> None:
    found = estimate(model="gpt-oss-20b", accelerator="h100", count=1, explain=True)
    (term,) = [t for t in found["explanation"] if t["name"] == "weights_mxfp4"]
    assert term["value"] * 2**30 / 1e9 == pytest.approx(13.76, abs=0.01)  # 13.76 GB of safetensors


def test_a_refusal_says_why_it_is_in_another_format() -> None:
    found = estimate(model="8b", accelerator="T4", count=1, precision="bf16")
    (refused,) = found["rejections"]
    assert "in fp16" in refused["detail"]
    assert "T4 has no bf16: fp16 is used instead" in refused["detail"]
