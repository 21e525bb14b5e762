"""The README's commands run as they are written, in a clone, with only what a fresh machine has."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("readme")]


def commands() -> list[str]:
    """Every line of the README's first shell block: clone line left out, the two commands of the project in order."""
    block = re.search(r"```(?:bash|sh)\n(.*?)```", README, re.S)
    assert block
    return [
        line.split("#")[0].strip() for line in block.group(1).splitlines() if line.strip() and not line.startswith("#")
    ]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked and new files of this checkout, without its environments and build products."""
    target = tmp_path_factory.mktemp("stranger") / "planner"
    names = (
        subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            timeout=60,
        )
        .stdout.decode()
        .split("\0")
    )
    for name in filter(None, names):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def shell(command: str, cwd: Path, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {
        k: v
        for k, v in os.environ.items()
        if k.startswith(("PIP_", "SSL_", "REQUESTS_", "http", "HTTP", "no_proxy", "NO_PROXY", "PYENV")) or k in {"PATH"}
    }
    env = kept | {"HOME": str(home), "LANG": "C.UTF-8"} | more
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, env=env, capture_output=True, text=True, timeout=900, check=False
    )


def test_the_first_command_sets_up_and_answers_the_main_job(clone: Path, tmp_path: Path) -> None:
    first = commands()[0]
    assert first == "bash quickstart.sh"
    done = shell(first, clone, tmp_path, COLUMNS="140")
    assert done.returncode == 0, done.stderr
    assert "Qwen2.5-7B" in done.stdout, "it says what the alias 7b became"
    assert re.search(r"us-east-1", done.stdout)
    assert "$/M" in done.stdout
    assert re.search(r"2026-07-\d\d", done.stdout), "it says what day the prices are of"
    assert "modelled" in done.stdout
    assert list(tmp_path.rglob("*planner*")) == [], "the planner writes nothing into the home directory (pip may)"
    again = shell(f"{clone}/quickstart.sh models show 7b --format json", tmp_path, tmp_path)
    assert again.returncode == 0, again.stderr
    assert "Setting up" not in again.stderr
    assert '"parameters_total": 7615616512' in again.stdout


def test_the_table_in_the_readme_is_what_the_program_prints(clone: Path, tmp_path: Path) -> None:
    """Line by line, but for the ages, which grow, and the id of the snapshot, which changes with any shipped figure."""
    block = re.search(r"```text\n(.*?)```", README, re.S)
    assert block
    printed = shell("bash quickstart.sh", clone, tmp_path, COLUMNS="120").stdout.splitlines()
    shown = [
        line.rstrip()
        for line in block.group(1).splitlines()
        if not re.search(r" old \(STALE\)|^Prices  snapshot", line)
    ]
    assert len(shown) > 30
    assert [line for line in shown if line not in [p.rstrip() for p in printed]] == []


def test_the_second_command_is_what_ci_runs() -> None:
    second = commands()[1]
    assert second == "bash run-tests.sh"
    assert second in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_what_is_missing_is_said_in_one_line(clone: Path, tmp_path: Path) -> None:
    """A Python without venv, and no Python at all."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "cat", "cksum", "find", "rm", "tail", "sed"):
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    shutil.rmtree(clone / ".venv", ignore_errors=True)  # one that works would serve
    no_python = shell("bash quickstart.sh", clone, tmp_path, PATH=str(tools))
    assert no_python.returncode == 4
    assert no_python.stderr.count("\n") == 1
    assert "Python 3.11 or newer is missing" in no_python.stderr

    fake = tools / "python3"
    real = Path(sys.executable).resolve()
    # answers the version question, but has no venv, as Debian's python3 without python3-venv
    fake.write_text(f'#!/bin/sh\ncase "$2" in *"import venv"*) exit 1;; esac\nexec {real} "$@"\n')
    fake.chmod(0o755)
    no_venv = shell("bash quickstart.sh", clone, tmp_path, PATH=str(tools), PYTHON=str(fake))
    assert no_venv.returncode == 4
    assert re.fullmatch(
        r"quickstart\.sh: the venv module of .* is missing; on Debian or Ubuntu: apt-get install python3\.\d+-venv\n",
        no_venv.stderr,
    )


@pytest.mark.parametrize("python", ["/nonexistent/python3", "/bin/false", "/bin/true-not-there", ""])
def test_a_python_that_was_chosen_and_does_not_suit_is_not_replaced_by_another(
    clone: Path, tmp_path: Path, python: str
) -> None:
    chosen = shell("bash quickstart.sh --version", clone, tmp_path, PYTHON=python)
    if not python:  # not chosen: any on the PATH will do
        assert chosen.returncode == 0
        return
    assert chosen.returncode == 4
    assert chosen.stderr == f"quickstart.sh: PYTHON={python} is no Python 3.11 or newer; give another, or unset it\n"


def test_an_environment_serves_whatever_python_is_first_on_the_path(clone: Path, tmp_path: Path) -> None:
    """Two users of one checkout with unlike PATHs must not make it anew in turns."""
    shell("bash quickstart.sh --version", clone, tmp_path)
    made = (clone / ".venv" / "pyvenv.cfg").stat().st_mtime_ns
    fake = tmp_path / "python3"
    fake.write_text(
        f"""#!/bin/sh
case "$2" in *sys.version.split*) echo 3.99.0; exit;; esac
exec {Path(sys.executable).resolve()} "$@"
"""
    )
    fake.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert shell("bash quickstart.sh --version", clone, tmp_path, PATH=path).returncode == 0
    assert (clone / ".venv" / "pyvenv.cfg").stat().st_mtime_ns == made


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_what_cannot_be_written_is_said_in_one_line(clone: Path, tmp_path: Path) -> None:
    shell("bash quickstart.sh --version", clone, tmp_path)
    stamp = clone / ".venv" / ".planner-stamp"
    stamp.write_text("of another version")
    (clone / ".venv").chmod(0o555)
    try:
        refused = shell("bash quickstart.sh --version", clone, tmp_path)
    finally:
        (clone / ".venv").chmod(0o755)
    assert refused.returncode == 4
    assert refused.stderr.count("\n") == 1
    assert "belongs to somebody else" in refused.stderr


@pytest.mark.parametrize("folder", ["{home}/elsewhere", "made-here"])
def test_packages_that_cannot_be_had_leave_a_log_wherever_the_environment_lies(
    clone: Path, tmp_path: Path, folder: str
) -> None:
    place = folder.format(home=tmp_path)
    script = f'. deploy/venv.sh && make_venv "{place}" ""'
    refused = shell(
        f"bash -c '{script}' setup", clone, tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS="", PIP_EXTRA_INDEX_URL=""
    )
    assert refused.returncode == 4
    said = refused.stderr.strip().splitlines()[-1]
    log = said.rsplit(" ", 1)[-1]
    assert "installing the Python packages failed" in said
    assert Path(log) == (clone / place / "install.log").resolve()
    assert Path(log).read_text(encoding="utf-8")
