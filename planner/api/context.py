"""What every route works with: the open prices, the store, the desk. Made once for an application."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from planner.api.desk import Desk
from planner.ports import Clock, Document
from planner.recommend.as_of import AsOf
from planner.services.evidence import Evidence
from planner.services.list_snapshots import KeptSnapshot
from planner.store import SqlStore
from pricing.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything that routes need. `open_catalog` is asked for each request, so a newly published snapshot is seen at once."""

    open_catalog: Callable[[AsOf | None], Catalog]
    open_snapshot: Callable[[str], Catalog]  # by the word that a request names it with
    kept_snapshots: Callable[[], list[KeptSnapshot]]
    open_evidence: Callable[[], Evidence]
    store: SqlStore
    desk: Desk
    now: Clock
    upgrade: bool
    prepared: threading.Event = field(default_factory=threading.Event)

    def prepare(self) -> None:
        """Bring the database up to date (when this server may) and record the snapshot it answers from; does so once.

        Called at the start, and again by the readiness check while it has not worked, so that a database that comes up later is fine.
        """
        if self.prepared.is_set():
            return
        if self.upgrade:
            self.store.upgrade()
        self.store.check()
        self.store.record_snapshot(self.open_catalog(None), patient=True)
        self.prepared.set()

    def keep(self, document: Document, catalog: Catalog) -> None:
        """Store an answer, and before it the snapshot it was made from unless the database has that: it may be newer than this server."""
        self.store.record_snapshot(catalog)
        self.store.save(document)

    def close(self) -> None:
        """Let go of threads and connections."""
        self.desk.close()
        self.store.close()
