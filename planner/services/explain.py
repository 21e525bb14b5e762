"""Explanations: how each figure of a row comes about, in terms that a person can redo with a calculator."""

from __future__ import annotations

import math
from collections.abc import Iterator

from planner.models.counting import weight_bytes
from planner.models.spec import AttentionKind, ModelSpec
from planner.perf.memory import kv_bytes_per_token
from planner.perf.model import Evaluation, Term
from planner.perf.precision import BITS_PER_WEIGHT, KV_BITS, stored_format
from planner.recommend.model import Offer, Run, Serving, Sized
from planner.recommend.offers import at_list, own_notes, parts_of
from planner.recommend.request import EstimateRequest, RecommendRequest
from planner.recommend.sizing import ALMOST, block_fee, block_hours, counted, price_source
from planner.services.documents import money, unit_price
from planner.tco.assumptions import Assumptions
from planner.tco.inference import kwh_per_million_inferences
from planner.tco.spot import best_interval_hours
from planner.tco.training import checkpoint_interval_hours, kwh_total
from pricing.discounts import CONTRACTED
from pricing.model import PurchaseOption
from pricing.money import HOURS_PER_MONTH

GIB = 2**30
BYTES_OF = {name: bits / 8 for name, bits in BITS_PER_WEIGHT.items()} | {"int4": 0.5, "fp4": 0.5, "mxfp4": 0.5}
"""Bytes of a converted number; of 4-bit formats without their scales, which `weight_bytes` counts."""
WEIGHT_ORDER = ("fp32", "bf16")


def explanation_of(
    row: Sized, *, request: RecommendRequest | EstimateRequest, spec: ModelSpec, assumptions: Assumptions
) -> list[Term]:
    """Return the terms from the model to the money, in the order in which they are computed."""
    terms = unpriced_explanation(row.evaluation, spec=spec, accelerator=row.offer.instance.accelerator)
    terms.extend((interval_term(row), price_term(row)))
    terms.extend(run_terms(row, assumptions) if isinstance(row, Run) else serving_terms(row, request, spec))
    terms.extend(energy_terms(row, assumptions))
    return terms


def unpriced_explanation(evaluation: Evaluation, *, spec: ModelSpec, accelerator: str | None) -> list[Term]:
    """Return the terms from the model to its rates, without money."""
    return [
        *model_terms(spec, evaluation.layout.precision, evaluation.layout.kv_precision),
        *memory_terms(evaluation, accelerator),
        *evaluation.performance.terms,
    ]


def model_terms(spec: ModelSpec, precision: str, kv_precision: str | None = None) -> Iterator[Term]:
    """Yield how the weights get their size: "1B is 4 GB in fp32, 7B is 15 GB in bf16" is parameters x bytes each; and the cache its."""
    published = None if spec.quantization is None else stored_format(spec.quantization)
    yield Term(
        name="parameters_total",
        value=float(spec.parameters_total),
        unit="parameters",
        formula="sum over the model's tensors",
        source=spec.source,
    )
    total = spec.parameters_total
    for name in dict.fromkeys((*WEIGHT_ORDER, precision)):
        if name not in BYTES_OF:
            continue
        size = weight_bytes(spec, None if name == published else name)
        plain = total * BYTES_OF[name]
        how = f"{total:,} parameters x {BYTES_OF[name]:g} bytes = {plain / 1e9:.2f} GB = {plain / GIB:.2f} GiB"
        if abs(size - plain) > plain * 1e-6:
            kept = "the checkpoint" if name == published else "the scheme"
            how += f"; with what {kept} keeps at 16 bits and its scales {size / 1e9:.2f} GB"
        if name == "fp32":
            how += " (so 1e9 parameters are 4 GB = 3.73 GiB)"
        yield Term(
            name=f"weights_{name}",
            value=size / GIB,
            unit="GiB",
            formula=how,
            source="arithmetic; GB is 1e9 bytes, GiB 2^30 bytes",
        )
    if spec.generates_tokens and any(a.cache_elements_per_token for a in spec.attention):
        bits = KV_BITS.get(kv_precision or "bf16", 16.0)
        cached = kv_bytes_per_token(spec, bits)
        parts = " + ".join(
            f"{a.count} layers x {a.cache_elements_per_token} elements"
            for a in spec.attention
            if a.cache_elements_per_token and a.kind is not AttentionKind.CROSS
        )
        yield Term(
            name="kv_bytes_per_token",
            value=cached,
            unit="bytes",
            formula=f"({parts}) x {bits / 8:g} byte{'' if bits == 8 else 's'} ({kv_precision or 'bf16'}), keys and values together",
            source=spec.source,
        )


