"""The columns of a price sheet, the template, and the reading of its lines: every fault is kept with its line."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import TypeVar

from pricing.amounts import EXCHANGE_RATE, QUANTITY, TERM_YEARS, UPFRONT, Bounds, in_plain_digits, plain_decimal, shown
from pricing.checks import FIRST_DAY
from pricing.errors import TableError
from pricing.history import SHEET
from pricing.model import PurchaseOption
from pricing.reading import Row

REQUIRED = ("provider", "instance_type", "region", "purchase_option", "unit_price", "quoted_on")
TERMS = ("plan_type", "offering_class", "term_years", "payment_option", "upfront")
SPECS = (
    "accelerator",
    "accelerators_per_instance",
    "vcpus",
    "memory_gib",
    "cpu_arch",
    "interconnect",
    "interconnect_gb_s",
    "network_gbps",
    "local_nvme_gb",
)
COLUMNS: Mapping[str, str] = {
    "provider": "who sells it, in lower case (own hardware: a name of your own)",
    "instance_type": "how the provider calls it",
    "region": "the provider's region, or a place",
    "purchase_option": ", ".join(PurchaseOption),
    "plan_type": "Savings Plans: compute or ec2_instance",
    "offering_class": "reservations: standard or convertible",
    "term_years": "1 or 3 for commitments; owned: years over which `upfront` is spread",
    "payment_option": "no_upfront, partial_upfront or all_upfront",
    "upfront": "paid once at the start of the term, for one instance; owned: what one server cost",
    "unit_price": "per `unit`; 0 where all is paid upfront",
    "currency": "three letters; USD when empty",
    "unit": "hour (of the whole instance; also when empty), accelerator_hour or month",
    "effective_from": "first day of the price, YYYY-MM-DD, not in the future",
    "quoted_on": "the day of the offer, YYYY-MM-DD: the age of the price counts from it",
    "source": "offer number, page or person",
    "note": "anything else",
    "usd_rate": "units of the currency that one USD is worth (0.92 for EUR): convert at this rate, which stays in the note",
    "rate_source": "who states the rate",
    "rate_on": "its day, YYYY-MM-DD",
    "accelerator": "chip by any name that `planner instances` knows; this and the columns after it only for types that no table knows",
    "accelerators_per_instance": "8; 0.5 for half a chip; for a CPU server its sockets",
    "vcpus": "of the instance",
    "memory_gib": "main memory of the instance, GiB",
    "cpu_arch": "x86_64 or arm64",
    "interconnect": "how several accelerators reach each other: nvswitch, nvlink, pcie, xgmi, neuronlink, ici, roce",
    "interconnect_gb_s": "GB/s of one accelerator, both directions added; the chip's own figure when empty",
    "network_gbps": "Gbit/s of the instance",
    "local_nvme_gb": "GB (10^9 bytes)",
}
"""Every column and what it holds; their order in a file is free and those that are not required may be missing."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "plan_type": ("compute", "ec2_instance"),
    "offering_class": ("standard", "convertible"),
    "payment_option": ("no_upfront", "partial_upfront", "all_upfront"),
    "cpu_arch": ("x86_64", "arm64"),
}
TEMPLATE_ROWS: tuple[Mapping[str, str], ...] = (
    {
        "provider": "acme",
        "instance_type": "h100x8",
        "region": "us-texas",
        "purchase_option": "on_demand",
        "unit_price": "2.49",
        "currency": "USD",
        "unit": "accelerator_hour",
        "quoted_on": "2026-11-02",
        "source": "offer 4711",
        "accelerator": "H100 SXM",
        "accelerators_per_instance": "8",
        "vcpus": "208",
        "memory_gib": "1800",
        "cpu_arch": "x86_64",
        "interconnect": "nvswitch",
        "network_gbps": "3200",
    },
    {
        "provider": "acme",
        "instance_type": "h100x8",
        "region": "us-texas",
        "purchase_option": "reserved_1yr",
        "term_years": "1",
        "payment_option": "no_upfront",
        "unit_price": "15.60",
        "currency": "USD",
        "unit": "hour",
        "quoted_on": "2026-11-02",
        "source": "offer 4711",
    },
    {
        "provider": "own",
        "instance_type": "dgx-1",
        "region": "cellar",
        "purchase_option": "owned",
        "term_years": "4",
        "upfront": "280000",
        "unit_price": "3.10",
        "currency": "USD",
        "unit": "hour",
        "quoted_on": "2026-11-02",
        "source": "invoice 2026-113",
        "note": "unit_price is power, space and support",
        "accelerator": "H100 SXM5 80GB",
        "accelerators_per_instance": "8",
        "vcpus": "224",
        "memory_gib": "2048",
        "cpu_arch": "x86_64",
        "interconnect": "nvswitch",
    },
)

BOUNDS: Mapping[str, Bounds] = {"upfront": UPFRONT, "usd_rate": EXCHANGE_RATE, "term_years": TERM_YEARS}
"""What the numbers of a column can be, where that is not `QUANTITY`."""

T = TypeVar("T")


