"""Errors counted by hand, and quantiles with weights beside those of a table in which rows are really repeated."""

from __future__ import annotations

import numpy as np
import pytest

from planner.calibration.model import Figure, Labels
from planner.calibration.statistics import NOTHING, listed, of_figures, quantile, statistics, weights_of

LABELS = Labels(
    source="s", model="m", accelerator="c", chip_family="f", engine="e", family="x", precision="fp16", parallelism="tp1", metric="rate", unit="1/s"
)  # fmt: skip


def test_errors_of_four_rows_by_hand() -> None:
    measured = np.array([100.0, 100.0, 100.0, 100.0])
    predicted = np.array([110.0, 80.0, 100.0, 300.0])
    got = statistics(
        measured, predicted, ["a", "a", "a", "b"], low=np.array([90.0, 70.0, 90.0, 150.0]), high=np.array([130.0, 90.0, 110.0, 600.0])
    )  # fmt: skip
    assert got.rows == 4
    assert got.groups == 2
    assert got.median_ape == pytest.approx(0.15)  # of 0, 0.1, 0.2, 2.0
    assert got.p90_ape == pytest.approx(0.2 + 0.7 * 1.8)
    assert got.within_2x == pytest.approx(0.75)
    assert got.bias == pytest.approx(np.sqrt(1.1))  # median of 0.8, 1, 1.1, 3
    assert got.coverage_80 == pytest.approx(0.5)  # of the first and the third
    assert got.group_within_2x == pytest.approx(0.5)
    assert got.group_coverage_80 == pytest.approx(2 / 3 / 2)
    assert got.median_interval_factor == pytest.approx(
        np.median([np.sqrt(13 / 9), np.sqrt(9 / 7), np.sqrt(11 / 9), 2.0])
    )
    # Rows of a weigh 1/3 each, that of b 1: by width they stand at 0, 4/3, 8/3 and 6, and the middle is at 3.
    assert got.group_median_interval_factor == pytest.approx(0.9 * np.sqrt(13 / 9) + 0.1 * 2.0)


def test_the_factor_sees_under_prediction_that_the_percentage_hides() -> None:
    got = statistics(np.full(10, 100.0), np.full(10, 10.0), ["a"] * 10)
    assert got.p90_ape == pytest.approx(0.9)
    assert got.p90_factor == pytest.approx(10.0)
    assert got.coverage_80 is None


def test_equal_weights_give_the_plain_quantile() -> None:
    values = np.random.default_rng(1).normal(size=57)
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        assert quantile(values, share, np.full(57, 0.3)) == pytest.approx(float(np.quantile(values, share)))


def test_a_weight_of_three_is_like_three_rows() -> None:
    rng = np.random.default_rng(2)
    values, weights = rng.normal(size=400), rng.integers(1, 4, size=400)
    for share in (0.1, 0.5, 0.9):
        repeated = float(np.quantile(np.repeat(values, weights), share))
        assert quantile(values, share, weights.astype(float)) == pytest.approx(repeated, abs=0.02)


def test_every_group_weighs_the_same() -> None:
    weights = weights_of(["a", "b", "a", "a"])
    assert weights.tolist() == pytest.approx([1 / 3, 1, 1 / 3, 1 / 3])


def test_nothing_is_said_of_nothing() -> None:
    assert of_figures([]) == NOTHING


def test_only_the_list_by_metric_has_the_further_figures() -> None:
    main = Figure(row_id="1", main=True, labels=LABELS, measured=1.0, predicted=1.1, low=1.0, high=1.2, novelty="known source")  # fmt: skip
    other = Labels(**{n: getattr(LABELS, n) for n in Labels.__dataclass_fields__} | {"metric": "ttft_ms"})
    beside = Figure(row_id="1", main=False, labels=other, measured=5.0, predicted=4.0, low=3.0, high=6.0, novelty="known source")  # fmt: skip
    got = listed([main, beside])
    assert [row["key"] for row in got["metric"]] == ["rate", "ttft_ms"]
    assert [row["rows"] for row in got["engine"]] == [1]
    assert list(got) == ["accelerator", "engine", "family", "precision", "parallelism", "metric"]


def test_the_whole_of_a_metric_stands_before_its_parts() -> None:
    def figure(metric: str, predicted: float) -> Figure:
        labels = Labels(**{n: getattr(LABELS, n) for n in Labels.__dataclass_fields__} | {"metric": metric})
        return Figure(row_id="1", main=False, labels=labels, measured=1.0, predicted=predicted, low=0.5, high=2.0, novelty="known source")  # fmt: skip

    steady, at_once = [figure("tpot_ms", 1.1)] * 3, [figure("tpot_all_at_once_ms", 1.5)] * 2
    got = {row["key"]: row for row in listed([*steady, *at_once])["metric"]}
    assert {key: row["rows"] for key, row in got.items()} == {
        "tpot_ms": 5,
        "tpot_steady_ms": 3,
        "tpot_all_at_once_ms": 2,
    }
    assert got["tpot_ms"]["p90_ape"] == pytest.approx(0.5)
    assert got["tpot_steady_ms"]["p90_ape"] == pytest.approx(0.1)
    assert [row["key"] for row in listed(steady)["metric"]] == ["tpot_ms"]
