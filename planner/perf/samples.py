"""Throughput and latency of models that are priced per sample: vision, encoders, speech, diffusion.

`samples_time` has the roofline of one batch. One replica per device. Under full load a request waits for the batch in work,
uniformly between 0 and the batch time t, and is served with the next: latency t (1 + p) at percentile p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec, SampleWork
from planner.perf.arrivals import BatchingArrivals
from planner.perf.llm_report import IDLE_POWER_SHARE, PREFILL_POWER_SHARE
from planner.perf.model import (
    Basis,
    Evaluation,
    Hardware,
    Infeasible,
    InferenceWork,
    LateTerms,
    Layout,
    Outcome,
    Percentiles,
    Performance,
    Rates,
    RejectionReason,
)
from planner.perf.parameters import Parameters, shipped
from planner.perf.samples_loads import (
    PreparedSample,
    activation_width,
    family_of,
    loads_of,
    weight_bytes,
)
from planner.perf.samples_memory import batches_of, memory_fit, out_of_memory, required_bytes, usable_bytes
from planner.perf.samples_rates import COLUMN, factors, keys_of, silicon_of
from planner.perf.samples_support import sample_engine, sample_format, support_notes
from planner.perf.samples_terms import Priced, terms_of
from planner.perf.samples_time import Loads, batch_seconds

Array = npt.NDArray[np.float64]

ENOUGH = 0.98
"""A smaller batch within 2 % of the best rate is preferred: same throughput, less latency."""


def evaluate_samples(
    spec: ModelSpec, hardware: Sequence[Hardware], work: InferenceWork, *, parameters: Parameters | None = None
) -> list[Outcome]:
    """Return the best format and batch on each hardware, or why the model cannot run there; samples/s of one instance.

    The batch is the smallest one within 2 % of the best rate that memory, `max_batch`, the end-to-end limit and the allowed
    concurrency permit; for latency the batch that is served soonest. Among the asked format and those allowed besides, the best wins; on a
    tie the first. `parameters`: fitted ones instead of those that are shipped.
    """
    if spec.sample is None:
        raise ValueError(f"{spec.name} is not priced per sample")
    if work.tensor_parallel not in {None, 1}:
        why = (
            f"a replica of {spec.name} runs on one device; tensor parallelism of {work.tensor_parallel} does not apply"
        )
        refusal = Infeasible(reason=RejectionReason.LAYOUT_IMPOSSIBLE, detail=why)
        return [refusal] * len(hardware)
    fitted = shipped("samples") if parameters is None else parameters
    best = evaluate_format(spec, spec.sample, hardware, work, fitted)
    for precision in work.allowed_precisions:
        others = evaluate_format(spec, spec.sample, hardware, replace(work, precision=precision), fitted)
        best = [better(one, other, work.objective) for one, other in zip(best, others, strict=True)]
    return best


def better(one: Outcome, other: Outcome, objective: str) -> Outcome:
    """Return the outcome with more samples/s, or with the lower latency; the first on a tie or when neither works."""
    if isinstance(other, Infeasible):
        return one
    if isinstance(one, Infeasible):
        return other
    if objective == "latency":
        waits = [p.e2e_ms.p99 if p.e2e_ms else np.inf for p in (one.performance, other.performance)]
        return other if waits[1] < waits[0] else one
    rates = one.performance.rates.samples_per_s or 0.0, other.performance.rates.samples_per_s or 0.0
    return other if rates[1] > rates[0] else one


def evaluate_format(
    spec: ModelSpec, sample: SampleWork, hardware: Sequence[Hardware], work: InferenceWork, parameters: Parameters
) -> list[Outcome]:
    """Return the best batch in one number format on each hardware, or why the model cannot run there."""
    outcomes: list[Outcome | None] = [None] * len(hardware)
    ready: list[PreparedSample] = []
    for index, device in enumerate(hardware):
        found = prepare(spec, device, work, index)
        if isinstance(found, Infeasible):
            outcomes[index] = found
        else:
            ready.append(found)
    if ready:
        machine = Machine.of(spec, ready, parameters)
        batches = batches_of(spec, sample, ready, work.max_batch)
        time_s = machine.seconds(batches)
        usable = np.array([usable_bytes(r) for r in ready])[:, None]
        fits = required_bytes(spec, sample, ready, batches) <= usable
        allowed = batches <= (work.max_concurrency or np.inf)
        soonest = latency_s(time_s[:, :1], work.limits.percentile)
        if work.open_loop:
            soonest = machine.seconds(np.ones((1, 1))) + work.max_queue_delay_ms / 1e3  # of a sample that comes alone
        if work.limits.e2e_ms is not None:
            kept = latency_s(time_s, work.limits.percentile) * 1e3 <= work.limits.e2e_ms
            kept[:, 0] = soonest[:, 0] * 1e3 <= work.limits.e2e_ms  # at random they may be few, and batches small
            allowed = allowed & kept & kept[:, :1]
        rate = np.where(fits & allowed, batches / time_s, 0.0)
        best = rate.max(axis=1, keepdims=True)
        if work.objective == "latency":
            # Of batches that take equally long within 2 % (launches bind) the largest.
            wait = np.where(fits & allowed, time_s, np.inf)
            same = wait * ENOUGH <= wait.min(axis=1, keepdims=True)
            choice = batches.shape[1] - 1 - np.argmax(same[:, ::-1], axis=1)
        else:
            choice = np.argmax(rate >= ENOUGH * best, axis=1)
        picked = np.take_along_axis(batches, choice[:, None], axis=1)
        low, high, novelty = machine.interval(picked)
        every = np.arange(1, int(picked.max()) + 1, dtype=np.float64)[None, :]
        each = machine.seconds(every).tolist() if work.open_loop else []
        for row, item in enumerate(ready):
            column = int(choice[row])
            if best[row, 0] > 0:
                layout = evaluation(
                    spec,
                    sample,
                    item,
                    batch=int(picked[row, 0]),
                    time_s=float(time_s[row, column]),
                    machine=machine,
                    row=row,
                    interval=(float(low[row]), float(high[row]), novelty[row]),
                    citation=cited(parameters),
                )
                outcome: Outcome = replace(layout, arrivals=arrivals_of(each[row], layout, work)) if each else layout
            elif not fits[row].any():
                outcome = out_of_memory(spec, sample, item)
            else:
                outcome = too_slow(item, work, float(soonest[row, 0]) * 1e3)
            outcomes[item.index] = outcome
    return [outcome for outcome in outcomes if outcome is not None]


def latency_s(time_s: Array, percentile: float) -> Array:
    """Return the latency at a percentile under full load: uniform wait for the batch in work, then one batch time."""
    return time_s * (1 + percentile / 100)


def arrivals_of(batch_s: Sequence[float], chosen: Evaluation, work: InferenceWork) -> BatchingArrivals:
    """Return the servers of a chosen layout; `batch_s`: of batches of 1, 2 … up to its own at least."""
    layout = chosen.layout
    return BatchingArrivals(
        batch_s=tuple(batch_s[: layout.batch]),
        max_delay_s=work.max_queue_delay_ms / 1e3,
        replicas=layout.replicas_per_instance or 1,
        limits=work.limits,
    )


def prepare(spec: ModelSpec, hardware: Hardware, work: InferenceWork, index: int) -> PreparedSample | Infeasible:
    """Return runtime, format, peak and efficiency of one hardware, or why it cannot run the model."""
    engine = sample_engine(hardware, work)
    if isinstance(engine, Infeasible):
        return engine
    form = sample_format(spec, hardware, work)
    if isinstance(form, Infeasible):
        return form
    return PreparedSample(
        index=index,
        hardware=hardware,
        engine=engine,
        format=form,
        peak_flops=hardware.peak_tflops[form.compute] * 1e12,
        weight_bytes=weight_bytes(spec, form),
        width=activation_width(form),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What each hardware is asked for, and what it reaches of its datasheet with this model, engine and format."""

    loads: Loads
    parameters: Parameters
    keys: dict[str, list[str]]
    values: Array  # [hardware, slots]

    @classmethod
    def of(cls, spec: ModelSpec, items: Sequence[PreparedSample], parameters: Parameters) -> Machine:
        """Return loads and fitted values of a model on some hardware."""
        keys = keys_of(
            silicon=[silicon_of(i.hardware.architecture, i.hardware.compute_capability) for i in items],
            chips=[i.hardware.accelerator for i in items],
            engines=[i.engine for i in items],
            formats=[i.format.compute for i in items],
            family=family_of(spec),
            model=spec.name,
        )
        return cls(
            loads=loads_of(spec, items), parameters=parameters, keys=keys, values=parameters.values(keys, len(items))
        )

    def seconds(self, batch: Array) -> Array:
        """Return seconds of batches [hardware or 1, batches] on one core each."""
        return batch_seconds(self.loads, self.values, batch)

    def interval(self, batch: Array) -> tuple[Array, Array, list[str]]:
        """Return p10 and p90 of measured over predicted rate at one batch each [hardware, 1], and the class of novelty."""
        return factors(
            self.parameters,
            self.keys,
            lambda values: np.log(batch_seconds(self.loads, values, batch)[:, 0]),
            len(self.values),
        )


