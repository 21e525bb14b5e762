"""`refresh_prices` with small sources over the shipped tables: what is published, kept, recorded, resumed and said."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planner.services.documents import to_json_bytes
from planner.services.refresh_prices import (
    RecordFailed,
    RefreshRequest,
    Surroundings,
    failures_by_reason,
    refresh_prices,
)
from pricing.catalog import Catalog
from pricing.errors import AccessDenied, CredentialsMissing, SnapshotError, SourceFailed, UnknownName
from pricing.market import Discount, SpotChange, SpotStatistics
from pricing.model import PurchaseOption, Quote
from pricing.refresh.errors import NotPublished, NotWritable, RefreshBusy
from pricing.refresh.lock import only_refresh
from pricing.snapshot import open_snapshot, read_meta, shipped_snapshot_path, verify_snapshot, write_snapshot
from pricing.source import Ask, Scope, Source, SourceReading
from pricing.spot_statistics import OnDemand, statistics_of

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
LISTED = {"p5.48xlarge": "55.04", "g6.xlarge": "0.8048", "p4d.24xlarge": "21.957642"}


@dataclass
class Place:
    """A data directory with a clock of its own, and the sources that can be asked there."""

    folder: Path
    stack: ExitStack
    shipped: Path
    sources: tuple[Source, ...] = ()
    now: datetime = NOW
    over: dict[str, Any] = field(default_factory=dict)

    @property
    def snapshots(self) -> Path:
        return self.folder / "snapshots"

    @property
    def newest_path(self) -> Path:
        files = sorted(self.snapshots.glob("*.sqlite")) if self.snapshots.exists() else []
        return max(files, key=lambda f: read_meta(f).published_at) if files else self.shipped

    def open(self, path: Path) -> Catalog:
        return self.stack.enter_context(open_snapshot(path))

    def newest(self) -> Catalog:
        return self.open(self.newest_path)

    def clock(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def refresh(self, *, progress: Callable[[Any], None] = lambda _: None, **request: Any) -> dict[str, Any]:
        around = Surroundings(
            sources=self.sources,
            data_dir=self.folder,
            snapshots_dir=self.snapshots,
            clock=self.clock,
            **{
                "open_newest": self.newest,
                "open_shipped": lambda: self.open(self.shipped),
                **self.over,
            },
        )
        return refresh_prices(RefreshRequest(**({"regions": ("us-east-1",)} | request)), around, progress=progress)

    def price(self, name: str, region: str = "us-east-1", option: str = "on_demand") -> Quote:
        (found,) = self.newest().quotes(instance_types=[name], regions=[region], purchase_options=[option])
        return found


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few types of the shipped tables: enough to merge into, and quick."""
    with open_snapshot(shipped_snapshot_path()) as catalog:
        whole = catalog.contents()
    names = {*LISTED, "g6.2xlarge"}
    few = replace(
        whole,
        instance_types=tuple(t for t in whole.instance_types if t.instance_type in names),
        quotes=tuple(q for q in whole.quotes if q.instance_type in names),
        interruptions=(),
        price_periods=tuple(p for p in whole.price_periods if p.instance_type in names),
    )
    path = tmp_path_factory.mktemp("shipped") / "shipped.sqlite"
    write_snapshot(path, few, published_at=datetime(2026, 7, 20, tzinfo=UTC), origin="shipped")
    return path


@pytest.fixture
def place(tmp_path: Path, shipped: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path / "data", stack, shipped)


