"""Decoder families whose configs use the field names of Llama: what each family does differently, as a table.

Biases, norms and ties are those of the Hugging Face implementation of each `model_type`; a pair (field or fields, default) is read
from the config.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.models.decoder import DecoderShape, Experts, LatentAttention, Span
from planner.models.fields import Fields
from planner.models.windows import every_nth_full, spans_of

Rule = bool | tuple[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a family departs from Llama."""

    qkv_bias: Rule = ("attention_bias", False)
    o_bias: Rule = ("attention_bias", False)
    mlp_bias: Rule = ("mlp_bias", False)
    gated: bool = True
    tied: bool = False  # class default of tie_word_embeddings
    norms: int = 2
    norm_bias: bool = False
    norm_weight: bool = True
    qk_norm: str = "none"
    qk_norm_flag: tuple[str, bool] | None = None  # the field that turns it on
    qk_norm_bias: bool = False
    head_bias: bool = False
    parallel_flag: tuple[str, bool] | None = None  # parallel residual: one norm fewer
    full_every: int | None = None  # alternating windows: class default of the pattern
    window_opt_in: bool = False  # sliding_window counts only where use_sliding_window is true
    windowed: bool = True  # False: a sliding_window field is ignored by the implementation
    embedding_norm: bool = False


LLAMA = Style()
QWEN2 = Style(qkv_bias=True, o_bias=False, mlp_bias=False, window_opt_in=True)
QWEN3 = Style(mlp_bias=False, qk_norm="per_head_dim", window_opt_in=True)
PLAIN = Style(qkv_bias=False, o_bias=False, mlp_bias=False)
BIASED = Style(qkv_bias=True, o_bias=True, mlp_bias=True, gated=False, norm_bias=True)

STYLES: dict[str, Style] = {
    "llama": LLAMA,
    "yi": LLAMA,
    "mistral": PLAIN,
    "ministral": PLAIN,
    "ministral3": PLAIN,
    "qwen2": QWEN2,
    "qwen2_vl_text": QWEN2,
    "qwen2_5_vl_text": QWEN2,
    "qwen3": QWEN3,
    "qwen3_vl_text": QWEN3,
    "phi3": PLAIN,
    "phi": replace(
        BIASED, norms=1, head_bias=True, qk_norm="per_head_dim", qk_norm_flag=("qk_layernorm", False), qk_norm_bias=True
    ),
    "persimmon": replace(BIASED, qk_norm="per_head_dim", qk_norm_flag=("qk_layernorm", True), qk_norm_bias=True),
    "gemma": Style(mlp_bias=False, tied=True),
    "gemma2": Style(mlp_bias=False, tied=True, norms=4, full_every=2),
    "gemma3_text": Style(mlp_bias=False, tied=True, norms=4, qk_norm="per_head_dim", full_every=6),
    "stablelm": Style(
        qkv_bias=("use_qkv_bias", False),
        o_bias=False,
        mlp_bias=False,
        norm_bias=True,
        qk_norm="all_heads",
        qk_norm_flag=("qk_layernorm", False),
        parallel_flag=("use_parallel_residual", False),
    ),
    "olmo": Style(mlp_bias=False, norm_weight=False),
    "olmo2": Style(mlp_bias=False, qk_norm="all_heads"),
    "olmo3": Style(mlp_bias=False, qk_norm="all_heads", full_every=4),
    "granite": LLAMA,
    "cohere": Style(mlp_bias=False, tied=True, norms=1, qk_norm="all_heads", qk_norm_flag=("use_qk_norm", False)),
    "cohere2": Style(mlp_bias=False, tied=True, norms=1, full_every=4),
    "starcoder2": Style(
        qkv_bias=("use_bias", True),
        o_bias=("use_bias", True),
        mlp_bias=("use_bias", True),
        gated=False,
        norm_bias=True,
        tied=True,
    ),
    "internlm": Style(qkv_bias=("bias", True), o_bias=("bias", True), mlp_bias=False),
    "internlm2": Style(qkv_bias=("bias", False), o_bias=("bias", False), mlp_bias=False),
    "internlm3": Style(
        qkv_bias=("qkv_bias attention_bias", False),
        o_bias=("bias attention_bias", False),
        mlp_bias=("bias mlp_bias", False),
    ),
    "nemotron": Style(gated=False, norm_bias=True),
    "glm": Style(qkv_bias=("attention_bias", True), o_bias=False, mlp_bias=False),
    "glm4": Style(qkv_bias=("attention_bias", True), o_bias=False, mlp_bias=False, norms=4),
    "exaone4": Style(qkv_bias=False, o_bias=False, mlp_bias=False, qk_norm="per_head_dim"),
    "smollm3": Style(window_opt_in=True, tied=True),
    "arcee": Style(gated=False),
    "seed_oss": Style(
        qkv_bias=("attention_bias", True), o_bias=("attention_out_bias", False), mlp_bias=("mlp_bias", False)
    ),
    "ernie4_5": Style(
        qkv_bias=("use_bias", False), o_bias=("use_bias", False), mlp_bias=("use_bias", False), tied=True
    ),
    "hunyuan_v1_dense": Style(mlp_bias=False, qk_norm="per_head_dim"),
    "baichuan": PLAIN,
    "minicpm": PLAIN,
}
"""Dense families. Mixture-of-experts families build on these styles in `moe.py`."""


