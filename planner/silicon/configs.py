"""A `ModelSpec` as the config that the operator tables are asked with: plain decoders are written out, others go by a packaged name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.models.spec import AttentionKind, ModelKind, ModelSpec

PACKAGED: Mapping[str, str] = {
    "DeepSeek-V3": "deepseek-ai/DeepSeek-V3",
    "Kimi-K2": "moonshotai/Kimi-K2-Instruct",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "Llama-4-Scout": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "Llama-4-Maverick": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
}
"""Models whose layers are of several kinds -> the name of their config in the package."""

LIKE_FULL = {AttentionKind.FULL, AttentionKind.SLIDING}


def packaged_name(spec: ModelSpec) -> str | None:
    """Return the name under which the package itself has a config of the model, or None."""
    return PACKAGED.get(spec.name)


def config_of(spec: ModelSpec, tokens: int) -> Mapping[str, Any] | None:
    """Return the config of a decoder with equal layers, or None where its operators are not those of the tables.

    A window counts as full attention while requests of `tokens` stay inside it.
    """
    if spec.kind is not ModelKind.DECODER or spec.state:
        return None
    attention = [a for a in spec.attention if a.tower == "text"]
    forward = [f for f in spec.feed_forward if f.tower == "text"]
    if len(attention) != len(spec.attention) or len(forward) != 1 or not attention:
        return None
    shapes = {(a.heads, a.kv_heads, a.head_dim, a.value_head_dim) for a in attention}
    within = all(a.kind in LIKE_FULL and (a.window_tokens is None or tokens <= a.window_tokens) for a in attention)
    if len(shapes) != 1 or not within:
        return None
    heads, kv_heads, head_dim, value_head_dim = shapes.pop()
    mlp = forward[0]
    if head_dim != value_head_dim or not mlp.gated or mlp.shared_intermediate_size or mlp.count != spec.layers:
        return None
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": spec.layers,
        "hidden_size": spec.hidden_size,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": mlp.intermediate_size,
        "vocab_size": spec.vocab_size,
        "max_position_embeddings": spec.max_context or tokens,
        "torch_dtype": "bfloat16",
    }
    if mlp.experts:
        config |= {
            "architectures": ["MixtralForCausalLM"],
            "num_local_experts": mlp.experts,
            "num_experts_per_tok": mlp.experts_per_token,
        }
    return config
