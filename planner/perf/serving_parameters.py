"""Fitted parameters of a serving layout: what describes it to the fit, the values it gets, its evidence and its interval.

A request has no source and no group: their deviations are nothing and their spreads widen the interval, as for anybody's next
measurement. Engines count as of their newest generation, which is what a user installs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec
from planner.perf.model import Hardware
from planner.perf.parameters import Parameters
from planner.perf.precision import Format
from planner.perf.serving_rates import silicon_of, topology_of
from pricing.model import AcceleratorKind

Array = npt.NDArray[np.float64]

WORKLOAD = "serving"
NEW_SINCE = 2025
"""Engines were rewritten about then (vLLM V1, TensorRT-LLM's PyTorch backend): measurements before and since are two generations."""
RUNTIME_OF_KIND = {AcceleratorKind.NEURON: "neuron"}
"""Chips on which every engine runs through the vendor's own compiled runtime."""
COMPILED = ("neuron",)
"""Engines whose steps are compiled for the longest sequence: attention works on all of its cache from the first token on."""
MIXING = ("vllm", "tensorrt-llm")
"""Engines whose steps carry prompts and decoding requests together, since 2025 (chunked prefill, in-flight batching)."""
LEVELS = ("architecture", "chip", "engine", "generation", "engine_chip", "precision", "topology", "family")
NOT_STATED = {"limit": "", "model": "", "source": "", "group": ""}
ENOUGH_GROUPS, ENOUGH_ROWS = 3, 5
"""(source, model, chip) groups and rows from which nothing is said of a chip's or engine's scarce evidence."""

Keys = tuple[str, ...]


def generation_of(engine: str, year: int | None) -> str:
    """Return the key of an engine before or since `NEW_SINCE`; "" where it is not known."""
    if not engine or year is None:
        return ""
    return f"{engine} since {NEW_SINCE}" if year >= NEW_SINCE else f"{engine} before {NEW_SINCE}"


def family_of(name: str, spec: ModelSpec) -> str:
    """Return the family of a model: the first word of its name, that of the base for distillations, with "moe" where experts are routed."""
    family = _family_of(name)
    return f"{family} moe" if spec.experts else family


@lru_cache(maxsize=1024)
def _family_of(name: str) -> str:
    plain = name.rpartition("/")[2].lower().removeprefix("meta-")
    found = re.match(r"[a-z]+(?:-(?=[a-z]+))?[a-z]*", plain)
    family = found.group() if found else plain
    if family in {"codellama", "tinyllama"} or "distill-llama" in plain:
        family = "llama"
    elif "distill-qwen" in plain or plain.startswith("qwq"):
        family = "qwen"
    return family


def runtime_of(hardware: Hardware, engine: str) -> str:
    """Return the key of the engine that really runs on a kind of chip."""
    return RUNTIME_OF_KIND.get(hardware.kind, engine)


def padded(hardware: Hardware, engine: str) -> bool:
    """Return whether decode steps on this hardware work on the cache of the longest sequence."""
    return runtime_of(hardware, engine) in COMPILED


def keys_of(hardware: Hardware, form: Format, *, engine: str, generation: str, ranks: int, family: str) -> Keys:
    """Return the keys of a layout at `LEVELS`; `engine` is the one that really runs."""
    silicon = silicon_of(hardware)
    return (
        silicon,
        hardware.accelerator,
        engine,
        generation,
        f"{engine} on {hardware.accelerator}",
        f"{form.weights if form.native else form.compute} on {silicon}",  # weight-only formats compute in 16 bits
        topology_of(hardware, ranks),
        family,
    )


def mixes(engine: str, generation: str) -> bool:
    """Return whether an engine that really runs puts prompts and decoding requests into the same steps."""
    return engine in MIXING and generation == generation_of(engine, NEW_SINCE)


def request_keys(spec: ModelSpec, hardware: Hardware, form: Format, engine: str, ranks: int) -> Keys:
    """Return the keys of a layout that a request asks about: the engine's newest generation."""
    runs = runtime_of(hardware, engine)
    newest = generation_of(runs, NEW_SINCE)
    return keys_of(hardware, form, engine=runs, generation=newest, ranks=ranks, family=family_of(spec.name, spec))


def by_level(keys: Sequence[Keys]) -> dict[str, list[str]]:
    """Return the keys of some requests by level, with those that a request does not have."""
    out = {level: [k[i] for k in keys] for i, level in enumerate(LEVELS)}
    return out | {level: [key] * len(keys) for level, key in NOT_STATED.items()}


@lru_cache(maxsize=65536)
def values_of(keys: Keys, parameters: Parameters) -> Array:
    """Return the values of the slots for some keys."""
    return np.asarray(parameters.values(by_level([keys]), 1)[0], dtype=np.float64)


@lru_cache(maxsize=65536)
def points_and_variances(keys: Keys, parameters: Parameters) -> tuple[Array, Array]:
    """Return the points in link space and their variances for some keys."""
    levels = by_level([keys])
    return parameters.points(levels, 1)[0], parameters.variances(levels, 1)[0]


def source_of(p: Parameters) -> str:
    """Return what is behind the parameters, for `performance.sources`."""
    if p.own:
        return p.own_source
    return f"fit of {p.fitted_on} to {p.rows:,} published serving measurements in {p.groups} groups (data {p.data_sha256[:12]})"


@lru_cache(maxsize=4)
def _evidence(parameters: Parameters) -> dict[tuple[str, str], tuple[int, int]]:
    return {(level, key): (d.rows, d.groups) for (_, level, key), d in parameters.deviations.items()}


def evidence_notes(hardware: Hardware, engine: str, parameters: Parameters) -> list[str]:
    """Return what to say of few, old or no measurements behind a chip and an engine."""
    notes = []
    behind = _evidence(parameters)

    def evidence_of(level: str, key: str) -> tuple[int, int]:
        return behind.get((level, key), (0, 0))

    chip, runs = hardware.accelerator, runtime_of(hardware, engine)
    rows, groups = evidence_of("chip", chip)
    if not rows:
        notes.append(f"no published LLM measurement of {chip} is behind its efficiency; the interval is wider for that")
    elif rows < ENOUGH_ROWS or groups < ENOUGH_GROUPS:
        notes.append(
            f"few measurements behind it: {rows} of {chip}, from {groups} benchmark{'s' if groups > 1 else ''}; drawn to chips of its "
            "architecture, the interval is wider for that"
        )
    of_engine, engine_groups = evidence_of("engine", runs)
    newer, _ = evidence_of("generation", generation_of(runs, NEW_SINCE))
    if not of_engine:
        notes.append(f"no measurement of {runs} is behind this; the interval is wider for that")
    elif of_engine < ENOUGH_ROWS or engine_groups < ENOUGH_GROUPS:
        notes.append(f"only {of_engine} measurements of {runs} are behind this; the interval is wider for that")
    elif not newer:
        notes.append(
            f"all {of_engine} measurements of {runs} behind this are from before {NEW_SINCE}; newer versions may be faster"
        )
    return notes
