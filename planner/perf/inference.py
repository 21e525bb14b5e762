"""The best way to serve a model on each hardware: precision x split over devices x concurrency, under memory and latency limits.

Whole catalogs are evaluated at once: hardware that is equal is evaluated once, and all candidates (hardware x format x split) are the
rows of one array pass over concurrency. Best for throughput = highest requests/s per instance; for latency = lowest end-to-end time at
p99, then lowest time to the first token (few in flight, a wide replica). Ties go to fewer devices a replica, then to the wider format.
What fits no single machine is tried on several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec
from planner.perf import llm
from planner.perf.latency import Latency, Load, Moments, moments_of, quantile_of
from planner.perf.llm_report import evaluation_of
from planner.perf.model import Hardware, Infeasible, InferenceWork, Outcome, RejectionReason
from planner.perf.open_loop import replica_at, sustained_rates
from planner.perf.operating_point import Point
from planner.perf.parameters import Parameters, shipped
from planner.perf.precision import BITS_PER_WEIGHT
from planner.perf.samples import evaluate_samples
from planner.perf.serving_candidates import Candidate, candidates_of, machine_of, why_too_long
from planner.perf.serving_interval import factors_of
from planner.perf.serving_parameters import LEVELS, WORKLOAD, mixes, runtime_of
from planner.perf.serving_refusals import main_reason, out_of_memory, too_slow
from planner.perf.serving_room import Plan, Plans
from planner.perf.spans import networked
from planner.perf.speculation import Speculation, speculation_of
from pricing.model import AcceleratorKind

Array = npt.NDArray[np.float64]

CONCURRENCIES = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024)


PLATEAU = 0.01
"""Throughput that is given up for the smaller concurrency."""
SAME = 1e-9
"""Relative difference below which two layouts are equally good."""
AMPLE = 16
"""Requests at which a replica over several machines has room enough: more machines are not tried then, though each would do a bit more."""
MOST_ROWS = 128
"""Candidates of one array pass: as many as stay in a core's cache with all their intermediate results."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """All candidates over all concurrencies: arrays [candidate, concurrency], seconds and requests/s of a replica."""

    concurrency: Array
    shape: llm.Shape
    machine: llm.Machine
    decode: llm.Step
    prefill: llm.Step
    alone_s: Array
    step_tokens: Array
    chunk: Array  # most prompt tokens of a step
    rate: Array
    moments: Moments

    @property
    def decode_s(self) -> Array:
        """Return decode steps, s."""
        return self.decode.total

    @property
    def prefill_s(self) -> Array:
        """Return the accelerator time of one prompt beside others, s."""
        return self.prefill.total


def evaluate_inference(
    spec: ModelSpec, hardware: Sequence[Hardware], work: InferenceWork, *, parameters: Parameters | None = None
) -> list[Outcome]:
    """Return the best layout on each hardware, or why there is none, in the given order.

    `parameters`: fitted ones of the model's workload instead of those that are shipped.
    """
    if not spec.generates_tokens:
        return evaluate_samples(spec, hardware, work, parameters=parameters)
    fitted = shipped(WORKLOAD) if parameters is None else parameters
    distinct: dict[tuple[object, ...], int] = {}
    places = [distinct.setdefault(_key(h, work), len(distinct)) for h in hardware]
    first: dict[int, Hardware] = {}
    for place, h in zip(places, hardware, strict=True):
        first.setdefault(place, h)
    outcomes = _evaluate_distinct(spec, [first[i] for i in range(len(distinct))], work, fitted)
    return [outcomes[place] for place in places]


