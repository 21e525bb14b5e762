"""What the making of a snapshot has to say: what was left out, what stays, what is gone, what jumped. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from pricing.checks import quote_key
from pricing.history import list_price
from pricing.market import Notice, NoticeKind
from pricing.model import InstanceType, PurchaseOption, Quote, Rate
from pricing.refresh.before import Before
from pricing.refresh.origin import CATALOG, Origin, rate_thing
from pricing.refresh.specs import curated_keys
from pricing.source import SourceReading

JUMP = Decimal("0.3")
"""Share by which a list price may move before it is flagged."""

AGREEMENT = "discounts"
"""Likewise that of the notices about a private agreement."""

MOST_NAMES = 8
MOST_DECIMALS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A source that gave no complete answer about a region, and why."""

    source: str
    region: str | None
    why: str
    provider: str = "aws"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A failure with the age of what stays: `as_of` is the newest figure of that source and region, None where there is none."""

    failure: Failure
    as_of: datetime | None


def note(source: str, subject: str, detail: str, count: int = 1) -> Notice:
    """Return a notice that is neither a change of a price nor a failure."""
    return Notice(kind=NoticeKind.NOTE, source=source, subject=subject, detail=detail, count=count)


def excluded(reading: SourceReading) -> list[Notice]:
    """Return what a reading left out, a notice a reason."""
    where = f"left out in {reading.scope.region or 'all regions'}"
    return [
        Notice(kind=NoticeKind.EXCLUDED, source=reading.source, subject=reason, detail=where, count=count)
        for reason, count in reading.excluded.items()
        if count
    ]


def empty_notice(reading: SourceReading) -> Notice:
    """Return that an answer had nothing for us, and that nothing gave way to it."""
    where = reading.scope.region or "all regions"
    left_out = sum(reading.excluded.values())
    others = f", and {left_out:,} rows that were left out" if left_out else ""
    return note(
        reading.source,
        where,
        f"nothing in {where}: the answer has no row that we plan with{others}; shipped figures stay with their own age",
    )


def kept_notice(kept: Kept) -> Notice:
    """Return what failed, why, and how old what stays is."""
    last = "nothing of it was known before" if kept.as_of is None else f"its last good figures, of {kept.as_of:%Y-%m-%d %H:%M} UTC, stay"  # fmt: skip
    failure = kept.failure
    return Notice(
        kind=NoticeKind.KEPT,
        source=failure.source,
        subject=failure.region or "all regions",
        detail=f"{failure.why}; {last}",
    )


def stay_notices(source: str, stay: Iterable[Quote]) -> list[Notice]:
    """Return which prices of the shipped tables stay because a list does not have them."""
    groups: dict[tuple[str, str], list[Quote]] = defaultdict(list)
    for quote in stay:
        groups[quote.region, quote.purchase_option.value].append(quote)
    return [
        note(
            source,
            f"{region} {option}",
            f"the list has no price of {named(q.instance_type for q in rows)}: those of the shipped tables stay, the oldest of {min(q.retrieved_at for q in rows):%Y-%m-%d}",
            len(rows),
        )
        for (region, option), rows in sorted(groups.items())
    ]


def vague_notices(source: str, vague: Iterable[Quote]) -> list[Notice]:
    """Return which shipped prices gave way because the list says more of the same commitment than they do."""
    groups: dict[tuple[str, str], list[Quote]] = defaultdict(list)
    for quote in vague:
        groups[quote.region, quote.purchase_option.value].append(quote)
    return [
        note(
            source,
            f"{region} {option}",
            f"prices of the shipped tables gave way: the list has {named(q.instance_type for q in rows)} by payment option, plan and class, and they do not say of which they are",
            len(rows),
        )
        for (region, option), rows in sorted(groups.items())
    ]


def held_notices(reading: SourceReading, held: Iterable[Quote], untold: frozenset[str]) -> list[Notice]:
    """Return which earlier prices stay because rows could not be read or told: why, and of when they are."""
    why = {word: n.detail for n in reading.notices if n.kind is NoticeKind.UNRESOLVED for word in n.subject.split()}
    groups: dict[tuple[str, str], list[Quote]] = defaultdict(list)
    for quote in held:
        groups[quote.instance_type if quote.instance_type in untold else "", quote.region].append(quote)
    said = []
    for (name, region), rows in sorted(groups.items()):
        if name:
            subject, reason = f"{name} {region}", f"could not be told: {why.get(name, 'a row of it cannot be read')}"
        else:
            subject = region
            reason = f"a row cannot be read and does not say of which type it is, so nothing is withdrawn: {named(q.instance_type for q in rows)}"
        last = f"the last good prices, of {max(q.retrieved_at for q in rows):%Y-%m-%d %H:%M} UTC, stay"
        said.append(Notice(kind=NoticeKind.KEPT, source=reading.source, subject=subject, detail=f"{reason}; {last}", count=len(rows)))  # fmt: skip
    return said


def gone_notices(reading: SourceReading, gone: Iterable[Quote], left: Iterable[Quote], origin: Origin) -> list[Notice]:
    """Return what a complete list no longer has: type by type, or a family at once when none of it is left."""
    remaining = {(_family(q), q.region, q.purchase_option) for q in left if origin.live(q)}
    types: Counter[tuple[str, str, str, PurchaseOption]] = Counter()
    families: dict[tuple[str, str, PurchaseOption], list[Quote]] = defaultdict(list)
    for quote in gone:
        family = (_family(quote), quote.region, quote.purchase_option)
        if family in remaining:
            types[quote.instance_type, quote.region, _family(quote), quote.purchase_option] += 1
        else:
            families[family].append(quote)
    said = [
        Notice(
            kind=NoticeKind.WITHDRAWN,
            source=reading.source,
            subject=f"{name} {region} {option.value}",
            detail="the list no longer has it",
            count=count,
        )
        for (name, region, _, option), count in types.items()
    ]
    said += [
        Notice(
            kind=NoticeKind.VANISHED_FAMILY,
            source=reading.source,
            subject=f"{family} {region} {option.value}",
            detail=f"the list no longer has any of it: {named(q.instance_type for q in rows)}",
            count=len(rows),
        )
        for (family, region, option), rows in families.items()
    ]
    return said


def jump_notices(source: str, before: Before, new: Iterable[Quote]) -> list[Notice]:
    """Return list prices that moved by more than `JUMP` since they were last known; spot, which moves, in a line a region."""
    moves: dict[tuple[str, str, PurchaseOption], list[tuple[Decimal, Decimal, Quote]]] = defaultdict(list)
    for quote in new:
        price, old = list_price(quote), before.price_of(quote)
        if old and price is not None and abs(price / old - 1) > JUMP:
            spot = quote.purchase_option is PurchaseOption.SPOT
            name = "" if spot else quote.instance_type
            moves[name, quote.region, quote.purchase_option].append((price / old - 1, old, quote))
    said = []
    for (name, region, option), found in moves.items():
        share, old, quote = max(found, key=lambda move: (abs(move[0]), quote_key_text(move[2])))
        what = f"{amount(old)} to {amount(quote.effective_unit_price)} {quote.currency} an hour ({share:+.0%})"
        said.append(
            Notice(
                kind=NoticeKind.PRICE_JUMP,
                source=source,
                subject=f"{name} {region} {option.value}".strip(),
                detail=what if name else f"most of all {quote.instance_type}: {what}",
                count=len(found),
            )
        )
    return said


def rate_jump_notices(source: str, before: Iterable[Rate], new: Iterable[Rate]) -> list[Notice]:
    """Return rates that moved by more than `JUMP`, tier by tier."""
    old = {(rate_thing(r), r.tier_from, r.currency, r.unit): r.unit_price for r in before}
    said = []
    for rate in new:
        was = old.get((rate_thing(rate), rate.tier_from, rate.currency, rate.unit))
        if was and abs(rate.unit_price / was - 1) > JUMP:
            what = f"{amount(was)} to {amount(rate.unit_price)} {rate.currency} per {rate.unit} ({rate.unit_price / was - 1:+.0%})"
            subject = f"{rate.service} {rate.item} {rate.region}"
            said.append(Notice(kind=NoticeKind.PRICE_JUMP, source=source, subject=subject, detail=what))
    return said


def about_all(quotes: Iterable[Quote], types: Iterable[InstanceType]) -> list[Notice]:
    """Return what follows from the whole: prices in another currency, and prices of types that no table describes."""
    described = curated_keys(types)
    unknown: dict[tuple[str, str], list[Quote]] = defaultdict(list)
    foreign: dict[tuple[str, str, str], int] = Counter()
    for quote in quotes:
        if (quote.provider, quote.instance_type) not in described:
            unknown[quote.provider, quote.instance_type].append(quote)
        if quote.currency != "USD":
            foreign[quote.provider, quote.region, quote.currency] += 1
    said = [
        note(
            CATALOG,
            f"{provider} {name}",
            f"has prices in {named(q.region for q in rows)} and is described by no table: it is not recommended",
            len(rows),
        )
        for (provider, name), rows in unknown.items()
    ]
    said += [
        note(CATALOG, f"{provider} {region}", f"prices are in {currency}: kept as they are, converted only at a stated rate", count)
        for (provider, region, currency), count in foreign.items()
    ]  # fmt: skip
    return said


def carried(before: Iterable[Notice], taken: Iterable[SourceReading], failed: Iterable[Failure]) -> list[Notice]:
    """Return what was said before of sources and regions that were not asked this time."""
    asked: dict[str, set[str | None]] = defaultdict(set)
    for reading in taken:
        asked[reading.source].add(reading.scope.region)
    for failure in failed:
        asked[failure.source].add(failure.region)
    out = []
    for notice in before:
        regions = asked.get(notice.source)
        words = set(f"{notice.subject} {notice.detail}".replace(",", " ").replace(";", " ").split())
        if notice.source == CATALOG or (regions is not None and (None in regions or words & regions)):
            continue
        if notice.source != "discounts":
            out.append(notice)
    return out


def counted(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return each notice once, in order; what was said twice counts twice."""
    found: dict[tuple[str, str, str, str], Notice] = {}
    for notice in notices:
        key = (notice.kind.value, notice.source, notice.subject, notice.detail)
        found[key] = notice if key not in found else replace(notice, count=notice.count + found[key].count)
    return tuple(found[key] for key in sorted(found))


def amount(price: Decimal) -> str:
    """Return a price as a text says it: with six decimals at most, of a small one as many as show three digits."""
    places = max(MOST_DECIMALS, 2 - price.adjusted())
    return f"{round(price, places).normalize():f}"


def place(quote: Quote) -> str:
    """Return what a price is of: "p5.48xlarge us-east-1 spot use1-az6"."""
    zone = quote.availability_zone_id or quote.availability_zone
    return f"{quote.instance_type} {quote.region} {quote.purchase_option.value}" + (f" {zone}" if zone else "")


def quote_key_text(quote: Quote) -> str:
    """Return what tells two quotes apart, as text that sorts."""
    return "\t".join(str(part or "") for part in quote_key(quote))


def _family(quote: Quote) -> str:
    return quote.instance_type.partition(".")[0]


def named(names: Iterable[str]) -> str:
    """Return names, each once and in order, the first few of many."""
    each = sorted(set(names))
    more = f" and {len(each) - MOST_NAMES} more" if len(each) > MOST_NAMES else ""
    return ", ".join(each[:MOST_NAMES]) + more
