"""Measurement files: which of three column sets a CSV has, and its lines as rows. Text is read strictly: a line that is not right is named.

The sets are told apart by the header, in any order and case. A file may leave out columns that say nothing; those that a prediction
cannot do without must be there. The shipped tables have the same columns.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files

from planner.calibration.model import Row, Workload

COLUMNS: Mapping[Workload, tuple[str, ...]] = {
    Workload.SERVING: (
        *("row_id", "source", "source_version", "date", "engine", "engine_version", "model", "params_b", "active_params_b"),
        *("precision_weights", "precision_kv", "gpu", "gpu_class", "gpus_per_replica", "gpus_total", "tp", "pp", "ep"),
        *("input_len", "output_len", "batch_or_concurrency", "request_rate", "scenario", "metric_name", "metric_value"),
        *("per_gpu", "ttft_ms_mean", "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_mean", "tpot_ms_p50", "tpot_ms_p99"),
        *("instance_type", "notes"),
    ),
    Workload.SAMPLES: (
        *("row_id", "source", "source_version", "date", "engine", "model", "params_m", "gmacs", "precision", "gpu"),
        *("gpu_class", "gpus_total", "instance_type", "batch_size", "input_size", "scenario", "metric_name"),
        *("metric_value", "latency_ms_avg", "latency_ms_p50", "latency_ms_p90", "latency_ms_p99"),
        *("price_usd_per_h_in_source", "published_cost_per_1m", "notes"),
    ),
    Workload.TRAINING: (
        *("id", "source", "source_family", "source_ref", "date", "framework", "model", "params_b", "active_params_b"),
        *("task", "precision", "strategy", "gpu", "gpu_published", "gpu_class", "interconnect", "gpu_count", "nodes"),
        *("seq_len", "image_size", "micro_batch", "global_batch", "activation_checkpointing", "metric_name"),
        *("metric_value", "unit", "derivation", "mfu_check_pct", "instance_type", "notes"),
    ),
}  # fmt: skip

REQUIRED: Mapping[Workload, tuple[str, ...]] = {
    Workload.SERVING: ("model", "gpu", "precision_weights", "input_len", "output_len", "metric_name", "metric_value"),
    Workload.SAMPLES: ("model", "gpu", "precision", "batch_size", "metric_name", "metric_value"),
    Workload.TRAINING: ("model", "gpu", "gpu_count", "precision", "metric_name", "metric_value"),
}
"""What no row can be predicted without."""

ROW_ID: Mapping[Workload, str] = {Workload.SERVING: "row_id", Workload.SAMPLES: "row_id", Workload.TRAINING: "id"}
ALSO_IDS = ("row_id", "id")
OTHER_NAMES = {
    "concurrency": ("batch_or_concurrency",),
    "batch": ("batch_or_concurrency", "batch_size", "micro_batch"),
    "tensor_parallel": ("tp",),
    "tensor_parallel_size": ("tp",),
    "pipeline_parallel": ("pp",),
    "pipeline_parallel_size": ("pp",),
    "expert_parallel": ("ep",),
    "expert_parallel_size": ("ep",),
    "isl": ("input_len",),
    "osl": ("output_len",),
    "input_tokens": ("input_len",),
    "output_tokens": ("output_len",),
    "qps": ("request_rate",),
    "accelerator": ("gpu",),
    "num_gpus": ("gpus_total", "gpu_count"),
    "gpus": ("gpus_total", "gpu_count"),
    "dtype": ("precision_weights", "precision"),
    "quantization": ("precision_weights", "precision"),
    "kv_cache_dtype": ("precision_kv",),
    "sequence_length": ("seq_len",),
}
"""Names that others give to a column, and which it is, in the set that has it."""
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


class MeasurementsError(ValueError):
    """A file that holds no measurements, in one line: what, where, and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """A file of measurements: its rows have every column of their workload ("" where the file has none) and an id of their own."""

    workload: Workload
    rows: Sequence[Row]
    sha256: str  # of the file's content
    unknown: Mapping[str, str] = field(default_factory=dict)  # column that is not read -> what it may be, or ""


