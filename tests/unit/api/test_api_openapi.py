"""The OpenAPI document says what the server does: every field, every example, every status; and the pages work without a network."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from api_client import Client

from planner.api.problems import KINDS
from planner.api.shapes import SHAPES
from planner.recommend.request import EstimateRequest, RecommendRequest, options


@pytest.fixture(scope="module")
def document(client: Client) -> dict[str, Any]:
    answer = client.get("/openapi.json")
    assert answer.status_code == 200
    made: dict[str, Any] = answer.json()
    return made


def test_the_paths_of_the_contract_are_there(document: dict[str, Any]) -> None:
    assert {(method.upper(), path) for path, methods in document["paths"].items() for method in methods} == {
        ("POST", "/v1/recommendations"), ("GET", "/v1/recommendations/{recommendation_id}"), ("POST", "/v1/estimates"), ("GET", "/v1/instance-types"),
        ("GET", "/v1/prices"), ("GET", "/v1/prices/rates"), ("GET", "/v1/prices/history"), ("GET", "/v1/prices/diff"), ("GET", "/v1/prices/snapshots"), ("GET", "/v1/prices/availability"), ("GET", "/v1/models"), ("GET", "/v1/models/{name}"), ("GET", "/healthz"), ("GET", "/readyz"),
    }  # fmt: skip


@pytest.mark.parametrize("request_class", [RecommendRequest, EstimateRequest])
def test_every_option_is_a_field_with_its_meaning_bounds_and_choices(
    document: dict[str, Any], request_class: Any
) -> None:
    import dataclasses

    schema = document["components"]["schemas"][request_class.__name__]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {f.name for f in dataclasses.fields(request_class)} | {"config"}
    for f in dataclasses.fields(request_class):
        option, field = f.metadata["option"], schema["properties"][f.name]
        if f.name != "model":
            assert field["description"].startswith(option.help)
        arm = next((arm for arm in field.get("anyOf", [field]) if arm.get("type") != "null"), field)
        one = arm.get("items", arm)
        assert [str(choice) for choice in one.get("enum", [])] == list(option.choices)
        assert one.get("exclusiveMinimum" if option.exclusive_minimum else "minimum") == option.minimum
        assert one.get("maximum") == option.maximum


def test_numbers_are_numbers_and_lists_are_lists(document: dict[str, Any]) -> None:
    fields = document["components"]["schemas"]["RecommendRequest"]["properties"]
    assert fields["percentile"]["enum"] == [50, 90, 95, 99]
    assert fields["region"] == {
        "type": "array",
        "items": fields["region"]["items"],
        "maxItems": 500,
        "default": ["us-east-1"],
        "description": fields["region"]["description"],
        "examples": [["us-east-1"]],
    }
    as_of = fields["prices_as_of"]["anyOf"][0]
    assert as_of["type"] == "string"
    for text, fits in (("2026-07-01", True), ("shipped", True), ("c307ed0990042ff4", True), ("c307e", False), ("1.7.2026", False)):  # fmt: skip
        assert bool(re.search(as_of["pattern"], text)) == fits


def test_it_is_a_sound_openapi_document(document: dict[str, Any]) -> None:
    from fastapi.openapi.models import OpenAPI

    OpenAPI.model_validate(document)
    assert document["openapi"].startswith("3.1")
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    references = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert references
    assert references <= set(schemas)


def test_every_operation_that_can_fail_says_so_with_problem_documents(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["description"], path
            for status, response in operation["responses"].items():
                media = set(response.get("content", {}))
                assert media == (
                    set()
                    if status == "304"
                    else {"application/json"}
                    if status == "200"
                    else {"application/problem+json"}
                )


@pytest.mark.parametrize(
    ("shape", "method", "path", "body"),
    [
        ("recommendation", "POST", "/v1/recommendations", {"model": "7b"}),
        ("recommendation", "POST", "/v1/recommendations", {"model": "7b", "mode": "training", "dataset_tokens": 50e6, "method": "lora"}),
        ("recommendation", "POST", "/v1/recommendations", {"model": "405b", "instance": ["g4dn.xlarge"]}),
        ("recommendation", "POST", "/v1/recommendations", {"model": "7b", "region": ["all"], "explain": True, "top": 200}),
        ("estimate", "POST", "/v1/estimates", {"model": "7b", "instance": "g5.xlarge"}),
        ("estimate", "POST", "/v1/estimates", {"model": "70b", "instance": "g5.xlarge"}),
        ("estimate", "POST", "/v1/estimates", {"model": "7b", "accelerator": "H100", "count": 2}),
        ("estimate", "POST", "/v1/estimates", {"model": "7b", "instance": "g5.xlarge", "explain": True}),
        ("prices", "GET", "/v1/prices", None),
        ("rates", "GET", "/v1/prices/rates", None),
        ("history", "GET", "/v1/prices/history?instance_type=p5.48xlarge", None),
        ("diff", "GET", "/v1/prices/diff?from=shipped", None),
        ("snapshots", "GET", "/v1/prices/snapshots", None),
        ("availability", "GET", "/v1/prices/availability?instance_type=p5.48xlarge&region=us-east-1", None),
        ("instance_types", "GET", "/v1/instance-types", None),
        ("models", "GET", "/v1/models", None),
        ("model", "GET", "/v1/models/8b", None),
        ("health", "GET", "/healthz", None),
        ("readiness", "GET", "/readyz", None),
    ],
)  # fmt: skip
def test_real_answers_have_the_documented_shape(
    client: Client, shape: str, method: str, path: str, body: dict[str, Any] | None
) -> None:
    answer = client.request(method, path, json=body) if body else client.request(method, path)
    assert answer.status_code == 200, answer.text
    SHAPES[shape].model.model_validate_json(answer.content)


class Links(HTMLParser):
    """Collects where a page points, and the anchors it has."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in {"href", "src", "action"}:
                self.targets.append(value or "")
            if name == "id":
                self.anchors.add(value or "")


@pytest.mark.parametrize("path", ["/docs", "/docs/problems"])
def test_the_pages_need_nothing_from_elsewhere(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = Links()
    page.feed(answer.text)
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert all(target.startswith(("/", "#")) for target in page.targets)
    for target in page.targets:
        if target.startswith("#"):
            assert target[1:] in page.anchors
        else:
            assert client.get(target).status_code == 200


def test_every_field_and_example_is_on_the_page(client: Client) -> None:
    page = client.get("/docs").text
    for name in options():
        assert f"<td>{name}</td>" in page
    assert "curl -s http://127.0.0.1:8000/v1/recommendations" in page


def test_backticks_are_code_on_the_pages(client: Client) -> None:
    for path in ("/docs", "/docs/problems"):
        page = client.get(path).text
        assert "`" not in page
        assert "<code>" in page


def test_every_problem_type_leads_to_its_explanation(client: Client) -> None:
    page = Links()
    page.feed(client.get("/docs/problems").text)
    assert page.anchors == set(KINDS)
    assert all(kind.uri == f"/docs/problems#{kind.slug}" for kind in KINDS.values())


def test_the_style_sheet_is_the_one_the_policy_allows(client: Client) -> None:
    import base64
    import hashlib

    answer = client.get("/docs")
    style = re.search(r"<style>(.*?)</style>", answer.text, re.S)
    assert style
    digest = base64.b64encode(hashlib.sha256(style.group(1).encode()).digest()).decode()
    assert f"'sha256-{digest}'" in answer.headers["content-security-policy"]
