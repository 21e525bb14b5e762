"""Routes about prices over time and what can be had: history, differences of two snapshots, kept snapshots, availability.

Each gives the document that the command line prints. They carry an `ETag` like the lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from fastapi import APIRouter, Request, Response

from planner.api import openapi
from planner.api.context import Context
from planner.api.lists import AS_OF, PAGE, PURCHASE_OPTION, QUOTE_FILTERS, REGION, REVALIDATE, cut, named, tagged
from planner.api.problems import unknown_name
from planner.api.queries import Parameter, Query, amount, day, read_query, word
from planner.ports import Document
from planner.recommend.errors import BadRequest
from planner.services.diff_prices import diff_prices
from planner.services.documents import to_json_bytes
from planner.services.list_history import list_history
from planner.services.list_snapshots import list_snapshots
from planner.services.show_availability import show_availability
from pricing.catalog import Catalog
from pricing.errors import UnknownName
from pricing.model import PurchaseOption


def paged(what: str) -> dict[str, Parameter]:
    """Return the parameters of a page of some rows."""
    return {name: replace(parameter, help=parameter.help.replace("rows", what, 1)) for name, parameter in PAGE.items()}


ONE_TYPE = Parameter(help="the instance type", read=word, needed=True, example="p5.48xlarge")
ONE_PROVIDER = Parameter(help="its cloud, where several have a type of this name", read=word, example="aws")
LONGEST_WINDOW_DAYS = 3660
HISTORY_PARAMETERS: Mapping[str, Parameter] = {
    "instance_type": ONE_TYPE,
    "provider": ONE_PROVIDER,
    "region": REGION,
    "purchase_option": PURCHASE_OPTION,
    "zone": Parameter(help="only these zones of spot prices, by id or name, repeatable", example="use1-az4"),
    "since": Parameter(help="only prices in effect on or after this day", read=day, form="date", example="2025-05-01"),
    "until": Parameter(help="only prices seen on or before this day", read=day, form="date", example="2026-11-30"),
    "window_days": Parameter(
        help="window of the spot statistics up to the last look, made of the changes that are kept; default: that of the snapshot",
        minimum=1,
        example=7,
    ),
    "prices_as_of": AS_OF,
    **paged("rows of `spot_changes`"),
}
WHICH = "latest, shipped, a day (the newest not after it), an id of GET /v1/prices/snapshots, or the beginning of one"
DIFF_PARAMETERS: Mapping[str, Parameter] = {
    "from": Parameter(help=f"the older snapshot: {WHICH}", read=word, needed=True, example="shipped"),
    "to": Parameter(help="the newer one, named alike; default: latest", read=word, example="latest"),
    "min_change_fraction": Parameter(
        help="only prices that moved by at least this share, up or down; default: any", read=amount, form="decimal", example="0.05"
    ),
    **QUOTE_FILTERS,
    **paged("rows of each list"),
}  # fmt: skip
AVAILABILITY_PARAMETERS: Mapping[str, Parameter] = {
    "instance_type": ONE_TYPE,
    "region": Parameter(help="the region", read=word, needed=True, example="us-east-1"),
    "provider": ONE_PROVIDER,
    "prices_as_of": AS_OF,
}


def routes(context: Context) -> APIRouter:
    """Return the routes, working with `context`."""
    router = APIRouter(prefix="/v1/prices", tags=["facts"])

    @router.get(
        "/history",
        openapi_extra=openapi.query(HISTORY_PARAMETERS),
        responses=openapi.responses("history", 304, 422, 503),
    )
    async def history(request: Request) -> Response:
        """Tell which prices of a type were seen when: periods of its list prices, changes and statistics of its spot prices."""
        query = read_query(request, HISTORY_PARAMETERS)
        given, window = query.values, query.numbers.get("window_days")
        if window is not None and window > LONGEST_WINDOW_DAYS:
            raise BadRequest(field="window_days", value=window, why=f"must be 1 to {LONGEST_WINDOW_DAYS}")
        spot = PurchaseOption.SPOT in query.names.get("purchase_option", ()) or window is not None

        def answer() -> Document:
            return list_history(
                context.open_catalog(given.get("prices_as_of")),
                given["instance_type"],
                provider=given.get("provider"),
                region=query.names.get("region"),
                purchase_option=query.names.get("purchase_option"),
                zone=query.names.get("zone"),
                since=given.get("since"),
                until=given.get("until"),
                kept=context.store if spot else None,
                window_days=window,
            )

        return await _answered(context, request, query, answer, "spot_changes")

    @router.get(
        "/diff", openapi_extra=openapi.query(DIFF_PARAMETERS), responses=openapi.responses("diff", 304, 422, 503)
    )
    async def diff(request: Request) -> Response:
        """Tell what two price snapshots have unlike: prices that moved, came and went, as they are paid."""
        query = read_query(request, DIFF_PARAMETERS)
        least = query.values.get("min_change_fraction", Decimal(0))

        def answer() -> Document:
            old = _opened(context, "from", query.values["from"])
            new = _opened(context, "to", query.values.get("to", "latest"))
            return diff_prices(old, new, min_change_fraction=least, **query.names)

        return await _answered(context, request, query, answer, "changed", "added", "removed")

    @router.get("/snapshots", openapi_extra=openapi.query(PAGE), responses=openapi.responses("snapshots", 422, 503))
    async def snapshots(request: Request) -> Response:
        """List the price snapshots that are kept here, the one that answers use first, and files that cannot be read."""
        query = read_query(request, PAGE)

        def answer() -> Response:
            document = list_snapshots(context.kept_snapshots(), now=context.now())
            found = [_without_folder(row) for row in document["snapshots"]]
            document["snapshots"] = found
            headers = cut(request, query, document, "snapshots")
            document["unreadable"] = [_without_folder(row) for row in document["unreadable"]]
            return Response(
                to_json_bytes(document), media_type="application/json", headers={"Cache-Control": REVALIDATE, **headers}
            )

        return await context.desk.ask(answer)

    @router.get(
        "/availability",
        openapi_extra=openapi.query(AVAILABILITY_PARAMETERS),
        responses=openapi.responses("availability", 304, 422, 503),
    )
    async def availability(request: Request) -> Response:
        """Tell what is known of getting a type in a region: zones, spot, capacity blocks, placement scores, quotas. None of it is a promise."""
        query = read_query(request, AVAILABILITY_PARAMETERS)
        given = query.values

        def answer() -> Document:
            catalog = context.open_catalog(given.get("prices_as_of"))
            return show_availability(
                catalog,
                given["instance_type"],
                region=given["region"],
                provider=given.get("provider"),
                kept=context.store,
            )

        return await _answered(context, request, query, answer)

    return router


async def _answered(
    context: Context, request: Request, query: Query, answer: Callable[[], Document], *lists: str
) -> Response:
    """Return an answer, of its `lists` a page."""

    def told() -> Response:
        try:
            document = answer()
            headers = cut(request, query, document, *lists)
            return tagged(request, to_json_bytes(document), headers)
        except UnknownName as e:
            raise named(e) from e

    return await context.desk.ask(told)


def _opened(context: Context, parameter: str, which: str) -> Catalog:
    """Return the snapshot that a word names; an error says which parameter it is about."""
    try:
        return context.open_snapshot(which)
    except UnknownName as e:
        raise unknown_name(e, field=parameter) from e
    except BadRequest as e:
        raise BadRequest(field=parameter, value=which, why=e.why, expected=e.expected or "") from e


def _without_folder(row: Document) -> Document:
    """Return what is told of a file with its name alone: where it lies is nothing to a client."""
    path = str(row["path"])
    name = Path(path).name
    return {k: v.replace(path, name) if isinstance(v, str) else v for k, v in row.items()}
