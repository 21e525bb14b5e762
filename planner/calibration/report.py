"""Left-out errors as lines of text: all, by dimension, and the worst groups by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

import numpy as np

from planner.calibration.model import Figure
from planner.calibration.statistics import by_key, listed, of_figures

SHOWN = ("median_ape", "p90_ape", "p90_factor", "within_2x", "bias", "coverage_80", "median_interval_factor")
MOST_KEYS = 25


def lines_of(figures: Sequence[Figure], *, most: int = MOST_KEYS) -> Iterator[str]:
    """Yield the table of some figures: one line for all main ones, one for each key of each dimension, then the worst groups."""
    main = [f for f in figures if f.main]
    yield f"{'':40} {'rows':>6} {'groups':>6} {'median':>8} {'p90':>8} {'factor':>7} {'in 2x':>7} {'bias':>6} {'cover':>6} {'width':>6}   by group: median, cover"
    yield _line("all", asdict(of_figures(main)))
    for dimension, rows in (listed(figures) | by_novelty(figures)).items():
        yield f"-- by {dimension}"
        for row in rows[:most]:
            yield _line(str(row["key"]), row)
    yield "-- worst groups"
    for name, rows_of_group, factor in worst_groups(main):
        yield f"{factor:8.2f}x {rows_of_group:5d}  {name}"


def by_novelty(figures: Sequence[Figure]) -> dict[str, list[dict[str, object]]]:
    """Return the errors of main figures by chip family and by novelty class."""
    main = [f for f in figures if f.main]
    return {
        "chip family": by_key(main, lambda f: f.labels.chip_family),
        "novelty": by_key(main, lambda f: f.novelty),
    }


def worst_groups(figures: Sequence[Figure], *, most: int = 15) -> list[tuple[str, int, float]]:
    """Return (group, rows, median of predicted / measured) of the groups that are furthest off, worst first."""
    by_group: dict[str, list[float]] = {}
    for figure in figures:
        by_group.setdefault(figure.labels.group, []).append(float(np.log(figure.predicted / figure.measured)))
    middle = [(name, len(each), float(np.median(each))) for name, each in by_group.items()]
    middle.sort(key=lambda item: (-abs(item[2]), item[0]))
    return [(name, count, float(np.exp(x))) for name, count, x in middle[:most]]


def _line(key: str, row: Mapping[str, object]) -> str:
    def text(name: str, width: int, *, percent: bool = False) -> str:
        value = row[name]
        if not isinstance(value, float):
            return f"{'':>{width}}"
        return f"{100 * value:>{width - 2}.1f} %" if percent else f"{value:>{width}.2f}"

    return (
        f"{key[:40]:40} {row['rows']!s:>6} {row['groups']!s:>6} {text('median_ape', 8, percent=True)} {text('p90_ape', 8, percent=True)} "
        f"{text('p90_factor', 7)} {text('within_2x', 7, percent=True)} {text('bias', 6)} {text('coverage_80', 6)} "
        f"{text('median_interval_factor', 6)}   {text('group_median_ape', 8, percent=True)} {text('group_coverage_80', 6)}"
    )
