"""Service Quotas of EC2: how many vCPUs of which families an account may run at once in a region, on demand and as spot.

An account that never had a value of its own has the default, which for accelerated families is usually 0.

Reference: AWS Service Quotas API, GetServiceQuota and GetAWSDefaultServiceQuota; quota codes of the EC2 user guide, read 2026-11.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime
from typing import Any

from pricing.aws import replies
from pricing.aws.paging import asked
from pricing.aws.session import Aws
from pricing.errors import ReplyError, SourceFailed
from pricing.market import Notice, NoticeKind, Quota
from pricing.quotas import GROUPS, Group
from pricing.source import Ask, Scope, Source, SourceReading

NAME = "quotas"
SOURCE = "AWS Service Quotas"
SERVICE = "ec2"
UNKNOWN = "NoSuchResourceException"


def quotas_source(aws: Aws) -> Source:
    """Return the source of the account's vCPU quotas."""
    return Source(
        name=NAME,
        regional=True,
        needs_credentials=True,
        default=True,
        what="vCPU quotas of the account: what it may start at all",
        permissions=("servicequotas:GetServiceQuota", "servicequotas:GetAWSDefaultServiceQuota"),
        read=lambda ask: read_quotas(aws, ask),
    )


def read_quotas(aws: Aws, ask: Ask) -> SourceReading:
    """Return the quotas of a region, one call for each, a second where the account has the default."""
    if ask.region is None:
        raise ValueError("quotas are asked region by region")
    client = aws.client("service-quotas", ask.region)
    found: list[Quota] = []
    excluded: Counter[str] = Counter()
    notices: list[Notice] = []
    for group in GROUPS:
        applied = True
        reply = fetch_quota(client, "get_service_quota", group.code)
        if reply is None:
            applied = False
            reply = fetch_quota(client, "get_aws_default_service_quota", group.code)
        ask.on_answer()
        if reply is None:
            excluded["quota that the region does not have"] += 1
            continue
        try:
            found.append(parse_quota(reply, group=group, region=ask.region, applied=applied, retrieved_at=ask.at))
        except ReplyError as e:
            excluded["cannot be read"] += 1
            notices.append(Notice(kind=NoticeKind.UNRESOLVED, source=NAME, subject=f"{e.where} {ask.region}", detail=e.why))  # fmt: skip
    return SourceReading(
        source=NAME,
        scope=Scope(provider="aws", region=ask.region, tables=frozenset({"quotas"})),
        retrieved_at=ask.at,
        quotas=tuple(found),
        excluded=dict(excluded),
        notices=tuple(notices),
    )


def fetch_quota(client: Any, operation: str, code: str) -> Any:
    """Return the reply about one quota, or None where there is no such value."""
    try:
        return asked(client, operation, "Quota", source=SOURCE, ServiceCode=SERVICE, QuotaCode=code)
    except SourceFailed as e:
        response = getattr(e.__cause__, "response", None) or {}
        if str(response.get("Error", {}).get("Code", "")).rpartition("#")[2] == UNKNOWN:
            return None
        raise


def parse_quota(reply: Any, *, group: Group, region: str, applied: bool, retrieved_at: datetime) -> Quota:
    """Return one quota in vCPUs. ReplyError where the service says that it cannot tell the value."""
    where = group.code
    row = replies.mapping(reply, source=SOURCE, where=where).get("Quota")
    row = replies.mapping(row, source=SOURCE, where=where)
    if (said := replies.text(row, "QuotaCode", source=SOURCE, where=where)) != group.code:
        raise ReplyError(source=SOURCE, where=where, why=f"the reply is about {said}")
    if row.get("ErrorReason"):
        reason = replies.mapping(row["ErrorReason"], source=SOURCE, where=f"{where} ErrorReason")
        raise ReplyError(
            source=SOURCE, where=where, why=f"has no value: {reason.get('ErrorCode')} {reason.get('ErrorMessage') or ''}".rstrip()
        )  # fmt: skip
    value = row.get("Value")
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise ReplyError(source=SOURCE, where=where, why=f"Value must be a number of vCPUs, not {replies.kind(value)}")
    return Quota(
        provider="aws",
        region=region,
        code=group.code,
        name=replies.text(row, "QuotaName", source=SOURCE, where=where),
        purchase_option=group.purchase_option,
        families=group.families,
        vcpus=float(value),
        applied=applied,
        source=SOURCE,
        retrieved_at=retrieved_at,
    )
