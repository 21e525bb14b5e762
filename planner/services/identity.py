"""What makes an answer the same answer: request, prices, evidence, model and version; never the clock itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import planner
from planner.models.spec import ModelSpec

ID_HEX_DIGITS = 32
TABLES = Path(planner.__file__).with_name("perf") / "tables"


@cache
def evidence_id(beside: str = "") -> str:
    """Return 16 hex digits of the SHA-256 over the shipped measurements, tables and parameters, and what is at hand `beside` them."""
    digest = hashlib.sha256(beside.encode())
    for table in sorted((*TABLES.glob("*.csv"), *TABLES.glob("*.json")), key=lambda t: t.name):
        digest.update(table.name.encode())
        digest.update(table.read_bytes())
    return digest.hexdigest()[:16]


def answer_id(
    kind: str,
    request: Mapping[str, Any],
    *,
    snapshot_id: str,
    spec: ModelSpec,
    turned: Sequence[str] = (),
    beside: str = "",
) -> str:
    """Return the hash that names an answer: equal request, snapshot, evidence, model and planner version, equal id.

    `turned` names the offers and agreements that no longer stand as the snapshot has them: with it the answer is another one.
    """
    named: dict[str, Any] = {
        "kind": kind,
        "request": request,
        "snapshot_id": snapshot_id,
        "evidence_id": evidence_id(beside),
        "model": hashlib.sha256(repr(spec).encode()).hexdigest(),
        "planner_version": planner.__version__,
    }
    if turned:
        named["turned"] = list(turned)
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:ID_HEX_DIGITS]
