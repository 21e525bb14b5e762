"""`list_instances`: the instance types that the tables know, with their chips, as the document of `planner instances` and `GET /v1/instance-types`."""

from __future__ import annotations

from collections.abc import Sequence

from planner.ports import Document
from planner.services.documents import whole
from planner.services.list_prices import check_limit, known_regions, names, plain
from pricing.catalog import Catalog
from pricing.model import Accelerator, InstanceType


def list_instances(
    catalog: Catalog,
    *,
    provider: Sequence[str] | str | None = None,
    instance_type: Sequence[str] | str | None = None,
    accelerator: Sequence[str] | str | None = None,
    region: Sequence[str] | str | None = None,
    limit: int | None = None,
) -> Document:
    """Return `{snapshot_id, as_of, instance_types[…]}`, ordered by provider and name, at most `limit` of them.

    `region` keeps the types that have any price there. A filter that is None or empty lets everything pass; a name that nothing
    has is an `UnknownName` with near misses, not an empty list.
    """
    check_limit(limit)
    providers = [catalog.provider(name) for name in names(provider)] or None
    regions = known_regions(catalog, region)
    chips = {catalog.accelerator(name).name for name in names(accelerator)}
    wanted = {
        (t.provider, t.instance_type)
        for name in names(instance_type)
        for t in catalog.instance_types_named(name, providers)
    }
    found = [
        t
        for t in catalog.instance_types()
        if (providers is None or t.provider in providers)
        and (not wanted or (t.provider, t.instance_type) in wanted)
        and (not chips or t.accelerator in chips)
        and (regions is None or not set(regions).isdisjoint(catalog.regions_of(t)))
    ]
    return {
        "snapshot_id": catalog.meta.snapshot_id,
        "as_of": plain(catalog.meta.as_of),
        "instance_types": [
            instance(t, None if t.accelerator is None else catalog.accelerators[t.accelerator], catalog.regions_of(t))
            for t in found[:limit]
        ],
    }


def instance(shape: InstanceType, chip: Accelerator | None, regions: tuple[str, ...]) -> Document:
    """Return one instance type as plain JSON values; figures of `chip` are per whole chip, those of a device per device."""
    return {
        "provider": shape.provider,
        "instance_type": shape.instance_type,
        "family": shape.family,
        "vcpus": shape.vcpus,
        "memory_gib": shape.memory_gib,
        "cpu_arch": shape.cpu_arch,
        "accelerator": shape.accelerator,
        "accelerator_kind": shape.accelerator_kind.value,
        "accelerators_per_instance": None
        if shape.accelerators_per_instance is None
        else whole(shape.accelerators_per_instance),
        "device_count": shape.device_count,
        "device_fraction": shape.device_fraction,
        "device_memory_gib": shape.device_memory_gib,
        "interconnect_kind": shape.interconnect_kind.value,
        "interconnect_gb_s_bidirectional": shape.interconnect_gb_s_bidirectional,
        "network_gbps": shape.network_gbps,
        "efa_supported": shape.efa_supported,
        "local_nvme_gb": shape.local_nvme_gb,
        "capacity_block_only": shape.capacity_block_only,
        "chip": None if chip is None else chip_figures(chip),
        "regions": list(regions),
        "confidence": shape.confidence,
        "source": shape.source,
        "retrieved_on": plain(shape.retrieved_on),
        "notes": shape.notes,
    }


def chip_figures(chip: Accelerator) -> Document:
    """Return the chip's figures: memory in GiB, bandwidth in GB/s, dense peaks in TFLOP/s (TOP/s for integers), power in W."""
    return {
        "vendor": chip.vendor,
        "architecture": chip.architecture,
        "memory_gib": chip.memory_gib,
        "memory_visible_gib": chip.memory_visible_gib,
        "memory_bandwidth_gb_s": chip.memory_bandwidth_gb_s,
        "peak_tflops": dict(chip.peak_tflops),
        "tdp_w": chip.tdp_w,
        "compute_capability": chip.compute_capability,
        "cores": chip.cores,
        "confidence": chip.confidence,
        "source": chip.source,
        "retrieved_on": plain(chip.retrieved_on),
    }
