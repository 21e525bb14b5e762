"""The documentation page of the command line says everything that the program has."""

import re
from pathlib import Path

import pytest

import planner
from planner.cli import reference
from planner.cli.errors import EXIT_MEANINGS, Exit
from planner.cli.parser import VERBS, known_flags, parser_for
from planner.reports import flat

PAGE = (Path(planner.__file__).parent / "docs" / "cli.md").read_text(encoding="utf-8")


def section(verb: str) -> str:
    return PAGE.split(f"### planner {verb}\n")[1].split("\n### ")[0].split("\n## ")[0]


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_of_every_command_is_documented(verb: str) -> None:
    parser, _ = parser_for(verb)
    documented = set(re.findall(r"`(--[a-z0-9-]+)", section(verb)))
    assert documented == set(known_flags(parser)) - {"--help"}


def test_every_exit_code_is_documented() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.M)}
    assert codes == {int(code) for code in Exit} == {int(code) for code in EXIT_MEANINGS}


def test_every_csv_column_is_documented() -> None:
    tables = [columns for name, columns in vars(flat).items() if name.endswith("_COLUMNS")]
    assert len(tables) >= 10
    assert [c for columns in tables for c in columns if f"`{c}`" not in PAGE] == []


def test_every_environment_variable_is_documented() -> None:
    source = "\n".join(p.read_text(encoding="utf-8") for p in Path(planner.__file__).parent.glob("cli/**/*.py")) + (
        Path(planner.__file__).parent / "bootstrap.py"
    ).read_text(encoding="utf-8")
    used = set(re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', source)) | set(
        re.findall(r'"(PLANNER_[A-Z_]+)"', source)
    )
    assert used >= {"NO_COLOR", "COLUMNS", "PLANNER_DATA_DIR"}
    assert {name for name in used if f"`{name}`" not in PAGE} <= {"TERM"}


def test_the_page_is_what_the_program_would_write() -> None:
    """Refresh: python -m planner.cli.reference > planner/docs/cli.md."""
    assert reference.page() == PAGE
