"""Answers as plain JSON values in the field order of the contract, and the one way to turn them into bytes.

Money is a decimal string, a millionth of a dollar fine; what does not apply is null. Floats are rounded to 6 significant digits in
`to_json_bytes` and nowhere else; the request and the quantities of cost lines (`AS_WRITTEN`) are written as they are, so that they can be redone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from planner.models.spec import ModelSpec
from planner.perf.model import Evaluation, Latencies, Layout, MemoryFit, Percentiles, Performance, Rates, Term
from planner.ports import Document
from planner.recommend.arrivals import latency_ends
from planner.recommend.model import Offer, Run, Serving, Sized, Spread
from planner.recommend.rejections import RejectionGroup
from planner.recommend.request import EstimateRequest, RecommendRequest
from planner.tco.inference import compute_line, kwh_per_million_inferences
from planner.tco.model import CostLine
from planner.tco.training import kwh_total
from pricing.model import PurchaseOption, Quote, SnapshotMeta
from pricing.money import Usd, quantized

_quoted = json.encoder.encode_basestring
SIGNIFICANT_DIGITS = 6
LONGEST_QUOTE = 12  # decimals; price lists write ten at most
AS_WRITTEN = frozenset({"request", "quantity"})
STALE_AFTER_HOURS = {"spot": 24, "capacity_block": 24, "on_demand": 30 * 24, "commitment": 90 * 24}
"""By kind of price. An offered capacity block is of the moment; a published rate of blocks is set by the quarter and counts as a commitment."""
CLOCKS_DIFFER_HOURS = 1
KIND_OF_OPTION = {PurchaseOption.SPOT: "spot", PurchaseOption.ON_DEMAND: "on_demand"}

LAYOUT_FIELDS = (
    "engine", "engine_version", "precision", "kv_precision", "tensor_parallel", "pipeline_parallel", "expert_parallel", "data_parallel", "replicas_per_instance",
    "max_concurrency", "batch", "method", "micro_batch", "accumulation", "checkpointing", "sharding", "speculative_tokens",
)  # fmt: skip
COST_FIELDS = (
    "usd_per_hour", "usd_per_million_inferences", "usd_per_million_total_tokens", "usd_per_million_input_tokens", "usd_per_million_output_tokens",
    "usd_per_epoch", "usd_total", "usd_per_month",
)  # fmt: skip
ROW_FIELDS = (
    "rank", "provider", "instance_type", "region", "availability_zone_id", "purchase_option", "purchase", "price", "instance_count", "accelerator",
    "accelerators_per_instance", "layout", "memory", "performance", "cost", "time", "energy", "pareto", "notes", "explanation",
)  # fmt: skip


def to_json_bytes(document: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Return the one serialisation of an answer: UTF-8 JSON, indent 2, floats at 6 significant digits, a newline at the end.

    The bytes are those of `json.dumps` with indent 2, in one pass with the rounding: the standard encoder makes an indent only in
    Python and takes three times as long over a list of 20,000 prices.
    """
    return (_json(document, "\n", exact=False) + "\n").encode()


def _json(value: Any, newline: str, *, exact: bool) -> str:
    """Return one value as JSON; `newline` is the line break with the indent of where it stands, `exact` leaves floats as they are."""
    kind = type(value)
    if kind is dict or isinstance(value, Mapping):
        if not value:
            return "{}"
        inner = newline + "  "
        parts = [
            f"{_quoted(key)}: {_quoted(each) if type(each) is str else 'null' if each is None else _json(each, inner, exact=exact or key in AS_WRITTEN)}"
            for key, each in value.items()
        ]
        return f"{{{inner}{f',{inner}'.join(parts)}{newline}}}"
    if kind is list or kind is tuple:
        if not value:
            return "[]"
        inner = newline + "  "
        return f"[{inner}{f',{inner}'.join([_json(each, inner, exact=exact) for each in value])}{newline}]"
    if kind is int:
        return repr(value)
    if kind is float and not exact:
        value = float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def money(amount: Decimal | None) -> str | None:
    """Return USD as a decimal string to a millionth, without an exponent; None stays None."""
    return None if amount is None else str(Usd(amount).rounded())


def unit_price(amount: Decimal | None) -> str | None:
    """Return a price as it was quoted, exact, without an exponent; a quotient without end (upfront over hours) to 12 decimals."""
    if amount is None:
        return None
    exponent = amount.as_tuple().exponent
    endless = isinstance(exponent, int) and exponent < -LONGEST_QUOTE
    return f"{quantized(amount, Decimal(1).scaleb(-LONGEST_QUOTE)) if endless else amount:f}"


