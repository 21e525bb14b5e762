"""Everything that can go wrong, as problem documents: the right status, type, field and hint, and never a word too much."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_client import Client

from planner import bootstrap
from planner.api.problems import DOMAIN_PROBLEMS, KINDS, MOST_ERRORS, problem_of
from planner.models import errors as model_errors
from planner.recommend import errors as recommend_errors
from planner.store import errors as store_errors
from pricing import errors as pricing_errors
from pricing.errors import SnapshotError

POST = "/v1/recommendations"


def problem(answer: httpx.Response, status: int, slug: str) -> dict[str, Any]:
    """Return the problem document after checking what every one must have."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document["type"] == f"/docs/problems#{slug}"
    assert document["status"] == status
    assert document["title"] == KINDS[slug].title
    assert document["instance"].startswith("/")
    assert document["detail"]
    assert "Traceback" not in answer.text
    return document


def send(
    client: Client, body: bytes | str, content_type: str | None = "application/json", **headers: str
) -> httpx.Response:
    return client.post(POST, content=body, headers=headers | ({"content-type": content_type} if content_type else {}))


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "empty"), (b"{", "line 1"), (b"not json", "line 1"), (b'{"model": "7b",}', "line 1"), (b'{"model": NaN}', "NaN"), (b'{"params": Infinity}', "Infinity"), (b'{"params": 1e999}', "larger"),
        (b'{"model": "7b", "model": "8b"}', "twice"), (b'{"config": {"a": {"b": 1, "b": 2}}}', "twice"), (b"[]", "list"), (b'"7b"', "text"), (b"null", "null"), (b"7", "number"), (b"\xff\xfe", "UTF-8"), (b'{"model": "\xe9"}', "UTF-8"),
        (b'{"model": "\\ud800"}', "surrogate"), (b'{"top": ' + b"9" * 5000 + b"}", "digits"), (b"[" * 100_000, "nested"), (b'{"config":' + b'{"a":' * 50_000, "nested"), (b"\xef\xbb\xbf{}", "line 1"),
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_malformed(client: Client, body: bytes, detail: str) -> None:
    assert detail in problem(send(client, body), 400, "malformed-json")["detail"]


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/xml",
        "application/json; charset=latin-1",
        "multipart/form-data; boundary=x",
        "json",
        "*/*",
    ],
)
def test_only_declared_json_is_read(client: Client, content_type: str | None) -> None:
    answer = send(client, b'{"model": "7b"}', content_type)
    assert "Content-Type: application/json" in problem(answer, 415, "unsupported-media-type")["detail"]


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"'],
)
def test_every_spelling_of_json_is_read(client: Client, content_type: str) -> None:
    assert send(client, b'{"model": "7b"}', content_type).status_code == 200


def test_compressed_bodies_are_refused(client: Client) -> None:
    problem(send(client, b"\x1f\x8b", **{"content-encoding": "gzip"}), 415, "unsupported-media-type")


