"""Mixture-of-experts decoder families: where the experts are, how many a token uses, what is shared.

Every family builds on a style of `llama_like` (or latent attention) and adds `Experts`. Field names differ by family; an absent one is named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.models.decoder import DecoderShape, Experts, Indexer, LatentAttention, Span
from planner.models.fields import MAX_CONTEXT, MAX_EXPERTS, MAX_LAYERS, Fields
from planner.models.llama_like import LLAMA, PLAIN, QWEN2, QWEN3, Style, kv_heads_of, read_llama_like
from planner.models.spec import AttentionKind
from planner.models.windows import spans_by_type

EXPERT_NAMES = ("num_experts", "num_local_experts", "n_routed_experts")
"""What families call the number of routed experts; newer configs use another family's word."""


def routed(config: Fields, experts_name: str, per_token_name: str) -> tuple[int, int]:
    """Return (experts, experts per token); a token cannot use more than there are."""
    experts = config.integer(experts_name, *EXPERT_NAMES, maximum=MAX_EXPERTS)
    per_token = config.integer(per_token_name, maximum=MAX_EXPERTS)
    if per_token > experts:
        raise config.error(
            per_token_name, f"is {per_token}, more than {experts_name} = {experts}; it should be at most that"
        )
    return experts, per_token


def sparse_layers(config: Fields, layers: int) -> int:
    """Return how many layers have experts by first_k_dense_replace and moe_layer_freq."""
    first = config.integer("first_k_dense_replace", minimum=0, maximum=MAX_LAYERS, default=0)
    every = config.integer("moe_layer_freq", maximum=MAX_LAYERS, default=1)
    return sum(1 for i in range(layers) if i >= first and i % every == 0)


def read_mixtral(config: Fields) -> DecoderShape:
    """Mixtral: every layer has `num_local_experts` experts of `intermediate_size`."""
    experts, per_token = routed(config, "num_local_experts", "num_experts_per_tok")
    e = Experts(
        layers=config.layer_count(),
        experts=experts,
        per_token=per_token,
        intermediate=config.integer("intermediate_size"),
    )
    return read_llama_like(config, PLAIN, experts=e)


def read_phimoe(config: Fields) -> DecoderShape:
    """Phi-3.5-MoE: Mixtral with LayerNorm and biases on attention and head."""
    experts, per_token = routed(config, "num_local_experts", "num_experts_per_tok")
    e = Experts(
        layers=config.layer_count(),
        experts=experts,
        per_token=per_token,
        intermediate=config.integer("intermediate_size"),
    )
    style = Style(mlp_bias=False, norm_bias=True, head_bias=config.flag("lm_head_bias", default=False))
    return read_llama_like(config, style, experts=e)


def qwen_sparse_layers(config: Fields, layers: int) -> int:
    """Return how many layers have experts by decoder_sparse_step and mlp_only_layers."""
    step = config.integer("decoder_sparse_step", maximum=MAX_LAYERS, default=1)
    dense = set(config.integers("mlp_only_layers") or ())
    return sum(1 for i in range(layers) if i not in dense and (i + 1) % step == 0)