def source(
    name: str = "price_list",
    prices: dict[str, str] | None = None,
    *,
    option: PurchaseOption = PurchaseOption.ON_DEMAND,
    before: Callable[[Ask], None] = lambda _: None,
    changes: Sequence[SpotChange] = (),
    **over: Any,
) -> Source:
    def read(ask: Ask) -> SourceReading:
        before(ask)
        ask.on_answer()
        spot = option is PurchaseOption.SPOT
        quotes = tuple(
            Quote(
                provider="aws",
                instance_type=each,
                region=ask.region or "us-east-1",
                availability_zone_id="use1-az6" if spot else None,
                purchase_option=option,
                list_unit_price=Decimal(price),
                effective_unit_price=Decimal(price),
                source=f"live {name}",
                retrieved_at=ask.at,
            )
            for each, price in (LISTED if prices is None else prices).items()
        )
        tables = {"quotes", "spot_changes"} if spot else {"quotes"}
        scope = Scope(provider="aws", region=ask.region, tables=frozenset(tables), purchase_options=frozenset({option}))
        return SourceReading(
            source=name,
            scope=scope,
            retrieved_at=ask.at,
            published="2026-11-28T00:00:00Z",
            quotes=quotes,
            spot_changes=tuple(changes),
            excluded={"tenancy Host": 16},
        )

    given = {"regional": True, "needs_credentials": True, "default": True, "what": "prices"} | over
    return Source(name=name, read=read, **given)


def fails(error: Exception, region: str | None = None) -> Callable[[Ask], None]:
    def before(ask: Ask) -> None:
        if region in (None, ask.region):
            raise error

    return before


DENIED = AccessDenied(source="price list", permission="pricing:GetProducts", why="access denied to pricing:GetProducts", remedy="grant it")  # fmt: skip


# -- publishing ---------------------------------------------------------------------------------------------------


def test_what_was_read_is_published_with_its_day_and_source(place):
    place.sources = (source(),)
    document = place.refresh()
    meta = verify_snapshot(place.newest_path)
    assert document["snapshot_id"] == meta.snapshot_id
    assert document["previous_snapshot_id"] == read_meta(place.shipped).snapshot_id
    assert (document["published"], document["complete"], document["day"]) == (True, True, "2026-12-01")
    assert (meta.origin, meta.as_of) == ("refresh", NOW + timedelta(seconds=1))
    assert document["quotes"] == meta.quote_count
    assert place.price("p5.48xlarge").source == "live price_list"
    assert document["sources"] == [
        {
            "source": "price_list",
            "region": "us-east-1",
            "state": "read",
            "rows": 3,
            "excluded": {"tenancy Host": 16},
            "published": "2026-11-28T00:00:00Z",
            "why": None,
            "kept_as_of": None,
        }
    ]
    assert {"kind": "excluded", "source": "price_list", "subject": "tenancy Host", "detail": "left out in us-east-1", "count": 16} in document["notices"]  # fmt: skip
    json.loads(to_json_bytes(document))


def test_a_second_refresh_changes_what_changed(place):
    place.sources = (source(),)
    first = place.refresh()
    place.sources = (source(prices=LISTED | {"p5.48xlarge": "31.464", "g6.2xlarge": "0.9776"}),)
    document = place.refresh()
    assert document["previous_snapshot_id"] == first["snapshot_id"]
    before = first["changes"]["new"] + first["changes"]["changed"] + first["changes"]["unchanged"]
    # g6.2xlarge is in the shipped tables too: its key is not new, its price is that of the tables
    assert document["changes"] == {"new": 0, "changed": 1, "withdrawn": 0, "unchanged": before - 1}
    jumps = [n for n in document["notices"] if n["kind"] == "price_jump"]
    assert [(n["subject"], n["detail"]) for n in jumps] == [("p5.48xlarge us-east-1 on_demand", "55.04 to 31.464 USD an hour (-43%)")]  # fmt: skip


def test_the_id_does_not_depend_on_who_answers_first(tmp_path, shipped):
    ids = set()
    chance = random.Random(11)
    for n in range(4):
        with ExitStack() as stack:
            waits = {region: chance.random() / 30 for region in ("us-east-1", "us-west-2", "eu-west-1")}
            place = Place(tmp_path / str(n), stack, shipped)
            place.sources = (
                source(before=lambda ask, waits=waits: time.sleep(waits[ask.region])),
                source("savings_plans", option=PurchaseOption.SAVINGS_PLAN_1YR, before=lambda ask, waits=waits: time.sleep(waits[ask.region] / 2)),
            )  # fmt: skip
            ids.add(place.refresh(regions=tuple(waits), workers=1 + 3 * n)["snapshot_id"])
    assert len(ids) == 1


