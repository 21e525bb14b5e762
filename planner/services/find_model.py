"""`find_model`: the model that a request means, from an alias, a name, the path of a config.json, or a number of parameters.

All file reading for models is here: shipped configs (package data) and the user's own file.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from planner.models.errors import ConfigError, ModelError, UnknownModel
from planner.models.fields import MAX_CONFIG_BYTES
from planner.models.parse import parse_config
from planner.models.registry import Registry, RegistryEntry, parse_registry
from planner.models.spec import ModelSpec
from pricing.errors import NotReadable
from pricing.plain_files import read_plain


def find_model(model: str | None, params: float | None) -> ModelSpec:
    """Return the spec of exactly one of `model` (alias, name, path) and `params`; `ModelError` says what is wrong and what is near."""
    if (model is None) == (params is None):
        raise ModelError("give exactly one of model and params, for example --model 7b or --params 6.7e9")
    if params is not None:
        from planner.models.params_only import spec_from_params  # noqa: PLC0415 - the search for a shape is seldom asked

        return spec_from_params(params)
    name = (model or "").strip()
    if not name:
        raise UnknownModel(model or "")
    if not _says_path(name):
        entry = registry().find(name)
        if entry is not None:
            return shipped_model(entry, asked=name)
    return _from_path(name)


def model_names() -> tuple[str, ...]:
    """Return every name and alias of the shipped configs."""
    return registry().names()


@lru_cache(maxsize=1)
def registry() -> Registry:
    """Return the index of shipped configs."""
    return parse_registry((files("planner.models") / "configs" / "registry.csv").read_text(encoding="utf-8"))


def shipped_model(entry: RegistryEntry, asked: str = "") -> ModelSpec:
    """Return the spec of a shipped config; where the name asked for is a fine-tune's, the assumptions say whose shape is used."""
    data = (files("planner.models") / "configs" / entry.file).read_bytes()
    spec = parse_config(data, source=entry.file, name=entry.name)
    known = {entry.name.lower(), entry.repository.lower(), *(a.lower() for a in entry.aliases)}
    said = (
        ()
        if not asked or asked.lower() in known
        else (f"{asked}: taken as {entry.name}, whose architecture it shares (its context limit may differ)",)
    )
    return replace(
        spec,
        aliases=entry.aliases,
        source=f"{entry.source} ({entry.retrieved_on})",
        assumptions=(*spec.assumptions, *said),
    )


def _says_path(name: str) -> bool:
    return name.endswith(".json") or name.startswith((".", "/", "~", "\\"))


def _from_path(name: str) -> ModelSpec:
    """Return the spec of a config.json, or of the folder that holds one."""
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            path = path / "config.json"
        path.stat()
    except (FileNotFoundError, NotADirectoryError) as e:
        if _says_path(name):
            raise UnknownModel(name, ("the path of an existing config.json", *registry().near(Path(name).stem))) from e
        raise registry().unknown(name) from e
    except (OSError, ValueError, RuntimeError) as e:  # a name no file can have, a loop of links, an unknown home
        raise registry().unknown(name) from e
    try:
        data = read_plain(path, most_bytes=MAX_CONFIG_BYTES)
    except NotReadable as e:
        raise ConfigError(source=name, field="(file)", why=e.why) from e
    spec = parse_config(data, source=name)
    named = path.parent.name if path.name == "config.json" else path.stem
    return replace(spec, name=named) if named and spec.name in {spec.model_type, ""} else spec
