"""The database as a refresh sees it: opened when first needed, brought to its schema when it is new, its errors in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from planner.services.refresh_prices import RecordFailed
from planner.store import SchemaNotCurrent, SqlStore, StoreError
from pricing.catalog import Catalog
from pricing.market import SpotChange


class StoredPrices:
    """`PriceRecords` in a database."""

    def __init__(self, open_store: Callable[[], SqlStore]) -> None:
        self._open = open_store

    @contextmanager
    def _store(self) -> Iterator[SqlStore]:
        try:
            with self._open() as store:
                try:
                    store.check()
                except SchemaNotCurrent as e:
                    if e.found is not None:  # an older or newer schema is the owner's to change
                        raise
                    store.upgrade()
                yield store
        except StoreError as e:
            raise RecordFailed(" ".join(str(e).split())) from e

    def newest_spot_change(self, region: str) -> datetime | None:
        """Return from when on spot changes of a region are not recorded yet, None where none are."""
        del region
        return None

    def keep_spot_changes(self, changes: Sequence[SpotChange]) -> None:
        """Record changes; those that are there already are passed over."""
        del changes

    def spot_changes(self, region: str, since: datetime) -> Sequence[SpotChange]:
        """Return the changes of a region since a moment, with each pool's last one before."""
        del region, since
        return ()

    def record_snapshot(self, catalog: Catalog) -> None:
        """Record a published snapshot."""
        with self._store() as store:
            store.record_snapshot(catalog)
