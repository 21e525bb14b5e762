"""The public spot advisor file read into interruption bands: what share of a type's spot instances was interrupted in the last month.

`spot_advisor` has region, system and type, each with `r`, the position of its band in `ranges` counted from 0, and `s`, the saving
against on-demand in per cent. A range has a label ("5-10%") and a highest value; the label says what is meant (the highest values are
5, 11, 16, 22 and 100 there). The file is undocumented, may lack regions and types, and may go away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from pricing.aws import replies
from pricing.aws.downloads import fetch_document, http_client
from pricing.aws.instance_types import NOT_WANTED, is_wanted
from pricing.aws.session import Aws
from pricing.errors import ReplyError, SourceFailed
from pricing.market import Notice, NoticeKind
from pricing.model import Interruption
from pricing.source import Ask, Scope, Source, SourceReading
from pricing.static import INTERRUPTION_BANDS

NAME = "spot_advisor"
SOURCE = "AWS Spot Instance Advisor"
SYSTEM = "Linux"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisorReading:
    """The bands of wanted types, what was left out by reason, and rows that cannot be read."""

    interruptions: tuple[Interruption, ...]
    excluded: Mapping[str, int]
    unreadable: tuple[ReplyError, ...]


def spot_advisor_source(aws: Aws) -> Source:
    """Return the source of interruption bands, one call for all regions."""
    return Source(
        name=NAME,
        regional=False,
        needs_credentials=False,
        default=True,
        what="how often spot instances are interrupted (public file)",
        read=lambda ask: read_spot_advisor(aws, ask),
    )


def read_spot_advisor(aws: Aws, ask: Ask, *, sleep: Callable[[float], None] | None = None) -> SourceReading:
    """Return the bands of every region."""
    with http_client(SOURCE) as client:
        document, modified = fetch_document(
            client, aws.spot_advisor, source=SOURCE, **({"sleep": sleep} if sleep else {})
        )
    ask.on_answer()
    try:
        found = parse_spot_advisor(document, instance_types=ask.instance_types, retrieved_on=ask.at.date())
    except ReplyError as e:
        raise SourceFailed(source=SOURCE, why=f"{e.where}: {e.why}") from e
    notices = tuple(
        Notice(kind=NoticeKind.UNRESOLVED, source=NAME, subject=e.where, detail=e.why) for e in found.unreadable
    )
    return SourceReading(
        source=NAME,
        scope=Scope(provider="aws", region=None, tables=frozenset({"interruptions"})),
        retrieved_at=ask.at,
        published=modified,
        interruptions=found.interruptions,
        excluded=found.excluded,
        notices=notices,
    )


def parse_spot_advisor(document: Any, *, instance_types: Iterable[str], retrieved_on: date) -> AdvisorReading:
    """Return the Linux bands of every region for the types that we plan with. ReplyError where there is not one band to be read."""
    whole = replies.mapping(document, source=SOURCE, where="document")
    bands = parse_ranges(replies.rows_of(whole, "ranges", source=SOURCE))
    regions = replies.mapping(whole.get("spot_advisor"), source=SOURCE, where="spot_advisor")
    known = frozenset(instance_types)
    excluded: Counter[str] = Counter()
    interruptions: list[Interruption] = []
    unreadable: list[ReplyError] = []
    for region, systems in sorted(regions.items()):
        for system, types in sorted(replies.mapping(systems, source=SOURCE, where=region).items()):
            where = f"{region} {system}"
            for name, row in sorted(replies.mapping(types, source=SOURCE, where=where).items()):
                if not is_wanted(name, known):
                    excluded[NOT_WANTED] += 1
                elif system != SYSTEM:
                    excluded[f"system {system}"] += 1
                else:
                    try:
                        interruptions.append(_interruption(name, region, row, bands, retrieved_on))
                    except ReplyError as e:
                        unreadable.append(e)
    if unreadable:
        excluded["cannot be read"] = len(unreadable)
    if not interruptions:
        raise unreadable[0] if unreadable else ReplyError(source=SOURCE, where="spot_advisor", why=f"has no {SYSTEM} type that we plan with")  # fmt: skip
    return AdvisorReading(
        interruptions=tuple(interruptions), excluded=dict(sorted(excluded.items())), unreadable=tuple(unreadable)
    )


def parse_ranges(ranges: Iterable[Any]) -> tuple[tuple[str, float, float], ...]:
    """Return label, lowest and highest share of each band, in the order in which `r` counts them.

    A label of the five known bands says the shares; for another one they are the highest values of the range before and of its own.
    """
    rows = [replies.mapping(entry, source=SOURCE, where=f"range {n}") for n, entry in enumerate(ranges)]
    bands: list[tuple[str, float, float]] = []
    below = 0.0
    for position, row in enumerate(sorted(rows, key=lambda r: replies.whole(r, "index", source=SOURCE, where="range"))):
        where = f"range {position}"
        if row["index"] != position:
            raise ReplyError(source=SOURCE, where=where, why=f"has the index {row['index']}: ranges count from 0")
        label = replies.text(row, "label", source=SOURCE, where=where)
        highest = replies.whole(row, "max", source=SOURCE, where=where) / 100
        if not below < highest <= 1:
            raise ReplyError(source=SOURCE, where=where, why=f"its max {row['max']} must be above the one before and at most 100")  # fmt: skip
        bands.append((label, *INTERRUPTION_BANDS.get(label, (below, highest))))
        below = highest
    if not bands:
        raise ReplyError(source=SOURCE, where="ranges", why="is empty: `r` counts in it")
    return tuple(bands)


def _interruption(
    name: str, region: str, row: Any, bands: tuple[tuple[str, float, float], ...], retrieved_on: date
) -> Interruption:
    where = f"{name} {region}"
    said = replies.mapping(row, source=SOURCE, where=where)
    position = replies.whole(said, "r", source=SOURCE, where=where)
    if position >= len(bands):
        raise ReplyError(source=SOURCE, where=where, why=f"r is {position} and there are {len(bands)} ranges")
    saving = said.get("s")
    if saving is not None and (isinstance(saving, bool) or not isinstance(saving, (int, float, Decimal)) or not -100 <= saving <= 100):  # fmt: skip
        raise ReplyError(source=SOURCE, where=where, why=f"s must be a saving in per cent, not {replies.kind(saving)}")
    label, low, high = bands[position]
    return Interruption(
        provider="aws",
        instance_type=name,
        region=region,
        band=label,
        monthly_low_fraction=low,
        monthly_high_fraction=high,
        savings_over_on_demand_fraction=None if saving is None else float(saving) / 100,
        source=SOURCE,
        retrieved_on=retrieved_on,
    )
