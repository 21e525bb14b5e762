"""The search for the best layout: limits, reasons, notes, power, explanation, evidence, speed."""

from __future__ import annotations

import math
import re
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_cases import bad, chips, good, instance, machine, model, one, plain, requests, types

from planner.calibration.columns import shipped_measurements
from planner.calibration.model import Workload
from planner.perf.hardware import UnknownChipFigure, hardware_of
from planner.perf.inference import evaluate_inference
from planner.perf.intervals import NORMAL_90
from planner.perf.model import Basis, Evaluation, Infeasible, InferenceWork, LatencyLimits, RejectionReason
from planner.perf.parameters import CEILING, shipped
from planner.perf.precision import Format, resolve
from planner.perf.serving_parameters import by_level, request_keys, values_of
from planner.perf.serving_rates import machine as machine_at
from planner.perf.serving_rates import peaks_from, peaks_of
from pricing.model import AcceleratorKind, InterconnectKind

ONES = peaks_from(np.array([1.0, 1.0, 1.0, 16.0, 1.0, 1.0, 1.0]))
"""Peaks of one: usable rates on them are shares."""


def test_the_default_job_on_the_shipped_types() -> None:
    spec = model("qwen2.5-7b")
    names = [n for n, t in types().items() if t.accelerator_kind is not AcceleratorKind.CPU]
    outcomes = dict(zip(names, evaluate_inference(spec, [instance(n) for n in names], InferenceWork()), strict=True))
    for name in (
        "g5.xlarge",
        "g6e.xlarge",
        "p4d.24xlarge",
        "p5.48xlarge",
        "inf2.xlarge",
        "trn1.32xlarge",
        "g7e.2xlarge",
    ):
        found = outcomes[name]
        assert isinstance(found, Evaluation), (name, found)
        assert found.memory.fits
        assert found.performance.basis is Basis.MODELLED
        assert found.layout.precision == "bf16"
    for name in ("g4dn.xlarge", "g6f.xlarge", "p3.2xlarge"):  # 14.2 GiB of weights on 13.1, 2.5 and 14.2 GiB
        found = outcomes[name]
        assert not isinstance(found, Evaluation)
        assert found.reason is RejectionReason.OUT_OF_MEMORY


def test_a_whole_catalog_takes_milliseconds() -> None:
    spec, all_types = model("qwen2.5-7b"), [instance(n) for n in types()]
    evaluate_inference(spec, all_types, InferenceWork())  # tables are read once
    best = min(_timed(lambda: evaluate_inference(spec, all_types, InferenceWork())) for _ in range(7))
    assert best < 0.2  # 15 ms on an idle core; a busy test machine gets room


def _timed(work: object) -> float:
    begun = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - begun


def test_limits_choose_the_largest_concurrency_that_meets_them() -> None:
    spec, h = model("llama-3.1-8b"), machine("A100 SXM4 80GB")
    free = good(spec, h)
    held = good(spec, h, limits=LatencyLimits(tpot_ms=25.0))
    assert held.performance.tpot_ms is not None
    assert held.performance.tpot_ms.p99 <= 25.0
    assert free.layout.max_concurrency is not None
    assert held.layout.max_concurrency is not None
    assert 1 <= held.layout.max_concurrency < free.layout.max_concurrency
    assert requests(held) < requests(free)


def test_a_percentile_of_50_is_easier_than_99() -> None:
    spec, h = model("llama-3.1-8b"), machine("A100 SXM4 80GB")
    strict = good(spec, h, limits=LatencyLimits(ttft_ms=150.0, percentile=99))
    loose = good(spec, h, limits=LatencyLimits(ttft_ms=150.0, percentile=50))
    assert requests(strict) <= requests(loose)
    assert loose.performance.ttft_ms is not None
    assert loose.performance.ttft_ms.p50 <= 150.0


def test_tensor_parallelism_is_widened_to_meet_a_limit() -> None:
    # 70B in bf16: 141 GB at 2.04 TB/s cannot be read in less than 34.6 ms by two devices, in 8.6 ms by eight.
    spec, h = model("llama-3.1-70b"), machine("A100 SXM4 80GB", 8)
    assert good(spec, h, limits=LatencyLimits(tpot_ms=40.0)).layout.tensor_parallel == 8
    refused = bad(spec, machine("A100 SXM4 80GB", 2), limits=LatencyLimits(tpot_ms=34.0))
    assert refused.reason is RejectionReason.SLO_INFEASIBLE
    assert float(refused.figures["best_tpot_ms"]) > 34.6
    assert "limit 34" in refused.detail


