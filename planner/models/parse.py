"""`parse_config`: any Hugging Face config.json (or diffusers UNet config) → `ModelSpec`. The dispatch; families live in their own files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.models.convnet import CONVNET_READERS
from planner.models.decoder import DecoderShape
from planner.models.decoders import SHAPE_READERS, decoder_spec
from planner.models.diffusion import DIFFUSION_READERS
from planner.models.encoder import ENCODER_READERS
from planner.models.errors import UnsupportedArchitecture
from planner.models.fields import Fields, read_json_object
from planner.models.multimodal import MULTIMODAL_READERS
from planner.models.seq2seq import SEQ2SEQ_READERS
from planner.models.spec import ModelSpec
from planner.models.speech import SPEECH_READERS
from planner.models.state_space import STATE_SPACE_READERS
from planner.models.vision import VISION_READERS

Reader = Callable[[Fields], ModelSpec]


def _shaped(read: Callable[[Fields], DecoderShape]) -> Reader:
    return lambda config: decoder_spec(config, read(config))


READERS: dict[str, Reader] = {
    **{name: _shaped(read) for name, read in SHAPE_READERS.items()},
    **ENCODER_READERS,
    **SEQ2SEQ_READERS,
    **SPEECH_READERS,
    **VISION_READERS,
    **CONVNET_READERS,
    **MULTIMODAL_READERS,
    **STATE_SPACE_READERS,
    **DIFFUSION_READERS,
}
"""By `model_type` (diffusers: `_class_name`)."""


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
        why = "is missing; a Hugging Face config.json names its architecture there, such as llama or qwen2"
    else:
        why = f"is {model_type!r}, an architecture whose tensors we do not know how to count{_near(model_type)}"
    raise UnsupportedArchitecture(source=config.source, field="model_type", why=why)


def _near(model_type: str) -> str:
    import difflib  # noqa: PLC0415 - only on the way to an error

    near = difflib.get_close_matches(model_type, READERS, n=3, cutoff=0.6)
    return f"; near ones that we do know: {', '.join(near)}" if near else f"; known are {', '.join(sorted(READERS))}"
