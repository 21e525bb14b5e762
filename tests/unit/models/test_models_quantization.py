"""What quantised checkpoints store, tensor by tensor."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.models.counting import weight_bytes
from planner.models.errors import ConfigError
from planner.models.parse import parse_config
from planner.models.spec import ModelSpec

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "float16",
}
TABLES, NORMS = 2 * 128256 * 4096, 65 * 4096
LINEAR = 8030261248 - TABLES - NORMS
MLP_LAYER = 3 * 4096 * 14336


def spec(quantization: dict[str, Any] | None, **other: Any) -> ModelSpec:
    config = {**LLAMA, **other}
    if quantization is not None:
        config["quantization_config"] = quantization
    return parse_config(json.dumps(config), source="config.json")


@pytest.mark.parametrize(
    ("quantization", "bits"),
    [
        ({"quant_method": "fp8"}, 8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 16384),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4 + 32 / 64),
        ({"load_in_8bit": True}, 8),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, 4.5),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 8),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "weights": {
                            "num_bits": 4,
                            "type": "int",
                            "group_size": 128,
                            "strategy": "group",
                            "symmetric": True,
                        }
                    }
                },
            },
            4 + 16 / 128,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}},
            },
            8,
        ),
    ],
    ids=lambda x: x.get("quant_method", "unnamed") if isinstance(x, dict) else str(x),
)
def test_linear_layers_are_converted_and_the_rest_stays_wide(quantization: dict[str, Any], bits: float) -> None:
    assert weight_bytes(spec(quantization)) == pytest.approx(LINEAR * bits / 8 + (TABLES + NORMS) * 2, abs=16)


def test_modules_named_by_layer_stay_wide() -> None:
    kept = [f"model.layers.{i}.self_attn" for i in range(32)] + ["model.layers.0.mlp", "model.layers.31.mlp"]
    quantised = spec({"quant_method": "fbgemm_fp8", "modules_to_not_convert": kept})
    converted = 30 * MLP_LAYER
    assert weight_bytes(quantised) == pytest.approx(converted + (8030261248 - converted) * 2, abs=16)


def test_patterns_match_with_wildcards_and_expressions() -> None:
    attention = LINEAR - 32 * MLP_LAYER
    for pattern in ("*self_attn*", "re:.*self_attn.*", "self_attn"):
        quantised = spec({"quant_method": "fp8", "ignore": ["lm_head", pattern]})
        assert weight_bytes(quantised) == pytest.approx(32 * MLP_LAYER + (attention + TABLES + NORMS) * 2, abs=16), (
            pattern
        )


def test_asked_precision_overrules_the_checkpoint() -> None:
    assert weight_bytes(spec({"quant_method": "awq", "bits": 4, "group_size": 128}), "bf16") == 8030261248 * 2


def test_a_plain_checkpoint_has_no_stored_bits() -> None:
    plain = spec(None)
    assert plain.quantization is None
    assert all(t.stored_bits is None for t in plain.tensors)


@pytest.mark.parametrize(
    ("quantization", "field"),
    [
        ({"quant_method": "magic"}, "quantization_config.quant_method"),
        ({}, "quantization_config.quant_method"),
        ({"quant_method": "awq", "bits": 64}, "quantization_config.bits"),
        ({"quant_method": "gptq", "group_size": 0}, "quantization_config.group_size"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "quantization_config.weight_block_size"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "quantization_config.config_groups"),
        ({"quant_method": "modelopt", "quant_algo": "FP3"}, "quantization_config.quant_algo"),
    ],
)
def test_unknown_formats_name_the_field(quantization: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        spec(quantization)
    assert caught.value.field == field


@pytest.mark.parametrize("pattern", ["re:(a+)+$" + "a" * 5000, "re:^(?!.*experts).*$", "re:[ab]", "re:" + "(a|b)" * 40])
def test_an_expression_we_cannot_apply_is_an_error(pattern: str) -> None:
    with pytest.raises(ConfigError, match="cannot apply"):
        spec({"quant_method": "fp8", "ignore": [pattern]})


def test_many_wildcards_do_not_hang() -> None:
    assert spec({"quant_method": "fp8", "ignore": ["*a" * 200 + "x"]}).quantization is not None


def test_alternatives_in_an_expression() -> None:
    quantised = spec({"quant_method": "fp8", "ignore": [r"re:.*mlp\.(gate|up)_proj.*"]})
    kept = 32 * 2 * 4096 * 14336
    assert weight_bytes(quantised) == pytest.approx(LINEAR - kept + (kept + TABLES + NORMS) * 2, abs=16)
