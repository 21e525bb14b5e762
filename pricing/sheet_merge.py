"""What a price sheet or a private agreement makes of the newest snapshot, and what is left when it is taken out again. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date

from pricing.checks import check_snapshot, quote_key
from pricing.contents import SnapshotContents, sources_of
from pricing.discounts import NAME as OF_DISCOUNTS
from pricing.discounts import apply_agreement
from pricing.errors import SheetError
from pricing.history import extended, period_key
from pricing.market import Discount, Notice, NoticeKind, PricePeriod
from pricing.model import Quote
from pricing.price_sheet import PriceSheet
from pricing.sheet_rows import sheet_of, sheet_source

MILESTONES = frozenset({"imported", "removed"})
"""Subjects of the notes that say when a sheet or an agreement came or went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteChange:
    """A price before and after; None where there was or is none."""

    before: Quote | None
    after: Quote | None


def with_sheet(base: SnapshotContents, sheet: PriceSheet, *, replacing: bool, today: date) -> SnapshotContents:
    """Return the contents with the sheet's prices and types beside the others.

    Prices of an earlier import of the same sheet are brought up to date; those that the sheet no longer has stay unless `replacing`.
    Where another source has the same price, SheetError names the lines, unless `replacing`: then the sheet's stands in its place.
    """
    taken = {quote_key(q): q for q in base.quotes if sheet_of(q.source) != sheet.name}
    clashing = [
        f"line {line}: {_what(taken[key])} has a price already, {taken[key].effective_unit_price.normalize():f} {taken[key].currency} "
        f"of {taken[key].source}: --replace puts the sheet's in its place"
        for key, line in sheet.lines.items()
        if key in taken
    ]
    if clashing and not replacing:
        raise SheetError(sheet=sheet.name, faults=tuple(clashing))
    kept = [
        q
        for q in base.quotes
        if quote_key(q) not in sheet.lines and not (replacing and sheet_of(q.source) == sheet.name)
    ]
    described = {(i.provider, i.instance_type) for i in sheet.instance_types}
    quotes = (*kept, *sheet.quotes)
    priced = {(q.provider, q.instance_type) for q in quotes}
    types = [
        i
        for i in base.instance_types
        if (i.provider, i.instance_type) not in described
        and (sheet_of(i.source) is None or (i.provider, i.instance_type) in priced)
    ]
    periods = _without_corrected(base.price_periods, sheet)
    merged = replace(
        base,
        instance_types=(*types, *sheet.instance_types),
        quotes=apply_agreement(quotes, base.discounts, today).quotes if base.discounts else quotes,
        price_periods=extended(periods, sheet.quotes),
    )
    own = sheet_source(sheet.name)
    said = [n for n in base.notices if n.source != own or n.subject in MILESTONES]
    return _aged(replace(merged, notices=(*said, *_findings(sheet.name, base, merged, today))))


def without_sheet(base: SnapshotContents, name: str, *, floor: SnapshotContents, today: date) -> SnapshotContents:
    """Return the contents without anything of a sheet; prices of the shipped tables (`floor`) that it stood in the place of come back."""
    gone = {quote_key(q) for q in base.quotes if sheet_of(q.source) == name}
    back = [q for q in floor.quotes if quote_key(q) in gone]
    quotes: tuple[Quote, ...] = (*(q for q in base.quotes if sheet_of(q.source) != name), *back)
    priced = {(q.provider, q.instance_type) for q in quotes}
    left = replace(
        base,
        instance_types=tuple(
            i
            for i in base.instance_types
            if sheet_of(i.source) is None or (i.provider, i.instance_type) in priced  # another sheet may price it too
        ),
        quotes=apply_agreement(quotes, base.discounts, today).quotes if base.discounts else quotes,
        price_periods=tuple(p for p in base.price_periods if sheet_of(p.source) != name),
    )
    own = sheet_source(name)
    return _aged(replace(left, notices=tuple(n for n in base.notices if n.source != own or n.subject in MILESTONES)))


def with_agreement(base: SnapshotContents, name: str, lines: tuple[Discount, ...], *, today: date) -> SnapshotContents:
    """Return the contents with every price as paid under the agreements, `lines` being all of the named one; no lines: it is over."""
    discounts = (*(d for d in base.discounts if d.agreement != name), *lines)
    applied = apply_agreement(base.quotes, discounts, today)
    notices = (*(n for n in base.notices if n.source != OF_DISCOUNTS), *applied.notices)
    return _aged(replace(base, discounts=discounts, quotes=applied.quotes, notices=notices))


def agreement_source(name: str) -> str:
    """Return the source of the notices about the import of an agreement."""
    return f"price agreement {name}"


def noted(contents: SnapshotContents, *, source: str, subject: str, detail: str) -> SnapshotContents:
    """Return the contents with a note of what was done and when: a sheet taken out and put in again is another snapshot each time."""
    note = Notice(kind=NoticeKind.NOTE, source=source, subject=subject, detail=detail)
    kept = tuple(n for n in contents.notices if not (n.source == source and n.subject in MILESTONES))
    return replace(contents, notices=(*kept, note))


def quote_changes(before: Iterable[Quote], after: Iterable[Quote]) -> tuple[list[QuoteChange], int]:
    """Return the quotes that differ in any way, in the order of their keys, and how many are the same."""
    old, new = {quote_key(q): q for q in before}, {quote_key(q): q for q in after}
    pairs = [(old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys(), key=str)]
    return [QuoteChange(before=a, after=b) for a, b in pairs if a != b], sum(a == b for a, b in pairs)


def _aged(merged: SnapshotContents) -> SnapshotContents:
    """Return the contents with the ages of the sources that they now rest on."""
    ages = sources_of(
        accelerators=merged.accelerators,
        instance_types=merged.instance_types,
        quotes=merged.quotes,
        rates=merged.rates,
        interruptions=merged.interruptions,
    )
    return replace(merged, sources=tuple(ages))


def _findings(name: str, base: SnapshotContents, merged: SnapshotContents, today: date) -> tuple[Notice, ...]:
    """Return what the rules find in the sheet's prices, as notes: nothing is refused, a dear offer is an offer."""
    others = replace(base, quotes=tuple(q for q in base.quotes if sheet_of(q.source) != name))
    known = set(check_snapshot(others, today=today))
    return tuple(
        Notice(kind=NoticeKind.NOTE, source=sheet_source(name), subject=f.subject, detail=f.why)
        for f in dict.fromkeys(check_snapshot(merged, today=today))
        if f not in known
    )


def _without_corrected(periods: Iterable[PricePeriod], sheet: PriceSheet) -> tuple[PricePeriod, ...]:
    """Return the periods without those that an earlier import of the sheet began on the very day of a price that it now corrects."""
    days = {(period_key(q), q.retrieved_at) for q in sheet.quotes}
    return tuple(
        p
        for p in periods
        if not (
            sheet_of(p.source) == sheet.name and p.first_seen == p.last_seen and (period_key(p), p.first_seen) in days
        )
    )


def _what(quote: Quote) -> str:
    return f"{quote.provider} {quote.instance_type} {quote.region} {quote.purchase_option}"
