"""Errors of `planner.models`.

ModelError
├── UnknownModel            no alias, shipped config or file of that name (near misses given)
├── UnsupportedArchitecture the config is of an architecture we do not count (names the field and value)
└── ConfigError             the config lacks a field, or a field has a value that cannot be (names it, says what would be right)
"""

from __future__ import annotations


class ModelError(Exception):
    """Base of what goes wrong on the way from a name or a config to a `ModelSpec`."""


class UnknownModel(ModelError):  # noqa: N818 - reads as the field's own word
    """No alias, shipped config or file has this name."""

    def __init__(self, name: str, suggestions: tuple[str, ...] = ()) -> None:
        hint = (
            f"; did you mean {' or '.join(suggestions)}?"
            if suggestions
            else "; `planner models list` shows the known ones, or give the path of a config.json"
        )
        shown = name if len(name) <= 100 else name[:97] + "..."
        super().__init__(f"unknown model {shown!r}{hint}")
        self.name, self.suggestions = name, suggestions


class ConfigError(ModelError):
    """A config field is missing or cannot be right."""

    def __init__(self, *, source: str, field: str, why: str) -> None:
        super().__init__(f"{source}: {field}: {why}")
        self.source, self.field, self.why = source, field, why


class UnsupportedArchitecture(ConfigError):  # noqa: N818
    """The architecture is not one whose tensors we know how to count."""
