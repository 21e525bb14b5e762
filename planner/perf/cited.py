"""Published figures as a citation: document, version, day, engine, the figure and its conditions, from the shipped tables."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files

ROW_ID = {"serving": "row_id", "samples": "row_id", "training": "id"}
CONDITIONS = {
    "serving": (
        ("precision_weights", ""),
        ("tp", "TP"),
        ("input_len", "in"),
        ("output_len", "out"),
        ("batch_or_concurrency", "in flight"),
    ),
    "samples": (("precision", ""), ("batch_size", "batch"), ("input_size", "size"), ("gpus_total", "accelerators")),
    "training": (
        ("precision", ""),
        ("task", ""),
        ("gpu_count", "accelerators"),
        ("seq_len", "tokens"),
        ("micro_batch", "micro-batch"),
        ("strategy", ""),
    ),
}
"""Columns that are shown as the conditions of a figure -> the word before the value."""


def citation(workload: str, row: Mapping[str, str]) -> str:
    """Return a row in one line: what was measured, with what, under which conditions, and where it stands."""
    engine = " ".join(filter(None, (row.get("engine") or row.get("framework"), row.get("engine_version"))))
    conditions = [
        f"{word} {row[column]}".strip() for column, word in CONDITIONS[workload] if row.get(column, "").strip()
    ]
    unit = row.get("unit") or row.get("metric_name", "")
    per = " per accelerator" if row.get("per_gpu", "").strip().lower() == "true" else ""
    figure = f"{row.get('metric_value', '')} {unit}{per}".strip()
    document = ", ".join(filter(None, (row.get("source"), row.get("source_version"), row.get("date"))))
    what = ", ".join(filter(None, (row.get("model"), row.get("gpu"), engine, *conditions)))
    return f"{what}: {figure} ({document})"


def shipped_rows(workload: str, row_ids: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the rows of the shipped table with these ids; only their lines are parsed."""
    wanted = set(row_ids)
    lines = _lines(workload)
    at = [line for line in lines[1:] if line.partition(",")[0] in wanted]
    return {row[ROW_ID[workload]]: row for row in csv.DictReader([lines[0], *at])}


@lru_cache(maxsize=3)
def _lines(workload: str) -> tuple[str, ...]:
    text = files("planner.perf").joinpath("tables", f"measured_{workload}.csv").read_text(encoding="utf-8")
    return tuple(text.splitlines())
