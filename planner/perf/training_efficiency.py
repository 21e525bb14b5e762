"""Fractions of peak that training reaches, read off published measurements (`tables/efficiencies_training.csv`).

A row says: this class of work on this chip (or architecture, or any chip) in this precision executed so many FLOPs per second
over the dense peak, recomputation counted. `n` rows of `groups` (source, model, chip) groups; `p10` and `p90` are residuals
(measured / predicted) of groups that were left out of the fit.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from planner.perf.model import Hardware

PRECISION_CLASS = {"bf16": "16bit", "fp16": "16bit", "fp8": "fp8", "fp4": "fp4", "tf32": "tf32", "fp32": "fp32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """One row of the table."""

    workload: str  # lm | lm_moe | encoder | vision
    key: str  # canonical accelerator, "architecture:X", "kind:X" or "any"
    precision: str  # 16bit | fp8 | fp4 | tf32 | fp32
    value: float
    n: int
    groups: int
    p10: float
    p90: float
    source: str
    as_of: str
    note: str


@lru_cache(maxsize=1)
def table() -> dict[tuple[str, str, str], Efficiency]:
    """Return the shipped efficiencies by (workload, key, precision class)."""
    text = files("planner.perf").joinpath("tables", "efficiencies_training.csv").read_text(encoding="utf-8")
    rows: dict[tuple[str, str, str], Efficiency] = {}
    for row in csv.DictReader(text.splitlines()):
        found = Efficiency(
            workload=row["workload"],
            key=row["key"],
            precision=row["precision"],
            value=float(row["value"]),
            n=int(row["n"]),
            groups=int(row["groups"]),
            p10=float(row["p10_factor"]),
            p90=float(row["p90_factor"]),
            source=row["source"],
            as_of=row["as_of"],
            note=row["note"],
        )
        rows[found.workload, found.key, found.precision] = found
    return rows


@lru_cache(maxsize=4096)
def lookup(workload: str, accelerator: str, architecture: str, kind: str, precision: str) -> Efficiency:
    """Return the row nearest to a chip: the chip itself, its architecture, its kind, any chip; then the 16-bit rows of those."""
    rows = table()
    for p in dict.fromkeys((PRECISION_CLASS[precision], "16bit")):
        for key in (accelerator, f"architecture:{architecture}", f"kind:{kind}", "any"):
            found = rows.get((workload, key, p))
            if found is not None:
                return found
    msg = f"no training efficiency for {workload} in {precision}"
    raise LookupError(msg)


def efficiency_of(workload: str, hardware: Hardware, precision: str) -> Efficiency:
    """Return the efficiency row for a workload on some hardware."""
    return lookup(workload, hardware.accelerator, hardware.architecture, hardware.kind.value, precision)


def parameter(name: str) -> float:
    """Return a fitted parameter that holds for all chips."""
    return table()["parameter", name, ""].value