def read_qwen2_moe(config: Fields) -> DecoderShape:
    """Qwen1.5/2 MoE: routed experts and one gated shared expert."""
    experts, per_token = routed(config, "num_experts", "num_experts_per_tok")
    e = Experts(
        layers=qwen_sparse_layers(config, config.layer_count()),
        experts=experts,
        per_token=per_token,
        intermediate=config.integer("moe_intermediate_size"),
        shared_intermediate=config.integer("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    return read_llama_like(config, QWEN2, experts=e)


def read_qwen3_moe(config: Fields) -> DecoderShape:
    """Qwen3 MoE: routed experts only."""
    experts, per_token = routed(config, "num_experts", "num_experts_per_tok")
    e = Experts(
        layers=qwen_sparse_layers(config, config.layer_count()),
        experts=experts,
        per_token=per_token,
        intermediate=config.integer("moe_intermediate_size"),
    )
    return read_llama_like(config, QWEN3, experts=e)


def read_olmoe(config: Fields) -> DecoderShape:
    """OLMoE: every layer routed, norms over all query and key numbers."""
    experts, per_token = routed(config, "num_experts", "num_experts_per_tok")
    e = Experts(
        layers=config.layer_count(),
        experts=experts,
        per_token=per_token,
        intermediate=config.integer("intermediate_size"),
    )
    return read_llama_like(config, Style(mlp_bias=False, qk_norm="all_heads"), experts=e)


def read_granite_moe(config: Fields) -> DecoderShape:
    """Granite MoE, with a shared expert where `shared_intermediate_size` is given."""
    experts, per_token = routed(config, "num_local_experts", "num_experts_per_tok")
    e = Experts(
        layers=config.layer_count(),
        experts=experts,
        per_token=per_token,
        intermediate=config.integer("intermediate_size"),
        shared_intermediate=config.integer("shared_intermediate_size", minimum=0, default=0),
    )
    return read_llama_like(config, LLAMA, experts=e)


def _deepseek_experts(config: Fields, *, correction_bias: bool) -> Experts | None:
    if not config.has("n_routed_experts"):
        return None
    experts, per_token = routed(config, "n_routed_experts", "num_experts_per_tok")
    one = config.integer("moe_intermediate_size")
    return Experts(
        layers=sparse_layers(config, config.layer_count()),
        experts=experts,
        per_token=per_token,
        intermediate=one,
        shared_intermediate=one * config.integer("n_shared_experts", minimum=0, maximum=10_000, default=0),
        correction_bias=correction_bias,
    )


def read_latent(config: Fields) -> LatentAttention:
    """Return the low-rank dimensions of latent attention."""
    return LatentAttention(
        q_lora_rank=config.optional_integer("q_lora_rank"),
        kv_lora_rank=config.integer("kv_lora_rank"),
        nope_head_dim=config.integer("qk_nope_head_dim"),
        rope_head_dim=config.integer("qk_rope_head_dim"),
        value_head_dim=config.integer("v_head_dim"),
        bias=config.flag("attention_bias", default=False),
    )


def read_deepseek_v2(config: Fields) -> DecoderShape:
    """DeepSeek-V2: latent attention, routed and shared experts after the first dense layers."""
    return read_llama_like(
        config,
        Style(qkv_bias=False, o_bias=False, mlp_bias=False),
        latent=read_latent(config),
        experts=_deepseek_experts(config, correction_bias=False),
    )


def read_deepseek_v3(config: Fields) -> DecoderShape:
    """DeepSeek-V3, R1, Kimi K2: as V2 with a stored score correction. The multi-token-prediction layer is not part of the main model."""
    return read_llama_like(
        config,
        Style(qkv_bias=False, o_bias=False, mlp_bias=False),
        latent=read_latent(config),
        experts=_deepseek_experts(config, correction_bias=True),
    )


def _indexed_layers(config: Fields, layers: int) -> int:
    """Return how many layers run an indexer of their own; the others share the last one's choice."""
    kinds = config.strings("indexer_types")
    if kinds is None and config.has("index_topk_pattern"):
        letters = config.text("index_topk_pattern")
        kinds = tuple({"F": "full", "S": "shared"}.get(c, c) for c in letters)
    if kinds is None:
        every = config.integer("index_topk_freq", maximum=MAX_LAYERS, default=1)
        skip = config.integer("index_skip_topk_offset", minimum=0, maximum=MAX_LAYERS, default=2)
        return sum(1 for i in range(layers) if max(i - skip + 1, 0) % every == 0)
    if len(kinds) != layers or set(kinds) - {"full", "shared"}:
        raise config.error("indexer_types", f"should list full or shared for each of {layers} layers")
    return kinds.count("full")


def read_sparse_latent(config: Fields) -> DecoderShape:
    """DeepSeek-V3.2 and GLM-5: as V3 with an indexer in each layer that picks the `index_topk` tokens attention looks at."""
    shape = read_deepseek_v3(config)
    if shape.latent is None or shape.latent.q_lora_rank is None:
        raise config.error("q_lora_rank", "is missing; the indexer reads the query's low-rank projection")
    top = config.integer("index_topk", maximum=MAX_CONTEXT)
    config.assumed.append(f"attention counted over the whole context; the indexer lets each token look at {top} others")
    indexer = Indexer(
        layers=_indexed_layers(config, shape.layers),
        heads=config.head_count("index_n_heads"),
        head_dim=config.integer("index_head_dim"),
    )
    return replace(shape, indexer=indexer)


def read_minicpm3(config: Fields) -> DecoderShape:
    """MiniCPM3: dense with latent attention."""
    return read_llama_like(
        config, Style(qkv_bias=False, o_bias=False, mlp_bias=False, tied=True), latent=read_latent(config)
    )


def read_glm4_moe(config: Fields) -> DecoderShape:
    """GLM-4.5: grouped queries with biases, shared expert, first layers dense."""
    normed = "per_head_dim" if config.flag("use_qk_norm", default=False) else "none"
    style = Style(o_bias=False, mlp_bias=False, qk_norm=normed)
    return read_llama_like(config, style, experts=_deepseek_experts(config, correction_bias=True))


def read_gpt_oss(config: Fields) -> DecoderShape:
    """gpt-oss: biases everywhere, attention sinks, every second layer slides."""
    per_token = "num_experts_per_tok" if config.has("num_experts_per_tok") else "experts_per_token"
    experts, chosen = routed(config, "num_local_experts", per_token)
    layers = config.layer_count()
    e = Experts(
        layers=layers,
        experts=experts,
        per_token=chosen,
        intermediate=config.integer("intermediate_size"),
        bias=True,
        router_bias=True,
    )
    style = Style(qkv_bias=("attention_bias", True), o_bias=("attention_bias", True), mlp_bias=False)
    shape = read_llama_like(config, style, experts=e)
    window = config.integer("sliding_window", maximum=MAX_CONTEXT)
    half = (Span(layers=layers - layers // 2, kind=AttentionKind.SLIDING, window=window), Span(layers=layers // 2))
    return replace(shape, sinks=True, spans=spans_by_type(config, layers) or half)


def read_llama4(config: Fields) -> DecoderShape:
    """Llama 4 text: experts in every n-th layer with a shared one beside them; three of four layers attend within chunks."""
    layers = config.layer_count()
    experts, per_token = routed(config, "num_local_experts", "num_experts_per_tok")
    listed = config.integers("moe_layers", maximum=layers)
    step = config.integer("interleave_moe_layer_step", maximum=MAX_LAYERS, default=1)
    sparse = len(set(listed)) if listed is not None else layers // step
    one = config.integer("intermediate_size")
    e = Experts(layers=sparse, experts=experts, per_token=per_token, intermediate=one, shared_intermediate=one)
    dense = config.integer("intermediate_size_mlp") if sparse < layers else one
    shape = read_llama_like(config, replace(LLAMA, mlp_bias=False, windowed=False), experts=e, intermediate=dense)
    return replace(shape, spans=_llama4_spans(config, layers))


def _llama4_spans(config: Fields, layers: int) -> tuple[Span, ...]:
    explicit = spans_by_type(config, layers)
    chunk = config.optional_integer("attention_chunk_size", maximum=MAX_CONTEXT)
    if explicit is not None or chunk is None:
        return explicit or (Span(layers=layers),)
    no_rope = config.integers("no_rope_layers", maximum=1)
    if no_rope:  # 1 = rotary and chunked, 0 = neither
        full = layers - sum(no_rope)
    else:
        full = layers // config.integer("no_rope_layer_interval", maximum=MAX_LAYERS, default=4)
    return (Span(layers=full), Span(layers=layers - full, kind=AttentionKind.CHUNKED, window=chunk))


def read_dbrx(config: Fields) -> DecoderShape:
    """DBRX: its own field names, experts in every layer."""
    attention, feed = config.nested("attn_config"), config.nested("ffn_config")
    hidden, heads, layers = config.integer("d_model"), config.head_count("n_heads"), config.layer_count("n_layers")
    experts, per_token = routed(feed, "moe_num_experts", "moe_top_k")
    e = Experts(layers=layers, experts=experts, per_token=per_token, intermediate=feed.integer("ffn_hidden_size"))
    return DecoderShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads_of(attention, heads, "kv_n_heads"),
        head_dim=config.divisible("d_model", hidden, "n_heads", heads),
        intermediate=feed.integer("ffn_hidden_size"),
        vocabulary=config.vocabulary(),
        max_context=config.context("max_seq_len"),
        tied=config.flag("tie_word_embeddings", default=False),
        experts=e,
    )


def read_ernie4_5_moe(config: Fields) -> DecoderShape:
    """ERNIE 4.5 MoE: experts between two layer indices, shared experts, a correction bias."""
    layers = config.layer_count()
    experts, per_token = routed(config, "moe_num_experts", "moe_k")
    start = config.integer("moe_layer_start_index", minimum=0, maximum=MAX_LAYERS, default=0)
    end = config.integer("moe_layer_end_index", minimum=-1, maximum=MAX_LAYERS, default=-1)
    every = config.integer("moe_layer_interval", maximum=MAX_LAYERS, default=1)
    last = layers - 1 if end == -1 else end
    one = config.integer("moe_intermediate_size")
    e = Experts(
        layers=sum(1 for i in range(layers) if (i + 1) % every == 0 and start <= i <= last),
        experts=experts,
        per_token=per_token,
        intermediate=one,
        shared_intermediate=one * config.integer("moe_num_shared_experts", minimum=0, maximum=10_000, default=0),
        correction_bias=True,
    )
    style = Style(qkv_bias=("use_bias", False), o_bias=("use_bias", False), mlp_bias=("use_bias", False), tied=True)
    return read_llama_like(config, style, experts=e)


def read_minimax_m2(config: Fields) -> DecoderShape:
    """MiniMax-M2: every layer routed, a correction bias, norms over all query and key numbers."""
    experts, per_token = routed(config, "num_local_experts", "num_experts_per_tok")
    e = Experts(
        layers=config.layer_count(),
        experts=experts,
        per_token=per_token,
        intermediate=config.integer("intermediate_size"),
        correction_bias=True,
    )
    normed = "all_heads" if config.flag("use_qk_norm", default=True) else "none"
    return read_llama_like(config, Style(qkv_bias=False, o_bias=False, mlp_bias=False, qk_norm=normed), experts=e)


MOE_READERS: dict[str, Callable[[Fields], DecoderShape]] = {
    "mixtral": read_mixtral,
    "phimoe": read_phimoe,
    "qwen2_moe": read_qwen2_moe,
    "qwen3_moe": read_qwen3_moe,
    "qwen3_vl_moe_text": read_qwen3_moe,
    "olmoe": read_olmoe,
    "granitemoe": read_granite_moe,
    "granitemoeshared": read_granite_moe,
    "deepseek_v2": read_deepseek_v2,
    "deepseek_v3": read_deepseek_v3,
    "kimi_k2": read_deepseek_v3,
    "deepseek_v32": read_sparse_latent,
    "glm_moe_dsa": read_sparse_latent,
    "minicpm3": read_minicpm3,
    "glm4_moe": read_glm4_moe,
    "gpt_oss": read_gpt_oss,
    "llama4_text": read_llama4,
    "dbrx": read_dbrx,
    "ernie4_5_moe": read_ernie4_5_moe,
    "minimax_m2": read_minimax_m2,
}
