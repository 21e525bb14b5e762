"""`regret`: how much is lost by following the predicted cheapest accelerator, over all measured work that ran on several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache

from planner.calibration.columns import ROW_ID, Measurements
from planner.calibration.model import Figure, Row
from planner.calibration.noise import repeats_of
from planner.calibration.regret import Regret, options_of, regrets_of, summary_of, told_apart
from planner.ports import Document
from pricing.catalog import Catalog
from pricing.model import PurchaseOption

MOST_SHOWN = 15
SUMMARY = ("overall", "by_workload")
HOME, REGION = "aws", "us-east-1"


def price_of_accelerators(catalog: Catalog) -> Callable[[str], float | None]:
    """Return USD per accelerator-hour, on demand: the cheapest of AWS in us-east-1, elsewhere where AWS has none there."""

    @lru_cache(maxsize=1)
    def cheapest() -> dict[str, float]:
        devices = {
            (t.provider, t.instance_type): (t.accelerator, t.device_count * t.device_fraction)
            for t in catalog.instance_types()
            if t.accelerator is not None and t.device_count
        }
        home: dict[str, float] = {}
        anywhere: dict[str, float] = {}
        for quote in catalog.quotes(purchase_options=[PurchaseOption.ON_DEMAND]):
            found = devices.get((quote.provider, quote.instance_type))
            if found is None or quote.currency != "USD" or quote.effective_unit_price is None or not found[1]:
                continue
            name, price = found[0], float(quote.effective_unit_price) / found[1]
            for known in (home, anywhere) if (quote.provider, quote.region) == (HOME, REGION) else (anywhere,):
                known[name] = min(price, known.get(name, price))
        return anywhere | home

    return lambda name: cheapest().get(name)


def regret(catalog: Catalog, parts: Sequence[tuple[Measurements, Sequence[Figure]]]) -> Document:
    """Return mean and p90 regret, overall and by workload, and the worst choices, of predictions beside their measurements.

    `noise`: by which median factor repeats of the same work differ, by workload and by what else differs.
    """
    price_of = price_of_accelerators(catalog)
    found: list[Regret] = []
    workloads = []
    rows_of: dict[str, Mapping[str, Row]] = {}
    for measurements, figures in parts:
        workload = measurements.workload
        workloads.append(workload)
        rows = {row[ROW_ID[workload]]: row for row in measurements.rows}
        rows_of[workload.value] = rows
        found += regrets_of(options_of(figures, rows, workload, price_of))
    found.sort(key=lambda r: (-r.fraction, r.work))
    by = {w.value: summary_of([r for r in found if r.work[0] == w.value]) for w in workloads}
    overall = summary_of(found)
    return {
        "snapshot_id": catalog.meta.snapshot_id,
        "overall": None if overall is None else asdict(overall),
        "by_workload": {name: None if each is None else asdict(each) for name, each in by.items()},
        "noise": {
            m.workload.value: {each.kind: each.median_factor for each in repeats_of(m.workload, m.rows)}
            for m, _ in parts
        },
        "worst": [
            {
                "work": ", ".join(filter(None, r.work)),
                "regret": r.fraction,
                "picked": r.picked.accelerator,
                "cheapest": r.best.accelerator,
                **dict(zip(("picked_as", "cheapest_as"), in_words(r, rows_of[r.work[0]]), strict=True)),
                "accelerators": r.accelerators,
                "options": r.options,
                "row_ids": [r.picked.row_id, r.best.row_id],
            }
            for r in found[:MOST_SHOWN]
        ],
    }


def in_words(r: Regret, rows: Mapping[str, Row]) -> tuple[str, str]:
    """Return the option picked and the cheapest one as a reader tells them apart: by accelerator, and where that is one by what else differs."""
    picked, best = r.picked.accelerator, r.best.accelerator
    if picked != best or r.picked.row_id == r.best.row_id:
        return picked, best
    one, other = told_apart(rows[r.picked.row_id], rows[r.best.row_id])
    return f"{picked} ({one or 'row ' + r.picked.row_id})", f"{best} ({other or 'row ' + r.best.row_id})"


def side_by_side(left_out: Document, in_sample: Document, what: str) -> Document:
    """Return the regret of predictions that had not seen the rows, with that of the shipped parameters, which had, under `in_sample`."""
    return {**left_out, "left_out": what, "in_sample": {name: in_sample[name] for name in SUMMARY}}
