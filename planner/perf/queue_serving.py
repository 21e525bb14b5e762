"""Latency of one replica whose requests come at random: Poisson arrivals, continuous batching, a limited number of slots (open loop).

Symbols: λ arrivals a second, B slots, I input tokens, O output tokens, m prompt tokens of a step, t(n) decode step with n in flight,
p(n) accelerator time of one prompt, c = I/m steps that a prompt fills, k = ⌈c⌉ steps that it takes.

- In flight. n requests end at the rate φ(n) = n / S(n), S(n) = (O - 1)·t(n) + k·t(n - 1) + n·p(n): what a closed loop with n in flight
  serves. With arrivals at λ that is a birth-death chain, P(n) ∝ Π λ/φ(i), φ constant from B on, and from O/c on, where prompts fill every
  step. (Flow-equivalent server: Chandy, Herzog, Woo 1975. Processor sharing: insensitive to lengths.) u = λ/φ(B) is the utilisation; at
  u >= 1 nothing is steady and every quantile is infinite. N = mean of min(n, B); mean time in a slot = N/λ (Little 1961).
- Wait for a slot: with probability P(n >= B), then exponential with mean f/(φ(B) - λ); f is 1 for exponential lengths and, for equal ones,
  (1 + (1 - u)(B - 1)(√(4 + 5B) - 2)/(16uB))/2 (Cosmetatos 1976); between them linear in the squared variation (Björklund, Elldin 1964).
- TTFT of a request with a slot. Nothing in flight: p(1). Else, prompts that fit into a step: step C = t/(1 - ρ) on average, ρ = λ·p, since a
  step carries the prompts that came during the one before; the request waits for the rest of the running step (length-biased) and then for
  its own, with the others that came meanwhile: (U + ρ)·C_b + t + p. Longer prompts: M/D/1 with service c·t + p, then k·t + p.
- TPOT: mean (N/λ - mean TTFT)/(O - 1). Its variance: N requests found and N that come, each a shot of (t' = dt/dn) t'·O·(share of the
  stay it overlaps) + p: N·(A·(2/3·(t'O)² + t'O·p) + A²·p²)/(O - 1)², A = Var(n)/N; never above a step full of prompts.
- Quantiles: gamma distributions with these moments (Wilson, Hilferty 1931), mixed by the chances above.
- λ → 0 gives a lone request: TTFT p(1), TPOT t(1).

Lengths: prompts alike, output lengths with a coefficient of variation of `LENGTH_VARIATION` about O; the figures are those of a request with
exactly I and O. The tests hold every figure against a discrete-event simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LENGTH_VARIATION = 0.2 / math.sqrt(3)
"""Coefficient of variation of output lengths: spread evenly over ±20 %, as in the closed loop."""

POINTS, ROUNDS = 17, 6
"""Points and rounds of the search for a quantile: exact to 16⁻⁶ = 6e-8 of the bracket from which it starts."""

TINY_S = 1e-15
"""What stands for a mean of nothing, so that it can be divided by."""

LEAST_CALM = 0.5
"""Share of the time without prompts below which they do not widen the distribution of what is in flight any more."""

BUSIEST_PROMPTS = 0.99
"""Utilisation of the prompt stage beyond which the slots, not the queue formula, bound the wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Step times of one replica (or of many: leading axes) at a grid of requests in flight (last axis), seconds."""

    slots: Array  # most requests in flight
    in_flight: Array  # ascending; begins at 1
    decode_s: Array
    prefill_s: Array  # accelerator time of one prompt
    step_tokens: Array  # most prompt tokens in one step
    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The steady state of replicas under load. Seconds; one figure per rate and replica."""

    rate_per_s: Array
    capacity_per_s: Array
    in_flight: Array  # N, mean requests in a slot
    idle: Array  # chance that nothing is in flight
    waiting: Array  # chance that every slot is taken
    slot_wait_s: Array  # mean wait of those that find every slot taken
    slot_wait_variance: Array
    floor_s: Array  # TTFT of a lone request
    own_s: Array  # own prompt among others, with the steps beside it
    ahead_s: Array  # mean wait for the running step and for prompts ahead, of those that find others in flight
    ahead_variance: Array
    tpot_s: Array  # mean
    tpot_variance: Array
    tpot_floor_s: Array
    tpot_ceiling_s: Array
    gap_s: Array  # decode step without prompts
    prompt_gap_s: Array  # what one prompt (or the chunk of a step) adds to a step
    prompts_per_step: Array
    most_prompts: Array  # that one step begins
    steps: float  # O - 1

    @property
    def utilisation(self) -> Array:
        """Return λ / capacity."""
        return self.rate_per_s / self.capacity_per_s

    @property
    def stable(self) -> npt.NDArray[np.bool_]:
        """Return whether the queue has a steady state."""
        return self.rate_per_s < self.capacity_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLatency:
    """Seconds at one quantile under arrivals; infinite where the queue grows without bound. NaN: a single output token has no gaps."""

    ttft: Array
    tpot: Array
    itl: Array
    e2e: Array