def sheet_source(name: str, said: str = "") -> str:
    """Return the source text of a row of the sheet: "price sheet acme: offer 4711"."""
    return f"{SHEET}{name}: {said}" if said else f"{SHEET}{name}"


def sheet_of(source: str) -> str | None:
    """Return the name of the sheet that a row is of; None for any other source."""
    return source.removeprefix(SHEET).partition(":")[0] if source.startswith(SHEET) else None


def template() -> str:
    """Return a sheet to begin with: what each column holds as comments, the header, and three rows to replace."""
    out = io.StringIO()
    out.write("# A price sheet for `planner prices import FILE.csv`. Lines that begin with # are comments. Columns:\n")
    for column, what in COLUMNS.items():
        out.write(f"#   {column}{' (required)' if column in REQUIRED else ''}: {what}\n")
    writer = csv.DictWriter(out, list(COLUMNS), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(TEMPLATE_ROWS)
    return out.getvalue()


def sheet_rows(text: str, name: str, faults: list[str]) -> Iterator[Row]:
    """Yield the lines of the sheet as cells by column, blanks around them gone; a header or a line that is none is a fault."""
    numbered = [(n, line) for n, line in enumerate(text.removeprefix("\ufeff").splitlines(keepends=True), 1)]
    kept = [(n, line) for n, line in numbered if line.strip() and not line.startswith("#")]
    if not kept:
        return
    reader = csv.reader((line for _, line in kept), strict=True)
    header: list[str] | None = None
    try:
        for cells in reader:
            line = kept[reader.line_num - 1][0]
            if header is None:
                header = [cell.strip().casefold() for cell in cells]
                if problems := list(_header_faults(header, line)):
                    faults.extend(problems)
                    return
            elif len(cells) != len(header):
                faults.append(f"line {line}: has {len(cells)} cells, the header has {len(header)}")
            elif any(cell.strip() for cell in cells):
                given = dict(zip(header, (cell.strip() for cell in cells), strict=True))
                yield Row(name, line, dict.fromkeys(COLUMNS, "") | given)
    except csv.Error as e:
        faults.append(f"line {kept[min(reader.line_num, len(kept)) - 1][0]}: is no line of CSV: {e}")


def _header_faults(header: list[str], line: int) -> Iterator[str]:
    if len(header) == 1 and ";" in header[0]:
        yield f"line {line}: cells must be separated by commas, not semicolons"
        return
    for column in header:
        if column not in COLUMNS:
            near = difflib.get_close_matches(column, COLUMNS, n=1, cutoff=0.75)
            yield f"line {line}: unknown column {column!r}" + (
                f"; did you mean {near[0]}?" if near else "; `planner prices import --template` lists them"
            )
        elif header.count(column) > 1:
            yield f"line {line}: column {column} is there {header.count(column)} times"
    missing = [column for column in REQUIRED if column not in header]
    if missing:
        yield f"line {line}: lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}"


class Reading:
    """Takes the cells of one row and keeps every fault, so that a person sees all of them at once."""

    def __init__(self, row: Row, faults: list[str]) -> None:
        self.row, self.faults, self.sound = row, faults, True

    def fault(self, column: str, why: str) -> None:
        """Keep what is wrong with a cell."""
        self.faults.append(f"line {self.row.line}: {column}: {why}")
        self.sound = False

    def take(self, read: Callable[[], T]) -> T | None:
        """Return what a reader gives; None where it finds a fault, which is kept."""
        try:
            return read()
        except TableError as e:
            self.fault(e.column or "", e.why)
            return None

    def text(self, column: str) -> str:
        """Return a cell that must not be empty; empty text where it is."""
        return self.take(lambda: self.row.text(column)) or ""

    def choice(self, column: str) -> str | None:
        """Return one of the words that a column can hold; None when empty or another."""
        text = self.row.cells[column].casefold().replace(" ", "_")
        if text and text not in CHOICES[column]:
            self.fault(column, f"must be {' or '.join(CHOICES[column])}, not {self.row.cells[column]!r}")
            return None
        return text or None

    def positive(self, column: str, *, zero: bool = False, within: Bounds | None = None) -> Decimal | None:
        """Return a number above zero, or at zero where that means something; None when the cell is empty or wrong.

        It is written plainly and lies within bounds: those given, else those of the column.
        """
        text = self.row.cells[column]
        if not text:
            return None
        value = plain_decimal(text)
        if value is None:
            self.fault(column, f"must be a number{in_plain_digits(text)}, not {shown(text)}")
            return None
        if value < 0 or (value == 0 and not zero):
            self.fault(column, f"must be {'zero or more' if zero else 'above zero'}, not {shown(value)}")
            return None
        if value and (why := (within or BOUNDS.get(column, QUANTITY)).why_not(value)) is not None:
            self.fault(column, why)
            return None
        return value

    def day(self, column: str, today: date) -> date | None:
        """Return a day that is not in the future; None when empty or wrong."""
        if not self.row.cells[column]:
            return None
        day = self.take(lambda: self.row.day(column))
        if day is not None and not FIRST_DAY <= day <= today:
            self.fault(column, f"must lie between {FIRST_DAY} and today, {today}, not {day}")
            return None
        return day
