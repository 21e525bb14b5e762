"""More devices are never slower without a named cause: what collectives do not take is never more, on every machine of the catalog."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import pytest
from serving_cases import model, one

from planner.models.spec import ModelSpec
from planner.perf.hardware import UnknownChipFigure, hardware_of
from planner.perf.model import Evaluation, Hardware
from pricing.static import load_tables

MODELS = ("llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v3")
SAME = 1 + 1e-9


@lru_cache(maxsize=1)
def machines() -> tuple[Hardware, ...]:
    """Machines of the catalog with several devices, each kind once."""
    tables = load_tables()
    known = {a.name: a for a in tables.accelerators}
    found: dict[tuple[object, ...], Hardware] = {}
    for each in tables.instance_types:
        if each.accelerator in known and each.device_count > 1:
            try:
                h = hardware_of(each, known[each.accelerator])
            except UnknownChipFigure:
                continue
            found.setdefault((h.accelerator, h.devices, h.interconnect_kind, h.memory_visible_gib), h)
    return tuple(found.values())


def parts(spec: ModelSpec, h: Hardware, **asked: Any) -> dict[str, tuple[float, float]] | None:
    """Milliseconds of a decode step and of a prompt: in all, and of collectives. None where the layout cannot be."""
    found = one(spec, h, **asked)
    if not isinstance(found, Evaluation):
        return None
    terms = {t.name: t.value for t in found.performance.terms}
    return {
        "decode": (float(terms["decode step"]), float(terms["decode collectives"])),
        "prefill": (float(terms["prefill per request"]), float(terms["prefill collectives"])),
    }


def compare(fewer: dict[str, tuple[float, float]], more: dict[str, tuple[float, float]], *, what: str) -> None:
    for phase, (total, collectives) in more.items():
        before, reduced = fewer[phase]
        assert total - collectives <= (before - reduced) * SAME, (what, phase)
        if total > before * SAME:  # slower: by what it says that collectives take more
            assert collectives - reduced >= (total - before) * (1 - 1e-6), (what, phase)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("flying", [1, 48])
def test_more_devices_are_slower_by_collectives_alone(name: str, flying: int) -> None:
    spec, seen = model(name), 0
    for h in machines():
        work: dict[str, Any] = {"input_tokens": 1000, "output_tokens": 200, "max_concurrency": flying}
        for degree in ("tensor_parallel", "pipeline_parallel", "expert_parallel"):
            fixed: dict[str, Any] = {} if degree == "tensor_parallel" else {"tensor_parallel": 1}
            chain = [parts(spec, h, **work, **fixed, **{degree: n}) for n in (1, 2, 4, 8) if n <= h.devices]
            there = [p for p in chain if p is not None]
            for fewer, more in pairwise(there):
                compare(fewer, more, what=f"{name} on {h.devices} x {h.accelerator}, {degree}")
                seen += 1
    assert seen >= (3 if name == "deepseek-v3" else 20)  # most machines hold no DeepSeek-V3


@pytest.mark.parametrize("name", ["llama-3.1-70b", "deepseek-v3"])
def test_a_second_machine_is_slower_by_collectives_alone(name: str) -> None:
    spec, seen = model(name), 0
    for h in machines():
        if h.devices != 8 or h.network_gbps is None:
            continue
        work: dict[str, Any] = {"input_tokens": 1000, "output_tokens": 200, "max_concurrency": 64}
        for degree in ("tensor_parallel", "expert_parallel"):
            fixed: dict[str, Any] = {} if degree == "tensor_parallel" else {"tensor_parallel": 1}
            fewer = parts(spec, h, **work, **fixed, **{degree: 8})
            more = parts(spec, h, **work, **fixed, **{degree: 16}, max_instances=2)
            if fewer is not None and more is not None:
                compare(fewer, more, what=f"{name} on two {h.accelerator}, {degree}")
                seen += 1
    assert seen > 2
