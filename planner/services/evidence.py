"""What answers beside the model: own measurements, measured operators, published figures; the nearest first, each scaled by the model.

A request is evaluated by the model, with parameters fitted to the user's own measurements where there are some; each layout that it
chose is then put right by what was measured near it: own rows where there are some, else whichever of measured operators (the extra
`silicon`), published figures and the model alone has the narrowest interval. Latency limits hold for what is answered: a layout that
they break is chosen anew with limits turned by the same ratio.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from planner.models.spec import ModelSpec
from planner.perf.model import (
    Basis,
    Evaluation,
    Hardware,
    Infeasible,
    InferenceWork,
    LatencyLimits,
    Outcome,
    Percentiles,
    Performance,
    RejectionReason,
    TrainingWork,
)
from planner.ports import Predictor
from planner.recommend.errors import BadRequest, NotInstalled

if TYPE_CHECKING:
    from planner.perf.evidence import Conditions, Witness
    from planner.perf.parameters import Parameters

ALL, MEASURED, SILICON, PUBLISHED, MODEL = "all", "measured", "silicon", "published", "model"
MOST_CITED = 8
INSTALL = 'needs the measured operator tables: pip install "gpu-cost-planner[silicon]" (x86-64 Linux)'


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is at hand beside the shipped tables: the user's own measurements as CSV files, and measured operators where installed."""

    own: Mapping[str, bytes] = field(default_factory=dict)  # workload -> file
    fitted: Mapping[str, bytes] = field(default_factory=dict)  # workload -> parameters fitted to them
    predictor: Predictor | None = None

    @property
    def id(self) -> str:
        """Return what tells this evidence from other; empty where there is only what is shipped."""
        parts = [hashlib.sha256(self.own[name]).hexdigest() for name in sorted(self.own)]
        parts += [f"fit {hashlib.sha256(self.fitted[name]).hexdigest()}" for name in sorted(self.fitted)]
        if self.predictor is not None:
            parts.append(self.predictor.source)
        return "|".join(parts)


