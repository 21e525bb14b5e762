"""What one training sample asks of a device, read off a `ModelSpec`: the arguments of `training_step.step_seconds`.

Counted per sample, forward: FLOPs of matrices by class (blocks, routed experts, head and router), FLOPs of scores over the mean span of
each kind of attention, and the numbers that every layer writes. Backward passes and recomputation are multiples of the forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from planner.models.spec import ModelKind, ModelSpec, TensorClass
from planner.perf.model import TrainingWork
from planner.perf.training_step import StepWork
from planner.perf.training_work import (
    PARAMETER_EFFICIENT,
    adapter_parameters,
    attention_span,
    counted_in_tokens,
    dense_share,
    dequantised_bytes,
    one_pass,
    routed_elements,
)

LOGIT_BYTES = 24.0
"""Bytes moved per vocabulary entry and token, forward and backward: logits in 16 bits, their fp32 copy, its gradient and the 16-bit
gradient, each written and read (12 bytes kept, as in Korthikanti et al. 2022)."""
RECORD_FLOPS = 1e8
"""Items of less work are records of a table, which are read by the million; larger ones are images and clips that a host decodes."""
SCORE_COPIES = 3.0
"""Matrices of tokens x tokens that attention without a fused kernel writes: scores, their softmax, and what dropout leaves of it."""
STATE_BYTES = {"adamw": 12.0, "adamw_8bit": 6.0, "sgd": 8.0, "adafactor": 4.0}
"""Optimizer state per trained parameter that a 16-bit job reads and writes each step: fp32 master copy, moments."""


def step_work(spec: ModelSpec, work: TrainingWork, precision: str) -> StepWork:
    """Return the work of one sample of a model; fields are floats.

    Encoder-decoder models: half of a sequence's tokens pass the encoder, half the decoder. Models not counted in tokens: the FLOPs and
    activation elements of one pass over one sample, all in blocks.
    """
    value_bytes = 4.0 if precision in {"fp32", "tf32"} else 2.0
    frozen = work.method in PARAMETER_EFFICIENT
    trained = float(adapter_parameters(spec, work.lora_rank)) if frozen else float(spec.parameters_total)
    master = 4.0 if value_bytes == 4.0 else 0.0  # in fp32 the weights are their own master copy
    state = STATE_BYTES.get(work.optimizer, STATE_BYTES["adamw"]) - master
    counted = counted_in_tokens(spec)
    tokens = float(work.sequence_length) if counted else 1.0
    narrow, experts, wide, scores, elements = _token_work(spec, work) if counted else _sample_work(spec)
    hidden = float(spec.hidden_size)
    converted = _converted_elements(spec, work) if precision in NARROW and counted else 0.0
    kv = [a.kv_heads * (a.head_dim + a.value_head_dim) for a in spec.attention if a.tower != "vision"]
    return StepWork(
        tokens=tokens,
        narrow_flops=narrow,
        expert_flops=experts,
        wide_flops=wide,
        attention_flops=scores,
        backward=1.0 if frozen else 2.0,
        activation_bytes=2 * value_bytes * elements + CONVERSION_BYTES * converted,
        head_bytes=LOGIT_BYTES * value_bytes / 2 * tokens * spec.vocab_size
        if counted and spec.generates_tokens
        else 0.0,
        width=hidden,
        kv_width=float(np.mean(kv)) if kv else 0.0,
        matrix_width=_matrix_width(spec) if counted else np.inf,
        expert_width=float(max((f.intermediate_size for f in spec.feed_forward if f.experts), default=1)),
        blocks=float(max(1, spec.layers)),
        experts_per_token=float(max((f.experts_per_token for f in spec.feed_forward if f.experts), default=0)),
        routed_width=routed_elements(spec) / 2 if counted else 0.0,
        weight_bytes=value_bytes * float(spec.parameters_total),
        gradient_bytes=value_bytes * trained,
        expert_share=1 - dense_share(spec),
        optimizer_bytes=(2 * state + 2 * master + 2 * value_bytes) * trained,
        dequantised_bytes=float(dequantised_bytes(spec)) if work.method == "qlora" else 0.0,
        value_bytes=value_bytes,
        fed_items=float(spec.kind is ModelKind.VISION and narrow > RECORD_FLOPS),
    )


NARROW = {"fp8", "int8", "fp4"}
CONVERSION_BYTES = 3.0
"""Bytes moved to make a narrow copy of a 16-bit number: read two, write one (fp4 less, its finer scales more)."""


def _converted_elements(spec: ModelSpec, work: TrainingWork) -> float:
    """Return the numbers of one sequence that are turned into the narrow format in one pass: the inputs of every matrix."""
    h = spec.hidden_size
    elements = sum(a.count * (h + a.heads * a.value_head_dim) for a in spec.attention if a.tower != "vision")
    for f in spec.feed_forward:
        if f.tower != "vision":
            inner = f.intermediate_size * max(1, f.experts_per_token) + f.shared_intermediate_size
            elements += f.count * (h * max(1, f.experts_per_token) + inner)
    return float(elements * work.sequence_length)


def stacked(works: Sequence[StepWork]) -> StepWork:
    """Return many samples' work as one, every field an array [works]."""
    return StepWork(
        **{f.name: np.array([getattr(w, f.name) for w in works], dtype=np.float64) for f in fields(StepWork)}
    )


