"""From a chosen training layout to an `Evaluation`: layout, memory lines, rates, power, notes and terms; or why there is none."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from planner.models.spec import ModelKind, ModelSpec
from planner.perf.llm_report import IDLE_POWER_SHARE, PREFILL_POWER_SHARE
from planner.perf.memory import ENGINE_SHARE, GIB
from planner.perf.model import (
    Basis,
    Evaluation,
    Hardware,
    Infeasible,
    LateTerms,
    Layout,
    MemoryFit,
    Performance,
    Rates,
    RejectionReason,
    Term,
    TrainingWork,
)
from planner.perf.parameters import Parameters
from planner.perf.training_activations import CHECKPOINTING
from planner.perf.training_limits import PARTS, limit_of, seconds_of
from planner.perf.training_memory import SHARDING, MemoryFactors, PeakTerms, Split, memory_fit
from planner.perf.training_operators import operator_terms
from planner.perf.training_room import room_of
from planner.perf.training_surface import HOST_SHARE, Chosen, Prepared, unmeasured
from planner.perf.training_terms import time_terms
from planner.perf.training_work import SampleFlops, counted_in_tokens

NAMED_SHARE = 0.1
"""Share of a step from which what limits it is named in the notes."""
SOURCE = "parameters fitted on published training runs"


def evaluation(
    spec: ModelSpec,
    work: TrainingWork,
    item: Prepared,
    *,
    chosen: Chosen,
    at: int,
    flops: SampleFlops,
    factors: MemoryFactors,
    source: str,
    explain: bool,
) -> Evaluation:
    """Return one chosen layout as an `Evaluation`, with its terms where they are wanted."""
    hw, layouts = item.hardware, chosen.layouts
    layout = layout_of(spec, work, item, chosen, at)
    count = int(layouts.instances[at])
    samples_per_s, free = float(chosen.samples_per_s[at]), float(chosen.free_per_s[at])
    step_s = float(chosen.time.total[at])
    in_tokens = counted_in_tokens(spec)
    ranks = hw.devices * count
    busy = min(1.0, float(chosen.time.compute[at]) / step_s) * samples_per_s / free
    low, high = float(chosen.low[at]), float(chosen.high[at])
    if samples_per_s < free:  # a slower step would not be seen behind the input pipeline
        low, high = min(1.0, low * free / samples_per_s), 1.0
    mfu = samples_per_s * flops.model_flops / (float(np.asarray(item.node.peak_flops)) * ranks)
    return Evaluation(
        layout=layout,
        instances=count,
        memory=memory_of(spec, work, item, chosen=chosen, at=at, factors=factors),
        performance=Performance(
            basis=Basis.MODELLED,
            rates=Rates(
                samples_per_s=samples_per_s, total_tokens_per_s=samples_per_s * flops.tokens if in_tokens else None
            ),
            low_factor=low,
            high_factor=high,
            mfu_fraction=mfu,
            power_w=power_w(hw, count, busy),
            sources=(source,),
            terms=LateTerms(
                lambda: (
                    *terms_of(work, item, chosen=chosen, at=at, flops=flops),
                    *operator_terms(spec, work, chosen=chosen, at=at),
                )
            )
            if explain
            else (),
        ),
        notes=notes_of(spec, work, item, chosen, at),
    )


def memory_of(
    spec: ModelSpec, work: TrainingWork, item: Prepared, *, chosen: Chosen, at: int, factors: MemoryFactors
) -> MemoryFit:
    """Return the memory of one layout as lines, and the largest micro-batch and longest sequence that would fit."""
    x, hw = chosen.layouts, item.hardware
    host = math.inf if hw.host_memory_gib is None else HOST_SHARE * hw.host_memory_gib * GIB / hw.devices
    terms = terms_at(chosen.terms, at)
    room = room_of(
        spec,
        work,
        item.precision,
        terms=terms,
        split=Split(
            data=float(x.data[at]),
            tensor=float(x.tensor[at]),
            pipeline=float(x.pipeline[at]),
            expert=float(x.expert[at]),
            stage=float(x.stage[at]),
            micro_batch=float(x.micro_batch[at]),
            micro_batches=float(x.accumulation[at]),
            checkpointing=float(x.checkpointing[at]),
        ),
        factors=factors,
        usable_bytes=hw.memory_visible_gib * GIB * ENGINE_SHARE,
        host_bytes=host,
    )
    lines = memory_fit(
        terms,
        factors,
        work=work,
        checkpointing=CHECKPOINTING[int(x.checkpointing[at])],
        visible_gib=hw.memory_visible_gib,
    )
    return replace(
        lines,
        max_micro_batch=room.micro_batch,
        max_sequence_tokens=room.sequence_tokens,
        max_sequence_tokens_of_one=room.sequence_tokens_of_one,
    )


def source_of(parameters: Parameters) -> str:
    """Return what the fitted part rests on."""
    if parameters.own:
        return parameters.own_source
    return f"{SOURCE}: {parameters.rows} rows in {parameters.groups} groups, version {parameters.version}"


def layout_of(spec: ModelSpec, work: TrainingWork, item: Prepared, chosen: Chosen, at: int) -> Layout:
    """Return the layout in the words of the contract; a degree that does not apply is None."""
    x = chosen.layouts
    tensor, pipeline, expert = int(x.tensor[at]), int(x.pipeline[at]), int(x.expert[at])
    data, in_tokens = int(x.data[at]), counted_in_tokens(spec)
    return Layout(
        engine=item.engine,
        precision=item.precision,
        tensor_parallel=tensor if in_tokens else None,
        pipeline_parallel=pipeline if in_tokens else None,
        expert_parallel=expert if spec.experts else None,
        data_parallel=data,
        method=work.method,
        micro_batch=int(x.micro_batch[at]),
        accumulation=int(x.accumulation[at]),
        checkpointing=CHECKPOINTING[int(x.checkpointing[at])],
        sharding=SHARDING[int(x.stage[at])] if data > 1 else None,
    )


def terms_at(terms: PeakTerms, at: int) -> PeakTerms:
    """Return the memory terms of one layout."""
    return PeakTerms(**{name: getattr(terms, name)[at] for name in PeakTerms.__slots__})


def terms_of(work: TrainingWork, item: Prepared, *, chosen: Chosen, at: int, flops: SampleFlops) -> list[Term]:
    """Return the terms of the step: work, peak, and every part of its time."""
    x = chosen.layouts
    out = [
        Term(name="flops_per_sample", value=flops.model_flops, unit="FLOP", formula="forward + backward"),
        Term(
            name="peak",
            value=float(np.asarray(item.node.peak_flops)) / 1e12,
            unit="TFLOP/s",
            formula=f"dense, {item.precision}, per device",
        ),
    ]
    out.extend(time_terms(chosen, at, work))
    out.append(
        Term(
            name="samples_per_step",
            value=float(chosen.layouts.samples[at]),
            unit="samples",
            formula=f"{x.micro_batch[at]:g} x {x.accumulation[at]:g} x {x.data[at]:g}: micro-batch x accumulation x data-parallel replicas, "
            "or the stated global batch where that is less",
        )
    )
    loader = item.loader
    count = int(chosen.layouts.instances[at])
    if np.isfinite(loader.per_s(count)):
        out.append(
            Term(
                name="input_pipeline",
                value=loader.per_s(count),
                unit="samples/s",
                formula=f"{loader.data_format} from {loader.storage}: the slowest of vCPUs ({loader.cpu_per_s:.4g}/s an instance) "
                f"and storage ({loader.storage_per_s:.4g}/s an instance)",
                source="tables/training_input.csv",
            )
        )
    return out


def notes_of(spec: ModelSpec, work: TrainingWork, item: Prepared, chosen: Chosen, at: int) -> tuple[str, ...]:
    """Return what a reader must know: what a sample is, what limits the rate, what was chosen for them."""
    notes = list(item.notes)
    in_tokens = counted_in_tokens(spec)
    count = int(chosen.layouts.instances[at])
    if in_tokens:
        notes.append(f"one sample = one sequence of {work.sequence_length} tokens")
    elif spec.kind is ModelKind.DIFFUSION:
        notes.append("one sample = one image at one random denoising step, from precomputed latents")
    elif spec.sample is not None:
        notes.append(f"one sample = {spec.sample.description}")
    if chosen.samples_per_s[at] < chosen.free_per_s[at]:
        notes.append(item.loader.said(count))
    limit, share = limit_of({name: seconds_of(chosen.time, name, at) for name in PARTS})
    if limit not in {"compute", "memory"} and share >= NAMED_SHARE:
        notes.append(f"{limit} takes {share:.0%} of a step beyond what computation hides")
    notes += [
        f"the time of {what} is not fitted on published runs; the interval is wider for that"
        for what in unmeasured(work)
    ]
    if work.global_batch is None and in_tokens:
        notes.append(f"global batch of {int(chosen.layouts.samples[at])} sequences chosen")
    return tuple(notes)


def power_w(hardware: Hardware, instances: int, busy: float) -> float | None:
    """Return the power of all accelerators, W: TDP while computing, the idle share of it while waiting."""
    if hardware.tdp_w is None:
        return None
    return hardware.tdp_w * hardware.devices * instances * (PREFILL_POWER_SHARE * busy + IDLE_POWER_SHARE * (1 - busy))


def refusal(spec: ModelSpec, work: TrainingWork, item: Prepared, *, least: float, count: int) -> Infeasible:
    """Return why no layout works on this many instances, with the figures; `least`: bytes of the leanest legal layout."""
    hw = item.hardware
    ranks = hw.devices * count
    figures: dict[str, float | str] = {"accelerator": hw.accelerator, "instances": count, "devices": ranks}
    if count > 1 and hw.network_gbps is None:
        return Infeasible(
            reason=RejectionReason.LAYOUT_IMPOSSIBLE,
            detail=f"{count} instances need a network figure and none is known",
            figures=figures,
        )
    if not np.isfinite(least):
        return Infeasible(
            reason=RejectionReason.LAYOUT_IMPOSSIBLE, detail=illegal(spec, work, hw, ranks), figures=figures
        )
    available = hw.memory_visible_gib * ENGINE_SHARE
    asked = "" if work.checkpointing is None else f" with checkpointing {work.checkpointing}"
    return Infeasible(
        reason=RejectionReason.OUT_OF_MEMORY,
        detail=f"{work.method} training of {spec.name}{asked} needs at least {least / GIB:.1f} GiB per device on {ranks}; {available:.1f} GiB usable",
        figures={
            **figures,
            "required_gib_per_accelerator": least / GIB,
            "available_gib_per_accelerator": available,
        },
    )


def illegal(spec: ModelSpec, work: TrainingWork, hardware: Hardware, ranks: int) -> str:
    """Return in words why no layout is legal on so many devices: what was fixed, or a global batch that feeds too few."""
    fixed = {
        "tensor parallel": work.tensor_parallel,
        "pipeline parallel": work.pipeline_parallel,
        "expert parallel": work.expert_parallel,
        "sharding": work.sharding,
        "micro-batch": work.micro_batch,
    }
    stated = ", ".join(f"{name} {value}" for name, value in fixed.items() if value is not None)
    batch = "" if work.global_batch is None else f"a global batch of {work.global_batch} does not feed {ranks} devices"
    if not stated:
        return batch or f"no split of {spec.name} over {ranks} devices is legal"
    why = f"no layout of {spec.name} with {stated} is legal on {ranks} devices, {hardware.devices} an instance"
    return why + (f", or {batch}" if batch else "")
