"""Arithmetic intensity of a training step by operator class, and which side of the roofline each class is on.

Intensity = FLOPs / bytes of device memory, of one micro-batch on one device, forward, backward and recomputed. A class is bound by memory
when its intensity is below the ridge: reachable FLOP/s over reachable bytes/s. Reference: Williams, Waterman, Patterson 2009 (roofline).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.models.spec import ModelSpec, TensorClass
from planner.perf.model import Term, TrainingWork
from planner.perf.training_activations import RECOMPUTED
from planner.perf.training_step import StepWork
from planner.perf.training_surface import Chosen
from planner.perf.training_work import counted_in_tokens

CLASSES = {
    "attention": (TensorClass.ATTENTION, TensorClass.STATE_SPACE),
    "mlp": (TensorClass.MLP, TensorClass.EXPERT, TensorClass.SHARED_EXPERT, TensorClass.ROUTER),
    "head": (TensorClass.HEAD,),
    "convolution": (TensorClass.CONVOLUTION,),
}
ADAM_FLOPS = 12.0
"""Operations of one AdamW update of a parameter: two moments, their corrections, root, quotient, decay."""
ELEMENTWISE_FLOPS = 5.0
"""Operations on a number that a norm, activation or residual addition writes (mean, variance, scale and shift)."""
WIDTHS_OF_NORMS = 4.0
"""Rows of h that the norms and residual additions of a block write: two norms, two sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """FLOPs and bytes of one class, one micro-batch of one device, all passes."""

    name: str
    flops: float
    moved_bytes: float

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / self.moved_bytes


def operators_of(
    spec: ModelSpec,
    work: TrainingWork,
    task: StepWork,
    *,
    micro_batch: float,
    split: float,
    level: int,
    owned_share: float,
) -> Iterator[Operators]:
    """Yield the classes that the model has. `split`: devices that share a sample; `owned_share`: of the optimizer's states on one."""
    again, scores_again = RECOMPUTED[work.attention_backend == "math"][level]
    backward = float(task.backward)
    tokens = micro_batch * float(task.tokens)
    width = float(task.value_bytes)
    passes = 1 + backward + again
    for name, classes in CLASSES.items():
        groups = [g for g in spec.tensors if g.tensor_class in classes and g.tower != "vision"]
        if not groups:
            continue
        flops = sum(flops_of(spec, g.tensor_class, g.matmul_parameters) for g in groups) * tokens * passes
        weights = sum(g.parameters or g.matmul_parameters for g in groups) * width
        rows = numbers_of(spec, name, task)
        if not counted_in_tokens(spec):
            flops = float(task.narrow_flops) * micro_batch * passes
        elif name == "attention":
            flops += float(task.attention_flops) * micro_batch * (3 + scores_again)
        moved = weights * (2 + again) + 2 * tokens * rows * width * (3 + again)
        yield Operators(name=name, flops=flops / split, moved_bytes=moved / split)
    if counted_in_tokens(spec):
        numbers = tokens * WIDTHS_OF_NORMS * spec.hidden_size * max(1, spec.layers)
        yield Operators(
            name="norms_and_elementwise",
            flops=ELEMENTWISE_FLOPS * numbers * passes / split,
            moved_bytes=2 * numbers * width * (3 + again) / split,
        )
    trained = float(task.gradient_bytes) / width
    yield Operators(
        name="optimizer",
        flops=ADAM_FLOPS * trained * owned_share,
        moved_bytes=float(task.optimizer_bytes) * owned_share,
    )


def flops_of(spec: ModelSpec, tensor_class: TensorClass, matmul_parameters: int) -> float:
    """Return the FLOPs of one token through some matrices, forward; routed experts by the share in use."""
    if tensor_class is TensorClass.EXPERT:
        used = next((f.experts_per_token / f.experts for f in spec.feed_forward if f.experts), 1.0)
        return 2.0 * matmul_parameters * used
    return 2.0 * matmul_parameters


def numbers_of(spec: ModelSpec, name: str, task: StepWork) -> float:
    """Return the numbers of one token that a class reads and writes in one pass beside its weights."""
    h = float(spec.hidden_size)
    if name == "attention":
        return sum(
            a.count * (2 * h + 2 * (a.heads + a.kv_heads) * (a.head_dim + a.value_head_dim) / 2)
            for a in spec.attention
            if a.tower != "vision"
        )
    if name == "mlp":
        return sum(
            f.count
            * (
                2 * h
                + (3 if f.gated else 2)
                * (f.intermediate_size * max(1, f.experts_per_token) + f.shared_intermediate_size)
            )
            for f in spec.feed_forward
            if f.tower != "vision"
        )
    if name == "head":
        return h + float(spec.vocab_size)
    return float(task.activation_bytes) / (2 * float(task.value_bytes))


def operator_terms(spec: ModelSpec, work: TrainingWork, *, chosen: Chosen, at: int) -> Iterator[Term]:
    """Yield one term per class: its intensity, and the bound with the figures behind it."""
    x = chosen.layouts
    split = float(x.tensor[at] * x.pipeline[at])
    owned = 1 / split / (float(x.data[at]) if x.stage[at] >= 1 else 1.0)
    share = reached(chosen, "matmul_share", at)
    peak, narrow = reached(chosen, "wide_peak_flops", at) * share, reached(chosen, "peak_flops", at) * share
    bandwidth = reached(chosen, "bandwidth", at) * reached(chosen, "traffic_share", at)
    for each in operators_of(
        spec,
        work,
        chosen.task,
        micro_batch=float(x.micro_batch[at]),
        split=split,
        level=int(x.checkpointing[at]),
        owned_share=owned,
    ):
        ridge = (narrow if each.name in {"mlp", "convolution"} else peak) / bandwidth
        bound = "compute" if each.intensity >= ridge else "memory"
        yield Term(
            name=f"intensity_{each.name}",
            value=each.intensity,
            unit="FLOP/byte",
            formula=f"{each.flops:.4g} FLOPs / {each.moved_bytes:.4g} bytes; bound by {bound} (ridge {ridge:.4g} = "
            f"{peak if each.name not in {'mlp', 'convolution'} else narrow:.4g} FLOP/s / {bandwidth:.4g} bytes/s reachable)",
            source="roofline",
        )


def reached(chosen: Chosen, name: str, at: int) -> float:
    """Return one figure of the machine at a place."""
    return float(np.asarray(getattr(chosen.machine, name))[at])
