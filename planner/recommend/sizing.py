"""From a layout that works to a number of instances and its bill."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from planner.perf.model import Evaluation, Infeasible, Outcome, Rates, RejectionReason
from planner.perf.training_checkpoints import Writer, WriteTime, write_time
from planner.recommend.model import InterruptionRisk, Offer, Rejection, Run, Serving, Spread
from planner.tco.assumptions import Assumptions
from planner.tco.inference import RequestShape, ServingCost, compute_line, serving_cost
from planner.tco.spot import interruptions_per_hour
from planner.tco.training import CheckpointHours, RunHours, run_hours, training_cost
from pricing.market import CapacityBlock
from pricing.money import Usd, from_measured

ALMOST = 1e-9  # a count that misses a whole number by less is that number
LONGEST_RUN_HOURS = 1e8
"""A run of more than 10,000 years is told as one that never ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is to be served, and the tokens of a request (None: priced per sample).

    `requests_per_s` is what must be carried; of a load that varies it is the peak, and `mean_requests_per_s` what is really served.
    """

    requests_per_s: float | None
    utilisation: float
    input_tokens: int | None
    output_tokens: int | None
    mean_requests_per_s: float | None = None

    @property
    def served_per_s(self) -> float | None:
        """Return the requests that are really served per second of the paid time; None without a load."""
        return self.requests_per_s if self.mean_requests_per_s is None else self.mean_requests_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLoad:
    """What is to be trained, in total and at most."""

    tokens_per_epoch: float | None
    samples_per_epoch: float | None
    epochs: float
    checkpoint_gb: float
    checkpoint_storage: str | None = None  # None: at the assumed rate
    async_checkpoints: bool = False
    deadline_hours: float | None = None
    budget_usd: float | None = None


def unit_rate(rates: Rates) -> float:
    """Return requests/s, or samples/s of a model priced per sample."""
    rate = rates.requests_per_s if rates.requests_per_s is not None else rates.samples_per_s
    if rate is None:
        raise ValueError("an evaluation of inference has requests or samples per second")
    return rate


def groups_for(load: Load, evaluation: Evaluation, *, throughput_factor: float = 1.0) -> int | None:
    """Return how many copies of the layout carry the load, one without a load; None where no number keeps the latency limits.

    ceil(load / (rate x utilisation)), and as many as it takes for random arrivals to keep the limits (`perf/arrivals.py`).
    """
    if load.requests_per_s is None:
        return 1
    rate = unit_rate(evaluation.performance.rates) * throughput_factor
    copies = max(1, math.ceil(load.requests_per_s / (rate * load.utilisation) - ALMOST))
    if evaluation.arrivals is None:
        return copies
    return evaluation.arrivals.copies_for(load.requests_per_s, at_least=copies, factor=throughput_factor)


def serve(
    offer: Offer, evaluation: Evaluation, load: Load, *, throughput_factor: float = 1.0, groups: int | None = None
) -> Serving:
    """Return the sized and priced way to serve `load` with copies of a layout.

    With a load, what is served is the load (its mean, sized for its peak), or all that `groups` copies can; without, one copy at full load
    times utilisation. `throughput_factor` asks what it would take if the rate were that much of the expected one.
    """
    rate = unit_rate(evaluation.performance.rates) * throughput_factor
    copies = groups_for(load, evaluation, throughput_factor=throughput_factor) if groups is None else groups
    if copies is None:
        raise ValueError("no number of copies keeps the latency limits: such a layout is refused before it is sized")
    served = rate * copies * load.utilisation
    if load.served_per_s is not None:
        served = load.served_per_s if groups is None else min(load.served_per_s, rate * copies)
    shape = None
    if load.input_tokens is not None and load.output_tokens is not None:
        shape = RequestShape(
            input_tokens=load.input_tokens,
            output_tokens=load.output_tokens,
            prefill_time_fraction=evaluation.performance.prefill_time_fraction,
        )
    line = compute_line(price=offer.price, instances=copies * evaluation.instances, source=price_source(offer))
    return Serving(
        offer=offer,
        evaluation=evaluation,
        groups=copies,
        capacity_per_s=rate * copies,
        peak_per_s=load.requests_per_s,
        served_per_s=served,
        cost=serving_cost((line,), served_per_s=served, shape=shape),
    )


def serving_spread(row: Serving, load: Load) -> tuple[Spread, Spread]:
    """Return the costs at the high and at the low end of the throughput (that is, the low and the high costs).

    With a load the number of instances moves with the rate, so the hourly bill is uncertain; without one only the unit costs are.
    """
    performance, sized = row.evaluation.performance, load.requests_per_s is not None
    spreads = [Spread(), Spread()]
    for i, f in enumerate((performance.high_factor, performance.low_factor)):
        groups = groups_for(load, row.evaluation, throughput_factor=f) if sized else row.groups
        if groups is None:
            continue  # so slow that even a lone request breaks the limits: no number of instances would do
        cost = serve(row.offer, row.evaluation, load, throughput_factor=f, groups=groups).cost
        spreads[i] = _spread_of(cost, hourly=sized)
    return spreads[0], spreads[1]


def _spread_of(cost: ServingCost, *, hourly: bool) -> Spread:
    return Spread(
        usd_per_hour=cost.usd_per_hour.amount if hourly else None,
        usd_per_month=cost.usd_per_month.amount if hourly else None,
        usd_per_million_inferences=amount(cost.usd_per_million_inferences),
        usd_per_million_total_tokens=amount(cost.usd_per_million_total_tokens),
        usd_per_million_input_tokens=amount(cost.usd_per_million_input_tokens),
        usd_per_million_output_tokens=amount(cost.usd_per_million_output_tokens),
    )


def amount(usd: Usd | None) -> Decimal | None:
    """Return the decimal of an amount, or None."""
    return None if usd is None else usd.amount


def price_source(offer: Offer) -> str:
    """Return where a price comes from: option, place, day and source, in one clause."""
    quote = offer.quote
    where = quote.availability_zone_id or quote.region
    sku = f", rate {quote.rate_code}" if quote.rate_code else f", sku {quote.sku}" if quote.sku else ""
    return f"{quote.purchase_option.value} {quote.instance_type} {where}, {quote.retrieved_at.date().isoformat()}: {quote.source}{sku}"


def serving_or_rejection(
    offer: Offer, outcome: Outcome, load: Load, *, budget_usd: float | None
) -> Serving | Rejection:
    """Return the sized row, or why the layout or the monthly budget rules it out."""
    if isinstance(outcome, Infeasible):
        return reject(offer, outcome.reason, outcome.detail)
    row = serve(offer, outcome, load)
    if budget_usd is not None and row.cost.usd_per_month.amount > from_measured(budget_usd):
        month = row.cost.usd_per_month.amount
        return reject(
            offer,
            RejectionReason.BUDGET,
            f"{month:.2f} USD a month with {counted(row.instance_count)} is over the budget of {budget_usd:.2f}",
            shortfall=float(month),
        )
    return row


def counted(instances: int) -> str:
    """Return "1 instance" or "3 instances"."""
    return f"{instances} instance{'' if instances == 1 else 's'}"


def block_fee(block: CapacityBlock) -> str:
    """Return the fee of a whole block: "5,285.95 USD"."""
    return f"{block.upfront:,.2f} {block.currency}"


def block_hours(block: CapacityBlock) -> str:
    """Return how long a block lasts: "168 h", "47 h 13 min"."""
    hours, minutes = divmod(block.minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def reject(offer: Offer, reason: RejectionReason, detail: str, *, shortfall: float = 0.0) -> Rejection:
    """Return the rejection of one offer."""
    quote = offer.quote
    return Rejection(
        provider=quote.provider,
        instance_type=quote.instance_type,
        reason=reason,
        region=quote.region,
        purchase_option=quote.purchase_option.value,
        detail=detail,
        shortfall=shortfall,
    )


def run_or_rejection(
    offer: Offer, outcomes: Sequence[Outcome], load: TrainingLoad, assumptions: Assumptions
) -> Run | Rejection:
    """Return the cheapest run over the instance counts tried that meets deadline and budget (ties: fewer instances), or why none does."""
    feasible = [o for o in outcomes if isinstance(o, Evaluation)]
    if not feasible:
        last = outcomes[-1]
        assert isinstance(last, Infeasible)  # noqa: S101 - the list above is empty
        return reject(offer, last.reason, last.detail)
    runs = [run for run in (train(offer, e, load, assumptions) for e in feasible) if run is not None]
    if not runs:
        return reject(
            offer,
            RejectionReason.DEADLINE,
            "the expected time is beyond 10,000 years: too little hardware, or interruptions that come faster than checkpoints",
            shortfall=math.inf,
        )
    timely = [r for r in runs if load.deadline_hours is None or r.hours.total <= load.deadline_hours]
    if not timely:
        fastest = min(runs, key=lambda r: (r.hours.total, r.instance_count))
        return reject(
            offer,
            RejectionReason.DEADLINE,
            f"{fastest.hours.total:.1f} h on {counted(fastest.instance_count)} is the fastest found; the deadline is {load.deadline_hours:g} h",
            shortfall=fastest.hours.total,
        )
    best = min(timely, key=lambda r: (r.cost.usd_total.amount, r.instance_count))
    if load.budget_usd is not None and best.cost.usd_total.amount > from_measured(load.budget_usd):
        return reject(
            offer,
            RejectionReason.BUDGET,
            f"{best.cost.usd_total.amount:.2f} USD on {counted(best.instance_count)} is over the budget of {load.budget_usd:.2f}",
            shortfall=float(best.cost.usd_total.amount),
        )
    return best


def compute_hours(evaluation: Evaluation, load: TrainingLoad, *, throughput_factor: float = 1.0) -> float:
    """Return hours of all optimizer steps: work of an epoch x epochs / rate."""
    rates = evaluation.performance.rates
    if load.tokens_per_epoch is not None:
        work, rate = load.tokens_per_epoch, rates.total_tokens_per_s
    else:
        work, rate = load.samples_per_epoch or 0.0, rates.samples_per_s
    if rate is None:
        raise ValueError("an evaluation of training has the rate that its data set is counted in")
    return work * load.epochs / (rate * throughput_factor) / 3600


def train(
    offer: Offer,
    evaluation: Evaluation,
    load: TrainingLoad,
    assumptions: Assumptions,
    *,
    throughput_factor: float = 1.0,
    monthly_fraction: float | None = None,
    longest_hours: float = LONGEST_RUN_HOURS,
) -> Run | None:
    """Return the run with its hours and bill; None when its expected time exceeds every bound.

    A sharded state is written by all instances at once, an unsharded one by the first. `monthly_fraction` replaces the offer's
    expected interruption share.
    """
    risk = offer.interruption
    fraction = monthly_fraction if monthly_fraction is not None else 0.0 if risk is None else risk.fraction
    rate = interruptions_per_hour(fraction, evaluation.instances)
    written = checkpoint_time(offer, evaluation, load, assumptions)
    hours: RunHours = run_hours(
        compute_hours(evaluation, load, throughput_factor=throughput_factor),
        assumptions=assumptions,
        checkpoint=CheckpointHours(durable=written.durable_s / 3600, blocking=written.blocking_s / 3600),
        interruptions_per_hour=rate,
    )
    if not hours.total <= longest_hours:
        return None
    return Run(
        offer=offer,
        evaluation=evaluation,
        hours=hours,
        epochs=load.epochs,
        written=written,
        interruptions_per_hour=rate,
        cost=training_cost(
            hours, price=offer.price, instances=evaluation.instances, epochs=load.epochs, source=price_source(offer)
        ),
    )


def checkpoint_time(offer: Offer, evaluation: Evaluation, load: TrainingLoad, assumptions: Assumptions) -> WriteTime:
    """Return the time of one checkpoint: a state that is split over accelerators is written by all instances, a whole one by the first."""
    layout, instance = evaluation.layout, offer.instance
    split = (layout.sharding or "").startswith("zero") or (layout.tensor_parallel or 1) * (
        layout.pipeline_parallel or 1
    ) > 1
    return write_time(
        load.checkpoint_gb * 1e9,
        storage=load.checkpoint_storage,
        writer=Writer(
            devices=float(instance.device_count),
            local_nvme_gb=instance.local_nvme_gb,
            network_gbps=instance.network_gbps,
        ),
        writers=evaluation.instances if split else 1,
        asynchronous=load.async_checkpoints,
        usual_gb_per_s=assumptions.checkpoint_write_gb_per_s,
    )


def run_spread(row: Run, load: TrainingLoad, assumptions: Assumptions) -> tuple[Spread, Spread]:
    """Return the costs of the best and of the worst case: throughput at p90 and fewest interruptions, throughput at p10 and most."""
    performance = row.evaluation.performance
    risk: InterruptionRisk | None = row.offer.interruption
    cases = (
        (performance.high_factor, None if risk is None else risk.low_fraction),
        (performance.low_factor, None if risk is None else risk.high_fraction),
    )
    out = []
    for factor, fraction in cases:
        run = train(
            row.offer,
            row.evaluation,
            load,
            assumptions,
            throughput_factor=factor,
            monthly_fraction=fraction,
            longest_hours=LONGEST_RUN_HOURS * 1e4,
        )
        out.append(
            Spread()
            if run is None
            else Spread(usd_total=run.cost.usd_total.amount, usd_per_epoch=run.cost.usd_per_epoch.amount)
        )
    return out[0], out[1]
