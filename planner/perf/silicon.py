"""Serving from measured operator times: what the model says, moved towards what a table of step times says of one replica.

    log rate = log model + share * (log tables - lean - log model)

A table tells the time of a decode step of B requests and of a prompt's share of the steps that carry it; the arithmetic from there to
rates is that of `llm`. Tables time operators one by one, and servers do more than that: `lean` is by how much an engine's servers are
slower than its operators, `share` how far the tables are to be trusted beside the model, both by engine generation from predictions of
groups that the model had not seen (`tables/silicon_shares.csv`, written by `python -m planner.silicon`). A share of 0 is the model.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec
from planner.perf.carried import faster, sped_up
from planner.perf.llm import steady_requests_per_s
from planner.perf.model import Basis, Evaluation, Term
from planner.perf.serving_parameters import NEW_SINCE, generation_of

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How far measured operators of an engine generation are trusted beside the model.

    `lean`: log(tables / servers). `low`, `high`: powers of the model's low and high factor that hold 80 % of rows of new sources.
    """

    generation: str
    share: float
    lean: float
    low: float
    high: float
    rows: int
    groups: int

    def blended(self, log_model: Array, log_tables: Array) -> Array:
        """Return the log of what is answered."""
        return log_model + self.share * (log_tables - self.lean - log_model)


@lru_cache(maxsize=1)
def shares() -> Mapping[str, Share]:
    """Return the fitted shares by engine generation."""
    text = files("planner.perf").joinpath("tables", "silicon_shares.csv").read_text(encoding="utf-8")
    return {
        row["generation"]: Share(
            generation=row["generation"],
            share=float(row["share"]),
            lean=float(row["lean"]),
            low=float(row["low"]),
            high=float(row["high"]),
            rows=int(row["rows"]),
            groups=int(row["groups"]),
        )
        for row in csv.DictReader(io.StringIO(text))
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One replica at one operating point: what a table of step times is asked."""

    spec: ModelSpec
    accelerator: str  # canonical name
    engine: str
    precision: str
    kv_precision: str
    tensor_parallel: int
    expert_parallel: bool
    input_tokens: int
    output_tokens: int
    concurrency: int
    step_tokens: int  # most prompt tokens in one step


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Seconds of one replica: a decode step at mean context, the accelerator time of one prompt beside it, one prompt alone."""

    decode_s: float
    prefill_s: float
    alone_s: float


def rate_of(times: StepTimes, question: Question) -> float:
    """Return the requests/s of one replica that keeps `concurrency` requests in flight, from step times."""

    def array(value: float) -> Array:
        return np.asarray([value], dtype=np.float64)

    q = question
    rate = steady_requests_per_s(array(q.concurrency), q.output_tokens, array(times.decode_s), array(times.prefill_s))
    return float(rate[0])


def timed(evaluation: Evaluation, question: Question, times: StepTimes, source: str) -> Evaluation | None:
    """Return the evaluation moved towards measured operators, with the interval that is left; None where they are not trusted at all.

    Latencies are divided by the same ratio as rates are multiplied by: Little's law at the same requests in flight.
    """
    p = evaluation.performance
    model = (p.rates.requests_per_s or 0.0) / (evaluation.layout.replicas_per_instance or 1)
    share = shares().get(generation_of(question.engine, NEW_SINCE))
    if share is None or share.share == 0 or model <= 0:
        return None
    tables = rate_of(times, question)
    ratio = float(np.exp(share.blended(np.log(model), np.log(tables)) - np.log(model)))
    terms = (
        Term(
            name="silicon_decode_step",
            value=times.decode_s * 1e3,
            unit="ms",
            formula=f"{question.concurrency} requests at mean context, TP {question.tensor_parallel}",
            source=source,
        ),
        Term(
            name="silicon_prefill",
            value=times.prefill_s * 1e3,
            unit="ms per prompt",
            formula=f"share of a full step of {question.step_tokens} tokens",
            source=source,
        ),
        Term(
            name="silicon_rate",
            value=tables,
            unit="requests/s of a replica",
            formula="B / (OSL x decode step + B x prefill)",
            source=source,
        ),
        Term(
            name="silicon_factor",
            value=ratio,
            unit="x modelled rate",
            formula=f"(silicon_rate / {np.exp(share.lean):.3g} / modelled rate)^{share.share:.3g}, as {share.generation} in {share.groups} groups",
            source="methodology: use of evidence",
        ),
    )
    performance = replace(
        faster(p, ratio),
        basis=Basis.SILICON,
        low_factor=p.low_factor**share.low,
        high_factor=p.high_factor**share.high,
        sources=(f"silicon: {source}", *p.sources),
        terms=(*p.terms, *terms),
    )
    return replace(evaluation, performance=performance, arrivals=sped_up(evaluation.arrivals, ratio))
