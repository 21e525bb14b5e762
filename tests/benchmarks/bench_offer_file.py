"""How fast and in how much memory a regional EC2 offer file is read: `python tests/benchmarks/bench_offer_file.py [MB] [RUNS]`.

Writes one file of MB million bytes (300) for each format into a temporary folder, packs both with gzip, and measures each reading in a
fresh process: seconds of reading from a warm disk, imports not counted, and the peak of its resident memory above that of a bare
interpreter that imported nothing. The work of others on the machine makes times longer, never shorter: the median is what was seen, the
least and the least work of a core ("core s") are nearest to the truth. The ratio is of a core's work, against plainly reading, or reading
and decompressing, the same file.
Linux only: the peak is VmHWM of /proc, as the one of getrusage may be the parent's.
"""

# ruff: noqa: T201 - a command that prints its result

from __future__ import annotations

import gzip
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

SIZE_MB, RUNS = 300.0, 5
BARS_S = {"json": 12.0, "csv": 6.0}
BAR_MB = 120.0

PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
"""
BARE = PEAK + "print(peak())"
PLAIN = (
    PEAK
    + """
import gzip, sys, time
path = sys.argv[1]
began, worked = time.perf_counter(), time.process_time()
with (gzip.open(path) if path.endswith(".gz") else open(path, "rb")) as file:
    while file.read(1 << 18):
        pass
print(time.perf_counter() - began, peak(), 0, time.process_time() - worked)
"""
)
READ = (
    PEAK
    + """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from pricing.aws.downloads import opened
from pricing.aws.offer_csv import parse_offer_csv
from pricing.aws.offer_json import parse_offer_json
path, at = Path(sys.argv[1]), datetime(2026, 11, 30, tzinfo=UTC)
parse = parse_offer_json if ".json" in path.name else parse_offer_csv
began, worked = time.perf_counter(), time.process_time()
with opened(path, source="benchmark") as file:
    found = parse(file, region="us-east-1", instance_types=(), at=at, retrieved_at=at)
print(time.perf_counter() - began, peak(), len(found.prices.quotes), time.process_time() - worked)
"""
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of each run, by the clock and of a core's work; the highest peak in bytes, and how many quotes came out."""

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    peak: int
    quotes: int

    @property
    def median(self) -> float:
        """Return the median of the seconds."""
        return statistics.median(self.seconds)


def said(program: str, *words: str) -> list[str]:
    """Return what a fresh interpreter prints."""
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()


def measured(program: str, path: Path, runs: int) -> Measured:
    """Run a program on a file."""
    found = [said(program, str(path)) for _ in range(runs)]
    return Measured(
        seconds=tuple(float(run[0]) for run in found),
        cpu_seconds=tuple(float(run[3]) for run in found),
        peak=max(int(run[1]) for run in found),
        quotes=int(found[0][2]),
    )


def packed(path: Path) -> Path:
    """Return the same file, packed as servers do it."""
    into = path.with_name(f"{path.name}.gz")
    with path.open("rb") as plain, gzip.open(into, "wb", compresslevel=6) as file:
        shutil.copyfileobj(plain, file, 1 << 20)
    return into


def main() -> None:
    """Print the table."""
    from fakes.offer_file import sized

    size_mb = float(sys.argv[1]) if len(sys.argv) > 1 else SIZE_MB
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else RUNS
    bare = min(int(said(BARE)[0]) for _ in range(3))
    with tempfile.TemporaryDirectory(prefix="planner-offer-") as folder:
        print(f"{'file':<14} {'MB':>6} {'median s':>9} {'least':>6} {'most':>6} {'core s':>7} {'bar s':>6} {'MB/s':>6} {'plainly s':>10} {'ratio':>6} {'peak MB':>8} {'quotes':>7}   ({runs} runs; bare interpreter {bare / 1e6:.0f} MB)")  # fmt: skip
        for form in ("json", "csv"):
            offer = sized(size_mb, csv_file=form == "csv")
            path = Path(folder) / f"index.{form}"
            (offer.write_csv if form == "csv" else offer.write_json)(path)
            plain_mb = path.stat().st_size / 1e6
            for file in (path, packed(path)):
                said(PLAIN, str(file))  # warms the disk
                plainly, ours = measured(PLAIN, file, runs), measured(READ, file, runs)
                peak_mb = (ours.peak - bare) / 1e6
                bar_s = BARS_S[form] * plain_mb / SIZE_MB
                within = ours.median <= bar_s and peak_mb <= BAR_MB
                print(
                    f"{file.name:<14} {file.stat().st_size / 1e6:>6.0f} {ours.median:>9.2f} {min(ours.seconds):>6.2f} {max(ours.seconds):>6.2f} {min(ours.cpu_seconds):>7.2f} {bar_s:>6.1f} "
                    f"{plain_mb / ours.median:>6.0f} {plainly.median:>10.3f} {min(ours.cpu_seconds) / min(plainly.cpu_seconds):>6.1f} {peak_mb:>8.0f} {ours.quotes:>7}   "
                    f"{'within' if within else 'OVER'}"
                )
            path.unlink()


if __name__ == "__main__":
    main()
