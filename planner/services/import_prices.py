"""`import_prices`: a price sheet or a private agreement into a new snapshot made from the newest, or out of it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.ports import Document
from planner.services.documents import instant, unit_price
from planner.services.list_prices import price
from pricing.catalog import Catalog, near_misses
from pricing.errors import SheetError, UnknownName
from pricing.model import Quote

if TYPE_CHECKING:
    from pricing.contents import SnapshotContents

IMPORT = "import"
"""Origin of the snapshots that are made here."""
SHEET, AGREEMENT = "price sheet", "price agreement"
LARGEST_BYTES = 64 * 2**20
KEY_FIELDS = (
    "provider",
    "instance_type",
    "region",
    "purchase_option",
    "plan_type",
    "offering_class",
    "term_years",
    "payment_option",
    "currency",
    "unit",
)


def import_file(
    path: Path,
    *,
    base: Callable[[], Catalog],
    snapshots: Path,
    now: datetime,
    name: str | None = None,
    replacing: bool = False,
    dry_run: bool = False,
) -> Document:
    """Import FILE.csv (a price sheet) or FILE.toml (a private agreement) and return what changed.

    `base` opens the newest snapshot, `snapshots` is where the new one goes. The same file again changes nothing and publishes nothing.
    Raises `SheetError` with every fault, and NotReadable where it is no plain file of text; then nothing is written.
    """
    text = _text(path)
    if path.suffix.casefold() == ".toml":
        from pricing.discounts import parse_agreement  # noqa: PLC0415 - one of two kinds of file

        lines = parse_agreement(text, path.stem)
        if name is not None:
            lines = tuple(replace(line, agreement=name) for line in lines)
        named = lines[0].agreement
        return import_agreement(named, lines, base=base, snapshots=snapshots, now=now, dry_run=dry_run)
    return import_sheet(
        text, name or path.stem, base=base, snapshots=snapshots, now=now, replacing=replacing, dry_run=dry_run
    )


def import_sheet(
    text: str,
    name: str,
    *,
    base: Callable[[], Catalog],
    snapshots: Path,
    now: datetime,
    replacing: bool = False,
    dry_run: bool = False,
) -> Document:
    """Import the text of a price sheet under a name, and return what changed."""
    from pricing.price_sheet import parse_sheet  # noqa: PLC0415 - the parts of an import load when one is made
    from pricing.sheet_merge import with_sheet  # noqa: PLC0415
    from pricing.sheet_rows import sheet_source  # noqa: PLC0415
    from pricing.sheet_types import Known  # noqa: PLC0415

    def change(catalog: Catalog, contents: SnapshotContents) -> SnapshotContents:
        known = Known(
            accelerators=catalog.accelerators,
            aliases=catalog.aliases,
            instance_types=contents.instance_types,
            regions=catalog.regions(),
        )
        sheet = parse_sheet(text, name=name, known=known, today=now.date())
        return with_sheet(contents, sheet, replacing=replacing, today=now.date())

    return _published(
        change,
        kind=SHEET,
        name=name,
        source=sheet_source(name),
        did="imported",
        base=base,
        snapshots=snapshots,
        now=now,
        dry_run=dry_run,
    )


def import_agreement(
    name: str,
    lines: tuple[Any, ...],
    *,
    base: Callable[[], Catalog],
    snapshots: Path,
    now: datetime,
    dry_run: bool = False,
) -> Document:
    """Put the lines of an agreement in the place of those that it had, and return what changed."""
    from pricing.sheet_merge import agreement_source, with_agreement  # noqa: PLC0415

    return _published(
        lambda _, contents: with_agreement(contents, name, lines, today=now.date()),
        kind=AGREEMENT,
        name=name,
        source=agreement_source(name),
        did="imported",
        base=base,
        snapshots=snapshots,
        now=now,
        dry_run=dry_run,
    )


def remove_import(
    name: str,
    *,
    base: Callable[[], Catalog],
    floor: Callable[[], Catalog],
    snapshots: Path,
    now: datetime,
    dry_run: bool = False,
) -> Document:
    """Take a sheet or an agreement out again and return what changed; UnknownName with near misses when there is none of that name.

    `floor` opens the shipped snapshot: prices of it that a sheet stood in the place of come back.
    """
    from pricing.sheet_merge import agreement_source, with_agreement, without_sheet  # noqa: PLC0415
    from pricing.sheet_rows import sheet_of, sheet_source  # noqa: PLC0415

    contents = base().contents()
    sheets = {found for q in contents.quotes if (found := sheet_of(q.source)) is not None}
    agreements = {d.agreement for d in contents.discounts}
    if name in sheets:
        return _published(
            lambda _, there: without_sheet(there, name, floor=floor().contents(), today=now.date()),
            kind=SHEET, name=name, source=sheet_source(name), did="removed", base=base, snapshots=snapshots, now=now, dry_run=dry_run,
        )  # fmt: skip
    if name in agreements:
        return _published(
            lambda _, there: with_agreement(there, name, (), today=now.date()),
            kind=AGREEMENT, name=name, source=agreement_source(name), did="removed", base=base, snapshots=snapshots, now=now, dry_run=dry_run,
        )  # fmt: skip
    raise UnknownName(
        "price sheet or agreement",
        name,
        near_misses(name, sheets | agreements) or tuple(sorted(sheets | agreements))[:3],
    )


def _published(
    change: Callable[[Catalog, SnapshotContents], SnapshotContents],
    *,
    kind: str,
    name: str,
    source: str,
    did: str,
    base: Callable[[], Catalog],
    snapshots: Path,
    now: datetime,
    dry_run: bool,
) -> Document:
    """Make the new contents from the newest snapshot, publish them unless nothing changed, and say what did."""
    from contextlib import nullcontext  # noqa: PLC0415

    from pricing.refresh.lock import only_publisher  # noqa: PLC0415
    from pricing.refresh.publishing import publish  # noqa: PLC0415
    from pricing.sheet_merge import noted, quote_changes  # noqa: PLC0415
    from pricing.snapshot import content_id  # noqa: PLC0415

    with (
        nullcontext() if dry_run else only_publisher(snapshots.parent)
    ):  # a refresh at the same time would lose one of the two
        catalog = base()
        before = catalog.contents()
        after = change(catalog, before)
        changes, unchanged = quote_changes(before.quotes, after.quotes)
        types = {(i.provider, i.instance_type): i for i in before.instance_types}
        same = content_id(replace(after, sources=before.sources)) == catalog.meta.snapshot_id
        published = not same and not dry_run
        snapshot_id, published_at = catalog.meta.snapshot_id, None
        if published:
            said = f"{instant(now)}: {len(changes)} prices new, changed or gone"
            made = noted(after, source=source, subject=did, detail=said)
            _, meta = publish(snapshots, made, now=now, after=catalog.meta, origin=IMPORT)
            snapshot_id, published_at = meta.snapshot_id, instant(meta.published_at)
    return {
        "kind": kind,
        "name": name,
        "did": "nothing" if same else did,
        "dry_run": dry_run,
        "published": published,
        "snapshot_id": snapshot_id,
        "previous_snapshot_id": catalog.meta.snapshot_id,
        "published_at": published_at,
        "instance_types_added": [
            {"provider": i.provider, "instance_type": i.instance_type, "accelerator": i.accelerator, "accelerators_per_instance": i.accelerators_per_instance}
            for i in after.instance_types
            if (i.provider, i.instance_type) not in types
        ],
        "changes": {
            "new": [price(c.after) for c in changes if c.before is None and c.after is not None],
            "changed": [_changed(c.before, c.after) for c in changes if c.before is not None and c.after is not None],
            "withdrawn": [price(c.before) for c in changes if c.after is None and c.before is not None],
            "unchanged": unchanged,
        },
        "notices": [
            {"kind": n.kind.value, "source": n.source, "subject": n.subject, "detail": n.detail, "count": n.count}
            for n in after.notices
            if n not in set(before.notices)
        ],
    }  # fmt: skip


def _changed(before: Quote, after: Quote) -> Document:
    """Return one price before and after; the share only where both are in one currency and unit."""
    alike = (before.currency, before.unit) == (after.currency, after.unit)
    moved = after.effective_unit_price / before.effective_unit_price - 1
    return {name: price(after)[name] for name in KEY_FIELDS} | {
        "old_unit_price": unit_price(before.effective_unit_price),
        "new_unit_price": unit_price(after.effective_unit_price),
        "change_fraction": float(moved) if alike else None,
        "old_currency": before.currency,
        "old_source": before.source,
        "source": after.source,
    }


def _text(path: Path) -> str:
    """Return the text of a sheet; SheetError for what cannot be one."""
    if path.suffix.casefold() not in {".csv", ".toml"}:
        hint = (
            "save it as CSV in UTF-8" if path.suffix.casefold() in {".xlsx", ".xls", ".ods"} else "its name must end so"
        )
        raise SheetError(sheet=path.name, faults=(f"is neither a price sheet (.csv) nor an agreement (.toml): {hint}",))
    from pricing.plain_files import read_text  # noqa: PLC0415 - only where a file is read

    return read_text(path, most_bytes=LARGEST_BYTES)
