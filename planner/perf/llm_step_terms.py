"""The parts of one step, each with its seconds, arithmetic intensity, bound and the numbers it comes from.

A class of matrix products takes max(c, m) + u·min(c, m), c = (n + n0)·FLOP per token / usable FLOP/s, m = bytes / usable bytes/s. It is
bound by the longer one; FLOP over bytes is its arithmetic intensity, to be held against the machine's ratio of the two rates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.perf import llm
from planner.perf.collectives import all_reduce_between_s, all_reduce_s
from planner.perf.model import Term
from planner.perf.operating_point import Point

COMPUTE, MEMORY, COLLECTIVES, OVERHEAD = "compute", "memory", "collectives", "overhead"
SHARED = "shared"  # of what is saved: no bound


@dataclass(frozen=True, slots=True)
class Part:
    """One line of a step."""

    name: str
    seconds: float
    bound: str
    intensity: float | None  # FLOP per byte; None where nothing is computed
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A step's lines and what it carries."""

    parts: tuple[Part, ...]
    sequences: float  # requests of one device's group and stage
    tokens: float  # of them
    touched: float  # share of the experts


def decode_parts(point: Point) -> Parts:
    """Return the parts of a decode step (of one token under speculation: times its factor)."""
    s, m, speculation = point.shape, point.machine, point.speculation
    sequences = max(point.concurrency / float(s.stages * s.groups), 1.0)
    tokens = sequences * speculation.tokens_each
    factor = speculation.factor if speculation.proposed else 1.0
    times = f" x {factor:.6g}" if factor != 1.0 else ""
    out = _products(point, s.weight_bytes, s.flops_per_token, point.decode, tokens=tokens, times=times, steps="")
    cache, scores = float(s.decode_cache_bytes), float(s.decode_attention_flops)
    if cache:
        computing = tokens * scores / float(m.attention_flops)
        reading = sequences * cache / float(m.cache_bytes_per_s)
        out.append(
            Part(
                "attention over KV cache",
                float(point.decode.attention),
                COMPUTE if computing > reading else MEMORY,
                tokens * scores / (sequences * cache),
                f"the longer of {tokens:.6g} tokens x {scores:.6g} FLOP / ({_flops(point, float(m.attention_flops), 'wide')}) and "
                f"{sequences:.6g} requests x {cache:.6g} B / ({_bytes(point, float(m.cache_bytes_per_s))}){times}",
            )
        )
    out += _rest(point, point.decode, tokens=tokens, sequences=sequences, steps="", times=times)
    touched = float(llm.touched_by_step(s, m, np.asarray(tokens)))
    return Parts(parts=tuple(out), sequences=sequences, tokens=tokens, touched=touched)


def prefill_parts(point: Point, input_tokens: int) -> Parts:
    """Return the parts of one prompt's accelerator time: so many steps of so many tokens, shared by stages and groups."""
    s, m, carried = point.shape, point.machine, point.step_tokens
    beside = float(s.stages * s.groups)
    shared = f" / {beside:g} stages and groups" if beside > 1 else ""
    steps = f"{input_tokens / carried:.6g} steps{shared} x "
    out = _products(
        point, s.prompt_bytes, s.prompt_flops_per_token, point.prefill, tokens=carried, times="", steps=steps
    )
    pairs = float(s.prompt_attention_flops)
    out.append(
        Part(
            "attention scores and values",
            float(point.prefill.attention),
            COMPUTE,
            None,
            f"{pairs:.6g} FLOP / ({_flops(point, float(m.attention_flops), 'wide')}){shared}, over the pairs of tokens of the prompt",
        )
    )
    out += _rest(point, point.prefill, tokens=carried, sequences=0.0, steps=steps, times="")
    if float(point.prefill.shared):
        out.append(
            Part(
                "shared with decode steps",
                -float(point.prefill.shared),
                SHARED,
                None,
                f"{steps}what a step of {carried:.6g} prompt tokens and {point.concurrency} decoding requests takes less than one of each: "
                "weights are read and layers started once",
            )
        )
    touched = float(llm.touched_by_step(s, m, np.asarray(carried)))
    return Parts(parts=tuple(out), sequences=0.0, tokens=carried, touched=touched)


