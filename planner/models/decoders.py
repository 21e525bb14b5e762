"""Which reader makes a `DecoderShape` of which `model_type`, and the spec of a plain decoder."""

from __future__ import annotations

from collections.abc import Callable

from planner.models.assemble import assemble
from planner.models.classic import CLASSIC_READERS
from planner.models.decoder import DecoderShape, add_decoder
from planner.models.fields import Fields
from planner.models.llama_like import STYLES, read_llama_like
from planner.models.moe import MOE_READERS
from planner.models.spec import ModelKind, ModelSpec
from planner.models.tally import Tally


def _llama_like(config: Fields) -> DecoderShape:
    return read_llama_like(config, STYLES[config.text("model_type")])


SHAPE_READERS: dict[str, Callable[[Fields], DecoderShape]] = {
    **dict.fromkeys(STYLES, _llama_like),
    **CLASSIC_READERS,
    **MOE_READERS,
}


def decoder_spec(config: Fields, shape: DecoderShape, tally: Tally | None = None) -> ModelSpec:
    """Return the spec of a decoder-only model of this shape; `tally` may already hold other towers."""
    tally = Tally() if tally is None else tally
    attention, feed_forward = add_decoder(tally, shape)
    return assemble(
        config,
        tally,
        kind=ModelKind.DECODER,
        hidden_size=shape.hidden,
        layers=shape.layers,
        vocab_size=shape.vocabulary,
        max_context=shape.max_context,
        attention=attention,
        feed_forward=feed_forward,
    )
