"""Factors of measured operators: the figures of a case from its step times by hand, and what fitted factors do."""

from __future__ import annotations

import numpy as np
import pytest

from planner.calibration.facts import shipped_facts
from planner.calibration.serving import read
from planner.calibration.serving_cases import Case
from planner.calibration.silicon import Forward, question_of, timed_cases
from planner.perf.parameters import shipped
from planner.perf.silicon import StepTimes, factors_of

TIMES = StepTimes(decode_s=0.010, prefill_s=0.020, alone_s=0.020)


def row(**changed: str) -> dict[str, str]:
    stated = {
        "row_id": "r1",
        "source": "a page",
        "date": "2026-01-01",
        "engine": "vLLM",
        "model": "meta-llama/Llama-3.1-8B",
        "precision_weights": "bf16",
        "gpu": "H100 SXM5 80GB",
        "gpus_total": "1",
        "tp": "1",
        "input_len": "1000",
        "output_len": "500",
        "batch_or_concurrency": "16",
        "scenario": "fixed-batch",
        "metric_name": "output_tok_s",
        "metric_value": "1000",
    }
    return stated | changed


def predicted(values: tuple[float, float, float], **changed: str) -> float:
    reading = read([row(**changed)], shipped_facts())
    forward = Forward(timed_cases(reading, {0: TIMES}))
    return float(np.exp(forward(np.array([values]))[0]))


def test_a_static_batch_takes_its_prompts_and_all_steps_but_the_first() -> None:
    # 16 prompts of 20 ms and 499 steps of 10 ms: 5.31 s for 16 x 500 tokens.
    assert predicted((1.0, 1.0, 1e-9)) == pytest.approx(8000 / 5.31, rel=1e-6)
    # Twice as long steps, half as long prompts, 1 ms beside each step.
    assert predicted((2.0, 0.5, 1.0)) == pytest.approx(8000 / (0.16 + 499 * 0.021), rel=1e-6)


def test_time_per_token_of_a_batch_is_a_step() -> None:
    assert predicted((1.0, 1.0, 2.0), metric_name="e2e_latency_ms", metric_value="5000") == pytest.approx(
        1e3 * (16 * 0.020 + 499 * 0.012), rel=1e-6
    )


def test_loads_that_are_no_steady_steps_are_not_asked() -> None:
    reading = read([row(scenario="server", batch_or_concurrency="", request_rate="4")], shipped_facts())
    case = reading.cases[0]
    assert isinstance(case, Case)
    assert question_of(case) is None


def test_shipped_factors_are_of_servers_that_take_longer_than_their_operators() -> None:
    case = read([row()], shipped_facts()).cases[0]
    assert isinstance(case, Case)
    question = question_of(case)
    assert question is not None
    found = factors_of(question, shipped("silicon"))
    assert 0.7 < found.decode < 2.5
    assert 0.4 < found.prefill < 2.5
    assert 0.0 < found.overhead_ms < 20
    assert 0.1 < found.sd < 1.0
