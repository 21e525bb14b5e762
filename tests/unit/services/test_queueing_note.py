"""A stated load that fills its instances says that random arrivals queue, and how many instances would not."""

from __future__ import annotations

from planner import bootstrap
from planner.recommend.request import RecommendRequest


def notes(**more) -> list[str]:
    request = RecommendRequest(
        model="8b", instance=("g6e.xlarge",), purchase=("on_demand",), max_concurrency=80, **more
    )
    (row,) = bootstrap.answer_recommendation(request)["recommendations"]
    return [n for n in row["notes"] if "at random" in n] + [str(row["performance"]["requests_per_s"])]


def test_a_full_instance_warns_and_half_full_ones_do_not():
    (capacity,) = notes()  # without a load there is nothing to queue
    full, _ = notes(requests_per_s=float(capacity) * 0.98)
    # 0.98 x 80 = 78.4 in flight; 78.4 + 2.326 x 8.85 = 99.0 slots of 80 each: 2
    assert full.startswith("runs at 98% of capacity: latencies hold with up to 80 requests in flight")
    assert full.endswith("2 instances leave room for them")
    assert len(notes(requests_per_s=float(capacity) * 0.98, utilisation=0.5)) == 1
