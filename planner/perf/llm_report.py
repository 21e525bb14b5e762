"""From an operating point to an `Evaluation`: layout, memory lines, rates, latencies, power and notes."""

from __future__ import annotations

import numpy as np

from planner.models import counting
from planner.models.spec import ModelKind, ModelSpec
from planner.perf import llm
from planner.perf.arrivals import ServingArrivals
from planner.perf.engines import SPLIT_BY_LAYERS
from planner.perf.layouts import Split, searches_experts
from planner.perf.llm_terms import terms_of
from planner.perf.memory import has_windows, inference_memory
from planner.perf.model import Basis, Evaluation, InferenceWork, LateTerms, Layout, Percentiles, Performance, Rates
from planner.perf.operating_point import Point
from planner.perf.precision import KV_BITS
from planner.perf.serving_parameters import evidence_notes, source_of
from planner.perf.speculation import DRAFT_SHARE

IDLE_POWER_SHARE = 0.3
DECODE_POWER_SHARE = 0.7
PREFILL_POWER_SHARE = 1.0
"""Share of TDP drawn while idle, while decoding (memory-bound) and while prefilling (compute-bound). After Patel et al. 2024
(POLCA, arXiv:2308.12908): prompt phases reach TDP, token phases stay well below it."""


def evaluation_of(spec: ModelSpec, point: Point, work: InferenceWork, factors: tuple[float, float]) -> Evaluation:
    """Return the evaluation of one instance, or of those that a replica spans, at an operating point."""
    c = point.candidate
    h, out, split = c.hardware, work.output_tokens, c.split
    replicas = point.replicas
    decode, prefill = float(point.decode.total), float(point.prefill.total)
    requests = (
        float(
            llm.steady_requests_per_s(
                np.asarray(float(point.concurrency)), out, np.asarray(decode), np.asarray(prefill)
            )
        )
        * replicas
    )
    prefill_share = requests / replicas * prefill
    memory = inference_memory(
        spec,
        h,
        c.form,
        kv_bits=KV_BITS[c.kv_precision],
        tp=split.tp,
        pp=split.pp,
        groups=split.groups,
        engine=work.engine,
        input_tokens=work.input_tokens,
        output_tokens=out,
        concurrency=point.concurrency,
        weights=point.weights,
    )
    low, high = factors
    performance = Performance(
        basis=Basis.MODELLED,
        rates=Rates(
            requests_per_s=requests,
            output_tokens_per_s=requests * out,
            total_tokens_per_s=requests * (out + work.input_tokens),
        ),
        low_factor=low,
        high_factor=high,
        ttft_ms=Percentiles(p50=float(point.p50.ttft) * 1e3, p99=float(point.p99.ttft) * 1e3),
        tpot_ms=None if out <= 1 else Percentiles(p50=float(point.p50.tpot) * 1e3, p99=float(point.p99.tpot) * 1e3),
        e2e_ms=Percentiles(p50=float(point.p50.e2e) * 1e3, p99=float(point.p99.e2e) * 1e3),
        mfu_fraction=requests
        * request_flops(spec, work)
        / (h.peak_tflops[c.form.compute] * 1e12 * h.devices * split.instances),
        prefill_time_fraction=prefill_share,
        power_w=power_w(point, prefill_share),
        sources=(source_of(c.parameters),),
        terms=LateTerms(lambda: terms_of(spec, point, work, source=source_of(c.parameters))),
    )
    layout = Layout(
        engine=work.engine,
        precision=c.form.weights,
        kv_precision=c.kv_precision,
        tensor_parallel=split.tp,
        pipeline_parallel=split.pp,
        expert_parallel=split.tp * split.groups if spec.experts and split.expert_parallel else None,
        data_parallel=split.groups,
        replicas_per_instance=None if split.instances > 1 else replicas,
        max_concurrency=point.concurrency,
        speculative_tokens=work.speculative_tokens,
    )
    return Evaluation(
        layout=layout,
        instances=split.instances,
        memory=memory,
        performance=performance,
        notes=notes_of(spec, point, work),
        arrivals=None
        if point.replica is None
        else ServingArrivals(replica=point.replica, replicas=replicas, limits=work.limits),
    )


def request_flops(spec: ModelSpec, work: InferenceWork) -> float:
    """Return the forward FLOPs of one request: the prompt, and each output token at its mean context."""
    context, _ = llm.decode_contexts(spec, work.input_tokens, work.output_tokens)
    return counting.prefill_flops(spec, work.input_tokens) + (work.output_tokens - 1) * counting.flops_per_token(
        spec, context
    )


