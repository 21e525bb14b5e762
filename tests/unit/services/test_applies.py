"""An option that would change nothing in the answer is refused by name, with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from planner import bootstrap
from planner.recommend.errors import BadRequest
from planner.recommend.request import EstimateRequest, RecommendRequest

TRAINING = {"mode": "training", "dataset_tokens": 1e9}


@pytest.mark.parametrize(
    ("given", "field", "why"),
    [
        ({"model": "7b", "method": "lora"}, "method", "training alone"),
        ({"model": "7b", "deadline_hours": 3.0}, "deadline_hours", "training alone"),
        ({"model": "7b", "plan_type": "compute"}, "plan_type", "savings plan prices alone"),
        (
            {"model": "7b", "offering_class": "standard", "purchase": ("spot",)},
            "offering_class",
            "reserved prices alone",
        ),
        ({"model": "7b", **TRAINING, "max_ttft_ms": 5.0}, "max_ttft_ms", "inference alone"),
        ({"model": "7b", **TRAINING, "traffic": (1.0, 2.0)}, "traffic", "inference alone"),
        ({"model": "7b", **TRAINING, "engine": "sglang"}, "engine", "inference alone"),
        ({"model": "7b", **TRAINING, "sort": "latency"}, "sort", "inference alone"),
        ({"model": "7b", **TRAINING, "lora_rank": 8}, "lora_rank", "lora and qlora alone"),
        ({"model": "resnet50", "max_tpot_ms": 5.0}, "max_tpot_ms", "models that generate tokens"),
        ({"model": "resnet50", "engine": "sglang"}, "engine", "models that generate tokens"),
    ],
)
def test_what_does_not_apply_is_refused(given: dict[str, Any], field: str, why: str) -> None:
    with pytest.raises(BadRequest) as caught:
        bootstrap.answer_recommendation(RecommendRequest(**given))
    assert caught.value.field == field
    assert why in caught.value.why


@pytest.mark.parametrize(
    "given", [{"model": "7b", **TRAINING, "method": "lora", "lora_rank": 8}, {"model": "resnet50", "engine": "pytorch"}]
)
def test_what_applies_is_answered(given: dict[str, Any]) -> None:
    assert bootstrap.answer_recommendation(RecommendRequest(**given, top=1))["recommendations"]


def test_an_estimate_is_held_to_the_same() -> None:
    with pytest.raises(BadRequest, match="training alone"):
        bootstrap.answer_estimate(EstimateRequest(model="7b", instance="g5.xlarge", method="qlora"))