def _key(h: Hardware, work: InferenceWork) -> tuple[object, ...]:
    """Return what makes two hardwares serve alike (host CPU and, for one machine, the network do not bear on it)."""
    host = (h.vcpus, h.host_memory_gib) if h.kind is AcceleratorKind.CPU else ()
    network = (h.network_gbps, h.efa_supported) if work.max_instances > 1 else ()
    link = (h.interconnect_kind, h.interconnect_gb_s_bidirectional)
    speed = (h.memory_bandwidth_gb_s, *sorted(h.peak_tflops.items()))
    return (h.accelerator, h.kind, h.devices, h.fraction, h.memory_visible_gib, *speed, *link, *host, *network)


def _evaluate_distinct(
    spec: ModelSpec, hardware: Sequence[Hardware], work: InferenceWork, parameters: Parameters
) -> list[Outcome]:
    best = [Best() for _ in hardware]
    too_long = why_too_long(spec, work)
    if too_long is not None:
        return [too_long for _ in hardware]
    plans = Plans(spec, work)
    _search(spec, dict(enumerate(hardware)), work, plans, best, parameters=parameters, spanning=False)
    if work.max_instances > 1:
        short = {
            row: hardware[row]
            for row, b in enumerate(best)
            if b.point is None and any(i.reason is RejectionReason.OUT_OF_MEMORY for i in b.infeasible)
        }
        _search(spec, short, work, plans, best, parameters=parameters, spanning=True)
    searched = work.tensor_parallel is None and work.pipeline_parallel is None
    points = [b.point for b in best if b.point is not None]
    factors = iter(factors_of(points, work))
    return [
        evaluation_of(spec, b.point, work, next(factors)) if b.point else main_reason(b.infeasible, searched=searched)
        for b in best
    ]


def _search(
    spec: ModelSpec,
    hardware: dict[int, Hardware],
    work: InferenceWork,
    plans: Plans,
    best: list[Best],
    *,
    parameters: Parameters,
    spanning: bool,
) -> None:
    """Keep each hardware's best point among its candidates."""
    members, held, rooms, refused = candidates_that_fit(
        spec, hardware, work, plans=plans, parameters=parameters, spanning=spanning
    )
    for row, why in refused:
        best[row].infeasible.append(why)
    for start in range(0, len(members), MOST_ROWS):
        end = start + MOST_ROWS
        _choose(members[start:end], held[start:end], rooms[start:end], work, best)


def candidates_that_fit(
    spec: ModelSpec,
    hardware: dict[int, Hardware],
    work: InferenceWork,
    *,
    plans: Plans | None = None,
    parameters: Parameters | None = None,
    spanning: bool = False,
) -> tuple[list[Candidate], list[Plan], list[int], list[tuple[int, Infeasible]]]:
    """Return the candidates that have room, their plans and rooms (requests a replica), and (row of the hardware, why not) of others."""
    plans = Plans(spec, work) if plans is None else plans
    fitted = shipped(WORKLOAD) if parameters is None else parameters
    refused: list[tuple[int, Infeasible]] = []
    found: list[Candidate] = []
    for row, h in hardware.items():
        for item in candidates_of(spec, row, h, work, parameters=fitted, spanning=spanning, known=plans.splits):
            if isinstance(item, Infeasible):
                refused.append((row, item))
            else:
                found.append(item)
    found.sort(key=_order)
    members: list[Candidate] = []
    held: list[Plan] = []
    rooms: list[int] = []
    wanted = work.max_concurrency or 1
    spacious: dict[
        tuple[object, ...], int
    ] = {}  # fewest devices at which a replica over several machines has ample room
    for c in found:
        kind = (c.row, c.form, c.kv_precision)
        if spanning and c.split.devices > spacious.get(kind, c.split.devices):
            continue
        plan = plans.of(c)
        room = plan.room(c.hardware)
        if room < wanted:
            why = out_of_memory(c, plan.required(wanted), wanted, plan.available_gib(c.hardware))
            refused.append((c.row, why))
            continue
        if room >= AMPLE:
            spacious.setdefault(kind, c.split.devices)
        members.append(c)
        held.append(plan)
        rooms.append(wanted if work.max_concurrency else min(room, plan.residence.max_sequences * c.split.groups))
    return members, held, rooms, refused


