"""Publish the shipped tables as snapshot 0: `python -m pricing.publish`. Standard library only; the build hook calls it too."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pricing.errors import PricingError, SnapshotError
from pricing.snapshot import content_id, shipped_snapshot_path, verify_snapshot, write_snapshot

if TYPE_CHECKING:
    from pricing.contents import SnapshotContents


def publish_shipped(path: Path | None = None) -> Path:
    """Write the shipped tables as a snapshot file and return where it lies; a file that holds them already is left alone."""
    from pricing.static import load_tables  # noqa: PLC0415 - readers of snapshots need no table parser

    path = path or shipped_snapshot_path()
    contents = load_tables()
    if not _holds(path, contents):
        write_snapshot(path, contents, published_at=newest_day(contents), origin="shipped", replace=True)
    return path


def newest_day(contents: SnapshotContents) -> datetime:
    """Return midnight UTC of the newest day on which any figure was retrieved: a date that the tables give, so builds repeat."""
    days: list[date | None] = [q.retrieved_at.astimezone(UTC).date() for q in contents.quotes]
    days += [
        row.retrieved_on
        for rows in (contents.accelerators, contents.instance_types, contents.rates, contents.interruptions)
        for row in rows
    ]
    newest = max(day for day in days if day is not None)
    return datetime(newest.year, newest.month, newest.day, tzinfo=UTC)


def _holds(path: Path, contents: SnapshotContents) -> bool:
    try:
        return verify_snapshot(path).snapshot_id == content_id(contents)
    except SnapshotError:
        return False


def main() -> int:
    """Publish, say where, and return the exit status."""
    try:
        path = publish_shipped()
        meta = verify_snapshot(path)
    except PricingError as e:
        sys.stderr.write(f"error: {e}\n")
        return 4
    sys.stdout.write(
        f"{path}: snapshot {meta.snapshot_id}, {meta.instance_type_count} instance types, {meta.quote_count} quotes, prices of {meta.as_of:%Y-%m-%d}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