def test_for_latency_few_requests_on_a_wide_replica() -> None:
    # 141 GB of weights: two 80 GB devices could hold them, eight read them four times as fast.
    spec, h = model("llama-3.1-70b"), machine("H100 SXM5 80GB", 8)
    fast = good(spec, h, objective="latency")
    assert fast.layout.tensor_parallel == 8
    assert fast.layout.max_concurrency == 1
    assert requests(fast) < requests(good(spec, h))
    # a fixed degree and a fixed concurrency stay what was asked
    asked = good(spec, h, objective="latency", tensor_parallel=4, max_concurrency=16)
    assert (asked.layout.tensor_parallel, asked.layout.max_concurrency) == (4, 16)


def test_for_latency_no_machine_is_slower_than_its_throughput_layout() -> None:
    spec = model("llama-3.1-70b")
    hardware = {n: instance(n) for n, t in types().items() if t.accelerator_kind is not AcceleratorKind.CPU}
    fast, full = (
        evaluate_inference(spec, list(hardware.values()), InferenceWork(objective=o)) for o in ("latency", "throughput")
    )
    e2e: dict[str, float] = {}
    for name, one_, other in zip(hardware, fast, full, strict=True):
        assert isinstance(one_, Evaluation) == isinstance(other, Evaluation), name
        if isinstance(one_, Evaluation) and isinstance(other, Evaluation):
            assert one_.performance.e2e_ms is not None
            assert other.performance.e2e_ms is not None
            assert one_.performance.e2e_ms.p99 <= other.performance.e2e_ms.p99 * (1 + 1e-9), name
            assert one_.memory.fits
            e2e[name] = one_.performance.e2e_ms.p99
    # By bandwidth of eight devices: B200 64 TB/s, H200 38, H100 27, A100 16 and 12, A10G 4.8 over PCIe.
    order = ("p6-b200.48xlarge", "p5en.48xlarge", "p5.48xlarge", "p4de.24xlarge", "p4d.24xlarge", "g5.48xlarge")
    assert sorted(order, key=e2e.__getitem__) == list(order), {n: e2e[n] for n in order}


def test_a_ranking_by_latency_asks_for_it() -> None:
    from planner.recommend.request import EstimateRequest, RecommendRequest
    from planner.services.recommend import inference_work

    for sort, objective in (("latency", "latency"), ("cost", "throughput"), ("energy", "throughput")):
        assert inference_work(RecommendRequest(model="70b", sort=sort)).objective == objective
    assert inference_work(EstimateRequest(model="70b", instance="g5.xlarge")).objective == "throughput"


def test_for_latency_limits_still_hold_and_words_are_checked() -> None:
    spec, h = model("llama-3.1-70b"), machine("A100 SXM4 80GB", 2)
    refused = bad(spec, h, objective="latency", limits=LatencyLimits(tpot_ms=34.0))  # see above: 34.6 ms at least
    assert refused.reason is RejectionReason.SLO_INFEASIBLE
    with pytest.raises(ValueError, match="objective 'fast' is not one of throughput, latency"):
        InferenceWork(objective="fast")


def test_allowed_quantisation_is_taken_where_it_serves_more() -> None:
    spec, h = model("llama-3.1-8b"), machine("L40S")
    plain_, allowed = good(spec, h), good(spec, h, allowed_precisions=("fp8", "int4"))
    assert plain_.layout.precision == "bf16"
    assert requests(allowed) > requests(plain_)
    assert allowed.layout.precision in {"fp8", "int4"}


def test_a_request_longer_than_the_context_cannot_be_served() -> None:
    refused = bad(model("llama-2-7b"), machine("H100 SXM5 80GB"), input_tokens=4000, output_tokens=200)
    assert refused.reason is RejectionReason.LAYOUT_IMPOSSIBLE
    assert "4096" in refused.detail


def test_fixed_concurrency_that_does_not_fit_says_what_it_needs() -> None:
    refused = bad(model("llama-3.1-8b"), machine("A10G"), max_concurrency=64)
    assert refused.reason is RejectionReason.OUT_OF_MEMORY
    assert "for 64 requests" in refused.detail


