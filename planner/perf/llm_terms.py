"""The numbers behind a throughput, in the order of the calculation, each with what it was computed from.

Every formula has its numbers filled in, so that a step can be redone with a calculator from what is printed. All figures are of one
device of a replica. The parts of a step are in `llm_step_terms`.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.spec import AttentionKind, ModelSpec
from planner.perf import llm
from planner.perf.llm_step_terms import Parts, bound_term, decode_parts, prefill_parts
from planner.perf.model import InferenceWork, Term
from planner.perf.operating_point import Point
from planner.perf.serving_parameters import padded
from planner.perf.speculation import DRAFT_SHARE

DATASHEET = "datasheet"
LEVIATHAN = "Leviathan et al. 2023 (arXiv:2211.17192)"


def terms_of(spec: ModelSpec, point: Point, work: InferenceWork, *, source: str) -> tuple[Term, ...]:
    """Return the numbers behind the throughput, in the order of the calculation. `source`: of the shares of the peaks."""
    terms = [
        *hardware_terms(point, source),
        *decode_terms(spec, point, work, source),
        *prefill_terms(point, work, source),
    ]
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
            name="requests per second of the instance"
            if point.candidate.split.instances == 1
            else f"requests per second of {point.candidate.split.instances} instances",
            value=point.replicas / request_s,
            unit="requests/s",
            formula=f"replicas / accelerator time per request = {point.replicas} / {request_s:.6g} s",
        ),
    ]
    return tuple(terms)


def hardware_terms(point: Point, source: str) -> Iterator[Term]:
    """Yield the peaks and how much of them is reached."""
    c, m = point.candidate, point.machine
    h = c.hardware
    bandwidth = float(h.memory_bandwidth_gb_s or 0.0)
    yield Term(name="peak memory bandwidth", value=bandwidth, unit="GB/s", source=DATASHEET)
    formats = list(dict.fromkeys((c.form.compute, c.form.wide)))
    for name in formats:
        yield Term(
            name="peak dense compute" if name == c.form.compute else "peak dense compute of 16-bit parts",
            value=h.peak_tflops[name],
            unit=f"TFLOP/s {name}",
            source=DATASHEET,
        )
    shares = [
        ("weights bandwidth efficiency", float(m.weights_bytes_per_s) / 1e9 / bandwidth),
        ("KV bandwidth efficiency", float(m.cache_bytes_per_s) / 1e9 / bandwidth),
        ("compute efficiency", float(m.narrow_flops) / 1e12 / h.peak_tflops[c.form.compute]),
    ]
    if len(formats) > 1:
        shares.append(("compute efficiency of 16-bit parts", float(m.wide_flops) / 1e12 / h.peak_tflops[c.form.wide]))
    for name, share in shares:
        yield Term(name=name, value=share, unit="fraction", source=source)


def decode_terms(spec: ModelSpec, point: Point, work: InferenceWork, source: str) -> Iterator[Term]:
    """Yield the parts of a decode step; those whose names begin with "decode " add up to the step."""
    s, b, speculation = point.shape, point.concurrency, point.speculation
    parts = decode_parts(point)
    if float(s.stages * s.groups) > 1:
        yield Term(
            name="requests that one step carries",
            value=parts.sequences,
            unit="requests",
            formula=f"{b} in flight / ({float(s.stages):g} stages x {float(s.groups):g} groups), at least 1",
        )
    if speculation.proposed:
        k, a = speculation.proposed, speculation.acceptance
        yield Term(
            name="tokens that a verifying step brings a request",
            value=speculation.tokens_per_step,
            unit="tokens",
            formula=f"(1 - A^(K+1)) / (1 - A), K = {k} proposed, A = {a:g} accepted",
            source=LEVIATHAN,
        )
        yield Term(
            name="time of a token over that of a verifying step",
            value=speculation.factor,
            unit="fraction",
            formula=f"(1 + {k} x {DRAFT_SHARE:g}) / {speculation.tokens_per_step:.6g}; proposing a token is assumed to take {DRAFT_SHARE:g} of a step",
            source=LEVIATHAN,
        )
    if spec.experts:
        yield Term(
            name="experts touched per step",
            value=parts.touched,
            unit="fraction",
            formula=f"1 - (1 - k/E)^n = 1 - (1 - {float(s.routed_share):.6g})^{parts.tokens * float(s.groups):.6g}",
        )
    cache = float(s.decode_cache_bytes)
    yield Term(
        name="KV cache read per request and step",
        value=cache,
        unit="bytes",
        formula=cache_formula(spec, work, cache, whole=padded(point.candidate.hardware, work.engine)),
    )
    yield from _of(parts, "decode")
    yield Term(
        name="decode step" if not speculation.proposed else "decode time of a token",
        value=float(point.decode.total) * 1e3,
        unit="ms",
        formula='sum of what begins with "decode"',
        source=source,
    )
    yield bound_term("decode", parts)


def prefill_terms(point: Point, work: InferenceWork, source: str) -> Iterator[Term]:
    """Yield the parts of one prompt's time; those whose names begin with "prefill " add up to the prefill per request."""
    carried = point.step_tokens
    parts = prefill_parts(point, work.input_tokens)
    yield Term(
        name="prompt tokens of a step",
        value=carried,
        unit="tokens",
        formula=f"one prompt is {work.input_tokens} / {carried:.6g} = {work.input_tokens / carried:.6g} steps",
    )
    yield from _of(parts, "prefill")
    yield Term(
        name="prefill per request",
        value=float(point.prefill.total) * 1e3,
        unit="ms",
        formula='sum of what begins with "prefill"',
        source=source,
    )
    yield bound_term("prefill", parts)


def _of(parts: Parts, phase: str) -> Iterator[Term]:
    for part in parts.parts:
        told = f": {part.bound}-bound at {part.intensity:.3g} FLOP/B" if part.intensity is not None else ""
        yield Term(name=f"{phase} {part.name}{told}", value=part.seconds * 1e3, unit="ms", formula=part.formula)


def cache_formula(spec: ModelSpec, work: InferenceWork, cache: float, *, whole: bool) -> str:
    """Return how the bytes of cache that a request reads in a step come about; `whole`: steps compiled for the longest sequence."""
    seen, crossed = llm.decode_contexts(spec, work.input_tokens, work.output_tokens, padded=whole)
    kind, generated = ("longest", "") if whole else ("mean", " / 2")
    mean = (
        f"{kind} context of {seen:.6g} tokens"
        if crossed
        else f"{kind} context of {work.input_tokens} + {work.output_tokens}{generated} = {seen:.6g} tokens"
    )
    extras = []
    if crossed:
        extras.append(f"{crossed:.6g} tokens of the encoder")
    if not whole and any(a.window_tokens and a.kind is not AttentionKind.BIDIRECTIONAL for a in spec.attention):
        extras.append("windowed layers read at most their window")
    if spec.state:
        extras.append("recurrent state read and written")
    if extras:
        return f"{mean}; {'; '.join(extras)}"
    return f"{mean} x {cache / seen:.6g} B a token on one device"
