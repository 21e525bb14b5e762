"""How long `planner prices` takes on a snapshot of 20,000 quotes, whole processes: `python tests/benchmarks/bench_prices.py [RUNS]`.

The quotes are the shipped ones, those of us-east-1 repeated in made-up regions. Prints the median of wall-clock and of processor time.
"""

# ruff: noqa: T201 - a command that prints its result

from __future__ import annotations

import dataclasses
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from pricing.snapshot import open_snapshot, shipped_snapshot_path, write_snapshot

QUOTES = 20_000
RUNS = 9
BAR_S = 0.5
COMMANDS = (
    ("list",),
    ("list", "--accelerator", "H100", "--sort", "price"),
    ("list", "--format", "csv"),
    ("list", "--format", "json"),
    ("history", "p5.48xlarge", "--region", "us-east-1"),
    ("diff", "shipped", "latest", "--min-change", "5%"),
    ("availability", "p5.48xlarge"),
)


def publish(folder: Path) -> int:
    """Publish a snapshot of at least `QUOTES` quotes in a data directory and return how many it has."""
    with open_snapshot(shipped_snapshot_path()) as shipped:
        contents = shipped.contents()
    quotes, n = list(contents.quotes), 0
    while len(quotes) < QUOTES:
        n += 1
        quotes += [
            dataclasses.replace(
                q,
                region=f"xx-test-{n}",
                availability_zone_id=None if q.availability_zone_id is None else f"{q.availability_zone_id}-{n}",
            )
            for q in contents.quotes
            if q.provider == "aws" and q.region == "us-east-1"
        ]
    many = dataclasses.replace(contents, quotes=tuple(quotes))
    path = folder / "snapshots" / "2026-11-30-many.sqlite"
    return write_snapshot(path, many, published_at=datetime(2026, 11, 30, tzinfo=UTC), origin="refresh").quote_count


def timed(words: tuple[str, ...], env: dict[str, str]) -> tuple[float, float]:
    """Return the wall-clock and processor seconds of one process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "planner", "prices", *words], env=env, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a line a command."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as folder:
        print(f"{publish(Path(folder)):,} quotes; median of {runs} runs; the bar for a table is {BAR_S} s")
        env = os.environ | {"PLANNER_DATA_DIR": folder}
        for words in COMMANDS:
            took = [timed(words, env) for _ in range(runs)]
            wall, cpu = (statistics.median(each) for each in zip(*took, strict=True))
            print(f"  {wall:6.3f} s  ({cpu:.3f} s of processor)  planner prices {' '.join(words)}")


if __name__ == "__main__":
    main()
