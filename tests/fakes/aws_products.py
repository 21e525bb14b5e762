# ruff: noqa: PLR0917 - rows of a table, each in a line
"""The price list of the small world: product documents as GetProducts answers them, trap rows among them.

A reader that wants the one Linux price of a machine meets, for every machine, the rows of other systems, tenancies and reservations,
and single rows that are worse. Each trap has a comment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from .aws_world import MACHINES, REGIONS, Edition, Machine, World, code_of, wire_time

Product = dict[str, Any]

ON_DEMAND_TERM = "JRTCKXETXF"
HOURLY, UPFRONT = "6YS6EN2CT7", "2TG2D8R56U"
RESERVED = {
    # (years, class, payment): (term code, share of on-demand that it comes to, all invented)
    (1, "standard", "No Upfront"): ("4NA7Y494T4", "0.63"),
    (1, "standard", "Partial Upfront"): ("HU7G6KETJZ", "0.60"),
    (1, "standard", "All Upfront"): ("6QCMYABX3D", "0.58"),
    (3, "standard", "No Upfront"): ("BPH4J8HBKS", "0.43"),
    (3, "standard", "Partial Upfront"): ("38NPMPTW36", "0.40"),
    (3, "standard", "All Upfront"): ("NQ3QZPMQV9", "0.38"),
    (1, "convertible", "No Upfront"): ("7NE97W5U4E", "0.72"),
    (1, "convertible", "Partial Upfront"): ("CUZHX8X6JH", "0.70"),
    (1, "convertible", "All Upfront"): ("VJWZNREJX2", "0.69"),
    (3, "convertible", "No Upfront"): ("Z2E3P23VKM", "0.50"),
    (3, "convertible", "Partial Upfront"): ("R5XV2EPQQZ", "0.47"),
    (3, "convertible", "All Upfront"): ("MZU6U2429S", "0.45"),
}
RESERVED_SINCE = "2023-04-01T00:00:00Z"
"""Terms keep the day on which they were first sold; years ago is not stale."""
DISCLAIMER = "This pricing list is for informational purposes only. All prices are subject to the additional terms included in the pricing pages."


def products(world: World, service: str, *, china: bool = False, edition: Edition | None = None) -> list[Product]:
    """Return every document of a service, in an order that means nothing. China is another partition with its own list, in CNY."""
    edition = edition or world.edition
    maker = {"AmazonEC2": _ec2, "AmazonS3": _s3, "AWSDataTransfer": _transfer, "AmazonFSx": _fsx, "AmazonVPC": _vpc}[
        service
    ]
    found = [p for p in maker(world, edition) if _china(p) == china]
    return sorted(found, key=lambda p: code_of("order", p["product"]["sku"]))


SERVICES = ("AWSDataTransfer", "AmazonEC2", "AmazonFSx", "AmazonS3", "AmazonVPC")


def attribute(product: Product, name: str) -> str | None:
    """Return what a filter on a field compares with; None where the product lacks it, and then nothing matches."""
    if name == "productFamily":
        return product["product"].get("productFamily")
    if name == "sku":
        return str(product["product"]["sku"])
    return product["product"]["attributes"].get(name)


def region_of(product: Product) -> str | None:
    """Return the region in whose file a product is listed: a Local Zone's in that of its parent."""
    attributes = product["product"]["attributes"]
    code = attributes.get("regionCode") or attributes.get("fromRegionCode") or attributes.get("toRegionCode")
    return next((region for region in REGIONS if code and code.startswith(region)), None)


def _china(product: Product) -> bool:
    return (region_of(product) or "").startswith("cn-")


def document(edition: Edition, service: str, sku: str, family: str | None, attributes: dict[str, str], terms: dict[str, Any]) -> Product:  # fmt: skip
    """Return one document; `terms` by sort ("OnDemand", "Reserved")."""
    product: dict[str, Any] = {"sku": sku, "attributes": attributes}
    if family is not None:
        product["productFamily"] = family
    return {
        "product": product,
        "serviceCode": service,
        "terms": {sort: found for sort, found in terms.items() if found},
        "version": edition.version,
        "publicationDate": edition.published,
    }


