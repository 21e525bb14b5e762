"""Which engine runs on which chip, and how many ranks it starts on one device. The table carries a source for every row."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from planner.perf.model import Hardware, Infeasible, RejectionReason

MAX_SEQUENCES = 1024
"""Most requests that one replica keeps in flight (vLLM `max_num_seqs` of the server on large devices; lower defaults can be raised)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """One row of `tables/engine_support.csv`. An architecture that ends in `*` is a prefix."""

    engine: str
    kind: str
    architecture: str
    min_compute_capability: float | None
    ranks_per_device: int
    source: str
    as_of: str
    note: str  # what has to be seen to before it starts

    def covers(self, hardware: Hardware) -> bool:
        """Return whether the row speaks of this hardware."""
        if hardware.kind.value != self.kind:
            return False
        if self.min_compute_capability is not None:
            return (
                hardware.compute_capability is not None and hardware.compute_capability >= self.min_compute_capability
            )
        prefix = self.architecture.removesuffix("*")
        return (
            hardware.architecture.startswith(prefix)
            if self.architecture.endswith("*")
            else hardware.architecture == prefix
        )


@lru_cache(maxsize=1)
def engine_table() -> tuple[Support, ...]:
    """Return the shipped table of engine support."""
    text = files("planner.perf").joinpath("tables", "engine_support.csv").read_text(encoding="utf-8")
    return tuple(
        Support(
            engine=row["engine"],
            kind=row["kind"],
            architecture=row["architecture"],
            min_compute_capability=float(row["min_compute_capability"]) if row["min_compute_capability"] else None,
            ranks_per_device=int(row["ranks_per_device"]),
            source=row["source"],
            as_of=row["as_of"],
            note=row["note"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def support_of(engine: str, hardware: Hardware) -> Support | Infeasible:
    """Return the row under which an engine runs on some hardware, or why it does not."""
    rows = [row for row in engine_table() if row.engine == engine]
    for row in rows:
        if row.covers(hardware):
            return row
    capability = "" if hardware.compute_capability is None else f", compute capability {hardware.compute_capability}"
    needs = sorted(
        {row.min_compute_capability for row in rows if row.kind == hardware.kind.value and row.min_compute_capability}
    )
    wanted = f"; it needs compute capability {needs[0]} or higher" if needs and capability else ""
    return Infeasible(
        reason=RejectionReason.ENGINE_UNSUPPORTED,
        detail=f"{engine} does not run on {hardware.accelerator} ({hardware.architecture}{capability}){wanted}",
        figures={"accelerator": hardware.accelerator, "engine": engine},
    )
