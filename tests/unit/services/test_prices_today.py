"""Prices at the moment of a request: blocks that begin, agreements that end, currencies at a stated rate. Expected values are worked out by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planner.recommend.errors import BadRequest
from planner.recommend.request import EstimateRequest, RecommendRequest
from planner.services.documents import to_json_bytes
from planner.services.estimate import estimate
from planner.services.find_model import find_model
from planner.services.recommend import recommend
from pricing.aws.capacity_blocks import capacity_block_quotes
from pricing.catalog import Catalog
from pricing.discounts import contracted, parse_agreement
from pricing.market import CapacityBlock
from pricing.model import PurchaseOption, Quote
from pricing.snapshot import open_snapshot, write_snapshot
from pricing.static import load_tables

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SHIPPED = load_tables()
P5 = {"instance": ("p5.48xlarge",), "purchase": ("capacity_block",)}
LLAMA = {"model": "llama-3.1-8b", "mode": "training"}


def block(name: str, fee: str, *, starts: datetime, hours: int, zone: str = "use1-az6", **more: Any) -> CapacityBlock:
    return CapacityBlock(
        provider="aws", instance_type="p5.48xlarge", region="us-east-1", availability_zone_id=zone, availability_zone="us-east-1a", offering_id=name,
        starts_at=starts, ends_at=starts + timedelta(hours=hours), minutes=hours * 60, upfront=Decimal(fee), source="AWS DescribeCapacityBlockOfferings",
        retrieved_at=NOW - timedelta(hours=1), **{"instance_count": 1} | more,
    )  # fmt: skip


WEEK = block("cb-week", "5285.95", starts=datetime(2026, 12, 3, 11, 30, tzinfo=UTC), hours=168)  # 31.463988… USD/h
DAY = block("cb-day", "700.80", starts=datetime(2026, 11, 30, 11, 30, tzinfo=UTC), hours=24)  # 29.20 USD/h, has begun


def with_blocks(*blocks: CapacityBlock, contents: Any = SHIPPED) -> Any:
    """The shipped tables with blocks in place of their rate of the same type, as a refresh leaves them."""
    others = [
        q
        for q in contents.quotes
        if (q.instance_type, q.region, q.purchase_option) != ("p5.48xlarge", "us-east-1", PurchaseOption.CAPACITY_BLOCK)
    ]
    return dataclasses.replace(contents, quotes=(*others, *capacity_block_quotes(blocks)), capacity_blocks=blocks)


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Any]:
    """Give a function that answers a request on some contents at a moment."""
    with ExitStack() as stack:

        def answer(
            contents: Any, *, now: datetime = NOW, of: Any = recommend, made: datetime = NOW, **request: Any
        ) -> dict[str, Any]:
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.snapshot"
            write_snapshot(path, contents, published_at=made, origin="refresh")
            catalog = stack.enter_context(open_snapshot(path))
            wanted = {"model": "7b"} | request
            kind = RecommendRequest if of is recommend else EstimateRequest
            return of(kind(**wanted), catalog=catalog, spec=find_model(wanted["model"], None), now=now)  # type: ignore[no-any-return]

        yield answer


def test_an_offered_block_is_told_with_its_zone_time_and_fee(ask: Any) -> None:
    (row,) = ask(with_blocks(WEEK), **P5)["recommendations"]
    assert row["price"]["usd_per_instance_hour"].startswith("31.46398809")  # 5,285.95 / 168
    assert row["notes"][0] == (
        "Capacity Block in use1-az6 us-east-1a, 2026-12-03 11:30 to 2026-12-10 11:30 UTC, offered for 1 instance: 5,285.95 USD for 168 h, "
        "due at once, used or not; only the hours of use are in this bill"
    )


def test_a_block_that_has_begun_gives_way_to_the_next_one(ask: Any) -> None:
    contents = with_blocks(DAY, WEEK)
    before, after = (ask(contents, now=at, **P5) for at in (NOW - timedelta(hours=1), NOW))
    assert [a["recommendations"][0]["price"]["sku"] for a in (before, after)] == ["cb-day", "cb-week"]
    assert after["recommendations"][0]["price"]["usd_per_instance_hour"].startswith("31.46398809")
    assert before["id"] != after["id"]  # another answer has another name, so that a stored one is not mistaken for it


def test_the_next_block_may_be_in_another_zone(ask: Any) -> None:
    other = dataclasses.replace(WEEK, availability_zone_id="use1-az2", availability_zone="us-east-1b")
    (row,) = ask(with_blocks(DAY, other), **P5)["recommendations"]
    assert (row["availability_zone_id"], row["price"]["sku"]) == ("use1-az2", "cb-week")


def test_where_every_block_has_begun_there_is_no_price(ask: Any) -> None:
    answer = ask(with_blocks(DAY), **P5)
    assert answer["recommendations"] == []
    (rejection,) = answer["rejections"]
    assert rejection["reason"] == "no_price"
    assert rejection["detail"] == (
        "every block that was offered has begun, the last on 2026-11-30 11:30 UTC, and is sold no more: refresh the prices"
    )
    one = ask(with_blocks(DAY), of=estimate, instance="p5.48xlarge", purchase="capacity_block")
    assert one["cost"] is None
    assert any("every block that was offered has begun" in note for note in one["notes"])


def test_what_was_known_on_a_day_stays_the_answer_for_that_day(ask: Any) -> None:
    made = datetime(2026, 11, 28, 6, tzinfo=UTC)
    answers = [
        ask(with_blocks(DAY), made=made, now=now, prices_as_of=date(2026, 11, 28), **P5)
        for now in (made + timedelta(hours=1), NOW + timedelta(days=90))
    ]
    assert [a["recommendations"][0]["price"]["sku"] for a in answers] == ["cb-day", "cb-day"]
    assert answers[0]["id"] == answers[1]["id"]


def test_an_offer_is_stale_after_a_day_and_a_published_rate_after_90(ask: Any) -> None:
    def price(contents: Any, now: datetime) -> tuple[Any, str]:
        answer = ask(contents, now=now, **P5)
        return answer["recommendations"][0]["price"]["stale"], answer["prices"]["sources"][0]["kind"]

    assert price(with_blocks(WEEK), NOW + timedelta(hours=23)) == (False, "capacity_block")  # 24 h old
    assert price(with_blocks(WEEK), NOW + timedelta(hours=24)) == (True, "capacity_block")  # 25 h old
    rate = datetime(2024, 12, 1, tzinfo=UTC)  # the day of the shipped rate
    assert price(SHIPPED, rate + timedelta(days=90)) == (False, "commitment")
    assert price(SHIPPED, rate + timedelta(days=91)) == (True, "commitment")


def test_a_published_rate_of_blocks_says_that_it_is_no_offer(ask: Any) -> None:
    (row,) = ask(SHIPPED, **P5)["recommendations"]
    assert any(
        "a published rate, no offer: where and when a block begins is not known" in note for note in row["notes"]
    )


def test_more_instances_than_were_offered_are_told(ask: Any) -> None:
    (row,) = ask(with_blocks(WEEK), **P5, requests_per_s=200.0)["recommendations"]
    assert row["instance_count"] > 1
    assert (
        f"needs {row['instance_count']} instances; the block was offered for 1: whether more can be had, when and for what fee, "
        "AWS says when asked for as many"
    ) in row["notes"]
    many = with_blocks(dataclasses.replace(WEEK, instance_count=64))
    (enough,) = ask(many, **P5, requests_per_s=200.0)["recommendations"]
    assert not any("the block was offered for" in note for note in enough["notes"])
    (beyond,) = ask(many, **P5, requests_per_s=10_000.0)["recommendations"]
    assert any("more than the 64 of one block; the block was offered for 64" in note for note in beyond["notes"])


def test_a_run_that_outlasts_its_block_is_told(ask: Any) -> None:
    asked = {**P5, **LLAMA, "max_instances": 1}
    (short,) = ask(with_blocks(WEEK), dataset_tokens=1e7, **asked)["recommendations"]
    (long,) = ask(with_blocks(WEEK), dataset_tokens=1e12, **asked)["recommendations"]
    assert (short["time"]["hours_total"] < 168, long["time"]["hours_total"] > 168) == (True, True)
    assert [sum("the block lasts 168 h" in note for note in row["notes"]) for row in (short, long)] == [0, 1]


def test_the_arithmetic_of_a_block_is_explained(ask: Any) -> None:
    odd = block("cb-odd", "1485.63", starts=datetime(2026, 12, 1, 12, 17, tzinfo=UTC), hours=1, instance_count=2)
    odd = dataclasses.replace(odd, minutes=2833, ends_at=odd.starts_at + timedelta(minutes=2833))
    (row,) = ask(with_blocks(odd), **P5, explain=True)["recommendations"]
    (term,) = [t for t in row["explanation"] if t["name"] == "usd_per_instance_hour"]
    # 1,485.63 x 60 / (2 x 2,833) = 15.7320…
    assert term["formula"].startswith("1,485.63 USD / (2 instances x 47 h 13 min) = 15.7320")
    assert "the fee of the whole block cb-odd" in term["formula"]


def test_an_estimate_of_a_block_says_the_same(ask: Any) -> None:
    for more in ({}, LLAMA):  # with its bill; and a run of unknown length, that has only the price of an hour
        answer = ask(with_blocks(WEEK), of=estimate, instance="p5.48xlarge", purchase="capacity_block", **more)
        assert any("5,285.95 USD for 168 h, due at once, used or not" in note for note in answer["notes"])


AGREEMENT = """
agreement = "EDP 2026"
ends_on = 2026-12-31
[[discount]]
percent_off = 10
"""


def agreed(text: str = AGREEMENT, on: date = date(2026, 11, 30), contents: Any = SHIPPED) -> Any:
    lines = parse_agreement(text, "edp.toml")
    return dataclasses.replace(contents, quotes=contracted(contents.quotes, lines, on), discounts=lines)


ON_DEMAND = {"instance": ("p5.48xlarge",), "purchase": ("on_demand",)}


@pytest.mark.parametrize(
    ("now", "usd", "note"),
    [  # list 55.04; 10 % off is 49.536
        (
            datetime(2026, 12, 31, 23, 59, tzinfo=UTC),
            "49.5360",
            "contracted under EDP 2026 (edp.toml, discount 1): 10 % off, until 2026-12-31; at list 55.04 USD per hour",
        ),
        (datetime(2027, 1, 1, tzinfo=UTC), "55.04", "agreement EDP 2026 ended on 2026-12-31: this is the list price"),
    ],
)
def test_an_agreement_is_paid_until_its_last_day(ask: Any, now: datetime, usd: str, note: str) -> None:
    for answer in (
        ask(agreed(), now=now, **ON_DEMAND)["recommendations"][0],
        ask(agreed(), now=now, of=estimate, instance="p5.48xlarge"),
    ):
        assert Decimal(answer["price"]["usd_per_instance_hour"]) == Decimal(usd)
        assert note in answer["notes"]


def test_before_and_after_the_end_of_an_agreement_an_answer_has_another_id(ask: Any) -> None:
    short = agreed(AGREEMENT.replace("ends_on = 2026-12-31", "starts_on = 2026-11-30\nends_on = 2026-12-01"))
    first, same, after = (ask(short, now=NOW + timedelta(days=n), **ON_DEMAND)["id"] for n in (0, 1, 2))
    assert first == same != after


def test_an_agreement_without_an_end_says_so(ask: Any) -> None:
    (row,) = ask(agreed(AGREEMENT.replace("ends_on = 2026-12-31", "")), **ON_DEMAND)["recommendations"]
    assert any("10 % off, no end is stated; at list 55.04 USD per hour" in note for note in row["notes"])


def test_the_next_agreement_takes_over_on_its_first_day(ask: Any) -> None:
    both = (
        "[[discount]]\npercent_off = 10\nends_on = 2026-12-31\n[[discount]]\npercent_off = 25\nstarts_on = 2027-01-01\n"
    )
    (row,) = ask(agreed(both), now=datetime(2027, 1, 1, tzinfo=UTC), **ON_DEMAND)["recommendations"]
    assert Decimal(row["price"]["usd_per_instance_hour"]) == Decimal("41.28")  # 55.04 x 0.75
    assert any("25 % off" in note for note in row["notes"])
    assert not any("ended" in note for note in row["notes"])


def test_an_agreement_holds_for_the_next_block_as_well(ask: Any) -> None:
    (row,) = ask(agreed(contents=with_blocks(DAY, WEEK)), **P5)["recommendations"]
    assert row["price"]["sku"] == "cb-week"
    assert row["price"]["usd_per_instance_hour"].startswith("28.31758928")  # 5,285.95 / 168 x 0.9
    (explained,) = ask(agreed(contents=with_blocks(DAY, WEEK)), **P5, explain=True)["recommendations"]
    (term,) = [t for t in explained["explanation"] if t["name"] == "usd_per_instance_hour"]
    assert "10 % off" in term["formula"]
    assert "5,285.95 USD / (1 instance x 168 h) = 31.46398809" in term["formula"]


YUAN = Quote(
    provider="aws", instance_type="g5.xlarge", region="cn-northwest-1", purchase_option=PurchaseOption.ON_DEMAND, currency="CNY",
    list_unit_price=Decimal("9.51389"), effective_unit_price=Decimal("9.51389"), source="AWS price list", retrieved_at=NOW,
)  # fmt: skip
CHINA = dataclasses.replace(SHIPPED, quotes=(*SHIPPED.quotes, YUAN))
NINGXIA = {"region": ("cn-northwest-1",), "instance": ("g5.xlarge",), "purchase": ("on_demand",)}


def test_without_a_rate_the_rejection_names_the_option(ask: Any) -> None:
    answer = ask(CHINA, **NINGXIA)
    assert answer["recommendations"] == []
    (rejection,) = answer["rejections"]
    assert rejection["reason"] == "no_price"
    assert "9.51389 CNY per hour" in rejection["detail"]
    assert "state one with --usd-rate CNY=UNITS_PER_USD" in rejection["detail"]


def test_at_a_stated_rate_yuan_are_ranked_and_the_rate_is_told(ask: Any) -> None:
    answer = ask(CHINA, **NINGXIA, usd_rate=("CNY=7.1",))
    (row,) = answer["recommendations"]
    assert float(row["price"]["usd_per_instance_hour"]) == pytest.approx(1.3399845, rel=1e-7)  # 9.51389 / 7.1
    assert row["price"]["derived"] is True
    assert row["price"]["source"] == "AWS price list, at 7.1 CNY per USD stated in the request"
    assert [s["source"] for s in answer["prices"]["sources"]] == [row["price"]["source"]]
    assert (
        "price derived, not quoted: 9.51389 CNY at 7.1 CNY per USD (stated in the request, 2026-11-30)" in row["notes"]
    )
    assert answer["request"]["usd_rate"] == ["CNY=7.1"]
    assert row["cost"]["usd_per_hour"] == "1.339985"


def test_an_estimate_takes_the_rate_as_well(ask: Any) -> None:
    asked = {"region": "cn-northwest-1", "usd_rate": ("CNY=7.1",)}
    for machine in ({"instance": "g5.xlarge"}, {"accelerator": "A10G"}):
        answer = ask(CHINA, of=estimate, **machine, **asked)
        assert answer["instance_type"] == "g5.xlarge"
        assert answer["cost"]["usd_per_hour"] == "1.339985"
    without = ask(CHINA, of=estimate, instance="g5.xlarge", region="cn-northwest-1")
    assert without["cost"] is None
    assert any("--usd-rate CNY=" in note for note in without["notes"])


def test_an_agreement_in_yuan_is_applied_before_the_rate(ask: Any) -> None:
    (row,) = ask(agreed(contents=CHINA), **NINGXIA, usd_rate=("CNY=7.1",))["recommendations"]
    assert float(row["price"]["usd_per_instance_hour"]) == pytest.approx(1.20598606, rel=1e-7)  # 9.51389 x 0.9 / 7.1
    assert sum("10 % off" in note for note in row["notes"]) == 1


@pytest.mark.parametrize(
    ("stated", "why"),
    [
        (("CNY",), "ISO 4217"),
        (("7.1",), "ISO 4217"),
        (("cny=7.1",), "ISO 4217"),
        (("YUAN=7.1",), "ISO 4217"),
        (("CNY=",), "positive number"),
        (("CNY=0",), "positive number"),
        (("CNY=-7.1",), "positive number"),
        (("CNY=nan",), "positive number"),
        (("CNY=1e400",), "positive number"),
        (("USD=1",), "of the USD itself"),
        (("CNY=7.1", "CNY=7.2"), "a second rate of CNY"),
    ],
)
@pytest.mark.parametrize("of", [RecommendRequest, EstimateRequest])
def test_a_rate_that_cannot_be_is_refused(of: Any, stated: tuple[str, ...], why: str) -> None:
    more = {"instance": "g5.xlarge"} if of is EstimateRequest else {}
    with pytest.raises(BadRequest, match=why) as caught:
        of(model="7b", usd_rate=stated, **more)
    assert caught.value.field == "usd_rate"
    assert caught.value.expected.endswith("CNY=7.1")


def test_look_ups_do_not_grow_with_the_types(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands, spot statistics and blocks are read once a region, not once for each type that is sold as spot."""
    asked: list[str] = []
    rows = Catalog._rows
    monkeypatch.setattr(
        Catalog, "_rows", lambda self, query, arguments: asked.append(query) or rows(self, query, arguments)
    )
    answer = ask(with_blocks(WEEK), purchase=("on_demand", "spot", "capacity_block"), top=1000)
    assert sum(row["purchase_option"] == "spot" for row in answer["recommendations"]) > 20
    for table in ("interruptions", "spot_statistics", "capacity_blocks"):
        assert sum(f"FROM {table} " in query for query in asked) == 1
    elsewhere = [
        query for query in asked if query.startswith("SELECT DISTINCT purchase_option ")
    ]  # of types without a price here
    assert len(elsewhere) < 10
    assert len(asked) - len(elsewhere) < 15


