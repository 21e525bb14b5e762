"""Serving: whole expected tables, worked out by hand from the figures of `hand_catalog`."""

from __future__ import annotations

import pytest
from hand_catalog import NOW, QUOTES, SPEC, TOO_SMALL, catalog_of, quote, serving

from planner.recommend.errors import BadRequest
from planner.recommend.request import RecommendRequest
from planner.recommend.stages import request_of
from planner.services.recommend import recommend

RATES = {"Old 24GB": serving(10.0), "New 24GB": serving(20.0), "Small 8GB": TOO_SMALL}


@pytest.fixture(autouse=True)
def plain_outcomes(monkeypatch):
    import planner.perf.inference

    calls = []

    def evaluate(spec, hardware, work, *, parameters=None):
        calls.append([h.accelerator for h in hardware])
        return [RATES[h.accelerator] for h in hardware]

    monkeypatch.setattr(planner.perf.inference, "evaluate_inference", evaluate)
    return calls


def answer(catalog, **request):
    return recommend(request_of({"model": "hand", **request}), catalog=catalog, spec=SPEC, now=NOW)


def test_a_chip_that_is_half_dearer_and_twice_as_fast_costs_three_quarters(tmp_path):
    document = answer(catalog_of(tmp_path), purchase=("on_demand",))
    cost = {row["instance_type"]: row["cost"]["usd_per_million_inferences"] for row in document["recommendations"]}
    # 1.00 USD/h / (10/s x 3600 s) x 1e6 = 27.777...;  1.50 / (20 x 3600) x 1e6 = 20.833...
    assert cost == {"old.xlarge": "27.777778", "new.xlarge": "20.833333"}
    assert float(cost["new.xlarge"]) / float(cost["old.xlarge"]) == pytest.approx(0.75, abs=1e-7)


def test_the_whole_table(tmp_path):
    document = answer(catalog_of(tmp_path))
    table = [
        (r["rank"], r["instance_type"], r["purchase_option"], r["availability_zone_id"], r["cost"]["usd_per_hour"], r["cost"]["usd_per_million_inferences"])
        for r in document["recommendations"]
    ]  # fmt: skip
    assert table == [
        (
            1,
            "old.xlarge",
            "spot",
            "use1-az2",
            "0.300000",
            "8.333333",
        ),  # 0.30 / 36,000 x 1e6; az3 is at the cap, az1 dearer
        (2, "new.xlarge", "on_demand", None, "1.500000", "20.833333"),  # equal cost: option breaks the tie
        (3, "new.xlarge", "spot", "use1-az2", "1.500000", "20.833333"),  # every zone capped: used, and said so
        (4, "old.xlarge", "on_demand", None, "1.000000", "27.777778"),
    ]
    assert [
        (r["instance_type"], r["reason"], r["regions"], r["purchase_options"], r["count"])
        for r in document["rejections"]
    ] == [
        ("block.48xlarge", "capacity_block_only", ["us-east-1"], ["on_demand", "spot"], 2),
        ("china.xlarge", "no_price", ["us-east-1"], ["on_demand", "spot"], 2),
        ("far.xlarge", "no_price", ["us-east-1"], ["spot"], 1),  # nobody quotes a spot price of it anywhere
        ("small.xlarge", "no_price", ["us-east-1"], ["spot"], 1),
        ("unpriced.xlarge", "no_price", ["us-east-1"], ["on_demand", "spot"], 2),
        ("far.xlarge", "not_offered", ["us-east-1"], ["on_demand"], 1),
        ("small.xlarge", "out_of_memory", ["us-east-1"], ["on_demand"], 1),
    ]
    assert document["counts"] == {"candidates": 14, "feasible": 4, "rejected": 10}
    assert any("in every zone" in note for note in document["recommendations"][2]["notes"])
    assert any("1 of 3 zones" in note for note in document["recommendations"][0]["notes"])


