"""Prices of other clouds through `gpuhunt` (PyPI, extra `other-clouds`): its catalog items as our quotes and instance types.

One source a cloud, so that one that fails holds back no other. Names and regions become those of our tables, so that one thing never
appears twice. AWS is left out: it is asked itself. gpuhunt's catalogs come from its own bucket, need no credentials, and are of the
day that it collected them; `GPUHUNT_CATALOG_DIR` names a folder of catalog files to read instead.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from pricing.errors import SourceFailed, Unreachable
from pricing.market import Notice, NoticeKind
from pricing.model import (
    INSTANCE_HOUR,
    Accelerator,
    AcceleratorKind,
    InstanceType,
    InterconnectKind,
    PurchaseOption,
    Quote,
)
from pricing.money import from_measured
from pricing.source import Ask, Scope, Source, SourceReading

GROUP = "gpuhunt"
CLOUDS: Mapping[str, str] = {
    "azure": "azure",
    "cloudrift": "cloudrift",
    "gcp": "gcp",
    "lambdalabs": "lambda",
    "nebius": "nebius",
    "oci": "oci",
    "runpod": "runpod",
    "verda": "datacrunch",
}
"""gpuhunt's name of each cloud that it publishes a catalog of, and ours. (DataCrunch calls itself Verda now.)"""

INSTALL = "pip install 'gpu-cost-planner[other-clouds]'"
WAIT_S = 60.0  # gpuhunt's own downloads have no time limit
LAMBDA_GB_PER_GIB = 1.074  # gpuhunt turns Lambda's GiB into GB, and no other cloud's
MEMORY_TOLERANCE = 0.08  # 24 GB on the box are 22.35 GiB at the driver
SHARES = (1 / 8, 1 / 6, 1 / 4, 1 / 3, 1 / 2)
OTHER_MEMORY = {"MI325X": (288, 256)}  # gpuhunt's figure, the product's
TPU_VERSIONS = {"v3": "TPU v3", "v4": "TPU v4", "v5p": "TPU v5p", "v5litepod": "TPU v5e", "v6e": "TPU v6e"}
TPU_NAMED_BY_CORES = frozenset({"v3", "v4", "v5p"})  # two cores a chip; the others are named by chips
TPU_CHIPS_A_HOST = {"v3": 4, "v4": 4, "v5p": 4, "v5litepod": 8, "v6e": 8}
RUNPOD_NAMES = {"NVIDIA A100 80GB PCIe": "A100-80GB", "NVIDIA A100-SXM4-80GB": "A100-80GB-SXM"}
SAME_THING: Mapping[tuple[str, str, str], tuple[str, str]] = {
    ("runpod", "1x_NVIDIA-H100-80GB-HBM3_SECURE", "all secure cloud regions"): (
        "H100 SXM secure cloud",
        "secure-cloud",
    ),
    ("runpod", "1x_NVIDIA-H100-PCIe_SECURE", "all secure cloud regions"): ("H100 PCIe secure cloud", "secure-cloud"),
}
"""What our tables call otherwise."""


class CatalogItem(Protocol):
    """The fields of gpuhunt's CatalogItem (and RawCatalogItem) that are read here."""

    instance_name: str
    location: str
    price: float
    cpu: int
    memory: float
    gpu_count: int
    gpu_name: str | None
    gpu_memory: float | None
    spot: bool


@dataclass(frozen=True, slots=True)
class Chips:
    """The chip table and its aliases, to find a chip by gpuhunt's name and memory."""

    by_name: Mapping[str, Accelerator]

    @classmethod
    def of(cls, chips: Iterable[Accelerator], aliases: Mapping[str, str]) -> Chips:
        """Return the look-up; a canonical name goes before an alias."""
        named = {chip.name: chip for chip in chips}
        spelled = {alias.casefold(): named[name] for alias, name in aliases.items() if name in named}
        return cls(spelled | {name.casefold(): chip for name, chip in named.items()})

    def find(self, names: Iterable[str], memory_gib: float | None) -> tuple[Accelerator, float] | None:
        """Return the first chip of these names whose memory is as stated, or a known share of it, and that share."""
        found = [chip for name in names if (chip := self.by_name.get(name.casefold())) is not None]
        for chip in found:
            if memory_gib is None or chip.memory_gib is None or _near(memory_gib, chip.memory_gib):
                return chip, 1.0
        for chip in found:
            for share in SHARES:
                if memory_gib is not None and chip.memory_gib and _near(memory_gib, chip.memory_gib * share):
                    return chip, share
        return None


