"""DescribeRegions: which regions the account has enabled. Others answer every call with an error about the key.

Reference: AWS EC2 API, DescribeRegions; read 2026-11.
"""

from __future__ import annotations

from typing import Any

from pricing.aws import replies
from pricing.aws.paging import asked
from pricing.aws.session import Aws

SOURCE = "AWS DescribeRegions"
PERMISSION = "ec2:DescribeRegions"
ENABLED = ("opt-in-not-required", "opted-in")


def enabled_regions(aws: Aws, *, partition_of: str = "us-east-1") -> tuple[str, ...]:
    """Return the codes of the regions that the account has enabled, in the partition of a region; raises SourceFailed."""
    client = aws.client("ec2", partition_of)
    return parse_regions(asked(client, "describe_regions", "Regions", source=SOURCE))


def parse_regions(page: Any) -> tuple[str, ...]:
    """Return the codes of the enabled regions, in order. A region that does not say is one that never needed enabling."""
    rows = [replies.mapping(row, source=SOURCE, where="region") for row in replies.rows_of(page, "Regions", source=SOURCE)]  # fmt: skip
    enabled = (row.get("RegionName") for row in rows if row.get("OptInStatus", ENABLED[0]) in ENABLED)
    return tuple(sorted(name for name in enabled if name))
