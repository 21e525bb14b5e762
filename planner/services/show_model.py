"""`show_model` and `list_models`: sizes of a model, and the models that are known by name."""

from __future__ import annotations

from planner.models.counting import kv_bytes_per_token, weight_bytes
from planner.models.spec import ModelSpec
from planner.perf.precision import stored_format
from planner.ports import Document
from planner.services.find_model import registry, shipped_model


def show_model(spec: ModelSpec) -> Document:
    """Return the document of `planner models show`: parameters, KV bytes per token, weight bytes by precision, context limit, source.

    KV bytes per token are 0 for models without a cache. int4 is group 128 with fp16 scales, embeddings and head in 16 bits.
    `checkpoint`: the format in which it is published, and its bytes, tensor by tensor.
    """
    published = spec.native_dtype if spec.quantization is None else stored_format(spec.quantization)
    return {
        "name": spec.name,
        "architecture": spec.architecture,
        "parameters_total": spec.parameters_total,
        "parameters_active": spec.parameters_active,
        "kv_bytes_per_token": {p: kv_bytes_per_token(spec, p) for p in ("fp16", "fp8")},
        "weight_bytes": {p: weight_bytes(spec, p) for p in ("bf16", "fp8", "int4")},
        "checkpoint": {"precision": published, "weight_bytes": weight_bytes(spec)},
        "max_context": spec.max_context,
        "source": spec.source,
    }


def list_models() -> Document:
    """Return the document of `planner models list`: every shipped model with its aliases, kind, parameters and source."""
    return {"models": [_line(shipped_model(entry)) for entry in registry().entries]}


def _line(spec: ModelSpec) -> Document:
    return {
        "name": spec.name,
        "aliases": list(spec.aliases),
        "kind": spec.kind.value,
        "architecture": spec.architecture,
        "parameters_total": spec.parameters_total,
        "parameters_active": spec.parameters_active,
        "max_context": spec.max_context,
        "source": spec.source,
    }
