"""Under what each row was measured, as the conditions by which evidence is near or far."""

from __future__ import annotations

from typing import Any

from planner.calibration.model import Labels, Row, Workload
from planner.perf.evidence import Conditions, width_of

STATIC = {"static", "decode", "prompt"}


def conditions_of(workload: Workload, case: object, row: Row, labels: Labels) -> Conditions:
    """Return the conditions of a case; what its row does not state is left out."""
    return {Workload.SERVING: _serving, Workload.SAMPLES: _samples, Workload.TRAINING: _training}[workload](
        case, row, labels
    )


def _serving(case: Any, row: Row, labels: Labels) -> Conditions:
    return Conditions(
        words=_stated(
            engine=case.engine,
            generation=case.generation,
            precision=width_of(case.form.weights),
            load="batch" if case.load in STATIC else "served",
        ),
        numbers=_positive(
            tensor_parallel=float(case.ranks),
            input_tokens=case.input_tokens,
            output_tokens=case.output_tokens,
            concurrency=case.concurrency,
        ),
    )


def _samples(case: Any, row: Row, labels: Labels) -> Conditions:
    return Conditions(
        words=_stated(engine=labels.engine, precision=width_of(labels.precision)),
        numbers=_positive(
            batch=_number(row.get("batch_size")),
            accelerators=_number(row.get("gpus_total")),
        ),
    )


def _training(case: Any, row: Row, labels: Labels) -> Conditions:
    return Conditions(
        words=_stated(engine=labels.engine, precision=width_of(labels.precision), method=row.get("task", "")),
        numbers=_positive(
            accelerators=_number(row.get("gpu_count")),
            sequence_tokens=_number(row.get("seq_len")),
            micro_batch=_number(row.get("micro_batch")),
        ),
    )


def _stated(**words: str) -> dict[str, str]:
    return {name: word for name, word in words.items() if word}


def _positive(**numbers: float | None) -> dict[str, float]:
    return {name: number for name, number in numbers.items() if number is not None and number > 0}


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
