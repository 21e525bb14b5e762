"""Time that a run on interruptible capacity takes, in expectation.

References: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
Computer Systems 22 (2006) 303-312 (complete model, eq. 9 and 37); J. W. Young, Comm. ACM 17 (1974) 530.
Interruptions come as a Poisson process; the first one on any instance stops the whole job.
"""

from __future__ import annotations

import math

from pricing.money import HOURS_PER_MONTH

NEGLIGIBLE = (
    1e-15  # interruptions per segment below which binary floats cannot tell the expectation from the undisturbed time
)


def interruptions_per_hour(monthly_fraction: float, instances: int = 1) -> float:
    """Return the interruption rate per hour of a job on `instances`, from the share of instances interrupted in a month.

    If a share p is interrupted within 730 h at a constant rate, p = 1 - exp(-730 r), so r = -ln(1 - p) / 730; the job stops when any one stops.
    """
    if not 0 <= monthly_fraction < 1:
        raise ValueError(f"monthly interruption fraction must be in [0, 1), got {monthly_fraction!r}")
    return -math.log1p(-monthly_fraction) / HOURS_PER_MONTH * instances


def expected_hours(
    work_hours: float,
    *,
    interval_hours: float | None,
    write_hours: float = 0.0,
    restart_hours: float = 0.0,
    rate_per_hour: float,
) -> float:
    """Return the expected wall-clock hours of `work_hours` of computing under interruptions, checkpoint writes included.

    Daly's complete model: T = (1/r) e^(rR) (e^(r(tau + delta)) - 1) W / tau, with tau the work between checkpoints, delta the write,
    R the restart. `interval_hours` None: no checkpoints, one segment of the whole work. Infinite when it exceeds what a float holds.
    Example: W = 48.5, r = 0.15, no checkpoints: 9,618 h; tau = 0.5, free writes and restarts: 50.4 h.
    """
    if work_hours <= 0:
        return 0.0
    tau = work_hours if interval_hours is None else min(interval_hours, work_hours)
    delta = 0.0 if interval_hours is None else write_hours
    segments = work_hours / tau
    if rate_per_hour * (tau + delta) < NEGLIGIBLE:
        return work_hours + segments * delta
    try:
        return (
            math.exp(rate_per_hour * restart_hours)
            * math.expm1(rate_per_hour * (tau + delta))
            / rate_per_hour
            * segments
        )
    except OverflowError:
        return math.inf


def best_interval_hours(*, write_hours: float, rate_per_hour: float) -> float | None:
    """Return Daly's near-optimal work between checkpoints, hours; None when nothing interrupts or writing is free.

    With M = 1/r: sqrt(2 delta M) (1 + sqrt(delta / 2M)/3 + (delta / 2M)/9) - delta for delta < 2M, else M (eq. 37).
    """
    if rate_per_hour <= 0 or write_hours <= 0:
        return None
    mean = 1 / rate_per_hour
    if write_hours >= 2 * mean:
        return mean
    x = write_hours / (2 * mean)
    return math.sqrt(2 * write_hours * mean) * (1 + math.sqrt(x) / 3 + x / 9) - write_hours
