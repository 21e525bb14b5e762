"""Errors of the model as tables for a terminal and as rows for CSV. Fractions become percent here and nowhere before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import ABSENT, count, figure
from planner.cli.output import printable
from planner.cli.paint import QUIET, STRONG, Cell, Column, indented, rendered, table
from planner.ports import Document
from planner.reports.flat import VALIDATION_COLUMNS, cell

REGRET_COLUMNS = ("work", "regret", "picked", "cheapest", "accelerators", "options", "picked_as", "cheapest_as")
"""Columns of `validate --regret`: the choices that cost most."""
RECALIBRATION_COLUMNS: tuple[str, ...] = ("workload", "parameters", "kept", *VALIDATION_COLUMNS[3:])
"""Columns of `validate --recalibrate`: the errors of left-out rows before and after."""
MOST_KEYS = 12
"""Keys of a dimension that a person reads; JSON and CSV have all."""
MOST_GROUPS = 8
LEFT_OUT = {
    "groups": "whole groups of (source, model, accelerator) left out",
    "sources": "whole sources left out",
    "chips": "whole accelerators left out",
    "models": "whole models left out",
}


def statistic_rows(document: Document) -> list[list[str]]:
    """Return one row for all, then one for each key of each dimension."""
    rows = [("all", "", document["overall"] | {"rows": document["overall"]["rows_used"]})]
    rows += [(name, row["key"], row) for name, listed in document["by"].items() for row in listed]
    return [
        [
            cell({"workload": document["workload"], "by": name, "key": key}.get(c, row.get(c)))
            for c in VALIDATION_COLUMNS
        ]
        for name, key, row in rows
    ]


def validate_text(document: Document, *, width: int, colour: bool) -> str:
    """Return the errors for a terminal of `width` columns."""
    overall = document["overall"]
    parts: list[RenderableType] = [Text(headline(document), style=STRONG)]
    parts += [indented(line) for line in summary(overall)]
    noise = noise_line(document)
    if noise is not None:
        parts.append(indented(printable(noise)))
    if overall["skipped_reasons"]:
        parts += [indented(printable(f"skipped: {line}"), style=QUIET) for line in skipped_lines(document)]
    if overall["rows_used"]:
        for name, listed in [*document["by"].items(), ("novelty", document["novelty"])]:
            parts += [Text(""), *table(columns(name, listed[:MOST_KEYS]), width)]
            if len(listed) > MOST_KEYS:
                parts.append(
                    Text(f"and {len(listed) - MOST_KEYS} more with fewer rows; json and csv have all", style=QUIET)
                )
        parts += [Text(""), Text("furthest off, by group (median of predicted / measured)", style=STRONG)]
        parts += [
            indented(printable(f"{each['median_factor']:.2f} {each['group']} ({count(each['rows'], 'row')})"))
            for each in document["worst_groups"][:MOST_GROUPS]
        ]
    parts += [indented(printable(note), style=QUIET) for note in document["notes"]]
    return rendered(parts, width=width, colour=colour)


def skipped_lines(document: Document) -> list[str]:
    """Return each reason with how many rows it has and the first of them: "no lengths stated 7 (a1, a2, line 4, line 5, line 6, …)"."""
    lines = []
    for reason, number in document["overall"]["skipped_reasons"].items():
        ids = document["skipped_rows"].get(reason, [])
        more = ", …" if number > len(ids) else ""
        lines.append(f"{reason} {number:,} ({', '.join(ids)}{more})")
    return lines


def headline(document: Document) -> str:
    """Return what was validated: "serving: 2,403 of 2,411 rows used, whole sources left out in 5 folds"."""
    overall = document["overall"]
    said = f"{document['workload']}: {overall['rows_used']:,} of {count(overall['rows_total'], 'row')} used"
    if document["left_out"] is not None:
        return f"{said}, {LEFT_OUT[document['left_out']]} in {document['folds']} folds"
    fitted = document["parameters"]
    if fitted["whose"] == "own":
        rows = "the rows that they were fitted to" if same_rows(document) else "other rows than they were fitted to"
        return f"{said}, your own parameters of {fitted['fitted_on']}, {rows}; --parameters shipped predicts by ours"
    return f"{said}, " + (
        "the rows that the parameters were fitted to; --leave-out tells the error on rows unseen"
        if same_rows(document)
        else f"shipped parameters of {fitted['fitted_on'] or 'no stated day'}"
    )


def same_rows(document: Document) -> bool:
    """Return whether the rows are those that the parameters were fitted to."""
    return bool(document["parameters"]["data_sha256"] == document["data_sha256"])


def noise_line(document: Document) -> str | None:
    """Return how far repeats of the same work in the table differ, and what error that leaves to any model; None where nothing is repeated."""
    told = [
        f"{each['median_factor']:.2f} times {each['kind']} (no median error below {percent(each['floor_median_ape'])})"
        for each in document["noise"]
    ]
    return f"repeats of the same work differ: {', '.join(told)}" if told else None


def summary(overall: Mapping[str, Any]) -> list[str]:
    """Return the overall errors in words, by row and with each group weighing the same."""
    if not overall["rows_used"]:
        return ["no row could be predicted"]
    lines = []
    for said, prefix in (("by row", ""), (f"each of {count(overall['groups'], 'group')} alike", "group_")):
        lines.append(
            f"{said}: median error {percent(overall[prefix + 'median_ape'])}, p90 {percent(overall[prefix + 'p90_ape'])}, "
            f"p90 factor {figure(overall[prefix + 'p90_factor'])}, within 2x {percent(overall[prefix + 'within_2x'])}, "
            f"bias {figure(overall[prefix + 'bias'])}, 80 % intervals hold {percent(overall[prefix + 'coverage_80'])}"
        )
    lines.append(
        f"half the intervals are narrower than a factor of {figure(overall['median_interval_factor'])} to each side"
    )
    return lines


def recalibration_text(document: Document, *, width: int, colour: bool) -> str:
    """Return what a recalibration did: left-out errors before and after, and the largest shifts."""
    kept = "kept" if document["kept"] else "not kept"
    head = (
        f"{document['workload']}: {count(document['rows_used'], 'own figure')} of {count(document['groups'], 'group')}, "
        f"{document['left_out']} left out in {document['folds']} folds"
    )
    parts: list[RenderableType] = [Text(head, style=STRONG)]
    for said, name in (("shipped parameters", "before"), ("with your shifts", "after")):
        errors = document[name]
        parts.append(
            indented(
                f"{said}: median error {percent(errors['median_ape'])}, p90 {percent(errors['p90_ape'])}, "
                f"bias {figure(errors['bias'])}, 80 % intervals hold {percent(errors['coverage_80'])}"
            )
        )
    parts += [
        indented(printable(f"{each['parameter']}, {each['level']} {each['key']}: x {each['factor']:.3f}"), style=QUIET)
        for each in document["shifts"][:MOST_KEYS]
    ]
    parts.append(Text(printable(f"{kept}: {document['why']}"), style=STRONG))
    if document["file"] is not None:
        parts.append(Text(printable(f"{document['file']}; --forget removes it"), style=QUIET))
    return rendered(parts, width=width, colour=colour)


def recalibration_rows(document: Document) -> list[list[str]]:
    """Return the errors before and after, one row each."""
    common = {"workload": document["workload"], "kept": document["kept"]}
    return [
        [cell((common | {"parameters": name} | document[name]).get(c)) for c in RECALIBRATION_COLUMNS]
        for name in ("before", "after")
    ]


def regret_text(document: Document, *, width: int, colour: bool) -> str:
    """Return the regret overall and by workload, and the choices that cost most."""
    overall = document["overall"]
    if overall is None:
        return rendered(
            [Text("no work was measured on several accelerators that are sold")], width=width, colour=colour
        )
    head = "regret of the predicted cheapest accelerator, on-demand prices" + (
        f", {LEFT_OUT[document['left_out']]}" if document["left_out"] else ""
    )
    parts: list[RenderableType] = [Text(head, style=STRONG)]
    seen = document["in_sample"]
    for name, each in {"all": overall, **document["by_workload"]}.items():
        if each is None:
            continue
        line = (
            f"{name}: mean {percent(each['mean'])}, p90 {percent(each['p90'])}, each model alike {percent(each['model_mean'])}, "
            f"the cheapest picked in {percent(each['right'])} of {count(each['works'], 'choice')}"
        )
        known = None if seen is None else seen["overall"] if name == "all" else seen["by_workload"][name]
        if known is not None:
            line += f"; with all rows seen: mean {percent(known['mean'])}, p90 {percent(known['p90'])}"
        parts.append(indented(line))
    for name, noise in document["noise"].items():
        told = ", ".join(f"{factor:.2f} times {kind}" for kind, factor in noise.items())
        parts.append(indented(f"repeats of the same work differ, {name}: {told}", style=QUIET))
    parts.append(Text("the choices that cost most", style=QUIET))
    parts += [
        indented(
            printable(
                f"{percent(each['regret'])} {each['work']}: predicted cheapest {each['picked_as']}, "
                + (
                    "and it truly is"
                    if each["picked_as"] == each["cheapest_as"]
                    else f"truly cheapest {each['cheapest_as']}"
                )
            ),
            style=QUIET,
        )
        for each in document["worst"]
    ]
    return rendered(parts, width=width, colour=colour)


def regret_rows(document: Document) -> list[list[str]]:
    """Return the choices that cost most, one row each."""
    return [[cell(each[c]) for c in REGRET_COLUMNS] for each in document["worst"]]


def silicon_text(document: Document, *, width: int, colour: bool) -> str:
    """Return the errors of measured operators, the model and both, and how far each engine's tables are trusted."""
    parts: list[RenderableType] = [Text(printable(document["source"]), style=STRONG)]
    for left_out, part in dict.fromkeys((e["left_out"], e["of"]) for e in document["errors"]):
        rows = [e for e in document["errors"] if (e["left_out"], e["of"]) == (left_out, part)]
        head = (
            f"{part}: {count(rows[0]['rows'], 'row')} of {count(rows[0]['groups'], 'group')}, whole {left_out} left out"
        )
        parts += [Text(""), Text(printable(head), style=STRONG)]
        parts += table(columns("predictor", [row | {"key": row["predictor"]} for row in rows]), width)
    parts += [Text(""), Text("trusted beside the model", style=STRONG)]
    parts += [
        indented(
            printable(
                f"{s['generation']}: share {s['share']:.2f}, tables {math.exp(s['lean']):.2f} times as fast as servers "
                f"({count(s['rows'], 'row')} of {count(s['groups'], 'group')})"
            )
        )
        for s in document["shares"]
    ]
    return rendered(parts, width=width, colour=colour)