def dimension(code: str, unit: str, price: str | Decimal | None, currency: str, description: str, start: str | None = "0", end: str | None = "Inf") -> dict[str, Any]:  # fmt: skip
    """Return one rate; `price` None is a rate that names no price."""
    found: dict[str, Any] = {"unit": unit, "description": description, "appliesTo": [], "rateCode": code}
    if end is not None:
        found["endRange"] = end
    if start is not None:
        found["beginRange"] = start
    padded = "" if price is None else f"{Decimal(price):.10f}"
    found["pricePerUnit"] = {} if price is None else {currency: padded if unit != "Quantity" else str(price)}
    return found


def term(sku: str, code: str, since: datetime | str, dimensions: dict[str, dict[str, Any]], attributes: dict[str, str] | None = None) -> dict[str, Any]:  # fmt: skip
    """Return one term under its key."""
    start = since if isinstance(since, str) else wire_time(since)
    return {
        f"{sku}.{code}": {
            "priceDimensions": dimensions,
            "sku": sku,
            "effectiveDate": start,
            "offerTermCode": code,
            "termAttributes": attributes or {},
        }
    }


def on_demand(sku: str, unit: str, price: str | Decimal | None, since: datetime | str, currency: str, description: str) -> dict[str, Any]:  # fmt: skip
    """Return the on-demand term of one rate."""
    code = f"{sku}.{ON_DEMAND_TERM}.{HOURLY}"
    return term(sku, ON_DEMAND_TERM, since, {code: dimension(code, unit, price, currency, description)})


def tiered(sku: str, unit: str, tiers: tuple[tuple[str, str, str], ...], since: datetime, currency: str, description: str) -> dict[str, Any]:  # fmt: skip
    """Return the on-demand term of a price in tiers: (from, to, price)."""
    rates = {}
    for number, (start, end, price) in enumerate(tiers):
        code = f"{sku}.{ON_DEMAND_TERM}.{HOURLY if number == 0 else code_of('tier', number, length=10)}"
        rates[code] = dimension(code, unit, price, currency, description, start, end)
    return term(sku, ON_DEMAND_TERM, since, dict(reversed(rates.items())))  # the first tier is not listed first


def reserved(sku: str, price: Decimal, currency: str) -> dict[str, Any]:
    """Return all twelve reservations of a machine at this on-demand price, and one of a sort that is no longer sold."""
    found: dict[str, Any] = {}
    for (years, kind, payment), (code, share) in RESERVED.items():
        hourly_code, upfront_code = f"{sku}.{code}.{HOURLY}", f"{sku}.{code}.{UPFRONT}"
        part = {"No Upfront": "0", "Partial Upfront": "0.5", "All Upfront": "1"}[payment]
        fee = (price * Decimal(share) * Decimal(part) * 8760 * years).to_integral_value(ROUND_FLOOR)
        hourly = (price * Decimal(share) * (1 - Decimal(part))).quantize(Decimal("0.00001"))
        rates = {hourly_code: dimension(hourly_code, "Hrs", hourly, currency, f"{payment} {years} yr")}
        if payment != "No Upfront":
            # the fee comes before the hourly rate here: order says nothing, the unit does. All Upfront has an hourly rate of 0 as well
            fee_rate = dimension(upfront_code, "Quantity", fee, currency, "Upfront Fee", None, None)
            rates = {upfront_code: fee_rate, **rates}
        given = {"LeaseContractLength": f"{years}yr", "OfferingClass": kind, "PurchaseOption": payment}
        found |= term(sku, code, RESERVED_SINCE, rates, given)
    # a utilisation class of before 2014
    old = f"{sku}.OLDHEAVY01.{HOURLY}"
    given = {"LeaseContractLength": "1yr", "OfferingClass": "standard", "PurchaseOption": "Heavy Utilization"}
    return found | term(sku, "OLDHEAVY01", "2012-01-01T00:00:00Z", {old: dimension(old, "Hrs", "0.001", currency, "Heavy Utilization")}, given)  # fmt: skip