def test_a_source_and_a_region_leave_the_others_alone(place):
    place.sources = (source(), source("spot", {"g6.xlarge": "0.3"}, option=PurchaseOption.SPOT))
    place.refresh(regions=("us-east-1", "us-west-2"))
    before = {q for q in place.newest().quotes() if not (q.region == "us-west-2" and q.purchase_option == "on_demand")}
    place.refresh(regions=("us-west-2",), sources=("price_list",))
    after = {q for q in place.newest().quotes() if not (q.region == "us-west-2" and q.purchase_option == "on_demand")}
    assert after == before
    assert place.price("p5.48xlarge", "us-west-2").retrieved_at > place.price("p5.48xlarge", "us-east-1").retrieved_at


# -- failures -----------------------------------------------------------------------------------------------------


def test_a_failed_source_keeps_its_last_good_figures_and_says_how_old_they_are(place):
    place.sources = (source(), source("spot", {"g6.xlarge": "0.3"}, option=PurchaseOption.SPOT))
    place.refresh()
    good = place.price("p5.48xlarge")
    place.now += 24 * HOUR
    place.sources = (source(before=fails(SourceFailed(source="x", why="throttled"))), place.sources[1])
    document = place.refresh()
    assert (document["published"], document["complete"]) == (True, False)
    assert place.price("p5.48xlarge") == good
    failed = document["sources"][0]
    assert (failed["state"], failed["why"], failed["kept_as_of"]) == ("failed", "throttled", "2026-12-01T12:00:01Z")
    assert document["sources"][1]["state"] == "read"
    assert failures_by_reason(document) == [(["price_list"], ["us-east-1"], "throttled")]


def test_when_everything_fails_nothing_is_published(place):
    place.sources = (source(before=fails(SourceFailed(source="x", why="no network"))),)
    document = place.refresh()
    assert (document["published"], document["complete"]) == (False, False)
    assert document["snapshot_id"] == document["previous_snapshot_id"] == read_meta(place.shipped).snapshot_id
    assert not place.snapshots.exists()


def test_regions_that_fail_for_one_reason_stand_on_one_line(place):
    slow = source("quotas", before=fails(SourceFailed(source="x", why="throttled"), "us-east-1"))
    place.sources = (source(before=fails(DENIED)), source("storage", before=fails(DENIED)), slow)
    document = place.refresh(regions=("us-east-1", "us-west-2"))
    assert failures_by_reason(document) == [
        (
            ["price_list", "storage"],
            ["us-east-1", "us-west-2"],
            "access denied to pricing:GetProducts; grant it",
        ),
        (["quotas"], ["us-east-1"], "throttled"),
    ]


def test_the_files_stand_in_where_a_permission_is_missing(place):
    files = source("price_list_files", {"p5.48xlarge": "54"}, default=False, needs_credentials=False)
    place.sources = (source(before=fails(DENIED)), files)
    document = place.refresh()
    assert [(s["source"], s["state"]) for s in document["sources"]] == [("price_list", "failed"), ("price_list_files", "read")]  # fmt: skip
    assert "price_list_files was read instead" in document["sources"][0]["why"]
    assert document["sources"][0]["kept_as_of"] is None
    assert not [n for n in document["notices"] if n["kind"] == "kept"]
    assert place.price("p5.48xlarge").effective_unit_price == 54


