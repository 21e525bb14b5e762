"""Why nothing works on a hardware, with the figures: too little memory, too slow, or no legal degree."""

from __future__ import annotations

from collections.abc import Sequence

from planner.perf.latency import Latency
from planner.perf.layouts import Split
from planner.perf.memory import GIB
from planner.perf.model import Infeasible, InferenceWork, RejectionReason
from planner.perf.serving_candidates import Candidate


def out_of_memory(c: Candidate, required: float, concurrency: int, has: float) -> Infeasible:
    """Return what a candidate needs (bytes of one device) for `concurrency` requests against what its devices have (GiB)."""
    needs, split = required / GIB, c.split
    devices = f" on each of {split.devices}" if split.devices > 1 else ""
    requests = f" for {concurrency} requests" if concurrency > 1 else ""
    return Infeasible(
        reason=RejectionReason.OUT_OF_MEMORY,
        detail="; ".join(
            [f"needs {needs:.1f} GiB{devices}{requests} in {c.form.weights}, {has:.1f} available", *c.form.notes]
        ),
        figures={
            "required_gib_per_accelerator": needs,
            "available_gib_per_accelerator": has,
            "tensor_parallel": split.tp,
            "replica_devices": split.devices,
            "devices": c.hardware.devices * split.instances,
        },
    )


def too_slow(c: Candidate, at: Latency, work: InferenceWork, i: int) -> Infeasible:
    """Return the best figures that this layout (row `i`) reaches at any concurrency, beside the limits; `at` their percentile."""
    limits = work.limits
    split = c.split
    figures: dict[str, float | str] = {"tensor_parallel": split.tp}
    words, excess = [], 1.0
    for name, values, limit in (
        ("TTFT", at.ttft, limits.ttft_ms),
        ("TPOT", at.tpot, limits.tpot_ms),
        ("end-to-end", at.e2e, limits.e2e_ms),
    ):
        if limit is None or (name == "TPOT" and work.output_tokens <= 1):
            continue
        reached = float(values[i].min()) * 1e3
        figures[f"best_{name.lower().replace('-', '_')}_ms"] = reached
        excess = max(excess, reached / limit)
        words.append(f"{name} p{limits.percentile} {reached:.4g} ms (limit {limit:g})")
    figures["excess"] = excess
    return Infeasible(
        reason=RejectionReason.SLO_INFEASIBLE,
        detail=f"best reachable at {layout_words(split)}: {', '.join(words)}",
        figures=figures,
    )


def layout_words(split: Split) -> str:
    """Return a split as engines name it: "TP 8", "TP 8, PP 2 over 2 instances", "TP 1, EP 8"."""
    words = [f"TP {split.tp}"]
    if split.pp > 1:
        words.append(f"PP {split.pp}")
    if split.groups > 1:
        words.append(f"EP {split.tp * split.groups}")
    over = f" over {split.instances} instances" if split.instances > 1 else ""
    return ", ".join(words) + over


_ORDER = (
    RejectionReason.SLO_INFEASIBLE,
    RejectionReason.OUT_OF_MEMORY,
    RejectionReason.LAYOUT_IMPOSSIBLE,
    RejectionReason.PRECISION_UNSUPPORTED,
    RejectionReason.ENGINE_UNSUPPORTED,
)


def main_reason(reasons: Sequence[Infeasible], *, searched: bool = True) -> Infeasible:
    """Return the failure nearest to success: too slow before too small before illegal, and of these the closest miss.

    `searched`: every degree was tried, so that memory in plenty on all devices together means that no degree is legal.
    """

    def distance(item: Infeasible) -> tuple[int, float]:
        figures = item.figures
        if item.reason is RejectionReason.OUT_OF_MEMORY:
            return _ORDER.index(item.reason), float(figures["required_gib_per_accelerator"]) / float(
                figures["available_gib_per_accelerator"]
            )
        return _ORDER.index(item.reason), float(figures.get("excess", 1.0))

    nearest = min(reasons, key=distance)
    if nearest.reason is RejectionReason.OUT_OF_MEMORY and searched:
        degree, devices = float(nearest.figures["replica_devices"]), float(nearest.figures["devices"])
        needed = float(nearest.figures["required_gib_per_accelerator"]) * degree
        room = float(nearest.figures["available_gib_per_accelerator"]) * devices
        if degree < devices and needed <= room:
            detail = f"{nearest.detail}; all {devices:g} together have {room:.1f}, but no tensor-parallel degree above {degree:g} is legal"
            return Infeasible(reason=RejectionReason.LAYOUT_IMPOSSIBLE, detail=detail, figures=nearest.figures)
    return nearest
