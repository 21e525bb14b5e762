"""Time of the collectives of a tensor-parallel group: a latency by topology plus bytes over the link.

t(all-reduce) = α(kind)·(1 + log2 T)/2 + 2·(T-1)/T · bytes / (W/2 · η), W = bandwidth of one device, both directions added. Over M machines
it is hierarchical: that inside each, and between them α_n·log2 M + 2·(M-1)/M · bytes / W_n, W_n the network of one machine: each device
reduces its share of the data with its like on the other machines.
References: Thakur, Rabenseifner, Gropp 2005 (ring all-reduce moves 2(T-1)/T of the data); α as seen by small messages in
nccl-tests and custom all-reduce kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.perf.model import Hardware
from pricing.model import InterconnectKind

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Link:
    """How fast devices of one kind of topology reduce: latency of one small all-reduce, usable share of the link."""

    latency_us: float
    usable_fraction: float


LINKS = {
    InterconnectKind.NONE: Link(30.0, 0.4),  # through host memory
    InterconnectKind.PCIE: Link(30.0, 0.4),
    InterconnectKind.NVLINK: Link(14.0, 0.6),
    InterconnectKind.NVSWITCH: Link(10.0, 0.7),
    InterconnectKind.XGMI: Link(16.0, 0.55),
    InterconnectKind.NEURONLINK: Link(20.0, 0.5),
    InterconnectKind.ICI: Link(12.0, 0.6),
    InterconnectKind.ROCE: Link(25.0, 0.6),
}
PCIE_GB_S_BIDIRECTIONAL = 32.0
"""Link assumed when a type does not state one: PCIe 3.0 x16."""


def link_of(hardware: Hardware) -> tuple[float, float]:
    """Return (latency of a small all-reduce over two devices in s, usable bytes/s in one direction)."""
    link = LINKS[hardware.interconnect_kind]
    both = hardware.interconnect_gb_s_bidirectional or PCIE_GB_S_BIDIRECTIONAL
    return link.latency_us * 1e-6, both / 2 * 1e9 * link.usable_fraction


def datasheet_link(hardware: Hardware) -> tuple[float, float]:
    """Return (latency of a small all-reduce over two devices in s, bytes/s of the link in one direction, none of it lost)."""
    both = hardware.interconnect_gb_s_bidirectional or PCIE_GB_S_BIDIRECTIONAL
    return LINKS[hardware.interconnect_kind].latency_us * 1e-6, both / 2 * 1e9


def all_reduce_s(payload_bytes: Array, tp: int | Array, latency_s: Array, bytes_per_s: Array) -> Array:
    """Return seconds of one all-reduce of `payload_bytes` over `tp` devices; zero for one device."""
    ranks = np.asarray(tp, dtype=np.float64)
    time = latency_s * (1 + np.log2(ranks)) / 2 + 2 * (ranks - 1) / ranks * payload_bytes / bytes_per_s
    return np.where(ranks > 1, time, 0.0)


def all_reduce_between_s(
    payload_bytes: Array, machines: int | Array, latency_s: Array | float, bytes_per_s: Array | float
) -> Array:
    """Return seconds of the part of an all-reduce that goes between `machines`, each of which has `bytes_per_s`; zero for one.

    `latency_s`: of a message there and one back; a tree takes log2 M of them.
    """
    m = np.asarray(machines, dtype=np.float64)
    time = latency_s * np.log2(m) + 2 * (m - 1) / m * payload_bytes / bytes_per_s
    return np.where(m > 1, time, 0.0)
