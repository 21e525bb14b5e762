"""Documents as flat rows with stable column names, and those rows as CSV that a spreadsheet can open without harm.

A column's name is the dotted path of its figure in the JSON document. New columns are only ever added at the end.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from planner.services.list_prices import FIELDS as PRICE_FIELDS

DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n")  # a spreadsheet takes such a cell for a formula

RANGED_COSTS = (
    "usd_per_hour",
    "usd_per_million_inferences",
    "usd_per_million_total_tokens",
    "usd_per_million_input_tokens",
    "usd_per_million_output_tokens",
    "usd_per_epoch",
    "usd_total",
    "usd_per_month",
)
RATES = ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s", "samples_per_s")

ROW_COLUMNS: tuple[str, ...] = (
    *("rank", "provider", "instance_type", "region", "availability_zone_id", "purchase_option"),
    *(f"purchase.{name}" for name in ("plan_type", "payment_option", "offering_class", "term_years")),
    *(f"price.{name}" for name in ("usd_per_instance_hour", "as_of", "stale", "derived", "source")),
    *("instance_count", "accelerator", "accelerators_per_instance"),
    *(
        f"layout.{name}"
        for name in (
            "engine",
            "engine_version",
            "precision",
            "kv_precision",
            "tensor_parallel",
            "pipeline_parallel",
            "expert_parallel",
            "data_parallel",
        )
    ),
    *(
        f"layout.{name}"
        for name in (
            "replicas_per_instance",
            "max_concurrency",
            "batch",
            "method",
            "micro_batch",
            "accumulation",
            "checkpointing",
            "sharding",
        )
    ),
    *("memory.required_gib_per_accelerator", "memory.available_gib_per_accelerator"),
    "performance.basis",
    *(f"performance.{rate}" for rate in RATES),
    *(f"performance.{latency}.{p}" for latency in ("ttft_ms", "tpot_ms", "e2e_ms") for p in ("p50", "p99")),
    *("performance.at_requests_per_s", "performance.mfu_fraction"),
    *(f"performance.{end}.{rate}" for end in ("low", "high") for rate in RATES),
    *(f"cost.{name}" for name in RANGED_COSTS),
    *(f"cost.{end}.{name}" for end in ("low", "high") for name in RANGED_COSTS if name not in {"usd_per_hour"}),
    *("time.hours_per_epoch", "time.hours_total", "energy.kwh_per_million_inferences", "pareto"),
    "notes",
)
"""Columns of one recommendation or estimate."""

ANSWER_COLUMNS: tuple[str, ...] = ("id", "model.name", "prices.snapshot_id", "prices.as_of", "planner_version")
"""Columns that say which answer a row belongs to; the same on each of its rows."""

RECOMMEND_COLUMNS = ROW_COLUMNS + ANSWER_COLUMNS
ESTIMATE_COLUMNS = tuple(c for c in ROW_COLUMNS if c != "rank") + ANSWER_COLUMNS

SCALING_COLUMNS: tuple[str, ...] = (
    *("instances", "accelerators", "kind", "global_batch", "samples_per_s", "tokens_per_s"),
    *("speedup", "efficiency_fraction", "mfu_fraction"),
    *(
        f"step_ms.{part}"
        for part in (
            "total",
            "compute",
            "dequantise",
            "launch",
            "tensor",
            "bubble",
            "data",
            "expert",
            "offload",
            "optimizer",
            "host",
            "input",
        )
    ),
    *("limited_by", "limit_fraction"),
    *(
        f"layout.{name}"
        for name in (
            "precision",
            "tensor_parallel",
            "pipeline_parallel",
            "expert_parallel",
            "data_parallel",
            "micro_batch",
            "accumulation",
            "checkpointing",
            "sharding",
        )
    ),
    "why_not",
)
"""Columns of a scaling table."""

REFRESH_COLUMNS: tuple[str, ...] = (
    *("source", "region", "state", "rows", "excluded", "published", "why", "kept_as_of"),
    *("snapshot_id", "previous_snapshot_id", "published_at"),
)
"""Columns of one source asked about one region; `excluded` counts what was left out."""

PRICE_COLUMNS: tuple[str, ...] = PRICE_FIELDS

INSTANCE_COLUMNS: tuple[str, ...] = (
    *(
        "provider",
        "instance_type",
        "family",
        "vcpus",
        "memory_gib",
        "cpu_arch",
        "accelerator",
        "accelerator_kind",
        "accelerators_per_instance",
    ),
    *(
        "device_count",
        "device_fraction",
        "device_memory_gib",
        "interconnect_kind",
        "interconnect_gb_s_bidirectional",
        "network_gbps",
        "efa_supported",
        "local_nvme_gb",
        "capacity_block_only",
    ),
    *(
        "chip.memory_bandwidth_gb_s",
        "chip.peak_tflops.fp16",
        "chip.peak_tflops.bf16",
        "chip.peak_tflops.fp8",
        "chip.tdp_w",
        "regions",
        "confidence",
        "source",
        "retrieved_on",
        "notes",
    ),
)

MODEL_LIST_COLUMNS: tuple[str, ...] = (
    "name",
    "aliases",
    "architecture",
    "parameters_total",
    "parameters_active",
    "max_context",
    "source",
)
MODEL_COLUMNS: tuple[str, ...] = (
    *(
        "name",
        "architecture",
        "parameters_total",
        "parameters_active",
        "kv_bytes_per_token.fp16",
        "kv_bytes_per_token.fp8",
    ),
    *("weight_bytes.bf16", "weight_bytes.fp8", "weight_bytes.int4", "checkpoint.precision", "checkpoint.weight_bytes"),
    *("max_context", "source"),
)

SCHEMA_COLUMNS: tuple[str, ...] = ("database", "revision", "expected_revision", "current")
GLOSSARY_COLUMNS: tuple[str, ...] = ("term", "definition", "unit", "see_also", "source")
CHECK_COLUMNS: tuple[str, ...] = ("name", "state", "found")

TERM_COLUMNS: tuple[str, ...] = (
    "rank",
    "instance_type",
    "region",
    "purchase_option",
    "name",
    "value",
    "unit",
    "formula",
    "source",
)
"""Columns of `explain`: one row per term of a derivation."""

VALIDATION_COLUMNS: tuple[str, ...] = (
    *("workload", "by", "key", "rows", "groups", "median_ape", "p90_ape", "p90_factor", "within_2x", "bias"),
    *("coverage_80", "median_interval_factor", "group_median_ape", "group_p90_ape", "group_p90_factor"),
    *("group_within_2x", "group_bias", "group_coverage_80", "group_median_interval_factor", "noise_floor_ape"),
)
"""Columns of `validate`: all rows first, then each key of each dimension."""


def value_at(document: Any, path: str) -> Any:
    """Return the value at a dotted path, or None where any part of it is missing."""
    if type(document) is dict and path in document:
        return document[path]
    value = document
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def cell(value: Any) -> str:
    """Return one CSV cell: nothing for null, true or false, list elements joined by " | ", text that cannot become a formula."""
    if value is None:
        return ""
    if type(value) is str and not value.startswith(DANGEROUS):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    if isinstance(value, Mapping):
        return cell([f"{k}={v}" for k, v in value.items()])
    text = " | ".join(str(v) for v in value) if isinstance(value, (list, tuple)) else str(value)
    return f"'{text}" if text.startswith(DANGEROUS) and not is_number(text) else text


def is_number(text: str) -> bool:
    """Return whether a text is a plain number, so that a leading minus is no formula."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def rows_of(
    items: Iterable[Mapping[str, Any]], columns: Sequence[str], common: Mapping[str, Any] | None = None
) -> list[list[str]]:
    """Return one row of cells per item; `common` holds the columns that are the same on every row."""
    shared = common or {}
    return [
        [cell(shared[column] if column in shared else value_at(item, column)) for column in columns] for item in items
    ]


def to_csv(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the rows as CSV (RFC 4180 quoting, line feeds) under a header of column names."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()
