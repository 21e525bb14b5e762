"""The answer of `recommend` as a person reads it: what was asked, the ranking, where prices and figures come from, what was left out and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import (
    BASIS_WORDS,
    DASH,
    TIMES,
    age,
    at,
    day_of,
    dollars_per_hour,
    figure,
    hours,
    milliseconds,
    spread,
    whole,
    words,
)
from planner.cli.footnotes import marks_of, note_marks, notes, rejections
from planner.cli.heading import heading, is_training
from planner.cli.paint import BAD, CARE, GOOD, QUIET, STRONG, Cell, Column, indented, rendered, table

Document = Mapping[str, Any]


def recommendations_text(document: Document, *, width: int, colour: bool) -> str:
    """Return the whole answer for a terminal of `width` columns."""
    rows = document["recommendations"]
    parts: list[RenderableType] = [*heading(document), Text("")]
    marks = note_marks(rows)
    if rows:
        parts += table(columns_of(document, rows, marks), width)
    else:
        parts.append(Text("Nothing fits. Why each candidate was turned down stands below.", style=f"{STRONG} {BAD}"))
    parts += [*(left_out_of_the_bill(document) if rows else ()), Text(""), *provenance(document, rows)]
    if marks:
        parts += [Text(""), *notes(rows, marks)]
    if document["rejections"]:
        parts += [Text(""), *rejections(document["rejections"])]
    if rows and rows[0].get("explanation"):
        from planner.cli.explain_table import derivation

        parts += [Text(""), *derivation(document, rows[0], width)]
        parts += [Text(""), Text("The other rows: `planner explain … --rank N`.", style=QUIET)] if len(rows) > 1 else []
    return rendered(parts, width=width, colour=colour)


def columns_of(document: Document, rows: Sequence[Document], marks: Sequence[tuple[str, str]]) -> list[Column]:
    """Return the columns that suit the work, most important ones with the lowest `keep`."""
    several_regions = len({row["region"] for row in rows}) > 1
    columns = [
        Column("#", right=True, cells=[Cell(str(row.get("rank", ""))) for row in rows]),
        Column("Instance", "bought as", cells=[instance_cell(row, several_regions, marks) for row in rows]),
        Column("GPUs", "layout", cells=[layout_cell(row) for row in rows], keep=1, narrowest=22),
        Column("Memory", "GiB each", right=True, keep=6, cells=[memory_cell(row) for row in rows]),
    ]
    columns += training_columns(rows) if is_training(document) else inference_columns(rows)
    columns.append(Column("Basis", "price of", keep=5, cells=[basis_cell(row) for row in rows]))
    return columns


def instance_cell(row: Document, several_regions: bool, marks: Sequence[tuple[str, str]]) -> Cell:
    """Return the instance type, how many, how bought and where; letters refer to the notes."""
    many = f"{row['instance_count']} {TIMES} " if row["instance_count"] > 1 else ""
    letters = marks_of(row, marks)
    place = [row["provider"]] if row["provider"] != "aws" else []
    place += (
        [row["region"]]
        if several_regions or place or (not row["availability_zone_id"] and row["purchase_option"] == "spot")
        else []
    )
    place += [row["availability_zone_id"]] if row["availability_zone_id"] else []
    block = row["purchase_option"] == "capacity_block"  # always paid upfront
    payment = None if block else at(row, "purchase.payment_option")
    terms = [
        words(row["purchase_option"]),
        *([words(payment)] if payment else []),
        *([" ".join(place)] if place else []),
    ]
    return Cell(
        f"{many}{row['instance_type']}{f' [{letters}]' if letters else ''}",
        ", ".join(terms),
        style=STRONG if row["rank"] == 1 else "",
    )


def hourly_cell(row: Document) -> Cell:
    """Return USD per hour of all instances, with a mark under it where the price is stale: the price's day has to go on narrow screens."""
    return Cell(dollars_per_hour(at(row, "cost.usd_per_hour")), "!" if at(row, "price.stale") else "", under_style=CARE)


def accelerators(row: Document) -> str:
    """Return "8 x H100 SXM5 80GB" with a times sign, or the CPU's name."""
    chips, name = row.get("accelerators_per_instance"), row.get("accelerator") or "unknown accelerator"
    return name if chips is None else f"{whole(chips)} {TIMES} {name}"


