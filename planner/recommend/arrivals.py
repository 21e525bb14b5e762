"""Layouts under a stated load of requests that come at random: how many copies keep the limits, and the latencies with that many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.perf.model import (
    Evaluation,
    Infeasible,
    Latencies,
    LateTerms,
    Outcome,
    Percentiles,
    Performance,
    RejectionReason,
    UnderLoad,
)
from planner.recommend.model import Serving, Sized
from planner.recommend.sizing import Load, groups_for

if TYPE_CHECKING:
    from planner.perf.arrivals import Loaded


def under_load(outcomes: Sequence[Outcome], load: Load, *, copies: int | None = None) -> list[Outcome]:
    """Return evaluations with their latencies at the load (its peak) shared by as many copies as it takes, or by `copies`.

    As they are: what cannot be, what no queue is known of, and all without a load. Each of them is worked out once, all in one pass.
    """
    rate = load.requests_per_s
    places = [i for i, o in enumerate(outcomes) if isinstance(o, Evaluation) and o.arrivals is not None]
    if rate is None or not places:
        return list(outcomes)
    from planner.perf import arrivals  # noqa: PLC0415 - loads NumPy only when something is evaluated

    found = [o for o in (outcomes[i] for i in places) if isinstance(o, Evaluation)]
    arrivals.most_known([(e.arrivals, 1.0) for e in found if e.arrivals is not None])
    out = list(outcomes)
    sized: list[tuple[int, Evaluation, float]] = []
    for place, e in zip(places, found, strict=True):
        number = groups_for(load, e) if copies is None else copies
        if number is None:
            why = f"no number of copies keeps the latency limits when {rate:g} requests/s come at random"
            out[place] = Infeasible(reason=RejectionReason.SLO_INFEASIBLE, detail=why)
        else:
            sized.append((place, e, rate / number))
    cases = [(e.arrivals, each, 1.0) for _, e, each in sized if e.arrivals is not None]
    for (place, e, each), at in zip(sized, arrivals.under_load(cases), strict=True):
        out[place] = with_latencies(e, each, at)
    return out


def ends_known(rows: Sequence[Sized]) -> None:
    """Find the most within the limits at both ends of the rates of rows with a load in one pass."""
    sized = [r.evaluation for r in rows if isinstance(r, Serving) and r.peak_per_s is not None]
    arrivals = [(e.arrivals, e.performance) for e in sized if e.arrivals is not None]
    if arrivals:
        from planner.perf.arrivals import most_known  # noqa: PLC0415 - as above

        most_known([(a, f) for a, p in arrivals for f in (p.low_factor, p.high_factor)])


def with_latencies(evaluation: Evaluation, rate_per_s: float, at: Loaded) -> Evaluation:
    """Return the evaluation with the latencies of a load."""
    p, latencies = evaluation.performance, at.latencies
    performance = replace(
        p,
        ttft_ms=None if latencies is None else latencies.ttft_ms,
        tpot_ms=None if latencies is None else latencies.tpot_ms,
        e2e_ms=None if latencies is None else latencies.e2e_ms,
        terms=LateTerms(lambda: (*p.terms, *at.terms)),
        under_load=UnderLoad(requests_per_s=rate_per_s, utilisation=at.utilisation, waiting=at.waiting),
    )
    return replace(evaluation, performance=performance)


def latency_ends(evaluation: Evaluation) -> tuple[Latencies | None, Latencies | None]:
    """Return the latencies at p10 and p90, where rates are at p90 and p10; under a load those of the queue at that speed, None without end."""
    p, load = evaluation.performance, evaluation.performance.under_load
    if load is None or evaluation.arrivals is None:
        return _divided(p, p.high_factor), _divided(p, p.low_factor)
    from planner.perf import arrivals  # noqa: PLC0415 - as above

    cases = [(evaluation.arrivals, load.requests_per_s, f) for f in (p.high_factor, p.low_factor)]
    low, high = arrivals.under_load(cases)
    return low.latencies, high.latencies


def _divided(performance: Performance, factor: float) -> Latencies:
    def at(p: Percentiles | None) -> Percentiles | None:
        return None if p is None else Percentiles(p50=p.p50 / factor, p99=p.p99 / factor)

    return Latencies(ttft_ms=at(performance.ttft_ms), tpot_ms=at(performance.tpot_ms), e2e_ms=at(performance.e2e_ms))
