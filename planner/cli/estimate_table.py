"""The answer of `estimate` as a fact sheet: memory line by line, rates and latencies with their ranges, cost where it is priced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.explain_table import derivation, row_title
from planner.cli.figures import DASH, at, dollars, dollars_per_hour, figure, hours, milliseconds, spread, words
from planner.cli.footnotes import rejections
from planner.cli.heading import heading
from planner.cli.paint import BAD, GOOD, QUIET, STRONG, Cell, Column, indented, rendered, table
from planner.cli.recommend_table import layout_cell, left_out_of_the_bill, provenance

Document = Mapping[str, Any]


def estimate_text(document: Document, *, width: int, colour: bool) -> str:
    """Return the whole estimate for a terminal of `width` columns."""
    parts: list[RenderableType] = [*heading(document), Text("")]
    if document.get("layout") is None:
        parts += [
            Text(f"{row_title(document)}: {verdict(document['rejections'])}", style=f"{STRONG} {BAD}"),
            *rejections(document["rejections"]),
        ]
        return rendered(parts, width=width, colour=colour)
    layout = layout_cell(document)
    title = Text.assemble((row_title(document), STRONG))
    title.append(f"  {layout.main}, {layout.under}")
    parts += [title, Text(""), *memory(document, width), Text(""), *facts(document, width)]
    parts += [Text(""), *provenance(document, [document])]
    if document.get("notes"):
        parts += [Text(""), Text("Notes", style=STRONG), *(indented(note) for note in document["notes"])]
    if document["rejections"]:
        parts += [Text(""), *rejections(document["rejections"])]
    if document.get("explanation"):
        parts += [Text(""), *derivation(document, document, width)]
    return rendered(parts, width=width, colour=colour)


def verdict(rejected: Sequence[Document]) -> str:
    """Return in a few words why there is no estimate; the figures stand below."""
    reasons = {str(each["reason"]) for each in rejected}
    return "does not fit." if reasons == {"out_of_memory"} else "not possible."


def memory(document: Document, width: int) -> list[RenderableType]:
    """Return the memory of one accelerator, line by line, with the total against what may be used."""
    lines = document["memory"]["lines"]
    required, available = (
        document["memory"]["required_gib_per_accelerator"],
        document["memory"]["available_gib_per_accelerator"],
    )
    columns = [
        Column(
            "Memory of one accelerator",
            cells=[*(Cell(words(line["name"])) for line in lines), Cell("total", style=STRONG), Cell("may be used")],
        ),
        Column(
            "GiB",
            right=True,
            cells=[
                *(Cell(figure(line["gib"], 4)) for line in lines),
                Cell(figure(required, 4), style=f"{STRONG} {GOOD}"),
                Cell(figure(available, 4)),
            ],
        ),
        Column(
            "Of which",
            wraps=True,
            cells=[
                *(Cell(line["note"], style=QUIET) for line in lines),
                Cell(f"{figure(required / available * 100)} % of what may be used", style=QUIET),
                Cell(document["memory"]["available_is"], style=QUIET),
            ],
        ),
    ]
    return [*table(columns, width), *(Text(line) for line in capacity(document))]


SIZE_UNITS = {
    "encoder": "tokens",
    "vision": "pixels along the edge",
    "diffusion": "pixels along the edge",
    "speech": "output tokens",
}
"""What the size of a sample counts, by kind of model."""


def capacity(document: Document) -> list[str]:
    """Return what one replica could hold at most, where that is known: requests of these lengths, and tokens of a request; or samples, and their size."""
    memory_, layout, request = document["memory"], document["layout"], document["request"]
    requests, tokens = memory_["max_concurrency_at_context"], memory_["max_context_tokens"]
    lines = []
    if requests is not None:
        length = request["input_tokens"] + request["output_tokens"]
        lines.append(f"A replica holds at most {requests:,} requests of {length:,} tokens.")
    if tokens is not None:
        flying = layout["max_concurrency"]
        one = memory_["max_context_tokens_of_one"]
        alone = f", {one:,} of one alone" if flying > 1 and one is not None and one != tokens else ""
        lines.append(
            f"Longest context: {tokens:,} tokens (input and output) with {flying:,} request{'' if flying == 1 else 's'} in flight{alone}."
        )
    batch, size, alone = (memory_[name] for name in ("max_batch_at_size", "max_size", "max_size_of_one"))
    if batch is not None:
        lines.append(f"A batch holds at most {batch:,} samples of this size, by memory.")
    if size is not None:
        now = layout["batch"]
        one = f", {alone:,} alone" if now and now > 1 and alone is not None and alone != size else ""
        unit = SIZE_UNITS[document["model"]["kind"]]
        lines.append(f"Largest sample: {size:,} {unit} in a batch of {now:,}{one}.")
    return lines + training_capacity(memory_, layout)


def training_capacity(memory_: Document, layout: Document) -> list[str]:
    """Return what an accelerator could train on at once, where that is known: samples of this length or size, and tokens of a sequence."""
    micro, tokens, alone = (
        memory_[n] for n in ("max_micro_batch", "max_sequence_tokens", "max_sequence_tokens_of_one")
    )
    lines = []
    if micro is not None:
        what = "sample{} of this size" if tokens is None else "sequence{} of this length"
        plural = what.format("" if micro == 1 else "s")
        lines.append(f"An accelerator holds a micro-batch of at most {micro:,} {plural}, by memory.")
    if tokens is not None:
        now = layout["micro_batch"]
        one = f", {alone:,} at 1" if now > 1 and alone is not None and alone != tokens else ""
        lines.append(f"Longest sequence: {tokens:,} tokens at a micro-batch of {now:,}{one}.")
    return lines


def facts(document: Document, width: int) -> list[RenderableType]:
    """Return rates, latencies, time, cost and energy, each with its range where it has one."""
    rows: list[tuple[str, str, str]] = []
    for name, title in (
        ("requests_per_s", "requests per second"),
        ("output_tokens_per_s", "output tokens per second"),
        ("total_tokens_per_s", "all tokens per second"),
        ("samples_per_s", "samples per second"),
    ):
        if at(document, f"performance.{name}") is not None:
            rows.append(
                (
                    title,
                    figure(at(document, f"performance.{name}")),
                    spread(at(document, f"performance.low.{name}"), at(document, f"performance.high.{name}")),
                )
            )
    for name, title in (("ttft_ms", "TTFT"), ("tpot_ms", "TPOT"), ("e2e_ms", "whole request")):
        if at(document, f"performance.{name}.p99") is not None:
            rows.append(
                (
                    f"{title}, p50 and p99",
                    f"{milliseconds(at(document, f'performance.{name}.p50'))}, {milliseconds(at(document, f'performance.{name}.p99'))}",
                    "",
                )
            )
    if at(document, "performance.mfu_fraction") is not None:
        rows.append(("MFU", f"{figure(at(document, 'performance.mfu_fraction') * 100)} %", ""))
    for name, title in (("hours_per_epoch", "time per epoch"), ("hours_total", "time in total")):
        if at(document, f"time.{name}") is not None:
            rows.append((title, hours(at(document, f"time.{name}")), ""))
    if at(document, "cost.usd_per_hour") is not None:
        rows.append(("USD per hour", dollars_per_hour(at(document, "cost.usd_per_hour")), ""))
    for name, title in COSTS:
        if at(document, f"cost.{name}") is not None:
            shown = (
                dollars(at(document, f"cost.{name}"))
                if name == "usd_per_month"
                else figure(at(document, f"cost.{name}"))
            )
            rows.append(
                (
                    title,
                    shown,
                    spread(at(document, f"cost.low.{name}"), at(document, f"cost.high.{name}"))
                    if name != "usd_per_month"
                    else "",
                )
            )
    if at(document, "energy.kwh_per_million_inferences") is not None:
        rows.append(("kWh per million inferences", figure(at(document, "energy.kwh_per_million_inferences")), ""))
    columns = [
        Column("Figure", cells=[Cell(title) for title, _, _ in rows]),
        Column("Expected", right=True, cells=[Cell(value, style=STRONG) for _, value, _ in rows]),
        Column(f"p10{DASH}p90", right=True, keep=1, cells=[Cell(span, style=QUIET) for _, _, span in rows]),
    ]
    return [*table(columns, width), *left_out_of_the_bill(document)]


COSTS = (
    ("usd_per_million_inferences", "USD per million inferences"),
    ("usd_per_million_input_tokens", "USD per million input tokens"),
    ("usd_per_million_output_tokens", "USD per million output tokens"),
    ("usd_per_epoch", "USD per epoch"),
    ("usd_total", "USD in total"),
    ("usd_per_month", "USD per month of 730 h"),
)