def normal_cdf(x: Array) -> Array:
    """Return Φ(x), to 7.5e-8 (Abramowitz, Stegun 1964, 26.2.17)."""
    k = 1 / (1 + 0.2316419 * np.abs(x))
    poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * poly
    return np.where(x >= 0, 1 - tail, tail)


def gamma_cdf(x: Array, mean: Array, variance: Array) -> Array:
    """Return P(X <= x) of a gamma distribution by its mean and variance; a step at the mean where the variance is nil."""
    mean = np.maximum(mean, TINY_S)
    shape = mean * mean / np.maximum(variance, 1e-18 * mean * mean)
    cube = np.cbrt(np.maximum(x, 0.0) / mean)
    return np.where(x <= 0, 0.0, normal_cdf((cube - 1 + 1 / (9 * shape)) * 3 * np.sqrt(shape)))


def per_count(replica: Replica) -> tuple[Array, Array, Array]:
    """Return n = 1 … most slots, and t(n) and p(n) with n as the last axis: straight lines between the points of the grid."""
    most = int(np.max(replica.slots))
    n = np.arange(1, most + 1, dtype=np.float64)
    shape = np.broadcast_shapes(replica.in_flight.shape, replica.decode_s.shape, replica.prefill_s.shape)
    width = shape[-1]
    grids, decode, prefill = (
        np.broadcast_to(a, shape).reshape(-1, width) for a in (replica.in_flight, replica.decode_s, replica.prefill_s)
    )
    steps = np.stack([np.interp(n, g, v) for g, v in zip(grids, decode, strict=True)])
    prompts = np.stack([np.interp(n, g, v) for g, v in zip(grids, prefill, strict=True)])
    return n, steps.reshape(*shape[:-1], most), prompts.reshape(*shape[:-1], most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What does not hang on the rate: step times and the rates φ(n) at which requests end, n = 1 … most slots as the last axis."""

    n: Array
    steps: Array
    prompts: Array
    log_deaths: Array  # Σ log φ(i), i = 1 … n
    slots: Array
    carried: Array  # in flight beyond which every step is full of prompts
    capacity: Array
    fill: Array
    chunks: Array
    output_tokens: float


def service_of(replica: Replica) -> Service:
    """Return what replicas do at each number in flight."""
    n, steps, prompts = per_count(replica)
    isl, osl = replica.input_tokens, replica.output_tokens
    fill = isl / np.asarray(replica.step_tokens, dtype=np.float64)
    chunks = np.ceil(fill)
    before = np.concatenate([np.zeros_like(steps[..., :1]), steps[..., :-1]], axis=-1)
    death = n / ((osl - 1) * steps + chunks[..., None] * before + n * prompts)
    slots = np.asarray(replica.slots, dtype=np.float64)
    carried = np.minimum(slots, np.maximum(1.0, np.floor(osl / fill)))
    at_most = np.take_along_axis(
        np.broadcast_to(death, (*np.broadcast_shapes(carried.shape, death.shape[:-1]), n.size)),
        (carried[..., None] - 1).astype(np.intp),
        axis=-1,
    )
    death = np.where(n >= carried[..., None], at_most, death)
    return Service(
        n=n,
        steps=steps,
        prompts=prompts,
        log_deaths=np.cumsum(np.log(death), axis=-1),
        slots=slots,
        carried=carried,
        capacity=at_most[..., 0],
        fill=fill,
        chunks=chunks,
        output_tokens=osl,
    )


def queue_at(replica: Replica, rate_per_s: Array, *, length_variation: float = LENGTH_VARIATION) -> Queue:
    """Return the steady state of replicas at arrival rates (more than 0, broadcast against the replicas)."""
    return queue_of(service_of(replica), rate_per_s, length_variation=length_variation)


def queue_of(service: Service, rate_per_s: Array, *, length_variation: float = LENGTH_VARIATION) -> Queue:
    """Return the steady state at arrival rates (more than 0, broadcast against the replicas)."""
    n, steps, prompts, slots, capacity = service.n, service.steps, service.prompts, service.slots, service.capacity
    fill, chunks, osl, carried = service.fill, service.chunks, service.output_tokens, service.carried
    rate = np.asarray(rate_per_s, dtype=np.float64)
    used = np.minimum(rate / capacity, 1 - 1e-9)
    weight = n * np.log(rate)[..., None] - service.log_deaths
    weight = np.where(n > slots[..., None], -np.inf, weight)
    full = n == slots[..., None]
    idle, share = chances(weight, full, used)
    # A prompt holds up all others at once: in flight varies 1/(1 - ρ) times as much as the chain says, which bears on the full slots alone.
    calm = np.maximum(1 - rate * at_count(prompts, carried)[0] * (1 - 1 / slots), LEAST_CALM)
    waiting = np.where(full, chances(weight * calm[..., None], full, used)[1], 0.0).sum(axis=-1)
    busy = 1 - idle
    flying = (n * share).sum(axis=-1)
    spread = np.maximum((n * n * share).sum(axis=-1) - flying * flying, 0.0)
    others = np.minimum(
        flying / np.maximum(share.sum(axis=-1), TINY_S), slots - 1
    )  # in flight beside a request that does not find the replica idle
    step, slope = at_count(steps, np.maximum(others, 1.0))
    step = step * np.minimum(others, 1.0)
    prompt, _ = at_count(
        prompts, np.minimum(np.maximum(others, 1.0) + 1, slots)
    )  # its own request is in flight as well
    lone, first = prompts[..., 0], steps[..., 0]
    ahead, ahead_variance, own = prompt_stage(rate, step, prompt, fill, chunks)
    mean_ttft = idle * lone + busy * (own + ahead)
    after_first = max(osl - 1, 1.0)
    ceiling = step + prompt * np.minimum(1.0, 1 / fill) * np.maximum(1.0, np.floor(1 / fill))
    tpot = np.clip((flying / rate - mean_ttft) / after_first, first, np.maximum(ceiling, first))
    growth = spread / flying
    shot = slope * osl
    tpot_variance = (
        flying
        * (growth * (shot * shot * 2 / 3 + shot * prompt) + growth * growth * prompt * prompt)
        / (after_first * after_first)
    )
    # No more than Poisson shots do, nor than an exponential under load; and nothing varies more between two bounds (Bhatia, Davis 2000).
    tpot_variance = np.minimum(tpot_variance, (tpot - first) ** 2 * np.maximum(1.0, 2 / flying))
    tpot_variance = np.minimum(tpot_variance, (tpot - first) * (np.maximum(ceiling, first) - tpot))
    wait, wait_variance = slot_wait(capacity * (1 - used), used, slots, length_variation)
    return Queue(
        rate_per_s=np.broadcast_to(rate, capacity.shape) if rate.ndim < capacity.ndim else rate,
        capacity_per_s=capacity,
        in_flight=flying,
        idle=idle,
        waiting=waiting,
        slot_wait_s=wait,
        slot_wait_variance=wait_variance,
        floor_s=lone + 0 * flying,
        own_s=np.maximum(own, lone),
        ahead_s=ahead,
        ahead_variance=ahead_variance,
        tpot_s=tpot,
        tpot_variance=tpot_variance,
        tpot_floor_s=first + 0 * flying,
        tpot_ceiling_s=np.maximum(ceiling, first),
        gap_s=at_count(steps, np.minimum(others + 1, slots))[0],
        prompt_gap_s=prompt * np.minimum(1.0, 1 / fill),
        prompts_per_step=rate * step / np.maximum(1 - rate * prompt, 1e-9) * np.maximum(fill, 1.0),
        most_prompts=np.maximum(1.0, np.floor(1 / fill)) + 0 * flying,
        steps=osl - 1,
    )


def chances(weight: Array, full: npt.NDArray[np.bool_], used: Array) -> tuple[Array, Array]:
    """Return the chances of nothing and of n = 1 … in flight from log weights; all who wait are counted with the full slots."""
    peak = np.maximum(weight.max(axis=-1, keepdims=True), 0.0)
    share = np.exp(weight - peak)
    share = np.where(full, share / (1 - used[..., None]), share)
    nothing = np.exp(-peak[..., 0])
    total = nothing + share.sum(axis=-1)
    return nothing / total, share / total[..., None]


def at_count(values: Array, count: Array) -> tuple[Array, Array]:
    """Return values(n) at a count that need not be whole (n = 1 … along the last axis), and their slope there."""
    last = values.shape[-1] - 1
    values = np.broadcast_to(values, (*np.broadcast_shapes(values.shape[:-1], count.shape), last + 1))
    low = np.clip(np.floor(count).astype(np.intp) - 1, 0, max(last - 1, 0))
    high = np.minimum(low + 1, last)
    a = np.take_along_axis(values, low[..., None], axis=-1)[..., 0]
    b = np.take_along_axis(values, high[..., None], axis=-1)[..., 0]
    slope: Array = b - a
    return a + slope * np.clip(count - 1 - low, 0.0, 1.0), slope


def prompt_stage(rate: Array, step: Array, prompt: Array, fill: Array, chunks: Array) -> tuple[Array, Array, Array]:
    """Return mean and variance of the wait for the running step and the prompts ahead, and the time of the own prompt beside others."""
    load = np.minimum(rate * prompt, BUSIEST_PROMPTS)
    # Prompts that share a step: moments of the step by cumulants of a compound Poisson sum, then biased by length.
    mean = step / (1 - load)
    variance = rate * mean * prompt**2 / (1 - load**2)
    third = (prompt**3 * rate * mean + 3 * load**2 * prompt * variance) / (1 - load**3)
    mean = np.maximum(mean, TINY_S)
    biased = (variance + mean**2) / mean
    biased_square = (third + 3 * mean * variance + mean**3) / mean
    shared = biased * (0.5 + load)
    shared_variance = biased_square * (1 / 3 + load + load**2) - shared**2 + rate * biased * prompt**2
    # Prompts of several steps: M/D/1 behind those ahead, or the rest of a step of others where none is ahead.
    service = fill * step + prompt
    busy = np.minimum(rate * service, BUSIEST_PROMPTS)
    queue = busy / (2 * (1 - busy)) * service
    lined = (1 - busy) * step / 2 + queue
    lined_variance = (1 - busy) * step**2 / 12 + queue**2 + busy / (3 * (1 - busy)) * service**2
    fits = fill <= 1
    return (
        np.where(fits, shared, lined),
        np.where(fits, shared_variance, lined_variance),
        chunks * step + prompt,
    )


def slot_wait(spare: Array, used: Array, slots: Array, variation: float) -> tuple[Array, Array]:
    """Return mean and variance of the wait of a request that finds every slot taken: f / (capacity - rate).

    Its squared variation is 1 for exponential lengths; for equal ones it goes from 1/3 (the rest of one request, even) to 1 (a long queue).
    """
    alike = (1 + (1 - used) * (slots - 1) * (np.sqrt(4 + 5 * slots) - 2) / (16 * np.maximum(used, 1e-9) * slots)) / 2
    square = min(variation * variation, 1.0)
    mean = (square + (1 - square) * np.minimum(alike, 1.0)) / spare
    return mean, mean * mean * (square + (1 - square) * (1 + 2 * used) / 3)


def ttft_chance(queue: Queue, x: Array) -> Array:
    """Return P(TTFT <= x)."""
    q = queue
    free = np.maximum(1 - q.idle - q.waiting, 0.0)
    near = gamma_cdf(x - q.own_s, q.ahead_s, q.ahead_variance)
    far = gamma_cdf(x - q.own_s, q.ahead_s + q.slot_wait_s, q.ahead_variance + q.slot_wait_variance)
    return np.where(x >= q.floor_s, q.idle, 0.0) + free * near + q.waiting * far


def tpot_chance(queue: Queue, x: Array) -> Array:
    """Return P(TPOT <= x)."""
    extra = np.maximum(queue.tpot_s - queue.tpot_floor_s, 0.0)
    return gamma_cdf(x - queue.tpot_floor_s, extra, queue.tpot_variance)


def e2e_parts(queue: Queue) -> tuple[Array, Array, Array]:
    """Return the end-to-end time of a lone request, and mean and variance of what comes on top where a slot is free."""
    q = queue
    busy = 1 - q.idle
    late = busy * (q.own_s - q.floor_s + q.ahead_s) + q.steps * np.maximum(q.tpot_s - q.tpot_floor_s, 0.0)
    return (
        q.floor_s + q.steps * q.tpot_floor_s,
        late,
        busy * q.ahead_variance + q.steps**2 * q.tpot_variance,
    )


def e2e_chance(queue: Queue, x: Array) -> Array:
    """Return P(end to end <= x), before what TTFT alone says of it."""
    q = queue
    floor, late, variance = e2e_parts(q)
    near = gamma_cdf(x - floor, late, variance)
    far = gamma_cdf(x - floor, late + q.slot_wait_s, variance + q.slot_wait_variance)
    return (1 - q.waiting) * near + q.waiting * far


def quantile_of(queue: Queue, quantile: float) -> OpenLatency:
    """Return the latencies that a share `quantile` of requests stays within, s."""
    q = queue
    spread = q.ahead_s + q.slot_wait_s + np.sqrt(q.ahead_variance + q.slot_wait_variance)
    furthest = np.maximum(q.own_s, q.floor_s) + 60 * spread
    first = least(lambda x: ttft_chance(q, x), quantile, q.floor_s, furthest, stable=q.stable)
    if q.steps < 1:
        none = np.full_like(first, np.nan)
        return OpenLatency(ttft=first, tpot=none, itl=none, e2e=first)
    furthest = q.tpot_s + 60 * (np.maximum(q.tpot_s - q.tpot_floor_s, 0.0) + np.sqrt(q.tpot_variance))
    each = least(lambda x: tpot_chance(q, x), quantile, q.tpot_floor_s, furthest, stable=q.stable)
    each = np.where(q.stable, np.minimum(each, q.tpot_ceiling_s), np.inf)
    floor, late, variance = e2e_parts(q)
    furthest = floor + 60 * (late + q.slot_wait_s + np.sqrt(variance + q.slot_wait_variance))
    total = least(lambda x: e2e_chance(q, x), quantile, floor, furthest, stable=q.stable)
    total = np.maximum(total, first + q.steps * q.tpot_floor_s)  # no request ends sooner than that
    return OpenLatency(ttft=first, tpot=each, itl=gap_at(q, quantile), e2e=total)


def gap_at(queue: Queue, quantile: float) -> Array:
    """Return the gap between two tokens at a quantile: a decode step, with as many prompts as come in one (Poisson)."""
    several, chance = np.zeros_like(queue.gap_s), np.exp(-queue.prompts_per_step)
    reached, term = chance.copy(), chance.copy()
    for k in range(1, 9):
        several = np.where(reached < quantile, float(k), several)
        term = term * queue.prompts_per_step / k
        reached = reached + term
    several = np.minimum(several, queue.most_prompts)
    return np.where(queue.stable, queue.gap_s + several * queue.prompt_gap_s, np.inf)


def least(
    cdf: Callable[[Array], Array], quantile: float, low: Array, high: Array, *, stable: npt.NDArray[np.bool_]
) -> Array:
    """Return the least x with cdf(x) >= quantile between two bounds (the search adds a first axis); infinite where nothing is steady."""
    low, high = np.broadcast_arrays(low, high)
    parts = np.linspace(0.0, 1.0, POINTS).reshape(-1, *([1] * low.ndim))
    for _ in range(ROUNDS):
        x = low + (high - low) * parts
        index = np.argmax(cdf(x) >= quantile, axis=0)[None]
        low = np.take_along_axis(x, np.maximum(index - 1, 0), axis=0)[0]
        high = np.take_along_axis(x, index, axis=0)[0]
    return np.where(stable, high, np.inf)
