"""The numbers behind a throughput, in the order of the calculation, each with what it was computed from.

Every formula has its numbers filled in, so that a step can be redone with a calculator from what is printed. All figures are of one
device of a replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.models.spec import AttentionKind, ModelSpec
from planner.perf import llm
from planner.perf.collectives import all_reduce_s
from planner.perf.model import InferenceWork, Term
from planner.perf.operating_point import Point

DATASHEET = "datasheet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The usable rates of one device as text, "peak x efficiency", beside their values."""

    weights: str
    cache: str
    narrow: str
    wide: str

    def compute(self, quantised: float) -> str:
        """Return the rate of a class of products."""
        return self.narrow if quantised else self.wide


def terms_of(spec: ModelSpec, point: Point, work: InferenceWork) -> tuple[Term, ...]:
    """Return the numbers behind the throughput, in the order of the calculation."""
    rates = rates_of(point)
    terms = [*hardware_terms(point), *decode_terms(spec, point, work, rates), *prefill_terms(spec, point, work, rates)]
    b = point.concurrency
    total, prefill = float(point.decode.total), float(point.prefill.total)
    request_s = work.output_tokens * total / b + prefill
    terms += [
        Term(name="concurrency per replica", value=float(b), unit="requests"),
        Term(
            name="accelerator time per request",
            value=request_s,
            unit="s",
            formula=f"output tokens x decode step / requests in flight + prefill = {work.output_tokens} x {total * 1e3:.6g} ms / {b} "
            f"+ {prefill * 1e3:.6g} ms",
        ),
        Term(
            name="requests per second of the instance",
            value=point.replicas / request_s,
            unit="requests/s",
            formula=f"replicas / accelerator time per request = {point.replicas} / {request_s:.6g} s",
        ),
    ]
    return tuple(terms)


def rates_of(point: Point) -> Rates:
    """Return peak x efficiency of one device in words."""
    c = point.candidate
    e, peaks = c.efficiency, c.hardware.peak_tflops
    bandwidth = f"{float(c.hardware.memory_bandwidth_gb_s or 0.0):.6g}"
    return Rates(
        weights=f"{bandwidth} GB/s x {e.weights_bandwidth:.6g}",
        cache=f"{bandwidth} GB/s x {e.kv_bandwidth:.6g}",
        narrow=f"{peaks[c.form.compute]:.6g} TFLOP/s x {e.compute_fraction(c.form.compute):.6g}",
        wide=f"{peaks[c.form.wide]:.6g} TFLOP/s x {e.compute_fraction(c.form.wide):.6g}",
    )


def hardware_terms(point: Point) -> Iterator[Term]:
    """Yield the peaks and how much of them is reached."""
    c = point.candidate
    h, e = c.hardware, c.efficiency
    source = e.sources[0]
    yield Term(name="peak memory bandwidth", value=float(h.memory_bandwidth_gb_s or 0.0), unit="GB/s", source=DATASHEET)
    for name in dict.fromkeys((c.form.compute, c.form.wide)):
        yield Term(
            name="peak dense compute" if name == c.form.compute else "peak dense compute of 16-bit parts",
            value=h.peak_tflops[name],
            unit=f"TFLOP/s {name}",
            source=DATASHEET,
        )
    evidence = f"{e.evidence_rows} measured rows of this chip in {e.evidence_groups} groups"
    yield Term(
        name="weights bandwidth efficiency",
        value=e.weights_bandwidth,
        unit="fraction",
        formula=evidence,
        source=source,
    )
    yield Term(name="KV bandwidth efficiency", value=e.kv_bandwidth, unit="fraction", source=source)
    for name in dict.fromkeys((c.form.compute, c.form.wide)):
        yield Term(
            name="compute efficiency" if name == c.form.compute else "compute efficiency of 16-bit parts",
            value=e.compute_fraction(name),
            unit="fraction",
            source=source,
        )


def decode_terms(spec: ModelSpec, point: Point, work: InferenceWork, rates: Rates) -> Iterator[Term]:
    """Yield the parts of a decode step; those whose names begin with "decode " add up to the step."""
    s, m, b = point.shape, point.machine, point.concurrency
    touched = float(llm.touched_share(s.routed_share, np.asarray(float(b))))
    if spec.experts:
        k_of_e = float(s.routed_share)
        yield Term(
            name="experts touched per step",
            value=touched,
            unit="fraction",
            formula=f"1 - (1 - k/E)^B = 1 - (1 - {k_of_e:.6g})^{b}",
        )
    for i, name in enumerate(llm.CLASSES):
        share = touched if i == llm.EXPERT else 1.0
        read, flops = float(s.weight_bytes[i]) * share, float(s.flops_per_token[i]) * b
        if not read:
            continue
        rate = float(m.narrow_flops if s.quantised[i] else m.wide_flops)
        bound = "compute" if flops / rate > read / float(m.weights_bytes_per_s) else "memory"
        yield Term(
            name=f"decode {name}: {bound}-bound at {flops / read:.3g} FLOP/B",
            value=float(point.decode.classes[i]) * 1e3,
            unit="ms",
            formula=f"the longer of {b} requests x {float(s.flops_per_token[i]):.6g} FLOP / ({rates.compute(s.quantised[i])}) and "
            f"{read:.6g} B / ({rates.weights})",
        )
    cache, scores = float(s.decode_cache_bytes), float(s.decode_attention_flops)
    yield Term(
        name="KV cache read per request and step",
        value=cache,
        unit="bytes",
        formula=cache_formula(spec, work, cache),
    )
    intensity = scores / cache if cache else 0.0
    yield Term(
        name=f"decode attention over KV cache at {intensity:.3g} FLOP/B",
        value=float(point.decode.attention) * 1e3,
        unit="ms",
        formula=f"the longer of {b} requests x {scores:.6g} FLOP / ({rates.wide}) and {b} requests x {cache:.6g} B / ({rates.cache})",
    )
    yield Term(
        name="decode collectives",
        value=float(point.decode.collectives) * 1e3,
        unit="ms",
        formula=collective_formula(point, float(b)),
    )
    yield Term(
        name="decode overhead",
        value=float(point.decode.overhead) * 1e3,
        unit="ms",
        formula=f"{overhead_formula(point)} + {b} requests x {float(m.sequence_overhead_s) * 1e6:.6g} µs",
        source=point.candidate.efficiency.sources[0],
    )
    yield Term(
        name="decode step", value=float(point.decode.total) * 1e3, unit="ms", formula='sum of what begins with "decode"'
    )


