"""Bad configs: one clear line that names the field, never a traceback and never a wrong number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.models.counting import flops_per_token, kv_bytes_per_token, prefill_flops, weight_bytes, windowed_kv_bytes
from planner.models.errors import ConfigError, ModelError, UnsupportedArchitecture
from planner.models.parse import known_model_types, parse_config
from planner.models.spec import ModelSpec

DATA = Path(__file__).parents[2] / "data" / "models"
CONFIGS = [case["config"] for case in json.loads((DATA / "small_models.json").read_text(encoding="utf-8"))]
SHIPPED = sorted((Path(__file__).parents[3] / "planner" / "models" / "configs").glob("*.json"))
LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 640,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}


def parse(config: Any) -> ModelSpec:
    return parse_config(json.dumps(config), source="config.json")


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"hidden_size": None}, "hidden_size", "is missing"),
        ({"hidden_size": "256"}, "hidden_size", "whole number"),
        ({"hidden_size": True}, "hidden_size", "whole number"),
        ({"hidden_size": -1}, "hidden_size", "from 1 to"),
        ({"hidden_size": 10**400}, "hidden_size", "about 1e400"),
        ({"num_hidden_layers": 1e308}, "num_hidden_layers", "from 1 to"),
        ({"num_hidden_layers": float("nan")}, "num_hidden_layers", "nan"),
        ({"num_hidden_layers": float("inf")}, "num_hidden_layers", "inf"),
        ({"num_hidden_layers": 2.5}, "num_hidden_layers", "2.5"),
        ({"num_attention_heads": 6}, "hidden_size", "does not divide"),
        ({"num_key_value_heads": 3}, "num_key_value_heads", "does not divide"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings", "true or false"),
        ({"torch_dtype": "float7"}, "torch_dtype", "float7"),
        ({"torch_dtype": "float8_e4m3fn"}, "torch_dtype", "quantization_config"),
        ({"layer_types": ["full_attention"]}, "layer_types", "one for each layer"),
        ({"layer_types": ["full_attention"] * 3 + ["magic"]}, "layer_types", "magic"),
        ({"quantization_config": []}, "quantization_config", "object"),
    ],
)
def test_the_field_is_named(change: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse({**LLAMA, **change})
    assert caught.value.field == field
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok"),
        ({**LLAMA, "model_type": "mixtral", "num_local_experts": 8}, "num_experts_per_tok"),
        ({"model_type": "gemma3", "text_config": {"model_type": "rwkv"}}, "text_config.model_type"),
        ({"model_type": "gemma3", "text_config": 3}, "text_config"),
        (
            {"model_type": "llava", "text_config": LLAMA, "vision_config": {"model_type": "eye"}},
            "vision_config.model_type",
        ),
        ({**LLAMA, "model_type": "qwen2_vl"}, "vision_config"),
        ({"model_type": "resnet", "embedding_size": 64, "depths": [3, 4], "hidden_sizes": [256]}, "hidden_sizes"),
        (
            {
                "model_type": "vit",
                "hidden_size": 64,
                "num_attention_heads": 4,
                "patch_size": 500,
                "num_hidden_layers": 2,
            },
            "patch_size",
        ),
        (
            {"model_type": "nemotron_h", "hybrid_override_pattern": "M*?", "num_hidden_layers": 3},
            "hybrid_override_pattern",
        ),
        ({"_class_name": "UNet2DConditionModel", "block_out_channels": [320]}, "block_out_channels"),
    ],
)
def test_families_name_their_fields(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(config)
    assert caught.value.field == field


def test_an_unknown_architecture_is_not_guessed() -> None:
    with pytest.raises(UnsupportedArchitecture) as caught:
        parse({**LLAMA, "model_type": "lama"})
    assert caught.value.field == "model_type"
    assert "llama" in str(caught.value)
    with pytest.raises(UnsupportedArchitecture, match="model_type: is missing"):
        parse({"hidden_size": 4})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"3",
        b'"llama"',
        b"{",
        b"null",
        b'{"model_type": "llama", "vocab_size": ' + b"9" * 10_000 + b"}",
        b"[" * 100_000,
        b" " * 3_000_000,
    ],
    ids=["empty", "not text", "list", "number", "string", "cut", "null", "digits", "nested", "long"],
)
def test_what_is_no_config_says_so(data: bytes) -> None:
    with pytest.raises(ConfigError):
        parse_config(data, source="config.json")


def test_published_configs_may_hold_infinity_elsewhere() -> None:
    assert parse_config(json.dumps({**LLAMA, "time_step_limit": [0.0, float("inf")]}), source="x").parameters_total > 0


def sane(spec: ModelSpec) -> None:
    """Whatever is accepted adds up, is positive and can be counted with."""
    assert spec.parameters_total == sum(t.parameters for t in spec.tensors)
    assert 0 < spec.parameters_active <= spec.parameters_total
    assert all(t.parameters >= 0 and t.matmul_parameters >= 0 for t in spec.tensors)
    assert (
        0
        < weight_bytes(spec, "int4")
        <= weight_bytes(spec, "fp8")
        <= weight_bytes(spec, "bf16")
        == 2 * spec.parameters_total
    )
    assert weight_bytes(spec) > 0
    per_token = kv_bytes_per_token(spec)
    assert 0 <= windowed_kv_bytes(spec, 1000) <= 1000 * per_token
    assert kv_bytes_per_token(spec, "fp16", 1) == per_token >= kv_bytes_per_token(spec, "fp16", 2)
    if spec.generates_tokens:
        assert flops_per_token(spec, 100) > 0
        assert prefill_flops(spec, 100) > 0
    if spec.sample is not None:
        assert spec.sample.flops > 0
        assert spec.sample.activation_elements > 0


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-3, 5000),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["bfloat16", "fp8", "awq", "full_attention", "M*-", "llama", "gated-gelu"]),
    st.lists(st.integers(-2, 300), max_size=6),
    st.lists(st.text(max_size=6), max_size=4),
    st.dictionaries(st.text(max_size=6), st.integers(0, 9), max_size=3),
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_mutated_configs_are_counted_or_refused(data: st.DataObject) -> None:
    config = json.loads(json.dumps(data.draw(st.sampled_from(CONFIGS))))
    target = data.draw(st.sampled_from([config, *(v for v in config.values() if isinstance(v, dict))]))
    for key in data.draw(
        st.lists(
            st.sampled_from([*target, "quantization_config", "torch_dtype", "sliding_window", "layer_types"]),
            min_size=1,
            max_size=3,
        )
    ):
        target[key] = data.draw(VALUES)
    try:
        spec = parse(config)
    except ModelError as e:
        said = str(e)
    else:
        said = ""
        sane(spec)
    assert "\n" not in said


@settings(max_examples=200, deadline=None)
@given(
    model_type=st.sampled_from(known_model_types()),
    fields=st.dictionaries(
        st.sampled_from([*LLAMA, "d_model", "n_embd", "num_layers", "text_config", "depths"]), VALUES, max_size=6
    ),
)
def test_random_fields_are_counted_or_refused(model_type: str, fields: dict[str, Any]) -> None:
    key = "_class_name" if model_type == "UNet2DConditionModel" else "model_type"
    try:
        spec = parse({**fields, key: model_type})
    except ModelError:
        return
    sane(spec)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_politely(data: bytes) -> None:
    with pytest.raises(ModelError):
        parse_config(data, source="x")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_configs_are_sane(path: Path) -> None:
    sane(parse_config(path.read_bytes(), source=path.name))


def test_an_absurdly_deep_network_is_refused_at_once() -> None:
    blocks = 16
    config = {
        "_class_name": "UNet2DConditionModel",
        "block_out_channels": [320] * blocks,
        "down_block_types": ["CrossAttnDownBlock2D"] * blocks,
        "up_block_types": ["CrossAttnUpBlock2D"] * blocks,
        "layers_per_block": 2,
        "transformer_layers_per_block": 1000,
        "in_channels": 4,
        "out_channels": 4,
        "cross_attention_dim": 2048,
    }
    with pytest.raises(ConfigError) as caught:
        parse(config)
    assert caught.value.field == "transformer_layers_per_block"
