"""Whisper (arXiv:2212.04356): convolutions and an encoder over 30 s of audio, a decoder that writes text. One sample = one clip of 30 s."""

from __future__ import annotations

from collections.abc import Callable

from planner.models.assemble import assemble
from planner.models.encoder_stack import EncoderStack
from planner.models.fields import MAX_CONTEXT, Fields
from planner.models.sample_work import sample_of
from planner.models.seq2seq import Renamed, add_cross_attention, decoder_attention
from planner.models.spec import ModelKind, ModelSpec, TensorClass, WorkCurve
from planner.models.tally import Tally

OUTPUT_TOKENS = 112
"""Text tokens of a 30 s clip: 150 spoken words a minute, 1.5 tokens a word (assumed; `with_input` takes another number)."""


def read_whisper(config: Fields) -> ModelSpec:
    """Whisper: keys without bias, sinusoidal encoder positions stored as a table, tied head."""
    h = config.integer("d_model")

    def stack(side: str) -> EncoderStack:
        heads = config.head_count(f"{side}_attention_heads")
        return EncoderStack(
            layers=config.layer_count(f"{side}_layers"),
            hidden=h,
            heads=heads,
            intermediate=config.integer(f"{side}_ffn_dim"),
            head_dim=config.divisible("d_model", h, f"{side}_attention_heads", heads),
            k_bias=False,
            norms_per_layer=2 if side == "encoder" else 3,
            tower="encoder" if side == "encoder" else "text",
        )

    encoder, decoder, tally = stack("encoder"), stack("decoder"), Tally()
    mels, vocabulary = config.integer("num_mel_bins", maximum=10_000), config.vocabulary()
    positions, context = (
        config.integer("max_source_positions", maximum=MAX_CONTEXT),
        config.integer("max_target_positions", maximum=MAX_CONTEXT),
    )
    tally.linear("convolution.first", TensorClass.CONVOLUTION, 3 * mels, h, bias=True, tower="encoder")
    tally.linear("convolution.second", TensorClass.CONVOLUTION, 3 * h, h, bias=True, tower="encoder")
    tally.table("encoder.position_embedding", positions, h, tower="encoder")
    tally.table("token_embedding", vocabulary, h)
    tally.table("position_embedding", context, h)
    for one, prefix in ((encoder, "encoder."), (decoder, "decoder.")):
        one.add_to(Renamed(tally, prefix))
        Renamed(tally, prefix).norm("norms", h, bias=True, tower=one.tower)
    add_cross_attention(tally, decoder, decoder.layers)
    tally.tied_head("lm_head", vocabulary, h)
    return assemble(
        config,
        tally,
        kind=ModelKind.SPEECH,
        hidden_size=h,
        layers=decoder.layers,
        vocab_size=vocabulary,
        max_context=context,
        attention=(*decoder_attention(decoder), encoder.attention()),
        feed_forward=(decoder.feed_forward(), encoder.feed_forward()),
        encoder_positions=positions,
        sample=sample_of(
            _curve(encoder, decoder, mels=mels, positions=positions, vocabulary=vocabulary, context=context),
            min(OUTPUT_TOKENS, context),
        ),
        default_dtype="fp16",
    )


def _curve(
    encoder: EncoderStack, decoder: EncoderStack, *, mels: int, positions: int, vocabulary: int, context: int
) -> WorkCurve:
    """Return the work by output tokens T: encoder once; T decoder steps, each over all encoder positions and T/2 earlier tokens on average."""
    h, s, width, n = encoder.hidden, positions, decoder.heads * decoder.head_dim, decoder.layers
    convolutions = 2.0 * (3 * mels * h * 2 * s + 3 * h * h * s)  # the first runs at twice the rate
    once = convolutions + encoder.flops()[1] * s + encoder.flops()[2] * s * s + 2.0 * n * 2 * h * width * s
    per_token = 2.0 * (decoder.matmul_parameters() + n * 2 * h * width + vocabulary * h) + 4.0 * n * width * s
    return WorkCurve(
        what="30 s clip, {size} output tokens",
        image=False,
        flops=(once, per_token, decoder.flops()[2] / 2),
        activations=(
            encoder.activations()[1] * s + 3.0 * h * s + 2.0 * n * width * s,
            decoder.activations()[1] + 3.0 * n * width + vocabulary,
            0.0,
        ),
        largest=context,
    )


SPEECH_READERS: dict[str, Callable[[Fields], ModelSpec]] = {"whisper": read_whisper}
