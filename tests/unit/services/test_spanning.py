"""Replicas that span instances, engines, speculation and capacity, through the use-cases, on the shipped prices."""

from __future__ import annotations

import pytest

from planner import bootstrap
from planner.cli.estimate_table import estimate_text
from planner.recommend.errors import BadRequest
from planner.recommend.request import EstimateRequest, RecommendRequest

P5_USD_PER_HOUR = 55.04


@pytest.fixture(autouse=True)
def shipped_prices(monkeypatch, tmp_path):
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "none"))


def estimate(**request):
    return bootstrap.answer_estimate(EstimateRequest(**request))


def recommend(**request):
    return bootstrap.answer_recommendation(RecommendRequest(**{"purchase": ("on_demand",), **request}))


@pytest.mark.parametrize(
    ("model", "split", "degree"), [("llama-3.1-405b", "pipeline_parallel", 2), ("deepseek-v3", "expert_parallel", 16)]
)
def test_two_hosts_serve_one_replica_and_both_are_paid(model, split, degree):
    (row,) = recommend(model=model, instance=("p5.48xlarge",))["recommendations"]
    assert row["instance_count"] == 2
    assert row["layout"][split] == degree
    assert row["layout"]["replicas_per_instance"] is None
    assert float(row["cost"]["usd_per_hour"]) == 2 * P5_USD_PER_HOUR
    served = row["performance"]["requests_per_s"]
    million = 2 * P5_USD_PER_HOUR / (3600 * served) * 1e6
    assert float(row["cost"]["usd_per_million_inferences"]) == pytest.approx(million, rel=1e-5)


def test_a_load_takes_whole_replicas():
    (one,) = recommend(model="llama-3.1-405b", instance=("p5.48xlarge",))["recommendations"]
    load = 2.5 * one["performance"]["requests_per_s"]
    (row,) = recommend(model="llama-3.1-405b", instance=("p5.48xlarge",), requests_per_s=load, explain=True)[
        "recommendations"
    ]
    assert row["instance_count"] == 6  # ceil(2.5) = 3 replicas of two
    assert float(row["cost"]["usd_per_hour"]) == pytest.approx(6 * P5_USD_PER_HOUR)
    assert row["performance"]["requests_per_s"] == pytest.approx(3 * one["performance"]["requests_per_s"])
    assert row["energy"]["kwh_per_million_inferences"] is not None
    (count,) = [t for t in row["explanation"] if t["name"] == "instance_count"]
    assert count["formula"].endswith("x 2 instances of a replica")


def test_degrees_wider_than_an_instance_take_the_instances_that_are_given():
    wide = estimate(model="70b", instance="p5.48xlarge", instances=2, tensor_parallel=16)
    assert (wide["instance_count"], wide["layout"]["tensor_parallel"], wide["rejections"]) == (2, 16, [])
    dealt = estimate(model="deepseek-v3", instance="p5en.48xlarge", instances=2, expert_parallel=16)
    assert (dealt["instance_count"], dealt["layout"]["expert_parallel"], dealt["rejections"]) == (2, 16, [])
    refused = estimate(model="70b", instance="p5.48xlarge", tensor_parallel=16)
    assert refused["rejections"][0]["detail"] == "needs 16 devices, those of 2 instances of 8; one may be used"


def test_one_instance_may_be_asked_for():
    answer = recommend(model="llama-3.1-405b", instance=("p5.48xlarge",), max_instances=1)
    assert answer["recommendations"] == []
    assert answer["rejections"][0]["reason"] == "out_of_memory"
    assert estimate(model="llama-3.1-405b", instance="p5.48xlarge")["layout"] is None
    four = estimate(model="llama-3.1-405b", instance="p5.48xlarge", instances=4)
    assert four["instance_count"] == 4
    two = estimate(model="llama-3.1-405b", instance="p5.48xlarge", instances=2)
    assert four["performance"]["requests_per_s"] == pytest.approx(2 * two["performance"]["requests_per_s"])


