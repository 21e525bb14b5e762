"""The small world that the loopback AWS sells: machines, where they are offered, what they cost, how their spot prices moved.

True or invented? True and public: the machines themselves (as DescribeInstanceTypes describes them), Linux on-demand prices of us-east-1 and
us-west-2 as of July 2026, term and rate codes, quota codes and names, EBS, S3, FSx and data-transfer list prices of us-east-1. Invented,
with a real shape: SKUs and ids, prices of eu-central-1 and China, fees of other systems, reserved and Savings Plan rates (round
factors of on-demand, below), spot prices, placement scores, fees of capacity blocks, bills.

Everything is derived from `World.now` without chance, so a test can state what is to be found by hand.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"


def code_of(*parts: object, length: int = 16) -> str:
    """Return an invented code like a SKU, the same for the same parts."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:length])


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One instance type as EC2 describes it. Memory of a device in MiB, disks in GB."""

    name: str
    vcpus: int
    memory_gib: int
    physical: str = "Intel Xeon"
    chip: str | None = None
    kind: str = "gpu"  # "gpu" | "neuron" | "inference" | "media"
    count: int = 0  # as on the wire: 0 for parts of a GPU
    logical: int | None = None
    partition: float | None = None
    device_mib: int = 0
    maker: str = "NVIDIA"
    cores: int = 0  # of a Neuron device
    core_version: int = 2
    network: str = "Up to 10 Gigabit"
    baseline_gbps: float = 2.5
    peak_gbps: float = 10.0
    cards: int = 1
    efa: int = 0
    disks: int = 0
    disk_gb: int = 0
    arch: str = "x86_64"
    classes: tuple[str, ...] = ("on-demand", "spot")
    metal: bool = False
    gpu_memory_text: str | None = "NA"  # of the price list: free text; None: the row lacks the attribute

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def size(self) -> str:
        return self.name.partition(".")[2]

    @property
    def in_blocks(self) -> bool:
        """Sold in capacity blocks too: the price list then has rows of 0 for the system's fee."""
        return "capacity-block" in self.classes


