"""The glossary: a term is found however it is written; the documentation page is the same text."""

import json
import re
from pathlib import Path

import pytest

import planner
from planner.cli.glossary import as_markdown, find, near, read_glossary
from planner.cli.main import main
from planner.perf.model import Basis
from pricing.model import PurchaseOption

TERMS = read_glossary()
DOCS = Path(planner.__file__).parent / "docs"


def test_terms_are_unique_in_order_and_whole() -> None:
    names = [t.term for t in TERMS]
    assert names == sorted(set(names), key=str.casefold)
    assert all(t.definition.endswith((".", ")")) and t.source for t in TERMS)


def test_no_name_means_two_terms() -> None:
    keys = [name.casefold() for t in TERMS for name in (t.term, *t.other_names)]
    assert sorted(keys) == sorted(set(keys))


def test_every_reference_leads_to_a_term() -> None:
    known = {t.term for t in TERMS}
    assert [(t.term, s) for t in TERMS for s in t.see_also if s not in known] == []


@pytest.mark.parametrize(
    "word",
    [
        "TTFT",
        "TPOT",
        "ITL",
        "MFU",
        "prefill",
        "decode",
        "TP",
        "PP",
        "DP",
        "EP",
        "GQA",
        "MLA",
        "MoE",
        "LoRA",
        "QLoRA",
        "ZeRO",
        "FSDP",
        "spot",
        "on-demand",
        "EffectiveCost",
        "ListUnitPrice",
        "PUE",
        "p10",
        "p90",
        "TCO",
        "capex",
        "opex",
        "amortisation",
        "break-even",
        "KV cache",
        "Savings Plan",
        "Reserved Instance",
        "Capacity Block",
    ],
)
def test_the_words_of_the_trade_are_there(word: str) -> None:
    assert len(find(word, TERMS)) == 1


@pytest.mark.parametrize("word", [*(b.value for b in Basis), *(p.value for p in PurchaseOption)])
def test_the_words_of_the_answers_are_there(word: str) -> None:
    assert len(find(word, TERMS)) == 1


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("ttft", "TTFT"),
        ("kv_cache", "KV cache"),
        ("KV-CACHE", "KV cache"),
        ("amortization", "Amortisation"),
        ("time to first token", "TTFT"),
        ("p99", "p50 / p99"),
    ],
)
def test_spelling_case_and_other_names(asked: str, found: str) -> None:
    assert [t.term for t in find(asked, TERMS)] == [found]


@pytest.mark.parametrize(
    ("asked", "nearest"), [("ttfft", "TTFT"), ("amortise", "Amortisation"), ("quantis", "Quantisation")]
)
def test_near_misses(asked: str, nearest: str) -> None:
    assert near(asked, TERMS)[0] == nearest


def test_nothing_near_points_to_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["glossary", "qqqqqqqqq"]) == 2
    assert capsys.readouterr().err.endswith("`planner glossary` lists every term\n")


def test_one_term_in_each_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["glossary", "KV", "cache", "--format", "json"]) == 0
    [term] = json.loads(capsys.readouterr().out)["terms"]
    assert term["term"] == "KV cache"
    assert main(["glossary", "pue", "--format", "csv"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert (header, row.split(",")[0]) == ("term,definition,unit,see_also,source", "PUE")
    assert main(["glossary", "pue"]) == 0
    assert "energy of the whole data centre" in capsys.readouterr().out


def test_the_list_has_a_line_per_term(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["glossary"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(TERMS) + 2
    assert max(map(len, lines)) <= 80


def test_the_documentation_page_is_the_glossary() -> None:
    """Refresh: python -m planner.cli.glossary > planner/docs/glossary.md."""
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    assert page == as_markdown(TERMS)
    anchors = {
        re.sub(r"[^a-z0-9 _-]", "", line[3:].lower()).replace(" ", "-")
        for line in page.splitlines()
        if line.startswith("## ")
    }
    assert set(re.findall(r"\]\(#(.*?)\)", page)) <= anchors
