"""The one place where concrete parts are chosen: data directory, price snapshot, clock, store. Nothing is written unless asked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from planner.recommend.errors import BadRequest
from pricing.model import SHIPPED

if TYPE_CHECKING:
    from planner.calibration.model import Facts
    from planner.ports import Document, Predictor
    from planner.recommend.as_of import AsOf
    from planner.recommend.request import EstimateRequest, RecommendRequest
    from planner.services.evidence import Evidence
    from planner.services.list_snapshots import KeptSnapshot
    from planner.services.refresh_prices import PriceRecords, RefreshRequest
    from planner.store import SqlStore
    from pricing.aws.session import Access, Aws
    from pricing.catalog import Catalog
    from pricing.model import SnapshotMeta
    from pricing.refresh.run import Progress

DATA_DIR_VARIABLE = "PLANNER_DATA_DIR"
DATABASE_VARIABLE = "PLANNER_DATABASE_URL"
DATABASE_FILE = "planner.sqlite"
OWN_ROWS, OWN_FIT = "calibration/own_rows_{workload}.csv", "calibration/own_{workload}.json"
"""Measurements that `planner validate --recalibrate` took in, and the parameters fitted to them, in the data directory."""
SNAPSHOT_SUFFIX = ".sqlite"
MOST_OPEN = 8
"""Snapshots that a process keeps open at most, besides those in use: the newest, and those of days that are asked about."""


def data_dir() -> Path:
    """Return the user's data directory: PLANNER_DATA_DIR, else the system's usual place. It is not created here."""
    stated = os.environ.get(DATA_DIR_VARIABLE)
    if stated:
        return Path(stated).expanduser()
    from platformdirs import user_data_path

    return user_data_path("planner", appauthor=False)


def snapshots_dir() -> Path:
    """Return where price refreshes publish their snapshot files."""
    return data_dir() / "snapshots"


def utc_now() -> datetime:
    """Return the time, timezone-aware, in UTC."""
    return datetime.now(UTC)


def open_catalog(prices_as_of: AsOf | None = None) -> Catalog:
    """Return the newest published price snapshot, or the newest of a day not after the given one; without any, the shipped one.

    A text is the name of a snapshot, as `open_snapshot_by` has it; `BadRequest` where none or several are called so.

    What was published here goes before the shipped tables, also when an upgrade brings newer ones: it holds the user's own sheets and
    agreed prices, and the next refresh takes the newer tables over.
    Raises `BadRequest` that names the oldest snapshot when all are newer than `prices_as_of`, and SnapshotError for a file that cannot be
    read and may be the one wanted; one that is older than another that can be read is passed over (`kept_snapshots` tells of it).
    """
    from pricing.snapshot import shipped_snapshot_path

    if isinstance(prices_as_of, str):
        return _called(prices_as_of)
    shipped = shipped_snapshot_path()
    found = _wanted((shipped, *_published(snapshots_dir(), prices_as_of)), prices_as_of)
    if not found and prices_as_of is not None:
        kept = [file.meta for file in kept_snapshots() if file.meta is not None]
        oldest = min(kept, key=lambda meta: meta.day)
        raise BadRequest(
            field="prices_as_of",
            value=prices_as_of.isoformat(),
            why=f"is before the oldest price snapshot here, {oldest.snapshot_id} of {oldest.day.isoformat()}",
            expected="give that day or a later one",
        )
    return _opened(*max(found, key=lambda file: _newness(_meta(*file))))


def validation_facts() -> Facts:
    """Return what measured rows are resolved with: chips and spellings of the newest snapshot, models of the shipped configs."""
    from planner.calibration.facts import facts_of

    catalog = open_catalog()
    return facts_of(catalog.accelerators.values(), catalog.aliases)


def kept_snapshots() -> list[KeptSnapshot]:
    """Return every snapshot file that is kept here, the shipped one among them; one that cannot be read says why."""
    from planner.services.list_snapshots import KeptSnapshot
    from pricing.errors import SnapshotError
    from pricing.snapshot import read_meta, shipped_snapshot_path

    found: list[KeptSnapshot] = []
    for path in (shipped_snapshot_path(), *_snapshot_files(snapshots_dir())):
        try:
            found.append(KeptSnapshot(path=path, meta=read_meta(path), size_bytes=path.stat().st_size))
        except (SnapshotError, FileNotFoundError) as e:
            size = path.stat().st_size if path.is_file() else 0
            found.append(KeptSnapshot(path=path, why=str(e), size_bytes=size))
    return found


def open_snapshot_by(text: str) -> Catalog:
    """Return the snapshot that a word names: `latest`, `shipped`, a day (the newest not after it), an id, or the beginning of one.

    Raises `UnknownName` with near misses, and `BadRequest` where several ids begin so or a day cannot be.
    """
    from pricing.catalog import near_misses
    from pricing.errors import SnapshotError, UnknownName
    from pricing.snapshot import shipped_snapshot_path

    word = text.strip().lower()
    if word == "latest":
        return open_catalog()
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", word):
        try:
            day = date.fromisoformat(word)
        except ValueError as e:
            raise BadRequest(field="snapshot", value=text, why=f"is not a day ({e})") from None
        return open_catalog(day)
    kept = kept_snapshots()
    if word == SHIPPED:
        matching = [file for file in kept if file.path == shipped_snapshot_path()]
    else:
        matching = [f for f in kept if word and f.meta is not None and f.meta.snapshot_id.startswith(word)]
        matching = [f for f in matching if f.meta is not None and f.meta.snapshot_id == word] or matching
    ids = sorted({f.meta.snapshot_id for f in matching if f.meta is not None})
    if len(ids) > 1:
        raise BadRequest(
            field="snapshot", value=text, why=f"begins the ids of {len(ids)} snapshots", expected=" or ".join(ids[:4])
        )
    if not matching:
        for file in kept:
            if word and file.why is not None and word in file.path.name:
                raise SnapshotError(file.why)
        known = [SHIPPED, "latest", *(f.meta.snapshot_id for f in kept if f.meta is not None)]
        raise UnknownName("snapshot", text, near_misses(word, known))
    return _opened(*_version(matching[-1].path))


def _called(name: str) -> Catalog:
    """Return the snapshot of a name that a request gives as its `prices_as_of`."""
    from pricing.errors import UnknownName

    try:
        return open_snapshot_by(name)
    except UnknownName as e:
        expected = (
            f"did you mean {' or '.join(e.suggestions)}?"
            if e.suggestions
            else "`planner prices snapshots` or GET /v1/prices/snapshots lists them"
        )
        raise BadRequest(
            field="prices_as_of", value=name, why="is the name of no price snapshot here", expected=expected
        ) from e
    except BadRequest as e:
        raise BadRequest(field="prices_as_of", value=name, why=e.why, expected=e.expected) from e


def _newness(meta: SnapshotMeta) -> tuple[bool, datetime, str]:
    return (meta.origin != SHIPPED, meta.published_at, meta.snapshot_id)


def _snapshot_files(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.suffix == SNAPSHOT_SUFFIX)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _published(folder: Path, not_after: date | None) -> list[Path]:
    """Return the files of the newest fitting day (file names begin with the day of their prices), and those whose name tells no day."""
    days: dict[date, list[Path]] = {}
    untold: list[Path] = []
    for path in _snapshot_files(folder):
        try:
            day = date.fromisoformat(path.name[:10])
        except ValueError:
            untold.append(path)
            continue
        if not_after is None or day <= not_after:
            days.setdefault(day, []).append(path)
    return [*(days[max(days)] if days else ()), *untold]


def _wanted(paths: Iterable[Path], not_after: date | None) -> list[tuple[Path, int]]:
    """Return the files of snapshots of a day not after the given one; SnapshotError for one that cannot be read and may be newer than these."""
    from pricing.errors import SnapshotError
    from pricing.snapshot import shipped_snapshot_path

    found: list[tuple[Path, int]] = []
    faults: list[tuple[Path, SnapshotError]] = []
    newest: datetime | None = None  # of those that were published here
    for path in paths:
        file = _version(path)
        try:
            meta = _meta(*file)
        except SnapshotError as e:
            faults.append((path, e))
            continue
        if not_after is None or meta.day <= not_after:
            found.append(file)
            if meta.origin != SHIPPED and (newest is None or meta.published_at > newest):
                newest = meta.published_at
    for path, fault in faults:
        needed = newest is None if path == shipped_snapshot_path() else _may_be_newer(path, newest)
        if needed:
            raise fault
    return found


def _may_be_newer(path: Path, newest: datetime | None) -> bool:
    """Return whether a file that cannot be read may be a snapshot that was published after `newest` (None: after nothing).

    What it says of itself is believed, else the time of the file; a file that neither says so nor has the name of a snapshot is none.
    """
    from pricing.snapshot import stated_moment

    at = stated_moment(path)
    if at is None:
        try:
            date.fromisoformat(path.name[:10])
            at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        except (ValueError, OSError):
            return False
    return newest is None or at > newest


def _version(path: Path) -> tuple[Path, int]:
    """Return a file and when it was last changed: a file that was replaced is read anew."""
    try:
        return path, path.stat().st_mtime_ns
    except FileNotFoundError:
        return path, 0


@lru_cache(maxsize=1024)
def _meta(path: Path, modified_ns: int) -> SnapshotMeta:
    """Return what a snapshot says of itself, without keeping it open."""
    del modified_ns
    from pricing.snapshot import read_meta

    return read_meta(path)


@lru_cache(maxsize=MOST_OPEN)
def _opened(path: Path, modified_ns: int) -> Catalog:
    """Return the open snapshot; one open file per version of it, shared by the requests of the process.

    A server lives through many snapshots: the one that was not asked for longest is let go, and closed when its last answer is done.
    """
    del modified_ns
    from pricing.snapshot import open_snapshot

    return open_snapshot(path)


def answer_recommendation(request: RecommendRequest) -> Document:
    """Return the answer of the main job from the newest prices and the named model."""
    from planner.services.find_model import find_model
    from planner.services.recommend import recommend

    spec = find_model(request.model, request.params)
    catalog = open_catalog(request.prices_as_of)
    return recommend(request, catalog=catalog, spec=spec, now=utc_now(), evidence=open_evidence())


def answer_estimate(request: EstimateRequest) -> Document:
    """Return the estimate of one layout from the newest prices and the named model."""
    from planner.services.estimate import estimate
    from planner.services.find_model import find_model

    spec = find_model(request.model, request.params)
    catalog = open_catalog(request.prices_as_of)
    return estimate(request, catalog=catalog, spec=spec, now=utc_now(), evidence=open_evidence())


def open_evidence() -> Evidence:
    """Return what answers beside the shipped tables: the user's own measurements here, and measured operators where they are installed."""
    from planner.services.evidence import Evidence
    from planner.silicon import installed_version

    version = installed_version()
    return Evidence(
        own=_own_files(OWN_ROWS),
        fitted=_own_files(OWN_FIT),
        predictor=None if version is None else _operator_tables(version),
    )


