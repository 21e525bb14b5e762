"""The order of the answer: cheapest per unit of work first, with ties that never depend on the order of the input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from planner.recommend.model import Run, Sized

NEVER = math.inf


def unit_cost(row: Sized) -> Decimal:
    """Return USD per million inferences, or of the whole run: what `sort cost` compares."""
    if isinstance(row, Run):
        return row.cost.usd_total.amount
    million = row.cost.usd_per_million_inferences
    return Decimal("Infinity") if million is None else million.amount


def latency_ms(row: Sized) -> float:
    """Return the p99 of the whole request (or what is known of it), ms; for a run, its hours in ms."""
    if isinstance(row, Run):
        return row.hours.total * 3.6e6
    performance = row.evaluation.performance
    for known in (performance.e2e_ms, performance.ttft_ms):
        if known is not None:
            return known.p99
    return NEVER


def duration(row: Sized) -> float:
    """Return hours of the run, or seconds per request at the rate of all instances together."""
    if isinstance(row, Run):
        return row.hours.total
    return NEVER if row.capacity_per_s <= 0 else 1 / row.capacity_per_s


def energy(row: Sized) -> float:
    """Return watts per unit of work: per request a second, or watt-hours of the run; never known sorts last."""
    power = row.evaluation.performance.power_w
    if power is None:
        return NEVER
    if isinstance(row, Run):
        return power * (row.hours.compute + row.hours.evaluation + row.hours.lost)
    return NEVER if row.served_per_s <= 0 else power * row.groups / row.served_per_s


SORT_KEYS: dict[str, Any] = {"cost": unit_cost, "time": duration, "latency": latency_ms, "energy": energy}


def identity(row: Sized) -> tuple[str, ...]:
    """Return what tells one row from every other."""
    quote = row.offer.quote
    return (
        quote.instance_type,
        quote.region,
        quote.availability_zone_id or "",
        quote.purchase_option.value,
        quote.provider,
    )


def ranked(rows: Sequence[Sized], sort: str) -> list[Sized]:
    """Return the rows by the asked figure, then cost, then name, region, zone and option."""
    key = SORT_KEYS[sort]
    return sorted(rows, key=lambda row: (key(row), unit_cost(row), identity(row)))


def pareto_front(rows: Sequence[Sized]) -> set[tuple[str, ...]]:
    """Return the identities of rows that no other row beats in both cost and latency (run: cost and hours).

    Equal in both is not beaten. Rows without a latency are on the front only when nothing is cheaper.
    """
    front: set[tuple[str, ...]] = set()
    best = NEVER
    at_cost: Decimal | None = None
    at_latency = NEVER
    for row in sorted(rows, key=lambda r: (unit_cost(r), latency_ms(r), identity(r))):
        cost, latency = unit_cost(row), latency_ms(row)
        if latency < best or not front or (cost == at_cost and latency == at_latency):
            front.add(identity(row))
            best, at_cost, at_latency = min(best, latency), cost, latency
    return front
