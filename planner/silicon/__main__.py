"""`python -m planner.silicon`: fits how far measured operators are trusted beside the model, and writes it with its errors; needs the extra."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import planner.perf
from planner.calibration.facts import shipped_facts
from planner.calibration.silicon import errors_of, shares_of
from planner.services.evidence import INSTALL
from planner.services.silicon import errors_csv, shares_csv, silicon_compared
from planner.silicon import installed_version
from planner.silicon.tables import SiliconTables

FOLDER = Path(planner.perf.__file__).with_name("tables")


def main(argv: Sequence[str] | None = None) -> int:
    """Fit and write the two tables; 4 where the operator tables are not installed."""
    argparse.ArgumentParser(prog="python -m planner.silicon", description=__doc__).parse_args(argv)
    version = installed_version()
    if version is None:
        sys.stderr.write(f"planner.silicon: {INSTALL}\n")
        return 4
    groups, sources = silicon_compared(shipped_facts(), SiliconTables(version), told=_say)
    (FOLDER / "silicon_shares.csv").write_text(shares_csv(shares_of(groups)), encoding="utf-8")
    errors = errors_csv([*errors_of(groups), *errors_of(sources)])
    (FOLDER / "silicon_errors.csv").write_text(errors, encoding="utf-8")
    sys.stdout.write(errors)
    return 0


def _say(what: str, done: int, of: int) -> None:
    sys.stderr.write(f"{what}: {done} of {of}\n" if of > 1 else f"{what}\n")


if __name__ == "__main__":
    raise SystemExit(main())
