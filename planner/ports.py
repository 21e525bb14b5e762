"""What services need from the outside, as narrow protocols. `bootstrap` supplies the concrete classes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from planner.perf.silicon import Question, StepTimes

Document = dict[str, Any]
"""An answer as plain JSON values (money as decimal strings), in the field order of the contract."""


class Clock(Protocol):
    """Tells the time, timezone-aware, UTC."""

    def __call__(self) -> datetime:
        """Return the present moment."""


class Predictor(Protocol):
    """Tells step times from measured operators; None for what its tables do not have."""

    @property
    def source(self) -> str:
        """What an answer cites: the tables and their version."""
        ...

    def steps(self, question: Question) -> StepTimes | None:
        """Return the step times of one replica at one operating point."""
        ...
