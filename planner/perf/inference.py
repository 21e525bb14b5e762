"""The best way to serve a model on each hardware: precision x tensor parallelism x concurrency, under memory and latency limits.

Whole catalogs are evaluated at once: hardware that is equal is evaluated once, and every (format, degree) is one array over
hardware x concurrency. Best = highest requests/s of the instance; ties go to fewer devices a replica, then to the wider format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec
from planner.perf import engines, llm
from planner.perf.collectives import link_of
from planner.perf.efficiencies import Efficiency, efficiency_of
from planner.perf.latency import Latency, Load, Moments, moments_of, quantile_of
from planner.perf.layouts import expert_parallel_needed, quantization_of, why_illegal
from planner.perf.llm_report import evaluation_of
from planner.perf.memory import (
    GIB,
    LOGIT_BYTES,
    DeviceWeights,
    activation_bytes,
    available_gib,
    chunk_tokens,
    device_weights,
    kv_bytes_per_request,
    reserve_gib,
)
from planner.perf.model import Hardware, Infeasible, InferenceWork, Outcome, RejectionReason
from planner.perf.precision import BITS_PER_WEIGHT, KV_BITS, Format, is_native, resolve
from planner.perf.samples import evaluate_samples
from pricing.model import AcceleratorKind

Array = npt.NDArray[np.float64]

CONCURRENCIES = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024)


PLATEAU = 0.01
"""Throughput that is given up for the smaller concurrency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One hardware as one (format, tensor-parallel degree) may run it: everything that does not depend on concurrency."""

    row: int  # index among the distinct hardware
    hardware: Hardware
    form: Format
    kv_precision: str
    efficiency: Efficiency
    tp: int
    expert_parallel: bool  # experts are dealt out whole because their width does not divide


@dataclass(slots=True)
class Best:
    """The best operating point found so far for one hardware, and why others failed."""

    requests_per_s: float = 0.0
    point: Point | None = None
    infeasible: list[Infeasible] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An operating point: a candidate at a concurrency, with the step times behind it."""

    candidate: Candidate
    weights: DeviceWeights
    shape: llm.Shape
    machine: llm.Machine
    concurrency: int
    replicas: int
    decode: llm.Step
    prefill: llm.Step
    alone_s: float
    step_tokens: float
    p50: Latency
    p99: Latency


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
    too_long = _why_too_long(spec, work)
    groups: dict[tuple[str, str, int, int, bool], list[Candidate]] = {}
    for row, h in enumerate(hardware):
        found = [too_long] if too_long else _candidates(spec, row, h, work)
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
    return [evaluation_of(spec, b.point, work) if b.point else _main_reason(b.infeasible) for b in best]


def _why_too_long(spec: ModelSpec, work: InferenceWork) -> Infeasible | None:
    total = work.input_tokens + work.output_tokens
    if spec.max_context is None or total <= spec.max_context:
        return None
    detail = f"a request of {work.input_tokens} + {work.output_tokens} tokens is longer than {spec.name}'s context of {spec.max_context}"
    return Infeasible(
        reason=RejectionReason.LAYOUT_IMPOSSIBLE,
        detail=detail,
        figures={"tokens": total, "max_context": spec.max_context},
    )


