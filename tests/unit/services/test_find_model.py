"""Finding a model by alias, name, path or size; the only place where model files are read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from planner.models.errors import ConfigError, ModelError, UnknownModel
from planner.services.find_model import find_model, model_names

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 640,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}


def test_an_alias_says_what_it_became() -> None:
    spec = find_model("7b", None)
    assert spec.name == "Qwen2.5-7B"
    assert "7b" in spec.aliases
    assert "20" in spec.source  # where from, and which day


def test_a_fine_tune_says_whose_shape_it_has() -> None:
    spec = find_model("meta-llama/Llama-3.1-8B-Instruct", None)
    assert spec.name == "Llama-3.1-8B"
    assert any("meta-llama/Llama-3.1-8B-Instruct" in a for a in spec.assumptions)


def test_another_model_with_the_same_tensors_is_named() -> None:
    spec = find_model("deepseek-r1", None)
    assert spec.name == "DeepSeek-V3"
    assert any(a.startswith("deepseek-r1: taken as DeepSeek-V3") for a in spec.assumptions)
    assert not any("taken as" in a for a in find_model("7b", None).assumptions)


@pytest.mark.parametrize("as_folder", [True, False])
def test_a_config_file_or_its_folder(tmp_path: Path, as_folder: bool) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    spec = find_model(str(folder if as_folder else folder / "config.json"), None)
    # tables 2·1000·256; a layer 2·256·256 + 2·256·64 + 3·256·640 + 2·256; final norm
    assert spec.parameters_total == 2 * 1000 * 256 + 4 * (2 * 256 * 256 + 2 * 256 * 64 + 3 * 256 * 640 + 2 * 256) + 256
    assert spec.name == "my-model"
    assert spec.source.endswith("config.json") or spec.source == str(folder)


def test_a_path_with_a_shipped_name_is_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "7b").mkdir()
    (tmp_path / "7b" / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    assert find_model("./7b", None).parameters_total < 1e7
    assert find_model("7b", None).parameters_total > 7e9


def test_exactly_one_of_model_and_params() -> None:
    for model, params in ((None, None), ("7b", 7e9)):
        with pytest.raises(ModelError, match="exactly one"):
            find_model(model, params)
    assert find_model(None, 6.7e9).parameters_total == pytest.approx(6.7e9, rel=0.001)


@pytest.mark.parametrize(
    "name", ["7bb", "", "   ", "x\0y", "a" * 5000, "no/such/model", "../nowhere", "~nobody-here/x"]
)
def test_unknown_names_are_one_clear_line(name: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        find_model(name, None)
    assert str(caught.value).startswith("unknown model")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_near_misses_are_suggested() -> None:
    with pytest.raises(UnknownModel, match="did you mean 7b") as caught:
        find_model("7bb", None)
    assert caught.value.suggestions[0] == "7b"


def test_a_missing_file_is_said_to_be_missing() -> None:
    with pytest.raises(UnknownModel, match=r"nope\.json"):
        find_model("./nope.json", None)


def test_what_is_not_a_plain_file_is_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="is a named pipe, which may never end; give a plain file"):
        find_model(str(pipe), None)
    with pytest.raises(ConfigError, match="is a device, which may never end"):
        find_model("/dev/zero", None)


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    big = tmp_path / "config.json"
    big.write_bytes(b" " * 5_000_000)
    with pytest.raises(ConfigError, match="is larger than 2,000,000 bytes"):
        find_model(str(big), None)


def test_a_broken_file_names_itself(tmp_path: Path) -> None:
    broken = tmp_path / "config.json"
    broken.write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json: \(file\): is not JSON"):
        find_model(str(broken), None)


def test_names_hold_every_alias() -> None:
    assert {"7b", "Qwen2.5-7B", "sdxl", "resnet50"} <= {n if n in {"Qwen2.5-7B"} else n.lower() for n in model_names()}