def layout_cell(row: Document) -> Cell:
    """Return the accelerators and the layout: precision, replicas x tensor parallel, requests in flight or batch."""
    layout = row["layout"]
    parts = [layout["precision"]]
    tensor, pipeline, replicas = (
        layout.get("tensor_parallel"),
        layout.get("pipeline_parallel"),
        layout.get("replicas_per_instance"),
    )
    split = [f"TP{tensor}"] if tensor and (tensor > 1 or (replicas or 1) > 1) else []
    split += [f"PP{pipeline}"] if pipeline and pipeline > 1 else []
    split += [f"EP{layout['expert_parallel']}"] if (layout.get("expert_parallel") or 1) > (tensor or 1) else []
    if replicas and replicas > 1:
        parts.append(f"{replicas}{TIMES}{' '.join(split)}" if split else f"{replicas} replicas")
    elif split:
        parts.append(" ".join(split))
    if layout.get("method"):
        parts += [layout["sharding"]] if layout.get("sharding") else []
        parts += [f"micro {layout['micro_batch']}"] if layout.get("micro_batch") else []
        parts += ["recompute"] if layout.get("checkpointing") not in (None, "none") else []
    elif layout.get("max_concurrency"):
        parts.append(f"{layout['max_concurrency']:,} {'each' if (replicas or 1) > 1 else 'at once'}")
    elif layout.get("batch"):
        parts.append(f"batch {layout['batch']:,}")
    return Cell(accelerators(row), " ".join(parts[:2]) + "".join(f", {part}" for part in parts[2:]))


def memory_cell(row: Document) -> Cell:
    """Return required over available memory of one accelerator."""
    required, available = (
        at(row, "memory.required_gib_per_accelerator"),
        at(row, "memory.available_gib_per_accelerator"),
    )
    return Cell(figure(required), f"of {figure(available)}")


def ranged(row: Document, path: str) -> tuple[Any, Any, Any]:
    """Return a figure of `performance` or `cost` with its low and high."""
    section, name = path.split(".")
    return at(row, path), at(row, f"{section}.low.{name}"), at(row, f"{section}.high.{name}")


def rate_column(rows: Sequence[Document], path: str, unit: str, keep: int) -> Column:
    """Return a column of rates with their ranges."""
    figures = [ranged(row, path) for row in rows]
    return Column(
        unit,
        f"p10{DASH}p90",
        right=True,
        keep=keep,
        cells=[Cell(figure(value), spread(low, high)) for value, low, high in figures],
    )


def inference_columns(rows: Sequence[Document]) -> list[Column]:
    """Return throughput, latency, USD per hour and per million inferences."""
    tokens = any(at(row, "performance.output_tokens_per_s") is not None for row in rows)
    path, unit = (
        ("performance.requests_per_s", "Req/s")
        if tokens or all(at(row, "performance.samples_per_s") is None for row in rows)
        else ("performance.samples_per_s", "Samples/s")
    )
    latency = [
        Cell(milliseconds(at(row, "performance.ttft_ms.p99")), milliseconds(at(row, "performance.tpot_ms.p99")))
        if tokens
        else Cell(milliseconds(at(row, "performance.e2e_ms.p99")) if at(row, "performance.e2e_ms") else "")
        for row in rows
    ]
    costs = [ranged(row, "cost.usd_per_million_inferences") for row in rows]
    return [
        rate_column(rows, path, unit, keep=3),
        Column("TTFT p99" if tokens else "Latency", "TPOT p99" if tokens else "p99", right=True, keep=4, cells=latency),
        Column("$/h", right=True, keep=2, cells=[hourly_cell(row) for row in rows]),
        Column(
            "$/M",
            "inferences",
            right=True,
            cells=[
                Cell(figure(value), spread(low, high), style=f"{STRONG} {GOOD}" if row.get("rank") == 1 else STRONG)
                for row, (value, low, high) in zip(rows, costs, strict=True)
            ],
        ),
    ]


def training_columns(rows: Sequence[Document]) -> list[Column]:
    """Return throughput, hours, USD per hour, per epoch and in total."""
    by_tokens = any(at(row, "performance.total_tokens_per_s") is not None for row in rows)
    totals = [ranged(row, "cost.usd_total") for row in rows]
    epochs = [ranged(row, "cost.usd_per_epoch") for row in rows]
    return [
        rate_column(
            rows,
            "performance.total_tokens_per_s" if by_tokens else "performance.samples_per_s",
            "Tokens/s" if by_tokens else "Samples/s",
            keep=4,
        ),
        Column(
            "Per epoch",
            "in total",
            right=True,
            keep=3,
            cells=[Cell(hours(at(row, "time.hours_per_epoch")), hours(at(row, "time.hours_total"))) for row in rows],
        ),
        Column("$/h", right=True, keep=2, cells=[hourly_cell(row) for row in rows]),
        Column(
            "$/epoch", right=True, keep=1, cells=[Cell(figure(value), spread(low, high)) for value, low, high in epochs]
        ),
        Column(
            "$ total",
            right=True,
            cells=[
                Cell(figure(value), spread(low, high), style=f"{STRONG} {GOOD}" if row.get("rank") == 1 else STRONG)
                for row, (value, low, high) in zip(rows, totals, strict=True)
            ],
        ),
    ]