STRICT = [
    ({"model": 7}, "model", "must be text", ""),
    ({"model": "7b", "input_tokens": "7"}, "input_tokens", "must be a whole number", ""),
    ({"model": "7b", "input_tokens": 7.5}, "input_tokens", "must be a whole number", ""),
    ({"model": "7b", "input_tokens": True}, "input_tokens", "must be a whole number", ""),
    ({"model": "7b", "epochs": "3"}, "epochs", "must be a number", ""),
    ({"model": "7b", "epochs": True}, "epochs", "must be a number", ""),
    ({"model": "7b", "explain": 1}, "explain", "must be true or false", ""),
    ({"model": "7b", "explain": "yes"}, "explain", "must be true or false", ""),
    ({"model": "7b", "region": "us-east-1"}, "region", "must be a list", "us-east-1"),
    ({"model": "7b", "region": ["us-east-1", 5]}, "region[1]", "must be text", ""),
    ({"model": "7b", "mode": None}, "mode", "must be text", "inference"),
    ({"model": "7b", "config": [1]}, "config", "must be an object", ""),
    ({"model": "7b", "prices_as_of": "2026-02-30"}, "prices_as_of", "YYYY-MM-DD", ""),
    ({"model": "7b", "prices_as_of": "2026011"}, "prices_as_of", "is the name of no price snapshot here", ""),
    ({"model": "7b", "prices_as_of": "20.1.2026"}, "prices_as_of", "YYYY-MM-DD, or the name of a snapshot", ""),
    ({"model": "7b", "prices_as_of": 20260101}, "prices_as_of", "must be text", "2026-07-01"),
    ({"model": "7b", "regoin": ["x"]}, "regoin", "is not a field", "did you mean region"),
    ({"model": "7b", "input-tokens": 5}, "input-tokens", "is not a field", "did you mean input_tokens"),
    ({"model": "7b", "top": 0}, "top", "at least 1", ""),
    ({"model": "7b", "utilisation": 0}, "utilisation", "more than 0", ""),
    ({"model": "7b", "utilisation": 1.1}, "utilisation", "at most 1", ""),
    ({"model": "7b", "sort": "cots"}, "sort", "is not one of", "did you mean cost?"),
    ({"model": "7b", "percentile": 98}, "percentile", "is not one of", ""),
    ({"model": "7b", "needs": ["nvlnk"]}, "needs", "is not one of", "did you mean nvlink?"),
    ({"model": "a\x00b"}, "model", "control characters", ""),
    ({"model": "x" * 201}, "model", "longer than 200", ""),
    ({"model": "7b", "region": ["us-east-1"] * 501}, "region", "more than 500", ""),
    ({"model": "7b", "region": ["us-east-9"]}, "region", "", "us-east-1"),
    ({"model": "7b", "instance": ["g5.xlrage"]}, "instance", "", "g5.xlarge"),
    ({"model": "7b", "mode": "training"}, "dataset_tokens", "exactly one", ""),
    ({"model": "7b", "prices_as_of": "1999-01-01"}, "prices_as_of", "before the oldest", ""),
]


@pytest.mark.parametrize(
    ("body", "field", "why", "expected"), STRICT, ids=[json.dumps(case[0])[:60] for case in STRICT]
)
def test_a_wrong_field_is_named_with_what_would_be_right(
    client: Client, body: dict[str, Any], field: str, why: str, expected: str
) -> None:
    document = problem(client.post(POST, json=body), 422, "invalid-request")
    (error,) = document["errors"]
    assert error["field"] == field
    assert why in error["why"]
    assert expected in (error["expected"] or "")


def test_every_wrong_field_is_named_at_once_in_the_order_of_the_fields(client: Client) -> None:
    document = problem(client.post(POST, json={"top": 0, "sort": "x", "model": "7b"}), 422, "invalid-request")
    assert [error["field"] for error in document["errors"]] == ["top", "sort"]
    assert "and 1 more" in document["detail"]


def test_an_unknown_model_has_near_misses(client: Client) -> None:
    document = problem(client.post(POST, json={"model": "7bb"}), 422, "unknown-model")
    assert document["errors"][0]["field"] == "model"
    assert "did you mean 7b" in document["errors"][0]["expected"]


def test_a_long_value_is_not_sent_back_whole(client: Client) -> None:
    assert len(client.post(POST, json={"model": "x" * 100_000}).content) < 2000


def test_many_wrong_fields_are_counted_and_some_are_listed_at_once(client: Client) -> None:
    begun = time.monotonic()
    document = problem(client.post(POST, json={f"region{n}": 1 for n in range(20_000)}), 422, "invalid-request")
    assert time.monotonic() - begun < 2
    assert len(document["errors"]) == MOST_ERRORS
    assert "19999 more" in document["detail"]