def _candidates(spec: ModelSpec, row: int, h: Hardware, work: InferenceWork) -> list[Candidate | Infeasible]:
    """Return every format and degree that could start on one hardware, and why the others could not."""
    support = engines.support_of(work.engine, h)
    if isinstance(support, Infeasible):
        return [support]
    if h.memory_bandwidth_gb_s is None or not h.peak_tflops:
        why = f"{h.accelerator}: memory bandwidth or dense peak is not known, so nothing can be said of its speed"
        return [
            Infeasible(reason=RejectionReason.ENGINE_UNSUPPORTED, detail=why, figures={"accelerator": h.accelerator})
        ]
    out: list[Candidate | Infeasible] = []
    efficiency = efficiency_of(h, work.engine)
    for requested in dict.fromkeys((work.precision, *work.allowed_precisions)):
        form = resolve(spec, h, requested)
        kv = form if isinstance(form, Infeasible) else _kv_precision(h, form, work)
        if isinstance(form, Infeasible) or isinstance(kv, Infeasible):
            out.append(form if isinstance(form, Infeasible) else kv)  # type: ignore[arg-type]  # one of the two is
            continue
        degrees = [work.tensor_parallel] if work.tensor_parallel else range(1, h.devices + 1)
        legal = []
        stored = quantization_of(spec, form)
        why = ""
        for tp in degrees:
            if tp > h.devices:
                why = f"tensor parallelism of {tp} needs {tp} devices, the instance has {h.devices}"
                continue
            refused = why_illegal(spec, tp, stored, shards_per_device=support.ranks_per_device)
            if refused is None:
                legal.append(tp)
            elif not why:
                why = refused
        if not legal:
            out.append(Infeasible(reason=RejectionReason.LAYOUT_IMPOSSIBLE, detail=why, figures={"devices": h.devices}))
        out.extend(
            Candidate(
                row=row,
                hardware=h,
                form=form,
                kv_precision=kv,
                efficiency=efficiency,
                tp=tp,
                expert_parallel=expert_parallel_needed(spec, tp * support.ranks_per_device, stored),
            )
            for tp in legal
        )
    return out


def _kv_precision(h: Hardware, form: Format, work: InferenceWork) -> str | Infeasible:
    """Return the cache format: the asked one where the chip can keep it, else that of the 16-bit (or fp32) arithmetic."""
    wanted = work.kv_precision
    if wanted is None or wanted in ("bf16", "fp16"):
        return form.wide if form.wide in KV_BITS else "fp32"
    if wanted not in KV_BITS:
        return Infeasible(
            reason=RejectionReason.PRECISION_UNSUPPORTED,
            detail=f"KV cache format {wanted} is not known",
            figures={"kv_precision": wanted},
        )
    stored_only = h.compute_capability is not None and h.compute_capability >= 8.0
    if wanted == "fp32" or is_native(h, wanted) or stored_only:
        return wanted
    return Infeasible(
        reason=RejectionReason.PRECISION_UNSUPPORTED,
        detail=f"{h.accelerator} cannot keep a KV cache in {wanted}",
        figures={"accelerator": h.accelerator, "kv_precision": wanted},
    )


def machine_of(members: Sequence[Candidate]) -> llm.Machine:
    """Return usable rates of many candidates as columns [hardware, 1]."""

    def column(values: list[float]) -> Array:
        return np.asarray(values, dtype=np.float64)[:, None]

    links = [link_of(c.hardware) for c in members]
    bandwidth = [(c.hardware.memory_bandwidth_gb_s or 0.0) * 1e9 for c in members]
    narrow = [
        c.hardware.peak_tflops[c.form.compute] * 1e12 * c.efficiency.compute_fraction(c.form.compute) for c in members
    ]
    wide = [c.hardware.peak_tflops[c.form.wide] * 1e12 * c.efficiency.compute_fraction(c.form.wide) for c in members]
    return llm.Machine(
        weights_bytes_per_s=column(
            [b * c.efficiency.weights_bandwidth for b, c in zip(bandwidth, members, strict=True)]
        ),
        cache_bytes_per_s=column([b * c.efficiency.kv_bandwidth for b, c in zip(bandwidth, members, strict=True)]),
        narrow_flops=column(narrow),
        wide_flops=column(wide),
        link_latency_s=column(
            [lat * c.efficiency.link_latency_factor for (lat, _), c in zip(links, members, strict=True)]
        ),
        link_bytes_per_s=column(
            [bw * c.efficiency.link_bandwidth_factor for (_, bw), c in zip(links, members, strict=True)]
        ),
        layer_overhead_s=column([c.efficiency.layer_overhead_s for c in members]),
        step_overhead_s=column([c.efficiency.step_overhead_s for c in members]),
        sequence_overhead_s=column([c.efficiency.sequence_overhead_s for c in members]),
    )


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
            best[c.row].infeasible.append(_out_of_memory(c, fixed + wanted * request, wanted))
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
    score = np.where(allowed, rate * replicas, -1.0)
    # The smallest concurrency on the plateau: the last 1 % of throughput is not worth its latency.
    chosen = np.argmax(score >= score.max(axis=1, keepdims=True) * (1 - PLATEAU), axis=1)
    for i, c in enumerate(fitting):
        j = int(chosen[i])
        if score[i, j] < 0:
            best[c.row].infeasible.append(_too_slow(c, moments, work, i))
            continue
        if score[i, j] <= best[c.row].requests_per_s * (1 + 1e-9):
            continue
        best[c.row].requests_per_s = float(score[i, j])
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


