"""The same training on more and more machines: counts, speed-up, what limits it, and the same answer through every door."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cli.paint import fitting
from planner.cli.scaling_table import columns, step_cell
from planner.perf.model import Hardware, TrainingWork
from planner.recommend.errors import BadRequest
from planner.recommend.request import EstimateRequest
from planner.recommend.scaling import scaling_counts
from planner.services.find_model import find_model
from planner.services.scaling import FIELDS, machine_of, scaling_notes, scaling_rows
from pricing.model import AcceleratorKind, InterconnectKind

H100 = Hardware(
    accelerator="H100 SXM5 80GB",
    vendor="NVIDIA",
    architecture="Hopper",
    kind=AcceleratorKind.GPU,
    devices=8,
    fraction=1.0,
    memory_visible_gib=79.1,
    memory_bandwidth_gb_s=3350,
    peak_tflops={"bf16": 989.4, "fp16": 989.4, "fp8": 1978.9, "fp32": 66.9},
    interconnect_kind=InterconnectKind.NVSWITCH,
    interconnect_gb_s_bidirectional=900,
    tdp_w=700,
    compute_capability=9.0,
    vcpus=192,
    host_memory_gib=2048,
    network_gbps=3200,
    efa_supported=True,
    local_nvme_gb=30_400,
)
LLAMA = find_model("llama-3.1-8b", None)
RESNET = find_model("resnet50", None)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("1..64", (1, 2, 4, 8, 16, 32, 64)),
        ("1..1", (1,)),
        ("3..20", (3, 4, 8, 16, 20)),
        ("1,2,4,8", (1, 2, 4, 8)),
        ("8, 2,2", (2, 8)),
    ],
)
def test_counts(text, counts) -> None:
    assert scaling_counts(text) == counts


@pytest.mark.parametrize(
    "text", ["", "0..4", "4..1", "1..x", "1.5", "-1", "1..2..4", "1,,2", "999999", ",".join(map(str, range(1, 40)))]
)
def test_what_is_no_count_is_refused(text) -> None:
    with pytest.raises(BadRequest) as caught:
        EstimateRequest(model="8b", mode="training", instance="p5.48xlarge", scaling=text)
    assert caught.value.field == "scaling"


@pytest.mark.parametrize(
    ("where", "most"),
    [
        ({"instance": "p5.48xlarge"}, 4096),
        ({"accelerator": "H100 SXM5 80GB"}, 32_768),
        ({"accelerator": "H100 SXM5 80GB", "count": 2}, 8192),
    ],
)
def test_a_table_has_no_more_machines_than_one_training(where, most) -> None:
    assert EstimateRequest(model="8b", mode="training", scaling=f"1,{most}", **where).scaling
    with pytest.raises(BadRequest, match=f"from 1 to {most:,}"):
        EstimateRequest(model="8b", mode="training", scaling=f"1,{most + 1}", **where)


def test_a_global_batch_above_the_data_set_is_refused() -> None:
    work = TrainingWork(data_format="webdataset")
    micro = rows(RESNET, work, "1")[0]["global_batch"]
    one, four = scaling_rows(RESNET, H100, work, "1,4", by_accelerator=False, data=(2.0 * micro, None))
    assert one["efficiency_fraction"] == 1
    assert four["samples_per_s"] is None
    assert four["why_not"].startswith(
        f"a global batch of {4 * micro:,} samples is more than the data set has ({2 * micro:,})"
    )
    # 1e6 tokens are 244 sequences of 4,096
    stated = TrainingWork(sequence_length=4096, global_batch=256)
    (row,) = scaling_rows(LLAMA, H100, stated, "1", by_accelerator=False, data=(None, 1e6))
    assert "a global batch of 256 samples is more than the data set has (244)" in row["why_not"]
    with pytest.raises(BadRequest, match="1,000"):
        EstimateRequest(model="resnet50", mode="training", instance="p5.48xlarge", dataset_size=1000, global_batch=1024)


def rows(spec, work=None, scaling="1..16", hardware=H100, *, by_accelerator=False):
    found = scaling_rows(
        spec, hardware, work or TrainingWork(sequence_length=4096), scaling, by_accelerator=by_accelerator
    )
    assert all(tuple(row) == FIELDS for row in found)
    return found


def test_speedup_and_efficiency_are_against_the_first_that_fits() -> None:
    found = rows(LLAMA)
    assert [r["instances"] for r in found] == [1, 2, 4, 8, 16]
    first = found[0]["samples_per_s"]
    for row in found:
        assert row["speedup"] == pytest.approx(row["samples_per_s"] / first)
        assert row["efficiency_fraction"] == pytest.approx(row["speedup"] / row["instances"])
        assert row["tokens_per_s"] == pytest.approx(4096 * row["samples_per_s"])
        parts = {k: v for k, v in row["step_ms"].items() if k != "total"}
        assert sum(parts.values()) == pytest.approx(row["step_ms"]["total"])
        assert 0 < row["mfu_fraction"] < 1


def test_sequences_scale_strongly_with_the_batch_chosen_for_the_first_row() -> None:
    """0.5 M tokens a step are 128 sequences of 4,096: every row trains with them, and more machines than they feed say so."""
    found = rows(LLAMA, scaling="1..64")
    assert {(row["kind"], row["global_batch"]) for row in found} == {("strong", 128)}
    for row in found:  # a step trains 128 sequences in its time
        assert row["samples_per_s"] == pytest.approx(128 / (row["step_ms"]["total"] / 1e3))
        assert row["layout"]["data_parallel"] * row["layout"]["micro_batch"] <= 128
    efficiencies = [row["efficiency_fraction"] for row in found]
    assert efficiencies == sorted(efficiencies, reverse=True)
    assert found[-1]["limited_by"] == "global batch"
    (note,) = scaling_notes(found, TrainingWork(sequence_length=4096))
    assert note.startswith(
        "strong scaling: every row has the global batch of 128 samples that was chosen for 8 accelerators"
    )
    stated = TrainingWork(sequence_length=4096, global_batch=1024)
    found = rows(LLAMA, stated, "1..4")
    assert {(row["kind"], row["global_batch"]) for row in found} == {("strong", 1024)}
    assert scaling_notes(found, stated) == [
        "strong scaling: every row has the global batch of 1,024 samples that was stated"
    ]


def test_images_scale_weakly_unless_a_batch_is_stated() -> None:
    found = rows(RESNET, TrainingWork(data_format="webdataset"), "1..8")
    micro = found[0]["layout"]["micro_batch"]
    for row in found:
        assert (row["kind"], row["layout"]["micro_batch"]) == ("weak", micro)
        assert row["global_batch"] == micro * row["accelerators"]
    (note,) = scaling_notes(found, TrainingWork())
    assert f"grows from {8 * micro:,} to {64 * micro:,} samples" in note
    held = rows(RESNET, TrainingWork(data_format="webdataset", global_batch=1024), "1..8")
    assert {(row["kind"], row["global_batch"]) for row in held} == {("strong", 1024)}


def test_the_narrow_table_keeps_what_rows_are_counted_by() -> None:
    lora = TrainingWork(method="lora")
    for found, kept in ((rows(LLAMA, lora, "1..8", by_accelerator=True), "Accelerators"), (rows(LLAMA), "Instances")):
        shown, _ = fitting(columns(found), 80)
        assert kept in [column.title for column in shown]


def test_accelerators_fill_machines() -> None:
    found = rows(LLAMA, TrainingWork(method="lora"), "1..32", by_accelerator=True)
    assert [(r["instances"], r["accelerators"]) for r in found] == [(1, 1), (1, 2), (1, 4), (1, 8), (2, 16), (4, 32)]
    part, count = machine_of(H100, 2, by_accelerator=True)
    assert (part.devices, part.vcpus, part.host_memory_gib, count) == (2, 48, 512, 1)
    assert machine_of(H100, 1, by_accelerator=True)[0].interconnect_kind is InterconnectKind.NONE
    assert machine_of(H100, 12, by_accelerator=True) == (H100, 2)


def test_a_row_that_does_not_fit_says_why() -> None:
    found = rows(find_model("llama-3.1-70b", None), scaling="1..8")
    assert found[0]["samples_per_s"] is None
    assert found[0]["speedup"] is None
    assert "needs at least" in found[0]["why_not"]
    fits = [r for r in found if r["samples_per_s"] is not None]
    assert fits[0]["speedup"] == fits[0]["efficiency_fraction"] == 1.0


def test_the_input_pipeline_limits_images() -> None:
    # 4 vCPUs an instance x 100 images/s: every instance brings its own.
    found = rows(RESNET, TrainingWork(), "1,2,4", replace(H100, vcpus=4))
    assert [r["samples_per_s"] for r in found] == pytest.approx([400, 800, 1600])
    assert {r["limited_by"] for r in found} == {"input pipeline"}
    for row in found:  # the wait is a part of the step, and the step gives the rate
        step = row["step_ms"]
        assert row["global_batch"] / step["total"] * 1e3 == pytest.approx(row["samples_per_s"])
        assert sum(step.values()) - step["total"] == pytest.approx(step["total"])
        assert row["limit_fraction"] == pytest.approx(step["input"] / step["total"])
        assert "input" in step_cell(row).under
    # One file system for all: 12 GB/s / 108,000 bytes = 111,111 images/s, however many machines.
    shared = rows(RESNET, TrainingWork(storage="fsx", data_format="webdataset"), "1..64", replace(H100, vcpus=10_000))
    assert shared[-1]["samples_per_s"] == pytest.approx(12e9 / 108_000)
    assert shared[-1]["limited_by"] == "input pipeline"


def test_a_small_global_batch_limits() -> None:
    found = rows(LLAMA, TrainingWork(sequence_length=512, global_batch=64), "1..64")
    assert found[-1]["limited_by"] == "global batch"
    assert found[-1]["efficiency_fraction"] < 0.7


def test_a_slow_network_limits() -> None:
    slow = replace(H100, network_gbps=10, efa_supported=False)
    found = rows(LLAMA, TrainingWork(sequence_length=2048, global_batch=4096, pipeline_parallel=1), "1..16", slow)
    assert found[-1]["limited_by"] == "data-parallel traffic"
    assert found[-1]["efficiency_fraction"] < 0.9


def test_a_pipeline_limits() -> None:
    # 16 stages and 16 micro-batches: the bubble is 15/16 of the work in them (Narayanan et al. 2021), and the largest wait.
    work = TrainingWork(sequence_length=2048, global_batch=16, pipeline_parallel=16, tensor_parallel=1, micro_batch=1)
    found = rows(LLAMA, replace(work, checkpointing="full"), "2")
    step = found[0]["step_ms"]
    assert step["bubble"] == pytest.approx(15 / 16 * (step["compute"] + step["launch"]), rel=0.02)
    assert max(step, key=lambda part: step[part] * (part not in {"total", "compute"})) == "bubble"


@settings(deadline=None, max_examples=25)
@given(
    spec=st.sampled_from(["llama-3.1-8b", "mixtral-8x7b", "bert-base", "resnet50", "llama-3.2-3b"]),
    method=st.sampled_from(["full", "lora"]),
    network=st.sampled_from([25, 400, 3200]),
    batch=st.sampled_from([None, 512]),
    allreduce=st.sampled_from(["ring", "tree", "parameter_server"]),
)
def test_more_machines_are_never_slower_without_a_named_cause(*, spec, method, network, batch, allreduce) -> None:
    model = find_model(spec, None)
    if spec == "resnet50" and method == "lora":
        method = "full"  # convolutions have no adapters
    length = 512 if spec == "bert-base" else 2048
    work = TrainingWork(method=method, sequence_length=length, global_batch=batch, allreduce=allreduce)
    found = [r for r in rows(model, work, "1..32", replace(H100, network_gbps=network)) if r["samples_per_s"]]
    for before, after in pairwise(found):
        assert after["samples_per_s"] > 0
        assert 0 < after["mfu_fraction"] < 1
        if after["samples_per_s"] < before["samples_per_s"] * 0.995:
            assert after["limited_by"] not in {"compute", "memory"}
        if after["efficiency_fraction"] < 0.8 * before["efficiency_fraction"]:
            assert after["limited_by"] != "compute"
