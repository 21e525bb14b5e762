"""What becomes of readings: replaced in scope, kept, withdrawn, refused, flagged; expectations are worked out by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from small_contents import DAY, MOMENT, chip, quote, shape, small_contents

from pricing.contents import SnapshotContents
from pricing.market import Discount, Notice, NoticeKind, Quota, SpotChange, ZoneOffering
from pricing.merge import Merged, merge
from pricing.model import Interruption, PurchaseOption, Quote, Rate
from pricing.refresh.said import Failure
from pricing.snapshot import content_id
from pricing.source import ANY_TYPE, Scope, SourceReading

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=6)
OPTIONS = frozenset({PurchaseOption.ON_DEMAND, PurchaseOption.RESERVED_1YR, PurchaseOption.RESERVED_3YR})
FLOOR = small_contents()


def live(name: str, price: str, region: str = "us-east-1", at: datetime = NOW, **over: Any) -> Quote:
    return quote("aws", name, region, price, **({"source": "AWS price list", "retrieved_at": at, "list_unit_price": Decimal(price)} | over))  # fmt: skip


def spot(name: str, zone: str, price: str, at: datetime = NOW, **over: Any) -> Quote:
    given = {"availability_zone_id": zone, "availability_zone": f"us-east-1{zone[-1]}", "source": "AWS DescribeSpotPriceHistory"}  # fmt: skip
    return quote("aws", name, "us-east-1", price, PurchaseOption.SPOT, retrieved_at=at, **(given | over))


def price_list(*quotes: Quote, region: str = "us-east-1", at: datetime = NOW, **over: Any) -> SourceReading:
    scope = Scope(provider="aws", region=region, tables=frozenset({"quotes"}), purchase_options=OPTIONS)
    return SourceReading(source="price_list", scope=scope, retrieved_at=at, quotes=quotes, **over)


def spot_reading(
    *quotes: Quote, changes: tuple[SpotChange, ...] = (), at: datetime = NOW, **over: Any
) -> SourceReading:
    scope = Scope(
        provider="aws",
        region="us-east-1",
        tables=frozenset({"quotes", "spot_changes"}),
        purchase_options=frozenset({PurchaseOption.SPOT}),
    )
    return SourceReading(source="spot", scope=scope, retrieved_at=at, quotes=quotes, spot_changes=changes, **over)


def types_reading(*types: Any, region: str = "us-east-1") -> SourceReading:
    scope = Scope(provider="aws", region=region, tables=frozenset({"instance_types"}))
    return SourceReading(source="instance_types", scope=scope, retrieved_at=NOW, instance_types=types)


def merged(*readings: SourceReading, base: SnapshotContents = FLOOR, at: datetime = NOW, **over: Any) -> Merged:
    return merge(base, FLOOR, readings, at=at, **over)


def prices(contents: SnapshotContents, option: PurchaseOption = PurchaseOption.ON_DEMAND) -> dict[str, str]:
    return {
        f"{q.provider} {q.instance_type} {q.region}{' ' + q.availability_zone_id if q.availability_zone_id else ''}": f"{q.effective_unit_price:f} {q.source}"
        for q in contents.quotes
        if q.purchase_option is option
    }


def notices(result: Merged, kind: NoticeKind) -> list[tuple[str, int]]:
    return [(n.subject, n.count) for n in result.contents.notices if n.kind is kind]


# -- scope --------------------------------------------------------------------------------------------------------


def test_a_reading_replaces_its_region_and_nothing_else():
    result = merged(price_list(live("p5.48xlarge", "50"), live("g6.xlarge", "0.8")))
    assert prices(result.contents) == {
        "aws p5.48xlarge us-east-1": "50 AWS price list",
        "aws g6.xlarge us-east-1": "0.8 AWS price list",
        "aws p5.48xlarge us-west-2": "55.040 price list",
        "lambda 1x H100 us-south-1": "3.29 price list",
        "nebius 1x H100 us-central1": "2.95 price list",
    }
    assert prices(result.contents, PurchaseOption.SPOT) == prices(FLOOR, PurchaseOption.SPOT)
    assert result.changes == {"new": 0, "changed": 2, "withdrawn": 0, "unchanged": 5}


def test_what_only_the_shipped_tables_have_stays_with_its_own_source_and_age():
    result = merged(price_list(live("p5.48xlarge", "55.04")))
    assert prices(result.contents)["aws g6.xlarge us-east-1"] == "0.8048 price list"
    kept = next(q for q in result.contents.quotes if q.instance_type == "g6.xlarge")
    assert kept.retrieved_at == MOMENT
    (said,) = [n for n in result.contents.notices if n.subject == "us-east-1 on_demand"]
    assert "g6.xlarge" in said.detail
    assert "2026-07-20" in said.detail


def test_what_the_same_source_had_and_has_no_more_is_withdrawn_and_does_not_come_back():
    many = [live(f"p5.{n}xlarge", "1") for n in range(20)]
    first = merged(price_list(*many, live("g6.xlarge", "0.8")))
    gone = [replace(q, retrieved_at=LATER) for q in many[:-1]]
    second = merged(price_list(*gone, live("g6.xlarge", "0.8", at=LATER), at=LATER), base=first.contents, at=LATER)
    assert "aws p5.19xlarge us-east-1" not in prices(second.contents)
    assert notices(second, NoticeKind.WITHDRAWN) == [("p5.19xlarge us-east-1 on_demand", 1)]
    assert second.changes["withdrawn"] == 1


def test_a_withdrawn_type_of_the_shipped_tables_does_not_come_back_from_them():
    many = [live(f"p5.{n}xlarge", "1") for n in range(20)]
    first = merged(price_list(*many, live("g6.xlarge", "0.8")))
    without = price_list(*(replace(q, retrieved_at=LATER) for q in many), at=LATER)
    second = merged(without, base=first.contents, at=LATER)
    assert "aws g6.xlarge us-east-1" not in prices(second.contents)
    third = merged(base=second.contents, at=LATER + timedelta(hours=1))
    assert "aws g6.xlarge us-east-1" not in prices(third.contents)


PLANS = frozenset({PurchaseOption.SAVINGS_PLAN_1YR, PurchaseOption.SAVINGS_PLAN_3YR})


def plan(
    price: str, source: str = "AWS Savings Plans", name: str = "g5.xlarge", at: datetime = NOW, **terms: Any
) -> Quote:
    given = {"term_years": 3, "plan_type": "ec2_instance"} | terms
    return quote("aws", name, "us-east-1", price, PurchaseOption.SAVINGS_PLAN_3YR, source=source, retrieved_at=at, **given)  # fmt: skip


def plans_reading(*quotes: Quote, at: datetime = NOW) -> SourceReading:
    scope = Scope(provider="aws", region="us-east-1", tables=frozenset({"quotes"}), purchase_options=PLANS)
    return SourceReading(source="savings_plans", scope=scope, retrieved_at=at, quotes=quotes)


def test_a_shipped_savings_plan_rate_without_its_payment_option_gives_way_to_live_rates_that_state_it():
    recalled = [plan("0.402", "price list", at=MOMENT), plan("0.3", "price list", name="g4dn.xlarge", at=MOMENT)]
    floor = small_contents(quotes=(*FLOOR.quotes, *recalled))
    listed = [plan("0.443", payment_option="no_upfront"), plan("0.413", payment_option="all_upfront")]
    result = merge(floor, floor, [plans_reading(*listed)], at=NOW)
    left = [
        (q.instance_type, str(q.effective_unit_price)) for q in result.contents.quotes if q.purchase_option in PLANS
    ]
    assert sorted(left) == [("g4dn.xlarge", "0.3"), ("g5.xlarge", "0.413"), ("g5.xlarge", "0.443")]
    (said,) = [n for n in result.notices if n.subject == "us-east-1 savings_plan_3yr" and "gave way" in n.detail]
    assert "g5.xlarge" in said.detail
    assert said.count == 1
    newer = replace(floor, quotes=(*floor.quotes, plan("9", "price list", name="p9.xlarge", at=MOMENT)))
    again = merge(result.contents, newer, [], at=LATER)  # and they stay away when shipped tables of the same day come
    assert "0.402" not in {str(q.effective_unit_price) for q in again.contents.quotes}


@pytest.mark.parametrize("open_term", ["payment_option", "offering_class"])
def test_a_shipped_reservation_that_leaves_a_term_open_gives_way_to_live_ones(open_term: str):
    terms = {"term_years": 1, "payment_option": "all_upfront", "offering_class": "standard"}
    one_year = PurchaseOption.RESERVED_1YR
    shipped = quote("aws", "g6.xlarge", "us-east-1", "0.4", one_year, **(terms | {open_term: None}))
    floor = small_contents(quotes=(*FLOOR.quotes, shipped))
    listed = replace(live("g6.xlarge", "0.6"), purchase_option=one_year, **terms)
    result = merge(floor, floor, [price_list(listed)], at=NOW)
    assert [str(q.effective_unit_price) for q in result.contents.quotes if q.purchase_option is one_year] == ["0.6"]


def without_spot(**over: Any) -> Merged:
    """Spot prices were read, and later there were none, which somebody took as it is."""
    some = merged(spot_reading(spot("p5.48xlarge", "use1-az6", "17")), **over)
    return merged(spot_reading(at=LATER), base=some.contents, at=LATER, accept_incomplete=True, **over)


def test_shipped_spot_prices_that_gave_way_stay_away_when_none_are_left_until_newer_ones_are_shipped():
    first = without_spot()
    assert prices(first.contents, PurchaseOption.SPOT) == {}
    second = merged(price_list(live("p5.48xlarge", "50", at=LATER), at=LATER), base=first.contents, at=LATER)
    assert prices(second.contents, PurchaseOption.SPOT) == {}
    third = merged(base=second.contents, at=LATER)
    assert prices(third.contents, PurchaseOption.SPOT) == {}
    assert third.contents.notices == merged(base=third.contents, at=LATER).contents.notices
    after = LATER + timedelta(days=1)
    newer = replace(FLOOR, quotes=tuple(replace(q, retrieved_at=after) for q in FLOOR.quotes))
    assert len(prices(merge(third.contents, newer, [], at=after).contents, PurchaseOption.SPOT)) == 2


def test_live_spot_prices_end_what_keeps_shipped_ones_away():
    first = without_spot()
    assert [n for n in first.contents.notices if "gave way to a list without any" in n.detail]
    after = LATER + timedelta(hours=1)
    second = merged(
        spot_reading(spot("p5.48xlarge", "use1-az6", "17", at=after), at=after), base=first.contents, at=after
    )
    assert not [n for n in second.contents.notices if "gave way to a list without any" in n.detail]


def test_an_empty_history_takes_no_shipped_spot_price_away_and_says_so():
    result = merged(spot_reading(excluded={"product Windows": 7}))
    assert len(prices(FLOOR, PurchaseOption.SPOT)) == 2
    assert prices(result.contents, PurchaseOption.SPOT) == prices(FLOOR, PurchaseOption.SPOT)
    (said,) = [n for n in result.contents.notices if n.source == "spot" and n.kind is NoticeKind.NOTE]
    assert said.subject == "us-east-1"
    assert said.detail.startswith("nothing in us-east-1: ")
    assert "7 rows that were left out" in said.detail
    assert (result.accepted, result.refused, result.changes["withdrawn"]) == (1, {}, 0)
    again = merged(spot_reading(at=LATER), base=result.contents, at=LATER)
    assert prices(again.contents, PurchaseOption.SPOT) == prices(FLOOR, PurchaseOption.SPOT)


def test_an_empty_history_where_there_were_live_spot_prices_is_incomplete_and_withdraws_nothing():
    some = merged(spot_reading(spot("p5.48xlarge", "use1-az6", "17")))
    result = merged(spot_reading(at=LATER), base=some.contents, at=LATER)
    assert prices(result.contents, PurchaseOption.SPOT) == prices(some.contents, PurchaseOption.SPOT)
    assert len(prices(some.contents, PurchaseOption.SPOT)) == 1
    assert result.refused["spot", "us-east-1"].startswith("incomplete: 0 spot prices, 1 before")


@pytest.mark.parametrize("name", ["savings_plans", "offerings", "instance_types"])
def test_an_empty_answer_displaces_nothing_and_is_said_once(name: str):
    empty = {
        "savings_plans": plans_reading(),
        "offerings": SourceReading(source=name, scope=Scope(provider="aws", region="us-east-1", tables=frozenset({"zone_offerings"})), retrieved_at=NOW),
        "instance_types": types_reading(),
    }[name]  # fmt: skip
    floor = small_contents(quotes=(*FLOOR.quotes, plan("0.402", "price list", at=MOMENT)))
    result = merge(floor, floor, [empty], at=NOW)
    assert set(result.contents.quotes) == set(floor.quotes)
    assert set(map(repr, result.contents.instance_types)) == set(map(repr, floor.instance_types))
    (said,) = [n for n in result.notices if n.source == name]
    assert said.detail.startswith("nothing in us-east-1: ")


def test_that_no_block_is_on_offer_is_an_answer_like_another():
    scope = Scope(provider="aws", region="us-east-1", tables=frozenset({"quotes", "capacity_blocks"}), purchase_options=frozenset({PurchaseOption.CAPACITY_BLOCK}))  # fmt: skip
    offered = quote("aws", "p5.48xlarge", "us-east-1", "31.46", PurchaseOption.CAPACITY_BLOCK, availability_zone_id="use1-az6", source="AWS DescribeCapacityBlockOfferings", retrieved_at=NOW)  # fmt: skip
    some = merged(SourceReading(source="capacity_blocks", scope=scope, retrieved_at=NOW, quotes=(offered,)))
    none = merged(SourceReading(source="capacity_blocks", scope=scope, retrieved_at=LATER), base=some.contents, at=LATER)  # fmt: skip
    assert len(prices(some.contents, PurchaseOption.CAPACITY_BLOCK)) == 1
    assert prices(none.contents, PurchaseOption.CAPACITY_BLOCK) == {}
    assert not [n for n in none.notices if "nothing in" in n.detail]


def unresolved(subject: str, why: str = "2 prices are left where one must be") -> Notice:
    return Notice(kind=NoticeKind.UNRESOLVED, source="price_list", subject=subject, detail=why)


def test_the_price_of_a_type_that_could_not_be_told_stays_and_is_not_withdrawn():
    first = merged(price_list(live("p5.48xlarge", "50"), live("p5.4xlarge", "6.88")))
    said = unresolved("p5.4xlarge us-east-1")
    second = merged(
        price_list(live("p5.48xlarge", "51", at=LATER), at=LATER, untold=frozenset({"p5.4xlarge"}), notices=(said,)),
        base=first.contents,
        at=LATER,
    )
    assert second.refused == {}
    assert prices(second.contents)["aws p5.4xlarge us-east-1"] == "6.88 AWS price list"
    assert prices(second.contents)["aws p5.48xlarge us-east-1"] == "51 AWS price list"
    assert notices(second, NoticeKind.WITHDRAWN) == notices(second, NoticeKind.VANISHED_FAMILY) == []
    (kept,) = [n for n in second.contents.notices if n.kind is NoticeKind.KEPT]
    assert kept.subject == "p5.4xlarge us-east-1"
    assert "2 prices are left where one must be" in kept.detail
    assert "2026-11-30 12:00 UTC" in kept.detail


@pytest.mark.parametrize("over", [{"untold": frozenset({ANY_TYPE})}, {"excluded": {"cannot be read": 1}}])
def test_a_broken_row_of_a_type_that_is_not_known_withdraws_nothing_in_its_region(over: dict[str, Any]):
    many = [live(f"p5.{n}xlarge", "1") for n in range(20)]
    west = [live(f"p5.{n}xlarge", "1", region="us-west-2") for n in range(20)]
    first = merged(price_list(*many), price_list(*west, region="us-west-2"))
    again = merged(
        price_list(*many[:-1], **over), price_list(*west[:-1], region="us-west-2"), base=first.contents, at=LATER
    )
    assert "aws p5.19xlarge us-east-1" in prices(again.contents)
    assert "aws p5.19xlarge us-west-2" not in prices(again.contents)
    assert notices(again, NoticeKind.WITHDRAWN) == [("p5.19xlarge us-west-2 on_demand", 1)]
    (kept,) = [n for n in again.contents.notices if n.kind is NoticeKind.KEPT]
    assert (kept.subject, kept.count) == ("us-east-1", 1)
    assert "p5.19xlarge" in kept.detail


def test_what_a_whole_list_of_other_types_lacks_is_withdrawn_beside_one_that_could_not_be_told():
    many = [live(f"p5.{n}xlarge", "1") for n in range(20)]
    first = merged(price_list(*many))
    second = merged(price_list(*many[:-2], untold=frozenset({"p5.18xlarge"})), base=first.contents, at=LATER)
    assert "aws p5.18xlarge us-east-1" in prices(second.contents)
    assert notices(second, NoticeKind.WITHDRAWN) == [("p5.19xlarge us-east-1 on_demand", 1)]


def test_a_rate_that_could_not_be_told_stays():
    items = [Rate(provider="aws", service="EBS", item=f"{n} storage", region="us-east-1", unit_price=Decimal("0.08"), unit="GB-month", source="AWS price list", retrieved_on=DAY) for n in range(20)]  # fmt: skip
    scope = Scope(provider="aws", region="us-east-1", tables=frozenset({"rates"}), services=frozenset({"EBS"}))
    whole = SourceReading(source="storage", scope=scope, retrieved_at=NOW, rates=tuple(items))
    first = merged(whole)
    for over in ({"notices": (unresolved("EBS 19 storage us-east-1"),)}, {"excluded": {"cannot be read": 1}}):
        second = merged(replace(whole, rates=tuple(items[:-1]), **over), base=first.contents, at=LATER)
        assert "19 storage" in {r.item for r in second.contents.rates}
        assert notices(second, NoticeKind.WITHDRAWN) == []
    third = merged(replace(whole, rates=tuple(items[:-1])), base=first.contents, at=LATER)
    assert "19 storage" not in {r.item for r in third.contents.rates}


def test_a_family_that_is_gone_as_a_whole_is_told_as_such():
    many = [live(f"p5.{n}xlarge", "1") for n in range(20)]
    first = merged(price_list(*many, live("p4d.24xlarge", "21.957642")))
    second = merged(
        price_list(*(replace(q, retrieved_at=LATER) for q in many), at=LATER), base=first.contents, at=LATER
    )
    assert notices(second, NoticeKind.VANISHED_FAMILY) == [("p4d us-east-1 on_demand", 1)]
    assert notices(second, NoticeKind.WITHDRAWN) == []


def test_a_reading_outside_of_its_scope_is_refused_as_a_whole():
    result = merged(price_list(live("p5.48xlarge", "50"), live("g6.xlarge", "0.1", "us-west-2")))
    assert list(result.refused) == [("price_list", "us-east-1")]
    assert "g6.xlarge us-west-2 on_demand" in result.refused["price_list", "us-east-1"]
    assert prices(result.contents) == prices(FLOOR)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ([live("p5.48xlarge", "50"), live("p5.48xlarge", "40")], "two prices, 50 and 40 USD"),
        ([live("p5.48xlarge", "0")], "a price of 0"),
        ([live("p5.48xlarge", "-1")], "a price of -1"),
        ([replace(live("p5.48xlarge", "1"), purchase_option=PurchaseOption.SPOT)], "outside"),
    ],
)
def test_prices_that_cannot_be_right_are_refused(bad, why):
    result = merged(price_list(*bad))
    assert why in result.refused["price_list", "us-east-1"]
    assert prices(result.contents) == prices(FLOOR)


# -- completeness -------------------------------------------------------------------------------------------------


def test_89_of_100_prices_are_refused_and_90_are_not():
    hundred = [live(f"p5.{n}xlarge", "1") for n in range(100)]
    base = merged(price_list(*hundred)).contents
    few = merged(price_list(*hundred[:89]), base=base)
    assert few.refused["price_list", "us-east-1"].startswith("incomplete: 89 on_demand prices, 100 before")
    (kept,) = [n.detail for n in few.notices if n.kind is NoticeKind.KEPT]
    assert (
        "before, so the answer was not taken (it would be with --accept-incomplete); its last good figures, of" in kept
    )
    assert prices(few.contents) == prices(base)
    assert few.accepted == 0
    assert merged(price_list(*hundred[:90]), base=base).refused == {}


def test_an_incomplete_reading_is_taken_when_told():
    hundred = [live(f"p5.{n}xlarge", "1") for n in range(100)]
    base = merged(price_list(*hundred)).contents
    taken = merged(price_list(*hundred[:10]), base=base, accept_incomplete=True)
    assert taken.refused == {}
    assert taken.changes["withdrawn"] == 90


def test_each_purchase_option_is_counted_for_itself():
    terms = {"term_years": 1, "payment_option": "no_upfront", "purchase_option": PurchaseOption.RESERVED_1YR}
    hourly = [live(f"p5.{n}xlarge", "1") for n in range(10)]
    reserved = [replace(q, **terms, offering_class=f"class {n}") for q in hourly for n in range(20)]
    base = merged(price_list(*hourly, *reserved)).contents
    refused = merged(price_list(*hourly[:1], *reserved), base=base).refused
    assert "1 on_demand prices, 10 before" in refused["price_list", "us-east-1"]


def test_shipped_prices_are_not_counted_as_what_a_source_had():
    assert merged(price_list(live("p5.48xlarge", "55.04"))).refused == {}


# -- failures -----------------------------------------------------------------------------------------------------


def test_a_failed_source_leaves_its_last_good_figures_with_their_age():
    base = merged(price_list(live("p5.48xlarge", "50"))).contents
    failure = Failure(source="price_list", region="us-east-1", why="access denied to pricing:GetProducts")
    result = merged(base=base, failures=[failure], at=LATER)
    assert prices(result.contents) == prices(base)
    assert result.kept[0].as_of == NOW
    (said,) = [n for n in result.contents.notices if n.kind is NoticeKind.KEPT]
    assert (said.source, said.subject) == ("price_list", "us-east-1")
    assert "pricing:GetProducts" in said.detail
    assert "2026-11-30 12:00 UTC" in said.detail


def test_a_failed_source_that_was_never_read_says_so():
    failure = Failure(source="quotas", region="us-east-1", why="throttled")
    result = merged(failures=[failure])
    assert result.kept[0].as_of is None
    assert any("nothing of it was known before" in n.detail for n in result.contents.notices)


def test_a_source_of_another_cloud_keeps_that_cloud():
    failure = Failure(source="gpuhunt.lambda", region=None, why="no network", provider="lambda")
    assert merged(failures=[failure]).kept[0].as_of == MOMENT
    assert merged(failures=[replace(failure, source="gpuhunt.runpod", provider="runpod")]).kept[0].as_of is None


# -- price moves, currencies, unknown types -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "flagged"),
    [("71.552", []), ("71.56", [("p5.48xlarge us-east-1 on_demand", 1)]), ("38.528", []), ("38.52", [("p5.48xlarge us-east-1 on_demand", 1)])],
)  # fmt: skip
def test_a_move_of_more_than_30_per_cent_is_flagged_and_published(now, flagged):
    """55.04 x 1.3 = 71.552; 55.04 x 0.7 = 38.528."""
    result = merged(price_list(live("p5.48xlarge", now), live("g6.xlarge", "0.8048")))
    assert notices(result, NoticeKind.PRICE_JUMP) == flagged
    assert prices(result.contents)["aws p5.48xlarge us-east-1"].startswith(now)


def test_a_jump_is_told_with_six_decimals_at_most():
    """A block of 1,485.63 USD for 2,944 minutes is 30.27778532608695652… USD an hour."""
    exact = str(Decimal("1485.63") * 60 / 2944)
    result = merged(price_list(live("p5.48xlarge", exact)))
    (jump,) = [n for n in result.notices if n.kind is NoticeKind.PRICE_JUMP]
    assert jump.detail == "55.04 to 30.277785 USD an hour (-45%)"


def test_the_cut_of_june_2025_would_have_been_flagged():
    base = merged(price_list(live("p5.48xlarge", "98.32"))).contents
    result = merged(price_list(live("p5.48xlarge", "55.04", at=LATER)), base=base, at=LATER)
    (said,) = [n for n in result.contents.notices if n.kind is NoticeKind.PRICE_JUMP]
    assert said.detail == "98.32 to 55.04 USD an hour (-44%)"


def test_prices_in_another_currency_stay_as_they_are_and_are_named():
    cny = live("g4dn.xlarge", "3.711", "cn-north-1", currency="CNY")
    result = merged(price_list(cny, region="cn-north-1"))
    kept = next(q for q in result.contents.quotes if q.region == "cn-north-1")
    assert (kept.effective_unit_price, kept.currency) == (Decimal("3.711"), "CNY")
    assert any("prices are in CNY" in n.detail for n in result.contents.notices)


def test_a_type_that_no_table_describes_is_kept_and_named():
    result = merged(price_list(live("p9.48xlarge", "200"), live("p5.48xlarge", "55.04")))
    assert "aws p9.48xlarge us-east-1" in prices(result.contents)
    assert "p9.48xlarge" not in {t.instance_type for t in result.contents.instance_types}
    (said,) = [n for n in result.contents.notices if n.subject == "aws p9.48xlarge"]
    assert "not recommended" in said.detail


# -- spot ---------------------------------------------------------------------------------------------------------


def test_spot_prices_give_way_as_a_whole_and_know_their_cap():
    result = merged(spot_reading(spot("p5.48xlarge", "use1-az6", "55.04"), spot("g6.xlarge", "use1-az2", "0.3")))
    assert prices(result.contents, PurchaseOption.SPOT) == {
        "aws p5.48xlarge us-east-1 use1-az6": "55.04 AWS DescribeSpotPriceHistory",
        "aws g6.xlarge us-east-1 use1-az2": "0.3 AWS DescribeSpotPriceHistory",
    }
    caps = {q.instance_type: q.at_on_demand_cap for q in result.contents.quotes if q.purchase_option is PurchaseOption.SPOT}  # fmt: skip
    assert caps == {"p5.48xlarge": True, "g6.xlarge": False}


def test_a_spot_price_without_an_on_demand_price_has_an_unknown_cap():
    result = merged(spot_reading(spot("g6f.xlarge", "use1-az2", "0.1")))
    (made,) = [q for q in result.contents.quotes if q.instance_type == "g6f.xlarge"]
    assert made.at_on_demand_cap is None


def test_spot_statistics_are_of_the_30_days_before():
    """1.00 for the first 15 of the 30 days, then 2.00: the mean is 1.5."""
    pool = {"provider": "aws", "instance_type": "g6.xlarge", "region": "us-east-1", "availability_zone_id": "use1-az2", "availability_zone": None}  # fmt: skip
    changes = (
        SpotChange(**pool, unit_price=Decimal("1"), since=NOW - timedelta(days=40)),
        SpotChange(**pool, unit_price=Decimal("2"), since=NOW - timedelta(days=15)),
    )
    result = merged(spot_reading(spot("g6.xlarge", "use1-az2", "2"), changes=changes))
    (made,) = result.contents.spot_statistics
    assert (made.mean_unit_price, made.observed_fraction) == (Decimal("1.5"), 1.0)
    assert made.at_on_demand_cap_fraction == 1.0  # on-demand is 0.8048
    elsewhere = merged(spot_reading(spot("g6.xlarge", "use1-az2", "2"), changes=changes), summarised=frozenset({"us-east-1"}), base=result.contents)  # fmt: skip
    assert elsewhere.contents.spot_statistics == ()


def test_an_offered_block_takes_the_place_of_the_rate_of_its_type_alone():
    rates = tuple(
        quote("aws", name, "us-east-1", "39.33", PurchaseOption.CAPACITY_BLOCK, payment_option="all_upfront", source="rate card")
        for name in ("p5.48xlarge", "p5en.48xlarge")
    )  # fmt: skip
    floor = replace(FLOOR, quotes=(*FLOOR.quotes, *rates))
    scope = Scope(provider="aws", region="us-east-1", tables=frozenset({"quotes"}), purchase_options=frozenset({PurchaseOption.CAPACITY_BLOCK}))  # fmt: skip
    block = quote("aws", "p5.48xlarge", "us-east-1", "31.46", PurchaseOption.CAPACITY_BLOCK, availability_zone_id="use1-az6", payment_option="all_upfront", source="AWS DescribeCapacityBlockOfferings", retrieved_at=NOW)  # fmt: skip
    reading = SourceReading(source="capacity_blocks", scope=scope, retrieved_at=NOW, quotes=(block,))
    result = merge(floor, floor, [reading], at=NOW)
    assert prices(result.contents, PurchaseOption.CAPACITY_BLOCK) == {
        "aws p5.48xlarge us-east-1 use1-az6": "31.46 AWS DescribeCapacityBlockOfferings",
        "aws p5en.48xlarge us-east-1": "39.33 rate card",
    }


# -- instance types -----------------------------------------------------------------------------------------------


def test_sizes_are_the_providers_and_the_chip_is_ours():
    reply = shape(
        "aws",
        "p5.48xlarge",
        "L4",
        4,
        vcpus=200,
        memory_gib=None,
        network_gbps=3200.0,
        source="AWS DescribeInstanceTypes",
    )
    result = merged(types_reading(reply))
    made = next(t for t in result.contents.instance_types if t.instance_type == "p5.48xlarge")
    assert (made.vcpus, made.memory_gib, made.network_gbps) == (200, 2048.0, 3200.0)
    assert (made.accelerator, made.device_count) == ("H100 SXM5 80GB", 8)
    said = {n.detail for n in result.contents.notices if n.subject == "p5.48xlarge"}
    assert any("vcpus is 200 at the provider, was 192 here" in line for line in said)
    assert any("accelerator is L4 at the provider, H100 SXM5 80GB in the tables" in line for line in said)
    assert any("device_count is 4 at the provider, 8 in the tables" in line for line in said)


def test_a_cpu_type_keeps_its_chip_when_the_reply_names_none():
    reply = shape("aws", "p5.48xlarge", "L4", 1, vcpus=192)
    result = merged(types_reading(replace(reply, accelerator=None)))
    made = next(t for t in result.contents.instance_types if t.instance_type == "p5.48xlarge")
    assert (made.accelerator, made.device_count) == ("H100 SXM5 80GB", 8)


def test_capacity_block_only_holds_when_either_says_so():
    floor = small_contents(instance_types=(shape("aws", "a.1", "L4", 1, capacity_block_only=True), shape("aws", "b.1", "L4", 1)))  # fmt: skip
    reading = types_reading(shape("aws", "a.1", "L4", 1), shape("aws", "b.1", "L4", 1, capacity_block_only=True))
    result = merge(floor, floor, [reading], at=NOW)
    assert {t.instance_type: t.capacity_block_only for t in result.contents.instance_types} == {
        "a.1": True,
        "b.1": True,
    }
    assert {n.subject for n in result.contents.notices if "capacity block" in n.detail} == {"a.1", "b.1"}


def test_a_new_type_is_taken_with_a_known_chip_and_not_without():
    result = merged(types_reading(shape("aws", "g6.2xlarge", "L4", 1), shape("aws", "x9.large", "X900", 1)))
    names = {t.instance_type for t in result.contents.instance_types}
    assert "g6.2xlarge" in names
    assert "x9.large" not in names


def test_a_reply_of_one_region_takes_no_type_away():
    result = merged(types_reading(shape("aws", "g6.xlarge", "L4", 1)))
    assert result.contents.instance_types == tuple(sorted(FLOOR.instance_types, key=lambda t: (t.provider, t.instance_type)))  # fmt: skip


# -- other tables -------------------------------------------------------------------------------------------------


def rate(service: str, item: str, price: str, region: str = "us-east-1", **over: Any) -> Rate:
    given = {"source": "AWS price list", "retrieved_on": NOW.date(), "unit": "GB-month"} | over
    return Rate(provider="aws", service=service, item=item, region=region, unit_price=Decimal(price), **given)


def test_rates_are_replaced_by_service_and_region_and_tiers_are_never_mixed():
    floor = small_contents(
        rates=(
            rate("S3", "Standard storage", "0.023", source="price list", tier_from=0.0),
            rate("S3", "Standard storage", "0.022", source="price list", tier_from=51200.0),
            rate("EBS", "gp3 storage", "0.08", source="price list"),
            rate("S3", "Standard storage", "0.025", "eu-west-1", source="price list"),
        )
    )
    scope = Scope(provider="aws", region="us-east-1", tables=frozenset({"rates"}), services=frozenset({"S3"}))
    reading = SourceReading(
        source="storage", scope=scope, retrieved_at=NOW, rates=(rate("S3", "Standard storage", "0.02", tier_from=0.0),)
    )
    result = merge(floor, floor, [reading], at=NOW)
    assert sorted((r.service, r.region, str(r.unit_price)) for r in result.contents.rates) == [
        ("EBS", "us-east-1", "0.08"),
        ("S3", "eu-west-1", "0.025"),
        ("S3", "us-east-1", "0.02"),
    ]


def test_a_rate_that_moved_by_more_than_30_per_cent_is_flagged():
    scope = Scope(provider="aws", region="us-east-1", tables=frozenset({"rates"}), services=frozenset({"EBS"}))
    for price, flagged in (("0.104", 0), ("0.105", 1), ("0.056", 0), ("0.055", 1)):  # 0.08 x 1.3 and x 0.7
        reading = SourceReading(source="storage", scope=scope, retrieved_at=NOW, rates=(rate("EBS", "gp3 storage", price),))  # fmt: skip
        result = merged(reading)
        assert len(notices(result, NoticeKind.PRICE_JUMP)) == flagged, price
    assert notices(result, NoticeKind.PRICE_JUMP) == [("EBS gp3 storage us-east-1", 1)]


def test_zones_and_quotas_are_replaced_in_their_region():
    def zone(region: str, zone_id: str) -> ZoneOffering:
        return ZoneOffering(provider="aws", instance_type="p5.48xlarge", region=region, availability_zone_id=zone_id, source="s", retrieved_at=NOW)  # fmt: skip

    def quota(region: str, vcpus: float) -> Quota:
        return Quota(
            provider="aws", region=region, code="L-417A185B", name="P", purchase_option=PurchaseOption.ON_DEMAND, families="p5",
            vcpus=vcpus, applied=True, source="s", retrieved_at=NOW,
        )  # fmt: skip

    base = replace(FLOOR, zone_offerings=(zone("us-east-1", "use1-az1"), zone("us-west-2", "usw2-az1")), quotas=(quota("us-east-1", 0.0), quota("us-west-2", 8.0)))  # fmt: skip
    scope = Scope(provider="aws", region="us-east-1", tables=frozenset({"zone_offerings", "quotas"}))
    reading = SourceReading(source="offerings", scope=scope, retrieved_at=NOW, zone_offerings=(zone("us-east-1", "use1-az6"),), quotas=(quota("us-east-1", 192.0),))  # fmt: skip
    result = merge(base, FLOOR, [reading], at=NOW)
    assert {z.availability_zone_id for z in result.contents.zone_offerings} == {"use1-az6", "usw2-az1"}
    assert {(q.region, q.vcpus) for q in result.contents.quotas} == {("us-east-1", 192.0), ("us-west-2", 8.0)}


def test_bands_are_replaced_where_the_advisor_has_them():
    def band(name: str, text: str, low: float) -> Interruption:
        return Interruption(
            provider="aws", instance_type=name, region="us-east-1", band=text, monthly_low_fraction=low, monthly_high_fraction=low + 0.05,
            savings_over_on_demand_fraction=None, source="AWS Spot Instance Advisor", retrieved_on=NOW.date(),
        )  # fmt: skip

    scope = Scope(provider="aws", region=None, tables=frozenset({"interruptions"}))
    reading = SourceReading(
        source="spot_advisor", scope=scope, retrieved_at=NOW, interruptions=(band("p5.48xlarge", "<5%", 0.0),)
    )
    result = merged(reading)
    assert {(i.instance_type, i.band) for i in result.contents.interruptions} == {("p5.48xlarge", "<5%"), ("g6.xlarge", "5-10%")}  # fmt: skip


# -- sheets, agreements, history ----------------------------------------------------------------------------------


def test_imported_sheets_survive_a_refresh():
    sheets = (
        quote("acme", "8x H100", "berlin", "18.00", source="price sheet acme"),
        quote("aws", "g6.xlarge", "us-east-1", "0.70", source="price sheet reseller"),
    )
    others = tuple(q for q in FLOOR.quotes if q.instance_type != "g6.xlarge")
    base = replace(FLOOR, quotes=(*others, *sheets))
    result = merged(price_list(live("p5.48xlarge", "55.04"), live("g6.xlarge", "0.8048")), base=base)
    assert prices(result.contents)["acme 8x H100 berlin"] == "18.00 price sheet acme"
    assert prices(result.contents)["aws g6.xlarge us-east-1"] == "0.70 price sheet reseller"


def test_an_agreement_of_the_base_holds_for_what_is_read_and_ends_on_its_day():
    off = Discount(
        provider="aws", agreement="EDP", percent_off=Decimal(10), ends_on=date(2026, 12, 31), source="edp.toml"
    )
    result = merged(
        price_list(live("p5.48xlarge", "50"), live("g6.xlarge", "0.8")), base=replace(FLOOR, discounts=(off,))
    )
    made = next(q for q in result.contents.quotes if q.instance_type == "p5.48xlarge" and q.region == "us-east-1" and q.purchase_option == "on_demand")  # fmt: skip
    assert (made.list_unit_price, made.contracted_unit_price, made.effective_unit_price) == (50, 45, 45)
    (period,) = [p for p in result.contents.price_periods if p.instance_type == "p5.48xlarge" and p.region == "us-east-1" and p.last_seen == NOW]  # fmt: skip
    assert period.unit_price == 50  # history is of list prices
    year_later = merged(base=result.contents, at=datetime(2027, 6, 1, tzinfo=UTC))
    after = next(q for q in year_later.contents.quotes if q.instance_type == "p5.48xlarge" and q.region == "us-east-1" and q.purchase_option == "on_demand")  # fmt: skip
    assert (after.contracted_unit_price, after.effective_unit_price) == (None, 50)


def test_history_grows_a_period_a_price():
    result = merged(price_list(live("p5.48xlarge", "98.32")))
    for day, price in ((1, "98.32"), (2, "55.04"), (3, "55.04")):
        at = NOW + timedelta(days=day)
        result = merged(price_list(live("p5.48xlarge", price, at=at), at=at), base=result.contents, at=at)
    history = sorted(
        (p.first_seen, p.last_seen, str(p.unit_price))
        for p in result.contents.price_periods
        if p.instance_type == "p5.48xlarge" and p.region == "us-east-1" and p.first_seen >= NOW
    )
    assert history == [
        (NOW, NOW + timedelta(days=1), "98.32"),
        (NOW + timedelta(days=2), NOW + timedelta(days=3), "55.04"),
    ]


# -- notices ------------------------------------------------------------------------------------------------------


def test_what_was_left_out_is_kept_by_reason_and_region():
    result = merged(price_list(live("p5.48xlarge", "55.04"), excluded={"tenancy Dedicated": 16, "price of zero": 0}))
    (said,) = [n for n in result.contents.notices if n.kind is NoticeKind.EXCLUDED]
    assert (said.source, said.subject, said.detail, said.count) == ("price_list", "tenancy Dedicated", "left out in us-east-1", 16)  # fmt: skip


def test_what_was_said_of_other_sources_and_regions_stays():
    old = tuple(
        Notice(kind=NoticeKind.EXCLUDED, source=source, subject="tenancy Host", detail=f"left out in {region}", count=1)
        for source, region in (("price_list", "us-east-1"), ("price_list", "us-west-2"), ("spot", "us-east-1"))
    )
    result = merged(price_list(live("p5.48xlarge", "55.04")), base=replace(FLOOR, notices=old))
    left = {(n.source, n.detail) for n in result.contents.notices if n.kind is NoticeKind.EXCLUDED}
    assert left == {("price_list", "left out in us-west-2"), ("spot", "left out in us-east-1")}


# -- the whole ----------------------------------------------------------------------------------------------------


def test_the_order_of_readings_and_rows_changes_nothing():
    rows = [live("p5.48xlarge", "50"), live("g6.xlarge", "0.8"), live("p9.48xlarge", "100")]
    readings = [
        price_list(*rows),
        price_list(live("p5.48xlarge", "50", "us-west-2"), region="us-west-2"),
        spot_reading(spot("g6.xlarge", "use1-az2", "0.3"), spot("g6.xlarge", "use1-az6", "0.2")),
        types_reading(shape("aws", "g6.2xlarge", "L4", 1)),
    ]
    ids = set()
    chance = random.Random(7)
    for _ in range(6):
        chance.shuffle(readings)
        mixed = [replace(r, quotes=tuple(chance.sample(r.quotes, len(r.quotes)))) for r in readings]
        ids.add(content_id(merged(*mixed).contents))
    assert len(ids) == 1


def test_the_same_readings_twice_are_the_same_snapshot():
    readings = (price_list(live("p5.48xlarge", "50"), live("g6.xlarge", "0.8")), spot_reading(spot("g6.xlarge", "use1-az2", "0.3")))  # fmt: skip
    once = merged(*readings)
    twice = merged(*readings, base=once.contents)
    assert twice.contents.quotes == once.contents.quotes
    assert twice.contents.price_periods == once.contents.price_periods
    assert twice.changes == {"new": 0, "changed": 0, "withdrawn": 0, "unchanged": len(once.contents.quotes)}


def test_nothing_read_changes_no_row():
    result = merged()
    for table in ("accelerators", "instance_types", "rates", "interruptions"):
        assert set(map(repr, getattr(result.contents, table))) == set(map(repr, getattr(FLOOR, table)))
    assert prices(result.contents) == prices(FLOOR)


def test_shipped_spot_prices_do_not_come_back_where_a_region_has_none():
    none = without_spot(floor_id="f1")
    assert prices(none.contents, PurchaseOption.SPOT) == {}
    again = merged(base=none.contents, at=LATER, floor_id="f1")
    assert prices(again.contents, PurchaseOption.SPOT) == {}
    assert again.changes["new"] == 0
    assert [n.detail for n in again.contents.notices if n.subject == "shipped tables"] == ["of snapshot f1"]


def test_newer_shipped_tables_are_taken_over_and_older_ones_are_not():
    base = merged(price_list(live("p5.48xlarge", "50")), floor_id="f1").contents
    upgraded = small_contents(
        accelerators=(*FLOOR.accelerators, chip("B200 SXM 180GB", peak_tflops={"fp16": 2250.0})),
        quotes=(
            quote("aws", "p5.48xlarge", "us-east-1", "40", retrieved_at=MOMENT),
            quote("aws", "p5.48xlarge", "us-west-2", "41", retrieved_at=LATER),
            quote("lambda", "1x H100", "us-south-1", "2.99", retrieved_at=LATER),
        ),
        instance_types=(*FLOOR.instance_types, shape("aws", "p6.48xlarge", "B200 SXM 180GB", retrieved_on=DAY)),
    )
    result = merge(base, upgraded, [], at=LATER, floor_id="f2")
    assert prices(result.contents)["aws p5.48xlarge us-east-1"] == "50 AWS price list"
    assert prices(result.contents)["aws p5.48xlarge us-west-2"] == "41 price list"
    assert prices(result.contents)["lambda 1x H100 us-south-1"] == "2.99 price list"
    assert "p6.48xlarge" in {t.instance_type for t in result.contents.instance_types}


def test_shipped_spot_pools_that_are_gone_are_counted():
    old = (
        spot("p5.48xlarge", "use1-az1", "18", source="tables", availability_zone=None),
        spot("p5.48xlarge", "use1-az2", "19", source="tables", availability_zone=None),
        spot("g6.xlarge", "use1-az1", "0.3", source="tables", availability_zone=None),
    )
    floor = replace(FLOOR, quotes=tuple(q for q in FLOOR.quotes if q.purchase_option is not PurchaseOption.SPOT) + old)
    result = merge(floor, floor, [spot_reading(spot("p5.48xlarge", "use1-az1", "18.5"))], at=NOW)
    (said,) = [n for n in result.contents.notices if "gave way to those that were read" in n.detail]
    assert said.detail.endswith("; 2 spot pools of the tables are gone, every one of g6.xlarge")
    assert said.count == 3
    assert result.changes == {"new": 0, "changed": 1, "withdrawn": 2, "unchanged": 5}
