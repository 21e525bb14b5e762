"""The best training layout per instance type and instance count: memory, throughput, and the figures behind them.

References: `training_work` (FLOPs), `training_memory`, `training_network`, `training_surface` (time of a step).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.models.sample_work import with_input
from planner.models.spec import ModelKind, ModelSpec
from planner.perf.fractions import TRAINING, Efficiency, efficiency_of, parameter_row
from planner.perf.llm_report import IDLE_POWER_SHARE, PREFILL_POWER_SHARE
from planner.perf.memory import ENGINE_SHARE, GIB
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
from planner.perf.training_memory import OPTIMIZERS, SHARDING, memory_fit
from planner.perf.training_support import training_engine, training_precision
from planner.perf.training_surface import (
    CHECKPOINTING,
    IMAGES_PER_S_PER_VCPU,
    MICRO_BATCHES,
    Chosen,
    Prepared,
    Surface,
    choose,
    compute_surface,
)
from planner.perf.training_work import PARAMETER_EFFICIENT, SampleFlops, counted_in_tokens, sample_flops

NAMED_SHARE = 0.3
"""Share of a step from which exposed communication is named in the notes."""
LARGE_DENSE = ((100e9, "dense_from_100e9"), (28e9, "dense_from_28e9"))
"""Dense language models from so many parameters on, and the row of how published runs compare (28e9: MPT-30B has 29.96e9)."""
COMPUTE_FORMULA = "accumulation x max(FLOPs / (peak x efficiency), launch)"
EXPOSED_FORMULA = "collectives that do not hide under computation"


def evaluate_training(
    spec: ModelSpec, hardware: Sequence[Hardware], work: TrainingWork, instance_counts: Sequence[int]
) -> list[list[Outcome]]:
    """Return the fastest layout that fits, or why none does, per hardware and per instance count, in the order given.

    Rates are samples/s (sequences, images) and tokens/s of all instances together. Between layouts within half a percent of
    each other the simplest wins.
    """
    check_work(work)
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
        chosen = choose(surface)
        for row, item in enumerate(items):
            common = common_terms(item, flops)
            outcomes[item.index] = [
                refusal(spec, work, item, surface=surface, at=(row, column), count=count)
                if chosen.index[row][column] < 0
                else evaluation(
                    spec,
                    work,
                    item,
                    surface=surface,
                    chosen=chosen,
                    at=(row, column),
                    count=count,
                    flops=flops,
                    common=common,
                )
                for column, count in enumerate(instance_counts)
            ]
    return outcomes


def check_work(work: TrainingWork) -> None:
    """Raise `ValueError` for a word that means nothing here; it names the field and what would be right."""
    for field, value, known in (
        ("method", work.method, ("full", *PARAMETER_EFFICIENT)),
        ("optimizer", work.optimizer, OPTIMIZERS),
        ("checkpointing", work.checkpointing, (None, *CHECKPOINTING)),
    ):
        if value not in known:
            raise ValueError(f"{field} {value!r} is not one of {', '.join(str(k) for k in known)}")


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


def large_dense(spec: ModelSpec) -> Efficiency | None:
    """Return how published runs compare with the prediction for a dense language model of this size; None below 28e9 parameters.

    They are faster: large products come nearer to the peak, and tensor and pipeline parallelism, which is not laid out here, moves
    less than gathering all weights. The comparison is on the upper side of the interval, not in the prediction.
    """
    if workload_of(spec) != "lm":
        return None
    key = next((key for least, key in LARGE_DENSE if spec.parameters_total >= least), None)
    return None if key is None else parameter_row(TRAINING, key)


def common_terms(item: Prepared, flops: SampleFlops) -> tuple[Term, ...]:
    """Return the lines of an explanation that hold for every instance count of one hardware."""
    e = item.efficiency
    return (
        Term(name="flops_per_sample", value=flops.model_flops, unit="FLOP", formula="forward + backward"),
        Term(name="peak", value=item.peak_flops / 1e12, unit="TFLOP/s", formula=f"dense, {item.precision}, per device"),
        Term(
            name="efficiency",
            value=e.value,
            unit="fraction of peak",
            formula=e.evidence,
            source=e.citation,
        ),
    )


def evaluation(
    spec: ModelSpec,
    work: TrainingWork,
    item: Prepared,
    *,
    surface: Surface,
    chosen: Chosen,
    at: tuple[int, int],
    count: int,
    flops: SampleFlops,
    common: tuple[Term, ...],
) -> Evaluation:
    """Return one chosen layout as an `Evaluation` with its explanation."""
    hw, (row, column) = item.hardware, at
    rest, m = divmod(chosen.index[row][column], len(MICRO_BATCHES))
    s, k = divmod(rest, len(CHECKPOINTING))
    sharding, checkpointing, micro_batch = SHARDING[s], CHECKPOINTING[k], MICRO_BATCHES[m]
    ranks = hw.devices * count
    accumulation = int(chosen.accumulation[row][column])
    samples_per_s, step_s = chosen.samples_per_s[row][column], chosen.step_s[row][column]
    compute_s, exposed_s = chosen.compute_s[row][column], chosen.exposed_s[row][column]
    busy = min(1.0, compute_s / step_s)
    dealt = spec.experts > 0 and sharding == "zero3" and ranks > 1
    notes = list(item.notes)
    large = large_dense(spec)
    if large:
        notes.append(
            "tensor and pipeline parallel training is not laid out; published runs of dense models of this size are "
            f"{large.value:.1f} times as fast at the median, up to {large.p90:.1f} times (p90 of {large.n} in {large.groups} groups)"
        )
    in_tokens = counted_in_tokens(spec)
    if in_tokens:
        notes.append(f"one sample = one sequence of {work.sequence_length} tokens")
    elif spec.kind is ModelKind.DIFFUSION:
        notes.append("one sample = one image at one random denoising step, from precomputed latents")
    elif spec.sample is not None:
        notes.append(f"one sample = {spec.sample.description}")
    if chosen.loader_bound[row][column]:
        notes.append(
            f"the input pipeline binds: {hw.vcpus} vCPUs x {IMAGES_PER_S_PER_VCPU:g} images/s per vCPU and instance (assumed)"
        )
        busy *= samples_per_s * step_s / (micro_batch * ranks * accumulation)
    if exposed_s > NAMED_SHARE * step_s:
        notes.append(f"communication takes {exposed_s / step_s:.0%} of a step that nothing hides")
    if work.global_batch is None and in_tokens:
        notes.append(f"global batch of {micro_batch * ranks * accumulation} sequences chosen")
    return Evaluation(
        layout=Layout(
            engine=item.engine,
            precision=item.precision,
            data_parallel=ranks,
            expert_parallel=min(spec.experts, hw.devices if chosen.experts_inside[row][column] else ranks)
            if dealt
            else None,
            method=work.method,
            micro_batch=micro_batch,
            accumulation=accumulation,
            checkpointing=checkpointing,
            sharding=sharding if ranks > 1 else None,
        ),
        instances=count,
        memory=memory_fit(
            surface.state,
            surface.kept,
            sharding=sharding,
            ranks=ranks,
            micro_batch=micro_batch,
            checkpointing=checkpointing,
            visible_gib=hw.memory_visible_gib,
            devices=hw.devices,
        ),
        performance=Performance(
            basis=Basis.MODELLED,
            rates=Rates(
                samples_per_s=samples_per_s, total_tokens_per_s=samples_per_s * flops.tokens if in_tokens else None
            ),
            low_factor=item.efficiency.p10,
            high_factor=max(item.efficiency.p90, large.p90) if large else item.efficiency.p90,
            mfu_fraction=samples_per_s * flops.model_flops / (item.peak_flops * ranks),
            power_w=power_w(hw, count, busy),
            sources=(item.efficiency.citation,),
            terms=(
                *common,
                Term(name="compute_time", value=compute_s, unit="s per step", formula=COMPUTE_FORMULA),
                Term(name="exposed_communication", value=exposed_s, unit="s per step", formula=EXPOSED_FORMULA),
                Term(
                    name="optimizer_time",
                    value=chosen.optimizer_s[row][column],
                    unit="s per step",
                    formula="optimizer traffic / (0.8 x bandwidth)",
                ),
                Term(name="step_time", value=step_s, unit="s", formula="compute + exposed communication + optimizer"),
            ),
        ),
        notes=tuple(notes),
    )


def power_w(hardware: Hardware, instances: int, busy: float) -> float | None:
    """Return the power of all accelerators, W: TDP while computing, the idle share of it while waiting."""
    if hardware.tdp_w is None:
        return None
    return hardware.tdp_w * hardware.devices * instances * (PREFILL_POWER_SHARE * busy + IDLE_POWER_SHARE * (1 - busy))


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
    least = float(np.where(allowed, surface.required_bytes[at], np.inf).min()) / GIB
    available = hw.memory_visible_gib * ENGINE_SHARE
    return Infeasible(
        reason=RejectionReason.OUT_OF_MEMORY,
        detail=f"{work.method} training of {spec.name} needs at least {least:.1f} GiB per device on {ranks}; {available:.1f} GiB usable",
        figures={**figures, "required_gib_per_accelerator": least, "available_gib_per_accelerator": available},
    )
