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
Values = Array | float

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """What carries collectives: usable bytes/s in one direction. Floats or arrays that broadcast."""

    devices: Values  # of a node
    link: Values  # of a device inside its node
    network: Values  # of a node to other nodes
    link_latency_s: Values
    network_latency_s: Values


def placed(ranks: Values, stride: Values, wires: Wires) -> tuple[Array, Array]:
    """Return (ranks of the group in one node, nodes that it spans); its neighbours lie `stride` devices apart."""
    inside = np.minimum(np.maximum(np.asarray(wires.devices) / stride, 1.0), ranks)
    return inside, np.asarray(ranks) / inside


def gather_s(payload_bytes: Values, ranks: Values, stride: Values, wires: Wires) -> Array:
    """Return the time of one all-gather or reduce-scatter of `payload_bytes` over a group, s: see `gather_cost`."""
    per_byte, fixed = gather_cost(*placed(ranks, stride, wires), wires)
    return np.asarray(payload_bytes * per_byte + fixed)


def gather_cost(inside: Array, nodes: Array, wires: Wires) -> tuple[Array, Array]:
    """Return (s per byte of the payload, s of any) of an all-gather or reduce-scatter over a group, placed as `placed` says.

    Two levels: (m - 1)/m of the payload over the links of the node; between k nodes each of the m members moves its m-th, (k - 1)/k of it,
    over its share of the node's network. Latency: a tree's steps at each level.
    """
    beyond = nodes > 1
    network = (nodes - 1) / nodes / inside * wires.devices / wires.network
    per_byte = (inside - 1) / inside / wires.link + np.where(beyond, network, 0.0)
    fixed = np.log2(inside) * wires.link_latency_s
    return per_byte, fixed + np.where(beyond, np.log2(nodes) * wires.network_latency_s, 0.0)


def exchange_s(payload_bytes: Values, ranks: Values, copies: Values, wires: Wires) -> Array:
    """Return the time of one all-to-all over neighbouring devices in which each sends `payload_bytes` in all, evenly, s.

    The payload holds `copies` of every token, one for each of its experts. Between nodes a token travels once to each node that has one
    of them: of M nodes M (1 - (1 - 1/M)^copies) are expected to, and the node itself needs no network.
    """
    inside, nodes = placed(ranks, 1.0, wires)
    payload = np.asarray(payload_bytes)
    link = (inside - 1) / ranks * payload / wires.link + np.where(inside > 1, wires.link_latency_s, 0.0)
    rate = np.asarray(wires.network) / wires.devices
    each = np.maximum(1.0, copies)
    reached = nodes * (1 - (1 - 1 / np.maximum(nodes, 1.0)) ** each)
    away = payload / each * reached * (nodes - 1) / np.maximum(nodes, 1.0)
    return np.asarray(link + np.where(nodes > 1, away / rate + wires.network_latency_s, 0.0))


def reduction_s(
    payload_bytes: Values, ranks: Values, stride: Values, wires: Wires, *, algorithm: Values, servers: Values
) -> Array:
    """Return the time to sum `payload_bytes` over a group and give everyone the sum, s.

    Ring (0): a reduce-scatter and an all-gather. Double tree (1): the whole payload up and down, fewer steps, no (r - 1)/r. Parameter
    servers (2): every node pushes its sum and pulls the result; `servers` nodes beside the job share the load (r x payload / servers
    each way), or, with 0, every node serves its share, which moves what a ring moves.
    """
    inside, nodes = placed(ranks, stride, wires)
    payload = np.asarray(payload_bytes)
    local = 2 * ((inside - 1) / inside * payload / wires.link + np.log2(inside) * wires.link_latency_s)
    rate = np.asarray(wires.network) / wires.devices
    part = payload / inside / rate  # s to send this device's part to another node once
    code = np.asarray(algorithm)
    between = 2 * ((nodes - 1) / nodes * part + (nodes - 1) * wires.network_latency_s)
    if np.any(code >= 1):
        tree = 2 * (part + np.log2(nodes) * wires.network_latency_s)
        load = np.where(
            np.asarray(servers) > 0, np.maximum(1.0, nodes / np.maximum(servers, 1e-9)), (nodes - 1) / nodes
        )
        served = 2 * (load * part + wires.network_latency_s)
        between = np.where(code >= 2, served, np.where(code >= 1, tree, between))
    return np.asarray(local + np.where(nodes > 1, between, 0.0))
