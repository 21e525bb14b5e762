"""The worker by itself: importable with the standard library alone, and as one file in an empty folder."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

import workers
from workers.__main__ import main
from workers.bench import validity_of
from workers.environment import describe
from workers.model import Job, Measurement
from workers.pack import pack

PACKAGE = Path(workers.__file__).parent
JOB = Job(name="x").to_json()


def python(*arguments: str, where: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", *arguments],
        cwd=where,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(tmp_path_factory.mktemp("packed") / "worker.pyz")


def test_every_module_imports_with_the_standard_library_alone(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "workers", ignore=shutil.ignore_patterns("__pycache__"))
    modules = sorted(
        ".".join(p.relative_to(tmp_path).with_suffix("").parts).removesuffix(".__init__")
        for p in tmp_path.rglob("*.py")
    )
    assert "workers.bench.device" in modules
    script = (
        f"import sys, importlib; sys.path.insert(0, {str(tmp_path)!r})\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "outside = sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names) - {'workers', '__main__'})\n"
        "print(outside)"
    )
    done = python("-S", "-c", script, where=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_the_archive_holds_the_sources_and_nothing_else(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
    assert names == {"__main__.py"} | {p.relative_to(PACKAGE.parent).as_posix() for p in PACKAGE.rglob("*.py")}
    assert packed.read_bytes().startswith(b"#!/usr/bin/env python3\n")
    assert packed.stat().st_mode & stat.S_IXUSR


def test_the_archive_describes_the_machine_in_an_empty_folder(packed: Path, tmp_path: Path) -> None:
    done = python("-S", str(packed), "describe", where=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    plain = json.loads(done.stdout)
    assert plain["environment"]["worker_version"] == workers.__version__
    assert Job.parse(json.dumps(plain["example_job"])).suite in plain["suites"]
    assert list(tmp_path.iterdir()) == []


def test_the_archive_packs_itself_to_the_byte(packed: Path, tmp_path: Path) -> None:
    done = python(str(packed), "pack", "again.pyz", where=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "again.pyz").read_bytes() == packed.read_bytes()


def test_without_torch_a_run_is_one_clear_line(packed: Path, tmp_path: Path) -> None:
    done = python(
        "-S", str(packed), "run", "-", "--out", "m.json", where=tmp_path, given=JOB
    )  # -S: no installed packages
    assert done.returncode == 4
    assert done.stderr == "error: torch is not installed: `pip install torch` (or the distribution's extra [worker])\n"
    assert list(tmp_path.iterdir()) == []


def test_the_archive_runs_a_job(packed: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    plain = json.loads(JOB) | {"device": "cpu", "dtypes": ["fp32"], "matmul_sizes": [128], "copy_bytes": 4 << 20}
    plain["rules"] = {
        "warmup_s": 0.05,
        "min_duration_s": 0.1,
        "min_samples": 10,
        "max_samples": 100,
        "max_spread_fraction": 1e9,
        "max_drift_fraction": 1e9,
    }
    (tmp_path / "job.json").write_text(json.dumps(plain))
    done = python(str(packed), "run", "job.json", "--out", "m.json", where=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "matmul fp32 128x128x128" in done.stderr
    found = Measurement.parse((tmp_path / "m.json").read_text())
    assert found.validity.valid
    assert found.environment.torch_version


@pytest.mark.parametrize(
    ("text", "status", "why"),
    [("{", 2, "not JSON"), (JOB.replace('"device"', '"llm"', 1), 2, "suite"), (None, 4, "No such file or directory")],
)
def test_a_bad_job_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, status: int, why: str
) -> None:
    path = tmp_path / "job.json"
    if text is not None:
        path.write_text(text)
    assert main(["run", str(path)]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {path}")
    assert why in err
    assert err.count("\n") == 1


def test_a_folder_that_is_not_there_is_said_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.json").write_text(JOB)
    assert main(["run", str(tmp_path / "job.json"), "--out", str(tmp_path / "nowhere" / "m.json")]) == 2
    assert "no folder" in capsys.readouterr().err


def test_an_interrupted_run_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workers.bench.run_job", interrupted)
    (tmp_path / "job.json").write_text(JOB)
    assert main(["run", str(tmp_path / "job.json"), "--out", str(tmp_path / "m.json")]) == 130
    assert capsys.readouterr().err == "error: interrupted; nothing was written\n"
    assert not (tmp_path / "m.json").exists()


def test_a_measurement_that_is_not_valid_is_written_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Measurement(
        job=Job(name="x"),
        environment=describe(),
        device="cpu",
        started_at=datetime(2026, 11, 30, tzinfo=UTC),
        duration_s=1.0,
        series=(),
        validity=validity_of(()),
    )
    monkeypatch.setattr("workers.bench.run_job", lambda *_: nothing)
    (tmp_path / "job.json").write_text(JOB)
    assert main(["run", str(tmp_path / "job.json"), "--out", str(tmp_path / "m.json")]) == 3
    assert "not valid: 1 reasons in validity.reasons, the first: nothing could be measured" in capsys.readouterr().err
    assert Measurement.parse((tmp_path / "m.json").read_bytes()) == nothing.sealed()
    assert main(["run", str(tmp_path / "job.json")]) == 3
    assert Measurement.parse(capsys.readouterr().out) == nothing.sealed()
