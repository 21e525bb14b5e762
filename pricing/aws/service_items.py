"""Which thing of a cost plan a product of the price list is: told by its usage type, and Lustre by its attributes.

A usage type begins with its region's prefix ("EUC1-EBS:VolumeUsage.gp3"; us-east-1 has none). Items and units are those of the shipped table.

Reference: AWS price list, products of AmazonEC2, AmazonVPC, AmazonS3, AmazonFSx and AWSDataTransfer; read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pricing.aws.product import Product

SERVICES = EBS, S3, FSX, NAT, IPV4, TRANSFER = (
    "EBS",
    "S3",
    "FSx for Lustre",
    "NAT gateway",
    "public IPv4 address",
    "data transfer",
)
TO_INTERNET = "out to internet"
ONE_AREA = frozenset({"us-east-1", "us-east-2"})
"""Virginia and Ohio: the pair that pays less between each other than to other regions."""

NOT_NEEDED = "usage that no cost line needs"
PREFIX = re.compile(r"[A-Z]{2,4}[0-9]?-(?=[A-Z])")
ITEMS: Mapping[str, tuple[str, str, str]] = {
    "EBS:VolumeUsage.gp3": (EBS, "gp3 storage", "GB-month"),
    "EBS:VolumeP-IOPS.gp3": (EBS, "gp3 provisioned IOPS above 3000", "IOPS-month"),
    "EBS:VolumeP-Throughput.gp3": (EBS, "gp3 provisioned throughput above 125 MB/s", "MB/s-month"),
    "EBS:VolumeUsage.gp2": (EBS, "gp2 storage", "GB-month"),
    "EBS:VolumeUsage.io2": (EBS, "io2 storage", "GB-month"),
    "EBS:VolumeP-IOPS.io2": (EBS, "io2 provisioned IOPS up to 32000", "IOPS-month"),
    "EBS:VolumeP-IOPS.io2.tier2": (EBS, "io2 provisioned IOPS 32001 to 64000", "IOPS-month"),
    "EBS:VolumeP-IOPS.io2.tier3": (EBS, "io2 provisioned IOPS above 64000", "IOPS-month"),
    "EBS:VolumeUsage.piops": (EBS, "io1 storage", "GB-month"),
    "EBS:VolumeUsage.st1": (EBS, "st1 storage", "GB-month"),
    "EBS:SnapshotUsage": (EBS, "snapshot storage", "GB-month"),
    "NatGateway-Hours": (NAT, "hour", "hour"),
    "NatGateway-Bytes": (NAT, "data processed", "GB"),
    "PublicIPv4:InUseAddress": (IPV4, "in use or idle", "hour"),
    "TimedStorage-ByteHrs": (S3, "Standard storage", "GB-month"),
    "TimedStorage-SIA-ByteHrs": (S3, "Standard - infrequent access storage", "GB-month"),
    "TimedStorage-GDA-ByteHrs": (S3, "Glacier Deep Archive storage", "GB-month"),
    "Requests-Tier1": (S3, "Standard PUT, COPY, POST, LIST requests", "1000 requests"),
    "Requests-Tier2": (S3, "Standard GET and other requests", "1000 requests"),
    "DataTransfer-Out-Bytes": (TRANSFER, TO_INTERNET, "GB"),
    "DataTransfer-Regional-Bytes": (
        TRANSFER,
        "across availability zones in one region (each direction)",
        "GB",
    ),  # a GB that crosses is paid on both sides
}
"""Usage type without prefix -> service, item and unit as in the shipped table."""
LUSTRE = {"SSD": {"50": 1, "100": 1, "125": 2, "250": 2, "500": 2, "1000": 2}, "HDD": {"12": 1, "40": 1}}
"""MB/s per TiB -> generation of the persistent file system that has it. 200 is both a scratch and a persistent one."""


def thing_of(product: Product, region: str) -> tuple[str, str, str] | str:
    """Return service, item and unit of what a product prices, or why it is nothing that a plan pays for in this region."""
    get = product.attributes.get
    transfer = get("servicecode") == "AWSDataTransfer"
    if (get("fromRegionCode") if transfer else product.region) != region:
        return "of another region"
    if (sort := get("fromLocationType" if transfer else "locationType")) != "AWS Region":
        return f"locationType {sort or 'missing'}"
    if get("servicecode") == "AmazonFSx":
        return _lustre(product)
    usage = str(get("usagetype") or "")
    if transfer and get("transferType") == "InterRegion Outbound":
        return _between_regions(product, usage, region)
    if transfer and get("transferType") == "AWS Outbound" and (to := get("toLocation")) != "External":
        return f"data transfer to {to or 'a place that is not named'}"
    return ITEMS.get(PREFIX.sub("", usage, count=1), NOT_NEEDED)


def _lustre(product: Product) -> tuple[str, str, str] | str:
    """Return what a Lustre row prices: usage types vary, its attributes say what it is."""
    get = product.attributes.get
    speed = re.match(r"[0-9]+", str(get("throughputCapacity") or ""))
    storage, deployment = str(get("storageType") or ""), str(get("deploymentOption") or "").casefold()
    if get("fileSystemType") != "Lustre" or product.family != "Storage" or speed is None:
        return NOT_NEEDED
    if "scratch" in deployment and storage == "SSD":
        return FSX, f"scratch 2 SSD {speed[0]} MB/s per TiB", "GB-month"
    generation = LUSTRE.get(storage, {}).get(speed[0])
    if generation is None:
        return f"{FSX} {storage} {speed[0]} MB/s per TiB: which deployment is not told"
    return FSX, f"persistent {generation} {storage} {speed[0]} MB/s per TiB", "GB-month"


def _between_regions(product: Product, usage: str, region: str) -> tuple[str, str, str] | str:
    """Return what a row of data transfer to another region prices."""
    get = product.attributes.get
    to = get("toRegionCode")
    if not usage.endswith("-AWS-Out-Bytes"):
        return NOT_NEEDED  # S3's acceleration and others
    if not to or get("toLocationType") != "AWS Region":
        return f"data transfer to a {get('toLocationType') or 'place that is not named'}"
    if {region, to} == ONE_AREA:
        return TRANSFER, f"between {min(ONE_AREA)} and {max(ONE_AREA)}", "GB"
    return TRANSFER, f"out to {to}", "GB"
