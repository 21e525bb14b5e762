"""State-space models and hybrids with attention: Mamba, FalconMamba, Mamba2, Nemotron-H, Jamba, Bamba, Granite 4, Qwen3-Next, Qwen3.5."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.models.assemble import assemble
from planner.models.decoder import (
    DecoderShape,
    Experts,
    Span,
    add_attention,
    add_experts,
    add_feed_forward,
    attention_layers,
)
from planner.models.fields import MAX_LAYERS, Fields
from planner.models.llama_like import head_dim_of, kv_heads_of
from planner.models.mixers import GatedDelta, Mamba1, Mamba2, Mixer
from planner.models.moe import qwen_sparse_layers, routed
from planner.models.spec import FeedForwardLayers, ModelKind, ModelSpec, TensorClass
from planner.models.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """How many blocks of each kind a hybrid has, and its norms."""

    mixers: int
    attention: int
    dense: int
    norms: int  # vectors of hidden size, final norm included


def _shape(
    config: Fields,
    blocks: _Blocks,
    *,
    gated: bool,
    mlp_bias: bool = False,
    bias: bool = False,
    experts: Experts | None = None,
) -> DecoderShape:
    hidden = config.integer("hidden_size")
    heads = config.head_count() if blocks.attention else 1
    return DecoderShape(
        layers=blocks.attention,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads_of(config, heads) if blocks.attention else 1,
        head_dim=head_dim_of(config, hidden, heads) if blocks.attention else 1,
        intermediate=config.integer("intermediate_size", default=1)
        if blocks.dense == 0
        else config.integer("intermediate_size"),
        vocabulary=config.vocabulary(),
        max_context=config.context(),
        tied=config.flag("tie_word_embeddings", default=False),
        gated=gated,
        q_bias=bias,
        kv_bias=bias,
        o_bias=bias,
        mlp_bias=mlp_bias,
        experts=experts,
        spans=(Span(layers=blocks.attention),),
    )


def _spec(
    config: Fields, mixer: Mixer, blocks: _Blocks, shape: DecoderShape, *, layers: int, tally: Tally | None = None
) -> ModelSpec:
    tally = Tally() if tally is None else tally
    tally.table("token_embedding", shape.vocabulary, shape.hidden)
    state = mixer.add_to(tally, shape.hidden, blocks.mixers)
    feed_forward: list[FeedForwardLayers] = []
    if blocks.attention:
        add_attention(tally, shape, blocks.attention)
    if blocks.dense:
        add_feed_forward(
            tally,
            hidden=shape.hidden,
            intermediate=shape.intermediate,
            gated=shape.gated,
            bias=shape.mlp_bias,
            layers=blocks.dense,
        )
        feed_forward.append(
            FeedForwardLayers(count=blocks.dense, intermediate_size=shape.intermediate, gated=shape.gated)
        )
    if shape.experts is not None and shape.experts.layers:
        e = shape.experts
        add_experts(tally, shape.hidden, e)
        feed_forward.append(
            FeedForwardLayers(
                count=e.layers,
                intermediate_size=e.intermediate,
                gated=e.gated,
                experts=e.experts,
                experts_per_token=e.per_token,
                shared_intermediate_size=e.shared_intermediate,
            )
        )
    tally.norm("norms", shape.hidden, times=blocks.norms)
    if shape.tied:
        tally.tied_head("lm_head", shape.vocabulary, shape.hidden)
    else:
        tally.linear("lm_head", TensorClass.HEAD, shape.hidden, shape.vocabulary, quantisable=False)
    return assemble(
        config,
        tally,
        kind=ModelKind.DECODER,
        hidden_size=shape.hidden,
        layers=layers,
        vocab_size=shape.vocabulary,
        max_context=shape.max_context,
        attention=attention_layers(shape) if blocks.attention else (),
        feed_forward=feed_forward,
        state=(state,) if blocks.mixers else (),
    )


def _mamba1(config: Fields, hidden: int, prefix: str = "", *, norms: bool = False) -> Mamba1:
    inner = hidden * config.integer(prefix + "expand", maximum=64, default=2)
    if not prefix and config.has("intermediate_size"):
        inner = config.integer("intermediate_size")
    rank = config.data.get(prefix + "dt_rank" if prefix else "time_step_rank")
    return Mamba1(
        inner=inner,
        state=config.integer(prefix + "d_state" if prefix else "state_size", default=16),
        kernel=config.integer(prefix + "d_conv" if prefix else "conv_kernel", maximum=1000, default=4),
        step_rank=-(-hidden // 16)
        if rank in {None, "auto"}
        else config.integer(prefix + "dt_rank" if prefix else "time_step_rank"),
        conv_bias=config.flag(prefix + "conv_bias" if prefix else "use_conv_bias", default=True),
        bias=config.flag(prefix + "proj_bias" if prefix else "use_bias", default=False),
        norms=norms,
    )


def read_mamba(config: Fields) -> ModelSpec:
    """Mamba and FalconMamba: mixers only, tied head."""
    hidden, layers = config.integer("hidden_size"), config.layer_count()
    mixer = _mamba1(config, hidden)
    blocks = _Blocks(mixers=layers, attention=0, dense=0, norms=layers + 1)
    return _spec(config, mixer, blocks, _tied(config, _shape(config, blocks, gated=True)), layers=layers)


def read_mamba2(config: Fields) -> ModelSpec:
    """Mamba-2: mixers only."""
    hidden, layers = config.integer("hidden_size"), config.layer_count()
    inner = int(hidden * config.number("expand", minimum=0.1, maximum=64, default=2.0))
    mixer = Mamba2(
        inner=inner,
        heads=config.head_count("num_heads"),
        state=config.integer("state_size", default=128),
        groups=config.integer("n_groups", maximum=100_000, default=8),
        kernel=config.integer("conv_kernel", maximum=1000, default=4),
        conv_bias=config.flag("use_conv_bias", default=True),
        bias=config.flag("use_bias", default=False),
    )
    blocks = _Blocks(mixers=layers, attention=0, dense=0, norms=layers + 1)
    return _spec(config, mixer, blocks, _shape(config, blocks, gated=True), layers=layers)


def _tied(config: Fields, shape: DecoderShape) -> DecoderShape:
    return replace(shape, tied=config.flag("tie_word_embeddings", default=True))


BLOCK_LETTERS = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}


def _nemotron_pattern(config: Fields) -> str:
    """Return one letter for each block, from the pattern or from a list of block types."""
    types = config.strings("layers_block_type")
    if types is None:
        pattern, layers = config.text("hybrid_override_pattern"), config.layer_count()
        if len(pattern) != layers or set(pattern) - set("M*-E"):
            raise config.error(
                "hybrid_override_pattern",
                f"should be {layers} letters out of M, *, - and E, one for each of num_hidden_layers",
            )
        return pattern
    unknown = set(types) - set(BLOCK_LETTERS)
    if unknown or not 1 <= len(types) <= MAX_LAYERS:
        raise config.error("layers_block_type", f"should list {', '.join(BLOCK_LETTERS)}, one for each block")
    return "".join(BLOCK_LETTERS[t] for t in types)


def read_nemotron_h(config: Fields) -> ModelSpec:
    """Nemotron-H: `hybrid_override_pattern` names each block: M mixer, * attention, - feed-forward (ungated), E experts."""
    pattern = _nemotron_pattern(config)
    layers = len(pattern)
    heads, width = config.head_count("mamba_num_heads"), config.integer("mamba_head_dim")
    mixer = Mamba2(
        inner=heads * width,
        heads=heads,
        state=config.integer("ssm_state_size"),
        groups=config.integer("n_groups", maximum=100_000),
        kernel=config.integer("conv_kernel", maximum=1000),
        conv_bias=config.flag("use_conv_bias", default=True),
        bias=config.flag("use_bias", default=False),
    )
    experts = None
    if "E" in pattern:
        count, chosen = routed(config, "n_routed_experts", "num_experts_per_tok")
        experts = Experts(
            layers=pattern.count("E"),
            experts=count,
            per_token=chosen,
            intermediate=config.integer("moe_intermediate_size"),
            gated=False,
            shared_intermediate=config.integer("moe_shared_expert_intermediate_size", minimum=0, default=0)
            * config.integer("n_shared_experts", minimum=0, maximum=10_000, default=1),
            correction_bias=True,
        )
        if config.has("moe_latent_size"):
            raise config.error("moe_latent_size", "is given; experts on a latent width are not counted")
    blocks = _Blocks(
        mixers=pattern.count("M"), attention=pattern.count("*"), dense=pattern.count("-"), norms=layers + 1
    )
    return _spec(
        config,
        mixer,
        blocks,
        _shape(config, blocks, gated=False, mlp_bias=config.flag("mlp_bias", default=False), experts=experts),
        layers=layers,
    )


def read_jamba(config: Fields) -> ModelSpec:
    """Jamba: attention every `attn_layer_period` layers, mixers between; experts every `expert_layer_period` layers."""
    hidden, layers = config.integer("hidden_size"), config.layer_count()
    attention = _every(config, layers, "attn_layer_period", "attn_layer_offset")
    experts_in = _every(config, layers, "expert_layer_period", "expert_layer_offset")
    count = config.integer("num_experts", maximum=100_000)
    experts = None
    if count > 1:
        _, chosen = routed(config, "num_experts", "num_experts_per_tok")
        experts = Experts(
            layers=experts_in, experts=count, per_token=chosen, intermediate=config.integer("intermediate_size")
        )
    blocks = _Blocks(
        mixers=layers - attention,
        attention=attention,
        dense=layers - (experts_in if experts else 0),
        norms=2 * layers + 1,
    )
    return _spec(
        config,
        _mamba1(config, hidden, "mamba_", norms=True),
        blocks,
        _shape(config, blocks, gated=True, experts=experts),
        layers=layers,
    )


def _every(config: Fields, layers: int, period_name: str, offset_name: str) -> int:
    period, offset = (
        config.integer(period_name, maximum=MAX_LAYERS),
        config.integer(offset_name, minimum=0, maximum=MAX_LAYERS),
    )
    return sum(1 for i in range(layers) if (i - offset) % period == 0)


def read_bamba(config: Fields) -> ModelSpec:
    """Bamba: Mamba-2 mixers with attention at `attn_layer_indices`, a gated feed-forward in every layer."""
    layers = config.layer_count()
    attention = len(set(config.integers("attn_layer_indices", maximum=layers - 1) or ()))
    blocks = _Blocks(mixers=layers - attention, attention=attention, dense=layers, norms=2 * layers + 1)
    return _spec(
        config,
        _mamba2_prefixed(config),
        blocks,
        _shape(config, blocks, gated=True, mlp_bias=config.flag("mlp_bias", default=False)),
        layers=layers,
    )


def _mamba2_prefixed(config: Fields) -> Mamba2:
    hidden = config.integer("hidden_size")
    return Mamba2(
        inner=hidden * config.integer("mamba_expand", maximum=64, default=2),
        heads=config.head_count("mamba_n_heads"),
        state=config.integer("mamba_d_state"),
        groups=config.integer("mamba_n_groups", maximum=100_000),
        kernel=config.integer("mamba_d_conv", maximum=1000),
        conv_bias=config.flag("mamba_conv_bias", default=True),
        bias=config.flag("mamba_proj_bias", default=False),
    )


MIXERS = {"mamba", "linear_attention"}
ATTENTION = {"attention", "full_attention", "multi_head_attention"}


def read_granite_hybrid(config: Fields) -> ModelSpec:
    """Granite 4: `layer_types` names mamba and attention layers; experts (where there are any) and a shared expert in every layer."""
    layers, types = config.layer_count(), config.strings("layer_types")
    if types is None or len(types) != layers or set(types) - MIXERS - ATTENTION:
        raise config.error("layer_types", f"should list mamba or attention for each of {layers} layers")
    attention = sum(1 for t in types if t in ATTENTION)
    count = config.integer("num_local_experts", minimum=0, maximum=100_000, default=0)
    shared = config.integer("shared_intermediate_size", minimum=0, default=0)
    experts = None
    if count:
        _, chosen = routed(config, "num_local_experts", "num_experts_per_tok")
        experts = Experts(
            layers=layers,
            experts=count,
            per_token=chosen,
            intermediate=config.integer("intermediate_size"),
            shared_intermediate=shared,
        )
    blocks = _Blocks(mixers=layers - attention, attention=attention, dense=0 if count else layers, norms=2 * layers + 1)
    shape = _shape(config, blocks, gated=True, bias=config.flag("attention_bias", default=False), experts=experts)
    if not count:
        shape = replace(shape, intermediate=config.integer("shared_intermediate_size"))
    return _spec(config, _mamba2_prefixed(config), blocks, shape, layers=layers)


def read_qwen3_next(config: Fields, *, outer: Fields | None = None, tally: Tally | None = None) -> ModelSpec:
    """Qwen3-Next, Qwen3.5 and their mixtures: gated delta networks, every `full_attention_interval`-th layer gated attention."""
    layers = config.layer_count()
    types = config.strings("layer_types")
    if types is not None and (len(types) != layers or set(types) - {"linear_attention", "full_attention"}):
        raise config.error("layer_types", f"should list linear_attention or full_attention for each of {layers} layers")
    interval = config.integer("full_attention_interval", maximum=MAX_LAYERS, default=4)
    attention = types.count("full_attention") if types is not None else layers // interval
    mixer = GatedDelta(
        key_heads=config.head_count("linear_num_key_heads"),
        key_dim=config.integer("linear_key_head_dim"),
        value_heads=config.head_count("linear_num_value_heads"),
        value_dim=config.integer("linear_value_head_dim"),
        kernel=config.integer("linear_conv_kernel_dim", maximum=1000),
    )
    experts = None
    if config.has("num_experts") or config.has("num_local_experts"):
        count, chosen = routed(config, "num_experts", "num_experts_per_tok")
        experts = Experts(
            layers=qwen_sparse_layers(config, layers),
            experts=count,
            per_token=chosen,
            intermediate=config.integer("moe_intermediate_size"),
            shared_intermediate=config.integer("shared_expert_intermediate_size"),
            shared_gate=True,
        )
    blocks = _Blocks(
        mixers=layers - attention,
        attention=attention,
        dense=layers - (experts.layers if experts else 0),
        norms=2 * layers + 1,
    )
    shape = _shape(config, blocks, gated=True, bias=config.flag("attention_bias", default=False), experts=experts)
    shape = replace(shape, qk_norm="per_head_dim", q_gate=True)
    if outer is not None:
        shape = replace(shape, tied=outer.flag("tie_word_embeddings", default=shape.tied))
    return _spec(outer or config, mixer, blocks, shape, layers=layers, tally=tally)


STATE_SPACE_READERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "mamba": read_mamba,
    "falcon_mamba": read_mamba,
    "mamba2": read_mamba2,
    "nemotron_h": read_nemotron_h,
    "jamba": read_jamba,
    "bamba": read_bamba,
    "granitemoehybrid": read_granite_hybrid,
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), read_qwen3_next),
}
