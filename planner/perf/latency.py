"""Latency of one request when B requests are kept in flight (closed loop), from the step times of the roofline.

Symbols: t_d decode step of B, t_p share of accelerator time one prompt takes, t_1 prefill of one prompt alone, O output tokens.
Residence R = O·t_d + B·t_p (Little's law with the steady-state rate). A new request waits for the running step (uniform: mean
t_d/2) and for prompts ahead of it. In a closed loop the other B-1 requests are each in their prefill with probability
f = t_p / R·B·(1/B), so the number ahead is binomial(B-1, t_p / R); its quantiles are those of a normal with continuity, floored at 0.
TTFT = wait + t_1; TPOT = (R - mean TTFT) / (O - 1), its spread from the binomially varying number of prompts admitted meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


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
    output_tokens: float
    decode_s: Array
    prefill_s: Array  # accelerator time per prompt in steady state
    alone_s: Array  # prefill of one prompt with nothing beside it


def residence_s(load: Load) -> Array:
    """Return the mean time a request is in flight, s: O·t_d + B·t_p."""
    return load.output_tokens * load.decode_s + load.concurrency * load.prefill_s


def latency_at(load: Load, quantile: float) -> Latency:
    """Return TTFT, TPOT and end-to-end latency at a quantile (0.5, 0.9, 0.95, 0.99), s."""
    z = NormalDist().inv_cdf(quantile)
    residence = residence_s(load)
    others = np.maximum(load.concurrency - 1, 0.0)
    busy = np.minimum(load.prefill_s / residence, 1.0)
    ahead_mean = others * busy
    ahead = np.maximum(ahead_mean + z * np.sqrt(others * busy * (1 - busy)), 0.0)
    in_step = np.where(others > 0, load.decode_s, 0.0)
    ttft = in_step * quantile + np.minimum(ahead, others) * load.prefill_s + load.alone_s
    mean_ttft = in_step * 0.5 + ahead_mean * load.prefill_s + load.alone_s
    steps = load.output_tokens - 1
    if steps < 1:
        return Latency(ttft=ttft, tpot=np.full_like(ttft, np.nan), e2e=ttft)
    mean_tpot = np.maximum((residence - mean_ttft) / steps, load.decode_s)
    # Prompts admitted while a request generates: about B of them, each a pause of t_p; their number varies as sqrt(B·(1 - 1/O)).
    spread = np.sqrt(others * (1 - 1 / load.output_tokens)) * load.prefill_s / steps
    tpot = np.maximum(mean_tpot + z * spread, load.decode_s)
    e2e_spread = np.hypot(spread * steps, np.sqrt(others * busy * (1 - busy)) * load.prefill_s)
    e2e = np.maximum(mean_ttft + mean_tpot * steps + z * e2e_spread, ttft + load.decode_s * steps * (quantile <= 0.5))
    return Latency(ttft=ttft, tpot=tpot, e2e=e2e)
