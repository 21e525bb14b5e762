"""A scaling table: the same training on more and more machines, with speed-up, the step in parts and what limits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import DASH, figure
from planner.cli.heading import heading
from planner.cli.paint import QUIET, STRONG, Cell, Column, indented, rendered, table
from planner.cli.recommend_table import provenance

Document = Mapping[str, Any]

WAITS = ("dequantise", "tensor", "bubble", "data", "expert", "launch", "offload", "optimizer", "host", "input")


def scaling_text(document: Document, *, width: int, colour: bool) -> str:
    """Return the scaling table for a terminal of `width` columns."""
    rows: Sequence[Document] = document["scaling"]
    parts: list[RenderableType] = [*heading(document), Text(""), *table(columns(rows), width)]
    parts += [
        Text(
            "Speed-up and efficiency against the first row that fits; step in ms, of which beside the computation.",
            style=QUIET,
        )
    ]
    parts += [Text(""), *provenance(document, [document] if document.get("layout") is not None else [])]
    if document.get("notes"):
        parts += [Text(""), Text("Notes", style=STRONG), *(indented(note) for note in document["notes"])]
    return rendered(parts, width=width, colour=colour)


def columns(rows: Sequence[Document]) -> list[Column]:
    """Return the columns of the table; the layout and the parts of the step go first where a screen is narrow.

    Machines or accelerators, whichever the rows are counted by, always stay.
    """
    by_machine = len({row["instances"] for row in rows}) == len(rows)

    def numbers(name: str, digits: int = 3) -> list[Cell]:
        return [Cell(DASH if row[name] is None else figure(row[name], digits)) for row in rows]

    rate = "tokens_per_s" if any(row["tokens_per_s"] is not None for row in rows) else "samples_per_s"
    return [
        Column(
            "Instances",
            right=True,
            keep=0 if by_machine else 6,
            cells=[Cell(f"{row['instances']:,}") for row in rows],
        ),
        Column(
            "Accelerators",
            right=True,
            keep=5 if by_machine else 0,
            cells=[Cell(f"{row['accelerators']:,}") for row in rows],
        ),
        Column(
            "Batch",
            rows[0]["kind"] if rows else "",
            right=True,
            keep=1,
            cells=[Cell(DASH if row["global_batch"] is None else f"{row['global_batch']:,}") for row in rows],
        ),
        Column("Tokens/s" if rate == "tokens_per_s" else "Samples/s", right=True, cells=numbers(rate)),
        Column("Speed-up", right=True, cells=numbers("speedup")),
        Column("Efficiency", right=True, cells=[Cell(percent(row["efficiency_fraction"])) for row in rows]),
        Column("MFU", right=True, keep=4, cells=[Cell(percent(row["mfu_fraction"])) for row in rows]),
        Column("Step ms", "waiting", right=True, keep=3, cells=[step_cell(row) for row in rows]),
        Column("Limited by", wraps=True, cells=[limit_cell(row) for row in rows]),
        Column("Layout", keep=2, cells=[Cell(layout_words(row)) for row in rows]),
    ]


def percent(fraction: float | None) -> str:
    """Return "98.2 %", or a dash."""
    return DASH if fraction is None else f"{figure(fraction * 100)} %"


def step_cell(row: Document) -> Cell:
    """Return the step and, below, the parts beside computation that take more than a hundredth of it."""
    if row["step_ms"] is None:
        return Cell(DASH)
    total = row["step_ms"]["total"]
    waits = [f"{name} {figure(row['step_ms'][name])}" for name in WAITS if row["step_ms"][name] > total / 100]
    return Cell(figure(total, 4), ", ".join(waits))


def limit_cell(row: Document) -> Cell:
    """Return what limits the row, or why there is none."""
    if row["limited_by"] is None:
        return Cell(row["why_not"], style=QUIET)
    return Cell(row["limited_by"])


def layout_words(row: Document) -> str:
    """Return the layout in short: "TP2 PP4 DP8 zero1, micro 2 x 16, recompute full"."""
    layout = row["layout"]
    if layout is None:
        return DASH
    degrees = (("TP", "tensor_parallel"), ("PP", "pipeline_parallel"), ("EP", "expert_parallel"))
    split = [f"{short}{layout[name]}" for short, name in degrees if (layout[name] or 1) > 1]
    split.append(f"DP{layout['data_parallel']}")
    if layout["sharding"]:
        split.append(layout["sharding"])
    again = "" if layout["checkpointing"] in {None, "none"} else f", recompute {layout['checkpointing']}"
    return f"{' '.join(split)}, micro {layout['micro_batch']} x {layout['accumulation']}{again}"
