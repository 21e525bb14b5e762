"""The derivation of one recommendation: first in sentences that need no knowledge of the trade, then term by term."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import (
    TIMES,
    at,
    count,
    count_of,
    day_of,
    dollars,
    dollars_per_hour,
    figure,
    hours,
    whole,
    words,
)
from planner.cli.heading import heading, is_training, works_in_samples
from planner.cli.paint import QUIET, STRONG, Cell, Column, indented, rendered, table
from planner.cli.recommend_table import accelerators

Document = Mapping[str, Any]

SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("The model", ("parameters_", "weights_", "kv_bytes_per_token")),
    ("Memory of one accelerator", ("memory_",)),
    ("The price of the machine", ("usd_per_instance_hour",)),
    ("Hours", ("hours_", "interruptions_per_hour")),
    ("Money", ("instance_count", "served_requests_per_s", "usd_")),
)
"""Titles and the beginnings of the names under them; what fits none is about speed."""

SPEED = "Speed"
PREFIXES = {"Memory of one accelerator": "memory_", "Hours": "hours_"}
"""What the names under a title repeat of it."""

ORDER = ("The model", "Memory of one accelerator", SPEED, "The price of the machine", "Hours", "Money")


def derivation_text(document: Document, row: Document, *, width: int, colour: bool) -> str:
    """Return the whole derivation of one recommendation for a terminal of `width` columns."""
    return rendered([*heading(document), Text(""), *derivation(document, row, width)], width=width, colour=colour)


def derivation(document: Document, row: Document, width: int) -> list[RenderableType]:
    """Return the derivation of one row: in words, its bill, and every term with its formula and source."""
    title = Text.assemble((f"{row_title(row)}, step by step", STRONG))
    parts: list[RenderableType] = [title, *(indented(sentence) for sentence in in_words(document, row))]
    if at(row, "cost.lines"):
        parts += [Text(""), Text(bill_title(document), style=STRONG), *bill(row["cost"]["lines"], width)]
    for name, terms in sections(row.get("explanation") or ()):
        parts += [Text(""), Text(name, style=STRONG)]
        for term in terms:
            parts += term_lines(term, name)
    return parts


def row_title(row: Document) -> str:
    """Return "1. 2 x g6e.xlarge, spot, us-east-1 use1-az6"."""
    rank = f"{row['rank']}. " if row.get("rank") else ""
    many = f"{row['instance_count']} {TIMES} " if (row.get("instance_count") or 1) > 1 else ""
    name = row.get("instance_type") or accelerators(row)
    place = " ".join(p for p in (row.get("region"), row.get("availability_zone_id")) if p)
    return ", ".join(
        p
        for p in (f"{rank}{many}{name}", words(row["purchase_option"]) if row.get("purchase_option") else "", place)
        if p
    )


def in_words(document: Document, row: Document) -> list[str]:
    """Return the chain from price to cost in sentences."""
    out = []
    if at(row, "price.usd_per_instance_hour"):
        out.append(
            f"Price: one {row['instance_type']} costs {dollars_per_hour(row['price']['usd_per_instance_hour'])} USD an hour {words(row['purchase_option'])}"
            f" ({row['price']['source']}, {day_of(row['price']['as_of'])}); {count(row['instance_count'], 'instance')} {'makes' if row['instance_count'] == 1 else 'make'} {dollars_per_hour(at(row, 'cost.usd_per_hour'))} USD an hour."
        )
    shares = ", ".join(f"{words(line['name'])} {figure(line['gib'])}" for line in at(row, "memory.lines") or ())
    out.append(
        f"Room: each accelerator needs {figure(at(row, 'memory.required_gib_per_accelerator'))} GiB of the {figure(at(row, 'memory.available_gib_per_accelerator'))} GiB that may be used"
        f" ({shares})."
    )
    if is_training(document):
        out += training_words(row)
    else:
        out += inference_words(document, row)
    return out


def inference_words(document: Document, row: Document) -> list[str]:
    """Return speed and cost of serving, in sentences."""
    rate, served = at(row, "performance.requests_per_s"), at(row, "performance.at_requests_per_s")
    if rate is None:
        return []
    noun = "samples" if works_in_samples(document) else "requests"
    out = [
        f"Speed: all of it sustains {figure(rate)} {noun} per second, {whole(round(rate * 3600))} an hour ({at(row, 'performance.basis')}; between {figure(at(row, 'performance.low.requests_per_s'))} and {figure(at(row, 'performance.high.requests_per_s'))} per second)."
    ]
    if served and at(row, "cost.usd_per_million_inferences"):
        needed = 1e6 / served / 3600
        out.append(
            f"Cost: {figure(served)} {noun} per second are served, so that a million take {figure(needed)} hours; {figure(needed)} h {TIMES} {dollars_per_hour(at(row, 'cost.usd_per_hour'))} USD/h"
            f" = {figure(at(row, 'cost.usd_per_million_inferences'))} USD per million ({figure(at(row, 'cost.low.usd_per_million_inferences'))} to {figure(at(row, 'cost.high.usd_per_million_inferences'))})."
        )
    return out


def training_words(row: Document) -> list[str]:
    """Return duration and cost of training, in sentences."""
    total = at(row, "time.hours_total")
    if total is None:
        return []
    return [
        f"Time: {hours(at(row, 'time.hours_per_epoch'))} per epoch, {hours(total)} in total, start-up, checkpoints and lost work included ({at(row, 'performance.basis')}).",
        f"Cost: {dollars(at(row, 'cost.usd_per_epoch'))} USD per epoch, {dollars(at(row, 'cost.usd_total'))} USD in total ({dollars(at(row, 'cost.low.usd_total'))} to {dollars(at(row, 'cost.high.usd_total'))}).",
    ]


def bill_title(document: Document) -> str:
    """Return what the cost lines cover."""
    return "The bill of the whole run" if is_training(document) else "The bill of one hour"


def bill(lines: Sequence[Document], width: int) -> list[RenderableType]:
    """Return the cost lines, quantity x unit price = USD, their total, and where the prices come from."""
    total = sum(Decimal(line["usd"]) for line in lines)
    sources = dict.fromkeys(str(line["source"]) for line in lines)
    one_source = len(sources) == 1
    columns = [
        Column("Line", cells=[*(Cell(words(line["name"])) for line in lines), Cell("total", style=STRONG)]),
        Column(
            "Quantity",
            right=True,
            keep=1,
            cells=[*(Cell(f"{quantity(line['quantity'])} {line['unit']}") for line in lines), Cell("")],
        ),
        Column(
            "Unit price",
            right=True,
            keep=2,
            cells=[*(Cell(plain_money(line["unit_price"])) for line in lines), Cell("")],
        ),
        Column(
            "USD",
            right=True,
            cells=[*(Cell(plain_money(line["usd"])) for line in lines), Cell(plain_money(f"{total:f}"), style=STRONG)],
        ),
        Column(
            "Source", wraps=True, cells=[Cell("" if one_source else str(line["source"])) for line in lines] + [Cell("")]
        ),
    ]
    said = [indented(f"every line at the price of: {next(iter(sources))}", style=QUIET)] if one_source else []
    return [*table(columns, width), *said]


def quantity(value: Any) -> str:
    """Return how much of a thing is billed: whole numbers in full, others at five digits."""
    return whole(value) if float(value).is_integer() else figure(value, 5)


def plain_money(text: str) -> str:
    """Return a decimal string with at least cents and without further trailing zeros: "1.861", "55.04", "12.00"."""
    whole_part, _, fraction = text.partition(".")
    return f"{int(whole_part):,}.{fraction.rstrip('0').ljust(2, '0')}"


def sections(terms: Sequence[Document]) -> list[tuple[str, list[Document]]]:
    """Return the terms under their titles, in the order of the computation."""
    found: dict[str, list[Document]] = {name: [] for name in ORDER}
    for term in terms:
        name = next((title for title, starts in SECTIONS if term["name"].startswith(starts)), SPEED)
        found[name].append(term)
    return [(name, items) for name, items in found.items() if items]


def term_lines(term: Document, section: str) -> list[RenderableType]:
    """Return a term: its name, value and unit, and under it how it comes about and from where."""
    line = Text(f"{readable(term['name'].removeprefix(PREFIXES.get(section, '')))}: ")
    line.append(f"{term_value(term['value'])} {term['unit']}".rstrip(), style=STRONG)
    why = "; ".join(part for part in (term.get("formula"), f"[{term['source']}]" if term.get("source") else "") if part)
    return [indented(line), *([indented(why, 4, QUIET)] if why else [])]


def term_value(value: Any) -> str:
    """Return a term's value: counts in full, other numbers at four digits, decimal strings as money."""
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return value
        return plain_money(value)
    if value >= 1e6:
        return count_of(value)
    return f"{value:,.0f}" if value == int(value) else figure(value, 4)


def readable(name: str) -> str:
    """Return a term's name as prose: "usd_per_million_inferences" is "USD per million inferences"."""
    text = name.replace("_", " ")
    for short, long in (("usd", "USD"), ("kv ", "KV "), ("gib", "GiB"), ("ttft", "TTFT"), ("tpot", "TPOT")):
        text = text.replace(short, long)
    return text.replace(" per s", " per second") if text.endswith(" per s") else text
