"""Readings kept on disk until their snapshot is published, so that a refresh that was ended goes on where it was.

One file a unit: a line that says what it is, a line a row, and a line with the number of rows and a hash of all before it. Written
beside its name and renamed, so a file is whole or not there; one that is damaged, of other rows, another account or too old is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pricing.market import CapacityBlock, Notice, PlacementScore, Quota, SpotChange, ZoneOffering
from pricing.model import InstanceType, Interruption, PurchaseOption, Quote, Rate
from pricing.refresh.errors import NotWritable
from pricing.refresh.plan import Unit
from pricing.rows import canonical, columns, from_canonical
from pricing.source import Ask, Scope, SourceReading

OLDEST = timedelta(hours=6)
"""Age from which a staged reading is asked for again."""

CLOCKS_DIFFER = timedelta(minutes=5)
"""A reading dated further ahead than that was made by another clock; its age is not known."""

TABLES: dict[str, type] = {
    "quotes": Quote,
    "instance_types": InstanceType,
    "rates": Rate,
    "interruptions": Interruption,
    "zone_offerings": ZoneOffering,
    "capacity_blocks": CapacityBlock,
    "placement_scores": PlacementScore,
    "quotas": Quota,
    "spot_changes": SpotChange,
    "notices": Notice,
}
"""What a reading holds, in the order of its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The staged readings of one data directory, as one account and address (`access`) was asked for them."""

    folder: Path
    access: str

    def keep(self, unit: Unit, ask: Ask, reading: SourceReading) -> None:
        """Put a reading on the disk, whole or not at all."""
        path = self._path(unit)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256()
            rows = 0
            try:
                with temporary.open("wb") as file:
                    for line in (json.dumps(self._head(unit, ask, reading), sort_keys=True), *_rows_of(reading)):
                        data = line.encode() + b"\n"
                        digest.update(data)
                        file.write(data)
                        rows += 1
                    file.write(f"end {rows} {digest.hexdigest()}\n".encode())
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as e:
            raise NotWritable(
                f"{path}: cannot be written: {e.strerror or e}; the snapshot before stays, and what was read so far is kept"
            ) from e

    def kept(self, unit: Unit, ask: Ask, *, newer_than: datetime | None) -> SourceReading | None:
        """Return the staged reading of a unit, None where there is none that can be used.

        `newer_than`: when the newest snapshot was published; what was staged before is in it, or was left out of it.
        """
        try:
            data = self._path(unit).read_bytes()
        except OSError:
            return None
        body, newline, end = data[:-1].rpartition(b"\n")
        rows = body.count(b"\n") + 1
        if not newline or end != f"end {rows} {hashlib.sha256(body + newline).hexdigest()}".encode():
            return None
        lines = body.decode().split("\n")
        try:
            head = json.loads(lines[0])
            if head["made_for"] != self._made_for(unit, ask):
                return None
            reading = _reading(head, lines[1:])
        except (ValueError, KeyError, TypeError):  # written by a version with the same rows and another head
            return None
        age = ask.at - reading.retrieved_at
        if not -CLOCKS_DIFFER <= age <= OLDEST or (newer_than is not None and reading.retrieved_at <= newer_than):
            return None
        return reading

    def drop(self, unit: Unit) -> None:
        """Forget the reading of a unit; one that cannot be deleted is older than the snapshot that was made from it, so is not used."""
        with suppress(OSError):
            self._path(unit).unlink(missing_ok=True)

    def _path(self, unit: Unit) -> Path:
        return self.folder / f"{_plain(unit.source.name)}--{_plain(unit.region or 'all')}.jsonl"

    def _head(self, unit: Unit, ask: Ask, reading: SourceReading) -> dict[str, Any]:
        scope = reading.scope
        return {
            "made_for": self._made_for(unit, ask),
            "source": reading.source,
            "retrieved_at": reading.retrieved_at.isoformat(),
            "published": reading.published,
            "excluded": dict(reading.excluded),
            "untold": sorted(reading.untold),
            "scope": {
                "provider": scope.provider,
                "region": scope.region,
                "tables": sorted(scope.tables),
                "purchase_options": sorted(scope.purchase_options),
                "services": sorted(scope.services),
            },
        }

    def _made_for(self, unit: Unit, ask: Ask) -> dict[str, Any]:
        return {
            "rows": row_format(),
            "unit": [unit.source.name, unit.region],
            "access": self.access,
            "types": hashlib.sha256("\n".join(sorted(ask.instance_types)).encode()).hexdigest(),
        }


def row_format() -> str:
    """Return what tells the rows of this version from those of another: the names and kinds of all their fields, hashed."""
    said = [
        f"{table} {' '.join(f'{column.name}:{column.sql_type}' for column in columns(kind))}"
        for table, kind in TABLES.items()
    ]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def _rows_of(reading: SourceReading) -> Iterator[str]:
    for table in TABLES:
        for row in getattr(reading, table):
            yield f"{table} {canonical(row)}"


def _reading(head: dict[str, Any], lines: list[str]) -> SourceReading:
    rows: dict[str, list[Any]] = {table: [] for table in TABLES}
    for line in lines:
        table, _, text = line.partition(" ")
        rows[table].append(from_canonical(TABLES[table], text))
    scope = head["scope"]
    return SourceReading(
        source=head["source"],
        scope=Scope(
            provider=scope["provider"],
            region=scope["region"],
            tables=frozenset(scope["tables"]),
            purchase_options=frozenset(PurchaseOption(option) for option in scope["purchase_options"]),
            services=frozenset(scope["services"]),
        ),
        retrieved_at=datetime.fromisoformat(head["retrieved_at"]),
        published=head["published"],
        excluded=head["excluded"],
        untold=frozenset(head["untold"]),
        **{table: tuple(found) for table, found in rows.items()},
    )


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
