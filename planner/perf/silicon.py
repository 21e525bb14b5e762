"""Serving from measured operator times: what a table of step times says of one replica, corrected by what whole servers measured.

A table tells the time of a decode step of B requests and of a prompt's share of the steps that carry it; the arithmetic from there to
rates and latencies is that of `llm` and `latency`. Both times are multiplied by fitted factors (`tables/parameters_silicon.json`), which
deviate by engine, chip and precision: tables time operators one by one, and servers do more than that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec
from planner.perf.intervals import NEW_SOURCE, multiples_of
from planner.perf.latency import Load, moments_of, quantile_of
from planner.perf.llm import steady_requests_per_s
from planner.perf.model import Basis, Evaluation, Percentiles, Rates, Term
from planner.perf.parameters import Link, Parameters, Slot

Array = npt.NDArray[np.float64]

GENERATION_SINCE = 2025
DECODE, PREFILL, OVERHEAD = "decode_factor", "prefill_factor", "step_overhead_ms"
LEVELS = dict.fromkeys(("generation", "accelerator", "precision", "parallelism", "source", "group"), 0.2)
SLOTS = (
    Slot(name=DECODE, unit="x decode step of the tables", link=Link.LOG, start=1.1, start_sd=0.3, levels=LEVELS),
    Slot(name=PREFILL, unit="x prompt time of the tables", link=Link.LOG, start=1.1, start_sd=0.3, levels=LEVELS),
    Slot(
        name=OVERHEAD,
        unit="ms a decode step, beside its operators",
        link=Link.LOG,
        start=1.5,
        start_sd=1.0,
        levels={"generation": 0.5, "source": 0.5},
    ),
)
"""What is fitted, and at which levels it deviates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One replica at one operating point: what a table of step times is asked."""

    spec: ModelSpec
    accelerator: str  # canonical name
    engine: str
    precision: str
    kv_precision: str
    tensor_parallel: int
    expert_parallel: bool
    input_tokens: int
    output_tokens: int
    concurrency: int
    step_tokens: int  # most prompt tokens in one step


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Seconds of one replica: a decode step at mean context, the accelerator time of one prompt beside it, one prompt alone."""

    decode_s: float
    prefill_s: float
    alone_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What one replica sustains, from step times."""

    rates: Rates
    ttft_ms: Percentiles
    tpot_ms: Percentiles | None
    e2e_ms: Percentiles
    prefill_time_fraction: float


def corrected(times: StepTimes, *, decode: float, prefill: float, overhead_ms: float = 0.0) -> StepTimes:
    """Return step times multiplied by the factors of decode steps and of prompts, and what a step takes beside its operators."""
    return StepTimes(
        decode_s=times.decode_s * decode + overhead_ms / 1e3,
        prefill_s=times.prefill_s * prefill,
        alone_s=times.alone_s * prefill,
    )


def served(times: StepTimes, question: Question) -> Served:
    """Return rates and latencies of one replica that keeps `concurrency` requests in flight."""

    def array(value: float) -> Array:
        return np.asarray([value], dtype=np.float64)

    q, out = question, question.output_tokens
    rate = float(steady_requests_per_s(array(q.concurrency), out, array(times.decode_s), array(times.prefill_s))[0])
    moments = moments_of(
        Load(
            concurrency=array(q.concurrency),
            input_tokens=float(q.input_tokens),
            output_tokens=float(out),
            step_tokens=array(q.step_tokens),
            decode_s=array(times.decode_s),
            prefill_s=array(times.prefill_s),
            alone_s=array(times.alone_s),
        )
    )
    p50, p99 = quantile_of(moments, 0.5), quantile_of(moments, 0.99)

    def both(name: str) -> Percentiles:
        return Percentiles(p50=float(getattr(p50, name)[0]) * 1e3, p99=float(getattr(p99, name)[0]) * 1e3)

    return Served(
        rates=Rates(
            requests_per_s=rate,
            output_tokens_per_s=rate * out,
            total_tokens_per_s=rate * (out + q.input_tokens),
        ),
        ttft_ms=both("ttft"),
        tpot_ms=None if out <= 1 else both("tpot"),
        e2e_ms=both("e2e"),
        prefill_time_fraction=rate * times.prefill_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """What fitted parameters make of the tables' step times, and the spread of log(measured / predicted) that is left."""

    decode: float
    prefill: float
    overhead_ms: float
    sd: float


