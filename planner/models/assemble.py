"""The last step of every family: tensors, layers and the common fields of a config become one checked `ModelSpec`."""

from __future__ import annotations

from collections.abc import Sequence

from planner.models.fields import Fields
from planner.models.quantization import read_quantization, stored_tensors
from planner.models.spec import (
    AttentionLayers,
    FeedForwardLayers,
    ModelKind,
    ModelSpec,
    SampleWork,
    StateLayers,
    TensorClass,
    TensorGroup,
)
from planner.models.tally import Tally

_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp32", "float8_e4m3fn": "bf16"}


def assemble(
    config: Fields,
    tally: Tally,
    *,
    kind: ModelKind,
    hidden_size: int,
    layers: int,
    vocab_size: int,
    max_context: int | None,
    attention: Sequence[AttentionLayers] = (),
    feed_forward: Sequence[FeedForwardLayers] = (),
    state: Sequence[StateLayers] = (),
    encoder_positions: int | None = None,
    sample: SampleWork | None = None,
    default_dtype: str = "bf16",
    name: str | None = None,
) -> ModelSpec:
    """Return the spec; parameter totals are sums over the tally."""
    quantization = read_quantization(config)
    tensors = stored_tensors(config, tally.groups(), quantization)
    return ModelSpec(
        name=name or _name_of(config),
        kind=kind,
        architecture=architecture_of(config),
        model_type=config.text("model_type", default=architecture_of(config)),
        native_dtype=native_dtype(config, default_dtype),
        hidden_size=hidden_size,
        layers=layers,
        vocab_size=vocab_size,
        max_context=max_context,
        tensors=tensors,
        attention=tuple(attention),
        feed_forward=tuple(feed_forward),
        state=tuple(state),
        quantization=quantization,
        parameters_total=tally.total(),
        parameters_active=active_parameters(tensors, feed_forward),
        encoder_positions=encoder_positions,
        sample=sample,
        source=config.source,
        assumptions=tuple(config.assumed),
    )


def _name_of(config: Fields) -> str:
    given = config.text("_name_or_path", default="")
    return given.rstrip("/").rsplit("/", 1)[-1] or config.text("model_type", default="model")


def architecture_of(config: Fields) -> str:
    """Return the class name in `architectures`, or what the config calls itself otherwise."""
    names = config.strings("architectures")
    return names[0] if names else config.text("_class_name", "model_type", default="unknown")


def native_dtype(config: Fields, default: str) -> str:
    """Return the dtype the checkpoint is published in: bf16, fp16 or fp32."""
    for holder in (config, *(config.nested(n) for n in ("text_config", "thinker_config") if config.has(n))):
        if holder.has("torch_dtype") or holder.has("dtype"):
            word = holder.text("torch_dtype", "dtype").removeprefix("torch.")
            if word not in _DTYPES:
                raise holder.error("torch_dtype", f"is {word!r}; it should be one of {', '.join(_DTYPES)}")
            if word.startswith("float8") and not config.has("quantization_config"):
                raise holder.error(
                    "torch_dtype", f"is {word!r} without a quantization_config that says how it is scaled"
                )
            return _DTYPES[word]
    config.assumed.append(f"torch_dtype = {default} (left out of the config)")
    return default


def active_parameters(tensors: Sequence[TensorGroup], feed_forward: Sequence[FeedForwardLayers]) -> int:
    """Return the parameters that one token passes through, input embedding included: of routed experts the chosen share."""
    routed = [f for f in feed_forward if f.experts]
    experts = routed[0].experts if routed else 1
    chosen = routed[0].experts_per_token if routed else 1
    return sum(
        t.parameters * chosen // experts if t.tensor_class is TensorClass.EXPERT else t.parameters for t in tensors
    )
