"""Hardware as a roofline sees it: one instance type and its chip become the figures of one device.

A device is what one rank of an engine runs on: a GPU, a Neuron or TPU chip, a MIG-like fraction (g6f: an eighth of an L4), or all
CPUs of a CPU type. Everything a fraction shares (peak, bandwidth, power, memory) is scaled by it.
"""

from __future__ import annotations

from planner.perf.model import Hardware
from pricing.model import Accelerator, AcceleratorKind, InstanceType, InterconnectKind

VISIBLE_SHARE_WHERE_UNKNOWN = 0.972
"""Memory a process sees over memory the API reports, where no driver figure is known: the lowest ratio seen on data-centre
GPUs (A100 40 GB 39.4/40, L4 22.0/22.35, L40S 44.5/44.7, H100 79.1/80, H200 139.8/141) less a margin for ECC on GDDR boards."""


class UnknownChipFigure(ValueError):  # noqa: N818 - reads as what it says
    """A chip lacks a figure without which nothing can be sized (memory)."""


def hardware_of(instance: InstanceType, accelerator: Accelerator) -> Hardware:
    """Return the devices of an instance type, per device; peaks in dense TFLOP/s, bandwidths in GB/s, memory in GiB.

    Raises
    ------
    UnknownChipFigure
        Neither the instance nor the chip says how much memory a device has.
    """
    fraction = instance.device_fraction
    scale = None if accelerator.memory_bandwidth_gb_s is None else accelerator.memory_bandwidth_gb_s * fraction
    alone = instance.device_count == 1
    return Hardware(
        accelerator=accelerator.name,
        vendor=accelerator.vendor,
        architecture=accelerator.architecture,
        kind=instance.accelerator_kind,
        devices=instance.device_count,
        fraction=fraction,
        memory_visible_gib=visible_memory_gib(instance, accelerator),
        memory_bandwidth_gb_s=scale,
        peak_tflops={name: peak * fraction for name, peak in accelerator.peak_tflops.items()},
        interconnect_kind=InterconnectKind.NONE if alone else instance.interconnect_kind,
        interconnect_gb_s_bidirectional=None if alone else link_gb_s(instance, accelerator),
        tdp_w=None if accelerator.tdp_w is None else accelerator.tdp_w * fraction,
        compute_capability=accelerator.compute_capability,
        vcpus=instance.vcpus,
        host_memory_gib=instance.memory_gib,
        network_gbps=instance.network_gbps,
        efa_supported=instance.efa_supported,
        local_nvme_gb=instance.local_nvme_gb,
        host_interface_gb_s_bidirectional=accelerator.host_interface_gb_s_bidirectional,
    )


def visible_memory_gib(instance: InstanceType, accelerator: Accelerator) -> float:
    """Return the memory a process can use on one device, GiB, before the engine's own share of it.

    The chip's visible share (driver figure over API figure) carries over to fractions: g6f.xlarge has 2,861 MiB x 22.0/22.35.
    A CPU type's device is the whole machine.
    """
    if instance.accelerator_kind is AcceleratorKind.CPU:
        if instance.memory_gib is None:
            raise UnknownChipFigure(f"{instance.instance_type}: memory_gib is not known; a CPU type needs it")
        return instance.memory_gib
    whole, visible = accelerator.memory_gib, accelerator.memory_visible_gib
    each = instance.device_memory_gib
    if each is None:
        if visible is not None:
            return visible * instance.device_fraction
        if whole is None:
            raise UnknownChipFigure(
                f"{instance.instance_type}: neither the type nor {accelerator.name} says how much memory a device has"
            )
        each = whole * instance.device_fraction
    if visible is None:
        return each * VISIBLE_SHARE_WHERE_UNKNOWN
    # The API's figure for a type can differ from the chip table's (rounded, or another memory size of the same name).
    share = min(1.0, visible / whole) if whole else VISIBLE_SHARE_WHERE_UNKNOWN
    return each * share


def link_gb_s(instance: InstanceType, accelerator: Accelerator) -> float | None:
    """Return the bandwidth between two devices of the instance, both directions added, GB/s; None when it is not known."""
    if instance.interconnect_gb_s_bidirectional is not None:
        return instance.interconnect_gb_s_bidirectional
    if instance.interconnect_kind is InterconnectKind.PCIE:
        return accelerator.host_interface_gb_s_bidirectional
    if instance.interconnect_kind is InterconnectKind.NONE:
        return None
    return accelerator.interconnect_gb_s_bidirectional