def test_an_estimate_says_what_would_fit():
    document = estimate(model="8b", instance="g6e.xlarge", max_concurrency=8)
    memory = document["memory"]
    # L40S: 0.9 x 44.5 GiB less 14.96 (weights), 0.5, 0.5 (graphs) and about 0.2; 131,072 B a token: about 192,000 tokens, of which each
    # request leaves 7.5 of a page empty.
    room = (0.9 * 44.5 - 14.958 - 0.5 - 0.5 - 0.211) * 2**30
    assert memory["max_concurrency_at_context"] == pytest.approx(room / (2007.5 * 131_072 + 6 * 128_256), abs=1)
    assert memory["max_context_tokens"] == pytest.approx(room / 8 / 131_072, rel=0.005)
    assert memory["max_context_tokens_of_one"] == 131_072  # the model's own
    text = estimate_text(document, width=120, colour=False)
    assert f"at most {memory['max_concurrency_at_context']} requests of 2,000 tokens" in text
    assert (
        f"{memory['max_context_tokens']:,} tokens (input and output) with 8 requests in flight, 131,072 of one alone"
        in text
    )


@pytest.mark.parametrize(
    ("given", "missing"),
    [({"speculative_tokens": 4}, "acceptance_rate"), ({"acceptance_rate": 0.7}, "speculative_tokens")],
)
def test_half_of_speculation_is_refused_by_name(given, missing):
    for request in (RecommendRequest, EstimateRequest):
        place = {} if request is RecommendRequest else {"instance": "g5.xlarge"}
        with pytest.raises(BadRequest, match=f"says nothing without {missing}"):
            request(model="8b", **given, **place)


def test_speculation_and_engines_are_echoed_and_ranked():
    plain = estimate(model="8b", instance="g6e.xlarge", max_concurrency=1)
    fast = estimate(model="8b", instance="g6e.xlarge", max_concurrency=1, speculative_tokens=4, acceptance_rate=0.8)
    assert fast["layout"]["speculative_tokens"] == 4
    assert plain["layout"]["speculative_tokens"] is None
    assert fast["performance"]["tpot_ms"]["p50"] < plain["performance"]["tpot_ms"]["p50"]
    row = recommend(model="70b", engine="llama.cpp", precision="q4_k_m", instance=("g5.12xlarge",))["recommendations"][
        0
    ]
    assert (row["layout"]["precision"], row["layout"]["engine"]) == ("gguf-q4_k_m", "llama.cpp")
    assert row["layout"]["tensor_parallel"] == 1
    assert row["layout"]["pipeline_parallel"] > 1


def test_explanations_name_bound_and_intensity_of_every_class():
    document = estimate(model="mixtral-8x7b", instance="p4d.24xlarge", explain=True)
    names = [t["name"] for t in document["explanation"]]
    for phase in ("decode", "prefill"):
        for part in ("attention", "expert", "head", "other"):
            assert any(
                n.startswith(f"{phase} {part}: ") and n.endswith(" FLOP/B") and "-bound at" in n for n in names
            ), (phase, part)
        (bound,) = [t for t in document["explanation"] if t["name"] == f"bound of {phase}"]
        assert bound["value"] in {"compute", "memory", "collectives", "overhead"}
        shares = [float(x.split()[1].rstrip("%")) for x in bound["formula"].removesuffix(" of the time").split(", ")]
        assert sum(shares) == pytest.approx(100, abs=0.3)


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "8b", "instance": "g6e.xlarge", "instances": 2, "tensor_parallel": 2},
        {"model": "mixtral-8x7b", "instance": "p5.48xlarge", "tensor_parallel": 1, "expert_parallel": 8},
    ],
)
def test_rows_of_single_machines_say_nothing_of_replicas_over_several_or_with_groups(asked):
    # Both models have published rows on the chip, which answer for plain layouts.
    plain = {k: v for k, v in asked.items() if k in {"model", "instance"}} | {"tensor_parallel": 1}
    plain |= {"tensor_parallel": 8} if asked["instance"] == "p5.48xlarge" else {}
    assert estimate(**plain)["performance"]["basis"] == "published"
    found, alone = estimate(**asked)["performance"], estimate(**asked, evidence="model")["performance"]
    assert found["basis"] == "modelled"
    assert found == alone
