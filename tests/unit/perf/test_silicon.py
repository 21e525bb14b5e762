"""Rates from step times by hand, and what an answer becomes when measured operators move it."""

from __future__ import annotations

import numpy as np
import pytest

from planner.perf.silicon import Question, Share, StepTimes, rate_of
from planner.services.find_model import find_model


def question(**changed: object) -> Question:
    fields: dict[str, object] = {
        "spec": find_model("8b", None),
        "accelerator": "H100 SXM5 80GB",
        "engine": "tensorrt-llm",
        "precision": "bf16",
        "kv_precision": "bf16",
        "tensor_parallel": 1,
        "expert_parallel": False,
        "input_tokens": 1000,
        "output_tokens": 500,
        "concurrency": 64,
        "step_tokens": 2048,
    }
    return Question(**(fields | changed))  # type: ignore[arg-type]


def test_rate_is_requests_over_their_decode_steps_and_prompts() -> None:
    # 64 in flight: 500 steps of 10 ms and 64 prompts of 20 ms each: 5 s + 1.28 s.
    assert rate_of(StepTimes(decode_s=0.010, prefill_s=0.020, alone_s=0.025), question()) == pytest.approx(64 / 6.28)


def test_an_answer_lies_between_model_and_tables_less_their_lean() -> None:
    def share(value: float) -> Share:
        return Share(generation="x", share=value, lean=np.log(1.25), low=1.0, high=1.0, rows=1, groups=1)

    model, tables = np.log(np.array([10.0])), np.log(np.array([50.0]))  # servers: 50 / 1.25 = 40
    assert np.exp(share(0.0).blended(model, tables)) == pytest.approx(10.0)
    assert np.exp(share(0.5).blended(model, tables)) == pytest.approx(20.0)
    assert np.exp(share(1.0).blended(model, tables)) == pytest.approx(40.0)
