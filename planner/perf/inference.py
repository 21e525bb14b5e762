"""The best way to serve a model on each hardware: precision x tensor parallelism x concurrency, under memory and latency limits.

Whole catalogs are evaluated at once: hardware that is equal is evaluated once, and every (format, degree) is one array over
hardware x concurrency. Best for throughput = highest requests/s of the instance; for latency = lowest end-to-end time at p99, then
lowest time to the first token (few in flight, a wide replica). Ties go to fewer devices a replica, then to the wider format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec
from planner.perf import engines, llm
from planner.perf.latency import Latency, Load, Moments, moments_of, quantile_of
from planner.perf.llm_report import evaluation_of
from planner.perf.memory import (
    GIB,
    LOGIT_BYTES,
    activation_bytes,
    available_gib,
    chunk_tokens,
    device_weights,
    kv_bytes_per_request,
    reserve_gib,
)
from planner.perf.model import Hardware, Infeasible, InferenceWork, Outcome
from planner.perf.operating_point import Point
from planner.perf.precision import BITS_PER_WEIGHT, KV_BITS
from planner.perf.samples import evaluate_samples
from planner.perf.serving_candidates import Candidate, candidates_of, machine_of, why_too_long
from planner.perf.serving_refusals import main_reason, out_of_memory, too_slow
from pricing.model import AcceleratorKind

Array = npt.NDArray[np.float64]

CONCURRENCIES = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024)


PLATEAU = 0.01
"""Throughput that is given up for the smaller concurrency."""
SAME = 1e-9
"""Relative difference below which two layouts are equally good."""


@dataclass(slots=True)
class Best:
    """The best operating point found so far for one hardware, and why others failed."""

    rank: tuple[float, ...] | None = None  # lower is better, compared figure by figure
    point: Point | None = None
    infeasible: list[Infeasible] = field(default_factory=list)

    def beaten_by(self, rank: tuple[float, ...]) -> bool:
        """Return whether a rank is better than the best so far in the first figure in which they differ."""
        if self.rank is None:
            return True
        for ours, theirs in zip(self.rank, rank, strict=True):
            if abs(theirs - ours) > SAME * abs(ours):
                return theirs < ours
        return False


def evaluate_inference(spec: ModelSpec, hardware: Sequence[Hardware], work: InferenceWork) -> list[Outcome]:
    """Return the best layout on each hardware, or why there is none, in the given order."""
    if not spec.generates_tokens:
        return evaluate_samples(spec, hardware, work)
    distinct: dict[tuple[object, ...], int] = {}
    places = [distinct.setdefault(_key(h), len(distinct)) for h in hardware]
    first: dict[int, Hardware] = {}
    for place, h in zip(places, hardware, strict=True):
        first.setdefault(place, h)
    outcomes = _evaluate_distinct(spec, [first[i] for i in range(len(distinct))], work)
    return [outcomes[place] for place in places]


def _key(h: Hardware) -> tuple[object, ...]:
    """Return what makes two hardwares serve alike (host CPU and network do not bear on one instance)."""
    host = (h.vcpus, h.host_memory_gib) if h.kind is AcceleratorKind.CPU else ()
    link = (h.interconnect_kind, h.interconnect_gb_s_bidirectional)
    speed = (h.memory_bandwidth_gb_s, *sorted(h.peak_tflops.items()))
    return (h.accelerator, h.kind, h.devices, h.fraction, h.memory_visible_gib, *speed, *link, *host)


def _evaluate_distinct(spec: ModelSpec, hardware: Sequence[Hardware], work: InferenceWork) -> list[Outcome]:
    best = [Best() for _ in hardware]
    too_long = why_too_long(spec, work)
    groups: dict[tuple[str, str, int, int, bool], list[Candidate]] = {}
    for row, h in enumerate(hardware):
        found = [too_long] if too_long else candidates_of(spec, row, h, work)
        for item in found:
            if isinstance(item, Infeasible):
                best[row].infeasible.append(item)
            else:
                key = (item.form.weights, item.kv_precision, item.tp, KV_BITS[item.kv_precision], item.form.native)
                groups.setdefault(key, []).append(item)
    for _, members in sorted(
        groups.items(), key=lambda pair: (pair[0][2], -BITS_PER_WEIGHT.get(pair[0][0], 0.0), *pair[0][:2], pair[0][4])
    ):
        _evaluate_group(spec, members, work, best)
    return [evaluation_of(spec, b.point, work) if b.point else main_reason(b.infeasible) for b in best]


def _evaluate_group(spec: ModelSpec, members: list[Candidate], work: InferenceWork, best: list[Best]) -> None:
    """Evaluate all hardware of one format and degree over all concurrencies; keep each one's best point."""
    tp, form = members[0].tp, members[0].form
    kv_bits = KV_BITS[members[0].kv_precision]
    weights = device_weights(spec, form, tp)
    request = (
        kv_bytes_per_request(spec, work.input_tokens, work.output_tokens, kv_bits, tp) + spec.vocab_size * LOGIT_BYTES
    )
    fitting, rooms = [], []
    for c in members:
        fixed = weights.total + activation_bytes(spec, chunk_tokens(c.hardware), tp) + reserve_gib(c.hardware, tp) * GIB
        wanted = work.max_concurrency or 1
        left = available_gib(c.hardware) * GIB - fixed
        if left < wanted * request:
            best[c.row].infeasible.append(out_of_memory(c, fixed + wanted * request, wanted))
            continue
        fitting.append(c)
        rooms.append(wanted if work.max_concurrency else min(int(left / request), engines.MAX_SEQUENCES))
    if not fitting:
        return
    room = np.asarray(rooms, dtype=np.float64)[:, None]
    grid = np.minimum(np.asarray(CONCURRENCIES, dtype=np.float64)[None, :], room)
    if work.max_concurrency:
        grid = room
    concurrency = np.concatenate([grid, room], axis=1)
    machine = machine_of(fitting)
    shape = llm.shape_of(
        spec, form, kv_bits=kv_bits, tp=tp, input_tokens=work.input_tokens, output_tokens=work.output_tokens
    )
    chunk = np.asarray([chunk_tokens(c.hardware) for c in fitting], dtype=np.float64)[:, None]
    step_tokens = np.minimum(chunk, work.input_tokens * np.maximum(1.0, concurrency / work.output_tokens))
    decode = llm.decode_step(shape, machine, concurrency)
    prefill = llm.prefill_of(shape, machine, float(work.input_tokens), step_tokens)
    alone = llm.prefill_of(shape, machine, float(work.input_tokens), np.minimum(chunk, float(work.input_tokens))).total
    rate = llm.steady_requests_per_s(concurrency, work.output_tokens, decode.total, prefill.total)
    load = Load(
        concurrency=concurrency,
        input_tokens=float(work.input_tokens),
        output_tokens=float(work.output_tokens),
        step_tokens=np.broadcast_to(chunk, concurrency.shape),
        decode_s=decode.total,
        prefill_s=prefill.total,
        alone_s=np.broadcast_to(alone, concurrency.shape),
    )
    moments = moments_of(load)
    p50, p99 = quantile_of(moments, 0.5), quantile_of(moments, 0.99)
    allowed = _within_limits(moments, work)
    replicas = np.asarray([c.hardware.devices // tp for c in fitting], dtype=np.float64)[:, None]
    for_latency = work.objective == "latency"
    if for_latency:
        chosen = np.argmin(np.where(allowed, p99.e2e, np.inf), axis=1)
    else:
        score = np.where(allowed, rate * replicas, -1.0)
        # The smallest concurrency on the plateau: the last 1 % of throughput is not worth its latency.
        chosen = np.argmax(score >= score.max(axis=1, keepdims=True) * (1 - PLATEAU), axis=1)
    for i, c in enumerate(fitting):
        j = int(chosen[i])
        if not allowed[i, j]:
            best[c.row].infeasible.append(too_slow(c, moments, work, i))
            continue
        sustained = float(rate[i, j] * replicas[i, 0])
        rank = (float(p99.e2e[i, j]), float(p99.ttft[i, j]), float(tp)) if for_latency else (-sustained,)
        if not best[c.row].beaten_by(rank):
            continue
        best[c.row].rank = rank
        best[c.row].point = Point(
            candidate=c,
            weights=weights,
            shape=shape,
            machine=_row(machine, i),
            concurrency=int(concurrency[i, j]),
            replicas=c.hardware.devices // tp,
            decode=_cell(decode, i, j),
            prefill=_cell(prefill, i, j),
            alone_s=float(alone[i, 0]),
            step_tokens=float(step_tokens[i, j]),
            p50=Latency(ttft=p50.ttft[i, j], tpot=p50.tpot[i, j], e2e=p50.e2e[i, j]),
            p99=Latency(ttft=p99.ttft[i, j], tpot=p99.tpot[i, j], e2e=p99.e2e[i, j]),
        )


def _within_limits(moments: Moments, work: InferenceWork) -> npt.NDArray[np.bool_]:
    limits = work.limits
    at = quantile_of(moments, limits.percentile / 100)
    ok = np.ones(moments.ttft_mean.shape, dtype=np.bool_)
    if limits.ttft_ms is not None:
        ok &= at.ttft * 1e3 <= limits.ttft_ms
    if limits.tpot_ms is not None and work.output_tokens > 1:
        ok &= at.tpot * 1e3 <= limits.tpot_ms
    if limits.e2e_ms is not None:
        ok &= at.e2e * 1e3 <= limits.e2e_ms
    return ok


def _row(machine: llm.Machine, i: int) -> llm.Machine:
    return llm.Machine(**{name: getattr(machine, name)[i, 0] for name in llm.Machine.__slots__})


def _cell(step: llm.Step, i: int, j: int) -> llm.Step:
    return llm.Step(
        total=step.total[i, j],
        classes=step.classes[i, j],
        attention=step.attention[i, j],
        collectives=step.collectives[i, j],
        overhead=step.overhead[i, j],
    )
