"""DescribeInstanceTypes read into `InstanceType`: how many devices of which chip, and what share of a chip each is.

The reply counts in three ways. `LogicalGpuCount x GpuPartitionSize` where given (g6f.xlarge: 1 x 0.125 of an L4); else `Count`; and
where Count is 0, total memory over the memory of the chip (a p5.4xlarge has been reported with 0 of its one whole H100).
Memory is per device in MiB, but has been seen repeated as the total, and wrong for Trainium2: it is checked against the chip table.

Reference: AWS EC2 API, DescribeInstanceTypes (GpuInfo, NeuronInfo, InferenceAcceleratorInfo, NetworkInfo, InstanceStorageInfo);
read 2026-11.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from pricing.aws import replies
from pricing.aws.paging import pages
from pricing.aws.session import Aws
from pricing.errors import ReplyError
from pricing.market import Notice, NoticeKind
from pricing.model import Accelerator, AcceleratorKind, InstanceType, InterconnectKind
from pricing.source import Ask, Scope, Source, SourceReading

NAME = "instance_types"
SOURCE = "AWS DescribeInstanceTypes"
MIB_PER_GIB = 1024
CLOSE = 0.03
"""Relative difference up to which two memory sizes are the same chip. The nearest two of one name differ by a factor of two."""
SMALLEST_PARTITION = 16
CHIPS: Mapping[str, tuple[str, ...]] = {
    "K80": ("K80 (one of two GPUs)",),
    "M60": ("M60 (one of two GPUs)",),
    "V100": ("V100 SXM2 16GB", "V100 SXM2 32GB"),
    "T4": ("T4",),
    "T4g": ("T4G",),
    "Radeon Pro V520": ("Radeon Pro V520",),
    "A10G": ("A10G",),
    "L4": ("L4",),
    "L40S": ("L40S",),
    "RTX PRO Server 6000": ("RTX PRO 6000 Blackwell Server",),
    "RTX PRO Server 4500": ("RTX PRO 4500 Blackwell Server",),
    "RTX PRO 4500": ("RTX PRO 4500 Blackwell Server",),
    "A100": ("A100 SXM4 40GB", "A100 SXM4 80GB"),
    "H100": ("H100 SXM5 80GB",),
    "H200": ("H200 SXM 141GB",),
    "B200": ("B200 SXM 180GB",),
    "B300": ("B300 SXM 288GB",),
    "GB200": ("GB200 (per GPU)",),
    "GB300": ("GB300 (per GPU)",),
    "Gaudi HL-205": ("Gaudi HL-205 (Gaudi1)",),
    "Trainium": ("Trainium1",),
    "Trainium1": ("Trainium1",),
    "Trainium2": ("Trainium2",),
    "Trainium3": ("Trainium3",),
    "Inferentia": ("Inferentia1",),
    "Inferentia1": ("Inferentia1",),
    "Inferentia2": ("Inferentia2",),
    "Qualcomm AI100": ("Qualcomm AI100 Standard",),
}
"""Names of the reply -> chips of our table that EC2 rents under them; several are told apart by memory."""
WRONG_MEMORY_MIB = {("Trainium2", 524288): "the reply says 512 GiB a device; the chip has 96"}
INSIDE_GB_S = {"Trainium2": 1024.0}
"""Where a chip's links also lead to other instances: the part inside one (Trainium2: 1,024 of 1,280; 256 join an UltraServer)."""
ACCELERATED = re.compile(r"(?:p|g|gr|trn|inf|dl|vt|f)\d")
"""Families that always have accelerators: a reply without any is incomplete (seen for trn2u) and does not make them CPU types."""
NOT_WANTED = "not a type we plan with"
"""Why a row about another type is left out."""
NOT_FOR_MODELS = ", not for models"
NOT_FOR_COMPUTE = {"MediaAcceleratorInfo": "media accelerator", "FpgaInfo": "FPGA"}


PATTERNS = ("p*", "g*", "trn*", "inf*", "dl*", "vt*", "f*")
"""`instance-type` filters that bring every accelerated family. They match what a region has; a list of names (`InstanceTypes`) fails as a
whole when the region lacks one of them. CPU types are not asked for: the reply does not name their CPU."""
MOST_RESULTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What a reply says of one instance's accelerators, checked against the chip table."""

    chip: Accelerator
    count: int
    fraction: float  # of a chip, per device
    memory_mib: float  # per device
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTypesReading:
    """Instance types in the order of their names; types left out, with the reason."""

    instance_types: tuple[InstanceType, ...]
    excluded: Mapping[str, str]


