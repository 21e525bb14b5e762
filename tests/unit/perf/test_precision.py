"""What chips compute and what they only store. Facts: NVIDIA's list of arithmetic by compute capability, vLLM's support table."""

from __future__ import annotations

import pytest
from serving_cases import bad, good, instance, machine, model, plain

from planner.perf.model import Infeasible, RejectionReason
from planner.perf.precision import Format, is_native, is_weight_only, resolve


@pytest.mark.parametrize(
    ("chip", "native"),
    [("T4", False), ("A10G", False), ("A100 SXM4 40GB", False), ("L4", True), ("L40S", True), ("H100 SXM5 80GB", True)],
)
def test_fp8_arithmetic_came_with_capability_8_9(chip: str, native: bool) -> None:
    assert is_native(machine(chip), "fp8") is native


def test_fp8_on_ampere_is_weight_only_one_byte_a_weight_and_16_bit_compute() -> None:
    spec = model("llama-3.1-8b")
    for chip in ("A10G", "A100 SXM4 40GB"):
        h = machine(chip)
        assert is_weight_only(h, "fp8")
        form = resolve(spec, h, "fp8")
        assert isinstance(form, Format)
        assert (form.weights, form.compute, form.native) == ("fp8", "bf16", False)
        assert "no fp8 arithmetic" in form.notes[0]
    fp8 = good(spec, machine("A100 SXM4 40GB"), precision="fp8", max_concurrency=1)
    bf16 = good(spec, machine("A100 SXM4 40GB"), precision="bf16", max_concurrency=1)
    # Linear layers 6,979,321,856 and norms 266,240; embedding and head 2 x 525,336,576 stay 16-bit.
    assert fp8.memory.lines[0].gib == pytest.approx((6_979_321_856 + 2 * (266_240 + 2 * 525_336_576)) / 2**30, rel=1e-4)
    assert bf16.memory.lines[0].gib == pytest.approx(8_030_261_248 * 2 / 2**30, rel=1e-9)


def test_t4_has_neither_bf16_nor_fp8() -> None:
    spec = model("llama-2-7b")
    t4 = machine("T4")
    form = resolve(spec, t4, "bf16")
    assert isinstance(form, Format)
    assert (form.weights, form.compute) == ("fp16", "fp16")
    assert form.notes == ("T4 has no bf16: fp16 is used instead",)
    refused = resolve(spec, t4, "fp8")
    assert isinstance(refused, Infeasible)
    assert refused.reason is RejectionReason.PRECISION_UNSUPPORTED


@pytest.mark.parametrize("chip", ["T4", "V100 SXM2 16GB"])
def test_bf16_is_never_recommended_where_the_chip_lacks_it(chip: str) -> None:
    found = good(model("phi-3-mini-4k"), machine(chip), precision="bf16", max_concurrency=1)
    assert found.layout.precision == "fp16"
    assert any("fp16 is used instead" in note for note in found.notes)


def test_llama_2_7b_with_its_whole_context_does_not_fit_a_t4() -> None:
    # 6,738,415,616 x 2 B = 12.55 GiB of weights and 4,096 x 524,288 B = 2.0 GiB of cache: 14.55 of 14.6 visible.
    refused = bad(model("llama-2-7b"), instance("g4dn.xlarge"), precision="bf16", input_tokens=4000, output_tokens=96)
    assert refused.reason is RejectionReason.OUT_OF_MEMORY
    assert float(refused.figures["required_gib_per_accelerator"]) > 14.55


@pytest.mark.parametrize(
    ("chip", "native"),
    [("B200 SXM 180GB", True), ("RTX PRO 6000 Blackwell Server", True), ("H100 SXM5 80GB", False), ("L40S", False)],
)
def test_fp4_arithmetic_is_blackwell_s_among_nvidia_chips(chip: str, native: bool) -> None:
    assert is_native(machine(chip), "fp4") is native
    form = resolve(model("llama-3.1-8b"), machine(chip), "fp4")
    assert isinstance(form, Format)
    assert form.native is native
    assert form.compute == ("fp4" if native else "bf16")


def test_chips_with_bf16_only_take_fp16_models_in_bf16() -> None:
    form = resolve(model("llama-2-7b"), machine("TPU v5e"), None)
    assert isinstance(form, Format)
    assert form.weights == "bf16"
    assert "TPU v5e has no fp16" in form.notes[0]


def test_a_cpu_without_16_bit_arithmetic_computes_in_fp32() -> None:
    from pricing.model import AcceleratorKind

    old = plain("Old CPU", kind=AcceleratorKind.CPU, compute_capability=None, peak_tflops={"fp32": 3.0})
    form = resolve(model("llama-3.1-8b"), old, None)
    assert isinstance(form, Format)
    assert (form.weights, form.compute) == ("fp32", "fp32")


def test_a_checkpoint_in_mxfp4_keeps_its_own_widths() -> None:
    # Byte count of the published gpt-oss-20b checkpoint: 13,761,264,768.
    found = good(model("gpt-oss-20b"), machine("H100 SXM5 80GB"), max_concurrency=1)
    assert found.layout.precision == "mxfp4"
    assert found.memory.lines[0].gib == pytest.approx(13_761_264_768 / 2**30, rel=0.02)
    assert any("compute runs in bf16" in note for note in found.notes)


def test_unknown_format_says_what_is_known() -> None:
    refused = resolve(model("llama-3.1-8b"), plain(), "int3")
    assert isinstance(refused, Infeasible)
    assert "int4" in refused.detail


@pytest.mark.parametrize("chip", ["H100 SXM5 80GB", "B200 SXM 180GB"])
@pytest.mark.parametrize("asked", ["fp4", "mxfp4"])
def test_four_bits_asked_of_a_four_bit_checkpoint_are_its_own(chip: str, asked: str) -> None:
    # Published size of the gpt-oss-120b checkpoint: 60.8 GiB. Attention, routers, embedding and head are 16-bit in it.
    found = good(model("gpt-oss-120b"), machine(chip), precision=asked, max_concurrency=1)
    assert found.memory.lines[0].gib == pytest.approx(60.8, abs=0.1)
    assert found.layout.precision == "mxfp4"
    said = any("keeps its own tensors" in note for note in found.notes)
    assert said is (asked == "fp4")
    # Another width is another checkpoint: 8 bits for what can be converted, so more than 4-bit experts.
    wider = good(model("gpt-oss-120b"), machine("H200 SXM 141GB"), precision="fp8", max_concurrency=1)
    assert wider.layout.precision == "fp8"
    assert wider.memory.lines[0].gib > 100


def test_a_plain_checkpoint_is_converted_as_asked() -> None:
    form = resolve(model("llama-3.1-8b"), machine("B200 SXM 180GB"), "fp4")
    assert isinstance(form, Format)
    assert not form.stored
    assert form.weights == "fp4"
