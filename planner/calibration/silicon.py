"""Measured operators against measured servers: the two factors by which step times of the tables are multiplied, fitted and left out.

    log measured = log figure(decode x f_decode, prompt x f_prompt),   f deviates by engine, chip, precision, one device or several

Caches count as 16-bit. Cases are those of `planner.calibration.serving` that the tables have; loads whose figure is not one of step times in steady state
(arrivals at a rate, latency limits, speculation, beams) are left to the model. `python -m planner.silicon` fits
`tables/parameters_silicon.json` where the extra is installed and prints the errors of whole groups left out, beside the model's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from planner.calibration import hierarchy
from planner.calibration.folds import FOLDS, LeftOut, Predictions, cross_validated
from planner.calibration.hierarchy import Problem
from planner.calibration.intervals import conformal
from planner.calibration.model import Labels, Reading
from planner.calibration.serving_cases import STEP_TOKENS, Case, Load
from planner.perf.parameters import Parameters
from planner.perf.silicon import SLOTS, Question, StepTimes, keys_of

Array = npt.NDArray[np.float64]

TIMED_LOADS = {Load.STATIC, Load.DECODE, Load.PROMPT, Load.OFFLINE, Load.CLOSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A serving case with the step times that the tables have for it."""

    at: int  # index in the reading
    case: Case
    question: Question
    times: StepTimes


def question_of(case: Case) -> Question | None:
    """Return what the tables are asked for a case; None where their figure would be another one."""
    if case.load not in TIMED_LOADS or case.stages > 1 or case.beams > 1 or case.multiplier != 1:
        return None
    static = case.load in {Load.STATIC, Load.DECODE, Load.PROMPT}
    tokens = STEP_TOKENS if not static else case.input_tokens * case.concurrency
    return Question(
        spec=case.spec,
        accelerator=case.hardware.accelerator,
        engine=case.engine,
        precision=case.form.weights,
        kv_precision="bf16",
        tensor_parallel=case.ranks,
        expert_parallel=False,
        input_tokens=max(1, round(case.input_tokens)),
        output_tokens=max(1, round(case.output_tokens)),
        concurrency=max(1, round(case.concurrency)),
        step_tokens=max(1, round(min(tokens, STEP_TOKENS))),
    )


class Forward:
    """The log of each timed case's figure for values of the two factors."""

    def __init__(self, timed: Sequence[Timed]) -> None:
        def column(values: Sequence[float]) -> Array:
            return np.array(values, dtype=np.float64)

        cases = [t.case for t in timed]
        self.decode = column([t.times.decode_s for t in timed])
        self.prefill = column([t.times.prefill_s for t in timed])
        self.b = column([c.concurrency for c in cases])
        self.n_in, self.n_out = column([c.input_tokens for c in cases]), column([c.output_tokens for c in cases])
        self.replicas, self.waves = column([c.replicas for c in cases]), column([c.waves for c in cases])
        self.metric = np.array([c.metric for c in cases])
        self.load = np.array([c.load.value for c in cases])
        self.static = np.isin(self.load, [Load.STATIC, Load.DECODE, Load.PROMPT])

    def __call__(self, values: Array) -> Array:
        """Return log predictions [cases] of values [cases, slots]."""
        decode, prefill = self.decode * values[:, 0] + values[:, 2] / 1e3, self.prefill * values[:, 1]
        steps = np.where(self.load == Load.DECODE, self.n_out, np.maximum(self.n_out - 1.0, 0.0))
        prompts = np.where(self.load == Load.DECODE, 0.0, self.b * prefill)
        batch_s = np.where(self.load == Load.PROMPT, prompts, prompts + steps * decode)
        rate = self.b / batch_s * self.replicas
        is_rate = [self.metric == name for name in ("output_tok_s", "total_tok_s", "req_s", "prefill_tok_s")]
        tpot = 1e3 * (decode + np.where(self.static, 0.0, self.b / self.n_out * prefill))
        predicted = np.select(
            [*is_rate, self.metric == "tpot_ms"],
            [rate * self.n_out, rate * (self.n_in + self.n_out), rate, rate * self.n_in, tpot],
            1e3 * batch_s * self.waves,
        )
        return np.asarray(np.log(predicted), dtype=np.float64)


def problem_of(reading: Reading, timed: Sequence[Timed]) -> Problem:
    """Return the fit of the factors."""
    labels = [reading.labels[t.at] for t in timed]
    keys: dict[str, list[str]] = {}
    for t in timed:
        for level, key in keys_of(t.question, t.case.generation).items():
            keys.setdefault(level, []).append(key)
    keys["source"] = [each.source for each in labels]
    keys["group"] = [each.group for each in labels]
    return Problem(
        workload="silicon",
        slots=SLOTS,
        keys=keys,
        forward=Forward(timed),
        log_measured=np.log([reading.measured[t.at] for t in timed]),
        groups=[each.group for each in labels],
        weights=np.array([1.0 if reading.main[t.at] else 0.5 for t in timed]),
    )


def timed_cases(reading: Reading, answers: Mapping[int, StepTimes | None]) -> list[Timed]:
    """Return the cases that the tables answered; `answers` by index in the reading."""
    out = []
    for at, times in answers.items():
        case = reading.cases[at]
        assert isinstance(case, Case)  # noqa: S101 - a reading of serving
        question = question_of(case)
        if times is not None and question is not None:
            out.append(Timed(at=at, case=case, question=question, times=times))
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The factors of all rows, and each row predicted by fits that had not seen its group or its source."""

    parameters: Parameters
    left: Sequence[Predictions]
    main: npt.NDArray[np.bool_]

    def lines(self, model: Predictions, at: Sequence[int]) -> list[str]:
        """Return errors of main figures, left out: of the tables with factors, and of the model on the same rows."""
        out = [_line(f"{p.left_out.value} left out: measured operators", -p.residual[self.main]) for p in self.left]
        out.append(_line("groups left out: the model, same rows", -model.residual[np.asarray(at)][self.main]))
        return out


def fitted(reading: Reading, timed: Sequence[Timed], *, fitted_on: str, version: str, data_sha256: str) -> Fitted:
    """Return the factors with the intervals that left-out groups and sources ask for."""
    problem = problem_of(reading, timed)
    labels: list[Labels] = [reading.labels[t.at] for t in timed]
    whole = hierarchy.fit(problem, fitted_on=fitted_on, version=version, data_sha256=data_sha256)
    left = [cross_validated(problem, labels, whole, left_out=o, folds=FOLDS) for o in (LeftOut.GROUPS, LeftOut.SOURCES)]
    return Fitted(
        parameters=replace(whole, intervals=conformal(left, list(problem.groups))),
        left=left,
        main=np.array([reading.main[t.at] for t in timed], dtype=np.bool_),
    )


def _line(name: str, residual: Array) -> str:
    ape = np.abs(np.expm1(residual))
    share = float(np.mean(np.abs(residual) <= np.log(2)))
    return f"{name:44} {len(ape):5} rows   median {np.median(ape):6.1%}   p90 {np.quantile(ape, 0.9):6.1%}   within 2x {share:6.1%}"