def _own_files(name: str) -> dict[str, bytes]:
    """Return the user's own files of this name in the data directory, by workload; NotReadable where one is there and cannot be read."""
    found = {}
    for workload in ("serving", "samples", "training"):
        path = data_dir() / name.format(workload=workload)
        try:
            found[workload] = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as e:
            from pricing.errors import NotReadable

            why = (
                "is a folder where a file of own measurements belongs"
                if path.is_dir()
                else f"cannot be read: {e.strerror or e}"
            )
            raise NotReadable(
                path=str(path),
                why=f"{why}; move it away, then planner validate --recalibrate takes own measurements in anew",
            ) from e
    return found


@lru_cache(maxsize=1)
def _operator_tables(version: str) -> Predictor:
    """Return the measured operators, one instance for the process: what it compiled stays warm."""
    from planner.silicon.tables import SiliconTables

    return SiliconTables(version)


def database_url() -> str:
    """Return PLANNER_DATABASE_URL, else the address of a SQLite file in the data directory, whose name is escaped in it."""
    if stated := os.environ.get(DATABASE_VARIABLE):
        return stated
    from planner.store.engine import sqlite_url

    return sqlite_url(data_dir() / DATABASE_FILE)


def database_file(url: str | None = None) -> Path | None:
    """Return the file of a SQLite database (default: of `database_url`), whether it is there or not; None for another kind of database."""
    stated = url or os.environ.get(DATABASE_VARIABLE)
    if not stated:
        return data_dir() / DATABASE_FILE
    from planner.store.engine import sqlite_file

    return sqlite_file(stated)


