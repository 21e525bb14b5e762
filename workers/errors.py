"""Errors of `workers`.

WorkerError
├── DocumentError   a job or measurement document cannot be right (which field, why)
└── Unavailable     this machine lacks what the job needs: torch, a GPU, memory
"""

from __future__ import annotations


class WorkerError(Exception):
    """Base of every error that `workers` raises on purpose."""


class DocumentError(WorkerError):
    """A document does not follow the wire contract: `where` is the path of the field, `why` says what would be right."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where, self.why = where, why


class Unavailable(WorkerError):  # noqa: N818 - reads as what it says
    """What the job needs is not on this machine."""
