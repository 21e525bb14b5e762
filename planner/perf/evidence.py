"""What measurements near a request say of the model's prediction for it: kriging of log(measured / model) over conditions.

A measurement of the same tensors on the same accelerator is carried over by the model's own ratio,

    figure(request) = model(request) x exp(sum_i w_i r_i),    r_i = log(measured_i / model(conditions_i)),

so that what the model gets wrong for this work on this chip is put right, and what it knows of batch, length and layout stays. The
weights are those of simple kriging (Cressie 1993, ch. 3; Rasmussen & Williams 2006, eq. 2.25-2.26) with the covariance

    cov(i, j) = s² exp(-d_ij / s²),    d_ij = sum over conditions of variance x difference,

where s² is the variance of r over all rows and d the distance: how far apart the log errors of two rows drift when they differ in engine,
format, source (1 where they differ) or lengths, degree, batch (|log ratio|). The variances come from all pairs of rows of one model and
chip (`tables/evidence_distance.csv`). `exp` of a conditionally negative definite distance is a covariance (Schoenberg 1938). What is
left of the variance is the part of the model's own interval that stays.

A request is of no source: what the rows of one source share among them, and no other does, is not carried in full. Own measurements are
of one source with every request here.

The rows stand in `tables/evidence_WORKLOAD.csv`, model by model, beside the log ratio to the shipped parameters' prediction; the figures
themselves, their documents and days in `tables/measured_WORKLOAD.csv`. Both are read when a model is first asked about, and of them only
the lines of that model.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec

Array = npt.NDArray[np.float64]

WORDS: Mapping[str, tuple[str, ...]] = {
    "serving": ("engine", "generation", "precision", "load"),
    "samples": ("engine", "precision"),
    "training": ("engine", "precision", "method"),
}
NUMBERS: Mapping[str, tuple[str, ...]] = {
    "serving": ("tensor_parallel", "input_tokens", "output_tokens", "concurrency"),
    "samples": ("batch", "size", "accelerators"),
    "training": ("accelerators", "sequence_tokens", "micro_batch"),
}
"""What may differ between two rows of one model and chip, beside their source: words that are equal or not, numbers by their ratio."""

SIXTEEN_BIT = "16-bit"
MOST_WITNESSES = 32
"""Nearest rows that are combined; farther ones hardly weigh."""
LONGEST_RESIDUAL = 2.5
"""Standard deviations beyond which a residual counts no more than at this many (Huber's clipping): repeats do go wrong by factors."""
NUGGET = "nugget"
LEVEL = "level"
SOURCE = "source"
OWN = "own measurement"
"""The source of the user's own rows, and of requests where there are some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Under what a figure holds: words that are equal or not, and positive numbers that are compared by their ratio.

    A condition that one side does not state is no difference.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A measured figure beside the model's prediction for its own conditions."""

    row_id: str
    conditions: Conditions
    log_ratio: float  # of speed: log(measured / model) of a rate, minus that of a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """How the log errors of two rows drift apart: variance by condition, of repeats (`nugget`), and of all rows (`level`)."""

    variances: Mapping[str, float]

    @property
    def level(self) -> float:
        """Variance of log(measured / model) over all rows, repeats' noise left out."""
        return self.variances[LEVEL]

    def of(self, one: Sequence[Conditions], other: Sequence[Conditions]) -> Array:
        """Return the distance of each of `one` from each of `other` [one, other], a variance."""
        total = np.zeros((len(one), len(other)))
        for name, variance in self.variances.items():
            if name not in {NUGGET, LEVEL} and variance > 0:
                total += variance * difference(name, one, other)
        return total

    def covariance(self, one: Sequence[Conditions], other: Sequence[Conditions]) -> Array:
        """Return the covariance of the log errors [one, other]."""
        return np.asarray(self.level * np.exp(-self.of(one, other) / self.level), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A witness that weighs in a correction."""

    row_id: str
    weight: float
    distance: float  # standard deviation of the log ratio that the difference in conditions makes
    log_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What witnesses make of a prediction: a factor on its speed, and how much of the model's own variance is left."""

    log_factor: float
    left_fraction: float  # 1: nothing learnt; of the variance, repeats' noise included
    used: tuple[Used, ...]  # heaviest first

    @property
    def factor(self) -> float:
        """Return measured over modelled speed, as carried over."""
        return float(np.exp(self.log_factor))

    @property
    def interval_power(self) -> float:
        """Return the power to which the model's interval factors are raised."""
        return float(np.sqrt(self.left_fraction))


def width_of(precision: str) -> str:
    """Return a number format as conditions state it: both 16-bit formats are as fast."""
    return SIXTEEN_BIT if precision in {"fp16", "bf16"} else precision


def difference(name: str, one: Sequence[Conditions], other: Sequence[Conditions]) -> Array:
    """Return by how much each of `one` differs from each of `other` in a condition: 0 or 1 for words, |log ratio| for numbers."""
    if any(name in c.numbers for c in (*one, *other)):
        a = np.array([np.log(c.numbers.get(name, np.nan)) for c in one])[:, None]
        b = np.array([np.log(c.numbers.get(name, np.nan)) for c in other])[None, :]
        return np.asarray(np.nan_to_num(np.abs(a - b), nan=0.0), dtype=np.float64)
    words = {word: i for i, word in enumerate({c.words.get(name) for c in (*one, *other)})}
    a_word = np.array([words[c.words.get(name)] for c in one])[:, None]
    b_word = np.array([words[c.words.get(name)] for c in other])[None, :]
    stated_a = np.array([name in c.words for c in one])[:, None]
    stated_b = np.array([name in c.words for c in other])[None, :]
    differs = (a_word != b_word) & stated_a & stated_b
    return np.asarray(differs, dtype=np.float64)


def correction_of(asked: Conditions, witnesses: Sequence[Witness], distances: Distances) -> Correction | None:
    """Return what the nearest witnesses make of a prediction; None without any."""
    if not witnesses:
        return None
    away = distances.of([asked], [w.conditions for w in witnesses])[0]
    near = np.argsort(away, kind="stable")[:MOST_WITNESSES]
    kept = [witnesses[int(i)] for i in near]
    rows = [w.conditions for w in kept]
    among = distances.covariance(rows, rows)
    noise = distances.variances[NUGGET]
    to_asked = distances.covariance(rows, [asked])[:, 0]
    weights = _solved(among, to_asked, noise)
    longest = LONGEST_RESIDUAL * float(np.sqrt(distances.level + noise))
    residuals = np.clip([w.log_ratio for w in kept], -longest, longest)
    left = distances.level - float(weights @ to_asked)
    used = [
        Used(row_id=w.row_id, weight=float(x), distance=float(np.sqrt(away[int(i)])), log_ratio=w.log_ratio)
        for w, x, i in zip(kept, weights, near, strict=True)
    ]
    used.sort(key=lambda u: (-abs(u.weight), u.row_id))
    return Correction(
        log_factor=float(weights @ residuals),
        left_fraction=min(1.0, max(0.0, left + noise) / (distances.level + noise)),
        used=tuple(used),
    )


def _solved(covariance: Array, right: Array, noise: float) -> Array:
    """Return (covariance + noise)^-1 right; conditions that are not stated may leave negative eigenvalues, which count as none."""
    values, vectors = np.linalg.eigh(covariance)
    solved = vectors @ ((vectors.T @ right) / (np.maximum(values, 0.0) + noise))
    return np.asarray(solved, dtype=np.float64)


def fingerprint(spec: ModelSpec) -> str:
    """Return 12 hex digits that models with the same tensors share, whatever they are called and however they are stored."""
    tensors = tuple((t.tensor_class.value, t.parameters, t.tower) for t in spec.tensors)
    shape = (spec.kind.value, spec.layers, spec.hidden_size, spec.vocab_size, tensors, spec.attention)
    return hashlib.sha256(repr(shape).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def shipped_distances() -> Mapping[str, Distances]:
    """Return the distances of each workload, as fitted on the shipped measurements."""
    found: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(_text("evidence_distance.csv").splitlines()):
        found.setdefault(row["workload"], {})[row["condition"]] = float(row["variance"])
    return {workload: Distances(variances=variances) for workload, variances in found.items()}


@lru_cache(maxsize=256)
def shipped_witnesses(workload: str, model: str) -> Mapping[str, tuple[Witness, ...]]:
    """Return the published rows of a model (by its fingerprint) for each accelerator; empty where there are none."""
    lines = _lines_of(_text(f"evidence_{workload}.csv"), model)
    found: dict[str, list[Witness]] = {}
    for row in csv.DictReader(lines):
        words = {name: row[name] for name in (SOURCE, *WORDS[workload]) if row[name]}
        numbers = {name: float(row[name]) for name in NUMBERS[workload] if row[name]}
        witness = Witness(
            row_id=row["row_id"],
            conditions=Conditions(words=words, numbers=numbers),
            log_ratio=float(row["log_ratio"]),
        )
        found.setdefault(row["accelerator"], []).append(witness)
    return {chip: tuple(witnesses) for chip, witnesses in found.items()}


def _lines_of(text: str, model: str) -> list[str]:
    """Return the header and the lines that begin with a model; the table is sorted by it, so that they stand together."""
    header_end = text.index("\n")
    begin = text.find(f"\n{model},")
    if begin < 0:
        return [text[:header_end]]
    last = text.rindex(f"\n{model},")
    end = text.find("\n", last + 1)
    return [text[:header_end], *text[begin + 1 : end if end >= 0 else len(text)].split("\n")]


def _text(name: str) -> str:
    return files("planner.perf").joinpath("tables", name).read_text(encoding="utf-8")
