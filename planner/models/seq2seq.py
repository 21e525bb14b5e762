"""Encoder-decoders: T5, mT5, Flan-T5 (arXiv:1910.10683), BART and its relatives (arXiv:1910.13461). The encoder reads the input, the decoder writes the output.

Tensors of the encoder (and the decoder's projections of the encoder output) are in the tower "encoder": they multiply input tokens.
"""

from __future__ import annotations

from collections.abc import Callable

from planner.models.assemble import assemble
from planner.models.encoder_stack import EncoderStack
from planner.models.fields import MAX_CONTEXT, MAX_WIDTH, Fields
from planner.models.spec import AttentionKind, AttentionLayers, ModelKind, ModelSpec, TensorClass
from planner.models.tally import Tally


def add_cross_attention(tally: Tally, stack: EncoderStack, layers: int) -> None:
    """Add `layers` cross-attentions: q and output multiply output tokens, k and v the encoder's positions."""
    h, width = stack.hidden, stack.heads * stack.head_dim
    attention = TensorClass.ATTENTION
    tally.linear("cross_attention.q", attention, h, width, bias=stack.qkv_bias, times=layers)
    tally.linear(
        "cross_attention_inputs.k",
        attention,
        h,
        width,
        bias=stack.qkv_bias and stack.k_bias,
        times=layers,
        tower="encoder",
    )
    tally.linear("cross_attention_inputs.v", attention, h, width, bias=stack.qkv_bias, times=layers, tower="encoder")
    tally.linear("cross_attention.o", attention, width, h, bias=stack.o_bias, times=layers)


def decoder_attention(stack: EncoderStack) -> tuple[AttentionLayers, AttentionLayers]:
    """Return the decoder's self-attention and cross-attention layers."""

    def layers(kind: AttentionKind) -> AttentionLayers:
        return AttentionLayers(
            count=stack.layers,
            kind=kind,
            heads=stack.heads,
            kv_heads=stack.heads,
            head_dim=stack.head_dim,
            value_head_dim=stack.head_dim,
        )

    return layers(AttentionKind.FULL), layers(AttentionKind.CROSS)


class Renamed(Tally):
    """A tally whose group names get a prefix, so that encoder and decoder stay apart."""

    def __init__(self, inner: Tally, prefix: str) -> None:
        super().__init__()
        self._inner, self._prefix = inner, prefix

    def add(
        self,
        name: str,
        tensor_class: TensorClass,
        parameters: int,
        *,
        times: int = 1,
        matmul: int | None = None,
        quantisable: bool = False,
        tower: str = "text",
    ) -> None:
        """Add to the inner tally under the prefixed name."""
        self._inner.add(
            self._prefix + name,
            tensor_class,
            parameters,
            times=times,
            matmul=matmul,
            quantisable=quantisable,
            tower=tower,
        )


def _spec(
    config: Fields, tally: Tally, encoder: EncoderStack, decoder: EncoderStack, *, vocabulary: int, context: int | None
) -> ModelSpec:
    return assemble(
        config,
        tally,
        kind=ModelKind.ENCODER_DECODER,
        hidden_size=decoder.hidden,
        layers=decoder.layers,
        vocab_size=vocabulary,
        max_context=context,
        attention=(*decoder_attention(decoder), encoder.attention()),
        feed_forward=(decoder.feed_forward(), encoder.feed_forward()),
        default_dtype="fp32",
    )


def read_t5(config: Fields) -> ModelSpec:
    """T5 1.0 and 1.1: no biases, one table of relative positions per stack, gated feed-forward where `feed_forward_proj` says so."""
    h, heads = config.integer("d_model"), config.head_count("num_heads")
    gated = config.text("feed_forward_proj", default="relu").startswith("gated-")
    layers = config.layer_count("num_layers")

    def stack(n: int, tower: str) -> EncoderStack:
        return EncoderStack(
            layers=n,
            hidden=h,
            heads=heads,
            intermediate=config.integer("d_ff"),
            head_dim=config.integer("d_kv"),
            gated=gated,
            qkv_bias=False,
            o_bias=False,
            mlp_bias=False,
            norm_bias=False,
            norms_per_layer=2 if tower == "encoder" else 3,
            tower=tower,
        )

    encoder, decoder = (
        stack(layers, "encoder"),
        stack(config.integer("num_decoder_layers", maximum=2_000, default=layers), "text"),
    )
    tally, vocabulary = Tally(), config.vocabulary()
    tally.table("token_embedding", vocabulary, h)
    for one, prefix in ((encoder, "encoder."), (decoder, "decoder.")):
        one.add_to(Renamed(tally, prefix))
        Renamed(tally, prefix).norm("norms", h, tower=one.tower)
        tally.table(
            prefix + "relative_positions",
            config.integer("relative_attention_num_buckets", maximum=100_000, default=32),
            heads,
            tower=one.tower,
        )
    add_cross_attention(tally, decoder, decoder.layers)
    if config.flag("tie_word_embeddings", default=True):
        tally.tied_head("lm_head", vocabulary, h)
    else:
        tally.linear("lm_head", TensorClass.HEAD, h, vocabulary, quantisable=False)
    return _spec(config, tally, encoder, decoder, vocabulary=vocabulary, context=config.context("n_positions"))


def read_bart(config: Fields) -> ModelSpec:
    """BART, mBART, Pegasus, Marian, M2M-100/NLLB: biases everywhere, one shared embedding and tied head."""
    family = config.text("model_type")
    h = config.integer("d_model")

    def stack(side: str) -> EncoderStack:
        heads = config.head_count(f"{side}_attention_heads")
        return EncoderStack(
            layers=config.layer_count(f"{side}_layers"),
            hidden=h,
            heads=heads,
            intermediate=config.integer(f"{side}_ffn_dim", maximum=MAX_WIDTH),
            head_dim=config.divisible("d_model", h, f"{side}_attention_heads", heads),
            norms_per_layer=2 if side == "encoder" else 3,
            tower="encoder" if side == "encoder" else "text",
        )

    encoder, decoder, tally = stack("encoder"), stack("decoder"), Tally()
    vocabulary, context = config.vocabulary(), config.integer("max_position_embeddings", maximum=MAX_CONTEXT)
    tally.table("token_embedding", vocabulary, h)
    learned = family in {"bart", "mbart"}
    for one, prefix in ((encoder, "encoder."), (decoder, "decoder.")):
        inner = Renamed(tally, prefix)
        one.add_to(inner)
        if family != "m2m_100":  # which computes them; Pegasus and Marian store sinusoids
            inner.table("position_embedding", context + (2 if learned else 0), h, tower=one.tower)
        inner.norm("norms", h, times={"bart": 1, "mbart": 2, "marian": 0}.get(family, 1), bias=True, tower=one.tower)
    add_cross_attention(tally, decoder, decoder.layers)
    tally.tied_head("lm_head", vocabulary, h)
    return _spec(config, tally, encoder, decoder, vocabulary=vocabulary, context=context)


SEQ2SEQ_READERS: dict[str, Callable[[Fields], ModelSpec]] = {
    **dict.fromkeys(("t5", "mt5"), read_t5),
    **dict.fromkeys(("bart", "mbart", "pegasus", "marian", "m2m_100"), read_bart),
}
