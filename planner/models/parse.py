"""`parse_config`: any Hugging Face config.json (or diffusers UNet config) → `ModelSpec`. The dispatch; families live in their own files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.models.assemble import assemble
from planner.models.classic import CLASSIC_READERS
from planner.models.decoder import DecoderShape, add_decoder
from planner.models.errors import UnsupportedArchitecture
from planner.models.fields import Fields, read_json_object
from planner.models.llama_like import STYLES, read_llama_like
from planner.models.moe import MOE_READERS
from planner.models.spec import ModelKind, ModelSpec
from planner.models.tally import Tally

Reader = Callable[[Fields], ModelSpec]


def decoder_spec(config: Fields, shape: DecoderShape) -> ModelSpec:
    """Return the spec of a decoder-only model of this shape."""
    tally = Tally()
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


def _llama_like(config: Fields) -> ModelSpec:
    return decoder_spec(config, read_llama_like(config, STYLES[config.text("model_type")]))


def _shaped(read: Callable[[Fields], DecoderShape]) -> Reader:
    return lambda config: decoder_spec(config, read(config))


READERS: dict[str, Reader] = {
    **dict.fromkeys(STYLES, _llama_like),
    **{name: _shaped(read) for name, read in (CLASSIC_READERS | MOE_READERS).items()},
}


def parse_config(data: bytes | str, *, source: str, name: str | None = None) -> ModelSpec:
    """Return the model that a config describes; raises `ConfigError` with the field, its value and what would be right."""
    config = Fields(read_json_object(data, source), source)
    spec = _reader(config)(config)
    return replace(spec, name=name or spec.name)


def _reader(config: Fields) -> Reader:
    model_type = config.text("model_type", "_class_name", default="")
    if model_type in READERS:
        return READERS[model_type]
    if not model_type:
        raise UnsupportedArchitecture(source=config.source, field="model_type", why="is missing; a Hugging Face config.json names its architecture there, such as llama or qwen2")
    raise UnsupportedArchitecture(source=config.source, field="model_type", why=f"is {model_type!r}, an architecture whose tensors we do not know how to count{_near(model_type)}")


def _near(model_type: str) -> str:
    import difflib  # noqa: PLC0415 - only on the way to an error

    near = difflib.get_close_matches(model_type, READERS, n=3, cutoff=0.6)
    return f"; near ones that we do know: {', '.join(near)}" if near else f"; known are {', '.join(sorted(READERS))}"
