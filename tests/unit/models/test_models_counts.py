"""Parameter totals, active parameters and KV bytes against published figures and independent implementations."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from planner.models.counting import kv_bytes_per_token
from planner.models.parse import parse_config
from planner.services.find_model import find_model

DATA = Path(__file__).parents[2] / "data" / "models"


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f))


SMALL = json.loads((DATA / "small_models.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", rows("reference_counts.csv"), ids=lambda r: r["name"])
def test_counts_are_those_of_the_reference(row: dict[str, str]) -> None:
    spec = find_model(row["name"], None)
    assert spec.parameters_total == int(row["parameters_total"])
    assert spec.parameters_active == int(row["parameters_active"])
    assert kv_bytes_per_token(spec) == int(row["kv_bytes_per_token_fp16"])
    assert kv_bytes_per_token(spec, "fp8") * 2 == int(row["kv_bytes_per_token_fp16"])


@pytest.mark.parametrize("row", rows("published_totals.csv"), ids=lambda r: r["name"])
def test_totals_are_the_published_ones(row: dict[str, str]) -> None:
    assert find_model(row["name"], None).parameters_total == int(row["parameters_total"])


@pytest.mark.parametrize("case", SMALL, ids=lambda c: c["id"])
def test_every_family_counts_what_its_implementation_holds(case: dict) -> None:
    spec = parse_config(json.dumps(case["config"]), source=case["id"])
    assert spec.parameters_total == case["parameters"] + case["stored_buffers"]
    assert spec.parameters_total == sum(t.parameters for t in spec.tensors)
    assert 0 < spec.parameters_active <= spec.parameters_total


def test_falcon_40b_is_grouped_although_it_says_multi_query() -> None:
    # 2 · 60 layers · 8 KV heads · 64 · 2 bytes
    assert kv_bytes_per_token(find_model("falcon-40b", None)) == 2 * 60 * 8 * 64 * 2


def test_mixture_keeps_two_of_eight_experts() -> None:
    # 46.7 B in total; an expert is 3 · 4096 · 14336, six of eight rest, in 32 layers
    spec = find_model("mixtral-8x7b", None)
    assert spec.parameters_total - spec.parameters_active == 6 * 3 * 4096 * 14336 * 32


def test_layers_add_up() -> None:
    gemma = find_model("gemma-3-27b", None)
    assert [(a.count, a.window_tokens) for a in gemma.attention] == [(10, None), (52, 1024)]
    scout = find_model("llama-4-scout", None)
    assert [(a.count, a.window_tokens) for a in scout.attention] == [(12, None), (36, 8192)]
    gemma2 = find_model("gemma-2-9b", None)
    assert [(a.count, a.window_tokens) for a in gemma2.attention] == [(21, None), (21, 4096)]
    hybrid = find_model("nemotron-h-56b", None)
    assert sum(a.count for a in hybrid.attention) == 10
    assert sum(s.count for s in hybrid.state) + sum(f.count for f in hybrid.feed_forward) == 108
