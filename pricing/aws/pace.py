"""How fast calls may go out: a bucket of tokens, shared by every thread of the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

PRICING_CALLS_PER_S, PRICING_BURST = 5.0, 9
"""AWS's quota of the Price List Query API, per account, region of the endpoint, and operation: 5 a second after 10 at once. One less at
once, as requests do not arrive as evenly as they leave."""


class TokenBucket:
    """Lets `burst` calls through at once and then `per_s` a second, over all threads that share it."""

    def __init__(
        self,
        per_s: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_s, self._burst = per_s, float(burst)
        self._tokens, self._at = float(burst), clock()
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()

    def take(self) -> None:
        """Wait until a call may go out."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_s) - 1
            self._at = now
            wait = max(0.0, -self._tokens / self._per_s)
        if wait:
            self._sleep(wait)


PRICING_BUCKET = TokenBucket(PRICING_CALLS_PER_S, PRICING_BURST)
"""One for the process: GetProducts is limited per account, whatever the region of the prices."""


def pace(client: Any, event: str, bucket: TokenBucket) -> None:
    """Take a token of `bucket` before every request of an SDK client's `event` ("pricing.GetProducts").

    It is taken where a request leaves, so that retries count as AWS counts them, and nothing waits once the last page is there.
    """

    def before_send(**_: Any) -> None:
        bucket.take()

    client.meta.events.register(f"before-send.{event}", before_send)
