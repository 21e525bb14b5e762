"""The table of the README names every test of a case, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_the_table_and_the_tests_are_the_same() -> None:
    table = re.findall(r"`(test_case_\w+\.py)::(test_\w+)`", (HERE / "README.md").read_text(encoding="utf-8"))
    files = sorted(p for p in HERE.glob("test_case_*.py") if p.name != Path(__file__).name)
    written = [(p.name, name) for p in files for name in re.findall(r"^def (test_\w+)", p.read_text("utf-8"), re.M)]
    assert len(table) == len(set(table))
    assert sorted(table) == sorted(written)