def _rule(config: Fields, rule: Rule) -> bool:
    return rule if isinstance(rule, bool) else config.flag(*rule[0].split(), default=rule[1])


def head_dim_of(config: Fields, hidden: int, heads: int) -> int:
    """Return the explicit head_dim, else hidden / heads (which must divide)."""
    explicit = config.optional_integer("head_dim", "attention_head_dim")
    return explicit if explicit is not None else config.divisible("hidden_size", hidden, "num_attention_heads", heads)


def kv_heads_of(config: Fields, heads: int, name: str = "num_key_value_heads") -> int:
    """Return the key-value heads (the query heads where the field is absent); they must divide the heads."""
    kv_heads = config.integer(name, default=heads, maximum=100_000)
    if heads % kv_heads:
        raise config.error(
            name, f"is {kv_heads}, which does not divide num_attention_heads = {heads}; check both fields"
        )
    return kv_heads


def read_llama_like(
    config: Fields,
    style: Style,
    *,
    latent: LatentAttention | None = None,
    experts: Experts | None = None,
    intermediate: int | None = None,
    dense_layers: int | None = None,
    tied: bool | None = None,
) -> DecoderShape:
    """Return the shape of a config with Llama's field names; `tied` overrides what the outer config says of the head."""
    hidden, layers, heads = config.integer("hidden_size"), config.layer_count(), config.head_count()
    kv_heads = heads if latent is not None else kv_heads_of(config, heads)
    head_dim = latent.nope_head_dim + latent.rope_head_dim if latent is not None else head_dim_of(config, hidden, heads)
    normed = (
        style.qk_norm
        if style.qk_norm_flag is None or config.flag(style.qk_norm_flag[0], default=style.qk_norm_flag[1])
        else "none"
    )
    parallel = style.parallel_flag is not None and config.flag(style.parallel_flag[0], default=style.parallel_flag[1])
    return DecoderShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=config.integer("intermediate_size") if intermediate is None else intermediate,
        vocabulary=config.vocabulary(),
        max_context=config.context(),
        tied=config.flag("tie_word_embeddings", default=style.tied) if tied is None else tied,
        gated=style.gated,
        q_bias=_rule(config, style.qkv_bias),
        kv_bias=_rule(config, style.qkv_bias),
        o_bias=_rule(config, style.o_bias),
        mlp_bias=_rule(config, style.mlp_bias),
        qk_norm=normed,
        qk_norm_bias=style.qk_norm_bias,
        norms_per_layer=style.norms - (1 if parallel else 0),
        norm_bias=style.norm_bias,
        norm_weight=style.norm_weight,
        head_bias=style.head_bias,
        embedding_norm=style.embedding_norm,
        spans=() if latent is not None else _spans(config, style, layers),
        latent=latent,
        experts=experts,
        dense_layers=dense_layers,
    )


def _spans(config: Fields, style: Style, layers: int) -> tuple[Span, ...]:
    if not style.windowed or (
        style.window_opt_in
        and not config.flag("use_sliding_window", default=False)
        and config.strings("layer_types") is None
    ):
        return (Span(layers=layers),)
    if style.full_every is not None and not config.has("layer_types"):
        pattern = config.integer(
            "sliding_window_pattern", "_sliding_window_pattern", maximum=layers + 1000, default=style.full_every
        )
        window = config.optional_integer("sliding_window", maximum=1_000_000_000)
        return (
            every_nth_full(config, layers, pattern=pattern, window=window)
            if window is not None
            else (Span(layers=layers),)
        )
    return spans_of(config, layers)
