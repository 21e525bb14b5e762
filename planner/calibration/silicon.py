"""Measured operators against measured servers: how far the tables are trusted beside the model, fitted and left out.

    log rate = log model + share * (log tables - lean - log model)

by engine generation, on the model's predictions of rows that it had not seen, in the folds of the model's own cross-validation: a row's
share and lean come from rows of other folds. `lean` is the median over groups of log(tables / measured), drawn to 0 as far as few groups
differ; `share` the one of twenty that errs least on the rows of the other folds, 0 where that is the model alone. Rates alone are
compared, of loads in steady state or of whole batches; arrivals at a rate, limits, speculation and beams are left to the model.
Shares come from whole groups left out: of sources the newest engines have one large one, which leaves too few rows to fit on.
`python -m planner.silicon` writes the tables that are shipped; `planner validate --silicon` prints the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt

from planner.calibration.folds import Predictions
from planner.calibration.intervals import FEWEST_GROUPS, FEWEST_ROWS, halves, multiples
from planner.calibration.model import Reading
from planner.calibration.serving_cases import STEP_TOKENS, Case, Load
from planner.calibration.statistics import statistics
from planner.perf.silicon import Question, Share, StepTimes

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

STATIC = {Load.STATIC, Load.DECODE, Load.PROMPT}
TIMED_LOADS = {*STATIC, Load.OFFLINE, Load.CLOSED}
RATES = {"output_tok_s", "total_tok_s", "req_s", "prefill_tok_s"}
LEAN_SD = 0.3
"""How far an engine's servers are expected to lean from its operators, log."""
SHARES = np.arange(0.0, 1.0, 0.05)
OFFICIAL = ("NVIDIA/TensorRT-LLM docs", "MLPerf Inference")
"""Whose figures the tables' makers compare them with: TensorRT-LLM's pages of performance and MLPerf (8.5 % mean error on 15 of them)."""
BY_SOURCE = "official TensorRT-LLM and MLPerf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A serving case with the step times that the tables have for it; `last`: of the last wave of a finite run."""

    at: int  # index in the reading
    case: Case
    times: StepTimes
    last: StepTimes | None


def question_of(case: Case) -> Question | None:
    """Return what the tables are asked for a case; None where their figure would be another one."""
    if case.load not in TIMED_LOADS or case.metric not in RATES:
        return None
    if case.stages > 1 or case.beams > 1 or case.multiplier != 1:
        return None
    tokens = case.input_tokens * case.concurrency if case.load in STATIC else STEP_TOKENS
    return Question(
        spec=case.spec,
        accelerator=case.hardware.accelerator,
        engine=case.engine,
        precision=case.form.weights,
        kv_precision="fp8" if case.kv_bits == 8 else "bf16",
        tensor_parallel=case.ranks,
        expert_parallel=False,
        input_tokens=max(1, round(case.input_tokens)),
        output_tokens=max(1, round(case.output_tokens)),
        concurrency=max(1, round(case.concurrency)),
        step_tokens=max(1, round(min(tokens, STEP_TOKENS))),
    )


def last_wave_of(case: Case) -> float:
    """Return the requests of a replica's last wave, where a finite run that starts at once goes in waves; 0 where not."""
    each = case.requests / case.replicas
    if case.load is not Load.OFFLINE or each <= case.concurrency:
        return 0.0
    return float(each - (np.ceil(each / case.concurrency) - 1) * case.concurrency)


def timed_cases(reading: Reading, steps: Callable[[Question], StepTimes | None]) -> list[Timed]:
    """Return the main rates that the tables answer."""
    out = []
    for at, case in enumerate(reading.cases):
        question = question_of(case) if isinstance(case, Case) and reading.main[at] else None
        times = None if question is None else steps(question)
        if times is None or question is None or not isinstance(case, Case):
            continue
        last = last_wave_of(case)
        of_last = steps(replace(question, concurrency=max(1, round(last)))) if last else None
        out.append(Timed(at=at, case=case, times=times, last=of_last))
    return out


