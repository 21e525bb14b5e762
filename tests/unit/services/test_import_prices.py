"""Importing a price sheet or an agreement: a new snapshot from the newest, once, and out of it again."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Thread

import pytest

from planner.recommend.request import RecommendRequest
from planner.services.find_model import find_model
from planner.services.import_prices import import_file, remove_import
from planner.services.recommend import recommend
from pricing.catalog import Catalog
from pricing.errors import NotReadable, SheetError, UnknownName
from pricing.model import PurchaseOption
from pricing.refresh.lock import only_publisher, only_refresh
from pricing.sheet_rows import template
from pricing.snapshot import open_snapshot, read_meta, shipped_snapshot_path

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HEADER = "provider,instance_type,region,purchase_option,unit_price,quoted_on"


class Place:
    """A data directory and a clock that goes on with every import."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.snapshots, self.now = folder, folder / "snapshots", NOW

    def newest(self) -> Catalog:
        files = sorted(self.snapshots.glob("*.sqlite")) if self.snapshots.exists() else []
        metas = sorted((read_meta(f).published_at, f) for f in files)
        return open_snapshot(metas[-1][1] if metas else shipped_snapshot_path())

    def write(self, name: str, *lines: str) -> Path:
        path = self.folder / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def take(self, path: Path, **how):
        self.now += timedelta(minutes=1)
        return import_file(path, base=self.newest, snapshots=self.snapshots, now=self.now, **how)

    def remove(self, name: str, **how):
        self.now += timedelta(minutes=1)
        shipped = lambda: open_snapshot(shipped_snapshot_path())  # noqa: E731
        return remove_import(name, base=self.newest, floor=shipped, snapshots=self.snapshots, now=self.now, **how)

    def files(self) -> int:
        return len(list(self.snapshots.glob("*"))) if self.snapshots.exists() else 0

    def price(self, provider: str, instance_type: str, region: str) -> Decimal | None:
        quotes = self.newest().quotes(providers=[provider], instance_types=[instance_type], regions=[region])
        prices = [q.effective_unit_price for q in quotes if q.purchase_option is PurchaseOption.ON_DEMAND]
        return prices[0] if prices else None


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def test_an_import_publishes_once_and_the_same_file_again_changes_nothing(place):
    sheet = place.write("acme.csv", template())
    first = place.take(sheet)
    assert (first["did"], first["published"], first["name"]) == ("imported", True, "acme")
    assert first["changes"]["new"][0]["effective_unit_price"].startswith("19.92")
    assert [k["instance_type"] for k in first["instance_types_added"]] == ["h100x8", "dgx-1"]
    newest = place.newest()
    assert (newest.meta.origin, newest.meta.snapshot_id) == ("import", first["snapshot_id"])
    assert newest.meta.published_at == place.now
    again = place.take(sheet)
    assert (again["did"], again["published"], again["snapshot_id"]) == ("nothing", False, first["snapshot_id"])
    assert place.files() == 1


def test_everything_else_of_the_snapshot_stays(place):
    before = place.newest().contents()
    place.take(place.write("acme.csv", template()))
    after = place.newest().contents()
    assert set(before.quotes) < set(after.quotes)
    assert after.rates == before.rates
    assert after.interruptions == before.interruptions
    assert set(before.price_periods) < set(after.price_periods)
    assert {s.source for s in after.sources} - {s.source for s in before.sources} == {
        "price sheet acme",
        "price sheet acme: invoice 2026-113",
        "price sheet acme: offer 4711",
    }


def test_recommend_uses_the_rows_of_a_neocloud_and_of_owned_servers(place):
    """8 H100 at 2.49 each are 19.92; the own server 3.10 + 280,000 / 35,040 h = 11.09."""
    place.take(place.write("acme.csv", template()))
    spec = find_model("70b", None)
    for region, option, provider, dollars in (
        ("us-texas", "on_demand", "acme", "19.92"),
        ("cellar", "owned", "own", "11.09"),
    ):
        request = RecommendRequest(model="70b", mode="inference", region=(region,), purchase=(option,))
        answer = recommend(request, catalog=place.newest(), spec=spec, now=NOW)
        best = answer["recommendations"][0]
        assert (best["provider"], best["accelerator"], best["accelerators_per_instance"]) == (
            provider,
            "H100 SXM5 80GB",
            8,
        )
        assert best["cost"]["usd_per_hour"].startswith(dollars)
        assert best["price"]["source"].startswith("price sheet acme")


