"""What limits a training step: its time in parts, and the part by which it is longer than arithmetic alone would make it."""

from __future__ import annotations

from collections.abc import Mapping

from planner.perf.training_step import StepTime

PARTS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "compute": ("compute", ("compute", "dequantise"), "accumulation x work of the micro-batches on the device"),
    "launch": ("kernel launches", ("launch",), "the device waits for the host to launch kernels"),
    "tensor": ("tensor collectives", ("exposed_tensor", "exposed_context"), "collectives inside layers"),
    "bubble": (
        "pipeline bubble and transfers",
        ("exposed_pipeline",),
        "(p - 1) micro-batches that fill and drain the pipeline, and sends",
    ),
    "data": (
        "data-parallel traffic",
        ("exposed_data",),
        "gradients and sharded weights that computation does not hide",
    ),
    "expert": ("expert exchange", ("exposed_expert",), "tokens to their experts and back"),
    "offload": (
        "activation offload",
        ("offload",),
        "activations to host memory and back that computation does not hide",
    ),
    "optimizer": ("memory", ("optimizer",), "traffic of the optimizer's states"),
    "host": ("host", ("host",), "work of the host in each step"),
}
"""By short name: what limits when this part does, the fields of `StepTime` that it adds up, and what it is."""


WAITING_SHARE = 0.1
"""Share of a step below which what it waits for does not limit it."""


def parts_of(time: StepTime, at: int) -> dict[str, tuple[float, str]]:
    """Return the parts of one step: seconds and what they are."""
    return {name: (seconds_of(time, name, at), formula) for name, (_, _, formula) in PARTS.items()}


def seconds_of(time: StepTime, name: str, at: int) -> float:
    """Return the seconds of one part of one step."""
    return sum(float(getattr(time, field)[at]) for field in PARTS[name][1])


def limit_of(seconds: Mapping[str, float]) -> tuple[str, float]:
    """Return the largest part of a step beside its arithmetic, and its share; "compute" where arithmetic is most of the step.

    A step is limited by what it waits for: the largest of the other parts, unless all of them together are less than a tenth of it.
    `seconds`: by short name, as `parts_of` gives them.
    """
    total = sum(seconds.values())
    waits = {name: value for name, value in seconds.items() if name != "compute"}
    waiting = sum(waits.values())
    name = max(waits, key=lambda n: waits[n])
    if waiting < WAITING_SHARE * total:
        return "compute", 1 - waiting / total
    return PARTS[name][0], waits[name] / total
