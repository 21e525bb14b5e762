"""What a training run costs: its hours by cause, and the bill of those hours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from planner.tco.assumptions import Assumptions
from planner.tco.model import CostLine, total
from planner.tco.spot import expected_hours
from pricing.money import Usd, UsdPerHour, from_measured

MINUTES_PER_HOUR = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHours:
    """Wall-clock hours of a run by cause. `lost` is the expectation of work done again and of restarts."""

    compute: float
    startup: float
    checkpoints: float
    evaluation: float
    lost: float

    @property
    def total(self) -> float:
        """All hours, start to end."""
        return self.compute + self.startup + self.checkpoints + self.evaluation + self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHours:
    """Hours of one checkpoint: until the storage has it, and how long training waits (less, where it is written in the background)."""

    durable: float
    blocking: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCost:
    """The bill of a run, USD. `usd_per_epoch` carries its share of start-up, checkpoints, evaluation and lost work."""

    lines: tuple[CostLine, ...]
    usd_per_hour: UsdPerHour
    usd_total: Usd
    usd_per_epoch: Usd


def run_hours(
    compute_hours: float, *, assumptions: Assumptions, checkpoint: CheckpointHours, interruptions_per_hour: float
) -> RunHours:
    """Return the hours of a run whose steps alone take `compute_hours`.

    Checkpoints: one each interval of work and one at the end, each blocking for its write (or for the copy that precedes a write in the
    background). Evaluation is a share of compute and is interrupted like it. Lost = Daly's expectation less the undisturbed time; 0 at
    rate 0. What was still being written in the background at an interruption is work to be done again, so it adds to the restart.
    """
    evaluation = compute_hours * assumptions.evaluation_fraction
    work = compute_hours + evaluation
    write = checkpoint.blocking
    interval = checkpoint_interval_hours(assumptions, write, least=checkpoint.durable)
    checkpoints = max(1, math.ceil(work / interval - 1e-9))
    lost = 0.0
    if interruptions_per_hour > 0:
        even = work / checkpoints
        disturbed = expected_hours(
            work,
            interval_hours=even,
            write_hours=write,
            restart_hours=assumptions.restart_minutes / MINUTES_PER_HOUR + checkpoint.durable - checkpoint.blocking,
            rate_per_hour=interruptions_per_hour,
        )
        lost = max(0.0, disturbed - work - checkpoints * write)
    return RunHours(
        compute=compute_hours,
        startup=assumptions.startup_minutes / MINUTES_PER_HOUR,
        checkpoints=checkpoints * write,
        evaluation=evaluation,
        lost=lost,
    )


def checkpoint_interval_hours(assumptions: Assumptions, write_hours: float, *, least: float = 0.0) -> float:
    """Return the work between two checkpoints, hours: as assumed, or longer where writing would exceed its limit.

    `least`: hours until the storage has a checkpoint; the next does not begin before.
    """
    assumed = assumptions.checkpoint_interval_minutes / MINUTES_PER_HOUR
    return max(assumed, write_hours / assumptions.checkpoint_overhead_limit_fraction, least)


def training_cost(hours: RunHours, *, price: UsdPerHour, instances: int, epochs: float, source: str) -> TrainingCost:
    """Return the bill of `hours` on `instances` instances; the total is the sum of the lines, the epoch its equal share."""
    causes = (
        ("compute", hours.compute),
        ("start_up", hours.startup),
        ("checkpoint_writing", hours.checkpoints),
        ("evaluation", hours.evaluation),
        ("expected_lost_work_and_restarts", hours.lost),
    )
    lines = tuple(
        CostLine.of(
            name=name,
            quantity=round(from_measured(spent * instances), 6),
            unit="instance-hour",
            unit_price=price.amount,
            source=source,
        )
        for name, spent in causes
        if spent > 0
    )
    usd = total(lines)
    return TrainingCost(
        lines=lines, usd_per_hour=price * instances, usd_total=usd, usd_per_epoch=usd / Decimal(from_measured(epochs))
    )


def kwh_total(*, power_w: float, pue: float, hours: RunHours) -> float:
    """Return kWh at the meter of a run: power under load for the hours that compute (first pass, evaluation and lost work), times PUE."""
    return power_w / 1000 * pue * (hours.compute + hours.evaluation + hours.lost)
