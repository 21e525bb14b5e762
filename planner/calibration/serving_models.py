"""The model of a serving row: a shipped config, a shape published only as a benchmark's, or one made from its parameter counts."""

from __future__ import annotations

import json
import re
from functools import lru_cache

from planner.calibration.model import Facts, Row
from planner.calibration.serving_rows import number
from planner.models.errors import ModelError
from planner.models.params_only import spec_from_params
from planner.models.parse import parse_config
from planner.models.spec import ModelSpec

SAME_SHAPE = {  # another name of a shipped config's tensors
    "huggyllama/llama-7b": "llama-2-7b",
    "huggyllama/llama-13b": "llama-2-13b",
    "qwen/qwq-32b-preview": "qwen2.5-32b",
    "zai-org/glm-5.2": "glm-5",
}
SHAPES: dict[str, dict[str, object]] = {
    # NVIDIA/FasterTransformer, docs/gpt_guide.md: 105 layers, 128 heads of 160, vocabulary 51,200
    "fastertransformer/megatron-530b": {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": 20480,
        "n_layer": 105,
        "n_head": 128,
        "n_positions": 2048,
        "vocab_size": 51200,
        "torch_dtype": "float16",
    },
    # their config.json on the Hugging Face hub
    "baai/aquila-7b": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "vocab_size": 100008,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    },
    "internlm/internlm-20b": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 5120,
        "num_hidden_layers": 60,
        "intermediate_size": 13824,
        "num_attention_heads": 40,
        "vocab_size": 103168,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    },
}
CHOSEN, LEAST_EXPERTS = 8, 16
"""Experts per token and least number of experts that are assumed of a model of which only total and active parameters are known."""


def model_of(row: Row, facts: Facts) -> ModelSpec | None:
    """Return the architecture of a row's model; None where neither its name nor its size says enough."""
    name = row.get("model", "").strip()
    key = name.lower()
    if key in SHAPES:
        return benchmark_shape(key)
    found = facts.find_model(SAME_SHAPE.get(key, name)) if name else None
    if found is not None:
        return found
    total = number(row.get("params_b")) or size_in(name, r"(?:^|[-_/x])(\d+(?:\.\d+)?)b(?![a-z])")
    active = number(row.get("active_params_b")) or size_in(name, r"[-_]a(\d+(?:\.\d+)?)b(?![a-z])")
    if total is None:
        return None
    try:
        if active is not None and active < 0.9 * total:
            return routed_shape(total, active)
        return spec_from_params(total * 1e9)
    except ModelError:
        return None


def size_in(name: str, pattern: str) -> float | None:
    """Return the parameters, in 1e9, that a name states: the last match, so that Qwen3-30B-A3B is not of 3e9."""
    found = re.findall(pattern, name.lower())
    return float(found[0]) if found else None


@lru_cache(maxsize=64)
def benchmark_shape(key: str) -> ModelSpec:
    """Return a shape of `SHAPES`."""
    return parse_config(json.dumps(SHAPES[key]), source="published shape", name=key)


@lru_cache(maxsize=64)
def routed_shape(total_b: float, active_b: float) -> ModelSpec:
    """Return a decoder with routed experts of about the stated total and active parameters (1e9).

    Attention and vocabulary are those of a dense model of 1.5 x the active size; the experts take up the rest, 8 of them a token.
    """
    dense = spec_from_params(active_b * 1.5e9)
    attention = next(a for a in dense.attention)
    per_layer = 2 * dense.hidden_size * (attention.heads + attention.kv_heads) * attention.head_dim
    base = 2 * dense.vocab_size * dense.hidden_size + dense.layers * per_layer
    routed = max(active_b * 1e9 - base, 0.3 * active_b * 1e9)
    experts = max(LEAST_EXPERTS, round(CHOSEN * (total_b * 1e9 - base) / routed))
    width = max(64, round((total_b * 1e9 - base) / (3 * dense.hidden_size * dense.layers * experts) / 64) * 64)
    config = {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "torch_dtype": "bfloat16",
        "hidden_size": dense.hidden_size,
        "num_hidden_layers": dense.layers,
        "intermediate_size": width,
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.head_dim,
        "vocab_size": dense.vocab_size,
        "num_local_experts": experts,
        "num_experts_per_tok": CHOSEN,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
    }
    return parse_config(
        json.dumps(config), source="parameter counts", name=f"{total_b:g}e9 parameters, {active_b:g}e9 active"
    )
