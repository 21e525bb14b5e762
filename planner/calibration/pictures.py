"""Pictures of left-out predictions: predicted against measured, and how far off each chip is. matplotlib is imported here alone, when asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planner.calibration.model import Figure

MOST_CHIPS = 24
MOST_FAMILIES = 10
DOTS_PER_INCH = 80


def drawn(figures: Sequence[Figure], title: str, path: Path) -> None:
    """Write a PNG of the main figures: dots of predicted against measured by chip family, and the spread of their ratio by chip."""
    import matplotlib as mpl  # noqa: PLC0415 - of the development extra

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    main = [f for f in figures if f.main]
    picture, (left, right) = pyplot.subplots(1, 2, figsize=(13, 6.5), width_ratios=(1, 1.1))
    _dots(left, main)
    _chips(right, main)
    picture.suptitle(title, fontsize=11)
    picture.tight_layout()
    picture.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": None}, pil_kwargs={"optimize": True})
    pyplot.close(picture)


def _dots(axes: Any, figures: Sequence[Figure]) -> None:
    rows_of: dict[str, list[Figure]] = {}
    for f in figures:
        rows_of.setdefault(f.labels.chip_family, []).append(f)
    ordered = sorted(rows_of, key=lambda name: -len(rows_of[name]))
    for place, name in enumerate(ordered[:MOST_FAMILIES]):
        of = rows_of[name]
        axes.loglog([f.measured for f in of], [f.predicted for f in of], ".", ms=3, alpha=0.5, color=f"C{place % 10}", label=name)  # fmt: skip
    rest = [f for name in ordered[MOST_FAMILIES:] for f in rows_of[name]]
    if rest:
        axes.loglog([f.measured for f in rest], [f.predicted for f in rest], ".", ms=3, alpha=0.5, color="0.6", label="others")  # fmt: skip
    ends = np.array([min(f.measured for f in figures), max(f.measured for f in figures)])
    axes.loglog(ends, ends, "k-", lw=1)
    for factor in (0.5, 2.0):
        axes.loglog(ends, factor * ends, "k:", lw=0.8)
    axes.set_xlabel("measured (in the unit of each row)")
    axes.set_ylabel("predicted without having seen its group")
    axes.legend(fontsize=7, markerscale=3, loc="upper left")


def _chips(axes: Any, figures: Sequence[Figure]) -> None:
    ratios: dict[str, list[float]] = {}
    for f in figures:
        ratios.setdefault(f.labels.accelerator, []).append(float(np.log2(f.predicted / f.measured)))
    ordered = sorted(ratios, key=lambda name: -len(ratios[name]))[:MOST_CHIPS][::-1]
    names = [f"{name} ({len(ratios[name])})" for name in ordered]
    axes.boxplot([ratios[name] for name in ordered], orientation="horizontal", whis=(10, 90), showfliers=False)
    axes.set_yticks(range(1, len(names) + 1), names, fontsize=7)
    ticks = (0.25, 0.5, 0.8, 1.25, 2.0, 4.0)
    axes.set_xticks(np.log2(ticks), [f"{t:g}" for t in ticks])
    axes.set_xlim(-2.2, 2.2)
    axes.axvline(0.0, color="k", lw=1)
    axes.set_xlabel("predicted / measured: quartiles, and 10th to 90th percentile")
    axes.grid(axis="x", alpha=0.3)
