"""The nouns of `pricing`: chips, instance types, quotes, rates, interruption bands, and what a snapshot says of itself.

Frozen values, no behaviour beyond arithmetic on their own fields. `None` means "not found" or "does not apply", never zero.
GB is 1e9 bytes, GiB 2**30 bytes; the unit is in the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum

from pricing.errors import CurrencyError
from pricing.money import UsdPerHour


class PurchaseOption(StrEnum):
    """How an instance is paid for."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    SAVINGS_PLAN_1YR = "savings_plan_1yr"
    SAVINGS_PLAN_3YR = "savings_plan_3yr"
    RESERVED_1YR = "reserved_1yr"
    RESERVED_3YR = "reserved_3yr"
    CAPACITY_BLOCK = "capacity_block"
    OWNED = "owned"


class AcceleratorKind(StrEnum):
    """What sort of chip does the work."""

    GPU = "gpu"
    NEURON = "neuron"
    GAUDI = "gaudi"
    TPU = "tpu"
    INFERENCE_CARD = "inference_card"
    CPU = "cpu"
    OTHER = "other"  # in published results only (IPU, Ascend), not rentable in the tables


class InterconnectKind(StrEnum):
    """How the accelerators of one instance reach each other."""

    NONE = "none"  # a single accelerator, or a CPU
    PCIE = "pcie"
    NVLINK = "nvlink"  # point to point, not every pair at full rate (V100 hybrid cube mesh, NVL bridges)
    NVSWITCH = "nvswitch"  # every pair at full rate
    NEURONLINK = "neuronlink"
    XGMI = "xgmi"  # AMD Infinity Fabric
    ICI = "ici"  # TPU inter-chip interconnect
    ROCE = "roce"  # Gaudi's Ethernet on chip


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One chip as its datasheet and its driver describe it. Peaks are DENSE, per whole chip.

    For a CPU chip the figures are those of one socket: peak = cores x clock x FLOP per cycle, bandwidth = channels x rate.
    """

    name: str  # canonical, e.g. "H100 SXM5 80GB"
    vendor: str
    architecture: str
    kind: AcceleratorKind
    form_factor: str | None
    release_year: int | None
    memory_gib: float | None  # as the cloud's API reports it; None for a CPU (the instance decides)
    memory_visible_gib: float | None  # what a process can really use before any engine share; None for a CPU
    memory_bandwidth_gb_s: float | None
    peak_tflops: Mapping[str, float] = field(default_factory=dict)  # keys: fp64 fp32 tf32 fp16 bf16 fp8 int8 fp4
    interconnect: str | None = None
    interconnect_gb_s_bidirectional: float | None = None  # per accelerator, both directions added
    host_interface: str | None = None
    host_interface_gb_s_bidirectional: float | None = None
    tdp_w: float | None = None
    compute_capability: float | None = None  # NVIDIA only
    cores: int | None = None  # CPU: physical cores of one socket
    confidence: str = "high"
    source: str = ""
    retrieved_on: date | None = None
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One rentable shape. `device_count` devices of `device_fraction` of a chip each: g6f.xlarge is 1 x 0.125 of an L4.

    A CPU type has one device, its CPUs: `accelerator` names the CPU chip, `device_fraction` = its physical cores / chip cores
    (2.0 for a two-socket machine).
    """

    provider: str  # "aws", "gcp", "azure", …
    instance_type: str
    family: str
    vcpus: int | None
    memory_gib: float | None
    cpu_arch: str | None
    accelerator: str | None  # canonical name in the accelerator table
    accelerator_kind: AcceleratorKind
    device_count: int
    device_fraction: float = 1.0
    device_memory_gib: float | None = None  # per device, as the API reports it
    interconnect_kind: InterconnectKind = InterconnectKind.NONE
    interconnect_gb_s_bidirectional: float | None = None  # per device inside this instance
    network_gbps: float | None = None
    efa_supported: bool = False
    local_nvme_gb: float | None = None
    capacity_block_only: bool = False
    confidence: str = "high"
    source: str = ""
    retrieved_on: date | None = None
    notes: str = ""

    @property
    def accelerators_per_instance(self) -> float | None:
        """Whole chips in the instance: 8, 1, 0.125; None for a CPU type."""
        return None if self.accelerator_kind is AcceleratorKind.CPU else self.device_count * self.device_fraction


