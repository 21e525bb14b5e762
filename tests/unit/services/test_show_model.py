"""The documents of `models show` and `models list`."""

from __future__ import annotations

import pytest

from planner.services.find_model import find_model, model_names
from planner.services.list_models import list_models
from planner.services.show_model import show_model


def test_the_document_of_a_model() -> None:
    tables, norms, biases = 2 * 152064 * 3584, 57 * 3584, 28 * (3584 + 2 * 512)
    linear = 7615616512 - tables - norms - biases
    wide = (tables + norms + biases) * 2
    document = show_model(find_model("7b", None))
    assert list(document) == [
        "name",
        "architecture",
        "parameters_total",
        "parameters_active",
        "kv_bytes_per_token",
        "weight_bytes",
        "checkpoint",
        "max_context",
        "source",
    ]
    assert document == {
        "name": "Qwen2.5-7B",
        "architecture": "Qwen2ForCausalLM",
        "parameters_total": 7615616512,
        "parameters_active": 7615616512,
        "kv_bytes_per_token": {"fp16": 57344, "fp8": 28672},
        "weight_bytes": {"bf16": 15231233024, "fp8": linear + wide, "int4": linear // 2 + linear // 64 + wide},
        "checkpoint": {"precision": "bf16", "weight_bytes": 15231233024},
        "max_context": 131072,
        "source": document["source"],
    }
    assert document["source"]


def test_the_published_checkpoint_of_a_quantised_model() -> None:
    # openai/gpt-oss-120b: 36 layers x 128 experts x 3 x 2,880 x 2,880 numbers in mxfp4 (4.25 bits), the rest in bf16: 65.2 GB of files.
    shown = show_model(find_model("gpt-oss-120b", None))
    experts = 36 * 128 * 3 * 2880 * 2880
    rest = shown["parameters_total"] - experts
    assert shown["checkpoint"]["precision"] == "mxfp4"
    assert shown["checkpoint"]["weight_bytes"] == pytest.approx(experts * 4.25 / 8 + rest * 2, rel=1e-3)
    assert shown["checkpoint"]["weight_bytes"] / 1e9 == pytest.approx(65.2, abs=0.1)


def test_models_without_a_cache_have_none() -> None:
    assert show_model(find_model("resnet50", None))["kv_bytes_per_token"] == {"fp16": 0, "fp8": 0}


def test_the_list_holds_every_model_once() -> None:
    models = list_models()["models"]
    names = [m["name"] for m in models]
    assert len(names) == len(set(names)) > 150
    assert {a for m in models for a in m["aliases"]} | set(names) <= set(model_names())
    by_name = {m["name"]: m for m in models}
    assert by_name["Mixtral-8x7B"]["parameters_active"] == 12879925248
    assert by_name["SDXL"]["kind"] == "diffusion"