def _machine_attributes(machine: Machine, region: str, **change: str) -> dict[str, str]:
    location, prefix = REGIONS[region]
    kind = {"gpu": "GPU instance", "neuron": "Machine Learning ASIC Instances", "media": "Media Accelerator Instances"}
    found = {
        "enhancedNetworkingSupported": "Yes",
        # a comma in the thousands, as older rows write it
        "memory": "1,152 GiB" if machine.name == "p4d.24xlarge" else f"{machine.memory_gib} GiB",
        "vcpu": str(machine.vcpus),
        "capacitystatus": "Used",
        "locationType": "AWS Region",
        "storage": f"{machine.disks} x {machine.disk_gb} NVMe SSD" if machine.disks else "EBS only",
        "instanceFamily": kind[machine.kind] if machine.chip else "General purpose",
        "operatingSystem": "Linux",
        "regionCode": region,
        "physicalProcessor": machine.physical,
        "networkPerformance": machine.network,
        "servicename": "Amazon Elastic Compute Cloud",
        "instanceType": machine.name,
        "tenancy": "Dedicated" if machine.metal else "Shared",  # bare metal is listed as Dedicated alone
        "usagetype": f"{prefix}{'DedicatedUsage' if machine.metal else 'BoxUsage'}:{machine.name}",
        "normalizationSizeFactor": {"xlarge": "8", "2xlarge": "16", "large": "4"}.get(machine.size, "NA"),
        "servicecode": "AmazonEC2",
        "licenseModel": "No License required",
        "currentGeneration": "Yes",
        "preInstalledSw": "NA",
        "location": location,
        "processorArchitecture": "64-bit",
        "marketoption": "OnDemand",
        "operation": "RunInstances",
        "availabilityzone": "NA",
    }
    if machine.kind == "gpu" and machine.chip and machine.count:
        found["gpu"] = str(machine.count)  # absent for CPU types, for Neuron and for parts of a GPU
    if machine.gpu_memory_text is not None:
        found["gpuMemory"] = machine.gpu_memory_text  # free text, "NA" or a bare number; the total of all GPUs
    return found | change


def _ec2(world: World, edition: Edition) -> Iterator[Product]:
    for (name, region), price in edition.on_demand.items():
        yield from _rows_of(world, edition, MACHINES[name], region, price)
    yield from _single_traps(world, edition)
    yield from _ec2_storage(world, edition)


def _rows_of(world: World, edition: Edition, machine: Machine, region: str, price: Decimal) -> Iterator[Product]:
    """Yield the one plain row of a machine and everything that looks like it."""
    currency = "CNY" if region.startswith("cn-") else "USD"
    prefix = REGIONS[region][1]
    family = "Compute Instance (bare metal)" if machine.metal else "Compute Instance"
    name, vcpus = machine.name, Decimal(machine.vcpus)
    plain_sku = code_of("plain", name, region)

    def row(what: str, amount: Decimal | str, **change: str) -> Product:
        sku = plain_sku if what == "plain" else code_of(what, name, region)
        amount = Decimal(amount)
        sold = {"OnDemand": on_demand(sku, "Hrs", amount, world.since, currency, f"${amount} per {what} {name} Instance Hour")}  # fmt: skip
        if what == "plain" and machine.family != "p5en":  # p5en has no reservations at all
            sold["Reserved"] = reserved(sku, amount, currency)
        return document(edition, "AmazonEC2", sku, family, _machine_attributes(machine, region, **change), sold)

    yield row("plain", price)
    # other systems: the fee is in the price
    yield row("Windows", price + Decimal("0.046") * vcpus, operatingSystem="Windows", operation="RunInstances:0002")
    if machine.metal:
        return
    yield row("RHEL", price + Decimal("0.0288") * vcpus, operatingSystem="RHEL", operation="RunInstances:0010")
    yield row("SUSE", price + Decimal("0.125"), operatingSystem="SUSE", operation="RunInstances:000g")
    yield row("Ubuntu Pro", price + Decimal("0.00175") * vcpus, operatingSystem="Ubuntu Pro", operation="RunInstances:0g00")  # fmt: skip
    # Windows with its own licence: at the Linux price
    yield row("BYOL", price, operatingSystem="Windows", licenseModel="Bring your own license", operation="RunInstances:0800")  # fmt: skip
    # SQL Server on Linux: operatingSystem is Linux all the same
    yield row("SQL Web", price + Decimal("0.0169") * vcpus, preInstalledSw="SQL Web", operation="RunInstances:0200")
    # a machine of one's own: dearer; on a host that is paid for already: 0
    yield row("Dedicated", price * Decimal("1.06"), tenancy="Dedicated", usagetype=f"{prefix}DedicatedUsage:{name}")
    yield row("Host", "0", tenancy="Host", usagetype=f"{prefix}HostBoxUsage:{name}")
    # a reservation of capacity: 0 while it is used, the full price while nothing runs in it
    yield row("Reservation", "0", capacitystatus="AllocatedCapacityReservation", usagetype=f"{prefix}Reservation:{name}", instancesku=plain_sku)  # fmt: skip
    yield row("UnusedBox", price, capacitystatus="UnusedCapacityReservation", usagetype=f"{prefix}UnusedBox:{name}", instancesku=plain_sku)  # fmt: skip
    if machine.in_blocks:
        # a capacity block: the system's fee alone, under the usage type of plain use
        yield row("Block", "0", marketoption="CapacityBlock", operation="RunInstances:CB")
        yield row("Block Ubuntu Pro", Decimal("0.00175") * vcpus, operatingSystem="Ubuntu Pro", marketoption="CapacityBlock", operation="RunInstances:0g00:CB")  # fmt: skip


