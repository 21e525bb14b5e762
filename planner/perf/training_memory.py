"""Memory of one accelerator while training, as lines in bytes.

References: Rajbhandari et al. 2020 (ZeRO: what each stage shards); Korthikanti et al. 2022 (activations per layer and full
recomputation); Dao et al. 2022 (flash attention keeps no s x s matrix); Dettmers et al. 2022 and 2023 (8-bit Adam, QLoRA).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec, TensorClass
from planner.perf.memory import ENGINE_SHARE, GIB
from planner.perf.model import MemoryFit, MemoryLine, TrainingWork
from planner.perf.training_work import (
    PARAMETER_EFFICIENT,
    adapter_parameters,
    counted_in_tokens,
    dense_share,
    largest_layer_parameters,
    nf4_weight_bytes,
    one_pass,
)

Array = npt.NDArray[np.float64]

OPTIMIZERS = ("adamw", "adamw_8bit")
SHARDING = ("ddp", "zero1", "zero2", "zero3")
KEPT_BY_CONVOLUTIONS = 2.3
"""Kept over written activations: a convolution's output and its normalised copy, and what skips around. From batches that others
chose to fill the card with ResNet-50 in fp16 (lambdal/deeplearning-benchmark): 720 images in 40 GB, 1,280 in 80 GB."""
KEPT_BY_TRANSFORMERS = 4 / 3
"""The inner activation's output comes on top of the written matrices: 16 h against 12 h a token and block."""
SELECTIVE_SHARE = 0.5
"""Share of a block's activations kept when every second matrix product is recomputed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Bytes of the whole model's training state, before sharding, and the adapter or model that is trained."""

    weights: float
    gradients: float
    optimizer: float
    working: float  # a layer dequantised to 16-bit (QLoRA)
    gathered: float  # two layers that ZeRO-3 holds whole at once, without routed experts
    gathered_experts: float  # routed experts of two layers; the devices of an instance share them
    trainable: float  # parameters

    @property
    def total(self) -> float:
        """Weights, gradients and optimizer states."""
        return self.weights + self.gradients + self.optimizer


def optimizer_bytes_per_parameter(optimizer: str, precision: str, *, master_weights: bool = True) -> float:
    """Return bytes per trained parameter of optimizer state.

    AdamW in 16-bit mixed precision: fp32 master copy 4 + two fp32 moments 8 = 12. 8-bit Adam: 4 + 2. In fp32 the weights are
    their own master copy. Without master weights ("pure bf16") the moments take the weights' format.
    """
    wide = precision in {"fp32", "tf32"}
    moments = 2.0 if optimizer == "adamw_8bit" else 8.0 if master_weights or wide else 4.0
    return moments + (4.0 if master_weights and not wide else 0.0)