def _token_work(spec: ModelSpec, work: TrainingWork) -> tuple[float, float, float, float, float]:
    """Return FLOPs of blocks, routed experts, head and router, scores, and elements written, of one sequence."""
    s = work.sequence_length
    narrow = experts = wide = 0.0
    share = next((f.experts_per_token / f.experts for f in spec.feed_forward if f.experts), 1.0)
    for group in spec.tensors:
        if group.tower == "vision":
            continue
        flops = 2.0 * group.matmul_parameters * s
        if group.tensor_class is TensorClass.EXPERT:
            experts += share * flops
        elif group.tensor_class in {TensorClass.HEAD, TensorClass.ROUTER}:
            wide += flops
        else:
            narrow += flops
    h = spec.hidden_size
    scores = elements = 0.0
    for a in spec.attention:
        if a.tower == "vision":
            continue
        scores += a.count * s * 2.0 * (a.head_dim + a.value_head_dim) * a.heads * attention_span(a, s)
        elements += a.count * s * (3 * h + (a.heads + a.kv_heads) * (a.head_dim + a.value_head_dim))
        if work.attention_backend == "math":
            elements += a.count * SCORE_COPIES * a.heads * s * s
    for f in spec.feed_forward:
        if f.tower == "vision":
            continue
        inner = f.intermediate_size * max(1, f.experts_per_token) + f.shared_intermediate_size
        sorted_copies = 4 * h * f.experts_per_token if f.experts else 0
        elements += f.count * s * (3 * h + (3 if f.gated else 2) * inner + sorted_copies)
    for m in spec.state:
        elements += m.count * s * 12 * h
    stacks = 2 if spec.kind is ModelKind.ENCODER_DECODER else 1
    return narrow / stacks, experts / stacks, wide / stacks, scores / stacks, elements / stacks


def _sample_work(spec: ModelSpec) -> tuple[float, float, float, float, float]:
    passed = one_pass(spec)
    return passed.flops, 0.0, 0.0, 0.0, passed.activation_elements


def _matrix_width(spec: ModelSpec) -> float:
    """Return the geometric mean of the sides of the matrices that every token meets; without any, the width between blocks."""
    inner = [
        f.shared_intermediate_size if f.experts else f.intermediate_size
        for f in spec.feed_forward
        if f.tower != "vision"
    ]
    inner = [i for i in inner if i]
    return float((spec.hidden_size * max(inner)) ** 0.5) if inner else float(spec.hidden_size)
