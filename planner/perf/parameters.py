"""Fitted parameters of the performance model: few physical ones, each with deviations by level, and how sure they are.

A parameter ("slot") has a global value and, at some levels (architecture, chip, engine, ...), a deviation for each key that
measurements speak of. All add up in the link's space: `log` for overheads and factors, `fraction` for shares of a peak, where

    value = ceiling / (1 + exp(-x))

so that no sum of deviations gets past the ceiling and nothing is ever faster than the roofline. A key that was never seen deviates by
nothing, give or take the spread between keys of its level: that is what widens an interval for new chips, engines and sources.

The files (`tables/parameters_WORKLOAD.json`) are written by `planner.calibration.hierarchy.fit` and by nobody's hand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SCHEMA = "gpu-cost-planner/parameters"
SCHEMA_VERSION = 1
SOURCE_LEVEL = "source"
"""The level at which a request has no key that others have: only own measurements speak of "" there."""
CEILING = 0.95
"""No efficiency exceeds this share of a datasheet peak: refresh, row misses and clocks leave no chip more."""
SHARPNESS = 3.0
"""How late a share feels its bound: at 1 (logistic) half the slope is gone at half of the ceiling, at 3 at 0.79 of it."""


class Link(StrEnum):
    """How sums of deviations become a value."""

    LOG = "log"  # value = exp(x)
    FRACTION = "fraction"  # value = CEILING * (1 + exp(-SHARPNESS * x)) ** (-1 / SHARPNESS): exp(x) far below the ceiling, never above it

    def reach(self, x: Array) -> Array:
        """Return the value of a point in link space."""
        if self is Link.LOG:
            return np.exp(x)
        return np.asarray(CEILING * (1.0 + np.exp(-SHARPNESS * x)) ** (-1.0 / SHARPNESS), dtype=np.float64)

    def point(self, value: float) -> float:
        """Return the point in link space of a value."""
        if self is Link.LOG:
            return math.log(value)
        return -math.log((CEILING / value) ** SHARPNESS - 1.0) / SHARPNESS

    def straightened(self, x: Array, variance: Array) -> Array:
        """Return the variance with which the slope at x reaches as far as steps of one standard deviation up and down do.

        Near the ceiling the slope is next to nothing, but what is not known may lie far below it.
        """
        if self is Link.LOG:
            return variance
        sd = np.sqrt(variance)
        reached = (np.log(self.reach(x + sd)) - np.log(self.reach(x - sd))) / 2.0
        slope = 1.0 / (1.0 + np.exp(SHARPNESS * np.minimum(x, 8.0)))
        return np.asarray((reached / slope) ** 2, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A physical parameter: its name and unit, its global value, how far it may wander from it, and at which levels it deviates.

    `start` is a value (not in link space) from physics or a first look; `start_sd` says in link space how weakly it is held.
    `levels`: a prior standard deviation for each level at which keys deviate, in link space; the fit estimates it anew.
    """

    name: str
    unit: str
    link: Link
    start: float
    start_sd: float = 1.0
    levels: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """What one key of one level adds to a parameter in link space, and the evidence behind it."""

    x: float
    sd: float  # posterior
    rows: int
    groups: int  # (source, model, accelerator) groups that the rows are of


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRow:
    """The multiples of the predicted spread between which 80 % of left-out rows of a novelty class lay."""

    low: float  # negative
    high: float
    rows: int
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All fitted parameters of one workload."""

    workload: str  # "serving" | "samples" | "training"
    version: str
    fitted_on: str  # date
    data_sha256: str  # of the measurements behind it
    rows: int
    groups: int
    slots: tuple[Slot, ...]
    centres: Mapping[str, float]  # slot -> fitted global point in link space
    centre_sds: Mapping[str, float]
    spreads: Mapping[tuple[str, str], float]  # (slot, level) -> standard deviation between keys, link space
    deviations: Mapping[tuple[str, str, str], Deviation]  # (slot, level, key)
    noise_sd: float  # of a row beside its group, log
    intervals: Mapping[str, IntervalRow] = field(default_factory=dict)  # novelty class -> multiples

    def points(self, keys: Mapping[str, Sequence[str]], rows: int) -> Array:
        """Return the points in link space [rows, slots]; `keys` gives each level's key per row ("" where there is none)."""
        out = np.empty((rows, len(self.slots)))
        for column, slot in enumerate(self.slots):
            total = np.full(rows, self.centres[slot.name])
            for level in slot.levels:
                if level in keys:
                    total += np.fromiter(
                        (self.deviation(slot.name, level, key) for key in keys[level]), dtype=np.float64, count=rows
                    )
            out[:, column] = total
        return out

    def values(self, keys: Mapping[str, Sequence[str]], rows: int) -> Array:
        """Return the values [rows, slots], links applied."""
        return self.values_at(self.points(keys, rows))

    def values_at(self, points: Array) -> Array:
        """Return the values of points in link space, last axis the slots."""
        out = np.empty_like(points)
        for link in Link:
            columns = [i for i, slot in enumerate(self.slots) if slot.link is link]
            out[..., columns] = link.reach(points[..., columns])
        return out

    def variances(self, keys: Mapping[str, Sequence[str]], rows: int) -> Array:
        """Return the variance of the points [rows, slots], straightened: posterior where a key is known, the spread of its level where not."""
        out, points = np.empty((rows, len(self.slots))), self.points(keys, rows)
        for column, slot in enumerate(self.slots):
            total = np.full(rows, self.centre_sds[slot.name] ** 2)
            for level in slot.levels:
                unknown = self.spreads.get((slot.name, level), 0.0) ** 2
                if level not in keys:
                    total += unknown
                    continue
                total += np.fromiter(
                    (self._variance(slot.name, level, key, unknown) for key in keys[level]),
                    dtype=np.float64,
                    count=rows,
                )
            out[:, column] = slot.link.straightened(points[:, column], total)
        return out

    def deviation(self, slot: str, level: str, key: str) -> float:
        """Return what a key of a level adds to a slot in link space; 0 for a key that was never seen."""
        found = self.deviations.get((slot, level, key))
        return 0.0 if found is None else found.x

    def _variance(self, slot: str, level: str, key: str, unknown: float) -> float:
        found = self.deviations.get((slot, level, key))
        return unknown if found is None else found.sd**2

    def known(self, level: str, key: str) -> bool:
        """Return whether measurements speak of a key of a level."""
        return any((slot.name, level, key) in self.deviations for slot in self.slots if level in slot.levels)

    @property
    def own(self) -> bool:
        """Return whether a user's own measurements moved these: then the source of a request ("") is known."""
        return any((slot.name, SOURCE_LEVEL, "") in self.deviations for slot in self.slots)

    @property
    def own_source(self) -> str:
        """Return what own parameters rest on, in one line for `performance.sources`."""
        return (
            f"own measurements: fit of {self.fitted_on} to {self.rows:,} rows in {self.groups} groups of (source, model, accelerator) "
            f"(data {self.data_sha256[:12]}), on the shipped parameters"
        )

    def __hash__(self) -> int:
        """Return a hash that is cheap, so that what follows from parameters can be kept by them."""
        return hash((self.workload, self.version, self.data_sha256, self.noise_sd))

    def index(self, name: str) -> int:
        """Return the column of a slot."""
        return next(i for i, slot in enumerate(self.slots) if slot.name == name)


