"""Bytes and FLOPs of a `ModelSpec`: KV cache, weights, work per token and per prompt. Exact integers where bytes are counted.

GiB is 2^30 bytes. A multiply-add counts as two FLOPs.
"""

from __future__ import annotations

from planner.models.errors import ModelError
from planner.models.precision import group_bits, kv_bytes_per_element, native_bits
from planner.models.spec import AttentionKind, AttentionLayers, FeedForwardLayers, ModelSpec, TensorClass, TensorGroup

NOT_PER_TOKEN = frozenset({TensorClass.VISION_TOWER})
STATE_FLOPS_PER_ELEMENT = 6.0  # decay, input product and read-out of each state number: three multiply-adds


# --- KV cache ---------------------------------------------------------------------------------------------------------------------


def kv_bytes_per_token(spec: ModelSpec, kv_precision: str = "fp16", tensor_parallel: int | None = None) -> int:
    """Return cached bytes per token of context, every layer counted in full (cross-attention apart); 0 for models without a cache.

    `tensor_parallel` None is the whole model. Else bytes per GPU: KV heads are split, at least one per GPU (replicated where the degree
    exceeds them); a latent (MLA) is replicated. Example: Llama-3.1-8B, 2·32 layers·8 heads·128·2 bytes = 131,072.
    """
    elements = sum(
        a.count * _cached_elements(a, tensor_parallel) for a in spec.attention if a.kind is not AttentionKind.CROSS
    )
    return elements * kv_bytes_per_element(kv_precision)


def cross_kv_bytes_per_input_token(
    spec: ModelSpec, kv_precision: str = "fp16", tensor_parallel: int | None = None
) -> int:
    """Return cached bytes per encoder position for the decoder's cross-attention; written once per request."""
    elements = sum(
        a.count * _cached_elements(a, tensor_parallel) for a in spec.attention if a.kind is AttentionKind.CROSS
    )
    return elements * kv_bytes_per_element(kv_precision)