@pytest.mark.parametrize("body", [{"model": "7b"}, {"model": "7b", "instance": "g5.xlarge", "accelerator": "L40S"}, {"model": "7b", "instance": "g5.xlarge", "count": 2}, {"model": "bert", "instance": "g5.xlarge", "kv_precision": "fp8"}])  # fmt: skip
def test_a_problem_speaks_of_fields_not_of_flags(client: Client, body: dict[str, Any]) -> None:
    answer = client.post("/v1/estimates", json=body)
    problem(answer, 422, "invalid-request")
    assert "--" not in answer.text


@pytest.mark.parametrize(("method", "path", "status", "slug"), [("GET", "/", 404, "not-found"), ("GET", "/v1", 404, "not-found"), ("GET", "/v1/nope", 404, "not-found"), ("POST", "/v1/recommendations/", 404, "not-found"), ("GET", "/v1/recommendations", 405, "method-not-allowed"), ("DELETE", "/v1/prices", 405, "method-not-allowed"), ("PUT", "/healthz", 405, "method-not-allowed"), ("OPTIONS", "/v1/recommendations", 405, "method-not-allowed")])  # fmt: skip
def test_paths_and_methods_that_are_not_there(client: Client, method: str, path: str, status: int, slug: str) -> None:
    answer = client.request(method, path)
    problem(answer, status, slug)
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize(("query", "field", "hint"), [("regoin=x", "regoin", "region"), ("limit=0", "limit", ""), ("limit=ten", "limit", ""), ("limit=1&limit=2", "limit", ""), ("limit=-1", "limit", ""), ("limit=99999999999", "limit", ""), ("offset=1.5", "offset", ""), ("region=", "region", ""), ("region=us-east-9", "region", "us-east-1"), ("purchase_option=spto", "purchase_option", "spot"), ("instance_type=g5.xlrage", "instance_type", "g5.xlarge")])  # fmt: skip
def test_wrong_query_parameters_are_named(client: Client, query: str, field: str, hint: str) -> None:
    (error,) = problem(client.get(f"/v1/prices?{query}"), 422, "invalid-request")["errors"]
    assert error["field"] == field
    assert hint in (error["expected"] or "")


def test_a_query_where_none_is_read_is_refused(client: Client) -> None:
    problem(client.post(f"{POST}?model=7b", json={"model": "7b"}), 422, "invalid-request")


def test_a_body_that_says_it_is_too_large_is_not_read(client: Client) -> None:
    problem(send(client, b" " * (600 * 1024)), 413, "body-too-large")


def test_a_body_that_does_not_say_its_size_is_cut_off(client: Client) -> None:
    async def endless() -> Any:
        for _ in range(100):
            yield b" " * 65536

    answer = client.post(POST, content=endless(), headers={"content-type": "application/json"})
    problem(answer, 413, "body-too-large")


def test_a_client_that_hangs_up_is_no_incident(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    import asyncio

    sent: list[Any] = []

    async def hung_up() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def keep(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"content-length", b"100")]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": POST, "raw_path": POST.encode(), "query_string": b"", "headers": headers, "scheme": "http", "server": ("t", 80), "client": ("c", 1), "root_path": ""}  # fmt: skip
    asyncio.run(client.app(scope, hung_up, keep))
    assert sent == []
    assert "incident" not in caplog.text


def test_a_body_that_is_too_large_is_read_to_a_bound_before_it_is_refused(client: Client) -> None:
    import asyncio

    sent: list[Any] = []
    pieces = iter(range(10_000))

    async def piece() -> dict[str, Any]:
        next(pieces)
        return {"type": "http.request", "body": b" " * 65_536, "more_body": True}

    async def keep(message: Any) -> None:
        sent.append((message["type"], next(pieces)))

    scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": POST, "raw_path": POST.encode(), "query_string": b"", "scheme": "http", "server": ("t", 80), "client": ("c", 1), "root_path": ""}  # fmt: skip
    for declared in ([(b"content-length", b"900000000")], []):
        sent.clear()
        pieces = iter(range(10_000))
        asyncio.run(client.app(scope | {"headers": [(b"content-type", b"application/json"), *declared]}, piece, keep))
        kind, read = sent[0]
        assert kind == "http.response.start"
        assert 128 <= read <= 128 + 9  # 8 MiB in pieces of 64 KiB, and those up to the limit of 512 KiB
    sent.clear()
    pieces = iter(range(10_000))
    waiting = [(b"content-length", b"900000000"), (b"expect", b"100-continue")]
    asyncio.run(client.app(scope | {"headers": waiting}, piece, keep))
    assert sent[0] == ("http.response.start", 0)  # that client sends nothing before it is told to