def without_ages(value: Any) -> Any:
    """Return a document without what follows the clock."""
    if isinstance(value, dict):
        return {k: without_ages(v) for k, v in value.items() if k not in {"age_hours", "stale", "after_clock"}}
    return [without_ages(each) for each in value] if isinstance(value, list) else value


def test_of_a_named_snapshot_the_answer_is_the_same_after_its_blocks_have_begun(ask: Any) -> None:
    first, later = (ask(with_blocks(WEEK), **P5, prices_as_of="abcdef", now=NOW + timedelta(days=n)) for n in (0, 40))
    assert [r["instance_type"] for r in first["recommendations"]] == ["p5.48xlarge"]
    assert to_json_bytes(without_ages(first)) == to_json_bytes(without_ages(later))
    assert ask(with_blocks(WEEK), **P5, now=NOW + timedelta(days=40))["recommendations"] == [], (
        "asked for today it is gone"
    )


def test_of_a_named_snapshot_a_stated_rate_has_its_day(ask: Any) -> None:
    first, later = (ask(CHINA, **NINGXIA, usd_rate=("CNY=7.1",), prices_as_of="abcdef", now=NOW + timedelta(days=n)) for n in (0, 40))  # fmt: skip
    assert to_json_bytes(without_ages(first)) == to_json_bytes(without_ages(later))
