"""How a published checkpoint is stored: `quantization_config` → bits per number, tensor group by tensor group.

Stored bits include scales (and zero points), which is why "4-bit" files are larger than half a byte per parameter. Only linear layers are
converted; embeddings, the output head, norms, routers and biases keep 16 bits unless the config says otherwise.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import replace

from planner.models.fields import Fields
from planner.models.spec import Quantization, TensorClass, TensorGroup

FULL_BITS = 16.0  # what stays unconverted in a quantised checkpoint
MAX_KEPT_MODULES = 50_000
MAX_CHOICES = 64

_MODULE_NAMES = {
    "attention.q": ("self_attn.q_proj", "self_attn.qkv_proj"),
    "attention.k": ("self_attn.k_proj",),
    "attention.v": ("self_attn.v_proj",),
    "attention.o": ("self_attn.o_proj",),
    "attention.q_down": ("self_attn.q_a_proj",),
    "attention.q_up": ("self_attn.q_b_proj",),
    "attention.kv_down": ("self_attn.kv_a_proj_with_mqa",),
    "attention.kv_up": ("self_attn.kv_b_proj",),
    "mlp.gate": ("mlp.gate_proj",),
    "mlp.up": ("mlp.up_proj",),
    "mlp.down": ("mlp.down_proj",),
    "experts.gate": ("mlp.experts.0.gate_proj", "block_sparse_moe.experts.0.w1", "feed_forward.experts.gate_proj"),
    "experts.up": ("mlp.experts.0.up_proj", "block_sparse_moe.experts.0.w3", "feed_forward.experts.up_proj"),
    "experts.down": ("mlp.experts.0.down_proj", "block_sparse_moe.experts.0.w2", "feed_forward.experts.down_proj"),
    "shared_expert.gate": (
        "mlp.shared_experts.gate_proj",
        "mlp.shared_expert.gate_proj",
        "feed_forward.shared_expert.gate_proj",
    ),
    "shared_expert.up": (
        "mlp.shared_experts.up_proj",
        "mlp.shared_expert.up_proj",
        "feed_forward.shared_expert.up_proj",
    ),
    "shared_expert.down": (
        "mlp.shared_experts.down_proj",
        "mlp.shared_expert.down_proj",
        "feed_forward.shared_expert.down_proj",
    ),
    "mamba.in": ("mixer.in_proj", "mamba.in_proj"),
    "mamba.out": ("mixer.out_proj", "mamba.out_proj"),
}


def read_quantization(config: Fields) -> Quantization | None:
    """Return how the checkpoint is stored, or None for plain 16- or 32-bit numbers."""
    holder = next((f for f in _holders(config) if f.has("quantization_config")), None)
    if holder is None:
        return None
    q = holder.nested("quantization_config")
    method = q.text("quant_method", default=_unnamed_method(q)).lower().replace("_", "-")
    if method in {"fp8", "fbgemm-fp8", "modelopt-fp8"}:
        return _fp8(q, method)
    if method == "mxfp4":
        return Quantization(method="mxfp4", bits=4, group_size=32, scale_bits=8)
    if method in {"awq", "gptq", "gptq-marlin", "awq-marlin", "auto-round", "intel/auto-round"}:
        return _grouped_integers(q, method)
    if method in {"bitsandbytes", "bitsandbytes-4bit", "bitsandbytes-8bit"}:
        return _bitsandbytes(q)
    if method == "compressed-tensors":
        return _compressed(q, "compressed-tensors")
    if method in {"modelopt", "modelopt-fp4", "nvfp4"}:
        return _modelopt(q)
    known = "fp8, fbgemm_fp8, mxfp4, awq, gptq, auto-round, bitsandbytes, compressed-tensors, modelopt"
    raise q.error("quant_method", f"is {method!r}, a format whose size we do not know; known are {known}")


def _holders(config: Fields) -> list[Fields]:
    return [
        config,
        *(
            config.nested(n)
            for n in ("text_config", "llm_config", "language_config")
            if isinstance(config.data.get(n), dict)
        ),
    ]


def _unnamed_method(q: Fields) -> str | None:
    if q.has("load_in_4bit") or q.has("load_in_8bit"):
        return "bitsandbytes"
    if q.has("config_groups"):
        return "compressed-tensors"
    return None


def _fp8(q: Fields, method: str) -> Quantization:
    block = q.integers("weight_block_size", minimum=1, longest=2)
    if block is not None and len(block) != 2:
        raise q.error("weight_block_size", f"is {list(block)}; it should be two numbers, such as [128, 128]")
    return Quantization(method=method, bits=8, group_size=block[0] * block[1] if block else None, scale_bits=32)


def _grouped_integers(q: Fields, method: str) -> Quantization:
    bits = q.integer("bits", "w_bit", minimum=2, maximum=8, default=4)
    group = q.integer("group_size", "q_group_size", minimum=-1, maximum=65536, default=128)
    if group == 0:
        raise q.error(
            "group_size", "is 0; it should be -1 (one scale per channel) or the numbers per scale, such as 128"
        )
    return Quantization(
        method=method, bits=bits, group_size=group if group > 0 else None, scale_bits=16 + bits
    )  # fp16 scale and a zero point


def _bitsandbytes(q: Fields) -> Quantization:
    if q.flag("load_in_8bit", "_load_in_8bit", default=False):
        return Quantization(method="bitsandbytes-int8", bits=8, group_size=None, scale_bits=32)
    double = q.flag("bnb_4bit_use_double_quant", default=False)
    # one fp32 scale per 64 numbers; doubly quantised: 8 bits per 64 and fp32 per 256 of those (Dettmers et al. 2023, arXiv:2305.14314)
    return Quantization(
        method="bitsandbytes-nf4" if double else "bitsandbytes-4bit",
        bits=4,
        group_size=64,
        scale_bits=8 if double else 32,
    )


def _compressed(q: Fields, method: str) -> Quantization:
    groups = q.nested("config_groups")
    names = sorted(groups.data)
    if not names:
        raise q.error("config_groups", "is empty; it should describe at least one group of weights")
    weights = groups.nested(names[0]).nested("weights")
    bits = weights.integer("num_bits", minimum=1, maximum=16)
    floating = weights.text("type", default="int") == "float"
    strategy = weights.text("strategy", default="")
    group = weights.optional_integer("group_size", minimum=-1, maximum=65536)
    if strategy == "block":
        shape = weights.integers("block_structure", minimum=1, longest=2)
        return Quantization(
            method=method,
            bits=bits,
            group_size=shape[0] * shape[1] if shape and len(shape) == 2 else 128 * 128,
            scale_bits=32,
        )
    if group is None or group <= 0:
        return Quantization(method=method, bits=bits, group_size=None, scale_bits=16)
    scale = 8 if floating and bits == 4 else 16
    zero_point = 0 if floating or weights.flag("symmetric", default=True) else bits
    return Quantization(method=method, bits=bits, group_size=group, scale_bits=scale + zero_point)


def _modelopt(q: Fields) -> Quantization:
    if q.has("config_groups"):
        return _compressed(q, "modelopt")
    algorithm = q.text("quant_algo", choices=("FP8", "NVFP4", "W4A16_AWQ", "INT4_AWQ", "W8A8_SQ_PER_CHANNEL", "MXFP8"))
    if algorithm == "NVFP4":
        return Quantization(
            method="modelopt-nvfp4", bits=4, group_size=q.integer("group_size", maximum=1024, default=16), scale_bits=8
        )
    if algorithm in {"W4A16_AWQ", "INT4_AWQ"}:
        return Quantization(
            method="modelopt-int4",
            bits=4,
            group_size=q.integer("group_size", maximum=65536, default=128),
            scale_bits=16,
        )
    return Quantization(
        method="modelopt-" + algorithm.lower(),
        bits=8,
        group_size=32 if algorithm == "MXFP8" else None,
        scale_bits=8 if algorithm == "MXFP8" else 32,
    )


def bits_per_parameter(q: Quantization) -> float:
    """Return the stored bits of one converted number, its share of scale and zero point included."""
    return q.bits + (q.scale_bits / q.group_size if q.group_size else 0.0)


def stored_tensors(
    config: Fields, groups: Sequence[TensorGroup], quantization: Quantization | None
) -> tuple[TensorGroup, ...]:
    """Return the groups with `stored_bits` where the checkpoint converts them (a mean over layers where only some are converted)."""
    if quantization is None:
        return tuple(groups)
    q = next(f for f in _holders(config) if f.has("quantization_config")).nested("quantization_config")
    kept = _kept_modules(q)
    head_too = q.flag("lm_head", default=False)
    bits = bits_per_parameter(quantization)
    layers = _layers(config)
    out = []
    for group in groups:
        share = _converted_share(group, quantization.method, kept, layers, head_too=head_too)
        out.append(
            replace(
                group,
                stored_bits=share * bits + (1 - share) * FULL_BITS
                if share
                else FULL_BITS
                if group.parameters
                else None,
            )
        )
    return tuple(out)


def _layers(config: Fields) -> int:
    for holder in _holders(config):
        if holder.has("num_hidden_layers"):
            return holder.layer_count()
    return 1


def _kept_modules(q: Fields) -> tuple[str, ...]:
    kept: list[str] = []
    for name in ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers", "llm_int8_skip_modules"):
        kept += q.strings(name) or ()
    if len(kept) > MAX_KEPT_MODULES:
        raise q.error("modules_to_not_convert", f"lists {len(kept)} modules; that cannot be right")
    for pattern in kept:
        if not _readable(pattern):
            shown = pattern if len(pattern) <= 60 else pattern[:57] + "..."
            raise q.error(
                "ignore",
                f"has {shown!r}, an expression we cannot apply; plain names, .*, \\\\. and (a|b) are understood",
            )
    return tuple(kept)


def _converted_share(group: TensorGroup, method: str, kept: Sequence[str], layers: int, *, head_too: bool) -> float:
    """Return the fraction of the group's numbers that the checkpoint converts."""
    if group.tensor_class is TensorClass.HEAD and head_too and group.name == "lm_head":
        return 1.0
    if not group.quantisable or (method == "mxfp4" and group.tensor_class is not TensorClass.EXPERT):
        return 0.0
    modules = _MODULE_NAMES.get(group.name)
    if modules is None or not kept:
        return 1.0
    everywhere, by_layer = _split_by_layer(kept)
    if any(_matches(pattern, f"model.layers.0.{module}") for pattern in everywhere for module in modules):
        return 0.0
    skipped = sum(
        1
        for i, patterns in by_layer.items()
        if i < layers and any(_matches(p, f"model.layers.{i}.{m}") for p in patterns for m in modules)
    )
    return 1.0 - skipped / layers


