"""A model of which only the number of parameters is known: a Llama-like shape with that total, and the assumptions said.

The shape follows what published dense models of that size have in common: a depth that grows with the logarithm of the size, heads of 128,
8 KV heads (grouped queries), a gated feed-forward of about 3.5 x hidden and a vocabulary of 128,256.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

from planner.models.errors import ConfigError
from planner.models.parse import parse_config
from planner.models.spec import ModelSpec

SMALLEST, LARGEST = 1e6, 1e14
TOLERANCE = 0.001
CONTEXT = 131_072


def spec_from_params(params: float) -> ModelSpec:
    """Return a dense decoder whose parameter total is within 0.1 % of `params`; its assumptions say what was chosen."""
    if (
        isinstance(params, bool)
        or not isinstance(params, (int, float))
        or not math.isfinite(params)
        or not SMALLEST <= params <= LARGEST
    ):
        raise ConfigError(
            source="--params",
            field="params",
            why=f"is {params!r}; it should be a number of parameters from {SMALLEST:g} to {LARGEST:g}, such as 6.7e9",
        )
    shape = _shape(float(params))
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "torch_dtype": "bfloat16",
        "max_position_embeddings": CONTEXT,
        **shape,
    }
    spec = parse_config(json.dumps(config), source="--params", name=f"{params:.4g} parameters")
    head = "tied" if shape["tie_word_embeddings"] else "separate"
    chosen = (
        f"only the parameter count {params:.6g} is given: assumed a dense decoder like Llama with {shape['num_hidden_layers']} layers of width {shape['hidden_size']}, "
        f"{shape['num_attention_heads']} heads and {shape['num_key_value_heads']} KV heads of {shape['head_dim']}, feed-forward {shape['intermediate_size']}, "
        f"vocabulary {shape['vocab_size']}, {head} output head ({spec.parameters_total} parameters)"
    )
    rest = "16-bit checkpoint (bf16) and a context limit of 131,072 tokens are assumed; give a config.json for exact figures"
    return replace(spec, assumptions=(chosen, rest))


def _shape(params: float) -> dict[str, int | bool]:
    """Return the fields of the nearest shape: pick width and depth, then let the feed-forward width take up the rest."""
    best: tuple[float, dict[str, int | bool]] | None = None
    for hidden in _widths(params):
        for layers in _depths(hidden):
            shape = _with_feed_forward(params, hidden, layers)
            if shape is None:
                continue
            total = _total(shape)
            miss = abs(total - params) / params
            ratio = int(shape["intermediate_size"]) / hidden
            unlike = abs(math.log(ratio / 3.5)) + abs(math.log(layers / _usual_depth(hidden)))
            score = (0.0 if miss <= TOLERANCE else 100.0 * miss) + unlike
            if best is None or score < best[0]:
                best = (score, shape)
    if best is None or abs(_total(best[1]) - params) / params > TOLERANCE:
        raise ConfigError(
            source="--params",
            field="params",
            why=f"is {params:g}; no plain decoder shape has that total, give a config.json",
        )
    return best[1]


def _widths(params: float) -> list[int]:
    guess = float((params / 12 / 0.0064) ** (1 / 3))  # 12 · layers · hidden² with layers growing with hidden
    step = (
        1024 if guess > 1700 else 512 if guess > 700 else 64
    )  # whole groups of 8 heads, so that 2, 4 and 8 accelerators can share them
    middle = max(step, round(guess / step) * step)
    return sorted({middle + k * step for k in range(-3, 4) if middle + k * step > 0})


def _usual_depth(hidden: int) -> float:
    return float(max(2.0, 32.0 * (hidden / 4096) ** 0.85))


def _depths(hidden: int) -> range:
    usual = _usual_depth(hidden)
    return range(max(1, int(usual * 0.6)), int(usual * 1.6) + 2)


def _with_feed_forward(params: float, hidden: int, layers: int) -> dict[str, int | bool] | None:
    head_dim = 128 if hidden % 1024 == 0 else 64 if hidden % 512 == 0 else 8
    heads = max(1, hidden // head_dim)
    kv_heads = math.gcd(heads, 8)
    tied = params < 2e9
    vocabulary = 128_256 if params >= 3e8 else 32_000 if params >= 2e7 else 1_024
    fixed = (
        vocabulary * hidden * (1 if tied else 2)
        + layers * (2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim + 2 * hidden)
        + hidden
    )
    room = (params - fixed) / (3 * hidden * layers)
    step = 256 if room > 4096 else 64 if room > 1024 else 1
    for granularity in dict.fromkeys((step, 64, 16, 1)):
        intermediate = round(room / granularity) * granularity
        if hidden <= intermediate <= 8 * hidden:
            shape: dict[str, int | bool] = {
                "hidden_size": hidden,
                "num_hidden_layers": layers,
                "num_attention_heads": heads,
                "num_key_value_heads": kv_heads,
                "head_dim": head_dim,
                "intermediate_size": intermediate,
                "vocab_size": vocabulary,
                "tie_word_embeddings": tied,
            }
            if abs(_total(shape) - params) / params <= TOLERANCE:
                return shape
    return None


def _total(s: dict[str, int | bool]) -> int:
    hidden, layers = int(s["hidden_size"]), int(s["num_hidden_layers"])
    q_width, kv_width = (
        int(s["num_attention_heads"]) * int(s["head_dim"]),
        int(s["num_key_value_heads"]) * int(s["head_dim"]),
    )
    per_layer = 2 * hidden * q_width + 2 * hidden * kv_width + 3 * hidden * int(s["intermediate_size"]) + 2 * hidden
    return int(s["vocab_size"]) * hidden * (1 if s["tie_word_embeddings"] else 2) + layers * per_layer + hidden
