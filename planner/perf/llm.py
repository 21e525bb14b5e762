"""Roofline of token generation: one step of prefill or decode, operator class by operator class.

t(step) = Σ_c (max(c, m) + u·min(c, m)) + attention + collectives + overhead with c = (n + n0)·FLOPs_c / (P_c·e_c) and
m = bytes_c / (W·e_w): products of n tokens cost as n + n0 (tiles that are not full, the ramp of the pipeline), and a share u of the
shorter of compute and traffic is not hidden behind the longer. Weights are read once a step whatever the number of tokens; a
request's cache is read once per generated token; experts are read as far as the step's tokens touch them, each with a ramp of its
own. Per device; with T devices each holds its share (see `memory`). With S pipeline stages a step carries one of S micro-batches
through all layers; a token of every request takes one such step (the stages work on different micro-batches meanwhile).

Everything is NumPy and broadcasts: scalars of one model and layout against arrays over hardware and concurrency.
References: Williams et al. 2009 (roofline); Pope et al. 2022 (arXiv:2211.05102); Agrawal et al. 2024 (chunked prefill, arXiv:2403.02310).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.models import counting
from planner.models.spec import AttentionKind, ModelSpec, TensorClass
from planner.perf.collectives import all_reduce_s
from planner.perf.memory import cache_bytes_per_token, is_down_projection, kv_projection_excess
from planner.perf.precision import Format, tensor_bits

Array = npt.NDArray[np.float64]

CLASSES = ("attention", "mlp", "expert", "head", "other")
EXPERT, HEAD = CLASSES.index("expert"), CLASSES.index("head")
CLASS_OF = {
    TensorClass.ATTENTION: 0,
    TensorClass.MLP: 1,
    TensorClass.SHARED_EXPERT: 1,
    TensorClass.EXPERT: EXPERT,
    TensorClass.HEAD: HEAD,
    TensorClass.ROUTER: 4,
    TensorClass.NORM: 4,
    TensorClass.STATE_SPACE: 4,
    TensorClass.OTHER: 4,
}
REDUCES_PER_LAYER = 2.0  # after attention and after the feed-forward


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Bytes and FLOPs of one device for one model, format, layout and request length. The last axis of arrays is the class."""

    weight_bytes: Array  # read by a step that touches everything
    flops_per_token: Array  # routed experts: the k chosen ones
    quantised: Array  # share of the class's products that run in the compute format (the rest is wide)
    routed_share: Array  # k / E of the expert layers; 1 where there are none
    prompt_bytes: Array  # as above, for prompt tokens (an encoder's weights in encoder-decoders)
    prompt_flops_per_token: Array
    prompt_attention_flops: Array  # scores and values of one whole prompt
    prompt_head_flops: Array  # one position per request
    decode_attention_flops: Array  # per generated token at the mean context
    decode_cache_bytes: Array  # read per generated token at the mean context
    layers: Array
    reduced_bytes_per_token: Array  # payload of one all-reduce
    ranks: Array  # devices that reduce together
    stages: Array  # pipeline stages; a micro-batch is 1/stages of the requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the roofline needs of hardware, engine and format together: usable rates (efficiency applied) and overheads."""

    weights_bytes_per_s: Array
    cache_bytes_per_s: Array
    narrow_flops: Array  # usable FLOP/s of the compute format
    wide_flops: Array  # usable FLOP/s in 16 bits
    attention_flops: Array  # usable FLOP/s of scores and values
    expert_share: Array  # of the usable rates that grouped products of experts reach
    ramp_tokens: Array  # n0: tokens by which a matrix product is dearer than its FLOPs
    unhidden: Array  # u: share of the shorter of compute and traffic that is not hidden
    link_latency_s: Array
    link_bytes_per_s: Array
    layer_overhead_s: Array
    step_overhead_s: Array
    sequence_overhead_s: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Seconds of one step and its parts."""

    total: Array
    classes: Array  # last axis: CLASSES
    attention: Array
    collectives: Array
    overhead: Array


def decode_contexts(spec: ModelSpec, input_tokens: float, output_tokens: float) -> tuple[float, float]:
    """Return (mean tokens that self-attention sees while generating, tokens that cross-attention sees)."""
    if any(a.kind is AttentionKind.CROSS for a in spec.attention):
        return output_tokens / 2, input_tokens
    return input_tokens + output_tokens / 2, 0.0


def shape_of(
    spec: ModelSpec,
    form: Format,
    *,
    kv_bits: float,
    tp: int,
    input_tokens: float,
    output_tokens: float,
    pp: int = 1,
) -> Shape:
    """Return the bytes and FLOPs of one of `tp` devices, all `pp` stages together; MLA is decoded in its absorbed form."""
    width = len(CLASSES)
    weights, flops, narrow = np.zeros(width), np.zeros(width), np.zeros(width)
    prompt_weights, prompt_flops = np.zeros(width), np.zeros(width)
    routed = next((f.experts_per_token / f.experts for f in spec.feed_forward if f.experts), 1.0)
    encoder_decoder = any(t.tower == "encoder" for t in spec.tensors)
    head_flops = 0.0
    for t in spec.tensors:
        index = CLASS_OF.get(t.tensor_class)
        if index is None or t.tower == "vision":
            continue
        bits = tensor_bits(spec, t, form)
        numbers = float(t.matmul_parameters or t.parameters)
        split = 1 if is_down_projection(t) or index == 4 else tp
        size = numbers * bits / 8 / split
        work = 2.0 * t.matmul_parameters / split * (routed if index == EXPERT else 1.0)
        if t.tower != "encoder":
            weights[index] += size
            flops[index] += work
        if (t.tower == "encoder") == encoder_decoder:
            prompt_weights[index] += size
            if index == HEAD:
                head_flops += work
            else:
                prompt_flops[index] += work
        if t.quantisable and index < HEAD:
            narrow[index] = 1.0
    excess = kv_projection_excess(spec, tp)
    if excess:
        bits = next(tensor_bits(spec, t, form) for t in spec.tensors if t.tensor_class is TensorClass.ATTENTION)
        weights[0] += excess * bits / 8
        flops[0] += 2 * excess
        prompt_weights[0] += excess * bits / 8
        prompt_flops[0] += 2 * excess
    seen, crossed = decode_contexts(spec, input_tokens, output_tokens)
    attention, cache = 2.0 * counting.state_bytes_per_sequence(spec, tensor_parallel=tp), 0.0
    cache, attention = attention, counting.state_flops_per_token(spec) / tp
    prompt_attention = 0.0
    for a in spec.attention:
        if a.tower == "vision":
            continue
        pair = a.count * 2.0 * a.heads / tp
        if a.kind is AttentionKind.BIDIRECTIONAL:
            prompt_attention += pair * (a.head_dim + a.value_head_dim) * input_tokens * input_tokens
            continue
        length = crossed if a.kind is AttentionKind.CROSS else seen
        if a.window_tokens is not None:
            length = min(length, a.window_tokens)
        absorbed = a.latent_dim is not None and a.latent_value_dim is not None
        score = (a.latent_dim or 0) + (a.latent_value_dim or 0) if absorbed else a.head_dim + a.value_head_dim
        cache += cache_bytes_per_token(a, kv_bits, tp) * length
        attention += pair * score * length
        if a.tower == "text" and not encoder_decoder:
            prompt_attention += (
                pair * (a.head_dim + a.value_head_dim) * counting.seen_pairs(int(input_tokens), a.window_tokens)
            )
    return Shape(
        weight_bytes=weights,
        flops_per_token=flops,
        quantised=narrow if form.native and form.compute != form.wide else np.zeros(width),
        routed_share=np.asarray(routed),
        prompt_bytes=prompt_weights,
        prompt_flops_per_token=prompt_flops,
        prompt_attention_flops=np.asarray(prompt_attention),
        prompt_head_flops=np.asarray(head_flops),
        decode_attention_flops=np.asarray(attention),
        decode_cache_bytes=np.asarray(cache),
        layers=np.asarray(float(spec.layers)),
        reduced_bytes_per_token=np.asarray(2.0 * spec.hidden_size),
        ranks=np.asarray(float(tp)),
        stages=np.asarray(float(pp)),
    )


def stacked(shapes: Sequence[Shape]) -> Shape:
    """Return many shapes as one whose arrays have a first axis over them."""
    return Shape(**{name: np.stack([getattr(s, name) for s in shapes]) for name in Shape.__slots__})


def touched_share(routed_share: Array, tokens: Array) -> Array:
    """Return the expected share of experts that `tokens` tokens touch: 1 - (1 - k/E)^tokens."""
    return 1.0 - (1.0 - routed_share) ** tokens


def products_s(weight_bytes: Array, flops: Array, shape: Shape, machine: Machine, tokens: Array) -> Array:
    """Return seconds of the matrix products of a step by class: the slower of compute and weight traffic, and what is not hidden."""
    share = touched_share(shape.routed_share, tokens)
    # A touched expert has k/(E·share) of the tokens and a ramp of its own: n·k + E·share·n0 tokens in all, in units of k.
    dense, routed = tokens + machine.ramp_tokens, tokens + machine.ramp_tokens * share / shape.routed_share
    is_expert = np.arange(len(CLASSES)) == EXPERT
    grouped = np.where(is_expert, machine.expert_share[..., None], 1.0)
    read = (
        weight_bytes * np.where(is_expert, share[..., None], 1.0) / (machine.weights_bytes_per_s[..., None] * grouped)
    )
    rate = np.where(shape.quantised > 0, machine.narrow_flops[..., None], machine.wide_flops[..., None]) * grouped
    work = np.where(is_expert, routed[..., None], dense[..., None]) * flops / rate
    return np.maximum(read, work) + machine.unhidden[..., None] * np.minimum(read, work)


def overhead_s(shape: Shape, machine: Machine, sequences: Array) -> Array:
    """Return the time of one step that neither compute nor traffic explains."""
    return shape.layers * machine.layer_overhead_s + machine.step_overhead_s + sequences * machine.sequence_overhead_s


def reduces_s(shape: Shape, machine: Machine, tokens: Array) -> Array:
    """Return the time of a step's all-reduces: two a layer, of one hidden row per token."""
    one = all_reduce_s(
        shape.reduced_bytes_per_token * tokens, shape.ranks, machine.link_latency_s, machine.link_bytes_per_s
    )
    return REDUCES_PER_LAYER * shape.layers * one


