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
def client(start: Callable[..., Client], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Give one application for all tests that change nothing but its database."""
    folder: Path = tmp_path_factory.mktemp("api")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLANNER_DATA_DIR", str(folder / "data"))
        yield start(database_url=f"sqlite:///{folder / 'planner.sqlite'}")
