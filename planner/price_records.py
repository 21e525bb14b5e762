"""The database as a refresh sees it: opened when first needed, brought to its schema when it is new, its errors in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from planner.services.refresh_prices import RecordFailed
from planner.store import SchemaNotCurrent, SqlStore, StoreError
from pricing.catalog import Catalog
from pricing.market import SpotChange, SpotStatistics
from pricing.spot_statistics import OnDemand


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

    def spot_known_until(self, region: str, instance_types: Iterable[str]) -> datetime | None:
        """Return from when on spot changes of these types are not recorded yet, None where one was never asked for in the region."""
        with self._store() as store:
            return store.spot_known_until(region, instance_types)

    def keep_spot_changes(self, changes: Sequence[SpotChange], *, asked: Iterable[str]) -> None:
        """Record changes, those that are there already are passed over, and that these types were asked for."""
        with self._store() as store:
            store.record_spot_changes(changes, asked=asked)

    def spot_statistics(
        self, regions: Iterable[str], start: datetime, end: datetime, on_demand: OnDemand
    ) -> tuple[SpotStatistics, ...]:
        """Return how the spot prices of regions moved, from the changes that are recorded."""
        with self._store() as store:
            return store.spot_statistics(regions, start, end, on_demand)

    def record_snapshot(self, catalog: Catalog) -> None:
        """Record a published snapshot."""
        with self._store() as store:
            store.record_snapshot(catalog)
