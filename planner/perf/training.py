"""The best training layout per instance type and instance count: memory, throughput, and the figures behind them.

References: `training_work` (FLOPs), `training_memory`, `training_network`, `training_surface` (time of a step).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.models.sample_work import with_input
from planner.models.spec import ModelKind, ModelSpec
from planner.perf.fractions import TRAINING, efficiency_of
from planner.perf.llm_report import IDLE_POWER_SHARE, PREFILL_POWER_SHARE
from planner.perf.model import (
    Basis,
    Evaluation,
    Hardware,
    Infeasible,
    Layout,
    Outcome,
    Performance,
    Rates,
    RejectionReason,
    Term,
    TrainingWork,
)
from planner.perf.training_memory import SHARDING, training_memory
from planner.perf.training_support import training_engine, training_precision
from planner.perf.training_surface import (
    CHECKPOINTING,
    IMAGES_PER_S_PER_VCPU,
    MICRO_BATCHES,
    Prepared,
    Surface,
    choose,
    compute_surface,
    step_samples,
)
from planner.perf.training_work import SampleFlops, counted_in_tokens, sample_flops

LAYOUT_SHAPE = (len(SHARDING), len(CHECKPOINTING), len(MICRO_BATCHES))


def evaluate_training(
    spec: ModelSpec, hardware: Sequence[Hardware], work: TrainingWork, instance_counts: Sequence[int]
) -> list[list[Outcome]]:
    """Return the fastest layout that fits, or why none does, per hardware and per instance count, in the order given.

    Rates are samples/s (sequences, images) and tokens/s of all instances together. Between layouts within half a percent of
    each other the simplest wins.
    """
    if spec.kind is ModelKind.ENCODER and spec.max_context is not None:
        work = replace(work, sequence_length=min(work.sequence_length, spec.max_context))  # learned positions end there
    if spec.kind is ModelKind.VISION and work.input_size is not None:
        spec = with_input(spec, size=work.input_size)
    outcomes: list[list[Outcome]] = [[] for _ in hardware]
    by_width: dict[bool, list[Prepared]] = {}
    for index, device in enumerate(hardware):
        found = prepare(spec, device, work, index)
        if isinstance(found, Infeasible):
            outcomes[index] = [found] * len(instance_counts)
        else:
            by_width.setdefault(found.precision in {"fp32", "tf32"}, []).append(found)
    flops = sample_flops(spec, work)
    for items in by_width.values():
        surface = compute_surface(spec, items, work, instance_counts, flops)
        best = choose(surface)
        for row, item in enumerate(items):
            outcomes[item.index] = [
                refusal(spec, work, item, surface=surface, at=(row, column), count=count)
                if best[row, column] < 0
                else evaluation(
                    spec,
                    work,
                    item,
                    surface=surface,
                    at=(row, column),
                    choice=int(best[row, column]),
                    count=count,
                    flops=flops,
                )
                for column, count in enumerate(instance_counts)
            ]
    return outcomes


def prepare(spec: ModelSpec, hardware: Hardware, work: TrainingWork, index: int) -> Prepared | Infeasible:
    """Return the engine, precision, peak and efficiency of one hardware, or why it cannot train the model."""
    engine = training_engine(spec, hardware, work)
    if isinstance(engine, Infeasible):
        return engine
    arithmetic = training_precision(spec, hardware, work.precision)
    if isinstance(arithmetic, Infeasible):
        return arithmetic
    precision, notes = arithmetic
    return Prepared(
        index=index,
        hardware=hardware,
        engine=engine,
        precision=precision,
        peak_flops=hardware.peak_tflops[precision] * 1e12,
        efficiency=efficiency_of(TRAINING, workload_of(spec), hardware, precision),
        notes=notes,
    )


def workload_of(spec: ModelSpec) -> str:
    """Return the class of work that the efficiency table knows: lm, lm_moe, encoder, convolution or diffusion."""
    if spec.kind is ModelKind.DIFFUSION:
        return "diffusion"
    if not spec.generates_tokens:
        return "encoder" if spec.attention else "convolution"
    return "lm_moe" if spec.experts else "lm"


def evaluation(
    spec: ModelSpec,
    work: TrainingWork,
    item: Prepared,
    *,
    surface: Surface,
    at: tuple[int, int],
    choice: int,
    count: int,
    flops: SampleFlops,
) -> Evaluation:
    """Return one chosen layout as an `Evaluation` with its explanation."""
    hw = item.hardware
    s, k, m = (int(x) for x in np.unravel_index(choice, LAYOUT_SHAPE))
    where = (*at, s, k, m)
    ranks = hw.devices * count
    accumulation = int(surface.accumulation[where])
    samples_per_s = float(surface.samples_per_s[where])
    step_s = float(surface.step_s[where])
    compute_s = float(surface.compute_s[where])
    busy = min(1.0, compute_s / step_s)
    notes = list(item.notes)
    loader_bound = bool(surface.loader_bound[where])
    if loader_bound:
        notes.append(
            f"the input pipeline binds: {hw.vcpus} vCPUs x {IMAGES_PER_S_PER_VCPU:g} images/s per vCPU and instance (assumed)"
        )
        busy *= samples_per_s * step_s / (MICRO_BATCHES[m] * ranks * accumulation)
    if surface.exposed_s[where] > 0.3 * step_s:
        notes.append(f"communication takes {surface.exposed_s[where] / step_s:.0%} of a step that nothing hides")
    if counted_in_tokens(spec):
        notes.append(f"one sample = one sequence of {work.sequence_length} tokens")
    elif spec.sample is not None:
        notes.append(f"one sample = {spec.sample.description}")
    if work.global_batch is None and step_samples(spec, work) is not None:
        notes.append(f"global batch of {MICRO_BATCHES[m] * ranks * accumulation} sequences chosen")
    tokens_per_s = samples_per_s * flops.tokens if counted_in_tokens(spec) else None
    mfu = samples_per_s * flops.model_flops / (item.peak_flops * ranks)
    layout = Layout(
        engine=item.engine,
        precision=item.precision,
        data_parallel=ranks,
        method=work.method,
        micro_batch=MICRO_BATCHES[m],
        accumulation=accumulation,
        checkpointing=CHECKPOINTING[k],
        sharding=SHARDING[s] if ranks > 1 else None,
    )
    e = item.efficiency
    return Evaluation(
        layout=layout,
        instances=count,
        memory=training_memory(
            spec,
            work,
            precision=item.precision,
            sharding=SHARDING[s],
            ranks=ranks,
            micro_batch=MICRO_BATCHES[m],
            checkpointing=CHECKPOINTING[k],
            visible_gib=hw.memory_visible_gib,
        ),
        performance=Performance(
            basis=Basis.MODELLED,
            rates=Rates(samples_per_s=samples_per_s, total_tokens_per_s=tokens_per_s),
            low_factor=e.p10,
            high_factor=e.p90,
            mfu_fraction=mfu,
            power_w=None
            if hw.tdp_w is None
            else hw.tdp_w * ranks * (PREFILL_POWER_SHARE * busy + IDLE_POWER_SHARE * (1 - busy)),
            sources=(e.source,),
            terms=(
                Term(name="flops_per_sample", value=flops.model_flops, unit="FLOP", formula="forward + backward"),
                Term(
                    name="peak",
                    value=item.peak_flops / 1e12,
                    unit="TFLOP/s",
                    formula=f"dense, {item.precision}, per device",
                ),
                Term(
                    name="efficiency",
                    value=e.value,
                    unit="fraction of peak",
                    formula=f"{e.workload} on {e.key}, {e.precision}: n={e.n}, groups={e.groups}",
                    source=e.source,
                ),
                Term(
                    name="compute_time",
                    value=compute_s,
                    unit="s per step",
                    formula="accumulation x max(FLOPs / (peak x efficiency), launch)",
                ),
                Term(
                    name="exposed_communication",
                    value=float(surface.exposed_s[where]),
                    unit="s per step",
                    formula="collectives that do not hide under computation",
                ),
                Term(
                    name="optimizer_time",
                    value=float(surface.optimizer_s[where]),
                    unit="s per step",
                    formula="optimizer traffic / (0.8 x bandwidth)",
                ),
                Term(name="step_time", value=step_s, unit="s", formula="compute + exposed communication + optimizer"),
            ),
        ),
        notes=tuple(notes),
    )


def refusal(
    spec: ModelSpec, work: TrainingWork, item: Prepared, *, surface: Surface, at: tuple[int, int], count: int
) -> Infeasible:
    """Return why no layout works on this many instances, with the figures."""
    hw = item.hardware
    ranks = hw.devices * count
    figures: dict[str, float | str] = {"accelerator": hw.accelerator, "instances": count, "devices": ranks}
    if count > 1 and hw.network_gbps is None:
        return Infeasible(
            reason=RejectionReason.LAYOUT_IMPOSSIBLE,
            detail=f"{count} instances need a network figure and none is known",
            figures=figures,
        )
    if work.global_batch is not None and work.global_batch < ranks:
        return Infeasible(
            reason=RejectionReason.LAYOUT_IMPOSSIBLE,
            detail=f"a global batch of {work.global_batch} does not feed {ranks} devices",
            figures={**figures, "global_batch": work.global_batch},
        )
    allowed = surface.allowed[at]
    least = float(np.where(allowed, surface.required_bytes[at], np.inf).min()) / 2**30
    available = hw.memory_visible_gib * 0.9
    return Infeasible(
        reason=RejectionReason.OUT_OF_MEMORY,
        detail=f"{work.method} training of {spec.name} needs at least {least:.1f} GiB per device on {ranks}; {available:.1f} GiB usable",
        figures={**figures, "required_gib_per_accelerator": least, "available_gib_per_accelerator": available},
    )
