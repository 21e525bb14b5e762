"""Changes of spot prices on every database: each one kept once and exactly, pools put together, statistics as without a database."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.store import SqlStore, StoreUnavailable, spot
from pricing.market import SpotChange
from pricing.spot_statistics import statistics_of

START = datetime(2026, 9, 1, tzinfo=UTC)
END = START + timedelta(days=90)
fresh_regions = (f"region-{n}" for n in count())


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with SqlStore(database_url) as store:
        store.upgrade()
        yield store


def change(price: str, hours: float = 0, **other: Any) -> SpotChange:
    given = {
        "provider": "aws",
        "instance_type": "p5.48xlarge",
        "region": "us-east-1",
        "availability_zone_id": "use1-az6",
        "availability_zone": "us-east-1a",
        "unit_price": Decimal(price),
        "since": START + timedelta(hours=hours),
    }
    return SpotChange(**(given | other))


def read(store: SqlStore, **bounds: Any) -> list[SpotChange]:
    return store.spot_changes(instance_type="p5.48xlarge", region="us-east-1", **bounds)


def test_what_is_written_comes_back_equal_and_in_order(store: SqlStore) -> None:
    rows = [
        change("20.1", 1),
        change("20.123456", 2),
        change("19", 3, since=START + timedelta(hours=3, microseconds=1)),
        change("7", 0, availability_zone_id="use1-az7", availability_zone="us-east-1b"),
        change("8", 0, availability_zone_id="usw2-lax1-az1", availability_zone="us-west-2-lax-1a", region="us-west-2"),
    ]
    assert store.record_spot_changes(random.Random(1).sample(rows, 5)) == 5
    assert read(store) == rows[:4]
    assert store.spot_changes(instance_type="p5.48xlarge") == rows
    assert store.spot_changes(instance_type="g5.xlarge") == []
    assert store.spot_changes(instance_type="p5.48xlarge", provider="gcp") == []


def test_a_change_is_kept_once_however_often_it_is_read(store: SqlStore) -> None:
    rows = [change("20.1", n) for n in range(5)]
    assert store.record_spot_changes(rows + rows) == 5
    assert store.record_spot_changes(reversed(rows)) == 0
    assert store.record_spot_changes([*rows, change("20.1", 5)]) == 1
    in_nepal = rows[0].since.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert (
        store.record_spot_changes([change("20.10", since=in_nepal)]) == 0
    )  # the same moment and price, written otherwise
    assert store.record_spot_changes([]) == 0
    assert len(read(store)) == 6


def test_digits_stay_however_many(store: SqlStore) -> None:
    prices = ["0.1234567890123456789012345678901234567890", "0.0000001", "123456789012.000001", "20", "1E+1"]
    store.record_spot_changes(change(price, n) for n, price in enumerate(prices))
    assert [c.unit_price for c in read(store)] == [Decimal(price) for price in prices]


def test_of_two_prices_at_one_instant_the_dearer_one_is_read_whichever_came_first(store: SqlStore) -> None:
    assert store.record_spot_changes([change("9", 1), change("10", 2), change("9.5", 2)]) == 3
    assert store.record_spot_changes([change("100", 1)]) == 1  # as text, 100 would come before 9
    assert [str(c.unit_price) for c in read(store)] == ["100", "10"]
    (got,) = store.spot_statistics(["us-east-1"], START, START + timedelta(hours=3), {})
    assert (got.mean_unit_price, got.changes) == (Decimal(55), 2)


@pytest.mark.parametrize("id_comes_first", [True, False])
def test_rows_with_and_without_the_id_of_a_zone_are_one_pool(store: SqlStore, id_comes_first: bool) -> None:
    rows = [change("10", 0, availability_zone_id=None), change("30", 5)]
    for row in reversed(rows) if id_comes_first else rows:
        assert store.record_spot_changes([row]) == 1
    assert [(c.availability_zone_id, c.unit_price) for c in read(store)] == [("use1-az6", 10), ("use1-az6", 30)]
    (got,) = store.spot_statistics(["us-east-1"], START, START + timedelta(hours=10), {})
    assert (got.mean_unit_price, got.availability_zone_id) == (Decimal(20), "use1-az6")
    twin = change("30", 5, availability_zone_id=None)
    assert store.record_spot_changes([twin]) == 0


def test_a_zone_name_of_two_accounts_is_two_zones(store: SqlStore) -> None:
    store.record_spot_changes([change("1"), change("2", availability_zone_id="use1-az4")])
    store.record_spot_changes([change("3", availability_zone_id=None)])
    assert [(c.availability_zone_id, c.unit_price) for c in read(store)] == [(None, 3), ("use1-az4", 2), ("use1-az6", 1)]  # fmt: skip


def test_a_window_holds_its_bounds_and_the_price_in_force_at_its_start(store: SqlStore) -> None:
    other = {"availability_zone_id": "use1-az7", "availability_zone": "us-east-1b"}
    rows = [change(str(n + 1), n) for n in range(6)]
    store.record_spot_changes([*rows, change("50", -1000, **other)])
    at = [START + timedelta(hours=h) for h in range(6)]
    old = change("50", -1000, **other)
    assert read(store, since=at[2], until=at[4]) == [*rows[2:5], old]
    half = timedelta(minutes=30)
    assert read(store, since=at[2] + half, until=at[4] - half) == [*rows[2:4], old]
    assert read(store, until=at[1]) == [*rows[:2], old]
    assert read(store, since=START - timedelta(days=400), until=START - timedelta(days=365)) == []


def test_the_newest_change_is_that_of_the_region(store: SqlStore) -> None:
    assert store.newest_spot_change("us-east-1") is None
    store.record_spot_changes([change("1", 1), change("1", 7, instance_type="g5.xlarge"), change("1", 99, region="us-west-2")])  # fmt: skip
    assert store.newest_spot_change("us-east-1") == START + timedelta(hours=7)
    assert store.newest_spot_change("us-west-2") == START + timedelta(hours=99)
    assert store.newest_spot_change("us-east-1", provider="gcp") is None


def test_a_write_that_is_cut_off_leaves_a_beginning_without_gaps(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spot, "A_BATCH", {"sqlite": 10, "postgresql": 10})
    kinds = [f"g{n}.xlarge" for n in range(6)]
    rows = [change("1", hour, instance_type=kind) for hour in range(20) for kind in kinds]  # six at each instant
    insert, written = spot.insert_rows, count()

    def breaks_off(connection: Any, batch: Any) -> int:
        if next(written) == 4:
            raise OSError("the machine went down")
        return insert(connection, batch)

    monkeypatch.setattr(spot, "insert_rows", breaks_off)
    with pytest.raises(StoreUnavailable):
        store.record_spot_changes(random.Random(7).sample(rows, len(rows)), asked=kinds)
    newest = store.newest_spot_change("us-east-1")
    assert newest == START + timedelta(hours=7)  # four batches of two instants each
    kept = {c for kind in kinds for c in store.spot_changes(instance_type=kind, region="us-east-1")}
    assert kept == {c for c in rows if c.since <= newest}
    assert store.spot_known_until("us-east-1", kinds) is None  # the answer was not written down as a whole
    monkeypatch.setattr(spot, "insert_rows", insert)
    assert store.record_spot_changes([c for c in rows if c.since >= newest], asked=kinds) == 12 * 6
    assert store.spot_known_until("us-east-1", kinds) == START + timedelta(hours=19)


def test_others_write_between_the_batches_of_a_long_write(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot, "A_BATCH", {"sqlite": 10, "postgresql": 10})
    insert, seen = spot.insert_rows, []

    def look(connection: Any, batch: Any) -> int:
        seen.append(store.newest_spot_change("us-east-1"))  # another connection: what is committed
        return insert(connection, batch)

    monkeypatch.setattr(spot, "insert_rows", look)
    assert store.record_spot_changes([change("1", hour) for hour in range(30)]) == 30
    assert seen == [None, START + timedelta(hours=9), START + timedelta(hours=19)]


def test_what_has_to_be_asked_for_is_told_by_type(store: SqlStore) -> None:
    """A type that is wanted later was never asked for: the changes of the others say nothing of it."""
    store.record_spot_changes([change("1", 1), change("2", 50)], asked=["p5.48xlarge", "g5.xlarge"])
    store.record_spot_changes([change("2", 70), change("3", 90, region="us-west-2")], asked=["p5.48xlarge"])
    at = START + timedelta(hours=50)
    assert store.spot_known_until("us-east-1", ["p5.48xlarge", "g5.xlarge"]) == at  # g5.xlarge: asked for, none there
    assert store.spot_known_until("us-east-1", ["p5.48xlarge"]) == START + timedelta(hours=70)
    assert store.spot_known_until("us-east-1", ["p5.48xlarge", "trn2.48xlarge"]) is None
    assert store.spot_known_until("us-west-2", ["g5.xlarge"]) is None
    assert store.spot_known_until("us-east-1", ["p5.48xlarge"], provider="gcp") is None
    assert store.spot_known_until("us-east-1", []) is None
    store.record_spot_changes([change("1", 1)], asked=["p5.48xlarge"])  # an old answer
    assert store.spot_known_until("us-east-1", ["p5.48xlarge"]) == START + timedelta(hours=70)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (change("0"), "no spot price"),
        (change("-1"), "no spot price"),
        (change("NaN"), "no spot price"),
        (change("Infinity"), "no spot price"),
        (change("1", since=datetime.fromisoformat("2026-09-01")), "time zone"),
        (change("1", availability_zone=None, availability_zone_id=None), "neither the id nor the name"),
    ],
)
def test_what_is_no_price_or_no_moment_is_refused_and_nothing_is_written(store: SqlStore, wrong: SpotChange, why: str) -> None:  # fmt: skip
    with pytest.raises(ValueError, match=why):
        store.record_spot_changes([change("1", 1), wrong])
    assert read(store) == []


def test_many_recording_the_same_write_each_change_once(store: SqlStore) -> None:
    rows = [change("1", n, instance_type=f"g{n % 7}.xlarge") for n in range(300)]
    with ThreadPoolExecutor(6) as pool:
        new = list(pool.map(lambda seed: store.record_spot_changes(random.Random(seed).sample(rows, 300)), range(6)))
    assert sum(new) == 300


def test_statistics_of_several_regions_and_none(store: SqlStore) -> None:
    store.record_spot_changes([change("1"), change("2", region="us-west-2"), change("3", region="eu-west-1")])
    got = store.spot_statistics(["us-west-2", "us-east-1", "us-east-1"], START, END, {})
    assert [(s.region, s.mean_unit_price) for s in got] == [("us-east-1", 1), ("us-west-2", 2)]
    assert store.spot_statistics([], START, END, {}) == ()
    assert store.spot_statistics(["us-east-1"], START - timedelta(days=2), START - timedelta(days=1), {}) == ()


ZONES = [("use1-az1", "us-east-1a"), (None, "us-east-1a"), ("use1-az2", "us-east-1b"), ("use1-az2", None)]
made_up = st.builds(
    lambda zone, kind, price, minute: change(
        f"{price / 1000:.3f}",
        minute / 60,
        availability_zone_id=zone[0],
        availability_zone=zone[1],
        instance_type=kind,
    ),
    st.sampled_from(ZONES),
    st.sampled_from(["g5.xlarge", "p5.48xlarge"]),
    st.integers(1, 20_000),
    st.integers(-100, 300),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(made_up, max_size=30), st.integers(1, 300), st.integers(1, 20), st.randoms(use_true_random=False))
def test_statistics_are_those_of_the_same_changes_without_a_database(
    store: SqlStore, changes: list[SpotChange], minutes: int, cap: int, chance: random.Random
) -> None:
    region = next(fresh_regions)  # a region of its own instead of an emptied database
    here = [SpotChange(**{f: getattr(c, f) for f in c.__dataclass_fields__} | {"region": region}) for c in changes]
    cut = chance.randrange(len(here) + 1)
    store.record_spot_changes(here[:cut])
    store.record_spot_changes(here[cut:] + here[:cut])
    end = START + timedelta(minutes=minutes)
    on_demand = {("aws", "g5.xlarge", region, "USD"): Decimal(cap)}
    expected = statistics_of(here, window_start=START, window_end=end, on_demand=on_demand)
    assert store.spot_statistics([region], START, end, on_demand) == expected
    everything = [c for kind in ("g5.xlarge", "p5.48xlarge") for c in store.spot_changes(instance_type=kind, region=region)]  # fmt: skip
    assert statistics_of(everything, window_start=START, window_end=end, on_demand=on_demand) == expected