def memory_terms(evaluation: Evaluation, accelerator: str | None) -> Iterator[Term]:
    """Yield the memory lines of one accelerator and what is available."""
    memory = evaluation.memory
    for line in memory.lines:
        yield Term(
            name=f"memory_{line.name}",
            value=line.gib,
            unit="GiB per accelerator",
            formula=line.note,
            source="memory model",
        )
    yield Term(
        name="memory_available",
        value=memory.available_gib_per_accelerator,
        unit="GiB per accelerator",
        formula=memory.available_is,
        source=f"accelerator table: {accelerator}",
    )


def interval_term(row: Sized) -> Term:
    """Return by how much the rates may be off."""
    performance = row.evaluation.performance
    return Term(
        name="throughput_interval",
        value=f"{performance.low_factor:.4g} to {performance.high_factor:.4g}",
        unit="x expected (p10 to p90)",
        formula="low cost = cost at the high rate; high cost = cost at the low rate",
        source="; ".join(performance.sources),
    )


def energy_terms(row: Sized, assumptions: Assumptions) -> Iterator[Term]:
    """Yield the energy at the meter, where the power of the accelerators is known."""
    power = row.evaluation.performance.power_w
    if power is None:
        return
    if isinstance(row, Run):
        hours = row.hours.compute + row.hours.evaluation + row.hours.lost
        name = "kwh_total"
        value: float | None = kwh_total(power_w=power, pue=assumptions.pue, hours=row.hours)
        formula = f"{power:.6g} W / 1000 x PUE {assumptions.pue:g} x {hours:.6g} h of computing"
    else:
        watts = power * row.groups
        name = "kwh_per_million_inferences"
        value = kwh_per_million_inferences(power_w=watts, pue=assumptions.pue, served_per_s=row.served_per_s)
        formula = f"{watts:.6g} W / 1000 x PUE {assumptions.pue:g} / (3600 s/h x {row.served_per_s:.6g} requests/s) x 1,000,000"
    if value is not None:
        yield Term(
            name=name, value=value, unit="kWh", formula=formula, source="accelerator table (rated power) and assumption"
        )


def price_term(row: Sized) -> Term:
    """Return the quote behind the row."""
    quote = row.offer.quote
    return Term(
        name="usd_per_instance_hour",
        value=f"{unit_price(quote.effective_unit_price)}",
        unit="USD/h",
        formula=price_formula(row.offer),
        source=price_source(row.offer),
    )


def price_formula(offer: Offer) -> str:
    """Return how the price of an hour comes about: the fee of a block over its hours, an agreement, a ratio, a rate; or as it was quoted."""
    quote, block = offer.quote, offer.block
    how = own_notes(quote) if quote.derived else ""
    if block is not None:
        how = (
            f"{block_fee(block)} / ({counted(block.instance_count)} x {block_hours(block)}) = "
            f"{unit_price(block.unit_price)} {block.currency}/h, the fee of the whole block {block.offering_id}"
            + (f"; {how}" if how else "")
        )
    agreed = [part for part in parts_of(quote) if part.startswith(CONTRACTED)]
    if agreed:
        how = "; ".join(
            part
            for part in (
                f"{agreed[0]} of the list price of {unit_price(at_list(quote))} USD/h"
                if "% off" in agreed[0]
                else agreed[0],
                how,
            )
            if part
        )
    return how or "as quoted"


