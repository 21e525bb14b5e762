"""A small physics with known parameters: the time of a job is bytes over a share of the chip's bandwidth, plus an overhead."""

from __future__ import annotations

import numpy as np

from planner.calibration.hierarchy import Problem
from planner.calibration.model import Labels, Reading, Workload
from planner.perf.parameters import Link, Slot

CHIPS = tuple(f"chip {i}" for i in range(6))
SOURCES = tuple(f"source {i}" for i in range(8))
MODELS = tuple(f"model {i}" for i in range(10))

SLOTS = (
    Slot(
        name="bandwidth",
        unit="fraction",
        link=Link.FRACTION,
        start=0.5,
        levels={"chip": 0.3, "source": 0.2, "group": 0.1},
    ),
    Slot(name="overhead", unit="s", link=Link.LOG, start=1e-3, levels={"chip": 0.3}),
)


def made(seed: int = 0, *, rows: int = 800, source_sd: float = 0.2, noise_sd: float = 0.05) -> tuple[Reading, Problem]:
    """Return rows of jobs with noise, whose sources differ by `source_sd` (log) from one another, and the fit that they pose."""
    rng = np.random.default_rng(seed)
    share_of = {c: 0.2 * rng.standard_normal() for c in CHIPS}
    lean_of = {s: source_sd * rng.standard_normal() for s in SOURCES}
    labels = [
        Labels(
            source=str(rng.choice(SOURCES)),
            model=str(rng.choice(MODELS)),
            accelerator=str(rng.choice(CHIPS)),
            chip_family="made",
            engine="engine",
            family="family",
            precision="fp16",
            parallelism="tp1",
            metric="seconds",
            unit="s",
        )
        for _ in range(rows)
    ]
    size = 10 ** rng.uniform(8, 11, rows)

    def forward(values: np.ndarray) -> np.ndarray:
        return np.log(size / (1e12 * values[:, 0]) + values[:, 1])

    points = np.array([share_of[each.accelerator] + lean_of[each.source] for each in labels])
    truth = np.stack([SLOTS[0].link.reach(points), np.full(rows, 1.5e-3)], axis=1)
    log_measured = forward(truth) + noise_sd * rng.standard_normal(rows)
    groups = [each.group for each in labels]
    problem = Problem(
        workload="serving",
        slots=SLOTS,
        keys={
            "chip": [each.accelerator for each in labels],
            "source": [each.source for each in labels],
            "group": groups,
        },
        forward=forward,
        log_measured=log_measured,
        groups=groups,
        weights=np.ones(rows),
    )
    reading = Reading(
        workload=Workload.SERVING,
        cases=list(range(rows)),
        labels=labels,
        row_ids=[f"row {i}" for i in range(rows)],
        main=[True] * rows,
        measured=list(np.exp(log_measured)),
        skipped=[],
    )
    return reading, problem