def _out_of_memory(c: Candidate, required: float, concurrency: int) -> Infeasible:
    needs, has = required / GIB, available_gib(c.hardware)
    devices = f" on each of {c.tp}" if c.tp > 1 else ""
    requests = f" for {concurrency} requests" if concurrency > 1 else ""
    return Infeasible(
        reason=RejectionReason.OUT_OF_MEMORY,
        detail=f"needs {needs:.1f} GiB{devices}{requests} in {c.form.weights}, {has:.1f} available",
        figures={
            "required_gib_per_accelerator": needs,
            "available_gib_per_accelerator": has,
            "tensor_parallel": c.tp,
            "devices": c.hardware.devices,
        },
    )


def _too_slow(c: Candidate, moments: Moments, work: InferenceWork, i: int) -> Infeasible:
    """Return the best figures that this layout reaches at any concurrency, beside the limits."""
    limits = work.limits
    at = quantile_of(moments, limits.percentile / 100)
    figures: dict[str, float | str] = {"tensor_parallel": c.tp}
    words, excess = [], 1.0
    for name, values, limit in (
        ("TTFT", at.ttft, limits.ttft_ms),
        ("TPOT", at.tpot, limits.tpot_ms),
        ("end-to-end", at.e2e, limits.e2e_ms),
    ):
        if limit is None or (name == "TPOT" and work.output_tokens <= 1):
            continue
        reached = float(values[i].min()) * 1e3
        figures[f"best_{name.lower().replace('-', '_')}_ms"] = reached
        excess = max(excess, reached / limit)
        words.append(f"{name} p{limits.percentile} {reached:.4g} ms (limit {limit:g})")
    figures["excess"] = excess
    return Infeasible(
        reason=RejectionReason.SLO_INFEASIBLE,
        detail=f"best reachable at TP {c.tp}: {', '.join(words)}",
        figures=figures,
    )


_ORDER = (
    RejectionReason.SLO_INFEASIBLE,
    RejectionReason.OUT_OF_MEMORY,
    RejectionReason.LAYOUT_IMPOSSIBLE,
    RejectionReason.PRECISION_UNSUPPORTED,
    RejectionReason.ENGINE_UNSUPPORTED,
)


def _main_reason(reasons: Sequence[Infeasible]) -> Infeasible:
    """Return the failure nearest to success: too slow before too small before illegal, and of these the closest miss."""

    def distance(item: Infeasible) -> tuple[int, float]:
        figures = item.figures
        if item.reason is RejectionReason.OUT_OF_MEMORY:
            return _ORDER.index(item.reason), float(figures["required_gib_per_accelerator"]) / float(
                figures["available_gib_per_accelerator"]
            )
        return _ORDER.index(item.reason), float(figures.get("excess", 1.0))

    nearest = min(reasons, key=distance)
    if nearest.reason is RejectionReason.OUT_OF_MEMORY:
        degree, devices = float(nearest.figures["tensor_parallel"]), float(nearest.figures["devices"])
        needed = float(nearest.figures["required_gib_per_accelerator"]) * degree
        room = float(nearest.figures["available_gib_per_accelerator"]) * devices
        if degree < devices and needed <= room:
            detail = f"{nearest.detail}; all {devices:g} together have {room:.1f}, but no tensor-parallel degree above {degree:g} is legal"
            return Infeasible(reason=RejectionReason.LAYOUT_IMPOSSIBLE, detail=detail, figures=nearest.figures)
    return nearest