def test_devices_that_no_replica_uses_are_named_and_idle() -> None:
    spec, h = model("qwen2.5-7b"), machine("A10G", 3, InterconnectKind.PCIE)
    found = good(spec, h, tensor_parallel=2)
    assert any("1 of 3 devices stay idle" in note for note in found.notes)
    assert found.performance.power_w is not None
    assert 0.3 * 300 + 2 * 0.7 * 300 <= found.performance.power_w <= 0.3 * 300 + 2 * 300


def test_engines_differ_by_their_overheads() -> None:
    spec, h = model("llama-3.1-8b"), machine("A100 SXM4 80GB")
    rates = {e: requests(good(spec, h, engine=e, max_concurrency=1)) for e in ("tensorrt-llm", "vllm", "pytorch")}
    assert min(rates["tensorrt-llm"], rates["vllm"]) > rates["pytorch"]
    assert any("continuous batching" in note for note in good(spec, h, engine="pytorch").notes)


def test_mfu_is_work_over_the_peak_of_all_devices() -> None:
    # Llama-3.1-8B, 1,000 + 1,000 tokens: by hand, prompt 2 x 6,979,321,856 x 1,000 + head + attention 32 x 2 x 32 x 256 x 500,500;
    # output 999 tokens x (2 x 7,504,658,432 + 32 x 2 x 32 x 256 x 1,500).
    found = good(model("llama-3.1-8b"), machine("H100 SXM5 80GB", 2), max_concurrency=32, tensor_parallel=1)
    prompt = 2 * 6_979_321_856 * 1000 + 2 * 525_336_576 + 32 * 2 * 32 * 256 * 500_500
    output = 999 * (2 * (6_979_321_856 + 525_336_576) + 32 * 2 * 32 * 256 * 1500)
    assert found.performance.mfu_fraction == pytest.approx(
        requests(found) * (prompt + output) / (989.4e12 * 2), rel=1e-3
    )


def test_terms_explain_the_rate() -> None:
    found = good(model("mixtral-8x7b"), machine("H200 SXM 141GB", 2), max_concurrency=4)
    terms = {t.name: t for t in found.performance.terms}
    step = terms["decode step"].value
    parts = [t.value for n, t in terms.items() if n.startswith("decode ") and n != "decode step"]
    assert isinstance(step, float)
    assert sum(float(p) for p in parts) == pytest.approx(step, rel=1e-9)
    assert any("memory-bound" in n for n in terms)
    b, o = float(terms["concurrency per replica"].value), 1000
    per_request = o * step / 1e3 / b + float(terms["prefill per request"].value) / 1e3
    replicas = found.layout.replicas_per_instance or 0
    assert requests(found) == pytest.approx(replicas / per_request, rel=1e-9)
    # 2 of 8 experts a token; of 4 tokens 1 + 3 x the share that chooses experts of its own count as independent.
    own = shipped("serving").values({}, 1)[0, shipped("serving").index("own_routing")]
    assert float(terms["experts touched per step"].value) == pytest.approx(1 - 0.75 ** (1 + 3 * own))
    share = found.performance.prefill_time_fraction
    assert share == pytest.approx(float(terms["prefill per request"].value) / 1e3 / per_request, rel=1e-9)


N = r"([\d.]+(?:e[+-]?\d+)?)"
"""A number as a formula prints it."""