def open_store(url: str | None = None) -> SqlStore:
    """Return the store at a database URL (default: `database_url`). SQLAlchemy loads here and nowhere earlier."""
    from planner.store import SqlStore

    return SqlStore(url or database_url())


def refresh_prices(
    request: RefreshRequest,
    *,
    access: Access,
    record: bool = True,
    watches: Path | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Document:
    """Ask the sources of AWS as `access` says, and gpuhunt's where named; publish the next snapshot here, and return what came of it.

    `watches`: the file of watched prices, `alerts.toml` in the data directory when None; without one nobody is told.
    """
    from planner.services.refresh_prices import Surroundings
    from planner.services.refresh_prices import refresh_prices as refresh
    from pricing.aws.enabled_regions import enabled_regions
    from pricing.aws.regions import LOCATIONS
    from pricing.aws.session import Aws as AwsDoor
    from pricing.aws.sources import aws_sources
    from pricing.other_clouds import gpuhunt_sources
    from pricing.snapshot import open_snapshot, shipped_snapshot_path

    aws = AwsDoor(access)
    around = Surroundings(
        sources=(*aws_sources(aws, directory=data_dir()), *gpuhunt_sources()),
        data_dir=data_dir(),
        snapshots_dir=snapshots_dir(),
        open_newest=lambda: open_snapshot(open_catalog().path),
        open_shipped=lambda: open_snapshot(shipped_snapshot_path()),
        clock=utc_now,
        access=_asked_as(access),
        check_credentials=lambda: _check_credentials(aws),
        enabled_regions=lambda: enabled_regions(aws),
        records=price_records() if record else None,
        known_regions=frozenset(LOCATIONS),
        alerts=lambda before, after: _alerts(before, after, watches),
    )
    return refresh(request, around, progress=progress)


def check_refresh_names(regions: Sequence[str], sources: Sequence[str]) -> None:
    """Raise UnknownName, with near misses, for a region or source that no refresh could ask; nothing is asked and nothing written."""
    from planner.services.refresh_prices import EVERYWHERE
    from pricing.aws.regions import LOCATIONS
    from pricing.aws.session import Aws as AwsDoor
    from pricing.aws.sources import aws_sources
    from pricing.catalog import near_misses
    from pricing.errors import UnknownName
    from pricing.other_clouds import gpuhunt_sources
    from pricing.refresh.plan import chosen

    chosen((*aws_sources(AwsDoor(), directory=data_dir()), *gpuhunt_sources()), sources)
    strange = [name for name in (r.strip().lower() for r in regions) if name not in LOCATIONS and name != EVERYWHERE]
    if strange:
        known = {*LOCATIONS, *(q.region for q in open_catalog().quotes(providers=["aws"]))}
        for name in strange:
            if name not in known:
                raise UnknownName("region", name, near_misses(name, known))


def _alerts(before: Catalog, after: Catalog, watches: Path | None) -> list[Document]:
    """Tell of watched prices that moved; each file of watches has a record of its own in the data directory."""
    import hashlib

    from planner.services.send_alerts import STATE_FILE, WATCHES_FILE, alerts_after

    file, state = data_dir() / WATCHES_FILE, data_dir() / STATE_FILE
    if watches is not None and watches.resolve() != file.resolve():
        file = watches.resolve()
        state = state.with_stem(f"{state.stem}-{hashlib.sha256(str(file).encode()).hexdigest()[:8]}")
    return alerts_after(before, after, watches_file=file, state_file=state, now=utc_now())


def _asked_as(access: Access) -> str:
    """Return a hash of whose answers an access gives, as far as it can be told without asking: it is stored, and keys and addresses are not."""
    import hashlib

    stated = access.profile or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_ACCESS_KEY_ID")
    parts = (stated, access.role_arn, access.endpoint_url, os.environ.get("AWS_ENDPOINT_URL"))
    return hashlib.sha256("\n".join(part or "-" for part in parts).encode()).hexdigest()[:16]


def _check_credentials(aws: Aws) -> None:
    """Raise CredentialsMissing where the SDK finds none; nothing is asked of AWS."""
    aws.client("sts", "us-east-1")


def price_records(url: str | None = None) -> PriceRecords:
    """Return what a refresh keeps in the database: nothing is opened before it is used; raises BadDatabaseUrl for an address that is none."""
    from planner.price_records import StoredPrices

    open_store(url).close()  # whose address cannot be used is refused before anything is asked
    return StoredPrices(lambda: open_store(url))
