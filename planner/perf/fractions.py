"""Fractions of peak read off published measurements: the tables of training and of models priced per sample.

A row says: this class of work on this chip (or architecture, kind, or any chip) in this precision executed so many FLOPs per
second over the dense peak. `n` rows in `groups` (source, model, chip) groups; `p10` and `p90` are measured / predicted of groups
that were left out of the fit. Rows of the workload `parameter` hold for all chips.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from planner.perf.model import Hardware

SAMPLES = "efficiencies_samples.csv"
PRECISION_CLASS = {"bf16": "16bit", "fp16": "16bit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """One row of a table."""

    workload: str
    key: str  # canonical accelerator, "capability:8.6", "architecture:X", "kind:X" or "any"; a name for parameters
    precision: str  # 16bit | fp8 | fp4 | int8 | tf32 | fp32
    value: float
    n: int
    groups: int
    p10: float
    p90: float
    source: str
    as_of: str
    note: str

    @property
    def measured(self) -> bool:
        """Return whether rows of this very work, chip and precision are behind the value."""
        return self.n > 0

    @property
    def citation(self) -> str:
        """Return the source; of a value without rows of its own, that it is carried over from there."""
        return (
            self.source if self.measured or self.source.startswith("assumption") else f"carried over from {self.source}"
        )

    @property
    def evidence(self) -> str:
        """Return what the value stands on, as a clause."""
        what = f"{self.workload} on {self.key}, {self.precision}"
        if self.measured:
            return f"{what}: {self.n} rows in {self.groups} groups"
        return f"{what}: no row of its own" + (f", {self.note}" if self.note else "")


@lru_cache(maxsize=4)
def table(name: str) -> dict[tuple[str, str, str], Efficiency]:
    """Return a shipped table by (workload, key, precision class)."""
    text = files("planner.perf").joinpath("tables", name).read_text(encoding="utf-8")
    rows: dict[tuple[str, str, str], Efficiency] = {}
    for row in csv.DictReader(text.splitlines()):
        rows[row["workload"], row["key"], row["precision"]] = Efficiency(
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
    return rows


@lru_cache(maxsize=4096)
def lookup(name: str, workload: str, keys: tuple[str, ...], precision: str) -> Efficiency:
    """Return the row nearest to a chip: the first of `keys` that has one in the precision, then in 16-bit."""
    rows = table(name)
    for p in dict.fromkeys((PRECISION_CLASS.get(precision, precision), "16bit")):
        for key in keys:
            found = rows.get((workload, key, p))
            if found is not None:
                return found
    raise LookupError(f"{name} has no row for {workload} in {precision}")


def efficiency_of(name: str, workload: str, hardware: Hardware, precision: str) -> Efficiency:
    """Return the row for a workload on some hardware: of the chip, its compute capability, its kind, or of any chip."""
    capability = hardware.compute_capability
    family = f"architecture:{hardware.architecture}" if capability is None else f"capability:{capability:g}"
    keys = (hardware.accelerator, family, f"kind:{hardware.kind.value}", "any")
    return lookup(name, workload, keys, precision)


def parameter(name: str, key: str) -> float:
    """Return a parameter that holds for all chips."""
    return parameter_row(name, key).value


def parameter_row(name: str, key: str) -> Efficiency:
    """Return a parameter that holds for all chips, with its evidence."""
    return table(name)["parameter", key, ""]
