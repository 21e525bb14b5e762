"""Reading, fitting and predicting the training table: rows become steps, and the time of a step explains every published figure.

    log figure = log scale - log t_step      (rates, FLOP rates, utilisation)
    log figure = log scale + log t_step      (durations)

The physics is `planner.perf.training_step`; what is fitted are the parameters of `planner.perf.training_machine.SLOTS`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from planner.calibration import hierarchy
from planner.calibration.hierarchy import Problem
from planner.calibration.model import Facts, Figure, Labels, Reading, Row, Skipped, Workload
from planner.calibration.training_rows import TrainingCase, case_of
from planner.perf.intervals import bounds, novelty_of
from planner.perf.parameters import Link, Parameters, Slot
from planner.perf.training_machine import SLOTS, engine_key, level_keys, machine_of, stacked_nodes
from planner.perf.training_memory import MEMORY_SLOTS, peak_gib
from planner.perf.training_memory import stacked as stacked_peaks
from planner.perf.training_step import StepLayout, StepTime, step_seconds
from planner.perf.training_step_work import stacked

Array = npt.NDArray[np.float64]

ENGINES = (
    ("neuron", "neuron"),
    ("habana", "habana"),
    ("gaudi", "habana"),
    ("maxtext", "jax"),
    ("jax", "jax"),
    ("levanter", "jax"),
    ("megatron", "megatron"),
    ("nemo automodel", "torch"),
    ("nemo", "megatron"),
    ("deepspeed", "deepspeed"),
    ("deeplearningexamples", "torch-dle"),
    ("tensorflow", "tensorflow"),
    ("mxnet", "mxnet"),
    ("paddle", "paddle"),
    ("poplar", "poplar"),
    ("litgpt", "litgpt"),
    ("torchtune", "torch"),
    ("torchtitan", "torch"),
    ("composer", "torch"),
    ("llm.c", "cuda"),
    ("cuda", "cuda"),
    ("hugectr", "hugectr"),
    ("timm", "timm"),
    ("pytorch", "torch"),
)
"""Software of a row, first match in its framework: how the parameters know it."""


def slots() -> tuple[Slot, ...]:
    """Return the fitted parameters: where they start, how firmly, and at which levels they deviate."""
    fraction, log = Link.FRACTION, Link.LOG
    held: dict[str, Slot] = {
        s.name: s
        for s in (
            Slot(
                name="matmul_share",
                unit="share of the dense peak",
                link=fraction,
                start=0.65,
                levels={
                    "architecture": 0.3,
                    "chip": 0.15,
                    "format": 0.3,
                    "class": 0.2,
                    "stack": 0.3,
                    "method": 0.2,
                },
            ),
            Slot(
                name="expert_share",
                unit="share of matmul_share",
                link=fraction,
                start=0.5,
                levels={"architecture": 0.2, "format": 0.3, "stack": 0.2},
            ),
            Slot(
                name="attention_share",
                unit="share of the 16-bit peak",
                link=fraction,
                start=0.35,
                levels={"architecture": 0.3, "stack": 0.3},
            ),
            Slot(
                name="traffic_share",
                unit="share of the memory bandwidth",
                link=fraction,
                start=0.5,
                levels={"architecture": 0.3, "chip": 0.2, "class": 0.4, "stack": 0.3},
            ),
            Slot(name="half_width", unit="columns", link=log, start=300.0, start_sd=1.0),
            Slot(
                name="launch_us",
                unit="us per block and pass",
                link=log,
                start=150.0,
                levels={"class": 0.5, "stack": 0.5},
            ),
            Slot(name="host_ms", unit="ms per step", link=log, start=5.0, levels={"class": 0.5, "stack": 0.5}),
            Slot(
                name="feed_us",
                unit="us per decoded sample",
                link=log,
                start=200.0,
                levels={"class": 0.5, "source": 0.3},
            ),
            Slot(name="link_share", unit="share of the link", link=fraction, start=0.6, levels={"architecture": 0.3}),
            Slot(
                name="network_share",
                unit="share of the network",
                link=fraction,
                start=0.6,
                levels={"architecture": 0.3},
            ),
            Slot(name="overlap_share", unit="share of computation", link=fraction, start=0.7, levels={"engine": 0.5}),
            Slot(
                name="work_factor",
                unit="of device time",
                link=log,
                start=1.0,
                start_sd=0.01,
                # No level of sources or groups here: what they took was the engine's and the chip's, and a request, whose source is new, lost it.
                levels={"sampled_class": 0.3, "sampled_model": 0.3},
            ),
        )
    }
    return (*(held[name] for name in SLOTS), *MEMORY_SLOTS)


def read(rows: Sequence[Row], facts: Facts) -> Reading:
    """Return the cases of a file of training measurements, and the rows that are none with their reasons."""
    cases: list[TrainingCase] = []
    labels: list[Labels] = []
    skipped: list[Skipped] = []
    for row in rows:
        found = case_of(row, facts)
        if isinstance(found, Skipped):
            skipped.append(found)
        else:
            cases.append(found)
            labels.append(labels_of(row, found))
    return Reading(
        workload=Workload.TRAINING,
        cases=cases,
        labels=labels,
        row_ids=[case.row_id for case in cases],
        main=[True] * len(cases),
        measured=[case.measured for case in cases],
        skipped=skipped,
    )


def labels_of(row: Row, case: TrainingCase) -> Labels:
    """Return what a row's errors are grouped by."""
    parts = [*([f"dp{case.data:g}"] if case.data > 1 else []), *([case.spread.text] if case.spread.text else [])]
    return Labels(
        source=row.get("source_family") or row.get("source", ""),
        model=row.get("model", "").strip(),
        accelerator=case.accelerator.name,
        chip_family=case.accelerator.architecture,
        engine=engine_of(case.framework, case),
        family=case.model.work,
        precision=case.precision,
        parallelism=" ".join(parts) or "single",
        metric=case.metric,
        unit=row.get("unit", ""),
    )


