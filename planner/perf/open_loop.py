"""Layouts under requests that come at random: replicas out of a surface of step times, and the most that each takes within the limits."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from planner.perf.model import InferenceWork
from planner.perf.queue_limits import COARSE_ROUNDS, most_rates
from planner.perf.queue_serving import Replica

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

BEYOND = (0, 1, 2, 4)
"""Steps of the grid above the most that keeps the limits in a closed loop: random arrivals seldom fill the slots, so more of them may pay."""


class Steps(Protocol):
    """Step times of candidates over concurrencies, as `inference.Surface` has them."""

    @property
    def concurrency(self) -> Array:
        """Requests in flight [candidate, grid], ascending from 1 to the room of each."""

    @property
    def decode_s(self) -> Array:
        """Decode steps, s [candidate, grid]."""

    @property
    def prefill_s(self) -> Array:
        """Accelerator time of one prompt beside others, s [candidate, grid]."""

    @property
    def alone_s(self) -> Array:
        """Prefill of a lone prompt, s [candidate, 1]."""

    @property
    def chunk(self) -> Array:
        """Most prompt tokens of a step [candidate, 1]."""


def replicas_at(s: Steps, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp], work: InferenceWork) -> Replica:
    """Return replicas with as many slots as the concurrency of each cell."""
    grid = s.concurrency[rows]
    lone = np.broadcast_to(s.alone_s, s.concurrency.shape)[rows]
    return Replica(
        slots=s.concurrency[rows, columns],
        in_flight=grid,
        decode_s=np.broadcast_to(s.decode_s, s.concurrency.shape)[rows],
        prefill_s=np.where(grid <= 1, lone, np.broadcast_to(s.prefill_s, s.concurrency.shape)[rows]),
        step_tokens=s.chunk[rows, 0],
        input_tokens=float(work.input_tokens),
        output_tokens=float(work.output_tokens),
    )


def replica_at(s: Steps, row: int, column: int, work: InferenceWork) -> Replica:
    """Return the replica of one cell, without a leading axis; its grid ends at its slots."""
    one = replicas_at(s, np.array([row]), np.array([column]), work)
    end = column + 1
    return Replica(
        slots=one.slots[0],
        in_flight=one.in_flight[0, :end],
        decode_s=one.decode_s[0, :end],
        prefill_s=one.prefill_s[0, :end],
        step_tokens=one.step_tokens[0],
        input_tokens=one.input_tokens,
        output_tokens=one.output_tokens,
    )


def sustained_rates(s: Steps, kept: Flags, work: InferenceWork) -> Array:
    """Return the largest rate at which the limits hold [candidate, concurrency], requests/s of a replica; 0 in cells that are not tried.

    `kept`: where a closed loop keeps them. Tried are one slot, all that there is room for, and a few around the most that a closed loop may have.
    """
    count, width = s.concurrency.shape
    last = np.argmax(s.concurrency >= s.concurrency[:, -1:], axis=1)
    out = np.zeros((count, width))
    if work.max_concurrency is not None:
        tried = np.full((count, 1), width - 1)
    else:
        base = np.where(kept.any(axis=1), width - 1 - np.argmax(kept[:, ::-1], axis=1), 0)
        ends = np.stack([np.zeros_like(last), last], axis=1)
        tried = np.concatenate([ends, np.minimum(base[:, None] + np.array(BEYOND), last[:, None])], axis=1)
    cells = np.unique(np.arange(count)[:, None] * width + tried)
    rows, columns = cells // width, cells % width
    out[rows, columns] = most_rates(replicas_at(s, rows, columns, work), work.limits, rounds=COARSE_ROUNDS)
    return out
