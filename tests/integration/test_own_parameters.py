"""Own measurements from end to end: taken in, they move answers of the command line and of the service, say so, and are forgotten whole."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from planner.calibration.columns import COLUMNS, shipped_measurements
from planner.calibration.model import Workload

CHIP, ENGINE, SOURCE = "GH200 96GB", "vLLM", "argonne-lcf"
ESTIMATE = ("estimate", "--accelerator", CHIP, "--count", "1", "--format", "json", "--explain")
OTHER_MODEL = ("--model", "qwen2.5-14b")
"""No row of the file is of it: what moves it are the parameters."""


def planner(*words: str, data: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "planner", *words],
        capture_output=True,
        text=True,
        env={"PLANNER_DATA_DIR": str(data), "PATH": "/usr/bin:/bin", "COLUMNS": "120", "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )


def answer(*words: str, data: Path) -> Any:
    done = planner(*words, data=data)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rate(document: Any) -> float:
    return float(document["performance"]["requests_per_s"])


def taken_in(data: Path, factor: float) -> None:
    """Take in the rates that one source published of vLLM on one chip, as measured at another speed."""
    rows = [r for r in shipped_measurements(Workload.SERVING).rows if (r["engine"], r["gpu"]) == (ENGINE, CHIP)]
    # Offered rates would not follow the speed of a set-up that keeps up with them.
    rows = [
        r for r in rows if r["source"].startswith(SOURCE) and r["metric_name"].endswith("_s") and not r["request_rate"]
    ]
    assert len(rows) >= 20
    path = data / "measured.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, COLUMNS[Workload.SERVING])
        writer.writeheader()
        for row in rows:
            times = {name: "" for name in row if "_ms" in name}
            writer.writerow(
                {**row, **times, "metric_value": str(factor * float(row["metric_value"])), "source": "our lab"}
            )
    done = planner("validate", "--measurements", str(path), "--recalibrate", data=data)
    assert done.returncode == 0, done.stderr
    assert (data / "calibration" / "own_serving.json").is_file(), done.stdout


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return data directories with slow own rows, and with the same rows a fifth slower."""
    slow, slower = tmp_path_factory.mktemp("slow"), tmp_path_factory.mktemp("slower")
    taken_in(slow, 0.8)
    taken_in(slower, 0.64)
    return slow, slower


def test_rows_a_fifth_slower_make_answers_about_a_fifth_slower(places: tuple[Path, Path]) -> None:
    slow, slower = (answer(*ESTIMATE, *OTHER_MODEL, "--evidence", "measured", data=place) for place in places)
    assert rate(slower) / rate(slow) == pytest.approx(0.8, abs=0.06)
    assert slower["performance"]["sources"][0].startswith("own measurements: fit of ")
    assert any("speed follows own measurements of serving" in note for note in slower["notes"])
    assert slower["evidence_id"] != slow["evidence_id"]
    assert slower["id"] != slow["id"]


def test_a_model_among_the_rows_is_answered_from_them(places: tuple[Path, Path]) -> None:
    words = (
        *ESTIMATE,
        "--model",
        "llama-2-7b",
        "--precision",
        "bf16",
        "--input-tokens",
        "1024",
        "--output-tokens",
        "1024",
        "--max-concurrency",
        "64",
    )
    slow, slower = (answer(*words, data=place) for place in places)
    assert slow["performance"]["basis"] == slower["performance"]["basis"] == "measured"
    assert rate(slower) / rate(slow) == pytest.approx(0.8, abs=0.06)
    assert any("our lab" in source for source in slower["performance"]["sources"])
    assert any(source.startswith("own measurements: fit of ") for source in slower["performance"]["sources"])


def test_own_parameters_are_left_aside_when_the_model_alone_is_asked(places: tuple[Path, Path], tmp_path: Path) -> None:
    words = (*ESTIMATE, *OTHER_MODEL, "--evidence", "model")
    bare, here = answer(*words, data=tmp_path), answer(*words, data=places[1])
    assert here["performance"] == bare["performance"]
    assert here["notes"] == bare["notes"]


