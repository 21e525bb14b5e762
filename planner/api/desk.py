"""Where the work is done: a few threads, a short queue before them, and an end to waiting.

An answer takes a tenth of a second of a core; with more threads than cores everyone waits longer. A request that finds the
queue full is told so at once, one that waits too long is told so then.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from planner.api.problems import Problem

Answer = TypeVar("Answer")


class Desk:
    """Runs functions in `threads` threads; at most `queue` wait; `timeout_s` for waiting and working together."""

    def __init__(self, *, threads: int | None = None, queue: int = 64, timeout_s: float = 30.0) -> None:
        self.threads = threads or min(8, max(2, os.cpu_count() or 2))
        self.queue = queue
        self.timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(max_workers=self.threads, thread_name_prefix="planner-desk")
        self._present = 0
        self._counting = threading.Lock()

    async def ask(self, work: Callable[[], Answer]) -> Answer:
        """Return what `work` returns; raise the `busy` or `timeout` problem instead of waiting on."""
        with self._counting:
            if self._present >= self.threads + self.queue:
                raise Problem(
                    slug="busy", detail=f"{self.queue} requests are waiting already", headers={"Retry-After": "1"}
                )
            self._present += 1
        future = self._pool.submit(work)
        future.add_done_callback(lambda _: self._leave())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.timeout_s)
        except TimeoutError:
            future.cancel()  # if it has not begun; what has begun holds its thread until it is done
            raise Problem(
                slug="timeout", detail=f"no answer within {self.timeout_s:g} s", headers={"Retry-After": "5"}
            ) from None

    def _leave(self) -> None:
        with self._counting:
            self._present -= 1

    def close(self) -> None:
        """Stop taking work; what is under way is finished by its thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)
