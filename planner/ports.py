"""What services need from the outside, as narrow protocols. `bootstrap` supplies the concrete classes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

Document = dict[str, Any]
"""An answer as plain JSON values (money as decimal strings), in the field order of the contract."""


class Clock(Protocol):
    """Tells the time, timezone-aware, UTC."""

    def __call__(self) -> datetime:
        """Return the present moment."""


class RecommendationStore(Protocol):
    """Keeps answers by their id; saving an id twice keeps one row."""

    def save(self, document: Document) -> None:
        """Store an answer with its request, snapshot id and planner version."""

    def get(self, recommendation_id: str) -> Document | None:
        """Return a stored answer, or None."""