def _single_traps(world: World, edition: Edition) -> Iterator[Product]:
    def row(what: str, name: str, region: str, terms: dict[str, Any] | None, *, family: str | None = "Compute Instance", **change: str) -> Product:  # fmt: skip
        attributes = _machine_attributes(MACHINES[name], region, **change)
        return document(edition, "AmazonEC2", code_of(what, name, region), family, attributes, terms or {})

    def hourly(what: str, name: str, region: str, price: str | None, since: datetime) -> dict[str, Any]:
        return {"OnDemand": on_demand(code_of(what, name, region), "Hrs", price, since, "USD", what)}

    here, listed = "us-east-1", edition.on_demand

    def there(name: str, region: str = here) -> bool:
        return (name, region) in listed

    if there("g6e.xlarge"):  # a second SKU of plain use whose price begins in sixty days
        later = world.now + timedelta(days=60)
        yield row("future", "g6e.xlarge", here, hourly("future", "g6e.xlarge", here, "1.5", later))
    if there("g5.2xlarge"):  # a second SKU of plain use at 0
        yield row("zero twin", "g5.2xlarge", here, hourly("zero twin", "g5.2xlarge", here, "0", world.since))
    if there("g6.xlarge"):  # last year's SKU of plain use, still listed
        before = world.since - timedelta(days=365)
        yield row("older", "g6.xlarge", here, hourly("older", "g6.xlarge", here, "0.9", before))
    if there("p4de.24xlarge"):  # a SKU of plain use without any term
        yield row("no terms", "p4de.24xlarge", here, {})
    if there("p4d.24xlarge"):  # a SKU of plain use whose rate names no price
        yield row("no price", "p4d.24xlarge", here, hourly("no price", "p4d.24xlarge", here, None, world.since))
    if there("g4dn.xlarge"):
        # a product without a family
        yield row("no family", "g4dn.xlarge", here, hourly("no family", "g4dn.xlarge", here, "0.3", world.since), family=None)  # fmt: skip
        # a Wavelength zone
        yield row("wavelength", "g4dn.xlarge", here, hourly("wavelength", "g4dn.xlarge", here, "0.71", world.since),
                  regionCode="us-east-1-wl1", location="US East (Verizon) - Boston", locationType="AWS Wavelength Zone", usagetype="USE1WL1-BoxUsage:g4dn.xlarge")  # fmt: skip
    if there("g4dn.xlarge", "us-west-2"):  # a Local Zone
        yield row("local zone", "g4dn.xlarge", "us-west-2", hourly("local zone", "g4dn.xlarge", "us-west-2", "0.631", world.since),
                  regionCode="us-west-2-lax-1", location="US West (Los Angeles)", locationType="AWS Local Zone", usagetype="LAX1-BoxUsage:g4dn.xlarge")  # fmt: skip
    if there("p5.48xlarge"):  # a block's row of before the attribute marketoption: the operation tells
        old = row("old block", "p5.48xlarge", here, hourly("old block", "p5.48xlarge", here, "0", world.since), operation="RunInstances:CB")  # fmt: skip
        del old["product"]["attributes"]["marketoption"]
        yield old
    # a machine sold in blocks alone: rows of 0, and no price of its own
    yield row("Block", "trn2.48xlarge", here, hourly("Block", "trn2.48xlarge", here, "0", world.since), marketoption="CapacityBlock", operation="RunInstances:CB")  # fmt: skip
    for family, price in (("g5", "6.1618"), ("p5", "60.544")):  # hosts: the "type" is a family
        if any(name.startswith(f"{family}.") and region == here for name, region in listed):
            sku = code_of("host", family, here)
            attributes = _machine_attributes(MACHINES[f"{family}.{'xlarge' if family == 'g5' else '48xlarge'}"], here) | {
                "instanceType": family, "tenancy": "Host", "usagetype": f"HostUsage:{family}", "memory": "NA", "storage": "NA", "capacitystatus": "AllocatedHost",
            }  # fmt: skip
            sold = {"OnDemand": on_demand(sku, "Hrs", price, world.since, "USD", f"{family} Dedicated Host hour")}
            yield document(edition, "AmazonEC2", sku, "Dedicated Host", attributes, sold)


