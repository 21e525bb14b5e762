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
    """Line by line, but for the ages, which grow."""
    block = re.search(r"```text\n(.*?)```", README, re.S)
    assert block
    printed = shell("bash quickstart.sh", clone, tmp_path, COLUMNS="120").stdout.splitlines()
    shown = [line.rstrip() for line in block.group(1).splitlines() if " old (STALE)" not in line]
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
    no_python = shell("bash quickstart.sh", clone, tmp_path, PATH=str(tools))
    assert no_python.returncode == 4
    assert no_python.stderr.count("\n") == 1
    assert "Python 3.11 or newer is missing" in no_python.stderr

    fake = tools / "python3"
    real = Path(sys.executable).resolve()
    # answers the version question, but has no venv, as Debian's python3 without python3-venv
    fake.write_text(f'#!/bin/sh\ncase "$2" in *"import venv"*) exit 1;; esac\nexec {real} "$@"\n')
    fake.chmod(0o755)
    shutil.rmtree(clone / ".venv", ignore_errors=True)
    no_venv = shell("bash quickstart.sh", clone, tmp_path, PATH=str(tools), PYTHON=str(fake))
    assert no_venv.returncode == 4
    assert re.fullmatch(
        r"quickstart\.sh: the venv module of .* is missing; on Debian or Ubuntu: apt-get install python3\.\d+-venv\n",
        no_venv.stderr,
    )
