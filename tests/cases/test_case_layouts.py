"""Tensor-parallel degrees that can start: heads divide, KV heads divide or are divided, quantisation groups divide."""

from __future__ import annotations

import pytest
from case_machines import model

from planner.models.spec import Quantization
from planner.perf.layouts import legal_tensor_parallel

AWQ = Quantization(method="awq", bits=4, group_size=128)


@pytest.mark.parametrize(
    ("name", "right"),
    [("qwen2.5-7b", (1, 2, 4)), ("gemma-3-27b", (1, 2, 4, 8)), ("llama-3.1-70b", (1, 2, 4, 8))],
)
def test_tp_heads(name: str, right: tuple[int, ...]) -> None:
    # 28 heads do not split over 8; 3 and 6 divide none of 28, 32 and 64 (a scheduler that counts memory alone chooses 3); nor does 5.
    assert legal_tensor_parallel(model(name), [1, 2, 3, 4, 5, 6, 8]) == right


@pytest.mark.parametrize(("width", "right"), [(29568, (1,)), (29696, (1, 2, 4, 8))])
def test_tp_quant_group(width: int, right: tuple[int, ...]) -> None:
    # Scales cover groups of 128: 29,568 / 2 = 14,784 = 115.5 groups; the padded width 29,696 / 8 = 29 groups.
    assert legal_tensor_parallel(model("qwen2.5-72b", intermediate_size=width), [1, 2, 4, 8], AWQ) == right
