"""Regret by hand: two chips, known prices and rates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.calibration.model import Figure, Labels, Workload
from planner.calibration.regret import Option, options_of, regrets_of, summary_of
from planner.services.regret import in_words

PRICES = {"A": 1.0, "B": 3.0, "C": 2.0}


def figure(row_id: str, chip: str, measured: float, predicted: float, unit: str = "tokens/s") -> Figure:
    labels = Labels(
        source="s",
        model="m",
        accelerator=chip,
        chip_family="",
        engine="vllm",
        family="",
        precision="bf16",
        parallelism="tp1",
        metric="e2e_ms" if unit == "ms" else "output_tokens_per_s",
        unit=unit,
    )
    return Figure(
        row_id=row_id,
        main=True,
        labels=labels,
        measured=measured,
        predicted=predicted,
        low=predicted / 2,
        high=predicted * 2,
        novelty="",
    )


def row(count: str = "1", precision: str = "bf16", **more: str) -> dict[str, str]:
    stated = {
        "model": "m",
        "input_len": "100",
        "output_len": "10",
        "scenario": "offline",
        "metric_name": "output_tok_s",
    }
    return stated | {"gpus_total": count, "precision_weights": precision} | more


def options(figures: list[Figure], rows: dict[str, dict[str, str]]) -> list[Option]:
    return options_of(figures, rows, Workload.SERVING, PRICES.get)


def test_following_a_wrong_ranking_costs_the_difference() -> None:
    # Measured: A 1 USD/h at 100/s, B 3 USD/h at 400/s: 0.01 against 0.0075. Predicted: A is cheaper. Regret 0.01 / 0.0075 - 1 = 1/3.
    found = regrets_of(options([figure("1", "A", 100, 150), figure("2", "B", 400, 400)], {"1": row(), "2": row()}))
    assert [r.fraction for r in found] == pytest.approx([1 / 3])
    assert (found[0].picked.accelerator, found[0].best.accelerator) == ("A", "B")


def test_a_right_ranking_costs_nothing_however_far_off_both_figures_are() -> None:
    found = regrets_of(options([figure("1", "A", 100, 10), figure("2", "B", 400, 40)], {"1": row(), "2": row()}))
    assert found[0].fraction == 0.0
    summary = summary_of(found)
    assert summary is not None
    assert (summary.works, summary.mean, summary.right) == (1, 0.0, 1.0)


def test_more_accelerators_cost_more_and_times_are_dearer_when_longer() -> None:
    two = options([figure("1", "A", 100, 100)], {"1": row(count="2")})
    assert two[0].measured == pytest.approx(2 * 1.0 / 100)
    longer = options([figure("1", "B", 50, 80, unit="ms")], {"1": row()})
    assert (longer[0].measured, longer[0].predicted) == pytest.approx((150, 240))


def test_both_sixteen_bit_formats_are_the_same_work_and_eight_bits_are_other_work() -> None:
    figures = [figure("1", "A", 100, 100), figure("2", "B", 400, 400), figure("3", "C", 900, 900)]
    rows = {"1": row(), "2": row(precision="fp16"), "3": row(precision="fp8")}
    found = regrets_of(options(figures, rows))
    assert len(found) == 1
    assert found[0].accelerators == 2


def test_what_is_not_sold_is_no_option_and_one_accelerator_is_no_choice() -> None:
    assert options([figure("1", "Z", 100, 100)], {"1": row()}) == []
    assert regrets_of(options([figure("1", "A", 100, 100), figure("2", "A", 90, 80)], {"1": row(), "2": row()})) == []
    assert summary_of([]) is None


def test_repeats_that_the_model_cannot_tell_apart_cost_their_median() -> None:
    figures = [figure(str(i), "A", m, 100) for i, m in enumerate((50, 100, 400))] + [figure("9", "B", 200, 200)]
    found = regrets_of(options(figures, {f.row_id: row() for f in figures}))
    # A: 1/100; B: 3/200. A is picked, and its luckiest repeat is not held against it.
    assert found[0].fraction == 0.0
    assert found[0].picked.row_id == "1"


def test_a_value_stated_per_accelerator_is_not_divided_again() -> None:
    found = options([figure("1", "A", 100, 100)], {"1": row(count="8", per_gpu="True", metric_value="100")})
    assert found[0].measured == pytest.approx(1.0 / 100)


def test_other_sources_and_engines_are_no_choice_but_versions_of_one_are() -> None:
    figures = [figure("1", "A", 100, 100), figure("2", "B", 400, 100)]

    def chips(**of_b: str) -> int:
        stated = {"source": "MLPerf Inference v4.1 results", "engine": "vLLM 0.6"}
        found = regrets_of(options(figures, {"1": row(**stated), "2": row(**(stated | of_b))}))
        return found[0].accelerators if found else 0

    assert chips() == 2
    assert chips(source="MLPerf Inference v5.1 results", engine="vllm 0.9") == 2
    assert chips(source="a blog") == 0
    assert chips(engine="TensorRT-LLM") == 0


def test_a_sweep_of_lengths_counts_as_one_model_where_models_count_alike() -> None:
    def choice(model: str, length: str, fraction: float) -> list[Option]:
        work = ("serving", "16-bit", model, length)
        return [
            Option(work=work, accelerator="A", row_id="1", measured=1 + fraction, predicted=1.0),
            Option(work=work, accelerator="B", row_id="2", measured=1.0, predicted=2.0),
        ]

    found = summary_of(
        regrets_of([*choice("m", "1", 0.3), *choice("m", "2", 0.3), *choice("m", "3", 0.3), *choice("n", "1", 0.1)])
    )
    assert found is not None
    assert found.mean == pytest.approx(0.25)
    assert found.model_mean == pytest.approx(0.2)


def test_options_on_one_accelerator_are_told_apart_by_what_differs() -> None:
    rows = {"1": row(tp="2"), "2": row("4", "fp8", tp="2"), "3": row()}
    found = regrets_of(options([figure("1", "A", 100, 150), figure("3", "B", 1, 1)], rows))[0]
    here = replace(found, best=replace(found.picked, row_id="2"))
    assert in_words(here, rows) == (
        "A (gpus_total 1, precision_weights bf16)",
        "A (gpus_total 4, precision_weights fp8)",
    )
    assert in_words(replace(found, best=replace(found.picked, accelerator="B")), rows) == ("A", "B")
    repeat = replace(found, best=replace(found.picked, row_id="9"))
    assert in_words(repeat, rows | {"9": rows["1"]}) == ("A (row 1)", "A (row 9)")