def sizing_formula(row: Serving, request: RecommendRequest) -> str:
    """Return the arithmetic of the instance count: by the rate, or by what keeps the limits where that asks for more."""
    peak, per_group, arrivals = row.peak_per_s or 0.0, row.capacity_per_s / row.groups, row.evaluation.arrivals
    spans = f" x {row.evaluation.instances} instances of a replica" if row.evaluation.instances > 1 else ""
    by_rate = f"ceil({peak:g} requests/s / ({per_group:.6g} requests/s x utilisation {request.utilisation:g}))"
    most = None if arrivals is None else arrivals.most_per_s()
    if most is None or row.groups <= math.ceil(peak / (per_group * request.utilisation) - ALMOST):
        return by_rate + spans
    limits = f"{request.percentile} in 100 requests that come at random keep the latency limits"
    return f"ceil({peak:g} requests/s / {most:.6g} requests/s){spans}: the most of one copy (of {per_group:.6g}/s) at which {limits}"


def serving_terms(row: Serving, request: RecommendRequest | EstimateRequest, spec: ModelSpec) -> Iterator[Term]:
    """Yield how many instances, and what a million inferences cost."""
    cost = row.cost
    per_group = row.capacity_per_s / row.groups
    if row.peak_per_s is None or not isinstance(request, RecommendRequest):
        spans = row.evaluation.instances
        how = (
            "no load was given: one instance"
            if spans == 1
            else f"no load was given: one replica over {spans} instances"
        )
        formula = f"{per_group:.6g} requests/s x {row.groups} x utilisation {request.utilisation:g}"
        if row.peak_per_s is not None:
            how = f"as asked: {row.groups} x {counted(spans)} that the layout spans"
            formula = (
                f"the lesser of the load, {row.peak_per_s:g} requests/s, and {per_group:.6g} requests/s x {row.groups}"
            )
    else:
        how = sizing_formula(row, request)
        formula = (
            f"mean of {len(request.traffic)} figures of traffic" if request.traffic else "the load that was asked for"
        )
    yield Term(name="instance_count", value=float(row.instance_count), unit="instances", formula=how, source="sizing")
    yield Term(
        name="served_requests_per_s", value=row.served_per_s, unit="requests/s", formula=formula, source="sizing"
    )
    bill = money(cost.usd_per_hour.amount)
    yield Term(
        name="usd_per_hour",
        value=f"{bill}",
        unit="USD/h",
        formula=f"{row.instance_count} instances x {unit_price(row.offer.price.amount)} USD/h",
        source="cost lines",
    )
    yield Term(
        name="usd_per_month",
        value=f"{money(cost.usd_per_month.amount)}",
        unit="USD",
        formula=f"{bill} USD/h x {HOURS_PER_MONTH} h",
        source="cost lines",
    )
    if cost.usd_per_million_inferences is None:
        return
    million = money(cost.usd_per_million_inferences.amount)
    yield Term(
        name="usd_per_million_inferences",
        value=f"{million}",
        unit="USD",
        formula=f"{bill} USD/h / (3600 s/h x {row.served_per_s:.6g} requests/s) x 1,000,000",
        source="cost lines and performance",
    )
    if cost.usd_per_million_total_tokens is None or not spec.generates_tokens:
        return
    isl, osl = request.input_tokens, request.output_tokens
    yield Term(
        name="usd_per_million_total_tokens",
        value=f"{money(cost.usd_per_million_total_tokens.amount)}",
        unit="USD",
        formula=f"{million} USD / ({isl} input + {osl} output tokens of one inference)",
        source="cost lines and performance",
    )
    share = row.evaluation.performance.prefill_time_fraction
    if share is None or cost.usd_per_million_input_tokens is None or cost.usd_per_million_output_tokens is None:
        return
    for name, usd, part, tokens in (
        ("usd_per_million_input_tokens", cost.usd_per_million_input_tokens, share, isl),
        ("usd_per_million_output_tokens", cost.usd_per_million_output_tokens, 1 - share, osl),
    ):
        phase = "prefill" if tokens is isl and name.endswith("input_tokens") else "decode"
        yield Term(
            name=name,
            value=f"{money(usd.amount)}",
            unit="USD",
            formula=f"{million} USD x {part:.6g} of the time ({phase}) / {tokens} tokens",
            source="cost lines and performance",
        )