def test_a_changed_price_is_said_with_its_share_and_stands_in_the_history(place):
    place.take(place.write("acme.csv", HEADER, "aws,p5.48xlarge,cellar,on_demand,40,2026-10-01"))
    answer = place.take(place.write("acme.csv", HEADER, "aws,p5.48xlarge,cellar,on_demand,30,2026-11-01"))
    (changed,) = answer["changes"]["changed"]
    assert (changed["old_unit_price"], changed["new_unit_price"], changed["change_fraction"]) == ("40", "30", -0.25)
    assert [str(p.unit_price) for p in place.newest().price_periods("p5.48xlarge", "cellar")] == ["40", "30"]


def test_a_price_corrected_on_its_own_day_leaves_no_trace_in_the_history(place):
    place.take(place.write("acme.csv", HEADER, "aws,p5.48xlarge,cellar,on_demand,400,2026-10-01"))
    place.take(place.write("acme.csv", HEADER, "aws,p5.48xlarge,cellar,on_demand,40,2026-10-01"))
    assert [str(p.unit_price) for p in place.newest().price_periods("p5.48xlarge", "cellar")] == ["40"]


def test_rows_that_a_sheet_has_no_more_go_only_when_it_replaces(place):
    two = (HEADER, "aws,p5.48xlarge,cellar,on_demand,40,2026-10-01", "aws,p5en.48xlarge,cellar,on_demand,45,2026-10-01")
    place.take(place.write("acme.csv", *two))
    kept = place.take(place.write("acme.csv", *two[:2]))
    assert kept["did"] == "nothing"
    answer = place.take(place.write("acme.csv", *two[:2]), replacing=True)
    assert [p["instance_type"] for p in answer["changes"]["withdrawn"]] == ["p5en.48xlarge"]
    assert place.price("aws", "p5en.48xlarge", "cellar") is None


def test_the_price_of_another_source_gives_way_only_when_asked_and_comes_back(place):
    sheet = place.write("ours.csv", HEADER, "aws,p5.48xlarge,us-east-1,on_demand,44,2026-11-02")
    with pytest.raises(
        SheetError, match=r"line 2: aws p5\.48xlarge us-east-1 on_demand has a price already, 55\.04 USD"
    ):
        place.take(sheet)
    assert place.files() == 0
    place.take(sheet, replacing=True)
    assert place.price("aws", "p5.48xlarge", "us-east-1") == 44
    place.remove("ours")
    assert place.price("aws", "p5.48xlarge", "us-east-1") == Decimal("55.04")


def test_a_sheet_that_states_the_list_price_takes_no_history_with_it(place):
    place.take(place.write("ours.csv", HEADER, "aws,p5.48xlarge,us-east-1,on_demand,55.04,2026-11-02"), replacing=True)
    place.remove("ours")
    periods = [p for p in place.newest().price_periods("p5.48xlarge", "us-east-1") if p.purchase_option == "on_demand"]
    assert [(str(p.unit_price), str(p.last_seen.date())) for p in periods] == [
        ("98.32", "2025-04-28"),
        ("55.04", "2026-07-20"),
    ]


def test_a_sheet_taken_out_and_put_in_again_is_the_newest_each_time(place):
    sheet = place.write("acme.csv", template())
    ids = [place.take(sheet)["snapshot_id"], place.remove("acme")["snapshot_id"], place.take(sheet)["snapshot_id"]]
    ids += [place.remove("acme")["snapshot_id"]]
    assert len(set(ids)) == 4
    assert place.newest().meta.snapshot_id == ids[-1]
    assert place.price("acme", "h100x8", "us-texas") is None
    assert [t for t in place.newest().instance_types() if t.provider in {"acme", "own"}] == []
    assert [p for p in place.newest().contents().price_periods if p.provider in {"acme", "own"}] == []


def test_the_new_snapshot_is_the_newest_also_where_the_clock_went_back(place):
    first = place.take(place.write("acme.csv", template()))
    place.now -= timedelta(hours=3)
    second = place.take(place.write("b.csv", HEADER, "aws,p5.48xlarge,cellar,on_demand,40,2026-10-01"))
    assert place.newest().meta.snapshot_id == second["snapshot_id"] != first["snapshot_id"]
    assert datetime.fromisoformat(second["published_at"]) > datetime.fromisoformat(first["published_at"])


