"""The page of validation: what is put between its markers, its pictures, and that it has a section with figures for each workload."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_physics import made

import planner
from planner.calibration import hierarchy
from planner.calibration.documents import put, silicon_lines, tables_of
from planner.calibration.folds import LeftOut, cross_validated
from planner.calibration.model import Workload
from planner.calibration.noise import BETWEEN_ENGINES, BETWEEN_SOURCES, BETWEEN_VERSIONS, UNTOLD, repeats_of
from planner.calibration.trials import Trial, figures_checked

DOCS = Path(planner.__file__).parent / "docs"
WORK = dict.fromkeys(
    (
        *("gpu", "gpus_total", "gpus_per_replica", "tp", "pp", "ep", "precision_weights", "precision_kv", "input_len"),
        *("output_len", "batch_or_concurrency", "request_rate", "scenario", "metric_name", "per_gpu", "model"),
        *("source_version", "date", "engine_version"),
    ),
    "same",
)


def row(value: float, source: str = "Bench v1", engine: str = "vLLM 0.5", **other: str) -> dict[str, str]:
    return {**WORK, "source": source, "engine": engine, "metric_value": str(value), **other}


def test_repeats_are_told_apart_by_what_differs() -> None:
    rows = [
        row(100.0),
        row(110.0),
        row(120.0, source="Bench v2"),
        row(200.0, engine="TensorRT-LLM"),
        row(400.0, source="Others"),
    ]
    got = {each.kind: each for each in repeats_of(Workload.SERVING, rows)}
    assert got[UNTOLD].median_factor == pytest.approx(1.1)
    assert got[UNTOLD].floor_median_ape == pytest.approx(1.1 ** (1 / np.sqrt(2)) - 1)
    assert got[BETWEEN_VERSIONS].median_factor == pytest.approx(np.sqrt(1.2 * 120 / 110))
    assert got[BETWEEN_ENGINES].median_factor == pytest.approx(200 / 110)  # of 2, 1.82 and 1.67
    assert got[BETWEEN_SOURCES].pairs == 4
    assert sum(each.pairs for each in got.values()) == 10


def test_other_work_is_no_repeat() -> None:
    assert repeats_of(Workload.SERVING, [row(1.0), row(2.0, tp="8"), row(3.0, gpu="other")]) == []


def test_a_section_is_put_between_its_markers_and_the_prose_stays() -> None:
    page = "before\n<!-- begin serving -->\nold\n<!-- end serving -->\nafter\n"
    assert put(page, "serving", "new") == "before\n<!-- begin serving -->\nnew\n<!-- end serving -->\nafter\n"
    with pytest.raises(ValueError, match="no markers"):
        put(page, "training", "new")


def test_tables_and_picture_of_left_out_rows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from planner.calibration.pictures import drawn

    reading, problem = made(rows=300)
    whole = hierarchy.fit(problem)
    trial = Trial(rows=[], reading=reading, problem=problem, sha256="0123456789abcdef")
    left = cross_validated(problem, reading.labels, whole)
    figures = figures_checked(trial, [left], left, whole)
    text = tables_of(trial, {LeftOut.GROUPS.value: figures})
    assert "| groups | 300 |" in text
    assert "| chip 1 |" in text
    assert "Worst groups" in text
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert (
        len({line.count("|") for line in table if "---" not in line and "x |" not in line and "floor" not in line}) == 1
    )
    drawn(figures, "made", tmp_path / "made.png")
    data = (tmp_path / "made.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < 300_000


@pytest.mark.parametrize("workload", list(Workload))
def test_the_page_has_figures_of_each_workload(workload: Workload) -> None:
    page = (DOCS / "validation.md").read_text(encoding="utf-8")
    section = page.split(f"<!-- begin {workload.value} -->")[1].split(f"<!-- end {workload.value} -->")[0]
    for name in ("groups", "sources", "chips", "models"):
        assert f"\n| {name} | " in section
    assert "Worst groups" in section
    assert (DOCS / "figures" / f"validation_{workload.value}.png").stat().st_size < 300_000


def test_the_page_has_the_table_of_measured_operators_as_last_written() -> None:
    page = (DOCS / "validation.md").read_text(encoding="utf-8")
    lines = list(silicon_lines())
    assert len({line.count("|") for line in lines}) == 1
    assert "\n".join(lines) in page
    assert sum("| model and tables |" in line for line in lines) == sum("| model |" in line for line in lines) > 0
