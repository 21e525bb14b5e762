"""Whether a reading can be taken: nothing in it that cannot be right, and no less than its source had before. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from pricing.checks import quote_key
from pricing.contents import SnapshotContents, midnight
from pricing.model import PurchaseOption, Quote
from pricing.refresh.before import Before
from pricing.refresh.origin import Origin, Thing, covers, covers_rate, speaks_for
from pricing.refresh.said import Failure, place
from pricing.source import ANY_TYPE, SourceReading

LEAST_SHARE = Decimal("0.9")
"""A reading with fewer of the rows that its source had before is taken for an incomplete answer."""

CANNOT_BE_READ = "cannot be read"
"""Reason under which sources count rows that have not the shape that they must have."""

COMPARED = ("rates", "interruptions", "zone_offerings", "quotas")
"""Tables beside quotes whose rows are counted against the reading before. Capacity blocks, scores and spot changes come and go."""

OF_THE_MOMENT = frozenset({"capacity_blocks", "placement_scores"})
"""Tables whose rows come and go, so that none is an answer like another."""

COMMITTED = frozenset({PurchaseOption.RESERVED_1YR, PurchaseOption.RESERVED_3YR})
PLANS = frozenset({PurchaseOption.SAVINGS_PLAN_1YR, PurchaseOption.SAVINGS_PLAN_3YR})
SPEAKS_FOR: Mapping[str, tuple[str, frozenset[PurchaseOption]]] = {
    "price_list": ("quotes", COMMITTED | {PurchaseOption.ON_DEMAND}),
    "price_list_files": ("quotes", COMMITTED | {PurchaseOption.ON_DEMAND}),
    "storage": ("rates", frozenset()),
    "instance_types": ("instance_types", frozenset()),
    "offerings": ("zone_offerings", frozenset()),
    "spot": ("quotes", frozenset({PurchaseOption.SPOT})),
    "savings_plans": ("quotes", PLANS),
    "savings_plan_files": ("quotes", PLANS),
    "capacity_blocks": ("capacity_blocks", frozenset()),
    "spot_advisor": ("interruptions", frozenset()),
    "quotas": ("quotas", frozenset()),
    "placement_scores": ("placement_scores", frozenset()),
    "gpuhunt": ("quotes", frozenset()),
}
"""What a source would have replaced: a reading says so itself, a failure cannot."""


def fault_of(reading: SourceReading) -> str | None:
    """Return why a reading cannot be right in itself, None where nothing speaks against it.

    Its rows must lie in its scope, each price above zero and given once: two prices of one thing are never decided here.
    """
    scope = reading.scope
    seen: dict[Thing, Quote] = {}
    for quote in reading.quotes:
        where = place(quote)
        if not speaks_for(scope, quote):
            return f"{where}: a price outside of what the source speaks for"
        if not quote.effective_unit_price.is_finite() or quote.effective_unit_price <= 0:
            return f"{where}: a price of {quote.effective_unit_price}"
        other = seen.setdefault(quote_key(quote), quote)
        if other is not quote:
            return (
                f"{where}: two prices, {other.effective_unit_price} and {quote.effective_unit_price} {quote.currency}"
            )
    for rate in reading.rates:
        if not covers_rate(scope, rate):
            return f"{rate.service} {rate.item} {rate.region}: a price outside of what the source speaks for"
    for table in ("zone_offerings", "capacity_blocks", "placement_scores", "quotas", "interruptions"):
        for row in getattr(reading, table):
            if not covers(scope, row):
                return f"{table} of {row.provider} {row.region}: outside of what the source speaks for"
    return None


def untold_by(reading: SourceReading) -> frozenset[str]:
    """Return the types of which a reading says nothing by not having a price of them; `ANY_TYPE` where any could be meant."""
    unread = reading.excluded.get(CANNOT_BE_READ, 0)
    return reading.untold or (frozenset({ANY_TYPE}) if unread else frozenset())


def is_empty(reading: SourceReading) -> bool:
    """Return whether a reading has no row where its source always has some: a region without such types, or a question that matched nothing.

    The two look alike, so it takes no shipped figure away. Offers of the moment are often none, and then that is the answer.
    """
    tables = reading.scope.tables
    return tables.isdisjoint(OF_THE_MOMENT) and not untold_by(reading) and not any(getattr(reading, t) for t in tables)


def shortfall(base: SnapshotContents, before: Before, reading: SourceReading, origin: Origin) -> str | None:
    """Return why a reading is taken for incomplete: one of its tables (one purchase option of its quotes) is much shorter than before."""
    scope = reading.scope
    if "quotes" in scope.tables:
        now = Counter(q.purchase_option for q in reading.quotes)
        if untold := untold_by(reading) - {ANY_TYPE}:  # they are said one by one, and what was before stays
            read = {quote_key(q) for q in reading.quotes}
            now.update(
                q.purchase_option
                for key, q in before.quotes.items()
                if q.instance_type in untold and key not in read and origin.live(q) and speaks_for(scope, q)
            )
        for option, had in before.live_in(scope).items():
            if now[option] < had * LEAST_SHARE:
                return _incomplete(now[option], f"{option.value} prices", had)
    for table in COMPARED:
        if table in scope.tables:
            rows = (row for row in getattr(base, table) if origin.live(row))
            had = sum(covers_rate(scope, row) if table == "rates" else covers(scope, row) for row in rows)
            if len(getattr(reading, table)) < had * LEAST_SHARE:
                return _incomplete(len(getattr(reading, table)), table.replace("_", " "), had)
    return None


def _incomplete(now: int, what: str, had: int) -> str:
    return f"incomplete: {now} {what}, {had} before, so the answer was not taken (it would be with --accept-incomplete)"


def newest(contents: SnapshotContents, failure: Failure) -> datetime | None:
    """Return the moment of the newest figure that a failed source could have replaced."""
    group = failure.source.partition(".")[0]  # "gpuhunt.gcp": a source of one other cloud
    table, options = SPEAKS_FOR.get(group, ("", frozenset()))
    found: list[datetime] = []
    for row in getattr(contents, table, ()):
        if row.provider != failure.provider or (options and row.purchase_option not in options):
            continue
        if failure.region is not None and getattr(row, "region", failure.region) != failure.region:
            continue
        if hasattr(row, "retrieved_at"):
            found.append(row.retrieved_at)
        elif row.retrieved_on is not None:
            found.append(midnight(row.retrieved_on))
    return max(found, default=None)
