"""Which layouts a training job can have: every split over instance types and counts at once, as flat arrays (NumPy).

A layout is (tensor, pipeline, expert, ZeRO stage) x recomputation x micro-batch. Tensor-parallel groups stay inside an instance;
pipelines may span instances; experts are dealt out over ranks of the data group. Legal: t divides the heads, and KV heads divide t or t
them; p at most the blocks; t p divides the ranks; pipelines go with DDP or ZeRO-1 alone (Megatron-LM, DeepSpeed); models that are not
counted in tokens are not split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec
from planner.perf.model import Hardware, TrainingWork
from planner.perf.training_activations import CHECKPOINTING
from planner.perf.training_memory import SHARDING
from planner.perf.training_work import counted_in_tokens

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TENSOR_PARALLEL = (1, 2, 4, 8, 16)
PIPELINE_PARALLEL = (1, 2, 4, 8, 16, 32)
STEP_TOKENS = {"full": 2**19, "lora": 2**17, "qlora": 2**17}
"""Tokens per optimizer step when no global batch is given: 0.5 M (GPT-3's smaller models), 131 k for adapters."""
DEALT = ("whole", "inside", "everywhere")
"""Where routed experts are: all on every rank, dealt out inside an instance, or over all ranks of the data group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """One layout per element, in the order (hardware, instance count, simplest layout first)."""

    hardware: Index  # place in the hardware that was given
    count: Index  # place in the instance counts that were given
    instances: Array
    data: Array  # replicas
    tensor: Array
    pipeline: Array
    expert: Array
    stage: Array  # of ZeRO, 0 to 3
    checkpointing: Array  # index into CHECKPOINTING
    micro_batch: Array
    accumulation: Array
    samples: Array  # of one optimizer step

    def __len__(self) -> int:
        """Return how many layouts there are."""
        return len(self.hardware)

    def at(self, index: Index | npt.NDArray[np.bool_]) -> Layouts:
        """Return some of them."""
        return Layouts(**{f.name: getattr(self, f.name)[index] for f in fields(Layouts)})


def step_samples(spec: ModelSpec, work: TrainingWork) -> float | None:
    """Return the samples of one optimizer step; None where one micro-batch per device is as good as any (vision)."""
    if work.global_batch is not None:
        return float(work.global_batch)
    if counted_in_tokens(spec):
        return float(max(1, STEP_TOKENS[work.method] // work.sequence_length))
    return None


def tensor_degrees(spec: ModelSpec, work: TrainingWork, most: int) -> tuple[int, ...]:
    """Return the legal tensor-parallel degrees up to the devices of an instance; a fixed one alone where it is legal."""
    if not counted_in_tokens(spec):
        return (1,) if work.tensor_parallel in {None, 1} else ()
    wanted = TENSOR_PARALLEL if work.tensor_parallel is None else (work.tensor_parallel,)
    layers = [a for a in spec.attention if a.tower != "vision"]

    def legal(t: int) -> bool:
        return t <= most and all(a.heads % t == 0 and (a.kv_heads % t == 0 or t % a.kv_heads == 0) for a in layers)

    return tuple(t for t in wanted if t == 1 or legal(t))


def pipeline_degrees(spec: ModelSpec, work: TrainingWork, most: int) -> tuple[int, ...]:
    """Return the pipeline degrees up to the blocks and the ranks; a fixed one alone."""
    if not counted_in_tokens(spec):
        return (1,) if work.pipeline_parallel in {None, 1} else ()
    wanted = PIPELINE_PARALLEL if work.pipeline_parallel is None else (work.pipeline_parallel,)
    return tuple(p for p in wanted if p <= min(max(1, spec.layers), most))


def splits(spec: ModelSpec, work: TrainingWork, devices: int, ranks: int) -> list[tuple[int, int, int, int]]:
    """Return the legal (tensor, pipeline, where experts are, ZeRO stage), simplest first: fewest ways of splitting, then least sharding."""
    stages = range(4) if work.sharding is None else (SHARDING.index(work.sharding),)
    routed = spec.experts > 0 and counted_in_tokens(spec)
    dealt = range(3) if routed and work.expert_parallel is None else (0,)
    found = [
        (t, p, e, z)
        for t in tensor_degrees(spec, work, devices)
        for p in pipeline_degrees(spec, work, ranks)
        for e in dealt
        for z in stages
        if z < 2 or p == 1
    ]
    return sorted(found, key=lambda s: (s[0] * s[1] > 1, s[2] > 0, s[0] * s[1], s[3], s))


def layouts_of(spec: ModelSpec, hardware: Sequence[Hardware], work: TrainingWork, counts: Sequence[int]) -> Layouts:
    """Return every legal layout of every hardware and instance count; memory is not looked at."""
    micro = MICRO_BATCHES if work.micro_batch is None else (work.micro_batch,)
    levels = range(len(CHECKPOINTING)) if work.checkpointing is None else (CHECKPOINTING.index(work.checkpointing),)
    most = max((h.devices for h in hardware), default=1)
    table = np.array(splits(spec, work, most, most * max(counts, default=1)), dtype=np.int64).reshape(-1, 4)
    t, p, dealt, stage = (column.reshape(1, 1, -1) for column in table.T)
    devices = np.array([h.devices for h in hardware], dtype=np.int64).reshape(-1, 1, 1)
    networked = np.array([h.network_gbps is not None for h in hardware]).reshape(-1, 1, 1)
    instances = np.array(counts, dtype=np.int64).reshape(1, -1, 1)
    ranks = devices * instances
    data = ranks // (t * p)
    inside = np.gcd(spec.experts or 1, np.minimum(np.maximum(1, devices // t), np.maximum(1, data)))
    everywhere = np.gcd(spec.experts or 1, np.maximum(1, data))
    expert = np.where(dealt == 2, everywhere, np.where(dealt == 1, inside, 1))
    legal = (ranks % (t * p) == 0) & (devices % t == 0) & (data >= 1) & (networked | (instances == 1))
    legal &= (stage == 0) | (data > 1) | (work.sharding is not None)
    legal &= (dealt == 0) | (expert > np.where(dealt == 2, inside, 1))
    if work.expert_parallel is not None:
        expert = np.full_like(expert, work.expert_parallel)
        legal &= (data % expert == 0) & ((spec.experts or 1) % expert == 0)
    h, c, s = np.nonzero(np.broadcast_to(legal, np.broadcast_shapes(legal.shape, data.shape)))
    each = len(levels) * len(micro)
    whole = (len(hardware), len(counts), table.shape[0])

    def flat(values: npt.NDArray[np.int64]) -> Array:
        return np.repeat(np.broadcast_to(values, whole)[h, c, s].astype(np.float64), each)

    data_flat = flat(data)
    micro_flat = np.tile(np.array(micro, dtype=np.float64), len(h) * len(levels))
    wanted = step_samples(spec, work)
    accumulation = np.ones_like(data_flat) if wanted is None else np.ceil(wanted / (micro_flat * data_flat))
    samples = micro_flat * data_flat * np.maximum(1.0, accumulation)
    if work.global_batch is not None:
        samples = np.minimum(samples, float(work.global_batch))
    all_of = Layouts(
        hardware=np.repeat(h, each),
        count=np.repeat(c, each),
        instances=flat(instances),
        data=data_flat,
        tensor=flat(t),
        pipeline=flat(p),
        expert=flat(expert),
        stage=flat(stage),
        checkpointing=np.tile(np.repeat(np.array(levels, dtype=np.float64), len(micro)), len(h)),
        micro_batch=micro_flat,
        accumulation=np.maximum(1.0, accumulation),
        samples=samples,
    )
    if work.global_batch is None:
        return all_of
    return all_of.at(micro_flat * data_flat <= work.global_batch)
