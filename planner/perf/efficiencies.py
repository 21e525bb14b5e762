"""Efficiencies of the LLM roofline, read from `tables/efficiencies_llm.csv`: few parameters, each with its evidence.

A chip without data of its own takes its architecture's factor, then the global value; a chip with little data is drawn to its
architecture mates; an engine multiplies the overheads and the speed. No product exceeds `CEILING`, so nothing is ever faster than
the roofline.
"""

from __future__ import annotations

import csv
import math
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
ENOUGH_GROUPS, ENOUGH_ROWS = 3, 5
"""(source, model, chip) groups and rows from which a chip's own factor is believed; one benchmark of one model is an anecdote."""
ENOUGH_ENGINE_ROWS = 100
ENOUGH_FORMAT_GROUPS = 12
"""An engine or a weight format with less behind it takes at least the interval of architectures that were never seen."""
REFERENCE_ENGINE = "vllm"  # the global values are its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One row: the global value of a parameter, or the factor on it for an architecture, a chip or an engine."""

    scope: str  # global | architecture | chip | engine | interval | recent
    key: str
    architecture: str  # of a chip
    parameter: str
    value: float
    unit: str
    rows: int  # measured rows behind it
    groups: int  # (source, model, chip) groups that the rows are of
    p10_factor: float | None  # measured / predicted of left-out groups
    p90_factor: float | None
    source: str
    as_of: str
    note: str

    @property
    def belief(self) -> float:
        """Return how far the figure counts beside its mates, 0 to 1: in proportion to its groups and rows until both are enough."""
        return min(1.0, self.groups / ENOUGH_GROUPS, self.rows / ENOUGH_ROWS)


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
    evidence_groups: int  # (source, model, chip) groups that they are of
    believed: bool  # whether that is enough for factors of its own
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
            architecture=row["architecture"],
            parameter=row["parameter"],
            value=float(row["value"]),
            unit=row["unit"],
            rows=int(row["rows"]),
            groups=int(row["groups"]),
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
        own, family = table.get(("chip", accelerator, name)), table.get(("architecture", architecture, name))
        if own is not None:
            used.append(own)
            total *= own.value**own.belief * _mates(table, own, family) ** (1 - own.belief)
        elif family is not None:
            used.append(family)
            total *= family.value
        by_engine = table.get(("engine", engine, name))
        if by_engine is not None:
            used.append(by_engine)
            total *= by_engine.value
        return total

    def fraction(name: str) -> float:
        return min(CEILING, value(name))

    evidence = table.get(("chip", accelerator, "weights_bandwidth"))
    result = {
        "weights_bandwidth": fraction("weights_bandwidth"),
        "kv_bandwidth": fraction("kv_bandwidth"),
    }
    compute = {bits: fraction(f"compute_{bits}") for bits in ("32bit", "16bit", "8bit", "4bit")}
    overheads = value("layer_overhead") * 1e-6, value("step_overhead") * 1e-3, value("sequence_overhead") * 1e-6
    links = value("link_latency"), value("link_bandwidth")
    low, high = interval(accelerator, engine)
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
        evidence_rows=evidence.rows if evidence else 0,
        evidence_groups=evidence.groups if evidence else 0,
        believed=evidence is not None and evidence.belief >= 1,
        sources=sources,
    )


def _mates(table: Mapping[tuple[str, str, str], Parameter], own: Parameter, family: Parameter | None) -> float:
    """Return what the chips of the same architecture that have enough data reach, the geometric mean; else the architecture's factor."""
    factors = [
        p.value
        for (scope, key, name), p in table.items()
        if scope == "chip"
        and name == own.parameter
        and key != own.key
        and p.belief >= 1
        and p.architecture == own.architecture
    ]
    if factors:
        return math.prod(factors) ** (1 / len(factors))
    return family.value if family else 1.0


@lru_cache(maxsize=4096)
def interval(accelerator: str, engine: str, weights: str | None = None, *, routed: bool = False) -> tuple[float, float]:
    """Return p10 and p90 of measured / predicted: the widest of all spreads that apply to chip, engine, weight format and family.

    A chip with data: that of left-out groups and sources; another: that of left-out architectures too, because leaving out one chip
    keeps its siblings of the same die in. An engine, a weight format (None: not asked) and models with routed experts: the spread of
    their own rows; what has few rows at least that of what was never seen.
    """
    table = parameters()
    chip = table.get(("chip", accelerator, "weights_bandwidth"))
    keys = ["known" if chip and chip.belief >= 1 else "new"]
    by_engine = table.get(("engine", engine, "weights_bandwidth"))
    if engine != REFERENCE_ENGINE and (by_engine is None or by_engine.rows < ENOUGH_ENGINE_ROWS):
        keys.append("new")
    keys.append(f"engine:{engine}")
    if weights is not None:
        of_format = table.get(("interval", f"format:{weights}", "throughput"))
        keys.append(f"format:{weights}" if of_format else "new")
        if of_format and of_format.groups < ENOUGH_FORMAT_GROUPS:
            keys.append("new")
    if routed:
        keys.append("family:moe")
    lows, highs = [], []
    for key in keys:
        row = table.get(("interval", key, "throughput"))
        if row is None:
            continue
        if row.p10_factor is None or row.p90_factor is None:
            raise LookupError(f"{TABLE}: interval,{key} lacks p10_factor or p90_factor")
        lows.append(row.p10_factor)
        highs.append(row.p90_factor)
    return min(lows), max(highs)


def interval_of(hardware: Hardware, engine: str, weights: str, *, routed: bool) -> tuple[float, float]:
    """Return p10 and p90 of measured / predicted for a layout; see `interval`."""
    runtime = RUNTIME_OF_KIND.get(hardware.kind, engine)
    return interval(hardware.accelerator, runtime, weights, routed=routed)


@lru_cache(maxsize=64)
def engine_evidence(engine: str, *, routed: bool) -> tuple[str, ...]:
    """Return what to say of the age or the number of the measurements behind an engine on GPUs; nothing where both are good.

    The table tells rows since 2025 apart (`recent`): how many, and how they compare with what is predicted for them when left out.
    """
    table = parameters()
    behind = table.get(("interval", f"engine:{engine}", "throughput"))
    if behind is None:
        return ()
    recent = [table.get(("recent", f"{engine}:{family}", "throughput")) for family in ("dense", "moe")]
    newer = sum(row.rows for row in recent if row)
    own = recent[1 if routed else 0]
    if behind.rows < ENOUGH_ENGINE_ROWS:
        return (f"only {behind.rows} measurements of {engine} are behind this; the interval is wider for that",)
    if own is None or newer * 2 > behind.rows:
        return ()
    what = "models with experts" if routed else "dense models"
    note = (
        f"{behind.rows - newer} of the {behind.rows} {engine} measurements behind this are of 2024; newer versions served {what} "
        f"{own.value:.3g} times as fast as predicted (median of {own.rows} since 2025)"
    )
    return (note,)
