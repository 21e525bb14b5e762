"""What limits a training step: its time in parts, and the part by which it is longer than arithmetic alone would make it."""

from __future__ import annotations

from collections.abc import Mapping

from planner.perf.training_step import StepTime

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "compute": ("compute", ("compute",)),
    "dequantise": ("dequantisation", ("dequantise",)),
    "launch": ("kernel launches", ("launch",)),
    "tensor": ("tensor collectives", ("exposed_tensor", "exposed_context")),
    "bubble": ("pipeline bubble and transfers", ("exposed_pipeline",)),
    "data": ("data-parallel traffic", ("exposed_data",)),
    "expert": ("expert exchange", ("exposed_expert",)),
    "offload": ("activation offload", ("offload",)),
    "optimizer": ("memory", ("optimizer",)),
    "host": ("host", ("host",)),
}
"""By short name: what limits when this part does, and the fields of `StepTime` that it adds up."""


WAITING_SHARE = 0.1
"""Share of a step below which what it waits for does not limit it."""


def seconds_of(time: StepTime, name: str, at: int) -> float:
    """Return the seconds of one part of one step."""
    return sum(float(getattr(time, field)[at]) for field in PARTS[name][1])


def limit_of(seconds: Mapping[str, float]) -> tuple[str, float]:
    """Return the largest part of a step beside its arithmetic, and its share; "compute" where arithmetic is most of the step.

    A step is limited by what it waits for: the largest of the other parts, unless all of them together are less than a tenth of it.
    `seconds`: by short name, as `seconds_of` gives them.
    """
    total = sum(seconds.values())
    waits = {name: value for name, value in seconds.items() if name != "compute"}
    waiting = sum(waits.values())
    name = max(waits, key=lambda n: waits[n])
    if waiting < WAITING_SHARE * total:
        return "compute", 1 - waiting / total
    return PARTS[name][0], waits[name] / total