PLACES = ("us-east-1", "us-west-2", "eu-central-1")


def _priced(world: World, edition: Edition, service: str, name: str, region: str, family: str, unit: str, tiers: tuple[tuple[str, str, str], ...] | str, usage: str, attributes: dict[str, str]) -> Product:  # fmt: skip
    """Return one product of storage or traffic; every region but us-east-1 has an invented price, a tenth dearer in Europe."""
    location, prefix = REGIONS[region]
    factor = Decimal("1.1") if region.startswith("eu-") else Decimal(1)
    rows = (("0", "Inf", tiers),) if isinstance(tiers, str) else tiers
    scaled = tuple((start, end, f"{Decimal(price) * factor:.10f}") for start, end, price in rows)
    sku = code_of(service, usage, region)
    place = {"regionCode": region, "location": location, "locationType": "AWS Region"}
    if service == "AWSDataTransfer":
        place = {}  # these have fromRegionCode and toRegionCode instead
    own = {"servicecode": service, "servicename": name, "usagetype": f"{prefix}{usage}", "operation": ""}
    sold = {"OnDemand": tiered(sku, unit, scaled, world.since, "USD", f"{usage} in {location}")}
    return document(edition, service, sku, family, place | own | attributes, sold)


def _ec2_storage(world: World, edition: Edition) -> Iterator[Product]:
    name = "Amazon Elastic Compute Cloud"
    for region in PLACES:

        def row(family: str, unit: str, price: str, usage: str, region: str = region, **more: str) -> Product:
            return _priced(world, edition, "AmazonEC2", name, region, family, unit, price, usage, more)

        yield row("Storage", "GB-Mo", "0.10", "EBS:VolumeUsage.gp2", volumeApiName="gp2", volumeType="General Purpose", storageMedia="SSD-backed")  # fmt: skip
        # three products share volumeApiName gp3: capacity, operations, throughput. The last is per GiB/s a month: 40.96 = 0.04 x 1024
        yield row("Storage", "GB-Mo", "0.08", "EBS:VolumeUsage.gp3", volumeApiName="gp3", volumeType="General Purpose", storageMedia="SSD-backed")  # fmt: skip
        yield row("System Operation", "IOPS-Mo", "0.005", "EBS:VolumeP-IOPS.gp3", volumeApiName="gp3", group="EBS IOPS", provisioned="Yes")  # fmt: skip
        yield row("Provisioned Throughput", "GiBps-mo", "40.96", "EBS:VolumeP-Throughput.gp3", volumeApiName="gp3", group="EBS Throughput", provisioned="Yes")  # fmt: skip
        yield row("Storage Snapshot", "GB-Mo", "0.05", "EBS:SnapshotUsage", storageMedia="Amazon S3")
        yield row("NAT Gateway", "Hrs", "0.045", "NatGateway-Hours", group="NGW:NatGateway", groupDescription="Hourly charge for NAT Gateways", operation="NatGateway")  # fmt: skip
        yield row("NAT Gateway", "GB", "0.045", "NatGateway-Bytes", group="NGW:NatGateway", groupDescription="Charge for per GB data processed by NatGateways", operation="NatGateway")  # fmt: skip


