"""Latency of a server that gathers samples into batches: Poisson arrivals, at most so many in a batch, held back at most so long.

A free server starts a batch when `max_batch` samples wait, or when the oldest has waited `max_delay_s` (the dynamic batchers of Triton
Inference Server and TorchServe). A batch of b takes t(b); what comes meanwhile waits.

The batches form a Markov chain: the state is the size of a batch, and what it left behind where it is full. λ·t(b) more come on average
while it runs (Poisson). If enough wait then, the next is full; if some wait, more are gathered for what is left of the delay of the oldest
(the first of k arrivals during t comes at t/(k + 1) on average); if none, the server is idle until one comes, and gathers for the whole delay.
The chain is solved for its steady state (bulk-service queue: Bailey 1954; Neuts 1967), and each sample's latency = rest of the batch in work
+ full batches ahead + gathering + its own batch, weighed over all states. At λ >= max_batch / t(max_batch) the queue grows without bound.

The tests hold it against a discrete-event simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

HELD = 7
"""Points between no delay and all of it for which gathering is worked out; straight lines between."""
FINE = 65
"""The same for the mean time of gathering."""
FEWEST_RANKS, RANKS, CELLS = 4, 16, 200_000
"""Places within a service, or a gathering, at which a sample is taken to arrive: as many as keep to so many cells, between the two."""
MANY_SD = 8.0
"""Standard deviations of arrivals by which the most in a batch must exceed their mean for it to bear on nothing."""
LEAST_LEFT = 24
"""Samples that a full batch may leave behind before the rest is put with the last, at least."""
BUSIEST = 0.97
"""Share of the capacity beyond which waits are scaled by heavy-traffic theory: the chain would need ever more states."""
TINY = 1e-300
RAREST = 1e-6
"""Chance of a state with its arrivals, over that of the likeliest, below which it is neglected."""
TAIL = 14.0
"""The chance of more left behind falls by e each 1 / (2 (1 - utilisation)) samples; after so many falls the rest is neglected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """A batching server under load. Latencies in the order of the quantiles asked; infinite where the queue grows without bound."""

    latency_s: tuple[float, ...]
    mean_latency_s: float
    throughput_per_s: float
    capacity_per_s: float
    mean_batch: float  # of batches, each counting once
    busy: float  # share of the time in which a batch runs

    @property
    def stable(self) -> bool:
        """Return whether the queue has a steady state."""
        return math.isfinite(self.mean_latency_s)


def batching_latency(
    rate_per_s: float,
    batch_times_s: Sequence[float] | Array,
    max_batch: int,
    max_delay_s: float,
    quantiles: Sequence[float],
) -> Batching:
    """Return latencies and load of one server; `batch_times_s[b - 1]` is t(b), for b up to `max_batch` at least.

    Example: t = 10 ms whatever the batch, one sample at a time, no delay, 50/s: the M/D/1 queue, mean 10 + 5 ms.
    """
    times = np.asarray(batch_times_s, dtype=np.float64)[:max_batch]
    if not rate_per_s > 0 or max_batch < 1 or times.size < max_batch or max_delay_s < 0:
        raise ValueError(
            "a positive rate, a batch of one or more with a time for each size, and a delay that is not negative"
        )
    capacity = max_batch / float(times[-1])
    used = rate_per_s / capacity
    if used >= 1:
        endless = tuple(math.inf for _ in quantiles)
        return Batching(
            latency_s=endless,
            mean_latency_s=math.inf,
            throughput_per_s=capacity,
            capacity_per_s=capacity,
            mean_batch=float(max_batch),
            busy=1.0,
        )
    if used > BUSIEST * (1 + 1e-9):  # rounding
        below = batching_latency(BUSIEST * capacity, times, max_batch, max_delay_s, quantiles)
        return _busier(below, rate_per_s, quantiles, longest_s=float(times[-1]), max_batch=max_batch)
    max_batch = _reached(rate_per_s, times, max_delay_s)
    times = times[:max_batch]
    used = rate_per_s * float(times[-1]) / max_batch
    left = max(LEAST_LEFT, math.ceil(TAIL / (2 * (1 - used))))
    chain = _chain(rate_per_s, times, max_delay_s, left)
    latency, weight = _latencies(rate_per_s, times, chain)
    order = np.argsort(latency)
    reached = np.cumsum(weight[order]) / weight.sum()
    at = np.minimum(np.searchsorted(reached, np.asarray(quantiles, dtype=np.float64) - 1e-12), latency.size - 1)
    sizes = np.concatenate([np.arange(1, max_batch), np.full(left + 1, max_batch)])
    mean_batch = float(chain.share @ sizes)
    return Batching(
        latency_s=tuple(float(x) for x in latency[order][at]),
        mean_latency_s=float(latency @ weight / weight.sum()),
        throughput_per_s=rate_per_s,
        capacity_per_s=capacity,
        mean_batch=mean_batch,
        busy=min(1.0, rate_per_s / mean_batch * float(chain.share @ chain.service_s)),
    )


