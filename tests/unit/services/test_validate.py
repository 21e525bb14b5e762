"""What is said of measured rows: every row is used or has its reason, statistics are of the main figures, rows go out whole."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planner.calibration.columns import parse_measurements
from planner.calibration.model import Facts, Figure, Labels, Reading, Row, Skipped, Workload
from planner.cli.validate_table import skipped_lines
from planner.perf.parameters import Deviation, Link, Parameters, Slot
from planner.services import validate
from planner.services.documents import to_json_bytes
from pricing.errors import NotReadable

HEADER = "row_id,source,model,gpu,precision_weights,input_len,output_len,metric_name,metric_value,per_gpu,gpus_total"
FACTS = Facts(accelerators={}, accelerator_names={}, find_model=lambda name: None)
PARAMETERS = Parameters(
    workload="serving",
    version="1",
    fitted_on="2026-01-01",
    data_sha256="other",
    rows=1,
    groups=1,
    slots=(),
    centres={},
    centre_sds={},
    spreads={},
    deviations={},
    noise_sd=0.1,
)


class TwiceAsFast:
    """A physics that predicts a rate 25 % above the input length for every row with lengths, and skips those without."""

    def read(self, rows: Sequence[Row], facts: Facts) -> Reading:
        del facts
        cases = [r for r in rows if r["input_len"]]
        skipped = [
            Skipped(row_id=r["row_id"], reason="no lengths stated", detail="", eligible=False)
            for r in rows
            if not r["input_len"]
        ]
        return Reading(
            workload=Workload.SERVING,
            cases=cases,
            labels=[],
            row_ids=[r["row_id"] for r in cases],
            main=[True] * len(cases),
            measured=[float(r["metric_value"]) for r in cases],
            skipped=skipped,
        )

    def problem(self, reading: Reading) -> None:
        raise NotImplementedError

    def figures(self, reading: Reading, parameters: Parameters) -> list[Figure]:
        del parameters
        out = []
        for row in reading.cases:
            assert isinstance(row, dict)
            all_gpus = float(row["gpus_total"] or 1) if row["per_gpu"] else 1.0
            labels = Labels(
                source=row["source"], model=row["model"], accelerator=row["gpu"], chip_family="f", engine="e", family="m",
                precision="fp16", parallelism="tp1", metric=row["metric_name"], unit="tokens/s",
            )  # fmt: skip
            predicted = 1.25 * float(row["input_len"]) * all_gpus
            value = float(row["metric_value"]) * all_gpus
            figure = Figure(
                row_id=row["row_id"], main=True, labels=labels, measured=value, predicted=predicted, low=predicted / 1.2, high=predicted * 1.2,
                novelty="known source",
            )  # fmt: skip
            out += [
                figure,
                replace(
                    figure,
                    main=False,
                    labels=replace(labels, metric="ttft_ms"),
                    measured=10.0,
                    predicted=20.0,
                    low=9.0,
                    high=30.0,
                ),
            ]
        return out


def answer(*lines: str) -> validate.Validated:
    measurements = parse_measurements("\n".join([HEADER, *lines, ""]).encode())
    return validate.validate_measurements(measurements, FACTS, parameters=PARAMETERS, physics=TwiceAsFast())


ROWS = (
    "a,s1,m,H100,fp16,100,10,output_tok_s,100,,",  # predicted 125: 25 % off, above 125/1.2 = 104.2
    "b,s1,m,H100,fp16,100,10,output_tok_s,125,,",  # exact
    "c,s2,m,H100,fp16,100,10,output_tok_s,50,,",  # 2.5 times
    "d,s2,m,H100,fp16,,,output_tok_s,50,,",  # no lengths
    "e,s3,m,L4,fp16,100,10,output_tok_s,31.25,true,4",  # per GPU: 4 x 31.25 of 4 x 125
)


def test_every_row_is_used_or_has_its_reason() -> None:
    overall = answer(*ROWS).document["overall"]
    assert list(overall)[:9] == [
        *("rows_total", "rows_eligible", "rows_used", "rows_skipped", "skipped_reasons", "groups", "median_ape"),
        *("p90_ape", "p90_factor"),
    ]
    assert (overall["rows_total"], overall["rows_eligible"], overall["rows_used"], overall["rows_skipped"]) == (
        5,
        4,
        4,
        1,
    )
    assert overall["skipped_reasons"] == {"no lengths stated": 1}
    assert overall["groups"] == 3


def test_statistics_are_of_the_main_figures_and_by_metric_of_all() -> None:
    document = answer(*ROWS).document
    assert document["overall"]["median_ape"] == pytest.approx((0.25 + 1.5) / 2)  # 0.25, 0, 1.5, 3
    assert document["overall"]["within_2x"] == pytest.approx(0.5)
    assert document["overall"]["coverage_80"] == pytest.approx(0.25)
    assert {row["key"]: row["rows"] for row in document["by"]["metric"]} == {"output_tok_s": 4, "ttft_ms": 4}
    assert {row["key"]: row["rows"] for row in document["by"]["accelerator"]} == {"H100": 3, "L4": 1}
    assert list(document["by"]) == ["accelerator", "engine", "family", "precision", "parallelism", "metric"]
    json.loads(to_json_bytes(document))


def test_a_figure_is_told_in_the_unit_of_its_row() -> None:
    got = {f.row_id: f for f in answer(*ROWS).figures if f.main}
    assert got["e"].measured == pytest.approx(31.25)
    assert got["e"].predicted == pytest.approx(125.0)
    assert got["e"].high == pytest.approx(150.0)


def test_a_prediction_that_is_no_number_is_told_as_not_predicted() -> None:
    document = answer("a,s,m,H100,fp16,nan,1,output_tok_s,100,,", ROWS[1]).document
    assert document["overall"]["rows_used"] == 1
    assert document["overall"]["rows_eligible"] == 2
    assert document["overall"]["skipped_reasons"] == {"not predicted": 1}


def test_where_nothing_can_be_predicted_statistics_are_null() -> None:
    document = answer(ROWS[3]).document
    assert document["overall"]["median_ape"] is None
    assert document["overall"]["rows_used"] == 0
    assert document["by"]["engine"] == []
    json.loads(to_json_bytes(document))


def test_a_row_of_the_file_has_the_further_figures_beside_the_main_one() -> None:
    columns, rows = validate.rows_of_figures(answer(*ROWS).figures)
    assert columns[:6] == ["row_id", "measured", "predicted", "low", "high", "ape"]
    assert [row["row_id"] for row in rows] == ["a", "b", "c", "e"]
    assert rows[0]["ape"] == pytest.approx(0.25)
    assert rows[0]["ttft_ms.predicted"] == 20.0
    assert rows[0]["group"] == "s1 | m | H100"


def test_the_file_of_rows_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    validate.write_whole(path, "a,b\n1,2\n")
    assert list(csv.reader(path.read_text().splitlines())) == [["a", "b"], ["1", "2"]]
    assert os.listdir(tmp_path) == ["rows.csv"]  # noqa: PTH208 - hidden files too
    for bad, why in ((tmp_path / "no" / "rows.csv", "there is no folder"), (tmp_path, "is no plain file")):
        with pytest.raises(NotReadable, match=why):
            validate.write_whole(bad, "x")
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    validate.write_whole(link, "new\n")
    assert link.is_symlink()
    assert path.read_text() == "new\n"


@pytest.mark.parametrize("workload", list(Workload))
def test_the_shipped_tables_are_used_to_nine_tenths_and_more(workload: Workload) -> None:
    pytest.importorskip(f"planner.calibration.{workload.value}")
    from planner.calibration.facts import shipped_facts

    got = validate.validate_shipped(workload, shipped_facts())
    overall = got.document["overall"]
    assert overall["rows_used"] >= 0.9 * overall["rows_eligible"]
    assert overall["rows_total"] == overall["rows_used"] + overall["rows_skipped"]
    assert overall["rows_skipped"] == sum(overall["skipped_reasons"].values())
    assert all(np.isfinite([f.predicted, f.low, f.high]).all() for f in got.figures)
    assert all(f.low <= f.predicted <= f.high for f in got.figures)


def test_noise_stands_beside_errors() -> None:
    # Rows a and b repeat one work at 100 and 125 (nothing else told): any prediction is off by 1.25^(1/sqrt 2) - 1 = 17 % at the median.
    document = answer(*ROWS[:2], "f,s1,m,L4,fp16,100,10,output_tok_s,100,,").document
    assert [(n["kind"], round(n["median_factor"], 6)) for n in document["noise"]] == [
        ("in one table, nothing told", 1.25)
    ]
    floors = {row["key"]: row["noise_floor_ape"] for row in document["by"]["accelerator"]}
    assert floors == {"H100": pytest.approx(1.25 ** (1 / np.sqrt(2)) - 1), "L4": None}


def test_own_parameters_predict_rows_as_requests_of_theirs_and_say_so() -> None:
    class Heard(TwiceAsFast):
        sources: Sequence[str] = ()

        def read(self, rows: Sequence[Row], facts: Facts) -> Reading:
            found = super().read(rows, facts)
            return replace(found, labels=[f.labels for f in super().figures(found, PARAMETERS) if f.main])

        def figures(self, reading: Reading, parameters: Parameters) -> list[Figure]:
            Heard.sources = [labels.source for labels in reading.labels]
            return [f for f in super().figures(reading, parameters) if f.main]

    own = replace(
        PARAMETERS,
        slots=(Slot(name="pace", unit="", link=Link.LOG, start=1.0, levels={"source": 0.3}),),
        centres={"pace": 0.0},
        deviations={("pace", "source", ""): Deviation(x=0.1, sd=0.1, rows=9, groups=3)},
    )
    measurements = parse_measurements("\n".join([HEADER, *ROWS[:2], ""]).encode())
    for parameters, whose, heard in ((own, "own", ["", ""]), (PARAMETERS, "shipped", ["s1", "s1"])):
        got = validate.validate_measurements(measurements, FACTS, parameters=parameters, physics=Heard())
        assert Heard.sources == heard
        assert got.document["parameters"]["whose"] == whose
        assert [f.labels.source for f in got.figures] == ["s1", "s1"]


def test_a_figure_beyond_anything_is_skipped_and_moves_no_statistic_and_no_floor() -> None:
    more = ("x,s1,m,H100,fp16,100,10,output_tok_s,1e30,,", "y,s1,m,H100,fp16,100,10,output_tok_s,1e-12,,")
    with_them, without = answer(*ROWS, *more).document, answer(*ROWS).document
    assert with_them["overall"]["skipped_reasons"] == {"not a plausible figure": 2, "no lengths stated": 1}
    assert with_them["skipped_rows"] == {"not a plausible figure": ["x", "y"], "no lengths stated": ["d"]}
    assert with_them["overall"]["p90_ape"] == without["overall"]["p90_ape"]
    assert [n["median_factor"] for n in with_them["noise"]] == [n["median_factor"] for n in without["noise"]]
    assert [g["noise_floor_ape"] for g in with_them["by"]["accelerator"]] == [
        g["noise_floor_ape"] for g in without["by"]["accelerator"]
    ]


def test_five_rows_of_each_reason_are_named() -> None:
    document = answer(ROWS[0], *(f",s,m,H100,fp16,,,output_tok_s,{i},," for i in range(1, 8))).document
    assert document["skipped_rows"] == {"no lengths stated": [f"line {i}" for i in range(3, 8)]}
    assert skipped_lines(document) == ["no lengths stated 7 (line 3, line 4, line 5, line 6, line 7, …)"]
