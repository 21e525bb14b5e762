"""How long the API takes, in this process and warm: `python tests/benchmarks/bench_api.py [RUNS]`.

Prints medians against the bars of the documentation: no HTTP in between, but everything else (parsing, service, storing, bytes).
"""

# ruff: noqa: T201 - a command that prints its result

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from planner.api.app import create_app

RUNS = 15
REQUESTS: list[tuple[str, str, dict[str, Any] | None, float]] = [
    ("POST", "/v1/recommendations", {"model": "7b", "mode": "inference"}, 0.15),
    ("POST", "/v1/estimates", {"model": "7b", "instance": "g5.xlarge"}, 0.05),
    ("GET", "/v1/prices?region=us-east-1", None, 0.1),
    ("GET", "/v1/prices", None, 0.3),
    ("GET", "/v1/instance-types", None, 0.15),
    ("GET", "/v1/models/7b", None, 0.02),
    ("GET", "/readyz", None, 0.05),
]


async def measure(runs: int) -> int:
    """Print one line for each request; return how many missed their bar."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(database_url=f"sqlite:///{Path(folder) / 'planner.sqlite'}")
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://bench") as client,
        ):
            for method, path, body, bar in REQUESTS:
                times = []
                for _ in range(runs + 1):
                    began = time.perf_counter()
                    answer = await client.request(method, path, json=body) if body else await client.get(path)
                    times.append(time.perf_counter() - began)
                    answer.raise_for_status()
                median = statistics.median(times[1:])
                missed += median > bar
                print(
                    f"{median * 1000:7.1f} ms  (bar {bar * 1000:.0f} ms, {len(answer.content):,} bytes)  {method} {path}"
                )
    return missed


if __name__ == "__main__":
    sys.exit(1 if asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)) else 0)
