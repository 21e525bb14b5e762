"""What serving costs: the bill of one hour, and that bill per unit of what was really served in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from planner.tco.model import CostLine, total
from pricing.money import HOURS_PER_MONTH, Usd, UsdPerHour, from_measured

MILLION = Decimal(1_000_000)
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCost:
    """One hour of serving and its unit costs, USD. None = does not apply, or nothing was served."""

    lines: tuple[CostLine, ...]  # of one hour
    usd_per_hour: Usd
    usd_per_month: Usd
    usd_per_million_inferences: Usd | None
    usd_per_million_total_tokens: Usd | None
    usd_per_million_input_tokens: Usd | None
    usd_per_million_output_tokens: Usd | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """Tokens of one request and the share of accelerator time that its prefill takes."""

    input_tokens: int
    output_tokens: int
    prefill_time_fraction: float | None


def compute_line(*, price: UsdPerHour, instances: int, source: str) -> CostLine:
    """Return the line of one hour of `instances` instances."""
    return CostLine.of(
        name="compute", quantity=Decimal(instances), unit="instance-hour", unit_price=price.amount, source=source
    )


def serving_cost(lines: Sequence[CostLine], *, served_per_s: float, shape: RequestShape | None) -> ServingCost:
    """Return the unit costs of an hour whose bill is `lines`, in which `served_per_s` requests (or samples) a second were really served.

    usd_per_million_inferences = 1e6 x bill / (3600 served_per_s); per token, the same bill over all tokens. Input and output prices split
    one request by prefill and decode time, so that input_tokens x p_in + output_tokens x p_out is the price of the request.
    Nothing served has no unit cost: None, not infinity and not zero.
    """
    bill = total(lines)
    per_request = None if served_per_s <= 0 else bill / (from_measured(served_per_s) * SECONDS_PER_HOUR)
    million = None if per_request is None else per_request * MILLION
    per_token = per_in = per_out = None
    if million is not None and shape is not None:
        per_token = million / Decimal(shape.input_tokens + shape.output_tokens)
        if shape.prefill_time_fraction is not None:
            prefill = from_measured(shape.prefill_time_fraction)
            per_in = million * prefill / Decimal(shape.input_tokens)
            per_out = million * (1 - prefill) / Decimal(shape.output_tokens)
    return ServingCost(
        lines=tuple(lines),
        usd_per_hour=bill,
        usd_per_month=bill * HOURS_PER_MONTH,
        usd_per_million_inferences=million,
        usd_per_million_total_tokens=per_token,
        usd_per_million_input_tokens=per_in,
        usd_per_million_output_tokens=per_out,
    )


def kwh_per_million_inferences(*, power_w: float, pue: float, served_per_s: float) -> float | None:
    """Return kWh at the meter per million requests: power x PUE / (1000 x 3600 s/h x requests/s) x 1e6; None when nothing is served."""
    return None if served_per_s <= 0 else power_w * pue / 1000 / (served_per_s * SECONDS_PER_HOUR) * 1e6
