"""A modelled evaluation with what was measured near it: rates and latencies by one factor, a narrower interval, sources and terms.

Requests in flight / rate is the time of a request (Little's law), so a layout that is so much faster at the same concurrency has so
much shorter latencies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.perf.arrivals import Arrivals
from planner.perf.evidence import Conditions, Correction, width_of
from planner.perf.model import Basis, Evaluation, InferenceWork, Layout, Percentiles, Performance, Term, TrainingWork

NEAR = 0.25
"""Least sum of weights at which measurements are said to answer a request; below, the model does alone."""
MOST_SHOWN = 3
GENERATION_SINCE = 2025


def is_near(correction: Correction | None) -> bool:
    """Return whether measurements are near enough to answer."""
    return correction is not None and sum(used.weight for used in correction.used) >= NEAR


def serving_conditions(layout: Layout, work: InferenceWork, source: str) -> Conditions:
    """Return the conditions of a serving layout as rows state theirs; engines are of today's generation."""
    return Conditions(
        words={
            "source": source,
            "engine": layout.engine or "",
            "generation": f"{layout.engine} since {GENERATION_SINCE}",
            "precision": width_of(layout.precision),
            "load": "served",
        },
        numbers=_positive(
            tensor_parallel=layout.tensor_parallel,
            input_tokens=work.input_tokens,
            output_tokens=work.output_tokens,
            concurrency=layout.max_concurrency,
        ),
    )


def sample_conditions(layout: Layout, size: int | None, accelerators: int, source: str) -> Conditions:
    """Return the conditions of a layout that is counted in samples."""
    return Conditions(
        words={"source": source, "engine": layout.engine or "", "precision": width_of(layout.precision)},
        numbers=_positive(batch=layout.batch, size=size, accelerators=accelerators),
    )


def training_conditions(layout: Layout, work: TrainingWork, accelerators: int, source: str) -> Conditions:
    """Return the conditions of a training layout."""
    return Conditions(
        words={"source": source, "precision": width_of(layout.precision), "method": layout.method or ""},
        numbers=_positive(
            accelerators=accelerators, sequence_tokens=work.sequence_length, micro_batch=layout.micro_batch
        ),
    )


def carried(evaluation: Evaluation, correction: Correction, basis: Basis, cited: Mapping[str, str]) -> Evaluation:
    """Return the evaluation with measured rows carried over; `cited` has a line for each row id."""
    p, factor, power = evaluation.performance, correction.factor, correction.interval_power
    shown = [used for used in correction.used if used.row_id in cited][:MOST_SHOWN]
    sources = tuple(f"{basis.value}: {cited[used.row_id]}" for used in shown)
    terms = [
        Term(
            name="evidence_factor",
            value=factor,
            unit="x modelled rate",
            formula=f"exp(sum of weight x log(measured / model)) over {len(correction.used)} rows of this model and accelerator; "
            f"{correction.left_fraction:.0%} of the model's variance is left",
            source="methodology: use of evidence",
        ),
        *(
            Term(
                name=f"evidence_{number}",
                value=used.weight,
                unit="weight",
                formula=f"measured / model there = {2.718281828459045**used.log_ratio:.3g}; its conditions differ by {used.distance:.2g} (log)",
                source=f"row {used.row_id}: {cited[used.row_id]}",
            )
            for number, used in enumerate(shown, start=1)
        ),
    ]
    performance = replace(
        faster(p, factor),
        basis=basis,
        low_factor=p.low_factor**power,
        high_factor=p.high_factor**power,
        sources=(*sources, *p.sources),
        terms=(*p.terms, *terms),
    )
    return replace(evaluation, performance=performance, arrivals=sped_up(evaluation.arrivals, factor))


def faster(performance: Performance, factor: float) -> Performance:
    """Return the same work at another speed: rates and utilisation times `factor`, latencies divided by it."""

    def quicker(p: Percentiles | None) -> Percentiles | None:
        return None if p is None else Percentiles(p50=p.p50 / factor, p99=p.p99 / factor)

    mfu = performance.mfu_fraction
    return replace(
        performance,
        rates=performance.rates.scaled(factor),
        ttft_ms=quicker(performance.ttft_ms),
        tpot_ms=quicker(performance.tpot_ms),
        e2e_ms=quicker(performance.e2e_ms),
        mfu_fraction=None if mfu is None else min(1.0, mfu * factor),
    )


def sped_up(arrivals: Arrivals | None, factor: float) -> Arrivals | None:
    """Return what random arrivals find at another speed."""
    return None if arrivals is None else arrivals.faster(factor)


def width(performance: Performance) -> float:
    """Return how wide the interval of a performance is: high over low."""
    return performance.high_factor / performance.low_factor


def latency_of(performance: Performance) -> Sequence[Percentiles | None]:
    """Return the latencies that limits may be set on: TTFT, TPOT, end to end."""
    return (performance.ttft_ms, performance.tpot_ms, performance.e2e_ms)


def _positive(**numbers: float | None) -> dict[str, float]:
    return {name: float(number) for name, number in numbers.items() if number is not None and number > 0}
