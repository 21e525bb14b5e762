"""Refreshing again and again: a failure does not end it, each round says on one line how it ended, SIGTERM and Ctrl+C end it at once."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from planner.cli.errors import Exit, translated
from planner.cli.interrupted import Terminated, terminate
from planner.cli.output import complain, write
from planner.ports import Document
from planner.services.send_alerts import faults_in


def watch(once: Callable[[], Document], interval_s: float, form: str) -> int:
    """Run `once` every so many seconds, from beginning to beginning; return when SIGTERM comes.

    What would be refused again in the next round (a misspelt region) ends it at once.
    """
    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        while True:
            began = time.monotonic()
            _round(once, form)
            rest = max(0.0, interval_s - (time.monotonic() - began))
            complain(f"next refresh at {datetime.now(UTC) + timedelta(seconds=rest):%Y-%m-%d %H:%M:%S} UTC")
            time.sleep(rest)
    except Terminated:
        complain("ended by SIGTERM; what was published stays")
        return Exit.ANSWER
    except KeyboardInterrupt:
        complain("ended by Ctrl+C; what was published stays")
        return Exit.INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, previous)


def _round(once: Callable[[], Document], form: str) -> None:
    try:
        document = once()
    except Exception as e:
        error = translated(e)
        if error is None or error.code == Exit.BAD_REQUEST:
            raise
        complain(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC: {error}")
        return
    for fault in faults_in(document["alerts"]):
        complain(f"alerts: {fault}")
    if form == "table":
        write(f"{state_line(document)}\n")
    else:
        from planner.cli.verbs.prices_refresh import show_document

        show_document(document, form)
    if sys.stdout is not None:
        sys.stdout.flush()


def state_line(document: Document) -> str:
    """Return on one line how a refresh ended."""
    changes = document["changes"]
    failed = sorted({s["source"] for s in document["sources"] if s["state"] == "failed"})
    failed += [fault["subject"] for fault in document["faults"]]
    parts = [
        f"{document['published_at']} snapshot {document['snapshot_id'][:12]} {'published' if document['published'] else 'stays'}",
        f"{document['quotes']:,} prices ({changes['new']:,} new, {changes['changed']:,} changed, {changes['withdrawn']:,} withdrawn)",
    ]
    jumps = sum(n["kind"] == "price_jump" for n in document["notices"])
    parts += [f"{jumps} moved by more than 30 %"] if jumps else []
    parts += [f"failed: {', '.join(failed)}"] if failed else []
    faults = len(faults_in(document["alerts"]))
    told = len(document["alerts"]) - faults
    parts += [f"{told} alert{'s' if told != 1 else ''}"] if told else []
    parts += [f"{faults} fault{'s' if faults != 1 else ''} of alerts"] if faults else []
    return "; ".join(parts)
