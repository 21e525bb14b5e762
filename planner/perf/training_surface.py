"""Memory, time and rate of every training layout of many instance types and counts in one array pass, and the choice among them (NumPy).

Memory first (`training_memory`), then the time of a step (`training_step`) of what fits. Rate = samples of a step / its time, and no
more than the input pipeline delivers (`training_input`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from planner.models.spec import AttentionKind, ModelSpec
from planner.perf.intervals import bounds, novelty_of
from planner.perf.memory import ENGINE_SHARE, GIB
from planner.perf.model import Hardware, TrainingWork
from planner.perf.parameters import Parameters
from planner.perf.training_activations import RECOMPUTED, activation_width
from planner.perf.training_input import Loader
from planner.perf.training_layouts import Layouts, layouts_of
from planner.perf.training_machine import Node, columns_of, machine_of, points_and_variances, stacked_nodes
from planner.perf.training_memory import MemoryFactors, PeakTerms, Split, peak_bytes, peak_terms
from planner.perf.training_step import HOST_BYTES_S, StepLayout, StepMachine, StepTime, StepWork, step_seconds
from planner.perf.training_step_work import step_work
from planner.perf.training_work import attention_span

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

ALLREDUCE = ("ring", "tree", "parameter_server")
ENOUGH = 0.995
"""Share of the best rate from which the simpler layout is taken."""
HOST_SHARE = 0.8
"""Share of the host's memory that offloaded activations may fill."""
HOST_LINK_SHARE = 0.8
"""Usable share of the link between device and host (pinned memory, large copies)."""
OFFLOAD_SD = 0.5
"""How unsure the time of offloading is, log: the link to the host may reach half of what is assumed, or all of it may hide."""
UNMEASURED_SD = 0.2
"""What each strategy whose time is not fitted adds to the spread, log: as much as sources of the same work differ (1.2 times)."""
LEAST_FITTED = 0.05
DIFFERENCE = 1e-4
"""Step in link space of the differences behind the spread of a prediction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One hardware that can train the model, before instance count and layout."""

    index: int
    hardware: Hardware
    engine: str
    precision: str
    node: Node  # floats
    keys: Mapping[str, str]  # by which the fitted parameters know it
    loader: Loader
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The layout to use of each hardware and instance count, as arrays over both in that order; `fits` False: none fits."""

    fits: Mask
    layouts: Layouts
    terms: PeakTerms
    time: StepTime
    samples_per_s: Array
    free_per_s: Array  # if the input pipeline kept up
    low: Array  # p10 of measured / predicted rate
    high: Array  # p90
    task: StepWork  # of one sample
    machine: StepMachine  # what is reached, as arrays over the places


def compute(
    spec: ModelSpec,
    items: Sequence[Prepared],
    work: TrainingWork,
    counts: Sequence[int],
    *,
    factors: MemoryFactors,
    parameters: Parameters,
) -> tuple[Chosen | None, Array]:
    """Return the fastest layout that fits for each hardware and count, and the bytes that the leanest legal one needs (inf: none is legal).

    `items` share one precision. None: nothing fits anywhere. Of layouts within half a percent of the fastest the first in the order of `training_layouts.splits` is taken, then the one with the least
    recomputation and the smallest micro-batch.
    """
    precision = items[0].precision
    hardware = [item.hardware for item in items]
    every = layouts_of(spec, hardware, work, counts)
    places = len(items) * len(counts)
    place = every.hardware * len(counts) + every.count
    terms = peak_terms(spec, work, precision, split_of(every))
    need = peak_bytes(terms, factors)
    room = np.array([h.memory_visible_gib * GIB * ENGINE_SHARE for h in hardware])[every.hardware]
    ok = need <= room
    if work.activation_offload:
        ok &= hosted_fits(terms, every, hardware)
    least = np.full(places, np.inf)
    np.minimum.at(least, place, need)
    fitting = np.flatnonzero(ok)
    if not len(fitting):
        return None, least
    layouts, place = every.at(fitting), place[fitting]
    task = task_of(spec, work, precision)
    keys = {level: [item.keys[level] for item in items] for level in items[0].keys}
    known = [points_and_variances(tuple(item.keys.items()), parameters) for item in items]
    points = np.array([each for each, _ in known])
    machines = Machines.of(items)
    reached = parameters.values_at(points)[:, columns_of(parameters)]
    every_machine = machines.at(layouts.hardware, reached[layouts.hardware])
    rate = layouts.samples / step_seconds(task, step_layout(layouts, terms, fitting, work), every_machine).total
    best = np.zeros(places)
    np.maximum.at(best, place, rate)
    good = np.flatnonzero((rate >= ENOUGH * best[place]) & np.isfinite(rate) & (rate > 0))
    filled, first = np.unique(place[good], return_index=True)
    picked = good[first]
    fits = np.zeros(places, dtype=np.bool_)
    fits[filled] = True
    # One element per place: those without a layout that fits point at any one, and are masked by `fits`.
    at = np.zeros(places, dtype=np.int64)
    at[filled] = picked
    chosen = layouts.at(at)
    chosen_terms = PeakTerms(
        **{f.name: np.broadcast_to(getattr(terms, f.name), need.shape)[fitting[at]] for f in fields(PeakTerms)}
    )
    time, log_sd = spread(
        lambda which, place, values: step_seconds(
            task,
            step_layout(layouts, terms, fitting, work, which),
            machines.at(layouts.hardware[which], values[place]),
        ),
        chosen=at,
        hardware=chosen.hardware,
        points=points,
        variances=np.array([variances for _, variances in known]),
        parameters=parameters,
    )
    log_sd = np.hypot(log_sd, UNMEASURED_SD * len(unmeasured(work)) ** 0.5)
    free = chosen.samples / time.total
    novelty = novelty_of(parameters, keys, len(items))
    low, high = bounds(parameters, np.ones(places), log_sd, [novelty[h] for h in chosen.hardware.tolist()])
    loader = np.array(
        [items[h].loader.per_s(n) for h, n in zip(chosen.hardware.tolist(), chosen.instances.tolist(), strict=True)]
    )
    found = Chosen(
        fits=fits,
        layouts=chosen,
        terms=chosen_terms,
        time=time,
        samples_per_s=np.minimum(free, loader),
        free_per_s=free,
        low=np.minimum(1.0, low),
        high=np.maximum(1.0, high),
        task=task,
        machine=machines.at(chosen.hardware, reached[chosen.hardware]),
    )
    return found, least


def spread(
    seconds: Callable[[Index, Index, Array], StepTime],
    *,
    chosen: Index,
    hardware: Index,
    points: Array,
    variances: Array,
    parameters: Parameters,
) -> tuple[StepTime, Array]:
    """Return the time of each chosen layout, and the standard deviation of its log: noise, and parameters through their slopes.

    All slopes are one call of the step: as many copies of the layouts as there are parameters, each copy with one of them moved.
    `points` and `variances` [hardware, slots] are those of the parameters for each hardware. Time of offloading is not fitted: it lends the rest
    of the step no certainty, and has its own.
    """
    columns, rows = columns_of(parameters), len(points)
    variance = variances[hardware][:, columns].T
    copies = np.repeat(points[None], len(columns) + 1, axis=0)
    for copy, column in enumerate(columns, start=1):
        copies[copy, :, column] += DIFFERENCE
    values = parameters.values_at(copies)[..., columns]
    many = np.tile(chosen, len(columns) + 1)
    place = (hardware[None, :] + rows * np.arange(len(columns) + 1)[:, None]).ravel()
    time = seconds(many, place, values.reshape(-1, len(columns)))
    total = time.total.reshape(len(columns) + 1, -1)
    slopes = np.log(total[1:] / total[0]) / DIFFERENCE
    own = StepTime(**{f.name: getattr(time, f.name)[: len(chosen)] for f in fields(StepTime)})
    offloading = own.offload / own.total
    fitted = slopes / np.maximum(1 - offloading, LEAST_FITTED)
    return own, np.sqrt(parameters.noise_sd**2 + np.sum(fitted**2 * variance, axis=0) + (OFFLOAD_SD * offloading) ** 2)


def unmeasured(work: TrainingWork) -> list[str]:
    """Return what is asked for whose time is not fitted on published runs, by name."""
    asked = {
        "activation offload": work.activation_offload,
        f"activations kept in {work.activation_dtype}": work.activation_dtype is not None,
        f"all-reduce by {work.allreduce.replace('_', ' ')}": work.allreduce != ALLREDUCE[0],
    }
    return [name for name, there in asked.items() if there]


def split_of(layouts: Layouts) -> Split:
    """Return the layouts as memory sees them."""
    return Split(
        data=layouts.data,
        tensor=layouts.tensor,
        pipeline=layouts.pipeline,
        expert=layouts.expert,
        stage=layouts.stage,
        micro_batch=layouts.micro_batch,
        micro_batches=layouts.accumulation,
        checkpointing=layouts.checkpointing,
    )


def step_layout(
    layouts: Layouts, terms: PeakTerms, fitting: Index, work: TrainingWork, at: Index | None = None
) -> StepLayout:
    """Return layouts (or some of them) as the step sees them."""
    chosen = layouts if at is None else layouts.at(at)
    moved = np.broadcast_to(terms.moved, np.shape(terms.activations))[fitting]
    level = chosen.checkpointing.astype(np.int64)
    return StepLayout(
        data=chosen.data,
        tensor=chosen.tensor,
        pipeline=chosen.pipeline,
        expert=chosen.expert,
        zero=chosen.stage,
        micro_batch=chosen.micro_batch,
        accumulation=chosen.accumulation,
        recompute=np.array([matrices for matrices, _ in RECOMPUTED[work.attention_backend == "math"]])[level],
        recompute_attention=np.array([scores for _, scores in RECOMPUTED[work.attention_backend == "math"]])[level],
        reduction=float(ALLREDUCE.index(work.allreduce)),
        offloaded_bytes=moved if at is None else moved[at],
    )


def hosted_fits(terms: PeakTerms, layouts: Layouts, hardware: Sequence[Hardware]) -> Mask:
    """Return where the host has room for the offloaded activations of its accelerators; an unknown host is trusted."""
    host = np.array([np.inf if h.host_memory_gib is None else h.host_memory_gib * GIB for h in hardware])
    devices = np.array([float(h.devices) for h in hardware])
    return np.asarray(terms.hosted * devices[layouts.hardware] <= HOST_SHARE * host[layouts.hardware])


def task_of(spec: ModelSpec, work: TrainingWork, precision: str) -> StepWork:
    """Return the work of a sample, with what the memory strategies add to it.

    The math backend multiplies all pairs of tokens, masked or not. Activations kept in fp32 beside 16-bit arithmetic double their traffic; kept
    in fp8 they are narrowed once and widened once, a byte each way.
    """
    task = step_work(spec, work, precision)
    if work.attention_backend == "math":
        s = work.sequence_length
        layers = [a for a in spec.attention if a.tower != "vision" and a.kind is not AttentionKind.CROSS]
        seen = sum(a.count * a.heads * (a.head_dim + a.value_head_dim) * attention_span(a, s) for a in layers)
        everything = sum(a.count * a.heads * (a.head_dim + a.value_head_dim) * s for a in layers)
        task = replace(task, attention_flops=task.attention_flops * (everything / seen if seen else 1.0))
    width, own = activation_width(work, precision), activation_width(replace(work, activation_dtype=None), precision)
    if width > own:
        task = replace(task, activation_bytes=task.activation_bytes * width / own)
    elif width < own:
        task = replace(task, activation_bytes=task.activation_bytes * (1 + 2 * width / (2 * own) / 3))
    return task


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """The nodes of all hardware as arrays, and the links to their hosts."""

    node: Node
    host: Array  # bytes/s of a device, one direction

    @classmethod
    def of(cls, items: Sequence[Prepared]) -> Machines:
        """Return the nodes of some hardware."""
        stated = [i.hardware.host_interface_gb_s_bidirectional for i in items]
        host = [HOST_BYTES_S if x is None else x / 2 * 1e9 * HOST_LINK_SHARE for x in stated]
        return cls(node=stacked_nodes([i.node for i in items]), host=np.array(host))

    def at(self, hardware: Index, values: Array) -> StepMachine:
        """Return the machines of some layouts as one; `values` has a row of `SLOTS` for each."""
        node = Node(**{name: getattr(self.node, name)[hardware] for name in NODE_FIELDS})
        return machine_of(node, values, host=self.host[hardware])


NODE_FIELDS = tuple(f.name for f in fields(Node))