def _split_by_layer(kept: Sequence[str]) -> tuple[list[str], dict[int, list[str]]]:
    everywhere: list[str] = []
    by_layer: dict[int, list[str]] = {}
    for pattern in kept:
        found = re.search(r"layers\.(\d{1,6})(?:\.|$|\*)", pattern)
        if found and not pattern.startswith("re:"):
            by_layer.setdefault(int(found.group(1)), []).append(pattern)
        else:
            everywhere.append(pattern)
    return everywhere, by_layer


def _matches(pattern: str, path: str) -> bool:
    """Whether a skip pattern names the module: an exact path, its beginning or end, a part of it, `*` as wildcard, or `re:` a regular expression."""
    if pattern.startswith("re:"):
        return _regular(pattern[3:], path)
    short = pattern.removeprefix("language_model.").removeprefix("model.language_model.")
    if "*" in short:
        return (
            fnmatch.fnmatchcase(path, short)
            or fnmatch.fnmatchcase(path, short + ".*")
            or fnmatch.fnmatchcase(path, "*" + short)
        )
    return path == short or path.startswith(short + ".") or f".{short}." in f".{path}."


def _regular(expression: str, path: str) -> bool:
    """Match an expression that `_readable` accepts."""
    return any(
        fnmatch.fnmatchcase(path, wild) or fnmatch.fnmatchcase(path, wild + ".*") for wild in _wildcards(expression)
    )


def _wildcards(expression: str) -> list[str]:
    r"""Return the wildcard patterns of a simple regular expression: `.*`, `\.`, anchors, literal text and one level of `(a|b)`.

    Config files come from strangers, and a general regular expression could take for ever.
    """
    plain = expression.replace("(?:", "(").replace(".*", "*").strip("^$")
    choices = [part.split("|") for part in re.split(r"[()]", plain)]
    if sum(len(c) > 1 for c in choices) > 3:
        return []
    out = [""]
    for options in choices:
        out = [head + tail for head in out for tail in options]
    return [re.sub(r"\\(.)", r"\1", wild) for wild in out[:MAX_CHOICES]]


def _readable(pattern: str) -> bool:
    """Whether a skip pattern is one that we can apply."""
    if not pattern.startswith("re:"):
        return True
    wild = _wildcards(pattern[3:])
    return 0 < len(wild) < MAX_CHOICES and not any(re.search(r"[\[\]+?{}\\^$]", w) for w in wild)
