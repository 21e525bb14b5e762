"""Exit codes, and the one table that maps errors to them. Domain errors know nothing of exit codes."""

from __future__ import annotations

import sys
from enum import IntEnum


class Exit(IntEnum):
    """What a program that calls `planner` can rely on."""

    ANSWER = 0
    FAULT = 1  # the answer could not be written, or `doctor` found a fault
    BAD_REQUEST = 2
    NOTHING_FITS = 3
    SOURCE_UNAVAILABLE = 4
    INTERRUPTED = 130  # Ctrl+C, as shells count it (128 + SIGINT)
    PIPE_CLOSED = 141  # the reader went away, as shells count it (128 + SIGPIPE)
    TERMINATED = 143  # as shells count it (128 + SIGTERM)


EXIT_MEANINGS: dict[Exit, str] = {
    Exit.ANSWER: "an answer",
    Exit.FAULT: "the answer could not be written, or `doctor` found a fault",
    Exit.BAD_REQUEST: "bad request: what is wrong stands on one line of standard error",
    Exit.NOTHING_FITS: "nothing fits: the answer lists every rejection with its figures",
    Exit.SOURCE_UNAVAILABLE: "a source is unavailable: price snapshot, database, network address, measured operator tables, or one that a refresh asked (the rest was published)",
    Exit.INTERRUPTED: "interrupted by Ctrl+C",
    Exit.PIPE_CLOSED: "the reader of the output closed it early (`planner … | head`)",
    Exit.TERMINATED: "`prices refresh` was ended by SIGTERM; a watch ends with 0",
}


class CommandError(Exception):
    """A command that cannot be carried out; the message is one line that says what, why and what would be right."""

    def __init__(self, message: str, *, code: Exit = Exit.BAD_REQUEST) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """Words on the command line that cannot be right."""


class SourceUnavailable(CommandError):  # noqa: N818 - reads as the exit code's own words
    """Something the answer needs cannot be reached."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=Exit.SOURCE_UNAVAILABLE)


FLAG_OF_KIND = {
    "region": "--region",
    "instance type": "--instance",
    "accelerator": "--accelerator",
    "provider": "--provider",
    "purchase option": "--purchase",
    "family": "--family",
    "term": "--term",
    "payment option": "--payment-option",
    "plan type": "--plan-type",
    "offering class": "--offering-class",
    "zone": "--zone",
    "service": "--service",
    "currency": "--currency",
}
"""The flag that carries each kind of name."""


def translated(error: Exception) -> CommandError | None:
    """Return the command error that a domain error amounts to; None for what is a bug and keeps its traceback."""
    from planner.cli.options import flag_of
    from planner.models.errors import ModelError
    from planner.recommend.errors import BadRequest, NotInstalled
    from pricing.errors import PricingError, SnapshotError, UnknownName

    if isinstance(error, CommandError):
        return error
    if isinstance(error, BadRequest):
        said = "" if error.value in (None, (), "") else f" {shown(error.value)}"
        why = error.why.removesuffix(" fraction") + (f"; {error.expected}" if error.expected else "")
        line = f"{flag_of(error.field)}:{said} {with_flags(why)}"
        return SourceUnavailable(line) if isinstance(error, NotInstalled) else UsageError(line)
    if isinstance(error, ModelError):
        return UsageError(str(error))
    if isinstance(error, SnapshotError):
        return SourceUnavailable(str(error))
    if isinstance(error, UnknownName) and error.kind in FLAG_OF_KIND:
        return UsageError(f"{FLAG_OF_KIND[error.kind]}: {error}")
    if isinstance(error, PricingError):
        return UsageError(str(error))
    if "planner.store.errors" in sys.modules:  # only then can it be one of the store's, and SQLAlchemy is loaded anyway
        from planner.store.errors import BadDatabaseUrl, StoreError

        if isinstance(error, StoreError):
            return (
                UsageError(f"--database-url or PLANNER_DATABASE_URL: {error}")
                if isinstance(error, BadDatabaseUrl)
                else SourceUnavailable(str(error))
            )
    if isinstance(error, (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)):
        return CommandError(f"{error.filename}: {error.strerror}", code=Exit.BAD_REQUEST)
    return None


def with_flags(text: str) -> str:
    """Return a message about fields as one about flags: "use max_e2e_ms" reads "use --max-e2e-ms". One-word fields are words like others."""
    import dataclasses
    import re

    from planner.cli.options import flag_of
    from planner.recommend.request import EstimateRequest, RecommendRequest

    names = {f.name for request in (RecommendRequest, EstimateRequest) for f in dataclasses.fields(request)}
    return re.sub(r"(?<![\w-])[a-z]+(?:_[a-z0-9]+)+\b", lambda m: flag_of(m[0]) if m[0] in names else m[0], text)


def shown(value: object) -> str:
    """Return a refused value as it reads in a message: a list as its parts, text in quotes."""
    if isinstance(value, (tuple, list)):
        return ", ".join(repr(str(v)) for v in value)
    return f"{value:g}" if isinstance(value, float) else repr(value)
