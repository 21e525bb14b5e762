"""What `--explain` prints of models priced per sample: the time of a batch can be redone from it; the most that memory holds."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from training_cases import BERT_BASE, machine, neuron

from planner.models.sample_work import with_input
from planner.perf.model import Evaluation, Infeasible, InferenceWork
from planner.perf.samples import evaluate_samples
from planner.perf.samples_loads import most_written, written_at
from planner.services.find_model import find_model

RESNET_50, BERT_LARGE, WHISPER = (find_model(name, None) for name in ("resnet-50", "bert-large", "whisper-large-v3"))


def one(spec, hardware, work=None) -> Evaluation:
    found = evaluate_samples(spec, [hardware], work or InferenceWork())[0]
    assert isinstance(found, Evaluation), found
    return found


def printed(found: Evaluation, digits: int = 6) -> dict[str, float]:
    """Return the figures as they are printed, with so many digits."""
    return {t.name: float(f"{t.value:.{digits}g}") for t in found.performance.terms if isinstance(t.value, float)}


def calculated(formula: str) -> float:
    """Return what a calculator makes of a printed formula, in ms: units become factors, words go."""
    text = formula.split(", ", maxsplit=1)[0].replace(" x ", " * ").replace("^", "**")
    for unit, factor in (("TFLOP/s", "1e12"), ("GB/s", "1e9"), ("us", "1e-6")):
        text = re.sub(rf"([\d.e+-]+) {unit}(?![A-Za-z])", rf"(\1 * {factor})", text)
    return 1e3 * float(eval(re.sub(r"(?<![\d.A-Za-z])[A-Za-z][A-Za-z-]*", "", text)))


@pytest.mark.parametrize(
    ("spec", "hardware", "engine", "phases"),
    [
        (RESNET_50, machine("A10G"), "vllm", ("",)),
        (find_model("convnext-base", None), machine("L4", 4), "vllm", ("",)),
        (BERT_LARGE, machine("T4"), "pytorch", ("",)),
        (BERT_BASE, neuron("Inferentia2", 1), "vllm", ("",)),
        (find_model("sdxl", None), machine("A10G"), "vllm", ("_of_step",)),
        (WHISPER, machine("L4"), "vllm", ("_of_encoder", "_of_token")),
    ],
)
def test_the_time_of_a_batch_can_be_redone_from_what_is_printed(spec, hardware, engine, phases) -> None:
    found = one(spec, hardware, InferenceWork(engine=engine))
    said = {t.name: t for t in found.performance.terms}
    value = printed(found)
    batch, passes = found.layout.batch, 0.0
    repeats = {"_of_step": 100, "_of_token": 112}  # 50 steps with guidance; tokens of a clip
    for end in phases:
        for part in ("compute_time", "traffic_time", "operators_time"):
            assert calculated(said[part + end].formula) == pytest.approx(value[part + end], rel=1e-3), said[part + end]
        device = (value["compute_time" + end] ** 3 + value["traffic_time" + end] ** 3) ** (1 / 3)
        device += value["operators_time" + end]
        host = value.get("host_time" + end, 0.0)
        assert (device**4 + host**4) ** 0.25 == pytest.approx(value["pass_time" + end], rel=1e-4)
        passes += repeats.get(end, 1) * value["pass_time" + end]
    assert value["pace"] * passes == pytest.approx(value["batch_time"], rel=1e-4)
    rate = hardware.devices * (2 if engine != "pytorch" and hardware.kind == "neuron" else 1) * batch
    assert 1e3 * rate / value["batch_time"] == pytest.approx(found.performance.rates.samples_per_s, rel=1e-4)
    assert value["samples_per_s"] == pytest.approx(found.performance.rates.samples_per_s, rel=1e-4)
    assert ("host_time" in said) == (engine == "pytorch")


def test_intensity_and_bound_of_every_class() -> None:
    # ResNet-50: 8.18e9 FLOPs a sample; weights 51.1e6 bytes and 11.115e6 results of 2 bytes written and read, of which a share crosses.
    found = one(RESNET_50, machine("A10G"))
    said = {t.name: t for t in found.performance.terms}
    value, batch = printed(found), found.layout.batch
    moved = 2 * RESNET_50.parameters_total + value["crossing_share"] * batch * 4 * 11.115e6
    assert value["intensity_products"] == pytest.approx(batch * RESNET_50.sample.flops / moved, rel=1e-3)
    ridge = (
        value["peak"]
        * 1e12
        * value["compute_efficiency"]
        / (value["peak_bandwidth"] * 1e9 * value["bandwidth_efficiency"])
    )
    side = "compute" if value["intensity_products"] > ridge else "memory"
    assert f"bound by {side} (ridge {ridge:.4g})" in said["intensity_products"].formula
    # Five operations on each of 26.5e6 element-wise results, of which the unfused share is written and read: far below the ridge.
    unfused = value["unfused_share"] * value["crossing_share"]
    assert value["intensity_elementwise"] == pytest.approx(5 / (4 * unfused), rel=1e-3)
    assert "bound by memory" in said["intensity_elementwise"].formula
    assert said["bound"].value in {"compute", "memory"}


def test_small_batches_of_an_eager_host_are_bound_by_launches() -> None:
    found = one(RESNET_50, machine("A10G"), InferenceWork(engine="pytorch", max_concurrency=1))
    assert next(t for t in found.performance.terms if t.name == "bound").value == "launches"


def test_the_largest_batch_and_sample() -> None:
    # ResNet-50 on an A10G: 0.9 x 22.0 GiB - 51.1e6 bytes - 0.75 GiB = 20.40e9 bytes; 0.15 x 11.115e6 x 2 = 3.3345e6 bytes a sample.
    found = one(RESNET_50, machine("A10G"))
    room = found.memory.available_gib_per_accelerator * 2**30 - 2 * RESNET_50.parameters_total - 0.75 * 2**30
    assert found.memory.max_batch_at_size == int(room / (2 * 0.15 * 11_114_984))
    # An image of n x n pixels writes 1000 + 221.5 n² numbers (50,176 pixels: 11.115e6).
    batch = found.layout.batch
    for size, samples in ((found.memory.max_size, batch), (found.memory.max_size_of_one, 1)):
        assert samples * 0.3 * (1000 + 221.5 * size**2) <= room < samples * 0.3 * (1000 + 221.5 * (size + 1) ** 2)
    # BERT has 512 positions, however much memory is left; Whisper's decoder 448.
    assert one(BERT_LARGE, machine("A10G")).memory.max_size == 512
    assert one(WHISPER, machine("A10G")).memory.max_size_of_one == 448


def test_what_is_said_to_fit_fits_and_no_more() -> None:
    for spec in (RESNET_50, BERT_LARGE, WHISPER, find_model("swin-tiny", None), find_model("sdxl", None)):
        found = one(spec, machine("T4"))
        most = found.memory.max_batch_at_size
        assert most >= found.layout.batch
        held = {line.name: line.gib for line in found.memory.lines}
        growing = (held["activations"] + held.get("kv_cache", 0.0)) / found.layout.batch
        free = found.memory.available_gib_per_accelerator - sum(held.values()) + growing * found.layout.batch
        assert most * growing <= free < (most + 1) * growing
        largest = with_input(spec, size=found.memory.max_size_of_one)
        assert most_written(largest) == pytest.approx(written_at(spec, spec.sample, found.memory.max_size_of_one))
        assert one(largest, machine("T4"), InferenceWork(max_batch=1)).memory.fits
        if spec.sample.curve.largest is None:
            more = with_input(spec, size=found.memory.max_size_of_one + spec.sample.curve.patch)
            assert not isinstance(evaluate_samples(more, [machine("T4")], InferenceWork(max_batch=1))[0], Evaluation)


@pytest.mark.parametrize(
    ("spec", "chip"), [(RESNET_50, "L40S"), (BERT_LARGE, "T4"), (WHISPER, "T4"), (find_model("sdxl", None), "L40S")]
)
def test_a_larger_cap_of_the_batch_is_never_worse(spec, chip) -> None:
    free = one(spec, machine(chip))
    most, best = free.memory.max_batch_at_size, 0.0
    caps = sorted({1, 2, 3, 20, 32, 48, 64, 100, 256, most, most + 1, 8 * most})
    for cap in caps:
        found = one(spec, machine(chip), InferenceWork(max_batch=cap))
        rate = found.performance.rates.samples_per_s
        assert found.layout.batch <= min(cap, most)
        assert found.memory.fits
        assert rate >= 0.98 * best
        if cap >= free.layout.batch:
            assert rate >= 0.98 * free.performance.rates.samples_per_s
        best = max(best, rate)


def test_memory_holds_less_than_the_cap() -> None:
    """Decoding reads all weights once a batch and gains from every sample: it takes what memory holds, not a power of two below it."""
    fixed = one(WHISPER, machine("T4"), InferenceWork(max_batch=1)).memory
    growing = sum(line.gib for line in fixed.lines if line.name in {"activations", "kv_cache"})
    # room for six samples and a half, of the 0.9 of a device that may be filled
    tight = replace(machine("T4"), memory_visible_gib=(fixed.required_gib_per_accelerator + 5.5 * growing) / 0.9)
    for cap, batch in ((4, 4), (6, 6), (7, 6), (256, 6)):
        found = one(WHISPER, tight, InferenceWork(max_batch=cap))
        assert (found.layout.batch, found.memory.fits) == (batch, True)
    assert isinstance(
        evaluate_samples(WHISPER, [replace(tight, memory_visible_gib=1.0)], InferenceWork(max_batch=8))[0], Infeasible
    )


def test_a_sample_of_fixed_size_has_no_largest() -> None:
    fixed = replace(RESNET_50, sample=replace(RESNET_50.sample, curve=None))
    found = one(fixed, machine("A10G"))
    assert found.memory.max_size is None
    assert found.memory.max_batch_at_size > 0
