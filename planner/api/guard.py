"""The outermost layer: limits the size of bodies, sets headers that every response needs, answers HEAD, and turns a bug into a plain 500."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from planner.api.problems import MEDIA_TYPE, Problem

log = logging.getLogger("planner.api")

SECURE_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Set where a response has not set its own. No CORS header: pages of other origins may not read answers."""


DRAINED_BYTES = 8 * 1024 * 1024
DRAIN_S = 10.0
DRAIN_IDLE_S = 1.0
"""How much of a refused body is still read, for how long in all, and how long for its next piece: a client that is still sending when
the connection is closed loses the answer."""


class Guard:
    """Wraps the whole application. HEAD is answered as GET is, without the body."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int) -> None:
        self.app = app
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False
        received = 0
        bodiless = scope["method"] == "HEAD"
        if bodiless:
            scope = {**scope, "method": "GET"}

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURE_HEADERS.items():
                    headers.setdefault(name, value)
            elif bodiless and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        async def receive_with_limit() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_body_bytes:
                if message.get("more_body", False):
                    await _drain(receive)
                raise self._too_large()
            return message

        try:
            headers = Headers(scope=scope)
            declared = headers.get("content-length", "0")
            if declared.isdecimal() and int(declared[:20]) > self.max_body_bytes:
                if (
                    headers.get("expect", "").lower() != "100-continue"
                ):  # that client waits for our word before it sends
                    await _drain(receive)
                raise self._too_large()  # noqa: TRY301 - one way out for every problem
            await self.app(scope, receive_with_limit, send_with_headers)
        except Problem as problem:
            if started:
                raise
            await _send_problem(problem, scope, send_with_headers)
        except ClientDisconnect:
            log.info("%s %s: the client hung up before its request was whole", scope["method"], scope["path"])
        except Exception:
            incident = uuid.uuid4().hex
            log.exception("incident %s: %s %s", incident, scope["method"], scope["path"])
            if started:
                raise
            await _send_problem(
                Problem(slug="internal-error", detail=f"logged as incident {incident}", more={"incident": incident}),
                scope,
                send_with_headers,
            )

    def _too_large(self) -> Problem:
        return Problem(
            slug="body-too-large",
            detail=f"a body may have at most {self.max_body_bytes} bytes",
            headers={"Connection": "close"},
        )


async def _drain(receive: Receive) -> None:
    """Read on and forget, up to a bound, until the body is whole or the client has gone."""
    seen = 0
    try:
        async with asyncio.timeout(DRAIN_S):
            while seen < DRAINED_BYTES:
                message = await asyncio.wait_for(receive(), DRAIN_IDLE_S)
                seen += len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


async def _send_problem(problem: Problem, scope: Scope, send: Send) -> None:
    body = problem.to_bytes(scope["path"])
    headers = MutableHeaders({"content-type": MEDIA_TYPE, "content-length": str(len(body)), **problem.headers})
    await send({"type": "http.response.start", "status": problem.kind.status, "headers": headers.raw})
    await send({"type": "http.response.body", "body": body})
