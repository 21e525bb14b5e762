"""Properties of ranking and sizing: order of input, price and demand."""

from __future__ import annotations

import dataclasses
import random
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.perf.model import (
    Basis,
    Evaluation,
    Infeasible,
    Layout,
    MemoryFit,
    Percentiles,
    Performance,
    Rates,
    RejectionReason,
)
from planner.recommend.model import InterruptionRisk, Offer, Rejection, Run
from planner.recommend.ranking import identity, latency_ms, pareto_front, ranked, unit_cost
from planner.recommend.rejections import grouped
from planner.recommend.sizing import (
    Load,
    TrainingLoad,
    groups_for,
    run_or_rejection,
    serve,
    serving_or_rejection,
)
from planner.tco.assumptions import Assumptions
from pricing.model import AcceleratorKind, InstanceType, PurchaseOption, Quote
from pricing.money import UsdPerHour

DAY = datetime(2026, 7, 1, tzinfo=UTC)


def offer(
    usd: str = "1.0", name: str = "a.large", region: str = "r1", option: str = "on_demand", risk: float | None = None
) -> Offer:
    quote = Quote(
        provider="aws",
        instance_type=name,
        region=region,
        purchase_option=PurchaseOption(option),
        effective_unit_price=Decimal(usd),
        source="t",
        retrieved_at=DAY,
    )
    instance = InstanceType(
        provider="aws",
        instance_type=name,
        family="a",
        vcpus=1,
        memory_gib=1,
        cpu_arch=None,
        accelerator="X",
        accelerator_kind=AcceleratorKind.GPU,
        device_count=1,
    )
    band = (
        None
        if risk is None
        else InterruptionRisk(low_fraction=risk / 2, fraction=risk, high_fraction=min(0.99, risk * 2), source="t")
    )
    return Offer(instance=instance, quote=quote, price=UsdPerHour(Decimal(usd)), interruption=band)


def evaluation(rate: float = 10.0, latency: float | None = 100.0, instances: int = 1) -> Evaluation:
    return Evaluation(
        layout=Layout(engine="vllm", precision="bf16"),
        instances=instances,
        memory=MemoryFit(lines=(), available_gib_per_accelerator=1),
        performance=Performance(
            basis=Basis.MODELLED, low_factor=0.5, high_factor=2, rates=Rates(requests_per_s=rate, samples_per_s=rate), e2e_ms=None if latency is None else Percentiles(p50=latency, p99=latency)
        ),
    )  # fmt: skip


LOAD = Load(requests_per_s=None, utilisation=1.0, input_tokens=1000, output_tokens=1000)
rows = st.lists(
    st.builds(
        lambda usd, rate, latency, name, region, option: serve(offer(f"{usd:.2f}", name, region, option), evaluation(rate, latency), LOAD),
        st.decimals("0.01", "9", places=2), st.sampled_from([1.0, 2.0, 10.0]), st.sampled_from([None, 50.0, 100.0]), st.sampled_from("abc"), st.sampled_from(["r1", "r2"]),
        st.sampled_from(["on_demand", "spot"]),
    ),
    max_size=12,
    unique_by=identity,
)  # fmt: skip


@given(rows, st.sampled_from(["cost", "time", "latency", "energy"]), st.randoms(use_true_random=False))
def test_the_order_of_the_input_never_changes_the_ranking(some, sort, shuffler: random.Random):
    other = list(some)
    shuffler.shuffle(other)
    assert [identity(r) for r in ranked(some, sort)] == [identity(r) for r in ranked(other, sort)]
    assert pareto_front(some) == pareto_front(other)


@given(rows)
def test_the_front_is_what_nothing_beats(some):
    def beaten(r) -> bool:
        mine = (unit_cost(r), latency_ms(r))
        return any(
            unit_cost(o) <= mine[0] and latency_ms(o) <= mine[1] and (unit_cost(o), latency_ms(o)) != mine for o in some
        )  # fmt: skip

    assert pareto_front(some) == {identity(r) for r in some if not beaten(r)}


@given(st.floats(0.01, 1e4), st.floats(0.01, 1e3), st.floats(0.05, 1), st.floats(1, 50))
def test_more_demand_never_needs_fewer_instances(load, rate, utilisation, k):
    def count(x: float) -> int:
        found = groups_for(dataclasses.replace(LOAD, requests_per_s=x, utilisation=utilisation), evaluation(rate))
        assert found is not None
        return found

    assert count(load) <= count(load * k)
    assert count(load) * rate * utilisation >= load * (1 - 1e-6)  # and always enough


