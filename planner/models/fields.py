"""Checked access to the fields of a config: every value is of the right type and inside bounds, or one clear error says so.

Bounds are far above any published model; they keep hostile input from turning into absurd figures or endless loops.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from planner.models.errors import ConfigError

MAX_CONFIG_BYTES = 2_000_000
MAX_LAYERS = 2_000
MAX_WIDTH = 2_000_000  # hidden and intermediate sizes, vocabulary per row
MAX_HEADS = 100_000
MAX_VOCABULARY = 20_000_000
MAX_CONTEXT = 1_000_000_000
MAX_EXPERTS = 100_000

_MISSING: Any = object()


def read_json_object(data: bytes | str, source: str) -> dict[str, Any]:
    """Return the JSON object in `data`; deep nesting and non-objects are `ConfigError`.

    Published configs do hold Infinity (in time limits); it is refused where a size is read, not here.
    """
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(
            source=source,
            field="(file)",
            why=f"{len(data)} bytes is too long for a config.json (limit {MAX_CONFIG_BYTES})",
        )
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        value = json.loads(text)
    except UnicodeDecodeError as e:
        raise ConfigError(
            source=source, field="(file)", why="is not UTF-8 text; give a Hugging Face config.json"
        ) from e
    except json.JSONDecodeError as e:
        raise ConfigError(
            source=source,
            field="(file)",
            why=f"is not JSON ({e.msg} at line {e.lineno}); give a Hugging Face config.json",
        ) from e
    except ValueError as e:  # integers with thousands of digits
        raise ConfigError(source=source, field="(file)", why="has a number with too many digits") from e
    except RecursionError as e:
        raise ConfigError(source=source, field="(file)", why="is nested too deeply for a config.json") from e
    if not isinstance(value, dict):
        raise ConfigError(
            source=source, field="(file)", why=f"is a JSON {_type_name(value)}; a config.json is an object"
        )
    return value


def _type_name(value: object) -> str:
    if value is None:
        return "null"
    return {bool: "boolean", int: "number", float: "number", str: "string", list: "list", dict: "object"}.get(
        type(value), type(value).__name__
    )


def _shown(value: object) -> str:
    text = (
        repr(value)
        if not isinstance(value, int) or abs(value) < 10**30
        else f"a number of about 1e{int(math.log10(abs(value)))}"
    )
    return text if len(text) <= 60 else text[:57] + "..."


class Fields:
    """A config object with its place in the file. `defaults` are class defaults that published configs leave out.

    A default that was used is recorded in `assumed` ("num_attention_heads = 8 (default of Gemma3TextConfig)").
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        source: str,
        path: str = "",
        *,
        defaults: Mapping[str, Any] | None = None,
        defaults_of: str = "",
        assumed: list[str] | None = None,
    ) -> None:
        self.data, self.source, self.path = data, source, path
        self.defaults, self.defaults_of = defaults or {}, defaults_of
        self.assumed: list[str] = [] if assumed is None else assumed

    def error(self, name: str, why: str) -> ConfigError:
        """Return (not raise) the error that names a field by its full path."""
        return ConfigError(source=self.source, field=self.path + name, why=why)

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.data.get(name) is not None

    def _raw(self, names: Sequence[str]) -> tuple[str, Any]:
        for name in names:
            if self.data.get(name) is not None:
                return name, self.data[name]
        for name in names:
            if name in self.defaults:
                value = self.defaults[name]
                note = f"{self.path}{name} = {value} (left out of the config; default of {self.defaults_of})"
                if note not in self.assumed:
                    self.assumed.append(note)
                return name, value
        return names[0], _MISSING

    def _missing(self, names: Sequence[str], what: str) -> ConfigError:
        other = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
        return self.error(names[0], f"is missing{other}; it should be {what}")

    def integer(self, *names: str, minimum: int = 1, maximum: int = MAX_WIDTH, default: int | None = _MISSING) -> int:
        """Return a whole number of the first name present, inside its bounds."""
        name, value = self._raw(names)
        if value is _MISSING:
            if default is _MISSING or default is None:
                raise self._missing(names, f"a whole number from {minimum} to {maximum}")
            return default
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(name, f"is {_shown(value)}; it should be a whole number from {minimum} to {maximum}")
        if not minimum <= value <= maximum:
            raise self.error(name, f"is {_shown(value)}; it should be from {minimum} to {maximum}")
        return value

    def optional_integer(self, *names: str, minimum: int = 1, maximum: int = MAX_WIDTH) -> int | None:
        """Return a whole number, or None when the field is absent or null."""
        if not any(self.has(n) or n in self.defaults for n in names):
            return None
        return self.integer(*names, minimum=minimum, maximum=maximum)

    def number(self, *names: str, minimum: float, maximum: float, default: float | None = None) -> float:
        """Return a finite number inside its bounds."""
        name, value = self._raw(names)
        if value is _MISSING:
            if default is None:
                raise self._missing(names, f"a number from {minimum:g} to {maximum:g}")
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not minimum <= value <= maximum:
            raise self.error(name, f"is {_shown(value)}; it should be a number from {minimum:g} to {maximum:g}")
        return float(value)

    def flag(self, *names: str, default: bool) -> bool:
        """Return a boolean, or the default where the field is absent or null."""
        name, value = self._raw(names)
        if value is _MISSING:
            return default
        if not isinstance(value, bool):
            raise self.error(name, f"is {_shown(value)}; it should be true or false")
        return value

    def text(self, *names: str, default: str | None = None, choices: Sequence[str] = ()) -> str:
        """Return a string, one of `choices` where given."""
        name, value = self._raw(names)
        if value is _MISSING:
            if default is None:
                raise self._missing(names, f"one of {', '.join(choices)}" if choices else "a string")
            return default
        if not isinstance(value, str) or len(value) > 10_000:
            raise self.error(name, f"is {_shown(value)}; it should be a string")
        if choices and value not in choices:
            raise self.error(name, f"is {_shown(value)}; it should be one of {', '.join(choices)}")
        return value

    def strings(self, name: str) -> tuple[str, ...] | None:
        """Return a list of strings, or None when absent."""
        name, value = self._raw((name,))
        if value is _MISSING:
            return None
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.error(name, f"is {_shown(value)}; it should be a list of strings")
        return tuple(value)

    def integers(
        self, name: str, *, minimum: int = 0, maximum: int = MAX_WIDTH, longest: int = MAX_LAYERS
    ) -> tuple[int, ...] | None:
        """Return a list of whole numbers inside bounds, or None when absent."""
        name, value = self._raw((name,))
        if value is _MISSING:
            return None
        fine = (
            isinstance(value, list)
            and len(value) <= longest
            and all(isinstance(v, int) and not isinstance(v, bool) and minimum <= v <= maximum for v in value)
        )
        if not fine:
            raise self.error(
                name, f"is {_shown(value)}; it should be a list of whole numbers from {minimum} to {maximum}"
            )
        return tuple(value)

    def nested(self, name: str, defaults: Mapping[str, Any] | None = None, defaults_of: str = "") -> Fields:
        """Return the object under `name` as `Fields` that know their path."""
        value = self.data.get(name)
        if not isinstance(value, Mapping):
            raise self.error(
                name,
                "is missing; it should be an object"
                if value is None
                else f"is {_shown(value)}; it should be an object",
            )
        return Fields(
            value, self.source, f"{self.path}{name}.", defaults=defaults, defaults_of=defaults_of, assumed=self.assumed
        )

    def divisible(self, name: str, value: int, by_name: str, by: int) -> int:
        """Return value // by, or an error that names both fields when it does not divide."""
        if value % by:
            raise self.error(name, f"is {value}, which {by_name} = {by} does not divide; check both fields")
        return value // by

    # the fields that nearly every config has

    def layer_count(self, *names: str) -> int:
        """Return a number of layers."""
        return self.integer(*(names or ("num_hidden_layers",)), maximum=MAX_LAYERS)

    def vocabulary(self, *names: str) -> int:
        """Return the vocabulary size."""
        return self.integer(*(names or ("vocab_size",)), maximum=MAX_VOCABULARY)

    def head_count(self, *names: str) -> int:
        """Return a number of attention heads."""
        return self.integer(*(names or ("num_attention_heads",)), maximum=MAX_HEADS)

    def context(self, *names: str) -> int | None:
        """Return the longest context in tokens, or None where the config does not bound it."""
        return self.optional_integer(*(names or ("max_position_embeddings",)), maximum=MAX_CONTEXT)
