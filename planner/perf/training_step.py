"""Time of one optimizer step, part by part: pure arithmetic on arrays that broadcast against each other (NumPy).

    t_step = A·(max'(t_compute + t_dequantise, t_launch) + t_tensor + t_context + t_expert + t_weights) + t_bubble + t_data + t_optimizer + t_host

A: micro-batches a device runs per step (accumulation); max': the longer of device and host, rounded where they are alike. One micro-batch
of a device:

    t_compute = F_16bit / (P_16bit·e) + F_narrow / (P·e) + F_attention / (P_16bit·e_a) + (activation + weight traffic) / (B·e_b)

Narrow formats speed up the matrix products of the blocks alone: the vocabulary head, the router and attention stay 16-bit. Every field
of every argument is a float or an array; whole surfaces of layouts x instance counts x chips are one call.

References: Narayanan et al. 2021 (pipeline bubble, tensor-parallel traffic); Korthikanti et al. 2022 (sequence parallelism, selective
recomputation); Rajbhandari et al. 2020 (ZeRO); Thakur, Rabenseifner, Gropp 2005 (ring collectives); Sanders, Speck, Träff 2009 (double
trees); Jiang et al. 2020 (parameter servers, BytePS); Liu et al. 2023 (ring attention); Rajbhandari et al. 2022 (expert exchange).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.perf.training_network import Wires, exchange_s, gather_cost, gather_s, placed, reduction_s

Array = npt.NDArray[np.float64]
Values = Array | float

HOST_BYTES_S = 25e9
"""Link of a device to host memory where nothing is known: PCIe 4.0 x16 at 80 %."""
LEAST_EXPOSED = 0.1
"""Share of a collective that never hides: its first and last bucket."""
BACKWARD_SHARE = 2 / 3
"""Share of a step's computation under which gradients can be reduced."""
EXCHANGE_HIDDEN = 0.5
"""Share of what collectives can hide under that exchanges between experts can: they wait for the router, and experts for them."""
BLEND = 4.0
"""Exponent of the rounded maximum of device and host time: 19 % above the larger where both are the same, 1.5 % where one is double."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """What one sample (a sequence, an image …) asks for, and what the whole model holds. A multiply-add counts two FLOPs."""

    tokens: Values  # of a sample; 1 for models that are not counted in tokens
    narrow_flops: Values  # forward: matrices of the blocks that every token meets
    expert_flops: Values  # forward: routed experts
    wide_flops: Values  # forward: vocabulary head and router, 16-bit whatever the blocks run in
    attention_flops: Values  # forward: both products of scores
    backward: Values  # backward over forward FLOPs of matrices: 2, or 1 where weights are frozen
    activation_bytes: Values  # what the blocks write and read again in one forward pass
    head_bytes: Values  # logits and their copies, written and read, forward and backward
    width: Values  # numbers of one token between blocks (tensor and pipeline parallelism send them)
    kv_width: Values  # numbers of K and V of one token in one block (context parallelism sends them)
    matrix_width: Values  # typical side of a block's matrix; inf where unknown
    expert_width: Values  # side of a routed expert's matrix
    blocks: Values
    experts_per_token: Values  # 0 where nothing is routed
    routed_width: Values  # numbers of one token sent to its experts in all blocks together (0: none)
    weight_bytes: Values  # whole model, as training reads it
    gradient_bytes: Values  # of what is trained
    expert_share: Values  # of the weights: routed experts
    optimizer_bytes: Values  # traffic of one update of the whole model
    dequantised_bytes: Values  # traffic of widening a quantised base once (0: none)
    value_bytes: Values  # of one activation
    fed_items: Values = (
        0.0  # 1 where the host decodes or assembles every sample (images, clips), 0 where that costs nothing
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLayout:
    """How the work is spread. Ranks lie tensor, context, data (experts within), pipeline from the inside out."""

    data: Values = 1.0  # replicas that see different samples
    tensor: Values = 1.0
    pipeline: Values = 1.0
    interleave: Values = 1.0  # model chunks a pipeline stage holds (virtual stages)
    context: Values = 1.0
    expert: Values = 1.0  # devices of a stage that share one set of routed experts; at most data x context x tensor
    zero: Values = 0.0  # 0 DDP, 1 optimizer states, 2 and gradients, 3 and weights (FSDP)
    micro_batch: Values = 1.0  # samples
    accumulation: Values = 1.0
    recompute: Values = 0.0  # share of the blocks' matrices run again in the backward pass
    recompute_attention: Values = 0.0  # share of the scores run again
    reduction: Values = 0.0  # gradients: 0 ring, 1 double tree, 2 parameter servers
    servers: Values = 0.0  # nodes that only serve parameters (0: every node serves its share)
    offloaded_bytes: Values = 0.0  # sent to host memory and back, per device and micro-batch

    @property
    def devices(self) -> Values:
        """Devices of the whole job."""
        return self.data * self.tensor * self.pipeline * self.context


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMachine:
    """One kind of node and what software reaches on it (see `planner.perf.training_machine`)."""

    peak_flops: Values  # dense FLOP/s of a device in the format that the blocks train in
    wide_peak_flops: Values  # in 16-bit (the same unless the format is narrower)
    bandwidth: Values  # bytes/s of device memory
    devices: Values  # of a node
    link: Values  # bytes/s of a device to its neighbours in the node, one direction
    network: Values  # bytes/s of a node to others, one direction
    host: Values = HOST_BYTES_S  # of a device to host memory, one direction
    link_latency_s: Values = 10e-6
    network_latency_s: Values = 10e-6
    matmul_share: Values  # of the peak, large matrices
    expert_share: Values  # of `matmul_share` again: grouped matrices of routed experts
    attention_share: Values  # of the 16-bit peak
    traffic_share: Values  # of the memory bandwidth
    half_width: Values  # columns at which a matrix reaches half of `matmul_share`
    launch_s: Values  # host time of one block's forward pass
    host_s: Values  # host time of one step beside that
    feed_s: Values = 0.0  # host time to feed one device one decoded sample
    link_share: Values
    network_share: Values
    overlap_share: Values  # of computation that collectives can hide under
    work_factor: Values = 1.0  # device time beyond what the work's figures say


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Seconds of one optimizer step, by what takes them."""

    compute: Array
    dequantise: Array
    launch: Array  # device waiting for the host within micro-batches
    exposed_tensor: Array
    exposed_context: Array
    exposed_expert: Array
    exposed_pipeline: Array  # bubble and sends
    exposed_data: Array  # gradients and sharded weights
    offload: Array
    optimizer: Array
    host: Array

    @property
    def total(self) -> Array:
        """All parts together."""
        return (
            self.compute
            + self.dequantise
            + self.launch
            + self.exposed_tensor
            + self.exposed_context
            + self.exposed_expert
            + self.exposed_pipeline
            + self.exposed_data
            + self.offload
            + self.optimizer
            + self.host
        )


