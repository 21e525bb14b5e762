"""The noise floor: how far measured repeats of the same work differ, which no model can predict away.

The same work is one model, accelerator, count, precision, layout, lengths, batch, load and metric, as the columns state them. Two rows of it are
compared by what else differs: the source, the engine of one source, the version of one engine, or nothing that the columns tell.

A predictor that knows all of a row but its repeat's luck stands at the middle of both: where two repeats with independent noise differ
by a median factor f, its own median factor is f^(1/sqrt 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from planner.calibration.model import Row, Workload
from planner.calibration.trials import Trial

BETWEEN_SOURCES, BETWEEN_ENGINES = "between sources", "between engines of one source"
BETWEEN_VERSIONS, UNTOLD = "between versions of one engine", "in one table, nothing told"
KINDS = (UNTOLD, BETWEEN_VERSIONS, BETWEEN_ENGINES, BETWEEN_SOURCES)

WORK: Mapping[Workload, tuple[str, ...]] = {
    Workload.SERVING: (
        *("gpu", "gpus_total", "gpus_per_replica", "tp", "pp", "ep", "precision_weights", "precision_kv", "input_len"),
        *("output_len", "batch_or_concurrency", "request_rate", "scenario", "metric_name", "per_gpu"),
    ),
    Workload.SAMPLES: ("gpu", "gpus_total", "precision", "batch_size", "input_size", "scenario", "metric_name"),
    Workload.TRAINING: (
        *("gpu", "gpu_count", "nodes", "task", "precision", "strategy", "seq_len", "image_size", "micro_batch"),
        *("global_batch", "activation_checkpointing", "metric_name"),
    ),
}
ENGINE: Mapping[Workload, str] = {
    Workload.SERVING: "engine",
    Workload.SAMPLES: "engine",
    Workload.TRAINING: "framework",
}
VERSION: Mapping[Workload, tuple[str, ...]] = {
    Workload.SERVING: ("source", "source_version", "date", "engine_version"),
    Workload.SAMPLES: ("source", "source_version", "date", "engine"),
    Workload.TRAINING: ("source", "source_ref", "date", "framework"),
}
_NUMBERS = re.compile(r"\bv?\d[\w.]*|\(.*?\)")
PLAUSIBLE = 1e6
"""Figures more than so many times apart are of no one thing: the widest span of real hardware, layouts and batches is far below."""
MOST_REPEATS = 40
"""Rows of one work of which pairs are made; a sweep of hundreds would count for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """How far pairs of rows of the same work differ; factors max(a, b) / min(a, b), each work counted once by its median."""

    kind: str
    works: int
    pairs: int
    median_factor: float
    p90_factor: float

    @property
    def floor_median_ape(self) -> float:
        """Return the median error that the best predictor would have: f^(1/sqrt 2) - 1."""
        return float(self.median_factor ** (1 / np.sqrt(2)) - 1)


def repeats_of(workload: Workload, rows: Sequence[Row]) -> list[Repeats]:
    """Return the noise of each kind of which there is any."""
    works: dict[tuple[str, ...], list[tuple[Row, float]]] = {}
    for row in rows:
        value = _value(row)
        if value is not None:
            model = row["model"].lower().rpartition("/")[2]
            works.setdefault((model, *(row[c].lower() for c in WORK[workload])), []).append((row, value))
    found: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for each in works.values():
        factors: dict[str, list[float]] = {}
        for (a, x), (b, y) in combinations(each[:MOST_REPEATS], 2):
            apart = abs(float(np.log(x) - np.log(y)))
            if apart <= np.log(PLAUSIBLE):
                factors.setdefault(_kind(workload, a, b), []).append(apart)
        for kind, logs in factors.items():
            found[kind].append(logs)
    return [
        Repeats(
            kind=kind,
            works=len(of),
            pairs=sum(map(len, of)),
            median_factor=float(np.exp(np.median([np.median(logs) for logs in of]))),
            p90_factor=float(np.exp(np.quantile([np.median(logs) for logs in of], 0.9))),
        )
        for kind, of in found.items()
        if of
    ]


def floor_of(workload: Workload, rows: Sequence[Row]) -> float | None:
    """Return the floor of the median error of some rows, of all kinds of repeats among them together; None where none is repeated."""
    found = repeats_of(workload, rows)
    works = sum(each.works for each in found)
    return sum(each.works * each.floor_median_ape for each in found) / works if works else None


def noise_lines(trial: Trial) -> Iterator[str]:
    """Yield the noise floor of a table as lines of text."""
    yield f"{'repeats of the same work':34} {'works':>6} {'pairs':>6} {'median':>8} {'p90':>7} {'floor of median error':>22}"
    for each in repeats_of(trial.reading.workload, trial.rows):
        yield (
            f"{each.kind:34} {each.works:6d} {each.pairs:6d} {each.median_factor:7.3f}x {each.p90_factor:6.2f}x "
            f"{100 * each.floor_median_ape:20.1f} %"
        )


def _kind(workload: Workload, a: Row, b: Row) -> str:
    if source_family(a) != source_family(b):
        return BETWEEN_SOURCES
    if engine_word(a[ENGINE[workload]]) != engine_word(b[ENGINE[workload]]):
        return BETWEEN_ENGINES
    return BETWEEN_VERSIONS if any(a[c] != b[c] for c in VERSION[workload]) else UNTOLD


def source_family(row: Row) -> str:
    """Return the source without versions: MLPerf v4.1 and v5.1 are one."""
    return row.get("source_family") or " ".join(_NUMBERS.sub(" ", row.get("source", "").lower()).split())


def engine_word(text: str) -> str:
    """Return an engine without versions and options: its first word."""
    return " ".join(_NUMBERS.sub(" ", text.lower()).replace(",", " ").split()[:1])


def _value(row: Row) -> float | None:
    try:
        value = float(row["metric_value"].replace(",", ""))
    except ValueError:
        return None
    return value if value > 0 and np.isfinite(value) else None
