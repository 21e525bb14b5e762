"""Decoder families with their own field names: GPT-2, GPT-J, GPT-Neo, GPT-NeoX, CodeGen, GPT-BigCode, OPT, MPT, BLOOM, Falcon, Qwen, ChatGLM, EXAONE."""

from __future__ import annotations

from collections.abc import Callable

from planner.models.decoder import DecoderShape, Span
from planner.models.fields import MAX_CONTEXT, MAX_WIDTH, Fields
from planner.models.llama_like import kv_heads_of
from planner.models.spec import AttentionKind


def read_gpt2(config: Fields) -> DecoderShape:
    """GPT-2: learned positions, biases on everything, tied head."""
    return _gpt(config, attention_bias=True, positions=True, tied=True)


def read_gpt_bigcode(config: Fields) -> DecoderShape:
    """SantaCoder, StarCoder: GPT-2 with one KV head."""
    multi_query = config.flag("multi_query", default=True)
    return _gpt(config, attention_bias=True, positions=True, tied=True, kv_heads=1 if multi_query else None)


def read_gptj(config: Fields) -> DecoderShape:
    """GPT-J and CodeGen: one norm per block, no attention biases, a bias on the head."""
    return _gpt(config, attention_bias=False, positions=False, tied=False, norms=1, head_bias=True)


def _gpt(
    config: Fields,
    *,
    attention_bias: bool,
    positions: bool,
    tied: bool,
    norms: int = 2,
    head_bias: bool = False,
    kv_heads: int | None = None,
) -> DecoderShape:
    hidden, heads = config.integer("n_embd", "hidden_size"), config.head_count("n_head", "num_attention_heads")
    context = config.integer("n_positions", "n_ctx", "max_position_embeddings", maximum=MAX_CONTEXT)
    return DecoderShape(
        layers=config.layer_count("n_layer", "num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=heads if kv_heads is None else kv_heads,
        head_dim=config.divisible("n_embd", hidden, "n_head", heads),
        intermediate=config.integer("n_inner", default=4 * hidden),
        vocabulary=config.vocabulary(),
        max_context=context,
        tied=config.flag("tie_word_embeddings", default=tied),
        gated=False,
        q_bias=attention_bias,
        kv_bias=attention_bias,
        o_bias=attention_bias,
        mlp_bias=True,
        norms_per_layer=norms,
        norm_bias=True,
        head_bias=head_bias,
        positions=context if positions else 0,
    )


def read_gpt_neo(config: Fields) -> DecoderShape:
    """GPT-Neo: layers alternate between full and local attention."""
    hidden, heads, layers = (
        config.integer("hidden_size"),
        config.head_count("num_heads", "num_attention_heads"),
        config.layer_count("num_layers", "num_hidden_layers"),
    )
    context = config.integer("max_position_embeddings", maximum=MAX_CONTEXT)
    local = layers // 2
    return DecoderShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=config.divisible("hidden_size", hidden, "num_heads", heads),
        intermediate=config.integer("intermediate_size", default=4 * hidden),
        vocabulary=config.vocabulary(),
        max_context=context,
        tied=config.flag("tie_word_embeddings", default=True),
        gated=False,
        o_bias=True,
        mlp_bias=True,
        norm_bias=True,
        positions=context,
        spans=(
            Span(layers=layers - local),
            Span(
                layers=local,
                kind=AttentionKind.SLIDING,
                window=config.integer("window_size", maximum=MAX_CONTEXT, default=256),
            ),
        ),
    )


def read_gpt_neox(config: Fields) -> DecoderShape:
    """GPT-NeoX and Pythia: biases everywhere, separate head."""
    hidden, heads = config.integer("hidden_size"), config.head_count()
    bias = config.flag("attention_bias", default=True)
    return DecoderShape(
        layers=config.layer_count(),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=config.divisible("hidden_size", hidden, "num_attention_heads", heads),
        intermediate=config.integer("intermediate_size"),
        vocabulary=config.vocabulary(),
        max_context=config.context(),
        tied=config.flag("tie_word_embeddings", default=False),
        gated=False,
        q_bias=bias,
        kv_bias=bias,
        o_bias=bias,
        mlp_bias=True,
        norm_bias=True,
    )


def read_opt(config: Fields) -> DecoderShape:
    """OPT: learned positions with an offset of two, tied head, projected embeddings in the 350M model."""
    hidden, heads = config.integer("hidden_size"), config.head_count()
    context = config.integer("max_position_embeddings", maximum=MAX_CONTEXT)
    bias = config.flag("enable_bias", default=True)
    before = config.flag("do_layer_norm_before", default=True)
    return DecoderShape(
        layers=config.layer_count(),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=config.divisible("hidden_size", hidden, "num_attention_heads", heads),
        intermediate=config.integer("ffn_dim"),
        vocabulary=config.vocabulary(),
        max_context=context,
        tied=config.flag("tie_word_embeddings", default=True),
        gated=False,
        q_bias=bias,
        kv_bias=bias,
        o_bias=bias,
        mlp_bias=bias,
        norm_bias=True,
        norm_weight=config.flag("layer_norm_elementwise_affine", default=True),
        final_norm=before and not config.flag("_remove_final_layer_norm", default=False),
        positions=context + 2,
        embedding_width=config.integer("word_embed_proj_dim", default=hidden),
    )


