"""What one device must hold to serve: weights, KV cache, activations, runtime reserve; and how many requests that leaves room for.

Symbols: T = tensor-parallel degree, P = pipeline stages, G = groups with attention of their own that share experts (attention data
parallel), b_w / b_kv = bits per weight / cache element, B = requests in flight, S = tokens of a request (input + output). All results
are bytes per device unless the name says GiB; with pipeline stages, of the fullest one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from planner.models.counting import state_bytes_per_sequence
from planner.models.spec import AttentionKind, AttentionLayers, ModelSpec, TensorClass, TensorGroup
from planner.perf.engines import UNPAGED, Residence, residence_of
from planner.perf.model import Hardware, MemoryFit, MemoryLine
from planner.perf.precision import Format, tensor_bits
from pricing.model import AcceleratorKind

GIB = 2.0**30
ENGINE_SHARE = 0.9
"""Share of the visible memory that an engine takes (vLLM `gpu_memory_utilization` default)."""

REPLICATED = frozenset({TensorClass.NORM, TensorClass.ROUTER, TensorClass.OTHER})
ENDS = (TensorClass.EMBEDDING, TensorClass.HEAD)  # on the first and on the last stage of a pipeline
DOWN_PROJECTIONS = ("q_down", "kv_down")  # MLA: computed whole on every rank

LARGE_MEMORY_GIB = 70.0  # "large devices" of engines' defaults; A100s are not among them
SGLANG_LARGE_GIB = 60.0
MIB = 2.0**20
LOGIT_BYTES = 2 + 4  # a row of logits in 16 bits and its float32 copy for sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWeights:
    """Bytes of one device by operator class; `replicated` is the part that tensor parallelism does not divide."""

    by_class: dict[TensorClass, float]
    replicated: float

    @property
    def total(self) -> float:
        """All weights of one device, bytes."""
        return sum(self.by_class.values())


@lru_cache(maxsize=1024)
def device_weights(spec: ModelSpec, form: Format, tp: int = 1, pp: int = 1, groups: int = 1) -> DeviceWeights:
    """Return the weight bytes that one device of a replica holds.

    Matrices are split over `tp` devices; norms, routers and MLA's down-projections are whole on each; K and V projections are repeated
    when there are fewer KV heads than devices; embedding and head are split by vocabulary. Routed experts are split over the devices
    of all `groups`. Of `pp` stages the fullest has ceil(layers / pp) layers and the larger of embedding and head.
    """
    by_class: dict[TensorClass, float] = {}
    replicated = 0.0
    tower_whole = tp > 1 and not _tower_divides(spec, tp)
    share = stage_share(spec, pp)
    for group in spec.tensors:
        size = group.parameters * tensor_bits(spec, group, form) / 8
        whole = (
            group.tensor_class in REPLICATED
            or is_down_projection(group)
            or (group.tensor_class is TensorClass.VISION_TOWER and tower_whole)
        )
        ranks = tp * groups if group.tensor_class is TensorClass.EXPERT else tp
        kept = (size if whole else size / ranks) * (1.0 if group.tensor_class in ENDS else share)
        by_class[group.tensor_class] = by_class.get(group.tensor_class, 0.0) + kept
        replicated += kept if whole and tp > 1 else 0.0
    extra = kv_projection_excess(spec, tp) * _attention_bits(spec, form) / 8 * share
    if extra:
        by_class[TensorClass.ATTENTION] = by_class.get(TensorClass.ATTENTION, 0.0) + extra
        replicated += extra
    if pp > 1:
        ends = [c for c in ENDS if c in by_class]
        for smaller in sorted(ends, key=lambda c: by_class[c])[:-1]:
            del by_class[smaller]
    return DeviceWeights(by_class=by_class, replicated=replicated)


def stage_share(spec: ModelSpec, pp: int) -> float:
    """Return the share of the layers that the fullest of `pp` stages has: ceil(L / P) / L."""
    layers = max(int(spec.layers), 1)
    return 1.0 if pp == 1 else math.ceil(layers / pp) / layers


def kv_projection_excess(spec: ModelSpec, tp: int) -> float:
    """Return K and V projection parameters that one device holds beyond its 1/tp share (KV heads repeated when fewer than tp)."""
    excess = 0.0
    for layer in spec.attention:
        if layer.latent_dim is None and layer.tower != "vision" and layer.kv_heads < tp:
            one_head = spec.hidden_size * (layer.head_dim + layer.value_head_dim)
            excess += layer.count * one_head * (1 - layer.kv_heads / tp)
    return excess


def heads_per_device(layer: AttentionLayers, tp: int) -> float:
    """Return the KV heads one device caches: its share, or one repeated head."""
    return max(layer.kv_heads / tp, 1.0)


def cache_bytes_per_token(layer: AttentionLayers, kv_bits: float, tp: int = 1) -> float:
    """Return cache bytes per token of all `layer.count` layers on one device. MLA's latent is whole on every device."""
    elements = float(layer.cache_elements_per_token)
    if layer.latent_dim is None and elements:
        elements *= heads_per_device(layer, tp) / layer.kv_heads
    return layer.count * elements * kv_bits / 8


