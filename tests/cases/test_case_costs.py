"""Commitments per hour, and hours per million tokens."""

from __future__ import annotations

from decimal import Decimal

import pytest

from planner.tco.commitments import effective_hourly, term_total
from planner.tco.inference import RequestShape, compute_line, serving_cost
from pricing.money import Usd, UsdPerHour


@pytest.mark.parametrize(
    ("upfront", "hourly", "years", "per_hour", "whole_term"),
    [
        ("960", "0", 1, 0.109589, "960"),  # 960 / 8760
        ("553", "0", 1, 0.063128, "553"),
        ("0", "0.126", 1, 0.126, "1103.76"),  # 0.126 x 8760
        ("4000", "0.21", 3, 0.362207, "9518.8"),  # 0.21 + 4000 / 26280
    ],
)
def test_ri_amortise(upfront: str, hourly: str, years: int, per_hour: float, whole_term: str) -> None:
    # A year has 8,760 hours; the fee is spread over every hour of the term.
    terms = {"upfront": Usd(upfront), "hourly": UsdPerHour(hourly), "term_years": years}
    assert float(effective_hourly(**terms).amount) == pytest.approx(per_hour, rel=5e-4)
    assert term_total(**terms).amount == Decimal(whole_term)


@pytest.mark.parametrize(("utilisation", "right"), [(1.0, 0.279444), (0.4, 0.698611), (0.0, None)])
def test_cost_per_million(utilisation: float, right: float | None) -> None:
    # 1.006 USD an hour for 1,000 tokens/s at full load; idle hours are paid too, and nothing served has no cost per token: no number, no error.
    line = compute_line(price=UsdPerHour("1.006"), instances=1, source="case")
    shape = RequestShape(input_tokens=600, output_tokens=400, prefill_time_fraction=None)
    cost = serving_cost([line], served_per_s=1.0 * utilisation, shape=shape).usd_per_million_total_tokens
    assert (None if cost is None else float(cost.amount)) == (None if right is None else pytest.approx(right, rel=5e-4))
