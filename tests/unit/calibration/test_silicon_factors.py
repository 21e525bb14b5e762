"""Measured operators beside the model: figures of a case by hand, shares on rows made up, and that no row votes on itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.calibration.facts import shipped_facts
from planner.calibration.serving import read
from planner.calibration.serving_cases import Case
from planner.calibration.silicon import Compared, Timed, errors_of, left_out, log_rate, question_of, share_of, shares_of
from planner.perf.silicon import StepTimes, shares

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


def case_of(**changed: str) -> Case:
    case = read([row(**changed)], shipped_facts()).cases[0]
    assert isinstance(case, Case)
    return case


def test_a_static_batch_takes_its_prompts_and_all_steps_but_the_first() -> None:
    # 16 prompts of 20 ms and 499 steps of 10 ms: 5.31 s for 16 x 500 tokens.
    timed = Timed(at=0, case=case_of(), times=TIMES, last=None)
    assert np.exp(log_rate(timed)) == pytest.approx(8000 / 5.31, rel=1e-6)
    total = Timed(at=0, case=case_of(metric_name="total_tok_s"), times=TIMES, last=None)
    assert np.exp(log_rate(total)) == pytest.approx(24000 / 5.31, rel=1e-6)


def test_the_last_wave_of_a_finite_run_has_steps_of_its_own() -> None:
    case = replace(case_of(scenario="offline"), concurrency=100.0, requests=250.0, replicas=1.0)
    last = StepTimes(decode_s=0.008, prefill_s=0.020, alone_s=0.020)
    # Two waves of 100 (100 x 20 ms + 499 x 10 ms), then 50 (50 x 20 ms + 499 x 8 ms).
    run_s = 2 * (2.0 + 4.99) + 1.0 + 499 * 0.008
    assert np.exp(log_rate(Timed(at=0, case=case, times=TIMES, last=last))) == pytest.approx(
        250 * 500 / run_s, rel=1e-6
    )


def test_a_cache_in_eight_bits_is_asked_for_as_such() -> None:
    asked = [question_of(case_of(precision_weights="fp8", precision_kv=kv)) for kv in ("fp8", "bf16")]
    assert [q.kv_precision for q in asked if q is not None] == ["fp8", "bf16"]


def test_loads_that_are_no_steady_steps_are_not_asked() -> None:
    assert question_of(case_of(scenario="server", batch_or_concurrency="", request_rate="4")) is None
    assert question_of(case_of(metric_name="e2e_latency_ms", metric_value="5000")) is None


def made(*, tables_sd: float, model_sd: float, lean: float = 0.0, seed: int = 3) -> Compared:
    """Rows of 40 groups whose tables and model err independently, by group, by so much."""
    rng = np.random.default_rng(seed)
    groups = [f"s{g // 4} | m | c{g}" for g in range(40) for _ in range(5)]
    truth = rng.normal(5, 1, len(groups))

    def err(sd: float) -> np.ndarray:
        return np.repeat(rng.normal(0, sd, 40), 5)

    return Compared(
        measured=truth,
        tables=truth + lean + err(tables_sd),
        model=truth + err(model_sd),
        model_sd=np.full(len(truth), model_sd),
        fold=np.repeat(np.arange(40) % 5, 5),
        generation=["an engine"] * len(truth),
        groups=groups,
        sources=[g.split(" | ")[0] for g in groups],
        left_out="groups",
    )


@pytest.mark.parametrize(("tables_sd", "model_sd", "least", "most"), [(0.05, 0.3, 0.85, 0.96), (0.2, 0.2, 0.3, 0.7), (1.0, 0.1, 0.0, 0.1)])  # fmt: skip
def test_the_share_is_that_of_two_independent_witnesses(
    tables_sd: float, model_sd: float, least: float, most: float
) -> None:
    # Best is model_sd² / (model_sd² + tables_sd²): 0.97, 0.5, 0.01.
    rows = made(tables_sd=tables_sd, model_sd=model_sd, lean=0.4)
    share, lean = share_of(rows, np.ones(200, dtype=np.bool_))
    assert least <= share <= most
    if tables_sd < 1:
        assert lean == pytest.approx(0.4, abs=0.1)


def test_no_row_votes_on_itself() -> None:
    rows = made(tables_sd=0.2, model_sd=0.2)
    held = rows.fold == 2
    absurd = replace(rows, measured=np.where(held, rows.measured + 5, rows.measured))
    assert left_out(absurd)[1][held] == pytest.approx(left_out(rows)[1][held])


def test_two_witnesses_are_better_than_either_and_useless_tables_are_left_aside() -> None:
    rows = made(tables_sd=0.2, model_sd=0.2, seed=5)
    found = {str(e["predictor"]): float(str(e["mean_ape"])) for e in errors_of(rows) if e["of"] == "all"}
    assert found["model and tables"] < min(found["model"], found["tables"])
    noise = made(tables_sd=1.0, model_sd=0.05)
    assert [s.share for s in shares_of(noise)] == [0.0]
    few = replace(rows, generation=["rare"] * 15 + ["an engine"] * 185)
    assert {s.generation: s.share > 0 for s in shares_of(few)} == {"rare": False, "an engine": True}


def test_shipped_shares_are_shares() -> None:
    found = shares()
    assert "tensorrt-llm since 2025" in found
    for each in found.values():
        assert 0 <= each.share < 1
        assert abs(each.lean) < 1
        assert 0.3 < each.low < 3
        assert 0.3 < each.high < 3
