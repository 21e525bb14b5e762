"""Giving up early on an address that never answers: a call that was met with silence three times in a row is not made five times more.

Whoever answers at all, slowly, with an error or by throttling, has the whole number of attempts. Once a call of a client has been given up,
its next calls wait for one silence each, until something answers: a refresh asks one client hundreds of questions.
"""

from __future__ import annotations

from typing import Any

SILENT_ATTEMPTS = 3
"""Attempts of one call, in a row, in which no connection was made or no byte came within the time-out."""

COUNT = "planner_silences"  # where a call's silences are counted, in its own context


def give_up_on_silence(client: Any) -> None:
    """Have a client's calls end with the time-out's error after `SILENT_ATTEMPTS` silences in a row."""
    from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError  # noqa: PLC0415 - only a refresh needs it

    state = {"silent": False}  # whether the last thing known of this client is that it does not answer

    def look(*, request_dict: Any, caught_exception: Exception | None = None, response: Any = None, **_: Any) -> None:
        context = request_dict["context"]
        if not isinstance(caught_exception, (ConnectTimeoutError, ReadTimeoutError)):
            context[COUNT] = 0
            if response is not None:
                state["silent"] = False
            return
        context[COUNT] = context.get(COUNT, 0) + 1
        if context[COUNT] >= SILENT_ATTEMPTS or state["silent"]:
            state["silent"] = True
            raise caught_exception

    service = client.meta.service_model.service_id.hyphenize()
    client.meta.events.register_first(f"needs-retry.{service}", look)
