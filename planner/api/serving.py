"""How uvicorn is run: what `planner serve` passes on, besides address and number of processes. Imports nothing heavy."""

from __future__ import annotations

from typing import Any, Final

APPLICATION: Final = "planner.api.app:create_app"

LOGGING: Final[dict[str, Any]] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"()": "uvicorn.logging.DefaultFormatter", "fmt": "%(asctime)s %(levelprefix)s %(message)s"},
        "access": {
            "()": "uvicorn.logging.AccessFormatter",
            "fmt": '%(asctime)s %(levelprefix)s %(client_addr)s "%(request_line)s" %(status_code)s',
        },
    },
    "handlers": {
        "plain": {"class": "logging.StreamHandler", "formatter": "plain", "stream": "ext://sys.stderr"},
        "access": {"class": "logging.StreamHandler", "formatter": "access", "stream": "ext://sys.stdout"},
    },
    "loggers": {
        "uvicorn": {"handlers": ["plain"], "level": "INFO", "propagate": False},
        "uvicorn.access": {"handlers": ["access"], "level": "INFO", "propagate": False},
        "planner": {"handlers": ["plain"], "level": "INFO", "propagate": False},
    },
}
"""Every line with its time; what the planner itself has to say stands among them."""

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
    "log_config": LOGGING,
}
