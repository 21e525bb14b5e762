"""What a provider's description of its instance types changes in ours, field by field.

A table of ours knows more than the reply (the CPU's model, how chips are linked, what can only be had as a capacity block), and the
reply is newer. For a type that a shipped table has:

- MEASURED fields are the reply's where it states them: sizes of the host, network and disks.
- CURATED fields are the table's where it has them, else the reply's: which chip, how many, what share, how linked.
- `capacity_block_only` holds when either says so: replies list on-demand for types that nobody can start that way.

Whatever disagrees is told. A type that no table has is the reply's, provided that it names a chip that we know; a chip that is known
is never lost to a reply that does not name one. Nothing here takes a type away: replies are of one region.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pricing.market import Notice, NoticeKind
from pricing.model import InstanceType

MEASURED = ("vcpus", "memory_gib", "cpu_arch", "network_gbps", "efa_supported", "local_nvme_gb")
CURATED = (
    "accelerator",
    "accelerator_kind",
    "device_count",
    "device_fraction",
    "device_memory_gib",
    "interconnect_kind",
    "interconnect_gb_s_bidirectional",
)
CLOSE = 0.005
"""Relative difference up to which two sizes are one, rounded otherwise."""

Key = tuple[str, str]


def merged_types(
    base: Iterable[InstanceType], curated: Iterable[Key], read: Sequence[tuple[str, InstanceType]], chips: Iterable[str]
) -> tuple[tuple[InstanceType, ...], tuple[Notice, ...]]:
    """Return the types after what was read, and what is to be said.

    `curated`: the types of the shipped tables. `read`: each type with the name of its source; a type is read once a region.
    """
    types: dict[Key, InstanceType] = {(t.provider, t.instance_type): t for t in base}
    shipped, known_chips = set(curated), set(chips)
    said: dict[tuple[str, str, str], Notice] = {}
    for source, live in read:
        key = (live.provider, live.instance_type)
        before = types.get(key)
        if before is not None and (key in shipped or live.accelerator is None):
            types[key], disagreements = _corrected(before, live)
        elif live.accelerator in known_chips:
            types[key], disagreements = live, ()
        else:
            disagreements = ("named by no table, and its chip is not known: left out",)
        for why in disagreements:
            said[source, live.instance_type, why] = Notice(
                kind=NoticeKind.NOTE, source=source, subject=live.instance_type, detail=why
            )
    return tuple(types[key] for key in sorted(types)), tuple(said[key] for key in sorted(said))


def _corrected(before: InstanceType, live: InstanceType) -> tuple[InstanceType, tuple[str, ...]]:
    """Return our type with what the reply corrects, and where the two disagree."""
    changed: dict[str, Any] = {}
    said: list[str] = []
    for name in MEASURED:
        ours, theirs = getattr(before, name), getattr(live, name)
        if theirs is None or _same(ours, theirs):
            continue
        changed[name] = theirs
        if ours is not None:
            said.append(f"{name} is {theirs} at the provider, was {ours} here: the provider's holds")
    identity_known = live.accelerator is not None
    for name in CURATED if identity_known else ():
        ours, theirs = getattr(before, name), getattr(live, name)
        if theirs is None or _same(ours, theirs):
            continue
        if ours is None:
            changed[name] = theirs
        else:
            said.append(f"{name} is {theirs} at the provider, {ours} in the tables: the tables' holds")
    if live.capacity_block_only != before.capacity_block_only:
        if live.capacity_block_only:
            changed["capacity_block_only"] = True
            said.append("sold as a capacity block only, says the provider")
        else:
            said.append("the provider lists it for on-demand; the tables know it as sold as a capacity block only")
    if not changed:
        return before, tuple(said)
    sources = tuple(dict.fromkeys((*before.source.split("; "), live.source)))
    return replace(before, **changed, source="; ".join(sources)), tuple(said)


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, (int, float)) and not isinstance(theirs, bool):
        return abs(ours - theirs) <= CLOSE * max(abs(ours), abs(theirs))
    return bool(ours == theirs)


def curated_keys(types: Iterable[InstanceType]) -> set[Key]:
    """Return what names the types of a table."""
    return {(t.provider, t.instance_type) for t in types}