def gpuhunt_sources(aliases: Mapping[str, str] | None = None) -> tuple[Source, ...]:
    """Return one source for each cloud, named "gpuhunt.gcp" and so on; nothing is imported or asked before one is read.

    `aliases`: other spellings of chips; those of the shipped tables when None.
    """
    shared: dict[str, Any] = {}
    return tuple(
        Source(
            name=f"{GROUP}.{ours}",
            provider=ours,
            regional=False,
            needs_credentials=False,
            default=False,
            what=f"on-demand and spot prices of {ours}, as gpuhunt collects them",
            read=_reader(theirs, aliases, shared),
        )
        for theirs, ours in sorted(CLOUDS.items(), key=lambda pair: pair[1])
    )


def _reader(cloud: str, aliases: Mapping[str, str] | None, shared: dict[str, Any]) -> Callable[[Ask], SourceReading]:
    def read(ask: Ask) -> SourceReading:
        from pricing.static import shipped_aliases  # noqa: PLC0415 - the tables are read when a cloud is

        items, version = fetch_items(cloud, shared)
        ask.on_answer()
        known = Chips.of(ask.chips, shipped_aliases() if aliases is None else aliases)
        return parse_items(items, cloud=cloud, chips=known, at=ask.at, version=version)

    return read


def fetch_items(cloud: str, shared: dict[str, Any] | None = None) -> tuple[Sequence[CatalogItem], str | None]:
    """Return the catalog items of one cloud and the version of its catalog; `shared` keeps the catalogs between clouds.

    Raises SourceFailed when gpuhunt is not installed or has no catalog of the cloud.
    """
    import os  # noqa: PLC0415

    source = f"{GROUP}.{CLOUDS.get(cloud, cloud)}"
    try:
        import gpuhunt  # noqa: PLC0415 - an optional extra
    except ImportError as e:
        why = "the package gpuhunt is not installed" if e.name == "gpuhunt" else f"gpuhunt cannot be imported: {e}"
        raise SourceFailed(source=source, why=why, remedy=INSTALL) from e
    shared = {} if shared is None else shared
    folder = os.environ.get("GPUHUNT_CATALOG_DIR")
    try:
        if "catalog" not in shared:
            catalog = gpuhunt.Catalog(auto_reload=False)
            if folder is None:
                with _time_limit(WAIT_S):
                    catalog.load()
            shared["catalog"] = catalog
        catalog = shared["catalog"]
        items = catalog.query(provider=cloud)
    except (gpuhunt.GPUHuntError, OSError, ValueError) as e:
        raise Unreachable(source=source, why=f"its catalog could not be read: {e}", remedy="check the network") from e
    if not items:
        raise Unreachable(source=source, why="gpuhunt has no catalog of it today", remedy="try again later")
    loaded = getattr(catalog, "catalog", {}).get(cloud) if folder is None else None
    return items, getattr(loaded, "version", None)


