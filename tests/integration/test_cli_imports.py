"""What a command imports, seen from a fresh interpreter: nothing heavy that it does not need."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = """
import json, sys, io
from planner.cli.main import main
out, sys.stdout = sys.stdout, io.StringIO()
code = main(sys.argv[1:])
json.dump([code, sorted({name.split(".")[0] for name in sys.modules})], out)
"""

HEAVY = {
    "torch",
    "boto3",
    "pandas",
    "sqlalchemy",
    "alembic",
    "fastapi",
    "starlette",
    "uvicorn",
    "pydantic",
    "psycopg",
    "httpx",
    "asyncio",
}


def imported(*words: str, home: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words],
        capture_output=True,
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        cwd=home,
        timeout=120,
    )
    code, modules = json.loads(done.stdout)
    assert code == 0
    assert "planner" in modules
    return set(modules)


@pytest.mark.parametrize(
    "words",
    [
        ("recommend", "--model", "7b", "--mode", "inference", *more)
        for more in ((), ("--format", "json"), ("--format", "csv"), ("--explain",))
    ]
    + [
        ("recommend", "--model", "7b", "--mode", "training", "--method", "lora", "--dataset-tokens", "50e6"),
        ("estimate", "--model", "7b", "--instance", "g5.xlarge"),
        ("prices", "list"),
        ("prices", "history", "p5.48xlarge"),
        ("prices", "diff", "shipped", "latest"),
        ("prices", "snapshots"),
        ("prices", "availability", "p5.48xlarge"),
        ("instances",),
        ("models", "list"),
    ],
    ids=" ".join,
)
def test_answers_need_neither_database_nor_web_nor_torch(words: tuple[str, ...], tmp_path: Path) -> None:
    assert imported(*words, home=tmp_path) & HEAVY == set()


@pytest.mark.parametrize(
    "words",
    [("--help",), ("--version",), ("recommend", "--help"), ("estimate", "--help"), ("glossary", "--format", "csv")],
    ids=" ".join,
)
def test_help_needs_neither_numpy_nor_rich(words: tuple[str, ...], tmp_path: Path) -> None:
    assert imported(*words, home=tmp_path) & (HEAVY | {"numpy", "rich"}) == set()


@pytest.mark.parametrize("form", ["json", "csv"])
def test_only_tables_need_rich(form: str, tmp_path: Path) -> None:
    assert "rich" not in imported("recommend", "--model", "7b", "--format", form, home=tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ("prices", "list"),
        ("prices", "history", "p5.48xlarge"),
        ("prices", "diff", "shipped", "latest"),
        ("prices", "snapshots"),
        ("prices", "availability", "p5.48xlarge"),
        ("instances",),
        ("models", "list"),
        ("models", "show", "7b"),
        ("glossary", "TTFT"),
    ],
    ids=" ".join,
)
def test_lists_need_no_numpy(words: tuple[str, ...], tmp_path: Path) -> None:
    assert "numpy" not in imported(*words, home=tmp_path)
