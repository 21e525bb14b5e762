"""What a user could dispute, as fields with unit and source; every answer echoes all of them.

`--assume NAME=VALUE` changes one. A cost that is switched off is listed as off, so that nobody reads its absence as zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumptionMeta:
    """Unit, source and bounds of one assumption; `applies_to` is the mode that uses it."""

    unit: str
    source: str
    minimum: float
    maximum: float
    applies_to: tuple[str, ...] = ("inference", "training")


def assumption(default: float, **what: Any) -> Any:
    """Return a dataclass field that carries an `AssumptionMeta`."""
    return field(default=default, metadata={"assumption": AssumptionMeta(**what)})


TRAINING = ("training",)
OFF = ("storage_cost", "network_cost", "load_balancer_cost", "staff_cost", "tax")
"""Costs that an answer leaves out and says so."""


class AssumptionError(ValueError):
    """An override names no assumption, or gives it a value that cannot be."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"{text!r} {why}")
        self.text, self.why = text, why


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """Disputable figures of the money engine."""

    startup_minutes: float = assumption(
        10.0,
        unit="min",
        minimum=0,
        maximum=1440,
        source="own estimate: launch, image, data and weights until the first step",
        applies_to=TRAINING,
    )
    checkpoint_interval_minutes: float = assumption(
        30.0,
        unit="min",
        minimum=0.1,
        maximum=1e6,
        source="common practice; Young/Daly's best interval is longer at published interruption rates",
        applies_to=TRAINING,
    )
    checkpoint_overhead_limit_fraction: float = assumption(
        0.05,
        unit="fraction of work",
        minimum=1e-4,
        maximum=1e6,
        source="own choice: the interval stretches so that writing takes no larger share",
        applies_to=TRAINING,
    )
    checkpoint_write_gb_per_s: float = assumption(
        1.0,
        unit="GB/s",
        minimum=1e-3,
        maximum=1e5,
        source="Amazon EBS user guide: a gp3 volume gives up to 1,000 MiB/s; one writer",
        applies_to=TRAINING,
    )
    restart_minutes: float = assumption(
        10.0,
        unit="min",
        minimum=0,
        maximum=1440,
        source="own estimate: a replacement instance reads the last checkpoint; as start-up",
        applies_to=TRAINING,
    )
    evaluation_fraction: float = assumption(
        0.0,
        unit="fraction of compute time",
        minimum=0,
        maximum=10,
        source="no evaluation passes unless stated",
        applies_to=TRAINING,
    )
    spot_interruption_fraction_per_month: float = assumption(
        0.10,
        unit="fraction",
        minimum=0,
        maximum=0.99,
        source="own estimate, used only where the interruption table has no band",
        applies_to=TRAINING,
    )
    spot_open_band_high_fraction: float = assumption(
        0.5,
        unit="fraction per month",
        minimum=0.2,
        maximum=0.99,
        source="own choice: upper edge of the advisor's open band above 20 %",
        applies_to=TRAINING,
    )
    input_decode_factor: float = assumption(
        1.0,
        unit="x the table's samples per vCPU",
        minimum=1e-3,
        maximum=1e3,
        source="own choice: rates of tables/training_input.csv as they stand",
        applies_to=TRAINING,
    )
    storage_read_factor: float = assumption(
        1.0,
        unit="x the table's rates of storage",
        minimum=1e-3,
        maximum=1e3,
        source="own choice: rates of tables/training_input.csv as they stand",
        applies_to=TRAINING,
    )
    pue: float = assumption(
        1.15,
        unit="ratio",
        minimum=1.0,
        maximum=3.0,
        source="AWS sustainability report: global power usage effectiveness of 2024",
    )

    @classmethod
    def with_overrides(cls, overrides: Iterable[str]) -> Assumptions:
        """Return the defaults with each `NAME=VALUE` applied; raises `AssumptionError` for what cannot be."""
        known = {f.name: f.metadata["assumption"] for f in dataclasses.fields(cls)}
        changed: dict[str, float] = {}
        for text in overrides:
            name, equals, number = (part.strip() for part in text.partition("="))
            name = name.replace("-", "_")
            if not equals:
                raise AssumptionError(text, "is not NAME=VALUE, for example pue=1.2")
            if name not in known:
                raise AssumptionError(text, "names no assumption; known: " + ", ".join(known))
            try:
                value = float(number)
            except ValueError as e:
                raise AssumptionError(text, f"needs a number ({known[name].unit})") from e
            meta = known[name]
            if not meta.minimum <= value <= meta.maximum:
                raise AssumptionError(text, f"must be from {meta.minimum:g} to {meta.maximum:g} {meta.unit}")
            changed[name] = value
        return cls(**changed)

    def listed(self, mode: str) -> list[dict[str, Any]]:
        """Return those that bear on `mode` as plain values `{name, value, unit, source}`, then the costs that are off."""
        out: list[dict[str, Any]] = []
        for f in dataclasses.fields(self):
            meta: AssumptionMeta = f.metadata["assumption"]
            if mode in meta.applies_to:
                value = getattr(self, f.name)
                source = meta.source if value == f.default else "the request"
                out.append({"name": f.name, "value": value, "unit": meta.unit, "source": source})
        out.extend(
            {"name": name, "value": "off", "unit": "", "source": "not part of this answer's cost lines"} for name in OFF
        )
        return out