def state_bytes(spec: ModelSpec, work: TrainingWork, precision: str, *, master_weights: bool = True) -> StateBytes:
    """Return the training state of the whole model: 16 bytes per parameter for AdamW, full fine-tuning, 16-bit."""
    width = 4.0 if precision in {"fp32", "tf32"} else 2.0
    per_parameter = optimizer_bytes_per_parameter(work.optimizer, precision, master_weights=master_weights)
    n = float(spec.parameters_total)
    layer = width * largest_layer_parameters(spec)
    experts = 2 * width * (1 - dense_share(spec)) * n / max(1, spec.layers)
    if work.method not in PARAMETER_EFFICIENT:
        return StateBytes(
            weights=width * n,
            gradients=width * n,
            optimizer=per_parameter * n,
            working=0.0,
            gathered=2 * layer,
            gathered_experts=experts,
            trainable=n,
        )
    adapters = float(adapter_parameters(spec, work.lora_rank))
    base = nf4_weight_bytes(spec) if work.method == "qlora" else width * n
    return StateBytes(
        weights=base + width * adapters,
        gradients=width * adapters,
        optimizer=per_parameter * adapters,
        working=layer if work.method == "qlora" else 0.0,
        gathered=2 * layer,
        gathered_experts=experts,
        trainable=adapters,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationBytes:
    """Bytes that one sample keeps for the backward pass, on one accelerator."""

    none: float  # no checkpointing
    full: float  # only the input of every block
    recomputed_block: float  # the block in work while checkpointing
    logits: float
    written: float = 0.0  # what one forward pass writes (models not counted in tokens)


def activation_bytes(spec: ModelSpec, work: TrainingWork, precision: str) -> ActivationBytes:
    """Return the activations of one sample with flash attention.

    Elements per token and block: 4 h (two norms and their outputs) + q, k, v and the attention output + the feed-forward
    inner tensors (gated: gate, up, activated, product = 4 I; plain: 2 I; experts: those a token uses). With h-wide plain
    blocks and I = 4 h that is 16 h elements = 32 h bytes, against 34 h in Korthikanti et al. (2 h of dropout masks).
    Logits: 16-bit, their fp32 copy, its gradient and the 16-bit gradient = 12 bytes per vocabulary entry and token.
    """
    width = 4.0 if precision in {"fp32", "tf32"} else 2.0
    if not counted_in_tokens(spec):
        convolutional = any(g.tensor_class is TensorClass.CONVOLUTION for g in spec.tensors)
        written = width * one_pass(spec).activation_elements
        kept = written * (KEPT_BY_CONVOLUTIONS if convolutional else KEPT_BY_TRANSFORMERS)
        blocks = max(1, spec.layers)
        return ActivationBytes(
            none=kept, full=kept / blocks**0.5, recomputed_block=kept / blocks, logits=0.0, written=written
        )
    s = work.sequence_length
    h = spec.hidden_size
    elements = 0.0
    for a in spec.attention:
        if a.tower != "vision":
            elements += a.count * (
                2 * h + a.heads * (a.head_dim + a.value_head_dim) + a.kv_heads * (a.head_dim + a.value_head_dim)
            )
    for f in spec.feed_forward:
        if f.tower != "vision":
            inner = f.intermediate_size * max(1, f.experts_per_token) + f.shared_intermediate_size
            elements += f.count * (2 * h + (4 if f.gated else 2) * inner)
    for m in spec.state:
        elements += m.count * 8 * h
    blocks = max(1, spec.layers)
    kept = width * s * elements
    return ActivationBytes(
        none=kept,
        full=width * s * h * blocks,
        recomputed_block=kept / blocks,
        logits=(12.0 if width == 2.0 else 8.0) * s * spec.vocab_size if spec.generates_tokens else 0.0,
    )


def runtime_reserve_gib(visible_gib: float) -> float:
    """Return what context, libraries, communication buffers and fragmentation take: 0.75 GiB + 2 % of the memory."""
    return 0.75 + 0.02 * visible_gib


def shares(sharding: str, ranks: Array) -> tuple[Array, Array, Array]:
    """Return the share of weights, gradients and optimizer states on one of `ranks` ranks."""
    stage = SHARDING.index(sharding)
    whole, part = np.ones_like(ranks), 1 / ranks
    return (part if stage >= 3 else whole, part if stage >= 2 else whole, part if stage >= 1 else whole)


def training_memory(
    spec: ModelSpec,
    work: TrainingWork,
    *,
    precision: str,
    sharding: str,
    ranks: int,
    micro_batch: int,
    checkpointing: str,
    visible_gib: float,
    master_weights: bool = True,
) -> MemoryFit:
    """Return the memory of one accelerator as lines, against 0.9 of what a process can see."""
    state = state_bytes(spec, work, precision, master_weights=master_weights)
    return memory_fit(
        state,
        activation_bytes(spec, work, precision),
        sharding=sharding,
        ranks=ranks,
        micro_batch=micro_batch,
        checkpointing=checkpointing,
        visible_gib=visible_gib,
    )


def memory_fit(
    state: StateBytes,
    kept: ActivationBytes,
    *,
    sharding: str,
    ranks: int,
    micro_batch: int,
    checkpointing: str,
    visible_gib: float,
    devices: int | None = None,
) -> MemoryFit:
    """Return the lines of one accelerator from the state of the whole model and the activations of one sample.

    `devices` of one instance share the experts that ZeRO-3 gathers (None: all ranks do).
    """
    stage, part = SHARDING.index(sharding), 1 / ranks
    lines = [
        MemoryLine(name="weights", gib=state.weights * (part if stage >= 3 else 1) / GIB),
        MemoryLine(name="gradients", gib=state.gradients * (part if stage >= 2 else 1) / GIB),
        MemoryLine(name="optimizer_states", gib=state.optimizer * (part if stage >= 1 else 1) / GIB),
        MemoryLine(
            name="activations",
            gib=micro_batch * activations_kept(kept, checkpointing) / GIB,
            note=f"checkpointing {checkpointing}",
        ),
    ]
    if kept.logits:
        lines.append(
            MemoryLine(name="logits", gib=micro_batch * kept.logits / GIB, note="16-bit and fp32 copies with gradients")
        )
    gathered = state.gathered + state.gathered_experts / (devices or ranks)
    working = max(state.working, gathered if stage >= 3 and ranks > 1 else 0.0)
    if working:
        lines.append(
            MemoryLine(name="working_weights", gib=working / GIB, note="layers gathered or dequantised at once")
        )
    lines.append(MemoryLine(name="runtime_reserve", gib=runtime_reserve_gib(visible_gib)))
    return MemoryFit(lines=tuple(lines), available_gib_per_accelerator=visible_gib * ENGINE_SHARE)


def activations_kept(kept: ActivationBytes, checkpointing: str) -> float:
    """Return the activation bytes of one sample under a checkpointing mode: none, selective or full."""
    if checkpointing == "full":
        return kept.full + kept.recomputed_block
    return kept.none * (SELECTIVE_SHARE if checkpointing == "selective" else 1.0)
