"""The numbers that CI looks at: a fixed sample of the shipped tables, whole groups left out, against bars with slack from what the model is to reach.

The full tables are on the page of validation (`python -m planner.calibration document all`); a sample of a tenth to a fifth is noisier and its fits know less,
so a bar here is looser. A change of the physics that spoils predictions of the unseen fails here.
"""

from __future__ import annotations

import pytest

from planner.calibration.facts import shipped_facts
from planner.calibration.folds import LeftOut
from planner.calibration.model import Workload
from planner.services.validate import Validated, validate_left_out

SAMPLE = 1000
# whole groups left out: median APE, 90th percentile of the factor, least share within 2x. Reached are to be 10 % and 96 % for language
# models, 12 % and 93 % for training, 10 % and 92 % for samples, on the whole tables.
BARS = {
    Workload.SERVING: (0.25, 3.0, 0.85),
    Workload.SAMPLES: (0.35, 3.5, 0.80),
    Workload.TRAINING: (0.35, 3.5, 0.75),
}


@pytest.fixture(scope="module", params=list(Workload), ids=lambda w: w.value)
def left_out(request: pytest.FixtureRequest) -> tuple[Workload, Validated]:
    workload: Workload = request.param
    return workload, validate_left_out(
        workload, shipped_facts(), left_out=LeftOut.GROUPS, folds=3, sample=SAMPLE, seed=7
    )


def test_left_out_groups_are_predicted_within_the_bars(left_out: tuple[Workload, Validated]) -> None:
    workload, answer = left_out
    median, factor, within = BARS[workload]
    overall = answer.document["overall"]
    assert overall["rows_used"] > 0.5 * SAMPLE
    assert overall["rows_used"] >= 0.8 * overall["rows_eligible"]  # 0.9 of the whole tables, which test_validate holds
    assert overall["median_ape"] <= median
    assert overall["p90_factor"] <= factor
    assert overall["within_2x"] >= within
    assert overall["bias"] == pytest.approx(1.0, abs=0.15)


def test_intervals_of_left_out_groups_hold_about_80_percent(left_out: tuple[Workload, Validated]) -> None:
    _, answer = left_out
    overall = answer.document["overall"]
    assert 0.66 <= overall["coverage_80"] <= 0.93
    assert overall["median_interval_factor"] <= 2.5
    assert {f.novelty for f in answer.figures} <= {
        "known source",
        "new source",
        "new chip",
        "new source and chip",
        "new model",
    }


def test_the_same_sample_gives_the_same_answer() -> None:
    def document() -> object:
        answer = validate_left_out(
            Workload.TRAINING, shipped_facts(), left_out=LeftOut.GROUPS, folds=2, sample=150, seed=1
        )
        return answer.document

    assert document() == document()