def bound_term(phase: str, parts: Parts) -> Term:
    """Return what a step is bound by most, with the share of its time under each bound."""
    total = sum(p.seconds for p in parts.parts if p.bound != SHARED)
    shares = {b: sum(p.seconds for p in parts.parts if p.bound == b) for b in (COMPUTE, MEMORY, COLLECTIVES, OVERHEAD)}
    told = ", ".join(f"{b} {t / total:.1%}" for b, t in sorted(shares.items(), key=lambda item: -item[1]) if t)
    return Term(
        name=f"bound of {phase}", value=max(shares, key=lambda b: shares[b]), unit="", formula=f"{told} of the time"
    )


def _products(
    point: Point, weights: llm.Array, flops: llm.Array, step: llm.Step, *, tokens: float, times: str, steps: str
) -> list[Part]:
    s, m = point.shape, point.machine
    touched = float(llm.touched_by_step(s, m, np.asarray(tokens)))
    ramp, unhidden = float(m.ramp_tokens), float(m.unhidden)
    out = []
    for i, name in enumerate(llm.CLASSES):
        expert = i == llm.EXPERT
        read, each = float(weights[i]) * (touched if expert else 1.0), float(flops[i])
        if not read:
            continue
        reached = float(m.expert_share) if expert else 1.0
        width = "narrow" if s.quantised[i] else "wide"
        rate = float(m.narrow_flops if s.quantised[i] else m.wide_flops) * reached
        bandwidth = float(m.weights_bytes_per_s) * reached
        own = ramp * touched / float(s.routed_share * s.groups) if expert else ramp
        passes = (
            float(llm.expert_passes(s, np.asarray(touched), np.asarray(tokens)))
            if expert
            else max(tokens / llm.TILE_TOKENS, 1.0)
        )
        widening = float(llm.widening_s(flops, s, m, np.asarray(passes))[i])
        computing, reading = (tokens + own) * each / rate + widening, read / bandwidth
        carried = f"({tokens:.6g} + {own:.6g})" if own else f"{tokens:.6g}"
        hidden = f" + {unhidden:.6g} of the shorter" if unhidden and each else ""
        start = float(s.expert_layers * s.experts * touched * m.expert_overhead_s) if expert and each else 0.0
        started = f" + {start * 1e3:.6g} ms to start the touched experts of all layers" if start else ""
        widened = (
            f" + {each / 2:.6g} narrow weights x {passes:.6g} passes / {float(m.widened_per_s):.6g} widened a second"
            if widening
            else ""
        )
        formula = (
            f"{steps}(the longer of {carried} tokens x {each:.6g} FLOP / ({_flops(point, rate, width)}){widened} and {read:.6g} B / "
            f"({_bytes(point, bandwidth)}){hidden}{started}){times}"
        )
        last = float(s.prompt_head_flops) if steps and i == llm.HEAD else 0.0
        if last:
            formula += f" + {last:.6g} FLOP of one position / ({_flops(point, float(m.wide_flops), 'wide')})"
        out.append(
            Part(
                name,
                float(step.classes[i]),
                COMPUTE if computing > reading else MEMORY,
                tokens * each / read,
                formula,
            )
        )
    return out


def _rest(point: Point, step: llm.Step, *, tokens: float, sequences: float, steps: str, times: str) -> list[Part]:
    s, m = point.shape, point.machine
    out = []
    if float(step.activations):
        out.append(
            Part(
                "intermediate results",
                float(step.activations),
                MEMORY,
                None,
                f"{steps}{tokens:.6g} tokens x {float(s.activation_bytes_per_token):.6g} B / ({_bytes(point, float(m.activation_bytes_per_s))})"
                f"{times}",
            )
        )
    out.append(
        Part(
            "collectives",
            float(step.collectives),
            COLLECTIVES,
            None,
            f"{steps}({collective_formula(point, tokens)}){times}"
            if steps or times
            else collective_formula(point, tokens),
        )
    )
    each = float(m.sequence_overhead_s) * 1e6
    own = f" + {each:.6g} µs" if steps else f" + {sequences:.6g} requests x {each:.6g} µs"
    inside = f"{overhead_formula(point)}{own}" if not steps else f"{steps}({overhead_formula(point)}){own}"
    out.append(Part("overhead", float(step.overhead), OVERHEAD, None, f"({inside}){times}" if times else inside))
    return out