def test_without_credentials_the_files_are_read_and_the_rest_says_what_is_missing(place):
    def none_found() -> None:
        raise CredentialsMissing(source="AWS sts", why="no credentials were found", remedy="set AWS_PROFILE")

    files = source("price_list_files", default=False, needs_credentials=False)
    place.sources = (source(), source("spot", option=PurchaseOption.SPOT), files)
    place.over = {"check_credentials": none_found, "enabled_regions": lambda: pytest.fail("must not be asked")}
    document = place.refresh()
    assert [(s["source"], s["state"]) for s in document["sources"]] == [("price_list", "failed"), ("price_list_files", "read"), ("spot", "failed")]  # fmt: skip
    assert "no credentials were found; set AWS_PROFILE" in document["sources"][2]["why"]


def test_a_refresh_that_took_something_removes_downloads_that_nobody_uses(place):
    file = place.folder / "downloads" / "AmazonEC2-eu-west-1.csv"
    file.parent.mkdir(parents=True)
    file.write_text("x")
    os.utime(file, (0, 0))
    place.sources = (source(before=fails(DENIED)),)
    place.refresh()
    assert file.exists()
    place.sources = (source(),)
    place.refresh()
    assert not file.exists()


def test_a_list_that_is_much_shorter_is_refused_until_told(place):
    place.sources = (source(),)
    place.refresh()
    place.sources = (source(prices={"p5.48xlarge": "55.04", "g6.xlarge": "0.8048"}),)
    refused = place.refresh()
    assert refused["published"] is False
    assert refused["sources"][0]["state"] == "failed"
    assert "incomplete: 2 on_demand prices, 3 before" in refused["sources"][0]["why"]
    taken = place.refresh(accept_incomplete=True)
    assert (taken["published"], taken["changes"]["withdrawn"]) == (True, 1)


# -- regions and sources ------------------------------------------------------------------------------------------


def test_regions_are_those_of_the_account(place):
    place.sources = (source(),)
    place.over = {"enabled_regions": lambda: ("eu-west-1", "us-east-1")}
    assert [s["region"] for s in place.refresh(regions=())["sources"]] == ["eu-west-1", "us-east-1"]
    place.now += HOUR
    assert [s["region"] for s in place.refresh(regions=("all",))["sources"]] == ["eu-west-1", "us-east-1"]


def test_without_a_permission_for_them_they_are_those_of_the_snapshot(place):
    place.sources = (source(),)
    place.over = {"enabled_regions": lambda: (_ for _ in ()).throw(DENIED)}
    document = place.refresh(regions=())
    asked = {s["region"] for s in document["sources"]}
    assert asked == {q.region for q in place.open(place.shipped).quotes(providers=["aws"])}
    (fault,) = document["faults"]
    assert fault["subject"] == "regions"
    assert "access denied to pricing:GetProducts; grant it" in fault["detail"]
    assert f"{len(asked)} regions of the snapshot instead" in fault["detail"]
    assert [n["detail"] for n in document["notices"] if n["subject"] == "regions"] == [fault["detail"]]
    assert (document["published"], document["complete"]) == (True, False)  # of other regions nobody knows


def none_found() -> None:
    raise CredentialsMissing(source="AWS sts", why="no credentials were found", remedy="set AWS_PROFILE")


@pytest.mark.parametrize("needs_credentials", [True, False])
def test_without_credentials_and_a_region_one_region_is_asked_and_that_is_said(place, needs_credentials):
    files = source("price_list_files", default=not needs_credentials, needs_credentials=False)
    place.sources = (source(default=needs_credentials), files)
    place.over = {"check_credentials": none_found, "enabled_regions": none_found}
    document = place.refresh(regions=())
    assert [s["region"] for s in document["sources"] if s["state"] == "read"] == ["us-east-1"]
    (said,) = [n for n in document["notices"] if n["subject"] == "regions"]
    assert "us-east-1 alone" in said["detail"]
    assert said["detail"].endswith("; --region names others")


