"""Memory of one accelerator while training: the state of the model, what a layout leaves of it on one device, and the peak.

    peak = (state + f_a * kept + max(f_l * loss, f_a * block + working weights)) * (1 + fragmentation) + reserve

Logits come and go before the first block of the backward pass is recomputed, gathered or widened, so the larger of both counts.

f_a, f_l, fragmentation and reserve are fitted on published peaks (`MEMORY_SLOTS`, `planner.calibration.training`); everything else is
counted. References: Rajbhandari et al. 2020 (ZeRO: what each stage shards); Dettmers et al. 2022 and 2023 (8-bit Adam, QLoRA); Shazeer
& Stern 2018 (Adafactor); Narayanan et al. 2021 (pipeline stages).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec, TensorClass
from planner.perf.memory import ENGINE_SHARE, GIB
from planner.perf.model import MemoryFit, MemoryLine, TrainingWork
from planner.perf.parameters import Link, Parameters, Slot
from planner.perf.training_activations import CHECKPOINTING, activations_of, kept_by
from planner.perf.training_checkpoints import MOMENT_BYTES
from planner.perf.training_work import (
    PARAMETER_EFFICIENT,
    adapter_parameters,
    dense_share,
    largest_layer_parameters,
    nf4_weight_bytes,
)

Array = npt.NDArray[np.float64]

OPTIMIZERS = ("adamw", "adamw_8bit", "sgd", "adafactor")
SHARDING = ("ddp", "zero1", "zero2", "zero3")

MEMORY_SLOTS = (
    Slot(
        name="activation_memory",
        unit="x counted activations",
        link=Link.LOG,
        start=1.1,
        start_sd=0.5,
        levels={"method": 0.2, "memory_stack": 0.2},
    ),
    Slot(
        name="loss_memory",
        unit="x counted logits",
        link=Link.LOG,
        start=1.0,
        start_sd=0.5,
        levels={"framework": 0.2},
    ),
    Slot(name="fragmentation", unit="fraction of what is held", link=Link.LOG, start=0.03, start_sd=0.7),
    Slot(name="reserve_memory", unit="GiB", link=Link.LOG, start=1.5, start_sd=0.3, levels={"framework": 0.4}),
)
"""What is fitted of memory: temporaries and copies of the framework, the loss, the allocator, context with libraries and buffers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How a framework keeps the training state, where it is known; the defaults are those of today's frameworks."""

    master_weights: bool = True  # fp32 copies beside 16-bit weights; False: "pure bf16", moments in the weights' format
    gradient_bytes: float | None = None  # of one parameter; None = the weights' width (Megatron adds up in fp32: 4)
    gradients_kept: bool = True  # False: the optimizer steps inside the backward pass
    sequence_parallel: bool = True  # norms are shared by tensor-parallel ranks as well
    trained_embeddings: bool = False  # adapters that train embedding and head in full
    adapters_on_attention: bool = False  # no adapters on the feed-forward part, whose inputs are then not kept
    outside_allocator: bool = (
        True  # the figure holds what lies outside the framework's allocator: context, libraries, buffers
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Bytes of the whole model's training state, before any split, and the adapter or model that is trained."""

    weights: float
    gradients: float
    optimizer: float
    working: float  # a layer dequantised to 16-bit (QLoRA)
    gathered: float  # two layers that ZeRO-3 holds whole at once, without routed experts
    gathered_experts: float  # routed experts of two layers
    trainable: float  # parameters
    expert_share: float  # of the parameters: routed experts
    outside_share: float  # of the parameters: the larger of embedding and head, on one pipeline stage

    @property
    def total(self) -> float:
        """Weights, gradients and optimizer states."""
        return self.weights + self.gradients + self.optimizer


def optimizer_bytes_per_parameter(
    optimizer: str, precision: str, *, master_weights: bool = True, hidden: int = 4096
) -> float:
    """Return bytes per trained parameter of optimizer state.

    AdamW in 16-bit mixed precision: fp32 master copy 4 + two fp32 moments 8 = 12. 8-bit Adam: 4 + 2. SGD with momentum: 4 + 4. Adafactor:
    4 + a row and a column of fp32 sums for each matrix (8 / h). In fp32 the weights are their own master copy. Without master weights
    ("pure bf16") the moments take the weights' format.
    """
    wide = precision in {"fp32", "tf32"}
    moments = MOMENT_BYTES.get(optimizer, 8.0 / max(1, hidden))
    if not master_weights and not wide and optimizer in {"adamw", "sgd"}:
        moments /= 2
    return moments + (4.0 if master_weights and not wide else 0.0)


def state_bytes(
    spec: ModelSpec, work: TrainingWork, precision: str, *, master_weights: bool = True, keeping: Keeping | None = None
) -> StateBytes:
    """Return the training state of the whole model: 16 bytes per parameter for AdamW, full fine-tuning, 16-bit."""
    keep = keeping or Keeping(master_weights=master_weights)
    width = 4.0 if precision in {"fp32", "tf32"} else 2.0
    per_parameter = optimizer_bytes_per_parameter(
        work.optimizer, precision, master_weights=keep.master_weights, hidden=spec.hidden_size
    )
    gradient = 0.0 if not keep.gradients_kept else width if keep.gradient_bytes is None else keep.gradient_bytes
    n = float(spec.parameters_total)
    ends = [g.parameters for g in spec.tensors if g.tensor_class in {TensorClass.EMBEDDING, TensorClass.HEAD}]
    layer = width * largest_layer_parameters(spec)
    trained, base, working = n, width * n, 0.0
    if work.method in PARAMETER_EFFICIENT:
        trained = float(adapter_parameters(spec, work.lora_rank))
        if work.method == "qlora":
            base, working = nf4_weight_bytes(spec), layer
        base += width * trained
        if keep.trained_embeddings:
            trained += sum(ends)
            base += width * sum(ends)  # a copy that is trained beside the frozen one
    return StateBytes(
        weights=base,
        gradients=gradient * trained,
        optimizer=per_parameter * trained,
        working=working,
        gathered=2 * layer,
        gathered_experts=2 * width * (1 - dense_share(spec)) * n / max(1, spec.layers),
        trainable=trained,
        expert_share=1 - dense_share(spec),
        outside_share=max(ends, default=0) / n,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How a job is spread over accelerators; arrays that broadcast. Ranks of the data group share experts and states."""

    data: Array | float = 1.0
    tensor: Array | float = 1.0
    pipeline: Array | float = 1.0
    context: Array | float = 1.0
    expert: Array | float = 1.0  # divides data x context
    stage: Array | float = 0.0  # of ZeRO: 0 DDP, 1 optimizer states, 2 and gradients, 3 and weights
    micro_batch: Array | float = 1.0
    micro_batches: Array | float = 1.0  # of a step on one device (accumulation)
    checkpointing: Array | float = 0.0  # index into CHECKPOINTING


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakTerms:
    """What one accelerator holds at its peak, counted, bytes: arrays of one shape."""

    weights: Array
    gradients: Array
    optimizer: Array
    working: Array
    activations: Array  # kept for the backward pass
    block: Array  # of the block in work
    loss: Array
    outside: Array  # 1 where what lies outside the allocator counts, else 0
    moved: Array  # activations sent to host memory and back, per micro-batch
    hosted: Array  # host memory of one accelerator's offloaded activations


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFactors:
    """The fitted part; floats, or arrays with one value per row."""

    activations: Array | float
    loss: Array | float
    fragmentation: Array | float
    reserve_gib: Array | float


def peak_terms(
    spec: ModelSpec, work: TrainingWork, precision: str, split: Split, *, keeping: Keeping | None = None
) -> PeakTerms:
    """Return what one accelerator holds under a layout.

    Weights of blocks: 1 / (t p), of routed experts 1 / (t p e), of the largest of embedding and head 1 / t on one stage. ZeRO shares
    optimizer states (1), gradients (2) and weights (3) over the ranks that would hold them alike.
    """
    keep = keeping or Keeping()
    state = state_bytes(spec, work, precision, keeping=keep)
    data, t, p, e = (np.asarray(x, dtype=np.float64) for x in (split.data, split.tensor, split.pipeline, split.expert))
    stage = np.asarray(split.stage)
    replicas = data * split.context
    blocks = float(max(1, spec.layers))
    per_stage = np.ceil(blocks / p) / blocks
    outside = np.where(p > 1, state.outside_share, 0.0)
    inside = 1 - state.expert_share - 2 * outside  # tied or not, the other end is on another stage
    inside = np.maximum(inside, 0.0)
    dense = (inside * per_stage + outside) / t
    experts = state.expert_share * per_stage / (t * e)
    local = dense + experts
    sharded = dense / replicas + experts * e / replicas
    kept = activations_of(
        kept_by(spec, work, feed_forward_inputs=not keep.adapters_on_attention),
        work,
        precision,
        micro_batch=np.asarray(split.micro_batch, dtype=np.float64),
        checkpointing=np.asarray(split.checkpointing),
        tensor=t,
        pipeline=p,
        micro_batches=np.asarray(split.micro_batches, dtype=np.float64),
        context=np.asarray(split.context, dtype=np.float64),
        sequence_parallel=keep.sequence_parallel,
    )
    gathered = (state.gathered + state.gathered_experts / e) / t
    working = np.maximum(state.working / t, np.where((stage >= 3) & (replicas > 1), gathered, 0.0))
    parts = (
        state.weights * np.where(stage >= 3, sharded, local),
        state.gradients * np.where(stage >= 2, sharded, local),
        state.optimizer * np.where(stage >= 1, sharded, local),
        working,
        kept.kept,
        kept.block,
        kept.loss,
        np.asarray(float(keep.outside_allocator)),
        kept.moved,
        kept.hosted,
    )
    shape = np.broadcast_shapes(*(np.shape(part) for part in parts))
    arrays = [np.broadcast_to(part, shape) for part in parts]
    return PeakTerms(**dict(zip((f.name for f in fields(PeakTerms)), arrays, strict=True)))


def stacked(terms: Sequence[PeakTerms]) -> PeakTerms:
    """Return the terms of several single layouts (rows of a file) as arrays over them."""
    return PeakTerms(**{f.name: np.array([float(getattr(each, f.name)) for each in terms]) for f in fields(PeakTerms)})


def peak_bytes(terms: PeakTerms, factors: MemoryFactors) -> Array:
    """Return the peak of one accelerator, bytes; see the module's formula."""
    held = terms.weights + terms.gradients + terms.optimizer + factors.activations * terms.activations
    passing = np.maximum(factors.loss * terms.loss, factors.activations * terms.block + terms.working)
    apart = terms.outside * np.asarray(factors.reserve_gib) * GIB
    return np.asarray((held + passing) * (1 + factors.fragmentation) + apart)


def peak_gib(terms: PeakTerms, values: Array) -> Array:
    """Return the peak, GiB, from values of `MEMORY_SLOTS` (last axis, in their order)."""
    factors = MemoryFactors(
        activations=values[..., 0], loss=values[..., 1], fragmentation=values[..., 2], reserve_gib=values[..., 3]
    )
    return peak_bytes(terms, factors) / GIB


@lru_cache(maxsize=256)
def memory_factors(parameters: Parameters | None, framework: str = "", method: str = "") -> MemoryFactors:
    """Return the fitted part for a framework and method that a user asks for; where nothing is fitted, the starting values."""
    names = [slot.name for slot in MEMORY_SLOTS]
    if parameters is None or not set(names) <= {slot.name for slot in parameters.slots}:
        values = [slot.start for slot in MEMORY_SLOTS]
    else:
        keys = {
            "framework": [framework],
            "method": ["" if method == "full" else method],
            "memory_stack": [f"{framework} {method}" if framework else ""],
        }
        row = parameters.values(keys, 1)[0]
        values = [float(row[parameters.index(name)]) for name in names]
    return MemoryFactors(activations=values[0], loss=values[1], fragmentation=values[2], reserve_gib=values[3])


def memory_fit(
    terms: PeakTerms, factors: MemoryFactors, *, work: TrainingWork, checkpointing: str, visible_gib: float
) -> MemoryFit:
    """Return the lines of one accelerator under one layout (terms of shape ()), against 0.9 of what a process can see."""
    activations, loss = float(terms.activations * factors.activations), float(terms.loss * factors.loss)
    block, working = float(terms.block * factors.activations), float(terms.working)
    logits_last = loss >= block + working  # the larger of the two moments is the peak
    note = f"checkpointing {checkpointing}"
    if work.attention_backend == "math":
        note += ", attention keeps its scores"
    if work.activation_offload:
        note += f", {float(terms.hosted) / GIB:.3g} GiB in host memory"
    if block and not logits_last:
        note += ", with the block in work"
    lines = [
        MemoryLine(name="weights", gib=float(terms.weights) / GIB),
        MemoryLine(name="gradients", gib=float(terms.gradients) / GIB),
        MemoryLine(name="optimizer_states", gib=float(terms.optimizer) / GIB),
        MemoryLine(name="activations", gib=(activations if logits_last else activations + block) / GIB, note=note),
    ]
    if loss and logits_last:
        how = "in chunks" if work.chunked_loss else "16-bit and fp32 copies with gradients"
        lines.append(MemoryLine(name="logits", gib=loss / GIB, note=f"{how}; more than a block in work takes later"))
    if working and not logits_last:
        lines.append(
            MemoryLine(name="working_weights", gib=working / GIB, note="layers gathered or dequantised at once")
        )
    held = sum(line.gib for line in lines)
    lines.append(
        MemoryLine(
            name="fragmentation",
            gib=held * float(factors.fragmentation),
            note=f"{float(factors.fragmentation):.2g} of what is held, fitted",
        )
    )
    lines.append(
        MemoryLine(
            name="runtime_reserve", gib=float(factors.reserve_gib), note="context, libraries, communication buffers"
        )
    )
    return MemoryFit(lines=tuple(lines), available_gib_per_accelerator=visible_gib * ENGINE_SHARE)


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
    split: Split | None = None,
    parameters: Parameters | None = None,
) -> MemoryFit:
    """Return the memory of one accelerator as lines; `split` replaces a data-parallel job of `ranks` ranks."""
    at = split or Split(
        data=float(ranks),
        expert=float(min(max(1, spec.experts), ranks)) if sharding == "zero3" else 1.0,
        stage=float(SHARDING.index(sharding)),
        micro_batch=float(micro_batch),
        checkpointing=float(CHECKPOINTING.index(checkpointing)),
    )
    terms = peak_terms(spec, work, precision, at, keeping=Keeping(master_weights=master_weights))
    factors = memory_factors(parameters, "", work.method)
    return memory_fit(terms, factors, work=work, checkpointing=checkpointing, visible_gib=visible_gib)