WITH_BLOCKS = ("on-demand", "spot", "capacity-block")
MACHINES = {
    m.name: m
    for m in (
        Machine(name="m5.large", vcpus=2, memory_gib=8, gpu_memory_text=None),
        Machine(name="g4dn.xlarge", vcpus=4, memory_gib=16, chip="T4", count=1, device_mib=16384, network="Up to 25 Gigabit", baseline_gbps=5, peak_gbps=25, disks=1, disk_gb=125),
        Machine(name="g4dn.metal", vcpus=96, memory_gib=384, chip="T4", count=8, device_mib=16384, network="100 Gigabit", baseline_gbps=100, peak_gbps=100, efa=1, disks=2, disk_gb=900, metal=True),
        Machine(name="g5.xlarge", vcpus=4, memory_gib=16, physical="AMD EPYC 7R32", chip="A10G", count=1, logical=1, partition=1.0, device_mib=22888, disks=1, disk_gb=250, gpu_memory_text="24 GB"),
        Machine(name="g5.2xlarge", vcpus=8, memory_gib=32, physical="AMD EPYC 7R32", chip="A10G", count=1, logical=1, partition=1.0, device_mib=22888, baseline_gbps=5, disks=1, disk_gb=450, gpu_memory_text="24 GB"),
        Machine(name="g6.xlarge", vcpus=4, memory_gib=16, physical="AMD EPYC 7R13", chip="L4", count=1, logical=1, partition=1.0, device_mib=22888, disks=1, disk_gb=250, gpu_memory_text="22 GB"),
        # a part of a GPU: Count is 0, and one eighth of an L4 is what is rented
        Machine(name="g6f.xlarge", vcpus=4, memory_gib=16, physical="AMD EPYC 7R13", chip="L4", count=0, logical=1, partition=0.125, device_mib=2861, disks=1, disk_gb=100, gpu_memory_text="3 GB"),
        Machine(name="g6e.xlarge", vcpus=4, memory_gib=32, physical="AMD EPYC 7R13", chip="L40S", count=1, logical=1, partition=1.0, device_mib=45776, network="Up to 20 Gigabit", peak_gbps=20, disks=1, disk_gb=250, gpu_memory_text="48 GB"),
        Machine(name="p4d.24xlarge", vcpus=96, memory_gib=1152, physical="Intel Xeon Platinum 8275L", chip="A100", count=8, device_mib=40960, network="4x 100 Gigabit", baseline_gbps=100, peak_gbps=100, cards=4, efa=4, disks=8, disk_gb=1000, classes=WITH_BLOCKS, gpu_memory_text="320 GB HBM2"),
        # the same chip name with twice the memory: only the memory tells them apart
        Machine(name="p4de.24xlarge", vcpus=96, memory_gib=1152, physical="Intel Xeon Platinum 8275L", chip="A100", count=8, device_mib=81920, network="4x 100 Gigabit", baseline_gbps=100, peak_gbps=100, cards=4, efa=4, disks=8, disk_gb=1000, classes=WITH_BLOCKS, gpu_memory_text="640 GB HBM2e"),
        # one whole H100 that was listed with Count 0
        Machine(name="p5.4xlarge", vcpus=16, memory_gib=256, physical="AMD EPYC 7R13", chip="H100", count=0, device_mib=81920, network="100 Gigabit", baseline_gbps=100, peak_gbps=100, efa=1, disks=1, disk_gb=3800, classes=WITH_BLOCKS, gpu_memory_text="80 GB HBM3"),
        Machine(name="p5.48xlarge", vcpus=192, memory_gib=2048, physical="AMD EPYC 7R13", chip="H100", count=8, logical=8, partition=1.0, device_mib=81920, network="3200 Gigabit", baseline_gbps=100, peak_gbps=100, cards=32, efa=32, disks=8, disk_gb=3800, classes=WITH_BLOCKS, gpu_memory_text="640 GB HBM3"),
        Machine(name="p5en.48xlarge", vcpus=192, memory_gib=2048, physical="Intel Xeon Sapphire Rapids", chip="H200", count=8, logical=8, partition=1.0, device_mib=144384, network="3200 Gigabit", baseline_gbps=200, peak_gbps=200, cards=16, efa=16, disks=8, disk_gb=3800, classes=WITH_BLOCKS, gpu_memory_text="1128 GB HBM3"),
        Machine(name="p6-b200.48xlarge", vcpus=192, memory_gib=2048, physical="Intel Xeon Emerald Rapids", chip="B200", count=8, logical=8, partition=1.0, device_mib=183359, network="3200 Gigabit", baseline_gbps=400, peak_gbps=400, cards=8, efa=8, disks=8, disk_gb=3800, classes=WITH_BLOCKS, gpu_memory_text="1440"),
        Machine(name="p6-b300.48xlarge", vcpus=192, memory_gib=4096, physical="Intel Xeon Emerald Rapids", chip="B300", count=8, logical=8, partition=1.0, device_mib=275040, network="6400 Gigabit", baseline_gbps=400, peak_gbps=400, cards=16, efa=16, disks=8, disk_gb=3800, classes=WITH_BLOCKS, gpu_memory_text="2148"),
        Machine(name="trn1.32xlarge", vcpus=128, memory_gib=512, chip="Trainium1", kind="neuron", maker="AWS", count=16, device_mib=32768, cores=2, network="8x 100 Gigabit", baseline_gbps=100, peak_gbps=100, cards=8, efa=8, disks=4, disk_gb=1900, gpu_memory_text=None),
        # 512 GiB a device is what EC2 says, and wrong: the chip has 96. Rented in blocks alone, so the list holds nothing but zeros
        Machine(name="trn2.48xlarge", vcpus=192, memory_gib=2048, chip="Trainium2", kind="neuron", maker="AWS", count=16, device_mib=524288, cores=8, core_version=3, network="16x 200 Gigabit", baseline_gbps=200, peak_gbps=200, cards=16, efa=16, disks=4, disk_gb=1900, classes=("capacity-block",), gpu_memory_text=None),
        # listed twice, as Neuron device and as inference accelerator
        Machine(name="inf2.xlarge", vcpus=4, memory_gib=16, physical="AMD EPYC 7R13", chip="Inferentia2", kind="neuron", maker="AWS", count=1, device_mib=32768, cores=2, network="Up to 15 Gigabit", baseline_gbps=2.083, peak_gbps=15, gpu_memory_text=None),
        # nothing for models: a video transcoder
        Machine(name="vt1.3xlarge", vcpus=12, memory_gib=24, chip="U30", kind="media", maker="Xilinx", count=1, device_mib=24576, network="3.12 Gigabit", baseline_gbps=3.12, peak_gbps=3.12, gpu_memory_text=None),
    )
}  # fmt: skip

REGIONS = {
    "us-east-1": ("US East (N. Virginia)", ""),
    "us-west-2": ("US West (Oregon)", "USW2-"),
    "eu-central-1": ("EU (Frankfurt)", "EUC1-"),  # the SDK says "Europe (Frankfurt)"
    "cn-north-1": ("China (Beijing)", "CNN1-"),
}
"""Region -> location as the price list writes it, prefix of its usage types (us-east-1 has none)."""

