"""The tables of `planner/docs/validation.md`: made from cross-validations, put between markers, so that the prose around them is kept."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files

from planner.calibration.columns import ROW_ID
from planner.calibration.model import Figure
from planner.calibration.noise import floor_of, repeats_of
from planner.calibration.report import by_novelty, worst_groups
from planner.calibration.statistics import DIMENSIONS, listed, of_figures
from planner.calibration.trials import Trial

HEAD = "| {} | rows | groups | median | p90 | p90 factor | in 2x | bias | in 80 % | width | median by group | p90 by group | in 80 % by group | noise floor |"
RULE = "| --- |" + " ---: |" * 13
MOST_KEYS = 16
FEWEST_ROWS = 5
"""A key with fewer rows is not worth a line on the page; the command lists it."""


def tables_of(trial: Trial, left: Mapping[str, Sequence[Figure]]) -> str:
    """Return the section of a workload: all ways of leaving out, then the groups left out by dimension, worst groups, and the noise floor."""
    return "\n".join(_lines(trial, left))


def silicon_lines() -> Iterator[str]:
    """Yield the table of measured operators beside the model, as `python -m planner.silicon` last wrote it: it needs the extra, the page does not."""
    text = files("planner.perf").joinpath("tables", "silicon_errors.csv").read_text(encoding="utf-8")
    yield "| left out | rows of | predicted by | rows | groups | median | p90 | mean | in 2x | bias | in 80 % | width | median by group |"
    yield "| --- | --- | --- |" + " ---: |" * 10
    for row in csv.DictReader(io.StringIO(text)):
        shares = {
            name: f"{100 * float(row[name]):.1f} %"
            for name in ("median_ape", "p90_ape", "mean_ape", "within_2x", "coverage_80", "group_median_ape")
        }
        cells = (
            *(
                row["left_out"],
                row["of"],
                row["predictor"],
                row["rows"],
                row["groups"],
                shares["median_ape"],
                shares["p90_ape"],
            ),
            *(shares["mean_ape"], shares["within_2x"], f"{float(row['bias']):.2f}", shares["coverage_80"]),
            *(f"{float(row['median_interval_factor']):.2f}", shares["group_median_ape"]),
        )
        yield f"| {' | '.join(cells)} |"


def put(page: str, name: str, text: str) -> str:
    """Return a page with the text between the markers of a name replaced.

    Raises
    ------
    ValueError
        The page has no such markers.
    """
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    if begin not in page or end not in page:
        raise ValueError(f"the page has no markers {begin} and {end}")
    before, rest = page.split(begin, 1)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}"


def _lines(trial: Trial, left: Mapping[str, Sequence[Figure]]) -> Iterator[str]:
    used, total = sum(trial.reading.main), len(trial.rows)
    yield f"{used:,} of {total:,} rows used, {len(set(trial.groups)):,} groups; data {trial.sha256[:12]}."
    yield ""
    yield HEAD.format("left out")
    yield RULE
    whole = floor_of(trial.reading.workload, trial.rows)
    for name, figures in left.items():
        yield _row(name, asdict(of_figures([f for f in figures if f.main]))) + _floor(whole)
    first = next(iter(left.values()))
    dimensions = {**listed(first), **by_novelty(first)}
    floors = floors_of(trial, first)
    everywhere = [f for figures in left.values() for f in figures]
    dimensions["novelty"] = by_novelty(everywhere)["novelty"]
    for name, rows in dimensions.items():
        said = "novelty (all ways of leaving out)" if name == "novelty" else name
        yield from ("", HEAD.format(said), RULE)
        yield from (
            _row(str(r["key"]), r) + _floor(floors.get((name, str(r["key"]))))
            for r in rows[:MOST_KEYS]
            if int(str(r["rows"])) >= FEWEST_ROWS
        )
    yield from ("", "Worst groups, whole groups left out (median of predicted / measured):", "")
    for name, count, factor in worst_groups([f for f in first if f.main], most=12):
        yield f"- {factor:.2f}: {name.replace('|', '·')} ({count} row{'' if count == 1 else 's'})"
    yield from ("", "Repeats of the same work in the table, by what else differs:", "")
    yield "| between | works | pairs | median | p90 | floor of the median error |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for each in repeats_of(trial.reading.workload, trial.rows):
        yield (
            f"| {each.kind.removeprefix('between ')} | {each.works:,} | {each.pairs:,} | {each.median_factor:.3f}x | {each.p90_factor:.2f}x "
            f"| {100 * each.floor_median_ape:.1f} % |"
        )


def floors_of(trial: Trial, figures: Sequence[Figure]) -> dict[tuple[str, str], float]:
    """Return the noise floor of the median error by (dimension, key), where rows of the same work are repeated among the rows of a key."""
    workload = trial.reading.workload
    rows = {row[ROW_ID[workload]]: row for row in trial.rows}
    out = {}
    dimensions: dict[str, Callable[[Figure], str]] = {**DIMENSIONS, "chip family": lambda f: f.labels.chip_family}
    for name, key_of in dimensions.items():
        ids: dict[str, set[str]] = {}
        for figure in figures:
            if figure.main:
                ids.setdefault(key_of(figure), set()).add(figure.row_id)
        for key, of in ids.items():
            floor = floor_of(workload, [rows[i] for i in sorted(of) if i in rows])
            if floor is not None:
                out[name, key] = floor
    return out


def _floor(value: float | None) -> str:
    return " |" if value is None else f" {100 * value:.1f} % |"


def _row(key: str, row: Mapping[str, object]) -> str:
    def share(name: str) -> str:
        value = row[name]
        return f"{100 * value:.1f} %" if isinstance(value, float) else ""

    def factor(name: str) -> str:
        value = row[name]
        return f"{value:.2f}" if isinstance(value, float) else ""

    cells = (
        *(key.replace("|", "·") or "(none)", f"{row['rows']:,}", f"{row['groups']:,}", share("median_ape"), share("p90_ape")),
        *(factor("p90_factor"), share("within_2x"), factor("bias"), share("coverage_80"), factor("median_interval_factor")),
        *(share("group_median_ape"), share("group_p90_ape"), share("group_coverage_80")),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"
