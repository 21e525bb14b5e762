"""A stated load is told with its queue: latencies at that load, a note where requests wait, none where the queue has no end."""

from __future__ import annotations

import pytest

from planner import bootstrap
from planner.recommend.errors import BadRequest
from planner.recommend.request import EstimateRequest, RecommendRequest

NAMES = ("ttft_ms", "tpot_ms", "e2e_ms")


def row(**more):
    request = RecommendRequest(
        model="8b", instance=("g6e.xlarge",), purchase=("on_demand",), max_concurrency=80, explain=True, **more
    )
    (found,) = bootstrap.answer_recommendation(request)["recommendations"]
    return found


def notes(found):
    return [n for n in found["notes"] if "at random" in n]


def terms(found):
    return {t["name"]: t for t in found["explanation"]}


@pytest.fixture(scope="module")
def capacity() -> float:
    return float(row()["performance"]["requests_per_s"])


def test_without_a_load_nothing_queues(capacity):
    free = row()
    assert notes(free) == []
    assert "queue_utilisation" not in terms(free)


def test_a_full_instance_warns_and_half_full_ones_do_not(capacity):
    # at 95 % of capacity most of 80 slots are taken: Poisson's deviation of 76 in flight is 8.7
    full = row(requests_per_s=capacity * 0.95)
    assert full["instance_count"] == 1
    (told,) = notes(full)
    assert told.startswith("runs at 9")
    assert "wait for a slot" in told
    half = row(requests_per_s=capacity * 0.95, utilisation=0.5)
    assert (half["instance_count"], notes(half)) == (2, [])
    for name in NAMES:
        assert half["performance"][name]["p99"] < full["performance"][name]["p99"]
    seen = terms(half)
    # Little's law: in flight = rate of a replica x time in a slot, which is end to end where nobody waits
    flying = capacity * 0.95 / 2 * half["performance"]["e2e_ms"]["p50"] / 1e3
    assert seen["queue_in_flight"]["value"] == pytest.approx(flying, rel=0.05)
    assert seen["queue_utilisation"]["value"] == pytest.approx(0.475, rel=0.05)
    assert seen["queue_waiting"]["value"] < 1e-4


def test_traffic_is_told_at_its_peak(capacity):
    varied = row(traffic=(capacity * 0.1, capacity * 0.5, capacity * 0.3))
    steady = row(requests_per_s=capacity * 0.5)
    for name in NAMES:
        assert varied["performance"][name] == steady["performance"][name]
    assert varied["performance"]["at_requests_per_s"] == pytest.approx(capacity * 0.3)
    assert f"latencies are those at the peak of {capacity * 0.5:g} requests/s" in varied["notes"]


def test_an_estimate_under_a_load(capacity):
    def asked(**more):
        return bootstrap.answer_estimate(EstimateRequest(model="8b", instance="g6e.xlarge", max_concurrency=80, **more))

    light, heavy = asked(requests_per_s=0.01), asked(requests_per_s=capacity * 2)
    assert light["performance"]["at_requests_per_s"] == 0.01
    assert light["performance"]["ttft_ms"]["p99"] < asked()["performance"]["ttft_ms"]["p50"]
    # more than it can: served is the capacity, and there is no steady state to speak of
    assert heavy["performance"]["at_requests_per_s"] == pytest.approx(capacity)
    assert [heavy["performance"][name]["p99"] for name in NAMES] == [None] * 3
    assert any("grow without bound" in n for n in heavy["notes"])
    two = asked(requests_per_s=capacity, instances=2)
    assert two["performance"]["ttft_ms"] == asked(requests_per_s=capacity / 2)["performance"]["ttft_ms"]


def test_a_limit_that_a_load_breaks_takes_more_instances(capacity):
    free = row(requests_per_s=capacity * 0.95)
    limit = free["performance"]["ttft_ms"]["p99"] / 2
    held = row(requests_per_s=capacity * 0.95, max_ttft_ms=limit)
    assert held["instance_count"] > free["instance_count"]
    assert held["performance"]["ttft_ms"]["p99"] <= limit
    assert "keep the latency limits" in terms(held)["instance_count"]["formula"]


@pytest.mark.parametrize(
    ("more", "field", "why"),
    [
        ({"max_queue_delay_ms": 5.0}, "max_queue_delay_ms", "without a load"),
        ({"max_batch": 8}, "max_batch", "without a load"),
        ({"max_batch": 8, "requests_per_s": 1.0, "max_concurrency": 8}, "max_batch", "excludes max_concurrency"),
    ],
)
def test_half_a_batching_is_refused(more, field, why):
    with pytest.raises(BadRequest) as refused:
        RecommendRequest(model="resnet50", **more)
    assert refused.value.field == field
    assert why in str(refused.value)


def test_models_that_generate_tokens_have_no_batch_to_fill():
    request = RecommendRequest(model="8b", requests_per_s=1.0, max_batch=8)
    with pytest.raises(BadRequest, match="priced per sample"):
        bootstrap.answer_recommendation(request)


def test_dynamic_batching_in_an_answer():
    def asked(**more):
        request = EstimateRequest(model="resnet50", accelerator="T4", max_batch=16, **more)
        return bootstrap.answer_estimate(request)

    lone = asked(requests_per_s=0.01, max_queue_delay_ms=20.0)
    assert lone["layout"]["batch"] == 16
    # a sample that comes alone waits out the delay, then runs in a batch of its own
    bare = asked(requests_per_s=0.01)["performance"]["e2e_ms"]
    assert lone["performance"]["e2e_ms"]["p50"] == pytest.approx(20.0 + bare["p50"], rel=1e-3)
    refused = bootstrap.answer_recommendation(
        RecommendRequest(model="resnet50", accelerator=("T4",), requests_per_s=10.0, max_batch=16, max_queue_delay_ms=20.0, max_e2e_ms=15.0)
    )  # fmt: skip
    assert refused["recommendations"] == []
    assert {r["reason"] for r in refused["rejections"]} >= {"slo_infeasible"}