def step_seconds(work: StepWork, layout: StepLayout, machine: StepMachine) -> StepTime:
    """Return the time of one optimizer step, s; every field broadcasts.

    Assumes equal stages, balanced experts and sequence parallelism wherever tensor parallelism is used. The step trains
    `layout.data x micro_batch x accumulation` samples.
    """
    w, at, m = work, layout, machine
    wires = wires_of(m)
    micro = micro_seconds(w, at, m)
    matrices_s = micro.matrices + micro.experts + micro.head
    micro_s = micro.total * m.work_factor
    dequantise_s = (
        (2 + at.recompute) * w.dequantised_bytes / (at.tensor * at.pipeline) / (m.bandwidth * m.traffic_share)
    )
    launch_s = w.blocks / at.pipeline * (3 + at.recompute) * m.launch_s + at.micro_batch * w.fed_items * m.feed_s
    busy_s = micro_s + dequantise_s
    waited_s = (busy_s**BLEND + launch_s**BLEND) ** (1 / BLEND) - busy_s

    # Tensor parallelism: an all-gather and a reduce-scatter around attention and around the feed-forward, in every pass.
    sent = at.micro_batch * w.tokens / at.context * w.width * w.value_bytes
    tensor_s = 4 * w.blocks / at.pipeline * (2 + at.recompute) * gather_s(sent, at.tensor, 1.0, wires)
    context_s: Values = 0.0
    if not _none(at.context, 1.0):
        ring = at.micro_batch * w.tokens * w.kv_width * w.value_bytes / at.tensor
        rings_s = w.blocks / at.pipeline * (3 + at.recompute_attention) * gather_s(ring, at.context, at.tensor, wires)
        context_s = exposed(rings_s, m.overlap_share * micro.scores)
    expert_s: Values = 0.0
    if not _none(w.routed_width, 0.0):
        routed = at.micro_batch * w.tokens / (at.context * at.tensor) * w.routed_width / at.pipeline * w.value_bytes
        exchanged_s = exchange_s(routed, at.expert, w.experts_per_token, wires)
        exchanges_s = np.where(np.asarray(w.routed_width) > 0, 2 * (2 + at.recompute) * exchanged_s, 0.0)
        expert_s = exposed(exchanges_s, EXCHANGE_HIDDEN * m.overlap_share * matrices_s)
    offload_s = exposed(2 * at.offloaded_bytes / m.host, m.overlap_share * busy_s)
    inner_s = busy_s + waited_s + tensor_s + context_s + expert_s + offload_s

    boundary = sent / at.tensor
    send_s = np.where(
        np.asarray(at.pipeline) > 1,
        2 * at.interleave * (boundary / (wires.network / m.devices) + m.network_latency_s),
        0.0,
    )
    bubble_s = (at.pipeline - 1) / at.interleave * inner_s + at.accumulation * exposed(send_s, m.overlap_share * busy_s)
    once_s, every_s = data_seconds(w, at, wires)
    hidden_s = m.overlap_share * inner_s
    data_s = exposed(once_s, BACKWARD_SHARE * hidden_s) + at.accumulation * exposed(every_s, hidden_s)
    owned = local_share(w, at) / np.where(np.asarray(at.zero) >= 1, at.data * at.context, 1.0)
    optimizer_s = w.optimizer_bytes * owned / (m.bandwidth * m.traffic_share)
    shape = np.broadcast_shapes(
        *(np.shape(part) for part in (inner_s, bubble_s, data_s, optimizer_s, m.host_s, at.accumulation))
    )

    def each(seconds: Values) -> Array:
        part = np.asarray(seconds, dtype=np.float64)
        return part if part.shape == shape else np.broadcast_to(part, shape)

    return StepTime(
        compute=each(at.accumulation * micro_s),
        dequantise=each(at.accumulation * dequantise_s),
        launch=each(at.accumulation * waited_s),
        exposed_tensor=each(at.accumulation * tensor_s),
        exposed_context=each(at.accumulation * context_s),
        exposed_expert=each(at.accumulation * expert_s),
        exposed_pipeline=each(bubble_s),
        exposed_data=each(data_s),
        offload=each(at.accumulation * offload_s),
        optimizer=each(optimizer_s),
        host=each(m.host_s),
    )