def test_without_credentials_regions_that_are_named_are_asked(place):
    files = source("price_list_files", needs_credentials=False)
    place.sources = (files,)
    place.over = {"check_credentials": none_found, "enabled_regions": none_found}
    asked = lambda *names: {s["region"] for s in place.refresh(regions=names)["sources"]}  # noqa: E731
    assert asked("us-west-2", "us-east-1") == {"us-west-2", "us-east-1"}
    place.now += HOUR
    assert asked("all") == {q.region for q in place.open(place.shipped).quotes(providers=["aws"])}


def test_a_failed_source_of_another_cloud_keeps_that_clouds_prices_with_their_age(place):
    scope = Scope(provider="gcp", region=None, tables=frozenset({"quotes"}), purchase_options=frozenset({PurchaseOption.ON_DEMAND}))  # fmt: skip
    price = Quote(provider="gcp", instance_type="a3-highgpu-8g", region="us-central1", purchase_option=PurchaseOption.ON_DEMAND, list_unit_price=Decimal(88), effective_unit_price=Decimal(88), source="gpuhunt gcp", retrieved_at=place.now)  # fmt: skip
    whole = lambda ask: SourceReading(source="gpuhunt.gcp", scope=scope, retrieved_at=ask.at, quotes=(price,))  # noqa: E731
    asked = Source(name="gpuhunt.gcp", provider="gcp", regional=False, needs_credentials=False, default=True, what="gcp", read=whole)  # fmt: skip
    place.sources = (asked,)
    place.refresh(regions=())
    place.now += HOUR
    place.sources = (replace(asked, read=fails(DENIED)),)
    document = place.refresh(regions=())
    assert document["sources"][0]["kept_as_of"] == f"{price.retrieved_at:%Y-%m-%dT%H:%M:%S}Z"
    assert not [n for n in document["notices"] if "nothing of it was known" in n["detail"]]


@pytest.mark.parametrize(
    ("request_", "message"),
    [({"regions": ("us-esat-1",)}, "unknown region 'us-esat-1'; did you mean us-east-1"), ({"sources": ("prices",)}, "unknown source 'prices'")],
)  # fmt: skip
def test_misspelt_names_are_refused_before_anything_is_asked(place, request_, message):
    place.sources = (source(before=lambda _: pytest.fail("must not be asked")),)
    with pytest.raises(UnknownName, match=message):
        place.refresh(**request_)


# -- what stands in the way ---------------------------------------------------------------------------------------


def test_while_another_refresh_runs_nothing_is_done(place):
    place.sources = (source(before=lambda _: pytest.fail("must not be asked")),)
    with only_refresh(place.folder), pytest.raises(RefreshBusy):
        place.refresh()


def test_a_damaged_newest_snapshot_is_named_and_nothing_older_is_taken_in_silence(place):
    place.sources = (source(),)
    place.refresh()
    path = place.newest_path
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"21.957642", b"11.957642"))
    with pytest.raises(SnapshotError, match=rf"{path.name}: damaged snapshot.*remove"):
        place.refresh()
    path.unlink()
    assert place.refresh()["published"] is True


def test_a_folder_that_cannot_be_written_leaves_the_readings_for_the_next_time(place):
    asked = []
    place.sources = (source(before=lambda ask: asked.append(ask.region)),)
    place.folder.mkdir(parents=True)
    place.snapshots.write_text("in the way")
    place.over = {"open_newest": lambda: place.open(place.shipped)}
    with pytest.raises(NotWritable, match="the snapshot before stays"):
        place.refresh()
    place.snapshots.unlink()
    place.over = {}
    assert place.refresh()["sources"][0]["state"] == "resumed"
    assert asked == ["us-east-1"]


def test_what_the_checks_refuse_is_not_published_and_not_resumed(place, monkeypatch):
    place.sources = (source(),)

    def refuse(*_: Any, **__: Any) -> None:
        raise NotPublished("not published, the snapshot before stays: keys_unique")

    with monkeypatch.context() as patch:
        patch.setattr("planner.services.refresh_prices.checked", refuse)
        with pytest.raises(NotPublished):
            place.refresh()
    assert place.newest_path == place.shipped
    assert place.refresh()["sources"][0]["state"] == "read"


