"""`list_models`: the models known by name (see `show_model`)."""

from __future__ import annotations

from planner.services.show_model import list_models

__all__ = ["list_models"]
