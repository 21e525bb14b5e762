"""Latency of one request when B requests are kept in flight (closed loop), from the step times of the roofline.

Symbols: t_d decode step of B requests, t_p accelerator time of one prompt, t_1 prefill of one prompt alone, I input tokens, O output
tokens, m tokens of a prefill step, n = ceil(I / m) steps of one prompt, R = O·t_d + B·t_p residence (Little's law with the
steady-state rate), s = R / O mean length of a step.

- TTFT = wait for the running step (uniform on 0..s) + n·t_d + t_1 + K·t_p + W. K, the prompts that share those steps, is Poisson with
  mean λ = (B - 1)·n / O·min(1, m/I): each of the others ends once in O steps. W, the prompts ahead when steps are full, is the wait of
  an M/D/1 queue with utilisation ρ = (B - 1)·I / (m·O) and service I/m full steps: mean ρ/(2(1-ρ))·D, variance W² + ρ/(3(1-ρ))·D².
  Quantiles by Cornish-Fisher: μ + z·σ + (z² - 1)/6·κ₃/σ².
- When prompts come faster than steps can take them (B·I / m > O), they queue, and TTFT = R - O·(t_d + t_p·m / I) at least.
- TPOT = (R - mean TTFT) / (O - 1). While a request generates, each other admits one prompt, give or take: with request lengths of mean
  absolute relative deviation δ the number varies by (B - 1)·δ (stationary renewal process over one mean period).
- End to end = TTFT + (O - 1)·TPOT, variances added.

Checked against a discrete-event simulation of continuous batching, which the tests keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LENGTH_DEVIATION = 0.1
"""δ: mean absolute deviation of output lengths over their mean, as for lengths spread evenly over ±20 %."""

BUSY_CEILING = 0.95
"""ρ beyond which the closed loop, not the queue formula, bounds the wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds at one quantile. `tpot` is NaN where a request has a single output token."""

    ttft: Array
    tpot: Array
    e2e: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A closed-loop operating point, seconds; arrays broadcast."""

    concurrency: Array
    input_tokens: float
    output_tokens: float
    step_tokens: Array  # m: most prompt tokens in one step
    decode_s: Array
    prefill_s: Array  # accelerator time per prompt in steady state
    alone_s: Array  # prefill of one prompt with nothing beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Means and deviations of a load, from which every quantile follows. Seconds."""

    ttft_mean: Array
    ttft_deviation: Array
    ttft_skew: Array  # κ₃ / σ²
    ttft_floor: Array
    tpot_mean: Array
    tpot_deviation: Array
    decode_s: Array
    steps: float


def residence_s(load: Load) -> Array:
    """Return the mean time a request is in flight, s: O·t_d + B·t_p."""
    return load.output_tokens * load.decode_s + load.concurrency * load.prefill_s


def moments_of(load: Load) -> Moments:
    """Return the moments of TTFT and TPOT of a load."""
    residence = residence_s(load)
    others = np.maximum(load.concurrency - 1, 0.0)
    shared = np.minimum(others, 1.0)  # a lone request starts at once, in a step of its own
    own_steps = np.ceil(load.input_tokens / load.step_tokens)
    fill = load.input_tokens / load.step_tokens
    admitted = np.minimum(others * own_steps / load.output_tokens, others) * np.minimum(1.0, 1 / fill)
    step = residence / load.output_tokens
    full_step = load.decode_s + load.prefill_s / fill
    busy = np.minimum(others * fill / load.output_tokens, BUSY_CEILING)
    queue = np.minimum(busy / (2 * (1 - busy)) * fill * full_step, others * load.prefill_s)
    queue_variance = queue**2 + busy / (3 * (1 - busy)) * (fill * full_step) ** 2
    floor = load.alone_s + shared * (own_steps - 1) * load.decode_s
    variance = shared * step**2 / 12 + admitted * load.prefill_s**2 + np.where(busy > 0, queue_variance, 0.0)
    deviation = np.sqrt(variance)
    skew = np.divide(admitted * load.prefill_s**3, variance, out=np.zeros_like(variance), where=variance > 0)
    crowded = residence - load.output_tokens * full_step
    mean = np.maximum(floor + shared * (step / 2 + load.decode_s) + admitted * load.prefill_s + queue, crowded)
    mean = np.maximum(
        np.minimum(mean, load.decode_s + load.concurrency * load.prefill_s), floor
    )  # every other prompt first
    steps = load.output_tokens - 1
    after_first = np.maximum(steps, 1.0)
    tpot_deviation = np.sqrt(others * LENGTH_DEVIATION) * load.prefill_s / after_first
    return Moments(
        ttft_mean=mean,
        ttft_deviation=deviation,
        ttft_skew=skew,
        ttft_floor=floor,
        tpot_mean=np.maximum((residence - mean) / after_first, load.decode_s),
        tpot_deviation=tpot_deviation,
        decode_s=load.decode_s,
        steps=steps,
    )


def quantile_of(moments: Moments, quantile: float) -> Latency:
    """Return TTFT, TPOT and end-to-end latency at a quantile (0.5, 0.9, 0.95, 0.99), s."""
    m, z = moments, NormalDist().inv_cdf(quantile)
    ttft = np.maximum(m.ttft_mean + z * m.ttft_deviation + (z * z - 1) / 6 * m.ttft_skew, m.ttft_floor)
    if m.steps < 1:
        return Latency(ttft=ttft, tpot=np.full_like(ttft, np.nan), e2e=ttft)
    tpot = np.maximum(m.tpot_mean + z * m.tpot_deviation, m.decode_s)
    spread = np.hypot(m.ttft_deviation, m.tpot_deviation * m.steps)
    e2e = np.maximum(m.ttft_mean + m.tpot_mean * m.steps + z * spread, m.ttft_floor + m.decode_s * m.steps)
    return Latency(ttft=ttft, tpot=tpot, e2e=e2e)


def latency_at(load: Load, quantile: float) -> Latency:
    """Return TTFT, TPOT and end-to-end latency of a load at a quantile, s."""
    return quantile_of(moments_of(load), quantile)
