"""How much more one accelerator could hold under a training layout: the largest micro-batch, and the longest sequence.

Activations, the block in work and the loss grow with the tokens (images …) of a micro-batch, all else stays: with f for the fitted factors,

    k = the largest with (state + f_a·k·activations + max(f_l·k·loss, f_a·k·block + working))·(1 + fragmentation) + reserve <= usable

so the micro-batch may be k times as large, or the sequence k times as long. Attention with the math backend keeps all pairs of tokens: there the
longest sequence is found by bisection over whole layouts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from planner.models.spec import ModelSpec
from planner.perf.memory import GIB
from planner.perf.model import TrainingWork
from planner.perf.training_memory import MemoryFactors, PeakTerms, Split, peak_bytes, peak_terms
from planner.perf.training_work import counted_in_tokens

MOST_TOKENS = 2**24
"""Longest sequence that is looked for where the model has no limit of its own."""
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What one accelerator could hold at most; None where not even one sample or token fits, or samples are not counted in tokens."""

    micro_batch: int | None  # samples of the asked length or size
    sequence_tokens: int | None  # with the layout's micro-batch
    sequence_tokens_of_one: int | None  # with a micro-batch of one


def room_of(
    spec: ModelSpec,
    work: TrainingWork,
    precision: str,
    *,
    terms: PeakTerms,
    split: Split,
    factors: MemoryFactors,
    usable_bytes: float,
    host_bytes: float = math.inf,
) -> Room:
    """Return the room under one layout, whose fields are floats; `terms`: what it holds (`peak_terms`).

    `usable_bytes`: of the accelerator; `host_bytes`: of host memory that the accelerator's offloaded activations may take. Accumulation
    stays as it is. Sequences end at the model's context.
    """
    more = growth(terms, factors, usable_bytes=usable_bytes, host_bytes=host_bytes)
    asked, batch = work.sequence_length, float(np.asarray(split.micro_batch))
    largest = math.floor(batch * more + ROUNDING) if math.isfinite(more) else None
    if not counted_in_tokens(spec):
        return Room(micro_batch=largest or None, sequence_tokens=None, sequence_tokens_of_one=None)
    limit = MOST_TOKENS if spec.max_context is None else spec.max_context

    def longest(at: Split, tokens: float) -> int | None:
        if work.attention_backend == "math":
            return most(lambda n: held(n, at), limit) or None
        return math.floor(min(tokens + ROUNDING, limit)) or None

    def held(tokens: int, at: Split) -> bool:
        found = peak_terms(spec, replace(work, sequence_length=tokens), precision, at)
        return float(peak_bytes(found, factors)) <= usable_bytes and float(found.hosted) <= host_bytes

    return Room(
        micro_batch=largest or None,
        sequence_tokens=longest(split, asked * more),
        sequence_tokens_of_one=longest(replace(split, micro_batch=1.0), asked * batch * more),
    )


def growth(terms: PeakTerms, factors: MemoryFactors, *, usable_bytes: float, host_bytes: float = math.inf) -> float:
    """Return k of the module's formula for one layout; 0 where the state alone does not fit, inf where nothing grows."""
    apart = float(terms.outside) * float(factors.reserve_gib) * GIB
    state = float(terms.weights) + float(terms.gradients) + float(terms.optimizer)
    left = (usable_bytes - apart) / (1 + float(factors.fragmentation)) - state
    kept, block = (float(factors.activations) * float(x) for x in (terms.activations, terms.block))
    loss = float(factors.loss) * float(terms.loss)
    ends = ((left, kept + loss), (left - float(terms.working), kept + block), (host_bytes, float(terms.hosted)))
    return max(0.0, min(room / grows if grows > 0 else math.inf if room >= 0 else 0.0 for room, grows in ends))


def most(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest whole number from 1 to a limit that fits, by bisection; 0 where 1 does not."""
    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
