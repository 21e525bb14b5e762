"""A client that calls the application in this process."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
from anyio.from_thread import BlockingPortal
from fastapi import FastAPI

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class Client:
    """Sends requests to an application that has started."""

    def __init__(self, app: FastAPI, portal: BlockingPortal) -> None:
        self.app = app
        self._portal = portal

    def request(self, method: str, url: str, **more: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(app=self.app), base_url="http://planner.test"
            ) as client:
                return await client.request(method, url, **more)

        return self._portal.call(send)

    def get(self, url: str, **more: Any) -> httpx.Response:
        return self.request("GET", url, **more)

    def post(self, url: str, **more: Any) -> httpx.Response:
        return self.request("POST", url, **more)
