"""Rates and latencies from step times, against sums done by hand."""

from __future__ import annotations

import pytest

from planner.perf.silicon import Question, StepTimes, corrected, served
from planner.services.find_model import find_model


def question(**changed: object) -> Question:
    fields: dict[str, object] = {
        "spec": find_model("8b", None),
        "accelerator": "H100 SXM5 80GB",
        "engine": "vllm",
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
    found = served(StepTimes(decode_s=0.010, prefill_s=0.020, alone_s=0.025), question())
    assert found.rates.requests_per_s == pytest.approx(64 / 6.28)
    assert found.rates.output_tokens_per_s == pytest.approx(64 * 500 / 6.28)
    assert found.rates.total_tokens_per_s == pytest.approx(64 * 1500 / 6.28)
    assert found.prefill_time_fraction == pytest.approx(1.28 / 6.28)


def test_a_lone_request_waits_for_its_own_prompt_only() -> None:
    found = served(StepTimes(decode_s=0.010, prefill_s=0.020, alone_s=0.020), question(concurrency=1))
    assert found.ttft_ms.p50 == pytest.approx(20.0, rel=0.02)
    assert found.tpot_ms is not None
    assert found.tpot_ms.p50 == pytest.approx(10.0, rel=0.02)
    assert found.e2e_ms.p50 == pytest.approx(20 + 499 * 10, rel=0.02)


def test_one_output_token_has_no_time_between_tokens() -> None:
    assert served(StepTimes(decode_s=0.01, prefill_s=0.02, alone_s=0.02), question(output_tokens=1)).tpot_ms is None


def test_factors_act_on_decode_steps_and_on_prompts_each() -> None:
    found = corrected(StepTimes(decode_s=0.010, prefill_s=0.020, alone_s=0.030), decode=1.5, prefill=0.5)
    assert (found.decode_s, found.prefill_s, found.alone_s) == pytest.approx((0.015, 0.010, 0.015))
