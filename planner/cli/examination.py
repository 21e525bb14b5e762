"""What `doctor` looks at: each check says in plain words what it found, and is "ok", a "note" (works, worth knowing) or a "fault"."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path

from planner import __version__
from planner.cli.errors import translated
from planner.cli.figures import age, count, day_of, words
from planner.ports import Document

OK, NOTE, FAULT = "ok", "note", "fault"

BASE = ("numpy", "rich", "platformdirs", "pydantic", "fastapi", "uvicorn", "sqlalchemy", "alembic", "psycopg")
OTHER_PRICES = ("interruption", "storage")
"""Kinds of figures that belong to prices and are no quotes."""
OPTIONAL = {"torch": "benchmarks on this machine", "pynvml": "benchmarks on this machine (package nvidia-ml-py)"}


def examine(database_url: str | None = None) -> Document:
    """Return `{planner_version, well, checks[{name, state, found}]}`; reads, never writes."""
    checks = [
        check("planner", lambda: (OK, f"version {__version__}, in {Path(__file__).resolve().parents[1]}")),
        check(
            "python",
            lambda: (OK, f"{platform.python_version()} ({platform.system()} {platform.machine()}), {sys.executable}"),
        ),
        check("packages", base_packages),
        check("optional packages", optional_packages),
        check("data directory", data_directory),
        check("price snapshot", price_snapshot),
        check("prices' age", price_ages),
        check("models", models),
        check("own measurements", own_measurements),
        check("database", lambda: database(database_url)),
    ]
    return {"planner_version": __version__, "well": all(c["state"] != FAULT for c in checks), "checks": checks}


def check(name: str, look: Callable[[], tuple[str, str]]) -> Document:
    """Return what one look found; an error that we know is a fault in its own words."""
    try:
        state, found = look()
    except Exception as e:
        known = translated(e)
        if known is None:
            raise
        state, found = FAULT, str(known)
    return {"name": name, "state": state, "found": found}


def base_packages() -> tuple[str, str]:
    """Look for what every command needs."""
    missing = [name for name in BASE if util.find_spec(name) is None]
    if missing:
        return FAULT, f"missing: {', '.join(missing)}; install planner again"
    return OK, ", ".join(f"{name} {metadata.version(name)}" for name in BASE)


def optional_packages() -> tuple[str, str]:
    """Look for what only some commands need."""
    there = [name for name in OPTIONAL if util.find_spec(name) is not None]
    missing = [f"{name}, for {use}" for name, use in OPTIONAL.items() if name not in there]
    said = "; ".join(
        [
            *([f"installed: {', '.join(there)}"] if there else []),
            *([f"not installed: {'; '.join(missing)}"] if missing else []),
        ]
    )
    return (OK, said) if not missing else (NOTE, said)


def data_directory() -> tuple[str, str]:
    """Look at the folder for saved answers and newer prices."""
    from planner.bootstrap import data_dir

    folder = data_dir()
    if not folder.exists():
        return OK, f"{folder} (not made yet; made when something is saved)"
    if not folder.is_dir():
        return FAULT, f"{folder} is not a folder"
    return (
        (OK, str(folder))
        if os.access(folder, os.W_OK)
        else (NOTE, f"{folder} cannot be written; --save and `planner serve` need another one: PLANNER_DATA_DIR")
    )


def price_snapshot() -> tuple[str, str]:
    """Read the whole snapshot that answers are made from, and work its id out again from the content; tell of others that cannot be read."""
    from planner.bootstrap import kept_snapshots, open_catalog
    from pricing.snapshot import verify_snapshot

    meta = verify_snapshot(open_catalog().path)
    others = [file.why for file in kept_snapshots() if file.why is not None]
    return (
        NOTE if others else OK,
        f"{meta.snapshot_id[:12]} ({meta.origin}) of {day_of(meta.as_of.isoformat())}: {count(meta.quote_count, 'price')}, {count(meta.instance_type_count, 'instance type')}; content and id agree"
        + "".join(f"; passed over: {why}" for why in others),
    )


def price_ages() -> tuple[str, str]:
    """Say of which days the prices of each kind are, in the words of an answer, and the snapshot's own day: that of its on-demand prices of AWS."""
    from planner.bootstrap import open_catalog, utc_now
    from planner.cli.recommend_table import days_by_kind
    from planner.services.documents import after_clock, age_hours, prices_document

    catalog, now = open_catalog(), utc_now()
    meta = catalog.meta
    sources = prices_document(meta, catalog.quotes(), now)["sources"]
    for source in meta.sources:
        if source.kind in OTHER_PRICES:
            day = source.as_of.isoformat()
            hours = age_hours(source.as_of, now)
            sources.append({"kind": source.kind, "as_of": day, "oldest_as_of": day, "age_hours": hours, "stale": False})
    own = "after this machine's clock" if after_clock(meta.as_of, now) else age(age_hours(meta.as_of, now))
    kinds = days_by_kind(sources)
    stale = [words(kind) for kind, _, is_stale in kinds if is_stale]
    said = "; ".join(
        [f"snapshot of {day_of(meta.as_of.isoformat())}, {own}", *(f"{words(kind)} {days}" for kind, days, _ in kinds)]
    )
    return (NOTE, f"{said}; stale: {', '.join(stale)}") if stale else (OK, said)


def models() -> tuple[str, str]:
    """Count the models that are known by name."""
    from planner.services.find_model import model_names

    return OK, f"{count(len(model_names()), 'name')} and aliases; `planner models list`"


def own_measurements() -> tuple[str, str]:
    """Read the user's own rows and the parameters fitted to them, as every request does; name those that are left aside."""
    from planner.bootstrap import open_evidence
    from planner.services.own_evidence import faults_of, note_of, own_fit

    evidence = open_evidence()
    workloads = sorted({*evidence.own, *evidence.fitted})
    if not workloads:
        return OK, "none taken in; `planner validate --measurements FILE.csv --recalibrate` does"
    faults = [f for w in workloads for f in faults_of(w, evidence.own.get(w), evidence.fitted.get(w))]
    if faults:
        return FAULT, "; ".join(faults)
    aside = [w for w in workloads if own_fit(w, evidence.fitted[w]) is None]
    return NOTE if aside else OK, "; ".join(note_of(w, evidence.fitted[w]) for w in workloads)


def database(url: str | None) -> tuple[str, str]:
    """Try the database that saved answers go to."""
    from planner.cli.verbs.db_current import in_words, is_newer, schema_of

    schema = schema_of(url)
    return (FAULT if is_newer(schema) else OK if schema["current"] else NOTE), in_words(schema)
