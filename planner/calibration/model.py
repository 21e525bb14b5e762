"""The nouns of validation: a measured row, what it became, and what was predicted for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from planner.calibration.hierarchy import Problem
from planner.models.spec import ModelSpec
from planner.perf.parameters import Parameters
from pricing.model import Accelerator

Row = Mapping[str, str]
"""One line of a measurement file: column -> text, "" where the source does not say."""


class Workload(StrEnum):
    """Which of the three column sets a file has, and which model predicts it."""

    SERVING = "serving"
    SAMPLES = "samples"
    TRAINING = "training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What rows are resolved with: chips by canonical name, other spellings of them, and models by any name (None: unknown)."""

    accelerators: Mapping[str, Accelerator]
    accelerator_names: Mapping[str, str]  # any spelling, lower case -> canonical name
    find_model: Callable[[str], ModelSpec | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A row that is not predicted, and why. `eligible`: it has a rate, a latency or a memory figure and a stated shape all the same."""

    row_id: str
    reason: str  # a few words that many rows share: "no lengths stated", "time to train"
    detail: str
    eligible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What the errors of a row are grouped by. `group` is (source, model, accelerator) as one text."""

    source: str
    model: str
    accelerator: str  # canonical name
    chip_family: str  # architecture
    engine: str
    family: str  # of the model: "llama", "bert", "resnet" …; with "moe" where experts are routed
    precision: str  # of the weights
    parallelism: str  # "tp1", "tp8", "tp4 pp2", "dp64 zero3" …
    metric: str  # "output_tokens_per_s", "ttft_ms", "peak_memory_gib" …
    unit: str

    @property
    def group(self) -> str:
        """Return the (source, model, accelerator) triple that folds leave out whole."""
        return f"{self.source} | {self.model} | {self.accelerator}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure of a row and its prediction, in the same unit; low and high are p10 and p90.

    A row has one main figure (its metric) and may have others beside it (TTFT, TPOT of a throughput row; latency of a batch).
    """

    row_id: str
    main: bool
    labels: Labels
    measured: float
    predicted: float
    low: float
    high: float
    novelty: str  # novelty class: "known source" | "new source" | "new chip" | "new model" …


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The rows of a file as cases of a workload (in an own type of that workload), and those that could not be."""

    workload: Workload
    cases: Sequence[object]
    labels: Sequence[Labels]  # one per case
    row_ids: Sequence[str]  # one per case; a row with several figures gives several cases
    main: Sequence[bool]
    measured: Sequence[float]  # in `labels.unit`
    skipped: Sequence[Skipped]
    notes: Sequence[str] = field(default_factory=tuple)


class Physics(Protocol):
    """What each workload provides to reading, fitting and validation; the functions of `serving`, `samples` and `training` here."""

    def read(self, rows: Sequence[Row], facts: Facts) -> Reading:
        """Return the cases of a file."""
        ...

    def problem(self, reading: Reading) -> Problem:
        """Return the fit that the cases pose: one row of the problem per case, in their order."""
        ...

    def figures(self, reading: Reading, parameters: Parameters) -> Sequence[Figure]:
        """Return what the model predicts for each case, with its interval, in their order."""
        ...
