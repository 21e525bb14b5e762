"""Traffic of data-parallel training: who sends how many bytes over which wires.

Volumes per rank and optimizer step (Rajbhandari et al. 2020, table 1; ring collectives move (r - 1)/r of the data): an
all-reduce is a reduce-scatter and an all-gather. Collectives are hierarchical: inside the instance over its links, between
instances over its network, each instance sending (n - 1)/n of the data once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.perf.collectives import link_of
from planner.perf.model import Hardware

Array = npt.NDArray[np.float64]

EFA_SHARE, TCP_SHARE = 0.8, 0.6
"""Usable share of the advertised network: with EFA (libfabric, RDMA), and over TCP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTraffic:
    """Bytes that one pass of the collectives moves per step and per micro-batch, before the (r - 1)/r factor."""

    per_step: float
    per_micro_batch: float


def step_traffic(sharding: str, gradient_bytes: float, weight_bytes: float, dense_share: float = 1.0) -> StepTraffic:
    """Return the traffic of a sharding stage.

    ddp and zero1: gradients reduced, then shared (2 G) once per step. zero2: gradients reduce-scattered every micro-batch (G),
    new weights gathered once (G). zero3: weights gathered twice (2 W) and gradients reduce-scattered (G) every micro-batch;
    routed experts stay where they are (expert parallelism), so only the share outside them moves.
    """
    if sharding == "zero3":
        return StepTraffic(per_step=0.0, per_micro_batch=(2 * weight_bytes + gradient_bytes) * dense_share)
    if sharding == "zero2":
        return StepTraffic(per_step=gradient_bytes, per_micro_batch=gradient_bytes)
    return StepTraffic(per_step=2 * gradient_bytes, per_micro_batch=0.0)


def link_bytes_per_s(hardware: Hardware) -> float:
    """Return usable bytes/s of one device inside its instance, one direction."""
    return link_of(hardware)[1]


def network_bytes_per_s(hardware: Hardware) -> float | None:
    """Return usable bytes/s between instances, for the whole instance; None when the network is not known."""
    if hardware.network_gbps is None:
        return None
    return hardware.network_gbps / 8 * 1e9 * (EFA_SHARE if hardware.efa_supported else TCP_SHARE)


def seconds_per_byte(devices: Array, instances: Array, link: Array, network: Array) -> Array:
    """Return the time to move one byte of a collective through both levels, s."""
    inside = (devices - 1) / devices / link
    return inside + between_seconds_per_byte(instances, network)


def between_seconds_per_byte(instances: Array, network: Array) -> Array:
    """Return the part of `seconds_per_byte` that is spent between instances, s."""
    return np.where(instances > 1, (instances - 1) / instances / network, 0.0)


def expert_seconds(
    exchanged: Array, expert_traffic: float, *, devices: Array, instances: Array, link: Array, network: Array
) -> tuple[Array, Array]:
    """Return the time that routed experts cost per micro-batch, s, with experts over all devices and over those of an instance.

    `exchanged`: bytes of tokens that one device sends to experts and gets back. Over all devices every expert stays put and tokens
    cross the network. Inside an instance tokens stay in it, and expert weights and gradients (`expert_traffic` bytes) are
    gathered and scattered between instances, as ZeRO-3 does.
    """
    inside = exchanged * (devices - 1) / devices / link
    everywhere = inside + devices * exchanged * between_seconds_per_byte(instances, network)
    return everywhere, inside + expert_traffic * between_seconds_per_byte(instances, network)
