"""A user's rows on top of the shipped fit: a lean is found from few rows, noise moves little, ours stays as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_physics import SLOTS, made

from planner.calibration import hierarchy
from planner.calibration.folds import FOLDS, fold_of
from planner.calibration.own import asked, recalibrated, shifted
from planner.perf.intervals import novelty_of
from planner.perf.parameters import Parameters, from_json, to_json


@pytest.fixture(scope="module")
def shipped() -> Parameters:
    return hierarchy.fit(made(1, rows=800, source_sd=0.2)[1])


def mine(slower: float, *, rows: int, noise_sd: float = 0.05) -> hierarchy.Problem:
    """Return rows of one new source whose times are the true ones without lean, times a factor."""
    _, problem = made(1, rows=rows, source_sd=0.0, noise_sd=noise_sd)
    return replace(problem, log_measured=problem.log_measured + np.log(slower))


def test_a_lean_is_found_and_left_out_rows_gain(shipped: Parameters) -> None:
    found = recalibrated(mine(1.3, rows=60), shipped)
    assert found.before.bias == pytest.approx(1 / 1.3, rel=0.15)
    assert found.after.bias == pytest.approx(1.0, rel=0.06)
    assert found.after.median_ape is not None
    assert found.before.median_ape is not None
    assert found.after.median_ape < found.before.median_ape / 1.5
    assert found.better


def test_the_shipped_deviations_of_others_stay(shipped: Parameters) -> None:
    own = shifted(mine(1.3, rows=40), shipped)
    for key, deviation in shipped.deviations.items():
        if key[1] not in {"chip", "engine"}:
            assert own.deviations[key] == deviation
    assert own.centres == shipped.centres


def test_rows_as_predicted_move_nothing(shipped: Parameters) -> None:
    problem = mine(1.0, rows=40)
    predicted, _ = hierarchy.predict(asked(problem), shipped)
    own = shifted(replace(problem, log_measured=predicted), shipped)
    again, _ = hierarchy.predict(asked(problem), own)
    assert again == pytest.approx(predicted, abs=1e-3)


def test_few_rows_move_less_than_many(shipped: Parameters) -> None:
    def gained(rows: int) -> float:
        problem = mine(1.3, rows=rows)
        before, _ = hierarchy.predict(asked(problem), shipped)
        after, _ = hierarchy.predict(asked(problem), shifted(problem, shipped))
        return float(np.median(after - before))

    assert 0 < gained(1) < gained(60) < np.log(1.3) * 1.1


def test_the_source_of_a_request_is_known_afterwards_also_from_the_file(shipped: Parameters, tmp_path: Path) -> None:
    problem = mine(1.2, rows=30)
    own = from_json(to_json(shifted(problem, shipped)))
    keys = {"chip": ["chip 1"], "source": [""], "group": [""]}
    assert novelty_of(shipped, keys, 1) == ["new source"]
    assert novelty_of(own, keys, 1) == ["known source"]
    assert [s.name for s in own.slots] == [s.name for s in SLOTS]


def test_too_few_rows_are_refused(shipped: Parameters) -> None:
    with pytest.raises(ValueError, match="5 usable rows are too few"):
        recalibrated(mine(1.2, rows=5), shipped)


def test_rows_that_contradict_each_other_are_not_better(shipped: Parameters) -> None:
    problem = mine(1.0, rows=60)
    predicted, _ = hierarchy.predict(asked(problem), shipped)
    fold = fold_of(list(problem.groups), FOLDS)
    lean = np.array([0.5, 0.5, -0.5, -0.5, 0.0])[fold]  # whichever fold is left out, the others lean the other way
    assert not recalibrated(replace(problem, log_measured=predicted + lean), shipped).better
