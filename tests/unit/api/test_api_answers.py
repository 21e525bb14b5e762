"""Recommendations and estimates: the bytes of the service, stored and read back, with models named, counted or given inline."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from api_client import NOW, Client

from planner.api.openapi import ESTIMATE_EXAMPLES, RECOMMENDATION_EXAMPLES, SMALL_CONFIG
from planner.bootstrap import open_catalog
from planner.recommend.request import EstimateRequest, RecommendRequest
from planner.services.documents import to_json_bytes
from planner.services.estimate import estimate
from planner.services.find_model import find_model
from planner.services.recommend import recommend
from pricing.snapshot import write_snapshot


def rows_of(file: Path, query: str) -> list[Any]:
    """Return the rows of a query, from outside of the application."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


MAIN = {"model": "7b", "mode": "inference"}


def test_the_body_is_the_services_document_to_the_byte(client: Client) -> None:
    answer = client.post("/v1/recommendations", json=MAIN)
    document = recommend(RecommendRequest(model="7b"), catalog=open_catalog(), spec=find_model("7b", None), now=NOW)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.content == to_json_bytes(document)


def test_an_estimate_is_the_services_document_to_the_byte(client: Client) -> None:
    answer = client.post("/v1/estimates", json={"model": "7b", "instance": "g5.xlarge"})
    document = estimate(
        EstimateRequest(model="7b", instance="g5.xlarge"), catalog=open_catalog(), spec=find_model("7b", None), now=NOW
    )
    assert answer.status_code == 200
    assert answer.content == to_json_bytes(document)


def test_scaling_is_the_services_document_to_the_byte(client: Client) -> None:
    body = {"model": "8b", "mode": "training", "instance": "p5.48xlarge", "scaling": "1..4"}
    answer = client.post("/v1/estimates", json=body)
    document = estimate(EstimateRequest(**body), catalog=open_catalog(), spec=find_model("8b", None), now=NOW)
    assert answer.status_code == 200
    assert answer.content == to_json_bytes(document)
    rows = answer.json()["scaling"]
    assert [(r["instances"], r["accelerators"]) for r in rows] == [(1, 8), (2, 16), (4, 32)]
    assert rows[0]["speedup"] == rows[0]["efficiency_fraction"] == 1
    assert all(r["limited_by"] for r in rows)
    wrong = client.post("/v1/estimates", json=body | {"scaling": "4..1"})
    assert wrong.status_code == 422
    assert "scaling" not in client.post("/v1/estimates", json={"model": "7b", "instance": "g5.xlarge"}).json()


def test_the_main_job_has_the_price_of_the_price_sheet(client: Client) -> None:
    # g5.xlarge, us-east-1, Linux, on demand: 1.006 USD per hour (AWS price list); 7B in 16 bits = 14.19 GiB of weights on a 24 GB A10G
    answer = client.post(
        "/v1/recommendations", json=MAIN | {"instance": ["g5.xlarge"], "purchase": ["on_demand"]}
    ).json()
    (row,) = answer["recommendations"]
    assert row["instance_type"] == "g5.xlarge"
    assert Decimal(row["price"]["usd_per_instance_hour"]) == Decimal("1.006")
    weights = sum(line["gib"] for line in row["memory"]["lines"] if line["name"] == "weights")
    assert weights == pytest.approx(7_615_616_512 * 2 / 2**30, abs=0.01)


def test_numbers_may_be_whole_where_a_fraction_is_allowed(client: Client) -> None:
    whole = client.post("/v1/recommendations", json=MAIN | {"requests_per_s": 2})
    fraction = client.post("/v1/recommendations", json=MAIN | {"requests_per_s": 2.0})
    assert whole.status_code == 200
    assert whole.content == fraction.content


def test_an_answer_is_stored_and_read_back_to_the_byte(client: Client) -> None:
    given = client.post("/v1/recommendations", json=MAIN | {"top": 3})
    key = given.json()["id"]
    assert given.headers["link"] == f'</v1/recommendations/{key}>; rel="self"'
    kept = client.get(f"/v1/recommendations/{key}")
    assert kept.status_code == 200
    assert kept.content == given.content
    assert "immutable" in kept.headers["cache-control"]


def test_equal_requests_at_once_are_one_row(start: Callable[..., Client], tmp_path: Path) -> None:
    file = tmp_path / "planner.sqlite"
    client = start(database_url=f"sqlite:///{file}")
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: client.post("/v1/recommendations", json=MAIN), range(6)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    rows = rows_of(
        file, "SELECT id, snapshot_id, planner_version, json_extract(request, '$.model') FROM recommendations"
    )
    document = answers[0].json()
    assert rows == [(document["id"], document["prices"]["snapshot_id"], document["planner_version"], "7b")]


def test_the_snapshot_answered_from_is_recorded_at_the_start(start: Callable[..., Client], tmp_path: Path) -> None:
    file = tmp_path / "planner.sqlite"
    start(database_url=f"sqlite:///{file}")
    meta = open_catalog().meta
    rows = rows_of(file, "SELECT snapshot_id, (SELECT count(*) FROM price_quotes) FROM price_snapshots")
    assert rows == [(meta.snapshot_id, meta.quote_count)]


