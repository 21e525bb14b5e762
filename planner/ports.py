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
