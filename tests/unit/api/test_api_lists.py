"""Lists: the services' bytes, pages that add up to the whole, and tags that spare sending it twice."""

from __future__ import annotations

from decimal import Decimal

import pytest
from api_client import Client

from planner.bootstrap import open_catalog
from planner.services.documents import to_json_bytes
from planner.services.list_instances import list_instances
from planner.services.list_prices import list_prices
from planner.services.list_rates import list_rates
from planner.services.show_model import list_models


def test_all_prices_are_the_services_document_to_the_byte(client: Client) -> None:
    answer = client.get("/v1/prices")
    assert answer.content == to_json_bytes(list_prices(open_catalog()))
    assert len(answer.json()["prices"]) == open_catalog().meta.quote_count


def test_all_instance_types_are_the_services_document_to_the_byte(client: Client) -> None:
    assert client.get("/v1/instance-types").content == to_json_bytes(list_instances(open_catalog()))


def test_all_models_are_the_services_document_to_the_byte(client: Client) -> None:
    assert client.get("/v1/models").content == to_json_bytes(list_models())


# Linux, shared tenancy, on demand, us-east-1, USD per hour: the AWS price list of 2026-07-20
@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("p4d.24xlarge", "21.957642"),
        ("p5.48xlarge", "55.04"),
        ("g5.xlarge", "1.006"),
        ("g5.2xlarge", "1.212"),
        ("g4dn.xlarge", "0.526"),
        ("g6e.xlarge", "1.861"),
    ],
)
def test_a_filtered_price_is_that_of_the_price_list(client: Client, name: str, price: str) -> None:
    answer = client.get(
        "/v1/prices",
        params={"instance_type": name, "region": "us-east-1", "purchase_option": "on_demand", "provider": "aws"},
    ).json()
    (row,) = answer["prices"]
    assert Decimal(row["effective_unit_price"]) == Decimal(price)
    assert (row["currency"], row["unit"]) == ("USD", "Hrs")


def test_rates_are_the_services_document_to_the_byte(client: Client) -> None:
    assert client.get("/v1/prices/rates").content == to_json_bytes(list_rates(open_catalog()))
    rows = client.get("/v1/prices/rates?service=data%20transfer&region=us-east-1").json()["rates"]
    out = [(r["tier_from"], r["tier_to"], r["unit_price"]) for r in rows if r["item"] == "out to internet"]
    # AWS, data transfer out to the internet from us-east-1: 10 TB, the next 40, the next 100, beyond
    assert out == [(100, 10240, "0.09"), (10240, 51200, "0.085"), (51200, 153600, "0.07"), (153600, None, "0.05")]
    first = client.get("/v1/prices/rates?limit=100").json()
    assert len(first["rates"]) == 100
    assert client.get(first["next"]).json()["rates"] == client.get("/v1/prices/rates").json()["rates"][100:200]
    wrong = client.get("/v1/prices/rates?service=EBSS")
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["field"] == "service"


def test_pages_add_up_to_the_whole(client: Client) -> None:
    whole = client.get("/v1/prices?region=us-east-1&region=eu-west-1").json()["prices"]
    pages: list[object] = []
    url, requests = "/v1/prices?region=us-east-1&region=eu-west-1&limit=37", 0
    while url:
        answer = client.get(url)
        pages += answer.json()["prices"]
        requests += 1
        url = answer.headers.get("link", "").partition(">")[0].removeprefix("<")
    assert pages == whole
    assert requests == -(-len(whole) // 37)


def test_a_list_that_was_cut_says_so_and_goes_on(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer never grows without bound: without `limit` it has a page, and says where the next one is."""
    whole = client.get("/v1/prices").json()
    assert "next" not in whole
    monkeypatch.setattr("planner.api.lists.MOST_ROWS", 1000)
    pages: list[object] = []
    url = "/v1/prices"
    while url:
        answer = client.get(url)
        body = answer.json()
        assert len(body["prices"]) <= 1000
        pages += body["prices"]
        url = body.get("next", "")
        assert answer.headers.get("link", "") == (f'<{url}>; rel="next"' if url else "")
    assert pages == whole["prices"]
    assert len(pages) > 2000


def test_no_page_is_larger_than_the_most(client: Client) -> None:
    assert client.get("/v1/prices?limit=10000").status_code == 200
    answer = client.get("/v1/prices?limit=10001")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["why"] == "must be one whole number from 1 to 10000"


def test_a_page_after_the_end_is_empty(client: Client) -> None:
    answer = client.get("/v1/prices?offset=100000&limit=5")
    assert answer.json()["prices"] == []
    assert "link" not in answer.headers


def test_an_unchanged_list_is_not_sent_twice(client: Client) -> None:
    for path in ("/v1/prices?region=us-east-1", "/v1/instance-types", "/v1/models", "/v1/models/7b"):
        tag = client.get(path).headers["etag"]
        again = client.get(path, headers={"if-none-match": f'"other", W/{tag}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200


def test_unlike_lists_have_unlike_tags(client: Client) -> None:
    tags = [
        client.get(path).headers["etag"]
        for path in ("/v1/prices?limit=1", "/v1/prices?limit=2", "/v1/instance-types?limit=1", "/v1/models")
    ]
    assert len(set(tags)) == len(tags)


def test_instance_types_by_any_spelling_of_a_chip(client: Client) -> None:
    types = client.get("/v1/instance-types", params={"accelerator": "nvidia l40s", "provider": "aws"}).json()[
        "instance_types"
    ]
    assert {row["family"] for row in types} == {"g6e"}


@pytest.mark.parametrize("name", ["7b", "7B", "Qwen2.5-7B", "qwen/qwen2.5-7b"])
def test_a_model_by_alias_name_or_repository(client: Client, name: str) -> None:
    # 28 layers x 2 (K and V) x 4 KV heads x 128 x 2 bytes = 57,344 bytes a token
    shown = client.get(f"/v1/models/{name}").json()
    assert (shown["name"], shown["parameters_total"], shown["kv_bytes_per_token"]["fp16"]) == (
        "Qwen2.5-7B",
        7_615_616_512,
        57_344,
    )


@pytest.mark.parametrize("name", ["7bb", "../../etc/passwd", "x" * 5000, "%2Fetc%2Fpasswd", "a%09b", "%00"])
def test_a_model_that_is_not_there(client: Client, name: str) -> None:
    assert client.get(f"/v1/models/{name}").status_code == 404


@pytest.mark.parametrize(
    "path",
    ["/healthz", "/readyz", "/docs", "/docs/problems", "/openapi.json", "/v1/prices?limit=2", "/v1/instance-types?limit=2", "/v1/models", "/v1/models/7b", "/v1/models/nope", "/v1/prices?limit=x", "/v1/recommendations/0123456789abcdef", "/nope"],
)  # fmt: skip
def test_head_is_get_without_the_body(client: Client, path: str) -> None:
    got, asked = client.get(path), client.request("HEAD", path)
    assert asked.content == b""
    assert (asked.status_code, dict(asked.headers)) == (got.status_code, dict(got.headers))
    assert int(asked.headers["content-length"]) == len(got.content)


def test_head_where_there_is_no_get_is_not_allowed(client: Client) -> None:
    refused = client.request("HEAD", "/v1/recommendations")
    assert (refused.status_code, refused.headers["allow"], refused.content) == (405, "POST", b"")
    assert client.request("DELETE", "/v1/models").headers["allow"] == "GET, HEAD"