def test_a_clock_behind_the_newest_snapshot_is_told_and_the_new_one_is_still_the_newest(place):
    place.sources = (source(),)
    first = place.refresh()
    place.now -= timedelta(days=2)
    document = place.refresh()
    assert any("check the clock" in n["detail"] for n in document["notices"])
    assert document["published"] is True
    assert place.newest().meta.snapshot_id == document["snapshot_id"] != first["snapshot_id"]


# -- resuming -----------------------------------------------------------------------------------------------------


def test_an_interrupted_refresh_goes_on_and_a_finished_one_begins_anew(place):
    def interrupted(ask: Ask) -> None:
        if ask.region == "us-west-2":
            raise KeyboardInterrupt

    place.sources = (source(before=interrupted),)
    with pytest.raises(KeyboardInterrupt):
        place.refresh(regions=("us-east-1", "us-west-2"), workers=1)
    assert place.newest_path == place.shipped
    place.sources = (source(),)
    document = place.refresh(regions=("us-east-1", "us-west-2"))
    assert [s["state"] for s in document["sources"]] == ["resumed", "read"]
    assert [s["state"] for s in place.refresh(regions=("us-east-1", "us-west-2"))["sources"]] == ["read", "read"]


def test_a_refresh_killed_between_publishing_and_tidying_is_not_resumed_from_what_is_published(place, monkeypatch):
    place.sources = (source(),)
    with monkeypatch.context() as patch:
        patch.setattr("pricing.refresh.staging.Staging.drop", lambda *_: None)  # as if killed before it
        place.refresh()
    assert list((place.folder / "staging").iterdir())
    assert place.refresh()["sources"][0]["state"] == "read"


# -- agreements, records, alerts ----------------------------------------------------------------------------------


def test_an_agreement_holds_from_its_refresh_on(place):
    place.sources = (source(),)
    off = Discount(provider="aws", agreement="EDP", instance_type="p5.48xlarge", percent_off=Decimal(10), source="edp.toml, discount 1")  # fmt: skip
    place.refresh(discounts=(off,))
    assert place.price("p5.48xlarge").contracted_unit_price == Decimal("49.536")  # 55.04 x 0.9
    place.refresh()
    again = place.price("p5.48xlarge")
    assert (again.list_unit_price, again.contracted_unit_price) == (Decimal("55.04"), Decimal("49.536"))


@dataclass
class Records:
    """A database in memory; it can be made to fail."""

    changes: list[SpotChange] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    known: dict[tuple[str, str], datetime] = field(default_factory=dict)
    broken: str = ""

    def _try(self, what: str) -> None:
        if self.broken in (what, "all"):
            raise RecordFailed("database is locked")

    def spot_known_until(self, region: str, instance_types: Iterable[str]) -> datetime | None:
        self._try("newest")
        known = [self.known.get((region, name)) for name in instance_types]
        return min((at for at in known if at is not None), default=None) if None not in known else None

    def keep_spot_changes(self, changes: Sequence[SpotChange], *, asked: Iterable[str]) -> None:
        self._try("keep")
        for name in asked:
            for c in changes:
                self.known[c.region, name] = max(self.known.get((c.region, name), c.since), c.since)
        self.changes = [*self.changes, *(c for c in changes if c not in self.changes)]

    def spot_statistics(
        self, regions: Iterable[str], start: datetime, end: datetime, on_demand: OnDemand
    ) -> tuple[SpotStatistics, ...]:
        self._try("statistics")
        wanted = set(regions)
        return statistics_of([c for c in self.changes if c.region in wanted], window_start=start, window_end=end, on_demand=on_demand)  # fmt: skip

    def record_snapshot(self, catalog: Catalog) -> None:
        self._try("snapshot")
        self.recorded.append(catalog.meta.snapshot_id)