def collective_formula(point: Point, tokens: float) -> str:
    """Return the collectives of one step with their numbers: all-reduces, hops between stages, exchanges with experts elsewhere."""
    s, m = point.shape, point.machine
    over = max(int(s.machines / s.groups), 1)  # machines of one tensor-parallel group
    ranks = int(s.ranks) // over
    payload = float(s.reduced_bytes_per_token) * tokens
    link = f"{float(m.link_bytes_per_s) / 1e9:.6g} GB/s"
    network = f"{float(m.network_bytes_per_s) / 1e9:.6g} GB/s"
    words = []
    if int(s.ranks) > 1:
        one = float(all_reduce_s(np.asarray(payload), ranks, m.link_latency_s, m.link_bytes_per_s))
        between = float(all_reduce_between_s(np.asarray(payload), over, m.network_latency_s, m.network_bytes_per_s))
        beyond = (
            f" + {float(m.network_latency_s) * 1e6:.6g} µs x log2 {over} + 2 x {over - 1}/{over} x bytes / {network} between {over} machines"
            if over > 1
            else ""
        )
        words.append(
            f"{llm.REDUCES_PER_LAYER:g} x {float(s.layers):g} layers x {(one + between) * 1e6:.6g} µs; one all-reduce of {payload:.6g} B over "
            f"{ranks} = {float(m.link_latency_s) * 1e6:.6g} µs x (1 + log2 {ranks}) / 2 + 2 x {ranks - 1}/{ranks} x bytes / {link}{beyond}"
        )
    inside, outside = int(s.stages - s.spans), int(s.spans) - 1
    if inside:
        words.append(f"{inside} hops x ({float(m.link_latency_s) * 1e6:.6g} µs + {payload:.6g} B / {link})")
    if outside:
        words.append(
            f"{outside} hops over the network x ({float(m.network_latency_s) * 1e6:.6g} µs + {payload:.6g} B / {network})"
        )
    if float(s.groups) > 1:
        machines = int(s.machines)
        beyond = (
            f" + 2 x {float(s.expert_layers):g} layers x {float(m.network_latency_s) * 1e6:.6g} µs x (1 + log2 {machines}) / 2 + {tokens:.6g} "
            f"tokens x {float(s.crossing_bytes_per_token):.6g} B / {network} between {machines} machines"
            if machines > 1
            else ""
        )
        words.append(
            f"exchanges with the experts of {float(s.groups):g} groups: 2 x {float(s.expert_layers):g} layers x {float(m.link_latency_s) * 1e6:.6g} "
            f"µs x (1 + log2 {float(s.ranks * s.groups) / machines:g}) / 2 + {tokens:.6g} tokens x {float(s.exchanged_bytes_per_token):.6g} B / {link}"
            f"{beyond}"
        )
    return " + ".join(words) if words else "one device: nothing to reduce"


def overhead_formula(point: Point) -> str:
    """Return the overhead of a step apart from its requests."""
    s, m = point.shape, point.machine
    routing = float(m.routing_overhead_s * s.expert_layers)
    routed = (
        f" + {float(s.expert_layers):g} layers with experts x {float(m.routing_overhead_s) * 1e6:.6g} µs"
        if routing
        else ""
    )
    return f"{float(s.layers):g} layers x {float(m.layer_overhead_s) * 1e6:.6g} µs{routed} + {float(m.step_overhead_s) * 1e3:.6g} ms"


def _flops(point: Point, rate: float, width: str) -> str:
    c = point.candidate
    peak = c.hardware.peak_tflops[c.form.compute if width == "narrow" else c.form.wide]
    return f"{peak:.6g} TFLOP/s x {rate / 1e12 / peak:.6g}"


def _bytes(point: Point, rate: float) -> str:
    peak = float(point.candidate.hardware.memory_bandwidth_gb_s or 0.0)
    return f"{peak:.6g} GB/s x {rate / 1e9 / peak:.6g}"