def run_terms(row: Run, assumptions: Assumptions) -> Iterator[Term]:
    """Yield the hours of a run by cause, and what they cost."""
    hours = row.hours
    rates = row.evaluation.performance.rates
    rate = (
        f"{rates.total_tokens_per_s:.6g} tokens/s"
        if rates.total_tokens_per_s is not None
        else f"{rates.samples_per_s or 0:.6g} samples/s"
    )
    yield Term(
        name="hours_compute",
        value=hours.compute,
        unit="h",
        formula=f"work of an epoch x {row.epochs:g} epochs / {rate} / 3600",
        source="performance",
    )
    yield Term(
        name="hours_start_up",
        value=hours.startup,
        unit="h",
        formula=f"{assumptions.startup_minutes:g} min",
        source="assumption",
    )
    write = row.written.blocking_s / 3600
    interval = checkpoint_interval_hours(assumptions, write, least=row.written.durable_s / 3600)
    waits = (
        ""
        if row.written.blocking_s == row.written.durable_s
        else f"; training waits {row.written.blocking_s:.4g} s, the copy to host memory"
    )
    yield Term(
        name="hours_checkpoints",
        value=hours.checkpoints,
        unit="h",
        formula=f"one each {interval:.6g} h of work and one at the end; {row.written.how}{waits}",
        source="assumptions; checkpoint = trained parameters x (fp32 weight + optimizer states)",
    )
    if hours.evaluation:
        yield Term(
            name="hours_evaluation",
            value=hours.evaluation,
            unit="h",
            formula=f"{assumptions.evaluation_fraction:g} x hours_compute",
            source="assumption",
        )
    if row.offer.quote.purchase_option is PurchaseOption.SPOT:
        best = best_interval_hours(write_hours=write, rate_per_hour=row.interruptions_per_hour)
        risk = row.offer.interruption
        yield Term(
            name="interruptions_per_hour",
            value=row.interruptions_per_hour,
            unit="1/h",
            formula=f"-ln(1 - {risk.fraction if risk else 0:g}) / {HOURS_PER_MONTH} h x {row.instance_count} instances",
            source=risk.source if risk else "",
        )
        yield Term(
            name="hours_lost",
            value=hours.lost,
            unit="h",
            formula="e^(r R) (e^(r (tau + delta)) - 1) / r x W / tau - undisturbed hours"
            + ("" if best is None else f"; Daly's best tau would be {best:.3g} h"),
            source="Daly 2006, Future Generation Computer Systems 22, 303-312",
        )
    yield Term(name="hours_total", value=hours.total, unit="h", formula="sum of the hours above", source="cost lines")
    total = money(row.cost.usd_total.amount)
    yield Term(
        name="usd_total",
        value=f"{total}",
        unit="USD",
        formula=f"sum of the cost lines: {hours.total:.6g} h x {row.instance_count} instances x {unit_price(row.offer.price.amount)} USD/h",
        source="cost lines",
    )
    yield Term(
        name="usd_per_epoch",
        value=f"{money(row.cost.usd_per_epoch.amount)}",
        unit="USD",
        formula=f"{total} USD / {row.epochs:g} epochs",
        source="cost lines",
    )