def _s3(world: World, edition: Edition) -> Iterator[Product]:
    name = "Amazon Simple Storage Service"
    tiers = (("0", "51200", "0.023"), ("51200", "512000", "0.022"), ("512000", "Inf", "0.021"))
    for region in PLACES:
        yield _priced(world, edition, "AmazonS3", name, region, "Storage", "GB-Mo", tiers, "TimedStorage-ByteHrs", {"storageClass": "General Purpose", "volumeType": "Standard"})  # fmt: skip
        # per one request: ten decimals matter
        yield _priced(world, edition, "AmazonS3", name, region, "API Request", "Requests", "0.000005", "Requests-Tier1", {"group": "S3-API-Tier1", "groupDescription": "PUT/COPY/POST or LIST requests"})  # fmt: skip
        yield _priced(world, edition, "AmazonS3", name, region, "API Request", "Requests", "0.0000004", "Requests-Tier2", {"group": "S3-API-Tier2", "groupDescription": "GET and all other requests"})  # fmt: skip


def _transfer(world: World, edition: Edition) -> Iterator[Product]:
    tiers = (
        ("0", "10240", "0.09"),
        ("10240", "51200", "0.085"),
        ("51200", "153600", "0.07"),
        ("153600", "Inf", "0.05"),
    )
    for region in PLACES:
        location = REGIONS[region][0]
        source = {"fromLocation": location, "fromLocationType": "AWS Region", "fromRegionCode": region}
        outside = {"toLocation": "External", "toLocationType": "Other"}

        def row(usage: str, prices: Any, kind: str, more: dict[str, str], region: str = region) -> Product:
            return _priced(world, edition, "AWSDataTransfer", "AWS Data Transfer", region, "Data Transfer", "GB", prices, usage, {"transferType": kind, **more})  # fmt: skip

        yield row("DataTransfer-Out-Bytes", tiers, "AWS Outbound", source | outside)
        # each direction: a gigabyte between zones costs twice this
        yield row("DataTransfer-Regional-Bytes", "0.01", "IntraRegion", source | {"toLocation": location, "toLocationType": "AWS Region", "toRegionCode": region})  # fmt: skip
        # inwards is free: a price of 0 that is true
        yield row("DataTransfer-In-Bytes", "0", "AWS Inbound", {"fromLocation": "External", "fromLocationType": "Other", "toLocation": location, "toLocationType": "AWS Region", "toRegionCode": region})  # fmt: skip
    far = {"toLocation": REGIONS["us-west-2"][0], "toLocationType": "AWS Region", "toRegionCode": "us-west-2"}
    near = {"fromLocation": REGIONS["us-east-1"][0], "fromLocationType": "AWS Region", "fromRegionCode": "us-east-1"}
    yield _priced(world, edition, "AWSDataTransfer", "AWS Data Transfer", "us-east-1", "Data Transfer", "GB", "0.02", "USE1-USW2-AWS-Out-Bytes", {"transferType": "InterRegion Outbound", **near, **far})  # fmt: skip


def _fsx(world: World, edition: Edition) -> Iterator[Product]:
    for region in PLACES:
        for throughput, price in (("125", "0.145"), ("250", "0.210"), ("500", "0.340"), ("1000", "0.600")):
            given = {"fileSystemType": "Lustre", "storageType": "SSD", "deploymentOption": "Single-AZ", "throughputCapacity": throughput}  # fmt: skip
            yield _priced(world, edition, "AmazonFSx", "Amazon FSx", region, "Storage", "GB-Mo", price, f"Lustre-SSD-Storage-{throughput}", given)  # fmt: skip


def _vpc(world: World, edition: Edition) -> Iterator[Product]:
    for region in PLACES:
        given = {"group": "VPCPublicIPv4Address", "groupDescription": "Hourly charge for In-use Public IPv4 Addresses"}
        yield _priced(world, edition, "AmazonVPC", "Amazon Virtual Private Cloud", region, "VpcPublicIPv4Address", "Hrs", "0.005", "PublicIPv4:InUseAddress", given)  # fmt: skip


def texts(found: list[Product]) -> list[str]:
    """Return documents as the texts that PriceList holds."""
    return [json.dumps(p, separators=(",", ":")) for p in found]