def _order(c: Candidate) -> tuple[object, ...]:
    """Return the order in which candidates are looked at: of equally good ones the first is kept."""
    s = c.split
    return (s.devices, s.pp, s.groups, -BITS_PER_WEIGHT.get(c.form.weights, 0.0), c.form.weights, c.kv_precision, c.row)


def surface_of(
    members: Sequence[Candidate], plans: Sequence[Plan], rooms: Sequence[int], work: InferenceWork
) -> Surface:
    """Return step times, rates and latencies of all candidates over all concurrencies up to the room of each, in one pass."""
    room = np.asarray(rooms, dtype=np.float64)[:, None]
    grid = np.minimum(np.asarray(CONCURRENCIES, dtype=np.float64)[None, :], room)
    one_point = work.max_concurrency is not None and not work.open_loop  # a queue needs the steps below it as well
    concurrency = room if one_point else np.concatenate([grid, room], axis=1)
    machine = networked(machine_of(members), members)
    shape = llm.columns([p.shape for p in plans])
    chunk = np.asarray([p.chunk for p in plans], dtype=np.float64)[:, None]
    tokens = float(work.input_tokens)
    step_tokens = np.minimum(chunk, tokens * np.maximum(1.0, concurrency / shape.groups / work.output_tokens))
    speculation = speculation_of(work)
    decode = speculation.applied(llm.decode_step(shape, machine, concurrency, speculation.tokens_each))
    together = [mixes(runtime_of(c.hardware, work.engine), c.keys[LEVELS.index("generation")]) for c in members]
    beside = concurrency * np.asarray(together, dtype=np.float64)[:, None]
    own = decode.classes if speculation.tokens_each == 1 else None
    prefill = llm.prefill_of(shape, machine, tokens, step_tokens, beside=beside, decoding=own)
    lone = np.minimum(chunk, tokens)
    if (step_tokens[:, :1] == lone).all():
        alone = (prefill.total + prefill.shared)[:, :1]
    else:
        alone = llm.prefill_of(shape, machine, tokens, lone).total
    chunks = np.ceil(tokens / chunk)
    alone = alone * shape.groups * (chunks + shape.stages - 1.0) / chunks  # a lone prompt goes through all stages
    rate = llm.steady_requests_per_s(concurrency, work.output_tokens, decode.total, prefill.total)
    moments = moments_of(
        Load(
            concurrency=concurrency,
            input_tokens=tokens,
            output_tokens=float(work.output_tokens),
            step_tokens=np.broadcast_to(chunk, concurrency.shape),
            decode_s=decode.total,
            prefill_s=prefill.total,
            alone_s=np.broadcast_to(alone, concurrency.shape),
        )
    )
    return Surface(
        concurrency=concurrency,
        shape=shape,
        machine=machine,
        decode=decode,
        prefill=prefill,
        alone_s=alone,
        step_tokens=step_tokens,
        chunk=chunk,
        rate=rate,
        moments=moments,
    )


