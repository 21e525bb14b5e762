"""Whether an account may start a number of instances at all: its vCPU quotas against what they need. Pure.

A quota counts the vCPUs of some families, all sizes together, in one region: a p5.48xlarge takes 192 of it, a g5.xlarge 4. What runs
already counts as well and is not known here, so "may" means: if nothing else of these families runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pricing.market import Quota
from pricing.model import InstanceType, PurchaseOption

COUNTED_AS = {
    PurchaseOption.ON_DEMAND: PurchaseOption.ON_DEMAND,
    PurchaseOption.SAVINGS_PLAN_1YR: PurchaseOption.ON_DEMAND,  # a commitment changes the bill, not what is started
    PurchaseOption.SAVINGS_PLAN_3YR: PurchaseOption.ON_DEMAND,
    PurchaseOption.RESERVED_1YR: PurchaseOption.ON_DEMAND,
    PurchaseOption.RESERVED_3YR: PurchaseOption.ON_DEMAND,
    PurchaseOption.SPOT: PurchaseOption.SPOT,
}
"""Purchase option -> which sort of quota counts it. Capacity Blocks have quotas of their own, owned machines none."""


@dataclass(frozen=True, slots=True)
class Group:
    """Families that one quota counts."""

    code: str
    purchase_option: PurchaseOption
    families: str  # prefixes, comma-separated, as `counts` reads them


STANDARD = "a,c,d,h,i,im,is,m,r,t,z"
GROUPS = (
    Group("L-417A185B", PurchaseOption.ON_DEMAND, "p"),
    Group("L-7212CCBC", PurchaseOption.SPOT, "p2,p3,p4"),
    Group("L-C4BD4855", PurchaseOption.SPOT, "p5,p6"),  # named after P5; later ones count here too
    Group("L-DB2E81BA", PurchaseOption.ON_DEMAND, "g,gr,vt"),
    Group("L-3819A6DF", PurchaseOption.SPOT, "g,gr,vt"),
    Group("L-2C3B7624", PurchaseOption.ON_DEMAND, "trn"),
    Group("L-6B0D517C", PurchaseOption.SPOT, "trn"),
    Group("L-1945791B", PurchaseOption.ON_DEMAND, "inf"),
    Group("L-B5D1601B", PurchaseOption.SPOT, "inf"),
    Group("L-6E869C2A", PurchaseOption.ON_DEMAND, "dl"),
    Group("L-85EED4F7", PurchaseOption.SPOT, "dl"),
    Group("L-1216C47A", PurchaseOption.ON_DEMAND, STANDARD),
    Group("L-34B43A08", PurchaseOption.SPOT, STANDARD),
)
"""The vCPU quotas of EC2. Reference: quota codes of the EC2 user guide, read 2026-11."""


def counts(quota: Quota | Group, family: str) -> bool:
    """Return whether a quota counts a family: prefix "p" counts p5en, "p4" counts p4de, and "t" does not count trn1."""
    return any(_begins(family, prefix.strip()) for prefix in quota.families.split(","))


def quota_for(
    quotas: Iterable[Quota], instance: InstanceType, *, region: str, purchase_option: PurchaseOption
) -> Quota | None:
    """Return the quota that an instance type falls under, the smallest of several; None where none is known or none applies."""
    sort = COUNTED_AS.get(purchase_option)
    found = [
        quota
        for quota in quotas
        if quota.provider == instance.provider
        and quota.region == region
        and quota.purchase_option is sort
        and counts(quota, instance.family)
    ]
    return min(found, key=lambda quota: (quota.vcpus, quota.code), default=None)


def groups_of(family: str) -> tuple[Group, ...]:
    """Return the quotas of AWS that count a family, by their codes: they are known before an account was asked for its values."""
    return tuple(group for group in GROUPS if counts(group, family))


def instances_possible(quota: Quota, vcpus: int) -> int:
    """Return how many instances of `vcpus` each an account may run at once under a quota."""
    if vcpus < 1:
        raise ValueError(f"an instance has at least one vCPU, got {vcpus!r}")
    return int(quota.vcpus // vcpus)


def shortage(quota: Quota, vcpus: int, instances: int = 1) -> str | None:
    """Return why a number of instances may not be started, with the figures; None when they may."""
    if instances <= instances_possible(quota, vcpus):
        return None
    return (
        f"needs {vcpus * instances:,} vCPU of {quota.code}, the account may run {quota.vcpus:,g}: ask for an increase"
    )


def verdict(quota: Quota, vcpus: int, instances: int = 1) -> str:
    """Return in a sentence whether a number of instances may be started."""
    if (short := shortage(quota, vcpus, instances)) is not None:
        return short
    return f"may start: needs {vcpus * instances:,} of {quota.vcpus:,g} vCPU of {quota.code}, if nothing else of it is in use"


def _begins(family: str, prefix: str) -> bool:
    """Return whether a family is one of a prefix: after a letter comes the generation, after a generation no further digit."""
    rest = family.removeprefix(prefix)
    if not prefix or rest == family:
        return False
    return not rest[:1].isdigit() if prefix[-1].isdigit() else rest[:1].isdigit()
