"""Which quote stands for an offer, and which machines come into question."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.perf.model import RejectionReason
from planner.recommend.candidates import Filters, select, why_lacking
from planner.recommend.errors import BadRequest
from planner.recommend.model import Offer, Rejection
from planner.recommend.offers import Terms, movement_note, offer_or_rejection
from planner.recommend.request import RecommendRequest
from planner.recommend.stages import PRESETS, presets_held, request_of
from pricing.market import SpotStatistics
from pricing.model import ACCELERATOR_PART_HOUR, AcceleratorKind, InstanceType, InterconnectKind, PurchaseOption, Quote

ONE = InstanceType(
    provider="aws",
    instance_type="a.large",
    family="a",
    vcpus=4,
    memory_gib=16,
    cpu_arch=None,
    accelerator="X",
    accelerator_kind=AcceleratorKind.GPU,
    device_count=1,
)
EIGHT = dataclasses.replace(
    ONE,
    instance_type="a.48xlarge",
    device_count=8,
    interconnect_kind=InterconnectKind.NVSWITCH,
    efa_supported=True,
    local_nvme_gb=3800.0,
)
BASE = Quote(
    provider="aws",
    instance_type="a.large",
    region="r",
    purchase_option=PurchaseOption.ON_DEMAND,
    effective_unit_price=Decimal(1),
    source="t",
    retrieved_at=datetime(2026, 7, 1, tzinfo=UTC),
)


def quote(usd: str, option: str = "on_demand", **what: object) -> Quote:
    return dataclasses.replace(BASE, effective_unit_price=Decimal(usd), purchase_option=PurchaseOption(option), **what)


def pick(quotes, option="on_demand", *, instance=ONE, elsewhere=(), **terms):
    return offer_or_rejection(
        instance,
        "r",
        PurchaseOption(option),
        quotes,
        quoted=frozenset(q.purchase_option for q in quotes),
        terms=Terms(**terms),
        elsewhere=frozenset(PurchaseOption(o) for o in elsewhere),
    )


@pytest.mark.parametrize(
    ("quotes", "option", "elsewhere", "reason", "clause"),
    [
        ([], "on_demand", (), "no_price", "in any region"),
        ([], "on_demand", ("on_demand",), "not_offered", "other regions"),
        ([], "on_demand", ("spot", "capacity_block"), "no_price", "capacity_block, spot"),
        ([quote("1", "spot")], "on_demand", (), "no_price", "there is one for spot"),
        ([quote("0")], "on_demand", (), "no_price", "hole in the data"),
        ([quote("9.5", currency="CNY")], "on_demand", (), "no_price", "9.5 CNY"),
        ([quote("9.5", unit="Quantity")], "on_demand", (), "no_price", "per Quantity"),
        ([quote("1")], "owned", (), "no_price", "owned"),
    ],
)
def test_no_offer_says_why(quotes, option, elsewhere, reason, clause):
    found = pick(quotes, option, elsewhere=elsewhere)
    assert isinstance(found, Rejection)
    assert (found.reason.value, clause in found.detail) == (reason, True)


def test_capacity_blocks_alone():
    block = dataclasses.replace(ONE, capacity_block_only=True)
    assert pick([quote("3", "capacity_block")], instance=block).reason is RejectionReason.CAPACITY_BLOCK_ONLY
    assert pick([quote("3", "capacity_block")], "capacity_block", instance=block).price.amount == 3


@given(
    st.permutations(
        [
            quote("3", "spot", availability_zone_id="z1"),
            quote("2", "spot", availability_zone_id="z2"),
            quote("2", "spot", availability_zone_id="z3"),
            quote("1", "spot", availability_zone_id="z4", at_on_demand_cap=True),
        ]
    )
)
def test_the_cheapest_zone_with_spare_capacity_whatever_the_order(quotes):
    found = pick(quotes, "spot")
    assert isinstance(found, Offer)
    assert found.quote.availability_zone_id == "z2"


@pytest.mark.parametrize(
    ("terms", "usd"),
    [
        ({}, "0.5"),
        ({"payment_option": "no_upfront"}, "0.7"),
        ({"offering_class": "convertible"}, "0.8"),
        ({"payment_option": "no_upfront", "offering_class": "standard"}, "0.7"),
    ],
)
def test_terms_of_a_commitment(terms, usd):
    quotes = [
        quote("0.5", "reserved_1yr", payment_option="all_upfront", offering_class="standard", term_years=1),
        quote("0.7", "reserved_1yr", payment_option="no_upfront", offering_class="standard", term_years=1),
        quote("0.8", "reserved_1yr", payment_option="all_upfront", offering_class="convertible", term_years=1),
    ]
    assert pick(quotes, "reserved_1yr", **terms).price.amount == Decimal(usd)


def test_weak_prices_are_noted():
    assert "derived, not quoted: 1 x 1.2" in pick([quote("1.2", derived=True, notes="1 x 1.2")]).notes[0]
    assert "low confidence" in pick([quote("1.2", confidence="low")]).notes[0]
    assert "Local Zone" in pick([quote("1.2", "spot", availability_zone_id="use1-atl2-az1")], "spot").notes[0]
    assert pick([quote("1.2", "spot", availability_zone_id="use1-az1")], "spot").notes == ()


def test_local_zones_only_where_the_region_itself_has_no_spare_capacity():
    own, capped = (
        quote("1.2", "spot", availability_zone_id="use1-az1"),
        quote("1.2", "spot", availability_zone_id="use1-az1", at_on_demand_cap=True),
    )
    local = quote("0.4", "spot", availability_zone_id="use1-atl2-az1")
    chosen = pick([local, own], "spot")
    assert chosen.quote is own
    assert chosen.notes == ("Local Zones are left out, as an account has to opt in to each (use1-atl2-az1: 0.4 USD/h)",)
    assert pick([local, capped], "spot").quote is local


def test_the_price_of_accelerators_without_their_host_is_no_price_of_an_instance():
    found = pick([quote("1.2", unit=ACCELERATOR_PART_HOUR)])
    assert isinstance(found, Rejection)
    assert found.reason == "no_price"
    assert "without their host: not the price of a whole instance" in found.detail


def test_needs():
    assert [why_lacking(EIGHT, need) for need in ("nvlink", "efa", "local-nvme")] == [None, None, None]
    assert all(why_lacking(ONE, need) for need in ("nvlink", "efa", "local-nvme"))
    kept, out = select(
        [ONE, EIGHT], Filters(needs=("nvlink", "efa")), options=("on_demand", "spot"), regions_of={"aws": ("r1", "r2")}
    )
    assert kept == [EIGHT]
    assert {(r.region, r.purchase_option) for r in out} == {(r, o) for r in ("r1", "r2") for o in ("on_demand", "spot")}
    assert all("nvlink" in r.detail and "efa" in r.detail for r in out)


def test_what_is_not_named_is_no_candidate_and_no_rejection():
    assert select(
        [ONE, EIGHT], Filters(instances=frozenset({"a.large"})), options=("spot",), regions_of={"aws": ("r",)}
    ) == ([ONE], [])
    assert select([ONE], Filters(accelerators=frozenset({"Y"})), options=("spot",), regions_of={"aws": ("r",)}) == (
        [],
        [],
    )


def test_every_stage_makes_a_request_that_can_be_asked():
    for stage in PRESETS:
        request = request_of({"model": "7b", "mode": "training", "dataset_tokens": 1e9, "stage": stage})
        assert all(getattr(request, name) == value for name, value in PRESETS[stage]["training"].items())
        assert presets_held(request).items() >= PRESETS[stage]["training"].items()
    assert request_of({"model": "7b"}) == RecommendRequest(model="7b")
    assert presets_held(RecommendRequest(model="7b")) == {}


def test_a_stage_leaves_what_is_given_even_where_it_equals_a_default():
    given = {"model": "7b", "mode": "training", "dataset_tokens": 1e9, "stage": "dev", "max_instances": 64}
    assert request_of(given).max_instances == 64
    assert presets_held(request_of(given)) == {}
    assert request_of({"model": "7b", "stage": "pretrain", "dataset_tokens": 1e9}).mode == "training"
    assert request_of({"model": "7b", "stage": "pretrain", "mode": "inference"}).purchase == ("on_demand", "spot")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({}, "model"),
        ({"model": "7b", "params": 7e9}, "model"),
        ({"model": "7b", "mode": "trainin"}, "mode"),
        ({"model": "7b", "mode": "training"}, "dataset_tokens"),
        ({"model": "7b", "mode": "training", "dataset_tokens": 1e9, "dataset_size": 1e6}, "dataset_tokens"),
        ({"model": "7b", "utilisation": 0.0}, "utilisation"),
        ({"model": "7b", "utilisation": 1.01}, "utilisation"),
        ({"model": "7b", "requests_per_s": float("inf")}, "requests_per_s"),
        ({"model": "7b", "input_tokens": 0}, "input_tokens"),
        ({"model": "7b", "purchase": ("on-demand",)}, "purchase"),
        ({"model": "7b", "top": 0}, "top"),
        ({"model": "7b", "needs": "efa"}, "needs"),
    ],
)
def test_a_bad_request_names_its_field(request_, field):
    with pytest.raises(BadRequest) as caught:
        RecommendRequest(**request_)
    assert caught.value.field == field


def test_the_echo_of_a_request_asks_the_same_again():
    request = RecommendRequest(model="7b", mode="training", dataset_size=1281167.0, budget_usd=99.5)
    echoed = request.to_document()
    assert (echoed["dataset_size"], type(echoed["dataset_size"]), echoed["budget_usd"]) == (1281167, int, 99.5)
    assert RecommendRequest(**{k: tuple(v) if isinstance(v, list) else v for k, v in echoed.items()}) == request


def pool(median: str, cap: float | None, zone: str = "r-az1") -> SpotStatistics:
    usd = Decimal(median)
    return SpotStatistics(
        provider="aws", instance_type="a.large", region="r", availability_zone_id=zone, window_start=datetime(2026, 6, 1, tzinfo=UTC),
        window_end=datetime(2026, 7, 1, tzinfo=UTC), observed_fraction=1.0, changes=3, last_unit_price=usd, mean_unit_price=usd,
        median_unit_price=usd, p95_unit_price=usd * 2, minimum_unit_price=usd, maximum_unit_price=usd * 2, volatility_fraction=0.3,
        at_on_demand_cap_fraction=cap, source="t", retrieved_at=datetime(2026, 7, 1, tzinfo=UTC),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("statistics", "clauses"),
    [
        ([], None),
        ([pool("0.43", 0.01)], None),  # below a tenth above today's 0.4: nothing is said
        ([pool("0.44", None)], ["last 30 days", "median was 0.44 USD/h", "at most 0.88"]),
        ([pool("0.3", 0.25)], ["25% of the known time it stood at the on-demand cap"]),
        ([pool("9", 1.0, zone="r-az2")], None),  # another pool says nothing of this one
    ],
)
def test_a_spot_price_that_is_not_its_pools_usual_one_says_so(statistics, clauses):
    note = movement_note(quote("0.4", "spot", availability_zone_id="r-az1"), statistics)
    assert (note is None) == (clauses is None)
    assert all(clause in (note or "") for clause in clauses or ())
