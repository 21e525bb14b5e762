"""The snapshot file: one immutable SQLite file with everything that can be bought, made to be read.

Written once (beside its final name, flushed, then linked into place) and never changed, so any number of processes read it, mapped
into memory, without locks. `snapshot_id` is a hash of the content, not of the file: the same prices have the same id whatever wrote them.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pricing.catalog import Catalog
from pricing.errors import SnapshotError, SnapshotNotWritten
from pricing.market import (
    CapacityBlock,
    Discount,
    Notice,
    PlacementScore,
    PricePeriod,
    Quota,
    SpotStatistics,
    ZoneOffering,
)
from pricing.model import Accelerator, InstanceType, Interruption, PurchaseOption, Quote, Rate, SnapshotMeta, SourceAge
from pricing.rows import Cell, canonical_lines, cell_columns, columns

if TYPE_CHECKING:
    from pricing.contents import SnapshotContents

Tables: TypeAlias = dict[str, list[list[Cell]]]
"""Every table of a snapshot as columns of cells."""

APPLICATION_ID = 0x67637031  # "gcp1" in the SQLite header: the file is ours
FORMAT_VERSION = 3  # a reader refuses any other; raise it when a table changes
PAGE_BYTES = 4096
MAPPED_BYTES = 1 << 30  # upper bound of what SQLite may map; a snapshot is a few megabytes

TABLES: tuple[tuple[str, type, str], ...] = (
    # table, what a row is, what tells two rows apart (and the order in which they are kept)
    ("accelerators", Accelerator, "name"),
    ("instance_types", InstanceType, "provider, instance_type"),
    (
        "quotes",
        Quote,
        "provider, region, instance_type, purchase_option, availability_zone_id, availability_zone, plan_type, offering_class, term_years, payment_option, effective_from, retrieved_at",
    ),
    ("rates", Rate, "provider, service, item, region, tier_from"),
    ("interruptions", Interruption, "provider, instance_type, region"),
    ("sources", SourceAge, "source, kind"),
    (
        "price_periods",
        PricePeriod,
        "provider, region, instance_type, purchase_option, plan_type, offering_class, term_years, payment_option, currency, unit, first_seen",
    ),
    ("zone_offerings", ZoneOffering, "provider, instance_type, region, availability_zone_id, availability_zone"),
    ("capacity_blocks", CapacityBlock, "provider, instance_type, region, offering_id"),
    ("spot_statistics", SpotStatistics, "provider, instance_type, region, availability_zone_id, availability_zone"),
    (
        "placement_scores",
        PlacementScore,
        "provider, instance_types, region, availability_zone_id, target_capacity, target_unit",
    ),
    ("quotas", Quota, "provider, region, code"),
    ("notices", Notice, "kind, source, subject, detail"),
    (
        "discounts",
        Discount,
        "provider, agreement, purchase_option, region, family, instance_type, sku, starts_on, ends_on, source",
    ),
)
INDICES = (
    "CREATE INDEX quotes_by_region ON quotes (region, purchase_option, instance_type)",
    "CREATE INDEX quotes_by_type ON quotes (instance_type, region, provider, purchase_option)",
    "CREATE INDEX quotes_by_option ON quotes (purchase_option, region)",
    "CREATE INDEX instance_types_by_name ON instance_types (instance_type)",
    "CREATE INDEX rates_by_service ON rates (service, region)",
    "CREATE INDEX price_periods_by_type ON price_periods (instance_type, region)",
    "CREATE INDEX interruptions_by_type ON interruptions (instance_type, region)",
)
PUBLISHED = re.compile(rb"published_at(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+00:00)")
FIRST_BYTES = 1 << 16
"""Of a snapshot: the table of what it says of itself is written first."""
REPUBLISH = "run `python -m pricing.publish` in the checkout, or install the package again"


def shipped_snapshot_path() -> Path:
    """Return where the snapshot that is made from the shipped tables lies (snapshot 0)."""
    return Path(__file__).with_name("tables") / "snapshot-0.sqlite"


def remedy(path: Path) -> str:
    """Return what to do about a file that cannot be used: make the shipped one again, take any other away."""
    return REPUBLISH if path == shipped_snapshot_path() else f"remove {path}"


def snapshot_file_name(meta: SnapshotMeta) -> str:
    """Return a file name that sorts by the day from which it can be asked for and is unique by content: `2026-07-20-<id>.sqlite`."""
    return f"{meta.day:%Y-%m-%d}-{meta.snapshot_id}.sqlite"


def content_id(contents: SnapshotContents) -> str:
    """Return 16 hex digits of the SHA-256 of the content; the order of rows, the time and the file format do not matter."""
    return _id_of(_tables_of(contents), contents.aliases)


def write_snapshot(
    path: Path, contents: SnapshotContents, *, published_at: datetime, origin: str, replace: bool = False
) -> SnapshotMeta:
    """Write the snapshot at `path` in one step and return what it says of itself; SnapshotError where that cannot be done.

    A file of the same content that is already there is kept; one of other content is never overwritten, unless `replace`
    (for build outputs alone): then the new file takes its name and readers of the old one keep it until they close it.
    """
    tables, snapshot_id = _publishable(contents)
    meta = _meta_of(contents, snapshot_id, published_at=published_at, origin=origin)
    return _written(path, tables, contents.aliases, meta, replace=replace)


def write_snapshot_in(
    folder: Path, contents: SnapshotContents, *, published_at: datetime, origin: str
) -> tuple[Path, SnapshotMeta]:
    """Write the snapshot into a folder under its own name (`snapshot_file_name`); return where it lies and what it says of itself."""
    tables, snapshot_id = _publishable(contents)
    meta = _meta_of(contents, snapshot_id, published_at=published_at, origin=origin)
    path = folder / snapshot_file_name(meta)
    return path, _written(path, tables, contents.aliases, meta, replace=False)


def _publishable(contents: SnapshotContents) -> tuple[Tables, str]:
    """Return the cells of every table and their id: worked out once, as both take their time with 100,000 prices."""
    try:
        tables = _tables_of(contents)
        return tables, _id_of(tables, contents.aliases)
    except (TypeError, ValueError) as e:
        raise SnapshotError(f"cannot publish: {e}") from e


def _tables_of(contents: SnapshotContents) -> Tables:
    return {table: cell_columns(kind, getattr(contents, table)) for table, kind, _ in TABLES}


def _id_of(tables: Tables, aliases: Mapping[str, str]) -> str:
    import hashlib  # noqa: PLC0415 - readers do not hash

    lines = [line for table, kind, _ in TABLES for line in canonical_lines(kind, tables[table], f"{table}\t")]
    lines += [f"aliases\t{alias}\t{name}" for alias, name in aliases.items()]
    lines.sort()
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _written(
    path: Path, tables: Tables, aliases: Mapping[str, str], meta: SnapshotMeta, *, replace: bool
) -> SnapshotMeta:
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        if path.exists() and not replace:
            return _same_or_refuse(path, meta)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _fill(temporary, tables, aliases, meta)
            _flush(temporary)
            if replace:
                temporary.replace(path)
            elif not _link(temporary, path):
                return _same_or_refuse(path, meta)
            _flush(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as e:
        raise SnapshotNotWritten(f"{path}: cannot write the snapshot: {e.strerror or e}") from e
    except sqlite3.OperationalError as e:  # SQLite's own words for a full disk
        raise SnapshotNotWritten(f"{path}: cannot write the snapshot: {e}") from e
    return meta


def open_snapshot(path: Path) -> Catalog:
    """Return the catalog of a snapshot file, reading only what it says of itself; rows are read when asked for."""
    connection = _connect(path)
    try:
        with _readable(path):
            return Catalog(connection, _read_meta(connection), path)
    except BaseException:
        connection.close()
        raise


def read_meta(path: Path) -> SnapshotMeta:
    """Return what a snapshot file says of itself, without keeping it open."""
    with closing(_connect(path)) as connection, _readable(path):
        return _read_meta(connection)


def stated_moment(path: Path) -> datetime | None:
    """Return when a file that cannot be read says that it was published, as far as its first bytes still tell; None where they do not."""
    if not path.is_file():  # opening a pipe would wait for a writer
        return None
    try:
        with path.open("rb") as file:
            found = PUBLISHED.search(file.read(FIRST_BYTES))
        return None if found is None else datetime.fromisoformat(found[1].decode())
    except (OSError, ValueError):
        return None


def verify_snapshot(path: Path) -> SnapshotMeta:
    """Read every row, work the id out again and return the meta; SnapshotError if the content is not what the id says."""
    with closing(_connect(path)) as connection, _readable(path):
        meta = _read_meta(connection)
        tables = {table: _stored(connection, table, kind) for table, kind, _ in TABLES}
        found = _id_of(tables, dict(connection.execute("SELECT alias, name FROM aliases")))
    if found != meta.snapshot_id:
        raise SnapshotError(
            f"{path}: damaged snapshot: its content has id {found}, it says {meta.snapshot_id}; {remedy(path)}"
        )
    return meta


def _stored(connection: sqlite3.Connection, table: str, kind: type) -> list[list[Cell]]:
    """Return the cells of a table as they stand in the file, column by column: the id is one of cells, so no row needs to be made of them."""
    names = [c.name for c in columns(kind)]
    rows = connection.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()  # noqa: S608 - names are ours, from TABLES
    return [list(map(itemgetter(place), rows)) for place in range(len(names))]


def _meta_of(contents: SnapshotContents, snapshot_id: str, *, published_at: datetime, origin: str) -> SnapshotMeta:
    if published_at.tzinfo is None:
        raise SnapshotError(f"published_at must say its time zone: {published_at.isoformat()}")
    on_demand = [q for q in contents.quotes if q.purchase_option is PurchaseOption.ON_DEMAND]
    # price sheets of other clouds ride along with days of their own: the snapshot is of the day of its main source
    quoted = [q.retrieved_at for q in on_demand if q.provider == "aws"] or [q.retrieved_at for q in on_demand]
    if not quoted:
        raise SnapshotError("a snapshot needs at least one on-demand quote: its date is that of the newest")
    return SnapshotMeta(
        snapshot_id=snapshot_id,
        as_of=max(quoted),
        published_at=published_at,
        origin=origin,
        sources=tuple(sorted(contents.sources, key=lambda s: (s.kind, s.source))),
        quote_count=len(contents.quotes),
        instance_type_count=len(contents.instance_types),
    )


def _fill(path: Path, tables: Tables, aliases: Mapping[str, str], meta: SnapshotMeta) -> None:
    """Write all tables; rows sorted by their key, so the same content gives the same pages."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.execute("PRAGMA journal_mode = OFF")  # the file has no name yet: a crash leaves nothing to repair
        db.execute("PRAGMA synchronous = OFF")  # flushed once, at the end
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        db.execute("BEGIN")
        db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
        db.execute(
            "CREATE TABLE aliases (alias TEXT PRIMARY KEY, name TEXT NOT NULL REFERENCES accelerators (name)) WITHOUT ROWID"
        )
        db.executemany(
            "INSERT INTO meta VALUES (?, ?)",
            [
                ("snapshot_id", meta.snapshot_id),
                ("as_of", meta.as_of.astimezone(UTC).isoformat()),
                ("published_at", meta.published_at.astimezone(UTC).isoformat()),
                ("origin", meta.origin),
                ("quote_count", str(meta.quote_count)),
                ("instance_type_count", str(meta.instance_type_count)),
            ],
        )
        for table, kind, key in TABLES:
            _fill_table(db, table, kind, key, tables[table])
        db.executemany("INSERT INTO aliases VALUES (?, ?)", sorted(aliases.items()))
        for statement in INDICES:
            db.execute(statement)
        db.execute("COMMIT")
        db.execute("ANALYZE")
        db.execute("VACUUM")