@pytest.mark.parametrize("name", ["llama-3.1-70b", "mixtral-8x7b", "gpt-oss-20b", "deepseek-v3"])
def test_a_step_can_be_redone_from_what_is_printed(name: str) -> None:
    chip, devices = ("H200 SXM 141GB", 8) if name == "deepseek-v3" else ("H100 SXM5 80GB", 4)
    degree = {"mixtral-8x7b": 4, "deepseek-v3": 8}.get(name)  # one group: with several a step is that of one of them
    found = good(model(name), machine(chip, devices), input_tokens=3000, output_tokens=200, tensor_parallel=degree)
    terms = {t.name: t for t in found.performance.terms}
    for prefix, total in (("decode ", "decode step"), ("prefill ", "prefill per request")):
        parts = [float(t.value) for n, t in terms.items() if n.startswith(prefix) and n != total]
        assert sum(parts) == pytest.approx(float(terms[total].value), rel=1e-9)
    compute = rf"{N} FLOP / \({N} TFLOP/s x {N}\)"
    traffic = rf"{N} B / \({N} GB/s x {N}\)"
    # reading the cache: requests x bytes over bandwidth, or requests x FLOPs over the peak
    attention = next(t for n, t in terms.items() if n.startswith("decode attention over KV cache"))
    parsed = re.search(rf"{N} tokens x {compute} and {N} requests x {traffic}", attention.formula)
    assert parsed
    b, flops, peak, e_c, b_again, size, bandwidth, e_kv = map(float, parsed.groups())
    assert b == b_again == float(terms["concurrency per replica"].value)
    assert size == pytest.approx(float(terms["KV cache read per request and step"].value), rel=1e-5)
    longer = max(b * flops / (peak * 1e12 * e_c), b * size / (bandwidth * 1e9 * e_kv))
    assert longer * 1e3 == pytest.approx(float(attention.value), rel=1e-4)
    # every class of products of a prompt
    classes = [t for n, t in terms.items() if n.startswith("prefill ") and "longer of" in t.formula]
    assert classes
    for term in classes:
        parsed = re.search(
            rf"{N} steps x \(the longer of \(?{N}(?: \+ {N}\))? tokens x {compute}(?: \+ {N} narrow weights x {N} passes / {N} widened a second)? "
            rf"and {traffic}(?: \+ {N} of the shorter)?"
            rf"(?: \+ {N} ms to start [a-z ]+)?\)(?: \+ {compute.replace('FLOP /', 'FLOP of one position /')})?",
            term.formula,
        )
        assert parsed, term.formula
        steps, tokens, ramp, flops, peak, e_c, *rest = (float(x or 0) for x in parsed.groups())
        numbers, passes, widened, size, bandwidth, e_w, unhidden, start, last, wide, e_l = rest
        compute_s, read_s = (tokens + ramp) * flops / (peak * 1e12 * e_c), size / (bandwidth * 1e9 * e_w)
        compute_s += numbers * passes / widened if numbers else 0.0
        step_s = max(compute_s, read_s) + unhidden * min(compute_s, read_s) + start / 1e3
        last_s = last / (wide * 1e12 * e_l) if last else 0.0
        assert (steps * step_s + last_s) * 1e3 == pytest.approx(float(term.value), rel=1e-4)
    scores = terms["prefill attention scores and values"]
    parsed = re.search(compute, scores.formula)
    assert parsed
    flops, peak, e_c = map(float, parsed.groups())
    assert flops / (peak * 1e12 * e_c) * 1e3 == pytest.approx(float(scores.value), rel=1e-4)
    # collectives and overhead of a decode step
    if found.layout.tensor_parallel != 1:
        reduces = terms["decode collectives"]
        parsed = re.search(
            rf"{N} x {N} layers x {N} µs; one all-reduce of {N} B over (\d+) = {N} µs .* bytes / {N} GB/s",
            reduces.formula,
        )
        assert parsed, reduces.formula
        each, layers, one_us, payload, ranks, latency_us, link = map(float, parsed.groups())
        one_s = latency_us * 1e-6 * (1 + math.log2(ranks)) / 2 + 2 * (ranks - 1) / ranks * payload / (link * 1e9)
        assert one_s * 1e6 == pytest.approx(one_us, rel=1e-4)
        assert each * layers * one_us / 1e3 == pytest.approx(float(reduces.value), rel=1e-4)
    overhead = terms["decode overhead"]
    parsed = re.search(
        rf"{N} layers x {N} µs (?:\+ {N} layers with experts x {N} µs )?\+ {N} ms \+ {N} requests x {N} µs",
        overhead.formula,
    )
    assert parsed, overhead.formula
    layers, layer_us, routed, routing_us, step_ms, b, request_us = (float(x or 0) for x in parsed.groups())
    assert (layers * layer_us + routed * routing_us) / 1e3 + step_ms + b * request_us / 1e3 == pytest.approx(
        float(overhead.value), rel=1e-4
    )


def test_the_cache_that_a_step_reads_is_context_times_bytes() -> None:
    # Llama-3.1-70B: 80 layers x 2 x 8 KV heads x 128 x 2 bytes = 327,680 bytes a token, a quarter of it on each of four devices;
    # at 3,000 + 200 / 2 tokens.
    found = good(
        model("llama-3.1-70b"), machine("H100 SXM5 80GB", 4), tensor_parallel=4, input_tokens=3000, output_tokens=200
    )
    term = next(t for t in found.performance.terms if t.name == "KV cache read per request and step")
    assert term.value == 327_680 / 4 * 3100
    assert term.formula == "mean context of 3000 + 200 / 2 = 3100 tokens x 81920 B a token on one device"