def power_w(point: Point, prefill_share: float) -> float | None:
    """Return the power of the instance's devices, W: TDP x share by phase; devices outside any replica idle."""
    h = point.candidate.hardware
    if h.tdp_w is None:
        return None
    devices = h.devices * point.candidate.split.instances
    busy = point.replicas * point.candidate.split.devices
    share = prefill_share * PREFILL_POWER_SHARE + (1 - prefill_share) * DECODE_POWER_SHARE
    return h.tdp_w * (busy * share + (devices - busy) * IDLE_POWER_SHARE)


def notes_of(spec: ModelSpec, point: Point, work: InferenceWork) -> tuple[str, ...]:
    """Return what a reader must know to trust or dispute the figures."""
    c = point.candidate
    notes = [*c.form.notes, *([c.support.note] if c.support.note else [])]
    if has_windows(spec):
        notes.append(
            "KV cache counted in full length; some layers keep only a window, which an engine with a hybrid cache manager saves"
        )
    if spec.kind is ModelKind.ENCODER_DECODER and work.engine == "vllm":
        notes.append("encoder-decoder models need a plug-in in vLLM; figures are the roofline's")
    if work.engine == "pytorch":
        notes.append("plain PyTorch has no continuous batching: figures hold when something keeps the batch full")
    if work.engine == "tgi":
        notes.append("Text Generation Inference is maintained no further; its makers point to vLLM and SGLang")
    notes.extend(split_notes(spec, point, work))
    notes.extend(evidence_notes(c.hardware, work.engine, c.parameters))
    return tuple(notes)


def across_words(split: Split) -> str:
    """Return what goes between the machines of a replica."""
    stages = f"{split.pp} pipeline stages of {split.tp * split.groups} devices, activations"
    if split.machines == 1:
        return stages
    inside = (
        f"experts over {split.tp * split.groups} devices, rows to them and back"
        if split.groups > 1
        else f"tensor parallelism over {split.tp} devices, two all-reduces a layer"
    )
    return inside if split.pp == 1 else f"{stages}; {inside}"


def split_notes(spec: ModelSpec, point: Point, work: InferenceWork) -> list[str]:
    """Return what to know of how the model is split, and of speculation."""
    c, s = point.candidate, point.candidate.split
    notes = []
    devices = c.hardware.devices * s.instances
    idle = devices - point.replicas * s.devices
    if idle:
        notes.append(f"{idle} of {devices} devices stay idle: {point.replicas} replicas of {s.devices}")
    if s.instances > 1:
        notes.append(
            f"one replica spans {s.instances} instances: {across_words(s)} over the network of {c.hardware.network_gbps:g} Gbit/s (place them "
            "side by side, in a cluster placement group); if one instance stops, it stops"
        )
    if s.groups > 1:
        notes.append(
            f"{s.groups} groups of {s.tp} attend to requests of their own and share the experts: requests must be spread evenly over them; "
            "published rows do not state such groups, so none answers for this layout and its range is wider"
        )
    elif s.expert_parallel and s.tp > 1 and work.expert_parallel == s.tp:
        notes.append(
            f"experts are dealt out whole over the {s.tp} devices of the tensor-parallel group (TP{s.tp} with EP{s.tp}): as many bytes a device, "
            f"and timed, as TP{s.tp} alone"
        )
    if work.engine in SPLIT_BY_LAYERS and s.pp > 1:
        notes.append(
            f"{work.engine} splits layers over {s.pp} devices: a token passes from one to the next, so decoding gets no faster"
        )
    repeated = any(a.latent_dim is not None or a.kv_heads < s.tp for a in spec.attention if a.cache_elements_per_token)
    if (
        spec.experts
        and s.tp > 1
        and s.groups == 1
        and repeated
        and "ep" in c.support.parallel
        and work.expert_parallel is None
        and not searches_experts(work)
    ):
        notes.append(
            f"tensor parallelism keeps parts of the KV cache on several devices: --tensor-parallel 1 --expert-parallel {s.tp} (attention data "
            "parallel) would hold more requests; it is not tried where another degree is asked for"
        )
    speculation = point.speculation
    if speculation.proposed:
        notes.append(
            f"speculative decoding: {speculation.proposed} proposed tokens a step, each accepted with chance {speculation.acceptance:g} (stated, not "
            f"measured): {speculation.tokens_per_step:.3g} tokens a step; proposing one is assumed to take {DRAFT_SHARE:g} of a step, and the memory of the draft "
            "is not counted"
        )
    return notes