def basis_cell(row: Document) -> Cell:
    """Return what the figures rest on and the day of the price."""
    basis = at(row, "performance.basis") or ""
    return Cell(
        basis,
        day_of(at(row, "price.as_of")),
        style=GOOD if basis == "measured" else "",
        under_style=CARE if at(row, "price.stale") else QUIET,
    )


def provenance(document: Document, rows: Sequence[Document]) -> list[RenderableType]:
    """Return where prices come from and how old they are, what the figures rest on, and what the bill leaves out."""
    prices = document["prices"]
    text = Text.assemble(("Prices  ", STRONG))
    text.append(f"snapshot {str(prices['snapshot_id'])[:12]}")
    lines: list[RenderableType] = [text]
    for kind, said, stale in days_by_kind(prices["sources"]):
        of_kind = Text(f"{words(kind)} of {said}")
        if stale:
            of_kind.append(" (STALE)", style=CARE)
        of_kind.append(f": {sources_said([s for s in prices['sources'] if s['kind'] == kind])}", style=QUIET)
        lines.append(indented(of_kind))
    if any(source["stale"] for source in prices["sources"]):
        ahead = ", or dated after this machine's clock" if any(s.get("after_clock") for s in prices["sources"]) else ""
        lines.append(
            indented(
                f"Stale (!): older than 24 h for spot and offered capacity blocks, 30 days for on-demand, 90 days for commitments{ahead}. Dollars and ranking are as of those days.",
                style=CARE,
            )
        )
    bases = dict.fromkeys(at(row, "performance.basis") for row in rows)
    if bases:
        said = "; ".join(f"{basis} = {BASIS_WORDS[basis]}" for basis in bases if basis)
        figures_line = Text.assemble(("Figures  ", STRONG))
        figures_line.append(f"{said}; ranges are p10{DASH}p90")
        lines.append(figures_line)
    if any(at(row, "layout.replicas_per_instance") not in (None, 1) for row in rows):
        lines.append(
            indented(
                f"2{TIMES}TP4, 64 each: two replicas per instance, each on 4 GPUs with up to 64 requests in flight",
                style=QUIET,
            )
        )
    return lines


MOST_SOURCES = 3
LONGEST_SOURCE = 48
RATE = re.compile(r", at (\S+ [A-Z]{3} per USD) stated in the request$")
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(?= )")


def sources_said(sources: Sequence[Document]) -> str:
    """Return the short names of the sources of one kind of price, those with the most prices first: "a, b, c and 2 more"."""
    ordered = sorted(sources, key=lambda s: (-s.get("quotes", 0), str(s["source"])))
    names = list(dict.fromkeys(short_source(str(s["source"])) for s in ordered))
    more = [f"and {len(names) - MOST_SOURCES} more"] if len(names) > MOST_SOURCES else []
    return " ".join([", ".join(names[:MOST_SOURCES]), *more])


def short_source(source: str) -> str:
    """Return a source by its name: a repository without the file in it, prose up to a bracket or comma, a stated rate with its figure.

    JSON has it in full.
    """
    if stated := RATE.search(source):
        return f"{short_source(source[: stated.start()])} at {stated.group(1)}"
    if source.startswith("derived: "):
        return "derived from another region"
    if repository := REPOSITORY.match(source):
        return repository.group()
    plain = re.split(r" \(|, ", source, maxsplit=1)[0]
    return plain if len(plain) <= LONGEST_SOURCE else f"{plain[:LONGEST_SOURCE].rpartition(' ')[0]} …"


def left_out_of_the_bill(document: Document) -> list[RenderableType]:
    """Return what the costs do not contain."""
    off = [words(a["name"].removesuffix("_cost")) for a in document.get("assumptions") or () if a.get("value") == "off"]
    return [Text(f"Not in the bill: {', '.join(off)}.", style=QUIET)] if off else []


def days_by_kind(sources: Sequence[Document]) -> list[tuple[str, str, bool]]:
    """Return for each kind of price its day, or first and last day, with the age of the oldest, and whether any of it is stale."""
    kinds: dict[str, list[Document]] = {}
    for source in sources:
        kinds.setdefault(str(source["kind"]), []).append(source)
    out = []
    for kind, of_kind in kinds.items():
        last = max(of_kind, key=lambda s: str(s["as_of"]))
        first = min(of_kind, key=lambda s: str(s["oldest_as_of"]))
        span = datetime.fromisoformat(first["as_of"]) - datetime.fromisoformat(first["oldest_as_of"])
        hours = first["age_hours"] + int(span.total_seconds() // 3600)
        day, oldest = day_of(last["as_of"]), day_of(first["oldest_as_of"])
        said = f"{day}, {age(hours)}" if day == oldest else f"{oldest} to {day}, the oldest {age(hours)}"
        if last.get("after_clock"):  # absent from answers of older versions
            said = f"{day if day == oldest else f'{oldest} to {day}'}, dated after this machine's clock"
        out.append((kind, said, any(s["stale"] for s in of_kind)))
    return out
