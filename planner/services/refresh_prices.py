"""`refresh_prices`: sources are asked, what they say is merged into the newest snapshot, and the next one is published whole or not at all.

The newest snapshot is the base and the shipped one the floor. A source that fails leaves its last good figures with their age; a
database that fails costs its records, never the snapshot. Either way the answer is not `complete`, and says what is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Protocol

from planner.ports import Clock, Document
from planner.services.documents import instant
from pricing.catalog import Catalog, near_misses
from pricing.contents import SnapshotContents
from pricing.discounts import as_listed
from pricing.errors import CredentialsMissing, SourceFailed, UnknownName
from pricing.market import Discount, Notice, NoticeKind, SpotChange, SpotStatistics
from pricing.merge import SPOT_WINDOW, Merged, merge
from pricing.model import SHIPPED, SnapshotMeta
from pricing.refresh.errors import NotPublished
from pricing.refresh.lock import only_publisher, only_refresh
from pricing.refresh.plan import Outcome, chosen, planned
from pricing.refresh.publishing import checked, publish, remove_unused, sweep
from pricing.refresh.run import WORKERS, Progress, read_all, rows_in
from pricing.refresh.said import Failure
from pricing.refresh.staging import Staging
from pricing.snapshot import open_snapshot, verify_snapshot
from pricing.source import Ask, Source
from pricing.spot_statistics import OnDemand, on_demand_prices, statistics_of

PROVIDER = "aws"
EVERYWHERE = "all"
DEFAULT_REGION = "us-east-1"
SERVICE = "refresh"
"""Source of the notices about the refresh itself."""

STAND_INS: Mapping[str, str] = {"price_list": "price_list_files", "savings_plans": "savings_plan_files"}
"""Sources that need credentials, and those that say the same without."""

NOT_RECORDED_REMEDY = "put that right and refresh again, or say --no-store where no record is wanted"

CLOCKS_DIFFER = timedelta(minutes=5)


class RecordFailed(Exception):  # noqa: N818 - reads as what it says
    """The database could not take or give what it was asked; the message is one line."""


class PriceRecords(Protocol):
    """What a refresh keeps in a database, where there is one. Every call raises `RecordFailed` when it cannot."""

    def spot_known_until(self, region: str, instance_types: Iterable[str]) -> datetime | None:
        """Return from when on spot changes of these types are not recorded yet, None where one was never asked for in the region."""

    def keep_spot_changes(self, changes: Sequence[SpotChange], *, asked: Iterable[str]) -> None:
        """Record changes, those that are there already are passed over, and that these types were asked for."""

    def spot_statistics(
        self, regions: Iterable[str], start: datetime, end: datetime, on_demand: OnDemand
    ) -> tuple[SpotStatistics, ...]:
        """Return how the spot prices of regions moved, from the changes that are recorded."""

    def record_snapshot(self, catalog: Catalog) -> None:
        """Record a published snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshRequest:
    """What to ask. Empty `sources`: the default ones; empty `regions`: those of the account; without credentials us-east-1; where the account may not list them, those of the snapshot."""

    regions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    discounts: tuple[Discount, ...] | None = None
    accept_incomplete: bool = False
    workers: int = WORKERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a refresh works and whom it can ask."""

    sources: tuple[Source, ...]
    data_dir: Path
    snapshots_dir: Path
    open_newest: Callable[[], Catalog]  # opened for this refresh alone, which closes it
    open_shipped: Callable[[], Catalog]
    clock: Clock
    access: str = ""  # whose answers the staged readings are: account and address
    check_credentials: Callable[[], None] = lambda: None  # raises CredentialsMissing
    enabled_regions: Callable[[], Sequence[str]] | None = None  # of the account; raises SourceFailed
    records: PriceRecords | None = None
    alerts: Callable[[Catalog, Catalog], list[Document]] = lambda _before, _after: []
    known_regions: frozenset[str] = field(default_factory=frozenset)


def refresh_prices(
    request: RefreshRequest, around: Surroundings, *, progress: Callable[[Progress], None] = lambda _: None
) -> Document:
    """Ask, merge, check, publish, record, and return what came of it (the document of `planner prices refresh`).

    Raises UnknownName for a source or region, RefreshBusy while another refresh runs, NotWritable, NotPublished, and SnapshotError
    where the newest snapshot is damaged: it names the file, and nothing is published from anything older in silence.
    """
    sources = chosen(around.sources, request.sources)
    stand_ins = {
        name: source
        for name, other in STAND_INS.items()
        for source in around.sources
        if source.name == other and source not in sources
    }
    with only_refresh(around.data_dir), ExitStack() as opened:
        return _Refresh(request, around, sources, stand_ins, progress, opened).done()


class _Refresh:
    """One refresh under its lock."""

    def __init__(  # noqa: PLR0917 - handed over once, in the order of their names
        self,
        request: RefreshRequest,
        around: Surroundings,
        sources: tuple[Source, ...],
        stand_ins: Mapping[str, Source],
        progress: Callable[[Progress], None],
        opened: ExitStack,
    ) -> None:
        self._opened = opened  # a watch that let snapshots lie open would hold every one of them
        self._request, self._around, self._sources = request, around, sources
        self._stand_ins, self._progress = stand_ins, progress
        self._at = around.clock()
        self._staging = Staging(folder=around.data_dir / "staging", access=around.access)
        self._said: list[Notice] = []
        self._faults: dict[str, str] = {}  # what failed beside the sources
        self._lost: dict[str, None] = {}  # what the database did not take
        self._record_unread = ""  # why it could not say what it has

    def done(self) -> Document:
        around = self._around
        for folder in (around.snapshots_dir, around.data_dir / "staging"):
            sweep(folder, now=self._at)
        base = self._opened.enter_context(around.open_newest())
        verify_snapshot(base.path)
        no_credentials = self._no_credentials()
        regions = self._regions(base, no_credentials)
        asks = self._asks(base, regions)
        published = base.meta.published_at if base.meta.origin != SHIPPED else None
        outcomes = read_all(
            planned(self._sources, regions),
            lambda unit: asks[unit.region],
            staging=self._staging,
            newer_than=published,
            stand_ins=self._stand_ins,
            no_credentials=no_credentials,
            workers=self._request.workers,
            progress=self._progress,
        )
        return self._published(outcomes, asks)

    # -- asking ---------------------------------------------------------------------------------------------------

    def _no_credentials(self) -> CredentialsMissing | None:
        if not any(source.needs_credentials for source in self._sources):
            return None
        try:
            self._around.check_credentials()
        except CredentialsMissing as e:
            return e
        return None

    def _regions(self, base: Catalog, no_credentials: CredentialsMissing | None) -> tuple[str, ...]:
        if not any(source.regional for source in self._sources):
            return ()
        snapshot = tuple(sorted({q.region for q in base.quotes(providers=[PROVIDER])}))
        named = [name.strip().lower() for name in self._request.regions]
        if named and EVERYWHERE not in named:
            known = self._around.known_regions | set(snapshot)
            for name in named:
                if known and name not in known:
                    raise UnknownName("region", name, near_misses(name, known))
            return tuple(dict.fromkeys(named))
        if self._around.enabled_regions is not None and no_credentials is None:
            try:
                return tuple(self._around.enabled_regions())
            except CredentialsMissing as e:  # none of the sources asked needs any
                no_credentials = e
            except SourceFailed as e:
                why = f"which regions the account has enabled is not known ({_why(e)}): asked about the {len(snapshot)} regions of the snapshot instead, and about no other; --region names them"
                self._faults["regions"] = why
                self._note(why, "regions")
        if no_credentials is None or named:
            return snapshot
        self._note(
            f"without credentials asked about {DEFAULT_REGION} alone, as the public files have hundreds of MB a region; --region names others",
            "regions",
        )
        return (DEFAULT_REGION,)

    def _asks(self, base: Catalog, regions: Iterable[str]) -> dict[str | None, Ask]:
        types = frozenset(t.instance_type for t in base.instance_types(PROVIDER))
        chips = tuple(base.accelerators.values())
        return {
            region: Ask(
                region=region,
                at=self._at,
                chips=chips,
                instance_types=types,
                spot_since=None if region is None else self._spot_since(region, types),
            )
            for region in (None, *regions)
        }

    def _spot_since(self, region: str, types: Iterable[str]) -> datetime | None:
        """Return from when on spot changes are wanted: what a database has is not asked for again, and without one the window is enough."""
        records = self._around.records
        wanted = records is not None and any(source.name == "spot" for source in self._sources)
        if records is not None and wanted and not self._record_unread:  # one that is not reached is waited for once
            try:
                return records.spot_known_until(region, types)
            except RecordFailed as e:
                self._record_unread = str(e)
                self._note(f"which spot changes are recorded could not be read: {e}", "database")
                self._faults["database"] = f"what is recorded could not be read: {e}; {NOT_RECORDED_REMEDY}"
        return self._at - SPOT_WINDOW

    # -- publishing -----------------------------------------------------------------------------------------------

    def _published(self, outcomes: Sequence[Outcome], asks: Mapping[str | None, Ask]) -> Document:
        around = self._around
        recorded = self._recorded_spot(outcomes, asks)
        stood_in = {
            (o.unit.instead_of or "", o.unit.region): o.unit.source.name
            for o in outcomes
            if o.unit.instead_of is not None and o.reading is not None
        }
        failures = []
        for outcome in outcomes:
            if outcome.failure is None:
                continue
            unit = outcome.unit
            if (other := stood_in.get((unit.source.name, unit.region))) is not None:
                self._said.append(
                    Notice(
                        kind=NoticeKind.NOTE,
                        source=unit.source.name,
                        subject=unit.region or "all regions",
                        detail=f"{_why(outcome.failure)}; {other} was read instead",
                    )
                )
            else:
                failures.append(
                    Failure(
                        source=unit.source.name,
                        region=unit.region,
                        why=_why(outcome.failure),
                        provider=unit.source.provider,
                    )
                )
        with only_publisher(around.data_dir):
            base = self._opened.enter_context(around.open_newest())  # anew: a sheet may have been imported meanwhile
            before = base.contents()
            floor = self._opened.enter_context(around.open_shipped())
            merged = merge(
                before,
                floor.contents(),
                [o.reading for o in outcomes if o.reading is not None],
                at=self._at,
                failures=failures,
                summarised=recorded,
                discounts=self._request.discounts,
                accept_incomplete=self._request.accept_incomplete,
                notices=self._clock_note(base.meta),
                floor_id=floor.meta.snapshot_id,
            )
            merged = self._with_statistics(merged, recorded, outcomes)
            try:
                after = self._written(base, before, merged)
            except NotPublished:  # the same answers would be refused again
                self._forget(outcomes)
                raise
        self._forget(outcomes)
        if merged.accepted:
            remove_unused(around.data_dir / "downloads", now=self._at)
        if after is not base:
            self._record(after)
        alerts = around.alerts(base, after)  # also where nothing changed: what could not be told before may be told now
        return self._document(outcomes, merged, base, after, stood_in, alerts)

    def _forget(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._staging.drop(outcome.unit)

    def _clock_note(self, base: SnapshotMeta) -> tuple[Notice, ...]:
        if base.origin != SHIPPED and base.published_at > self._at + CLOCKS_DIFFER:
            self._note(
                f"the newest snapshot was published at {instant(base.published_at)}, after this machine's clock ({instant(self._at)}): check the clock",
                "clock",
            )
        return tuple(self._said)

    def _written(self, base: Catalog, before: SnapshotContents, merged: Merged) -> Catalog:
        """Return the catalog of the new snapshot, or the base where there is nothing to publish."""
        new_agreement = self._request.discounts is not None and self._request.discounts != before.discounts
        if not merged.accepted and not new_agreement:
            return base
        now = self._around.clock()
        contents = checked(before, merged.contents, today=max(now, self._at).date())
        path, _ = publish(self._around.snapshots_dir, contents, now=now, after=base.meta)
        return self._opened.enter_context(open_snapshot(path))

    # -- the database ---------------------------------------------------------------------------------------------

    def _recorded_spot(self, outcomes: Iterable[Outcome], asks: Mapping[str | None, Ask]) -> frozenset[str]:
        """Record the spot changes that were read; return the regions for which the database knows all that was read."""
        records = self._around.records
        known: set[str] = set()
        if records is None:
            return frozenset()
        for outcome in outcomes:
            reading = outcome.reading
            if reading is None or not reading.spot_changes or reading.scope.region is None:
                continue
            # a reading that was staged is the answer to an earlier question, perhaps about fewer types; and where the record could
            # not be read, fewer days were asked about than it may lack
            asked = frozenset() if outcome.resumed or self._record_unread else asks[reading.scope.region].instance_types
            try:
                records.keep_spot_changes(reading.spot_changes, asked=asked)
                known.add(reading.scope.region)
            except RecordFailed as e:
                self._not_recorded("spot changes", e)
                break
        return frozenset(known)

    def _with_statistics(self, merged: Merged, regions: frozenset[str], outcomes: Iterable[Outcome]) -> Merged:
        """Return what was merged with the statistics of regions whose changes are recorded; of what was read, where that fails."""
        if not regions or self._around.records is None:
            return merged
        caps = on_demand_prices(map(as_listed, merged.contents.quotes))
        start, end = self._at - SPOT_WINDOW, self._at
        try:
            made = self._around.records.spot_statistics(sorted(regions), start, end, caps)
        except RecordFailed as e:
            said = f"spot statistics are those of what was read this time: {e}"
            self._note(said, "database")
            self._faults.setdefault("database", f"{said}; {NOT_RECORDED_REMEDY}")
            read = [o.reading for o in outcomes if o.reading is not None and o.reading.scope.region in regions]
            changes = [change for reading in read for change in reading.spot_changes]
            made = statistics_of(changes, window_start=start, window_end=end, on_demand=caps)
        contents = replace(merged.contents, spot_statistics=(*merged.contents.spot_statistics, *made))
        return replace(merged, contents=contents)

    def _record(self, catalog: Catalog) -> None:
        if self._around.records is None:
            return
        try:
            self._around.records.record_snapshot(catalog)
        except RecordFailed as e:
            self._not_recorded("the snapshot", e)

    def _not_recorded(self, what: str, error: RecordFailed) -> None:
        """Note that the database did not take something; one fault says all of it."""
        self._note(f"not recorded: {what}: {error}", "database")
        self._lost[what] = None
        self._faults["database"] = f"not recorded: {' and '.join(self._lost)}: {error}; {NOT_RECORDED_REMEDY}"

    def _note(self, detail: str, subject: str) -> None:
        notice = Notice(kind=NoticeKind.NOTE, source=SERVICE, subject=subject, detail=detail)
        if notice not in self._said:
            self._said.append(notice)

    # -- the answer -----------------------------------------------------------------------------------------------

    def _document(  # noqa: PLR0917 - what a refresh has found, in the order in which it was found
        self,
        outcomes: Sequence[Outcome],
        merged: Merged,
        base: Catalog,
        after: Catalog,
        stood_in: Mapping[tuple[str, str | None], str],
        alerts: list[Document],
    ) -> Document:
        kept = {(k.failure.source, k.failure.region): k.as_of for k in merged.kept}
        sources = []
        for outcome in outcomes:
            key = (outcome.unit.source.name, outcome.unit.region)
            other = stood_in.get(key)
            sources.append(_source(outcome, merged.refused.get(key), kept.get(key), other))
        published = after is not base
        meta = after.meta
        notices = dict.fromkeys((*merged.notices, *self._said))
        return {
            "snapshot_id": meta.snapshot_id,
            "previous_snapshot_id": base.meta.snapshot_id,
            "published": published,
            "published_at": instant(meta.published_at),
            "day": meta.day.isoformat(),
            "quotes": meta.quote_count,
            "instance_types": meta.instance_type_count,
            "complete": not self._faults and all(source["state"] != "failed" for source in sources),
            "sources": sources,
            "faults": [{"subject": subject, "detail": detail} for subject, detail in self._faults.items()],
            "changes": dict(merged.changes) if published else {"new": 0, "changed": 0, "withdrawn": 0, "unchanged": base.meta.quote_count},
            "notices": [
                {
                    "kind": notice.kind.value,
                    "source": notice.source,
                    "subject": notice.subject,
                    "detail": notice.detail,
                    "count": notice.count,
                }
                for notice in notices
            ],
            "alerts": alerts,
        }  # fmt: skip


def _why(error: SourceFailed) -> str:
    return error.why + (f"; {error.remedy}" if error.remedy else "")


def _source(outcome: Outcome, refused: str | None, kept_as_of: datetime | None, other: str | None) -> Document:
    """Return one line of `sources`."""
    reading = outcome.reading
    why = refused
    if outcome.failure is not None:
        why = _why(outcome.failure) + (f"; {other} was read instead" if other else "")
    return {
        "source": outcome.unit.source.name,
        "region": outcome.unit.region,
        "state": "failed" if why is not None else "resumed" if outcome.resumed else "read",
        "rows": rows_in(outcome),
        "excluded": {} if reading is None else dict(sorted(reading.excluded.items())),
        "published": None if reading is None or reading.published is None else moment_of(reading.published),
        "why": why,
        "kept_as_of": None if kept_as_of is None else instant(kept_as_of),
    }


def moment_of(published: str) -> str | None:
    """Return the moment that a provider's own words state, as RFC 3339 in UTC, None where they state none.

    Lists state it as ISO 8601, the public files of AWS as a version ("20261128013000"), a web server as an HTTP date.
    """
    text = published.strip()
    for read in (_of_version, datetime.fromisoformat, parsedate_to_datetime):
        try:
            at = read(text)
        except (ValueError, TypeError):
            continue
        return instant((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC))
    return None


def _of_version(text: str) -> datetime:
    if len(text) != len("YYYYmmddHHMMSS"):
        raise ValueError(text)
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def failures_by_reason(document: Document) -> list[tuple[list[str], list[str], str]]:
    """Return (sources, regions, why) of what failed, those with the same reason together."""
    regions: dict[tuple[str, str], list[str | None]] = defaultdict(list)
    for source in document["sources"]:
        if source["state"] == "failed":
            regions[source["source"], source["why"]].append(source["region"])
    sources: dict[tuple[tuple[str | None, ...], str], list[str]] = defaultdict(list)
    for (name, why), where in regions.items():
        sources[tuple(where), why].append(name)
    return [(names, [r for r in where if r is not None], why) for (where, why), names in sources.items()]
