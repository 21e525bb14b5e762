"""A user's own measurements as answers take them: parameters fitted to them, and the rows themselves as the nearest evidence.

`planner validate --recalibrate` keeps both in the data directory. The parameters hold only on the shipped ones that they were fitted on:
a planner that ships others answers without them, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from planner.calibration.columns import ROW_ID, Measurements, MeasurementsError, parse_measurements
from planner.calibration.evidence import measured_speeds
from planner.calibration.facts import shipped_facts
from planner.calibration.model import Workload
from planner.calibration.trials import physics_of
from planner.perf.evidence import OWN, SOURCE, Witness
from planner.perf.parameters import Parameters, from_json, shipped
from planner.recommend.errors import BadRequest

FORGET = "planner validate --forget removes own measurements, --recalibrate takes them in anew"


def own_fit(workload: str, data: bytes) -> Parameters | None:
    """Return the parameters of a file; None where they stand on other shipped ones than these.

    Raises
    ------
    BadRequest
        The file is damaged, or of another workload.
    """
    found = parsed(workload, data)
    return found if found.version == based_on(shipped(workload)) else None


@lru_cache(maxsize=8)
def parsed(workload: str, data: bytes) -> Parameters:
    """Return the parameters of a file, whatever they stand on; BadRequest in one line where it is damaged."""
    name = f"own_{workload}.json"
    try:
        found = from_json(data.decode("utf-8"))
        figures = [x for d in found.deviations.values() for x in (d.x, d.sd)]
        figures += [*found.centres.values(), *found.centre_sds.values(), *found.spreads.values(), found.noise_sd]
        figures += [x for row in found.intervals.values() for x in (row.low, row.high)]
        sound = all(math.isfinite(x) for x in figures)
        found.own_source  # noqa: B018 - its figures must be of their kind as well
    except KeyError as e:
        raise damaged(name, f"it has no {e.args[0]}") from e
    except (ValueError, TypeError, AttributeError) as e:
        raise damaged(name, str(e)) from e
    if not sound:
        raise damaged(name, "a figure in it is not finite")
    if found.workload != workload:
        raise damaged(name, f"it is of {found.workload}")
    return found


def based_on(ours: Parameters) -> str:
    """Return the version of own parameters: own ones hold only on the shipped ones that they were fitted on."""
    return f"own, on {ours.version} of {ours.fitted_on} ({ours.data_sha256[:12]}, noise {ours.noise_sd:.6g})"


def note_of(workload: str, data: bytes) -> str:
    """Return what an answer says of own parameters: that they are in it, or why not."""
    found = parsed(workload, data)
    what = f"own measurements of {workload} ({found.rows:,} rows, fitted {found.fitted_on})"
    if own_fit(workload, data) is None:
        return f"{what} were fitted on other shipped parameters than these and are left aside; planner validate --recalibrate fits them anew"
    return f"speed follows {what}; evidence model answers without them"


def faults_of(workload: str, rows: bytes | None, fit: bytes | None) -> list[str]:
    """Return what is wrong with the two files of own measurements of a workload: one is missing, or damaged."""
    out = []
    for name, data, read in (
        (f"own_rows_{workload}.csv", rows, own_measurements),
        (f"own_{workload}.json", fit, parsed),
    ):
        if data is None:
            out.append(f"calibration/{name} is missing beside the other file of {workload}; {FORGET}")
            continue
        try:
            read(workload, data)
        except BadRequest as e:
            out.append(f"{e.why}; {FORGET}")
    return out


@lru_cache(maxsize=8)
def own_witnesses(
    workload: str, data: bytes, parameters: Parameters | None = None
) -> Mapping[str, Mapping[str, tuple[Witness, ...]]]:
    """Return the user's own rows as evidence: model fingerprint -> accelerator -> rows, beside the model's prediction.

    `parameters`: those that answer, the shipped ones by default.

    Raises
    ------
    BadRequest
        The file of own rows is damaged.
    """
    physics, facts = physics_of(Workload(workload)), shipped_facts()
    reading = physics.read(own_measurements(workload, data).rows, facts)
    fitted = shipped(workload) if parameters is None else parameters
    out: dict[str, dict[str, tuple[Witness, ...]]] = {}
    if not reading.cases:
        return out
    for each in measured_speeds(reading, physics.problem(reading), fitted, own_rows(workload, data), facts):
        conditions = replace(each.witness.conditions, words={**each.witness.conditions.words, SOURCE: OWN})
        chips = out.setdefault(each.model, {})
        chips[each.accelerator] = (*chips.get(each.accelerator, ()), replace(each.witness, conditions=conditions))
    return out


@lru_cache(maxsize=8)
def own_rows(workload: str, data: bytes) -> Mapping[str, Mapping[str, str]]:
    """Return the user's own rows by their ids."""
    measured = own_measurements(workload, data)
    return {row[ROW_ID[measured.workload]]: row for row in measured.rows}


def own_measurements(workload: str, data: bytes) -> Measurements:
    """Return what the file of own rows says; BadRequest in one line where it is damaged."""
    name = f"own_rows_{workload}.csv"
    try:
        found = parse_measurements(data)
    except MeasurementsError as e:
        raise damaged(name, str(e)) from e
    if found.workload.value != workload:
        raise damaged(name, f"its columns are those of {found.workload.value}")
    return found


def damaged(name: str, why: str) -> BadRequest:
    """Return the error of a file of own measurements that cannot be used."""
    return BadRequest(
        field="evidence",
        value=None,
        why=f"own measurements cannot be used: calibration/{name} in the data directory is damaged: {why}",
        expected=f"model answers without them; {FORGET}",
    )