def kv_bytes_per_token(spec: ModelSpec, kv_bits: float = 16, tp: int = 1, *, cross: bool = False) -> float:
    """Return cache bytes per token on one device, all layers in full; `cross` gives that of encoder tokens instead."""
    return sum(
        cache_bytes_per_token(a, kv_bits, tp) for a in spec.attention if (a.kind is AttentionKind.CROSS) == cross
    )


def kv_bytes_per_request(
    spec: ModelSpec,
    input_tokens: float,
    output_tokens: float,
    kv_bits: float = 16,
    tp: int = 1,
    *,
    windowed: bool = False,
    pp: int = 1,
    page_tokens: int = 1,
) -> float:
    """Return the bytes one device holds for a request of S = input + output tokens, recurrent state included.

    Lengths are rounded up to pages. Layers with a window are counted in full unless `windowed` (engines without a hybrid cache manager
    reserve full length). An encoder-decoder caches output tokens in its decoder and input tokens in cross-attention.
    """
    has_cross = any(a.kind is AttentionKind.CROSS for a in spec.attention)
    own = whole_pages(output_tokens if has_cross else input_tokens + output_tokens, page_tokens)
    total = 0.0
    for layer in spec.attention:
        length = whole_pages(input_tokens, page_tokens) if layer.kind is AttentionKind.CROSS else own
        if windowed and layer.window_tokens is not None:
            length = min(length, layer.window_tokens)
        total += cache_bytes_per_token(layer, kv_bits, tp) * length
    return (total + state_bytes_per_sequence(spec, tensor_parallel=tp)) * stage_share(spec, pp)


def fragmentation_bytes(
    spec: ModelSpec,
    input_tokens: float,
    output_tokens: float,
    kv_bits: float,
    tp: int,
    *,
    pp: int,
    engine: str,
    page_tokens: int,
) -> float:
    """Return the bytes of one device that a request's cache takes beyond its tokens.

    Engines with pages (Kwon et al. 2023, arXiv:2309.06180): the last page of a sequence is half full on average, (page - 1) / 2 tokens.
    Engines that keep a whole slot: what rounds the request up to it.
    """
    if page_tokens <= 1:
        return 0.0
    if engine in UNPAGED:
        sizes = [
            kv_bytes_per_request(spec, input_tokens, output_tokens, kv_bits, tp, pp=pp, page_tokens=p)
            for p in (page_tokens, 1)
        ]
        return sizes[0] - sizes[1]
    each = kv_bytes_per_token(spec, kv_bits, tp) + kv_bytes_per_token(spec, kv_bits, tp, cross=True)
    return (page_tokens - 1) / 2 * each * stage_share(spec, pp)


