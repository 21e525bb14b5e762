"""How a measured job was spread: degrees read from a free-text strategy, and what is taken where the source is silent.

Read anywhere in the text: "tp4 pp2", "TP=4; PP=16; DP=2", "tp4/pp16/cp1/vp4/ep8", "tp/sp/pp/cp 2 / 1 / 1 / 4", "[8xNC(TP)x4(DP)]", "zero1",
"Zero=3", "fsdp FULL_SHARD", "SHARD_GRAD_OP". Rules where it says less: see `usual_split`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from planner.models.spec import ModelSpec

LISTED = re.compile(r"tp\s*/\s*sp\s*/\s*pp\s*/\s*cp\s+(\d+)\s*/\s*(\d+)\s*/\s*(\d+)\s*/\s*(\d+)")
DEGREE = {
    "tensor": re.compile(r"(?<![a-z])tp\s*=?\s*(\d+)"),
    "pipeline": re.compile(r"(?<![a-z])pp\s*=?\s*(\d+)"),
    "context": re.compile(r"(?<![a-z])cp\s*=?\s*(\d+)"),
    "expert": re.compile(r"(?<![a-z])ep\s*=?\s*(\d+)"),
    "interleave": re.compile(r"(?<![a-z])vp\s*=?\s*(\d+)"),
}
DATA = re.compile(r"(?<![a-z])dp\s*=?\s*(\d+)")
NEURON_TENSOR = re.compile(r"(\d+)xnc\(tp\)")
ZERO = re.compile(r"zero[-_ ]*(?:stage)?\s*=?\s*([0-3])")
SHARDED = re.compile(r"fsdp(?!0)|full_shard|zero-?3")
MODEL_PARALLEL = re.compile(r"tensor|pipeline|model parallel|megatron|\btp\b|best tp")
STATE_BYTES = {"full": 16.0, "lora": 2.2, "qlora": 0.8}
"""Bytes per parameter of weights, gradients and optimizer: with AdamW, with 16-bit frozen weights, with 4-bit ones."""
SHARDED_STATE = 12.0
"""Of those, what ZeRO-1 deals out over the data group in full training."""
ROOM = 0.6
"""Share of the memory that states may take beside activations."""
MOST_TENSOR = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Degrees of a job; `stated` where the text names them."""

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    interleave: int = 1
    zero: int = 0
    stated: bool = True

    @property
    def split(self) -> int:
        """Devices that share one sample."""
        return self.tensor * self.pipeline * self.context

    @property
    def text(self) -> str:
        """The degrees above one, as "tp4 pp2 zero1"."""
        named = (("tp", self.tensor), ("pp", self.pipeline), ("cp", self.context), ("ep", self.expert))
        parts = [f"{name}{value}" for name, value in named if value > 1]
        return " ".join([*parts, *([f"zero{self.zero}"] if self.zero else [])])