def _fill_table(db: sqlite3.Connection, table: str, kind: type, key: str, made: list[list[Cell]]) -> None:
    cols = columns(kind)
    db.execute(f"CREATE TABLE {table} ({', '.join(f'{c.name} {c.sql_type}' for c in cols)})")
    names = [c.name for c in cols]
    parts: list[list[Any]] = [made[names.index(name.strip())] for name in key.split(",")]
    # two cells of one column may be None and text: pairs keep them comparable
    known = [part if None not in part else [(cell is not None, cell) for cell in part] for part in parts]
    identities = list(zip(*known, strict=True))
    order = sorted(range(len(identities)), key=identities.__getitem__)
    for one, other in pairwise(order):
        if identities[one] == identities[other]:
            said = ", ".join(str(part[one]) for part in parts if part[one] is not None)
            raise SnapshotError(f"cannot publish: two rows of {table} for {said}")
    rows = list(zip(*made, strict=True))
    marks = ", ".join("?" * len(cols))
    db.executemany(f"INSERT INTO {table} VALUES ({marks})", map(rows.__getitem__, order))  # noqa: S608 - names are ours, from TABLES


def _connect(path: Path) -> sqlite3.Connection:
    """Open read-only, immutable and mapped, after a look at the header: ours, of this version, whole."""
    _check_header(path)
    with _readable(path):
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None, check_same_thread=False
        )
    connection.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")
    return connection


