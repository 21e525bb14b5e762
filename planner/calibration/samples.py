"""Models priced per sample: measured rows as cases, the fit that they pose, and what the model predicts for them.

The physics is `planner.perf.samples_time`: the same function that answers a request.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from planner.calibration import hierarchy
from planner.calibration.hierarchy import Problem
from planner.calibration.model import Facts, Figure, Labels, Reading, Row, Skipped, Workload
from planner.calibration.sample_cases import Case, Load, Unpredictable, cases_of
from planner.perf.intervals import NEW_MODEL, bounds, novelty_of
from planner.perf.memory import ENGINE_SHARE, GIB
from planner.perf.parameters import Parameters
from planner.perf.samples_rates import COLUMN, SLOTS, model_key
from planner.perf.samples_time import Loads, batch_seconds

Array = npt.NDArray[np.float64]

OFFLINE_S = 0.05
"""A batch of this length, at half the peak, is the largest that "as many as you like" means: launches weigh little, memory still holds it."""
OFFLINE_HALVES = 7
"""So often it is halved: the batch of the highest rate counts, which is a smaller one where results of a larger leave the cache."""
MOST_OFFLINE = 2048.0
MOST_DECODING = 256.0
"""Most sequences that decode together where as many as the cache holds may: the usual default of serving engines."""
GUESSED_WEIGHT = 0.1
"""Weight in a fit of rows whose work is a guess: they say little of the chip."""


def read(rows: Sequence[Row], facts: Facts) -> Reading:
    """Return the cases of a file: one a row, its metric.

    Latencies beside a rate are no cases: of one batch they repeat the rate; of Neuron's and MLPerf's server rows they hold queues that
    the row does not state.
    """
    cases: list[Case] = []
    labels: list[Labels] = []
    ids: list[str] = []
    main: list[bool] = []
    skipped: list[Skipped] = []
    for row in rows:
        row_id = row.get("row_id", "")
        try:
            for case, is_main in cases_of(row, facts):
                cases.append(case)
                labels.append(labels_of(row, case))
                ids.append(row_id)
                main.append(is_main)
        except Unpredictable as e:
            skipped.append(Skipped(row_id=row_id, reason=e.reason, detail=e.detail, eligible=e.eligible))
    return Reading(
        workload=Workload.SAMPLES,
        cases=cases,
        labels=labels,
        row_ids=ids,
        main=main,
        measured=[c.measured for c in cases],
        skipped=skipped,
    )


def labels_of(row: Row, case: Case) -> Labels:
    """Return what the errors of a case are grouped by."""
    return Labels(
        source=row.get("source", ""),
        model=row.get("model", ""),
        accelerator=case.chip.name,
        chip_family=case.chip.architecture,
        engine=case.engine,
        family=case.work.family,
        precision=case.format,
        parallelism=f"dp{case.devices}" + (f" {case.slice}" if case.slice else ""),
        metric=case.metric,
        unit=case.unit,
    )


def keys_of(reading: Reading) -> dict[str, list[str]]:
    """Return the key of each case at each level."""
    cases: list[Case] = list(reading.cases)  # type: ignore[arg-type]  # ours
    out = {
        "architecture": [c.silicon for c in cases],
        "chip": [c.chip.name for c in cases],
        "engine": [c.engine for c in cases],
        "precision": [f"{c.format} on {c.silicon}" for c in cases],
        "family": [c.work.family for c in cases],
        "engine_family": [f"{c.engine} {c.work.family}" for c in cases],
        "model": [model_key(c.work.name) for c in cases],
        "source": [each.source for each in reading.labels],
        "group": [each.group for each in reading.labels],
    }
    narrow = {  # levels of parameters that act on some rows alone
        "grouped": ([any(p.grouped_flops for p in c.work.passes) for c in cases], ("architecture", "engine")),
        "eager": ([not c.compiled for c in cases], ("engine", "chip")),
        "served": ([c.load is Load.SERVED for c in cases], ("model", "chip", "group")),
        "percentile": ([c.load is Load.PERCENTILE for c in cases], ("model",)),
        "many": ([c.devices > 1 for c in cases], ("model", "chip")),
    }
    for name, (applies, levels) in narrow.items():
        for level in levels:
            out[f"{name}_{level}"] = [key if on else "" for key, on in zip(out[level], applies, strict=True)]
    return out


class Forward:
    """All cases of a reading as arrays, and the log of their predicted figures for values of the slots."""

    def __init__(self, cases: Sequence[Case]) -> None:
        depth = max((len(c.work.passes) for c in cases), default=1)

        def phases(name: str) -> Array:
            out = np.zeros((len(cases), depth))
            for i, case in enumerate(cases):
                for k, each in enumerate(case.work.passes):
                    out[i, k] = getattr(each, name)
            return out

        def column(values: list[float]) -> Array:
            return np.array(values, dtype=np.float64)

        units = column([c.work.units_per_item for c in cases])[:, None]
        width = column([c.width_bytes for c in cases])
        compiled = column([float(c.compiled) for c in cases])
        self.loads = Loads(
            repeats=phases("repeats"),
            flops=phases("flops") * units,
            grouped_flops=phases("grouped_flops") * units,
            matrix_elements=phases("matrix_elements") * units,
            elementwise_elements=phases("elementwise_elements") * units,
            cache_elements=phases("cache_elements") * units,
            weight_bytes=phases("weights") * width[:, None],
            products=phases("products"),
            operators=phases("operators") * (1 - compiled)[:, None],
            width_bytes=width,
            peak_flops=column([c.peak_flops for c in cases]),
            bandwidth=column([c.bandwidth for c in cases]),
            cache_bytes=column([c.cache_bytes for c in cases]),
            off_chip=column([c.off_chip for c in cases]),
        )
        item_flops = np.sum(self.loads.repeats * self.loads.flops, axis=1)
        free = np.clip(OFFLINE_S * 0.5 * self.loads.peak_flops / item_flops, 1.0, MOST_OFFLINE)
        cached = np.max(self.loads.cache_elements, axis=1) * width
        room = column([(c.chip.memory_gib or 0.0) * c.memory_share for c in cases]) * GIB * ENGINE_SHARE - np.sum(
            self.loads.weight_bytes, axis=1
        )
        held = np.clip(room / np.maximum(cached, 1.0), 1.0, MOST_DECODING)
        free = np.where(cached > 0, held, free)
        stated = column([c.batch or 0.0 for c in cases])
        halves = 0.5 ** np.arange(OFFLINE_HALVES + 1)
        self.batches = np.where(stated[:, None] > 0, stated[:, None], np.maximum(1.0, free[:, None] * halves))
        self.devices = column([c.devices for c in cases])
        self.units = units[:, 0]
        load = np.array([c.load for c in cases])
        self.is_latency = np.isin(load, [Load.MEAN, Load.PERCENTILE])
        self.is_percentile = load == Load.PERCENTILE
        self.is_served = load == Load.SERVED

    def __call__(self, values: Array) -> Array:
        """Return log predictions [cases] of values [cases, slots]."""

        def slot(name: str) -> Array:
            return values[:, COLUMN[name]]

        every = batch_seconds(self.loads, values, self.batches)
        best = np.argmin(every / self.batches, axis=1)[:, None]
        seconds = np.take_along_axis(every, best, axis=1)[:, 0]
        batch = np.take_along_axis(self.batches, best, axis=1)[:, 0]
        rate = self.devices * batch * self.units / seconds
        rate = rate * self.devices ** -slot("crowding") * np.where(self.is_served, slot("served"), 1.0)
        latency_ms = 1e3 * seconds * np.where(self.is_percentile, slot("spread"), 1.0)
        return np.asarray(np.log(np.where(self.is_latency, latency_ms, rate)), dtype=np.float64)


def guessed(cases: Sequence[Case]) -> Array:
    """Return by how much the work of each case may be off: standard deviations of its log; 0 where it is known."""
    return np.array([c.work.spread for c in cases], dtype=np.float64)


def problem(reading: Reading) -> Problem:
    """Return the fit that the cases pose."""
    cases: list[Case] = list(reading.cases)  # type: ignore[arg-type]  # ours
    return Problem(
        workload=Workload.SAMPLES.value,
        slots=SLOTS,
        keys=keys_of(reading),
        forward=Forward(cases),
        log_measured=np.log(np.asarray(reading.measured, dtype=np.float64)),
        groups=[each.group for each in reading.labels],
        weights=np.where(np.asarray(reading.main), 1.0, 0.3) * np.where(guessed(cases) > 0, GUESSED_WEIGHT, 1.0),
    )


def figures(reading: Reading, parameters: Parameters) -> list[Figure]:
    """Return the prediction of each case with its interval, in the order of the reading."""
    if not reading.cases:
        return []
    posed = problem(reading)
    log_predicted, sd = hierarchy.predict(posed, parameters)
    predicted = np.exp(log_predicted)
    spread = guessed(reading.cases)  # type: ignore[arg-type]  # ours
    sd = np.sqrt(sd**2 + spread**2)
    novelty = novelty_of(parameters, posed.keys, len(predicted))
    novelty = [NEW_MODEL if own else told for own, told in zip(spread > 0, novelty, strict=True)]
    low, high = bounds(parameters, predicted, sd, novelty)
    return [
        Figure(
            row_id=reading.row_ids[i],
            main=reading.main[i],
            labels=reading.labels[i],
            measured=reading.measured[i],
            predicted=float(predicted[i]),
            low=float(low[i]),
            high=float(high[i]),
            novelty=novelty[i],
        )
        for i in range(len(predicted))
    ]
