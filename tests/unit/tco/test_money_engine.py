"""Bills of serving and of runs: reported cases, and what must hold for every input."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.tco.assumptions import AssumptionError, Assumptions
from planner.tco.commitments import effective_hourly, term_total
from planner.tco.inference import RequestShape, compute_line, kwh_per_million_inferences, serving_cost
from planner.tco.model import total
from planner.tco.training import CheckpointHours, checkpoint_interval_hours, run_hours, training_cost
from pricing.money import Usd, UsdPerHour

prices = st.decimals(min_value="0.0001", max_value="500", places=6).map(UsdPerHour)


@pytest.mark.parametrize(
    ("utilisation", "expected"),
    # 1.006 / (1000 x 3600) x 1e6 = 0.279444; at 0.4 the machine is paid for while idle; nothing served has no unit cost
    [(1.0, "0.279444"), (0.4, "0.698611"), (0.0, None)],
)
def test_cost_per_million_tokens_counts_idle_time(utilisation, expected):
    cost = serving_cost(
        [compute_line(price=UsdPerHour("1.006"), instances=1, source="t")], served_per_s=1000 * utilisation, shape=None
    )
    found = cost.usd_per_million_inferences
    assert (None if found is None else f"{found.amount:.6f}") == expected
    assert (kwh_per_million_inferences(power_w=1, pue=1, served_per_s=1000 * utilisation) is None) == (expected is None)


@pytest.mark.parametrize(
    ("upfront", "hourly", "years", "effective", "in_total"),
    [
        (960, "0", 1, 0.109589, 960),
        (553, "0", 1, 0.063128, 553),
        (0, "0.126", 1, 0.126, 1103.76),
        (4000, "0.21", 3, 0.362207, 9518.8),
    ],
)
def test_upfront_is_spread_over_the_term(upfront, hourly, years, effective, in_total):
    what = {"upfront": Usd(upfront), "hourly": UsdPerHour(hourly), "term_years": years}
    assert float(effective_hourly(**what).amount) == pytest.approx(effective, rel=5e-6)
    assert float(term_total(**what).amount) == pytest.approx(in_total, rel=1e-9)


def test_a_term_has_years():
    with pytest.raises(ValueError, match="term"):
        term_total(upfront=Usd(1), hourly=UsdPerHour(0), term_years=0)


@given(
    price=prices,
    instances=st.integers(1, 500),
    rate=st.floats(1e-3, 1e6),
    isl=st.integers(1, 100_000),
    osl=st.integers(1, 100_000),
    prefill=st.floats(0, 1),
)
def test_input_and_output_tokens_make_the_request(*, price, instances, rate, isl, osl, prefill):
    shape = RequestShape(input_tokens=isl, output_tokens=osl, prefill_time_fraction=prefill)
    cost = serving_cost([compute_line(price=price, instances=instances, source="t")], served_per_s=rate, shape=shape)
    assert cost.usd_per_hour == total(cost.lines)
    whole = cost.usd_per_million_inferences.amount
    parts = cost.usd_per_million_input_tokens.amount * isl + cost.usd_per_million_output_tokens.amount * osl
    assert abs(parts - whole) <= whole * Decimal("1e-20")
    assert abs(cost.usd_per_million_total_tokens.amount * (isl + osl) - whole) <= whole * Decimal("1e-20")


@given(
    price=prices,
    compute=st.floats(1e-3, 1e4),
    instances=st.integers(1, 64),
    epochs=st.floats(0.1, 1000),
    rate=st.floats(0, 0.01),
    gigabytes=st.floats(0, 1e4),
    evaluation=st.floats(0, 1),
)
def test_a_run_costs_the_sum_of_its_lines(*, price, compute, instances, epochs, rate, gigabytes, evaluation):
    assumptions = Assumptions(evaluation_fraction=evaluation)
    hours = run_hours(compute, assumptions=assumptions, checkpoint=written(gigabytes), interruptions_per_hour=rate)
    cost = training_cost(hours, price=price, instances=instances, epochs=epochs, source="t")
    assert cost.usd_total == total(cost.lines)
    assert all(
        line.usd.amount == (line.quantity * line.unit_price).quantize(Decimal("0.000001")) for line in cost.lines
    )
    # to within the rounding of quantities (a millionth of an hour a line) the bill is hours x instances x price
    assert float(cost.usd_total.amount) == pytest.approx(
        hours.total * instances * float(price.amount), abs=5e-6 * (1 + float(price.amount)), rel=1e-9
    )
    assert abs(cost.usd_per_epoch.amount * Decimal(repr(epochs)) - cost.usd_total.amount) <= Decimal("1e-15") * (
        1 + cost.usd_total.amount
    )


@given(prices, st.decimals(min_value="0", max_value="100", places=4), st.floats(1, 1000))
def test_a_dearer_hour_never_makes_a_cheaper_run(price, more, compute):
    hours = run_hours(compute, assumptions=Assumptions(), checkpoint=written(10), interruptions_per_hour=0)
    cheap = training_cost(hours, price=price, instances=2, epochs=1, source="t").usd_total
    assert cheap <= training_cost(hours, price=price + UsdPerHour(more), instances=2, epochs=1, source="t").usd_total


def written(gigabytes: float) -> CheckpointHours:
    """At 1 GB/s, training waiting for all of it."""
    return CheckpointHours(durable=gigabytes / 3600, blocking=gigabytes / 3600)


def test_a_checkpoint_in_the_background_blocks_for_its_copy_alone():
    # 100 h of work, a checkpoint each half hour: 200. In the background each blocks for 1 s instead of 60 s.
    waits = run_hours(
        100,
        assumptions=Assumptions(),
        checkpoint=CheckpointHours(durable=60 / 3600, blocking=60 / 3600),
        interruptions_per_hour=0,
    )
    beside = run_hours(
        100,
        assumptions=Assumptions(),
        checkpoint=CheckpointHours(durable=60 / 3600, blocking=1 / 3600),
        interruptions_per_hour=0,
    )
    assert waits.checkpoints == pytest.approx(200 * 60 / 3600)
    assert beside.checkpoints == pytest.approx(200 / 3600)
    # No checkpoint begins before the storage has the last one: at 2 h of writing 50 of them.
    slow = run_hours(
        100, assumptions=Assumptions(), checkpoint=CheckpointHours(durable=2.0, blocking=0.01), interruptions_per_hour=0
    )
    assert slow.checkpoints == pytest.approx(50 * 0.01)
    # What was still being written is lost with an interruption: more rework than if it had been there at once.
    risky = run_hours(
        100,
        assumptions=Assumptions(),
        checkpoint=CheckpointHours(durable=0.4, blocking=0.001),
        interruptions_per_hour=0.01,
    )
    safe = run_hours(
        100,
        assumptions=Assumptions(),
        checkpoint=CheckpointHours(durable=0.001, blocking=0.001),
        interruptions_per_hour=0.01,
    )
    assert risky.lost > safe.lost


def test_a_large_checkpoint_stretches_the_interval():
    # writing 0.1 h may take at most a twentieth of the work: once in 2 h, not each half hour
    assert checkpoint_interval_hours(Assumptions(), 0.1) == pytest.approx(2.0)
    assert checkpoint_interval_hours(Assumptions(), 0.001) == 0.5


def test_every_assumption_has_unit_and_source_and_is_listed():
    listed = {a["name"]: a for a in Assumptions().listed("training")}
    assert {
        "pue",
        "startup_minutes",
        "restart_minutes",
        "checkpoint_interval_minutes",
        "spot_interruption_fraction_per_month",
    } <= set(listed)
    assert all(a["source"] and (a["unit"] or a["value"] == "off") for a in listed.values())
    assert listed["storage_cost"]["value"] == "off"
    assert "startup_minutes" not in {a["name"] for a in Assumptions().listed("inference")}


def test_an_override_keeps_to_its_bounds():
    assert Assumptions.with_overrides(["startup-minutes = 5"]).startup_minutes == 5
    for text in ("startup_minutes=-1", "nothing=1", "pue=much", "pue"):
        with pytest.raises(AssumptionError):
            Assumptions.with_overrides([text])
