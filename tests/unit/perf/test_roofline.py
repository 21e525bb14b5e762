"""The roofline against hand calculations, and the properties physics asks of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_cases import good, instance, machine, model, one, plain, requests

from planner.perf import llm
from planner.perf.collectives import all_reduce_s
from planner.perf.inference import evaluate_inference
from planner.perf.model import Evaluation, InferenceWork
from planner.perf.precision import Format
from pricing.model import InterconnectKind

BF16 = Format(weights="bf16", compute="bf16", wide="bf16", native=True)


def ideal(bandwidth: float = 1e12, flops: float = 1e14, link: float = 3e11, latency: float = 0.0) -> llm.Machine:
    a = np.asarray
    return llm.Machine(
        weights_bytes_per_s=a(bandwidth),
        cache_bytes_per_s=a(bandwidth),
        narrow_flops=a(2 * flops),
        wide_flops=a(flops),
        attention_flops=a(flops),
        expert_share=a(1.0),
        routing_overhead_s=a(0.0),
        expert_overhead_s=a(0.0),
        activation_bytes_per_s=a(np.inf),
        ramp_tokens=a(0.0),
        unhidden=a(0.0),
        link_latency_s=a(latency),
        link_bytes_per_s=a(link),
        layer_overhead_s=a(0.0),
        step_overhead_s=a(0.0),
        sequence_overhead_s=a(0.0),
    )


def step(name: str, b: float, context: tuple[int, int]) -> llm.Step:
    shape = llm.shape_of(model(name), BF16, kv_bits=16, tp=1, input_tokens=context[0], output_tokens=context[1])
    return llm.decode_step(shape, ideal(), np.asarray(float(b)))


def test_decode_of_one_request_is_weights_and_cache_over_bandwidth() -> None:
    # Llama-3.1-8B: all but the embedding table, 8,030,261,248 - 525,336,576 = 7,504,924,672 numbers, 2 B each, at 1 TB/s;
    # cache of 1,000 + 1,000 / 2 tokens x 131,072 B.
    found = step("llama-3.1-8b", 1, (1000, 1000))
    assert float(found.classes.sum()) == pytest.approx(7_504_924_672 * 2 / 1e12, rel=1e-9)
    assert float(found.attention) == pytest.approx(1500 * 131_072 / 1e12, rel=1e-9)
    assert float(found.total) == pytest.approx(0.0150098 + 0.0001966, rel=1e-4)


def test_decode_of_a_large_batch_is_compute() -> None:
    # 400 requests: 2 FLOPs x 7,504,657,408 matrix numbers x 400 over 100 TFLOP/s (ridge at 100 requests).
    found = step("llama-3.1-8b", 400, (100, 1))
    assert float(found.classes.sum()) == pytest.approx(2 * 7_504_658_432 * 400 / 1e14, rel=1e-3)


def test_narrow_weights_are_widened_once_a_tile() -> None:
    # Llama-3.1-8B in int4: 32 x (2 x 4,096^2 + 2 x 4,096 x 1,024 + 3 x 4,096 x 14,336) = 6,979,321,856 narrow numbers, 1e12 of them widened a
    # second. 6,400 tokens are 100 tiles of 64: 2 FLOPs x numbers x 6,400 over 100 TFLOP/s and 100 passes. One token is one pass.
    numbers = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    form = Format(weights="int4", compute="bf16", wide="bf16", native=False)
    m = replace(ideal(), widened_per_s=np.asarray(1e12))
    shape = llm.shape_of(model("llama-3.1-8b"), form, kv_bits=16, tp=1, input_tokens=1000, output_tokens=1000)
    body = slice(0, llm.HEAD)
    for tokens, passes in ((6400.0, 100.0), (1.0, 1.0), (64.0, 1.0), (96.0, 1.5)):
        found = llm.products_s(shape.weight_bytes, shape.flops_per_token, shape, m, np.asarray(tokens))[body].sum()
        computed = 2 * numbers * tokens / 1e14 + numbers * passes / 1e12
        read = numbers * 4.125 / 8 / 1e12
        assert found == pytest.approx(max(computed, read), rel=1e-6), tokens
    native = replace(form, native=True)
    plainly = llm.shape_of(model("llama-3.1-8b"), native, kv_bits=16, tp=1, input_tokens=1000, output_tokens=1000)
    assert not plainly.widened.any()


def test_touched_experts_are_widened_each_for_its_own_tokens() -> None:
    # gpt-oss-20b: 24 layers x 32 experts x 3 x 2,880^2 numbers in mxfp4, 4 experts a token, attention in bf16. One token widens 4/32 of them;
    # 51,200 tokens are 6,400 an expert, 100 tiles.
    spec = model("gpt-oss-20b")
    numbers = 24 * 32 * 3 * 2880**2
    form = Format(weights="mxfp4", compute="bf16", wide="bf16", native=False, stored=True)
    shape = llm.shape_of(spec, form, kv_bits=16, tp=1, input_tokens=1000, output_tokens=1000)
    assert [c for c, w in zip(llm.CLASSES, shape.widened, strict=True) if w] == ["expert"]
    slow = replace(ideal(bandwidth=1e18, flops=1e21), widened_per_s=np.asarray(1e12))
    for tokens, passes in ((1.0, 4 / 32), (51_200.0, 100.0)):
        found = llm.products_s(shape.weight_bytes, shape.flops_per_token, shape, slow, np.asarray(tokens))[llm.EXPERT]
        assert found == pytest.approx(numbers * passes / 1e12, rel=1e-3), tokens


def test_a_tied_head_is_read_though_it_is_not_stored() -> None:
    spec = model("gemma-2-9b")
    shape = llm.shape_of(spec, BF16, kv_bits=16, tp=1, input_tokens=10, output_tokens=10)
    assert float(shape.weight_bytes[llm.HEAD]) == 256_000 * 3584 * 2


def test_experts_are_read_as_far_as_the_batch_touches_them() -> None:
    # Mixtral: 8 experts, 2 a token. One token touches 2 of 8; two touch 1 - 0.75**2 = 0.4375; 32 nearly all.
    share = llm.touched_share(np.asarray(0.25), np.asarray([1.0, 2.0, 32.0]))
    assert share == pytest.approx([0.25, 0.4375, 0.9999], abs=1e-4)
    experts = 32 * 8 * 3 * 4096 * 14336  # 45,097,156,608 numbers
    for b, fraction in ((1, 0.25), (4, 1 - 0.75**4), (32, 1 - 0.75**32)):
        found = step("mixtral-8x7b", b, (100, 1))
        assert float(found.classes[llm.EXPERT]) == pytest.approx(experts * 2 * fraction / 1e12, rel=1e-6)


def test_moe_decode_is_not_costed_by_active_parameters() -> None:
    spec, h = model("mixtral-8x7b"), machine("H200 SXM 141GB")
    dense = model("mistral-7b-v0.3")  # the same attention, no experts
    ratio = requests(good(spec, h, max_concurrency=32)) / requests(good(spec, h, max_concurrency=1))
    same = requests(good(dense, h, max_concurrency=32)) / requests(good(dense, h, max_concurrency=1))
    assert ratio < 0.8 * same  # the batch pays for more experts


def test_prompts_beside_decoding_read_the_weights_once() -> None:
    # Llama-3.1-8B, 1,024 prompt tokens beside 16 requests at 1 TB/s and 2e15 FLOP/s: a prefill step of its own takes 15.0 ms to read the
    # weights (7.1 ms of FLOPs hide in it). Together: 1,040 tokens x 2 x 6.98e9 FLOP = 7.3 ms hide in the same 15.0 ms, so the prompt adds
    # attention alone: 32 layers x 2 x 32 heads x 256 x 1,024 x 1,025 / 2 FLOP, and one position of the head.
    shape = llm.shape_of(model("llama-3.1-8b"), BF16, kv_bits=16, tp=1, input_tokens=1024, output_tokens=64)
    fast = ideal(flops=2e15)
    alone = llm.prefill_of(shape, fast, 1024.0, np.asarray(1024.0))
    beside = llm.prefill_of(shape, fast, 1024.0, np.asarray(1024.0), beside=np.asarray(16.0))
    attention, head = 32 * 2 * 32 * 256 * 1024 * 1025 / 2 / 2e15, 2 * 525_336_576 / 2e15
    assert float(alone.total) == pytest.approx(7_504_924_672 * 2 / 1e12 + attention + head, rel=1e-3)
    assert float(beside.total) == pytest.approx(attention + head, rel=0.01)
    assert float(beside.shared) == pytest.approx(float(alone.total - beside.total), rel=1e-9)


@given(b=st.integers(1, 400), prompt=st.integers(16, 4000), name=st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b"]))
def test_what_decoding_costs_need_not_be_computed_twice(b: int, prompt: int, name: str) -> None:
    shape = llm.shape_of(model(name), BF16, kv_bits=16, tp=1, input_tokens=prompt, output_tokens=100)
    flying, tokens = np.asarray([float(b)]), np.asarray([float(prompt)])
    decode = llm.decode_step(shape, ideal(), flying)
    anew = llm.prefill_of(shape, ideal(), float(prompt), tokens, beside=flying)
    known = llm.prefill_of(shape, ideal(), float(prompt), tokens, beside=flying, decoding=decode.classes)
    assert float(known.total[0]) == pytest.approx(float(anew.total[0]), rel=1e-12)
    # And what is saved is what one step of both takes less than one of each.
    both = llm.products_s(shape.weight_bytes, shape.flops_per_token, shape, ideal(), flying + tokens)
    apart = llm.products_s(shape.weight_bytes, shape.flops_per_token, shape, ideal(), tokens) + decode.classes
    body = [i for i in range(len(llm.CLASSES)) if i != llm.HEAD]
    least = float((apart - both)[0, body].sum())
    assert float(anew.shared[0]) >= least * (1 - 1e-9)


def test_latent_attention_reads_the_latent() -> None:
    # DeepSeek-V3: 61 layers x 576 numbers x 2 B x 1,500 tokens, the same on every device of the group.
    for tp in (1, 8):
        shape = llm.shape_of(model("deepseek-v3"), BF16, kv_bits=16, tp=tp, input_tokens=1000, output_tokens=1000)
        assert float(shape.decode_cache_bytes) == 61 * 576 * 2 * 1500
        # Absorbed scores and values: 2 x 128 heads / T x (576 + 512) x 1,500 a layer.
        assert float(shape.decode_attention_flops) == pytest.approx(61 * 2 * 128 / tp * (576 + 512) * 1500)


def test_windows_bound_what_is_read() -> None:
    # Gemma-3-27B: 52 of 62 layers see 1,024 tokens, 10 see all; 2 x 16 KV heads x 128 numbers x 2 B = 8,192 B a layer and token.
    shape = llm.shape_of(model("gemma-3-27b"), BF16, kv_bits=16, tp=1, input_tokens=30_000, output_tokens=2_000)
    assert float(shape.decode_cache_bytes) == 8192 * (52 * 1024 + 10 * 31_000)


def test_steps_compiled_for_the_longest_sequence_read_all_of_it_from_every_rank() -> None:
    # 32,000 tokens in all 62 layers of Gemma-3-27B; Llama-3.1-8B on 16 chips of 2 ranks: 8 KV heads for 32 ranks, so each chip reads two
    # whole heads of 128 + 128 numbers, 2 B each, in 32 layers.
    gemma = llm.shape_of(
        model("gemma-3-27b"), BF16, kv_bits=16, tp=1, input_tokens=30_000, output_tokens=2_000, padded=True
    )
    assert float(gemma.decode_cache_bytes) == 8192 * 62 * 32_000
    llama = llm.shape_of(
        model("llama-3.1-8b"), BF16, kv_bits=16, tp=16, input_tokens=1024, output_tokens=64, padded=True, shards=2
    )
    assert float(llama.decode_cache_bytes) == 32 * 2 * 256 * 2 * 1088


def test_prefill_by_hand() -> None:
    # Llama-3.1-8B, 2,048 tokens in one step at 100 TFLOP/s: 2 x (32 x 218,103,808) x 2,048 + head 2 x 525,336,576
    # + causal attention 32 layers x 2 x 32 heads x 256 x 2,048 x 2,049 / 2.
    shape = llm.shape_of(model("llama-3.1-8b"), BF16, kv_bits=16, tp=1, input_tokens=2048, output_tokens=1)
    found = llm.prefill_of(shape, ideal(), 2048.0, np.asarray(2048.0))
    flops = 2 * 32 * 218_103_808 * 2048 + 2 * 525_336_576 + 32 * 2 * 32 * 256 * 2048 * 2049 / 2
    head_read = 525_336_576 * 2 / 1e12  # one position: the head is read, not computed
    norms = 65 * 4096 * 2 / 1e12
    assert float(found.total) == pytest.approx(flops / 1e14 + head_read + norms, rel=2e-3)


def test_all_reduce_by_hand() -> None:
    # Ring over 4: 2 x 3/4 of 8 MB at 300 GB/s = 40 µs, and latency 10 µs x (1 + log2 4) / 2 = 15 µs.
    a = np.asarray
    assert float(all_reduce_s(a(8e6), 4, a(10e-6), a(3e11))) == pytest.approx(55e-6)
    assert float(all_reduce_s(a(8e6), 1, a(10e-6), a(3e11))) == 0.0


def test_steady_state_by_hand() -> None:
    # B = 10, 100 output tokens, steps of 20 ms, prompts of 50 ms: 10 / (2 + 0.5) = 4 requests/s.
    assert float(llm.steady_requests_per_s(np.asarray(10.0), 100, np.asarray(0.02), np.asarray(0.05))) == pytest.approx(
        4.0
    )


SIZES = st.sampled_from(["llama-3.1-8b", "qwen2.5-7b", "mixtral-8x7b", "gpt-oss-20b", "gemma-2-9b"])
CHIPS = st.sampled_from(
    ["A100 SXM4 80GB", "H100 SXM5 80GB", "L40S", "H200 SXM 141GB", "RTX PRO 6000 Blackwell Server", "MI300X"]
)


@settings(max_examples=60)
@given(
    name=SIZES,
    chip=CHIPS,
    count=st.sampled_from([1, 2, 8]),
    i=st.integers(16, 3000),
    o=st.integers(2, 2000),
    b=st.integers(1, 64),
)
def test_never_faster_than_the_roofline(*, name: str, chip: str, count: int, i: int, o: int, b: int) -> None:
    spec, h = model(name), machine(chip, count)
    outcome = one(spec, h, input_tokens=i, output_tokens=o, max_concurrency=b)
    if not isinstance(outcome, Evaluation):
        return
    rates, layout = outcome.performance.rates, outcome.layout
    peak = max(h.peak_tflops[f] for f in ("bf16", "fp16", "fp8") if f in h.peak_tflops) * 1e12 * h.devices
    assert rates.requests_per_s is not None
    # Work of a request by its active matrix numbers alone cannot run above the peak of all devices.
    experts = sum(t.matmul_parameters for t in spec.tensors if t.tensor_class.value == "expert")
    dense = sum(t.matmul_parameters for t in spec.tensors if t.tower == "text") - experts
    share = next((f.experts_per_token / f.experts for f in spec.feed_forward if f.experts), 0.0)
    assert rates.requests_per_s * 2 * (dense + experts * share) * (o - 1) <= peak
    # Each decode step reads at least the dense part once per replica, at no more than the peak bandwidth of its devices.
    assert layout.replicas_per_instance is not None
    steps = rates.requests_per_s * o / (b * layout.replicas_per_instance)
    bits = 16 if layout.precision in ("bf16", "fp16") else 4
    read = dense * bits / 8 / (layout.tensor_parallel or 1)
    assert steps * read <= (h.memory_bandwidth_gb_s or 0) * 1e9
    assert (outcome.performance.mfu_fraction or 0) <= 1


@settings(max_examples=40)
@given(name=SIZES, chip=CHIPS, i=st.integers(16, 3000), more=st.integers(1, 3000), b=st.integers(1, 32))
def test_more_context_is_never_faster(name: str, chip: str, i: int, more: int, b: int) -> None:
    spec, h = model(name), machine(chip)
    short, long = (one(spec, h, input_tokens=n, output_tokens=200, max_concurrency=b) for n in (i, i + more))
    if isinstance(short, Evaluation) and isinstance(long, Evaluation):
        assert requests(long) <= requests(short) * (1 + 1e-9)


@settings(max_examples=40)
@given(name=SIZES, chip=CHIPS, b=st.integers(1, 63))
def test_a_larger_batch_within_memory_never_serves_less(name: str, chip: str, b: int) -> None:
    spec, h = model(name), machine(chip)
    one_, two = (one(spec, h, input_tokens=500, output_tokens=500, max_concurrency=n) for n in (b, b + 1))
    if isinstance(one_, Evaluation) and isinstance(two, Evaluation):
        # Mixtures may lose while the batch still touches new experts faster than it shares them.
        slack = 0.2 if spec.experts else 1e-9
        assert requests(two) >= requests(one_) * (1 - slack)


def test_narrow_weights_are_smaller_and_decode_faster() -> None:
    spec, h = model("llama-3.1-8b"), machine("A100 SXM4 80GB")
    found = [good(spec, h, precision=p, max_concurrency=1) for p in ("bf16", "fp8", "int4")]
    weights = [f.memory.lines[0].gib for f in found]
    rates = [f.performance.rates.output_tokens_per_s or 0 for f in found]
    assert weights == sorted(weights, reverse=True)
    assert rates == sorted(rates)


def test_a_chip_twice_as_good_serves_twice_but_for_the_overhead() -> None:
    spec = model("llama-3.1-8b")
    h = plain()
    twice = replace(h, memory_bandwidth_gb_s=2000.0, peak_tflops={k: 2 * v for k, v in h.peak_tflops.items()})
    slow, fast = (requests(good(spec, x, max_concurrency=16)) for x in (h, twice))
    assert 1.5 < fast / slow <= 2.0


def test_replicas_add_up() -> None:
    spec = model("llama-3.1-8b")
    single = good(spec, instance("p5.4xlarge"), max_concurrency=32)
    eight = good(spec, instance("p5.48xlarge"), max_concurrency=32, tensor_parallel=1)
    assert eight.layout.replicas_per_instance == 8
    assert requests(eight) == pytest.approx(8 * requests(single))


def test_pcie_groups_pay_more_for_collectives() -> None:
    spec = model("llama-3.1-70b")
    switched = good(spec, machine("H100 SXM5 80GB", 4), max_concurrency=16, tensor_parallel=4)
    slots = good(spec, machine("H100 SXM5 80GB", 4, InterconnectKind.PCIE), max_concurrency=16, tensor_parallel=4)
    assert requests(slots) < requests(switched)


def test_the_answer_does_not_depend_on_the_company() -> None:
    spec, work = model("qwen2.5-7b"), InferenceWork()
    names = ["g5.xlarge", "g6e.12xlarge", "p4d.24xlarge", "inf2.24xlarge", "m7i.8xlarge"]
    together = evaluate_inference(spec, [instance(n) for n in names], work)
    for name, outcome in zip(names, together, strict=True):
        assert one(spec, instance(name)) == outcome
    assert evaluate_inference(spec, [instance(n) for n in reversed(names)], work) == together[::-1]
