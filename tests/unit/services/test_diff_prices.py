"""`diff_prices` between two hand-made snapshots: every row and fraction is worked out by hand."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planner.services.diff_prices import diff_prices
from planner.services.documents import to_json_bytes
from pricing.catalog import Catalog
from pricing.difference import changes_between
from pricing.errors import UnknownName
from pricing.model import PurchaseOption, Quote
from pricing.snapshot import open_snapshot, shipped_snapshot_path, write_snapshot

KEY = [
    "provider", "instance_type", "region", "availability_zone_id", "availability_zone", "purchase_option", "plan_type", "offering_class", "term_years",
    "payment_option", "currency", "unit",
]  # fmt: skip
OLD, NEW = datetime(2026, 7, 20, 6, tzinfo=UTC), datetime(2026, 11, 30, 12, tzinfo=UTC)
SPOT = {"purchase_option": PurchaseOption.SPOT, "availability_zone_id": "use1-az4"}


def quote(name: str, price: str, **over: Any) -> Quote:
    given: dict[str, Any] = {
        "provider": "aws",
        "region": "us-east-1",
        "purchase_option": PurchaseOption.ON_DEMAND,
        "source": "price list",
        "retrieved_at": OLD,
    }
    return Quote(instance_type=name, effective_unit_price=Decimal(price), **(given | over))


@pytest.fixture
def snapshot(tmp_path: Path) -> Iterator[Callable[..., Catalog]]:
    with ExitStack() as stack:

        def made(published_at: datetime, *quotes: Quote) -> Catalog:
            with open_snapshot(shipped_snapshot_path()) as shipped:
                contents = dataclasses.replace(shipped.contents(), quotes=quotes)
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite"
            write_snapshot(path, contents, published_at=published_at, origin="refresh")
            return stack.enter_context(open_snapshot(path))

        yield made


@pytest.fixture
def pair(snapshot: Callable[..., Catalog]) -> tuple[Catalog, Catalog]:
    old = snapshot(
        OLD,
        quote("p5.48xlarge", "98.32"),
        quote("g5.xlarge", "1.006"),
        quote("g6.xlarge", "0.80"),
        quote("p4d.24xlarge", "21.957642"),
        quote("p3.2xlarge", "3.06"),
        quote("p5.48xlarge", "20", **SPOT, availability_zone="us-east-1a"),
    )
    new = snapshot(
        NEW,
        quote("p5.48xlarge", "55.04"),
        quote("g5.xlarge", "1.006"),
        quote("g6.xlarge", "0.82"),
        quote("p4d.24xlarge", "21.95764"),
        quote("g5.xlarge", "7.2", currency="CNY", region="cn-north-1"),
        quote("p5.48xlarge", "30", **SPOT),
    )
    return old, new


def test_what_moved_came_and_went(pair: tuple[Catalog, Catalog]) -> None:
    document = diff_prices(*pair)
    assert list(document) == ["from", "to", "changed", "added", "removed", "unchanged"]
    assert document["from"] == {"snapshot_id": pair[0].meta.snapshot_id, "day": "2026-07-20", "published_at": "2026-07-20T06:00:00Z"}  # fmt: skip
    assert document["to"]["day"] == "2026-11-30"
    # largest relative change first: 20 -> 30 is +50 %, 98.32 -> 55.04 is -44.02 %, 0.80 -> 0.82 is +2.5 %
    assert [(c["instance_type"], c["purchase_option"], c["old_unit_price"], c["new_unit_price"]) for c in document["changed"]] == [
        ("p5.48xlarge", "spot", "20", "30"),
        ("p5.48xlarge", "on_demand", "98.32", "55.04"),
        ("g6.xlarge", "on_demand", "0.80", "0.82"),
    ]  # fmt: skip
    assert [c["change_fraction"] for c in document["changed"]] == pytest.approx([0.5, -0.440195, 0.025], abs=1e-6)
    assert list(document["changed"][0]) == [*KEY, "old_unit_price", "new_unit_price", "change_fraction"]
    assert [(a["instance_type"], a["currency"], a["unit_price"]) for a in document["added"]] == [("g5.xlarge", "CNY", "7.2")]  # fmt: skip
    assert [(r["instance_type"], r["unit_price"]) for r in document["removed"]] == [("p3.2xlarge", "3.06")]
    assert list(document["removed"][0]) == [*KEY, "unit_price"]
    assert document["unchanged"] == 2, "g5.xlarge, and p4d.24xlarge that was only written with fewer decimals"
    assert json.loads(to_json_bytes(document))["unchanged"] == 2


def test_only_what_moved_enough(pair: tuple[Catalog, Catalog]) -> None:
    document = diff_prices(*pair, min_change_fraction=Decimal("0.05"))
    assert [c["instance_type"] for c in document["changed"]] == ["p5.48xlarge", "p5.48xlarge"]
    assert document["unchanged"] == 2, "a price that moved a little is not unchanged"


@pytest.mark.parametrize(("price", "least"), [("1.3", "0.3"), ("0.7", "0.3"), ("1.1", "0.1"), ("1.05", "0.05")])
def test_a_change_of_just_so_much_counts(snapshot: Callable[..., Catalog], price: str, least: str) -> None:
    old, new = snapshot(OLD, quote("g5.xlarge", "1")), snapshot(NEW, quote("g5.xlarge", price))
    assert len(diff_prices(old, new, min_change_fraction=Decimal(least))["changed"]) == 1
    assert diff_prices(old, new, min_change_fraction=Decimal(least) + Decimal("0.001"))["changed"] == []


def test_backwards_it_is_the_other_way_round(pair: tuple[Catalog, Catalog]) -> None:
    back = diff_prices(pair[1], pair[0])
    assert [r["currency"] for r in back["removed"]] == ["CNY"]
    assert [a["instance_type"] for a in back["added"]] == ["p3.2xlarge"]
    assert back["changed"][0]["change_fraction"] == pytest.approx(98.32 / 55.04 - 1)


def test_a_snapshot_against_itself_has_nothing(pair: tuple[Catalog, Catalog]) -> None:
    document = diff_prices(pair[0], pair[0])
    assert (document["changed"], document["added"], document["removed"], document["unchanged"]) == ([], [], [], 6)


def test_filters_take_names_that_either_snapshot_has(pair: tuple[Catalog, Catalog]) -> None:
    chosen = diff_prices(*pair, currency="CNY")
    assert (len(chosen["added"]), chosen["unchanged"], chosen["changed"]) == (1, 0, [])
    spot = diff_prices(*pair, purchase_option="spot", zone="us-east-1a")
    assert [r["unit_price"] for r in spot["removed"]] == ["20"], "only the older one names the zone so"
    with pytest.raises(UnknownName, match="unknown currency 'EUR'"):
        diff_prices(*pair, currency="EUR")


def test_of_two_quotes_of_one_thing_the_one_in_effect_last_counts(snapshot: Callable[..., Catalog]) -> None:
    earlier = quote("g5.xlarge", "1.2", effective_from=date(2026, 1, 1))
    later = quote("g5.xlarge", "1.0", effective_from=date(2026, 6, 1))
    old, new = snapshot(OLD, earlier, later), snapshot(NEW, later)
    assert diff_prices(old, new)["unchanged"] == 1


def test_the_counts_of_a_refresh_are_those_of_the_comparison(snapshot: Callable[..., Catalog]) -> None:
    """One zone with and without its name, one price with more decimals, one in another currency: told alike by both."""
    zone = {"purchase_option": PurchaseOption.SPOT, "availability_zone_id": "use1-az4"}
    before = (
        quote("p5.48xlarge", "18.1", **zone),
        quote("p5en.48xlarge", "20.2", **zone),
        quote("g6.xlarge", "0.80480"),
        quote("g5.xlarge", "1.006"),
        quote("p4d.24xlarge", "21.957642"),
    )
    after = (
        quote("p5.48xlarge", "18.5", **zone, availability_zone="us-east-1c"),  # the same pool, dearer
        quote("p5en.48xlarge", "20.2", **(zone | {"availability_zone_id": "use1-az5"})),  # another pool
        quote("g6.xlarge", "0.8048"),
        quote("g5.xlarge", "7.2", currency="CNY"),
        quote("p4d.24xlarge", "21.95764"),
    )
    assert changes_between(before, after) == {"new": 2, "changed": 1, "withdrawn": 2, "unchanged": 2}
    document = diff_prices(snapshot(OLD, *before), snapshot(NEW, *after))
    listed = {name: len(document[name]) for name in ("added", "changed", "removed")}
    assert (listed, document["unchanged"]) == ({"added": 2, "changed": 1, "removed": 2}, 2)
