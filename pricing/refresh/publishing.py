"""The last step: contents are checked against the snapshot before them and published whole, or not at all."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

from pricing.checks import Finding, check_snapshot
from pricing.contents import SnapshotContents
from pricing.errors import SnapshotNotWritten
from pricing.market import Notice, NoticeKind
from pricing.model import SHIPPED, SnapshotMeta
from pricing.refresh.errors import NotPublished, NotWritable
from pricing.refresh.origin import CATALOG
from pricing.snapshot import write_snapshot_in

OF_THE_MARKET = frozenset(
    {"names_known", "currency_and_unit", "discounts_below_on_demand", "larger_not_cheaper", "capacity_blocks_only"}
)
"""Rules that a market may break: true prices can be odd, and prices of unlike days stand side by side. They are told, not refused."""

TOLD_BY_MERGE = frozenset({"names_known", "currency_and_unit"})
SHOWN = 3
TICK = timedelta(microseconds=1)
LEFT_AFTER = timedelta(hours=1)
UNUSED_AFTER = timedelta(days=30)


def checked(base: SnapshotContents, contents: SnapshotContents, *, today: date) -> SnapshotContents:
    """Return the contents with a notice for each rule that a market may break; NotPublished for what the base did not have and cannot be right."""
    before = set(check_snapshot(base, today=today))
    found = check_snapshot(contents, today=today)
    faults = [f for f in found if f not in before and f.rule not in OF_THE_MARKET]
    if faults:
        more = f" and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise NotPublished(f"not published, the snapshot before stays: {'; '.join(map(str, faults[:SHOWN]))}{more}")
    by_rule: dict[str, list[Finding]] = defaultdict(list)
    for finding in found:
        if finding.rule in OF_THE_MARKET - TOLD_BY_MERGE:
            by_rule[finding.rule].append(finding)
    odd = [
        Notice(
            kind=NoticeKind.NOTE,
            source=CATALOG,
            subject=rule,
            detail="; ".join(f"{f.subject}: {f.why}" for f in findings[:SHOWN])
            + (f" and {len(findings) - SHOWN} more" if len(findings) > SHOWN else ""),
            count=len(findings),
        )
        for rule, findings in by_rule.items()
    ]
    return replace(contents, notices=(*contents.notices, *odd))


def publish(
    folder: Path, contents: SnapshotContents, *, now: datetime, after: SnapshotMeta | None, origin: str = "refresh"
) -> tuple[Path, SnapshotMeta]:
    """Write the snapshot into its folder and return where it lies and what it says of itself.

    It is newer than `after`, the snapshot that it follows, also where this machine's clock is behind that one's.
    """
    published_at = now
    if after is not None and after.origin != SHIPPED:
        published_at = max(now, after.published_at + TICK)
    try:
        return write_snapshot_in(folder, contents, published_at=published_at, origin=origin)
    except SnapshotNotWritten as e:
        cause = e.__cause__
        why = cause.strerror or cause if isinstance(cause, OSError) else cause
        raise NotWritable(f"{folder}: cannot be written: {why}; the snapshot before stays") from e


def remove_unused(folder: Path, *, now: datetime) -> int:
    """Delete downloaded files that no refresh has used for `UNUSED_AFTER`; return how many. Their locks stay: they are empty, and may be held."""
    try:
        found = [path for path in folder.iterdir() if path.suffix != ".lock"]
    except OSError:
        return 0
    removed = 0
    for path in found:
        with suppress(OSError):  # somebody else's, gone, or a folder
            if now.timestamp() - path.stat().st_mtime > UNUSED_AFTER.total_seconds():
                path.unlink()
                removed += 1
    return removed


def sweep(folder: Path, *, now: datetime) -> None:
    """Delete what processes that were killed while writing have left; a file that is still being written is younger."""
    try:
        left = list(folder.glob(".*.tmp"))
    except OSError:
        return
    for path in left:
        try:
            if now.timestamp() - path.stat().st_mtime > LEFT_AFTER.total_seconds():
                path.unlink(missing_ok=True)
        except OSError:
            continue  # somebody else's, or gone: not worth a word