def _check_header(path: Path) -> None:
    """Check the 100 bytes that every SQLite file begins with (https://www.sqlite.org/fileformat.html, section 1.3)."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # opening a pipe would wait for ever
            raise SnapshotError(f"{path}: not a price snapshot but {_kind(found.st_mode)}; {remedy(path)}")
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError as e:
        raise SnapshotError(
            f"{path}: no such snapshot; {REPUBLISH if path == shipped_snapshot_path() else 'check the path'}"
        ) from e
    except OSError as e:
        raise SnapshotError(f"{path}: cannot read the snapshot: {e.strerror or e}") from e
    if (
        len(header) < 100
        or not header.startswith(b"SQLite format 3\x00")
        or int.from_bytes(header[68:72]) != APPLICATION_ID
    ):
        raise SnapshotError(f"{path}: not a price snapshot; {remedy(path)}")
    version = int.from_bytes(header[60:64])
    if version != FORMAT_VERSION:
        newer = "upgrade planner, or " if version > FORMAT_VERSION else ""
        raise SnapshotError(
            f"{path}: snapshot format {version}, this version reads format {FORMAT_VERSION}; {newer}{remedy(path)}"
        )
    expected = int.from_bytes(header[16:18]) * int.from_bytes(header[28:32])
    if found.st_size != expected:
        raise SnapshotError(f"{path}: damaged snapshot: {found.st_size} bytes, should be {expected}; {remedy(path)}")


def _kind(mode: int) -> str:
    """Return what a thing that is no file is."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "no regular file")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, ValueError, KeyError, TypeError) as e:
        raise SnapshotError(f"{path}: damaged snapshot: {e}; {remedy(path)}") from e


