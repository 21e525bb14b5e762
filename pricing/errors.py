"""Errors of `pricing`.

PricingError
├── CurrencyError        unlike currencies or units met in one sum or comparison
├── TableError           a shipped table or price sheet has a row that cannot be right (file, line, column, why)
├── SnapshotError        a snapshot file is missing, foreign or damaged
│   └── SnapshotNotWritten   it cannot be put on the disk
├── ReplyError           a provider's reply has not the shape that it must have (source, where, why)
│   └── NotOnePrice      a reply leaves no price, or several, where exactly one must be left
├── SourceFailed         a source gave no complete answer: which, why, and what to do about it
│   ├── CredentialsMissing   no usable credentials (none found, expired, refused)
│   ├── AccessDenied         the credentials lack a permission, which is named
│   └── Unreachable          no answer: network, name, time-out, or throttled and 5xx to the end of the retries
├── NotReadable          a file that a person named is no plain file, too large, no text, or not there
├── SheetError           a price sheet or agreement that is refused as a whole: every fault with its line
└── UnknownName          an accelerator, instance type or region that no table knows (with near misses)
    └── AmbiguousName    several providers have an instance type of this name
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pricing.addresses import masked

MOST_TOLD = 20
"""Faults of a file that a message tells one by one."""


class PricingError(Exception):
    """Base of every error that `pricing` raises on purpose."""


class CurrencyError(PricingError):
    """Two amounts of unlike currency or unit were to be added or compared."""


class TableError(PricingError):
    """A row of a table cannot be right."""

    def __init__(self, *, table: str, line: int | None, column: str | None, why: str) -> None:
        where = table if line is None else f"{table}:{line}"
        super().__init__(f"{where}: {f'{column}: ' if column else ''}{why}")
        self.table, self.line, self.column, self.why = table, line, column, why


class SnapshotError(PricingError):
    """A snapshot file is missing, not ours, of another format version, or damaged."""


class SnapshotNotWritten(SnapshotError):  # noqa: N818 - reads as what it says
    """A snapshot could not be put on the disk: read-only, not ours, or full. Nothing was there before and nothing is there now."""


class ReplyError(PricingError):
    """A provider's reply, or one row of it, has not the shape that it must have; `instance_type`: whose row it is, None where that is not known."""

    def __init__(self, *, source: str, where: str, why: str, instance_type: str | None = None) -> None:
        where, why = masked(where), masked(why)
        super().__init__(f"{source}: {where}: {why}")
        self.source, self.where, self.why, self.instance_type = source, where, why, instance_type


class NotOnePrice(ReplyError):  # noqa: N818 - reads as what it says
    """A reply leaves no price, or several, where exactly one must be left; `left` and `excluded` are the evidence."""

    def __init__(self, *, source: str, where: str, left: tuple[str, ...], excluded: Mapping[str, int]) -> None:
        gone = ", ".join(f"{count} x {reason}" for reason, count in sorted(excluded.items())) or "nothing"
        if left:
            why = f"{len(left)} prices are left where one must be: {'; '.join(left)} (left out: {gone})"
        elif excluded:
            why = f"no price is left (left out: {gone})"
        else:
            why = (
                "the reply holds no row of it: a misspelt filter gives an empty list too, so this does not say that "
                "it is not offered"
            )
        super().__init__(source=source, where=where, why=why)
        self.left, self.excluded = left, dict(excluded)


class SourceFailed(PricingError):  # noqa: N818 - reads as what it says
    """A source gave no complete answer. One line: what was asked, why it failed, what would help. Addresses in it are masked."""

    def __init__(self, *, source: str, why: str, remedy: str = "") -> None:
        why = masked(why)
        super().__init__(f"{source}: {why}" + (f"; {remedy}" if remedy else ""))
        self.source, self.why, self.remedy = source, why, remedy


class CredentialsMissing(SourceFailed):
    """No usable credentials: none were found, they have expired, or the provider does not know them."""


class AccessDenied(SourceFailed):
    """The credentials are good and lack a permission."""

    def __init__(self, *, source: str, permission: str, why: str, remedy: str = "") -> None:
        super().__init__(source=source, why=why, remedy=remedy)
        self.permission = permission  # "pricing:GetProducts"


class Unreachable(SourceFailed):
    """No answer within the retries: no network, no such name, a time-out, throttled, or 5xx."""


class SheetError(PricingError):
    """A price sheet, agreement or bill is refused as a whole; `faults` are the places and reasons, in the order of the file.

    The message tells the first `MOST_TOLD` of them and how many more there are; `outcome` says what did not happen.
    """

    def __init__(self, *, sheet: str, faults: tuple[str, ...], outcome: str = "nothing was imported") -> None:
        super().__init__(f"{sheet}: {outcome}: {'; '.join(first_of(faults))}")
        self.sheet, self.faults = sheet, faults


def first_of(faults: Sequence[str]) -> list[str]:
    """Return the first `MOST_TOLD` faults, and how many more there are; a single one more is told."""
    if len(faults) <= MOST_TOLD + 1:
        return list(faults)
    return [*faults[:MOST_TOLD], f"and {len(faults) - MOST_TOLD:,} more"]


class NotReadable(PricingError):  # noqa: N818 - reads as what it says
    """A file that was named cannot be read; `why` goes after its name: "is a folder; give a plain file"."""

    def __init__(self, *, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.why = path, why


class UnknownName(PricingError):  # noqa: N818 - reads as the field's own word
    """A name that no table holds; `suggestions` are the nearest that one does."""

    def __init__(self, kind: str, name: str, suggestions: tuple[str, ...] = ()) -> None:
        hint = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""
        super().__init__(f"unknown {kind} {name!r}{hint}")
        self.kind, self.name, self.suggestions = kind, name, suggestions


class AmbiguousName(UnknownName):
    """Several providers have an instance type of this name; `suggestions` are the providers."""

    def __init__(self, kind: str, name: str, providers: tuple[str, ...]) -> None:
        super().__init__(kind, name, providers)
        self.args = (f"{kind} {name!r} exists at {', '.join(providers)}: name the provider",)
