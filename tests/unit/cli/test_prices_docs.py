"""The page about prices names every source with its permissions, and its commands are commands."""

from __future__ import annotations

import re
import shlex
from decimal import Decimal
from pathlib import Path

import pytest

import planner
from planner.cli.parser import VERBS, parse, parser_for, verb_in
from pricing.alerts import parse_watches
from pricing.aws.session import Access, Aws
from pricing.aws.sources import aws_sources
from pricing.discounts import parse_agreement
from pricing.other_clouds import gpuhunt_sources
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
    others = {source.name.split(".")[0] for source in gpuhunt_sources()}
    assert set(ROWS) == {source.name for source in SOURCES} | others


def test_the_watches_and_the_agreement_of_the_page_are_taken() -> None:
    watches, agreement = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    (watch,) = parse_watches(watches, name="page").watches
    assert (watch.name, watch.share, watch.direction) == ("H100 at AWS", Decimal("0.05"), "down")
    *shares, negotiated = parse_agreement(agreement, "page")
    assert {line.percent_off for line in shares} == {Decimal(9)}
    assert (negotiated.instance_type, negotiated.unit_price) == ("p5.48xlarge", Decimal("44.00"))


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