def test_one_row_in_every_figure(tmp_path):
    row = answer(catalog_of(tmp_path), purchase=("on_demand",), instance=("old.xlarge",), utilisation=0.5)[
        "recommendations"
    ][0]
    # 10 requests/s at half use: 5 x 3600 = 18,000 an hour for 1.00 USD = 55.555556 per million, over 2,000 tokens each 0.027778 per million;
    # a quarter of the time is prefill: 55.555556 x 0.25 / 1000 = 0.013889 in, x 0.75 / 1000 = 0.041667 out; 730 h x 1.00 a month
    assert row["cost"] | {"low": None, "high": None, "lines": None} == {
        "usd_per_hour": "1.000000", "usd_per_million_inferences": "55.555556", "usd_per_million_total_tokens": "0.027778", "usd_per_million_input_tokens": "0.013889",
        "usd_per_million_output_tokens": "0.041667", "usd_per_epoch": None, "usd_total": None, "usd_per_month": "730.000000", "low": None, "high": None, "lines": None,
    }  # fmt: skip
    assert row["cost"]["lines"] == [
        {"name": "compute", "quantity": 1, "unit": "instance-hour", "unit_price": "1.00", "usd": "1.000000", "source": "on_demand old.xlarge us-east-1, 2026-07-01: hand on_demand"}
    ]  # fmt: skip
    # twice the rate halves the cost, half the rate doubles it; the hour costs what it costs
    assert (row["cost"]["low"]["usd_per_million_inferences"], row["cost"]["high"]["usd_per_million_inferences"]) == (
        "27.777778",
        "111.111111",
    )
    assert row["cost"]["low"]["usd_per_hour"] is None
    assert row["performance"]["requests_per_s"] == 10.0
    assert row["performance"]["at_requests_per_s"] == 5.0
    assert row["performance"]["low"]["requests_per_s"] == 5.0
    assert row["performance"]["high"]["e2e_ms"] == {
        "p50": 1000.0,
        "p99": 2000.0,
    }  # p90 of the latency: at the p10 of the rate
    # 200 W x 1.15 = 0.23 kW over 18,000 requests an hour
    assert row["energy"]["kwh_per_million_inferences"] == pytest.approx(0.23 / 18_000 * 1e6)
    assert row["time"] == {"hours_per_epoch": None, "hours_total": None}
    assert (row["accelerator"], row["accelerators_per_instance"], row["instance_count"]) == ("Old 24GB", 1, 1)


def test_a_load_sets_the_number_of_instances(tmp_path):
    row = answer(
        catalog_of(tmp_path), purchase=("on_demand",), instance=("old.xlarge",), requests_per_s=45, utilisation=0.8
    )["recommendations"][0]
    # 45 / (10 x 0.8) = 5.6 -> 6 instances, 6.00 USD/h; 45 x 3600 = 162,000 served: 37.037037 per million
    assert (row["instance_count"], row["cost"]["usd_per_hour"], row["cost"]["usd_per_million_inferences"]) == (
        6,
        "6.000000",
        "37.037037",
    )
    assert (row["performance"]["at_requests_per_s"], row["performance"]["requests_per_s"]) == (45, 60.0)
    # at twice the rate 45/16 -> 3 instances, at half 45/4 -> 12
    assert (row["cost"]["low"]["usd_per_hour"], row["cost"]["high"]["usd_per_hour"]) == ("3.000000", "12.000000")


def test_an_exact_load_needs_no_spare_instance(tmp_path):
    rows = answer(
        catalog_of(tmp_path), purchase=("on_demand",), instance=("old.xlarge",), requests_per_s=24, utilisation=0.8
    )["recommendations"]
    assert rows[0]["instance_count"] == 3  # 24 / 8, although 24 / (10 x 0.8) in binary may be a hair above


def test_a_monthly_budget_rejects_with_the_figure(tmp_path):
    document = answer(catalog_of(tmp_path), purchase=("on_demand",), budget_usd=800)
    assert [r["instance_type"] for r in document["recommendations"]] == [
        "old.xlarge"
    ]  # 730 a month; new.xlarge is 1,095
    over = next(r for r in document["rejections"] if r["reason"] == "budget")
    assert over["instance_type"] == "new.xlarge"
    assert "1095.00" in over["detail"]
    assert "800.00" in over["detail"]


def test_a_price_of_zero_and_a_missing_price_are_holes_not_bargains(tmp_path):
    quotes = (
        quote("old.xlarge", "0.35", "spot", zone="use1-az1"), quote("old.xlarge", "1.006"), quote("new.xlarge", "0.00", "spot", zone="use1-az1"), quote("new.xlarge", "0.8048"),
        quote("small.xlarge", "1.861"),
    )  # fmt: skip
    document = answer(catalog_of(tmp_path, quotes=quotes), purchase=("spot",))
    assert [r["instance_type"] for r in document["recommendations"]] == ["old.xlarge"]
    reasons = {r["instance_type"]: (r["reason"], r["detail"]) for r in document["rejections"]}
    assert reasons["new.xlarge"][0] == reasons["small.xlarge"][0] == "no_price"
    assert "hole in the data" in reasons["new.xlarge"][1]


