"""FLOPs, bytes and parameter counts of one training sample, from a `ModelSpec` and the method.

References: Kaplan et al. 2020 (6 N per token); Narayanan et al. 2021, Megatron-LM (attention term, full recomputation = one
more forward pass); Hu et al. 2021 (LoRA); Dettmers et al. 2023 (QLoRA).
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.models.spec import AttentionKind, AttentionLayers, ModelKind, ModelSpec, TensorClass
from planner.perf.model import TrainingWork

NF4_BITS = 4 + 8 / 64 + 32 / (64 * 256)
"""Bits per NF4 parameter with double quantisation: blocks of 64 with an 8-bit scale, an fp32 scale per 256 blocks (4.127)."""

UNET_ADAPTER_SHARE = 0.009
"""Rank-16 adapters on every attention projection of the SDXL denoiser are about 23e6 of 2.57e9 parameters."""

PARAMETER_EFFICIENT = ("lora", "qlora")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFlops:
    """FLOPs of one training sample (a sequence, an image …); a multiply-add counts two."""

    tokens: float  # per sample; 1 for models that are not counted in tokens
    forward: float
    backward: float  # twice the forward; for LoRA the frozen matrices need no weight gradient

    @property
    def model_flops(self) -> float:
        """Forward and backward, what MFU counts (recomputation is not model work)."""
        return self.forward + self.backward


def counted_in_tokens(spec: ModelSpec) -> bool:
    """Whether a training sample is a sequence of `sequence_length` tokens."""
    return spec.generates_tokens or spec.kind is ModelKind.ENCODER


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePass:
    """One forward pass of a model that is not counted in tokens: FLOPs and the elements that its layers write."""

    flops: float
    activation_elements: float


def one_pass(spec: ModelSpec) -> OnePass:
    """Return the work of one pass over one sample; a diffusion model trains on one denoising step without guidance."""
    sample = spec.sample
    if sample is None:
        raise ValueError(f"{spec.name} is counted in tokens, or its work per sample is not known")
    passes = sample.steps * (1 if sample.curve is None else sample.curve.passes_per_step)
    return OnePass(flops=sample.flops / passes, activation_elements=sample.activation_elements / passes)


def active_expert_share(spec: ModelSpec) -> float:
    """Return the share of the routed experts that one token multiplies (1 for dense models)."""
    for feed_forward in spec.feed_forward:
        if feed_forward.experts:
            return feed_forward.experts_per_token / feed_forward.experts
    return 1.0


def active_matmul_parameters(spec: ModelSpec) -> float:
    """Return the parameters that multiply one token: no lookups or vision towers; routed experts by the share in use."""
    share = active_expert_share(spec)
    return sum(
        g.matmul_parameters * (share if g.tensor_class is TensorClass.EXPERT else 1.0)
        for g in spec.tensors
        if g.tower != "vision"
    )


def attention_span(layers: AttentionLayers, sequence: int) -> float:
    """Return the mean number of tokens one token attends to.

    Causal layers see half the sequence on average; a window W < s sees W - W^2 / 2s; encoders see all of it.
    """
    if layers.kind is AttentionKind.BIDIRECTIONAL or layers.kind is AttentionKind.CROSS:
        return float(sequence)
    window = min(layers.window_tokens or sequence, sequence)
    if layers.kind is AttentionKind.CHUNKED:
        return window / 2
    return window - window * window / (2 * sequence)


def sample_flops(spec: ModelSpec, work: TrainingWork) -> SampleFlops:
    """Return forward and backward FLOPs of one sample.

    Language models and encoders, per token: forward 2 N + sum over layers of 2 (d_qk + d_v) heads x span; backward twice
    that. LoRA and QLoRA: backward of the frozen matrices is 2 N (input gradients only), so 4 N in all.
    Encoder-decoder models: a sequence's tokens are half input and half target, and each passes one of the two stacks, so half
    of the matrices. Other models: the forward FLOPs of the sample, backward twice that (once for frozen weights).
    """
    frozen = work.method in PARAMETER_EFFICIENT
    if not counted_in_tokens(spec):
        forward = one_pass(spec).flops
        return SampleFlops(tokens=1.0, forward=forward, backward=forward * (1 if frozen else 2))
    s = work.sequence_length
    stacks = 2 if spec.kind is ModelKind.ENCODER_DECODER else 1
    matmul = 2 * active_matmul_parameters(spec) * s / stacks
    attention = s * sum(
        a.count * 2 * (a.head_dim + a.value_head_dim) * a.heads * attention_span(a, s)
        for a in spec.attention
        if a.tower != "vision"
    )
    return SampleFlops(
        tokens=float(s), forward=matmul + attention, backward=(1 if frozen else 2) * matmul + 2 * attention
    )


def adapter_parameters(spec: ModelSpec, rank: int) -> int:
    """Return the parameters of rank-`rank` adapters on every attention and dense MLP projection: rank x (in + out) each.

    Routed experts get none (the usual choice); a convolution counts as the matrix that it is.
    """
    h = spec.hidden_size
    total = 0
    for a in spec.attention:
        q, k, v = a.heads * a.head_dim, a.kv_heads * a.head_dim, a.kv_heads * a.value_head_dim
        out = a.heads * a.value_head_dim
        total += a.count * rank * ((h + q) + (h + k) + (h + v) + (out + h))
    for f in spec.feed_forward:
        width = f.shared_intermediate_size if f.experts else f.intermediate_size
        if width:
            total += f.count * rank * (3 if f.gated else 2) * (h + width)
    if total == 0:  # a denoiser whose blocks differ in width: only its sum is known
        total = round(UNET_ADAPTER_SHARE * rank / 16 * spec.parameters_total)
    return total


def nf4_weight_bytes(spec: ModelSpec) -> float:
    """Return the bytes of an NF4 base with double quantisation; what cannot be quantised stays 16-bit."""
    return sum(g.parameters * (NF4_BITS / 8 if g.quantisable else 2.0) for g in spec.tensors)


def dense_share(spec: ModelSpec) -> float:
    """Return the share of all parameters outside routed experts."""
    experts = sum(g.parameters for g in spec.tensors if g.tensor_class is TensorClass.EXPERT)
    return 1 - experts / spec.parameters_total


def routed_elements(spec: ModelSpec) -> float:
    """Return the numbers of one token that go to its experts and come back, one forward pass: 2 h k in each layer of experts."""
    return sum(2.0 * spec.hidden_size * f.experts_per_token * f.count for f in spec.feed_forward if f.experts)


def dequantised_bytes(spec: ModelSpec) -> float:
    """Return the bytes that widening an NF4 base once moves: read at 4.127 bits, written and read again at 16."""
    return sum(g.parameters * (NF4_BITS / 8 + 4.0) for g in spec.tensors if g.quantisable)


def largest_layer_parameters(spec: ModelSpec) -> float:
    """Return the parameters of the largest unit that is gathered at once: a block without its routed experts, or the embedding."""
    blocks = {TensorClass.EMBEDDING, TensorClass.HEAD}
    in_blocks = sum(g.parameters for g in spec.tensors if g.tensor_class not in blocks | {TensorClass.EXPERT})
    outside = max((g.parameters for g in spec.tensors if g.tensor_class in blocks), default=0)
    return max(in_blocks / max(1, spec.layers), outside)