def _choose(
    members: list[Candidate], plans: list[Plan], rooms: list[int], work: InferenceWork, best: list[Best]
) -> None:
    """Pick each candidate's best concurrency and keep the best candidate of each hardware."""
    s = surface_of(members, plans, rooms, work)
    limited = quantile_of(s.moments, work.limits.percentile / 100) if work.limits.any else None
    allowed = np.ones(s.rate.shape, dtype=np.bool_) if limited is None else _within(limited, work)
    rate = s.rate
    if work.open_loop and limited is not None:
        sustained = sustained_rates(s, allowed, work)
        allowed, rate = sustained > 0, np.minimum(rate, sustained)
    if work.open_loop and work.max_concurrency is not None:
        allowed[:, :-1] = False
    replicas = np.asarray([c.replicas / c.split.instances for c in members], dtype=np.float64)[:, None]
    for_latency = work.objective == "latency"
    score = np.where(allowed, rate * replicas, -1.0)
    if for_latency:
        chosen = np.argmin(np.where(allowed, quantile_of(s.moments, 0.99).e2e, np.inf), axis=1)
    else:
        # The smallest concurrency on the plateau: the last 1 % of throughput is not worth its latency.
        chosen = np.argmax(score >= score.max(axis=1, keepdims=True) * (1 - PLATEAU), axis=1)
    rows = np.arange(len(members))
    picked = _picked(s.moments, rows, chosen)
    p50, p99 = quantile_of(picked, 0.5), quantile_of(picked, 0.99)
    possible, sustained = allowed[rows, chosen].tolist(), score[rows, chosen].tolist()
    winners: dict[int, int] = {}
    for i, c in enumerate(members):
        if not possible[i] and limited is not None:
            best[c.row].infeasible.append(too_slow(c, limited, work, i))
            continue
        rank = (float(p99.e2e[i]), float(p99.ttft[i]), float(c.split.devices)) if for_latency else (-sustained[i],)
        if best[c.row].beaten_by(rank):
            best[c.row].rank = rank
            winners[c.row] = i
    speculation = speculation_of(work)
    for row, i in winners.items():
        cell = (i, int(chosen[i]))
        point = _point(members[i], plans[i], s, cell, (p50, p99), speculation=speculation)
        best[row].point = replace(point, replica=replica_at(s, *cell, work)) if work.open_loop else point


def _picked(moments: Moments, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> Moments:
    """Return the moments of one cell of each row."""
    shape = np.broadcast_shapes(moments.ttft_mean.shape, moments.decode_s.shape)
    fields: dict[str, Any] = {}
    for name in Moments.__slots__:
        value = getattr(moments, name)
        fields[name] = np.broadcast_to(value, shape)[rows, columns] if isinstance(value, np.ndarray) else value
    return Moments(**fields)


def _point(
    c: Candidate,
    plan: Plan,
    s: Surface,
    cell: tuple[int, int],
    quantiles: tuple[Latency, Latency],
    *,
    speculation: Speculation,
) -> Point:
    i, j = cell

    def at(latency: Latency) -> Latency:
        return Latency(ttft=latency.ttft[i], tpot=latency.tpot[i], e2e=latency.e2e[i])

    return Point(
        candidate=c,
        weights=plan.weights,
        shape=plan.shape,
        machine=_first(s.machine, i),
        concurrency=int(s.concurrency[i, j]),
        replicas=c.replicas,
        decode=_cell(s.decode, i, j),
        prefill=_cell(s.prefill, i, j),
        alone_s=float(s.alone_s[i, 0]),
        step_tokens=float(s.step_tokens[i, j]),
        p50=at(quantiles[0]),
        p99=at(quantiles[1]),
        speculation=speculation,
    )


def _within(at: Latency, work: InferenceWork) -> npt.NDArray[np.bool_]:
    """Return where the latencies at the limits' percentile hold them."""
    limits = work.limits
    ok = np.ones(at.ttft.shape, dtype=np.bool_)
    if limits.ttft_ms is not None:
        ok &= at.ttft * 1e3 <= limits.ttft_ms
    if limits.tpot_ms is not None and work.output_tokens > 1:
        ok &= at.tpot * 1e3 <= limits.tpot_ms
    if limits.e2e_ms is not None:
        ok &= at.e2e * 1e3 <= limits.e2e_ms
    return ok


def _first(machine: llm.Machine, i: int) -> llm.Machine:
    fields = {name: getattr(machine, name) for name in llm.Machine.__slots__}
    return llm.Machine(**{name: v[i, 0] if isinstance(v, np.ndarray) else v for name, v in fields.items()})


def _cell(step: llm.Step, i: int, j: int) -> llm.Step:
    return llm.Step(**{name: getattr(step, name)[i, j] for name in llm.Step.__slots__})