def factors_of(question: Question, parameters: Parameters) -> Factors:
    """Return the fitted factors for a layout, as of no source."""
    keys = {name: [key] for name, key in keys_of(question).items()} | {"source": [""], "group": [""]}
    values = parameters.values(keys, 1)[0]
    variances = parameters.variances(keys, 1)[0]
    both = [parameters.index(DECODE), parameters.index(PREFILL)]
    return Factors(
        decode=float(values[both[0]]),
        prefill=float(values[both[1]]),
        overhead_ms=float(values[parameters.index(OVERHEAD)]),
        sd=float(np.sqrt(np.max(variances[both]) + parameters.noise_sd**2)),
    )


def keys_of(question: Question, generation: str | None = None) -> dict[str, str]:
    """Return the keys at which the factors deviate; `generation` of the engine, today's by default."""
    q = question
    return {
        "generation": generation or f"{q.engine} since {GENERATION_SINCE}",
        "accelerator": q.accelerator,
        "precision": q.precision,
        "parallelism": "one" if q.tensor_parallel == 1 else "several",
    }


def timed(
    evaluation: Evaluation, question: Question, times: StepTimes, source: str, parameters: Parameters
) -> Evaluation:
    """Return the evaluation with rates, latencies and interval from measured operators, corrected by the fitted factors."""
    p, layout = evaluation.performance, evaluation.layout
    f = factors_of(question, parameters)
    one = served(corrected(times, decode=f.decode, prefill=f.prefill, overhead_ms=f.overhead_ms), question)
    rates = one.rates.scaled(layout.replicas_per_instance or 1)
    ratio = (rates.requests_per_s or 0.0) / (p.rates.requests_per_s or 1.0)
    low, high = multiples_of(parameters, [NEW_SOURCE])
    terms = (
        Term(
            name="silicon_decode_step",
            value=times.decode_s * 1e3,
            unit="ms",
            formula=f"{question.concurrency} requests at mean context, TP {question.tensor_parallel}; x {f.decode:.3g} + {f.overhead_ms:.3g} ms as servers measured",
            source=source,
        ),
        Term(
            name="silicon_prefill",
            value=times.prefill_s * 1e3,
            unit="ms per prompt",
            formula=f"share of a full step of {question.step_tokens} tokens; x {f.prefill:.3g} as servers measured",
            source=source,
        ),
        Term(
            name="silicon_factor",
            value=ratio,
            unit="x modelled rate",
            formula="B / (OSL x decode step + B x prefill) of the corrected times over that of the model",
            source="methodology: use of evidence",
        ),
    )
    performance = replace(
        p,
        basis=Basis.SILICON,
        rates=rates,
        low_factor=float(np.exp(low[0] * f.sd)),
        high_factor=float(np.exp(high[0] * f.sd)),
        ttft_ms=one.ttft_ms,
        tpot_ms=one.tpot_ms,
        e2e_ms=one.e2e_ms,
        mfu_fraction=None if p.mfu_fraction is None else min(1.0, p.mfu_fraction * ratio),
        prefill_time_fraction=one.prefill_time_fraction,
        sources=(f"silicon: {source}", *p.sources),
        terms=(*p.terms, *terms),
    )
    arrivals = None if evaluation.arrivals is None else evaluation.arrivals.faster(ratio)
    return replace(evaluation, performance=performance, arrivals=arrivals)