def evaluation(
    spec: ModelSpec,
    sample: SampleWork,
    item: PreparedSample,
    *,
    batch: int,
    time_s: float,
    machine: Machine,
    row: int,
    interval: tuple[float, float, str],
    citation: str,
) -> Evaluation:
    """Return the chosen batch as an `Evaluation`; rates of all devices of the instance. `row`: of the machine."""
    hw = item.hardware
    replicas = hw.devices * item.cores
    rate = replicas * batch / time_s
    busy = min(
        1.0, rate * sample.flops / (item.peak_flops * hw.devices * float(machine.values[row, COLUMN["compute"]]))
    )
    p50, p99 = (float(latency_s(np.array(time_s), p)) * 1e3 for p in (50, 99))
    low, high, novelty = interval
    priced = Priced(
        spec=spec,
        sample=sample,
        item=item,
        loads=machine.loads.row(row),
        values=machine.values[row : row + 1],
        batch=batch,
        time_s=time_s,
        novelty=novelty,
        citation=citation,
    )
    return Evaluation(
        layout=Layout(
            engine=item.engine,
            precision=item.format.weights,
            replicas_per_instance=replicas,
            max_concurrency=batch,
            batch=batch,
        ),
        instances=1,
        memory=memory_fit(spec, sample, item, batch),
        performance=Performance(
            basis=Basis.MODELLED,
            rates=Rates(requests_per_s=rate, samples_per_s=rate),
            low_factor=min(1.0, low),
            high_factor=max(1.0, high),
            e2e_ms=Percentiles(p50=p50, p99=p99),
            mfu_fraction=rate * sample.flops / (item.peak_flops * hw.devices),
            power_w=None
            if hw.tdp_w is None
            else hw.tdp_w * hw.devices * (PREFILL_POWER_SHARE * busy + IDLE_POWER_SHARE * (1 - busy)),
            sources=(citation,),
            terms=LateTerms(lambda: terms_of(priced)),
        ),
        notes=(f"one inference = {sample.description}", *item.format.notes, *support_notes(hw, item.engine)),
    )


def cited(p: Parameters) -> str:
    """Return where the fitted parameters come from."""
    if p.own:
        return p.own_source
    return f"fit to {p.rows:,} published measurements in {p.groups} groups of source, model and chip ({p.fitted_on})"


def too_slow(item: PreparedSample, work: InferenceWork, latency_ms: float) -> Infeasible:
    """Return the refusal of a device that misses the end-to-end limit even with a batch of one."""
    limit = work.limits.e2e_ms or 0.0
    return Infeasible(
        reason=RejectionReason.SLO_INFEASIBLE,
        detail=f"a batch of one takes {latency_ms:.3g} ms at p{work.limits.percentile}; the limit is {limit:g} ms",
        figures={"accelerator": item.hardware.accelerator, "e2e_ms": latency_ms, "limit_ms": limit},
    )
