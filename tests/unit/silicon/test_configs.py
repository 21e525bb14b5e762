"""Configs that the operator tables are asked with, against the published config files of the models."""

from __future__ import annotations

from planner.services.find_model import find_model
from planner.silicon.configs import config_of, packaged_name


def test_a_plain_decoder_is_written_out_as_published() -> None:
    config = config_of(find_model("Qwen2.5-7B", None), tokens=2000)
    assert config is not None
    assert config["architectures"] == ["LlamaForCausalLM"]
    asked = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    assert [config[name] for name in asked] == [28, 3584, 28, 4, 128]
    assert (config["intermediate_size"], config["vocab_size"]) == (18944, 152064)


def test_equal_routed_layers_are_written_out_with_their_experts() -> None:
    config = config_of(find_model("mixtral-8x7b", None), tokens=2000)
    assert config is not None
    assert config["architectures"] == ["MixtralForCausalLM"]
    assert (config["num_local_experts"], config["num_experts_per_tok"], config["intermediate_size"]) == (8, 2, 14336)


def test_a_window_counts_as_full_attention_only_while_requests_stay_inside() -> None:
    spec = find_model("gemma-2-9b", None)  # every other layer looks back 4,096 tokens
    assert config_of(spec, tokens=4096) is not None
    assert config_of(spec, tokens=4097) is None


def test_layers_of_several_kinds_go_by_the_packaged_name_or_not_at_all() -> None:
    deepseek = find_model("deepseek-v3", None)
    assert config_of(deepseek, tokens=2000) is None  # latent attention, dense layers before routed ones
    assert packaged_name(deepseek) == "deepseek-ai/DeepSeek-V3"
    assert config_of(find_model("bert-base", None), tokens=128) is None
    assert config_of(find_model("gpt-j-6b", None), tokens=128) is None  # its MLP has no gate
