"""Roofline of token generation: one step of prefill or decode, operator class by operator class.

t(step) = Σ_c (max(c, m) + u·min(c, m)) + attention + activations + collectives + overhead with c = (n + n0)·FLOPs_c / (P_c·e_c) and
m = bytes_c / (W·e_w): products of n tokens cost as n + n0 (tiles that are not full, the ramp of the pipeline), and a share u of the
shorter of compute and traffic is not hidden behind the longer. Weights that are stored narrower than they are multiplied are widened first,
which adds numbers·passes / V to c: V the widened numbers a second of the vector units, a pass for each tile of 64 tokens. Weights are read once a step whatever the number of tokens; a
request's cache is read once per generated token; experts are read as far as the step's tokens touch them, each with a ramp of its
own. Per device; with T devices each holds its share (see `memory`). With S pipeline stages a step carries one of S micro-batches
through all layers; a token of every request takes one such step (the stages work on different micro-batches meanwhile).

Everything is NumPy and broadcasts: scalars of one model and layout against arrays over hardware and concurrency.
References: Williams et al. 2009 (roofline); Pope et al. 2022 (arXiv:2211.05102); Agrawal et al. 2024 (chunked prefill, arXiv:2403.02310).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from planner.models import counting
from planner.models.spec import AttentionKind, ModelSpec, TensorClass
from planner.perf.collectives import all_reduce_between_s, all_reduce_s
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
NARROW_BITS = 12.0  # scales included, what is stored in fewer is widened to 16
REDUCES_PER_LAYER = 2.0  # after attention and after the feed-forward
TILE_TOKENS = 64.0
"""Tokens for which weights that were widened once are multiplied: the largest tile of weight-only kernels (Frantar et al. 2024, Marlin,
arXiv:2408.11743: 64 rows a block). A step of more tokens widens them again for each tile."""
EXCHANGED_BYTES = 2.0 + 2.0  # of one number to an expert and back, 16 bits each way


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Bytes and FLOPs of one device for one model, format, layout and request length. The last axis of arrays is the class."""

    weight_bytes: Array  # read by a step that touches everything
    flops_per_token: Array  # routed experts: the k chosen ones
    quantised: Array  # share of the class's products that run in the compute format (the rest is wide)
    widened: Array  # 1 where the class's weights are stored narrower than they are multiplied
    routed_share: Array  # k / E of the expert layers; 1 where there are none
    prompt_bytes: Array  # as above, for prompt tokens (an encoder's weights in encoder-decoders)
    prompt_flops_per_token: Array
    prompt_attention_flops: Array  # scores and values of one whole prompt
    prompt_head_flops: Array  # one position per request
    decode_attention_flops: Array  # per generated token at the mean context
    decode_cache_bytes: Array  # read per generated token at the mean context
    activation_bytes_per_token: Array  # intermediate results written and read by the kernels of all layers
    layers: Array
    reduced_bytes_per_token: Array  # payload of one all-reduce
    ranks: Array  # devices that reduce together
    stages: Array  # pipeline stages; a micro-batch is 1/stages of the requests
    spans: Array  # places that the stages lie on: spans - 1 of the hops go over the network
    machines: Array  # that one stage lies on
    groups: Array  # groups with attention of their own (each 1/groups of the requests) that share experts
    exchanged_bytes_per_token: Array  # rows that a token sends to experts of other groups and gets back, all layers
    crossing_bytes_per_token: Array  # of them over the network of one machine, for a token of each group
    expert_layers: Array
    experts: Array  # of one layer on one device; 0 where there are none


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the roofline needs of hardware, engine and format together: usable rates (efficiency applied) and overheads."""

    weights_bytes_per_s: Array
    cache_bytes_per_s: Array
    narrow_flops: Array  # usable FLOP/s of the compute format
    wide_flops: Array  # usable FLOP/s in 16 bits
    attention_flops: Array  # usable FLOP/s of scores and values
    expert_share: Array  # of the usable rates that grouped products of experts reach
    widened_per_s: Array | float = 1e99  # weights that are widened before they are multiplied
    routing_overhead_s: Array  # sorting tokens by expert and gathering results, of one layer
    expert_overhead_s: Array  # start of one touched expert's products, of one layer
    own_routing: Array | float = 1.0  # share of a step's tokens that choose experts independently of the others
    activation_bytes_per_s: Array
    ramp_tokens: Array  # n0: tokens by which a matrix product is dearer than its FLOPs
    unhidden: Array  # u: share of the shorter of compute and traffic that is not hidden
    link_latency_s: Array
    link_bytes_per_s: Array
    network_latency_s: Array | float = 0.0  # between machines
    network_bytes_per_s: Array | float = 1e99
    layer_overhead_s: Array
    step_overhead_s: Array
    sequence_overhead_s: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Seconds of one step and its parts."""

    total: Array
    classes: Array  # last axis: CLASSES
    attention: Array
    activations: Array  # traffic of intermediate results
    collectives: Array
    overhead: Array
    shared: Array  # saved by prompts that ride in decode steps: weights read and layers started once for both; total is less by it


