"""The written documentation names every path, status, problem and setting that there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from api_client import Client

from planner.api.answers import RECOMMENDATION
from planner.api.app import MAX_BODY_BYTES
from planner.api.desk import Desk
from planner.api.lists import INSTANCE_PARAMETERS, PRICE_PARAMETERS
from planner.api.problems import KINDS

TEXT = (Path(__file__).parents[3] / "planner" / "docs" / "api.md").read_text(encoding="utf-8")


def test_every_path_is_in_the_table(client: Client) -> None:
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path.replace('recommendation_id', 'id')}" in TEXT


@pytest.mark.parametrize("slug", KINDS)
def test_every_problem_is_in_the_table_with_its_status(slug: str) -> None:
    rows = [line for line in TEXT.splitlines() if f"`{slug}`" in line and line.startswith("|")]
    assert [row.split("|")[1].strip() for row in rows] == [str(KINDS[slug].status)]


def test_every_query_parameter_is_named() -> None:
    for parameters, path in ((PRICE_PARAMETERS, "/v1/prices"), (INSTANCE_PARAMETERS, "/v1/instance-types")):
        (row,) = [line for line in TEXT.splitlines() if f"`GET {path}`" in line]
        assert all(f"`{name}`" in row for name in parameters)


def test_the_limits_are_those_of_the_code() -> None:
    desk = Desk()
    desk.close()
    assert f"more than {MAX_BODY_BYTES // 1024} KiB" in TEXT
    assert f"more than {desk.timeout_s:g} s" in TEXT


def test_the_ways_to_give_a_model_are_fields() -> None:
    assert {"model", "params", "config"} <= set(RECOMMENDATION.document()["properties"])
