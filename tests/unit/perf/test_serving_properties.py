"""What holds of serving whatever the parameters are: never faster than the datasheet, monotone where physics is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving_cases import good, machine, model, one, requests

from planner.models import counting
from planner.models.spec import ModelSpec, TensorClass
from planner.perf.model import Evaluation
from pricing.model import InterconnectKind

CHIPS = ("A10G", "L40S", "A100 SXM4 80GB", "H100 SXM5 80GB", "H200 SXM 141GB", "MI300X")
MODELS = ("qwen2.5-7b", "llama-3.1-8b", "gemma-2-9b", "qwen3-30b-a3b", "gpt-oss-20b")
relaxed = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
lengths = st.integers(16, 6000)


def decoded_weight_bytes(spec: ModelSpec) -> float:
    """16-bit bytes that a decode step of one request must read: all but embedding and experts, and the chosen experts."""
    total = 0.0
    for t in spec.tensors:
        if t.tensor_class in {TensorClass.EMBEDDING, TensorClass.VISION_TOWER}:
            continue
        share = 1.0
        if t.tensor_class is TensorClass.EXPERT:
            share = next(f.experts_per_token / f.experts for f in spec.feed_forward if f.experts)
        total += (t.matmul_parameters or t.parameters) * 2.0 * share
    return total


@relaxed
@given(chip=st.sampled_from(CHIPS), name=st.sampled_from(MODELS[:4]), tokens=lengths, flying=st.integers(1, 64))
def test_never_faster_than_the_datasheet(chip: str, name: str, tokens: int, flying: int) -> None:
    spec, h = model(name), machine(chip)
    found = one(spec, h, input_tokens=tokens, output_tokens=200, max_concurrency=flying, precision="bf16")
    if not isinstance(found, Evaluation):
        return
    p = found.performance
    assert p.tpot_ms is not None
    assert p.ttft_ms is not None
    least_context = min(tokens, *(a.window_tokens or tokens for a in spec.attention))
    cache = counting.kv_bytes_per_token(spec) * least_context
    floor_s = (decoded_weight_bytes(spec) + flying * cache) / ((h.memory_bandwidth_gb_s or 0) * 1e9)
    assert p.tpot_ms.p50 / 1e3 >= floor_s
    flops = counting.prefill_flops(spec, tokens)
    assert p.ttft_ms.p50 / 1e3 >= flops / (h.peak_tflops["bf16"] * 1e12)
    assert p.mfu_fraction is not None
    assert p.mfu_fraction < 1


@relaxed
@given(chip=st.sampled_from(CHIPS), name=st.sampled_from(MODELS), more=st.floats(1.0, 4.0), flying=st.integers(1, 128))
def test_more_bandwidth_is_never_slower(chip: str, name: str, more: float, flying: int) -> None:
    spec, h = model(name), machine(chip)
    faster = replace(h, memory_bandwidth_gb_s=(h.memory_bandwidth_gb_s or 0) * more)
    both = [one(spec, x, max_concurrency=flying) for x in (h, faster)]
    if all(isinstance(x, Evaluation) for x in both):
        assert requests(both[1]) >= requests(both[0]) * (1 - 1e-9)  # type: ignore[arg-type]  # both are evaluations


@relaxed
@given(
    chip=st.sampled_from(CHIPS), name=st.sampled_from(MODELS), tokens=st.integers(16, 3000), extra=st.integers(1, 3000)
)
def test_longer_input_is_never_cheaper(chip: str, name: str, tokens: int, extra: int) -> None:
    spec, h = model(name), machine(chip)
    for work in ({"max_concurrency": 8}, {}):
        short = one(spec, h, input_tokens=tokens, output_tokens=100, **work)  # type: ignore[arg-type]  # a mapping of options
        longer = one(spec, h, input_tokens=tokens + extra, output_tokens=100, **work)  # type: ignore[arg-type]
        if isinstance(longer, Evaluation):
            assert isinstance(short, Evaluation)
            # The search gives up 1 % of throughput for fewer in flight.
            assert requests(longer) <= requests(short) * (1 + (1e-9 if work else 0.011))


@relaxed
@given(
    chip=st.sampled_from(CHIPS),
    name=st.sampled_from(MODELS),
    flying=st.integers(1, 200),
    more=st.integers(1, 100),
    tokens=lengths,
    devices=st.sampled_from([1, 2, 4]),
)
def test_more_in_flight_is_never_fewer_tokens(
    *, chip: str, name: str, flying: int, more: int, tokens: int, devices: int
) -> None:
    spec, h = model(name), machine(chip, devices)
    asked: dict[str, Any] = {"input_tokens": tokens, "output_tokens": 150, "tensor_parallel": devices}
    crowd = one(spec, h, max_concurrency=flying + more, **asked)
    if isinstance(crowd, Evaluation):  # there is room
        assert requests(crowd) >= requests(good(spec, h, max_concurrency=flying, **asked)) * (1 - 1e-9)


@relaxed
@given(chip=st.sampled_from(CHIPS), name=st.sampled_from(MODELS), devices=st.sampled_from([1, 2, 4]))
def test_twice_the_devices_serve_twice_as_much(chip: str, name: str, devices: int) -> None:
    spec = model(name)
    link = InterconnectKind.NVSWITCH
    fewer, more = (one(spec, machine(chip, n, link), output_tokens=500) for n in (devices, 2 * devices))
    if isinstance(fewer, Evaluation):
        assert isinstance(more, Evaluation)
        assert requests(more) >= 2 * requests(fewer) * (
            1 - 0.011
        )  # twice the replicas at least; 1 % is given up for latency


@relaxed
@given(flying=st.integers(1, 300), more=st.integers(1, 150), stages=st.sampled_from([2, 4]))
def test_stages_never_serve_less_with_more_in_flight(flying: int, more: int, stages: int) -> None:
    spec, h = model("llama-3.1-8b"), machine("H100 SXM5 80GB", 4)
    asked: dict[str, Any] = {"tensor_parallel": 1, "pipeline_parallel": stages}
    some = good(spec, h, max_concurrency=flying, **asked)
    assert requests(good(spec, h, max_concurrency=flying + more, **asked)) >= requests(some) * (1 - 1e-9)