def test_a_refused_sheet_and_a_dry_run_write_nothing(place):
    with pytest.raises(SheetError):
        place.take(place.write("bad.csv", HEADER, "acme,x,tx,on_demand,1,2026-11-02"))
    answer = place.take(place.write("acme.csv", template()), dry_run=True)
    assert (answer["published"], answer["dry_run"], len(answer["changes"]["new"])) == (False, True, 3)
    assert place.files() == 0


def test_what_the_rules_find_in_a_sheet_is_said_and_not_refused(place):
    """A year committed dearer than on demand cannot be meant, but it is what the sheet says."""
    rows = ("aws,p5.48xlarge,cellar,on_demand,40,2026-10-01", "aws,p5.48xlarge,cellar,reserved_1yr,50,2026-10-01")
    answer = place.take(place.write("acme.csv", HEADER, *rows))
    assert [n["detail"] for n in answer["notices"]] == ["50 is above on-demand 40"]
    assert place.take(place.write("acme.csv", HEADER, *rows))["did"] == "nothing"
    fixed = place.take(place.write("acme.csv", HEADER, rows[0], rows[1].replace(",50,", ",30,")))
    assert fixed["published"]
    assert [n for n in place.newest().notices if "above on-demand" in n.detail and n.source == "price sheet acme"] == []


def test_an_agreement_stands_beside_list_prices_and_can_end(place):
    """9 % off 55.04 is 50.0864."""
    path = place.write(
        "edp.toml", 'agreement = "EDP 2026"', "[[discount]]", "percent_off = 9", 'purchase_option = "on_demand"'
    )
    answer = place.take(path)
    assert (answer["kind"], answer["name"], answer["published"]) == ("price agreement", "EDP 2026", True)
    assert place.price("aws", "p5.48xlarge", "us-east-1") == Decimal("50.0864")
    assert place.take(path)["did"] == "nothing"
    place.remove("EDP 2026")
    assert place.price("aws", "p5.48xlarge", "us-east-1") == Decimal("55.04")
    assert place.newest().discounts == ()


def test_an_agreement_under_another_name_replaces_itself_under_that_name(place):
    path = place.write("edp.toml", 'agreement = "EDP 2026"', "[[discount]]", "percent_off = 9")
    place.take(path, name="ours")
    assert place.take(path, name="ours")["did"] == "nothing"
    assert {d.agreement for d in place.newest().discounts} == {"ours"}
    place.write("edp.toml", 'agreement = "EDP 2026"', "[[discount]]", "percent_off = 10")
    place.take(path, name="ours")
    assert place.price("aws", "p5.48xlarge", "us-east-1") == Decimal("49.536")  # 55.04 x 0.9


def test_a_type_that_two_sheets_price_stays_until_neither_does(place):
    described = (HEADER + ",accelerator,accelerators_per_instance", "acme,h100,tx,on_demand,3,2026-11-02,H100,1")
    place.take(place.write("one.csv", *described))
    place.take(place.write("two.csv", HEADER, "acme,h100,ny,on_demand,4,2026-11-02"))
    place.remove("one")
    assert place.price("acme", "h100", "ny") == 4
    assert [t.instance_type for t in place.newest().instance_types("acme")] == ["h100"]
    place.remove("two")
    assert place.newest().instance_types("acme") == ()


def test_an_unknown_name_to_remove_has_near_misses(place):
    place.take(place.write("acme.csv", template()))
    with pytest.raises(UnknownName, match="did you mean acme"):
        place.remove("amce")


def test_an_import_does_not_wait_for_a_refresh_that_is_still_asking_but_for_one_that_publishes(place):
    sheet = place.write("acme.csv", template())
    with only_refresh(place.folder), only_publisher(place.folder):
        importing = Thread(target=place.take, args=(sheet,))
        importing.start()
        importing.join(1.0)
        assert importing.is_alive()
        assert place.files() == 0
    importing.join()
    assert place.files() == 1
    with only_refresh(place.folder):
        assert place.remove("acme")["published"]


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.xlsx", b"PK", "save it as CSV in UTF-8"),
        ("a.txt", b"x", "its name must end so"),
        ("a.csv", b"provider\n\xff\xfe", "line 2: is not text in UTF-8"),
        ("a.toml", b"[[", "is not TOML"),
    ],
)
def test_files_that_are_no_sheets(place, name, data, why):
    path = place.folder / name
    path.write_bytes(data)
    with pytest.raises((SheetError, NotReadable), match=why):
        place.take(path)


def test_a_missing_file_is_said_in_the_systems_words(place):
    with pytest.raises(NotReadable, match=r"none\.csv: No such file or directory"):
        place.take(place.folder / "none.csv")
