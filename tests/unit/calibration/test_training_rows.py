"""Training rows against what their own sources say of them: pairs of figures, degrees in strategies, definitions of utilisation."""

from __future__ import annotations

import numpy as np
import pytest

from planner.calibration import training
from planner.calibration.columns import shipped_measurements
from planner.calibration.facts import shipped_facts
from planner.calibration.model import Row, Skipped, Workload
from planner.calibration.training_layouts import spread_of
from planner.calibration.training_rows import TrainingCase, case_of
from planner.perf.parameters import shipped

EMPTY = dict.fromkeys(shipped_measurements(Workload.TRAINING).rows[0], "")


def row(**cells: str) -> Row:
    return {**EMPTY, "id": "r", "gpu": "H100 SXM5 80GB", "precision": "bf16", "metric_value": "1", **cells}


def case(**cells: str) -> TrainingCase:
    found = case_of(row(**cells), shipped_facts())
    assert isinstance(found, TrainingCase), found
    return found


def seconds(found: TrainingCase) -> float:
    """The step time that a published rate, utilisation or FLOP rate means."""
    return found.scale / found.measured


@pytest.mark.parametrize(
    ("common", "rate", "other"),
    [
        # llm-foundry README, MPT-13b on 32 H100: 4,811 tokens/s per GPU and 39.95 % MFU, scores counted without the causal mask.
        (
            {
                "source_family": "llm-foundry",
                "model": "MPT-13b",
                "params_b": "12.8644",
                "strategy": "fsdp FULL_SHARD",
                "gpu_count": "32",
                "nodes": "4",
                "seq_len": "2048",
                "micro_batch": "2",
                "global_batch": "64",
            },
            ("tokens_s_gpu", "4811"),
            ("mfu_pct", "39.95"),
        ),
        # Megatron-Bridge performance summary, Llama 3.1 405B on 128 B200: 664 tokens/s and 1,676 model TFLOP/s per GPU, causal scores.
        (
            {
                "source_family": "megatron-bridge",
                "model": "Llama-3.1-405B",
                "params_b": "405.9",
                "gpu": "B200 SXM 180GB",
                "precision": "fp8",
                "strategy": "fsdp0/tp4/pp8/cp2/vp8/ep1",
                "gpu_count": "128",
                "nodes": "16",
                "seq_len": "8192",
                "micro_batch": "1",
                "global_batch": "64",
                "framework": "Megatron-Core (NeMo 25.11)",
            },
            ("tokens_s_gpu", "664"),
            ("tflops_gpu", "1676"),
        ),
        # BigScience Jean Zay, GPT 52B on 64 V100: 129 s a step of 1,024 x 1,024 tokens, hardware TFLOP/s with recomputation.
        (
            {
                "source_family": "bigscience",
                "model": "GPT-52B",
                "params_b": "52.0",
                "gpu": "V100 SXM2 32GB",
                "precision": "fp16-amp",
                "strategy": "DP=1; PP=16",
                "gpu_count": "64",
                "nodes": "16",
                "seq_len": "1024",
                "micro_batch": "4",
                "global_batch": "1024",
                "activation_checkpointing": "full",
                "date": "2021-06",
            },
            ("tokens_s", "8128.5"),
            ("hw_tflops_gpu", "52.8"),
        ),
    ],
    ids=["llm-foundry", "megatron-bridge", "bigscience"],
)
def test_two_figures_of_one_run_mean_one_step(
    common: dict[str, str], rate: tuple[str, str], other: tuple[str, str]
) -> None:
    first = case(**common, metric_name=rate[0], metric_value=rate[1])
    second = case(**common, metric_name=other[0], metric_value=other[1])
    assert seconds(second) == pytest.approx(seconds(first), rel=0.03)


@pytest.mark.parametrize(
    ("strategy", "devices", "expected"),
    [
        ("tp4/pp12/dp8 zero1", 384, (4, 12, 1, 1, 1)),
        ("fsdp0/tp1/pp2/cp1/vp8/ep32", 256, (1, 2, 1, 32, 0)),
        ("tp/sp/pp/cp 2 / 1 / 1 / 4 fsdp0", 32, (2, 1, 4, 1, 0)),
        ("DP=1; PP=16", 64, (4, 16, 1, 1, 0)),  # the degree that is not named takes up the rest
        ("fsdp FULL_SHARD", 64, (1, 1, 1, 1, 3)),
        ("fsdp SHARD_GRAD_OP", 512, (1, 1, 1, 1, 2)),
        ("Zero=3; Opt Offl=N; Par Offl=N", 16, (1, 1, 1, 1, 3)),
        ("[8xNC(TP)x4(DP)] x 16Nodes(DP)", 256, (4, 1, 1, 1, 0)),  # eight cores are four chips
        ("ddp", 8, (1, 1, 1, 1, 0)),
    ],
)
def test_degrees_in_strategies(strategy: str, devices: int, expected: tuple[int, ...]) -> None:
    spec = shipped_facts().find_model("llama-3.1-405b")
    assert spec is not None
    found = spread_of(
        strategy,
        spec=spec,
        method="full",
        devices=devices,
        memory_gib=80.0,
        node_devices=8,
        global_batch=None,
        framework="",
        counted=True,
    )
    assert (found.tensor, found.pipeline, found.context, found.expert, found.zero) == expected


