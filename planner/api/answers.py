"""Routes that compute: recommendations and estimates. Each parses, calls the service that the CLI calls, and sends its bytes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from planner.api import openapi
from planner.api.bodies import read_object
from planner.api.context import Context
from planner.api.problems import Problem
from planner.api.queries import no_query
from planner.api.schema import RequestSchema
from planner.models.parse import parse_config
from planner.models.spec import ModelSpec
from planner.recommend.request import EstimateRequest, RecommendRequest
from planner.services.documents import to_json_bytes
from planner.services.estimate import estimate
from planner.services.find_model import find_model, registry, shipped_model
from planner.services.recommend import recommend

RECOMMENDATION = RequestSchema(RecommendRequest)
ESTIMATE = RequestSchema(EstimateRequest)

ID = re.compile(r"[0-9A-Za-z_-]{8,128}")
STORED_ANSWER_CACHING = "private, max-age=86400, immutable"


def config_name(config: Mapping[str, Any]) -> str:
    """Return the name that stands for an inline config in the request: its content's hash, so that unlike configs are unlike requests."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return f"config:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def spec_of(model: str | None, params: float | None, config: Mapping[str, Any] | None) -> ModelSpec:
    """Return the model that a request means. Reads shipped configs alone: a path is an unknown name here."""
    if config is not None:
        return parse_config(json.dumps(config), source="config")
    if model is None:
        return find_model(None, params)
    name = model.strip()
    says_path = name.startswith((".", "/", "~", "\\")) or name.endswith(".json")
    entry = None if says_path else registry().find(name)
    if entry is None:
        raise registry().unknown(model)
    return shipped_model(entry, asked=name)


def routes(context: Context) -> APIRouter:
    """Return the routes, working with `context`."""
    router = APIRouter(prefix="/v1", tags=["answers"])

    @router.post(
        "/recommendations",
        openapi_extra=openapi.POST_RECOMMENDATION,
        responses=openapi.responses("recommendation", 400, 413, 415, 422, 503),
    )
    async def create_recommendation(request: Request) -> Response:
        """Rank what can be rented for a model: fit, throughput, latency, cost, with the reasons of everything left out.

        The answer is stored and can be read back by its `id`. When nothing fits, `recommendations` is empty and `rejections` says why: that is an answer too.
        """
        no_query(request)
        accepted = RECOMMENDATION.accept(await read_object(request), config_name=config_name)
        asked = accepted.request

        def answer() -> tuple[str, bytes]:
            spec = spec_of(asked.model, asked.params, accepted.config)
            catalog = context.open_catalog(asked.prices_as_of)
            document = recommend(asked, catalog=catalog, spec=spec, now=context.now(), evidence=context.open_evidence())
            context.keep(document, catalog)
            return str(document["id"]), to_json_bytes(document)

        key, body = await context.desk.ask(answer)
        return Response(
            body, media_type="application/json", headers={"Link": f'</v1/recommendations/{key}>; rel="self"'}
        )

    @router.get(
        "/recommendations/{recommendation_id}",
        openapi_extra=openapi.GET_RECOMMENDATION,
        responses=openapi.responses("recommendation", 404, 422, 503),
    )
    async def read_recommendation(recommendation_id: str, request: Request) -> Response:
        """Read back a stored answer, as it was first given: ages of prices are those of that time."""
        no_query(request)
        missing = Problem(slug="not-found", detail="no recommendation of this id is stored here")
        if not ID.fullmatch(recommendation_id):
            raise missing
        document = await context.desk.ask(lambda: context.store.get(recommendation_id))
        if document is None:
            raise missing
        return Response(
            to_json_bytes(document), media_type="application/json", headers={"Cache-Control": STORED_ANSWER_CACHING}
        )

    @router.post(
        "/estimates",
        openapi_extra=openapi.POST_ESTIMATE,
        responses=openapi.responses("estimate", 400, 413, 415, 422, 503),
    )
    async def create_estimate(request: Request) -> Response:
        """Evaluate one model on one kind of machine: memory line by line, throughput, latency, and cost where a price is known."""
        no_query(request)
        accepted = ESTIMATE.accept(await read_object(request), config_name=config_name)
        asked = accepted.request

        def answer() -> bytes:
            spec = spec_of(asked.model, asked.params, accepted.config)
            catalog, evidence = context.open_catalog(asked.prices_as_of), context.open_evidence()
            return to_json_bytes(estimate(asked, catalog=catalog, spec=spec, now=context.now(), evidence=evidence))

        return Response(await context.desk.ask(answer), media_type="application/json")

    return router
