"""Presets of a stage of work. They fill in only what is not given, and the answer lists those that hold.

No preset sets a latency limit, a deadline or a budget: those are the user's to state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.recommend.request import RecommendRequest
from pricing.model import PurchaseOption

STEADY = (PurchaseOption.ON_DEMAND.value, PurchaseOption.SAVINGS_PLAN_1YR.value, PurchaseOption.RESERVED_1YR.value)

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    # tried now and then by a few people: a request every ten seconds; runs are short and stay on one instance
    "dev": {"inference": {"requests_per_s": 0.1}, "training": {"max_instances": 1}},
    # shown to first users: a request a second
    "prototype": {"inference": {"requests_per_s": 1.0}, "training": {"max_instances": 4}},
    # serves customers: head-room for peaks, nothing that can be taken away without notice
    "production": {"inference": {"utilisation": 0.6, "purchase": STEADY}, "training": {"purchase": STEADY}},
    # weeks on many instances: needs the fast network, and capacity that stays
    "pretrain": {
        "inference": {"mode": "training"},
        "training": {"needs": ("efa",), "purchase": (*STEADY, PurchaseOption.CAPACITY_BLOCK.value)},
    },
}


def request_of(given: Mapping[str, Any]) -> RecommendRequest:
    """Return the request of what was given; the presets of its stage fill in what was not."""
    return RecommendRequest(**{**presets_for(given), **given})


def presets_for(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the stage of a request sets among the fields that were not given."""
    presets = PRESETS.get(str(given.get("stage")), {})
    mode = str(given.get("mode", "inference"))
    out: dict[str, Any] = {}
    for each in ("inference", "training"):  # pretrain turns the mode to training first
        if mode == each:
            out |= {name: value for name, value in presets.get(each, {}).items() if name not in given}
            if "traffic" in given:  # it states the load
                out.pop("requests_per_s", None)
            mode = str(out.get("mode", mode))
    return out


def presets_held(request: RecommendRequest) -> dict[str, Any]:
    """Return the presets of the request's stage that it holds: what the stage set, or what was given in the same words."""
    presets = PRESETS.get(request.stage or "", {})
    turned = {"mode": request.mode} if presets.get("inference", {}).get("mode") == request.mode else {}
    return {n: v for n, v in {**turned, **presets.get(request.mode, {})}.items() if getattr(request, n) == v}
