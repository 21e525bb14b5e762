"""Presets of a stage of work. They fill in only what the request leaves at its default, and the answer lists what they set.

A field counts as not given while it holds the very object that is its default; a number or list that is given is another object even
where it is equal (for words and small whole numbers Python may share one, and then the preset applies: the answer says so). No preset sets a latency limit, a deadline or a budget: those are
the user's to state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from planner.recommend.request import RecommendRequest
from pricing.model import PurchaseOption

STEADY = (PurchaseOption.ON_DEMAND.value, PurchaseOption.SAVINGS_PLAN_1YR.value, PurchaseOption.RESERVED_1YR.value)

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    # tried now and then by a few people: the machine mostly waits; runs are short and stay on one instance
    "dev": {"inference": {"utilisation": 0.1}, "training": {"max_instances": 1}},
    # shown to first users: bursts with long gaps
    "prototype": {"inference": {"utilisation": 0.3}, "training": {"max_instances": 4}},
    # serves customers: head-room for peaks, nothing that can be taken away without notice
    "production": {"inference": {"utilisation": 0.6, "purchase": STEADY}, "training": {"purchase": STEADY}},
    # weeks on many instances: needs the fast network, and capacity that stays
    "pretrain": {
        "inference": {"mode": "training"},
        "training": {"needs": ("efa",), "purchase": (*STEADY, PurchaseOption.CAPACITY_BLOCK.value)},
    },
}


def with_stage(request: RecommendRequest) -> tuple[RecommendRequest, dict[str, Any]]:
    """Return the request with its stage's presets, and what they set; checked like any request."""
    if request.stage is None:
        return request, {}
    fresh = {f.name: f.default for f in dataclasses.fields(RecommendRequest)}
    applied: dict[str, Any] = {}
    for mode in ("inference", "training"):  # pretrain turns the mode to training first
        if request.mode == mode:
            new = {
                name: value
                for name, value in PRESETS[request.stage].get(mode, {}).items()
                if getattr(request, name) is fresh[name]
            }
            request = dataclasses.replace(request, **new)
            applied |= new
    return request, applied
