"""What the answer would pass over: an option that the mode, the model or the purchase options have no use for is refused, not ignored."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from planner.models.errors import ModelError
from planner.models.sample_work import with_input
from planner.models.spec import ModelKind, ModelSpec
from planner.perf.training_input import formats_of
from planner.recommend.errors import BadRequest
from planner.recommend.request import EstimateRequest, RecommendRequest

Request = RecommendRequest | EstimateRequest

SERVING = ("engine", "allow_precision", "kv_precision", "max_ttft_ms", "max_tpot_ms", "max_e2e_ms")
"""Serving options outside the group `inference`."""
TRAINING = ("deadline_hours",)
"""Training options outside the group `training`."""
TOKENS = (
    "input_tokens", "output_tokens", "kv_precision", "max_ttft_ms", "max_tpot_ms", "pipeline_parallel", "expert_parallel",
    "speculative_tokens", "acceptance_rate",
)  # fmt: skip
"""What only models that generate tokens have."""
SAMPLES = ("max_batch", "max_queue_delay_ms")
"""What only models priced per sample have."""
SPLITS = ("tensor_parallel", "pipeline_parallel", "expert_parallel")
PURCHASES = {
    "plan_type": ("savings_plan",),
    "payment_option": ("savings_plan", "reserved"),
    "offering_class": ("reserved",),
}
"""The purchase options that have each kind of terms."""
LEAST = {"requests_per_s": 1e-9, "utilisation": 1e-6, "epochs": 1e-9}
"""Less than this is a slip, and the cost of a million inferences would be no number."""


def check_use(request: Request, spec: ModelSpec) -> None:
    """Raise `BadRequest` for the first option that would change nothing, or that asks for next to nothing. An option at its default is not one."""
    for name, why, expected in objections(request, spec):
        raise BadRequest(field=name, value=getattr(request, name), why=why, expected=expected)


def objections(request: Request, spec: ModelSpec) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each option that does not apply, why, and what would be right."""
    given = {f.name: f for f in dataclasses.fields(request) if getattr(request, f.name) != f.default}
    training = request.mode == "training"
    for name, f in given.items():
        group = f.metadata["option"].group
        if training and (group == "inference" or name in SERVING):
            yield name, "applies to inference alone", ""
        if training and name == "sort" and getattr(request, "sort", None) == "latency":
            yield name, "applies to inference alone", "sort by time for the fastest run"
        if not training and (group == "training" or name in TRAINING):
            yield name, "applies to training alone", "give mode as well: training" if name == "dataset_tokens" else ""
        if name == "engine" and not training and not spec.generates_tokens and request.engine != "pytorch":
            yield (
                name,
                f"serves models that generate tokens; {spec.name} runs in its chip's own runtime",
                "or give pytorch",
            )
        if not training and not spec.generates_tokens and name in TOKENS:
            size = "" if name.startswith("max_") else "give input_size for another size"
            yield name, f"applies to models that generate tokens; {instead(name, spec)}", size
        if not training and spec.generates_tokens and name in SAMPLES:
            yield (
                name,
                f"applies to models priced per sample; requests of {spec.name} join a running batch at any step",
                "give max_concurrency for the requests in flight",
            )
        if name in PURCHASES and not any(p.startswith(PURCHASES[name]) for p in purchases(request)):
            kinds = " and ".join(kind.replace("_", " ") for kind in PURCHASES[name])
            yield name, f"applies to {kinds} prices alone", f"ask for purchase {PURCHASES[name][0]}_1yr, for example"
        if name in LEAST and getattr(request, name) < LEAST[name]:
            yield name, f"must be at least {LEAST[name]:g}", ""
    if training and "lora_rank" in given and request.method == "full":
        yield "lora_rank", "applies to the methods lora and qlora alone", ""
    if training:
        yield from training_objections(request, spec, given)


def training_objections(request: Request, spec: ModelSpec, given: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the options of a training job that would change nothing for this model."""
    counted = spec.generates_tokens or spec.kind is ModelKind.ENCODER
    possible = formats_of(spec)
    for name in (*SPLITS, "attention_backend", "chunked_loss"):
        if name in given and not counted:
            yield name, f"applies to models that train on sequences; {spec.name} trains on samples", ""
    if "expert_parallel" in given and not spec.experts:
        yield "expert_parallel", f"applies to models with routed experts; {spec.name} has none", ""
    if request.data_format is not None and request.data_format not in possible:
        yield "data_format", f"does not fit {spec.name}", "possible: " + ", ".join(possible)


def with_sample_size(request: Request, spec: ModelSpec) -> ModelSpec:
    """Return the spec with one sample of the size that is asked for; raises `BadRequest` where that cannot be."""
    if request.input_size is None and request.steps is None:
        return spec
    field = "input_size" if request.input_size is not None else "steps"
    if spec.sample is None or spec.generates_tokens:
        raise BadRequest(
            field=field,
            value=getattr(request, field),
            why=f"applies to models priced per sample; {spec.name} is priced by tokens",
            expected="give input_tokens and output_tokens",
        )
    if request.steps is not None and spec.kind is not ModelKind.DIFFUSION:
        raise BadRequest(
            field="steps", value=request.steps, why=f"applies to diffusion models; {spec.name} takes one pass"
        )
    if request.mode == "training" and spec.kind is ModelKind.ENCODER:
        raise BadRequest(
            field="input_size",
            value=request.input_size,
            why="applies to inference of encoders",
            expected="give sequence_length",
        )
    try:
        return with_input(spec, size=request.input_size, steps=request.steps)
    except ModelError as e:
        raise BadRequest(field=field, value=getattr(request, field), why=str(e).removeprefix(f"{spec.name}: ")) from e


def purchases(request: Request) -> tuple[str, ...]:
    """Return the purchase options that are asked for."""
    asked: Any = request.purchase
    return (asked,) if isinstance(asked, str) else tuple(asked)


def instead(name: str, spec: ModelSpec) -> str:
    """Return what counts where a model does not generate tokens."""
    if name.startswith("max_"):
        return f"{spec.name} has whole-sample latency: use max_e2e_ms"
    return f"one inference of {spec.name} is {spec.sample.description if spec.sample is not None else 'one sample'}"