ZONES = {
    "us-east-1": {"us-east-1a": "use1-az4", "us-east-1b": "use1-az6", "us-east-1c": "use1-az1", "us-east-1d": "use1-az2"},
    "us-west-2": {"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1", "us-west-2c": "usw2-az3"},
    "eu-central-1": {"eu-central-1a": "euc1-az2", "eu-central-1b": "euc1-az3"},
    "cn-north-1": {"cn-north-1a": "cnn1-az1", "cn-north-1b": "cnn1-az2"},
}  # fmt: skip
LOCAL_ZONE = ("us-west-2-lax-1a", "usw2-lax1-az1")
"""A Local Zone of us-west-2: it is listed among the zones of spot prices, and its name without the last letter is no region."""

PUBLIC = {
    "m5.large": "0.096", "g4dn.xlarge": "0.526", "g4dn.metal": "7.824", "g5.xlarge": "1.006", "g5.2xlarge": "1.212", "g6.xlarge": "0.8048",
    "g6f.xlarge": "0.2375", "g6e.xlarge": "1.861", "p4d.24xlarge": "21.957642", "p4de.24xlarge": "27.44705", "p5.4xlarge": "6.88",
    "p5.48xlarge": "55.04", "p5en.48xlarge": "63.296", "p6-b200.48xlarge": "113.9328", "p6-b300.48xlarge": "142.416", "trn1.32xlarge": "21.5", "inf2.xlarge": "0.7582",
    "vt1.3xlarge": "0.65",
}  # fmt: skip
"""Linux on-demand in us-east-1, USD an hour, public, July 2026."""

ELSEWHERE = {
    "us-west-2": {"g4dn.xlarge": "0.526", "g5.xlarge": "1.006", "p4d.24xlarge": "21.957642", "p5.48xlarge": "55.04"},
    "eu-central-1": {"g4dn.xlarge": "0.658", "g5.xlarge": "1.258", "g6.xlarge": "1.0060", "p5.48xlarge": "68.8"},  # invented
    "cn-north-1": {"g4dn.xlarge": "4.123"},  # CNY, invented
}  # fmt: skip

SPOT_STEPS = (
    (100, "0.40"), (80, "0.42"), (60, "0.44"), (40, "0.46"), (20, "0.50"), (10, "0.48"), (5, "0.45"), (2, "0.43"), (1, "0.41"),
)  # fmt: skip
"""Days ago and share of the on-demand price. The first change lies before every window of 90 days and still holds at its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRow:
    """One change of a spot price, as on the wire."""

    instance_type: str
    region: str
    zone: str
    zone_id: str | None  # older rows lack it
    product: str
    price: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Edition:
    """One publication of the price list. It never changes; the next change of a price is a new one."""

    version: str
    published_at: datetime
    on_demand: dict[tuple[str, str], Decimal]  # (type, region) -> per hour, in the region's currency

    @property
    def published(self) -> str:
        return wire_time(self.published_at)


@dataclass(slots=True)
class World:
    """What can be bought, and when it is now. Prices are changed with `set_price` and `remove`, spot prices with `spot_rows`."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    editions: list[Edition] = field(default_factory=list)
    spot_rows: list[SpotRow] = field(default_factory=list)
    quotas: dict[str, float] = field(default_factory=lambda: {"L-DB2E81BA": 64.0, "L-417A185B": 192.0})
    """Applied values in every region: 64 vCPUs of G, 192 of P (one p5.48xlarge); everything else has its default, 0."""
    block_days: tuple[int, ...] = (1, 2, 7)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        prices = {(name, "us-east-1"): Decimal(price) for name, price in PUBLIC.items()}
        for region, listed in ELSEWHERE.items():
            prices |= {(name, region): Decimal(price) for name, price in listed.items()}
        self._publish(self.now - timedelta(days=2), prices)
        self.spot_rows += spot_history(self.now, prices)

    @property
    def edition(self) -> Edition:
        """The list in force."""
        return self.editions[-1]

    @property
    def since(self) -> datetime:
        """Return from when on-demand prices hold: the first of this month."""
        return self.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)

    def set_price(self, instance_type: str, price: str | Decimal, *, region: str = "us-east-1") -> None:
        """Publish a list in which a type costs this much an hour (a type may be new to the region)."""
        self._publish_next({**self.edition.on_demand, (instance_type, region): Decimal(price)})

    def remove(self, name: str, *, region: str = "us-east-1") -> None:
        """Publish a list without a type, or without a whole family ("p5")."""
        kept = {
            key: price
            for key, price in self.edition.on_demand.items()
            if key[1] != region or name not in (key[0], key[0].partition(".")[0])
        }
        if len(kept) == len(self.edition.on_demand):
            raise KeyError(f"{name} {region}")
        self._publish_next(kept)

    def add_spot(
        self,
        instance_type: str,
        zone: str,
        price: str,
        at: datetime,
        *,
        region: str = "us-east-1",
        product: str = "Linux/UNIX",
    ) -> None:
        """Add one change of a pool's spot price."""
        row = SpotRow(
            instance_type=instance_type, region=region, zone=zone, zone_id=ZONES[region].get(zone), product=product, price=price, at=at
        )  # fmt: skip
        with self.lock:
            self.spot_rows = [*self.spot_rows, row]

    def move(self, forward: timedelta) -> None:
        """Let time pass."""
        self.now += forward

    def offered(self, instance_type: str, region: str) -> dict[str, str]:
        """Return the zones (name -> id) that offer a type: the large machines are in the first two of a region alone."""
        if (instance_type, region) not in self.edition.on_demand and (instance_type, region) != (
            "trn2.48xlarge",
            "us-east-1",
        ):
            return {}
        zones = list(ZONES[region].items())
        return dict(zones[:2] if instance_type[0] in "pt" else zones)

    def machines(self, region: str) -> list[Machine]:
        """Return the types offered in a region, by name."""
        return [MACHINES[name] for name in sorted(MACHINES) if self.offered(name, region)]

    def _publish_next(self, prices: dict[tuple[str, str], Decimal]) -> None:
        self._publish(max(self.now, self.edition.published_at + timedelta(minutes=1)), prices)

    def _publish(self, at: datetime, prices: dict[tuple[str, str], Decimal]) -> None:
        self.editions.append(Edition(version=at.strftime("%Y%m%d%H%M%S"), published_at=at, on_demand=prices))


