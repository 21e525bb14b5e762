"""Reading every page of an answer, and noticing when one is not a page.

Two things that the SDK does not tell: a body that was cut or is a web page comes through as a reply without its list, and its
paginator then ends as if that had been the last page; and where it has no paginator, a token that repeats would be followed for ever.
Every page is therefore checked for its list, and a broken answer is asked again from the first page: what is returned is whole.

Reference: botocore's paginators and parsers, version 1.44, read 2026-11.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, overload

from pricing.aws import replies
from pricing.aws.session import failure, permission_of
from pricing.errors import ReplyError, Unreachable

WHOLE_ANSWERS = 4
"""How often an answer is begun before it is given up; each call inside has retries of its own."""

PAUSE_S = 0.5
"""Pause before an answer is begun again; doubled each time."""

BEGIN_AGAIN = frozenset(
    {"ExpiredNextTokenException", "ExpiredNextToken", "InvalidNextTokenException", "InvalidNextToken"}
)
"""A token lives for a while and belongs to its request: the pages that remain are lost, the answer is not."""

Page = Mapping[str, Any]
Kept = TypeVar("Kept")


@overload
def pages(client: Any, operation: str, key: str, *, source: str, keep: Callable[[Page], Kept], on_answer: Callable[[], None] = ..., sleep: Callable[[float], None] = ..., **arguments: Any) -> list[Kept]: ...  # fmt: skip
@overload
def pages(client: Any, operation: str, key: str, *, source: str, on_answer: Callable[[], None] = ..., sleep: Callable[[float], None] = ..., **arguments: Any) -> list[Page]: ...  # fmt: skip
def pages(
    client: Any,
    operation: str,
    key: str,
    *,
    source: str,
    keep: Callable[[Page], Any] = lambda page: page,
    on_answer: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
    **arguments: Any,
) -> list[Any]:
    """Return every page of an operation that has a paginator; each holds the list `key`. SourceFailed when no whole answer is to be had.

    `keep` says what is kept of a page, where a whole answer would fill the memory.
    """

    def once() -> Iterator[Any]:
        for page in client.get_paginator(operation).paginate(**arguments):
            replies.rows_of(page, key, source=source)
            yield keep(page)

    return whole(once, client, operation, source=source, on_answer=on_answer, sleep=sleep)


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

    return whole(once, client, operation, source=source, on_answer=on_answer, sleep=sleep)


def asked(client: Any, operation: str, key: str, *, source: str, sleep: Callable[[float], None] = time.sleep, **arguments: Any) -> Page:  # fmt: skip
    """Return the answer of an operation that has one page, checked for `key` like a page."""

    def once() -> Iterator[Page]:
        page = getattr(client, operation)(**arguments)
        replies.mapping(page, source=source, where="reply")
        if key not in page:
            replies.rows_of(page, key, source=source)
        yield page

    return whole(once, client, operation, source=source, on_answer=lambda: None, sleep=sleep)[0]


def whole(
    once: Callable[[], Iterator[Kept]],
    client: Any,
    operation: str,
    *,
    source: str,
    on_answer: Callable[[], None],
    sleep: Callable[[float], None],
) -> list[Kept]:
    """Return all that `once` yields, beginning again after a broken answer. What a call refuses outright is not asked twice."""
    import botocore.exceptions as sdk  # noqa: PLC0415
    from botocore.parsers import ResponseParserError  # noqa: PLC0415

    permission = permission_of(client, operation)
    why = ""
    for attempt in range(WHOLE_ANSWERS):
        if attempt:
            sleep(PAUSE_S * 2 ** (attempt - 1))
        found: list[Kept] = []
        try:
            for page in once():
                found.append(page)
                on_answer()
        except ReplyError as e:  # a body that is no page, or a token that repeats
            why = e.why if e.where == "reply" else f"{e.where} {e.why}"
        except sdk.PaginationError:
            why = "the same token came twice: the answer would never end"
        except (ResponseParserError, sdk.IncompleteReadError, sdk.ResponseStreamingError) as e:
            why = f"a cut or foreign body ({type(e).__name__})"
        except RecursionError:  # of the SDK's own parser
            why = "a foreign body, nested too deeply"
        except sdk.ClientError as e:
            code = e.response.get("Error", {}).get("Code")
            if code not in BEGIN_AGAIN:
                raise failure(e, source=source, permission=permission) from e
            why = f"{code}: the answer could not be read to its end"
        except sdk.BotoCoreError as e:
            raise failure(e, source=source, permission=permission) from e
        else:
            return found
    raise Unreachable(
        source=source, why=f"no whole answer in {WHOLE_ANSWERS} attempts: {why}", remedy="try again later"
    )