def _cached_elements(a: AttentionLayers, tensor_parallel: int | None) -> int:
    if a.latent_dim is not None or a.cache_elements_per_token == 0 or tensor_parallel is None:
        return a.cache_elements_per_token
    if tensor_parallel < 1:
        raise ModelError(f"tensor_parallel: {tensor_parallel} should be at least 1")
    return -(-a.kv_heads // tensor_parallel) * (a.head_dim + a.value_head_dim)


def windowed_kv_bytes(
    spec: ModelSpec, context: int, kv_precision: str = "fp16", tensor_parallel: int | None = None
) -> int:
    """Return the cache bytes of one sequence of `context` tokens if windowed layers keep only their window: the lower bound.

    The upper bound is context x `kv_bytes_per_token` (engines without a hybrid cache manager reserve that).
    """
    elements = 0
    for a in spec.attention:
        if a.kind is not AttentionKind.CROSS:
            kept = context if a.window_tokens is None else min(context, a.window_tokens)
            elements += a.count * kept * _cached_elements(a, tensor_parallel)
    return elements * kv_bytes_per_element(kv_precision)


def state_bytes_per_sequence(spec: ModelSpec, bytes_per_element: int = 2, tensor_parallel: int = 1) -> int:
    """Return the bytes of the constant state (Mamba) that one sequence holds, per GPU."""
    return sum(s.count * -(-s.state_elements_per_sequence // tensor_parallel) for s in spec.state) * bytes_per_element


def max_cached_tokens(
    spec: ModelSpec,
    cache_bytes: float,
    kv_precision: str = "fp16",
    tensor_parallel: int | None = None,
    block_size: int = 16,
) -> int | None:
    """Return how many tokens a cache of this size holds in whole blocks, or None for models without a cache."""
    per_token = kv_bytes_per_token(spec, kv_precision, tensor_parallel)
    return int(cache_bytes // (per_token * block_size)) * block_size if per_token else None


# --- weights ----------------------------------------------------------------------------------------------------------------------


def weight_bytes(spec: ModelSpec, precision: str | None = None) -> int:
    """Return the bytes of all weights in a precision (None: as the checkpoint stores them).

    int4 = 4 bits and one fp16 scale per 128 numbers for linear layers, embeddings, head, norms, routers and biases in 16 bits.
    """
    return sum(weight_bytes_by_tensor(spec, precision).values())


def weight_bytes_by_tensor(spec: ModelSpec, precision: str | None = None) -> dict[str, int]:
    """Return bytes by tensor group, in the order of the spec."""
    return {t.name: _bytes(t.parameters, _bits(spec, t, precision)) for t in spec.tensors if t.parameters}


def matmul_bytes_by_class(spec: ModelSpec, precision: str | None = None) -> dict[TensorClass, int]:
    """Return the bytes that one decode step reads if it touches every expert: matrices by class, a tied head included; tables left out."""
    out: dict[TensorClass, int] = {}
    for t in spec.tensors:
        if t.matmul_parameters:
            out[t.tensor_class] = out.get(t.tensor_class, 0) + _bytes(t.matmul_parameters, _bits(spec, t, precision))
    return out


def _bits(spec: ModelSpec, t: TensorGroup, precision: str | None) -> float:
    if precision is None:
        return t.stored_bits if t.stored_bits is not None else native_bits(spec)
    return group_bits(spec, t, precision)


def _bytes(parameters: int, bits: float) -> int:
    if bits == int(bits):
        return parameters * int(bits) // 8
    return round(parameters * bits / 8)


# --- experts ----------------------------------------------------------------------------------------------------------------------


def active_expert_fraction(spec: ModelSpec, batch: float) -> float:
    """Return the expected fraction of routed experts that a batch of tokens touches in one layer: 1 - (1 - k/E)^batch; 1 for dense models.

    Assumes that tokens choose their k of E experts independently and evenly.
    """
    layers = [f for f in spec.feed_forward if f.experts]
    if not layers:
        return 1.0
    return sum(f.count * _touched(f, batch) for f in layers) / sum(f.count for f in layers)


def _touched(f: FeedForwardLayers, batch: float) -> float:
    return float(1.0 - (1.0 - f.experts_per_token / f.experts) ** max(batch, 0.0))


# --- FLOPs ------------------------------------------------------------------------------------------------------------------------


def active_matmul_parameters(spec: ModelSpec, tower: str = "text", *, with_head: bool = True) -> float:
    """Return the numbers that multiply one token of a tower: dense matrices, and k of E experts."""
    routed = [f for f in spec.feed_forward if f.experts]
    share = routed[0].experts_per_token / routed[0].experts if routed else 1.0
    total = 0.0
    for t in spec.tensors:
        if (
            t.tower != tower
            or t.tensor_class in NOT_PER_TOKEN
            or (t.tensor_class is TensorClass.HEAD and not with_head)
        ):
            continue
        total += t.matmul_parameters * (share if t.tensor_class is TensorClass.EXPERT else 1.0)
    return total


def attention_flops_per_token(spec: ModelSpec, context: float, *, absorbed: bool = False) -> float:
    """Return FLOPs of scores and value products for one token that sees `context` earlier ones (windows applied).

    `absorbed`: latent attention as decoded, over the latent itself: heads · (latent + latent values) instead of heads · (d_qk + d_v).
    """
    total = 0.0
    for a in spec.attention:
        if a.tower != "text" or a.kind is AttentionKind.CROSS:
            continue
        seen = context if a.window_tokens is None else min(context, a.window_tokens)
        total += a.count * 2.0 * a.heads * _score_width(a, absorbed=absorbed) * seen
    return total


def _score_width(a: AttentionLayers, *, absorbed: bool) -> int:
    if absorbed and a.latent_dim is not None and a.latent_value_dim is not None:
        return a.latent_dim + a.latent_value_dim
    return a.head_dim + a.value_head_dim


def state_flops_per_token(spec: ModelSpec) -> float:
    """Return FLOPs of the recurrent update of all state-space layers for one token."""
    return sum(STATE_FLOPS_PER_ELEMENT * s.count * s.state_elements_per_sequence for s in spec.state)


def flops_per_token(spec: ModelSpec, context: float) -> float:
    """Return forward FLOPs of one generated token at a context: 2 · active matrix numbers + attention + state update (+ cross-attention)."""
    cross = sum(
        a.count * 2.0 * a.heads * (a.head_dim + a.value_head_dim)
        for a in spec.attention
        if a.kind is AttentionKind.CROSS
    )
    encoder = spec.encoder_positions or (context if cross else 0.0)
    return (
        2.0 * active_matmul_parameters(spec)
        + attention_flops_per_token(spec, context, absorbed=True)
        + state_flops_per_token(spec)
        + cross * encoder
    )


def prefill_flops(spec: ModelSpec, tokens: int) -> float:
    """Return forward FLOPs of a prompt of `tokens`: causal attention (each token sees those before it and itself), head once, at the end.

    Encoder-decoders: the encoder over the prompt and the projections of its output to the decoder's cross-attention keys and values.
    """
    if any(t.tower == "encoder" for t in spec.tensors):
        pairs = sum(
            a.count * 2.0 * a.heads * (a.head_dim + a.value_head_dim) * tokens * tokens
            for a in spec.attention
            if a.tower == "encoder"
        )
        return 2.0 * active_matmul_parameters(spec, "encoder") * tokens + pairs
    head = sum(t.matmul_parameters for t in spec.tensors if t.tensor_class is TensorClass.HEAD)
    work = (
        2.0 * active_matmul_parameters(spec, with_head=False) * tokens
        + 2.0 * head
        + state_flops_per_token(spec) * tokens
    )
    for a in spec.attention:
        if a.tower == "text":
            work += a.count * 2.0 * a.heads * (a.head_dim + a.value_head_dim) * seen_pairs(tokens, a.window_tokens)
    return work


def seen_pairs(tokens: int, window: int | None) -> float:
    """Return how many (query, key) pairs causal attention computes over a prompt, with an optional window."""
    if window is None or tokens <= window:
        return tokens * (tokens + 1) / 2
    return window * tokens - window * (window - 1) / 2
