"""Why a refresh cannot begin or end: a snapshot that cannot be published is the consequence, so these are errors of snapshots."""

from __future__ import annotations

from pricing.errors import SnapshotError


class RefreshBusy(SnapshotError):  # noqa: N818 - reads as what it says
    """Another refresh is running on the same data directory."""


class NotWritable(SnapshotError):  # noqa: N818 - reads as what it says
    """The data directory cannot be written: read-only, not ours, or the disk is full."""


class NotPublished(SnapshotError):  # noqa: N818 - reads as what it says
    """The checks found something that the snapshot before did not have; the old one stays."""
