"""`planner validate` as a person meets it: answers, refusals in one line, files that are whole, own rows kept apart and forgotten."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from planner.calibration.columns import COLUMNS, shipped_measurements
from planner.calibration.model import Workload
from planner.silicon import installed_version


def planner(*words: str, data: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "planner", "validate", *words],
        capture_output=True,
        text=True,
        env={"PLANNER_DATA_DIR": str(data), "PATH": "/usr/bin:/bin", "COLUMNS": "120", "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of 60 training rows of one source whose rates are a fifth lower than published."""
    table = shipped_measurements(Workload.TRAINING)
    rows = [row for row in table.rows if row["source_family"] == "maxtext"]
    path = tmp_path_factory.mktemp("own") / "own.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, COLUMNS[Workload.TRAINING])
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, "source": "ours", "metric_value": str(0.8 * float(row["metric_value"]))})
    return path


def test_errors_as_json_and_rows_as_a_file(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    done = planner("--measurements", str(file), "--format", "json", "--out", str(out), data=tmp_path)
    assert done.returncode == 0, done.stderr
    overall = json.loads(done.stdout)["overall"]
    with out.open(newline="", encoding="utf-8") as rows:
        written = list(csv.DictReader(rows))
    assert len(written) == overall["rows_used"] > 0
    errors = sorted(abs(float(r["predicted"]) / float(r["measured"]) - 1) for r in written)
    middle = (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2
    assert overall["median_ape"] == pytest.approx(middle, rel=1e-3)
    inside = [float(r["low"]) <= float(r["measured"]) <= float(r["high"]) for r in written]
    assert overall["coverage_80"] == pytest.approx(sum(inside) / len(inside), abs=1e-3)


def test_a_table_says_how_many_rows_and_the_errors(file: Path, tmp_path: Path) -> None:
    done = planner("--measurements", str(file), data=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("training: ")
    assert "median error" in done.stdout
    assert "each of" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--measurements", "no.csv"), "no.csv: No such file or directory"),
        (("--measurements", "."), ".: is a folder"),
        (("--measurements", "pyproject.toml"), "line 1: is the header of no known column set"),
        (("--leave-out", "group"), "'group' is not one of groups, sources, chips, models; did you mean groups?"),
        (("--workload", "llm"), "--workload: 'llm' is not one of serving, samples, training"),
        (("--sample", "3"), "--sample: 3 must be between 20 and"),
        (("--recalibrate",), "--recalibrate needs --measurements"),
        (("--measurements", "x.csv", "--folds", "3"), "--folds goes with the shipped tables"),
        (("--forget", "--recalibrate"), "--forget goes alone"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_2(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = planner(*words, data=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_own_rows_are_kept_apart_and_forgotten(file: Path, tmp_path: Path) -> None:
    done = planner("--measurements", str(file), "--recalibrate", "--format", "json", data=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["kept"]
    assert document["after"]["median_ape"] < document["before"]["median_ape"]
    assert document["after"]["bias"] == pytest.approx(1.0, abs=0.1)
    kept = tmp_path / "calibration"
    assert {p.name for p in kept.iterdir()} == {"own_training.json", "own_rows_training.csv"}
    assert (kept / "own_rows_training.csv").read_bytes() == file.read_bytes()
    assert json.loads((kept / "own_training.json").read_text())["data_sha256"] == document["data_sha256"]
    assert planner("--forget", data=tmp_path).returncode == 0
    assert list(kept.iterdir()) == []


def test_measured_operators_are_asked_for_alone_and_only_where_they_are_installed(tmp_path: Path) -> None:
    done = planner("--silicon", "--regret", data=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--silicon goes alone, not with --regret" in done.stderr
    if installed_version() is None:
        done = planner("--silicon", data=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)
        assert "pip install" in done.stderr
        words = ("estimate", "--model", "llama-2-7b", "--accelerator", "H100 SXM5 80GB", "--evidence", "silicon")
        asked = subprocess.run(
            [sys.executable, "-m", "planner", *words],
            capture_output=True,
            text=True,
            env={"PLANNER_DATA_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
            check=False,
        )
        assert (asked.returncode, asked.stdout, asked.stderr.count("\n")) == (4, "", 1)
        assert "pip install" in asked.stderr


def test_whose_parameters_predict_is_said_and_own_ones_are_refused_where_there_are_none(
    file: Path, tmp_path: Path
) -> None:
    done = planner("--measurements", str(file), "--parameters", "own", data=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there are none" in done.stderr
    kept = planner("--measurements", str(file), "--recalibrate", "--format", "json", data=tmp_path)
    assert json.loads(kept.stdout)["kept"]
    ours = planner("--measurements", str(file), data=tmp_path)
    assert "shipped parameters" in ours.stdout.splitlines()[0]
    assert "--parameters own" in ours.stdout
    own = planner("--measurements", str(file), "--parameters", "own", "--format", "json", data=tmp_path)
    shipped = planner("--measurements", str(file), "--format", "json", data=tmp_path)
    mine, before = json.loads(own.stdout), json.loads(shipped.stdout)
    assert (mine["parameters"]["whose"], before["parameters"]["whose"]) == ("own", "shipped")
    # The rows are a fifth slower than published: own parameters know.
    assert abs(mine["overall"]["bias"] - 1) < 0.6 * abs(before["overall"]["bias"] - 1)


SERVING = "model,gpu,precision_weights,input_len,output_len,metric_name,metric_value,concurrency,tensor_parallel"


def test_columns_that_are_not_read_are_said_in_one_line_and_in_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(f"{SERVING}\nmeta-llama/Llama-2-7b-hf,A100 SXM4 80GB,fp16,128,128,output_tok_s,1000,8,1\n")
    done = planner("--measurements", str(path), "--format", "json", data=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1
    assert "concurrency (did you mean batch_or_concurrency?), tensor_parallel (did you mean tp?)" in done.stderr
    assert json.loads(done.stdout)["unknown_columns"] == [
        {"name": "concurrency", "nearest": "batch_or_concurrency"},
        {"name": "tensor_parallel", "nearest": "tp"},
    ]


def test_a_file_of_which_nothing_is_predicted_is_refused_with_why(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    head = SERVING.removesuffix(",concurrency,tensor_parallel")
    path.write_text(f"{head}\nmeta-llama/Llama-2-7b-hf,No Such Chip,fp16,128,128,output_tok_s,1000\n")
    done = planner("--measurements", str(path), data=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "none of its 1 rows could be predicted" in done.stderr
    assert "(line 2)" in done.stderr
