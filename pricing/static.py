"""The shipped tables read into our own values: chips, instance types, quotes, earlier prices, rates and interruption bands.

Parsing only, standard library only: no table is repaired or completed here, a row that cannot be right is a `TableError` that
names table, line and column. What must hold between rows is checked by `pricing.checks`.

Chips and instance types are in long form, one figure a row, so that every figure has its own source, date and confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from pricing.contents import SnapshotContents, sources_of
from pricing.history import extended
from pricing.market import PricePeriod
from pricing.model import (
    ACCELERATOR_PART_HOUR,
    INSTANCE_HOUR,
    Accelerator,
    AcceleratorKind,
    InstanceType,
    InterconnectKind,
    Interruption,
    PurchaseOption,
    Quote,
    Rate,
)
from pricing.reading import Reader, Row, long_form, provenance, read_rows

TABLES_DIR = Path(__file__).with_name("tables")
DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
INTERRUPTION_BANDS = {
    # the five ranges of the AWS Spot Instance Advisor, as fractions of instances interrupted in a month
    "<5%": (0.0, 0.05),
    "5-10%": (0.05, 0.10),
    "10-15%": (0.10, 0.15),
    "15-20%": (0.15, 0.20),
    ">20%": (0.20, 1.0),
}
UNITS = {"h": INSTANCE_HOUR, "h without host": ACCELERATOR_PART_HOUR}
"""What stands after the currency in the unit of a price row, and the unit of its quote."""
DECIDING = ("memory_gib", "memory_visible_gib", "memory_bandwidth_gb_s", "peak_fp16_tflops", "peak_bf16_tflops")
"""The figures of a chip on which sizing rests: the weakest of them is the confidence of the chip."""


def _text(row: Row) -> str:
    return row.text("value")


def _number(row: Row) -> float:
    return row.number("value")


def _whole(row: Row) -> int:
    return row.whole("value")


def _yes_no(row: Row) -> bool:
    return row.yes_no("value")


# parameter -> (unit, reader). "-" marks a name or a count.
ACCELERATOR_PARAMETERS: Mapping[str, tuple[str, Reader]] = {
    "vendor": ("-", _text),
    "architecture": ("-", _text),
    "kind": ("-", lambda row: row.member("value", AcceleratorKind)),
    "form_factor": ("-", _text),
    "release_year": ("year", _whole),
    "memory_gib": ("GiB", _number),
    "memory_visible_gib": ("GiB", _number),
    "memory_bandwidth_gb_s": ("GB/s", _number),
    **{f"peak_{dtype}_tflops": ("TOPS" if dtype == "int8" else "TFLOPS", _number) for dtype in DTYPES},
    "interconnect": ("-", _text),
    "interconnect_gb_s_bidirectional": ("GB/s", _number),
    "host_interface": ("-", _text),
    "host_interface_gb_s_bidirectional": ("GB/s", _number),
    "tdp_w": ("W", _number),
    "compute_capability": ("-", _number),
    "cores": ("-", _whole),
}
ACCELERATOR_REQUIRED = ("vendor", "architecture", "kind")

INSTANCE_PARAMETERS: Mapping[str, tuple[str, Reader]] = {
    "family": ("-", _text),
    "vcpus": ("-", _whole),
    "memory_gib": ("GiB", _number),
    "cpu_arch": ("-", _text),
    "accelerator": ("-", _text),
    "accelerator_kind": ("-", lambda row: row.member("value", AcceleratorKind)),
    "device_count": ("-", _whole),
    "device_fraction": ("-", _number),
    "device_memory_gib": ("GiB", _number),
    "interconnect_kind": ("-", lambda row: row.member("value", InterconnectKind)),
    "interconnect_gb_s_bidirectional": ("GB/s", _number),
    "network_gbps": ("Gbit/s", _number),
    "efa_supported": ("-", _yes_no),
    "local_nvme_gb": ("GB", _number),
    "capacity_block_only": ("-", _yes_no),
}
INSTANCE_REQUIRED = ("family", "accelerator", "accelerator_kind", "device_count")


def load_tables(directory: Path = TABLES_DIR) -> SnapshotContents:
    """Return everything in the shipped tables, in the order of the tables; TableError for the first row that cannot be right."""
    accelerators = tuple(_accelerators(directory))
    instance_types = tuple(_instance_types(directory))
    quotes = (*_on_demand(directory), *_spot(directory), *_commitments(directory))
    rates = tuple(_rates(directory))
    interruptions = tuple(_interruptions(directory))
    return SnapshotContents(
        accelerators=accelerators,
        aliases=_aliases(directory),
        instance_types=instance_types,
        quotes=quotes,
        rates=rates,
        interruptions=interruptions,
        sources=tuple(
            sources_of(
                accelerators=accelerators,
                instance_types=instance_types,
                quotes=quotes,
                rates=rates,
                interruptions=interruptions,
            )
        ),
        price_periods=extended(_earlier_prices(directory), quotes),
    )


def shipped_aliases() -> dict[str, str]:
    """Return the other spellings of chips in the shipped tables, and the canonical name of each."""
    return _aliases(TABLES_DIR)


def _accelerators(directory: Path) -> Iterator[Accelerator]:
    path = directory / "accelerators.csv"
    named = {f.name for f in fields(Accelerator)}
    for (name,), values, rows in long_form(path, ("accelerator",), ACCELERATOR_PARAMETERS, ACCELERATOR_REQUIRED):
        peaks = {dtype: values[f"peak_{dtype}_tflops"] for dtype in DTYPES if f"peak_{dtype}_tflops" in values}
        yield Accelerator(
            name=name,
            peak_tflops=peaks,
            **{"form_factor": None, "release_year": None, "memory_gib": None, "memory_visible_gib": None}
            | {"memory_bandwidth_gb_s": None}
            | {parameter: value for parameter, value in values.items() if parameter in named}
            | provenance(rows, DECIDING),
        )


def _instance_types(directory: Path) -> Iterator[InstanceType]:
    path = directory / "instances.csv"
    key = ("provider", "instance_type")
    for (provider, name), values, rows in long_form(path, key, INSTANCE_PARAMETERS, INSTANCE_REQUIRED):
        yield InstanceType(
            provider=provider,
            instance_type=name,
            **{"vcpus": None, "memory_gib": None, "cpu_arch": None} | values | provenance(rows, rows),
        )


def _aliases(directory: Path) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for row in read_rows(directory / "accelerator_aliases.csv", ("alias", "accelerator", "note")):
        alias = row.text("alias")
        if alias in aliases:
            raise row.wrong("alias", f"{alias!r} is given twice")
        aliases[alias] = row.text("accelerator")
    return aliases


def _price(row: Row) -> tuple[dict[str, Any], Decimal]:
    """Return what the row of any price has (whose, of what, where, currency, unit, source) and the price."""
    currency, _, per = row.text("unit").partition("/")
    if per not in UNITS or len(currency) != len("USD"):
        raise row.wrong(
            "unit", f"must be a currency per hour like USD/h or USD/h without host, not {row.text('unit')!r}"
        )
    value = row.decimal("value")
    if value <= 0:
        raise row.wrong("value", f"a price must be above zero, not {value}: leave the row out when no price is known")
    shared = {column: row.text(column) for column in ("provider", "instance_type", "region", "source")}
    return shared | {"currency": currency, "unit": UNITS[per]}, value


def _quote(row: Row, **more: Any) -> Quote:
    shared, value = _price(row)
    shared |= {
        "effective_unit_price": value,
        "retrieved_at": row.midnight(),
        "confidence": row.confidence(),
        "notes": row.cells["note"],
    }
    return Quote(**(shared | more))


def _earlier_prices(directory: Path) -> Iterator[PricePeriod]:
    """Yield on-demand prices with the first and last day on which they were seen; a source looked at on some days only leaves gaps."""
    columns = ("provider", "instance_type", "region", "value", "unit", "first_seen", "last_seen", "source")
    for row in read_rows(directory / "on_demand_history.csv", (*columns, "confidence", "note")):
        shared, value = _price(row)
        first, last = row.midnight("first_seen"), row.midnight("last_seen")
        if last < first:
            raise row.wrong("last_seen", f"{last.date()} is before first_seen {first.date()}")
        row.confidence()
        yield PricePeriod(
            purchase_option=PurchaseOption.ON_DEMAND, unit_price=value, first_seen=first, last_seen=last, **shared
        )


def _on_demand(directory: Path) -> Iterator[Quote]:
    columns = ("provider", "instance_type", "region", "value", "unit", "source", "retrieved_on", "derived")
    for row in read_rows(directory / "on_demand.csv", (*columns, "confidence", "note")):
        yield _quote(
            row,
            purchase_option=PurchaseOption.ON_DEMAND,
            list_unit_price=row.decimal("value"),
            derived=row.yes_no("derived"),
        )


def _spot(directory: Path) -> Iterator[Quote]:
    columns = ("provider", "instance_type", "region", "availability_zone_id", "value", "unit", "at_on_demand_cap")
    for row in read_rows(directory / "spot.csv", (*columns, "source", "retrieved_on", "confidence", "note")):
        yield _quote(
            row,
            purchase_option=PurchaseOption.SPOT,
            availability_zone_id=row.optional("availability_zone_id"),
            list_unit_price=row.decimal("value"),
            at_on_demand_cap=row.yes_no("at_on_demand_cap"),
        )


def _commitments(directory: Path) -> Iterator[Quote]:
    terms = ("purchase_option", "plan_type", "offering_class", "term_years", "payment_option", "upfront")
    columns = ("provider", "instance_type", "region", *terms, "value", "unit", "source", "retrieved_on", "derived")
    for row in read_rows(directory / "commitments.csv", (*columns, "confidence", "note")):
        yield _quote(
            row,
            purchase_option=row.member("purchase_option", PurchaseOption),
            plan_type=row.optional("plan_type"),
            offering_class=row.optional("offering_class"),
            term_years=row.whole("term_years") if row.optional("term_years") else None,
            payment_option=row.optional("payment_option"),
            upfront=row.decimal("upfront") if row.optional("upfront") else None,
            derived=row.yes_no("derived"),
        )


def _rates(directory: Path) -> Iterator[Rate]:
    columns = ("provider", "service", "item", "region", "value", "unit", "tier_from_gb", "tier_to_gb", "source")
    for row in read_rows(directory / "storage_network.csv", (*columns, "retrieved_on", "confidence", "note")):
        currency, _, per = row.text("unit").partition("/")
        if not per:
            raise row.wrong("unit", f"must be a currency per something like USD/GB, not {row.text('unit')!r}")
        yield Rate(
            provider=row.text("provider"),
            service=row.text("service"),
            item=row.text("item"),
            region=row.text("region"),
            unit_price=row.decimal("value"),
            currency=currency,
            unit=per,
            tier_from=row.number("tier_from_gb") if row.optional("tier_from_gb") else None,
            tier_to=row.number("tier_to_gb") if row.optional("tier_to_gb") else None,
            confidence=row.confidence(),
            source=row.text("source"),
            retrieved_on=row.day(),
            notes=row.cells["note"],
        )


def _interruptions(directory: Path) -> Iterator[Interruption]:
    path = directory / "interruptions.csv"
    key = ("provider", "instance_type", "region")
    parameters: Mapping[str, tuple[str, Reader]] = {
        "interrupted_per_month": ("band", _text),
        "savings_over_on_demand": ("fraction", _number),
    }
    for (provider, name, region), values, rows in long_form(path, key, parameters, ("interrupted_per_month",)):
        row, band = rows["interrupted_per_month"], values["interrupted_per_month"]
        if band not in INTERRUPTION_BANDS:
            raise row.wrong("value", f"must be one of {', '.join(INTERRUPTION_BANDS)}, not {band!r}")
        low, high = INTERRUPTION_BANDS[band]
        yield Interruption(
            provider=provider,
            instance_type=name,
            region=region,
            band=band,
            monthly_low_fraction=low,
            monthly_high_fraction=high,
            savings_over_on_demand_fraction=values.get("savings_over_on_demand"),
            source=row.text("source"),
            retrieved_on=row.day(),
        )