def test_a_snapshot_that_is_published_later_is_recorded_with_its_first_answer(
    start: Callable[..., Client], tmp_path: Path
) -> None:
    file = tmp_path / "x.sqlite"
    client = start(database_url=f"sqlite:///{file}")
    shipped = open_catalog()
    contents, as_of = shipped.contents(), shipped.meta.as_of
    later = tuple(replace(quote, retrieved_at=quote.retrieved_at + timedelta(days=3)) for quote in contents.quotes)
    published = write_snapshot(
        tmp_path / "data" / "snapshots" / f"{as_of + timedelta(days=3):%Y-%m-%d}-later.sqlite",
        replace(contents, quotes=later),
        published_at=NOW,
        origin="refresh",
    )
    for _ in range(2):
        answer = client.post("/v1/recommendations", json=MAIN | {"top": 1})
        assert answer.json()["prices"]["snapshot_id"] == published.snapshot_id
    (quotes,) = rows_of(file, f"SELECT count(*) FROM price_quotes WHERE snapshot_id = '{published.snapshot_id}'")
    assert quotes == (len(contents.quotes),)
    unknown = "SELECT count(*) FROM recommendations WHERE snapshot_id NOT IN (SELECT snapshot_id FROM price_snapshots)"
    assert rows_of(file, unknown) == [(0,)]


@pytest.mark.parametrize(
    "name", ["0" * 32, "short", "..%2f..%2fetc", "x" * 4000, "%00", "a b", "'; DROP TABLE recommendations; --"]
)
def test_an_unknown_id_is_not_found(client: Client, name: str) -> None:
    answer = client.get(f"/v1/recommendations/{name}")
    assert answer.status_code == 404
    assert answer.json()["type"] == "/docs/problems#not-found"


def test_nothing_fits_is_an_answer(client: Client) -> None:
    answer = client.post("/v1/recommendations", json={"model": "405b", "instance": ["g4dn.xlarge"]})
    assert answer.status_code == 200
    assert answer.json()["recommendations"] == []
    assert {rejection["reason"] for rejection in answer.json()["rejections"]} >= {"out_of_memory"}


def test_an_inline_config_counts_as_the_named_model_does(client: Client) -> None:
    # Qwen2.5-7B's published parameter total is 7,615,616,512 (28 layers, hidden 3,584, 152,064 words, untied head)
    inline = client.post("/v1/recommendations", json={"config": SMALL_CONFIG}).json()
    named = client.post("/v1/recommendations", json=MAIN).json()
    assert inline["model"]["parameters_total"] == 7_615_616_512
    assert [row["instance_type"] for row in inline["recommendations"]] == [
        row["instance_type"] for row in named["recommendations"]
    ]


def test_unlike_configs_are_unlike_requests(client: Client) -> None:
    one = client.post("/v1/recommendations", json={"config": SMALL_CONFIG}).json()
    same = client.post("/v1/recommendations", json={"config": dict(reversed(list(SMALL_CONFIG.items())))}).json()
    other = client.post("/v1/recommendations", json={"config": SMALL_CONFIG | {"num_hidden_layers": 27}}).json()
    assert one["id"] == same["id"]
    assert one["id"] != other["id"]
    assert one["request"]["model"].startswith("config:")


@pytest.mark.parametrize(
    "template",
    ["{}", "{}/config.json", "./{}", "~/config.json", "file://{}/config.json", "../config.json", "config.json"],
)
@pytest.mark.parametrize("path", ["/v1/recommendations", "/v1/estimates"])
def test_the_server_reads_no_files(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: str, path: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL_CONFIG))
    monkeypatch.chdir(tmp_path)
    body = {"model": template.format(tmp_path)} | ({"instance": "g5.xlarge"} if path.endswith("estimates") else {})
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert answer.json()["type"] == "/docs/problems#unknown-model"


def test_a_folder_of_the_servers_with_a_config_in_it_is_no_model(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret-model").mkdir()
    (tmp_path / "secret-model" / "config.json").write_text(json.dumps(SMALL_CONFIG))
    monkeypatch.chdir(tmp_path)
    assert client.post("/v1/recommendations", json={"model": "secret-model"}).status_code == 422


@pytest.mark.parametrize("name", RECOMMENDATION_EXAMPLES)
def test_every_documented_recommendation_is_answered(client: Client, name: str) -> None:
    answer = client.post("/v1/recommendations", json=RECOMMENDATION_EXAMPLES[name]["value"])
    assert answer.status_code == 200, answer.text
    assert answer.json()["recommendations"], name


@pytest.mark.parametrize("name", ESTIMATE_EXAMPLES)
def test_every_documented_estimate_is_answered(client: Client, name: str) -> None:
    answer = client.post("/v1/estimates", json=ESTIMATE_EXAMPLES[name]["value"])
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"model": "7b", "config": SMALL_CONFIG}, "config"),
        ({"params": 7e9, "config": {}}, "config"),
        ({}, "model"),
        ({"model": "7b", "params": 7e9}, "params"),
    ],
)
def test_exactly_one_of_model_params_and_config(client: Client, body: dict[str, Any], field: str) -> None:
    answer = client.post("/v1/recommendations", json=body)
    assert answer.status_code == 422
    assert field in {error["field"] for error in answer.json()["errors"]}


def test_a_config_that_cannot_be_counted_names_its_field(client: Client) -> None:
    answer = client.post("/v1/recommendations", json={"config": {"model_type": "qwen2", "hidden_size": 3584}})
    assert answer.status_code == 422
    assert answer.json()["type"] == "/docs/problems#invalid-config"
    assert answer.json()["errors"][0]["field"].startswith("config.")
