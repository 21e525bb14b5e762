"""Which engine starts on which chip, by the engines' own documentation."""

from __future__ import annotations

import pytest
from serving_cases import bad, good, instance, machine, model, plain

from planner.perf.engines import Support, engine_table, support_of
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
    assert {row.engine for row in rows} == set(ENGINES)  # every engine that can be asked for has rows
    assert all(row.source and row.as_of and row.ranks_per_device >= 1 for row in rows)
    assert {row.kind for row in rows} <= {k.value for k in AcceleratorKind}
    assert len({(r.engine, r.kind, r.architecture) for r in rows}) == len(rows)
    assert all(r.ranks_per_device > 1 for r in rows if r.kind == "neuron")


def test_v100_runs_only_older_software_and_says_so() -> None:
    # vLLM's installation page (0.23, 2026) begins at compute capability 7.5; PyTorch 2.11 keeps 7.0 only in its CUDA 12.6 wheels.
    small = model("qwen2.5-7b")
    for engine, said in (("vllm", "needs vLLM 0.14 or older"), ("pytorch", "needs those for CUDA 12.6")):
        old = good(small, machine("V100 SXM2 32GB"), engine=engine)
        assert any(said in note for note in old.notes), engine
        assert not any(said in note for note in good(small, machine("A10G"), engine=engine).notes)
    assert isinstance(support_of("sglang", machine("V100 SXM2 32GB")), Infeasible)
    refused = support_of("vllm", plain("P100", compute_capability=6.0, architecture="Pascal"))
    assert isinstance(refused, Infeasible)
    assert "needs compute capability 7.5" in refused.detail


def test_scarce_or_old_measurements_of_an_engine_are_said() -> None:
    # The table has no row of TGI, seven of plain PyTorch (one model on one chip), and none of Neuron's own engine since 2025.
    dense, gpu = model("qwen2.5-7b"), machine("H100 SXM5 80GB", 2)
    assert any("no measurement of tgi" in n for n in good(dense, gpu, engine="tgi").notes)
    assert any("only 7 measurements of pytorch" in n for n in good(dense, gpu, engine="pytorch").notes)
    assert any("neuron" in n and "from before 2025" in n for n in good(dense, instance("inf2.xlarge")).notes)
    for quiet in (good(dense, gpu), good(dense, gpu, engine="tensorrt-llm"), good(dense, gpu, engine="sglang")):
        assert not any("measurement" in n for n in quiet.notes)