def hops_s(shape: Shape, machine: Machine, tokens: Array) -> Array:
    """Return the time in which a micro-batch passes from stage to stage: one message a hop."""
    one = machine.link_latency_s + shape.reduced_bytes_per_token * tokens / machine.link_bytes_per_s
    return (shape.stages - 1.0) * one


def decode_step(shape: Shape, machine: Machine, concurrency: Array) -> Step:
    """Return one decode step of `concurrency` requests at their mean context: the time in which each gets one token."""
    carried = np.maximum(concurrency / shape.stages, 1.0)
    classes = products_s(shape.weight_bytes, shape.flops_per_token, shape, machine, carried)
    read = carried * shape.decode_cache_bytes / machine.cache_bytes_per_s
    attention = np.maximum(read, carried * shape.decode_attention_flops / machine.attention_flops)
    collectives = reduces_s(shape, machine, carried) + hops_s(shape, machine, carried)
    overhead = overhead_s(shape, machine, carried)
    return Step(
        total=classes.sum(axis=-1) + attention + collectives + overhead,
        classes=classes,
        attention=attention,
        collectives=collectives,
        overhead=overhead,
    )


def prefill_of(shape: Shape, machine: Machine, input_tokens: float | Array, step_tokens: Array) -> Step:
    """Return the time of the accelerators that one prompt takes when prefill steps carry `step_tokens` tokens, of one or more prompts.

    A prompt longer than a step needs several; short prompts share one, so each pays its share of it. With pipeline stages this is the
    time by which it holds up the others: 1/stages of its way through all of them.
    """
    steps = input_tokens / step_tokens
    each = steps / shape.stages
    classes = (
        products_s(shape.prompt_bytes, shape.prompt_flops_per_token, shape, machine, step_tokens) * each[..., None]
    )
    head = shape.prompt_head_flops / machine.wide_flops / shape.stages
    classes[..., HEAD] += head
    attention = shape.prompt_attention_flops / machine.attention_flops / shape.stages
    collectives = (reduces_s(shape, machine, step_tokens) + hops_s(shape, machine, step_tokens)) * each
    overhead = overhead_s(shape, machine, np.zeros_like(steps)) * each + machine.sequence_overhead_s
    return Step(
        total=classes.sum(axis=-1) + attention + collectives + overhead,
        classes=classes,
        attention=attention + 0 * steps,
        collectives=collectives,
        overhead=overhead,
    )


def steady_requests_per_s(concurrency: Array, output_tokens: float, decode_s: Array, prefill_s: Array) -> Array:
    """Return requests/s of one replica under continuous batching: B / (OSL·t_decode(B) + B·t_prefill)."""
    return concurrency / (output_tokens * decode_s + concurrency * prefill_s)
