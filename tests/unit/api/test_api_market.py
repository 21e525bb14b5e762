"""Prices over time by REST: the services' bytes, filters, days, and problems that name the parameter."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from api_client import NOW, Client

from planner import bootstrap
from planner.api.market_shapes import Availability, PriceDiff, PriceHistory
from planner.services.diff_prices import diff_prices
from planner.services.documents import to_json_bytes
from planner.services.list_history import list_history
from planner.services.list_prices import list_prices
from planner.services.show_availability import show_availability
from pricing.catalog import Catalog
from pricing.contents import SnapshotContents
from pricing.market import CapacityBlock, PlacementScore, Quota, SpotChange, ZoneOffering
from pricing.model import PurchaseOption
from pricing.refresh.publishing import publish
from pricing.snapshot import shipped_snapshot_path

SEEN = datetime(2026, 11, 29, 8, tzinfo=UTC)
SOURCE = "a list made for this test"


def contents_with(contents: SnapshotContents) -> SnapshotContents:
    """Return the shipped prices with p5.48xlarge at 60 USD in us-east-1 since yesterday, and a market around it."""
    changed = tuple(
        replace(q, list_unit_price=Decimal(60), effective_unit_price=Decimal(60), retrieved_at=SEEN, source=SOURCE)
        if (q.instance_type, q.region, q.purchase_option) == ("p5.48xlarge", "us-east-1", PurchaseOption.ON_DEMAND)
        else q
        for q in contents.quotes
    )
    where = {"provider": "aws", "region": "us-east-1", "source": SOURCE, "retrieved_at": SEEN}
    zone = {"availability_zone_id": "use1-az4", "availability_zone": "us-east-1a"}
    return replace(
        contents,
        quotes=changed,
        zone_offerings=(ZoneOffering(instance_type="p5.48xlarge", **zone, **where),),  # type: ignore[arg-type]
        capacity_blocks=(
            CapacityBlock(
                instance_type="p5.48xlarge", offering_id="cb-1", instance_count=2, starts_at=SEEN, ends_at=SEEN + timedelta(hours=24),
                minutes=1440, upfront=Decimal("1510.28"), **where,
            ),
        ),
        placement_scores=(
            PlacementScore(instance_types="p5.48xlarge,p5en.48xlarge,p4d.24xlarge", availability_zone_id="use1-az4", target_capacity=1, target_unit="units", score=3, **where),
        ),
        quotas=(
            Quota(code="L-417A185B", name="Running On-Demand P instances", purchase_option=PurchaseOption.ON_DEMAND, families="p", vcpus=192.0, applied=True, **where),
        ),
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.fixture
def newer(shipped_prices_alone: None, tmp_path: Path) -> Catalog:
    """Publish a snapshot after the shipped one and give its catalog."""
    del shipped_prices_alone
    contents = bootstrap.open_catalog().contents()
    publish(tmp_path / "data" / "snapshots", contents_with(contents), now=NOW, after=bootstrap.open_catalog().meta)
    newest = bootstrap.open_catalog()
    assert newest.meta.published_at == NOW
    return newest


def errors_of(client: Client, path: str) -> dict[str, tuple[str, str | None]]:
    answer = client.get(path)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return {e["field"]: (e["why"], e["expected"]) for e in answer.json()["errors"]}


def test_history_is_the_services_document_to_the_byte(client: Client, newer: Catalog) -> None:
    path = "/v1/prices/history?instance_type=p5.48xlarge&region=us-east-1&purchase_option=on_demand&since=2025-01-01"
    expected = list_history(
        newer,
        "p5.48xlarge",
        region=["us-east-1"],
        purchase_option=["on_demand"],
        since=datetime(2025, 1, 1, tzinfo=UTC).date(),
    )
    answer = client.get(path)
    assert answer.content == to_json_bytes(expected)
    PriceHistory.model_validate_json(answer.content)


def test_history_tells_the_cut_of_june_2025_and_what_came_after(client: Client, newer: Catalog) -> None:
    path = "/v1/prices/history?instance_type=p5.48xlarge&region=us-east-1&purchase_option=on_demand"
    periods = client.get(path).json()["periods"]
    assert [Decimal(p["unit_price"]) for p in periods][-3:] == [Decimal("98.32"), Decimal("55.04"), Decimal(60)]
    assert periods[-2]["change_fraction"] == pytest.approx(-0.4402, abs=1e-4)  # 55.04 / 98.32 - 1
    assert periods[-1]["change_fraction"] == pytest.approx(0.0901, abs=1e-4)  # 60 / 55.04 - 1
    earlier = client.get(f"{path}&prices_as_of={bootstrap.open_snapshot_by('shipped').meta.day}").json()["periods"]
    assert Decimal(earlier[-1]["unit_price"]) == Decimal("55.04")


def test_spot_changes_come_from_the_database(start: Callable[..., Client], newer: Catalog, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'spot.sqlite'}"
    own = start(database_url=url)
    newest = SpotChange(
        provider="aws", instance_type="p5.48xlarge", region="us-east-1", availability_zone_id="use1-az4", availability_zone="us-east-1a",
        unit_price=Decimal("22.016"), since=NOW - timedelta(days=3),
    )  # fmt: skip
    before = replace(newest, unit_price=Decimal(20), since=NOW - timedelta(days=5))
    with bootstrap.open_store(url) as store:
        store.record_spot_changes([newest, before])
    path = "/v1/prices/history?instance_type=p5.48xlarge&region=us-east-1"
    told = own.get(f"{path}&purchase_option=spot").json()["spot_changes"]
    assert [(t["unit_price"], t["availability_zone_id"], t["since"]) for t in told] == [
        ("20", "use1-az4", "2026-11-25T12:00:00Z"),
        ("22.016", "use1-az4", "2026-11-27T12:00:00Z"),
    ]
    assert own.get(path).json()["spot_changes"] == []  # not asked for
    # nobody has looked since the last change: of the seven days before it two are known, at 20
    (zone,) = own.get(f"{path}&purchase_option=spot&window_days=7").json()["spot_statistics"]
    assert (zone["window_end"], Decimal(zone["mean_unit_price"])) == ("2026-11-27T12:00:00Z", Decimal(20))
    assert zone["observed_fraction"] == pytest.approx(2 / 7)


def test_diff_is_the_services_document_to_the_byte(client: Client, newer: Catalog) -> None:
    answer = client.get("/v1/prices/diff?from=shipped&to=latest&region=us-east-1")
    assert answer.content == to_json_bytes(
        diff_prices(bootstrap.open_snapshot_by("shipped"), newer, region=["us-east-1"])
    )
    PriceDiff.model_validate_json(answer.content)


def test_diff_tells_the_price_that_moved(client: Client, newer: Catalog) -> None:
    told = client.get(f"/v1/prices/diff?from=shipped&to={newer.meta.snapshot_id[:12]}").json()
    (moved,) = told["changed"]
    assert (moved["instance_type"], moved["old_unit_price"], moved["new_unit_price"]) == ("p5.48xlarge", "55.04", "60")
    assert (told["added"], told["removed"]) == ([], [])
    assert told["unchanged"] == newer.meta.quote_count - 1
    assert client.get("/v1/prices/diff?from=shipped&min_change_fraction=0.10").json()["changed"] == []
    assert len(client.get("/v1/prices/diff?from=shipped&min_change_fraction=0.09").json()["changed"]) == 1
    assert client.get("/v1/prices/diff?from=shipped&family=g5").json()["changed"] == []


def test_snapshots_are_listed_without_their_folder(client: Client, newer: Catalog, tmp_path: Path) -> None:
    (tmp_path / "data" / "snapshots" / "2026-11-01-broken.sqlite").write_bytes(b"no snapshot")
    answer = client.get("/v1/prices/snapshots")
    told = answer.json()
    assert [row["origin"] for row in told["snapshots"]][-1] == "shipped"
    assert told["snapshots"][0]["snapshot_id"] == newer.meta.snapshot_id
    assert told["snapshots"][0]["published_at"] == "2026-11-30T12:00:00Z"
    assert [row["path"] for row in told["unreadable"]] == ["2026-11-01-broken.sqlite"]
    assert str(tmp_path) not in answer.text
    assert str(shipped_snapshot_path().parent) not in answer.text
    page = client.get("/v1/prices/snapshots?limit=1&offset=1").json()["snapshots"]
    assert page == told["snapshots"][1:2]


def test_availability_is_the_services_document_to_the_byte(client: Client, newer: Catalog) -> None:
    answer = client.get("/v1/prices/availability?instance_type=p5.48xlarge&region=us-east-1")
    assert answer.content == to_json_bytes(show_availability(newer, "p5.48xlarge", region="us-east-1"))
    told = Availability.model_validate_json(answer.content)
    assert [(z.availability_zone_id, z.offered) for z in told.zones if z.offered] == [("use1-az4", True)]
    assert float(told.capacity_blocks[0].unit_price) == pytest.approx(31.464166667)  # 1510.28 / 2 / 24
    assert told.placement_scores[0].score == 3
    assert (told.quotas[0].vcpus_needed_for_one, told.quotas[0].instances_possible) == (192, 1)


def test_prices_of_a_day_are_those_of_its_snapshot(client: Client, newer: Catalog) -> None:
    path = "/v1/prices?instance_type=p5.48xlarge&region=us-east-1&purchase_option=on_demand"
    shipped = bootstrap.open_snapshot_by("shipped").meta
    old, new = client.get(f"{path}&prices_as_of={shipped.day}").json(), client.get(path).json()
    assert (old["snapshot_id"], old["prices"][0]["effective_unit_price"]) == (shipped.snapshot_id, "55.04")
    assert (new["snapshot_id"], new["prices"][0]["effective_unit_price"]) == (newer.meta.snapshot_id, "60")


def test_prices_of_a_snapshot_by_its_id(client: Client, newer: Catalog) -> None:
    shipped = bootstrap.open_snapshot_by("shipped").meta
    what = "?instance_type=p5.48xlarge&region=us-east-1"
    for path in ("/v1/prices", "/v1/prices/history", "/v1/prices/availability"):
        for name, meta in ((shipped.snapshot_id, shipped), (newer.meta.snapshot_id[:6], newer.meta), ("shipped", shipped), ("latest", newer.meta)):  # fmt: skip
            assert client.get(f"{path}{what}&prices_as_of={name}").json()["snapshot_id"] == meta.snapshot_id
    body = {"model": "7b", "prices_as_of": shipped.snapshot_id[:7], "top": 1}
    for path in ("/v1/recommendations", "/v1/estimates"):
        sent = body if path.endswith("recommendations") else {**body, "instance": "g5.xlarge"}
        sent = {k: v for k, v in sent.items() if path.endswith("recommendations") or k != "top"}
        document = client.post(path, json=sent).json()
        assert document["request"]["prices_as_of"] == shipped.snapshot_id[:7]
        assert document["prices"]["snapshot_id"] == shipped.snapshot_id


def test_prices_take_the_filters_of_the_command_line(client: Client) -> None:
    catalog = bootstrap.open_catalog()
    path = "/v1/prices?family=p5&region=us-east-1&max_price=60&sort=price&currency=USD&provider=aws"
    expected = list_prices(
        catalog, family="p5", region="us-east-1", max_price=Decimal(60), sort="price", currency="USD", provider="aws"
    )
    assert client.get(path).content == to_json_bytes(expected)
    prices = [Decimal(row["effective_unit_price"]) for row in expected["prices"]]
    assert prices == sorted(prices)
    assert max(prices) <= 60
    years = client.get("/v1/prices?term=3&plan_type=ec2_instance").json()["prices"]
    assert len(years) == 15  # lines of that sort in the shipped table of commitments
    assert {(row["term_years"], row["plan_type"]) for row in years} == {(3, "ec2_instance")}


def test_a_list_of_another_day_has_another_tag(client: Client, newer: Catalog) -> None:
    tag = client.get("/v1/prices/history?instance_type=p5.48xlarge").headers["etag"]
    again = client.get("/v1/prices/history?instance_type=p5.48xlarge", headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("path", "field", "words"),
    [
        ("/v1/prices/history", "instance_type", "must be given"),
        ("/v1/prices/history?instance_type=p5.48xlarge&instance_type=g5.xlarge", "instance_type", "must be given once"),
        ("/v1/prices/history?instance_type=p5.48xlagre", "instance_type", "is not a known instance type"),
        ("/v1/prices/history?instance_type=p5.48xlarge&region=us-esat-1", "region", "is not a known region"),
        ("/v1/prices/history?instance_type=p5.48xlarge&since=yesterday", "since", "must be a day"),
        ("/v1/prices/history?instance_type=p5.48xlarge&since=2026-02-30", "since", "must be a day that exists"),
        ("/v1/prices/history?instance_type=p5.48xlarge&since=2026-02-01&until=2026-01-01", "since", "is after until"),
        ("/v1/prices/history?instance_type=p5.48xlarge&window_days=0", "window_days", "must be one whole number"),
        ("/v1/prices/history?instance_type=p5.48xlarge&window_days=99999", "window_days", "must be 1 to 3660"),
        ("/v1/prices/history?instance_type=p5.48xlarge&purchase_option=spots", "purchase_option", "is not a known"),
        ("/v1/prices/history?instance_type=p5.48xlarge&prices_as_of=2001-01-01", "prices_as_of", "before the oldest"),
        ("/v1/prices/diff", "from", "must be given"),
        ("/v1/prices/diff?from=deadbeef", "from", "is not a known snapshot"),
        ("/v1/prices/diff?from=2026-13-01", "from", "is not a day"),
        ("/v1/prices/diff?from=shipped&to=../../etc/passwd", "to", "is not a known snapshot"),
        ("/v1/prices/diff?from=shipped&min_change_fraction=5%25", "min_change_fraction", "must be a decimal"),
        ("/v1/prices/diff?from=shipped&min_change_fraction=-1", "min_change_fraction", "must be a decimal"),
        ("/v1/prices/diff?from=shipped&famly=p5", "famly", "is not a parameter"),
        ("/v1/prices/availability?instance_type=p5.48xlarge", "region", "must be given"),
        ("/v1/prices/availability?instance_type=p5.48xlarge&region=mars", "region", "is not a known region"),
        ("/v1/prices/snapshots?limit=x", "limit", "must be one whole number"),
        ("/v1/prices?sort=cheapest", "sort", "is not one of price"),
        ("/v1/prices?max_price=1e400000000", "max_price", "must be a decimal"),
        ("/v1/prices?max_price=NaN", "max_price", "must be a decimal"),
        ("/v1/prices?family=p55", "family", "is not a known family"),
        ("/v1/prices?zone=use9-az9", "zone", "is not a known zone"),
        ("/v1/prices?prices_as_of=30.11.2026", "prices_as_of", "must be a day"),
        ("/v1/prices?prices_as_of=deadbeef", "prices_as_of", "is the name of no price snapshot here"),
        ("/v1/prices/history?instance_type=p5.48xlarge&prices_as_of=dead", "prices_as_of", "the name of a snapshot"),
    ],
)
def test_bad_input_is_a_problem_that_names_the_parameter(client: Client, path: str, field: str, words: str) -> None:
    found = errors_of(client, path)
    assert list(found) == [field]
    assert words in found[field][0]


def test_everything_wrong_is_told_at_once(client: Client) -> None:
    found = errors_of(client, "/v1/prices/history?since=x&until=y&regoin=us-east-1")
    assert set(found) == {"instance_type", "since", "until", "regoin"}
    assert found["regoin"][1] == "did you mean region?"


def test_the_pages_of_a_difference_add_up(client: Client, newer: Catalog, tmp_path: Path) -> None:
    contents = newer.contents()
    dearer = tuple(
        replace(q, effective_unit_price=q.effective_unit_price * 2) if n < 5 else q
        for n, q in enumerate(contents.quotes)
    )
    next_one = replace(contents, quotes=dearer[:-3])  # five moved, three are gone
    publish(tmp_path / "data" / "snapshots", next_one, now=NOW + timedelta(minutes=1), after=newer.meta)
    path = f"/v1/prices/diff?from={newer.meta.snapshot_id[:12]}&to=latest"
    whole = client.get(path).json()
    assert [len(whole[name]) for name in ("changed", "added", "removed")] == [5, 0, 3]
    url, pages = f"{path}&limit=2", []
    while url:
        answer = client.get(url)
        PriceDiff.model_validate_json(answer.content)
        pages.append(answer.json())
        url = pages[-1].get("next", "")
    assert [len(page["changed"]) for page in pages] == [2, 2, 1]
    for name in ("changed", "removed"):
        assert [row for page in pages for row in page[name]] == whole[name]
    assert {page["unchanged"] for page in pages} == {whole["unchanged"]}


def test_the_pages_of_spot_changes_add_up(start: Callable[..., Client], newer: Catalog, tmp_path: Path) -> None:
    own = start(database_url=f"sqlite:///{tmp_path / 'spot.sqlite'}")
    assert newer.meta.published_at == NOW
    changes = [
        SpotChange(
            provider="aws", instance_type="p5.48xlarge", region="us-east-1", availability_zone_id="use1-az4", availability_zone="us-east-1a",
            unit_price=Decimal(20 + n), since=NOW - timedelta(days=10 - n),
        )
        for n in range(5)
    ]  # fmt: skip
    with bootstrap.open_store(f"sqlite:///{tmp_path / 'spot.sqlite'}") as store:
        store.record_spot_changes(changes)
    url, prices, pages = "/v1/prices/history?instance_type=p5.48xlarge&purchase_option=spot&limit=2", [], 0
    while url:
        page = own.get(url).json()
        prices += [row["unit_price"] for row in page["spot_changes"]]
        url, pages = page.get("next", ""), pages + 1
    assert (prices, pages) == (["20", "21", "22", "23", "24"], 3)


def test_a_removed_snapshot_is_no_longer_told(client: Client, newer: Catalog, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "data" / "snapshots")
    assert [r["origin"] for r in client.get("/v1/prices/snapshots").json()["snapshots"]] == ["shipped"]
    assert "from" in errors_of(client, f"/v1/prices/diff?from={newer.meta.snapshot_id[:10]}")