def instance_types_source(aws: Aws) -> Source:
    """Return the source of the shapes of accelerated types."""
    return Source(
        name=NAME,
        regional=True,
        needs_credentials=True,
        default=True,
        what="accelerators, memory, network and disks of each accelerated type",
        permissions=("ec2:DescribeInstanceTypes",),
        read=lambda ask: read_instance_types(aws, ask),
    )


def read_instance_types(aws: Aws, ask: Ask) -> SourceReading:
    """Return the accelerated types that a region has. One that cannot be read is left out and said, and loses no other."""
    if ask.region is None:
        raise ValueError("instance types are asked region by region")
    found = parse_instance_types(
        pages(
            aws.client("ec2", ask.region),
            "describe_instance_types",
            "InstanceTypes",
            source=SOURCE,
            on_answer=ask.on_answer,
            Filters=[{"Name": "instance-type", "Values": list(PATTERNS)}],
            PaginationConfig={"PageSize": MOST_RESULTS},
        ),
        chips=ask.chips,
        retrieved_on=ask.at.date(),
    )
    excluded: Counter[str] = Counter()
    notices: list[Notice] = []
    for name, why in found.excluded.items():
        if why.endswith(NOT_FOR_MODELS):
            excluded[why] += 1
        else:
            excluded["cannot be read"] += 1
            notices.append(Notice(kind=NoticeKind.UNRESOLVED, source=NAME, subject=f"{name} {ask.region}", detail=why))
    wanted = [row for row in found.instance_types if is_wanted(row.instance_type, ask.instance_types)]
    if others := len(found.instance_types) - len(wanted):
        excluded[NOT_WANTED] = others
    return SourceReading(
        source=NAME,
        scope=Scope(provider="aws", region=ask.region, tables=frozenset({"instance_types"})),
        retrieved_at=ask.at,
        instance_types=tuple(wanted),
        excluded=dict(excluded),
        notices=tuple(notices),
    )


def is_wanted(instance_type: str, known: Container[str]) -> bool:
    """Whether we plan with a type: one that the catalog knows, or one of an accelerated family."""
    return instance_type in known or ACCELERATED.match(instance_type) is not None


def parse_instance_types(
    answer: Iterable[Any], *, chips: Iterable[Accelerator], retrieved_on: date
) -> InstanceTypesReading:
    """Return every type of the replies. One that cannot be right is left out with its reason and loses no other."""
    table = {chip.name: chip for chip in chips}
    found: dict[str, InstanceType] = {}
    excluded: dict[str, str] = {}
    for page in answer:
        for index, given in enumerate(replies.rows_of(page, "InstanceTypes", source=SOURCE)):
            row = replies.mapping(given, source=SOURCE, where=f"row {index}")
            name = str(row.get("InstanceType") or f"row {index}")
            for key, what in NOT_FOR_COMPUTE.items():
                if row.get(key) and not row.get("GpuInfo"):
                    excluded[name] = f"{what}{NOT_FOR_MODELS}"
            if name in excluded:
                continue
            try:
                found[name] = parse_instance_type(row, chips=table, retrieved_on=retrieved_on)
            except ReplyError as e:
                excluded[name] = e.why
    return InstanceTypesReading(
        instance_types=tuple(found[name] for name in sorted(found)), excluded=dict(sorted(excluded.items()))
    )


