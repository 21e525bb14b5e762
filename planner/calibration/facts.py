"""What rows are resolved with: chips, their other spellings, and models by name. All from the shipped tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files

from planner.calibration.model import Facts
from planner.models.errors import ModelError
from planner.models.parse import parse_config
from planner.models.registry import Registry, parse_registry
from planner.models.spec import ModelSpec
from pricing.model import Accelerator


def facts_of(accelerators: Iterable[Accelerator], aliases: Mapping[str, str]) -> Facts:
    """Return the facts of a catalog's chips and aliases; models are the shipped configs."""
    chips = {chip.name: chip for chip in accelerators}
    names = {alias.lower(): name for alias, name in aliases.items()}
    names |= {name.lower(): name for name in chips}
    return Facts(accelerators=chips, accelerator_names=names, find_model=find_shipped_model)


@lru_cache(maxsize=1)
def shipped_facts() -> Facts:
    """Return the facts of the shipped tables."""
    from pricing.static import load_tables  # noqa: PLC0415 - a server has a snapshot and parses no tables

    contents = load_tables()
    return facts_of(contents.accelerators, contents.aliases)


@lru_cache(maxsize=4096)
def find_shipped_model(name: str) -> ModelSpec | None:
    """Return the spec of the shipped config that a name means, None where none does."""
    folder = files("planner.models") / "configs"
    entry = _registry().find(name) if name.strip() else None
    if entry is None:
        return None
    try:
        return parse_config((folder / entry.file).read_bytes(), source=entry.file, name=entry.name)
    except ModelError:
        return None


@lru_cache(maxsize=1)
def _registry() -> Registry:
    return parse_registry((files("planner.models") / "configs" / "registry.csv").read_text(encoding="utf-8"))
