"""What EC2 answers about the small world: values under the member names of the API, and the XML that they are on the wire."""

from __future__ import annotations

import fnmatch
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape

from .aws_world import LOCAL_ZONE, ZONES, Machine, World, code_of, wire_time

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
WIRE = {
    "InstanceTypes": "instanceTypeSet",
    "InstanceTypeOfferings": "instanceTypeOfferingSet",
    "SpotPriceHistory": "spotPriceHistorySet",
    "SpotPlacementScores": "spotPlacementScoreSet",
    "CapacityBlockOfferings": "capacityBlockOfferingSet",
    "AvailabilityZones": "availabilityZoneInfo",
    "Regions": "regionInfo",
    "Endpoint": "regionEndpoint",
    "State": "zoneState",
    "Workloads": "workloadSet",
}
"""Members whose element is not the member's name with a small first letter."""

Row = dict[str, Any]


class BadRequestError(Exception):
    """A call that EC2 refuses: code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def to_xml(value: Any, name: str) -> str:
    """Return a value as an element; a list holds elements `item`."""
    if isinstance(value, dict):
        inner = "".join(to_xml(v, WIRE.get(k, k[0].lower() + k[1:])) for k, v in value.items() if v is not None)
    elif isinstance(value, (list, tuple)):
        inner = "".join(to_xml(v, "item") for v in value)
    elif isinstance(value, bool):
        inner = str(value).lower()
    elif isinstance(value, datetime):
        inner = wire_time(value).replace("Z", ".000Z")
    else:
        inner = escape(str(value))
    return f"<{name}>{inner}</{name}>" if inner else f"<{name}/>"


def response(action: str, members: Row, request_id: str) -> bytes:
    """Return the body of an answer."""
    inner = "".join(to_xml(v, WIRE.get(k, k[0].lower() + k[1:])) for k, v in members.items() if v is not None)
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{action}Response xmlns="{NAMESPACE}"><requestId>{request_id}</requestId>{inner}</{action}Response>'
    return text.encode()


def describe(machine: Machine) -> Row:
    """Return one type as DescribeInstanceTypes answers it."""
    row: Row = {
        "InstanceType": machine.name,
        "CurrentGeneration": True,
        "FreeTierEligible": False,
        "SupportedUsageClasses": list(machine.classes),
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "BareMetal": machine.metal,
        "ProcessorInfo": {"SupportedArchitectures": [machine.arch], "SustainedClockSpeedInGhz": 3.0},
        "VCpuInfo": {
            "DefaultVCpus": machine.vcpus,
            "DefaultCores": machine.vcpus // 2,
            "DefaultThreadsPerCore": 2,
        },
        "MemoryInfo": {"SizeInMiB": machine.memory_gib * 1024},
        "InstanceStorageSupported": machine.disks > 0,
        "NetworkInfo": {
            "NetworkPerformance": machine.network,
            "MaximumNetworkCards": machine.cards,
            "NetworkCards": [
                {
                    "NetworkCardIndex": index,
                    "NetworkPerformance": machine.network,
                    "BaselineBandwidthInGbps": float(machine.baseline_gbps),
                    "PeakBandwidthInGbps": float(machine.peak_gbps),
                }
                for index in range(machine.cards)
            ],
            "EfaSupported": machine.efa > 0,
            "EfaInfo": {"MaximumEfaInterfaces": machine.efa} if machine.efa else None,
        },
    }
    if machine.disks:  # sizes in GB of 10^9, memory in MiB
        row["InstanceStorageInfo"] = {
            "TotalSizeInGB": machine.disks * machine.disk_gb,
            "Disks": [{"SizeInGB": machine.disk_gb, "Count": machine.disks, "Type": "ssd"}],
            "NvmeSupport": "required",
        }
    if machine.chip is None:
        return row
    devices = max(machine.count, machine.logical or 0, 1)
    total = devices * machine.device_mib
    device: Row = {
        "Name": machine.chip,
        "Manufacturer": machine.maker,
        "Count": machine.count,
        "MemoryInfo": {"SizeInMiB": machine.device_mib},
    }
    if machine.kind == "gpu":
        parts = {"LogicalGpuCount": machine.logical, "GpuPartitionSize": machine.partition}
        row["GpuInfo"] = {"Gpus": [device | parts], "TotalGpuMemoryInMiB": total}
    elif machine.kind == "neuron":
        neuron = {k: v for k, v in device.items() if k != "Manufacturer"}
        neuron["CoreInfo"] = {"Count": machine.cores, "Version": machine.core_version}
        row["NeuronInfo"] = {"NeuronDevices": [neuron], "TotalNeuronDeviceMemoryInMiB": total}
        if machine.family == "inf2":
            row["InferenceAcceleratorInfo"] = {"Accelerators": [device], "TotalInferenceMemoryInMiB": total}
    else:
        row["MediaAcceleratorInfo"] = {"Accelerators": [device], "TotalMediaMemoryInMiB": total}
    return row


def matches(filters: dict[str, list[str]], values: dict[str, str | None]) -> bool:
    """Return whether a row passes filters of names and values with * and ?; refuses a filter that the call does not have."""
    for name, wanted in filters.items():
        if name not in values:
            raise BadRequestError("InvalidParameterValue", f"The filter '{name}' is invalid")
        value = values[name]
        if value is None or not any(fnmatch.fnmatchcase(value, pattern) for pattern in wanted):
            return False
    return True


def instance_types(world: World, region: str, given: Row, filters: dict[str, list[str]]) -> list[Row]:
    machines = world.machines(region)
    named = given.get("InstanceType", [])
    missing = sorted(set(named) - {m.name for m in machines})
    if missing:
        raise BadRequestError(
            "InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(missing)}]"
        )
    wanted = [m for m in machines if not named or m.name in named]
    return [
        describe(m)
        for m in wanted
        if matches(filters, {"instance-type": m.name, "bare-metal": str(m.metal).lower(), "current-generation": "true",
                             "supported-usage-class": m.classes[0], "processor-info.supported-architecture": m.arch})
    ]  # fmt: skip


def offerings(world: World, region: str, given: Row, filters: dict[str, list[str]]) -> list[Row]:
    kind = given.get("LocationType", "region")
    found = []
    for machine in world.machines(region):
        zones = world.offered(machine.name, region)
        places = {
            "region": [region],
            "availability-zone": list(zones),
            "availability-zone-id": list(zones.values()),
        }.get(kind)
        if places is None:
            raise BadRequestError("InvalidParameterValue", f"Value ({kind}) for parameter locationType is invalid.")
        if kind != "region" and (machine.name, region) == ("g4dn.xlarge", "us-west-2"):
            places = [*places, LOCAL_ZONE[kind == "availability-zone-id"]]  # a Local Zone among the zones
        found += [
            {"InstanceType": machine.name, "LocationType": kind, "Location": place}
            for place in places
            if matches(filters, {"instance-type": machine.name, "location": place})
        ]
    return found


def spot_history(world: World, region: str, given: Row, filters: dict[str, list[str]]) -> list[Row]:
    """Return the changes in the window, and of each pool the last one before it."""
    end = _time(given.get("EndTime")) or world.now
    start = _time(given.get("StartTime")) or end - timedelta(days=90)
    start = max(start, world.now - timedelta(days=90))
    types, products = given.get("InstanceType", []), given.get("ProductDescription", [])
    rows = [
        r
        for r in world.spot_rows
        if r.region == region
        and (not types or r.instance_type in types)
        and (not products or r.product in products)
        and given.get("AvailabilityZone") in (None, r.zone)
        and r.at <= end
        and matches(filters, {"availability-zone": r.zone, "availability-zone-id": r.zone_id, "instance-type": r.instance_type,
                              "product-description": r.product, "spot-price": r.price})
    ]  # fmt: skip
    before: dict[tuple[str, str, str], datetime] = {}
    for r in rows:
        if r.at <= start:
            pool = (r.instance_type, r.zone, r.product)
            before[pool] = max(before.get(pool, r.at), r.at)
    return [
        {
            "AvailabilityZone": r.zone,
            "AvailabilityZoneId": r.zone_id,
            "InstanceType": r.instance_type,
            "ProductDescription": r.product,
            "SpotPrice": r.price,
            "Timestamp": r.at,
        }
        for r in rows
        if r.at > start or before[r.instance_type, r.zone, r.product] == r.at
    ]


def regions() -> list[Row]:
    found = [
        {"OptInStatus": "opt-in-not-required", "RegionName": name, "Endpoint": f"ec2.{name}.amazonaws.com"}
        for name in ("eu-central-1", "us-east-1", "us-west-2")
    ]
    return [
        *found,
        {"OptInStatus": "not-opted-in", "RegionName": "ap-south-2", "Endpoint": "ec2.ap-south-2.amazonaws.com"},
    ]


def zones(region: str) -> list[Row]:
    def zone(name: str, zone_id: str, kind: str) -> Row:
        return {
            "OptInStatus": "opt-in-not-required" if kind == "availability-zone" else "opted-in",
            "RegionName": region,
            "ZoneName": name,
            "ZoneId": zone_id,
            "GroupName": f"{region}-zg-1" if kind == "availability-zone" else name[:-1],
            "NetworkBorderGroup": region if kind == "availability-zone" else name[:-1],
            "ZoneType": kind,
            "State": "available",
        }

    found = [zone(name, zone_id, "availability-zone") for name, zone_id in ZONES.get(region, {}).items()]
    return found + ([zone(*LOCAL_ZONE, "local-zone")] if region == "us-west-2" else [])


def placement_scores(world: World, given: Row) -> list[Row]:
    """Return up to ten scores, best first. Fewer than three types always score low."""
    types = given.get("InstanceType", [])
    if not given.get("TargetCapacity"):
        raise BadRequestError("MissingParameter", "The request must contain the parameter TargetCapacity")
    wanted = given.get("RegionName") or sorted(set(ZONES) - {"cn-north-1"})
    found = []
    for region in wanted:
        offered = {zone for name in types for zone in world.offered(name, region).values()}
        if not offered:
            continue
        best = 3 if len(set(types)) < 3 else {"us-east-1": 4, "us-west-2": 7}.get(region, 9)
        if given.get("SingleAvailabilityZone") == "true":
            found += [
                {"Region": region, "AvailabilityZoneId": zone, "Score": max(1, best - number)}
                for number, zone in enumerate(sorted(offered))
            ]
        else:
            found.append({"Region": region, "AvailabilityZoneId": None, "Score": best})
    return sorted(found, key=lambda s: (-s["Score"], s["Region"], s["AvailabilityZoneId"] or ""))[:10]


BLOCK_SHARE = Decimal("0.55")
"""Fee of a capacity block: this share of on-demand, invented; trn2 has no on-demand price and costs 20 USD an hour here."""


def capacity_blocks(world: World, region: str, given: Row) -> list[Row]:
    """Return the blocks that could be reserved for exactly the duration asked, and one that is 47 minutes shorter."""
    name, count = given.get("InstanceType"), int(given.get("InstanceCount", 1))
    hours = int(given.get("CapacityDurationHours", 0))
    days = hours // 24
    if not name or not hours or hours % 24 or (days > 14 and days % 7) or days > 182:
        raise BadRequestError("InvalidParameterValue", f"Invalid duration: {hours} hours")
    zones_of_type = world.offered(name, region)
    machine = next((m for m in world.machines(region) if m.name == name), None)
    if machine is None or not machine.in_blocks:
        raise BadRequestError(
            "Unsupported", f"The instance type {name} is not supported for Capacity Blocks in {region}."
        )
    if days not in world.block_days:
        return []
    hourly = world.edition.on_demand.get((name, region), Decimal(20) / BLOCK_SHARE) * BLOCK_SHARE
    earliest, latest = _time(given.get("StartDateRange")) or world.now, _time(given.get("EndDateRange"))
    first = world.now.replace(hour=11, minute=30, second=0, microsecond=0)
    found = []
    for number, (zone, _) in enumerate(zones_of_type.items()):
        for late in (0, 47) if number == 0 else (0,):
            # blocks end at 11:30; one that begins at 12:17 lasts 47 minutes less than asked, and costs as much less
            start = first + timedelta(days=2 + number, minutes=late)
            end = start + timedelta(hours=hours) - timedelta(minutes=late)
            minutes = int((end - start).total_seconds()) // 60
            if start < earliest or (latest is not None and end > latest):
                continue
            found.append(
                {
                    "CapacityBlockOfferingId": f"cb-{code_of(name, zone, hours, count, late).lower()}0",
                    "InstanceType": name,
                    "AvailabilityZone": zone,
                    "InstanceCount": count,
                    "StartDate": start,
                    "EndDate": end,
                    "CapacityBlockDurationHours": minutes // 60,
                    "UpfrontFee": f"{hourly * count * minutes / 60:.2f}",
                    "CurrencyCode": "USD",
                    "Tenancy": "default",
                    "CapacityBlockDurationMinutes": minutes,
                }
            )
    return found


def _time(value: str | None) -> datetime | None:
    if not value:
        return None
    at = datetime.fromisoformat(value)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
