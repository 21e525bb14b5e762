"""`list_history`: what was seen when. Expected prices: AWS's public on-demand prices before and after the cut of June 2025."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planner.recommend.errors import BadRequest
from planner.services.documents import to_json_bytes
from planner.services.list_history import list_history
from pricing.catalog import Catalog
from pricing.errors import UnknownName
from pricing.market import PricePeriod, SpotChange, SpotStatistics
from pricing.model import PurchaseOption, Quote
from pricing.snapshot import open_snapshot, shipped_snapshot_path, write_snapshot

DOCUMENT = ["instance_type", "provider", "snapshot_id", "as_of", "periods", "spot_changes", "spot_statistics"]
PERIOD = [
    "region", "purchase_option", "plan_type", "offering_class", "term_years", "payment_option", "currency", "unit", "unit_price", "first_seen", "last_seen",
    "change_fraction", "source", "listed",
]  # fmt: skip
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def quote(price: str, day: str, **over: Any) -> Quote:
    given: dict[str, Any] = {
        "provider": "aws",
        "instance_type": "p5.48xlarge",
        "region": "us-east-1",
        "purchase_option": PurchaseOption.ON_DEMAND,
        "source": "price list",
    }
    return Quote(effective_unit_price=Decimal(price), retrieved_at=at(day), **(given | over))


def seen(price: str, first: str, last: str, **over: Any) -> PricePeriod:
    given: dict[str, Any] = {
        "provider": "aws",
        "instance_type": "p5.48xlarge",
        "region": "us-east-1",
        "purchase_option": PurchaseOption.ON_DEMAND,
        "unit": "Hrs",
        "source": "record",
    }
    return PricePeriod(unit_price=Decimal(price), first_seen=at(first), last_seen=at(last), **(given | over))


def change(price: str, moment: str, zone: str = "use1-az4") -> SpotChange:
    return SpotChange(
        provider="aws",
        instance_type="p5.48xlarge",
        region="us-east-1",
        availability_zone_id=zone,
        availability_zone=None,
        unit_price=Decimal(price),
        since=at(moment),
    )


class Kept:
    """A record of spot changes that holds what it was given."""

    def __init__(self, *changes: SpotChange) -> None:
        self.changes = changes

    def spot_changes(
        self,
        *,
        instance_type: str,
        region: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        provider: str = "aws",
    ) -> list[SpotChange]:
        assert (instance_type, provider) == ("p5.48xlarge", "aws")
        return [
            c for c in self.changes if (region is None or c.region == region) and (until is None or c.since <= until)
        ]


def statistics(zone: str = "use1-az4") -> SpotStatistics:
    return SpotStatistics(
        provider="aws", instance_type="p5.48xlarge", region="us-east-1", availability_zone_id=zone, window_start=at("2026-10-31"), window_end=at("2026-11-30"),
        observed_fraction=1.0, changes=2, last_unit_price=Decimal(18), mean_unit_price=Decimal(19), median_unit_price=Decimal(18), p95_unit_price=Decimal(25),
        minimum_unit_price=Decimal(17), maximum_unit_price=Decimal(26), volatility_fraction=0.1, at_on_demand_cap_fraction=0.0, source="spot history",
        retrieved_at=NOW,
    )  # fmt: skip


@pytest.fixture
def snapshot(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Catalog]:
    def made(**tables: Any) -> Catalog:
        with open_snapshot(shipped_snapshot_path()) as shipped:
            given = {"price_periods": (), "quotes": (quote("55.04", "2026-11-29"),), **tables}
            contents = dataclasses.replace(shipped.contents(), **given)
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite"
        write_snapshot(path, contents, published_at=NOW, origin="refresh")
        catalog = open_snapshot(path)
        request.addfinalizer(catalog.close)
        return catalog

    return made


def test_the_cut_of_june_2025_is_visible_in_the_shipped_tables() -> None:
    with open_snapshot(shipped_snapshot_path()) as catalog:
        for name, before, after, fraction in (
            ("p5.48xlarge", "98.32", "55.04", 55.04 / 98.32 - 1),
            ("p4d.24xlarge", "32.7726", "21.957642", 21.957642 / 32.7726 - 1),
            ("p4de.24xlarge", "40.96575", "27.44705", 27.44705 / 40.96575 - 1),
        ):
            document = list_history(catalog, name, region="us-east-1", purchase_option="on_demand")
            old, new = document["periods"]
            assert (Decimal(old["unit_price"]), Decimal(new["unit_price"])) == (Decimal(before), Decimal(after))
            assert old["change_fraction"] is None
            assert new["change_fraction"] == pytest.approx(fraction, rel=1e-6)
            assert old["last_seen"] < new["first_seen"]
            assert new["first_seen"] == "2025-06-23T00:00:00Z", "the first record that has the new price"


def test_the_document_is_that_of_the_contract(snapshot: Callable[..., Catalog]) -> None:
    document = list_history(
        snapshot(spot_statistics=(statistics(),)), "P5.48xlarge", kept=Kept(change("18", "2026-11-20"))
    )
    assert list(document) == DOCUMENT
    assert [list(p) for p in document["periods"]] == [PERIOD]
    assert [list(c) for c in document["spot_changes"]] == [
        ["region", "availability_zone_id", "availability_zone", "currency", "unit_price", "since"]
    ]
    assert list(document["spot_statistics"][0]) == [f.name for f in dataclasses.fields(SpotStatistics)]
    assert document["spot_statistics"][0]["p95_unit_price"] == "25"
    assert json.loads(to_json_bytes(document)) == document


def test_the_current_quote_extends_the_period_of_its_price_or_begins_another(
    snapshot: Callable[..., Catalog],
) -> None:
    record = (seen("98.32", "2023-09-18", "2025-04-28"), seen("55.04", "2025-06-23", "2026-07-20"))
    same = list_history(snapshot(price_periods=record), "p5.48xlarge")["periods"]
    assert [(p["unit_price"], p["first_seen"][:10], p["last_seen"][:10]) for p in same] == [
        ("98.32", "2023-09-18", "2025-04-28"),
        ("55.04", "2025-06-23", "2026-11-29"),
    ]
    dearer = snapshot(price_periods=record, quotes=(quote("63.296", "2026-11-29"),))
    moved = list_history(dearer, "p5.48xlarge")
    assert [p["unit_price"] for p in moved["periods"]] == ["98.32", "55.04", "63.296"]
    assert moved["periods"][2]["change_fraction"] == pytest.approx(0.15)  # 55.04 x 1.15 = 63.296
    assert moved["as_of"] == "2026-11-29T00:00:00Z"


def test_prices_of_unlike_terms_regions_and_currencies_are_no_history_of_each_other(
    snapshot: Callable[..., Catalog],
) -> None:
    quotes = (
        quote("55.04", "2026-11-29"),
        quote("68.8", "2026-11-29", region="us-west-1"),
        quote("400", "2026-11-29", currency="CNY", region="cn-north-1"),
        quote("30", "2026-11-29", purchase_option=PurchaseOption.RESERVED_3YR, term_years=3, payment_option="no_upfront", offering_class="standard"),
        quote("28", "2026-11-29", purchase_option=PurchaseOption.RESERVED_3YR, term_years=3, payment_option="all_upfront", offering_class="standard"),
        quote("17", "2026-11-29", purchase_option=PurchaseOption.SPOT, availability_zone_id="use1-az4"),
    )  # fmt: skip
    document = list_history(snapshot(quotes=quotes), "p5.48xlarge")
    assert [p["change_fraction"] for p in document["periods"]] == [None] * 5
    assert "17" not in {p["unit_price"] for p in document["periods"]}, "spot is no list price"
    only = list_history(snapshot(quotes=quotes), "p5.48xlarge", region=["us-west-1"], purchase_option=["on_demand"])
    assert [p["unit_price"] for p in only["periods"]] == ["68.8"]


def test_a_price_that_no_list_has_any_more_is_not_todays(snapshot: Callable[..., Catalog]) -> None:
    reserved = {"purchase_option": PurchaseOption.RESERVED_1YR, "term_years": 1, "payment_option": "no_upfront"}
    record = (
        seen("98.32", "2023-09-18", "2025-04-28"),
        seen("55.04", "2025-06-23", "2026-07-20"),
        seen("35", "2025-06-23", "2026-11-28", **reserved),
    )
    periods = list_history(snapshot(quotes=(quote("55.04", "2026-11-29"),), price_periods=record), "p5.48xlarge")[
        "periods"
    ]
    assert [(p["purchase_option"], p["unit_price"], p["listed"]) for p in periods] == [
        ("on_demand", "98.32", True),
        ("on_demand", "55.04", True),
        ("reserved_1yr", "35", False),  # withdrawn: the last look has none of it
    ]


def test_a_contracted_price_is_not_the_list_price(snapshot: Callable[..., Catalog]) -> None:
    agreed = quote("49.536", "2026-11-29", list_unit_price=Decimal("55.04"), contracted_unit_price=Decimal("49.536"))
    document = list_history(snapshot(quotes=(agreed,)), "p5.48xlarge")
    assert [p["unit_price"] for p in document["periods"]] == ["55.04"]


def test_since_and_until_keep_what_may_have_held(snapshot: Callable[..., Catalog]) -> None:
    record = (seen("98.32", "2023-09-18", "2025-04-28"), seen("55.04", "2025-06-23", "2026-07-20"))
    catalog = snapshot(price_periods=record)

    def prices(**window: date) -> list[str]:
        return [p["unit_price"] for p in list_history(catalog, "p5.48xlarge", **window)["periods"]]

    assert prices(since=date(2025, 5, 15)) == ["98.32", "55.04"], "between the two sightings either may have held"
    assert prices(since=date(2025, 6, 24)) == ["55.04"]
    assert prices(until=date(2025, 6, 22)) == ["98.32"]
    (later,) = list_history(catalog, "p5.48xlarge", since=date(2025, 6, 24))["periods"]
    assert later["change_fraction"] == pytest.approx(-0.440195, abs=1e-6), "the price before is known, though not shown"
    with pytest.raises(BadRequest, match="after until"):
        prices(since=date(2025, 6, 24), until=date(2025, 6, 23))


def test_spot_changes_of_a_window_begin_with_the_price_that_held(snapshot: Callable[..., Catalog]) -> None:
    rows = [change("20", "2026-11-25"), change("18", "2026-11-01"), change("19", "2026-11-10"), change("17", "2026-10-01", "use1-az6")]  # fmt: skip
    document = list_history(
        snapshot(), "p5.48xlarge", purchase_option="spot", since=date(2026, 11, 15), kept=Kept(*rows)
    )
    assert [(c["availability_zone_id"], c["unit_price"]) for c in document["spot_changes"]] == [
        ("use1-az4", "19"),
        ("use1-az4", "20"),
        ("use1-az6", "17"),
    ]
    assert document["periods"] == []
    listed = list_history(snapshot(), "p5.48xlarge", purchase_option="on_demand", kept=Kept(*rows))
    assert listed["spot_changes"] == []


def test_what_came_after_the_snapshot_is_left_out(snapshot: Callable[..., Catalog]) -> None:
    rows = (change("18", "2026-11-29"), change("19", "2026-12-02"))
    document = list_history(snapshot(), "p5.48xlarge", purchase_option="spot", kept=Kept(*rows))
    assert [c["unit_price"] for c in document["spot_changes"]] == ["18"]


def test_statistics_over_another_window_are_made_of_the_changes(snapshot: Callable[..., Catalog]) -> None:
    """Ten days up to the last look of 11-30: 20 USD for 6 days, then 55.04, the on-demand price, for 4."""
    quotes = (
        quote("55.04", "2026-11-29"),
        quote("55.04", "2026-11-30", purchase_option=PurchaseOption.SPOT, availability_zone_id="use1-az4"),
    )
    catalog = snapshot(quotes=quotes, spot_statistics=(statistics(),))
    kept = Kept(change("20", "2026-11-01"), change("55.04", "2026-11-26"))
    (ten,) = list_history(catalog, "p5.48xlarge", kept=kept, window_days=10)["spot_statistics"]
    assert (ten["window_start"], ten["window_end"]) == ("2026-11-20T00:00:00Z", "2026-11-30T00:00:00Z")
    assert Decimal(ten["median_unit_price"]) == 20
    assert Decimal(ten["p95_unit_price"]) == Decimal("55.04")
    assert Decimal(ten["mean_unit_price"]) == Decimal("34.016")  # (6 x 20 + 4 x 55.04) / 10
    assert ten["at_on_demand_cap_fraction"] == pytest.approx(0.4)
    (published,) = list_history(catalog, "p5.48xlarge", kept=kept, window_days=30)["spot_statistics"]
    assert published["p95_unit_price"] == "25", "the snapshot has this window"


def test_statistics_of_other_days_than_those_asked_about_are_left_out(snapshot: Callable[..., Catalog]) -> None:
    catalog = snapshot(spot_statistics=(statistics(),))
    window = statistics()
    last, first = window.window_end.date(), window.window_start.date()

    def told(**days: date) -> int:
        return len(list_history(catalog, "p5.48xlarge", **days)["spot_statistics"])

    assert told(since=date(2027, 1, 1)) == 0
    assert told(until=first - timedelta(days=1)) == 0
    assert told(since=last) == told(until=first) == told(since=first, until=last) == 1


def test_zones_by_id_with_near_misses(snapshot: Callable[..., Catalog]) -> None:
    catalog = snapshot(spot_statistics=(statistics("use1-az4"), statistics("use1-az6")))
    one = list_history(catalog, "p5.48xlarge", zone="USE1-az6")
    assert [s["availability_zone_id"] for s in one["spot_statistics"]] == ["use1-az6"]
    with pytest.raises(UnknownName, match="unknown zone 'use1-az7'; did you mean use1-az6 or use1-az4"):
        list_history(catalog, "p5.48xlarge", zone="use1-az7")


def test_a_region_that_has_no_price_any_more_still_has_its_record(snapshot: Callable[..., Catalog]) -> None:
    gone = seen("90", "2024-01-01", "2025-01-01", region="us-gone-1")
    (period,) = list_history(snapshot(price_periods=(gone,)), "p5.48xlarge", region="US-gone-1")["periods"]
    assert (period["unit_price"], period["last_seen"]) == ("90", "2025-01-01T00:00:00Z")


def test_a_zone_is_for_spot_prices(snapshot: Callable[..., Catalog]) -> None:
    with pytest.raises(BadRequest, match="is for spot prices"):
        list_history(snapshot(), "p5.48xlarge", purchase_option="on_demand", zone="use1-az4")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"instance_type": "p5.48xlrge"}, "unknown instance type 'p5.48xlrge'; did you mean p5.48xlarge"),
        ({"instance_type": "p5.48xlarge", "purchase_option": "ondemand"}, "unknown purchase option 'ondemand'; did you mean on_demand"),
        ({"instance_type": "p5.48xlarge", "region": "us-esat-1"}, "unknown region 'us-esat-1'; did you mean us-east-1"),
    ],
)  # fmt: skip
def test_names_that_nothing_has(given: dict[str, str], why: str) -> None:
    with open_snapshot(shipped_snapshot_path()) as catalog, pytest.raises(UnknownName, match=why):
        list_history(catalog, **given)
