"""The instance types of a price sheet: those that a table knows must not be contradicted, the others are described by the sheet itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from pricing.catalog import near_misses
from pricing.model import Accelerator, AcceleratorKind, InstanceType, InterconnectKind
from pricing.reading import Row
from pricing.sheet_rows import COLUMNS, SPECS, Reading, sheet_of, sheet_source

OF_CHIP = frozenset({InterconnectKind.NVLINK, InterconnectKind.NVSWITCH, InterconnectKind.XGMI, InterconnectKind.NEURONLINK, InterconnectKind.ICI, InterconnectKind.ROCE})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the catalog knows, to read a sheet with: chips, their other names, instance types, and the names of regions."""

    accelerators: Mapping[str, Accelerator]
    aliases: Mapping[str, str]
    instance_types: tuple[InstanceType, ...]
    regions: tuple[str, ...] = ()

    def chip(self, name: str) -> Accelerator | None:
        """Return the chip of that name or alias, case aside; None when there is none."""
        spelled = {alias.casefold(): canonical for alias, canonical in self.aliases.items()}
        spelled |= {canonical.casefold(): canonical for canonical in self.accelerators}
        return self.accelerators.get(spelled.get(name.casefold(), ""))


def type_key(row: Row) -> tuple[str, str]:
    """Return provider and instance type of a row in lower case."""
    return row.cells["provider"].casefold(), row.cells["instance_type"].casefold()


def sheet_types(rows: Iterable[Row], name: str, known: Known, faults: list[str]) -> dict[tuple[str, str], InstanceType]:
    """Return every instance type that the sheet prices, by its names in lower case: those that are known, and those that it describes."""
    tables = {(i.provider.casefold(), i.instance_type.casefold()): i for i in known.instance_types}
    described: dict[tuple[str, str], dict[str, Row]] = {}
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = type_key(row)
        if not all(key):
            continue  # said where the row is read
        first.setdefault(key, row)
        cells = described.setdefault(key, {})
        for column in SPECS:
            if row.cells[column] and cells.setdefault(column, row).cells[column] != row.cells[column]:
                said = cells[column]
                faults.append(
                    f"line {row.line}: {column}: {row.cells[column]!r}, but line {said.line} says {said.cells[column]!r} of the same type"
                )
    out: dict[tuple[str, str], InstanceType] = {}
    for key, cells in described.items():
        of_table = tables.get(key)
        if of_table is not None and sheet_of(of_table.source) != name:
            _contradictions(cells, of_table, known, faults)
            out[key] = of_table
        elif of_table is not None and not cells:
            out[key] = of_table  # an earlier import of this sheet described it
        elif (made := _described(first[key], cells, name, known, faults)) is not None:
            out[key] = made
    return out


def _contradictions(cells: Mapping[str, Row], of_table: InstanceType, known: Known, faults: list[str]) -> None:
    """Report what a sheet says of a type that a table knows otherwise: then it is another thing, and needs another name."""
    for column, row in cells.items():
        reading = Reading(row, faults)
        says: str | float | None
        has: str | float | None
        if column == "accelerator":
            chip = known.chip(row.cells[column])
            says, has = (chip.name if chip else row.cells[column]), of_table.accelerator
        elif column in {"accelerators_per_instance", "vcpus", "memory_gib"}:
            number = reading.positive(column)
            has = getattr(of_table, column)
            says = None if number is None else float(number)
        else:
            continue
        if says is not None and has is not None and says != has:
            reading.fault(
                column,
                f"{row.cells[column]!r}, but {of_table.instance_type} of {of_table.provider} is known with {has}",
            )


