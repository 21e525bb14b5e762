"""Which engine runs on which chip, how it can be laid out, and how it treats memory. The tables carry a source for every row."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.resources import files

from planner.perf.model import Hardware, Infeasible, RejectionReason

ENGINES = ("vllm", "tensorrt-llm", "sglang", "tgi", "llama.cpp", "neuron", "pytorch")
"""Engines that can be asked for. `neuron` is AWS's own library: Transformers NeuronX, and NxD Inference after it."""
UNPAGED = ("llama.cpp", "neuron", "pytorch")
"""Engines that keep the whole length of a slot's context, used or not."""
SPLIT_BY_LAYERS = ("llama.cpp",)
"""Engines in which a decode step passes from device to device, one at work at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """One row of `tables/engine_support.csv`. An architecture that ends in `*` is a prefix."""

    engine: str
    kind: str
    architecture: str
    min_compute_capability: float | None
    ranks_per_device: int
    parallel: tuple[str, ...]  # of "tp", "pp", "ep", "nodes": how a model may be split; nodes = over several machines
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Residence:
    """How an engine fills the memory of one device: rows of `tables/engine_memory.csv`. What a row does not give is nothing."""

    memory_share: float  # of the visible memory that it may fill
    cache_share: float = 1.0  # of what weights, activations and reserve leave, that the cache takes
    margin_gib: float = 0.0  # left free
    page_tokens: int = 1  # a request's cache is rounded up to these
    runtime_gib: float = 0.0  # context, libraries, workspace
    group_gib: float = 0.0  # communicators of a rank in a group
    group_gib_per_rank: float = 0.0
    graphs_gib: float = 0.0  # captured graphs, where they lie inside the share
    reserve_floor_gib: float = 0.0  # least of activations, runtime and graphs together, on large devices
    activation_mib_per_token: float = 0.0  # least activations of a prefill step
    logit_rows: float = 0.0  # share of the tokens of a prefill step that get logits
    max_sequences: int
    prefill_tokens: int  # of one prefill step
    prefill_tokens_large: int | None = None  # the same on large devices


@lru_cache(maxsize=1)
def engine_table() -> tuple[Support, ...]:
    """Return the shipped table of engine support."""
    return tuple(
        Support(
            engine=row["engine"],
            kind=row["kind"],
            architecture=row["architecture"],
            min_compute_capability=float(row["min_compute_capability"]) if row["min_compute_capability"] else None,
            ranks_per_device=int(row["ranks_per_device"]),
            parallel=tuple(row["parallel"].split()),
            source=row["source"],
            as_of=row["as_of"],
            note=row["note"],
        )
        for row in _rows("engine_support.csv")
    )


@lru_cache(maxsize=64)
def residence_of(engine: str, kind: str) -> Residence:
    """Return how an engine fills the memory of devices of a kind; a row for the kind goes before one for all."""
    of_all: dict[str, float] = {}
    own: dict[str, float] = {}
    for row in _rows("engine_memory.csv"):
        if row["engine"] == engine and row["kind"] in ("*", kind):
            (of_all if row["kind"] == "*" else own)[row["parameter"]] = float(row["value"])
    if not of_all:
        raise LookupError(f"engine_memory.csv has no rows of {engine}")
    whole = {"page_tokens", "max_sequences", "prefill_tokens", "prefill_tokens_large"}
    known = {f.name for f in fields(Residence)}
    given = of_all | own
    if strange := set(given) - known:
        raise LookupError(f"engine_memory.csv: {engine} has {', '.join(sorted(strange))}, which mean nothing")
    return Residence(**{k: int(v) if k in whole else v for k, v in given.items()})  # type: ignore[arg-type]  # by name


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


def ranks_of(hardware: Hardware, engine: str) -> int:
    """Return the ranks that an engine starts on one device; one where it does not run on it."""
    support = support_of(engine, hardware)
    return 1 if isinstance(support, Infeasible) else support.ranks_per_device


def _rows(table: str) -> list[dict[str, str]]:
    text = files("planner.perf").joinpath("tables", table).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
