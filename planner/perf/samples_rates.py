"""Fitted parameters of models priced per sample, as the arrays of `samples_time` want them: names, links, levels, keys of a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from planner.perf.intervals import bounds, novelty_of
from planner.perf.parameters import Link, Parameters, Slot

Array = npt.NDArray[np.float64]

ENGINE_KEYS = {"pytorch": "pytorch eager"}
"""Runtimes of a request whose measurements go by another name."""
STEP = 1e-4
"""Step in link space of the forward differences behind an interval."""

# No level "source" on `pace`: sources of one engine took up what is the engine's (MLPerf's TensorRT rows all lean one way), and a request,
# whose source is new, lost it. Hosts do differ by source: there it stays, and tells which sources are known.
SLOTS = (
    Slot(
        name="compute",
        unit="fraction of the dense peak",
        link=Link.FRACTION,
        start=0.5,
        levels={"architecture": 0.3, "chip": 0.2, "precision": 0.3, "engine": 0.3},
    ),
    Slot(
        name="grouped",
        unit="fraction of the dense peak, grouped convolutions",
        link=Link.FRACTION,
        start=0.05,
        levels={"grouped_architecture": 0.4, "grouped_engine": 0.4},
    ),
    Slot(
        name="bandwidth",
        unit="fraction of the peak bandwidth",
        link=Link.FRACTION,
        start=0.7,
        levels={"architecture": 0.3, "chip": 0.2, "engine": 0.3},
    ),
    Slot(
        name="unfused",
        unit="fraction of element-wise results that cross memory",
        link=Link.FRACTION,
        start=0.3,
        levels={"engine": 0.8},
    ),
    Slot(
        name="crossing",
        unit="fraction of results that cross memory however small they are",
        link=Link.FRACTION,
        start=0.7,
        levels={"architecture": 0.5, "chip": 0.5, "engine": 0.5},
    ),
    Slot(
        name="keeps",
        unit="bytes of live results, over the last-level cache, at which half of what could stay in it crosses memory",
        link=Link.LOG,
        start=1.0,
        start_sd=1.0,
        levels={"architecture": 0.5, "engine": 0.5},
    ),
    Slot(
        name="operator",
        unit="s of the device per matrix product, whatever its size",
        link=Link.LOG,
        start=5e-6,
        levels={"architecture": 0.3, "chip": 0.3, "engine": 0.5, "family": 0.3},
    ),
    Slot(
        name="launch",
        unit="s of the host per operator",
        link=Link.LOG,
        start=8e-6,
        levels={"eager_engine": 0.5, "eager_chip": 0.3, "source": 0.8},
    ),
    Slot(
        name="pace",
        unit="factor on the time of a batch",
        link=Link.LOG,
        start=1.0,
        start_sd=0.05,
        levels={"model": 0.2, "engine_family": 0.2, "group": 0.1},
    ),
    Slot(
        name="served",
        unit="fraction of the offline rate under a latency limit",
        link=Link.FRACTION,
        start=0.85,
        levels={"served_model": 0.4, "served_chip": 0.3, "served_group": 0.3},
    ),
    Slot(
        name="spread",
        unit="factor of a latency percentile over the mean",
        link=Link.LOG,
        start=1.05,
        start_sd=0.1,
        levels={"percentile_model": 0.1},
    ),
    Slot(
        name="crowding",
        unit="share of the rate lost for each doubling of devices",
        link=Link.LOG,
        start=0.01,
        levels={"many_model": 0.7, "many_chip": 0.5},
    ),
)
MEASURED_ONLY = frozenset({"served", "spread", "crowding"})
"""Slots of how rows were measured, which the time of a batch does not know."""
COLUMN = {slot.name: i for i, slot in enumerate(SLOTS)}


def silicon_of(architecture: str, capability: float | None) -> str:
    """Return the key of a chip's architecture: on NVIDIA's with the compute capability, as GA100 and GA102 are both Ampere."""
    return architecture if capability is None else f"{architecture} {capability:g}"


def model_key(name: str) -> str:
    """Return the key of a model whatever way its name is written: letters and digits in lower case ("ResNet-50" is "resnet50")."""
    return re.sub(r"[^a-z0-9.]", "", name.lower())


def keys_of(
    *,
    silicon: Sequence[str],
    chips: Sequence[str],
    engines: Sequence[str],
    formats: Sequence[str],
    family: str,
    model: str,
) -> dict[str, list[str]]:
    """Return the keys of a user's request: of source and group there is none, which widens its interval."""
    rows = len(chips)
    by_engine = [ENGINE_KEYS.get(each, each) for each in engines]
    return {
        "architecture": list(silicon),
        "chip": list(chips),
        "engine": by_engine,
        "precision": [f"{form} on {each}" for form, each in zip(formats, silicon, strict=True)],
        "family": [family] * rows,
        "engine_family": [f"{engine} {family}" for engine in by_engine],
        "model": [model_key(model)] * rows,
        "source": [""] * rows,
        "group": [""] * rows,
        "grouped_architecture": list(silicon),
        "grouped_engine": by_engine,
        "eager_engine": by_engine,
        "eager_chip": list(chips),
    }


def factors(
    parameters: Parameters, keys: dict[str, list[str]], log_seconds: Callable[[Array], Array], rows: int
) -> tuple[Array, Array, list[str]]:
    """Return p10 and p90 of measured rate over predicted rate [rows], and the novelty class of each row.

    `log_seconds` takes values [rows, slots] and returns the log of the time of the batch in question.
    """
    points = parameters.points(keys, rows)
    values = parameters.values_at(points)
    at = log_seconds(values)
    slopes = np.zeros_like(points)
    for column, slot in enumerate(parameters.slots):
        if slot.name in MEASURED_ONLY:
            continue
        moved = values.copy()
        moved[:, column] = slot.link.reach(points[:, column] + STEP)
        slopes[:, column] = (log_seconds(moved) - at) / STEP
    sd = np.sqrt(np.sum(slopes**2 * parameters.variances(keys, rows), axis=1) + parameters.noise_sd**2)
    novelty = novelty_of(parameters, keys, rows)
    low, high = bounds(parameters, np.ones(rows), sd, novelty)
    return low, high, novelty