def prefill_terms(spec: ModelSpec, point: Point, work: InferenceWork, rates: Rates) -> Iterator[Term]:
    """Yield the parts of one prompt's time; those whose names begin with "prefill " add up to the prefill per request."""
    s, m, tokens, carried = point.shape, point.machine, work.input_tokens, point.step_tokens
    steps = tokens / carried
    yield Term(
        name="prompt tokens of a step",
        value=carried,
        unit="tokens",
        formula=f"one prompt is {tokens} / {carried:.6g} = {steps:.6g} steps",
    )
    touched = float(llm.touched_share(s.routed_share, np.asarray(carried)))
    for i, name in enumerate(llm.CLASSES):
        read = float(s.prompt_bytes[i]) * (touched if i == llm.EXPERT else 1.0)
        if not read:
            continue
        flops = float(s.prompt_flops_per_token[i])
        formula = (
            f"{steps:.6g} steps x the longer of {carried:.6g} tokens x {flops:.6g} FLOP / ({rates.compute(s.quantised[i])}) and "
            f"{read:.6g} B / ({rates.weights})"
        )
        if i == llm.HEAD:
            formula = (
                f"{steps:.6g} steps x {read:.6g} B / ({rates.weights}) + {float(s.prompt_head_flops):.6g} FLOP of one position / "
                f"({rates.wide})"
            )
        yield Term(name=f"prefill {name}", value=float(point.prefill.classes[i]) * 1e3, unit="ms", formula=formula)
    yield Term(
        name="prefill attention scores and values",
        value=float(point.prefill.attention) * 1e3,
        unit="ms",
        formula=f"{float(s.prompt_attention_flops):.6g} FLOP / ({rates.wide}), over the pairs of tokens of the prompt",
    )
    yield Term(
        name="prefill collectives",
        value=float(point.prefill.collectives) * 1e3,
        unit="ms",
        formula=f"{steps:.6g} steps x ({collective_formula(point, carried)})",
    )
    yield Term(
        name="prefill overhead",
        value=float(point.prefill.overhead) * 1e3,
        unit="ms",
        formula=f"{steps:.6g} steps x ({overhead_formula(point)}) + {float(m.sequence_overhead_s) * 1e6:.6g} µs",
    )
    yield Term(
        name="prefill per request",
        value=float(point.prefill.total) * 1e3,
        unit="ms",
        formula='sum of what begins with "prefill"',
    )


def cache_formula(spec: ModelSpec, work: InferenceWork, cache: float) -> str:
    """Return how the bytes of cache that a request reads in a step come about."""
    seen, crossed = llm.decode_contexts(spec, work.input_tokens, work.output_tokens)
    mean = (
        f"mean context of {seen:.6g} tokens"
        if crossed
        else f"mean context of {work.input_tokens} + {work.output_tokens} / 2 = {seen:.6g} tokens"
    )
    extras = []
    if crossed:
        extras.append(f"{crossed:.6g} tokens of the encoder")
    if any(a.window_tokens is not None and a.kind is not AttentionKind.BIDIRECTIONAL for a in spec.attention):
        extras.append("windowed layers read at most their window")
    if spec.state:
        extras.append("recurrent state read and written")
    if extras:
        return f"{mean}; {'; '.join(extras)}"
    return f"{mean} x {cache / seen:.6g} B a token on one device"


def collective_formula(point: Point, tokens: float) -> str:
    """Return the all-reduces of one step with their numbers."""
    s, m = point.shape, point.machine
    ranks = int(s.ranks)
    if ranks == 1:
        return "one device: nothing to reduce"
    payload = float(s.reduced_bytes_per_token) * tokens
    one = float(all_reduce_s(np.asarray(payload), ranks, m.link_latency_s, m.link_bytes_per_s))
    return (
        f"{llm.REDUCES_PER_LAYER:g} x {float(s.layers):g} layers x {one * 1e6:.6g} µs; one all-reduce of {payload:.6g} B over {ranks} = "
        f"{float(m.link_latency_s) * 1e6:.6g} µs x (1 + log2 {ranks}) / 2 + 2 x {ranks - 1}/{ranks} x bytes / "
        f"{float(m.link_bytes_per_s) / 1e9:.6g} GB/s"
    )


def overhead_formula(point: Point) -> str:
    """Return the overhead of a step apart from its requests."""
    m = point.machine
    return f"{float(point.shape.layers):g} layers x {float(m.layer_overhead_s) * 1e6:.6g} µs + {float(m.step_overhead_s) * 1e3:.6g} ms"