def parse_instance_type(reply: Any, *, chips: Mapping[str, Accelerator], retrieved_on: date) -> InstanceType:
    """Return one type. `chips` are canonical names and their chips; memory in GiB, network in Gbit/s sustained, disks in GB."""
    row = replies.mapping(reply, source=SOURCE, where="instance type")
    name = replies.text(row, "InstanceType", source=SOURCE, where="instance type")
    family = name.partition(".")[0]
    devices = devices_of(row, chips=chips)
    if devices is None and ACCELERATED.match(family):
        raise ReplyError(source=SOURCE, where=name, why=f"no accelerator in the reply, and every {family} type has one")
    network = _object(row, "NetworkInfo", name)
    usage = row.get("SupportedUsageClasses") or ()
    chip = None if devices is None else devices.chip
    link = InterconnectKind.NONE if devices is None or devices.count == 1 else link_kind(devices.chip)
    vcpus, memory = _object(row, "VCpuInfo", name), _object(row, "MemoryInfo", name)
    return InstanceType(
        provider="aws",
        instance_type=name,
        family=family,
        vcpus=replies.whole(vcpus, "DefaultVCpus", source=SOURCE, where=name) if vcpus else None,
        memory_gib=replies.whole(memory, "SizeInMiB", source=SOURCE, where=name) / MIB_PER_GIB if memory else None,
        cpu_arch=_architecture(row, name),
        accelerator=None if chip is None else chip.name,
        accelerator_kind=AcceleratorKind.CPU if chip is None else chip.kind,
        device_count=1 if devices is None else devices.count,
        device_fraction=1.0 if devices is None else devices.fraction,
        device_memory_gib=None if devices is None else devices.memory_mib / MIB_PER_GIB,
        interconnect_kind=link,
        interconnect_gb_s_bidirectional=None if chip is None else link_gb_s(chip, link),
        network_gbps=_network_gbps(network, name),
        efa_supported=network.get("EfaSupported") is True,
        local_nvme_gb=_nvme_gb(row, name),
        capacity_block_only=tuple(usage) == ("capacity-block",),
        source=SOURCE,
        retrieved_on=retrieved_on,
        notes="CPU model is not in the reply" if devices is None else devices.note,
    )


def devices_of(reply: Mapping[str, Any], *, chips: Mapping[str, Accelerator]) -> Devices | None:
    """Return the accelerators of one instance, or None for a type without any.

    Neuron chips of inf1 and inf2 are also listed as inference accelerators: only the first list that is there counts.
    """
    name = replies.text(reply, "InstanceType", source=SOURCE, where="instance type")
    for info, listed, total_key in (
        ("GpuInfo", "Gpus", "TotalGpuMemoryInMiB"),
        ("NeuronInfo", "NeuronDevices", "TotalNeuronDeviceMemoryInMiB"),
        ("InferenceAcceleratorInfo", "Accelerators", "TotalInferenceMemoryInMiB"),
    ):
        if info not in reply:
            continue
        found = _object(reply, info, name)
        entries = replies.sequence(found.get(listed), source=SOURCE, where=f"{name} {info}")
        if len(entries) != 1:
            raise ReplyError(
                source=SOURCE, where=name, why=f"{info} lists {len(entries)} sorts of chip; one is expected"
            )
        total = found.get(total_key)
        return _devices(
            replies.mapping(entries[0], source=SOURCE, where=f"{name} {info}"),
            total if isinstance(total, int) else None,
            where=name,
            chips=chips,
        )
    return None


def _devices(
    entry: Mapping[str, Any], total_mib: int | None, *, where: str, chips: Mapping[str, Accelerator]
) -> Devices:
    api_name = replies.text(entry, "Name", source=SOURCE, where=where)
    memory = replies.whole(_object(entry, "MemoryInfo", where), "SizeInMiB", source=SOURCE, where=f"{where} {api_name}")
    candidates = [chips[chip] for chip in CHIPS.get(api_name, ()) if chip in chips and chips[chip].memory_gib]
    if not candidates:
        near = difflib.get_close_matches(api_name, CHIPS, n=1)
        hint = f"; the nearest is {near[0]!r}" if near else ""
        raise ReplyError(source=SOURCE, where=where, why=f"chip {api_name!r} is not in the table{hint}")
    if memory == 0:
        raise ReplyError(source=SOURCE, where=where, why=f"{api_name} is said to have no memory")
    logical, partition = entry.get("LogicalGpuCount"), entry.get("GpuPartitionSize")
    count = replies.whole(entry, "Count", source=SOURCE, where=where)
    if logical and partition:
        return _checked(candidates, int(logical), float(partition), memory, api_name, where=where)
    if count:
        return _checked(candidates, count, 1.0, memory, api_name, where=where)
    return _from_memory(candidates, int(logical or 1), total_mib or memory, api_name, where=where)