def _busier(
    below: Batching, rate_per_s: float, quantiles: Sequence[float], *, longest_s: float, max_batch: int
) -> Batching:
    """Return a server near saturation from one at `BUSIEST`: what is left behind is a geometric number of samples with mean u / (2 (1 - u)).

    Heavy traffic (Kingman 1961): λt come while a batch of M runs, with variance λt, and M are taken. Each waits t/M longer for each ahead.
    """
    used = rate_per_s / below.capacity_per_s
    longer = longest_s / max_batch / 2 * (1 / (1 - used) - 1 / (1 - BUSIEST))
    calmer = (1 - used) / (1 - BUSIEST)
    return Batching(
        latency_s=tuple(s + longer * math.log(1 / (1 - q)) for s, q in zip(below.latency_s, quantiles, strict=True)),
        mean_latency_s=below.mean_latency_s + longer,
        throughput_per_s=rate_per_s,
        capacity_per_s=below.capacity_per_s,
        mean_batch=max_batch - (max_batch - below.mean_batch) * calmer,
        busy=1 - (1 - below.busy) * calmer,
    )


def _reached(rate: float, times: Array, delay: float) -> int:
    """Return the least size that stands for the most in a batch: with it as the most, no more ever come while a batch runs and one is gathered."""
    come = rate * (times + delay)
    ample = come + MANY_SD * np.sqrt(come) + MANY_SD <= np.arange(1, times.size + 1)
    return int(np.argmax(ample)) + 1 if ample.any() else times.size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chain:
    """Steady state of the batches. States: sizes 1 … max - 1, then full batches that leave 0, 1, 2 … behind."""

    share: Array  # [state]
    service_s: Array  # [state]
    behind: Array  # [state] left behind at the start
    arrivals: Array  # [state, k] chance of k arrivals during the service
    gathered_s: Array  # [state, q] mean time of gathering after q < max wait at the end
    idle_gathered: tuple[
        Array, Array, Array
    ]  # after the server was idle: times of gathering, their chances, how many join the first


