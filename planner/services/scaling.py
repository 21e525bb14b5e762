"""`scaling`: the same training on more and more machines: speed-up, efficiency, the step in parts, and what limits it.

Strong scaling: every row trains with the same global batch, the stated one, else that chosen for the first row that fits. Weak scaling,
of models whose batch nobody stated and that are not counted in tokens (images): every accelerator keeps its micro-batch, the batch grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.models.spec import ModelSpec
from planner.perf.model import Evaluation, Hardware, Outcome, TrainingWork
from planner.ports import Document
from planner.recommend.request import EstimateRequest
from planner.recommend.scaling import scaling_counts
from planner.services.documents import layout_document
from planner.services.evidence import Tiers
from pricing.model import InterconnectKind

if TYPE_CHECKING:
    from planner.perf.parameters import Parameters

FIELDS = (
    "instances", "accelerators", "kind", "global_batch", "samples_per_s", "tokens_per_s", "speedup", "efficiency_fraction", "mfu_fraction",
    "step_ms", "limited_by", "limit_fraction", "layout", "why_not",
)  # fmt: skip
STRONG, WEAK = "strong", "weak"
CHOSEN = "global batch of "
"""How the note on a batch that the model chose begins; a scaling table has a note of its own."""
GLOBAL_BATCH, INPUT_PIPELINE, MEMORY = "global batch", "input pipeline", "memory"
FREED = 1.1
"""So much faster without the stated global batch: then it is what limits."""


def scaling_field(
    request: EstimateRequest,
    spec: ModelSpec,
    hardware: Hardware,
    work: TrainingWork,
    *,
    tiers: Tiers,
    notes: Sequence[str],
) -> Document:
    """Return the field `scaling` of an estimate and its notes, or nothing where it is not asked for.

    Own parameters are used where they may answer; `notes`: those of the estimate itself.
    """
    if request.scaling is None:
        return {}
    parameters = tiers.parameters("training")
    by_accelerator = request.instance is None
    data = request.dataset_size, request.dataset_tokens
    rows = scaling_rows(
        spec, hardware, work, request.scaling, by_accelerator=by_accelerator, parameters=parameters, data=data
    )
    kept = [note for note in notes if not note.startswith(CHOSEN)]
    return {"scaling": rows, "notes": [*kept, *scaling_notes(rows, work)]}


def scaling_rows(
    spec: ModelSpec,
    hardware: Hardware,
    work: TrainingWork,
    scaling: str,
    *,
    by_accelerator: bool,
    parameters: Parameters | None = None,
    data: tuple[float | None, float | None] = (None, None),
) -> list[Document]:
    """Return one row per number of instances, or of accelerators (those of a part of one machine, then of whole machines).

    Speed-up and efficiency are against the smallest number that fits; a row that does not fit, or whose global batch is more than the
    data set (`data`: samples, else tokens), says why, and its figures are null.
    """
    machines = [machine_of(hardware, n, by_accelerator=by_accelerator) for n in scaling_counts(scaling)]
    free = evaluated(spec, machines, replace(work, global_batch=None), parameters)
    kind, held = held_work(spec, work, free)
    outcomes = free if held is work and work.global_batch is None else evaluated(spec, machines, held, parameters)
    base: tuple[float, int] | None = None
    rows: list[Document] = []
    for (device, count), outcome, unbound in zip(machines, outcomes, free, strict=True):
        row: Document = dict.fromkeys(FIELDS)
        row["instances"], row["accelerators"], row["kind"] = count, device.devices * count, kind
        if isinstance(outcome, Evaluation) and (told := too_large(outcome, *data)):
            row["why_not"] = told
        elif isinstance(outcome, Evaluation):
            rate = outcome.performance.rates.samples_per_s or 0.0
            base = base or (rate, device.devices * count)
            row |= figures(outcome, held, unbound if kind == STRONG else outcome)
            row["speedup"] = rate / base[0]
            row["efficiency_fraction"] = rate / base[0] * base[1] / (device.devices * count)
        else:
            row["why_not"] = outcome.detail
        rows.append(row)
    return rows


def held_work(spec: ModelSpec, work: TrainingWork, free: Sequence[Outcome]) -> tuple[str, TrainingWork]:
    """Return the kind of scaling, and the work with what all rows have in common; `free`: each row as it is without a global batch."""
    from planner.perf.training_work import counted_in_tokens  # noqa: PLC0415 - loads NumPy only when something is evaluated

    if work.global_batch is not None:
        return STRONG, work
    first = next((outcome for outcome in free if isinstance(outcome, Evaluation)), None)
    strong = counted_in_tokens(spec)
    if first is None:
        return (STRONG if strong else WEAK), work
    if strong:
        return STRONG, replace(work, global_batch=round(samples_of(first)))
    return WEAK, replace(work, micro_batch=first.layout.micro_batch)


def scaling_notes(rows: Sequence[Document], work: TrainingWork) -> list[str]:
    """Return what the rows have in common, in a sentence; nothing where none fits."""
    fits = [row for row in rows if row["layout"] is not None]
    if not fits:
        return []
    first, last = fits[0], fits[-1]
    if first["kind"] == STRONG:
        batch = f"strong scaling: every row has the global batch of {first['global_batch']:,} samples"
        if work.global_batch is not None:
            return [f"{batch} that was stated"]
        return [f"{batch} that was chosen for {first['accelerators']:,} accelerators; --global-batch states another"]
    grown = (
        ""
        if first is last
        else f", so that the global batch grows from {first['global_batch']:,} to {last['global_batch']:,} samples"
    )
    how = "was stated" if work.micro_batch is not None else f"was chosen for {first['accelerators']:,} accelerators"
    micro = first["layout"]["micro_batch"]
    weak = f"weak scaling: every accelerator keeps the micro-batch of {micro:,} that {how}{grown}"
    return [f"{weak}; --global-batch holds that instead (strong scaling)"]


def samples_of(outcome: Evaluation) -> float:
    """Return the samples of one optimizer step."""
    return next(float(t.value) for t in outcome.performance.terms if t.name == "samples_per_step")


def too_large(outcome: Evaluation, data_samples: float | None, data_tokens: float | None) -> str:
    """Return why a global batch cannot be: it is more than the whole data set; "" where it can or the data set is not stated."""
    rates, batch = outcome.performance.rates, round(samples_of(outcome))
    held = data_samples
    if data_tokens is not None and rates.total_tokens_per_s and rates.samples_per_s:
        held = data_tokens / (rates.total_tokens_per_s / rates.samples_per_s)
    if held is None or batch <= held:
        return ""
    return f"a global batch of {batch:,} samples is more than the data set has ({int(held):,}); --global-batch states a smaller one"


def machine_of(hardware: Hardware, n: int, *, by_accelerator: bool) -> tuple[Hardware, int]:
    """Return the machine and how many of it: n instances; or n accelerators, a part of one machine or the fewest whole ones."""
    if not by_accelerator:
        return hardware, n
    if n >= hardware.devices:
        return hardware, -(-n // hardware.devices)
    share = n / hardware.devices
    alone = n == 1
    return (
        replace(
            hardware,
            devices=n,
            vcpus=None if hardware.vcpus is None else max(1, round(hardware.vcpus * share)),
            host_memory_gib=None if hardware.host_memory_gib is None else hardware.host_memory_gib * share,
            interconnect_kind=InterconnectKind.NONE if alone else hardware.interconnect_kind,
            interconnect_gb_s_bidirectional=None if alone else hardware.interconnect_gb_s_bidirectional,
        ),
        1,
    )


def evaluated(
    spec: ModelSpec, machines: Sequence[tuple[Hardware, int]], work: TrainingWork, parameters: Parameters | None
) -> list[Outcome]:
    """Return the best layout on each of the machines."""
    from planner.perf.training import evaluate_training  # noqa: PLC0415 - loads NumPy only when something is evaluated

    out: list[Outcome] = []
    whole = [m for m in machines if m[0] is machines[-1][0]]
    parts = [m for m in machines if m[0] is not machines[-1][0]]
    for device, count in parts:
        out.append(evaluate_training(spec, [device], work, [count], parameters=parameters)[0][0])
    if whole:
        out.extend(
            evaluate_training(spec, [whole[0][0]], work, [count for _, count in whole], parameters=parameters)[0]
        )
    return out


def figures(outcome: Evaluation, work: TrainingWork, unbound: Outcome) -> Document:
    """Return the rates of a row, its step in parts and what limits it."""
    from planner.perf.training_limits import PARTS, limit_of  # noqa: PLC0415 - as above

    performance = outcome.performance
    terms = {t.name: t.value for t in performance.terms if isinstance(t.value, float)}
    seconds = {name: float(terms[f"{name}_time"]) for name in PARTS}
    step = float(terms["step_time"])
    limit, share = limit_of(seconds)
    waited = float(terms["input_time"])
    rate = performance.rates.samples_per_s or 0.0
    freed = unbound.performance.rates.samples_per_s or 0.0 if isinstance(unbound, Evaluation) else 0.0
    if waited:
        limit, share = INPUT_PIPELINE, waited / step
    elif freed > FREED * rate:
        limit, share = GLOBAL_BATCH, 1 - rate / freed
    elif limit == "compute" and outcome.layout.checkpointing != "none" and work.checkpointing is None:
        limit = MEMORY  # it computes again what it has no room to keep
    return {
        "global_batch": round(terms["samples_per_step"]),
        "samples_per_s": rate,
        "tokens_per_s": performance.rates.total_tokens_per_s,
        "mfu_fraction": performance.mfu_fraction,
        "step_ms": {"total": step * 1e3, **{name: value * 1e3 for name, value in {**seconds, "input": waited}.items()}},
        "limited_by": limit,
        "limit_fraction": share,
        "layout": layout_document(outcome.layout),
    }