@contextmanager
def served(data: Path) -> Iterator[httpx.Client]:
    """Give a client of a server with this data directory."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", "serve", "--port", str(port)],
        env=os.environ | {"PLANNER_DATA_DIR": str(data)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            for _ in range(300):
                assert process.poll() is None
                try:
                    if client.get("/healthz").status_code == 200:
                        break
                except httpx.TransportError:
                    time.sleep(0.1)
            yield client
    finally:
        process.terminate()
        process.wait(20)


def test_the_service_answers_as_the_command_line_does(places: tuple[Path, Path]) -> None:
    with served(places[1]) as client:
        asked = {"model": "qwen2.5-14b", "accelerator": CHIP, "count": 1, "explain": True}
        found = client.post("/v1/estimates", json=asked)
        assert found.status_code == 200, found.text
        ranked = client.post("/v1/recommendations", json={"model": "qwen2.5-14b"})
        assert ranked.status_code == 200, ranked.text
        (places[1] / "calibration" / "own_samples.json").write_bytes(b"{")
        try:
            refused = client.post("/v1/estimates", json={"model": "resnet-50", "accelerator": CHIP, "count": 1})
        finally:
            (places[1] / "calibration" / "own_samples.json").unlink()
        assert refused.status_code == 422
        assert "own_samples.json in the data directory is damaged" in refused.text
    command_line = answer(*ESTIMATE, *OTHER_MODEL, data=places[1])
    assert rate(found.json()) == pytest.approx(rate(command_line), rel=1e-4)
    assert found.json()["evidence_id"] == command_line["evidence_id"]
    first = ranked.json()["recommendations"][0]
    assert any(s.startswith("own measurements: fit of ") for s in first["performance"]["sources"])


def test_forgotten_the_answer_is_the_old_one_byte_for_byte(tmp_path: Path) -> None:
    words = (*ESTIMATE, *OTHER_MODEL)
    before = answer(*words, data=tmp_path)
    taken_in(tmp_path, 0.64)
    assert rate(answer(*words, data=tmp_path)) < rate(before)
    assert planner("validate", "--forget", data=tmp_path).returncode == 0
    after = answer(*words, data=tmp_path)
    for document in (before, after):
        document["prices"].pop("age_hours", None)
    assert json.dumps(after) == json.dumps(before)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("own_serving.json", b"{", "own_serving.json in the data directory is damaged"),
        ("own_serving.json", b"\xff\xfe", "is damaged"),
        ("own_serving.json", b"[]", "not a parameter file"),
        ("own_serving.json", b'{"schema": "gpu-cost-planner/parameters", "schema_version": 1}', "it has no slots"),
        ("own_rows_serving.csv", b"a,b\n1,2\n", "own_rows_serving.csv in the data directory is damaged"),
    ],
)
def test_a_damaged_file_is_one_line_and_the_model_answers_without(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / "calibration").mkdir()
    (tmp_path / "calibration" / name).write_bytes(content)
    done = planner(*ESTIMATE, *OTHER_MODEL, data=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert planner(*ESTIMATE, *OTHER_MODEL, "--evidence", "model", data=tmp_path).returncode == 0


def test_parameters_on_other_shipped_ones_are_left_aside_and_said_so(places: tuple[Path, Path], tmp_path: Path) -> None:
    document = json.loads((places[1] / "calibration" / "own_serving.json").read_text())
    (tmp_path / "calibration").mkdir()
    old = document | {"version": "own, on 0.0.1 of 2020-01-01 (000000000000, noise 0.1)"}
    (tmp_path / "calibration" / "own_serving.json").write_text(json.dumps(old))
    found = answer(*ESTIMATE, *OTHER_MODEL, data=tmp_path)
    assert any("left aside" in note for note in found["notes"])
    assert not any(s.startswith("own measurements") for s in found["performance"]["sources"])


def test_rates_that_no_hardware_reaches_are_refused_whole(tmp_path: Path) -> None:
    rows = [r for r in shipped_measurements(Workload.SERVING).rows if (r["engine"], r["gpu"]) == (ENGINE, CHIP)][:12]
    path = tmp_path / "wrong_unit.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, COLUMNS[Workload.SERVING])
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, "metric_value": str(100 * float(row["metric_value"])), "source": "our lab"})
    done = planner("validate", "--measurements", str(path), "--recalibrate", data=tmp_path)
    assert done.returncode == 2
    assert "times above what is predicted; correct its unit or its shape, or leave it out" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "calibration").exists()
