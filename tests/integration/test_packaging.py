"""The wheel holds what a user needs and nothing else, and works from another directory without the checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packaging")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel's own files; third-party packages are those of this interpreter."""
    home = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / "venv")], check=True, timeout=120)
    (site,) = (home / "venv").glob("lib/python3.*/site-packages")
    with zipfile.ZipFile(wheel) as z:
        z.extractall(site)
    here = [p for p in sys.path if p.endswith("site-packages")]
    (site / "third_party.pth").write_text("\n".join(here))
    return home / "venv" / "bin" / "python"


def run(python: Path, *args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(cwd),
        "PLANNER_DATA_DIR": str(cwd / "data"),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
    }
    return subprocess.run(
        [str(python), *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def test_wheel_holds_code_tables_snapshot_and_migrations_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {n.split("/")[0] for n in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"planner", "pricing", "workers"}
    assert "pricing/tables/snapshot-0.sqlite" in names
    assert "pricing/tables/accelerators.csv" in names
    assert any(n.startswith("planner/models/configs/") for n in names)
    assert "planner/store/migrations/env.py" in names
    assert any(n.startswith("planner/store/migrations/versions/") for n in names)
    assert not [n for n in names if n.startswith("planner/docs")]
    assert not [n for n in names if "__pycache__" in n]
    assert any(n.endswith("licenses/LICENSE") for n in names)
    assert any(n.endswith("licenses/NOTICE") for n in names)


def test_the_main_job_runs_from_the_wheel_in_another_directory(installed: Path, tmp_path: Path) -> None:
    done = run(
        installed,
        "-m",
        "planner",
        "recommend",
        "--model",
        "7b",
        "--mode",
        "inference",
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["recommendations"][0]["cost"]["usd_per_hour"]
    where = run(installed, "-c", "import planner, pricing; print(planner.__file__, pricing.__file__)", cwd=tmp_path)
    assert str(ROOT / "planner") not in where.stdout
    assert list(tmp_path.iterdir()) == [], "a plain recommendation writes nothing"


def test_migrations_run_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = run(installed, "-m", "planner", "db", "upgrade", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data" / "planner.sqlite").exists()


def test_the_alembic_library_is_not_hidden_by_the_folder_of_that_name() -> None:
    assert not (ROOT / "alembic" / "__init__.py").exists()
    done = subprocess.run(
        [sys.executable, "-c", "import alembic.config; print(alembic.__file__)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "site-packages" in done.stdout
