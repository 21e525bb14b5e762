"""Whatever is sent, the server answers or says what is wrong: never a 500, never a body that is no JSON, never anything unstored."""

from __future__ import annotations

import dataclasses
import json
import typing
from typing import Any
from urllib.parse import quote

import pytest
from api_client import Client
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from planner.api.answers import ESTIMATE, RECOMMENDATION
from planner.recommend.request import EstimateRequest, RecommendRequest

FEW = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,  # the same cases in every run; raise max_examples and drop this to look for more
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20) | st.sampled_from([10**30, -1, 0, 1e308, 5e-324, "7b", "NaN", "\x00", "\ud800", "💥", "x" * 300, "../..", "all"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip

NAMES: dict[str, list[str]] = {
    "model": ["7b", "8b", "70b", "mixtral-8x7b", "deepseek-v3", "qwen2.5-7b", "nope"],
    "instance": [
        "g5.xlarge",
        "p5.48xlarge",
        "g6f.xlarge",
        "inf2.xlarge",
        "p5e.48xlarge",
        "trn2.48xlarge",
        "m7i.xlarge",
        "nope",
    ],
    "accelerator": ["A10G", "H100", "L40S", "T4", "nope"],
    "exclude": ["g5", "H100", "g5.xlarge", "nope"],
    "region": ["us-east-1", "eu-west-1", "all", "us-gov-west-1", "nope"],
    "provider": ["aws", "gcp", "azure", "nope"],
    "assume": ["pue=1.2", "pue=x", "pue", "nope=1", "=", "pue=-1", "pue=1e400", "pue=nan"],
    "prices_as_of": ["2026-11-30", "2020-01-01", "9999-12-31", "2026-02-30", "shipped", "latest", "abcdef0123", "abc"],
}


def plausible(name: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values of a field that its schema allows, edges among them."""
    if "anyOf" in schema:
        return st.one_of(*(plausible(name, arm) for arm in schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return st.lists(plausible(name, schema["items"]), max_size=3)
    if kind in {"integer", "number"}:
        low, high = schema.get("minimum", schema.get("exclusiveMinimum", 0)), schema.get("maximum", 1e12)
        edges = st.sampled_from([low, high, low + 1])
        return (
            (edges.map(int) | st.integers(int(low), int(high)))
            if kind == "integer"
            else (edges.map(float) | st.floats(low, high))
        )
    if kind == "string":
        return st.sampled_from(NAMES.get(name, ["x"]))
    return st.booleans() if kind == "boolean" else st.none()


def bodies(document: dict[str, Any], required: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return bodies with a few fields set, mostly to what the schema allows."""
    fields = {
        name: st.one_of(*[plausible(name, schema)] * 6, anything)
        for name, schema in document["properties"].items()
        if name != "config"
    }
    few = st.lists(st.sampled_from(sorted(fields)), max_size=5, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: fields[name] for name in names})
    )
    return st.builds(lambda given: required | given, few)


def check(client: Client, path: str, content: bytes, content_type: str = "application/json") -> None:
    answer = client.post(path, content=content, headers={"content-type": content_type})
    document = answer.json()
    if answer.status_code == 200:
        if path.endswith("recommendations"):
            assert client.get(f"{path}/{document['id']}").json()["id"] == document["id"]
    else:
        assert answer.status_code in {400, 422}, (content, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert document["status"] == answer.status_code


@FEW
@given(body=bodies(RECOMMENDATION.document(), {"model": "7b"}))
@example(body={"model": "7b", "requests_per_s": 3.8e-40})  # a cost per inference beyond 28 digits
def test_recommendations_of_plausible_fields(client: Client, body: dict[str, Any]) -> None:
    check(client, "/v1/recommendations", json.dumps(body).encode())


@FEW
@given(body=bodies(RECOMMENDATION.document(), {"model": "8b", "mode": "training", "dataset_tokens": 1e8}))
@example(body={"model": "8b", "mode": "training", "dataset_tokens": 1e8, "epochs": 8e-86})
@example(body={"model": "8b", "mode": "training", "dataset_tokens": 1e16, "epochs": 1e6})
def test_training_of_plausible_fields(client: Client, body: dict[str, Any]) -> None:
    check(client, "/v1/recommendations", json.dumps(body).encode())


@FEW
@given(body=bodies(ESTIMATE.document(), {"model": "7b", "instance": "g5.xlarge"}))
def test_estimates_of_plausible_fields(client: Client, body: dict[str, Any]) -> None:
    check(client, "/v1/estimates", json.dumps(body).encode())


@FEW
@given(value=anything, path=st.sampled_from(["/v1/recommendations", "/v1/estimates"]))
def test_any_json_at_all(client: Client, value: Any, path: str) -> None:
    check(client, path, json.dumps(value).encode())


@FEW
@given(content=st.binary(max_size=200), path=st.sampled_from(["/v1/recommendations", "/v1/estimates"]))
def test_any_bytes_at_all(client: Client, content: bytes, path: str) -> None:
    check(client, path, content)


@FEW
@given(config=st.dictionaries(st.sampled_from(["model_type", "architectures", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size", "intermediate_size", "head_dim", "text_config", "quantization_config", "torch_dtype", "num_local_experts", "sliding_window", "layer_types"]), anything | st.sampled_from(["llama", "qwen2", "mixtral", "gemma2", "bert", "deepseek_v3"])))  # fmt: skip
def test_any_config_at_all(client: Client, config: dict[str, Any]) -> None:
    check(client, "/v1/recommendations", json.dumps({"config": config}).encode())


@FEW
@given(
    path=st.sampled_from(["/v1/prices", "/v1/prices/history", "/v1/prices/diff", "/v1/prices/snapshots", "/v1/prices/availability", "/v1/instance-types", "/v1/models", "/v1/models/7b", "/healthz", "/v1/recommendations/0123456789abcdef"]),
    query=st.lists(st.tuples(st.sampled_from(["region", "provider", "instance_type", "purchase_option", "accelerator", "limit", "offset", "from", "since", "max_price", "sort", "x"]), st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["1", "us-east-1", "all", "aws", "-1", "\u0661", "p5.48xlarge", "shipped", "2026-02-30"])), max_size=3),
)  # fmt: skip
def test_any_query_at_all(client: Client, path: str, query: list[tuple[str, str]]) -> None:
    answer = client.get(f"{path}?{'&'.join(f'{name}={quote(value)}' for name, value in query)}")
    assert answer.status_code in {200, 404, 422}, answer.text
    assert answer.json()


@FEW
@given(
    path=st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
)
def test_any_path_at_all(client: Client, path: str, method: str) -> None:
    answer = client.request(method, f"/v1/{quote(path)}")
    assert answer.status_code in {200, 404, 405, 415, 422}, answer.text


@pytest.mark.parametrize("request_class", [RecommendRequest, EstimateRequest])
def test_every_kind_of_field_is_fuzzed(request_class: Any) -> None:
    schema = (RECOMMENDATION if request_class is RecommendRequest else ESTIMATE).document()["properties"]
    for f in dataclasses.fields(request_class):
        assert f.name in schema
        value = plausible(f.name, schema[f.name])
        assert value is not None
        assert typing.get_type_hints(request_class)[f.name] is not None