def change(days_ago: float, price: str) -> SpotChange:
    return SpotChange(
        provider="aws",
        instance_type="g6.xlarge",
        region="us-east-1",
        availability_zone_id="use1-az6",
        availability_zone=None,
        unit_price=Decimal(price),
        since=NOW - timedelta(days=days_ago),
    )


def test_spot_changes_are_recorded_once_and_statistics_are_of_all_that_is_known(place):
    asked: list[datetime | None] = []
    records = Records()
    place.over = {"records": records}
    spot = {"option": PurchaseOption.SPOT, "before": lambda ask: asked.append(ask.spot_since)}
    place.sources = (source("spot", {"g6.xlarge": "0.2"}, changes=[change(30.5, "0.1"), change(15, "0.2")], **spot),)
    first = place.refresh()
    place.now = NOW + timedelta(days=5)
    place.sources = (source("spot", {"g6.xlarge": "0.4"}, changes=[change(0, "0.4")], **spot),)
    second = place.refresh()
    assert asked == [None, NOW - timedelta(days=15)]
    assert records.recorded == [first["snapshot_id"], second["snapshot_id"]]
    (moved,) = place.newest().spot_statistics("g6.xlarge")
    # 30 days up to NOW + 5 d: 10 d at 0.1, 15 d at 0.2, 5 d at 0.4
    assert float(moved.mean_unit_price) == pytest.approx((10 * 0.1 + 15 * 0.2 + 5 * 0.4) / 30, rel=1e-5)
    assert moved.observed_fraction == 1.0


def test_a_type_that_is_wanted_later_has_its_earlier_changes_asked_for(place):
    """The changes of the others, which a database has, do not stand for it."""
    asked: list[datetime | None] = []
    place.over = {"records": Records()}
    spot = source("spot", {"g6.xlarge": "0.2"}, option=PurchaseOption.SPOT, changes=[change(2, "0.2")], before=lambda ask: asked.append(ask.spot_since))  # fmt: skip
    place.sources = (spot,)
    place.refresh()
    known = place.newest().instance_types("aws")
    new = replace(known[0], instance_type="g6.24xlarge")
    scope = Scope(provider="aws", region="us-east-1", tables=frozenset({"instance_types"}))
    types = replace(
        source("instance_types"),
        read=lambda ask: SourceReading(
            source="instance_types", scope=scope, retrieved_at=ask.at, instance_types=(*known, new)
        ),
    )
    place.sources = (spot, types)
    place.refresh()  # the type comes into the catalog
    place.sources = (spot,)
    place.refresh()
    place.refresh()
    assert asked == [None, NOW - timedelta(days=2), None, NOW - timedelta(days=2)]


def test_without_a_database_the_window_is_asked_for_and_summed_up(place):
    asked: list[datetime | None] = []
    place.sources = (source("spot", {"g6.xlarge": "0.2"}, option=PurchaseOption.SPOT, changes=[change(40, "0.2")], before=lambda ask: asked.append(ask.spot_since)),)  # fmt: skip
    place.refresh()
    assert asked == [NOW + timedelta(seconds=1) - timedelta(days=30)]
    (moved,) = place.newest().spot_statistics("g6.xlarge")
    assert (moved.mean_unit_price, moved.changes) == (Decimal("0.2"), 0)


@pytest.mark.parametrize("broken", ["newest", "keep", "statistics", "snapshot", "all"])
def test_a_database_that_fails_costs_its_records_and_never_the_snapshot(place, broken):
    place.over = {"records": Records(broken=broken)}
    place.sources = (source("spot", {"g6.xlarge": "0.2"}, option=PurchaseOption.SPOT, changes=[change(40, "0.2")]),)
    document = place.refresh()
    assert (document["published"], document["complete"]) == (True, False)
    assert {s["state"] for s in document["sources"]} == {"read"}
    (fault,) = document["faults"]
    lost = {"keep": "spot changes", "snapshot": "the snapshot", "all": "spot changes and the snapshot"}
    said = f"not recorded: {lost[broken]}: database is locked; " if broken in lost else ": database is locked"
    assert fault["subject"] == "database"
    assert said in fault["detail"]
    assert fault["detail"].endswith("or say --no-store where no record is wanted")
    assert any("database is locked" in n["detail"] for n in document["notices"])
    (moved,) = place.newest().spot_statistics("g6.xlarge")
    assert moved.mean_unit_price == Decimal("0.2")


