"""Reading every page of an answer, and noticing when one is not a page.

Two things that the SDK does not tell: a body that was cut or is a web page comes through as a reply without its list, and its
paginator then ends as if that had been the last page; and where it has no paginator, a token that repeats would be followed for ever.
Every page is therefore checked for its list, and a broken answer is asked again from the first page: what is returned is whole.

Reference: botocore's paginators and parsers, version 1.44, read 2026-11.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pricing.aws import replies
from pricing.aws.session import failure, permission_of
from pricing.errors import ReplyError, SourceFailed, Unreachable

WHOLE_ANSWERS = 4
"""How often an answer is begun before it is given up; each call inside has retries of its own."""

PAUSE_S = 0.5
"""Pause before an answer is begun again; doubled each time."""

PRICING_CALLS_PER_S, PRICING_BURST = 5.0, 10
"""AWS's quota of the Price List Query API, per account and operation."""

BEGIN_AGAIN = frozenset(
    {"ExpiredNextTokenException", "ExpiredNextToken", "InvalidNextTokenException", "InvalidNextToken"}
)

Page = Mapping[str, Any]


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


def pages(
    client: Any,
    operation: str,
    key: str,
    *,
    source: str,
    on_answer: Callable[[], None] = lambda: None,
    bucket: TokenBucket | None = None,
    sleep: Callable[[float], None] = time.sleep,
    **arguments: Any,
) -> list[Page]:
    """Return every page of an operation that has a paginator; each holds the list `key`. SourceFailed when no whole answer is to be had."""

    def once() -> Iterator[Page]:
        for page in client.get_paginator(operation).paginate(**arguments):
            replies.rows_of(page, key, source=source)
            yield page

    return whole(once, client, operation, source=source, on_answer=on_answer, bucket=bucket, sleep=sleep)


def followed(
    client: Any,
    operation: str,
    key: str,
    *,
    source: str,
    token: str = "nextToken",  # noqa: S107 - the name of a field
    on_answer: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
    **arguments: Any,
) -> list[Page]:
    """Return every page of an operation without a paginator, following `token`; one that repeats is an error, not a loop."""

    def once() -> Iterator[Page]:
        seen: set[str] = set()
        more: dict[str, Any] = {}
        while True:
            page = getattr(client, operation)(**arguments, **more)
            replies.rows_of(page, key, source=source)
            yield page
            following = page.get(token)
            if not following:  # absent and empty both end it
                return
            if following in seen:
                raise ReplyError(
                    source=source, where=f"{token} {following!r:.40}", why="repeats: the answer would never end"
                )
            seen.add(following)
            more = {token: following}

    return whole(once, client, operation, source=source, on_answer=on_answer, bucket=None, sleep=sleep)


def asked(client: Any, operation: str, key: str, *, source: str, sleep: Callable[[float], None] = time.sleep, **arguments: Any) -> Page:  # fmt: skip
    """Return the answer of an operation that has one page, checked for `key` like a page."""

    def once() -> Iterator[Page]:
        page = getattr(client, operation)(**arguments)
        replies.mapping(page, source=source, where="reply")
        if key not in page:
            replies.rows_of(page, key, source=source)
        yield page

    return whole(once, client, operation, source=source, on_answer=lambda: None, bucket=None, sleep=sleep)[0]


def whole(
    once: Callable[[], Iterator[Page]],
    client: Any,
    operation: str,
    *,
    source: str,
    on_answer: Callable[[], None],
    bucket: TokenBucket | None,
    sleep: Callable[[float], None],
) -> list[Page]:
    """Return all that `once` yields, beginning again after a broken answer."""
    import botocore.exceptions as sdk  # noqa: PLC0415
    from botocore.parsers import ResponseParserError  # noqa: PLC0415

    permission = permission_of(client, operation)
    last: SourceFailed | None = None
    for attempt in range(WHOLE_ANSWERS):
        if attempt:
            sleep(PAUSE_S * 2 ** (attempt - 1))
        found: list[Page] = []
        try:
            if bucket is not None:
                bucket.take()
            for page in once():
                found.append(page)
                on_answer()
                if bucket is not None:
                    bucket.take()
        except (ReplyError, sdk.PaginationError, sdk.ResponseStreamingError) as e:
            why = e.why if isinstance(e, ReplyError) else " ".join(str(e).split())
            last = Unreachable(
                source=source, why=f"no whole answer in {attempt + 1} attempts: {why}", remedy="try again later"
            )
            last.__cause__ = e
        except sdk.ClientError as e:
            if e.response.get("Error", {}).get("Code") not in BEGIN_AGAIN:
                raise failure(e, source=source, permission=permission) from e
            last = failure(e, source=source, permission=permission)
        except ResponseParserError as e:  # EC2's XML that was cut
            last = failure(e, source=source, permission=permission)
        except sdk.BotoCoreError as e:
            raise failure(e, source=source, permission=permission) from e
        else:
            return found
    assert last is not None  # noqa: S101 - the loop ends only so
    raise last
