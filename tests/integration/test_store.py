"""One class of checks for every database: what is stored comes back equal, once, and whole, also when many write at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, Integer, MetaData, Table, insert, select

from planner.bootstrap import open_catalog
from planner.services.documents import to_json_bytes
from planner.store import SchemaNotCurrent, SqlStore
from planner.store.engine import WRITES, make_engine, parse_url
from planner.store.types import ExactDecimal, UtcDateTime
from pricing.model import InstanceType, PurchaseOption, Quote, SnapshotMeta, SourceAge

NAIVE = datetime.fromisoformat("2026-01-01")
NOW = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)

moments = st.datetimes(
    min_value=datetime.fromisoformat("0001-01-02"),
    max_value=datetime.fromisoformat("9999-12-30"),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(-timedelta(hours=11))]),
)
prices = st.decimals(
    min_value=Decimal("-1e12"), max_value=Decimal("1e12"), allow_nan=False, allow_infinity=False, places=12
) | st.sampled_from(
    [
        Decimal("0.1"),
        Decimal("21.957642"),
        Decimal("1E+3"),
        Decimal("1E-15"),
        Decimal("0.30000000000000004"),
        Decimal("12345678901234567890.123456789012345678901"),
    ]
)


@pytest.fixture(autouse=True)
def shipped_prices_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def store(database_url: str) -> Any:
    with SqlStore(database_url, clock=lambda: NOW) as store:
        store.upgrade()
        yield store


@dataclass
class Published:
    """A small snapshot."""

    meta: SnapshotMeta
    all_quotes: list[Quote]
    types: list[InstanceType]

    def quotes(self) -> list[Quote]:
        return self.all_quotes

    def instance_types(self) -> list[InstanceType]:
        return self.types


def small(snapshot_id: str = "one", quotes: int = 2) -> Published:
    quote = Quote(
        provider="aws",
        instance_type="g5.xlarge",
        region="us-east-1",
        purchase_option=PurchaseOption.ON_DEMAND,
        effective_unit_price=Decimal("1.006"),
        source="made up",
        retrieved_at=NOW,
    )
    spot = replace(
        quote, purchase_option=PurchaseOption.SPOT, availability_zone_id="use1-az6", effective_unit_price=Decimal("0.4321"), list_unit_price=Decimal("1.006"), contracted_unit_price=Decimal("1"), upfront=Decimal("0"),
        effective_from=date(2026, 1, 2), at_on_demand_cap=False, derived=True, notes="ä 'quoted' € \\ line\nbreak", sku="ABC", rate_code="ABC.T.R", term_years=1, plan_type="compute", payment_option="no_upfront", offering_class="standard",
    )  # fmt: skip
    catalog = open_catalog()
    sources = (
        SourceAge(source="made up", kind="on_demand", as_of=NOW, quotes=1),
        SourceAge(source="other", kind="spot", as_of=NOW - timedelta(days=1), quotes=1),
    )
    meta = SnapshotMeta(
        snapshot_id=snapshot_id,
        as_of=NOW,
        published_at=NOW,
        origin="refresh",
        sources=sources,
        quote_count=quotes,
        instance_type_count=2,
    )
    return Published(
        meta,
        [quote, spot][:quotes],
        [catalog.instance_type("g5.xlarge", "aws"), catalog.instance_type("g6f.xlarge", "aws")],
    )


def document(key: str = "0123456789abcdef", **more: Any) -> dict[str, Any]:
    return {
        "id": key,
        "request": {"model": "7b", "utilisation": 0.7},
        "planner_version": "0.1.0",
        "prices": {"snapshot_id": "s0"},
        "recommendations": [],
        **more,
    }


class TestColumns:
    """Decimals and moments round-trip exactly."""

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(moment=moments, price=prices)
    def test_equal_values_come_back_equal(self, database_url: str, moment: datetime, price: Decimal) -> None:
        table = Table(
            "things",
            MetaData(),
            Column("n", Integer, primary_key=True),
            Column("at", UtcDateTime),
            Column("price", ExactDecimal),
        )
        engine = make_engine(parse_url(database_url))
        with engine.connect().execution_options(**WRITES) as connection, connection.begin() as transaction:
            table.create(connection)
            connection.execute(
                insert(table), [{"n": 1, "at": moment, "price": price}, {"n": 2, "at": None, "price": None}]
            )
            rows = connection.execute(select(table.c.at, table.c.price).order_by(table.c.n)).all()
            transaction.rollback()
        engine.dispose()
        at, exact = rows[0]
        assert (at, exact) == (moment, price)
        assert at.utcoffset() == timedelta(0)
        assert isinstance(exact, Decimal)
        assert tuple(rows[1]) == (None, None)

    @pytest.mark.parametrize(("column", "value"), [("at", NAIVE), ("price", Decimal("NaN")), ("price", 1.5)])
    def test_what_cannot_be_kept_exactly_is_refused(self, database_url: str, column: str, value: object) -> None:
        from sqlalchemy.exc import StatementError

        table = Table("things", MetaData(), Column("at", UtcDateTime), Column("price", ExactDecimal))
        engine = make_engine(parse_url(database_url))
        with engine.connect().execution_options(**WRITES) as connection, connection.begin() as transaction:
            table.create(connection)
            with pytest.raises(StatementError, match=r"time zone|finite"):
                connection.execute(insert(table), {column: value})
            transaction.rollback()
        engine.dispose()


class TestSnapshots:
    """Snapshots are recorded once, as a whole, and read back equal."""

    def test_comes_back_equal_and_in_order(self, store: SqlStore) -> None:
        published = small()
        assert store.record_snapshot(published) is True
        assert store.snapshots() == [published.meta]
        assert store.quotes("one") == published.all_quotes
        assert store.instance_types("one") == published.types

    def test_recording_twice_changes_nothing(self, store: SqlStore) -> None:
        store.record_snapshot(small())
        assert store.record_snapshot(small()) is False
        assert len(store.quotes("one")) == 2

    def test_an_unknown_snapshot_has_no_quotes(self, store: SqlStore) -> None:
        assert store.quotes("never") == []
        assert store.instance_types("never") == []

    def test_newest_prices_come_first(self, store: SqlStore) -> None:
        for name, days in (("old", 9), ("new", 1), ("older", 30)):
            published = small(name)
            published.meta = replace(published.meta, as_of=NOW - timedelta(days=days))
            store.record_snapshot(published)
        assert [meta.snapshot_id for meta in store.snapshots()] == ["new", "old", "older"]

    def test_a_failure_in_the_middle_leaves_nothing(self, store: SqlStore) -> None:
        published = small()
        published.all_quotes = [
            published.all_quotes[0],
            replace(published.all_quotes[1], retrieved_at=NAIVE),
        ]
        with pytest.raises(Exception, match="time zone"):
            store.record_snapshot(published)
        assert store.snapshots() == []
        assert store.quotes("one") == []

    def test_many_recording_the_same_write_it_once(self, store: SqlStore) -> None:
        with ThreadPoolExecutor(6) as pool:
            wrote = list(pool.map(lambda _: store.record_snapshot(small()), range(6)))
        assert sum(wrote) == 1
        assert len(store.quotes("one")) == 2

    def test_the_shipped_snapshot_comes_back_equal(self, store: SqlStore) -> None:
        catalog = open_catalog()
        assert store.record_snapshot(catalog)
        assert store.quotes(catalog.meta.snapshot_id) == catalog.quotes()
        assert store.instance_types(catalog.meta.snapshot_id) == list(catalog.instance_types())
        assert store.snapshots() == [catalog.meta]


class TestRecommendations:
    """Answers are kept by id, the first one of an id, to the byte."""

    def test_comes_back_to_the_byte(self, store: SqlStore) -> None:
        answer = document(
            recommendations=[{"z": "ä€😀", "a": 0.1234567, "money": "1.10", "n": None, "big": 1e16, "whole": 2.0}]
        )
        store.save(answer)
        kept = store.get(answer["id"])
        assert kept is not None
        assert to_json_bytes(kept) == to_json_bytes(answer)

    def test_an_unknown_id_is_none(self, store: SqlStore) -> None:
        assert store.get("0" * 32) is None

    def test_the_first_answer_of_an_id_stays(self, store: SqlStore) -> None:
        store.save(document(note="first"))
        store.save(document(note="second"))
        kept = store.get("0123456789abcdef")
        assert kept is not None
        assert kept["note"] == "first"
        assert self.rows(store) == 1

    def test_many_saving_the_same_make_one_row(self, store: SqlStore) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: store.save(document(note=n)), range(16)))
        assert self.rows(store) == 1

    def test_request_snapshot_and_version_are_columns(self, store: SqlStore) -> None:
        from planner.store.tables import RecommendationRow as Row

        store.save(document())
        with store._engine.connect() as connection:
            row = connection.execute(select(Row.snapshot_id, Row.planner_version, Row.request, Row.created_at)).one()
        assert tuple(row) == ("s0", "0.1.0", {"model": "7b", "utilisation": 0.7}, NOW)

    def test_without_tables_the_error_says_what_to_run(self, database_url: str) -> None:
        with SqlStore(database_url) as empty, pytest.raises(SchemaNotCurrent, match="planner db upgrade"):
            empty.save(document())

    def rows(self, store: SqlStore) -> int:
        from sqlalchemy import func

        from planner.store.tables import RecommendationRow

        with store._engine.connect() as connection:
            return connection.scalar(select(func.count()).select_from(RecommendationRow)) or 0
