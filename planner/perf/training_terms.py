"""The time of a training step in numbers that a reader can redo: each part as an expression, and the figures of a micro-batch behind it.

A formula is `EXPRESSION: words`; the expression holds numbers, + - x / ^ ( ) and max(, ) alone, in SI units (s, FLOP/s, bytes/s), and gives the
value of its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from planner.perf.model import Term, TrainingWork
from planner.perf.training_activations import RECOMPUTED
from planner.perf.training_limits import PARTS, seconds_of
from planner.perf.training_network import exchange_s, gather_s
from planner.perf.training_step import (
    BACKWARD_SHARE,
    BLEND,
    EXCHANGE_HIDDEN,
    LEAST_EXPOSED,
    MicroTime,
    StepLayout,
    StepMachine,
    StepWork,
    data_seconds,
    grouped_share,
    local_share,
    matmul_share,
    micro_seconds,
    wires_of,
)
from planner.perf.training_surface import ALLREDUCE, Chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One chosen step, every field a number: what `step_seconds` was given."""

    work: StepWork
    layout: StepLayout
    machine: StepMachine


def step_of(chosen: Chosen, at: int, work: TrainingWork) -> Step:
    """Return the step at one place."""
    x = chosen.layouts
    again, scores_again = RECOMPUTED[work.attention_backend == "math"][int(x.checkpointing[at])]
    layout = StepLayout(
        data=float(x.data[at]),
        tensor=float(x.tensor[at]),
        pipeline=float(x.pipeline[at]),
        expert=float(x.expert[at]),
        zero=float(x.stage[at]),
        micro_batch=float(x.micro_batch[at]),
        accumulation=float(x.accumulation[at]),
        recompute=again,
        recompute_attention=scores_again,
        reduction=float(ALLREDUCE.index(work.allreduce)),
        offloaded_bytes=float(chosen.terms.moved[at]),
    )
    values = {f.name: getattr(chosen.machine, f.name) for f in fields(StepMachine)}
    machine = StepMachine(**{name: float(np.ravel(v)[at if np.size(v) > 1 else 0]) for name, v in values.items()})
    return Step(work=chosen.task, layout=layout, machine=machine)


def n(value: object) -> str:
    """Return a number to seven digits."""
    return f"{float(np.asarray(value)):.7g}"


def time_terms(chosen: Chosen, at: int, work: TrainingWork) -> Iterator[Term]:
    """Yield the times of a micro-batch, those of the parts of the step that they make up, and their sum."""
    step = step_of(chosen, at, work)
    w, x, m = step.work, step.layout, step.machine
    micro = micro_seconds(w, x, m)
    lines = list(_micro_terms(step, micro))
    yield from lines
    computed = [line.value for line in lines]
    accumulation = n(x.accumulation)
    times = {name: seconds_of(chosen.time, name, at) for name in PARTS}
    busy = (times["compute"] + times["dequantise"]) / float(x.accumulation)
    inner = sum(times[name] for name in ("compute", "dequantise", "launch", "tensor", "expert", "offload")) / float(
        x.accumulation
    )
    launch = float(
        np.asarray(w.blocks / x.pipeline * (3 + x.recompute) * m.launch_s + x.micro_batch * w.fed_items * m.feed_s)
    )
    wires = wires_of(m)
    sent = float(np.asarray(x.micro_batch * w.tokens / x.context * w.width * w.value_bytes))
    gather = float(gather_s(sent, x.tensor, 1.0, wires))
    hidden = float(m.overlap_share)
    bandwidth = f"({n(m.bandwidth)} x {n(m.traffic_share)})"
    blocks = f"{n(w.blocks)} / {n(x.pipeline)}"
    yield _of(
        "launches_of_micro_batch",
        launch,
        f"{blocks} x {n(3 + x.recompute)} x {n(m.launch_s)} + {n(x.micro_batch)} x {n(w.fed_items)} x {n(m.feed_s)}",
        "blocks of a stage x passes x time of the host for one, and for each sample that it decodes",
    )
    routed = x.micro_batch * w.tokens / (x.context * x.tensor) * w.routed_width / x.pipeline * w.value_bytes
    exchange = float(exchange_s(routed, x.expert, w.experts_per_token, wires)) if w.routed_width else 0.0
    exchanges = 2 * float(2 + x.recompute) * exchange
    moved = 2 * float(x.offloaded_bytes) / float(m.host)
    boundary = sent / float(x.tensor) / (float(wires.network) / float(m.devices)) + float(m.network_latency_s)
    sends = 2 * boundary if x.pipeline > 1 else 0.0
    once, every = (float(t) for t in data_seconds(w, x, wires))
    shared = float(x.data) * float(x.context) if x.zero >= 1 else 1.0
    least = n(LEAST_EXPOSED)

    def shown(collective: float, under: float, share: float) -> str:
        """Return the part of a collective that computation of `under` seconds does not hide."""
        return f"max({n(collective)} - {n(share)} x {n(under)}, {least} x {n(collective)})"

    expressions = {
        "compute": (
            f"{accumulation} x ({' + '.join(n(seconds) for seconds in computed)}) x {n(m.work_factor)}",
            "micro-batches x s of one (the lines above, launches apart) x work factor",
        ),
        "dequantise": (
            f"{accumulation} x {n(2 + x.recompute)} x {n(w.dequantised_bytes)} / ({n(x.tensor)} x {n(x.pipeline)}) / {bandwidth}",
            "micro-batches x passes x bytes of widening the 4-bit base once / devices that share it / memory bandwidth reached",
        ),
        "launch": (
            f"{accumulation} x (({n(busy)}^{n(BLEND)} + {n(launch)}^{n(BLEND)})^(1 / {n(BLEND)}) - {n(busy)})",
            "micro-batches x what the longer of device and host takes beyond the device, rounded where they are alike",
        ),
        "tensor": (
            f"{accumulation} x 4 x {blocks} x {n(2 + x.recompute)} x {n(gather)}",
            f"micro-batches x collectives of a block x blocks of a stage x passes x s of one over {n(x.tensor)} devices ({n(sent)} bytes)",
        ),
        "expert": (
            f"{accumulation} x {shown(exchanges, float(np.asarray(micro.matrices + micro.experts + micro.head)), EXCHANGE_HIDDEN * hidden)}",
            f"micro-batches x exchanges over {n(x.expert)} devices (2 x {n(2 + x.recompute)} passes x {n(exchange)} s) that matrices do not hide",
        ),
        "offload": (
            f"{accumulation} x {shown(moved, busy, hidden)}",
            f"micro-batches x 2 x {n(x.offloaded_bytes)} bytes / {n(m.host)} bytes/s to the host that computation does not hide",
        ),
        "bubble": (
            f"{n(float(x.pipeline) - 1)} x {n(inner)} + {accumulation} x {shown(sends, busy, hidden)}",
            "stages but one x s of a micro-batch, and sends between stages that computation does not hide",
        ),
        "data": (
            f"{shown(once, inner, hidden * BACKWARD_SHARE)} + {accumulation} x {shown(every, inner, hidden)}",
            f"collectives of gradients and sharded weights over {n(x.data)} replicas, once a step and once a micro-batch, that it does not hide",
        ),
        "optimizer": (
            f"{n(w.optimizer_bytes)} x {n(local_share(w, x))} / {n(shared)} / {bandwidth}",
            "bytes of states of the whole model x share of a device / ranks that share them / memory bandwidth reached",
        ),
        "host": (n(m.host_s), "work of the host in each step, fitted"),
    }
    for name, (expression, words) in expressions.items():
        told = f"{expression}: {words}" if times[name] else "0: does not occur"
        yield Term(name=f"{name}_time", value=times[name], unit="s per step", formula=told)
    samples, rate = float(chosen.layouts.samples[at]), float(chosen.samples_per_s[at])
    own = " + ".join(n(times[name]) for name in expressions)
    waited = input_wait_s(chosen, at)
    told = f"{n(samples)} / {n(rate)} - ({own}): samples of a step / what the input pipeline delivers - the parts above"
    yield Term(name="input_time", value=waited, unit="s per step", formula=told if waited else "0: does not occur")
    yield Term(
        name="step_time",
        value=float(chosen.time.total[at]) + waited,
        unit="s",
        formula=f"{own} + {n(waited)}: the parts above",
    )


