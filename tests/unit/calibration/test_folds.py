"""Left-out rows are really left out, errors are those of what was not seen, and intervals cover what they say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from made_physics import made

from planner.calibration import hierarchy
from planner.calibration.folds import KEY_OF, LeftOut, cross_validated, fold_of, refit
from planner.calibration.intervals import conformal, halves
from planner.calibration.statistics import of_figures
from planner.calibration.trials import Trial, figures_checked
from planner.perf.intervals import bounds, multiples_of, novelty_of
from planner.perf.parameters import IntervalRow


def test_a_key_is_in_one_fold_and_folds_are_of_like_size() -> None:
    keys = [f"k{i % 40}" for i in range(1000)] + ["big"] * 600
    fold = fold_of(keys, 5)
    assert all(len({int(f) for f, k in zip(fold, keys, strict=True) if k == key}) == 1 for key in set(keys))
    alone = {k for f, k in zip(fold, keys, strict=True) if f == fold[-1]}
    assert alone == {"big"}  # more rows than a fold's share
    sizes = sorted(Counter(fold.tolist()).values())
    assert sizes[0] >= 225
    assert sizes[-1] == 600
    assert (fold_of(keys, 5) == fold).all()
    assert (fold_of(keys, 5, seed=1) != fold).any()


@pytest.mark.parametrize("left_out", list(LeftOut))
def test_nothing_of_a_left_out_row_reaches_its_prediction(left_out: LeftOut) -> None:
    reading, problem = made(rows=300)
    whole = hierarchy.fit(problem)
    fold = fold_of([KEY_OF[left_out](each) for each in reading.labels], 5)
    changed = problem.log_measured + np.where(fold == 0, 3.0, 0.0)  # the answers of fold 0 are made absurd
    plain = cross_validated(problem, reading.labels, whole, left_out=left_out, rounds=12)
    other = cross_validated(replace(problem, log_measured=changed), reading.labels, whole, left_out=left_out, rounds=12)
    held = fold == 0
    assert other.log_predicted[held] == pytest.approx(plain.log_predicted[held], abs=1e-6)
    assert np.abs(other.log_predicted - plain.log_predicted)[~held].max() > 0.01


def test_few_rounds_from_the_whole_fit_are_enough() -> None:
    reading, problem = made(rows=300)
    whole = hierarchy.fit(problem)
    few = cross_validated(problem, reading.labels, whole, left_out=LeftOut.SOURCES, folds=8)
    many = cross_validated(problem, reading.labels, whole, left_out=LeftOut.SOURCES, folds=8, rounds=15)
    assert few.log_predicted == pytest.approx(many.log_predicted, abs=5e-3)


def test_a_left_out_source_is_new_and_errs_by_the_spread_between_sources() -> None:
    reading, problem = made(1, rows=600, source_sd=0.4)
    whole = hierarchy.fit(problem)
    groups = cross_validated(problem, reading.labels, whole)
    sources = cross_validated(problem, reading.labels, whole, left_out=LeftOut.SOURCES, folds=8)
    chips = cross_validated(problem, reading.labels, whole, left_out=LeftOut.CHIPS, folds=6)
    assert set(groups.novelty) == {"known source"}
    assert set(sources.novelty) == {"new source"}
    assert set(chips.novelty) == {"new chip"}
    # noise of 5 % for a known source; for a new one its lean besides, through the share of bandwidth where that is what takes time
    assert np.std(groups.residual) == pytest.approx(0.05, rel=0.3)
    assert np.std(sources.residual) > 1.5 * np.std(groups.residual)
    assert np.median(sources.sd) > 1.3 * np.median(groups.sd)


def test_intervals_made_of_one_half_of_the_groups_cover_the_other() -> None:
    reading, problem = made(2, rows=600)
    whole = hierarchy.fit(problem)
    left = [cross_validated(problem, reading.labels, whole, left_out=each, folds=8) for each in LeftOut]
    trial = Trial(rows=[], reading=reading, problem=problem, sha256="")
    checked = figures_checked(trial, left, left[0], whole)
    got = of_figures(checked)
    assert got.rows == 600
    assert got.coverage_80 == pytest.approx(0.8, abs=0.05)
    assert got.median_interval_factor == pytest.approx(np.exp(1.2816 * 0.05), rel=0.06)


def test_multiples_follow_skewed_errors_and_thin_classes_take_a_wider_one() -> None:
    reading, problem = made(3, rows=600)
    whole = hierarchy.fit(problem)
    left = cross_validated(problem, reading.labels, whole)
    z = np.random.default_rng(0).exponential(size=600) - 0.5  # p10 and p90 are 0.105 - 0.5 and 2.303 - 0.5
    skewed = replace(left, log_predicted=left.log_measured - z * left.sd)
    rows = conformal([skewed], [each.group for each in reading.labels])
    assert set(rows) == {"known source"}
    assert rows["known source"].low == pytest.approx(0.105 - 0.5, abs=0.05)
    assert rows["known source"].high == pytest.approx(2.303 - 0.5, abs=0.3)
    low, high = multiples_of(replace(whole, intervals=rows), ["known source", "new source"])
    assert low[0] == low[1]
    assert high[0] == high[1]
    assert multiples_of(whole, ["new chip"])[1] == pytest.approx([1.2816], abs=1e-4)


def test_bounds_are_multiples_of_the_spread_in_log() -> None:
    _, problem = made(rows=200)
    whole = replace(
        hierarchy.fit(problem, rounds=2), intervals={"new source": IntervalRow(low=-1.0, high=2.0, rows=50, groups=9)}
    )
    low, high = bounds(whole, np.array([100.0]), np.array([np.log(2)]), ["new source"])
    assert (low[0], high[0]) == (pytest.approx(50.0), pytest.approx(400.0))


def test_a_users_request_is_of_a_new_source_and_a_level_that_is_absent_says_nothing() -> None:
    _, problem = made(rows=200)
    whole = hierarchy.fit(problem, rounds=2)
    keys = {"chip": ["chip 1", "chip 99", "chip 1"], "source": ["", "", "source 1"], "group": ["", "", ""]}
    assert novelty_of(whole, keys, 3) == ["new source", "new source and chip", "known source"]


def test_refitted_parameters_know_only_what_they_saw() -> None:
    reading, problem = made(rows=300)
    whole = hierarchy.fit(problem)
    used = np.array([each.accelerator != "chip 0" for each in reading.labels])
    assert not refit(problem, used, whole).known("chip", "chip 0")
    assert refit(problem, used, whole).known("chip", "chip 1")


def test_halves_split_whole_groups() -> None:
    groups = [f"g{i % 30}" for i in range(300)]
    first = halves(groups)
    assert first.sum() == 150
    assert {g for g, f in zip(groups, first, strict=True) if f}.isdisjoint(
        g for g, f in zip(groups, first, strict=True) if not f
    )


def test_one_source_cannot_be_left_out() -> None:
    reading, problem = made(rows=100)
    labels = [replace(each, source="only") for each in reading.labels]
    whole = hierarchy.fit(problem, rounds=2)
    with pytest.raises(ValueError, match="all rows are of one"):
        cross_validated(problem, labels, whole, left_out=LeftOut.SOURCES)
