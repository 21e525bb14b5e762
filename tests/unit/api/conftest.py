"""Applications that run in this process, with the shipped prices, a fixed clock and a database of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from api_client import NOW, Client

from planner.api.app import create_app


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Client]]:
    """Give a function that starts an application."""
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())

        def started(**options: Any) -> Client:
            app = create_app(**({"now": lambda: NOW} | options))
            stack.enter_context(portal.wrap_async_context_manager(app.router.lifespan_context(app)))
            return Client(app, portal)

        yield started


@pytest.fixture(scope="session")
def client(start: Callable[..., Client], tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Give one application for all tests that change nothing but its database."""
    return start(database_url=f"sqlite:///{tmp_path_factory.mktemp('api') / 'planner.sqlite'}")


@pytest.fixture(autouse=True)
def shipped_prices_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Look for published snapshots in a folder that has none, whatever this machine's user has refreshed."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "data"))
