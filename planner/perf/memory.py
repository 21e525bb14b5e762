"""What one device must hold to serve: weights, KV cache, activations, runtime reserve; and how many requests that leaves room for.

Symbols: T = tensor-parallel degree, b_w / b_kv = bits per weight / cache element, B = requests in flight, S = tokens of a request
(input + output). All results are bytes per device unless the name says GiB.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.models.counting import state_bytes_per_sequence
from planner.models.spec import AttentionKind, AttentionLayers, ModelSpec, TensorClass, TensorGroup
from planner.perf.model import Hardware, MemoryFit, MemoryLine
from planner.perf.precision import Format, tensor_bits
from pricing.model import AcceleratorKind

GIB = 2.0**30
ENGINE_SHARE = 0.9
"""Share of the visible memory that an engine takes (vLLM `gpu_memory_utilization` default)."""

REPLICATED = frozenset({TensorClass.NORM, TensorClass.ROUTER, TensorClass.OTHER})
DOWN_PROJECTIONS = ("q_down", "kv_down")  # MLA: computed whole on every rank

RUNTIME_RESERVE_GIB = 0.5
"""Driver context, kernels and CUDA graphs of one rank. From two vLLM start-up logs of an 8B model on a 24 GB card: 0.9 x 23.69 GiB
- 14.96 (weights) - activations of 20,000 / 29,000 tokens - KV room 3.81 / 2.89 leaves 0.49 / 0.46 GiB."""
GROUP_RESERVE_GIB = 0.5  # communicator and custom all-reduce buffers of a rank in a group
CPU_RESERVE_GIB = 2.0  # operating system and server process

LARGE_MEMORY_GIB = 70.0
CHUNK_TOKENS = {True: 8192, False: 2048}
"""Tokens of one prefill step (vLLM `max_num_batched_tokens` of the server: 8,192 on devices of 70 GiB and more except A100)."""
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


def device_weights(spec: ModelSpec, form: Format, tp: int = 1) -> DeviceWeights:
    """Return the weight bytes that one of `tp` devices holds.

    Matrices are split; norms, routers and MLA's down-projections are whole on each device; K and V projections are repeated when
    there are fewer KV heads than devices; embedding and head are split by vocabulary.
    """
    by_class: dict[TensorClass, float] = {}
    replicated = 0.0
    tower_whole = tp > 1 and not _tower_divides(spec, tp)
    for group in spec.tensors:
        size = group.parameters * tensor_bits(spec, group, form) / 8
        whole = (
            group.tensor_class in REPLICATED
            or is_down_projection(group)
            or (group.tensor_class is TensorClass.VISION_TOWER and tower_whole)
        )
        by_class[group.tensor_class] = by_class.get(group.tensor_class, 0.0) + (size if whole else size / tp)
        replicated += size if whole and tp > 1 else 0.0
    extra = kv_projection_excess(spec, tp) * _attention_bits(spec, form) / 8
    if extra:
        by_class[TensorClass.ATTENTION] = by_class.get(TensorClass.ATTENTION, 0.0) + extra
        replicated += extra
    return DeviceWeights(by_class=by_class, replicated=replicated)


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
) -> float:
    """Return the bytes one device holds for a request of S = input + output tokens, recurrent state included.

    Layers with a window are counted in full unless `windowed` (engines without a hybrid cache manager reserve full length). An
    encoder-decoder caches output tokens in its decoder and input tokens in cross-attention.
    """
    has_cross = any(a.kind is AttentionKind.CROSS for a in spec.attention)
    own = output_tokens if has_cross else input_tokens + output_tokens
    total = 0.0
    for layer in spec.attention:
        length = input_tokens if layer.kind is AttentionKind.CROSS else own
        if windowed and layer.window_tokens is not None:
            length = min(length, layer.window_tokens)
        total += cache_bytes_per_token(layer, kv_bits, tp) * length
    return total + state_bytes_per_sequence(spec, tensor_parallel=tp)


def has_windows(spec: ModelSpec) -> bool:
    """Return whether some layers cache only a window of the context."""
    return any(a.window_tokens is not None and a.kind is not AttentionKind.BIDIRECTIONAL for a in spec.attention)


def chunk_tokens(hardware: Hardware) -> int:
    """Return the tokens of one prefill step by the engine's default for this device."""
    return CHUNK_TOKENS[hardware.memory_visible_gib >= LARGE_MEMORY_GIB and not hardware.accelerator.startswith("A100")]


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


def reserve_gib(hardware: Hardware, tp: int) -> float:
    """Return what the runtime keeps for itself on one device, GiB."""
    if hardware.kind is AcceleratorKind.CPU:
        return CPU_RESERVE_GIB
    return RUNTIME_RESERVE_GIB + (GROUP_RESERVE_GIB if tp > 1 else 0.0)


def available_gib(hardware: Hardware) -> float:
    """Return the memory an engine may fill on one device, GiB."""
    return hardware.memory_visible_gib * ENGINE_SHARE


def inference_memory(
    spec: ModelSpec,
    hardware: Hardware,
    form: Format,
    *,
    kv_bits: float,
    tp: int,
    input_tokens: int,
    output_tokens: int,
    concurrency: int,
    weights: DeviceWeights | None = None,
) -> MemoryFit:
    """Return the memory lines of one device for `concurrency` requests of the stated lengths in flight."""
    weights = device_weights(spec, form, tp) if weights is None else weights
    kv = kv_bytes_per_request(spec, input_tokens, output_tokens, kv_bits, tp) * concurrency
    chunk = chunk_tokens(hardware)
    activations = activation_bytes(spec, chunk, tp) + concurrency * spec.vocab_size * LOGIT_BYTES
    tokens = (input_tokens + output_tokens) * concurrency
    windows = "; windowed layers counted in full" if has_windows(spec) else ""
    lines = (
        MemoryLine(name="weights", gib=weights.total / GIB, note=weights_note(weights, form, tp)),
        MemoryLine(
            name="kv_cache",
            gib=kv / GIB,
            note=f"{concurrency} requests x {input_tokens + output_tokens} tokens = {tokens} tokens at {kv_bits:g} bits{windows}",
        ),
        MemoryLine(
            name="activations",
            gib=activations / GIB,
            note=f"a prefill step of {chunk} tokens, logits of {concurrency} requests",
        ),
        MemoryLine(
            name="runtime_reserve",
            gib=reserve_gib(hardware, tp),
            note="driver context, graphs" + (", group buffers" if tp > 1 else ""),
        ),
    )
    return MemoryFit(lines=lines, available_gib_per_accelerator=available_gib(hardware))


def weights_note(weights: DeviceWeights, form: Format, tp: int) -> str:
    """Return the weights by operator class in words, largest first."""
    parts = sorted(weights.by_class.items(), key=lambda item: (-item[1], item[0].value))
    shown = ", ".join(f"{name.value} {size / GIB:.3g}" for name, size in parts if size >= GIB * 5e-4)
    shared = f"; split over {tp}, {weights.replicated / GIB:.3g} GiB of it on every device" if tp > 1 else ""
    return f"{form.weights}: {shown} GiB{shared}"


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