def test_a_database_that_does_not_answer_is_waited_for_once_and_asked_for_all_days_later(place):
    """It lacked more than the 30 days that were asked about meanwhile: the next refresh asks for all that AWS keeps."""
    asked: list[datetime | None] = []
    records = Records(broken="newest")
    tried: list[str] = []
    answer = records.spot_known_until
    records.spot_known_until = lambda region, types: (tried.append(region), answer(region, types))[1]  # type: ignore[method-assign]
    place.over = {"records": records}
    place.sources = (source("spot", {"g6.xlarge": "0.2"}, option=PurchaseOption.SPOT, changes=[change(2, "0.2")], before=lambda ask: asked.append(ask.spot_since)),)  # fmt: skip
    place.refresh(regions=("us-east-1", "us-west-2"))
    assert tried == ["us-east-1"]
    assert asked == [NOW + timedelta(seconds=1) - timedelta(days=30)] * 2
    records.broken = ""
    place.refresh()
    assert asked[2] is None


@pytest.mark.parametrize(
    ("stated", "moment"),
    [
        ("Sat, 28 Nov 2026 01:30:00 GMT", "2026-11-28T01:30:00Z"),  # a web server
        ("20261128013000", "2026-11-28T01:30:00Z"),  # the version of a price list file
        ("2026-11-28T03:30:00+02:00", "2026-11-28T01:30:00Z"),
        ("2026-11-28", "2026-11-28T00:00:00Z"),
        ("v7", None),
    ],
)
def test_when_a_list_was_published_is_a_moment_in_utc(place, stated, moment):
    given = source()
    place.sources = (replace(given, read=lambda ask: replace(given.read(ask), published=stated)),)
    assert [s["published"] for s in place.refresh()["sources"]] == [moment]


def test_alerts_see_the_snapshot_before_and_after(place):
    seen: list[tuple[str, str]] = []

    def alerts(before: Catalog, after: Catalog) -> list[dict[str, Any]]:
        seen.append((before.meta.snapshot_id, after.meta.snapshot_id))
        return [{"subject": "p5.48xlarge"}]

    place.over = {"alerts": alerts}
    place.sources = (source(),)
    document = place.refresh()
    assert seen == [(document["previous_snapshot_id"], document["snapshot_id"])]
    assert document["alerts"] == [{"subject": "p5.48xlarge"}]


def test_a_sheet_imported_while_sources_are_asked_is_not_lost(place):
    """The base is read anew at the end: what another process published meanwhile is in it."""

    def import_meanwhile(_: Ask) -> None:
        contents = place.newest().contents()
        offer = Quote(
            provider="acme", instance_type="8x H100", region="berlin", purchase_option=PurchaseOption.ON_DEMAND,
            effective_unit_price=Decimal("18"), source="price sheet acme", retrieved_at=NOW,
        )  # fmt: skip
        from pricing.refresh.publishing import publish

        publish(place.snapshots, replace(contents, quotes=(*contents.quotes, offer)), now=NOW, after=None, origin="import")  # fmt: skip

    place.sources = (source(before=import_meanwhile),)
    place.refresh()
    assert place.price("8x H100", "berlin").effective_unit_price == 18
    assert place.price("p5.48xlarge").source == "live price_list"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files as Linux lists them")
def test_a_watch_leaves_no_snapshot_open(place):
    place.sources = (source(),)
    place.refresh()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        place.refresh()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