def test_a_bug_is_a_500_that_tells_nothing_and_is_logged(
    start: Callable[..., Client], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken_clock() -> Any:
        raise ZeroDivisionError("secret of the house")

    client = start(database_url=f"sqlite:///{tmp_path / 'x.sqlite'}", now=broken_clock)
    document = problem(client.post(POST, json={"model": "7b"}), 500, "internal-error")
    assert "secret" not in json.dumps(document)
    assert document["incident"] in caplog.text
    assert "secret of the house" in caplog.text


def test_a_damaged_snapshot_is_503_and_names_no_file(start: Callable[..., Client], tmp_path: Path) -> None:
    def broken(_day: date | None) -> Any:
        raise SnapshotError("/home/someone/snapshot.sqlite: damaged")

    client = start(database_url=f"sqlite:///{tmp_path / 'x.sqlite'}", open_catalog=broken)
    answer = client.post(POST, json={"model": "7b"})
    problem(answer, 503, "prices-unavailable")
    assert "someone" not in answer.text
    assert int(answer.headers["retry-after"]) > 0


def test_without_a_database_no_answer_is_given_and_the_password_is_kept(
    start: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    client = start(database_url="postgresql://me:hunter2@127.0.0.1:1/planner")
    answer = client.post(POST, json={"model": "7b"})
    problem(answer, 503, "database-unavailable")
    ready = client.get("/readyz")
    checks = problem(ready, 503, "not-ready")["checks"]
    assert [(check["name"], check["ok"]) for check in checks] == [("prices", True), ("database", False)]
    assert "hunter2" not in answer.text + ready.text + caplog.text
    assert client.get("/healthz").status_code == 200
    assert client.get("/v1/models/7b").status_code == 200


def test_an_older_database_says_what_to_run_when_the_server_may_not_upgrade_it(
    start: Callable[..., Client], tmp_path: Path
) -> None:
    client = start(database_url=f"sqlite:///{tmp_path / 'x.sqlite'}", upgrade=False)
    document = problem(client.get("/readyz"), 503, "not-ready")
    assert [(check["name"], check["ok"]) for check in document["checks"]] == [
        ("prices", True),
        ("database", True),
        ("schema", False),
    ]
    assert "planner db upgrade" in document["detail"]
    problem(client.post(POST, json={"model": "7b"}), 503, "database-not-current")
    with bootstrap.open_store(f"sqlite:///{tmp_path / 'x.sqlite'}") as store:
        store.upgrade()
    assert client.get("/readyz").status_code == 200
    assert client.post(POST, json={"model": "7b"}).status_code == 200


def test_a_database_file_that_is_removed_is_missed_at_once(start: Callable[..., Client], tmp_path: Path) -> None:
    client = start(database_url=f"sqlite:///{tmp_path / 'x.sqlite'}")
    assert client.post(POST, json={"model": "7b", "top": 1}).status_code == 200
    assert client.get("/readyz").status_code == 200
    for file in tmp_path.glob("x.sqlite*"):
        file.unlink()
    for _ in range(2):
        refused = problem(client.post(POST, json={"model": "7b", "top": 1}), 503, "database-not-current")
        assert "no tables yet" in refused["detail"]
        assert str(tmp_path) not in refused["detail"]
        assert "no tables yet" in problem(client.get("/readyz"), 503, "not-ready")["detail"]
    assert client.get("/v1/models/7b").status_code == 200
    with bootstrap.open_store(f"sqlite:///{tmp_path / 'x.sqlite'}") as store:
        store.upgrade()
        answer = client.post(POST, json={"model": "7b", "top": 1})
        assert answer.status_code == 200
        assert store.get(answer.json()["id"]) == answer.json()
        assert [m.snapshot_id for m in store.snapshots()] == [answer.json()["prices"]["snapshot_id"]]
    assert client.get("/readyz").status_code == 200


def test_tables_of_another_program_are_said_not_upgraded(start: Callable[..., Client], tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as other, other:
        other.execute("CREATE TABLE recommendations (song TEXT)")
    client = start(database_url=f"sqlite:///{tmp_path / 'x.sqlite'}")
    for detail in (
        problem(client.post(POST, json={"model": "7b"}), 503, "database-not-current")["detail"],
        problem(client.get("/readyz"), 503, "not-ready")["detail"],
    ):
        assert "tables of another program (recommendations)" in detail
        assert "db upgrade" not in detail


def test_a_locked_database_is_told_soon_and_holds_up_nothing_else(start: Callable[..., Client], tmp_path: Path) -> None:
    client = start(database_url=f"sqlite:///{tmp_path / 'x.sqlite'}")
    with closing(sqlite3.connect(tmp_path / "x.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        answer = client.post(POST, json={"model": "7b", "top": 1})
        assert time.monotonic() - began < 5  # 1.5 s of waiting, and the answer itself on a busy machine
        assert "locked" in problem(answer, 503, "database-unavailable")["detail"]
        assert int(answer.headers["retry-after"]) <= 5
        assert client.post("/v1/estimates", json={"model": "7b", "instance": "g5.xlarge"}).status_code == 200
        other.execute("COMMIT")
    assert client.post(POST, json={"model": "7b", "top": 1}).status_code == 200


def test_too_slow_and_too_many_are_told_so(start: Callable[..., Client], tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    release, began = threading.Event(), threading.Event()

    def held(day: date | None) -> Any:
        if threading.current_thread().name.startswith("planner-desk"):
            began.set()
            release.wait(20)
        return bootstrap.open_catalog(day)

    client = start(
        database_url=f"sqlite:///{tmp_path / 'x.sqlite'}", open_catalog=held, threads=1, queue=1, timeout_s=1.0
    )
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(client.get, "/v1/prices?limit=1")
        assert began.wait(10)
        second = pool.submit(client.get, "/v1/prices?limit=1")
        while client.app.router and not second.done():
            third = client.get("/v1/prices?limit=1")
            if third.json().get("type", "").endswith("#busy"):
                break
        problem(third, 503, "busy")
        assert third.headers["retry-after"] == "1"
        problem(first.result(), 503, "timeout")
        problem(second.result(), 503, "timeout")
        release.set()
    for _ in range(100):  # the thread that was held is free again a moment later
        answer = client.get("/v1/prices?limit=1")
        if answer.status_code == 200:
            break
    assert answer.status_code == 200


def test_every_response_has_the_headers_that_keep_browsers_safe(client: Client) -> None:
    for path in ("/healthz", "/nope", "/docs", "/v1/models", "/openapi.json"):
        headers = client.get(path, headers={"origin": "https://elsewhere.example"}).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert not [name for name in headers if name.startswith("access-control-")]
        assert "server" not in headers


def test_every_domain_error_becomes_a_problem() -> None:
    trees = (model_errors, recommend_errors, store_errors, pricing_errors)
    named = [
        value
        for tree in trees
        for value in vars(tree).values()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == tree.__name__
    ]
    assert len(named) >= 12
    for error in named:
        assert any(base in DOMAIN_PROBLEMS for base in error.__mro__), f"{error.__name__} would be a 500"


def test_a_bug_is_no_problem_of_the_domain() -> None:
    assert problem_of(ZeroDivisionError()) is None