def log_rate(timed: Timed) -> float:
    """Return the log of a case's figure by the tables alone."""
    c, t = timed.case, timed.times
    steps = c.output_tokens if c.load is Load.DECODE else max(c.output_tokens - 1.0, 0.0)

    def batch_s(requests: float, decode_s: float) -> float:
        prompts = 0.0 if c.load is Load.DECODE else requests * t.prefill_s
        return prompts if c.load is Load.PROMPT else prompts + steps * decode_s

    rate = c.concurrency / batch_s(c.concurrency, t.decode_s) * c.replicas
    last = last_wave_of(c)
    if last and timed.last is not None:
        full = np.ceil(c.requests / c.replicas / c.concurrency) - 1
        rate = c.requests / (full * batch_s(c.concurrency, t.decode_s) + batch_s(last, timed.last.decode_s))
    tokens = {
        "output_tok_s": c.output_tokens,
        "total_tok_s": c.input_tokens + c.output_tokens,
        "prefill_tok_s": c.input_tokens,
    }
    return float(np.log(rate * tokens.get(c.metric, 1.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Rows as measured, as the tables say and as the model says that had not seen them [rows]; logs."""

    measured: Array
    tables: Array
    model: Array
    model_sd: Array
    fold: npt.NDArray[np.int64]
    generation: Sequence[str]
    groups: Sequence[str]
    sources: Sequence[str]
    left_out: str


def compared(reading: Reading, timed: Sequence[Timed], model: Predictions) -> Compared:
    """Return the rows that the tables answer beside the model's left-out predictions."""
    at = np.array([t.at for t in timed], dtype=np.int64)
    labels = [reading.labels[i] for i in at.tolist()]
    return Compared(
        measured=model.log_measured[at],
        tables=np.array([log_rate(t) for t in timed]),
        model=model.log_predicted[at],
        model_sd=model.sd[at],
        fold=model.fold[at],
        generation=[t.case.generation for t in timed],
        groups=[each.group for each in labels],
        sources=[each.source for each in labels],
        left_out=model.left_out.value,
    )


def share_of(rows: Compared, used: Mask) -> tuple[float, float]:
    """Return (share, lean) that the used rows speak for; share 0 where they are of too few groups or the model errs least."""
    at = np.flatnonzero(used).tolist()
    names = [rows.groups[i] for i in at]
    if len(set(names)) < FEWEST_GROUPS:
        return 0.0, 0.0
    ahead = (rows.tables - rows.measured)[used]
    middles = np.array([np.median(ahead[[n == name for n in names]]) for name in sorted(set(names))])
    noise = max(float(middles.std()), 0.05) ** 2 / len(middles)
    lean = float(np.median(middles)) * LEAN_SD**2 / (LEAN_SD**2 + noise)
    off, apart = (rows.measured - rows.model)[used], (rows.tables - lean - rows.model)[used]
    losses = [float(np.mean(np.abs(off - share * apart))) for share in SHARES]
    return float(SHARES[int(np.argmin(losses))]), lean


def left_out(rows: Compared) -> tuple[Array, Array]:
    """Return (log predictions of tables less their lean, log predictions of the blend) of rows by shares from the other folds."""
    leaned, blended = rows.tables.copy(), rows.model.copy()
    generation = np.array(rows.generation)
    for name in sorted(set(rows.generation)):
        for fold in sorted(set(rows.fold.tolist())):
            of, held = generation == name, rows.fold == fold
            share, lean = share_of(rows, of & ~held)
            leaned[of & held] -= lean
            blended[of & held] += share * (leaned - rows.model)[of & held]
    return leaned, blended


def helps(rows: Compared, generation: str) -> bool:
    """Return whether the blend errs less than the model on left-out rows of a generation, of which there are enough to tell."""
    of = np.array(rows.generation) == generation
    if np.count_nonzero(of) < FEWEST_ROWS:
        return False
    _, blended = left_out(rows)
    off = [float(np.mean(np.abs(rows.measured - each)[of])) for each in (blended, rows.model)]
    return off[0] < off[1]


def shares_of(rows: Compared) -> list[Share]:
    """Return the shares by generation, with the powers of the model's interval factors that hold 80 % of left-out rows.

    A generation that does not gain by the tables on rows left out has a share of 0.
    """
    _, blended = left_out(rows)
    generation = np.array(rows.generation)
    out = []
    for name in sorted(set(rows.generation)):
        of = generation == name
        share, lean = share_of(rows, of)
        gains = share > 0 and helps(rows, name)
        low, high = _powers(rows, blended, of) if gains else (1.0, 1.0)
        out.append(
            Share(
                generation=name,
                share=round(share, 2) if gains else 0.0,
                lean=round(lean, 4),
                low=round(low, 4),
                high=round(high, 4),
                rows=int(np.count_nonzero(of)),
                groups=len({g for g, there in zip(rows.groups, of, strict=True) if there}),
            )
        )
    return out


def _powers(rows: Compared, blended: Array, used: Mask) -> tuple[float, float]:
    """Return by how much the model's interval narrows or widens below and above: multiples of its spread, of the blend over its own."""
    own = multiples(((rows.measured - rows.model) / rows.model_sd)[used])
    blend = multiples(((rows.measured - blended) / rows.model_sd)[used])
    low, high = (b / o if b * o > 0 and abs(o) > 0.05 else 1.0 for b, o in zip(blend, own, strict=True))
    return low, high


Errors = Mapping[str, object]


def errors_of(rows: Compared) -> list[Errors]:
    """Return the errors of the tables, the tables less their lean, the model and the blend, on the same rows: of all, of official ones, by generation."""
    leaned, blended = left_out(rows)
    predictors = {"tables": rows.tables, "tables less lean": leaned, "model": rows.model, "model and tables": blended}
    official = np.array([source.startswith(OFFICIAL) for source in rows.sources])
    parts = {"all": np.ones_like(official), BY_SOURCE: official}
    parts |= {name: np.array(rows.generation) == name for name in sorted(set(rows.generation))}
    out: list[Errors] = []
    for part, used in parts.items():
        for name, predicted in predictors.items():
            groups = [g for g, there in zip(rows.groups, used, strict=True) if there]
            low, high = _interval(rows, predicted)
            counted = statistics(
                np.exp(rows.measured[used]),
                np.exp(predicted[used]),
                groups,
                low=np.exp(low[used]),
                high=np.exp(high[used]),
            )
            mean = float(np.mean(np.abs(np.expm1((predicted - rows.measured)[used])))) if groups else None
            out.append({"left_out": rows.left_out, "of": part, "predictor": name, "mean_ape": mean, **asdict(counted)})
    return out


def _interval(rows: Compared, predicted: Array) -> tuple[Array, Array]:
    """Return the log ends of 80 % intervals: multiples of the model's spread from the other half of the groups."""
    first = halves(list(rows.groups))
    low, high = predicted.copy(), predicted.copy()
    for half in (first, ~first):
        if not half.any() or half.all():
            continue
        below, above = multiples(((rows.measured - predicted) / rows.model_sd)[~half])
        low[half] += min(below, -0.05) * rows.model_sd[half]
        high[half] += max(above, 0.05) * rows.model_sd[half]
    return low, high
