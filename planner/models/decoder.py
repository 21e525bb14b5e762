"""From the shape of a decoder-only transformer to its tensors and layers. Families read their config into a `DecoderShape`; this counts it.

Per layer: attention projections hidden x (heads·head_dim), hidden x (kv_heads·head_dim) twice, (heads·head_dim) x hidden; a feed-forward of
2 (or 3 when gated) matrices hidden x intermediate, once or per expert; norms. See Vaswani et al. 2017 (arXiv:1706.03762), Shazeer 2020
(gated units, arXiv:2002.05202), Ainslie et al. 2023 (grouped queries, arXiv:2305.13245), DeepSeek-AI 2024 (latent attention, arXiv:2405.04434).
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.models.spec import AttentionKind, AttentionLayers, FeedForwardLayers, TensorClass
from planner.models.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """`layers` attention layers that look back over `window` tokens (None = all)."""

    layers: int
    kind: AttentionKind = AttentionKind.FULL
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention: queries and key-values pass through low-rank projections; only the latent is cached."""

    q_lora_rank: int | None  # None: one full-rank query projection
    kv_lora_rank: int
    nope_head_dim: int
    rope_head_dim: int
    value_head_dim: int
    bias: bool = False  # on the down projections and the output (attention_bias)


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """A small attention in `layers` layers that picks the tokens which latent attention then looks at (DeepSeek-V3.2)."""

    layers: int
    heads: int
    head_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Routed experts of `layers` layers, with the shared experts beside them."""

    layers: int
    experts: int
    per_token: int
    intermediate: int
    gated: bool = True
    bias: bool = False  # a bias on each expert's matrices
    router_bias: bool = False
    router: bool = True
    correction_bias: bool = False  # a stored score-correction number per expert
    shared_intermediate: int = 0  # all shared experts together
    shared_gate: bool = False  # a gate hidden -> 1 on the shared expert's output


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderShape:
    """What decides size and work of a decoder stack. Defaults are those of the Llama family."""

    layers: int  # blocks that have attention and feed-forward
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int  # of dense layers
    vocabulary: int
    max_context: int | None
    tied: bool
    gated: bool = True
    q_gate: bool = False  # a gate on the attention's output, as wide as the queries
    q_bias: bool = False
    kv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: str = "none"  # "none" | "per_head_dim" (one vector of head_dim for q and one for k) | "all_heads" (a number per head and dim)
    qk_norm_bias: bool = False
    qk_norm_layers: int | None = None  # where only some layers have it
    norms_per_layer: int = 2
    norm_bias: bool = False
    norm_weight: bool = True
    final_norm: bool = True
    head_bias: bool = False
    positions: int = 0  # rows of a learned position table
    embedding_width: int | None = None  # where embeddings are projected to hidden (both ways)
    embedding_norm: bool = False
    sinks: bool = False  # one learned number per head
    spans: tuple[Span, ...] = ()
    latent: LatentAttention | None = None
    indexer: Indexer | None = None
    experts: Experts | None = None
    dense_layers: int | None = None  # feed-forward layers without experts; None = what the experts leave


def add_decoder(tally: Tally, s: DecoderShape) -> tuple[tuple[AttentionLayers, ...], tuple[FeedForwardLayers, ...]]:
    """Add all tensors of the stack to the tally; return its attention and feed-forward layers."""
    width = s.embedding_width or s.hidden
    tally.table("token_embedding", s.vocabulary, width)
    tally.table("position_embedding", s.positions, s.hidden)
    if s.embedding_width is not None and s.embedding_width != s.hidden:
        tally.linear("embedding.project", TensorClass.OTHER, width, s.hidden)
        tally.linear("embedding.project_out", TensorClass.OTHER, s.hidden, width)
    if s.latent is not None:
        _add_latent_attention(tally, s, s.latent)
    else:
        add_attention(tally, s, s.layers)
    dense = s.layers - (s.experts.layers if s.experts else 0) if s.dense_layers is None else s.dense_layers
    add_feed_forward(tally, hidden=s.hidden, intermediate=s.intermediate, gated=s.gated, bias=s.mlp_bias, layers=dense)
    if s.experts is not None:
        add_experts(tally, s.hidden, s.experts)
    norm_numbers = s.norms_per_layer * s.layers + (1 if s.final_norm else 0) + (1 if s.embedding_norm else 0)
    if s.norm_weight:
        tally.norm("norms", s.hidden, times=norm_numbers, bias=s.norm_bias)
    if s.tied:
        tally.tied_head("lm_head", s.vocabulary, width)
    else:
        tally.linear("lm_head", TensorClass.HEAD, width, s.vocabulary, quantisable=False)
    if s.head_bias:
        tally.add("lm_head.bias", TensorClass.HEAD, s.vocabulary)
    return attention_layers(s), feed_forward_layers(s, dense)


def add_attention(tally: Tally, s: DecoderShape, layers: int) -> None:
    """Add `layers` attention layers with separate (or fused, the count is the same) q, k, v and output projections."""
    q_width, kv_width = s.heads * s.head_dim, s.kv_heads * s.head_dim
    attention = TensorClass.ATTENTION
    if s.q_gate:
        tally.linear("attention.q_gate", attention, s.hidden, q_width, bias=s.q_bias, times=layers)
    tally.linear("attention.q", attention, s.hidden, q_width, bias=s.q_bias, times=layers)
    tally.linear("attention.k", attention, s.hidden, kv_width, bias=s.kv_bias, times=layers)
    tally.linear("attention.v", attention, s.hidden, kv_width, bias=s.kv_bias, times=layers)
    tally.linear("attention.o", attention, q_width, s.hidden, bias=s.o_bias, times=layers)
    normed = layers if s.qk_norm_layers is None else s.qk_norm_layers
    if s.qk_norm == "per_head_dim":
        tally.norm("attention.qk_norm", s.head_dim, times=2 * normed, bias=s.qk_norm_bias)
    elif s.qk_norm == "all_heads":
        tally.norm("attention.qk_norm", q_width + kv_width, times=normed, bias=s.qk_norm_bias)
    if s.sinks:
        tally.add("attention.sinks", attention, s.heads, times=layers)


def _add_latent_attention(tally: Tally, s: DecoderShape, m: LatentAttention) -> None:
    attention, q_width = TensorClass.ATTENTION, s.heads * (m.nope_head_dim + m.rope_head_dim)
    if m.q_lora_rank is None:
        tally.linear("attention.q", attention, s.hidden, q_width, times=s.layers)
    else:
        tally.linear("attention.q_down", attention, s.hidden, m.q_lora_rank, bias=m.bias, times=s.layers)
        tally.norm("attention.latent_norm", m.q_lora_rank, times=s.layers)
        tally.linear("attention.q_up", attention, m.q_lora_rank, q_width, times=s.layers)
    tally.linear(
        "attention.kv_down", attention, s.hidden, m.kv_lora_rank + m.rope_head_dim, bias=m.bias, times=s.layers
    )
    tally.norm("attention.latent_norm", m.kv_lora_rank, times=s.layers)
    tally.linear(
        "attention.kv_up", attention, m.kv_lora_rank, s.heads * (m.nope_head_dim + m.value_head_dim), times=s.layers
    )
    tally.linear("attention.o", attention, s.heads * m.value_head_dim, s.hidden, bias=m.bias, times=s.layers)
    if s.indexer is not None:
        x = s.indexer
        tally.linear("indexer.q", attention, m.q_lora_rank or s.hidden, x.heads * x.head_dim, times=x.layers)
        tally.linear("indexer.k", attention, s.hidden, x.head_dim, times=x.layers)
        tally.norm("indexer.norm", x.head_dim, times=x.layers, bias=True)
        tally.linear("indexer.weights", attention, s.hidden, x.heads, times=x.layers, quantisable=False)


def _indexer_layers(x: Indexer) -> AttentionLayers:
    """Return the indexer as attention without values: it caches one key per token and scores all of them."""
    return AttentionLayers(
        count=x.layers,
        kind=AttentionKind.FULL,
        heads=x.heads,
        kv_heads=1,
        head_dim=x.head_dim,
        value_head_dim=0,
    )


def add_feed_forward(
    tally: Tally,
    *,
    hidden: int,
    intermediate: int,
    gated: bool,
    bias: bool,
    layers: int,
    name: str = "mlp",
    tensor_class: TensorClass = TensorClass.MLP,
    tower: str = "text",
    quantisable: bool = True,
) -> None:
    """Add `layers` feed-forward layers: up and down, and a gate where gated."""
    if gated:
        tally.linear(
            f"{name}.gate",
            tensor_class,
            hidden,
            intermediate,
            bias=bias,
            times=layers,
            tower=tower,
            quantisable=quantisable,
        )
    tally.linear(
        f"{name}.up", tensor_class, hidden, intermediate, bias=bias, times=layers, tower=tower, quantisable=quantisable
    )
    tally.linear(
        f"{name}.down",
        tensor_class,
        intermediate,
        hidden,
        bias=bias,
        times=layers,
        tower=tower,
        quantisable=quantisable,
    )


def add_experts(tally: Tally, hidden: int, e: Experts) -> None:
    """Add routed experts, their router and the shared experts of `e.layers` layers."""
    add_feed_forward(
        tally,
        hidden=hidden,
        intermediate=e.intermediate,
        gated=e.gated,
        bias=e.bias,
        layers=e.layers * e.experts,
        name="experts",
        tensor_class=TensorClass.EXPERT,
    )
    if e.router:
        tally.linear(
            "router.gate", TensorClass.ROUTER, hidden, e.experts, bias=e.router_bias, times=e.layers, quantisable=False
        )
    if e.correction_bias:
        tally.add("router.bias", TensorClass.ROUTER, e.experts, times=e.layers)
    if e.shared_intermediate:
        add_feed_forward(
            tally,
            hidden=hidden,
            intermediate=e.shared_intermediate,
            gated=e.gated,
            bias=False,
            layers=e.layers,
            name="shared_expert",
            tensor_class=TensorClass.SHARED_EXPERT,
        )
    if e.shared_gate:
        tally.linear("shared_expert_gate.gate", TensorClass.ROUTER, hidden, 1, times=e.layers, quantisable=False)


def attention_layers(s: DecoderShape) -> tuple[AttentionLayers, ...]:
    """Return the layers by how far back they look."""
    m = s.latent
    if m is not None:
        return (
            AttentionLayers(
                count=s.layers,
                kind=AttentionKind.LATENT,
                heads=s.heads,
                kv_heads=s.heads,
                head_dim=m.nope_head_dim + m.rope_head_dim,
                value_head_dim=m.value_head_dim,
                latent_dim=m.kv_lora_rank + m.rope_head_dim,
                latent_value_dim=m.kv_lora_rank,
            ),
            *((_indexer_layers(s.indexer),) if s.indexer is not None else ()),
        )
    return tuple(
        AttentionLayers(
            count=span.layers,
            kind=span.kind,
            heads=s.heads,
            kv_heads=s.kv_heads,
            head_dim=s.head_dim,
            value_head_dim=s.head_dim,
            window_tokens=span.window,
        )
        for span in (s.spans or (Span(layers=s.layers),))
        if span.layers
    )


def feed_forward_layers(s: DecoderShape, dense: int) -> tuple[FeedForwardLayers, ...]:
    """Return the dense and the mixture-of-experts layers."""
    out = []
    if dense:
        out.append(FeedForwardLayers(count=dense, intermediate_size=s.intermediate, gated=s.gated))
    if s.experts is not None and s.experts.layers:
        e = s.experts
        out.append(
            FeedForwardLayers(
                count=e.layers,
                intermediate_size=e.intermediate,
                gated=e.gated,
                experts=e.experts,
                experts_per_token=e.per_token,
                shared_intermediate_size=e.shared_intermediate,
            )
        )
    return tuple(out)
