"""Pipeline stages, expert groups, replicas over several machines, speculative decoding."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_cases import bad, good, instance, machine, model, plain, requests

from planner.perf.collectives import all_reduce_between_s, all_reduce_s, datasheet_link
from planner.perf.memory import device_weights, kv_bytes_per_request, longest_context, stage_share
from planner.perf.model import InferenceWork, RejectionReason
from planner.perf.precision import Format
from planner.perf.spans import NETWORK_LATENCY_S
from planner.perf.speculation import DRAFT_SHARE, Speculation
from planner.perf.training_network import network_bytes_per_s

GIB = 2.0**30
BF16 = Format(weights="bf16", compute="bf16", wide="bf16", native=True)


def test_a_stage_has_its_layers_and_the_larger_end() -> None:
    # Llama-3.1-405B in bf16, TP 8, two stages of 63 layers: half of the layers' numbers and one of two equal ends, an eighth of each.
    spec = model("llama-3.1-405b")
    ends = 128_256 * 16_384
    norms = (2 * 126 + 1) * 16_384
    layers = spec.parameters_total - 2 * ends - norms
    by_hand = (layers / 2 + ends) / 8 * 2 + norms / 2 * 2
    assert device_weights(spec, BF16, 8, 2).total == pytest.approx(by_hand, rel=1e-6)
    assert kv_bytes_per_request(spec, 1000, 1000, 16, 8, pp=2) == 2000 * 126 * 2 * 128 * 2 / 2
    assert stage_share(spec, 4) == 32 / 126  # 31.5 layers are not; one stage has 32


def test_what_fits_no_single_host_is_laid_over_two() -> None:
    # 405B x 2 bytes = 812 GB against 8 x 79.1 x 0.9 = 569 GiB = 611 GB.
    spec, host = model("llama-3.1-405b"), instance("p5.48xlarge")
    assert bad(spec, host).reason is RejectionReason.OUT_OF_MEMORY
    found = good(spec, host, max_instances=64)
    layout = found.layout
    assert found.instances == 2
    assert (layout.tensor_parallel, layout.pipeline_parallel) == (8, 2)
    assert layout.replicas_per_instance is None
    assert layout.precision == "bf16"
    assert found.memory.lines[0].gib < 47.3
    assert found.memory.fits
    note = next(n for n in found.notes if "spans 2 instances" in n)
    assert "3200 Gbit/s" in note
    # Rates are of both instances: B requests take O steps and B prefills.
    terms = {t.name: t.value for t in found.performance.terms}
    b = layout.max_concurrency or 0
    step, prefill = float(terms["decode step"]) / 1e3, float(terms["prefill per request"]) / 1e3
    assert requests(found) == pytest.approx(b / (1000 * step + b * prefill), rel=1e-9)
    assert terms["requests that one step carries"] == max(b / 2, 1)
    assert found.performance.power_w is not None
    assert found.performance.power_w > 16 * 700 * 0.6


def test_a_replica_spans_whole_hosts_with_a_fast_network_only() -> None:
    spec = model("llama-3.1-70b")
    for name in ("g5.xlarge", "g6.12xlarge", "p5.4xlarge"):  # one device, four devices, one device
        assert bad(spec, instance(name), max_instances=64).reason is RejectionReason.OUT_OF_MEMORY
    assert (
        bad(model("llama-3.1-405b"), instance("p5.48xlarge"), max_instances=64, engine="pytorch").reason
        is RejectionReason.OUT_OF_MEMORY
    )
    slow = plain(devices=8, network_gbps=25.0)
    assert bad(model("llama-3.1-405b"), slow, max_instances=8).reason is RejectionReason.OUT_OF_MEMORY


def test_asked_stages_take_the_machines_they_need() -> None:
    spec, h = model("llama-3.1-8b"), machine("H100 SXM5 80GB", 4)
    inside = good(spec, h, tensor_parallel=2, pipeline_parallel=2)
    assert (inside.instances, inside.layout.pipeline_parallel, inside.layout.replicas_per_instance) == (1, 2, 1)
    refused = bad(spec, h, tensor_parallel=4, pipeline_parallel=2)
    assert refused.detail == "needs 8 devices, those of 2 instances of 4; one may be used"
    across = good(spec, instance("p5.48xlarge"), tensor_parallel=8, pipeline_parallel=2, max_instances=2)
    assert across.instances == 2
    assert bad(spec, h, pipeline_parallel=33, max_instances=64).reason is RejectionReason.LAYOUT_IMPOSSIBLE


def test_the_network_between_stages_costs_what_a_message_takes() -> None:
    # One hop of a request's hidden row, 16,384 x 2 bytes: 30 µs and 32 KiB over 0.8 x 400 GB/s.
    spec, host = model("llama-3.1-405b"), instance("p5.48xlarge")
    found = good(spec, host, max_instances=2, max_concurrency=1, tensor_parallel=8, pipeline_parallel=2)
    formula = next(t.formula for t in found.performance.terms if t.name == "decode collectives")
    assert "1 hops over the network x (30 µs + 32768 B / 320 GB/s)" in formula


def test_tensor_parallelism_over_two_machines_reduces_inside_and_between() -> None:
    # Llama-3.1-70B, one request: a row of 8,192 x 2 bytes over 8 devices of each of two p5.48xlarge, then 30 µs and 2 x 1/2 of it over
    # 0.8 x 400 GB/s between them: 30.0512 µs for each of 160 all-reduces beside those of one machine.
    spec, host = model("llama-3.1-70b"), instance("p5.48xlarge")
    asked = {"max_concurrency": 1, "pipeline_parallel": 1}
    inside = good(spec, host, tensor_parallel=8, **asked)
    across = good(spec, host, tensor_parallel=16, max_instances=2, **asked)
    assert (across.instances, across.layout.tensor_parallel, across.layout.replicas_per_instance) == (2, 16, None)
    terms = [{t.name: t for t in found.performance.terms} for found in (inside, across)]
    collectives = [float(t["decode collectives"].value) for t in terms]
    assert collectives[1] - collectives[0] == pytest.approx(160 * (30 + 16_384 / 320e9 * 1e6) / 1e3, rel=1e-6)
    assert "30 µs x log2 2 + 2 x 1/2 x bytes / 320 GB/s between 2 machines" in terms[1]["decode collectives"].formula
    assert any(
        "tensor parallelism over 16 devices, two all-reduces a layer over the network" in n for n in across.notes
    )
    refused = bad(spec, host, tensor_parallel=16)
    assert refused.detail == "needs 16 devices, those of 2 instances of 8; one may be used"


def test_a_small_all_reduce_over_two_machines_is_as_nccl_tests_say() -> None:
    # dstackai/dstack#3961: 8 B over 16 GPUs of two p6-b200.48xlarge take 50.6 µs (out of place), 54.5 in place.
    host = instance("p6-b200.48xlarge")
    latency, rate = datasheet_link(host)
    one = float(all_reduce_s(np.asarray(8.0), 8, np.asarray(latency), np.asarray(rate)))
    between = float(all_reduce_between_s(np.asarray(8.0), 2, NETWORK_LATENCY_S[True], network_bytes_per_s(host) or 0))
    assert (one + between) * 1e6 == pytest.approx(52.5, rel=0.05)


def test_experts_over_two_machines_send_a_row_once_to_each() -> None:
    # DeepSeek-V3: 58 layers with 8 of 256 experts a token, rows of 7,168 x 2 bytes there and back. 8 groups of each machine send
    # 1 - (1/2)^8 of their rows to the other, over 0.8 x 400 GB/s.
    spec, host = model("deepseek-v3"), instance("p5en.48xlarge")
    asked = {"tensor_parallel": 1, "max_concurrency": 1600}
    inside = good(spec, host, expert_parallel=8, **asked | {"max_concurrency": 800})
    across = good(spec, host, expert_parallel=16, max_instances=2, **asked)
    assert (across.instances, across.layout.expert_parallel, across.layout.data_parallel) == (2, 16, 16)
    terms = [{t.name: t for t in found.performance.terms} for found in (inside, across)]
    assert terms[0]["requests that one step carries"].value == terms[1]["requests that one step carries"].value == 100
    crossing = 58 * 8 * (1 - 0.5**8) * 7168 * 4
    network_ms = 100 * crossing / 320e9 * 1e3 + 2 * 58 * 30e-3
    # Inside, a row goes to 15/16 instead of 7/8 other devices' experts.
    links = float(re.search(r"B / ([\d.]+) GB/s", terms[0]["decode collectives"].formula).group(1)) * 1e9  # type: ignore[union-attr]
    more_ms = 100 * 58 * 8 * 7168 * 4 * (15 / 16 - 7 / 8) / links * 1e3
    difference = float(terms[1]["decode collectives"].value) - float(terms[0]["decode collectives"].value)
    assert difference == pytest.approx(network_ms + more_ms, rel=1e-4)
    assert any("experts over 16 devices, rows to them and back" in n for n in across.notes)


def test_what_fits_no_single_host_is_also_tried_as_one_group_and_with_experts_dealt_out() -> None:
    # 671 GB of fp8 do not fit 611 GB. Attention data parallel caches each latent once, tensor parallelism 8 or 16 times.
    spec, host = model("deepseek-v3"), instance("p5.48xlarge")
    assert bad(spec, host).reason is RejectionReason.OUT_OF_MEMORY
    found = good(spec, host, max_instances=2)
    assert (found.instances, found.layout.expert_parallel, found.layout.data_parallel) == (2, 16, 16)
    stages = good(spec, host, max_instances=2, tensor_parallel=8, pipeline_parallel=2)
    assert requests(found) > requests(stages)
    # For latency one request is spread over all devices: stages would wait for each other.
    dense = good(model("llama-3.1-405b"), host, max_instances=2, objective="latency")
    assert (dense.layout.tensor_parallel, dense.layout.pipeline_parallel) == (16, 1)


def test_stages_may_take_several_machines_each() -> None:
    spec, host = model("llama-3.1-405b"), instance("p5.48xlarge")
    found = good(spec, host, tensor_parallel=16, pipeline_parallel=2, max_instances=4, max_concurrency=4)
    assert found.instances == 4
    formula = next(t.formula for t in found.performance.terms if t.name == "decode collectives")
    assert "between 2 machines" in formula
    assert "1 hops over the network" in formula


def test_groups_that_share_experts_hold_more_requests_of_a_latent_cache() -> None:
    # DeepSeek-V3's latent is whole on every device under TP 8; with attention of their own, eight groups cache eight times as much.
    spec, host = model("deepseek-v3"), instance("p5en.48xlarge")
    split, groups = good(spec, host, tensor_parallel=8), good(spec, host, tensor_parallel=1, expert_parallel=8)
    assert groups.layout.expert_parallel == 8
    assert groups.layout.data_parallel == 8
    assert groups.layout.tensor_parallel == 1
    assert split.layout.data_parallel == 1
    experts = next(t for t in spec.tensors if t.tensor_class.value == "expert")
    assert experts
    most, fewer = groups.memory.max_concurrency_at_context, split.memory.max_concurrency_at_context
    assert most is not None
    assert fewer is not None
    assert most > 2 * fewer  # less than eight times: attention's weights are whole too
    assert most % 8 == 0
    dense = bad(model("llama-3.1-8b"), host, expert_parallel=2)
    assert dense.detail == "Llama-3.1-8B has no experts to deal out" or "no experts" in dense.detail
    assert "256 experts do not divide by 6" in bad(spec, host, expert_parallel=6).detail


def test_groups_that_share_experts_are_tried_on_one_machine_without_being_asked_for() -> None:
    spec, host = model("deepseek-v3"), instance("p5en.48xlarge")
    free, asked = good(spec, host), good(spec, host, tensor_parallel=1, expert_parallel=8)
    split = good(spec, host, tensor_parallel=8)
    assert free.layout == asked.layout
    assert requests(free) == requests(asked) > 2 * requests(split)
    for engine in ("sglang", "tensorrt-llm"):
        assert good(spec, host, engine=engine).layout.expert_parallel == 8
    # No published row states groups: the range is wider and a note says so.
    widths = [e.performance.high_factor / e.performance.low_factor for e in (free, split)]
    assert widths[0] > widths[1]
    assert any("published rows do not state such groups" in n for n in free.notes)
    assert any("not tried where another degree is asked for" in n for n in split.notes)
    dense = good(model("llama-3.1-70b"), host)
    assert (dense.layout.expert_parallel, dense.layout.data_parallel) == (None, 1)


def test_groups_are_not_tried_where_an_engine_cannot() -> None:
    assert good(model("mixtral-8x7b"), instance("p5en.48xlarge"), engine="tgi").layout.data_parallel == 1


def test_experts_over_the_devices_of_one_tensor_parallel_group_are_said_to_be_timed_as_it() -> None:
    spec, host = model("deepseek-v3"), instance("p5en.48xlarge")
    both = good(spec, host, tensor_parallel=16, expert_parallel=16, max_instances=2)
    assert (both.layout.tensor_parallel, both.layout.expert_parallel) == (16, 16)
    assert sum("(TP16 with EP16)" in n for n in both.notes) == 1
    assert not any("TP16 with EP16" in n for n in good(spec, host, tensor_parallel=16, max_instances=2).notes)


def test_expert_bytes_of_a_group_are_its_share() -> None:
    spec = model("qwen3-30b-a3b")
    whole, dealt = device_weights(spec, BF16), device_weights(spec, BF16, 1, 1, 4)
    key = next(k for k in whole.by_class if k.value == "expert")
    assert dealt.by_class[key] == whole.by_class[key] / 4
    assert {k: v for k, v in dealt.by_class.items() if k is not key} == {
        k: v for k, v in whole.by_class.items() if k is not key
    }


@pytest.mark.parametrize(
    ("proposed", "accepted", "tokens"), [(4, 0.8, 3.3616), (3, 0.0, 1.0), (5, 1.0, 6.0), (1, 0.5, 1.5)]
)
def test_expected_tokens_of_a_verifying_step(proposed: int, accepted: float, tokens: float) -> None:
    # (1 - 0.8^5) / (1 - 0.8) = 3.3616 (Leviathan et al. 2023, equation 1).
    s = Speculation(proposed=proposed, acceptance=accepted)
    assert s.tokens_per_step == pytest.approx(tokens)
    assert s.factor == pytest.approx((1 + proposed * DRAFT_SHARE) / tokens)


def test_speculation_pays_alone_and_not_in_a_crowd() -> None:
    spec, h = model("llama-3.1-8b"), machine("H100 SXM5 80GB")
    asked = {"speculative_tokens": 4, "acceptance_rate": 0.8}
    few = requests(good(spec, h, max_concurrency=1, **asked)) / requests(good(spec, h, max_concurrency=1))
    most = good(spec, h).memory.max_concurrency_at_context
    assert most is not None
    many = requests(good(spec, h, max_concurrency=most, **asked)) / requests(good(spec, h, max_concurrency=most))
    assert 1.5 < few < 3.3616 / 1.2 + 0.3
    assert many < few
    found = good(spec, h, max_concurrency=1, **asked)
    assert found.layout.speculative_tokens == 4
    assert any(
        "4 proposed tokens a step, each accepted with chance 0.8 (stated, not measured)" in n for n in found.notes
    )
    terms = {t.name: t for t in found.performance.terms}
    assert float(terms["tokens that a verifying step brings a request"].value) == pytest.approx(3.3616)
    parts = [float(t.value) for n, t in terms.items() if n.startswith("decode ") and n != "decode time of a token"]
    assert sum(parts) == pytest.approx(float(terms["decode time of a token"].value), rel=1e-9)


def test_nothing_accepted_costs_the_drafts() -> None:
    spec, h = model("llama-3.1-8b"), machine("L40S")
    base, lost = (
        good(spec, h, max_concurrency=1),
        good(spec, h, max_concurrency=1, speculative_tokens=4, acceptance_rate=0.0),
    )
    assert base.performance.tpot_ms is not None
    assert lost.performance.tpot_ms is not None
    assert lost.performance.tpot_ms.p50 >= 1.2 * base.performance.tpot_ms.p50 * (1 - 1e-9)


def test_half_of_speculation_is_refused() -> None:
    with pytest.raises(ValueError, match="given together"):
        InferenceWork(speculative_tokens=4)


def test_longest_context_by_hand() -> None:
    # Llama-3.1-8B: 131,072 B a token. 10 GiB are 81,920 tokens; with 20 GiB the model's own 131,072 bind.
    spec = model("llama-3.1-8b")
    assert longest_context(spec, 10 * GIB, 16) == 81_920
    assert longest_context(spec, 20 * GIB, 16) == 131_072
    assert longest_context(spec, 10 * GIB, 16, 8) == 131_072
    assert longest_context(spec, 10 * GIB + 5 * 131_072, 16, page_tokens=16) == 81_920
    assert longest_context(spec, -1.0, 16) == 0


@settings(max_examples=20)
@given(name=st.sampled_from(["g5.xlarge", "g6e.xlarge", "p4d.24xlarge"]), flying=st.integers(1, 40))
def test_the_longest_context_fits_and_a_longer_one_does_not(name: str, flying: int) -> None:
    spec, h = model("llama-3.1-8b"), instance(name)
    found = good(spec, h, max_concurrency=flying, tensor_parallel=1, input_tokens=100, output_tokens=28)
    longest = found.memory.max_context_tokens
    assert longest is not None
    asked = {"max_concurrency": flying, "tensor_parallel": 1, "output_tokens": 16}
    assert good(spec, h, input_tokens=longest - 16, **asked).memory.fits
    if longest < 131_072 - 16:
        assert bad(spec, h, input_tokens=longest, **asked).reason is RejectionReason.OUT_OF_MEMORY
    assert math.isclose(longest % 16, 0)
