"""What came of a refresh, for a person: source by source, then what is to be known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import count
from planner.cli.output import printable
from planner.cli.paint import BAD, CARE, GOOD, QUIET, STRONG, Cell, Column, indented, rendered, table
from planner.services.refresh_prices import SERVICE, failures_by_reason

Document = Mapping[str, Any]

TOLD = ("price_jump", "vanished_family", "withdrawn", "kept", "unresolved", "note")
"""Kinds of notices in the order in which they are shown; what was left out stands in the column."""

MOST = 8  # lines of one kind
MOST_NAMES = 6  # in one of them
LONGEST = 220  # signs of a notice that a person is shown
CUT = " …"
EVERYWHERE = "all regions"
"""Subject of the notice about a source that answers for every region at once."""


def refresh_text(document: Document, *, width: int, colour: bool) -> str:
    """Return the outcome of a refresh for a terminal of `width` columns."""
    by_source: dict[str, list[Document]] = defaultdict(list)
    for source in document["sources"]:
        by_source[source["source"]].append(source)
    states = [_state(each) for each in by_source.values()]
    columns = [
        Column("Source", cells=[Cell(name, style=STRONG) for name in by_source]),
        Column("State", cells=[Cell(text, style=style) for text, style in states]),
        Column("Rows", right=True, cells=[Cell(f"{sum(s['rows'] for s in each):,}") for each in by_source.values()]),
        Column(
            "Left out",
            right=True,
            keep=2,
            cells=[Cell(f"{sum(sum(s['excluded'].values()) for s in each):,}") for each in by_source.values()],
        ),
        Column("Published", keep=3, cells=[Cell(_published(each), style=QUIET) for each in by_source.values()]),
    ]
    parts: list[RenderableType] = [*table(columns, width)] if by_source else []
    changes = document["changes"]
    if document["published"]:
        said = f"Snapshot {document['snapshot_id'][:12]} published: {document['quotes']:,} prices, {changes['new']:,} new, {changes['changed']:,} changed, {changes['withdrawn']:,} withdrawn."
    else:
        said = f"Nothing was published; snapshot {document['snapshot_id'][:12]} stays."
    cut = False
    parts += [Text(""), Text(said, style=GOOD if document["complete"] and document["published"] else CARE)]
    for kind in TOLD:
        lines = [*(kept_lines(document) if kind == "kept" else ()), *notice_lines(document, kind)]
        parts += [indented(printable(f"{kind.replace('_', ' ')}: {line}"), style=CARE) for line in lines[:MOST]]
        if len(lines) > MOST:
            parts.append(indented(f"{count(len(lines) - MOST, 'more notice')} of this kind", style=QUIET))
        cut = cut or len(lines) > MOST or any(CUT in line for line in lines)
    if cut:
        parts.append(indented("--format json has every notice, and each as a whole", style=QUIET))
    parts += [indented(printable(f"alert: {alert['message']}"), style=BAD) for alert in document["alerts"]]
    return rendered(parts, width=width, colour=colour)


def kept_lines(document: Document) -> list[str]:
    """Return what failed and how old what stays is, a line a reason: "spot, quotas in us-east-1: no credentials; last good figures of 2026-07-20"."""
    failed = _failed_and_kept(document)
    lines = []
    for names, regions, why in failures_by_reason({"sources": failed}):
        ages = {name: [s["kept_as_of"] for s in failed if (s["source"], s["why"]) == (name, why)] for name in names}
        unknown = [name for name in names if None in ages[name]]
        days = sorted({at[:10] for each in ages.values() for at in each if at is not None})
        last = [f"last good figures of {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "")] if days else []
        if unknown:
            last.append(f"nothing was known before{f' of {few(unknown)}' if days else ''}")
        where = f" in {few(regions)}" if regions else ""
        lines.append(f"{', '.join(names)}{where}: {shortened(why)}; {'; '.join(last)}")
    return lines


def notice_lines(document: Document, kind: str) -> list[str]:
    """Return the notices of a kind with the source that gives them, a line for all that say the same."""
    told = {(s["source"], s["region"] or EVERYWHERE) for s in _failed_and_kept(document)} if kind == "kept" else set()
    told |= {(SERVICE, fault["subject"]) for fault in document["faults"]}  # on standard error already
    subjects: dict[tuple[str, str], list[str]] = defaultdict(list)
    for n in document["notices"]:
        if n["kind"] == kind and (n["source"], n["subject"]) not in told:
            subjects[n["source"], n["detail"]].append(n["subject"])
    sources: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (source, detail), found in subjects.items():
        sources[few(dict.fromkeys(found)), detail].append(source)
    return [f"{', '.join(names)}: {of}: {shortened(detail)}" for (of, detail), names in sources.items()]


def _failed_and_kept(document: Document) -> list[Document]:
    """Return the sources that failed and have no stand-in."""
    kept = {(n["source"], n["subject"]) for n in document["notices"] if n["kind"] == "kept"}
    return [
        s for s in document["sources"] if s["state"] == "failed" and (s["source"], s["region"] or EVERYWHERE) in kept
    ]


def shortened(text: str) -> str:
    """Return a text of at most `LONGEST` signs, cut between words."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rsplit(' ', 1)[0].rstrip(' ,;:')}{CUT}"


def few(names: Iterable[str]) -> str:
    """Return names, the first of many: "us-east-1, us-west-2 and 12 more"."""
    each = list(names)
    return ", ".join(each[:MOST_NAMES]) + (f" and {len(each) - MOST_NAMES} more" if len(each) > MOST_NAMES else "")


def _state(each: list[Document]) -> tuple[str, Any]:
    """Return how one source did over its regions."""
    failed = [s for s in each if s["state"] == "failed"]
    regions = f" in {count(len(each), 'region')}" if each[0]["region"] is not None else ""
    if not failed:
        resumed = sum(s["state"] == "resumed" for s in each)
        return f"read{regions}{f', {resumed} of them before' if resumed else ''}", GOOD
    if len(failed) == len(each):
        return f"failed{regions}", BAD
    return f"failed in {len(failed)} of {count(len(each), 'region')}", BAD


def _published(each: list[Document]) -> str:
    known = sorted({s["published"] for s in each if s["published"]})
    return known[-1] if known else ""