def test_another_currency_is_never_ranked_against_usd(tmp_path):
    document = answer(catalog_of(tmp_path), instance=("china.xlarge",))
    assert document["recommendations"] == []
    assert document["rejections"][0]["reason"] == "no_price"
    assert "9.51389 CNY" in document["rejections"][0]["detail"]


def test_equal_machines_are_evaluated_once(tmp_path, plain_outcomes):
    from hand_catalog import TYPES, machine

    twins = (*TYPES, machine("twin.xlarge", "Old 24GB"))
    answer(catalog_of(tmp_path, types=twins, quotes=(*QUOTES, quote("twin.xlarge", "1.2"))))
    assert plain_outcomes == [["New 24GB", "Old 24GB", "Small 8GB"]]


@pytest.mark.parametrize(
    ("request_", "field", "hint"),
    [
        ({"region": ("us-east-2",)}, "region", "us-east-1"),
        ({"instance": ("old.xlarg",)}, "instance", "old.xlarge"),
        ({"accelerator": ("Old 24",)}, "accelerator", "Old 24GB"),
        ({"exclude": ("old.xlarje",)}, "exclude", "old.xlarge"),
        ({"provider": ("awss",)}, "provider", "aws"),
    ],
)
def test_an_unknown_name_is_a_bad_request_with_near_misses(tmp_path, request_, field, hint):
    with pytest.raises(BadRequest) as caught:
        answer(catalog_of(tmp_path), **request_)
    assert caught.value.field == field
    assert hint in str(caught.value)


@pytest.mark.parametrize("name", ["new.xlarge", "new", "New 24GB", "NEW.XLARGE"])
def test_exclude_takes_a_type_a_family_or_a_chip(tmp_path, name):
    document = answer(catalog_of(tmp_path), exclude=(name,), purchase=("on_demand",))
    assert [r["instance_type"] for r in document["recommendations"]] == ["old.xlarge"]
    assert "new.xlarge" in {r["instance_type"] for r in document["rejections"] if r["reason"] == "excluded"}


def test_everywhere_reaches_the_other_region(tmp_path):
    document = answer(catalog_of(tmp_path), region=("all",), instance=("far.xlarge",), purchase=("on_demand",))
    assert [(r["instance_type"], r["region"]) for r in document["recommendations"]] == [("far.xlarge", "eu-west-1")]
    assert [(r["reason"], r["regions"]) for r in document["rejections"]] == [("not_offered", ["us-east-1"])]


def test_nothing_fits_is_an_answer(tmp_path):
    document = answer(catalog_of(tmp_path), instance=("small.xlarge",), purchase=("on_demand",))
    assert document["recommendations"] == []
    assert [(r["reason"], r["detail"]) for r in document["rejections"]] == [("out_of_memory", TOO_SMALL.detail)]


def test_ages_are_the_only_thing_that_the_clock_moves(tmp_path):
    from datetime import timedelta

    catalog = catalog_of(tmp_path)
    request = RecommendRequest(model="hand")
    early = recommend(request, catalog=catalog, spec=SPEC, now=NOW)
    late = recommend(request, catalog=catalog, spec=SPEC, now=NOW + timedelta(days=40))
    assert early["prices"]["sources"][0]["age_hours"] == 12  # midnight to half past twelve, whole hours
    assert [s["stale"] for s in early["prices"]["sources"]] == [False, False]
    assert [(s["kind"], s["stale"]) for s in late["prices"]["sources"]] == [("on_demand", True), ("spot", True)]

    def without_ages(value):
        if isinstance(value, dict):
            return {k: without_ages(v) for k, v in value.items() if k not in {"age_hours", "stale"}}
        return [without_ages(v) for v in value] if isinstance(value, list) else value

    assert without_ages(early) == without_ages(late)
    assert early["id"] == late["id"]


@pytest.mark.parametrize(("hours", "stale"), [(24, False), (25, True)])
def test_a_spot_price_is_stale_after_a_day(tmp_path, hours, stale):
    from datetime import timedelta

    from hand_catalog import DAY

    document = recommend(
        RecommendRequest(model="hand", purchase=("spot",)),
        catalog=catalog_of(tmp_path),
        spec=SPEC,
        now=DAY + timedelta(hours=hours),
    )
    assert document["recommendations"][0]["price"]["stale"] is stale