def _read_meta(connection: sqlite3.Connection) -> SnapshotMeta:
    said = dict(connection.execute("SELECT key, value FROM meta"))
    return SnapshotMeta(
        snapshot_id=said["snapshot_id"],
        as_of=datetime.fromisoformat(said["as_of"]),
        published_at=datetime.fromisoformat(said["published_at"]),
        origin=said["origin"],
        sources=tuple(
            SourceAge(source=source, kind=kind, as_of=datetime.fromisoformat(as_of), quotes=quotes)
            for source, kind, as_of, quotes in connection.execute(
                "SELECT source, kind, as_of, quotes FROM sources ORDER BY kind, source"
            )
        ),
        quote_count=int(said["quote_count"]),
        instance_type_count=int(said["instance_type_count"]),
    )


def _same_or_refuse(path: Path, meta: SnapshotMeta) -> SnapshotMeta:
    there = verify_snapshot(path)
    if there.snapshot_id != meta.snapshot_id:
        raise SnapshotError(
            f"{path}: holds snapshot {there.snapshot_id} and snapshots are never overwritten; write {meta.snapshot_id} under another name"
        )
    return there


def _link(temporary: Path, path: Path) -> bool:
    """Give the finished file its name unless the name is taken; say whether it got it."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as e:
        if e.errno not in {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}:
            raise
        if path.exists():  # a file system without hard links: the name is by content, so a race writes the same bytes
            return False
        temporary.rename(path)
    return True


def _flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
