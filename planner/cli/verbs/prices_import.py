"""`planner prices import`: a price sheet or a private agreement into the prices, or out of them again."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from planner.cli.errors import Exit, UsageError
from planner.ports import Document


def add_flags(parser: ArgumentParser) -> None:
    """Add the file and what is to be done with it."""
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="FILE.csv, a price sheet, or FILE.toml, a private agreement"
    )
    parser.add_argument(
        "--name", metavar="TEXT", help="how the sheet or agreement is called (default: the file's name)"
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="prices that the sheet had before and has no more go, and prices of other sources give way to the sheet's",
    )
    parser.add_argument("--remove", metavar="NAME", help="take a sheet or an agreement out again")
    parser.add_argument(
        "--dry-run", action="store_true", help="check the file and say what would change, and write nothing"
    )
    parser.add_argument(
        "--template", action="store_true", help="print a price sheet to begin with, and what each column holds"
    )


def run(args: Namespace) -> int:
    """Import, remove, or print the template; exit code 2 with every fault of a file that is refused."""
    from planner.bootstrap import open_catalog, open_snapshot_by, snapshots_dir, utc_now
    from pricing.errors import SheetError

    given = [
        word for word, there in (("FILE", args.file), ("--remove", args.remove), ("--template", args.template)) if there
    ]
    if len(given) != 1:
        what = f"{' and '.join(given)} do not go together" if given else "say what to import"
        raise UsageError(f"{what}: give FILE.csv or FILE.toml, --remove NAME or --template")
    if args.template:
        from planner.cli.output import write
        from pricing.sheet_rows import template

        write(template())
        return Exit.ANSWER
    from planner.services import import_prices

    if args.remove:
        answer = import_prices.remove_import(
            args.remove,
            base=open_catalog,
            floor=lambda: open_snapshot_by("shipped"),
            snapshots=snapshots_dir(),
            now=utc_now(),
            dry_run=args.dry_run,
        )
        return shown(answer, args.format)
    try:
        answer = import_prices.import_file(
            Path(args.file),
            base=open_catalog,
            snapshots=snapshots_dir(),
            now=utc_now(),
            name=args.name,
            replacing=args.replace,
            dry_run=args.dry_run,
        )
    except SheetError as e:
        if len(e.faults) > 1 or args.format != "table":  # a lone fault stands on the error line itself
            refused(e.sheet, e.faults, args.format)
        raise UsageError(f"{args.file}: nothing was imported: {summary(e.faults)}") from e
    return shown(answer, args.format)


def refused(sheet: str, faults: tuple[str, ...], form: str) -> None:
    """Write every fault to standard output, one a line."""
    from planner.cli.render import show

    show(
        {"name": sheet, "published": False, "faults": list(faults)},
        form,
        rows=lambda: (("fault",), [[fault] for fault in faults]),
        table=lambda _, **__: "".join(f"{fault}\n" for fault in faults),
    )


def summary(faults: tuple[str, ...]) -> str:
    """Return how many faults there are and on which lines: "3 faults, on lines 2, 5 and 7"; a lone fault itself."""
    import re

    from pricing.errors import MOST_TOLD, first_of

    if len(faults) == 1:
        return faults[0]
    lines = sorted({int(found[1]) for fault in faults if (found := re.search(r"\bline (\d+)", fault))})
    if not lines:
        return "; ".join(first_of(faults))
    if len(lines) > MOST_TOLD:
        where = f"{', '.join(map(str, lines[:MOST_TOLD]))} and {len(lines) - MOST_TOLD:,} more"
    else:
        where = f"{', '.join(map(str, lines[:-1]))} and {lines[-1]}" if len(lines) > 1 else str(lines[0])
    return f"{len(faults):,} faults, on line{'s' if len(lines) > 1 else ''} {where}; each stands in the output"


def shown(answer: Document, form: str) -> int:
    """Write what changed."""
    from planner.cli.render import show

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.cli.import_table import CHANGE_COLUMNS, change_rows

        return CHANGE_COLUMNS, change_rows(answer)

    def table(document: Document, *, width: int, colour: bool) -> str:
        from planner.cli.import_table import import_text

        return import_text(document, width=width, colour=colour)

    show(answer, form, rows=rows, table=table)
    return Exit.ANSWER