def parse_measurements(data: bytes) -> Measurements:
    """Return the rows of a CSV file in UTF-8.

    Raises
    ------
    MeasurementsError
        No text, no CSV, an unknown or incomplete header, a line with another number of cells, or no line at all.
    """
    lines = csv.reader(io.StringIO(_text(data), newline=""), strict=True)
    try:
        header = next(lines, None)
        if header is None or not any(cell.strip() for cell in header):
            raise MeasurementsError("is empty: the first line must name the columns")
        names = [cell.strip().lower() for cell in header]
        workload = workload_of(names)
        rows = []
        for cells in lines:
            if not any(cells):
                continue
            if len(cells) != len(names):
                raise MeasurementsError(
                    f"line {lines.line_num}: has {len(cells)} cells, the header has {len(names)} columns"
                )
            rows.append((lines.line_num, cells))
    except csv.Error as e:
        raise MeasurementsError(f"line {lines.line_num}: is not CSV: {e}") from e
    if not rows:
        raise MeasurementsError("has no rows below its column names")
    return Measurements(
        workload=workload,
        rows=_rows(workload, names, rows),
        sha256=hashlib.sha256(data).hexdigest(),
        unknown=unknown_columns(workload, names),
    )


def unknown_columns(workload: Workload, names: Sequence[str]) -> dict[str, str]:
    """Return the columns of a header that are not read, each with the known one that it may be ("": none is near, or the header has it)."""
    known = COLUMNS[workload]
    out = {}
    for name in names:
        if not name or name in known or name in ALSO_IDS:
            continue
        plain = "_".join(name.replace("-", " ").replace("_", " ").split())
        near = [n for n in OTHER_NAMES.get(plain, ()) if n in known] or difflib.get_close_matches(plain, known, n=1)
        out[name] = next((n for n in near if n not in names), "")
    return out


def workload_of(names: Sequence[str]) -> Workload:
    """Return the workload whose columns a header has; MeasurementsError says which are missing, given twice or foreign."""
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise MeasurementsError(f"line 1: names column {twice[0]!r} twice")
    there = set(names)
    if len(there) == 1:
        for sign, word in OTHER_SEPARATORS.items():
            if sign in names[0]:
                raise MeasurementsError(f"line 1: its cells are separated by {word}; separate them by commas")
    whole = [w for w in Workload if there.issuperset(REQUIRED[w])]
    nearest = max(whole or Workload, key=lambda w: (len(_own(w) & there), len(set(COLUMNS[w]) & there)))
    if whole and (len(whole) == 1 or _own(nearest) & there):
        return nearest
    if not _own(nearest) & there:
        sets = "; ".join(f"{w.value}: {', '.join(REQUIRED[w])}" for w in Workload)
        raise MeasurementsError(f"line 1: is the header of no known column set; needed are, for {sets}")
    missing = [name for name in REQUIRED[nearest] if name not in there]
    raise MeasurementsError(
        f"line 1: has columns of {nearest.value} measurements but not {', '.join(missing)}, which a prediction needs"
    )


@lru_cache(maxsize=3)
def shipped_measurements(workload: Workload) -> Measurements:
    """Return the measured table that the product ships for a workload."""
    return parse_measurements(files("planner.perf").joinpath("tables", f"measured_{workload.value}.csv").read_bytes())


def _own(workload: Workload) -> set[str]:
    """Return the columns that no other set has."""
    return set(COLUMNS[workload]).difference(*(COLUMNS[w] for w in Workload if w is not workload))


def _text(data: bytes) -> str:
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        raise MeasurementsError("is a text in UTF-16; save it in UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise MeasurementsError(f"line {line}: is not text in UTF-8; save the file in UTF-8") from e
    if "\0" in text:
        raise MeasurementsError(
            f"line {text.count(chr(10), 0, text.index(chr(0))) + 1}: holds a zero byte; is it a CSV file?"
        )
    return text


def _rows(workload: Workload, names: Sequence[str], lines: Sequence[tuple[int, Sequence[str]]]) -> list[Row]:
    """Return the rows with all columns; an id that is missing, or given before, is made from the line number."""
    blank = dict.fromkeys(COLUMNS[workload], "")
    key = ROW_ID[workload]
    seen: set[str] = set()
    out: list[Row] = []
    for number, cells in lines:
        row = blank | {name: cell.strip() for name, cell in zip(names, cells, strict=True) if name}
        row_id = row[key] or row.get("row_id", "") or row.get("id", "") or f"line {number}"
        row[key] = row_id if row_id not in seen else f"{row_id} (line {number})"
        seen.add(row[key])
        out.append(row)
    return out
