"""How long the command line takes, whole processes from a warm disk: `python tests/benchmarks/bench_startup.py [RUNS]`.

Prints medians against the bars of the documentation, and for the main job how much of it is importing and how much is work.
"""

# ruff: noqa: T201 - a command that prints its result

from __future__ import annotations

import statistics
import subprocess
import sys
import time

RUNS = 15
COMMANDS = {
    "planner --help": (["--help"], 0.2),
    "planner recommend --model 7b --mode inference": (["recommend", "--model", "7b", "--mode", "inference"], 0.5),
    "planner recommend … --format json": (
        ["recommend", "--model", "7b", "--mode", "inference", "--format", "json"],
        0.5,
    ),
}

SPLIT = """
import sys, time
began = time.perf_counter()
import numpy, rich.console, rich.table
import planner.bootstrap, planner.cli.main, planner.cli.verbs.recommend, planner.cli.recommend_table
import planner.services.recommend, planner.services.find_model, planner.perf.inference, pricing.snapshot
imported = time.perf_counter()
import io
sys.stdout = io.StringIO()
planner.cli.main.main(["recommend", "--model", "7b", "--mode", "inference"])
print(f"{imported - began:.4f} {time.perf_counter() - imported:.4f}", file=sys.stderr)
"""


def timed(command: list[str]) -> float:
    """Return the wall-clock seconds of one process."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    bare = statistics.median(timed([sys.executable, "-c", "pass"]) for _ in range(runs))
    print(
        f"{'command':<48} {'median s':>9} {'least':>7} {'most':>7} {'bar':>5}   ({runs} runs; a bare interpreter: {bare:.3f} s)"
    )
    for name, (words, bar) in COMMANDS.items():
        timed([sys.executable, "-m", "planner", *words])  # warms the disk
        seconds = [timed([sys.executable, "-m", "planner", *words]) for _ in range(runs)]
        median = statistics.median(seconds)
        print(
            f"{name:<48} {median:>9.3f} {min(seconds):>7.3f} {max(seconds):>7.3f} {bar:>5}   {'within' if median <= bar else 'OVER'}"
        )
    shares = [
        subprocess.run([sys.executable, "-c", SPLIT], check=True, capture_output=True, text=True).stderr.split()
        for _ in range(runs)
    ]
    imports, work = (statistics.median(float(share[i]) for share in shares) for i in (0, 1))
    print(f"of the main job: {imports:.3f} s importing, {work:.3f} s work")


if __name__ == "__main__":
    main()
