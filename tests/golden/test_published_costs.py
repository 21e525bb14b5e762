"""What we say a million inferences cost, beside what a vendor published for the same model, shape and instance.

Published: AWS Neuron SDK documentation, benchmark tables of inf1, inf2 and trn1, release 2.18.0 (2024-04-25), "cost per 1M inferences" at
on-demand prices of that day: 1e6 / throughput x price / 3600, batch (maximum throughput) rows. Read 2026-11.
"""

from __future__ import annotations

import pytest

from planner import bootstrap
from planner.recommend.request import RecommendRequest

SAME_ORDER = 10**0.5  # half an order of magnitude to either side


@pytest.mark.parametrize(
    ("model", "instance", "published_usd"),
    [
        ("bert-base", "inf1.xlarge", 0.0600),  # sequence length 128, 1,056 a second at 0.228 USD/h
        ("bert-base", "trn1.2xlarge", 0.1176),  # sequence length 128, 3,165.6 a second at 1.34 USD/h
        ("resnet50", "inf2.xlarge", 0.0470),  # 224 x 224, 4,476.8 a second at 0.758 USD/h
    ],
)
def test_cost_of_a_million_inferences_is_of_the_published_order(monkeypatch, tmp_path, model, instance, published_usd):
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path))
    (row,) = bootstrap.answer_recommendation(
        RecommendRequest(model=model, instance=(instance,), purchase=("on_demand",))
    )["recommendations"]
    ours = float(row["cost"]["usd_per_million_inferences"])
    assert published_usd / SAME_ORDER < ours < published_usd * SAME_ORDER
