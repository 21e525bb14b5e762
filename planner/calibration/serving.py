"""LLM serving: measured rows as cases, the fit that they pose, and what the model predicts for them.

The physics is `planner.perf.llm` on rates of `planner.perf.serving_rates`: the same functions that answer a request.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from planner.calibration import hierarchy
from planner.calibration.hierarchy import Problem
from planner.calibration.model import Facts, Figure, Labels, Reading, Row, Skipped, Workload
from planner.calibration.serving_cases import METRICS, UNITS, Case, Load, Unpredictable, cases_of
from planner.perf import llm
from planner.perf.intervals import bounds, novelty_of
from planner.perf.parameters import Parameters
from planner.perf.serving_parameters import LEVELS, mixes
from planner.perf.serving_parameters import keys_of as layout_keys
from planner.perf.serving_rates import COLUMN, SLOTS, machine, peaks_from, peaks_of

Array = npt.NDArray[np.float64]

OPEN_TURNS = 25
"""Halvings of the range in which the stay of a request under open arrivals is sought."""
BESIDE_WEIGHT, ALL_AT_ONCE_WEIGHT = 0.5, 0.25
"""Weights of figures beside the main one; TPOT of runs that queue everything hangs on how many the engine lets in, which no row states."""


def read(rows: Sequence[Row], facts: Facts) -> Reading:
    """Return the cases of a serving file; a row gives its metric and, where stated, TPOT and the TTFT of a batch alone."""
    cases: list[Case] = []
    labels: list[Labels] = []
    ids: list[str] = []
    main: list[bool] = []
    skipped: list[Skipped] = []
    for row in rows:
        row_id = row.get("row_id", "")
        try:
            for case, is_main in cases_of(row, facts):
                cases.append(case)
                labels.append(labels_of(row, case))
                ids.append(row_id)
                main.append(is_main)
        except Unpredictable as e:
            skipped.append(Skipped(row_id=row_id, reason=e.reason, detail=e.detail, eligible=e.eligible))
    return Reading(
        workload=Workload.SERVING,
        cases=cases,
        labels=labels,
        row_ids=ids,
        main=main,
        measured=[c.measured for c in cases],
        skipped=skipped,
    )


def labels_of(row: Row, case: Case) -> Labels:
    """Return what the errors of a case are grouped by."""
    stages = f" pp{case.stages}" if case.stages > 1 else ""
    return Labels(
        source=row.get("source", ""),
        model=row.get("model", ""),
        accelerator=case.hardware.accelerator,
        chip_family=case.hardware.architecture,
        engine=case.engine,
        family=case.family,
        precision=case.weights,
        parallelism=f"tp{case.ranks}{stages}",
        metric="tpot_all_at_once_ms" if _all_at_once(case) else METRICS[case.metric],
        unit=UNITS.get(case.metric, "ms"),
    )


def keys_of(reading: Reading) -> dict[str, list[str]]:
    """Return the key of each case at each level."""
    out: dict[str, list[str]] = {}

    def put(level: str, keys: list[str]) -> None:
        out[level] = keys

    cases: list[Case] = list(reading.cases)  # type: ignore[arg-type]  # ours
    described = [
        layout_keys(
            c.hardware, c.form, engine=c.engine, generation=c.generation, ranks=c.ranks * c.stages, family=c.family
        )
        for c in cases
    ]
    for i, level in enumerate(LEVELS):
        put(level, [each[i] for each in described])
    put("limit", [c.limit for c in cases])
    put("model", [each.model for each in reading.labels])
    put("bench", [f"{c.engine} of {each.source}" for c, each in zip(cases, reading.labels, strict=True)])
    put("source", [each.source for each in reading.labels])
    put("group", [each.group for each in reading.labels])
    return out


class Forward:
    """All cases of a reading as arrays, and the log of their predicted figures for values of the slots."""

    def __init__(self, cases: Sequence[Case]) -> None:
        def column(name: str) -> Array:
            return np.array([getattr(c, name) for c in cases], dtype=np.float64)

        self.shape = llm.stacked([c.shape for c in cases])
        self.peaks = np.array([peaks_of(c.hardware, c.form) for c in cases], dtype=np.float64)
        self.input, self.output = column("input_tokens"), column("output_tokens")
        self.concurrency, self.waves, self.beams = column("concurrency"), column("waves"), column("beams")
        self.replicas, self.requests, self.rate = column("replicas"), column("requests"), column("rate")
        self.multiplier, self.chunk = column("multiplier"), column("chunk")
        self.load = np.array([c.load.value for c in cases])
        self.metric = np.array([c.metric for c in cases])
        # Requests that all start at once share their prompts' time with half of the others; in steady state with all.
        at_once = (self.load == Load.OFFLINE) & (self.requests > 0) & (self.requests <= 1.01 * self.concurrency)
        self.interleaved = np.where(at_once, 0.5, 1.0)
        self.mixes = np.array([mixes(c.engine, c.generation) for c in cases]) & ~np.isin(
            self.load, [Load.STATIC, Load.DECODE, Load.PROMPT]
        )
        self.is_static = np.isin(self.load, [Load.STATIC, Load.DECODE, Load.PROMPT])
        self.open = np.flatnonzero(self.load == Load.OPEN)
        # A finite run that starts at once goes in waves: equal requests leave together, and the last wave is what is left over.
        each = self.requests / self.replicas
        self.in_waves = np.flatnonzero((self.load == Load.OFFLINE) & (each > self.concurrency))
        waves = np.ceil(each / self.concurrency)[self.in_waves]
        self.full_waves = waves - 1
        self.last_wave = each[self.in_waves] - self.full_waves * self.concurrency[self.in_waves]

    def __call__(self, values: Array) -> Array:
        """Return log predictions [cases] of values [cases, slots]."""
        m = machine(values, peaks_from(self.peaks))
        b, n_in, n_out = self.concurrency, self.input, self.output
        if len(self.open):
            b = b.copy()
            b[self.open], come, stay_s = self._open(values)
        sequences = b * self.beams
        decode = llm.decode_step(self.shape, m, sequences).total / self.multiplier
        tokens = n_in * np.where(self.is_static, b, np.maximum(1.0, b / n_out))
        beside = np.where(self.mixes, sequences, 0.0)
        prefill = llm.prefill_of(self.shape, m, n_in, np.minimum(self.chunk, tokens), beside=beside).total
        steps = np.where(self.load == Load.DECODE, n_out, np.maximum(n_out - 1.0, 0.0))
        prompts = np.where(self.load == Load.DECODE, 0.0, b * prefill)
        batch_s = np.where(self.load == Load.PROMPT, prompts, prompts + steps * decode)
        requests_per_s = b / batch_s * self.replicas
        if len(self.in_waves):
            at, last = self.in_waves, self.last_wave
            part = machine(values[at], peaks_from(self.peaks[at]))
            decode_last = llm.decode_step(self._shape(at), part, last * self.beams[at]).total / self.multiplier[at]
            run_s = (self.full_waves * batch_s[at]) + last * prefill[at] + steps[at] * decode_last
            requests_per_s[at] = self.requests[at] / run_s
        limited = values[:, COLUMN["limited"]]
        requests_per_s = requests_per_s * np.where(self.load == Load.LIMITED, limited, 1.0)
        if len(self.open):
            at = self.open
            run_s = self.requests[at] / self.rate[at] + values[at, COLUMN["longest_stay"]] * stay_s
            arrived = np.where(self.requests[at] > 0, self.requests[at] / run_s, self.rate[at])
            requests_per_s[at] = np.minimum(requests_per_s[at], arrived)
        batch_ms = 1e3 * batch_s * self.waves
        between = self.interleaved * np.minimum(b / n_out, self.chunk / n_in)  # prompts that a decode step carries
        if len(self.open):
            between[self.open] = np.minimum(come / n_out[self.open], (self.chunk / n_in)[self.open])
        predicted = np.select(
            [
                self.metric == "output_tok_s",
                self.metric == "total_tok_s",
                self.metric == "req_s",
                self.metric == "prefill_tok_s",
                self.metric == "tpot_ms",
            ],
            [
                requests_per_s * n_out,
                requests_per_s * (n_in + n_out),
                requests_per_s,
                requests_per_s * n_in,
                1e3 * (decode + np.where(self.is_static, 0.0, between * prefill)),
            ],
            batch_ms,
        )
        return np.asarray(np.log(predicted), dtype=np.float64)

    def _shape(self, at: npt.NDArray[np.int64]) -> llm.Shape:
        return llm.Shape(**{name: getattr(self.shape, name)[at] for name in llm.Shape.__slots__})

    def _open(self, values: Array) -> tuple[Array, Array, Array]:
        """Return of open arrivals the requests beside each other, the prompts during one's stay, and the mean stay, s.

        A stay lasts as long as its tokens and the prompts that come meanwhile: the R at which O·t(b(R)) + a(R)·t_p = R.
        """
        at = self.open
        shape = self._shape(at)
        part = machine(values[at], peaks_from(self.peaks[at]))
        most, n_in, n_out = self.concurrency[at], self.input[at], self.output[at]

        def stay(b: Array, admitted: Array) -> Array:
            tokens = np.minimum(self.chunk[at], n_in * np.maximum(1.0, b / n_out))
            beside = np.where(self.mixes[at], b, 0.0)
            prefill = llm.prefill_of(shape, part, n_in, tokens, beside=beside).total
            return np.asarray(n_out * llm.decode_step(shape, part, b).total + admitted * prefill)

        low, high = stay(np.ones(len(at)), np.ones(len(at))), stay(most, most)
        for _ in range(OPEN_TURNS):
            middle = np.sqrt(low * high)
            longer = stay(*beside_of(middle, self.rate[at], self.requests[at], most)) > middle
            low, high = np.where(longer, middle, low), np.where(longer, high, middle)
        stay_s = np.sqrt(low * high)
        return *beside_of(stay_s, self.rate[at], self.requests[at], most), stay_s


def beside_of(stay_s: Array, rate: Array, requests: Array, most: Array) -> tuple[Array, Array]:
    """Return of a run of `requests` arrivals at `rate` (0: without end) how many a request is among, and how many come in its stay.

    N arrivals in T = N/λ, each of which stays R: the number in flight rises to h = λ·min(R, T), stays there for |T - R| and falls. The
    mean over stays is ∫b²/∫b = h·(1 - min/(3·max)) of R and T, and a stay sees h·(1 - h/(2·N)) others come. Both at most `most`.
    """
    total = np.where(requests > 0, requests, np.inf)
    arriving = total / rate
    height = rate * np.minimum(stay_s, arriving)
    ratio = np.minimum(stay_s, arriving) / np.maximum(stay_s, arriving)
    among = np.clip(height * (1 - ratio / 3), 1.0, most)
    return among, np.minimum(height * (1 - height / (2 * total)), most)


def weight_of(case: Case) -> float:
    """Return the weight in the fit of a figure beside the main one."""
    return ALL_AT_ONCE_WEIGHT if _all_at_once(case) else BESIDE_WEIGHT


def _all_at_once(case: Case) -> bool:
    return case.load is Load.OFFLINE and case.metric == "tpot_ms"


def problem(reading: Reading) -> Problem:
    """Return the fit that the cases pose."""
    cases: list[Case] = list(reading.cases)  # type: ignore[arg-type]  # ours
    return Problem(
        workload=Workload.SERVING.value,
        slots=SLOTS,
        keys=keys_of(reading),
        forward=Forward(cases),
        log_measured=np.log(np.asarray(reading.measured, dtype=np.float64)),
        groups=[each.group for each in reading.labels],
        weights=np.where(np.asarray(reading.main), 1.0, [weight_of(c) for c in cases]),
    )


def figures(reading: Reading, parameters: Parameters) -> list[Figure]:
    """Return the prediction of each case with its interval, in the order of the reading."""
    if not reading.cases:
        return []
    posed = problem(reading)
    log_predicted, sd = hierarchy.predict(posed, parameters)
    predicted = np.exp(log_predicted)
    novelty = novelty_of(parameters, posed.keys, len(predicted))
    low, high = bounds(parameters, predicted, sd, novelty)
    return [
        Figure(
            row_id=reading.row_ids[i],
            main=reading.main[i],
            labels=reading.labels[i],
            measured=reading.measured[i],
            predicted=float(predicted[i]),
            low=float(low[i]),
            high=float(high[i]),
            novelty=novelty[i],
        )
        for i in range(len(predicted))
    ]
