"""Bits per number of a requested precision, tensor group by tensor group."""

from __future__ import annotations

from planner.models.errors import ModelError
from planner.models.gguf import GGUF_FORMATS, gguf_bits
from planner.models.spec import ModelSpec, TensorGroup

_PLAIN = {"fp32": 32.0, "tf32": 32.0, "fp16": 16.0, "bf16": 16.0}
_CONVERTED = {
    "fp8": 8.0,
    "int8": 8.0,  # scales per output channel are below 0.1 %
    "int4": 4.0 + 16.0 / 128,  # one fp16 scale per 128 numbers
    "fp4": 4.0 + 8.0 / 16,  # NVFP4: one fp8 scale per 16 numbers
    "nvfp4": 4.0 + 8.0 / 16,
    "mxfp4": 4.0 + 8.0 / 32,
    "nf4": 4.0 + 8.0 / 64 + 32.0 / (64 * 256),  # double quantisation, QLoRA (arXiv:2305.14314)
}
_KV_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


def known_precisions() -> tuple[str, ...]:
    """Return every precision that weights can be asked in."""
    return (*_PLAIN, *_CONVERTED, *GGUF_FORMATS)


def group_bits(spec: ModelSpec, tensor: TensorGroup, precision: str) -> float:
    """Return stored bits per number of one tensor group when the model is held in `precision`."""
    word = precision.lower()
    if word in _PLAIN:
        return _PLAIN[word]
    if word in _CONVERTED:
        return _CONVERTED[word] if tensor.quantisable else 16.0
    if word in GGUF_FORMATS:
        return gguf_bits(spec, tensor, word)
    raise ModelError(f"precision: {precision!r} is not known; it should be one of {', '.join(known_precisions())}")


def native_bits(spec: ModelSpec) -> float:
    """Return the bits of the dtype the checkpoint is published in."""
    return _PLAIN[spec.native_dtype]


def kv_bytes_per_element(kv_precision: str) -> int:
    """Return bytes of one cached number."""
    if kv_precision.lower() not in _KV_BYTES:
        raise ModelError(f"kv_precision: {kv_precision!r} is not known; it should be one of {', '.join(_KV_BYTES)}")
    return _KV_BYTES[kv_precision.lower()]
