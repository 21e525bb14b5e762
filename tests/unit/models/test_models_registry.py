"""Names, aliases and near misses; the index of shipped configs is whole."""

from __future__ import annotations

import csv
import io
from importlib.resources import files

import pytest

from planner.models.registry import parse_registry, spellings

FOLDER = files("planner.models") / "configs"
TEXT = (FOLDER / "registry.csv").read_text(encoding="utf-8")
REGISTRY = parse_registry(TEXT)

ALIASES = {
    "7b": "Qwen2.5-7B",
    "8b": "Llama-3.1-8B",
    "13b": "Llama-2-13B",
    "14b": "Qwen2.5-14B",
    "32b": "Qwen2.5-32B",
    "34b": "CodeLlama-34B",
    "70b": "Llama-3.1-70B",
    "72b": "Qwen2.5-72B",
    "405b": "Llama-3.1-405B",
    "llama-2-7b": "Llama-2-7B",
    "mistral-7b": "Mistral-7B-v0.1",
    "mixtral-8x7b": "Mixtral-8x7B",
    "mixtral-8x22b": "Mixtral-8x22B",
    "qwen3-8b": "Qwen3-8B",
    "qwen3-32b": "Qwen3-32B",
    "qwen3-30b-a3b": "Qwen3-30B-A3B",
    "qwen3-235b-a22b": "Qwen3-235B-A22B",
    "deepseek-v3": "DeepSeek-V3",
    "kimi-k2": "Kimi-K2",
    "gpt-oss-20b": "gpt-oss-20b",
    "gpt-oss-120b": "gpt-oss-120b",
    "gemma-2-9b": "Gemma-2-9B",
    "gemma-3-27b": "Gemma-3-27B",
    "phi-4": "Phi-4",
    "llama-4-scout": "Llama-4-Scout",
    "bert-base": "BERT-base",
    "bert-large": "BERT-large",
    "t5": "T5-base",
    "flan-t5": "Flan-T5-base",
    "resnet50": "ResNet-50",
    "vit-b16": "ViT-B-16",
    "whisper-large-v3": "Whisper-large-v3",
    "sdxl": "SDXL",
}


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_documented_aliases(alias: str, name: str) -> None:
    found = REGISTRY.find(alias)
    assert found is not None
    assert found.name == name
    assert REGISTRY.find(alias.upper()) is found


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("meta-llama/Llama-3.1-8B", "Llama-3.1-8B"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("meta-llama/Llama-2-7b-chat-hf", "Llama-2-7B"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B"),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5-7B"),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", "Qwen3-30B-A3B-2507"),
        ("google/gemma-2-9b-it", "Gemma-2-9B"),
        ("google-t5/t5-base", "T5-base"),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek-V3"),
        ("  GPT-2 ", "GPT-2"),
        ("openai/whisper-base", "Whisper-base"),
    ],
)
def test_other_spellings(spelling: str, name: str) -> None:
    found = REGISTRY.find(spelling)
    assert found is not None
    assert found.name == name


def test_a_quantised_variant_is_not_taken_for_the_plain_one() -> None:
    assert REGISTRY.find("Qwen/Qwen2.5-7B-Instruct-AWQ") is None
    for name in ("mistralai/7b", "evil/7b", "7b/../13b", "a/b/qwen2.5-7b", "../7b", "/7b"):  # a size is nobody's model
        assert REGISTRY.find(name) is None
    assert "qwen2.5-7b" in REGISTRY.near("Qwen/Qwen2.5-7B-Instruct-AWQ")


def test_near_misses() -> None:
    assert REGISTRY.near("7bb")[0] == "7b"
    assert REGISTRY.near("mixtrall")[0] == "mixtral"
    assert REGISTRY.near("") == ()
    assert "did you mean 7b" in str(REGISTRY.unknown("7bb"))


def test_every_row_is_whole_and_every_name_unique() -> None:
    seen: set[str] = set()
    for row in csv.DictReader(io.StringIO(TEXT)):
        assert row["name"]
        assert row["source"]
        assert row["retrieved_on"]
        assert (FOLDER / row["file"]).is_file()
        for key in (row["name"].lower(), *row["aliases"].split(), *row["variants"].split()):
            assert key == key.lower()
            assert key not in seen, key
            seen.add(key)
    listed = {e.file for e in REGISTRY.entries}
    assert {p.name for p in FOLDER.iterdir() if p.name.endswith(".json")} == listed


def test_spellings_go_from_exact_to_loose() -> None:
    assert spellings("Org/Meta-Thing_7B-Instruct") == (
        "org/meta-thing-7b-instruct",
        "meta-thing-7b-instruct",
        "thing-7b-instruct",
        "thing-7b",
    )
