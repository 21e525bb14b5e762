"""Routes that list what there is: instance types, prices, models. They carry an `ETag`, so that an unchanged list is not sent twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from planner import __version__
from planner.api import openapi
from planner.api.context import Context
from planner.api.problems import Problem, unknown_name
from planner.api.queries import Parameter, Query, amount, no_query, read_query, word
from planner.models.errors import UnknownModel
from planner.ports import Document
from planner.recommend.as_of import WHICH, as_of
from planner.services.documents import to_json_bytes
from planner.services.find_model import registry, shipped_model
from planner.services.list_instances import list_instances
from planner.services.list_prices import list_prices
from planner.services.list_rates import list_rates
from planner.services.show_model import list_models, show_model
from pricing.catalog import Catalog
from pricing.errors import UnknownName

REVALIDATE = "private, no-cache"
"""A client may keep a list, but asks each time whether it still holds."""

PROVIDER = Parameter(help="only these clouds, repeatable", example="aws")
REGION = Parameter(help="only these regions, repeatable; all = everywhere", example="us-east-1")
INSTANCE_TYPE = Parameter(help="only these instance types, repeatable", example="g5.xlarge")
MOST_ROWS = 10_000
"""Rows of one answer: 7 MB of prices, a tenth of a second of one processor. The shipped snapshot has a quarter of that."""
PAGE = {
    "limit": Parameter(
        help=f"at most this many rows; default: {MOST_ROWS:,}, which is the most",
        minimum=1,
        maximum=MOST_ROWS,
        example=100,
    ),
    "offset": Parameter(help="rows to skip; follow the Link header rather than counting", minimum=0, example=0),
}
PURCHASE_OPTION = Parameter(help="only these purchase options, repeatable", example="on_demand")
AS_OF = Parameter(
    help=f"which price snapshot: {WHICH}; default: the newest",
    read=as_of,
    example="2026-11-30",
)
QUOTE_FILTERS: Mapping[str, Parameter] = {
    "provider": PROVIDER,
    "instance_type": INSTANCE_TYPE,
    "accelerator": Parameter(help="only types with these accelerators (any spelling), repeatable", example="H100"),
    "family": Parameter(help="only types of these families, repeatable", example="p5"),
    "region": REGION,
    "zone": Parameter(help="only spot prices of these zones, by id or name, repeatable", example="use1-az4"),
    "purchase_option": PURCHASE_OPTION,
    "plan_type": Parameter(help="only Savings Plans of these types, repeatable", example="compute"),
    "offering_class": Parameter(help="only reservations of these classes, repeatable", example="standard"),
    "term": Parameter(help="only commitments of so many years, repeatable", example="3"),
    "payment_option": Parameter(help="only commitments paid so, repeatable", example="no_upfront"),
    "currency": Parameter(help="only prices in these currencies, repeatable", example="USD"),
}
"""The filters of `list_prices`."""
PRICE_PARAMETERS: Mapping[str, Parameter] = {
    **QUOTE_FILTERS,
    "max_price": Parameter(
        help="only prices up to so much per hour, in USD or the one currency", read=amount, form="decimal", example="10"
    ),
    "sort": Parameter(
        help="price, instance, region, purchase or newest; default: the order of the snapshot",
        read=word,
        example="price",
    ),
    "prices_as_of": AS_OF,
    **PAGE,
}
RATE_PARAMETERS: Mapping[str, Parameter] = {
    "provider": PROVIDER,
    "service": Parameter(help="only these services, repeatable", example="EBS"),
    "region": REGION,
    "prices_as_of": AS_OF,
    **PAGE,
}
INSTANCE_PARAMETERS: Mapping[str, Parameter] = {
    "provider": PROVIDER,
    "instance_type": INSTANCE_TYPE,
    "accelerator": Parameter(help="only types with these accelerators (any spelling), repeatable", example="L40S"),
    "region": Parameter(help="only types with a price in these regions, repeatable", example="us-east-1"),
    **PAGE,
}


def routes(context: Context) -> APIRouter:
    """Return the routes, working with `context`."""
    router = APIRouter(prefix="/v1", tags=["facts"])

    @router.get(
        "/prices", openapi_extra=openapi.query(PRICE_PARAMETERS), responses=openapi.responses("prices", 304, 422, 503)
    )
    async def prices(request: Request) -> Response:
        """List the quotes of a price snapshot, the newest unless another is named, with source and day of each, in a fixed order."""
        return await _page(context, request, read_query(request, PRICE_PARAMETERS), "prices", list_prices)

    @router.get(
        "/prices/rates",
        openapi_extra=openapi.query(RATE_PARAMETERS),
        responses=openapi.responses("rates", 304, 422, 503),
    )
    async def rates(request: Request) -> Response:
        """List the prices of storage and network of a snapshot, a row for each tier, with source and day of each, in a fixed order."""
        return await _page(context, request, read_query(request, RATE_PARAMETERS), "rates", list_rates)

    @router.get(
        "/instance-types",
        openapi_extra=openapi.query(INSTANCE_PARAMETERS),
        responses=openapi.responses("instance_types", 304, 422, 503),
    )
    async def instance_types(request: Request) -> Response:
        """List the instance types that are known, with their chips' figures and the regions that have a price."""
        return await _page(context, request, read_query(request, INSTANCE_PARAMETERS), "instance_types", list_instances)

    @router.get("/models", responses=openapi.responses("models", 304, 422))
    async def models(request: Request) -> Response:
        """List the models known by name, with their aliases."""
        no_query(request)
        return await context.desk.ask(lambda: tagged(request, to_json_bytes(list_models())))

    @router.get(
        "/models/{name:path}", openapi_extra=openapi.GET_MODEL, responses=openapi.responses("model", 304, 404, 422)
    )
    async def model(name: str, request: Request) -> Response:
        """Show one model: parameters, KV bytes per token, weight bytes by precision, context limit, source. Aliases are fine."""
        no_query(request)

        def answer() -> Response:
            entry = registry().find(name) if len(name) <= 200 else None
            if entry is None:
                unknown: UnknownModel = registry().unknown(name[:200])
                hint = (
                    f"; did you mean {' or '.join(unknown.suggestions)}?"
                    if unknown.suggestions
                    else "; GET /v1/models lists them"
                )
                raise Problem(slug="not-found", detail=f"no model is called {name[:200]!r}{hint}")
            return tagged(request, to_json_bytes(show_model(shipped_model(entry, asked=name.strip()))))

        return await context.desk.ask(answer)

    return router


