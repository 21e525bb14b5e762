"""Efficiencies of the LLM roofline, read from `tables/efficiencies_llm.csv`: few parameters, each with its evidence.

A chip without data of its own takes its architecture's factor, then the global value; an engine multiplies the overheads and the
speed. No product exceeds `CEILING`, so nothing is ever faster than the roofline.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from planner.perf.model import Hardware
from pricing.model import AcceleratorKind

TABLE = "efficiencies_llm.csv"
BITS_CLASS = {
    "fp32": "32bit",
    "tf32": "32bit",
    "fp16": "16bit",
    "bf16": "16bit",
    "fp8": "8bit",
    "int8": "8bit",
    "fp4": "4bit",
    "mxfp4": "4bit",
}

CEILING = 0.92
"""No efficiency exceeds this share of a datasheet peak: refresh, row misses and clocks leave no chip more."""
RUNTIME_OF_KIND = {AcceleratorKind.NEURON: "neuron", AcceleratorKind.GAUDI: "gaudi"}
"""Chips on which every engine runs through the vendor's own compiled runtime."""
ENOUGH_ROWS = 10  # a chip with fewer measured rows takes the interval of chips that were never seen
REFERENCE_ENGINE = "vllm"  # the global values are its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One row: the global value of a parameter, or the factor on it for an architecture, a chip or an engine."""

    scope: str  # global | architecture | chip | engine | interval
    key: str
    parameter: str
    value: float
    unit: str
    rows: int  # measured rows behind it
    p10_factor: float | None  # measured / predicted of left-out groups
    p90_factor: float | None
    source: str
    as_of: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """What one chip and engine reach of the datasheet, and what each step costs beside the roofline."""

    weights_bandwidth: float  # fraction of peak memory bandwidth when reading weights
    kv_bandwidth: float  # fraction when reading the KV cache
    compute: Mapping[str, float]  # fraction of the dense peak by class of format: 32bit, 16bit, 8bit, 4bit
    layer_overhead_s: float  # launches and small kernels of one layer
    step_overhead_s: float  # scheduling and sampling of one step
    sequence_overhead_s: float  # host work per request in a step
    link_latency_factor: float
    link_bandwidth_factor: float
    low_factor: float  # p10 of measured / predicted
    high_factor: float  # p90
    evidence_rows: int  # measured rows of this chip
    sources: tuple[str, ...]

    def compute_fraction(self, format_name: str) -> float:
        """Return the usable fraction of the dense peak of a format."""
        return self.compute[BITS_CLASS[format_name]]


@lru_cache(maxsize=1)
def parameters() -> dict[tuple[str, str, str], Parameter]:
    """Return the shipped parameters by (scope, key, parameter)."""
    text = files("planner.perf").joinpath("tables", TABLE).read_text(encoding="utf-8")
    rows = {}
    for row in csv.DictReader(text.splitlines()):
        rows[row["scope"], row["key"], row["parameter"]] = Parameter(
            scope=row["scope"],
            key=row["key"],
            parameter=row["parameter"],
            value=float(row["value"]),
            unit=row["unit"],
            rows=int(row["rows"]),
            p10_factor=float(row["p10_factor"]) if row["p10_factor"] else None,
            p90_factor=float(row["p90_factor"]) if row["p90_factor"] else None,
            source=row["source"],
            as_of=row["as_of"],
            note=row["note"],
        )
    return rows


def efficiency_of(hardware: Hardware, engine: str) -> Efficiency:
    """Return the efficiencies of an engine on a chip: global value x chip factor (else architecture's) x engine factor."""
    return efficiency(hardware.accelerator, hardware.architecture, RUNTIME_OF_KIND.get(hardware.kind, engine))


@lru_cache(maxsize=1024)
def efficiency(accelerator: str, architecture: str, engine: str) -> Efficiency:
    """Return the efficiencies by names; see `efficiency_of`."""
    table = parameters()
    used: list[Parameter] = []

    def value(name: str) -> float:
        base = table["global", "any", name]
        used.append(base)
        total = base.value
        for scope, key in (("chip", accelerator), ("architecture", architecture)):
            factor = table.get((scope, key, name))
            if factor is not None:
                used.append(factor)
                total *= factor.value
                break
        by_engine = table.get(("engine", engine, name))
        if by_engine is not None:
            used.append(by_engine)
            total *= by_engine.value
        return total

    def fraction(name: str) -> float:
        return min(CEILING, value(name))

    chip_rows = [p for (scope, key, _), p in table.items() if scope == "chip" and key == accelerator]
    evidence = max((p.rows for p in chip_rows), default=0)
    result = {
        "weights_bandwidth": fraction("weights_bandwidth"),
        "kv_bandwidth": fraction("kv_bandwidth"),
    }
    compute = {bits: fraction(f"compute_{bits}") for bits in ("32bit", "16bit", "8bit", "4bit")}
    overheads = value("layer_overhead") * 1e-6, value("step_overhead") * 1e-3, value("sequence_overhead") * 1e-6
    links = value("link_latency"), value("link_bandwidth")
    low, high = _interval(table, accelerator, architecture, engine)
    sources = tuple(dict.fromkeys(f"{p.source} ({p.as_of})" for p in used))
    return Efficiency(
        **result,
        compute=compute,
        layer_overhead_s=overheads[0],
        step_overhead_s=overheads[1],
        sequence_overhead_s=overheads[2],
        link_latency_factor=links[0],
        link_bandwidth_factor=links[1],
        low_factor=low,
        high_factor=high,
        evidence_rows=evidence,
        sources=sources,
    )


def _interval(
    table: Mapping[tuple[str, str, str], Parameter], accelerator: str, architecture: str, engine: str
) -> tuple[float, float]:
    """Return p10 and p90 of the residual spread that applies: of chips with data, of a known architecture, or of what was never seen."""
    own = table.get(("chip", accelerator, "weights_bandwidth"))
    family = ("architecture", architecture, "weights_bandwidth") in table
    known_engine = engine == REFERENCE_ENGINE or any(scope == "engine" and key == engine for scope, key, _ in table)
    novelty = "known" if own and own.rows >= ENOUGH_ROWS and known_engine else "new_chip" if family else "new"
    row = table["interval", novelty, "throughput"]
    if row.p10_factor is None or row.p90_factor is None:
        raise LookupError(f"{TABLE}: interval,{novelty} lacks p10_factor or p90_factor")
    return row.p10_factor, row.p90_factor