SHIPPED_ONLY = Evidence()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """Which tiers a request lets answer, of what is at hand."""

    evidence: Evidence
    asked: str = ALL

    def __post_init__(self) -> None:
        """Refuse measured operators that are not installed, and own measurements of which there are none."""
        if self.asked == SILICON and self.evidence.predictor is None:
            raise NotInstalled(field="evidence", value=self.asked, why=INSTALL)
        if self.asked == MEASURED and not self.evidence.own:
            raise BadRequest(
                field="evidence",
                value=self.asked,
                why="asks for own measurements and there are none",
                expected="planner validate --measurements FILE.csv --recalibrate takes them in",
            )

    def own(self, workload: str) -> bytes | None:
        """Return the user's measurements of a workload, where they may answer."""
        return self.evidence.own.get(workload) if self.asked in {ALL, MEASURED} else None

    def parameters(self, workload: str) -> Parameters | None:
        """Return the parameters fitted to the user's measurements, where they may answer; None: the shipped ones."""
        data = self.evidence.fitted.get(workload) if self.asked in {ALL, MEASURED} else None
        if data is None:
            return None
        from planner.services.own_evidence import own_fit  # noqa: PLC0415 - loads NumPy only when something is evaluated

        return own_fit(workload, data)

    def noted(self, workload: str, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Return the outcomes with what is to be said of the user's own parameters."""
        data = self.evidence.fitted.get(workload) if self.asked in {ALL, MEASURED} else None
        if data is None:
            return list(outcomes)
        from planner.services.own_evidence import note_of  # noqa: PLC0415 - as above

        note = note_of(workload, data)
        return [replace(o, notes=(*o.notes, note)) if isinstance(o, Evaluation) else o for o in outcomes]

    @property
    def predictor(self) -> Predictor | None:
        """Return measured operators, where they may answer."""
        return self.evidence.predictor if self.asked in {ALL, SILICON} else None

    @property
    def published(self) -> bool:
        """Return whether published figures may answer."""
        return self.asked in {ALL, PUBLISHED}


Answer = Callable[[Evaluation, Hardware], Evaluation]


def evaluated_inference(
    spec: ModelSpec, hardware: Sequence[Hardware], work: InferenceWork, tiers: Tiers
) -> list[Outcome]:
    """Return the best layout on each hardware, as `evaluate_inference` does, put right by the nearest evidence."""
    from planner.perf.inference import evaluate_inference  # noqa: PLC0415 - loads NumPy only when something is evaluated

    parameters = tiers.parameters(workload_of(spec))
    outcomes = evaluate_inference(spec, hardware, work, parameters=parameters)
    answer = _serving_answer(spec, work, tiers, parameters)
    if answer is not None:
        outcomes = [
            _within_limits(spec, h, work, outcome, answer, parameters=parameters)
            for h, outcome in zip(hardware, outcomes, strict=True)
        ]
    return tiers.noted(workload_of(spec), outcomes)


def workload_of(spec: ModelSpec) -> str:
    """Return the workload that serving a model is: of tokens, or of samples."""
    return "serving" if spec.generates_tokens else "samples"


def evaluated_training(
    spec: ModelSpec,
    hardware: Sequence[Hardware],
    work: TrainingWork,
    counts: Sequence[int],
    tiers: Tiers,
    *,
    explain: bool = True,
) -> list[list[Outcome]]:
    """Return the best layout on each hardware and number of instances, as `evaluate_training` does, put right by the nearest evidence."""
    from planner.perf.training import evaluate_training  # noqa: PLC0415 - as above

    parameters = tiers.parameters("training")
    outcomes = [
        list(row) for row in evaluate_training(spec, hardware, work, counts, parameters=parameters, explain=explain)
    ]
    rows = _rows_of("training", spec, tiers, parameters)
    if not rows.any:
        return [tiers.noted("training", row) for row in outcomes]
    from planner.perf.carried import training_conditions  # noqa: PLC0415

    for h, row in zip(hardware, outcomes, strict=True):
        for i, outcome in enumerate(row):
            if isinstance(outcome, Evaluation):
                layout, devices = outcome.layout, h.devices * outcome.instances
                row[i] = rows.answer(
                    outcome,
                    h,
                    lambda source, lo=layout, n=devices: training_conditions(lo, work, n, source),  # type: ignore[misc]
                )
    return [tiers.noted("training", row) for row in outcomes]


def _serving_answer(spec: ModelSpec, work: InferenceWork, tiers: Tiers, parameters: Parameters | None) -> Answer | None:
    """Return what puts an evaluation right; None where nothing is known beside the model."""
    from planner.perf.carried import sample_conditions, serving_conditions, width  # noqa: PLC0415

    rows = _rows_of(workload_of(spec), spec, tiers, parameters)
    predictor = tiers.predictor if spec.generates_tokens else None
    if predictor is None and not rows.any:
        return None

    def conditions(evaluation: Evaluation, h: Hardware, source: str) -> Conditions:
        if spec.generates_tokens:
            return serving_conditions(evaluation.layout, work, source)
        return sample_conditions(evaluation.layout, spec.sample.size if spec.sample else None, h.devices, source)

    def answer(evaluation: Evaluation, h: Hardware) -> Evaluation:
        from_rows = rows.answer(evaluation, h, lambda source: conditions(evaluation, h, source))
        if predictor is None or from_rows.performance.basis is Basis.MEASURED:
            return from_rows
        timed = _timed(spec, evaluation, h, work, predictor)
        if timed is None:
            return from_rows
        if tiers.asked == SILICON:
            return timed
        return from_rows if width(from_rows.performance) < width(timed.performance) else timed

    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The measured rows of a model on each accelerator that may answer, own ones first."""

    workload: str
    own: bytes | None
    kinds: Sequence[tuple[Basis, Mapping[str, tuple[Witness, ...]]]]

    @property
    def any(self) -> bool:
        """Return whether there is a row at all."""
        return any(by_chip for _, by_chip in self.kinds)

    def answer(self, evaluation: Evaluation, h: Hardware, conditions: Callable[[str], Conditions]) -> Evaluation:
        """Return the evaluation with the first kind of rows that is near enough carried over; unchanged where none is.

        `conditions` of the layout, for the source that the request is of: its own, or none.
        """
        from planner.perf.carried import carried, is_near  # noqa: PLC0415 - loads NumPy only when something is evaluated
        from planner.perf.cited import citation, shipped_rows  # noqa: PLC0415
        from planner.perf.evidence import OWN, correction_of, shipped_distances  # noqa: PLC0415

        if h.fraction != 1 or (self.workload != "training" and is_apart(evaluation)):
            return evaluation
        for basis, by_chip in self.kinds:
            witnesses = by_chip.get(h.accelerator, ())
            asked = conditions(OWN if basis is Basis.MEASURED else "")
            correction = correction_of(asked, witnesses, shipped_distances()[self.workload])
            if correction is None or not is_near(correction):
                continue
            ids = [used.row_id for used in correction.used[:MOST_CITED]]
            rows: Mapping[str, Mapping[str, str]]
            if basis is Basis.MEASURED and self.own is not None:
                from planner.services.own_evidence import own_rows  # noqa: PLC0415 - only where there are own rows

                rows = own_rows(self.workload, self.own)
            else:
                rows = shipped_rows(self.workload, ids)
            return carried(
                evaluation, correction, basis, {i: citation(self.workload, rows[i]) for i in ids if i in rows}
            )
        return evaluation


def is_apart(evaluation: Evaluation) -> bool:
    """Return whether a replica spans machines or has groups that share experts: rows state neither, so none speaks of it."""
    return evaluation.instances > 1 or (evaluation.layout.data_parallel or 1) > 1


def _rows_of(workload: str, spec: ModelSpec, tiers: Tiers, parameters: Parameters | None) -> Rows:
    """Return the measured rows of a model that a request lets answer; own ones beside the parameters that answer."""
    from planner.perf.evidence import fingerprint, shipped_witnesses  # noqa: PLC0415 - as above

    model = fingerprint(spec)
    kinds: list[tuple[Basis, Mapping[str, tuple[Witness, ...]]]] = []
    own = tiers.own(workload)
    if own is not None:
        from planner.services.own_evidence import own_witnesses  # noqa: PLC0415 - only where there are own rows

        kinds.append((Basis.MEASURED, own_witnesses(workload, own, parameters).get(model, {})))
    if tiers.published:
        kinds.append((Basis.PUBLISHED, shipped_witnesses(workload, model)))
    return Rows(workload=workload, own=own, kinds=kinds)


def _timed(
    spec: ModelSpec, evaluation: Evaluation, h: Hardware, work: InferenceWork, predictor: Predictor
) -> Evaluation | None:
    """Return the evaluation from measured operators; None where the tables do not have it."""
    from planner.perf.memory import chunk_tokens  # noqa: PLC0415
    from planner.perf.silicon import Question, timed  # noqa: PLC0415

    layout = evaluation.layout
    if h.fraction != 1 or is_apart(evaluation) or layout.max_concurrency is None or (layout.pipeline_parallel or 1) > 1:
        return None
    question = Question(
        spec=spec,
        accelerator=h.accelerator,
        engine=layout.engine or "",
        precision=layout.precision,
        kv_precision=layout.kv_precision or "bf16",
        tensor_parallel=layout.tensor_parallel or 1,
        expert_parallel=bool(layout.expert_parallel and layout.expert_parallel > 1),
        input_tokens=work.input_tokens,
        output_tokens=work.output_tokens,
        concurrency=layout.max_concurrency,
        step_tokens=chunk_tokens(h),
    )
    times = predictor.steps(question)
    return None if times is None else timed(evaluation, question, times, predictor.source)


def _within_limits(
    spec: ModelSpec,
    h: Hardware,
    work: InferenceWork,
    outcome: Outcome,
    answer: Answer,
    *,
    parameters: Parameters | None,
) -> Outcome:
    """Return the answer for one hardware; chosen anew where evidence moves it across a latency limit."""
    from planner.perf.inference import evaluate_inference  # noqa: PLC0415

    limited = _limits(work)
    if isinstance(outcome, Evaluation):
        answered = answer(outcome, h)
        if not limited or _keeps(answered, work):
            return answered
        modelled = outcome
    elif limited and outcome.reason is RejectionReason.SLO_INFEASIBLE:
        unlimited = replace(work, limits=LatencyLimits(percentile=work.limits.percentile))
        free = evaluate_inference(spec, [h], unlimited, parameters=parameters)[0]
        if isinstance(free, Infeasible):
            return outcome
        answered, modelled = answer(free, h), free
        if answered is free:
            return outcome
    else:
        return outcome
    turned = _turned(work.limits, modelled.performance, answered.performance)
    again = evaluate_inference(spec, [h], replace(work, limits=turned), parameters=parameters)[0]
    if isinstance(again, Infeasible):
        return (
            replace(again, detail=f"as measured nearby: {again.detail}") if isinstance(outcome, Evaluation) else outcome
        )
    answered = answer(again, h)
    if answered.arrivals is not None:
        answered = replace(answered, arrivals=answered.arrivals.within(work.limits))
    if _keeps(answered, work):
        return answered
    return Infeasible(
        reason=RejectionReason.SLO_INFEASIBLE,
        detail=f"{h.accelerator}: as measured nearby, no layout keeps the latency limits at p{work.limits.percentile}",
        figures={"accelerator": h.accelerator},
    )


def _limits(work: InferenceWork) -> bool:
    limits = work.limits
    return any(x is not None for x in (limits.ttft_ms, limits.tpot_ms, limits.e2e_ms))


def _pairs(limits: LatencyLimits, performance: Performance) -> list[tuple[float | None, float | None]]:
    def at(p: Percentiles | None) -> float | None:
        return None if p is None else p.p50 if limits.percentile == 50 else p.p99

    p = performance
    return [(limits.ttft_ms, at(p.ttft_ms)), (limits.tpot_ms, at(p.tpot_ms)), (limits.e2e_ms, at(p.e2e_ms))]


def _keeps(answered: Evaluation, work: InferenceWork) -> bool:
    """Return whether an answer keeps the limits; of requests that come at random, whether it does when they are few."""
    if answered.arrivals is not None:
        return answered.arrivals.possible()
    return _holds(answered.performance, work.limits)


def _holds(performance: Performance, limits: LatencyLimits) -> bool:
    """Return whether the latencies keep the limits; p90 and p95 limits are held to the p99 that is known."""
    return all(limit is None or value is None or value <= limit for limit, value in _pairs(limits, performance))


def _turned(limits: LatencyLimits, modelled: Performance, answered: Performance) -> LatencyLimits:
    """Return the limits that the model must keep so that what is answered keeps the asked ones."""
    out: list[float | None] = []
    for (limit, model), (_, value) in zip(_pairs(limits, modelled), _pairs(limits, answered), strict=True):
        out.append(None if limit is None else limit if not model or not value else limit * model / value)
    return replace(limits, ttft_ms=out[0], tpot_ms=out[1], e2e_ms=out[2])