def whole_pages(tokens: float, page_tokens: int) -> float:
    """Return a length rounded up to whole pages of the cache."""
    return math.ceil(tokens / page_tokens) * page_tokens if page_tokens > 1 else tokens


def has_windows(spec: ModelSpec) -> bool:
    """Return whether some layers cache only a window of the context."""
    return any(a.window_tokens is not None and a.kind is not AttentionKind.BIDIRECTIONAL for a in spec.attention)


def chunk_tokens(hardware: Hardware, engine: str = "vllm") -> int:
    """Return the tokens of one prefill step by the engine's default for this device."""
    r = residence_of(engine, hardware.kind.value)
    limit = SGLANG_LARGE_GIB if r.reserve_floor_gib else LARGE_MEMORY_GIB
    large = hardware.memory_visible_gib >= limit and (
        r.reserve_floor_gib > 0 or not hardware.accelerator.startswith("A100")
    )
    return r.prefill_tokens_large if large and r.prefill_tokens_large is not None else r.prefill_tokens


def activation_bytes(spec: ModelSpec, tokens: float, tp: int = 1) -> float:
    """Return the peak of intermediate results for a step of `tokens` tokens, 16-bit.

    2 bytes x tokens x (3 I/T + 3 h): the gate and up results, their product, and three rows of the hidden size. Checked on the two
    start-up logs above: 110,592 B a token against 109,800 observed. Experts: each token has k slices of the expert width plus k rows.
    """
    width = 0.0
    for mlp in spec.feed_forward:
        if mlp.tower == "vision":
            continue
        per_width = 3.0 if mlp.gated else 2.0
        if mlp.experts:
            routed = mlp.experts_per_token * (per_width * mlp.intermediate_size / tp + spec.hidden_size)
            width = max(width, routed + per_width * mlp.shared_intermediate_size / tp)
        else:
            width = max(width, per_width * mlp.intermediate_size / tp)
    return 2.0 * tokens * (width + 3 * spec.hidden_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """What an engine holds on one device beside weights and cache, bytes."""

    activations: float
    runtime: float
    graphs: float
    per_sequence: float  # logits of a request in flight

    @property
    def total(self) -> float:
        """Sum of what does not grow with the requests."""
        return self.activations + self.runtime + self.graphs


def reserve_of(spec: ModelSpec, hardware: Hardware, engine: str, *, tp: int = 1, ranks: int | None = None) -> Reserve:
    """Return what an engine holds beside weights and cache. `ranks`: devices of the replica (default: tp).

    llama.cpp keeps logits and one row of the hidden size, in fp32, for every token of a step. SGLang sets a fixed amount a token apart
    and at least 10 GiB on large devices.
    """
    r = residence_of(engine, hardware.kind.value)
    ranks = tp if ranks is None else ranks
    chunk = chunk_tokens(hardware, engine)
    activations = activation_bytes(spec, chunk, tp)
    if r.logit_rows:
        activations = max(activations, r.logit_rows * chunk * (spec.vocab_size + spec.hidden_size) * 4)
    activations = max(activations, r.activation_mib_per_token * MIB * max(chunk, r.prefill_tokens))
    runtime = r.runtime_gib + (r.group_gib if ranks > 1 else 0.0) + (r.group_gib_per_rank * ranks if ranks > 1 else 0.0)
    graphs = r.graphs_gib if hardware.kind is AcceleratorKind.GPU else 0.0
    runtime *= GIB
    graphs *= GIB
    if r.reserve_floor_gib and hardware.memory_visible_gib >= SGLANG_LARGE_GIB:
        runtime += max(0.0, r.reserve_floor_gib * GIB - activations - runtime - graphs)
    per_sequence = 0.0 if r.logit_rows else float(spec.vocab_size * LOGIT_BYTES)
    return Reserve(activations=activations, runtime=runtime, graphs=graphs, per_sequence=per_sequence)


def cache_room_bytes(hardware: Hardware, engine: str, fixed: float) -> float:
    """Return the bytes of one device that an engine gives to the cache when `fixed` bytes are taken by weights and reserve.

    cache_share x (memory_share x visible - margin - fixed): vLLM 0.9 of all less what is taken, TensorRT-LLM 0.9 of what is left.
    Negative where nothing is left: by how much.
    """
    r = residence_of(engine, hardware.kind.value)
    left = hardware.memory_visible_gib * GIB * r.memory_share - r.margin_gib * GIB - fixed
    return left * r.cache_share if left > 0 else left


def available_gib(hardware: Hardware, engine: str = "vllm", fixed: float = 0.0) -> float:
    """Return the memory an engine may fill on one device, GiB: what is taken (`fixed` bytes) and its room for the cache."""
    return (fixed + cache_room_bytes(hardware, engine, fixed)) / GIB


def available_formula(hardware: Hardware, engine: str) -> str:
    """Return how the memory that an engine may fill comes about, in words."""
    r = residence_of(engine, hardware.kind.value)
    seen = "what a process can see"
    if r.cache_share < 1:
        return f"weights and reserve, and {r.cache_share:g} of what they leave of {seen}"
    if r.margin_gib:
        return f"{seen}, less {r.margin_gib:g} GiB left free"
    return f"{r.memory_share:g} of {seen}" if r.memory_share < 1 else f"all of {seen}"


def inference_memory(
    spec: ModelSpec,
    hardware: Hardware,
    form: Format,
    *,
    kv_bits: float,
    tp: int,
    input_tokens: int,
    output_tokens: int,
    concurrency: float,
    engine: str = "vllm",
    pp: int = 1,
    groups: int = 1,
    weights: DeviceWeights | None = None,
) -> MemoryFit:
    """Return the memory lines of one device for `concurrency` requests of the stated lengths in flight in its replica."""
    weights = device_weights(spec, form, tp, pp, groups) if weights is None else weights
    r = residence_of(engine, hardware.kind.value)
    reserve = reserve_of(spec, hardware, engine, tp=tp, ranks=tp * pp * groups)
    own = math.ceil(concurrency / groups)
    request = kv_bytes_per_request(spec, input_tokens, output_tokens, kv_bits, tp, pp=pp)
    lost = fragmentation_bytes(
        spec, input_tokens, output_tokens, kv_bits, tp, pp=pp, engine=engine, page_tokens=r.page_tokens
    )
    chunk = chunk_tokens(hardware, engine)
    tokens = (input_tokens + output_tokens) * own
    windows = "; windowed layers counted in full" if has_windows(spec) else ""
    slots = ", the whole length of each kept from its start (no paging)" if engine in UNPAGED else ""
    of_group = f" of {groups} groups" if groups > 1 else ""
    group = ", group buffers" if tp * pp * groups > 1 else ""
    floor = f", {r.reserve_floor_gib:g} GiB at least with activations" if r.reserve_floor_gib else ""
    logits = "; logits of every token" if r.logit_rows else f", logits of {own} requests"
    lines = [
        MemoryLine(name="weights", gib=weights.total / GIB, note=weights_note(weights, form, tp, pp=pp, groups=groups)),
        MemoryLine(
            name="kv_cache",
            gib=request * own / GIB,
            note=f"{own} requests{of_group} x {input_tokens + output_tokens} tokens = {tokens} tokens at {kv_bits:g} bits{slots}{windows}",
        ),
        MemoryLine(
            name="activations",
            gib=(reserve.activations + own * reserve.per_sequence) / GIB,
            note=f"a prefill step of {chunk} tokens{logits}",
        ),
        MemoryLine(
            name="runtime_reserve",
            gib=reserve.runtime / GIB,
            note=f"{engine}: driver context and workspace{group}{floor}",
        ),
        MemoryLine(
            name="fragmentation",
            gib=lost * own / GIB,
            note=fragmentation_note(engine, r, own, input_tokens + output_tokens),
        ),
    ]
    if reserve.graphs:
        lines.append(MemoryLine(name="graphs", gib=reserve.graphs / GIB, note=f"{engine}: captured CUDA graphs"))
    fixed = weights.total + reserve.total
    room = cache_room_bytes(hardware, engine, fixed)

    def longest(requests: int) -> int | None:
        return longest_context(
            spec, room / requests - reserve.per_sequence - part, kv_bits, tp, pp=pp, page_tokens=r.page_tokens
        )

    part = 0.0 if engine in UNPAGED else lost
    each = request + lost + reserve.per_sequence
    return MemoryFit(
        lines=tuple(lines),
        available_gib_per_accelerator=available_gib(hardware, engine, fixed),
        available_is=available_formula(hardware, engine),
        max_concurrency_at_context=int(room / each) * groups if each and room > 0 else None,
        max_context_tokens=longest(own),
        max_context_tokens_of_one=longest(1),
    )


def fragmentation_note(engine: str, r: Residence, requests: int, tokens: int) -> str:
    """Return in words what of a cache holds no token."""
    if engine in UNPAGED and r.page_tokens > 1:
        return (
            f"{requests} requests in whole slots of {r.page_tokens}: {whole_pages(tokens, r.page_tokens):g} tokens each"
        )
    if r.page_tokens > 1:
        return f"{requests} requests x {(r.page_tokens - 1) / 2:g} tokens: the last page of {r.page_tokens} is half full on average"
    if engine in UNPAGED:
        return "slots are as long as asked; what the allocator's blocks lose lies in what is not filled"
    return "pages of 1 token: none is left half full"


def longest_context(
    spec: ModelSpec, room: float, kv_bits: float, tp: int = 1, *, pp: int = 1, page_tokens: int = 1
) -> int | None:
    """Return the most tokens (input and output) of a request that has `room` bytes on each device, within the model's own limit.

    None where no cache grows with the length, or where input and output are cached apart (encoder-decoders).
    """
    if any(a.kind is AttentionKind.CROSS for a in spec.attention):
        return None
    each = kv_bytes_per_token(spec, kv_bits, tp) * stage_share(spec, pp)
    if not each:
        return None
    state = state_bytes_per_sequence(spec, tensor_parallel=tp) * stage_share(spec, pp)
    tokens = max(0, int((room - state) / each))
    tokens = tokens // page_tokens * page_tokens
    return tokens if spec.max_context is None else min(tokens, spec.max_context)


def weights_note(weights: DeviceWeights, form: Format, tp: int, *, pp: int = 1, groups: int = 1) -> str:
    """Return the weights by operator class in words, largest first."""
    parts = sorted(weights.by_class.items(), key=lambda item: (-item[1], item[0].value))
    shown = ", ".join(f"{name.value} {size / GIB:.3g}" for name, size in parts if size >= GIB * 5e-4)
    shared = f"; split over {tp}, {weights.replicated / GIB:.3g} GiB of it on every device" if tp > 1 else ""
    stages = f"; the fullest of {pp} stages" if pp > 1 else ""
    dealt = f"; experts dealt out over {tp * groups}" if groups > 1 else ""
    return f"{form.weights}: {shown} GiB{shared}{stages}{dealt}"


def is_down_projection(group: TensorGroup) -> bool:
    """Return whether a matrix is one of MLA's down-projections, whose latent result every rank needs whole."""
    return group.tensor_class is TensorClass.ATTENTION and any(part in group.name for part in DOWN_PROJECTIONS)


def _attention_bits(spec: ModelSpec, form: Format) -> float:
    groups = [g for g in spec.tensors if g.tensor_class is TensorClass.ATTENTION and g.parameters]
    total = sum(g.parameters for g in groups)
    if not total:
        return 16.0
    return sum(g.parameters * tensor_bits(spec, g, form) for g in groups) / total


def _tower_divides(spec: ModelSpec, tp: int) -> bool:
    return all(a.heads % tp == 0 for a in spec.attention if a.tower == "vision")
