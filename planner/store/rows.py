"""Our frozen values as rows, and rows as our frozen values. The two share their field names; only enumerations are converted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pricing.model import (
    AcceleratorKind,
    InstanceType,
    InterconnectKind,
    PurchaseOption,
    Quote,
    SnapshotMeta,
    SourceAge,
)

QUOTE_FIELDS = tuple(f.name for f in dataclasses.fields(Quote))
INSTANCE_TYPE_FIELDS = tuple(f.name for f in dataclasses.fields(InstanceType))
SOURCE_FIELDS = tuple(f.name for f in dataclasses.fields(SourceAge))


def snapshot_values(meta: SnapshotMeta) -> dict[str, Any]:
    """Return the columns of a snapshot's own row."""
    return {f.name: getattr(meta, f.name) for f in dataclasses.fields(SnapshotMeta) if f.name != "sources"}


def source_values(snapshot_id: str, position: int, source: SourceAge) -> dict[str, Any]:
    """Return the columns of a source's row."""
    return {"snapshot_id": snapshot_id, "position": position} | {name: getattr(source, name) for name in SOURCE_FIELDS}


def quote_values(snapshot_id: str, position: int, quote: Quote) -> dict[str, Any]:
    """Return the columns of a quote's row."""
    values = {name: getattr(quote, name) for name in QUOTE_FIELDS}
    values["purchase_option"] = quote.purchase_option.value
    return {"snapshot_id": snapshot_id, "position": position} | values


def instance_type_values(snapshot_id: str, position: int, instance_type: InstanceType) -> dict[str, Any]:
    """Return the columns of an instance type's row."""
    values = {name: getattr(instance_type, name) for name in INSTANCE_TYPE_FIELDS}
    values["accelerator_kind"] = instance_type.accelerator_kind.value
    values["interconnect_kind"] = instance_type.interconnect_kind.value
    return {"snapshot_id": snapshot_id, "position": position} | values


def quote_of(row: Mapping[str, Any]) -> Quote:
    """Return the quote that a row holds."""
    values = {name: row[name] for name in QUOTE_FIELDS}
    values["purchase_option"] = PurchaseOption(row["purchase_option"])
    return Quote(**values)


def instance_type_of(row: Mapping[str, Any]) -> InstanceType:
    """Return the instance type that a row holds."""
    values = {name: row[name] for name in INSTANCE_TYPE_FIELDS}
    values["accelerator_kind"] = AcceleratorKind(row["accelerator_kind"])
    values["interconnect_kind"] = InterconnectKind(row["interconnect_kind"])
    return InstanceType(**values)


def source_of(row: Mapping[str, Any]) -> SourceAge:
    """Return the source that a row holds."""
    return SourceAge(**{name: row[name] for name in SOURCE_FIELDS})


def meta_of(row: Mapping[str, Any], sources: tuple[SourceAge, ...]) -> SnapshotMeta:
    """Return what a snapshot says of itself."""
    return SnapshotMeta(
        **{f.name: row[f.name] for f in dataclasses.fields(SnapshotMeta) if f.name != "sources"}, sources=sources
    )