def to_json(parameters: Parameters) -> str:
    """Return the file of some parameters: one deviation a line, sorted, figures to six digits."""
    p = parameters
    head = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "workload": p.workload,
        "version": p.version,
        "fitted_on": p.fitted_on,
        "data_sha256": p.data_sha256,
        "rows": p.rows,
        "groups": p.groups,
        "noise_sd": _short(p.noise_sd),
    }
    slots = [
        {
            "name": s.name,
            "unit": s.unit,
            "link": s.link.value,
            "value": _short(float(s.link.reach(np.asarray(_short(p.centres[s.name]))))),
            "x": _short(p.centres[s.name]),
            "sd": _short(p.centre_sds[s.name]),
            "start": s.start,
            "start_sd": s.start_sd,
            "levels": {level: _short(p.spreads.get((s.name, level), 0.0)) for level in s.levels},
        }
        for s in p.slots
    ]
    intervals = [
        {"class": name, "low": _short(r.low), "high": _short(r.high), "rows": r.rows, "groups": r.groups}
        for name, r in sorted(p.intervals.items())
    ]
    deviations = [
        [slot, level, key, _short(d.x), _short(d.sd), d.rows, d.groups]
        for (slot, level, key), d in sorted(p.deviations.items())
    ]

    def lines(items: Sequence[object]) -> str:
        return "[\n" + ",\n".join("    " + json.dumps(item, ensure_ascii=False) for item in items) + "\n  ]"

    fields = [f'  "{name}": {json.dumps(value)}' for name, value in head.items()]
    fields += [f'  "slots": {lines(slots)}', f'  "intervals": {lines(intervals)}']
    fields += ['  "deviation_columns": ["slot", "level", "key", "x", "sd", "rows", "groups"]']
    fields += [f'  "deviations": {lines(deviations)}']
    return "{\n" + ",\n".join(fields) + "\n}\n"


def from_json(text: str) -> Parameters:
    """Return the parameters of a file.

    Raises
    ------
    ValueError
        The text is not such a file, or of a version that this planner does not read.
    """
    doc = json.loads(text)
    if not isinstance(doc, dict) or doc.get("schema") != SCHEMA:
        raise ValueError(f"not a parameter file: schema is not {SCHEMA}")
    if doc.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(
            f"parameter file of version {doc.get('schema_version')!r}; this planner reads {SCHEMA_VERSION}"
        )
    slots = tuple(
        Slot(
            name=s["name"],
            unit=s["unit"],
            link=Link(s["link"]),
            start=s["start"],
            start_sd=s["start_sd"],
            levels=s["levels"],
        )
        for s in doc["slots"]
    )
    return Parameters(
        workload=doc["workload"],
        version=doc["version"],
        fitted_on=doc["fitted_on"],
        data_sha256=doc["data_sha256"],
        rows=doc["rows"],
        groups=doc["groups"],
        slots=slots,
        centres={s["name"]: s["x"] for s in doc["slots"]},
        centre_sds={s["name"]: s["sd"] for s in doc["slots"]},
        spreads={(s["name"], level): sd for s in doc["slots"] for level, sd in s["levels"].items()},
        deviations={
            (slot, level, key): Deviation(x=x, sd=sd, rows=rows, groups=groups)
            for slot, level, key, x, sd, rows, groups in doc["deviations"]
        },
        noise_sd=doc["noise_sd"],
        intervals={
            r["class"]: IntervalRow(low=r["low"], high=r["high"], rows=r["rows"], groups=r["groups"])
            for r in doc["intervals"]
        },
    )


@lru_cache(maxsize=8)
def shipped(workload: str) -> Parameters:
    """Return the parameters that the product ships for a workload."""
    return from_json(
        files("planner.perf").joinpath("tables", f"parameters_{workload}.json").read_text(encoding="utf-8")
    )


def _short(value: float) -> float:
    return float(f"{value:.6g}")
