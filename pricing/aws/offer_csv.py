"""A regional EC2 offer file as CSV: five lines of metadata, a header, one line a rate with everything about its product repeated.

Columns are found by name: there are about ninety, more are added and their order is not promised. Names differ from those of JSON only
in spelling ("Pre Installed S/W" is preInstalledSw, "CapacityStatus" capacitystatus), so letters and digits alone are compared. A
reservation is two lines, the hourly price and the fee, joined on SKU and term code. A day here is a moment there; it counts from
midnight UTC. An empty cell is a missing value. A line with more or fewer cells than the header means that the file was cut.

Reference: AWS Price List bulk API, CSV files; read 2026-11.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from operator import itemgetter
from typing import Any, BinaryIO

from pricing.aws.offer import ATTRIBUTES, SORTS, SOURCE, Offer, OfferReading
from pricing.aws.price_list import PLAIN_USE
from pricing.errors import ReplyError

MOST_METADATA = 50
"""Lines among which the header must stand."""
MAY_LACK = frozenset(wanted.attribute for wanted in PLAIN_USE if wanted.may_be_absent)
NEEDED = ("SKU", "OfferTermCode", "RateCode", "TermType", "EffectiveDate", "StartingRange", "Unit", "PricePerUnit", "Currency", "LeaseContractLength", "PurchaseOption", "OfferingClass", "Product Family")  # fmt: skip
ON_DEMAND = SORTS[0]
TERM_ATTRIBUTES = ("LeaseContractLength", "PurchaseOption", "OfferingClass")
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
NOT_IN_A_NAME = re.compile(r"[^a-z0-9]")


def parse_offer_csv(
    file: BinaryIO, *, region: str, instance_types: Iterable[str], at: datetime, retrieved_at: datetime
) -> OfferReading:
    """Return the prices of a region's machines in an offer file. ReplyError for what is no whole offer file."""
    offer = Offer(region=region, instance_types=frozenset(instance_types))
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    rows = csv.reader(text, strict=True)
    try:
        header = _header(rows, offer)
        _read(rows, header, offer)
    except (csv.Error, UnicodeDecodeError) as e:
        why = f"is no CSV in UTF-8, or was cut: {e}"
        raise ReplyError(source=SOURCE, where=f"line {rows.line_num:,}", why=why) from e
    finally:
        text.detach()  # the file is the caller's to close
    return offer.reading(at=at, retrieved_at=retrieved_at)


def _header(rows: Iterator[list[str]], offer: Offer) -> list[str]:
    """Return the header, and note what the lines before it say."""
    for row in islice(rows, MOST_METADATA):
        if "SKU" in row and "RateCode" in row:
            return row
        if len(row) == 2 and row[0] == "Publication Date":
            offer.published = row[1] or None
        elif len(row) == 2 and row[0] == "Version":
            offer.version = row[1] or None
    why = f"no line with SKU and RateCode among the first {MOST_METADATA}: this is no offer file"
    raise ReplyError(source=SOURCE, where="header", why=why)


def _read(rows: Iterator[list[str]], header: Sequence[str], offer: Offer) -> None:
    """Read every line. A product is counted at its first on-demand rate, as nothing is remembered of those that are let go."""
    places = _places(header)
    offer.names = tuple(name for name in ATTRIBUTES if name in places)
    values = itemgetter(*(places[name] for name in offer.names))
    sku_at, type_at, family_at, width = places["SKU"], places["instanceType"], places["Product Family"], len(header)
    sort_at, from_at = places["TermType"], places["StartingRange"]
    for number, row in enumerate(rows, start=1):
        if len(row) != width:
            if not row:
                continue
            why = f"has {len(row)} cells where the header has {width}: the file was cut or is damaged"
            raise ReplyError(source=SOURCE, where=f"data line {number:,}", why=why)
        counts = row[sort_at] == ON_DEMAND and not row[from_at].strip("0.")
        if offer.wants(row[type_at]):
            terms = offer.look_at(row[sku_at], row[family_at] or None, values(row), counts=counts)
            if terms is not None:
                _add_rate(terms, {name: row[places[name]] for name in NEEDED})
        elif counts:
            offer.pass_over()


def _places(header: Sequence[str]) -> dict[str, int]:
    """Return where each needed column and attribute stands; ReplyError that names those that are missing or given twice."""
    plain = [_plain(name) for name in header]
    wanted = (*NEEDED, *ATTRIBUTES)
    places = {name: plain.index(_plain(name)) for name in wanted if _plain(name) in plain}
    missing = [name for name in wanted if name not in places and name not in MAY_LACK]
    twice = [name for name in wanted if plain.count(_plain(name)) > 1]
    if missing or twice:
        why = f"lacks {', '.join(missing)}" if missing else f"has more than one {', '.join(twice)}"
        raise ReplyError(source=SOURCE, where="header", why=f"{why}: prices cannot be told without doubt")
    return places


def _plain(name: str) -> str:
    return NOT_IN_A_NAME.sub("", name.casefold())


def _add_rate(terms: dict[str, dict[str, Any]], cell: Mapping[str, str]) -> None:
    """Add one line's rate to its term, which is made at its first line."""
    if cell["TermType"] not in SORTS:
        return
    code = f"{cell['SKU']}.{cell['OfferTermCode']}"
    term = terms.setdefault(cell["TermType"], {}).setdefault(
        code, {"priceDimensions": {}, "termAttributes": {name: cell[name] for name in TERM_ATTRIBUTES if cell[name]}}
    )
    if since := cell["EffectiveDate"]:
        term["effectiveDate"] = f"{since}T00:00:00Z" if DAY.fullmatch(since) else since
    price = {cell["Currency"]: cell["PricePerUnit"]} if cell["PricePerUnit"] and cell["Currency"] else {}
    term["priceDimensions"][cell["RateCode"]] = {"unit": cell["Unit"], "pricePerUnit": price}