def silicon_rows(document: Document) -> list[list[str]]:
    """Return the errors, one row for each predictor and set of rows."""
    from planner.services.silicon import COLUMNS

    return [[cell(row[c]) for c in COLUMNS] for row in document["errors"]]


def forgotten_text(document: Document, *, width: int, colour: bool) -> str:
    """Return which files are gone."""
    lines = [printable(f"removed {path}") for path in document["removed"]] or ["nothing was kept: nothing to remove"]
    return rendered([Text(line) for line in lines], width=width, colour=colour)


def columns(name: str, rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Return the table of one dimension."""

    def of(title: str, field: str, *, keep: int, share: bool = True) -> Column:
        show = percent if share else figure
        return Column(title, right=True, keep=keep, cells=[Cell(show(row[field])) for row in rows])

    return [
        Column(name.capitalize(), narrowest=12, cells=[Cell(printable(row["key"]) or ABSENT) for row in rows]),
        Column("Rows", right=True, cells=[Cell(f"{row['rows']:,}") for row in rows]),
        Column("Groups", right=True, keep=2, cells=[Cell(f"{row['groups']:,}") for row in rows]),
        of("Median", "median_ape", keep=0),
        of("p90", "p90_ape", keep=1),
        of("p90 factor", "p90_factor", keep=4, share=False),
        of("In 2x", "within_2x", keep=3),
        of("Bias", "bias", keep=2, share=False),
        of("In 80 %", "coverage_80", keep=1),
        of("Width", "median_interval_factor", keep=3, share=False),
        of("Median by group", "group_median_ape", keep=5),
        *([of("Floor", "noise_floor_ape", keep=5)] if rows and "noise_floor_ape" in rows[0] else []),
    ]


def percent(fraction: Any) -> str:
    """Return a fraction as percent at three digits: 0.0823 is "8.23 %"."""
    return ABSENT if fraction is None else f"{figure(100 * fraction)} %"