def wires_of(machine: StepMachine) -> Wires:
    """Return what carries the collectives of a machine."""
    return Wires(
        devices=machine.devices,
        link=machine.link * machine.link_share,
        network=machine.network * machine.network_share,
        link_latency_s=machine.link_latency_s,
        network_latency_s=machine.network_latency_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroTime:
    """Seconds that a device computes on one micro-batch, by what takes them, before the work factor."""

    matrices: Values  # of blocks, those that every token meets
    experts: Values  # routed
    head: Values  # vocabulary head and router
    scores: Values
    traffic: Values  # activations, logits
    weights: Values  # read in every pass; gradients read and written once

    @property
    def total(self) -> Values:
        """All together."""
        return self.matrices + self.experts + self.head + self.scores + self.traffic + self.weights


def micro_seconds(work: StepWork, layout: StepLayout, machine: StepMachine) -> MicroTime:
    """Return the time that one micro-batch takes a device, s."""
    w, at, m = work, layout, machine
    samples = at.micro_batch / (at.tensor * at.context * at.pipeline)
    again = 1 + w.backward + at.recompute
    matmul, grouped = matmul_share(w, at, m), grouped_share(w, m)
    bandwidth = m.bandwidth * m.traffic_share
    local = local_share(w, at)
    return MicroTime(
        matrices=samples * w.narrow_flops * again / (m.peak_flops * matmul),
        experts=samples * w.expert_flops * again / (m.peak_flops * grouped),
        head=samples * w.wide_flops * (1 + w.backward) / (m.wide_peak_flops * matmul),
        scores=samples * w.attention_flops * (3 + at.recompute_attention) / (m.wide_peak_flops * m.attention_share),
        traffic=samples * (w.activation_bytes * (3 + at.recompute) + w.head_bytes) / bandwidth,
        weights=local * (w.weight_bytes * (2 + at.recompute) + 2 * w.gradient_bytes) / bandwidth,
    )


def matmul_share(work: StepWork, layout: StepLayout, machine: StepMachine) -> Values:
    """Return the share of the peak that matrices of the blocks reach: less the narrower a device's part of them is."""
    return machine.matmul_share * _ramp(work.matrix_width / layout.tensor, machine.half_width)


def grouped_share(work: StepWork, machine: StepMachine) -> Values:
    """Return the share of the peak that grouped matrices of routed experts reach."""
    return machine.matmul_share * machine.expert_share * _ramp(work.expert_width, machine.half_width)


def exposed(collective_s: Values, hidden_s: Values) -> Array:
    """Return the part of a collective that adds to the step, s."""
    return np.maximum(np.asarray(collective_s) - hidden_s, LEAST_EXPOSED * np.asarray(collective_s))


def _none(values: Values, nothing: float) -> bool:
    """Return whether something does not occur in any of the steps: a lone number that says so."""
    return np.ndim(values) == 0 and float(values) == nothing


def _ramp(columns: Values, half_width: Values) -> Array:
    """Return columns / (columns + half), 1 where the columns are not known (inf)."""
    return 1 / (1 + np.asarray(half_width) / columns)


def _expert_ranks(layout: StepLayout) -> Array:
    """Return the devices that share one set of routed experts: the expert group, or the tensor group where that is larger."""
    return np.maximum(layout.expert, layout.tensor)


def local_share(work: StepWork, layout: StepLayout) -> Array:
    """Return the share of the model's weights that one device computes with."""
    share = np.asarray(work.expert_share)
    return np.asarray(((1 - share) / layout.tensor + share / _expert_ranks(layout)) / layout.pipeline)


def data_seconds(work: StepWork, layout: StepLayout, wires: Wires) -> tuple[Array, Array]:
    """Return the time of collectives of gradients and sharded weights, hidden or not: (once a step, once a micro-batch), s.

    DDP and ZeRO-1: gradients scattered and gathered once a step; ZeRO-2: scattered every micro-batch, weights gathered once; ZeRO-3:
    weights gathered twice and gradients scattered every micro-batch. Routed experts are reduced over the ranks that hold the same ones.
    """
    at = layout
    share = np.asarray(work.expert_share)
    experts = _expert_ranks(at)
    groups = (
        (1 - share, at.tensor * at.pipeline, at.data * at.context, at.tensor),
        (share, experts * at.pipeline, np.maximum(1.0, at.data * at.context * at.tensor / experts), experts),
    )
    once: Array = np.zeros(())
    every: Array = np.zeros(())
    zero = np.asarray(at.zero)
    for part, over, ranks, stride in groups:
        if _none(part, 0.0):
            continue
        weights, gradients = part * work.weight_bytes / over, part * work.gradient_bytes / over
        per_byte, fixed = gather_cost(*placed(ranks, stride, wires), wires)
        scatter, gather = gradients * per_byte + fixed, weights * per_byte + fixed
        updated = np.minimum(gradients, weights) * per_byte + fixed
        ddp = reduction_s(gradients, ranks, stride, wires, algorithm=at.reduction, servers=at.servers)
        there = np.asarray(part) > 0  # without experts there is nothing to wait for either
        least = np.where(zero >= 2, updated, np.where(zero >= 1, scatter + updated, ddp))
        once = once + np.where(there & (zero < 3), least, 0.0)
        each = np.where(zero >= 3, 2 * gather + scatter, scatter)
        every = every + np.where(there & (zero >= 2), each, 0.0)
    return once, every