def input_wait_s(chosen: Chosen, at: int) -> float:
    """Return the seconds that a step waits for its samples, beyond its own time; 0 where the input pipeline keeps up."""
    rate, free = float(chosen.samples_per_s[at]), float(chosen.free_per_s[at])
    return float(chosen.layouts.samples[at]) / rate - float(chosen.time.total[at]) if rate < free else 0.0


def _of(name: str, value: object, expression: str, words: str) -> Term:
    """Return a line of a micro-batch."""
    return Term(
        name=name,
        value=float(np.asarray(value)),
        unit="s per micro-batch",
        formula=f"{expression}: {words}",
        source="tables/parameters_training.json",
    )


def _micro_terms(step: Step, micro: MicroTime) -> Iterator[Term]:
    """Yield what a device computes on one micro-batch, by kind; what does not occur is left out."""
    w, x, m = step.work, step.layout, step.machine
    samples = f"{n(x.micro_batch)} / {n(x.tensor * x.context * x.pipeline)}"
    again = n(1 + w.backward + x.recompute)
    bandwidth = f"({n(m.bandwidth)} x {n(m.traffic_share)})"
    matmul, grouped = n(matmul_share(w, x, m)), n(grouped_share(w, m))
    words = "samples / devices that share one x FLOPs forward x passes / (peak x share reached)"
    lines = {
        "matrices": (f"{samples} x {n(w.narrow_flops)} x {again} / ({n(m.peak_flops)} x {matmul})", words),
        "experts": (f"{samples} x {n(w.expert_flops)} x {again} / ({n(m.peak_flops)} x {grouped})", words),
        "head": (f"{samples} x {n(w.wide_flops)} x {n(1 + w.backward)} / ({n(m.wide_peak_flops)} x {matmul})", words),
        "scores": (
            f"{samples} x {n(w.attention_flops)} x {n(3 + x.recompute_attention)} / ({n(m.wide_peak_flops)} x {n(m.attention_share)})",
            words,
        ),
        "traffic": (
            f"{samples} x ({n(w.activation_bytes)} x {n(3 + x.recompute)} + {n(w.head_bytes)}) / {bandwidth}",
            "samples / devices that share one x (bytes of activations x passes + of logits) / (memory bandwidth x share reached)",
        ),
        "weight_traffic": (
            f"{n(local_share(w, x))} x ({n(w.weight_bytes)} x {n(2 + x.recompute)} + 2 x {n(w.gradient_bytes)}) / {bandwidth}",
            "share of a device x (bytes of weights x passes + gradients written and read) / (memory bandwidth x share reached)",
        ),
    }
    for name, (expression, told) in lines.items():
        seconds = float(np.asarray(getattr(micro, "weights" if name == "weight_traffic" else name)))
        if seconds:
            yield _of(f"{name}_of_micro_batch", seconds, expression, told)