class _time_limit:  # noqa: N801 - reads as what it does
    """Sets the limit of sockets that have none of their own, while gpuhunt downloads, and puts back what was."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        import socket  # noqa: PLC0415

        self._before = socket.getdefaulttimeout()
        socket.setdefaulttimeout(self._seconds)

    def __exit__(self, *_: object) -> None:
        import socket  # noqa: PLC0415

        socket.setdefaulttimeout(self._before)


def parse_items(
    items: Iterable[CatalogItem], *, cloud: str, chips: Chips, at: datetime, version: str | None = None
) -> SourceReading:
    """Return what the items of one cloud say in our terms; everything left out is counted by reason. Pure.

    Prices of one thing in several zones of a region become one; where they differ the dearest stands, and a notice says so.
    """
    provider, source = CLOUDS[cloud], f"{GROUP}.{CLOUDS[cloud]}"
    excluded: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    prices: dict[tuple[str, str, PurchaseOption], set[Decimal]] = defaultdict(set)
    types: dict[str, InstanceType] = {}
    rows = 0
    for item in items:
        if why := _left_out(item):
            excluded[why] += 1
            continue
        shape = _shape(cloud, item, chips)
        if shape is None:
            unknown[f"{item.gpu_name} {item.gpu_memory:g} GB" if item.gpu_memory else str(item.gpu_name)] += 1
            excluded["a chip that no table knows"] += 1
            continue
        if isinstance(shape, str):
            excluded[shape] += 1
            continue
        name, region = SAME_THING.get((provider, *_place(cloud, item)), _place(cloud, item))
        types.setdefault(name, _instance_type(provider, name, item, shape=shape, at=at))
        option = PurchaseOption.SPOT if item.spot else PurchaseOption.ON_DEMAND
        prices[name, region, option].add(from_measured(item.price))
        rows += 1
    excluded["the same thing in another zone"] = rows - len(prices)
    quotes = tuple(
        _quote(provider, name, region, option, max(found), at=at) for (name, region, option), found in prices.items()
    )
    notices = [
        Notice(
            kind=NoticeKind.UNRESOLVED,
            source=source,
            subject=f"{name} {region} {option.value}",
            detail=f"costs {min(found)} to {max(found)} USD per hour by zone: the dearest stands",
        )
        for (name, region, option), found in prices.items()
        if len(found) > 1
    ]
    notices += [
        Notice(
            kind=NoticeKind.NOTE,
            source=source,
            subject=what,
            detail="a chip that no table knows: left out",
            count=count,
        )
        for what, count in sorted(unknown.items())
    ]
    return SourceReading(
        source=source,
        scope=Scope(
            provider=provider,
            region=None,
            tables=frozenset({"quotes", "instance_types"}),
            purchase_options=frozenset({PurchaseOption.ON_DEMAND, PurchaseOption.SPOT}),
        ),
        retrieved_at=at,
        published=version,
        quotes=quotes,
        instance_types=tuple(types.values()),
        excluded={reason: count for reason, count in sorted(excluded.items()) if count},
        notices=tuple(notices),
    )


def _left_out(item: CatalogItem) -> str | None:
    """Return why an item is no price of an accelerated instance that one can start and stop at will, or None."""
    data, flags = getattr(item, "provider_data", None) or {}, set(getattr(item, "flags", None) or ())
    if not item.price:
        return "no price or a price of zero"
    if item.price < 0:
        return "a price below zero"
    if not item.gpu_count or not item.gpu_name:
        return "no accelerator"
    if data.get("is_dws_calendar_mode") or any("dws" in flag for flag in flags):
        return "reserved for fixed days (GCP calendar mode), not on demand"
    if data.get("pod_counts") or any("cluster" in flag for flag in flags):
        return "part of a cluster of several instances"
    return None


def _shape(cloud: str, item: CatalogItem, chips: Chips) -> tuple[Accelerator, int, float] | str | None:
    """Return chip, devices and share of a chip in each; why the shape is left out; or None for an unknown chip."""
    if tpu := _tpu(item):
        version, named = tpu
        count = named // 2 if version in TPU_NAMED_BY_CORES else named
        if count > TPU_CHIPS_A_HOST[version]:
            return "a slice of several hosts"
        found = chips.find([TPU_VERSIONS[version]], None)
        return None if found is None else (found[0], max(count, 1), 1.0)
    name = item.gpu_name or ""
    memory = item.gpu_memory
    if name in OTHER_MEMORY and memory == OTHER_MEMORY[name][0]:
        memory = OTHER_MEMORY[name][1]
    found = chips.find(_spellings(cloud, item.instance_name, name, memory), memory)
    return None if found is None else (found[0], item.gpu_count, found[1])


def _tpu(item: CatalogItem) -> tuple[str, int] | None:
    match = re.fullmatch(r"(?:tpu-)?(v\d+[a-z]*)-(\d+)", item.gpu_name or "")
    return (match[1], int(match[2])) if match and match[1] in TPU_VERSIONS else None


def _spellings(cloud: str, instance: str, name: str, memory: float | None) -> list[str]:
    """Return the names to look a chip up by, the most exact first: that of the driver, with form and memory, with memory, alone."""
    text = instance.casefold()
    forms = [form for form in ("SXM", "PCIe", "NVL") if form.casefold() in text]
    if cloud == "azure" and re.match(r"standard_nc\d", text):
        forms += ["NVL", "PCIe"]  # Azure's NC series has cards, its ND series SXM modules
    parts = re.fullmatch(r"(RTX)?(PRO)?([A-Z]*\d+[A-Z]?)(Ada|Ti|SUPER|NVL)?", name)  # RTXPRO6000, RTX3080Ti, H100NVL
    spaced = " ".join(part for part in parts.groups() if part) if parts else name
    size = "" if memory is None else f"{memory:g}GB"
    plain = [name, spaced, f"RTX {name}", f"Quadro {spaced}"]
    out = [instance.removeprefix("NVIDIA ").strip(), instance] if cloud == "runpod" else []
    for each in plain:
        out += [text for form in forms for text in (f"{each}-{form}-{size}", f"{each} {form} {size}", f"{each}-{form}", f"{each} {form}")]  # fmt: skip
    for each in plain:
        out += [f"{each}-{size}", f"{each} {size}", each]
    return [text for text in dict.fromkeys(out) if text]


def _place(cloud: str, item: CatalogItem) -> tuple[str, str]:
    """Return instance type and region as our tables name them."""
    name, where = item.instance_name, item.location
    if cloud == "gcp":
        region = re.sub(r"-[a-z]$", "", where)
        if tpu := _tpu(item):
            version, named = tpu
            if version == "v5litepod":
                return ("tpu-v5e per chip-hour" if named == 1 else f"tpu-v5e-{named}"), region
            return f"tpu-{version}-{named}", region
        if name.startswith("n1-"):
            chip = (item.gpu_name or "").casefold()
            return f"{name}+{chip}" if item.gpu_count == 1 else f"{name}+{item.gpu_count}x{chip}", region
        return name, region
    if cloud == "azure":
        return name.removeprefix("Standard_"), where
    if cloud == "lambdalabs":
        return name, "any"  # gpuhunt lists each type in every region, whether it is there or not
    if cloud == "nebius":
        return name.replace(" ", "_"), where
    if cloud == "runpod":
        community = len(where) == len("US")  # a country; the secure cloud has data centres, "US-KS-2"
        label = RUNPOD_NAMES.get(name, name.replace(" ", "-"))
        kind = "COMMUNITY" if community else "SECURE"
        return f"{item.gpu_count}x_{label}_{kind}", f"all {kind.lower()} cloud regions"
    return name, where


def _instance_type(
    provider: str, name: str, item: CatalogItem, *, shape: tuple[Accelerator, int, float], at: datetime
) -> InstanceType:
    chip, devices, fraction = shape
    kind, speed = _link(chip, devices)
    memory = item.memory / LAMBDA_GB_PER_GIB if provider == "lambda" and item.memory else item.memory
    arch = getattr(getattr(item, "cpu_arch", None), "value", None)
    return InstanceType(
        provider=provider,
        instance_type=name,
        family=re.split(r"[-_.]", name)[0],
        vcpus=int(item.cpu) if item.cpu else None,
        memory_gib=round(float(memory), 1) if memory else None,
        cpu_arch={"x86": "x86_64", "arm": "arm64"}.get(arch or ""),
        accelerator=chip.name,
        accelerator_kind=chip.kind,
        device_count=devices,
        device_fraction=fraction,
        device_memory_gib=None if chip.memory_gib is None else chip.memory_gib * fraction,
        interconnect_kind=kind,
        interconnect_gb_s_bidirectional=speed,
        confidence="medium",
        source=f"{GROUP} {provider}",
        retrieved_on=at.date(),
        notes="how the chips are linked follows from their form" if devices > 1 else "",
    )


def _link(chip: Accelerator, devices: int) -> tuple[InterconnectKind, float | None]:
    """Return how chips of this form reach each other in one machine, and GB/s of one, both directions; cards use PCIe, bridges or not."""
    if devices == 1:
        return InterconnectKind.NONE, None
    by_kind = {AcceleratorKind.TPU: InterconnectKind.ICI, AcceleratorKind.GAUDI: InterconnectKind.ROCE}
    form = chip.form_factor or ""
    kind = by_kind.get(chip.kind)
    if kind is None and chip.vendor == "AMD" and form == "OAM":
        kind = InterconnectKind.XGMI
    if kind is None and (form.startswith("SXM") or "superchip" in form):
        kind = InterconnectKind.NVLINK if form == "SXM2" else InterconnectKind.NVSWITCH
    if kind is None:
        return InterconnectKind.PCIE, chip.host_interface_gb_s_bidirectional
    return kind, chip.interconnect_gb_s_bidirectional


def _quote(provider: str, name: str, region: str, option: PurchaseOption, price: Decimal, *, at: datetime) -> Quote:
    return Quote(
        provider=provider,
        instance_type=name,
        region=region,
        purchase_option=option,
        unit=INSTANCE_HOUR,
        list_unit_price=price,
        effective_unit_price=price,
        source=f"{GROUP} {provider}",
        retrieved_at=at,
        confidence="medium",
    )


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= MEMORY_TOLERANCE * max(one, other)
