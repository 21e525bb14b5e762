"""How a model can be split over devices: which tensor-parallel degrees can start at all, stages, groups that share experts, machines.

Every device of a group holds heads / TP query heads, its KV heads (split, or replicated when there are fewer than TP), and a
slice of each feed-forward matrix (or whole experts, where a slice would not be legal). A degree that does not divide these is refused by every engine at start-up, so it is never
proposed. References: Shoeybi et al. 2019 (Megatron-LM, arXiv:1909.08053); vLLM `ParallelConfig` checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from planner.models.spec import AttentionKind, ModelSpec, Quantization
from planner.perf.engines import Support
from planner.perf.model import Hardware, InferenceWork
from planner.perf.precision import Format

PADDED_METHODS = ("mxfp4",)  # engines pad these slices to whole groups
SMALLEST_SQUARE_BLOCK = 64 * 64  # scales that cover more numbers than any row group does are two-dimensional
ASSUMED_GROUP = {"int4": 128}  # a quantisation made on request: groups of 128 along the input dimension

SEARCHED_GROUPS = (1, 2)
"""Devices of a group, where experts are dealt out over all devices of an instance, or over equal parts of them, unasked."""
SPAN_GBPS = 100.0
SPAN_DEVICES = 8
MOST_SPANNED = 8
"""A replica is laid over several machines of its own accord where the model does not fit one: whole hosts (8 devices and more) with a
network of 100 Gbit/s and more, at most 8. vLLM documentation, Distributed serving: tensor parallel inside a node and a stage a node, or
tensor parallel over all nodes; Expert parallel deployment: attention data parallel and experts over all nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One replica over devices: `pp` stages of `groups` groups of `tp` devices, on `instances` machines.

    A machine holds whole stages, or a stage takes whole machines; then a machine holds whole groups, or a group takes whole machines.
    """

    tp: int = 1
    pp: int = 1
    groups: int = 1  # attend to requests of their own and share the experts
    instances: int = 1
    expert_parallel: bool = False  # experts are dealt out whole

    @property
    def devices(self) -> int:
        """Devices of one replica."""
        return self.tp * self.pp * self.groups

    @property
    def machines(self) -> int:
        """Machines of one stage."""
        return max(1, self.instances // self.pp)

    @property
    def spans(self) -> int:
        """Places between which stages send over the network: machines, or stages where each takes several."""
        return self.pp if self.machines > 1 else self.instances

    def replicas(self, devices: int) -> int:
        """Return how many replicas an instance of so many devices holds; 1 where one replica spans instances."""
        return 1 if self.instances > 1 else devices // self.devices


def legal_tensor_parallel(
    spec: ModelSpec, candidates: Iterable[int], quantization: Quantization | None = None, *, shards_per_device: int = 1
) -> tuple[int, ...]:
    """Return the degrees among `candidates` that can start, in the given order without repeats.

    `quantization`: how the weights are stored if not plain (default: the checkpoint's own). `shards_per_device`: engines that split
    a chip further (a Neuron chip has several cores, each a rank) divide heads by TP times that.
    """
    stored = quantization if quantization is not None else spec.quantization
    return tuple(
        dict.fromkeys(
            tp for tp in candidates if why_illegal(spec, tp, stored, shards_per_device=shards_per_device) is None
        )
    )


def why_illegal(
    spec: ModelSpec, tp: int, quantization: Quantization | None = None, *, shards_per_device: int = 1
) -> str | None:
    """Return what a tensor-parallel degree does not divide, or None when it is legal."""
    if tp < 1:
        return f"{tp} is not a number of devices"
    if tp == 1 and shards_per_device == 1:
        return None
    ranks = tp * shards_per_device
    for layer in spec.attention:
        if layer.tower == "vision":
            continue  # small towers run replicated, one image per rank
        if layer.heads % ranks:
            return f"{layer.heads} attention heads do not divide by {ranks}"
        if layer.kind is not AttentionKind.LATENT and layer.kv_heads % ranks and ranks % layer.kv_heads:
            return f"{layer.kv_heads} KV heads neither divide by {ranks} nor are divided by it"
    group = _group_size(quantization)
    for mlp in spec.feed_forward:
        if mlp.tower == "vision":
            continue
        widths = [mlp.intermediate_size, *([mlp.shared_intermediate_size] if mlp.shared_intermediate_size else [])]
        for width in widths:
            refused = _why_width_illegal(width, ranks, group)
            if refused and not (mlp.experts and width == mlp.intermediate_size and mlp.experts % ranks == 0):
                return refused
    if group:
        for layer in spec.attention:
            rows = layer.heads * layer.value_head_dim
            if layer.tower != "vision" and (rows // ranks) % group:
                return f"attention output rows {rows} / {ranks} = {rows // ranks} are not a multiple of the quantisation group {group}"
    return None


def splits_of(
    spec: ModelSpec, h: Hardware, work: InferenceWork, support: Support, stored: Quantization | None
) -> tuple[list[Split], str]:
    """Return the splits of one replica over one machine (or over as many as the asked degrees need), and why others cannot be."""
    parallel = support.parallel
    for asked, word, what in (
        (work.tensor_parallel, "tp", "tensor parallelism"),
        (work.pipeline_parallel, "pp", "pipeline parallelism"),
        (work.expert_parallel, "ep", "expert parallelism"),
    ):
        if asked is not None and asked > 1 and word not in parallel:
            return [], f"{support.engine} on {h.accelerator} has no {what}"
    if work.expert_parallel is not None and not spec.experts:
        return [], f"{spec.name} has no experts to deal out"
    layers_only = "tp" not in parallel
    degrees = [work.tensor_parallel] if work.tensor_parallel else [1] if layers_only else list(range(1, h.devices + 1))
    pipelines = range(1, h.devices + 1) if layers_only and "pp" in parallel else [1]
    stages = [work.pipeline_parallel] if work.pipeline_parallel else [p for p in pipelines if p <= spec.layers]
    out, why = [], ""
    for tp in degrees:
        refused = why_illegal(spec, tp, stored, shards_per_device=support.ranks_per_device)
        if refused is not None:
            why = why or refused
            continue
        whole = expert_parallel_needed(spec, tp * support.ranks_per_device, stored)
        groups = 1
        if work.expert_parallel is not None:
            if work.expert_parallel % tp:
                why = why or f"expert parallelism of {work.expert_parallel} is not a multiple of {tp}"
                continue
            groups, whole = work.expert_parallel // tp, work.expert_parallel > 1
            refused = why_experts_illegal(spec, work.expert_parallel)
            if refused is not None:
                return [], refused
        for pp in stages:
            split = Split(tp=tp, pp=pp, groups=groups, expert_parallel=whole)
            refused, machines = _machines(spec, h, work, support, split)
            if refused is None:
                out.append(Split(tp=tp, pp=pp, groups=groups, instances=machines, expert_parallel=whole))
            else:
                why = refused
    if spec.experts and "ep" in parallel and searches_experts(work):
        dealt = [e for e in range(2, h.devices + 1) if h.devices % e == 0 and why_experts_illegal(spec, e) is None]
        inside = [
            tp
            for tp in SEARCHED_GROUPS
            if why_illegal(spec, tp, stored, shards_per_device=support.ranks_per_device) is None
        ]
        out.extend(
            Split(tp=tp, groups=e // tp, expert_parallel=True) for e in dealt for tp in inside if e % tp == 0 and e > tp
        )
    return out, why


def searches_experts(work: InferenceWork) -> bool:
    """Return whether groups that share experts are tried of their own accord: where no degree is asked for."""
    return work.tensor_parallel is None and work.pipeline_parallel is None and work.expert_parallel is None


def spans_of(
    spec: ModelSpec, h: Hardware, work: InferenceWork, support: Support, stored: Quantization | None
) -> list[Split]:
    """Return the splits of one replica over 2, 3, ... machines.

    Stages across and the widest legal tensor-parallel degree inside; one tensor-parallel group over all; and for models with experts
    groups inside, with the experts dealt out over all.
    """
    fixed = work.pipeline_parallel is not None or work.expert_parallel is not None
    fast = (h.network_gbps or 0.0) >= SPAN_GBPS and h.devices >= SPAN_DEVICES
    parallel = set(support.parallel)
    if fixed or not fast or not {"tp", "nodes"} <= parallel:
        return []

    def legal(tp: int) -> bool:
        return why_illegal(spec, tp, stored, shards_per_device=support.ranks_per_device) is None

    def whole(tp: int) -> bool:
        return expert_parallel_needed(spec, tp * support.ranks_per_device, stored)

    inside = [
        t for t in range(h.devices, 0, -1) if h.devices % t == 0 and work.tensor_parallel in (None, t) and legal(t)
    ]
    out: list[Split] = []
    for n in range(2, min(work.max_instances, MOST_SPANNED) + 1):
        devices = h.devices * n
        over = [work.tensor_parallel] if work.tensor_parallel else [devices]
        degrees = [*inside[:1], *(t for t in over if t > h.devices and t % h.devices == 0 == devices % t and legal(t))]
        stages = [(tp, devices // tp) for tp in degrees if "pp" in parallel or devices == tp]
        out.extend(
            Split(tp=tp, pp=pp, instances=n, expert_parallel=whole(tp)) for tp, pp in stages if pp <= spec.layers
        )
        if spec.experts and "ep" in parallel and why_experts_illegal(spec, devices) is None:
            out.extend(Split(tp=tp, groups=devices // tp, instances=n, expert_parallel=True) for tp in inside)
    return out


def why_experts_illegal(spec: ModelSpec, ranks: int) -> str | None:
    """Return why experts cannot be dealt out over so many devices, or None."""
    experts = next(f.experts for f in spec.feed_forward if f.experts)
    return f"{experts} experts do not divide by {ranks}" if experts % ranks else None


def _machines(
    spec: ModelSpec, h: Hardware, work: InferenceWork, support: Support, split: Split
) -> tuple[str | None, int]:
    """Return why an asked split cannot be, or None, and how many machines it takes."""
    if split.pp > spec.layers:
        return f"{split.pp} pipeline stages are more than the {spec.layers:g} layers of {spec.name}", 1
    inside, each = split.tp * split.groups, h.devices
    if inside <= each:
        machines = math.ceil(split.pp / (each // inside))
    elif inside % each or (split.tp % each and each % split.tp):
        kind = (
            f"expert parallelism of {inside} in groups of {split.tp}"
            if split.groups > 1
            else f"tensor parallelism of {inside}"
        )
        return f"{kind} does not fill instances of {each} devices", 1
    else:
        machines = split.pp * inside // each
    if machines == 1:
        return None, 1
    if "nodes" not in support.parallel:
        return f"needs {split.devices} devices, the instance has {each}; {support.engine} does not span machines", 1
    if machines > work.max_instances:
        most = f"at most {work.max_instances} may be used" if work.max_instances > 1 else "one may be used"
        return f"needs {split.devices} devices, those of {machines} instances of {each}; {most}", 1
    if h.network_gbps is None:
        return "the network between such instances is not known", 1
    return None, machines


def expert_parallel_needed(spec: ModelSpec, ranks: int, quantization: Quantization | None) -> bool:
    """Return whether experts must be dealt out whole because a slice of one is not legal."""
    group = _group_size(quantization)
    return any(
        f.experts and _why_width_illegal(f.intermediate_size, ranks, group) is not None for f in spec.feed_forward
    )


def _why_width_illegal(width: int, ranks: int, group: int | None) -> str | None:
    if width % ranks:
        return f"feed-forward width {width} does not divide by {ranks}"
    if group and (width // ranks) % group:
        return f"feed-forward width {width} / {ranks} = {width // ranks} is not a multiple of the quantisation group {group}"
    return None


def quantization_of(spec: ModelSpec, form: Format) -> Quantization | None:
    """Return the grouping that a format brings: the checkpoint's own, or the assumed one of a quantisation made on request."""
    if form.stored:
        return spec.quantization
    group = ASSUMED_GROUP.get(form.weights)
    return (
        Quantization(method=form.weights, bits=4.0, group_size=group)
        if group
        else Quantization(method=form.weights, bits=16.0, group_size=None)
    )


def _group_size(quantization: Quantization | None) -> int | None:
    """Return how many numbers along one dimension share a scale; a square block (128 x 128 in fp8 checkpoints) counts by its edge."""
    if quantization is None or quantization.group_size is None or quantization.group_size <= 1:
        return None
    if any(m in quantization.method for m in PADDED_METHODS):
        return None
    edge = math.isqrt(quantization.group_size)
    square = quantization.group_size >= SMALLEST_SQUARE_BLOCK and edge * edge == quantization.group_size
    return edge if square else quantization.group_size
