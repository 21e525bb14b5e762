"""The index of shipped configs: which names and aliases mean which config, where its values were published, and when they were read."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

from planner.models.errors import UnknownModel

_TUNING_WORDS = frozenset({"instruct", "chat", "it", "hf", "pt", "thinking"})
_VENDOR_PREFIX = "meta-"
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """A shipped config: its name, other names, file, the model's repository, where the values come from, and the day they were read."""

    name: str
    aliases: tuple[str, ...]
    variants: tuple[str, ...]  # other models with the same tensors; their context limit may differ
    file: str
    repository: str
    source: str
    retrieved_on: str


_ORGANISATION = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SIZE = re.compile(r"\d+(\.\d+)?[mbt]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """Every entry, and the keys (lower-case names, aliases, repository names) that lead to it."""

    entries: tuple[RegistryEntry, ...]
    keys: Mapping[str, RegistryEntry]

    def find(self, name: str) -> RegistryEntry | None:
        """Return the entry that a name means, or None. Case, an organisation prefix and words such as Instruct do not matter."""
        for key in spellings(name):
            if key in self.keys:
                return self.keys[key]
        return None

    def unknown(self, name: str) -> UnknownModel:
        """Return the error for a name that nothing here means, with near misses."""
        return UnknownModel(name, self.near(name))

    def near(self, name: str) -> tuple[str, ...]:
        """Return up to three keys that look like the name, the nearest first."""
        if len(name) > LONGEST_NAME:
            return ()
        plain = spellings(name)[-1] if name.strip() else ""
        return tuple(difflib.get_close_matches(plain, self.keys, n=3, cutoff=0.6))

    def names(self) -> tuple[str, ...]:
        """Return every name and alias, names first."""
        return (*(e.name for e in self.entries), *(a for e in self.entries for a in (*e.aliases, *e.variants)))


def spellings(name: str) -> tuple[str, ...]:
    """Return the keys to try for a name: as it is, without organisation, without words of fine-tuning, without -base.

    An organisation is dropped only from a name: `mistralai/7b` says a size and means nothing here, `a/../b` is no repository.
    """
    plain = re.sub(r"[\s_]+", "-", name.strip().lower())
    organisation, slash, short = plain.rpartition("/")
    if slash and (not _ORGANISATION.fullmatch(organisation) or _SIZE.fullmatch(short)):
        return (plain,)
    bare = short.removeprefix(_VENDOR_PREFIX)
    words = [w for w in bare.split("-") if w not in _TUNING_WORDS]
    tuned = "-".join(words)
    return tuple(dict.fromkeys((plain, short, bare, tuned, tuned.removesuffix("-base"))))


def parse_registry(text: str) -> Registry:
    """Return the registry in a CSV text with the columns name, aliases and variants (separated by spaces), file, repository, source, retrieved_on."""
    entries = tuple(
        RegistryEntry(
            name=row["name"],
            aliases=tuple(row["aliases"].split()),
            variants=tuple(row["variants"].split()),
            file=row["file"],
            repository=row["repository"],
            source=row["source"],
            retrieved_on=row["retrieved_on"],
        )
        for row in csv.DictReader(io.StringIO(text))
    )
    keys: dict[str, RegistryEntry] = {}
    for entry in entries:
        for key in (
            entry.name.lower(),
            *(a.lower() for a in (*entry.aliases, *entry.variants)),
            entry.repository.lower(),
        ):
            if key:
                keys[key] = entry
    for entry in entries:  # what fine-tuning words leave of a name, unless another entry has that name
        for key in spellings(entry.repository or entry.name)[1:4]:
            keys.setdefault(key, entry)
    return Registry(entries=entries, keys=keys)
