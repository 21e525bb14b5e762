"""Tensor-parallel degrees that can start, against what engines refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_cases import bad, good, machine, model

from planner.models.spec import Quantization
from planner.perf.layouts import expert_parallel_needed, legal_tensor_parallel
from planner.perf.model import RejectionReason
from pricing.model import InterconnectKind

AWQ = Quantization(method="awq", bits=4, group_size=128)


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("qwen2.5-7b", (1, 2, 4)),
        ("gemma-3-27b", (1, 2, 4, 8)),
        ("llama-3.1-70b", (1, 2, 4, 8)),
        ("qwen3-30b-a3b", (1, 2, 4, 8)),
    ],
)
def test_heads_decide(name: str, legal: tuple[int, ...]) -> None:
    assert legal_tensor_parallel(model(name), [1, 2, 3, 4, 5, 6, 8]) == legal


def test_quantisation_groups_must_divide_the_slices() -> None:
    # 29,568 / 2 = 14,784 is not a multiple of 128; 29,696 / 8 = 3,712 = 29 x 128 is.
    assert legal_tensor_parallel(model("qwen2.5-72b"), [1, 2, 4, 8], AWQ) == (1,)
    assert legal_tensor_parallel(model("qwen2.5-72b", intermediate_size=29696), [1, 2, 4, 8], AWQ) == (1, 2, 4, 8)


def test_int4_made_on_request_has_groups_too() -> None:
    found = good(model("qwen2.5-72b"), machine("H100 SXM5 80GB", 8), precision="int4")
    assert found.layout.tensor_parallel == 1


def test_experts_are_dealt_out_whole_where_a_slice_is_not_legal() -> None:
    # Blocks of 128: 1,536 / 8 = 192 is not a multiple, but 128 experts / 8 = 16 whole ones a device.
    blocks = Quantization(method="fp8", bits=8, group_size=128)
    spec = model("qwen3-235b-a22b")
    assert 8 in legal_tensor_parallel(spec, [8], blocks)
    assert expert_parallel_needed(spec, 8, blocks)
    assert not expert_parallel_needed(spec, 4, blocks)


def test_an_fp8_checkpoint_in_square_blocks_starts_on_one_h200_machine() -> None:
    # DeepSeek-V3: blocks of 128 x 128; 18,432 / 8 = 18 x 128 and 2,048 / 8 = 2 x 128. 671 GB / 8 = 78 GiB of 125.8.
    found = good(model("deepseek-v3"), machine("H200 SXM 141GB", 8), tensor_parallel=8)
    assert (found.layout.precision, found.layout.tensor_parallel) == ("fp8", 8)


def test_memory_would_do_but_no_degree_is_legal() -> None:
    # 38.4 GiB of int4 weights on one A10G of 19.8 do not fit; eight have 158 GiB, but 29,568 / 2 is not a multiple of 128.
    refused = bad(model("qwen2.5-72b"), machine("A10G", 8, InterconnectKind.PCIE), precision="int4")
    assert refused.reason is RejectionReason.LAYOUT_IMPOSSIBLE
    assert "all 8 together have 158.4" in refused.detail
    assert "no tensor-parallel degree above 1 is legal" in refused.detail


def test_a_fixed_degree_that_cannot_start_is_refused_with_the_reason() -> None:
    refused = bad(model("qwen2.5-7b"), machine("A100 SXM4 80GB", 8), tensor_parallel=8)
    assert refused.reason is RejectionReason.LAYOUT_IMPOSSIBLE
    assert "28 attention heads do not divide by 8" in refused.detail
    refused = bad(model("qwen2.5-7b"), machine("A100 SXM4 80GB", 2), tensor_parallel=4)
    assert refused.detail == "needs 4 devices, those of 2 instances of 2; one may be used"


def test_neuron_chips_split_heads_over_their_cores() -> None:
    # 28 heads: TP over two chips is four cores (legal), over four chips eight cores (not).
    found = good(model("qwen2.5-7b"), machine("Inferentia2", 12, InterconnectKind.NEURONLINK))
    assert found.layout.tensor_parallel in {1, 2}
    assert found.layout.replicas_per_instance == 12 // found.layout.tensor_parallel


@given(
    name=st.sampled_from(["qwen2.5-7b", "llama-3.1-8b", "phi-4", "mixtral-8x7b", "gpt-oss-20b"]),
    devices=st.integers(1, 16),
)
def test_no_layout_that_cannot_start_is_proposed(name: str, devices: int) -> None:
    spec = model(name)
    layout = good(spec, machine("H200 SXM 141GB", devices)).layout
    tp, replicas = layout.tensor_parallel, layout.replicas_per_instance
    assert tp is not None
    assert replicas is not None
    text = [a for a in spec.attention if a.tower == "text"]
    assert all(a.heads % tp == 0 and (a.kv_heads % tp == 0 or tp % a.kv_heads == 0) for a in text)
    assert tp * replicas <= devices
