"""The page about prices names every source with its permissions, and its commands are commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import planner
from planner.cli.parser import VERBS, parse, parser_for, verb_in
from pricing.aws.session import Access, Aws
from pricing.aws.sources import aws_sources
from pricing.source import Source

PAGE = (Path(planner.__file__).parent / "docs" / "prices.md").read_text(encoding="utf-8")
README = (Path(planner.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
ROWS = {row.split("`")[1]: row for row in PAGE.splitlines() if row.startswith("| `")}
SOURCES = aws_sources(Aws(Access()))
COMMANDS = [line.split("#")[0].strip() for line in PAGE.splitlines() if line.startswith("planner prices ")]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_source_has_a_row_with_its_permissions(source: Source) -> None:
    *_, asked, permissions, _ = ROWS[source.name].split("|")
    assert set(source.permissions) <= set(re.findall(r"`([\w-]+:\w+)`", permissions))
    assert ("by default" in asked) == source.default


def test_the_page_names_no_source_that_there_is_not() -> None:
    assert set(ROWS) == {source.name for source in SOURCES}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_are_understood(command: str) -> None:
    verb, rest = verb_in(shlex.split(command)[1:])
    flags, _ = parser_for(verb)
    parse(flags, rest)


def test_every_verb_of_prices_is_on_the_page_and_the_readme_leads_there() -> None:
    assert {verb for verb in VERBS if verb.startswith("prices ") and f"planner {verb}" not in PAGE} == set()
    assert "planner/docs/prices.md" in README


def test_the_flags_that_it_names_exist() -> None:
    known = {flag for verb in VERBS for a in parser_for(verb)[0]._actions for flag in a.option_strings}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) - known == set()
