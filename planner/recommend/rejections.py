"""Rejections, grouped as a person reads them: one line per instance type and reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.recommend.model import Rejection


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectionGroup:
    """All rejections of one type for one reason and subject; `detail` is that of the nearest miss."""

    provider: str
    instance_type: str
    reason: str
    regions: tuple[str, ...]
    purchase_options: tuple[str, ...]
    count: int
    detail: str


def grouped(rejections: Iterable[Rejection]) -> list[RejectionGroup]:
    """Return one group per provider, type, reason and subject (of quotas: each code), ordered by reason, type and provider, whatever the order of the input."""
    groups: dict[tuple[str, str, str, str], list[Rejection]] = {}
    for r in rejections:
        groups.setdefault((r.reason.value, r.instance_type, r.provider, r.subject), []).append(r)
    out = []
    for (reason, instance_type, provider, _), members in sorted(groups.items()):
        nearest = min(members, key=lambda r: (r.shortfall, r.region or "", r.purchase_option or "", r.detail))
        out.append(
            RejectionGroup(
                provider=provider,
                instance_type=instance_type,
                reason=reason,
                regions=tuple(sorted({r.region for r in members if r.region is not None})),
                purchase_options=tuple(sorted({r.purchase_option for r in members if r.purchase_option is not None})),
                count=len(members),
                detail=nearest.detail,
            )
        )
    return out
