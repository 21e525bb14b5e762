"""`parse_config`: any Hugging Face config.json (or diffusers UNet config) → `ModelSpec`. The dispatch; families live in their own files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from planner.models.decoder import DecoderShape
from planner.models.decoders import SHAPE_READERS, decoder_spec
from planner.models.errors import UnsupportedArchitecture
from planner.models.fields import Fields, read_json_object
from planner.models.spec import ModelSpec

Reader = Callable[[Fields], ModelSpec]


@cache
def other_readers() -> Mapping[str, Reader]:
    """Return the readers of everything that is not a plain decoder; imported when first needed, so that the common case starts fast."""
    from planner.models.convnet import CONVNET_READERS  # noqa: PLC0415 - see above
    from planner.models.diffusion import DIFFUSION_READERS  # noqa: PLC0415
    from planner.models.encoder import ENCODER_READERS  # noqa: PLC0415
    from planner.models.multimodal import MULTIMODAL_READERS  # noqa: PLC0415
    from planner.models.pyramid import PYRAMID_READERS  # noqa: PLC0415
    from planner.models.seq2seq import SEQ2SEQ_READERS  # noqa: PLC0415
    from planner.models.speech import SPEECH_READERS  # noqa: PLC0415
    from planner.models.state_space import STATE_SPACE_READERS  # noqa: PLC0415
    from planner.models.vision import VISION_READERS  # noqa: PLC0415

    return {
        **ENCODER_READERS,
        **SEQ2SEQ_READERS,
        **SPEECH_READERS,
        **VISION_READERS,
        **CONVNET_READERS,
        **PYRAMID_READERS,
        **MULTIMODAL_READERS,
        **STATE_SPACE_READERS,
        **DIFFUSION_READERS,
    }


def known_model_types() -> tuple[str, ...]:
    """Return every `model_type` (diffusers: `_class_name`) that we can count, in order."""
    return tuple(sorted({*SHAPE_READERS, *other_readers()}, key=str.lower))


def parse_config(data: bytes | str, *, source: str, name: str | None = None) -> ModelSpec:
    """Return the model that a config describes; raises `ConfigError` with the field, its value and what would be right."""
    config = Fields(read_json_object(data, source), source)
    spec = _reader(config)(config)
    return replace(spec, name=name or spec.name)


def _reader(config: Fields) -> Reader:
    model_type = config.text("model_type", "_class_name", default="")
    if model_type in SHAPE_READERS:
        return _shaped(SHAPE_READERS[model_type])
    if model_type in other_readers():
        return other_readers()[model_type]
    if not model_type:
        why = "is missing; a Hugging Face config.json names its architecture there, such as llama or qwen2"
    else:
        why = f"is {model_type!r}, an architecture whose tensors we do not know how to count{_near(model_type)}"
    raise UnsupportedArchitecture(source=config.source, field="model_type", why=why)


def _shaped(read: Callable[[Fields], DecoderShape]) -> Reader:
    return lambda config: decoder_spec(config, read(config))


def _near(model_type: str) -> str:
    import difflib  # noqa: PLC0415 - only on the way to an error

    known = known_model_types()
    near = difflib.get_close_matches(model_type, known, n=3, cutoff=0.6)
    if near:
        return f"; near ones that we do know: {', '.join(near)}"
    return f"; {len(known)} are known, such as llama, qwen2, mixtral and bert: give a config of one, or the number of parameters alone"
