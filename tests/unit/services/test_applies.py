"""An option either changes the answer or is refused by name; the least load still has finite figures."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from typing import Any

import pytest

from planner import bootstrap
from planner.recommend.errors import BadRequest
from planner.recommend.request import EstimateRequest, RecommendRequest
from planner.services.applies import LEAST, check_use
from planner.services.documents import to_json_bytes
from planner.services.find_model import find_model

REQUESTS: dict[type[Any], dict[str, Any]] = {RecommendRequest: {}, EstimateRequest: {"instance": "g5.xlarge"}}
TRAINING = {"mode": "training", "dataset_tokens": 1e9}


def fields_of(request: type[Any], *groups: str) -> list[dataclasses.Field[Any]]:
    return [f for f in dataclasses.fields(request) if f.metadata["option"].group in groups]


def another(f: dataclasses.Field[Any]) -> Any:
    """Return a legal value of a field that is not its default."""
    what = f.metadata["option"]
    if what.choices:
        word: Any = next(c for c in what.choices if c != str(f.default))
        value = int(word) if f.default is not None and isinstance(f.default, int) else word
    elif "date" in str(f.type):
        value = date(2026, 11, 1)
    elif f.name == "scaling":
        value = what.example
    elif "float" in str(f.type):
        value = 0.5 if what.maximum == 1 else 12.5
    else:
        value = 7
    return (value,) if what.repeatable else value


def refused(request: type[Any], field: str, model: str = "7b", **given: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        check_use(request(**REQUESTS[request] | {"model": model} | given), find_model(model, None))
    assert caught.value.field == field
    return caught.value


@pytest.mark.parametrize("request_class", REQUESTS)
def test_every_serving_option_is_refused_where_something_is_trained(request_class):
    for f in fields_of(request_class, "inference"):
        assert "inference alone" in refused(request_class, f.name, **TRAINING, **{f.name: another(f)}).why


@pytest.mark.parametrize("request_class", REQUESTS)
def test_every_training_option_is_refused_where_something_is_served(request_class):
    for f in fields_of(request_class, "training"):
        assert "training alone" in refused(request_class, f.name, **{f.name: another(f)}).why


@pytest.mark.parametrize("name", ["max_ttft_ms", "max_tpot_ms", "max_e2e_ms"])
def test_a_latency_limit_is_never_passed_over_in_training(name):
    refused(RecommendRequest, name, **TRAINING, **{name: 50.0})


@pytest.mark.parametrize("model", ["bert", "resnet50", "sdxl", "whisper"])
def test_the_length_of_a_request_is_refused_where_one_inference_is_a_sample(model):
    for name in ("input_tokens", "output_tokens"):
        why = refused(RecommendRequest, name, model=model, **{name: 512}).why
        assert "one inference of" in why


@pytest.mark.parametrize("request_class", REQUESTS)
def test_terms_of_commitments_are_refused_without_the_commitment(request_class):
    for name, value, with_it in (
        ("plan_type", "compute", "savings_plan_1yr"),
        ("payment_option", "no_upfront", "reserved_3yr"),
        ("offering_class", "standard", "reserved_1yr"),
    ):
        refused(request_class, name, **{name: value})
        purchase = (with_it,) if request_class is RecommendRequest else with_it
        check_use(
            request_class(**REQUESTS[request_class], model="7b", purchase=purchase, **{name: value}),
            find_model("7b", None),
        )


def test_an_option_at_its_default_is_not_refused():
    for request_class, more in REQUESTS.items():
        for mode in ({}, TRAINING):
            defaults = {
                f.name: f.default
                for f in fields_of(request_class, "inference", "training", "constraints")
                if f.name not in {*mode, *more}
            }
            check_use(request_class(**more, model="7b", **mode, **defaults), find_model("7b", None))


@pytest.mark.parametrize("name", sorted(LEAST))
def test_next_to_nothing_is_refused_and_the_least_has_finite_figures(name, monkeypatch, tmp_path):
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "none"))
    mode = TRAINING if name == "epochs" else {}
    for little in (5e-324, 1e-300, LEAST[name] / 2):
        refused(RecommendRequest, name, **mode, **{name: little})
    answer = bootstrap.answer_recommendation(RecommendRequest(model="7b", **mode, **{name: LEAST[name]}))
    json.loads(to_json_bytes(answer))  # NaN and infinity would raise
    assert answer["recommendations"]


def test_engine_and_sort_are_refused_where_they_change_nothing():
    assert "inference alone" in refused(RecommendRequest, "engine", **TRAINING, engine="sglang").why
    assert "inference alone" in refused(RecommendRequest, "sort", **TRAINING, sort="latency").why
    assert "models that generate tokens" in refused(RecommendRequest, "engine", model="resnet50", engine="sglang").why
    check_use(RecommendRequest(model="resnet50", engine="pytorch"), find_model("resnet50", None))
    check_use(RecommendRequest(model="7b", sort="time", **TRAINING), find_model("7b", None))
