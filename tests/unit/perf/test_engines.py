"""Which engine starts on which chip, by the engines' own documentation."""

from __future__ import annotations

import pytest
from serving_cases import bad, instance, machine, model

from planner.perf.engines import Support, engine_table, known_engines, support_of
from planner.perf.model import Infeasible, RejectionReason
from planner.recommend.request import ENGINES
from pricing.model import AcceleratorKind


@pytest.mark.parametrize(
    "chip",
    [
        "T4",
        "V100 SXM2 16GB",
        "A10G",
        "L4",
        "H100 SXM5 80GB",
        "B200 SXM 180GB",
        "MI300X",
        "Gaudi2",
        "TPU v5e",
        "Inferentia2",
        "Trainium1",
        "Trainium2",
    ],
)
def test_vllm_runs(chip: str) -> None:
    assert isinstance(support_of("vllm", machine(chip)), Support)


@pytest.mark.parametrize(
    "name", ["p2.xlarge", "g3s.xlarge", "g4ad.xlarge", "inf1.xlarge", "dl1.24xlarge", "dl2q.24xlarge"]
)
def test_vllm_does_not_run(name: str) -> None:
    refused = bad(model("qwen2.5-7b"), instance(name))
    assert refused.reason is RejectionReason.ENGINE_UNSUPPORTED
    assert instance(name).accelerator in refused.detail


def test_cpus_run_vllm_and_not_tensorrt() -> None:
    assert isinstance(support_of("vllm", instance("m7i.8xlarge")), Support)
    assert isinstance(support_of("tensorrt-llm", instance("m7i.8xlarge")), Infeasible)


def test_tensorrt_llm_needs_ampere_and_says_so() -> None:
    refused = support_of("tensorrt-llm", machine("T4"))
    assert isinstance(refused, Infeasible)
    assert "needs compute capability 8.0" in refused.detail


def test_the_table_is_whole() -> None:
    rows = engine_table()
    assert set(known_engines()) == set(ENGINES)  # every engine that can be asked for has rows
    assert all(row.source and row.as_of and row.ranks_per_device >= 1 for row in rows)
    assert {row.kind for row in rows} <= {k.value for k in AcceleratorKind}
    assert len({(r.engine, r.kind, r.architecture) for r in rows}) == len(rows)
    assert all(r.ranks_per_device > 1 for r in rows if r.kind == "neuron")
