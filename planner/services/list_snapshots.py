"""`list_snapshots`: the price snapshots that are kept here, newest first, and the files that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from planner.ports import Document
from planner.services.documents import age_hours, instant
from pricing.model import SHIPPED, SnapshotMeta

SNAPSHOT_FIELDS = (
    "snapshot_id",
    "day",
    "origin",
    "published_at",
    "as_of",
    "age_hours",
    "quotes",
    "instance_types",
    "bytes",
    "path",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSnapshot:
    """One snapshot file: what it says of itself, or why it cannot be read. Exactly one of `meta` and `why` is set."""

    path: Path
    size_bytes: int
    meta: SnapshotMeta | None = None
    why: str | None = None


def list_snapshots(kept: Iterable[KeptSnapshot], *, now: datetime) -> Document:
    """Return `{snapshots[…], unreadable[{path, bytes, why}]}`, the snapshot that answers use first, `age_hours` that of its on-demand prices.

    What was published here goes before the shipped tables, as in `open_catalog`.
    """
    files = list(kept)
    readable = sorted(
        ((f, f.meta) for f in files if f.meta is not None),
        key=lambda pair: (pair[1].origin != SHIPPED, pair[1].published_at, pair[1].snapshot_id),
        reverse=True,
    )
    return {
        "snapshots": [snapshot(file, meta, now) for file, meta in readable],
        "unreadable": [
            {"path": str(f.path), "bytes": f.size_bytes, "why": f.why}
            for f in sorted(files, key=lambda f: f.path)
            if f.meta is None
        ],
    }


def snapshot(file: KeptSnapshot, meta: SnapshotMeta, now: datetime) -> Document:
    """Return one snapshot as plain JSON values."""
    return {
        "snapshot_id": meta.snapshot_id,
        "day": meta.day.isoformat(),
        "origin": meta.origin,
        "published_at": instant(meta.published_at),
        "as_of": instant(meta.as_of),
        "age_hours": age_hours(meta.as_of, now),
        "quotes": meta.quote_count,
        "instance_types": meta.instance_type_count,
        "bytes": file.size_bytes,
        "path": str(file.path),
    }
