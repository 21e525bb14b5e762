"""`diff_prices`: what two price snapshots have unlike, as the document of `planner prices diff`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from planner.ports import Document
from planner.services.documents import instant
from planner.services.list_prices import matching, plain, selected
from pricing.catalog import Catalog
from pricing.difference import KEY_FIELDS, Key, by_key
from pricing.history import same_price
from pricing.model import Quote, SnapshotMeta

CHANGED_FIELDS = (*KEY_FIELDS, "old_unit_price", "new_unit_price", "change_fraction")
ONE_SIDED_FIELDS = (*KEY_FIELDS, "unit_price")


def diff_prices(old: Catalog, new: Catalog, *, min_change_fraction: Decimal = Decimal(0), **filters: Any) -> Document:
    """Return `{from, to, changed[…], added[…], removed[…], unchanged}`: what is paid per `unit` in each, upfront spread over the term.

    `changed` has what moved by at least `min_change_fraction`, the largest relative change first; `unchanged` counts what did not move at
    all, prices written with more or fewer decimals included. Prices of unlike currency or unit are never set against each other: one is
    removed, the other added. `filters` are those of `list_prices`; a name that either snapshot has is known.
    """
    selection = selected([old, new], **filters)
    before, after = by_key(matching(old, selection)), by_key(matching(new, selection))
    changed: list[tuple[Decimal, Key, Document]] = []
    unchanged = 0
    for key in before.keys() & after.keys():
        was, now = before[key].effective_unit_price, after[key].effective_unit_price
        if same_price(was, now):
            unchanged += 1
            continue
        fraction = now / was - 1
        changed.append((-abs(fraction), order(key), change(after[key], was, fraction)))
    document = {
        "from": snapshot(old.meta),
        "to": snapshot(new.meta),
        "changed": [document for _, _, document in sorted(changed, key=lambda each: each[:2])],
        "added": [one_sided(after[key]) for key in sorted(after.keys() - before.keys(), key=order)],
        "removed": [one_sided(before[key]) for key in sorted(before.keys() - after.keys(), key=order)],
        "unchanged": unchanged,
    }
    return at_least(document, min_change_fraction)


def at_least(document: Document, fraction: Decimal) -> Document:
    """Return a difference with only the changes of at least a fraction; what moved less is in no list."""
    least = float(fraction)  # as the changes are: 0.3 is 0.3, not a little more
    return {**document, "changed": [row for row in document["changed"] if abs(row["change_fraction"]) >= least]}


def order(key: Key) -> Key:
    """Return a key that can be sorted: what does not apply goes first."""
    return tuple((part is not None, part) for part in (*key[1:4], *key))


def change(quote: Quote, was: Decimal, fraction: Decimal) -> Document:
    """Return one price that moved."""
    return {
        **{name: plain(getattr(quote, name)) for name in KEY_FIELDS},
        "old_unit_price": plain(was),
        "new_unit_price": plain(quote.effective_unit_price),
        "change_fraction": float(fraction),
    }


def one_sided(quote: Quote) -> Document:
    """Return one price that only one snapshot has."""
    return {
        **{name: plain(getattr(quote, name)) for name in KEY_FIELDS},
        "unit_price": plain(quote.effective_unit_price),
    }


def snapshot(meta: SnapshotMeta) -> Document:
    """Return which snapshot it is."""
    return {
        "snapshot_id": meta.snapshot_id,
        "day": meta.day.isoformat(),
        "published_at": instant(meta.published_at),
    }
