"""The best training layout per instance type and instance count: memory, throughput, and the figures behind them.

References: `training_work` (FLOPs), `training_layouts` (what can be), `training_memory`, `training_step` (time of a step), `training_input`,
`training_surface` (the choice), `training_report` (the figures in words).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.models.sample_work import with_input
from planner.models.spec import ModelKind, ModelSpec
from planner.perf.model import (
    Hardware,
    Infeasible,
    Outcome,
    TrainingWork,
)
from planner.perf.parameters import Parameters, shipped
from planner.perf.training_activations import ACTIVATION_WIDTHS, ATTENTION_BACKENDS, CHECKPOINTING
from planner.perf.training_input import loader_of
from planner.perf.training_machine import engine_key, level_keys, node_of, work_class
from planner.perf.training_memory import OPTIMIZERS, SHARDING, memory_factors
from planner.perf.training_report import evaluation, refusal, source_of
from planner.perf.training_support import training_engine, training_precision
from planner.perf.training_surface import ALLREDUCE, Prepared, compute
from planner.perf.training_work import PARAMETER_EFFICIENT, sample_flops


def evaluate_training(
    spec: ModelSpec,
    hardware: Sequence[Hardware],
    work: TrainingWork,
    instance_counts: Sequence[int],
    *,
    parameters: Parameters | None = None,
    explain: bool = True,
) -> list[list[Outcome]]:
    """Return the fastest layout that fits, or why none does, per hardware and per instance count, in the order given.

    Rates are samples/s (sequences, images) and tokens/s of all instances together. Between layouts within half a percent of
    each other the simplest wins. `parameters`: fitted ones instead of those that are shipped. `explain`: whether the terms of
    each figure are wanted.
    """
    check_work(work)
    spec, work = sized(spec, work)
    fitted = shipped("training") if parameters is None else parameters
    outcomes: list[list[Outcome]] = [[] for _ in hardware]
    alike: dict[tuple[str, str], list[Prepared]] = {}
    for index, device in enumerate(hardware):
        found = prepare(spec, device, work, index)
        if isinstance(found, Infeasible):
            outcomes[index] = [found] * len(instance_counts)
        else:
            alike.setdefault((found.precision, found.keys["engine"]), []).append(found)
    flops = sample_flops(spec, work)
    source = source_of(fitted)
    for (_, engine), items in alike.items():
        factors = memory_factors(fitted, engine, work.method)
        chosen, least = compute(spec, items, work, instance_counts, factors=factors, parameters=fitted)
        for row, item in enumerate(items):
            outcomes[item.index] = [
                refusal(spec, work, item, least=float(least[at]), count=count)
                if chosen is None or not chosen.fits[at]
                else evaluation(
                    spec, work, item, chosen=chosen, at=at, flops=flops, factors=factors, source=source, explain=explain
                )
                for at, count in enumerate(instance_counts, start=row * len(instance_counts))
            ]
    return outcomes


def sized(spec: ModelSpec, work: TrainingWork) -> tuple[ModelSpec, TrainingWork]:
    """Return model and work with samples of the size that is trained: encoders end at their position table, images have their pixels."""
    if spec.kind is ModelKind.ENCODER and spec.max_context is not None:
        work = replace(work, sequence_length=min(work.sequence_length, spec.max_context))
    if spec.kind is ModelKind.VISION and work.input_size is not None:
        spec = with_input(spec, size=work.input_size)
    return spec, work


def check_work(work: TrainingWork) -> None:
    """Raise `ValueError` for a word that means nothing here; it names the field and what would be right."""
    for field, value, known in (
        ("method", work.method, ("full", *PARAMETER_EFFICIENT)),
        ("optimizer", work.optimizer, OPTIMIZERS),
        ("checkpointing", work.checkpointing, (None, *CHECKPOINTING)),
        ("sharding", work.sharding, (None, *SHARDING)),
        ("attention_backend", work.attention_backend, ATTENTION_BACKENDS),
        ("activation_dtype", work.activation_dtype, (None, *ACTIVATION_WIDTHS)),
        ("allreduce", work.allreduce, ALLREDUCE),
    ):
        if value not in known:
            raise ValueError(f"{field} {value!r} is not one of {', '.join(str(k) for k in known)}")


def prepare(spec: ModelSpec, hardware: Hardware, work: TrainingWork, index: int) -> Prepared | Infeasible:
    """Return the engine, precision and datasheet figures of one hardware, or why it cannot train the model."""
    engine = training_engine(spec, hardware, work)
    if isinstance(engine, Infeasible):
        return engine
    arithmetic = training_precision(spec, hardware, work.precision)
    if isinstance(arithmetic, Infeasible):
        return arithmetic
    precision, notes = arithmetic
    keys = level_keys(
        accelerator=hardware.accelerator,
        architecture=hardware.architecture,
        engine=engine_key(engine, hardware.kind),
        precision=precision,
        work=work_class(spec),
        method=work.method,
        model=spec.name,
    )
    return Prepared(
        index=index,
        hardware=hardware,
        engine=engine,
        precision=precision,
        node=node_of(hardware, precision),
        keys=keys,
        loader=loader_of(spec, work, hardware),
        notes=notes,
    )