def test_the_order_of_sorts(tmp_path):
    by = {
        s: [
            r["instance_type"] for r in answer(catalog_of(tmp_path), sort=s, purchase=("on_demand",))["recommendations"]
        ]
        for s in ("cost", "time", "energy")
    }
    assert by == {
        "cost": ["new.xlarge", "old.xlarge"],
        "time": ["new.xlarge", "old.xlarge"],
        "energy": ["new.xlarge", "old.xlarge"],
    }
    only = answer(catalog_of(tmp_path), sort="time")["recommendations"]
    assert only[0]["instance_type"] == "new.xlarge"  # although spot old.xlarge is cheaper


def test_a_commitment_is_ranked_by_its_effective_hour(tmp_path):
    # 4,000 upfront and 0.21 an hour over three years: 0.21 + 4000 / 26,280 = 0.362207 an hour
    reserved = quote(
        "old.xlarge",
        "0.3622070015220700",
        "reserved_3yr",
        term_years=3,
        payment_option="partial_upfront",
        offering_class="standard",
    )
    document = answer(
        catalog_of(tmp_path, quotes=(*QUOTES, reserved)),
        purchase=("on_demand", "reserved_3yr"),
        instance=("old.xlarge",),
    )
    first = document["recommendations"][0]
    assert (first["purchase_option"], first["cost"]["usd_per_hour"]) == ("reserved_3yr", "0.362207")
    assert first["purchase"] == {
        "plan_type": None,
        "payment_option": "partial_upfront",
        "offering_class": "standard",
        "term_years": 3,
    }
    # 0.362207 x 26,280 h = 9,518.80 for the term
    assert any("committed for 3 years: 9518.80 USD is due" in note for note in first["notes"])
    other = answer(
        catalog_of(tmp_path, quotes=(*QUOTES, reserved)),
        purchase=("reserved_3yr",),
        payment_option="all_upfront",
        instance=("old.xlarge",),
    )
    assert [(r["reason"], "all_upfront" in r["detail"]) for r in other["rejections"]] == [("no_price", True)]


def test_stage_fills_in_what_is_not_given(tmp_path):
    document = answer(catalog_of(tmp_path), stage="production")
    assert document["stage_presets"]["utilisation"] == 0.6
    assert document["request"]["utilisation"] == 0.6
    assert "spot" not in document["request"]["purchase"]
    asked = {"utilisation": float("1"), "purchase": (*["on_demand"], "spot")}  # equal to the defaults, but given
    for given in ({"utilisation": 0.9}, asked):
        kept = answer(catalog_of(tmp_path), stage="production", **given)
        assert {name: kept["request"][name] for name in given} == {
            n: list(v) if isinstance(v, tuple) else v for n, v in given.items()
        }
        assert not set(given) & set(kept["stage_presets"])


@pytest.mark.parametrize("text", ["pue", "puee=1.2", "pue=x", "pue=0.5", "pue=nan"])
def test_an_assumption_that_cannot_be_is_a_bad_request(tmp_path, text):
    with pytest.raises(BadRequest) as caught:
        answer(catalog_of(tmp_path), assume=(text,))
    assert caught.value.field == "assume"


def test_an_assumption_can_be_changed_and_says_who_did(tmp_path):
    document = answer(catalog_of(tmp_path), assume=("pue=1.5",), instance=("old.xlarge",), purchase=("on_demand",))
    assert next(a for a in document["assumptions"] if a["name"] == "pue") == {
        "name": "pue",
        "value": 1.5,
        "unit": "ratio",
        "source": "the request",
    }
    assert document["recommendations"][0]["energy"]["kwh_per_million_inferences"] == pytest.approx(
        0.2 * 1.5 / 36_000 * 1e6
    )


def test_a_limit_of_training_is_refused_for_inference(tmp_path):
    with pytest.raises(BadRequest) as caught:
        answer(catalog_of(tmp_path), deadline_hours=5)
    assert caught.value.field == "deadline_hours"