def read_mpt(config: Fields) -> DecoderShape:
    """MPT: no biases at all (norms included), ALiBi, tied head."""
    hidden, heads = config.integer("d_model"), config.head_count("n_heads")
    return DecoderShape(
        layers=config.layer_count("n_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=config.divisible("d_model", hidden, "n_heads", heads),
        intermediate=hidden * config.integer("expansion_ratio", default=4, maximum=64),
        vocabulary=config.vocabulary(),
        max_context=config.context("max_seq_len"),
        tied=True,
        gated=False,
    )


def read_bloom(config: Fields) -> DecoderShape:
    """BLOOM: a norm over the embeddings, biases everywhere, ALiBi, tied head."""
    hidden, heads = config.integer("hidden_size", "n_embed"), config.head_count("n_head", "num_attention_heads")
    return DecoderShape(
        layers=config.layer_count("n_layer", "num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=config.divisible("hidden_size", hidden, "n_head", heads),
        intermediate=4 * hidden,
        vocabulary=config.vocabulary(),
        max_context=config.context("seq_length"),
        tied=config.flag("tie_word_embeddings", default=True),
        gated=False,
        q_bias=True,
        kv_bias=True,
        o_bias=True,
        mlp_bias=True,
        norm_bias=True,
        embedding_norm=True,
    )


def read_falcon(config: Fields) -> DecoderShape:
    """Falcon: three generations. `num_kv_heads` counts in the new decoder; else multi_query means one KV head."""
    hidden, heads = config.integer("hidden_size"), config.head_count("num_attention_heads", "n_head")
    new = config.flag("new_decoder_architecture", default=False)
    parallel = config.flag("parallel_attn", default=True)
    multi_query = config.flag("multi_query", default=True)
    kv_heads = (
        kv_heads_of(config, heads, "num_kv_heads" if config.has("num_kv_heads") else "n_head_kv")
        if new
        else 1
        if multi_query
        else heads
    )
    norms = config.integer("num_ln_in_parallel_attn", maximum=2, default=2 if new else 1) if new or parallel else 2
    bias = config.flag("bias", default=False)
    return DecoderShape(
        layers=config.layer_count("num_hidden_layers", "n_layer"),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=config.divisible("hidden_size", hidden, "num_attention_heads", heads),
        intermediate=config.integer("ffn_hidden_size", default=4 * hidden),
        vocabulary=config.vocabulary(),
        max_context=config.context(),
        tied=config.flag("tie_word_embeddings", default=True),
        gated=False,
        q_bias=bias,
        kv_bias=bias,
        o_bias=bias,
        mlp_bias=bias,
        norms_per_layer=norms if parallel or new else 2,
        norm_bias=True,
    )


def read_qwen(config: Fields) -> DecoderShape:
    """Qwen 1: intermediate_size names gate and up together; biases on q, k, v only."""
    hidden, heads = config.integer("hidden_size"), config.head_count()
    return DecoderShape(
        layers=config.layer_count(),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=config.integer("kv_channels"),
        intermediate=config.divisible("intermediate_size", config.integer("intermediate_size"), "the gated pair", 2),
        vocabulary=config.vocabulary(),
        max_context=config.context("seq_length", "max_position_embeddings"),
        tied=config.flag("tie_word_embeddings", default=False),
        q_bias=True,
        kv_bias=True,
    )


def read_chatglm(config: Fields) -> DecoderShape:
    """ChatGLM2/3 and GLM-4-9B: grouped queries by `multi_query_group_num`, biases on q, k, v."""
    hidden, heads = config.integer("hidden_size"), config.head_count()
    grouped = config.flag("multi_query_attention", default=False)
    kv_heads = kv_heads_of(config, heads, "multi_query_group_num") if grouped else heads
    bias = config.flag("add_bias_linear", default=False)
    qkv_bias = bias or config.flag("add_qkv_bias", default=False)
    return DecoderShape(
        layers=config.layer_count("num_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=config.integer("kv_channels"),
        intermediate=config.integer("ffn_hidden_size"),
        vocabulary=config.vocabulary("padded_vocab_size"),
        max_context=config.context("seq_length"),
        tied=config.flag("tie_word_embeddings", default=False),
        q_bias=qkv_bias,
        kv_bias=qkv_bias,
        o_bias=bias,
        mlp_bias=bias,
    )


def read_exaone(config: Fields) -> DecoderShape:
    """EXAONE 3: a Llama with other field names."""
    hidden, heads = config.integer("hidden_size"), config.head_count()
    return DecoderShape(
        layers=config.layer_count("num_layers", "num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads_of(config, heads),
        head_dim=config.integer("head_dim", default=max(1, hidden // heads)),
        intermediate=config.integer("intermediate_size", maximum=MAX_WIDTH),
        vocabulary=config.vocabulary(),
        max_context=config.context(),
        tied=config.flag("tie_word_embeddings", default=False),
    )


CLASSIC_READERS: dict[str, Callable[[Fields], DecoderShape]] = {
    "gpt2": read_gpt2,
    "gpt_bigcode": read_gpt_bigcode,
    "gptj": read_gptj,
    "codegen": read_gptj,
    "gpt_neo": read_gpt_neo,
    "gpt_neox": read_gpt_neox,
    "opt": read_opt,
    "mpt": read_mpt,
    "bloom": read_bloom,
    "falcon": read_falcon,
    "RefinedWeb": read_falcon,
    "RefinedWebModel": read_falcon,
    "qwen": read_qwen,
    "chatglm": read_chatglm,
    "exaone": read_exaone,
}