INSTANCE_HOUR = "Hrs"
"""Unit of a quote for a whole instance, as AWS price lists write it."""

ACCELERATOR_PART_HOUR = "Hrs of the accelerators without their host"
"""Unit of a quote for the accelerators of an instance alone: host vCPU and memory are billed on top, so it is no instance's price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One price of one thing for one purchase option in one region (one zone for spot)."""

    provider: str
    instance_type: str
    region: str
    availability_zone_id: str | None = None
    availability_zone: str | None = None
    purchase_option: PurchaseOption
    plan_type: str | None = None  # "compute" | "ec2_instance"
    offering_class: str | None = None  # "standard" | "convertible"
    term_years: int | None = None
    payment_option: str | None = None  # "no_upfront" | "partial_upfront" | "all_upfront"
    currency: str = "USD"
    unit: str = INSTANCE_HOUR
    list_unit_price: Decimal | None = None
    contracted_unit_price: Decimal | None = None
    upfront: Decimal | None = None
    effective_unit_price: Decimal  # per hour of one instance, any upfront spread over the term
    source: str
    sku: str | None = None
    rate_code: str | None = None  # "SKU.TERM.RATE" as the price list writes it: the one line that the price stands in
    effective_from: date | None = None
    retrieved_at: datetime  # timezone-aware
    derived: bool = False  # follows from another quote by a stated ratio
    at_on_demand_cap: bool | None = None  # spot only: no spare capacity rather than a market price
    confidence: str = "high"
    notes: str = ""

    @property
    def usd_per_hour(self) -> UsdPerHour:
        """The effective price of one instance-hour in USD; refuses another currency or unit."""
        if self.currency != "USD" or self.unit != INSTANCE_HOUR:
            raise CurrencyError(
                f"{self.instance_type} {self.region}: quoted in {self.currency} per {self.unit}, not USD per hour; state a rate to convert"
            )
        return UsdPerHour(self.effective_unit_price)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A price of storage, network or another service that is not an instance-hour."""

    provider: str
    service: str  # "EBS", "S3", "FSx", "Data transfer", …
    item: str
    region: str
    unit_price: Decimal
    currency: str = "USD"
    unit: str  # "GB-month", "GB", "hour", …
    tier_from: float | None = None
    tier_to: float | None = None
    confidence: str = "high"
    source: str
    sku: str | None = None
    rate_code: str | None = None  # of its tier, as the price list writes it
    retrieved_on: date
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """Spot interruption band of a type in a region: share of instances interrupted in the last month."""

    provider: str
    instance_type: str
    region: str
    band: str  # "<5%", "5-10%", "10-15%", "15-20%", ">20%"
    monthly_low_fraction: float
    monthly_high_fraction: float
    savings_over_on_demand_fraction: float | None
    source: str
    retrieved_on: date


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAge:
    """One source that a snapshot was made from and the day (or minute) its figures are of."""

    source: str
    kind: str  # "on_demand" | "spot" | "commitment" | "specs" | "storage" | "interruption"
    as_of: datetime  # timezone-aware
    quotes: int


SHIPPED = "shipped"
"""Origin of the snapshot that is made from the shipped tables; others are "refresh" and "import"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMeta:
    """What a snapshot says of itself. `snapshot_id` is a hash of its content: same content, same id."""

    snapshot_id: str
    as_of: datetime  # its newest AWS on-demand figure; without any, its newest on-demand figure
    published_at: datetime
    origin: str  # "shipped" | "refresh" | "import"
    sources: tuple[SourceAge, ...]
    quote_count: int
    instance_type_count: int

    @property
    def day(self) -> date:
        """The day (UTC) from which on an answer can be asked for "as of": when it was published; the shipped tables are of their prices' day.

        A refresh of spot prices alone keeps the day of its on-demand prices in `as_of`, and must not change what was known on that day.
        """
        return (self.as_of if self.origin == SHIPPED else self.published_at).astimezone(UTC).date()