def test_chips_without_measurements_say_so_and_get_a_wider_interval() -> None:
    spec = model("llama-3.1-8b")
    known, new = good(spec, machine("H100 SXM5 80GB")), good(spec, machine("TPU v6e"))
    assert not any("no published LLM measurement" in n for n in known.notes)
    assert any("no published LLM measurement" in n for n in new.notes)
    known_width = known.performance.high_factor / known.performance.low_factor
    assert new.performance.high_factor / new.performance.low_factor > known_width
    for found in (known, new):
        assert found.performance.low_factor < 1 < found.performance.high_factor
        assert found.performance.sources


def test_few_measured_rows_do_not_make_a_chip_known() -> None:
    # The measured table has 2 rows of L4, one of them with a TPOT besides, and 85 of L40S; TPUs have none.
    notes = good(model("llama-3.1-8b"), machine("L4"), max_concurrency=1).notes
    assert any("few measurements behind it: 3 of L4, from 2 benchmarks;" in note for note in notes)
    assert not any("few measurements" in n for n in good(model("llama-3.1-8b"), machine("L40S")).notes)

    def width(chip: str) -> float:
        found = good(model("llama-3.1-8b"), machine(chip), max_concurrency=1).performance
        return found.high_factor / found.low_factor

    assert width("L40S") < width("TPU v6e")


def test_one_request_on_l4_is_near_the_bandwidth_floor() -> None:
    # Llama-3.1-8B in bf16: 8.03e9 less 0.525e9 of looked-up embeddings, times 2 bytes, over 300 GB/s is 50 ms. Reports from the field
    # are near 60 ms; an anecdote of one benchmark must not put it at 91.
    floor_ms = (8_030_261_248 - 525_336_576) * 2 / 300e9 * 1e3
    tpot = good(model("llama-3.1-8b"), machine("L4"), max_concurrency=1, input_tokens=128, output_tokens=128)
    assert tpot.performance.tpot_ms is not None
    assert floor_ms < tpot.performance.tpot_ms.p50 < 1.6 * floor_ms


def test_what_is_new_to_the_measurements_gets_a_wider_interval() -> None:
    spec, h = model("llama-3.1-8b"), machine("H100 SXM5 80GB", 4)

    def width(**work: Any) -> float:
        p = good(spec, h, **work).performance
        return p.high_factor / p.low_factor

    usual = width()
    assert width(engine="tgi") > usual  # no row of it
    assert width(engine="pytorch") > usual  # seven rows


def test_no_usable_rate_exceeds_the_ceiling_of_its_peak_on_any_chip_or_engine() -> None:
    spec = model("llama-3.1-8b")
    form = Format(weights="bf16", compute="bf16", wide="bf16", native=True)
    for name in types():
        h = instance(name)
        for engine in ("vllm", "tensorrt-llm", "sglang", "pytorch", "llama.cpp", "never-seen"):
            m = machine_at(values_of(request_keys(spec, h, form, engine, h.devices), shipped("serving")), ONES)
            for share in (m.weights_bytes_per_s, m.cache_bytes_per_s, m.narrow_flops, m.wide_flops, m.attention_flops):
                assert 0 < float(share) <= CEILING < 1
            assert min(float(m.layer_overhead_s), float(m.step_overhead_s), float(m.sequence_overhead_s)) > 0


def test_weight_only_formats_compute_no_faster_than_16_bits_and_alike_on_one_chip() -> None:
    # Their weights are widened to 16 bits and multiplied there: what is usable of the peaks cannot be more. Two formats of 4 bits differ by
    # their scales (4.125, 4.25 and 4.5 bits a number), not by half.
    spec = model("llama-3.1-8b")
    for chip in ("A10G", "L4", "A100 SXM4 80GB", "H100 SXM5 80GB", "H200 SXM 141GB", "L40S"):
        h = machine(chip)
        forms = {f: resolve(spec, h, f) for f in ("bf16", "int4", "fp4", "mxfp4", "gguf-q4_k_m")}
        rates, served = {}, {}
        for name, form in forms.items():
            if isinstance(form, Infeasible) or (form.native and name != "bf16"):
                continue
            keys = request_keys(spec, h, form, "vllm", 1)
            m = machine_at(values_of(keys, shipped("serving")), peaks_from(np.array(peaks_of(h, form))))
            rates[name] = (float(m.wide_flops), float(m.weights_bytes_per_s))
            prompt = good(spec, h, precision=name, input_tokens=4000, output_tokens=2, max_concurrency=1)
            served[name] = (requests(prompt), requests(good(spec, h, precision=name, max_concurrency=1)))
        wide = rates.pop("bf16")
        assert all(compute <= wide[0] * (1 + 1e-9) for compute, _ in rates.values()), chip
        prompts = {name: rate for name, (rate, _) in served.items()}
        assert all(prompts[name] <= prompts["bf16"] for name in rates), chip
        alone = {name: rate for name, (_, rate) in served.items()}
        # Decoding reads a quarter of the bytes; where memory is fast, widening them takes as long as reading 16 bits.
        least = 0.95 if chip in ("H100 SXM5 80GB", "H200 SXM 141GB") else 1.25
        assert all(alone[name] > least * alone["bf16"] for name in rates), chip
        four = [alone[n] for n in ("int4", "fp4", "mxfp4") if n in alone]
        assert max(four) / min(four) < 4.5 / 4.125 + 0.02, chip