def poisson(mean: Array, most: int) -> Array:
    """Return the chances of 0 … most events, as a last axis."""
    k = np.arange(most + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = k * np.log(mean)[..., None] - mean[..., None] - logs
    chance: Array = np.where(mean[..., None] > 0, np.exp(exponent), k == 0)
    return chance


def _chain(rate: float, times: Array, delay: float, left: int) -> _Chain:
    most = times.size
    states = most + left
    service = np.concatenate([times[:-1], np.full(left + 1, times[-1])])
    behind = np.concatenate([np.zeros(most - 1, dtype=np.intp), np.arange(left + 1)])
    arrivals = poisson(rate * service, states)
    waiting = np.zeros((states, most + left + 1))  # [state, q waiting at the end of the service]
    waiting[behind == 0] = arrivals[behind == 0, : most + left + 1]
    for row in np.flatnonzero(behind > 0):
        waiting[row, behind[row] :] = arrivals[row, : most + left + 1 - behind[row]]
    waiting[:, -1] += 1 - waiting.sum(axis=1)
    # What is left of the delay of the oldest: the first of q arrivals, or one that was left behind and has waited for the whole service.
    q = np.arange(1, most)
    oldest = np.where(behind[:, None] > 0, service[:, None], service[:, None] * q / (q + 1))
    held = np.clip(delay - oldest, 0.0, None) if most > 1 else np.zeros((states, 0))
    points = np.linspace(0.0, delay, HELD)
    more = poisson(rate * points, most)  # [point, N]
    reach = np.zeros((HELD, most, most))  # [point, q - 1, b - 1]: from q waiting to a batch of b
    for n in range(1, most + 1):
        reach[:, n - 1, n - 1 :] = more[:, : most - n + 1]
        reach[:, n - 1, -1] += 1 - reach[:, n - 1].sum(axis=1)
    step = np.zeros((states, states))
    step[:, most - 1 :] = waiting[:, most:]
    where = held / delay * (HELD - 1) if delay > 0 else np.zeros_like(held)
    low = np.minimum(where.astype(np.intp), HELD - 2)
    part = where - low
    for point in range(HELD):
        share = np.where(low == point, 1 - part, np.where(low == point - 1, part, 0.0)) * waiting[:, 1:most]
        step[:, :most] += share @ reach[point, : most - 1]
    step[:, :most] += waiting[:, :1] * reach[-1, :1]
    balance = step.T - np.eye(states)
    balance[-1] = 1.0
    goal = np.zeros(states)
    goal[-1] = 1.0
    room = most - np.arange(1, most + 1)  # places that are free beside q = 1 … max
    gathered = _between(held, delay, _gathered_s(rate, np.linspace(0.0, delay, FINE), room[: most - 1]))
    return _Chain(
        share=np.clip(np.linalg.solve(balance, goal), 0.0, None),
        service_s=service,
        behind=behind.astype(np.float64),
        arrivals=arrivals,
        gathered_s=gathered,
        idle_gathered=_idle_gathered(rate, delay, most - 1),
    )


def _idle_gathered(rate: float, delay: float, room: int) -> tuple[Array, Array, Array]:
    """Return times of gathering until the delay is over or `room` more have come, their chances, and how many have come by then.

    P(T > x) = P(N(x) < room), N Poisson of mean λx. All times but the last are of full batches; the last is the whole delay.
    """
    if room == 0 or delay == 0:
        return np.zeros(1), np.ones(1), np.zeros(1)
    edges = np.linspace(0.0, delay, RANKS + 1)
    fewer = poisson(rate * edges, room - 1)
    longer = fewer.sum(axis=-1)
    late = float(fewer[-1] @ np.arange(room)) / max(float(longer[-1]), TINY)
    return (
        np.append((edges[1:] + edges[:-1]) / 2, delay),
        np.append(longer[:-1] - longer[1:], longer[-1]),
        np.append(np.full(RANKS, float(room)), late),
    )


def _between(held: Array, delay: float, at: Array) -> Array:
    """Return values at times held [state, q] from those at `FINE` even points of the delay [point, q], on straight lines."""
    if delay <= 0 or held.size == 0:
        return np.zeros_like(held)
    where = held / delay * (FINE - 1)
    low = np.minimum(where.astype(np.intp), FINE - 2)
    column = np.arange(held.shape[1])[None, :]
    low_value = at[low, column]
    return np.asarray(low_value + (at[low + 1, column] - low_value) * (where - low), dtype=np.float64)


def _gathered_s(rate: float, held: Array, room: npt.NDArray[np.intp]) -> Array:
    """Return the mean time [held, room] until `held` is over or `room` more have come: E min(N, room) / λ, N Poisson (optional stopping)."""
    most = int(room.max(initial=0))
    chance = poisson(rate * held, most)
    counted = np.cumsum(np.arange(most + 1) * chance, axis=-1)
    within = np.cumsum(chance, axis=-1)
    last = np.maximum(room - 1, 0)
    return np.where(room > 0, (counted[:, last] + room * (1 - within[:, last])) / rate, 0.0)


def _latencies(rate: float, times: Array, chain: _Chain) -> tuple[Array, Array]:
    """Return latencies of all kinds of samples and how often each comes."""
    most = times.size
    sizes = np.arange(1, most + 1, dtype=np.float64)

    def taken(size: Array) -> Array:
        return np.interp(size, sizes, times)

    chances = chain.share[:, None] * chain.arrivals[:, 1:]
    state, column = np.nonzero(chances > RAREST * chances.max())
    chance, k = chances[state, column], column + 1.0
    ranks = min(RANKS, max(FEWEST_RANKS, CELLS // max(chance.size, 1)))
    place = (np.arange(ranks) + 0.5) / ranks
    service, behind = chain.service_s[state], chain.behind[state]
    waiting = behind + k
    at = np.clip(waiting.astype(np.intp) - 1, 0, max(most - 2, 0))
    gather = np.where(waiting < most, chain.gathered_s[state, at], 0.0) if most > 1 else np.zeros_like(waiting)
    size = np.minimum(waiting + rate * gather, most)
    # those that come during a service
    ahead = np.floor((behind[..., None] + np.ceil(place * k[..., None]) - 1) / most)
    last = np.where(
        ahead > 0,
        np.clip(waiting[..., None] - ahead * most + rate * ahead * times[-1], 1, most),
        size[..., None],
    )
    during = service[..., None] * (1 - place) + ahead * times[-1] + gather[..., None] + taken(last)
    latencies = [during.ravel()]
    weights = [np.broadcast_to((chance * k / ranks)[..., None], during.shape).ravel()]
    # those that come while more are gathered
    gathering = gather[..., None] * (1 - place) + taken(size)[..., None]
    latencies.append(gathering.ravel())
    weights.append(np.broadcast_to((chance * rate * gather / ranks)[..., None], gathering.shape).ravel())
    # those that find the server idle, or come while it gathers after that
    nobody = float(chain.share @ np.where(chain.behind == 0, chain.arrivals[:, 0], 0.0))
    wait, often, others = chain.idle_gathered
    own = taken(1 + others)
    full = others[:-1] >= most - 1  # the last of those that fill a batch waits no more, the others evenly before it
    rest = np.broadcast_to(1 - place, (wait.size, ranks)).copy()
    rest[:-1][full] = 1 - np.ceil(place * (most - 1)) / max(most - 1, 1)
    latencies += [wait + own, (wait[:, None] * rest + own[:, None]).ravel()]
    weights += [nobody * often, np.broadcast_to((nobody * often * others / ranks)[:, None], rest.shape).ravel()]
    latency, weight = np.concatenate(latencies), np.concatenate(weights)
    kept = weight > weight.max() * 1e-12
    return latency[kept], weight[kept]