def decode_contexts(
    spec: ModelSpec, input_tokens: float, output_tokens: float, *, padded: bool = False
) -> tuple[float, float]:
    """Return (mean tokens that self-attention works on while generating, tokens that cross-attention works on).

    `padded`: steps are compiled for the longest sequence and work on a cache of that length from the first token on.
    """
    generated = output_tokens if padded else output_tokens / 2
    if any(a.kind is AttentionKind.CROSS for a in spec.attention):
        return generated, input_tokens
    return input_tokens + generated, 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one device holds and computes for a token whatever the lengths: fields of `Shape`, kept from one question to the next."""

    weight_bytes: Array
    flops_per_token: Array
    quantised: Array
    widened: Array
    routed_share: float
    prompt_bytes: Array
    prompt_flops_per_token: Array
    prompt_head_flops: float
    activation_bytes_per_token: float
    encoder_decoder: bool


@lru_cache(maxsize=4096)
def held_by(spec: ModelSpec, form: Format, tp: int, groups: int) -> Held:
    """Return the weights and products of one of `tp` devices, with 1/groups of the experts."""
    width = len(CLASSES)
    weights, flops, narrow, widened = [0.0] * width, [0.0] * width, [0.0] * width, [0.0] * width
    prompt_weights, prompt_flops = [0.0] * width, [0.0] * width
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
        size = numbers * bits / 8 / split / (groups if index == EXPERT else 1)
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
            if not form.native and bits < NARROW_BITS:
                widened[index] = 1.0
    excess = kv_projection_excess(spec, tp)
    if excess:
        bits = next(tensor_bits(spec, t, form) for t in spec.tensors if t.tensor_class is TensorClass.ATTENTION)
        weights[0] += excess * bits / 8
        flops[0] += 2 * excess
        prompt_weights[0] += excess * bits / 8
        prompt_flops[0] += 2 * excess
    return Held(
        weight_bytes=np.array(weights),
        flops_per_token=np.array(flops),
        quantised=np.array(narrow) if form.native and form.compute != form.wide else np.zeros(width),
        widened=np.array(widened),
        routed_share=routed,
        prompt_bytes=np.array(prompt_weights),
        prompt_flops_per_token=np.array(prompt_flops),
        prompt_head_flops=head_flops,
        activation_bytes_per_token=activation_traffic(spec, tp),
        encoder_decoder=encoder_decoder,
    )


def shape_of(
    spec: ModelSpec,
    form: Format,
    *,
    kv_bits: float,
    tp: int,
    input_tokens: float,
    output_tokens: float,
    pp: int = 1,
    spans: int = 1,
    machines: int = 1,
    groups: int = 1,
    padded: bool = False,
    shards: int = 1,
) -> Shape:
    """Return the bytes and FLOPs of one of `tp` devices, all `pp` stages together; MLA is decoded in its absorbed form.

    `groups` of `tp` devices attend to requests of their own and deal the routed experts out among all of them (attention data
    parallel, expert parallel): a device has 1/groups of the experts, and work of all groups for them. `padded`: see `decode_contexts`;
    windows shorten nothing then. `shards`: ranks of one device, each of which caches at least one head.
    """
    held = held_by(spec, form, tp, groups)
    seen, crossed = decode_contexts(spec, input_tokens, output_tokens, padded=padded)
    cache = 2.0 * counting.state_bytes_per_sequence(spec, tensor_parallel=tp)
    attention = counting.state_flops_per_token(spec) / tp
    prompt_attention = 0.0
    for a in spec.attention:
        if a.tower == "vision":
            continue
        pair = a.count * 2.0 * a.heads / tp
        if a.kind is AttentionKind.BIDIRECTIONAL:
            prompt_attention += pair * (a.head_dim + a.value_head_dim) * input_tokens * input_tokens
            continue
        length = crossed if a.kind is AttentionKind.CROSS else seen
        if a.window_tokens is not None and not padded:
            length = min(length, a.window_tokens)
        absorbed = a.latent_dim is not None and a.latent_value_dim is not None
        score = (a.latent_dim or 0) + (a.latent_value_dim or 0) if absorbed else a.head_dim + a.value_head_dim
        cache += shards * cache_bytes_per_token(a, kv_bits, tp * shards) * length
        attention += pair * score * length
        if a.tower == "text" and not held.encoder_decoder:
            prompt_attention += (
                pair * (a.head_dim + a.value_head_dim) * counting.seen_pairs(int(input_tokens), a.window_tokens)
            )
    expert_layers = sum(f.count for f in spec.feed_forward if f.experts)
    sent = sum(f.count * f.experts_per_token for f in spec.feed_forward if f.experts) if groups > 1 else 0.0
    return Shape(
        weight_bytes=held.weight_bytes,
        flops_per_token=held.flops_per_token,
        quantised=held.quantised,
        widened=held.widened,
        routed_share=np.asarray(held.routed_share),
        prompt_bytes=held.prompt_bytes,
        prompt_flops_per_token=held.prompt_flops_per_token,
        prompt_attention_flops=np.asarray(prompt_attention),
        prompt_head_flops=np.asarray(held.prompt_head_flops),
        decode_attention_flops=np.asarray(attention),
        decode_cache_bytes=np.asarray(cache),
        activation_bytes_per_token=np.asarray(held.activation_bytes_per_token),
        layers=np.asarray(float(spec.layers)),
        reduced_bytes_per_token=np.asarray(2.0 * spec.hidden_size),
        ranks=np.asarray(float(tp)),
        stages=np.asarray(float(pp)),
        spans=np.asarray(float(spans)),
        machines=np.asarray(float(machines)),
        groups=np.asarray(float(groups)),
        exchanged_bytes_per_token=np.asarray(sent * spec.hidden_size * EXCHANGED_BYTES * (1 - 1 / groups) / tp),
        crossing_bytes_per_token=np.asarray(crossing_rows(spec, machines, groups) * spec.hidden_size * EXCHANGED_BYTES),
        expert_layers=np.asarray(float(expert_layers)),
        experts=np.asarray(max((f.experts for f in spec.feed_forward), default=0) / groups),
    )


def crossing_rows(spec: ModelSpec, machines: int, groups: int) -> float:
    """Return the hidden rows that leave one of `machines` for experts of the others, all layers, for a token of each of `groups`.

    A row goes once to each machine that has some of its k experts, 1 - (1 - 1/M)^k of the others, and is spread over its devices there
    (DeepEP, deepseek-ai; vLLM's all-gather of tokens sends as much).
    """
    if machines == 1 or groups == 1:
        return 0.0
    reached = sum(f.count * (1 - (1 - 1 / machines) ** f.experts_per_token) for f in spec.feed_forward if f.experts)
    return groups / machines * (machines - 1) * reached


def activation_traffic(spec: ModelSpec, tp: int) -> float:
    """Return the bytes of 16-bit intermediate results that kernels write and read per token on one device.

    A layer: two norms and two residual sums over the hidden row (10 h), attention's inputs and output (4 h_q + 2 (h_k + h_v), split), the
    feed-forward's (6 I gated, 4 I else, split), and for each chosen expert a gathered row and a summed one (4 h).
    """
    h, numbers = float(spec.hidden_size), 0.0
    for a in spec.attention:
        if a.tower != "vision":
            q, kv = a.heads * a.head_dim, a.kv_heads * (a.head_dim + a.value_head_dim)
            numbers += a.count * (5 * h + (4 * q + 2 * kv) / tp)
    for f in spec.feed_forward:
        if f.tower != "vision":
            wide = 6.0 if f.gated else 4.0
            chosen = max(1, f.experts_per_token) if f.experts else 1
            gathered = 4 * h * chosen if f.experts else 0.0
            inner = wide * (chosen * f.intermediate_size + f.shared_intermediate_size)
            numbers += f.count * (5 * h + (gathered + inner) / tp)
    return 2.0 * numbers


def stacked(shapes: Sequence[Shape]) -> Shape:
    """Return many shapes as one whose arrays have a first axis over them."""
    return Shape(**{name: np.stack([getattr(s, name) for s in shapes]) for name in Shape.__slots__})


def columns(shapes: Sequence[Shape]) -> Shape:
    """Return many shapes as one whose arrays broadcast against [shape, concurrency] (and [shape, concurrency, class])."""
    distinct = {id(s): s for s in shapes}
    place = {key: i for i, key in enumerate(distinct)}
    at = np.array([place[id(s)] for s in shapes])
    found = list(distinct.values())
    return Shape(**{name: np.array([getattr(s, name) for s in found])[at][:, None] for name in Shape.__slots__})


def touched_share(routed_share: Array, tokens: Array) -> Array:
    """Return the expected share of experts that `tokens` tokens touch: 1 - (1 - k/E)^tokens."""
    return 1.0 - (1.0 - routed_share) ** tokens


def touched_by_step(shape: Shape, machine: Machine, tokens: Array) -> Array:
    """Return the share of experts that a step of `tokens` tokens of each group touches.

    Tokens of like requests choose like experts: of n tokens 1 + d·(n - 1) count as independent, d the machine's `own_routing`.
    """
    n = np.maximum(tokens * shape.groups, 1.0)
    return touched_share(shape.routed_share, 1.0 + machine.own_routing * (n - 1.0))


def products_s(weight_bytes: Array, flops: Array, shape: Shape, machine: Machine, tokens: Array) -> Array:
    """Return seconds of the matrix products of a step by class: the slower of compute and weight traffic, and what is not hidden."""
    rate = np.where(shape.quantised > 0, machine.narrow_flops[..., None], machine.wide_flops[..., None])
    read = weight_bytes / machine.weights_bytes_per_s[..., None]
    work = (tokens + machine.ramp_tokens)[..., None] * (flops / rate)
    widened = bool(shape.widened.any())
    if widened:
        work += widening_s(flops, shape, machine, np.maximum(tokens / TILE_TOKENS, 1.0))
    if not shape.experts.any():
        return np.asarray(np.maximum(read, work) + machine.unhidden[..., None] * np.minimum(read, work))
    share = touched_by_step(shape, machine, tokens)
    # A touched expert has k/(E·share) of the tokens and a ramp of its own: n·k + E·share·n0 tokens in all, in units of k. With groups
    # a device has 1/groups of the experts and the tokens of all groups.
    routed = tokens + machine.ramp_tokens * share / (shape.routed_share * shape.groups)
    read = read + np.zeros_like(work)
    read[..., EXPERT] = read[..., EXPERT] * share / machine.expert_share
    work[..., EXPERT] = routed * (flops / rate)[..., EXPERT] / machine.expert_share
    if widened:
        numbers = shape.widened[..., EXPERT] * (flops[..., EXPERT] / 2.0)
        work[..., EXPERT] += numbers / machine.widened_per_s * expert_passes(shape, share, tokens)
    time = np.maximum(read, work) + machine.unhidden[..., None] * np.minimum(read, work)
    started = shape.expert_layers * shape.experts * share * machine.expert_overhead_s
    time[..., EXPERT] += np.where(flops[..., EXPERT] > 0, started, 0.0)
    return np.asarray(time)


def widening_s(flops: Array, shape: Shape, machine: Machine, passes: Array) -> Array:
    """Return seconds by class in which narrow weights are widened `passes` times; there are FLOPs / 2 of them."""
    rate = np.asarray(machine.widened_per_s, dtype=np.float64)[..., None]
    return np.asarray(shape.widened * (flops / 2.0) / rate * passes[..., None])


def expert_passes(shape: Shape, share: Array, tokens: Array) -> Array:
    """Return how often the chosen experts' numbers are widened: each touched one once, or for each tile of its n·G·k/E tokens.

    In units of FLOPs / 2 of a token, which are k/E of the numbers of all groups.
    """
    tiles = tokens * shape.groups * shape.routed_share / TILE_TOKENS
    return np.asarray(np.maximum(share, tiles) / (shape.routed_share * shape.groups))


def overhead_s(shape: Shape, machine: Machine, sequences: Array) -> Array:
    """Return the time of one step that neither compute nor traffic explains."""
    layers = shape.layers * machine.layer_overhead_s + shape.expert_layers * machine.routing_overhead_s
    return layers + machine.step_overhead_s + sequences * machine.sequence_overhead_s


def reduces_s(shape: Shape, machine: Machine, tokens: Array) -> Array:
    """Return the time of a step's all-reduces: two a layer, of one hidden row per token; a group may lie on several machines."""
    payload = shape.reduced_bytes_per_token * tokens
    over = np.maximum(shape.machines / shape.groups, 1.0)
    one = all_reduce_s(payload, shape.ranks / over, machine.link_latency_s, machine.link_bytes_per_s)
    if (over > 1).any():
        one = one + all_reduce_between_s(payload, over, machine.network_latency_s, machine.network_bytes_per_s)
    return REDUCES_PER_LAYER * shape.layers * one


def hops_s(shape: Shape, machine: Machine, tokens: Array) -> Array:
    """Return the time in which a micro-batch passes from stage to stage: one message a hop, over the network between machines."""
    if not (shape.stages > 1).any():
        return np.zeros_like(tokens)
    payload = shape.reduced_bytes_per_token * tokens
    inside = (shape.stages - shape.spans) * (machine.link_latency_s + payload / machine.link_bytes_per_s)
    outside = (shape.spans - 1.0) * (machine.network_latency_s + payload / machine.network_bytes_per_s)
    return np.asarray(inside + outside, dtype=np.float64)


def exchanges_s(shape: Shape, machine: Machine, tokens: Array) -> Array:
    """Return the time of a step's exchanges with experts of other groups: there and back, a message to each of log2 partners.

    Over several machines a row crosses the network first, once to each machine, and then spreads inside.
    """
    if not (shape.groups > 1).any():
        return np.zeros_like(tokens)
    inside = shape.ranks * shape.groups / shape.machines
    messages = 2.0 * shape.expert_layers * machine.link_latency_s * (1 + np.log2(inside)) / 2
    time = messages + shape.exchanged_bytes_per_token * tokens / machine.link_bytes_per_s
    far = 2.0 * shape.expert_layers * machine.network_latency_s * (1 + np.log2(shape.machines)) / 2
    far = far + shape.crossing_bytes_per_token * tokens / machine.network_bytes_per_s
    return np.where(shape.groups > 1, time + np.where(shape.machines > 1, far, 0.0), 0.0)


def decode_step(shape: Shape, machine: Machine, concurrency: Array, tokens_each: float | Array = 1.0) -> Step:
    """Return one decode step of `concurrency` requests at their mean context: the time in which each gets one token.

    `tokens_each`: tokens of a request that one step works on (1; more when proposed tokens are verified). They read its cache once.
    """
    sequences = np.maximum(concurrency / (shape.stages * shape.groups), 1.0)
    carried = sequences * tokens_each
    classes = products_s(shape.weight_bytes, shape.flops_per_token, shape, machine, carried)
    read = sequences * shape.decode_cache_bytes / machine.cache_bytes_per_s
    attention = np.maximum(read, carried * shape.decode_attention_flops / machine.attention_flops)
    activations = carried * shape.activation_bytes_per_token / machine.activation_bytes_per_s
    collectives = (
        reduces_s(shape, machine, carried) + hops_s(shape, machine, carried) + exchanges_s(shape, machine, carried)
    )
    overhead = overhead_s(shape, machine, sequences)
    return Step(
        total=classes.sum(axis=-1) + attention + activations + collectives + overhead,
        classes=classes,
        attention=attention,
        activations=activations,
        collectives=collectives,
        overhead=overhead,
        shared=np.zeros_like(attention),
    )


def shared_s(
    shape: Shape,
    machine: Machine,
    step_tokens: Array,
    concurrency: Array,
    *,
    alone: Array,
    decoding: Array | None = None,
) -> Array:
    """Return what one step of prompt tokens and `concurrency` decoding requests takes less than one of each, on one device.

    Products: t(x) + t(B) - t(x + B) of each class (the head's reading whole: a prompt needs one position); the step's start once; the
    latency of collectives once. Encoder-decoders run their prompts through other weights and share nothing. `alone`: products of the
    prompt tokens in a step of their own; `decoding`: of the requests, where they are known.
    """
    carried = np.maximum(concurrency / (shape.stages * shape.groups), 1.0)

    def products(weights: Array, flops: Array, tokens: Array) -> Array:
        return products_s(weights, flops, shape, machine, tokens)

    decoding = products(shape.weight_bytes, shape.flops_per_token, carried) if decoding is None else decoding
    both = products(shape.weight_bytes, shape.flops_per_token, carried + step_tokens)
    saved = alone + decoding - both
    saved[..., HEAD] = alone[..., HEAD]
    apart = reduces_s(shape, machine, step_tokens) + reduces_s(shape, machine, carried)
    start = overhead_s(shape, machine, np.zeros_like(carried))
    total = saved.sum(axis=-1) + apart - reduces_s(shape, machine, carried + step_tokens) + start
    same = np.all(shape.prompt_bytes == shape.weight_bytes, axis=-1)
    return np.where(same, total, 0.0)


def prefill_of(
    shape: Shape,
    machine: Machine,
    input_tokens: float | Array,
    step_tokens: Array,
    *,
    beside: Array | float = 0.0,
    decoding: Array | None = None,
) -> Step:
    """Return the time of the accelerators that one prompt takes when prefill steps carry `step_tokens` tokens, of one or more prompts.

    A prompt longer than a step needs several; short prompts share one, so each pays its share of it. With pipeline stages this is the
    time by which it holds up the others: 1/stages of its way through all of them; groups work on prompts of their own. `beside`:
    requests that decode in the same steps (0: prompts have steps of their own), `decoding` their products in steps of their own, s.
    """
    steps = input_tokens / step_tokens
    each = steps / (shape.stages * shape.groups)
    products = products_s(shape.prompt_bytes, shape.prompt_flops_per_token, shape, machine, step_tokens)
    classes = products * each[..., None]
    parts = shape.stages * shape.groups
    classes[..., HEAD] += shape.prompt_head_flops / machine.wide_flops / parts
    attention = shape.prompt_attention_flops / machine.attention_flops / parts
    activations = input_tokens * shape.activation_bytes_per_token / machine.activation_bytes_per_s / parts
    collectives = (
        reduces_s(shape, machine, step_tokens)
        + hops_s(shape, machine, step_tokens)
        + exchanges_s(shape, machine, step_tokens)
    ) * each
    overhead = overhead_s(shape, machine, np.zeros_like(steps)) * each + machine.sequence_overhead_s
    requests = np.asarray(beside, dtype=np.float64)
    shared = np.zeros_like(steps + 0 * requests)
    if (requests > 0).any():
        saved = shared_s(shape, machine, step_tokens, requests, alone=products, decoding=decoding)
        shared = np.where(requests > 0, saved * each, 0.0)
    return Step(
        total=classes.sum(axis=-1) + attention + activations + collectives + overhead - shared,
        classes=classes,
        attention=attention + 0 * steps,
        activations=activations + 0 * steps,
        collectives=collectives,
        overhead=overhead,
        shared=shared,
    )


def steady_requests_per_s(concurrency: Array, output_tokens: float, decode_s: Array, prefill_s: Array) -> Array:
    """Return requests/s of one replica under continuous batching: B / (OSL·t_decode(B) + B·t_prefill)."""
    return concurrency / (output_tokens * decode_s + concurrency * prefill_s)
