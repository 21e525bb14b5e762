"""`create_app`: the FastAPI application, wired. `uvicorn --factory planner.api.app:create_app` serves it, as `planner serve` does."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ExceptionHandler

from planner import bootstrap
from planner.api import answers, docs, health, lists, market, openapi
from planner.api.context import Context
from planner.api.desk import Desk
from planner.api.guard import Guard
from planner.api.problems import DOMAIN_PROBLEMS, FieldError, Problem, invalid, problem_of
from planner.api.schedule import Plan, Schedule, check_names, plan_of
from planner.ports import Clock
from planner.recommend.as_of import AsOf
from planner.store import BadDatabaseUrl, SqlStore, StoreError
from pricing.catalog import Catalog
from pricing.errors import PricingError, SnapshotError

MAX_BODY_BYTES = 512 * 1024
"""Largest body: the longest published model configs have some tens of kilobytes."""

LOCK_WAIT_S = 1.5
"""How long a request waits for a lock of the database. Its thread computes nothing meanwhile, and there are few."""

log = logging.getLogger("planner.api")


class CannotStart(SystemExit):
    """A setting of the environment cannot be. Under any server that loads the application, the process ends with this one line."""


def create_app(
    *,
    database_url: str | None = None,
    upgrade: bool = True,
    open_catalog: Callable[[AsOf | None], Catalog] | None = None,
    now: Clock | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    threads: int | None = None,
    queue: int = 64,
    timeout_s: float = 30.0,
    refresh: Plan | None = None,
) -> FastAPI:
    """Return the application.

    `database_url`: None = PLANNER_DATABASE_URL, else `planner.sqlite` under the user's data directory. `upgrade`: bring an empty or
    older database up to date at the start; False leaves that to `planner db upgrade` and says so in /readyz. `threads`, `queue` and
    `timeout_s` bound the work done at once, the requests that wait, and how long one may take. `refresh`: how often prices are refreshed
    beside the answers; None = as PLANNER_REFRESH_EVERY says, by default never. Raises CannotStart for a setting that cannot be.
    """
    try:
        plan = refresh or check_names(plan_of(os.environ))
        store = SqlStore(database_url or bootstrap.database_url(), lock_wait_s=LOCK_WAIT_S)
    except (ValueError, BadDatabaseUrl, SnapshotError) as e:
        raise CannotStart(f"planner: {e}") from None
    own_database = {bootstrap.DATABASE_VARIABLE: database_url} if database_url else {}
    schedule = (
        None
        if plan is None
        else Schedule(
            plan, folder=bootstrap.data_dir(), now=bootstrap.utc_now, environment={**os.environ, **own_database}
        )
    )
    context = Context(
        open_catalog=open_catalog or bootstrap.open_catalog,
        open_evidence=bootstrap.open_evidence,
        open_snapshot=bootstrap.open_snapshot_by,
        kept_snapshots=bootstrap.kept_snapshots,
        store=store,
        desk=Desk(threads=threads, queue=queue, timeout_s=timeout_s),
        now=now or bootstrap.utc_now,
        upgrade=upgrade,
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            await to_thread.run_sync(context.prepare)
            log.info("answers are stored in %s", context.store.where)
        except (StoreError, PricingError) as e:
            log.error("not ready, see /readyz: %s", e)  # noqa: TRY400 - the message says it all
        refreshing = None if schedule is None else asyncio.create_task(schedule.run())
        if refreshing is not None:
            refreshing.add_done_callback(_log_bug)
        yield
        if refreshing is not None:
            refreshing.cancel()
            await asyncio.wait({refreshing})
        context.close()

    app = FastAPI(
        title="planner",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    for router in (
        answers.routes(context),
        lists.routes(context),
        market.routes(context),
        health.routes(context, schedule),
        docs.routes(app),
    ):
        app.include_router(router)
    bodies = {schema.request_class.__name__: schema.document() for schema in (answers.RECOMMENDATION, answers.ESTIMATE)}
    _set_openapi(app, bodies)
    for error in (Problem, HTTPException, *DOMAIN_PROBLEMS):
        app.add_exception_handler(error, cast("ExceptionHandler", _answer_with_problem))
    app.add_exception_handler(RequestValidationError, cast("ExceptionHandler", _answer_with_invalid))
    app.add_middleware(Guard, max_body_bytes=max_body_bytes)
    return app


def _log_bug(refreshing: asyncio.Task[None]) -> None:
    """Say that the schedule has ended of itself, which it never should; answers go on."""
    if not refreshing.cancelled() and (error := refreshing.exception()) is not None:
        log.error("prices are no longer refreshed", exc_info=error)


def _set_openapi(app: FastAPI, bodies: dict[str, dict[str, Any]]) -> None:
    """Make the document once, when it is first asked for."""

    def make() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = openapi.document(app, bodies)
        return app.openapi_schema

    app.openapi = make  # type: ignore[method-assign]  # the way FastAPI documents


async def _answer_with_problem(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem is None:
        raise error
    if problem.kind.status >= 500 and not isinstance(error, Problem):
        log.error("%s %s: %s", request.method, request.url.path, error)
    return problem.response(request)


async def _answer_with_invalid(request: Request, error: RequestValidationError) -> Response:
    wrong = [
        FieldError(field=".".join(str(part) for part in each["loc"][1:]), value=each.get("input"), why=str(each["msg"]))
        for each in error.errors()
    ]
    return invalid(wrong).response(request)