def spread_of(
    strategy: str,
    *,
    spec: ModelSpec,
    method: str,
    devices: int,
    memory_gib: float,
    node_devices: int,
    global_batch: float | None,
    framework: str,
    counted: bool,
) -> Spread:
    """Return the degrees of a job from its strategy; degrees that do not divide the devices are cut down to the nearest that do."""
    text = strategy.lower()
    degrees = dict.fromkeys(DEGREE, 1)
    listed = LISTED.search(text)
    neuron = NEURON_TENSOR.search(text)
    found = False
    if listed:
        degrees |= {"tensor": int(listed[1]), "pipeline": int(listed[3]), "context": int(listed[4])}
        found = True
    else:
        for name, pattern in DEGREE.items():
            match = pattern.search(text)
            if match:
                degrees[name] = max(1, int(match[1]))
                found = found or name in {"tensor", "pipeline", "context"}
    replicas = DATA.search(text)
    if (
        replicas and found and not neuron and "neuron" not in framework.lower()
    ):  # the degree that is not named takes up the rest
        rest = devices // max(1, int(replicas[1]) * degrees["tensor"] * degrees["pipeline"] * degrees["context"])
        unnamed = "tensor" if not DEGREE["tensor"].search(text) else "pipeline"
        if rest > 1 and not DEGREE[unnamed].search(text):
            degrees[unnamed] *= rest
    if neuron:  # cores; a chip has two
        degrees["tensor"], found = max(1, int(neuron[1]) // 2), True
    elif "neuron" in framework.lower() and degrees["tensor"] > 1:
        degrees["tensor"] //= 2
    stage = ZERO.search(text)
    zero = int(stage[1]) if stage else _usual_stage(text, framework, method)
    if spec.experts and zero >= 3 and not DEGREE["expert"].search(text):  # experts are dealt out, not gathered
        degrees["expert"] = math.gcd(devices, spec.experts)
    spread = Spread(zero=zero, stated=found, **degrees)
    if not found and counted and devices > 1 and zero < 3 and MODEL_PARALLEL.search(text):
        spread = usual_split(
            spec,
            method,
            devices=devices,
            memory_gib=memory_gib,
            node_devices=node_devices,
            global_batch=global_batch,
            zero=zero,
        )
    return _dividing(spread, devices)


def _usual_stage(text: str, framework: str, method: str) -> int:
    """Return the sharding stage that a text or a framework stands for."""
    if "shard_grad_op" in text:
        return 2
    if SHARDED.search(text):
        return 3
    software = framework.lower()
    if "maxtext" in software or "levanter" in software:
        return 3
    if "deepspeed" in software and "transformers" in software and method == "full":
        return 3
    if "megatron" in software or "nemo" in software:
        return 1
    return 0


def usual_split(
    spec: ModelSpec,
    method: str,
    *,
    devices: int,
    memory_gib: float,
    node_devices: int,
    global_batch: float | None,
    zero: int,
) -> Spread:
    """Return the split of a big job whose source says no degrees.

    Tensor parallelism first, within a node and to 8, then pipeline stages, until the states take at most `ROOM` of the memory; then
    context parallelism until there are no more replicas than samples in a step. Stages hold up to four model chunks.
    """
    parameters = float(spec.parameters_total)
    state = STATE_BYTES[method]
    tensor = pipeline = context = 1
    layers = max(1, spec.layers)

    def fits() -> bool:
        replicas = max(1, devices // (tensor * pipeline))
        shared = SHARDED_STATE if method == "full" and zero >= 1 else 0.0
        needed = parameters * (state - shared + shared / replicas) / (tensor * pipeline)
        return needed <= ROOM * memory_gib * 2**30

    while not fits() and tensor * 2 <= min(node_devices, MOST_TENSOR, devices):
        tensor *= 2
    while not fits() and tensor * pipeline * 2 <= devices and pipeline * 2 <= layers:
        pipeline *= 2
    if global_batch:
        while devices / (tensor * pipeline * context) > global_batch:
            if tensor * 2 <= min(node_devices, MOST_TENSOR):
                tensor *= 2
            else:
                context *= 2
    interleave = 1
    if pipeline > 1:
        interleave = max(v for v in (1, 2, 3, 4) if layers % (pipeline * v) == 0 or v == 1)
    return Spread(tensor=tensor, pipeline=pipeline, context=context, interleave=interleave, zero=zero, stated=False)


def _dividing(spread: Spread, devices: int) -> Spread:
    """Return the spread with a split that the devices can hold."""
    tensor = min(spread.tensor, devices)
    pipeline = min(spread.pipeline, max(1, devices // tensor))
    context = min(spread.context, max(1, devices // (tensor * pipeline)))
    data = max(1, devices // (tensor * pipeline * context))
    return Spread(
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=min(spread.expert, data * context * tensor),
        interleave=spread.interleave if pipeline > 1 else 1,
        zero=spread.zero,
        stated=spread.stated,
    )


def accumulation_of(global_batch: float | None, micro_batch: float, data: float) -> float:
    """Return the micro-batches per step: what the global batch needs, at least one."""
    if not global_batch:
        return 1.0
    return max(1.0, math.ceil(global_batch / (micro_batch * data) - 1e-9))
