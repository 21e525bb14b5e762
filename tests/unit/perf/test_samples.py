"""Models priced per sample: hand calculations, published rates, latencies and costs, order and bounds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_cases import BERT_BASE, BERT_LARGE, CHIPS, RESNET_50, encoder, machine, neuron, whisper

from planner.perf.inference import evaluate_inference
from planner.perf.model import Basis, Evaluation, Infeasible, InferenceWork, LatencyLimits, RejectionReason
from planner.perf.samples import evaluate_samples
from planner.perf.samples_loads import passes_of
from planner.perf.samples_memory import BATCHES
from planner.perf.samples_rates import COLUMN
from planner.perf.samples_time import Loads, batch_seconds
from planner.services.find_model import find_model


def one(spec, hardware, work=None) -> Evaluation:
    found = evaluate_samples(spec, [hardware], work or InferenceWork())[0]
    assert isinstance(found, Evaluation), found
    return found


def loads(**given: float) -> Loads:
    """Return the loads of one row with one phase; figures that are not given are nought."""
    of_row = {"width_bytes", "peak_flops", "bandwidth", "off_chip", "cache_bytes"}
    figures = {name: given.get(name, 0.0) for name in Loads.__slots__} | {"repeats": given.get("repeats", 1.0)}
    return Loads(**{n: np.array([v] if n in of_row else [[v]], dtype=np.float64) for n, v in figures.items()})


def values(**given: float) -> np.ndarray:
    """Return values of the slots: 1 where not given."""
    return np.array([[given.get(name, 1.0) for name in COLUMN]])


def test_batch_time_by_hand() -> None:
    # 10 GFLOP a sample at half of 100 TFLOP/s: 0.2 ms; 8 of them 1.6 ms. 8 x 2 bytes x (2 x 10e6 + 2 x 0.25 x 40e6) elements + 80e6 of
    # weights = 720e6 bytes at 0.8 of 1 TB/s: 0.9 ms. (1.6^3 + 0.9^3)^(1/3) = 4.825^(1/3) = 1.6898 ms, and 50 products of
    # 2 us: 1.7898 ms.
    work = loads(
        flops=10e9,
        matrix_elements=10e6,
        elementwise_elements=40e6,
        weight_bytes=80e6,
        products=50,
        width_bytes=2,
        peak_flops=100e12,
        bandwidth=1e12,
        off_chip=1,
    )
    reached = values(compute=0.5, bandwidth=0.8, unfused=0.25, operator=2e-6, launch=1e-5)
    assert batch_seconds(work, reached, np.array([[8.0]]))[0, 0] == pytest.approx(1.7898e-3, rel=1e-4)
    # An eager host that launches 300 operators in 10 us each takes 3 ms beside it: (1.7898^4 + 3^4)^(1/4) = 3.0908 ms.
    eager = replace(work, operators=np.array([[300.0]]))
    assert batch_seconds(eager, reached, np.array([[8.0]]))[0, 0] == pytest.approx(3.0908e-3, rel=1e-4)
    # Ten steps take ten times as long; a pace of 1.1 makes them 10 % slower.
    steps = replace(work, repeats=np.array([[10.0]]))
    slow = values(compute=0.5, bandwidth=0.8, unfused=0.25, operator=2e-6, launch=1e-5, pace=1.1)
    assert batch_seconds(steps, slow, np.array([[8.0]]))[0, 0] == pytest.approx(11 * 1.7898e-3, rel=1e-4)


def test_results_that_stay_in_the_cache_do_not_cross_memory() -> None:
    # Memory alone: 10 products write 10e6 numbers of 2 bytes a sample, so 2 x 2 x 1e6 = 4 MB are live for one sample. A cache of 12 MB
    # keeps 12 / (12 + 4) of them: 40 MB x 1/4 cross at 1 TB/s, 10 us. Eight samples: 32 MB live, 12/44 kept, 320 MB x 32/44: 232.7 us.
    work = loads(
        matrix_elements=10e6, products=10, width_bytes=2, peak_flops=1e15, bandwidth=1e12, off_chip=1, cache_bytes=12e6
    )
    reached = values(crossing=0.0, keeps=1.0, operator=0.0, launch=0.0)
    found = batch_seconds(work, reached, np.array([[1.0, 8.0]]))[0]
    assert found == pytest.approx([10e-6, 320e-6 * 32 / 44], rel=1e-6)
    # Half of the rest crosses memory all the same; a chip without a cache keeps nothing.
    half = batch_seconds(work, values(crossing=0.5, keeps=1.0, operator=0.0, launch=0.0), np.array([[1.0]]))[0, 0]
    assert half == pytest.approx(40e-6 * (1 - 0.5 * 12 / 16))
    bare = replace(work, cache_bytes=np.zeros(1))
    assert batch_seconds(bare, reached, np.array([[8.0]]))[0, 0] == pytest.approx(320e-6)


def test_operators_of_networks_are_counted() -> None:
    # Launches of timm 1.0.31's networks under PyTorch 2.13, counted on the meta device: convolutions and products, all operators,
    # element-wise results in 1e6, multiply-adds of depthwise convolutions in 1e9, at 224 x 224.
    for name, products, operators, elementwise, grouped in (
        ("resnet-50", 54, 174, 26.50, 0),
        ("resnet-18", 21, 68, 5.755, 0),
        ("convnext-tiny", 59, 137, 15.89, 0.1051),
        ("convnext-large", 113, 263, 50.70, 0.3430),
        ("swin-tiny", 77, 298, 31.90, 0),
        ("swin-small", 149, 592, 51.42, 0),
    ):
        found = passes_of(find_model(name, None))[0]
        assert found.products == products, name
        assert found.operators == pytest.approx(operators, rel=0.03), name
        assert found.elementwise_elements / 1e6 == pytest.approx(elementwise, rel=0.01), name
        assert found.grouped_flops / 2e9 == pytest.approx(grouped, rel=1e-3), name


def test_rates_and_waits_follow_from_the_batch_time() -> None:
    found = one(RESNET_50, machine("T4", 2), InferenceWork(precision="fp16"))
    seconds = next(t.value for t in found.performance.terms if t.name == "batch_time") / 1e3
    assert found.performance.rates.samples_per_s == pytest.approx(2 * found.layout.batch / seconds)
    assert found.performance.rates.requests_per_s == found.performance.rates.samples_per_s
    assert found.performance.e2e_ms.p50 == pytest.approx(1.5 * seconds * 1e3)
    assert found.performance.e2e_ms.p99 == pytest.approx(1.99 * seconds * 1e3)
    assert found.performance.basis is Basis.MODELLED


# Rates of one chip (or instance of chips). MLPerf Inference v0.7 to v3.0 closed division, Offline, ResNet-50 int8: medians of
# the submissions per accelerator; AWS Neuron SDK benchmark pages (2022 to 2025), whole instance.
PUBLISHED = [
    ("ResNet-50 int8 T4", RESNET_50, machine("T4"), "int8", 6100.0),
    ("ResNet-50 int8 A100 80", RESNET_50, machine("A100 SXM4 80GB"), "int8", 39700.0),
    ("ResNet-50 int8 L4", RESNET_50, machine("L4"), "int8", 13068.0),
    ("BERT-base inf1.xlarge", BERT_BASE, neuron("Inferentia1", 1), None, 1146.0),
    ("BERT-large inf2.xlarge", BERT_LARGE, neuron("Inferentia2", 1), None, 914.0),
    ("BERT-large trn1.2xlarge", BERT_LARGE, neuron("Trainium1", 1), None, 1040.0),
    ("ResNet-50 inf2.xlarge", RESNET_50, neuron("Inferentia2", 1), None, 4393.0),
    # MLPerf Inference v5.1, Whisper, Offline: 67.1 clips/s on H200, 18.3 on L40S.
    ("Whisper H200", whisper(), machine("H200 SXM 141GB"), None, 67.1),
    ("Whisper L40S", whisper(), machine("L40S"), None, 18.3),
    ("BERT-base V100 128", BERT_BASE, machine("V100 SXM2 32GB"), "fp16", 32 / 12.41e-3),
]


@pytest.mark.parametrize("case", PUBLISHED, ids=[c[0] for c in PUBLISHED])
def test_published_rates(case) -> None:
    _, spec, hardware, precision, measured = case
    found = one(spec, hardware, InferenceWork(precision=precision)).performance
    assert measured / 1.5 < found.rates.samples_per_s < measured * 1.5


def test_published_rates_lie_in_intervals_of_80_percent() -> None:
    inside = 0
    for _, spec, hardware, precision, measured in PUBLISHED:
        found = one(spec, hardware, InferenceWork(precision=precision)).performance
        rate = found.rates.samples_per_s
        inside += rate * found.low_factor < measured < rate * found.high_factor
    assert inside >= 8  # of ten


def test_published_latency_of_one() -> None:
    # MLPerf Inference SingleStream, p90: ResNet-50 int8 0.40 to 0.51 ms on A100, 0.82 to 0.88 ms on T4. One request alone does not
    # wait, so its latency is the batch time: our p50 / 1.5.
    for chip, measured in (("A100 SXM4 80GB", 0.45), ("T4", 0.85)):
        limit = LatencyLimits(e2e_ms=2.5 * measured)
        found = one(RESNET_50, machine(chip), InferenceWork(precision="int8", limits=limit))
        alone = evaluate_samples(
            RESNET_50, [machine(chip)], InferenceWork(precision="int8", limits=LatencyLimits(e2e_ms=2 * measured))
        )
        assert isinstance(alone[0], Evaluation)
        assert found.performance.e2e_ms.p99 <= limit.e2e_ms


def test_for_latency_one_sample_at_a_time() -> None:
    # MLPerf Inference SingleStream again: 0.40 to 0.51 ms alone on A100; the batch of the highest rate waits far longer.
    fast = one(RESNET_50, machine("A100 SXM4 80GB"), InferenceWork(precision="int8", objective="latency"))
    full = one(RESNET_50, machine("A100 SXM4 80GB"), InferenceWork(precision="int8"))
    assert fast.layout.batch == 1
    assert 0.45 / 1.7 < fast.performance.e2e_ms.p50 / 1.5 < 0.45 * 1.7
    assert fast.performance.e2e_ms.p99 < full.performance.e2e_ms.p99
    assert fast.performance.rates.samples_per_s < full.performance.rates.samples_per_s
    # int8 computes faster than 16 bits, so it is taken where it may be
    either = one(BERT_LARGE, machine("T4"), InferenceWork(objective="latency", allowed_precisions=("int8",)))
    assert either.layout.precision == "int8"
    # launched operator by operator, small batches take equally long: the largest of them serves more at the same latency
    eager = one(RESNET_50, machine("A100 SXM4 80GB"), InferenceWork(engine="pytorch", objective="latency"))
    assert eager.layout.batch > 1


def test_speech_decodes_token_by_token() -> None:
    # Each of 112 steps reads at least the decoder's weights: (16 x 1280^2 x 32 + 51,866 x 1280) x 2 bytes over 300 GB/s is 6.0 ms
    # on L4, so no clip ends before 0.67 s, whatever the arithmetic.
    decoder_bytes = 2 * (32 * 16 * 1280**2 + 51866 * 1280)
    least_s = 112 * decoder_bytes / 300e9
    assert least_s == pytest.approx(0.676, rel=0.01)
    tight = evaluate_samples(whisper(), [machine("L4")], InferenceWork(limits=LatencyLimits(e2e_ms=1e3 * least_s)))[0]
    assert isinstance(tight, Infeasible)
    assert tight.reason is RejectionReason.SLO_INFEASIBLE
    free = one(whisper(), machine("L4"))
    assert free.performance.e2e_ms.p50 > 1.5e3 * least_s
    # Cached keys and values of a clip: 32 layers x 2 x 1,280 x (1,500 + 112) numbers of 2 bytes.
    cache = next(line.gib for line in free.memory.lines if line.name == "kv_cache")
    assert cache == pytest.approx(free.layout.batch * 32 * 2 * 1280 * 1612 * 2 / 2**30)
    assert one(whisper(20), machine("L4")).performance.rates.samples_per_s > 2 * free.performance.rates.samples_per_s


# AWS Neuron SDK benchmark pages: USD for a million inferences = 1e6 / throughput x hourly price / 3,600, with the price that the
# page used (on demand; later pages use about 0.4 of it, reserved).
COSTS = [
    ("BERT-base", "inf1.xlarge", BERT_BASE, neuron("Inferentia1", 1), 0.228, 0.0553),
    ("RoBERTa-base", "inf2.xlarge", BERT_BASE, neuron("Inferentia2", 1), 0.758, 0.0885),
    ("BERT-large", "inf2.xlarge", BERT_LARGE, neuron("Inferentia2", 1), 0.758, 0.2431),
    ("ResNet-50", "inf2.xlarge", RESNET_50, neuron("Inferentia2", 1), 0.758, 0.0543),
    ("BERT-base", "trn1.2xlarge", BERT_BASE, neuron("Trainium1", 1), 1.34, 0.1428),
]


@pytest.mark.parametrize("case", COSTS, ids=[f"{c[0]} {c[1]}" for c in COSTS])
def test_cost_of_a_million_is_of_the_published_order(case) -> None:
    _, _, spec, hardware, usd_per_hour, published = case
    rate = one(spec, hardware).performance.rates.samples_per_s
    cost = usd_per_hour / 3600 / rate * 1e6
    assert published / 2 < cost < published * 2


def test_runtime_follows_the_chip() -> None:
    assert one(BERT_BASE, neuron("Inferentia1", 4)).layout.engine == "neuron"
    assert one(BERT_BASE, machine("T4")).layout.engine == "tensorrt"
    assert one(BERT_BASE, machine("T4"), InferenceWork(engine="pytorch")).layout.engine == "pytorch"
    k80 = one(BERT_BASE, machine("K80 (one of two GPUs)"))
    assert (k80.layout.engine, k80.layout.precision) == ("pytorch", "fp32")
    assert one(BERT_BASE, machine("T4")).layout.precision == "fp16"
    assert one(BERT_BASE, machine("A10G")).layout.precision == "bf16"
    refused = evaluate_samples(BERT_BASE, [machine("A10G")], InferenceWork(precision="fp4"))[0]
    assert not isinstance(refused, Infeasible) or refused.reason is RejectionReason.PRECISION_UNSUPPORTED


def test_old_chips_say_what_they_need() -> None:
    # TensorRT 10 starts at compute capability 7.5 (Turing).
    assert any("needs TensorRT 8" in n for n in one(RESNET_50, machine("V100 SXM2 32GB")).notes)
    assert not any("TensorRT" in n for n in one(RESNET_50, machine("T4")).notes)


def test_pytorch_is_slower_than_a_compiled_engine() -> None:
    compiled = one(BERT_BASE, machine("T4")).performance.rates.samples_per_s
    eager = one(BERT_BASE, machine("T4"), InferenceWork(engine="pytorch")).performance.rates.samples_per_s
    assert eager < compiled


def test_dispatch_of_inference() -> None:
    found = evaluate_inference(RESNET_50, [machine("T4"), machine("A10G")], InferenceWork())
    assert [o.layout.engine for o in found] == ["tensorrt", "tensorrt"]


def test_latency_limit_chooses_the_batch() -> None:
    free = one(BERT_LARGE, machine("A10G"))
    tight = one(BERT_LARGE, machine("A10G"), InferenceWork(limits=LatencyLimits(e2e_ms=30)))
    assert tight.layout.batch < free.layout.batch
    assert tight.performance.e2e_ms.p99 <= 30
    median = one(BERT_LARGE, machine("A10G"), InferenceWork(limits=LatencyLimits(e2e_ms=30, percentile=50)))
    assert median.layout.batch >= tight.layout.batch
    refused = evaluate_samples(BERT_LARGE, [machine("T4")], InferenceWork(limits=LatencyLimits(e2e_ms=0.1)))[0]
    assert isinstance(refused, Infeasible)
    assert refused.reason is RejectionReason.SLO_INFEASIBLE
    assert refused.figures["e2e_ms"] > 0.1


def test_concurrency_and_formats_that_are_allowed() -> None:
    few = one(BERT_LARGE, machine("A10G"), InferenceWork(max_concurrency=6))
    assert few.layout.batch == 4
    wide = one(RESNET_50, machine("A10G"))
    narrow = one(RESNET_50, machine("A10G"), InferenceWork(allowed_precisions=("int8", "fp8")))
    assert (wide.layout.precision, narrow.layout.precision) == ("bf16", "int8")
    assert narrow.performance.rates.samples_per_s > wide.performance.rates.samples_per_s
    refused = evaluate_samples(BERT_BASE, [machine("A10G", 4)], InferenceWork(tensor_parallel=4))[0]
    assert isinstance(refused, Infeasible)
    assert refused.reason is RejectionReason.LAYOUT_IMPOSSIBLE


def test_memory_limits_the_batch() -> None:
    # Weights of 2 x 7.05 GiB + 0.75 GiB reserve exceed 0.9 x 14.6 GiB.
    big = encoder("encoder of 7.05e9", hidden=4096, layers=35, heads=32)
    refused = evaluate_samples(big, [machine("T4")], InferenceWork())[0]
    assert isinstance(refused, Infeasible)
    assert refused.reason is RejectionReason.OUT_OF_MEMORY
    assert refused.figures["available_gib_per_accelerator"] == pytest.approx(14.6 * 0.9)
    found = one(big, machine("A10G"))
    assert found.memory.fits
    assert found.memory.lines[0].gib == pytest.approx(big.parameters_total * 2 / 2**30)


@settings(deadline=None, max_examples=60)
@given(
    chip=st.sampled_from(sorted(set(CHIPS) - {"K80 (one of two GPUs)"})),
    devices=st.sampled_from([1, 4, 8]),
    spec=st.sampled_from([BERT_BASE, BERT_LARGE, RESNET_50]),
    engine=st.sampled_from(["vllm", "pytorch"]),
)
def test_never_above_the_roofline(*, chip, devices, spec, engine) -> None:
    found = one(spec, machine(chip, devices), InferenceWork(engine=engine))
    _, bandwidth, peaks, _, watts = CHIPS[chip]
    peak = max(v for k, v in peaks.items() if k in {"fp16", "bf16"}) * 1e12
    rate = found.performance.rates.samples_per_s / devices
    assert rate * spec.sample.flops < peak
    assert (
        rate / found.layout.batch * 2 * spec.parameters_total < bandwidth * 1e9
    )  # weights once a batch; results may stay in cache
    assert found.layout.replicas_per_instance == devices
    assert found.layout.batch in BATCHES
    assert found.memory.fits
    assert 0 < found.performance.power_w <= watts * devices
    assert found.performance.low_factor <= 1 <= found.performance.high_factor


@given(devices=st.integers(1, 16))
def test_more_devices_serve_more(devices: int) -> None:
    few = one(RESNET_50, machine("A10G", devices)).performance.rates.samples_per_s
    more = one(RESNET_50, machine("A10G", devices + 1)).performance.rates.samples_per_s
    assert more == pytest.approx(few * (devices + 1) / devices)


def test_more_work_per_sample_is_slower() -> None:
    twice = replace(RESNET_50, sample=replace(RESNET_50.sample, flops=2 * RESNET_50.sample.flops))
    assert (
        one(twice, machine("A10G")).performance.rates.samples_per_s
        < one(RESNET_50, machine("A10G")).performance.rates.samples_per_s
    )