def engine_of(framework: str, case: TrainingCase) -> str:
    """Return the name that parameters know a row's software by."""
    text = framework.lower()
    named = next((name for word, name in ENGINES if word in text), "torch")
    return engine_key(named, case.accelerator.kind)


def keys_of(cases: Sequence[TrainingCase], labels: Sequence[Labels]) -> dict[str, list[str]]:
    """Return the key of each level for each case."""
    each = [
        level_keys(
            accelerator=label.accelerator,
            architecture=label.chip_family,
            engine=label.engine,
            precision=label.precision,
            work=label.family,
            method=case.training.method,
            memory=case.peak is not None,
            source=label.source,
            model=label.model.lower(),
            group=label.group,
        )
        for case, label in zip(cases, labels, strict=True)
    ]
    return {level: [keys[level] for keys in each] for level in (each[0] if each else {})}


class Steps:
    """The steps of all cases as arrays: `times(values)` for fitted values [cases, slots]."""

    def __init__(self, cases: Sequence[TrainingCase]) -> None:
        self.work = stacked([case.work for case in cases])
        self.node = stacked_nodes([case.node for case in cases])

        def column(values: Sequence[float]) -> Array:
            return np.array(values, dtype=np.float64)

        self.layout = StepLayout(
            data=column([case.data for case in cases]),
            tensor=column([case.spread.tensor for case in cases]),
            pipeline=column([case.spread.pipeline for case in cases]),
            interleave=column([case.spread.interleave for case in cases]),
            context=column([case.spread.context for case in cases]),
            expert=column([case.spread.expert for case in cases]),
            zero=column([case.spread.zero for case in cases]),
            micro_batch=column([case.micro_batch for case in cases]),
            accumulation=column([case.accumulation for case in cases]),
            recompute=column([case.recompute for case in cases]),
            recompute_attention=column([case.recompute_attention for case in cases]),
        )
        self.log_scale = np.log(column([case.scale for case in cases]))
        self.of_memory = np.array([i for i, case in enumerate(cases) if case.peak is not None], dtype=np.int64)
        peaks = [case.peak for case in cases if case.peak is not None]
        self.terms = stacked_peaks(peaks) if peaks else None
        self.sign = np.where([case.inverse for case in cases], 1.0, -1.0)

    def times(self, values: Array) -> StepTime:
        """Return the time of each case's step, part by part."""
        return step_seconds(self.work, self.layout, machine_of(self.node, values))

    def log_figures(self, values: Array) -> Array:
        """Return the log of each case's published figure; values [cases, slots of the step, slots of memory]."""
        figures = np.log(self.times(values).total)
        if self.terms is not None:
            figures = figures.copy()
            figures[self.of_memory] = np.log(peak_gib(self.terms, values[self.of_memory, len(SLOTS) :]))
        return np.asarray(self.log_scale + self.sign * figures)


def problem(reading: Reading) -> Problem:
    """Return the fit that the cases pose, one row a case."""
    cases = [case for case in reading.cases if isinstance(case, TrainingCase)]
    steps = Steps(cases)
    groups = [label.group for label in reading.labels]
    return Problem(
        workload="training",
        slots=slots(),
        keys=keys_of(cases, reading.labels),
        forward=steps.log_figures,
        log_measured=np.log(np.asarray(reading.measured, dtype=np.float64)),
        groups=groups,
        weights=weights_of(groups),
    )


def weights_of(groups: Sequence[str]) -> Array:
    """Return the weight of each row: a group counts as the square root of its rows, so that one long table does not outshout the rest."""
    counts: dict[str, int] = {}
    for group in groups:
        counts[group] = counts.get(group, 0) + 1
    return np.array([counts[group] ** -0.5 for group in groups])


def figures(reading: Reading, parameters: Parameters) -> list[Figure]:
    """Return what the model predicts for each case, with p10 and p90."""
    if not reading.cases:
        return []
    posed = problem(reading)
    log_predicted, sd = hierarchy.predict(posed, _as_slots(parameters))
    novelty = novelty_of(parameters, posed.keys, len(log_predicted))
    predicted = np.exp(log_predicted)
    low, high = bounds(parameters, predicted, sd, novelty)
    return [
        Figure(
            row_id=reading.row_ids[i],
            main=reading.main[i],
            labels=reading.labels[i],
            measured=float(reading.measured[i]),
            predicted=float(predicted[i]),
            low=float(low[i]),
            high=float(high[i]),
            novelty=novelty[i],
        )
        for i in range(len(predicted))
    ]


def _as_slots(parameters: Parameters) -> Parameters:
    """Return the parameters, refused where their slots are not ours."""
    if tuple(slot.name for slot in parameters.slots) != tuple(slot.name for slot in slots()):
        raise ValueError(f"parameters of {parameters.workload} have other slots than training's: fit them anew")
    return parameters
