"""How uvicorn is run: what `planner serve` passes on, besides address and number of processes. Imports nothing heavy."""

from __future__ import annotations

from typing import Any, Final

APPLICATION: Final = "planner.api.app:create_app"

UVICORN_SETTINGS: Final[dict[str, Any]] = {
    "factory": True,
    "lifespan": "on",
    "server_header": False,  # no banner: nobody needs to know the server's make
    "limit_concurrency": 1000,  # connections; work itself is limited by the application
    "timeout_keep_alive": 15,
    "timeout_graceful_shutdown": 30,
    "h11_max_incomplete_event_size": 32 * 1024,  # request line and headers
    "http": "h11",
    "ws": "none",
}