def test_explanation_can_be_redone_with_a_calculator(tmp_path):
    row = answer(catalog_of(tmp_path), explain=True, instance=("old.xlarge",), purchase=("on_demand",))[
        "recommendations"
    ][0]
    terms = {t["name"]: t for t in row["explanation"]}
    assert "1,000,000,000 parameters x 4 bytes = 4.00 GB = 3.73 GiB" in terms["weights_fp32"]["formula"]
    assert terms["usd_per_million_inferences"]["formula"] == "1.000000 USD/h / (3600 s/h x 10 requests/s) x 1,000,000"
    assert (
        terms["kwh_per_million_inferences"]["formula"]
        == "200 W / 1000 x PUE 1.15 / (3600 s/h x 10 requests/s) x 1,000,000"
    )
    assert terms["throughput_interval"]["value"] == "0.5 to 2"
    assert terms["usd_per_instance_hour"]["source"].startswith("on_demand old.xlarge us-east-1, 2026-07-01")
    assert (
        sum(t["value"] for n, t in terms.items() if n.startswith("memory_") and n != "memory_available")
        == row["memory"]["required_gib_per_accelerator"]
    )
    assert "explanation" not in answer(catalog_of(tmp_path))["recommendations"][0]


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_the_facts_never_changes_the_answer(tmp_path, seed):
    import random

    catalog = catalog_of(tmp_path)
    straight = answer(catalog, region=("all",))

    class Shuffled:
        """The same catalog, whose lists come in any order."""

        def __init__(self):
            self.random = random.Random(seed)

        def __getattr__(self, name):
            return getattr(catalog, name)

        def shuffled(self, items):
            return self.random.sample(list(items), len(items))

        def quotes(self, **filters):
            return self.shuffled(catalog.quotes(**filters))

        def instance_types(self, provider=None):
            return tuple(self.shuffled(catalog.instance_types(provider)))

    assert answer(Shuffled(), region=("all",)) == straight


def test_a_spot_price_that_is_not_below_on_demand_is_capped_even_if_no_source_says_so(tmp_path):
    quotes = (
        quote("old.xlarge", "1.00"),
        quote("old.xlarge", "1.00", "spot", zone="use1-az1"),
        quote("old.xlarge", "0.9", "spot", zone="use1-az2"),
    )
    (row,) = answer(catalog_of(tmp_path, quotes=quotes), purchase=("spot",))["recommendations"]
    assert row["availability_zone_id"] == "use1-az2"
    assert any("1 of 2 zones" in note for note in row["notes"])


def test_pareto_marks_what_is_neither_cheaper_nor_faster_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setitem(RATES, "Old 24GB", serving(10.0, e2e_p99_ms=500.0))
    rows = answer(catalog_of(tmp_path), sort="latency")["recommendations"]
    # old spot 8.33 at 500 ms beats everything: new is dearer and slower, old on-demand dearer at the same latency
    assert [(r["instance_type"], r["purchase_option"], r["pareto"]) for r in rows] == [
        ("old.xlarge", "spot", True),
        ("old.xlarge", "on_demand", False),
        ("new.xlarge", "on_demand", False),
        ("new.xlarge", "spot", False),
    ]


def test_traffic_is_sized_for_its_peak_and_paid_by_its_mean(tmp_path):
    document = answer(catalog_of(tmp_path), purchase=("on_demand",), traffic=(5.0, 25.0, 15.0))
    rows = {r["instance_type"]: r for r in document["recommendations"]}
    # peak 25/s: 3 x 10/s at 1.00 USD/h, 2 x 20/s at 1.50 USD/h; mean 15/s: 3.00 / (15 x 3600) x 1e6 = 55.5555...
    assert {n: (r["instance_count"], r["cost"]["usd_per_hour"]) for n, r in rows.items()} == {
        "old.xlarge": (3, "3.000000"),
        "new.xlarge": (2, "3.000000"),
    }
    assert {r["cost"]["usd_per_million_inferences"] for r in rows.values()} == {"55.555556"}
    assert {r["performance"]["at_requests_per_s"] for r in rows.values()} == {15.0}


@pytest.mark.parametrize(
    "given",
    [
        {"traffic": (1.0,), "requests_per_s": 2.0},
        {"traffic": (0.0, 0.0)},
        {"traffic": (-1.0,)},
        {"traffic": (1.0,) * 8785},
    ],
)
def test_a_traffic_that_cannot_be_is_a_bad_request(tmp_path, given):
    with pytest.raises(BadRequest):
        answer(catalog_of(tmp_path), **given)