async def _page(
    context: Context, request: Request, query: Query, rows: str, listing: Callable[..., Document]
) -> Response:
    """Return one page of a listing. Where all fits on the first it is to the byte what the command line prints."""
    limit, offset = query.numbers.get("limit", MOST_ROWS), query.numbers.get("offset", 0)
    given = dict(query.values)

    def answer() -> Response:
        catalog: Catalog = context.open_catalog(given.pop("prices_as_of", None))
        tag = tag_of(f"{catalog.meta.snapshot_id} {__version__} {request.url.path} {request.url.query}".encode())
        if unchanged(request, tag):
            return not_modified(tag)
        try:
            document = listing(catalog, **query.names, **given, limit=offset + limit + 1)
        except UnknownName as e:
            raise named(e) from e
        headers = {"ETag": tag, "Cache-Control": REVALIDATE} | cut(request, query, document, rows)
        return Response(to_json_bytes(document), media_type="application/json", headers=headers)

    return await context.desk.ask(answer)


def named(error: UnknownName) -> Problem:
    """Return the problem of a name in the query: its parameter is called as its kind is."""
    return unknown_name(error, field=error.kind.replace(" ", "_"))


def cut(request: Request, query: Query, document: Document, *lists: str) -> dict[str, str]:
    """Leave of the lists of a document what the page asked for has, and return the headers that say where the next one is.

    Where there is a next page the document says it as well, in `next`: a list that was cut must not pass for a whole one.
    """
    limit, offset = query.numbers.get("limit", MOST_ROWS), query.numbers.get("offset", 0)
    more = any(len(document[name]) > offset + limit for name in lists)
    for name in lists:
        document[name] = document[name][offset : offset + limit]
    if not more:
        return {}
    document["next"] = _next(request, offset + limit)
    return {"Link": f'<{document["next"]}>; rel="next"'}


def _next(request: Request, offset: int) -> str:
    kept = [(name, value) for name, value in request.query_params.multi_items() if name != "offset"]
    return f"{request.url.path}?{urlencode([*kept, ('offset', str(offset))])}"


def tagged(request: Request, body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """Return a body with its tag, or 304 where the client has it."""
    tag = tag_of(body)
    if unchanged(request, tag):
        return not_modified(tag)
    return Response(
        body, media_type="application/json", headers={"ETag": tag, "Cache-Control": REVALIDATE, **(headers or {})}
    )


def tag_of(content: bytes) -> str:
    """Return the tag of a content."""
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def unchanged(request: Request, tag: str) -> bool:
    """Say whether the client has what bears this tag."""
    given = request.headers.get("if-none-match", "")
    return given.strip() == "*" or tag in {each.strip().removeprefix("W/") for each in given.split(",")}


def not_modified(tag: str) -> Response:
    """Return a 304."""
    return Response(status_code=304, headers={"ETag": tag, "Cache-Control": REVALIDATE})