def instant(at: datetime) -> str:
    """Return an ISO 8601 instant in UTC."""
    return at.isoformat().replace("+00:00", "Z")


def kind_of(quote: Quote) -> str:
    """Return which staleness limit a quote falls under."""
    if quote.purchase_option is PurchaseOption.CAPACITY_BLOCK and quote.sku is not None and quote.upfront is not None:
        return "capacity_block"  # an offering: it has an id and the fee of the whole block
    return KIND_OF_OPTION.get(quote.purchase_option, "commitment")


def age_hours(at: datetime, now: datetime) -> int:
    """Return whole hours from `at` to `now`, not negative."""
    return max(0, int((now - at).total_seconds() // 3600))


def after_clock(at: datetime, now: datetime) -> bool:
    """Return whether a figure is dated after the present, by more than clocks differ: then its age is not known, and it is called stale."""
    return (at - now).total_seconds() > 3600 * CLOCKS_DIFFER_HOURS


def age_fields(at: datetime, now: datetime, kind: str) -> Document:
    """Return the age of a price in whole hours, whether that is too old for its kind, and whether it is dated after the clock."""
    age, ahead = age_hours(at, now), after_clock(at, now)
    return {"age_hours": age, "stale": ahead or age > STALE_AFTER_HOURS[kind], "after_clock": ahead}


def clock_notes(quote: Quote, now: datetime) -> list[str]:
    """Return the note of a row whose price is dated after the clock; none otherwise."""
    if not after_clock(quote.retrieved_at, now):
        return []
    return [
        f"the price is dated {quote.retrieved_at.date().isoformat()}, after this machine's clock ({now.date().isoformat()}), so its age is not known: check the clock"
    ]


def defaults_of(request: RecommendRequest | EstimateRequest, spec: ModelSpec) -> list[Document]:
    """Return what stands for a number format that the request leaves open, in the form of assumptions."""
    out: list[Document] = []
    if request.precision is None:
        own = f"{spec.quantization.method}, as the checkpoint is stored" if spec.quantization else spec.native_dtype
        why = "the checkpoint's own format; fp16 where the chip has no bf16"
        out.append({"name": "precision", "value": own, "unit": "", "source": why})
    if request.kv_precision is None and request.mode == "inference" and spec.generates_tokens:
        out.append({"name": "kv_precision", "value": "16-bit", "unit": "", "source": "engines' default"})
    return out


def prices_document(meta: SnapshotMeta, quotes: Iterable[Quote], now: datetime) -> Document:
    """Return the snapshot and the age of every source among the quotes that were considered; ages are whole hours of the newest figure.

    `as_of` is the newest on-demand figure that was considered (of any option where no on-demand one was), not the newest in the snapshot.
    """
    groups: dict[tuple[str, str], list[datetime]] = {}
    for quote in quotes:
        groups.setdefault((kind_of(quote), quote.source), []).append(quote.retrieved_at)
    sources = []
    for (kind, source), days in sorted(groups.items()):
        newest, oldest = max(days), min(days)
        sources.append(
            {
                "source": source,
                "kind": kind,
                "as_of": instant(newest),
                "oldest_as_of": instant(oldest),
                **age_fields(newest, now, kind),
                "quotes": len(days),
            }
        )
    considered = [max(days) for (kind, _), days in groups.items() if kind == "on_demand"] or [
        max(d) for d in groups.values()
    ]
    as_of = max(considered, default=meta.as_of)
    return {"snapshot_id": meta.snapshot_id, "as_of": instant(as_of), "origin": meta.origin, "sources": sources}


def model_document(spec: ModelSpec, asked: str | None, *, tokens: tuple[int, int]) -> Document:
    """Return what the request's model became, and what one inference of it is (`tokens`: input and output of a request)."""
    one = f"one request of {tokens[0]} input and {tokens[1]} output tokens" if spec.generates_tokens else None
    return {
        "name": spec.name,
        "alias": asked if asked is not None and asked.lower() in {a.lower() for a in spec.aliases} else None,
        "architecture": spec.architecture,
        "kind": spec.kind.value,
        "parameters_total": spec.parameters_total,
        "parameters_active": spec.parameters_active,
        "native_dtype": spec.native_dtype,
        "max_context": spec.max_context,
        "one_inference": one if spec.sample is None else spec.sample.description,
        "source": spec.source,
        "assumptions": list(spec.assumptions),
    }


def row_document(
    row: Sized,
    *,
    rank: int | None,
    low: Spread,
    high: Spread,
    pue: float,
    now: datetime,
    pareto: bool | None,
    notes: Sequence[str],
    explanation: Sequence[Term] | None,
) -> Document:
    """Return one recommendation with every field of the contract."""
    evaluation = row.evaluation
    copies = row.groups if isinstance(row, Serving) else 1
    instance = row.offer.instance
    chips = instance.accelerators_per_instance
    document: Document = dict.fromkeys(ROW_FIELDS)
    document |= {
        "rank": rank,
        **offer_fields(row.offer, now),
        "instance_count": row.instance_count,
        "accelerator": instance.accelerator,
        "accelerators_per_instance": None if chips is None else whole(chips),
        "layout": layout_document(evaluation.layout),
        "memory": memory_document(evaluation.memory),
        "performance": performance_document(
            evaluation, copies, served_per_s=row.served_per_s if isinstance(row, Serving) else None
        ),
        "cost": cost_document(row, low, high),
        "time": {
            "hours_per_epoch": row.hours.total / row.epochs if isinstance(row, Run) else None,
            "hours_total": row.hours.total if isinstance(row, Run) else None,
        },
        "energy": energy_document(row, pue),
        "pareto": pareto,
        "notes": [*notes, *clock_notes(row.offer.quote, now)],
    }
    return finished(document, explanation)


def finished(document: Document, explanation: Sequence[Term] | None) -> Document:
    """Return a row with its explanation, or without the field when none was asked."""
    if explanation is None:
        del document["explanation"]
    else:
        document["explanation"] = [term_document(t) for t in explanation]
    return document


def term_document(term: Term) -> Document:
    """Return one line of an explanation; a whole number is written in full."""
    value = int(term.value) if isinstance(term.value, float) and term.value.is_integer() else term.value
    return {"name": term.name, "value": value, "unit": term.unit, "formula": term.formula, "source": term.source}


def offer_fields(offer: Offer, now: datetime) -> Document:
    """Return who sells it, where, how, and the price that was picked."""
    quote = offer.quote
    return {
        "provider": quote.provider,
        "instance_type": quote.instance_type,
        "region": quote.region,
        "availability_zone_id": quote.availability_zone_id,
        "purchase_option": quote.purchase_option.value,
        "purchase": {
            "plan_type": quote.plan_type,
            "payment_option": quote.payment_option,
            "offering_class": quote.offering_class,
            "term_years": quote.term_years,
        },
        "price": {
            "usd_per_instance_hour": unit_price(quote.effective_unit_price),
            "as_of": instant(quote.retrieved_at),
            **age_fields(quote.retrieved_at, now, kind_of(quote)),
            "derived": quote.derived,
            "confidence": quote.confidence,
            "sku": quote.sku,
            "rate_code": quote.rate_code,
            "source": quote.source,
        },
    }


def layout_document(layout: Layout) -> Document:
    """Return the layout in the order of the contract."""
    return {name: getattr(layout, name) for name in LAYOUT_FIELDS}


def memory_document(memory: MemoryFit) -> Document:
    """Return GiB per accelerator: required, available, and the lines that add up to the first."""
    return {
        "required_gib_per_accelerator": memory.required_gib_per_accelerator,
        "available_gib_per_accelerator": memory.available_gib_per_accelerator,
        "lines": [{"name": line.name, "gib": line.gib, "note": line.note} for line in memory.lines],
        "max_concurrency_at_context": memory.max_concurrency_at_context,
        "max_context_tokens": memory.max_context_tokens,
        "max_context_tokens_of_one": memory.max_context_tokens_of_one,
        "max_batch_at_size": memory.max_batch_at_size,
        "max_size": memory.max_size,
        "max_size_of_one": memory.max_size_of_one,
        "max_micro_batch": memory.max_micro_batch,
        "max_sequence_tokens": memory.max_sequence_tokens,
        "max_sequence_tokens_of_one": memory.max_sequence_tokens_of_one,
        "available_is": memory.available_is,
    }


def performance_document(evaluation: Evaluation, copies: int, *, served_per_s: float | None) -> Document:
    """Return the rates of all instances together, and the same fields at p10 (`low`) and p90 (`high`)."""
    performance, (low, high) = evaluation.performance, latency_ends(evaluation)
    expected = performance.rates.scaled(copies)
    return {
        "basis": performance.basis.value,
        **_rates(expected, serving=served_per_s is not None),
        **_latencies(performance),
        "at_requests_per_s": served_per_s,
        "mfu_fraction": performance.mfu_fraction,
        "low": _at(performance, expected, performance.low_factor, low, serving=served_per_s is not None),
        "high": _at(performance, expected, performance.high_factor, high, serving=served_per_s is not None),
        "sources": list(performance.sources),
    }


def _at(
    performance: Performance, expected: Rates, factor: float, latencies: Latencies | None, *, serving: bool
) -> Document:
    mfu = performance.mfu_fraction
    return {
        **_rates(expected.scaled(factor), serving=serving),
        **_latencies(latencies),
        "mfu_fraction": None if mfu is None else min(1.0, mfu * factor),
    }


def _rates(rates: Rates, *, serving: bool) -> Document:
    requests = rates.requests_per_s
    if requests is None and serving:  # one inference is one sample
        requests = rates.samples_per_s
    return {
        "requests_per_s": requests,
        "output_tokens_per_s": rates.output_tokens_per_s,
        "total_tokens_per_s": rates.total_tokens_per_s,
        "samples_per_s": rates.samples_per_s,
    }


def _latencies(of: Performance | Latencies | None) -> Document:
    def at(p: Percentiles | None) -> Document:
        return {"p50": None if p is None else p.p50, "p99": None if p is None else p.p99}

    return {name: at(None if of is None else getattr(of, name)) for name in ("ttft_ms", "tpot_ms", "e2e_ms")}


def cost_document(row: Sized, low: Spread, high: Spread) -> Document:
    """Return the costs; the lines are those of an hour of serving, or of the whole run."""
    out: Document = dict.fromkeys(COST_FIELDS)
    cost = row.cost
    for name in COST_FIELDS:
        value = getattr(cost, name, None)
        out[name] = None if value is None else money(value.amount)
    out["low"] = spread_document(low)
    out["high"] = spread_document(high)
    out["lines"] = [line_document(line) for line in cost.lines]
    return out


def spread_document(spread: Spread) -> Document:
    """Return the costs at one end; null where nothing is uncertain."""
    return {name: money(getattr(spread, name)) for name in COST_FIELDS}


def line_document(line: CostLine) -> Document:
    """Return one cost line: quantity x unit price = usd."""
    return {
        "name": line.name,
        "quantity": int(line.quantity) if line.quantity == line.quantity.to_integral_value() else float(line.quantity),
        "unit": line.unit,
        "unit_price": unit_price(line.unit_price),
        "usd": money(line.usd.amount),
        "source": line.source,
    }


def energy_document(row: Sized, pue: float) -> Document:
    """Return kWh at the meter of the accelerators under load, power usage effectiveness included."""
    power = row.evaluation.performance.power_w
    if isinstance(row, Serving):
        return energy_fields(power, row.groups, row.served_per_s, pue)
    total = None if power is None else kwh_total(power_w=power, pue=pue, hours=row.hours)
    return {"kwh_per_million_inferences": None, "kwh_total": total, "pue": None if power is None else pue}


def energy_fields(power_w: float | None, copies: int, served_per_s: float | None, pue: float) -> Document:
    """Return the energy of serving; null where power or load is not known."""
    per_million = None
    if power_w is not None and served_per_s is not None:
        per_million = kwh_per_million_inferences(power_w=power_w * copies, pue=pue, served_per_s=served_per_s)
    return {"kwh_per_million_inferences": per_million, "kwh_total": None, "pue": None if power_w is None else pue}


def unpriced_row(evaluation: Evaluation) -> Document:
    """Return the fields of a layout that has no price: cost is null."""
    document: Document = dict.fromkeys(ROW_FIELDS)
    document |= {
        "purchase": dict.fromkeys(("plan_type", "payment_option", "offering_class", "term_years")),
        "layout": layout_document(evaluation.layout),
        "memory": memory_document(evaluation.memory),
        "time": {"hours_per_epoch": None, "hours_total": None},
        "notes": list(evaluation.notes),
    }
    return document


def hourly_only(offer: Offer, instances: int) -> Document:
    """Return the cost of an hour when the amount of work is not known; every other figure is null."""
    line = compute_line(price=offer.price, instances=instances, source="price of the row")
    out: Document = dict.fromkeys(COST_FIELDS)
    out["usd_per_hour"] = money(line.usd.amount)
    return out | {"low": spread_document(Spread()), "high": spread_document(Spread()), "lines": [line_document(line)]}


def rejection_document(group: RejectionGroup) -> Document:
    """Return one group of rejections."""
    return {
        "provider": group.provider,
        "instance_type": group.instance_type,
        "reason": group.reason,
        "regions": list(group.regions),
        "purchase_options": list(group.purchase_options),
        "count": group.count,
        "detail": group.detail,
    }


def whole(number: float) -> float | int:
    """Return 8 for 8.0 and 0.125 for 0.125."""
    return int(number) if float(number).is_integer() else number
