"""Measurements carried over to a request: weights by hand, limits, and what must not happen."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from planner.perf.carried import carried, faster, is_near
from planner.perf.cited import citation, shipped_rows
from planner.perf.evidence import (
    OWN,
    SOURCE,
    Conditions,
    Distances,
    Witness,
    correction_of,
    fingerprint,
    shipped_distances,
    shipped_witnesses,
)
from planner.perf.model import Basis, Evaluation, Layout, MemoryFit, Percentiles, Performance, Rates
from planner.services.find_model import find_model

LEVEL, NUGGET, ENGINE, BATCH, SOURCES = 0.09, 0.01, 0.02, 0.03, 0.05
DISTANCES = Distances(variances={"level": LEVEL, "nugget": NUGGET, "engine": ENGINE, "batch": BATCH, SOURCE: SOURCES})


def at(source: str = "a", engine: str = "vllm", batch: float = 8.0) -> Conditions:
    return Conditions(words={SOURCE: source, "engine": engine}, numbers={"batch": batch})


def witness(log_ratio: float, conditions: Conditions, row_id: str = "1") -> Witness:
    return Witness(row_id=row_id, conditions=conditions, log_ratio=log_ratio)


def test_one_row_of_equal_conditions_weighs_its_share_of_the_variance() -> None:
    found = correction_of(at(), [witness(0.2, at())], DISTANCES)
    assert found is not None
    assert found.log_factor == pytest.approx(0.2 * LEVEL / (LEVEL + NUGGET))
    # What is left: level - level²/(level + nugget), and the noise of the next repeat, of level + nugget.
    left = (LEVEL - LEVEL**2 / (LEVEL + NUGGET) + NUGGET) / (LEVEL + NUGGET)
    assert found.left_fraction == pytest.approx(left)
    assert found.interval_power == pytest.approx(math.sqrt(left))


def test_a_row_of_another_engine_batch_and_source_weighs_less_by_its_distance() -> None:
    other = at(source="b", engine="sglang", batch=16.0)
    found = correction_of(at(source=""), [witness(0.2, other)], DISTANCES)
    assert found is not None
    away = ENGINE + BATCH * math.log(2) + SOURCES
    assert found.used[0].distance == pytest.approx(math.sqrt(away))
    assert found.log_factor == pytest.approx(0.2 * LEVEL * math.exp(-away / LEVEL) / (LEVEL + NUGGET))


def test_rows_of_one_source_count_as_one_opinion_of_it_and_of_two_as_two() -> None:
    def left(*sources: str) -> float:
        rows = [witness(0.2, at(source=s), row_id=str(i)) for i, s in enumerate(sources)]
        found = correction_of(at(source=""), rows, DISTANCES)
        assert found is not None
        return found.left_fraction

    assert left("a") > left("a", "a") > left("a", "b")


def test_conditions_that_are_not_stated_are_no_difference() -> None:
    unsaid = Conditions(words={SOURCE: "a"}, numbers={})
    found = correction_of(at(), [witness(0.2, unsaid)], DISTANCES)
    assert found is not None
    assert found.used[0].distance == 0.0


def test_a_row_that_is_off_by_a_factor_of_a_hundred_bends_the_answer_no_further_than_its_clip() -> None:
    found = correction_of(at(), [witness(math.log(100), at())], DISTANCES)
    assert found is not None
    assert found.log_factor <= 2.5 * math.sqrt(LEVEL + NUGGET)


def test_nothing_measured_is_no_correction_and_a_far_row_is_not_near() -> None:
    assert correction_of(at(), [], DISTANCES) is None
    far = correction_of(at(), [witness(0.2, at(engine="x", batch=8e6, source="z"))], DISTANCES)
    assert not is_near(far)
    assert is_near(correction_of(at(source=OWN), [witness(0.2, at(source=OWN))], DISTANCES))


def test_the_same_tensors_have_the_same_fingerprint_whatever_they_are_called() -> None:
    qwen = find_model("7b", None)
    assert fingerprint(qwen) == fingerprint(find_model("Qwen/Qwen2.5-7B-Instruct", None))
    assert fingerprint(qwen) == fingerprint(replace(qwen, name="mine", source="", aliases=(), max_context=8192))
    assert fingerprint(qwen) != fingerprint(find_model("8b", None))


def evaluation() -> Evaluation:
    return Evaluation(
        layout=Layout(engine="vllm", precision="bf16"),
        instances=1,
        memory=MemoryFit(lines=(), available_gib_per_accelerator=1.0),
        performance=Performance(
            basis=Basis.MODELLED,
            rates=Rates(requests_per_s=10.0, output_tokens_per_s=1000.0),
            low_factor=0.5,
            high_factor=2.0,
            tpot_ms=Percentiles(p50=20.0, p99=40.0),
            mfu_fraction=0.2,
            sources=("a fit",),
        ),
    )


def test_a_layout_that_is_a_quarter_faster_has_latencies_a_fifth_shorter() -> None:
    found = faster(evaluation().performance, 1.25)
    assert found.rates.requests_per_s == pytest.approx(12.5)
    assert found.tpot_ms == Percentiles(p50=16.0, p99=32.0)
    assert found.mfu_fraction == pytest.approx(0.25)


def test_what_is_carried_over_is_named_and_narrows_the_interval() -> None:
    correction = correction_of(at(), [witness(0.1, at(), row_id="r1")], DISTANCES)
    assert correction is not None
    found = carried(evaluation(), correction, Basis.PUBLISHED, {"r1": "somebody's page"}).performance
    assert found.basis is Basis.PUBLISHED
    assert found.sources == ("published: somebody's page", "a fit")
    assert 0.5 < found.low_factor < 1 < found.high_factor < 2.0
    assert found.high_factor == pytest.approx(2.0**correction.interval_power)
    assert [t.name for t in found.terms] == ["evidence_factor", "evidence_1"]


@pytest.mark.parametrize("workload", ["serving", "samples", "training"])
def test_shipped_distances_are_variances_and_a_repeat_is_no_exact_copy(workload: str) -> None:
    distances = shipped_distances()[workload]
    assert all(v >= 0 for v in distances.variances.values())
    assert distances.variances["nugget"] > 0
    assert 0.01 < distances.level < 1


def test_published_rows_of_a_model_are_found_by_chip_with_the_document_they_stand_in() -> None:
    found = shipped_witnesses("serving", fingerprint(find_model("mistral-7b", None)))
    assert len(found["A100 SXM4 80GB"]) > 20
    assert shipped_witnesses("serving", "000000000000") == {}
    first = found["A100 SXM4 80GB"][0].row_id
    text = citation("serving", shipped_rows("serving", [first])[first])
    assert text.startswith("mistralai/Mistral-7B-v0.1, A100 SXM4 80GB, ")
    assert text.endswith(")")