def spot_history(now: datetime, prices: dict[tuple[str, str], Decimal]) -> list[SpotRow]:
    """Return the changes of every pool with the traps of this list, newest first but not quite."""
    top = now.replace(minute=0, second=0, microsecond=0)
    rows: list[SpotRow] = []
    pools = [
        (name, region, zone, zone_id)
        for (name, region) in sorted(prices)
        if "spot" in MACHINES[name].classes
        for zone, zone_id in list(ZONES[region].items())[: 2 if name[0] in "pt" else 9]
    ]
    for number, (name, region, zone, zone_id) in enumerate(pools):
        steps = SPOT_STEPS
        if name == "g4dn.metal":
            steps = SPOT_STEPS[:1]  # one price since before the window: without rows in it, and yet known
        if (name, zone) == ("p5.48xlarge", "us-east-1b"):
            steps = (*SPOT_STEPS[:5], (10, "1"))  # the on-demand price since ten days: nothing to be had
        for days, share in steps:
            rows.append(
                SpotRow(
                    instance_type=name,
                    region=region,
                    zone=zone,
                    zone_id=zone_id,
                    product="Linux/UNIX",
                    price=f"{prices[name, region] * Decimal(share):.6f}",
                    at=top - timedelta(days=days, seconds=number),
                )
            )
    own = {(r.instance_type, r.zone, r.at): r for r in rows}
    newest = {(r.instance_type, r.zone): r for r in sorted(own.values(), key=lambda r: r.at)}

    def twin(name: str, at_zone: str, **change: Any) -> SpotRow:
        return replace(newest[name, at_zone], **change)

    # the left-over second spelling of the same pool at the same price
    rows.append(twin("g5.xlarge", "us-east-1a", product="Linux/UNIX (Amazon VPC)"))
    # other systems of the same pool: their fee is in it
    rows.append(twin("g5.xlarge", "us-east-1a", product="Windows", price="0.596460"))
    rows.append(twin("g5.xlarge", "us-east-1a", product="Red Hat Enterprise Linux", price="0.470060"))
    # an older row that lacks the zone's id: the same pool, told by its name
    rows.append(twin("g5.xlarge", "us-east-1b", zone_id=None, at=newest["g5.xlarge", "us-east-1b"].at - timedelta(hours=7), price="0.430000"))  # fmt: skip
    # two prices of one pool at one instant
    rows.append(twin("g6.xlarge", "us-east-1a", price="0.350000"))
    # a hole in the data
    rows.append(twin("g6e.xlarge", "us-east-1a", price="0.000000", at=top - timedelta(minutes=30)))
    # a Local Zone among the zones of its parent region
    rows.append(twin("g4dn.xlarge", "us-west-2a", zone=LOCAL_ZONE[0], zone_id=LOCAL_ZONE[1], price="0.260000"))
    rows.sort(key=lambda r: r.at, reverse=True)
    # rows out of order, and rows that come twice, far apart: on another page
    rows[3], rows[40] = rows[40], rows[3]
    rows += [r for r in rows if r.region == "us-east-1"][:7]
    return rows


def wire_time(at: datetime) -> str:
    """Return a time as AWS writes it: 2026-07-20T03:10:00Z."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
