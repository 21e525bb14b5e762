"""Ranking quality: what it costs to follow the predicted cheapest accelerator where the measured cheapest is known.

Rows of the same work (model, format, lengths, load) on two or more accelerators, by one source with one engine, are a choice: between
sources and engines the same work on the same accelerator differs by a factor of 1.3 (`noise`), which no choice of accelerator is to blame
for. With prices per accelerator-hour,

    cost = price x accelerators / rate (or x time),   regret = measured cost of the predicted cheapest / measured cheapest - 1.

Of several rows of an accelerator (batches, engines, layouts) each is an option of its own, as it is to whoever chooses; rows that the
model cannot tell apart are repeats of one option, which costs their median.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.calibration.model import Figure, Row, Workload
from planner.calibration.noise import ENGINE, engine_word, source_family

WORK: Mapping[Workload, tuple[str, ...]] = {
    Workload.SERVING: ("model", "input_len", "output_len", "scenario", "metric_name"),
    Workload.SAMPLES: ("model", "input_size", "scenario", "metric_name"),
    Workload.TRAINING: ("model", "task", "seq_len", "image_size", "metric_name", "unit"),
}
"""Columns that must be equal for the same work, beside the width of the format, the source and the engine."""
PRECISION = {Workload.SERVING: "precision_weights", Workload.SAMPLES: "precision", Workload.TRAINING: "precision"}
ACCELERATORS = {Workload.SERVING: "gpus_total", Workload.SAMPLES: "gpus_total", Workload.TRAINING: "gpu_count"}
SETTINGS = (
    *("gpus_total", "gpu_count", "nodes", "gpus_per_replica", "tp", "pp", "ep", "strategy", "precision_weights"),
    *("precision", "precision_kv", "batch_or_concurrency", "batch_size", "micro_batch", "global_batch", "request_rate"),
    *("activation_checkpointing", "engine_version", "source_version", "date", "instance_type"),
)
"""Columns in which two options on one accelerator may differ."""
SIXTEEN_BIT = {"fp16", "bf16", "fp16-amp", "bf16-amp", "mixed"}
NOT_COMPARED = ("mfu", "hfu", "memory", "mem_", "tflops")  # shares of a peak and memory are no speed
PER_ACCELERATOR = ("_gpu", "per_gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One measured way to do some work, and its cost per unit as measured and as predicted (in one unit within the work)."""

    work: tuple[str, ...]
    accelerator: str
    row_id: str
    measured: float
    predicted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """What following the prediction costs for one piece of work."""

    work: tuple[str, ...]
    picked: Option
    best: Option
    accelerators: int
    options: int

    @property
    def fraction(self) -> float:
        """Return by how much the picked option is dearer than the cheapest, as a fraction of that."""
        return self.picked.measured / self.best.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Regret over many pieces of work."""

    works: int
    mean: float
    p90: float
    right: float  # share of works in which the cheapest was picked
    model_mean: float  # mean over models of the mean over their works: a sweep of lengths counts once


def options_of(
    figures: Sequence[Figure],
    rows: Mapping[str, Row],
    workload: Workload,
    price_of: Callable[[str], float | None],
) -> list[Option]:
    """Return the priced options; `price_of` an accelerator in USD per hour, None where it is not sold."""
    out = []
    for figure in figures:
        row = rows[figure.row_id]
        name = figure.labels.metric
        price = price_of(figure.labels.accelerator)
        if price is None or not figure.main or any(word in name for word in NOT_COMPARED):
            continue
        stated = row.get("per_gpu", "").lower() == "true" and figure.measured == _number(row.get("metric_value"))
        count = 1.0 if stated or name.endswith(PER_ACCELERATOR) else _number(row.get(ACCELERATORS[workload]))
        if count is None:
            continue
        is_time = figure.labels.unit == "ms" or name.endswith(("_ms", "_min"))

        def cost(value: float, dollars: float = price * count, time: bool = is_time) -> float:
            return dollars * value if time else dollars / value

        precision = row.get(PRECISION[workload], "").lower()
        work = (
            workload.value,
            "16-bit" if precision in SIXTEEN_BIT else precision,
            *(row.get(c, "") for c in WORK[workload]),
            source_family(row),
            engine_word(row.get(ENGINE[workload], "")),
        )
        if is_time:
            work = (*work, row.get("batch_or_concurrency", "") or row.get("batch_size", ""))
        out.append(
            Option(
                work=work,
                accelerator=figure.labels.accelerator,
                row_id=figure.row_id,
                measured=cost(figure.measured),
                predicted=cost(figure.predicted),
            )
        )
    return out


def regrets_of(options: Sequence[Option]) -> list[Regret]:
    """Return the regret of each piece of work with two or more accelerators, worst first; ties of cost go to the earlier name."""
    by_work: dict[tuple[str, ...], list[Option]] = {}
    for option in options:
        by_work.setdefault(option.work, []).append(option)
    out = []
    for work, rows in by_work.items():
        members = without_repeats(rows)
        chips = {o.accelerator for o in members}
        if len(chips) < 2:
            continue
        out.append(
            Regret(
                work=work,
                picked=min(members, key=lambda o: (o.predicted, o.accelerator, o.row_id)),
                best=min(members, key=lambda o: (o.measured, o.accelerator, o.row_id)),
                accelerators=len(chips),
                options=len(members),
            )
        )
    return sorted(out, key=lambda r: (-r.fraction, r.work))


def without_repeats(options: Sequence[Option]) -> list[Option]:
    """Return one option for all of an accelerator with the same predicted cost (to 0.1 %): the one whose measured cost is their median."""
    repeats: dict[tuple[str, int], list[Option]] = {}
    for option in options:
        repeats.setdefault((option.accelerator, round(1000 * float(np.log(option.predicted)))), []).append(option)
    out = []
    for members in repeats.values():
        members.sort(key=lambda o: (o.measured, o.row_id))
        out.append(members[(len(members) - 1) // 2])
    return out


def told_apart(one: Row, other: Row) -> tuple[str, str]:
    """Return what differs between two measured rows of the same work: ("tp 2, precision_weights fp8", "tp 4, precision_weights bf16")."""
    names = [c for c in SETTINGS if one.get(c, "") != other.get(c, "")]
    first, second = (", ".join(f"{c} {row.get(c, '') or 'not stated'}" for c in names) for row in (one, other))
    return first, second


def summary_of(regrets: Sequence[Regret]) -> Summary | None:
    """Return mean, 90th percentile and how often the cheapest was picked; None without any choice."""
    if not regrets:
        return None
    fractions = np.array([r.fraction for r in regrets])
    by_model: dict[tuple[str, ...], list[float]] = {}
    for r in regrets:
        by_model.setdefault(r.work[:3], []).append(r.fraction)
    return Summary(
        works=len(fractions),
        mean=float(fractions.mean()),
        p90=float(np.quantile(fractions, 0.9)),
        right=float(np.mean(fractions <= 1e-9)),
        model_mean=float(np.mean([np.mean(each) for each in by_model.values()])),
    )


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if value > 0 else None