def test_silent_big_runs_get_a_split_that_fits() -> None:
    """175e9 parameters of 16 bytes need more than one 80 GiB card; every replica has a sample of the step."""
    found = case(
        source_family="mlperf-training", model="GPT-3-175B", params_b="175", precision="fp8-assumed", gpu_count="512",
        nodes="64", seq_len="2048", global_batch="2048", strategy="data parallel (+ model parallel for LLMs)",
        framework="NVIDIA NeMo", metric_name="tokens_s", metric_value="3e5",
    )  # fmt: skip
    state_gib = 175e9 * 4 / found.spread.split / 2**30
    assert state_gib < 0.6 * 80
    assert found.data <= 2048
    assert found.data * found.micro_batch * found.accumulation == pytest.approx(2048, rel=0.05)


def test_rows_without_a_prediction_say_why() -> None:
    whole = case_of(row(metric_name="time_to_train_min", model="ResNet-50"), shipped_facts())
    assert isinstance(whole, Skipped)
    assert not whole.eligible
    nobody = case_of(row(metric_name="samples_s", model="nobody knows it", image_size="224"), shipped_facts())
    assert isinstance(nobody, Skipped)
    assert nobody.eligible
    assert nobody.reason == "unknown model"


def test_unknown_models_fall_back_to_their_size() -> None:
    found = case(metric_name="tokens_s_gpu", model="Someone-9B", params_b="9", seq_len="4096", micro_batch="1")
    assert found.spec.parameters_total == pytest.approx(9e9, rel=0.01)


@pytest.mark.parametrize(
    ("size", "area"), [("224", 224 * 224), ("384", 384 * 384), ("800x1333", 800 * 1333), ("", 224 * 224)]
)
def test_unknown_image_models_fall_back_to_parameters_and_area(size: str, area: int) -> None:
    """ResNet-50 (25.6e6 parameters, 4.1e9 multiply-adds at 224, He et al. 2016) under another name: image models scatter by 1.6 about the law."""
    found = case(
        model="acme/Novel-1", params_b="0.0256", metric_name="samples_s", unit="images/s (global)", image_size=size, task="train",
        precision="fp16-amp", gpu_count="8", micro_batch="64",
    )  # fmt: skip
    assert found.spec.sample is not None
    assert found.spec.sample.flops == pytest.approx(2 * 4.1e9 * area / 224**2, rel=0.6)
    assert found.scale == 8 * 64  # images of a step


def test_unknown_models_of_frames_are_counted_by_frame() -> None:
    found = case(
        model="acme/Speaks", params_b="0.028", metric_name="samples_s", unit="mel frames/s (global)", micro_batch="4"
    )
    assert found.scale == pytest.approx(4 * float(np.asarray(found.work.tokens)))


@pytest.mark.parametrize("unit", ["records/s (global)", "users/s (global)", "sequences/s (global)"])
def test_items_that_nothing_describes_have_no_shape(unit: str) -> None:
    found = case_of(row(model="acme/Novel-2", params_b="0.03", metric_name="samples_s", unit=unit), shipped_facts())
    assert isinstance(found, Skipped)
    assert found.reason == "no stated shape"
    assert not found.eligible


def test_rows_of_new_names_are_predicted_like_rows_of_known_ones() -> None:
    """The shipped rows under names that nobody knows: whatever states its parameters and a shape still gets a figure."""
    rows = [
        {**each, "model": f"acme/Novel-{i}"}
        for i, each in enumerate(shipped_measurements(Workload.TRAINING).rows)
        if each["params_b"] and (each["seq_len"] or each["image_size"]) and "as published" not in each["unit"]
    ]
    reading = training.read(rows, shipped_facts())
    assert len(reading.cases) > 1000
    assert [s.reason for s in reading.skipped if s.eligible] == []


@pytest.mark.parametrize(
    ("precision", "reason"),
    [("fp99", "format not supported"), ("soup", "format not supported"), ("fp8", None), ("", None)],
)
def test_formats_that_nobody_knows_are_not_taken_for_16_bit(precision: str, reason: str | None) -> None:
    cells = {"model": "Someone-9B", "params_b": "9", "seq_len": "4096", "micro_batch": "1"}
    found = case_of(row(**cells, metric_name="tokens_s_gpu", precision=precision), shipped_facts())
    assert (found.reason if isinstance(found, Skipped) else None) == reason


def test_nearly_every_eligible_row_is_predicted_and_none_beyond_the_peak() -> None:
    rows = shipped_measurements(Workload.TRAINING).rows
    reading = training.read(rows, shipped_facts())
    missed = sum(each.eligible for each in reading.skipped)
    assert len(reading.cases) >= 0.95 * (len(reading.cases) + missed)
    figures = training.figures(reading, shipped("training"))
    assert len(figures) == len(reading.cases)
    assert all(0 < f.low <= f.predicted <= f.high < np.inf for f in figures)
    shares = [f.predicted for f in figures if f.labels.metric == "mfu_pct" and f.labels.family in {"lm", "moe"}]
    assert max(shares) < 95


@pytest.mark.parametrize("cell", ["-1", "0", "nan", "1e30", "abc", "inf"])
@pytest.mark.parametrize(
    "column", ["gpu_count", "nodes", "seq_len", "micro_batch", "global_batch", "params_b", "metric_value"]
)
def test_odd_cells_are_a_reason_of_their_own(column: str, cell: str) -> None:
    cells = {
        "model": "Someone-9B", "params_b": "9", "seq_len": "4096", "micro_batch": "1", "gpu_count": "8", "nodes": "1", "global_batch": "64",
        "metric_name": "tokens_s_gpu", "metric_value": "1000", "strategy": "megatron tp/pp + dp",
    }  # fmt: skip
    found = case_of(row(**{**cells, column: cell}), shipped_facts())
    assert isinstance(found, Skipped)
    assert found.reason == ("no figure" if column == "metric_value" else "unreadable cell")
    assert repr(cell) in found.detail or column == "metric_value"
