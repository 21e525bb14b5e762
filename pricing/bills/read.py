"""`open_bill`: the lines of an export, streamed from CSV, gzip CSV or Parquet. Content decides the format, not the file's name.

Every row is checked. A bill with a fault is refused as a whole, with the places: the lines before it have then been given out already,
so nothing may be done with them until the last one has come.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from pricing.bills import cur, focus
from pricing.bills.cells import Row, RowFault
from pricing.bills.model import BilledLine
from pricing.errors import SheetError
from pricing.plain_files import open_plain

GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
BATCH_ROWS = 5000
MOST_FAULTS = 20
NO_TEXT = "is not text in UTF-8 (perhaps Latin-1 or Windows-1252); save the file in UTF-8"
NO_PARQUET = "Parquet needs pyarrow: pip install 'gpu-cost-planner[parquet]'"


@dataclass(frozen=True, slots=True)
class Format:
    """How the rows of one sort of export become lines."""

    name: str
    columns: Sequence[str]
    lines_of: Callable[[Row, str], Iterator[BilledLine]]


class Bill(AbstractContextManager["Bill"]):
    """An open export. `format` says which; iterating gives its lines once and raises SheetError at the end, or after many faults."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file = path, file
        self.rows = 0  # read so far
        self.excluded: Counter[str] = Counter()  # rows without a line of their own so far, by reason
        self._header, self._rows = self._opened()
        self.format = self._told()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[BilledLine]:
        faults: list[str] = []
        form = self.format
        try:
            for row in self._rows(form.columns):
                self.rows += 1
                try:
                    if isinstance(row, RowFault):
                        raise row
                    lines = list(form.lines_of(row, f"{self.path.name}:{row.place.partition(' ')[2]}"))
                except RowFault as e:
                    faults.append(str(e))
                    if len(faults) == MOST_FAULTS:
                        faults.append(f"and perhaps more: reading ended after {MOST_FAULTS} faults")
                        break
                    continue
                if not lines:
                    self.excluded[cur.NEGATED] += 1
                elif not faults:
                    yield from lines
        except UnicodeDecodeError:
            faults.append(NO_TEXT)
        except csv.Error as e:
            faults.append(f"is not a CSV file: {e}")
        except (EOFError, zlib.error, gzip.BadGzipFile) as e:
            faults.append(f"is cut or damaged: {e}")
        except OSError as e:
            faults.append(f"cannot be read: {e.strerror or _line(e)}")
        if faults:
            raise _refused(self.path, faults=tuple(faults))

    def _opened(self) -> tuple[Sequence[str], Callable[[Sequence[str]], Iterator[Row | RowFault]]]:
        start = self._file.read(4)
        self._file.seek(0)
        if not start:
            raise _refused(self.path, faults=("is empty",))
        if start == PARQUET:
            return self._parquet()
        try:
            return self._csv(gzip.open(self._file) if start.startswith(GZIP) else self._file)  # type: ignore[arg-type]
        except (csv.Error, UnicodeDecodeError) as e:
            why = f"is no CSV file in UTF-8, gzip CSV or Parquet: {NO_TEXT if isinstance(e, UnicodeDecodeError) else e}"
            raise _refused(self.path, faults=(why,)) from e
        except (EOFError, zlib.error, gzip.BadGzipFile) as e:
            raise _refused(self.path, faults=(f"is cut or damaged: {e}",)) from e

    def _csv(self, raw: BinaryIO) -> tuple[Sequence[str], Callable[[Sequence[str]], Iterator[Row | RowFault]]]:
        reader = csv.reader(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""), strict=True)
        header = next(reader, [])

        def rows(columns: Sequence[str]) -> Iterator[Row | RowFault]:
            wanted = [(index, name) for index, name in enumerate(header) if name in columns]
            for cells in reader:
                place = f"line {reader.line_num}"
                if len(cells) == len(header):
                    yield Row(place, {name: cells[index] for index, name in wanted})
                elif cells:
                    yield RowFault(f"{place}: has {len(cells)} cells, the header {len(header)}: cut, or quoted wrongly")

        return header, rows

    def _parquet(self) -> tuple[Sequence[str], Callable[[Sequence[str]], Iterator[Row | RowFault]]]:
        try:
            import pyarrow  # noqa: PLC0415 - an optional extra
            from pyarrow import parquet  # noqa: PLC0415
        except ImportError as e:
            raise _refused(self.path, faults=(NO_PARQUET,)) from e
        try:
            table = parquet.ParquetFile(self._file)
            header: list[str] = table.schema_arrow.names
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as e:
            raise _refused(self.path, faults=(f"is no whole Parquet file: {_line(e)}",)) from e

        def rows(columns: Sequence[str]) -> Iterator[Row | RowFault]:
            number = 0
            try:
                for batch in table.iter_batches(BATCH_ROWS, columns=[name for name in header if name in columns]):
                    for cells in batch.to_pylist():
                        number += 1
                        yield Row(f"row {number}", cells)
            except (
                pyarrow.ArrowException,
                OSError,
                ValueError,
                OverflowError,
            ) as e:  # or text that is none, a time beyond all
                raise EOFError(_line(e)) from e

        return header, rows

    def _told(self) -> Format:
        """Return the format that the header is of."""
        header = self._header
        if len(set(header)) < len(header):
            twice = sorted({name for name in header if list(header).count(name) > 1})
            raise _refused(self.path, faults=(f"the header names {', '.join(twice)} twice",))
        for module in (focus, cur):
            if (name := module.version_of(header)) is None:
                continue
            if lacking := module.missing(header):
                raise _refused(self.path, faults=(f"is {name} and lacks {', '.join(lacking)}",))
            return Format(name, frozenset(module.READ), module.lines_of)  # type: ignore[arg-type]
        why = f"the header is of no known export: FOCUS has ChargePeriodStart and ChargeCategory, CUR 2.0 has {cur.SORT} and {cur.COST}"
        raise _refused(self.path, faults=(why,))


def open_bill(path: Path) -> Bill:
    """Return an open export; SheetError where it is none, NotReadable where there is no plain file. Close it, or use it in a `with`."""
    file = open_plain(path)
    try:
        return Bill(path, file)
    except BaseException:
        file.close()
        raise


def _refused(path: Path, *, faults: tuple[str, ...]) -> SheetError:
    return SheetError(sheet=path.name, faults=faults, outcome="nothing was counted")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