def _described(first: Row, cells: Mapping[str, Row], name: str, known: Known, faults: list[str]) -> InstanceType | None:
    """Return the instance type that a sheet describes."""
    if "accelerator" not in cells:
        siblings = [i for i in known.instance_types if i.provider.casefold() == first.cells["provider"].casefold()]
        near = near_misses(first.cells["instance_type"], (i.instance_type for i in siblings), most=2)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        faults.append(
            f"line {first.line}: instance_type: no table knows {first.cells['instance_type']!r} of {first.cells['provider']!r}{hint}: "
            "say what it is in the columns accelerator and accelerators_per_instance"
        )
        return None
    row = Row(
        first.table, cells["accelerator"].line, dict.fromkeys(COLUMNS, "") | {c: r.cells[c] for c, r in cells.items()}
    )
    reading = Reading(row, faults)
    chip = known.chip(row.cells["accelerator"])
    if chip is None:
        near = near_misses(row.cells["accelerator"], (*known.accelerators, *known.aliases), most=2)
        reading.fault(
            "accelerator",
            f"unknown {row.cells['accelerator']!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""),
        )
    count = reading.positive("accelerators_per_instance")
    if count is None and not row.cells["accelerators_per_instance"]:
        reading.fault("accelerators_per_instance", "must not be empty for a type that no table knows")
    if count is not None and count > 1 and count != count.to_integral_value():
        reading.fault("accelerators_per_instance", f"must be a whole number or a part of one chip, not {count}")
    numbers = {
        c: reading.positive(c) for c in ("vcpus", "memory_gib", "interconnect_gb_s", "network_gbps", "local_nvme_gb")
    }
    if (vcpus := numbers["vcpus"]) is not None and vcpus != vcpus.to_integral_value():
        reading.fault("vcpus", f"must be a whole number, not {vcpus}")
    arch = reading.choice("cpu_arch")
    if chip is not None and chip.kind is AcceleratorKind.CPU and not row.cells["memory_gib"]:
        reading.fault("memory_gib", "must not be empty for a CPU server: the model lies in it")
    if chip is None or count is None or not reading.sound:
        return None
    devices, fraction = (int(count), 1.0) if count >= 1 else (1, float(count))
    if chip.kind is AcceleratorKind.CPU:
        devices, fraction = 1, float(count)
    kind = _interconnect(reading, devices)
    if kind is None:
        return None
    return InstanceType(
        provider=first.cells["provider"].casefold(),
        instance_type=first.cells["instance_type"],
        family=first.cells["instance_type"].partition(".")[0],
        vcpus=None if vcpus is None else int(vcpus),
        memory_gib=_float(numbers["memory_gib"]),
        cpu_arch=arch,
        accelerator=chip.name,
        accelerator_kind=chip.kind,
        device_count=devices,
        device_fraction=fraction,
        device_memory_gib=None if chip.memory_gib is None else chip.memory_gib * fraction,
        interconnect_kind=kind,
        interconnect_gb_s_bidirectional=_link_speed(kind, chip, numbers["interconnect_gb_s"]),
        network_gbps=_float(numbers["network_gbps"]),
        local_nvme_gb=_float(numbers["local_nvme_gb"]),
        source=sheet_source(name),
        retrieved_on=_written_day(first),
    )


def _written_day(row: Row) -> date | None:
    try:
        return date.fromisoformat(row.cells["quoted_on"])
    except ValueError:  # the row's own fault says so
        return None


def _interconnect(reading: Reading, devices: int) -> InterconnectKind | None:
    text = reading.row.cells["interconnect"].casefold()
    kinds = {kind.value: kind for kind in InterconnectKind}
    if text and text not in kinds:
        reading.fault("interconnect", f"must be one of {', '.join(kinds)}, not {reading.row.cells['interconnect']!r}")
        return None
    if devices == 1:
        if text and text != InterconnectKind.NONE:
            reading.fault("interconnect", "one accelerator has nothing to reach: leave it empty")
            return None
        return InterconnectKind.NONE
    if not text or text == InterconnectKind.NONE:
        reading.fault("interconnect", f"say how the {devices} accelerators reach each other: nvswitch, nvlink, pcie, …")
        return None
    return kinds[text]


def _link_speed(kind: InterconnectKind, chip: Accelerator, stated: Decimal | None) -> float | None:
    """Return GB/s of one device, both directions: as stated, else the chip's own link or, over PCIe, its host interface."""
    if kind is InterconnectKind.NONE:
        return None
    if stated is not None:
        return float(stated)
    return chip.interconnect_gb_s_bidirectional if kind in OF_CHIP else chip.host_interface_gb_s_bidirectional


def _float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)
