"""Memory of serving, against hand counts, published files and start-up logs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_cases import bad, good, instance, machine, model, one

from planner.models import counting
from planner.models.counting import max_cached_tokens
from planner.perf.memory import (
    activation_bytes,
    device_weights,
    inference_memory,
    kv_bytes_per_request,
    kv_bytes_per_token,
)
from planner.perf.model import Infeasible, MemoryFit, RejectionReason
from planner.perf.precision import Format, resolve
from pricing.model import InterconnectKind

GIB = 2**30
BF16 = Format(weights="bf16", compute="bf16", wide="bf16", native=True)


def line(fit: MemoryFit, name: str) -> float:
    return next(x.gib for x in fit.lines if x.name == name)


def test_8b_with_64_requests_of_2000_tokens() -> None:
    # 8,030,261,248 x 2 B / 2**30 = 14.958 GiB; 64 x 2,000 x 131,072 B / 2**30 = 15.625 GiB.
    fit = good(model("llama-3.1-8b"), machine("H100 SXM5 80GB"), max_concurrency=64).memory
    assert line(fit, "weights") == pytest.approx(14.958, abs=5e-4)
    assert line(fit, "kv_cache") == 15.625
    assert fit.fits
    assert fit.available_gib_per_accelerator == pytest.approx(79.1 * 0.9)


def test_cache_rows_exist_per_kv_head() -> None:
    assert kv_bytes_per_token(model("llama-3.1-8b")) == 2 * 32 * 8 * 128 * 2
    assert kv_bytes_per_token(model("llama-3.1-8b"), tp=4) == 2 * 32 * 2 * 128 * 2
    assert kv_bytes_per_token(model("llama-3.1-8b"), tp=16) == 2 * 32 * 1 * 128 * 2  # repeated, not halved


def test_mla_s_latent_is_replicated() -> None:
    spec = model("deepseek-v3")
    assert kv_bytes_per_token(spec) == kv_bytes_per_token(spec, tp=8) == 61 * (512 + 64) * 2


def test_int8_weights_do_not_make_an_int8_cache() -> None:
    assert kv_bytes_per_request(model("qwen2.5-7b"), 2072, 1000) == 3072 * 57344
    fit = good(
        model("qwen2.5-7b"),
        machine("A100 SXM4 80GB"),
        precision="int8",
        input_tokens=2072,
        output_tokens=1000,
        max_concurrency=1,
    ).memory
    assert line(fit, "kv_cache") == 0.1640625


@pytest.mark.parametrize(
    ("gib", "tokens", "context", "fits"), [(2.89, 23648, 29000, False), (3.81, 31232, 20000, True)]
)
def test_cache_capacity_in_blocks(gib: float, tokens: int, context: int, fits: bool) -> None:
    # 2.89 GiB / 131,072 B = 23,675 tokens; 3.81 GiB: 31,212. Logs of a running server, blocks of 16.
    room = max_cached_tokens(model("llama-3.1-8b"), gib * 2**30)
    assert room is not None
    assert room == pytest.approx(tokens, rel=0.005)
    assert room % 16 == 0
    assert (room >= context) is fits


def test_windowed_cache_lies_between_its_bounds() -> None:
    # gpt-oss-20b, 32 x 8,192 tokens: 24 layers in full 12.0 GiB; 12 of them only 128 tokens deep: 6.09 GiB.
    spec = model("gpt-oss-20b")
    full = 32 * kv_bytes_per_request(spec, 8000, 192) / GIB
    windowed = 32 * kv_bytes_per_request(spec, 8000, 192, windowed=True) / GIB
    assert full == pytest.approx(12.0, rel=1e-3)
    assert windowed == pytest.approx(6.09, rel=0.01)
    found = good(spec, machine("H100 SXM5 80GB"), input_tokens=8000, output_tokens=192, max_concurrency=32)
    assert line(found.memory, "kv_cache") == pytest.approx(full)  # the fit rests on the upper bound, and says so
    assert any("full length" in note for note in found.notes)


@pytest.mark.parametrize(
    ("chip", "count", "fits"),
    [("T4", 1, False), ("A10G", 1, False), ("L40S", 1, False), ("H100 SXM5 80GB", 1, True), ("A10G", 4, True)],
)
def test_every_expert_must_be_in_memory(chip: str, count: int, fits: bool) -> None:
    spec = model("qwen3-30b-a3b")
    assert device_weights(spec, BF16).total == pytest.approx(61_064_245_248, rel=1e-6)
    outcome = one(
        spec, machine(chip, count, InterconnectKind.PCIE), input_tokens=8000, output_tokens=192, max_concurrency=1
    )
    assert isinstance(outcome, Infeasible) is not fits


@pytest.mark.parametrize(("chip", "fits"), [("A100 SXM4 40GB", False), ("H100 SXM5 80GB", True)])
def test_4_bit_files_are_wider_than_4_bits(chip: str, fits: bool) -> None:
    # The published q4_k_m file of Llama-3.1-70B has 42.52 GB, not 35.3.
    spec = model("llama-3.1-70b")
    form = resolve(spec, machine(chip), "gguf-q4_k_m")
    assert isinstance(form, Format)
    assert 41e9 < device_weights(spec, form).total < 44e9
    outcome = one(spec, machine(chip), precision="gguf-q4_k_m", input_tokens=4000, output_tokens=96, max_concurrency=1)
    assert isinstance(outcome, Infeasible) is not fits


def test_an_eighth_of_an_l4_holds_no_7b_in_int4() -> None:
    # 2,861 MiB x 22.0/22.35 x 0.9 = 2.475 GiB; 6.48e9 x 4.125 / 8 + 0.26e9 x 2 = 3.6 GiB of weights.
    h = instance("g6f.xlarge")
    assert h.fraction == 0.125
    assert h.memory_bandwidth_gb_s == pytest.approx(300 / 8)
    assert h.peak_tflops["bf16"] == pytest.approx(121 / 8)
    refused = bad(model("llama-2-7b"), h, precision="int4", input_tokens=100, output_tokens=10)
    assert refused.reason is RejectionReason.OUT_OF_MEMORY
    assert float(refused.figures["available_gib_per_accelerator"]) == pytest.approx(2.475, abs=0.005)


def test_activations_match_a_start_up_log() -> None:
    # Two starts of an 8B model on one card: KV room 3.81 GiB with steps of 20,000 tokens, 2.89 with 29,000.
    spec = model("llama-3.1-8b")
    seen = (3.81 - 2.89) * GIB / 9000
    assert (activation_bytes(spec, 29000) - activation_bytes(spec, 20000)) / 9000 == pytest.approx(seen, rel=0.02)


def test_tensor_parallel_weights_of_one_device() -> None:
    # Qwen2.5-7B, TP 8 would repeat its 4 KV heads: K and V projections 28 x 3,584 x 4 x 256 = 102,760,448 numbers are halved, not cut in 8.
    spec = model("qwen2.5-7b")
    whole, half = device_weights(spec, BF16), device_weights(spec, BF16, 2)
    norms = (2 * 28 + 1) * 3584 * 2
    assert whole.total == spec.parameters_total * 2
    assert half.total == pytest.approx((whole.total - norms) / 2 + norms, rel=1e-9)
    eighth = device_weights(spec, BF16, 8)
    assert eighth.total == pytest.approx(
        (whole.total - norms) / 8 + norms + 102_760_448 * 2 * (1 / 4 - 1 / 8), rel=1e-6
    )


@given(
    precision=st.sampled_from(["bf16", "fp8", "int8", "int4", "fp4", "mxfp4"]),
    name=st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3"]),
)
def test_device_weights_are_the_model_room_s_bytes(precision: str, name: str) -> None:
    spec = model(name)
    form = Format(weights=precision, compute="bf16", wide="bf16", native=False)
    assert device_weights(spec, form).total == pytest.approx(counting.weight_bytes(spec, precision), rel=1e-6)


@given(tp=st.sampled_from([1, 2, 4, 8]), concurrency=st.integers(1, 200), tokens=st.integers(1, 4000))
def test_required_is_the_sum_of_its_lines_and_grows_with_load(tp: int, concurrency: int, tokens: int) -> None:
    spec, h = model("llama-3.1-8b"), machine("H100 SXM5 80GB", 8)

    def fit(n: int, t: int) -> MemoryFit:
        return inference_memory(spec, h, BF16, kv_bits=16, tp=tp, input_tokens=t, output_tokens=t, concurrency=n)

    small = fit(concurrency, tokens)
    assert small.required_gib_per_accelerator == pytest.approx(sum(x.gib for x in small.lines))
    assert fit(concurrency + 1, tokens).required_gib_per_accelerator > small.required_gib_per_accelerator
    assert fit(concurrency, tokens + 1).required_gib_per_accelerator >= small.required_gib_per_accelerator
    assert (
        fit(concurrency, tokens + 8).required_gib_per_accelerator > small.required_gib_per_accelerator
    )  # a page of 16


def test_detail_names_the_figures() -> None:
    refused = bad(model("llama-3.1-405b"), instance("p5.48xlarge"), precision="bf16")
    # 405.85e9 x 2 B / 8 = 94.5 GiB a device against 79.1 x 0.9 = 71.2.
    assert refused.reason is RejectionReason.OUT_OF_MEMORY
    assert refused.detail.startswith("needs 9")
    assert "on each of 8" in refused.detail
    assert "71.2 available" in refused.detail


def test_cpu_types_keep_weights_and_cache_in_the_instance_s_memory() -> None:
    found = good(model("llama-3.1-8b"), instance("m7i.8xlarge"), max_concurrency=4)
    assert found.layout.tensor_parallel == 1
    assert found.memory.available_gib_per_accelerator == pytest.approx(128 * 0.9)
    refused = bad(model("llama-3.1-8b"), instance("m7i.xlarge"))
    assert refused.reason is RejectionReason.OUT_OF_MEMORY