def test_parameters_speak_of_known_chips_and_say_what_is_behind_them() -> None:
    canonical, p = set(chips()), shipped("serving")
    assert {key for _, level, key in p.deviations if level == "chip"} <= canonical
    assert all(d.rows > 0 and d.groups > 0 and d.sd > 0 for d in p.deviations.values())
    assert p.data_sha256 == shipped_measurements(Workload.SERVING).sha256


def test_an_interval_is_the_spread_of_the_parameters_carried_through_the_rate() -> None:
    # One request on one device with a long answer: the step is weights, cache and overheads, all of which `pace` divides, so a step of
    # pace in link space moves the rate by 1 - (pace / CEILING) ** 3, and its variance alone bounds the interval from below.
    found = good(
        model("llama-3.1-8b"), machine("H100 SXM5 80GB"), max_concurrency=1, input_tokens=16, output_tokens=2000
    )
    p, form = shipped("serving"), Format(weights="bf16", compute="bf16", wide="bf16", native=True)
    keys = by_level([request_keys(model("llama-3.1-8b"), machine("H100 SXM5 80GB"), form, "vllm", 1)])
    at = p.index("pace")
    slope = 1 - (float(p.values(keys, 1)[0, at]) / CEILING) ** 3
    least = (slope**2 * float(p.variances(keys, 1)[0, at]) + p.noise_sd**2) ** 0.5
    row = p.intervals.get("new source")
    multiple = (-NORMAL_90, NORMAL_90) if row is None else (row.low, row.high)
    assert found.performance.low_factor < math.exp(multiple[0] * least)
    assert found.performance.high_factor > math.exp(multiple[1] * least)


def test_hardware_without_a_memory_figure_is_refused() -> None:
    from dataclasses import replace

    it, chip = types()["p5.48xlarge"], chips()["H100 SXM5 80GB"]
    with pytest.raises(UnknownChipFigure, match="how much memory"):
        hardware_of(replace(it, device_memory_gib=None), replace(chip, memory_gib=None, memory_visible_gib=None))


def test_a_chip_of_unknown_speed_is_refused_not_guessed() -> None:
    refused = bad(model("llama-3.1-8b"), plain(memory_bandwidth_gb_s=None))
    assert refused.reason is RejectionReason.ENGINE_UNSUPPORTED
    assert "not known" in refused.detail


@settings(max_examples=25)
@given(
    tpot=st.one_of(st.none(), st.floats(5, 200)),
    ttft=st.one_of(st.none(), st.floats(20, 5000)),
    percentile=st.sampled_from([50, 90, 95, 99]),
    name=st.sampled_from(["g5.12xlarge", "g6e.xlarge", "p4d.24xlarge", "inf2.24xlarge"]),
)
def test_limits_are_met_or_the_miss_is_stated(
    *, tpot: float | None, ttft: float | None, percentile: int, name: str
) -> None:
    limits = LatencyLimits(tpot_ms=tpot, ttft_ms=ttft, percentile=percentile)
    outcome = one(model("llama-3.1-8b"), instance(name), limits=limits)
    if isinstance(outcome, Evaluation):
        p = outcome.performance
        assert p.tpot_ms is not None
        assert p.ttft_ms is not None
        if percentile in {50, 99}:
            at = "p50" if percentile == 50 else "p99"
            assert tpot is None or getattr(p.tpot_ms, at) <= tpot * (1 + 1e-9)
            assert ttft is None or getattr(p.ttft_ms, at) <= ttft * (1 + 1e-9)
    else:
        assert outcome.reason is RejectionReason.SLO_INFEASIBLE
        assert float(outcome.figures["excess"]) >= 1
