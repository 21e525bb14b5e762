"""Which instance types come into question: what the request names, leaves out and needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.perf.model import RejectionReason
from planner.recommend.model import Rejection
from pricing.model import InstanceType, InterconnectKind

FAST_LINKS = frozenset({InterconnectKind.NVLINK, InterconnectKind.NVSWITCH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Names already resolved against the catalog: canonical chips, exact types and families. Empty = no restriction."""

    instances: frozenset[str] = frozenset()
    accelerators: frozenset[str] = frozenset()
    excluded_types: frozenset[str] = frozenset()
    excluded_families: frozenset[str] = frozenset()
    excluded_accelerators: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()

    def names(self, instance: InstanceType) -> bool:
        """Return whether the request's `instance` and `accelerator` lists let a type in."""
        if self.instances and instance.instance_type not in self.instances:
            return False
        return not self.accelerators or instance.accelerator in self.accelerators

    def why_excluded(self, instance: InstanceType) -> str | None:
        """Return why a type that is named is left out all the same, or None."""
        if instance.instance_type in self.excluded_types:
            return "excluded by name"
        if instance.family in self.excluded_families:
            return f"family {instance.family} is excluded"
        if instance.accelerator in self.excluded_accelerators:
            return f"{instance.accelerator} is excluded"
        lacking = [text for need in self.needs if (text := why_lacking(instance, need)) is not None]
        return "; ".join(lacking) or None


def why_lacking(instance: InstanceType, need: str) -> str | None:
    """Return how an instance type falls short of a need, or None when it has it."""
    if need == "nvlink" and instance.interconnect_kind not in FAST_LINKS:
        what = (
            "a single accelerator"
            if instance.device_count == 1
            else f"links its accelerators by {instance.interconnect_kind.value}"
        )
        return f"needs nvlink: {what}"
    if need == "efa" and not instance.efa_supported:
        return "needs efa: not supported"
    if need == "local-nvme" and not instance.local_nvme_gb:
        return "needs local-nvme: " + ("none" if instance.local_nvme_gb == 0 else "none is known")
    return None


def select(
    types: Iterable[InstanceType], filters: Filters, *, options: Sequence[str], regions_of: dict[str, tuple[str, ...]]
) -> tuple[list[InstanceType], list[Rejection]]:
    """Return the types that come into question, and a rejection per region and option for each that is named but excluded."""
    kept: list[InstanceType] = []
    out: list[Rejection] = []
    for instance in types:
        if not filters.names(instance):
            continue
        why = filters.why_excluded(instance)
        if why is None:
            kept.append(instance)
            continue
        out.extend(
            Rejection(
                provider=instance.provider,
                instance_type=instance.instance_type,
                reason=RejectionReason.EXCLUDED,
                region=region,
                purchase_option=option,
                detail=why,
            )
            for region in regions_of.get(instance.provider, ())
            for option in options
        )
    return kept, out
