"""Stored bits of GGUF formats by tensor, following the mixing rules of llama.cpp's quantiser.

Block sizes: Q4_0 18 bytes and Q8_0 34 bytes per 32 numbers; Q4_K 144, Q5_K 176, Q6_K 210 bytes per 256 numbers. Q4_K_M and Q5_K_M hold half
of the layers' value and down projections, and the output matrix, in Q6_K; norms and routers are fp32. llama.cpp, src/llama-quant.cpp.
"""

from __future__ import annotations

from planner.models.spec import ModelSpec, TensorClass, TensorGroup

Q4_0, Q8_0, Q4_K, Q5_K, Q6_K = 18 * 8 / 32, 34 * 8 / 32, 144 * 8 / 256, 176 * 8 / 256, 210 * 8 / 256

GGUF_FORMATS = ("gguf-q4_k_m", "gguf-q5_k_m", "gguf-q6_k", "gguf-q4_0", "gguf-q8_0")
_BASE = {"gguf-q4_k_m": Q4_K, "gguf-q5_k_m": Q5_K, "gguf-q6_k": Q6_K, "gguf-q4_0": Q4_0, "gguf-q8_0": Q8_0}


def more_bits_share(layers: int) -> float:
    """Return the share of layers whose value and down projections get Q6_K: the first and last eighth and every third between."""
    eighth = layers // 8
    more = sum(1 for i in range(layers) if i < eighth or i >= 7 * layers // 8 or (i - eighth) % 3 == 2)
    return more / layers


def gguf_bits(spec: ModelSpec, tensor: TensorGroup, fmt: str) -> float:
    """Return bits per number of a tensor group in a GGUF file."""
    base = _BASE[fmt]
    if tensor.tensor_class in {TensorClass.NORM, TensorClass.ROUTER} or tensor.name.endswith(".bias"):
        return 32.0
    if tensor.tensor_class is TensorClass.HEAD:
        return max(base, Q6_K)
    if tensor.tensor_class is TensorClass.EMBEDDING:
        tied = any(t.tensor_class is TensorClass.HEAD and t.parameters == 0 for t in spec.tensors)
        return max(base, Q6_K) if tied else base
    if not tensor.quantisable:
        return 16.0
    if fmt in {"gguf-q4_k_m", "gguf-q5_k_m"} and tensor.name in {"attention.v", "mlp.down", "experts.down"}:
        share = more_bits_share(spec.layers)
        rest = Q5_K if tensor.name == "attention.v" and _is_70b_shape(spec) else base
        return share * Q6_K + (1 - share) * rest
    return base


def _is_70b_shape(spec: ModelSpec) -> bool:
    """Eight query heads per KV head and 80 layers: the quantiser then holds the (small) value projections in at least Q5_K."""
    return spec.layers == 80 and any(a.heads == 8 * a.kv_heads for a in spec.attention)