def _checked(
    candidates: list[Accelerator], count: int, fraction: float, memory_mib: int, api_name: str, *, where: str
) -> Devices:
    """Return the devices once their memory is that of a chip: as said, or (the total was repeated) divided by their number."""
    for chip in candidates:
        if _close(memory_mib, chip_mib(chip) * fraction):
            return Devices(chip=chip, count=count, fraction=fraction, memory_mib=memory_mib)
    for chip in candidates:
        if _close(memory_mib / count, chip_mib(chip) * fraction):
            note = f"the reply gives the memory of all {count} as that of one"
            return Devices(chip=chip, count=count, fraction=fraction, memory_mib=memory_mib / count, note=note)
    if note := WRONG_MEMORY_MIB.get((api_name, memory_mib), ""):
        chip = candidates[0]
        return Devices(chip=chip, count=count, fraction=fraction, memory_mib=chip_mib(chip) * fraction, note=note)
    raise ReplyError(source=SOURCE, where=where, why=_mismatch(candidates, memory_mib, api_name))


def _from_memory(candidates: list[Accelerator], logical: int, total_mib: int, api_name: str, *, where: str) -> Devices:
    """Return the devices of a reply that counts 0 of them: total memory over the chip's is a whole number, or a power of one half."""
    for chip in candidates:
        ratio = total_mib / chip_mib(chip)
        whole = round(ratio)
        if whole and _close(ratio, whole):
            return Devices(chip=chip, count=whole, fraction=1.0, memory_mib=total_mib / whole)
        each = ratio / logical
        parts = 2 ** round(-math.log2(each))
        if 1 < parts <= SMALLEST_PARTITION and _close(each, 1 / parts):
            return Devices(chip=chip, count=logical, fraction=1 / parts, memory_mib=total_mib / logical)
    raise ReplyError(source=SOURCE, where=where, why=_mismatch(candidates, total_mib, api_name))


def link_kind(chip: Accelerator) -> InterconnectKind:
    """Return how several of a chip reach each other in an EC2 instance; the reply does not say, the chip's own links do."""
    link = chip.interconnect or ""
    for start, found in (
        ("NeuronLink", InterconnectKind.NEURONLINK),
        ("RoCE", InterconnectKind.ROCE),
        ("NVLink2", InterconnectKind.NVLINK),  # p3: a mesh without switches
        ("NVLink", InterconnectKind.NVSWITCH),
    ):
        if link.startswith(start):
            return found
    return InterconnectKind.PCIE


def link_gb_s(chip: Accelerator, link: InterconnectKind) -> float | None:
    """Return GB/s of a device to the others, both directions added; over PCIe that of its host interface."""
    if link is InterconnectKind.NONE:
        return None
    if chip.name in INSIDE_GB_S:
        return INSIDE_GB_S[chip.name]
    if link is InterconnectKind.PCIE:
        return chip.host_interface_gb_s_bidirectional
    return chip.interconnect_gb_s_bidirectional


def chip_mib(chip: Accelerator) -> float:
    """Return the memory of a chip in MiB; only chips that state it are candidates."""
    return (chip.memory_gib or math.nan) * MIB_PER_GIB


def _close(a: float, b: float) -> bool:
    return abs(a / b - 1) <= CLOSE


def _mismatch(candidates: list[Accelerator], memory_mib: int, api_name: str) -> str:
    expected = " or ".join(f"{chip_mib(chip):.0f}" for chip in candidates)
    return f"{api_name} with {memory_mib} MiB: the chip has {expected}, and no count or share of it gives that"


def _object(row: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """Return an object of the reply, empty where it is missing."""
    return replies.mapping(row[key], source=SOURCE, where=f"{where} {key}") if key in row else {}


def _architecture(row: Mapping[str, Any], name: str) -> str | None:
    supported = _object(row, "ProcessorInfo", name).get("SupportedArchitectures") or ()
    return next((a for a in ("x86_64", "arm64") if a in supported), None)


def _network_gbps(network: Mapping[str, Any], name: str) -> float | None:
    """Return the sustained rate of all cards together; peaks are bursts."""
    cards = replies.sequence(network.get("NetworkCards") or [], source=SOURCE, where=f"{name} NetworkCards")
    rates = [card.get("BaselineBandwidthInGbps") for card in cards]
    known = [float(rate) for rate in rates if rate is not None]
    return sum(known) if known and len(known) == len(rates) else None


def _nvme_gb(row: Mapping[str, Any], name: str) -> float | None:
    """Return the local NVMe disks in GB (1e9 bytes, as the reply counts disks): 0 where it says there are none, None where it is silent."""
    if row.get("InstanceStorageSupported") is False:
        return 0.0
    storage = _object(row, "InstanceStorageInfo", name)
    total = storage.get("TotalSizeInGB")
    if total is None:
        return None
    return float(total) if storage.get("NvmeSupport") in ("required", "supported") else 0.0