@given(
    st.decimals("0.01", "100", places=4),
    st.decimals("0", "100", places=4),
    st.floats(0.1, 100),
    st.one_of(st.none(), st.floats(0.1, 1000)),
)
def test_a_dearer_price_never_makes_a_cheaper_row(usd, more, rate, demand):
    load = dataclasses.replace(LOAD, requests_per_s=demand)
    cheap, dear = (serve(offer(str(p)), evaluation(rate), load).cost for p in (usd, usd + more))
    assert cheap.usd_per_hour <= dear.usd_per_hour
    assert cheap.usd_per_million_inferences <= dear.usd_per_million_inferences


@given(
    st.decimals("0.01", "100", places=4),
    st.decimals("0", "100", places=4),
    st.one_of(st.none(), st.floats(0.001, 0.4)),
    st.floats(1, 1000),
)
def test_a_dearer_price_never_makes_a_cheaper_run(usd, more, risk, deadline):
    load = TrainingLoad(
        tokens_per_epoch=None, samples_per_epoch=1e6, epochs=2, checkpoint_gb=10, deadline_hours=deadline
    )
    outcomes = [evaluation(5.0 * n**0.9, instances=n) for n in (1, 2, 4, 8)]
    cheap, dear = (run_or_rejection(offer(str(p), risk=risk), outcomes, load, Assumptions()) for p in (usd, usd + more))
    assert type(cheap) is type(dear)
    if isinstance(cheap, Run) and isinstance(dear, Run):
        assert cheap.cost.usd_total <= dear.cost.usd_total
        assert cheap.hours.total <= deadline


def test_equal_costs_take_fewer_instances():
    load = TrainingLoad(tokens_per_epoch=None, samples_per_epoch=1e6, epochs=1, checkpoint_gb=0)
    run = run_or_rejection(
        offer(), [evaluation(5.0 * n, instances=n) for n in (4, 2, 1)], load, Assumptions(startup_minutes=0)
    )
    assert isinstance(run, Run)
    assert run.instance_count == 1  # perfect scaling: the bill is the same


def test_a_layout_over_several_instances_pays_for_all():
    row = serve(offer("2.0"), evaluation(10.0, instances=2), dataclasses.replace(LOAD, requests_per_s=25))
    assert (row.groups, row.instance_count, str(row.cost.usd_per_hour)) == (
        3,
        6,
        "12.000000",
    )  # ceil(25/10) groups of two


def test_an_infeasible_outcome_is_a_rejection_with_its_detail():
    found = serving_or_rejection(
        offer(), Infeasible(reason=RejectionReason.SLO_INFEASIBLE, detail="ttft 900 ms"), LOAD, budget_usd=None
    )
    assert isinstance(found, Rejection)
    assert (found.reason, found.detail, found.region, found.purchase_option) == (
        RejectionReason.SLO_INFEASIBLE,
        "ttft 900 ms",
        "r1",
        "on_demand",
    )


def test_groups_tell_the_nearest_miss_and_count_all():
    members = [
        Rejection(provider="aws", instance_type="t", reason=RejectionReason.BUDGET, region=region, purchase_option=option, detail=f"{cost}", shortfall=cost)
        for region, option, cost in (("r2", "spot", 9.0), ("r1", "on_demand", 7.0), ("r1", "spot", 8.0))
    ]  # fmt: skip
    assert grouped(members) == grouped(members[::-1])
    (group,) = grouped(members)
    assert (group.detail, group.count, group.regions, group.purchase_options) == (
        "7.0",
        3,
        ("r1", "r2"),
        ("on_demand", "spot"),
    )


def test_a_run_that_interruptions_never_let_finish_is_rejected():
    load = TrainingLoad(tokens_per_epoch=None, samples_per_epoch=1e9, epochs=1, checkpoint_gb=1)
    found = run_or_rejection(
        offer(risk=0.9), [evaluation(1.0, instances=64)], load, Assumptions(checkpoint_interval_minutes=1e6)
    )
    assert isinstance(found, Rejection)
    assert "10,000 years" in found.detail


@pytest.mark.parametrize("text", ["0.1", "0.30000000000000004"])
def test_prices_are_used_exactly(text):
    assert serve(offer(text), evaluation(), LOAD).cost.lines[0].unit_price == Decimal(text)


def test_a_stated_peak_is_paid_by_its_mean():
    waxing = dataclasses.replace(LOAD, requests_per_s=25.0, mean_requests_per_s=5.0)
    row = serve(offer(), evaluation(10.0), waxing)
    assert (row.groups, row.served_per_s) == (3, 5.0)  # ceil(25 / 10)


def test_copies_that_are_given_serve_the_load_or_all_they_can():
    few = dataclasses.replace(LOAD, requests_per_s=25.0)
    assert serve(offer(), evaluation(10.0), few, groups=2).served_per_s == 20.0
    assert serve(offer(), evaluation(10.0), few, groups=4).served_per_s == 25.0
