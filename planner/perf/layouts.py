"""Which tensor-parallel degrees can start at all.

Every device of a group holds heads / TP query heads, its KV heads (split, or replicated when there are fewer than TP), and a
slice of each feed-forward matrix (or whole experts, where a slice would not be legal). A degree that does not divide these is refused by every engine at start-up, so it is never
proposed. References: Shoeybi et al. 2019 (Megatron-LM, arXiv:1909.08053); vLLM `ParallelConfig` checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from planner.models.spec import AttentionKind, ModelSpec, Quantization
from planner.perf.precision import Format

PADDED_METHODS = ("mxfp4",)  # engines pad these slices to whole groups
SMALLEST_SQUARE_BLOCK = 64 * 64  # scales that cover more numbers than any row group does are two-dimensional
ASSUMED_GROUP = {"int4": 128}  # a quantisation made on request: groups of 128 along the input dimension


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
