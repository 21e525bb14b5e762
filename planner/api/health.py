"""`/healthz`: the process answers. `/readyz`: prices, database and schema are there, or which is not and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from planner import __version__
from planner.api import openapi
from planner.api.context import Context
from planner.api.problems import Problem
from planner.api.schedule import Schedule
from planner.store import SchemaNotCurrent, StoreError
from pricing.errors import PricingError


def routes(context: Context, schedule: Schedule | None = None) -> APIRouter:
    """Return the routes, working with `context`; of a schedule of refreshes it is told how they went, which makes nothing unready."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz", responses=openapi.responses("health"))
    async def healthz() -> Response:
        """Say that the process is alive; looks at nothing else."""
        return _json({"status": "alive", "planner_version": __version__})

    @router.get("/readyz", responses=openapi.responses("readiness", 503))
    async def readyz(request: Request) -> Response:
        """Say whether requests can be answered: a readable price snapshot, a database that answers, a schema of this version."""
        del request
        checks = await to_thread.run_sync(lambda: checks_of(context))
        refresh = None if schedule is None else await to_thread.run_sync(schedule.told)
        if all(check["ok"] for check in checks):
            return _json({"status": "ready", "planner_version": __version__, "checks": checks, "refresh": refresh})
        wrong = "; ".join(str(check["detail"]) for check in checks if not check["ok"])
        raise Problem(
            slug="not-ready", detail=wrong, headers={"Retry-After": "10"}, more={"checks": checks, "refresh": refresh}
        )

    return router


def checks_of(context: Context) -> list[dict[str, Any]]:
    """Return one line for prices, database and schema: name, whether it is fine, and what was found."""
    checks: list[dict[str, Any]] = []

    def check(name: str, look: Callable[[], str]) -> None:
        try:
            checks.append({"name": name, "ok": True, "detail": look()})
        except (PricingError, StoreError) as e:
            checks.append({"name": name, "ok": False, "detail": str(e)})

    def prices() -> str:
        meta = context.open_catalog(None).meta
        return f"snapshot {meta.snapshot_id} of {meta.as_of.date().isoformat()}, {meta.quote_count} quotes"

    def database() -> str:
        try:
            context.prepare()
            context.store.check()
        except SchemaNotCurrent:
            pass  # it answers; its schema is the next check
        return context.store.where

    check("prices", prices)
    check("database", database)
    if checks[-1]["ok"]:
        check("schema", lambda: f"revision {context.store.check()}")
    return checks


def _json(document: dict[str, Any]) -> Response:
    return Response(json.dumps(document, indent=2) + "\n", media_type="application/json")
