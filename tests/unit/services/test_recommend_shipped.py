"""The main job on the shipped prices and models: prices to the cent, the whole contract, and what it must never do."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from planner import bootstrap
from planner.recommend.errors import BadRequest
from planner.recommend.request import EstimateRequest, RecommendRequest
from planner.services.documents import to_json_bytes

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
TOP = ["id", "request", "planner_version", "prices", "recommendations", "rejections"]
ROW = [
    "rank",
    "provider",
    "instance_type",
    "region",
    "availability_zone_id",
    "purchase_option",
    "purchase",
    "instance_count",
    "accelerator",
    "accelerators_per_instance",
    "layout",
    "memory",
    "performance",
    "cost",
    "time",
    "energy",
    "notes",
]
LAYOUT = [
    "engine",
    "engine_version",
    "precision",
    "kv_precision",
    "tensor_parallel",
    "pipeline_parallel",
    "expert_parallel",
    "data_parallel",
    "replicas_per_instance",
    "max_concurrency",
    "batch",
    "method",
    "micro_batch",
    "accumulation",
    "checkpointing",
    "sharding",
    "speculative_tokens",
]
PERFORMANCE = [
    "basis",
    "requests_per_s",
    "output_tokens_per_s",
    "total_tokens_per_s",
    "samples_per_s",
    "ttft_ms",
    "tpot_ms",
    "e2e_ms",
    "at_requests_per_s",
    "mfu_fraction",
    "low",
    "high",
    "sources",
]
COST = [
    "usd_per_hour",
    "usd_per_million_inferences",
    "usd_per_million_total_tokens",
    "usd_per_million_input_tokens",
    "usd_per_million_output_tokens",
    "usd_per_epoch",
    "usd_total",
    "usd_per_month",
    "low",
    "high",
    "lines",
]
REASONS = [
    "out_of_memory",
    "precision_unsupported",
    "layout_impossible",
    "engine_unsupported",
    "slo_infeasible",
    "deadline",
    "budget",
    "not_offered",
    "no_price",
    "no_quota",
    "capacity_block_only",
    "excluded",
]


@pytest.fixture(autouse=True)
def shipped_prices(monkeypatch, tmp_path):
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(bootstrap, "utc_now", lambda: NOW)
    yield
    assert not (tmp_path / "none").exists()  # answering writes nothing


def answer(**request):
    return bootstrap.answer_recommendation(RecommendRequest(**{"model": "7b", **request}))


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"model": "7b", "mode": "training", "method": "lora", "dataset_tokens": 50e6, "epochs": 3.0},
        {"model": "resnet50", "mode": "training", "dataset_size": 1281167.0, "epochs": 90.0},
        {"model": "bert-base"},
    ],
)
def test_every_field_of_the_contract_in_its_order(request_):
    document = answer(top=500, **request_)
    assert [k for k in document if k in TOP] == TOP
    assert document["recommendations"]
    for row in document["recommendations"]:
        assert [k for k in row if k in ROW] == ROW
        assert list(row["layout"]) == LAYOUT
        assert list(row["performance"]) == PERFORMANCE
        assert list(row["cost"]) == COST
        assert list(row["time"]) == ["hours_per_epoch", "hours_total"]
        assert row["memory"]["required_gib_per_accelerator"] <= row["memory"]["available_gib_per_accelerator"]
        total = sum(Decimal(line["usd"]) for line in row["cost"]["lines"])
        assert total == Decimal(row["cost"]["usd_total"] or row["cost"]["usd_per_hour"])
        for line in row["cost"]["lines"]:
            assert abs(Decimal(str(line["quantity"])) * Decimal(line["unit_price"]) - Decimal(line["usd"])) <= Decimal(
                "0.0000005"
            )
        assert row["performance"]["basis"] in {"measured", "silicon", "published", "modelled"}
    for rejection in document["rejections"]:
        assert list(rejection)[1:] == ["instance_type", "reason", "regions", "purchase_options", "count", "detail"]
        assert rejection["reason"] in REASONS
        assert rejection["detail"]


def test_serving_has_no_figures_of_training_and_the_other_way_round():
    serving = answer(top=1)["recommendations"][0]
    assert (serving["cost"]["usd_total"], serving["cost"]["usd_per_epoch"], serving["time"]["hours_total"]) == (
        None,
        None,
        None,
    )
    run = answer(mode="training", method="lora", dataset_tokens=50e6, epochs=3.0, top=1)["recommendations"][0]
    assert (
        run["cost"]["usd_per_million_inferences"],
        run["cost"]["usd_per_month"],
        run["performance"]["at_requests_per_s"],
    ) == (None, None, None)
    assert run["time"]["hours_total"] == pytest.approx(3 * run["time"]["hours_per_epoch"])
    assert float(run["cost"]["usd_total"]) == pytest.approx(3 * float(run["cost"]["usd_per_epoch"]), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "usd"),
    [
        ("p4d.24xlarge", "21.957642"), ("p5.48xlarge", "55.04"), ("g5.xlarge", "1.006"), ("g5.2xlarge", "1.212"), ("g6e.xlarge", "1.861"), ("p5.4xlarge", "6.88"),
    ],
)  # fmt: skip
def test_on_demand_prices_of_us_east_1_to_the_cent(name, usd):
    (row,) = answer(instance=(name,), purchase=("on_demand",))["recommendations"]
    assert Decimal(row["price"]["usd_per_instance_hour"]) == Decimal(usd)
    assert Decimal(row["cost"]["usd_per_hour"]) == Decimal(usd)
    assert row["price"]["as_of"] == "2026-07-20T00:00:00Z"


def test_the_price_of_the_smallest_gpu():
    (row,) = answer(model="bert-base", instance=("g4dn.xlarge",), purchase=("on_demand",))["recommendations"]
    assert row["cost"]["usd_per_hour"] == "0.526000"
    assert row["layout"]["precision"] == "fp16"  # a T4 has no bf16


@pytest.mark.parametrize("name", ["p5e.48xlarge", "trn2.48xlarge"])
def test_a_type_without_an_on_demand_price_is_not_free(name):
    document = answer(instance=(name,), purchase=("on_demand",))
    assert document["recommendations"] == []
    assert [r["reason"] for r in document["rejections"]] == ["no_price"]


def test_ultraservers_are_sold_by_capacity_block_alone():
    document = answer(instance=("p6e-gb200.36xlarge",))
    assert [r["reason"] for r in document["rejections"]] == ["capacity_block_only"]


def test_an_unknown_price_is_never_zero():
    for row in answer(region=("all",), top=10_000)["recommendations"]:
        assert Decimal(row["cost"]["usd_per_hour"]) > 0
        assert Decimal(row["cost"]["usd_per_million_inferences"]) > 0


def test_one_row_per_type_region_and_option():
    rows = answer(region=("all",), top=10_000)["recommendations"]
    keys = [(r["provider"], r["instance_type"], r["region"], r["purchase_option"]) for r in rows]
    assert len(keys) == len(set(keys)) > 300
    costs = [Decimal(r["cost"]["usd_per_million_inferences"]) for r in rows]
    assert costs == sorted(costs)
    assert [r["rank"] for r in rows] == list(range(1, len(rows) + 1))


def test_the_answer_is_the_same_bytes_each_time_and_names_the_alias():
    first, second = (to_json_bytes(answer()) for _ in range(2))
    assert first == second
    model = json.loads(first)["model"]
    assert (model["alias"], model["name"], model["parameters_total"]) == ("7b", "Qwen2.5-7B", 7_615_616_512)


@pytest.mark.parametrize(
    ("other", "same"),
    [({"input_tokens": 999}, False), ({"assume": ("pue=1.2",)}, False), ({"region": ("us-east-1",)}, True)],
)
def test_the_id_is_that_of_the_request(other, same):
    assert (answer()["id"] == answer(**other)["id"]) is same


def test_old_spot_prices_are_called_stale():
    sources = answer()["prices"]["sources"]
    assert {s["kind"]: s["stale"] for s in sources} == {"on_demand": True, "spot": True}
    assert all(isinstance(s["age_hours"], int) for s in sources)


@pytest.mark.parametrize("request_", [{}, {"mode": "training", "dataset_tokens": 1e6, "epochs": 1.0}])
def test_prices_dated_after_the_clock_are_not_called_fresh(request_, monkeypatch):
    monkeypatch.setattr(bootstrap, "utc_now", lambda: datetime(1999, 1, 1, tzinfo=UTC))
    document = answer(top=3, **request_)
    assert all((s["age_hours"], s["stale"], s["after_clock"]) == (0, True, True) for s in document["prices"]["sources"])
    for row in document["recommendations"]:
        assert (row["price"]["age_hours"], row["price"]["stale"], row["price"]["after_clock"]) == (0, True, True)
        assert sum("after this machine's clock (1999-01-01)" in note for note in row["notes"]) == 1
    monkeypatch.setattr(bootstrap, "utc_now", lambda: NOW)
    for row in answer(top=3, **request_)["recommendations"]:
        assert row["price"]["after_clock"] is False
        assert not any("clock" in note for note in row["notes"])


def test_an_estimate_says_that_its_price_is_dated_after_the_clock(monkeypatch):
    monkeypatch.setattr(bootstrap, "utc_now", lambda: datetime(1999, 1, 1, tzinfo=UTC))
    for more in ({}, {"mode": "training"}):  # training: the amount is not given, so there is no cost of the work
        row = bootstrap.answer_estimate(EstimateRequest(model="7b", instance="p5.48xlarge", **more))
        assert row["price"]["after_clock"] is True
        assert sum("after this machine's clock" in note for note in row["notes"]) == 1


def test_a_request_longer_than_the_context_is_refused():
    with pytest.raises(BadRequest) as caught:
        answer(model="llama-2-7b", input_tokens=4000, output_tokens=97)
    assert "4096" in str(caught.value)
    assert answer(model="llama-2-7b", input_tokens=4000, output_tokens=96, top=1)["recommendations"]


def test_a_provider_outside_the_regions_is_a_bad_request_that_says_where_it_is():
    with pytest.raises(BadRequest) as caught:
        answer(provider=("gcp",))
    assert caught.value.field == "region"
    assert "us-central1" in str(caught.value)


def test_explanation_tells_how_the_weights_get_their_size():
    terms = {
        t["name"]: t for t in answer(explain=True, top=1, instance=("g5.xlarge",))["recommendations"][0]["explanation"]
    }
    # Qwen2.5-7B: 7,615,616,512 x 2 / 2^30 = 14.185 GiB = 15.23 GB; a billion parameters in fp32: 4e9 / 2^30 = 3.725 GiB
    assert terms["weights_bf16"]["value"] == pytest.approx(14.185, abs=0.001)
    assert "15.23 GB" in terms["weights_bf16"]["formula"]
    assert "1e9 parameters are 4 GB = 3.73 GiB" in terms["weights_fp32"]["formula"]
    # 28 layers x 4 KV heads x 128 x 2 (K and V) x 2 bytes
    assert terms["kv_bytes_per_token"]["value"] == 28 * 4 * 128 * 2 * 2


@pytest.mark.benchmark
@pytest.mark.parametrize(("region", "seconds"), [(("us-east-1",), 0.150), (("all",), 1.0)])
def test_answers_fast(region, seconds):
    answer(region=region)  # imports and opens the snapshot
    spent = []
    for _ in range(3):
        started = time.process_time()
        answer(region=region)
        spent.append(time.process_time() - started)
    assert min(spent) < seconds


def test_the_example_document_has_the_fields_of_today():
    def shape(value):
        if isinstance(value, dict):
            return {k: shape(v) for k, v in value.items()}
        return [shape(value[0])] if isinstance(value, list) and value and isinstance(value[0], dict) else None

    example = json.loads(
        (Path(__file__).parents[2] / "data/documents/recommend_example.json").read_text(encoding="utf-8")
    )
    assert shape(example) == shape(json.loads(to_json_bytes(answer(top=3))))


@pytest.mark.parametrize(
    ("model", "more", "said"),
    [
        ("bert-base", {"input_size": 512}, "one sequence of 512 tokens"),
        ("resnet50", {"input_size": 384}, "one 384x384 image"),
        ("sdxl", {"steps": 30}, "30 denoising steps"),
    ],
)
def test_a_sample_of_another_size_is_more_or_less_work(model, more, said):
    usual, other = (
        answer(model=model, top=1, instance=("g5.xlarge",), purchase=("on_demand",), **m) for m in ({}, more)
    )
    assert said in other["model"]["one_inference"]
    assert other["id"] != usual["id"]
    rates = [d["recommendations"][0]["performance"]["samples_per_s"] for d in (usual, other)]
    # 512 tokens for 128: four times the projections and more attention; (384/224)^2 = 2.94; 50 steps for 30: 1.67 times the rate
    low, high = {"bert-base": (4.0, 6.5), "resnet50": (2.5, 3.2), "sdxl": (0.58, 0.62)}[model]
    assert low < rates[0] / rates[1] < high


@pytest.mark.parametrize(
    ("request_fields", "field"),
    [
        ({"model": "7b", "input_size": 5}, "input_size"),
        ({"model": "bert-base", "input_size": 513}, "input_size"),
        ({"model": "bert-base", "input_tokens": 512}, "input_tokens"),
        ({"model": "resnet50", "steps": 4}, "steps"),
        ({"model": "bert-base", "mode": "training", "dataset_size": 1e6, "input_size": 512}, "input_size"),
        ({"model": "7b", "mode": "training", "dataset_tokens": 1e9, "sequence_length": 131073}, "sequence_length"),
    ],
)
def test_a_sample_size_that_does_not_apply_is_a_bad_request(request_fields, field):
    with pytest.raises(BadRequest) as caught:
        answer(**request_fields)
    assert caught.value.field == field


def test_formats_that_are_left_open_are_told_as_assumptions():
    said = {a["name"]: a["value"] for a in answer(top=1)["assumptions"]}
    assert (said["precision"], said["kv_precision"]) == ("bf16", "16-bit")
    assert {a["name"]: a["value"] for a in answer(model="deepseek-v3", top=1)["assumptions"]}["precision"].startswith(
        "fp8"
    )
    assert "precision" not in {a["name"] for a in answer(top=1, precision="fp16")["assumptions"]}


def test_a_diffusion_pipeline_holds_its_text_encoders_and_image_decoder():
    # SDXL: UNet 2,567,463,684 + text encoders 123,060,480 + 694,659,840 + decoder 83,653,863 parameters, 2 bytes each:
    # 4.782 and 1.679 GiB; an Inferentia1 chip of 8 GiB (0.9 of what is visible: 7.06) has no room for both and the activations
    document = answer(model="sdxl", instance=("inf1.xlarge", "g5.xlarge"), purchase=("on_demand",))
    assert [r["instance_type"] for r in document["recommendations"]] == ["g5.xlarge"]
    lines = {line["name"]: line["gib"] for line in document["recommendations"][0]["memory"]["lines"]}
    assert lines["weights"] == pytest.approx(4.782, abs=0.001)
    assert lines["companions"] == pytest.approx(1.679, abs=0.001)
    (refused,) = document["rejections"]
    assert (refused["instance_type"], refused["reason"]) == ("inf1.xlarge", "out_of_memory")
