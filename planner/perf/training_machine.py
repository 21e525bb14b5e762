"""What software reaches on a node in training: fitted parameters and datasheet figures become the machine of `training_step`.

One function for the fit and for requests: `machine_of(nodes, values)`; the columns of `values` are the slots in the order of `SLOTS`.
Parameters come from `tables/parameters_training.json`, by the keys of `level_keys`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelKind, ModelSpec
from planner.perf.model import Hardware
from planner.perf.parameters import Parameters
from planner.perf.training_step import HOST_BYTES_S, StepMachine, Values
from pricing.model import AcceleratorKind, InterconnectKind

Array = npt.NDArray[np.float64]

SLOTS = (
    "matmul_share",
    "expert_share",
    "attention_share",
    "traffic_share",
    "half_width",
    "launch_us",
    "host_ms",
    "feed_us",
    "link_share",
    "network_share",
    "overlap_share",
    "work_factor",
)
"""Names of the fitted parameters; `planner.calibration.training` says how each is held and at which levels it deviates."""
NARROW = {"fp8": "fp8", "int8": "fp8", "fp4": "fp4"}
"""Formats narrower than 16 bits, as classes of what hardware and recipes do to them."""
PCIE_BYTES_S = 16e9
"""Link of a device where nothing is known: PCIe 3.0 x16, one direction."""
NETWORK_BYTES_S = 12.5e9
"""Network of a node where nothing is known: 100 Gbit/s."""
USUAL_DEVICES = 8
LINK_LATENCY_S = {
    InterconnectKind.PCIE: 20e-6,
    InterconnectKind.NONE: 20e-6,
    InterconnectKind.NVLINK: 8e-6,
    InterconnectKind.NVSWITCH: 5e-6,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Datasheet figures of one node; every field is a float or an array. FLOP/s dense, bytes/s, one direction."""

    peak_flops: Values  # of a device, in the format of the blocks
    wide_peak_flops: Values  # in 16 bits (32 where the job runs in 32)
    bandwidth: Values
    devices: Values
    link: Values
    network: Values  # of the whole node
    link_latency_s: Values


def node_of(hardware: Hardware, precision: str) -> Node:
    """Return the node of an instance type, for blocks that train in a precision.

    A chip without the format's own peak takes the next wider one; without any peak its 16-bit figure is unknown and a `LookupError` says so.
    """
    peak, wide = peaks_of(hardware.peak_tflops, precision)
    link = hardware.interconnect_gb_s_bidirectional
    return Node(
        peak_flops=peak,
        wide_peak_flops=wide,
        bandwidth=(hardware.memory_bandwidth_gb_s or np.nan) * 1e9,
        devices=float(hardware.devices),
        link=PCIE_BYTES_S if link is None else link / 2 * 1e9,
        network=NETWORK_BYTES_S if hardware.network_gbps is None else hardware.network_gbps / 8 * 1e9,
        link_latency_s=LINK_LATENCY_S.get(hardware.interconnect_kind, 10e-6),
    )


def peaks_of(peak_tflops: Mapping[str, float], precision: str) -> tuple[float, float]:
    """Return dense FLOP/s of the blocks' format and of the wide one, from a chip's peaks in TFLOP/s.

    Raises
    ------
    LookupError
        The chip has no peak that the precision could run at.
    """
    order = {
        "fp4": ("fp4", "fp8", "bf16", "fp16"),
        "fp8": ("fp8", "bf16", "fp16"),
        "int8": ("int8", "fp8", "bf16", "fp16"),
        "tf32": ("tf32", "fp32", "bf16"),
        "fp32": ("fp32", "tf32", "bf16"),
        "fp16": ("fp16", "bf16", "fp32"),
        "bf16": ("bf16", "fp16", "fp32"),
    }.get(precision, ("bf16", "fp16", "fp32"))
    wide = order if precision not in NARROW else ("bf16", "fp16")

    def first(names: Sequence[str]) -> float:
        for name in names:
            if name in peak_tflops:
                return peak_tflops[name] * 1e12
        raise LookupError(f"no peak for {precision}: {', '.join(peak_tflops) or 'none stated'}")

    return first(order), first(wide)


def stacked_nodes(nodes: Sequence[Node]) -> Node:
    """Return many nodes as one, every field an array [nodes]."""
    return Node(**{f.name: np.array([getattr(n, f.name) for n in nodes], dtype=np.float64) for f in fields(Node)})


def machine_of(node: Node, values: Array, host: Values = HOST_BYTES_S) -> StepMachine:
    """Return the machine of nodes under fitted values [..., slots], columns in the order of `SLOTS`; `host`: bytes/s to host memory."""
    by_name = {name: values[..., i] for i, name in enumerate(SLOTS)}
    return StepMachine(
        peak_flops=node.peak_flops,
        wide_peak_flops=node.wide_peak_flops,
        bandwidth=node.bandwidth,
        devices=node.devices,
        link=node.link,
        network=node.network,
        host=host,
        link_latency_s=node.link_latency_s,
        matmul_share=by_name["matmul_share"],
        expert_share=by_name["expert_share"],
        attention_share=by_name["attention_share"],
        traffic_share=by_name["traffic_share"],
        half_width=by_name["half_width"],
        launch_s=by_name["launch_us"] * 1e-6,
        host_s=by_name["host_ms"] * 1e-3,
        feed_s=by_name["feed_us"] * 1e-6,
        link_share=by_name["link_share"],
        network_share=by_name["network_share"],
        overlap_share=by_name["overlap_share"],
        work_factor=by_name["work_factor"],
    )


@lru_cache(maxsize=65536)
def points_and_variances(keys: tuple[tuple[str, str], ...], parameters: Parameters) -> tuple[Array, Array]:
    """Return the points in link space [slots] and their variances for the keys of one job, as (level, key)."""
    levels = {level: [key] for level, key in keys}
    return parameters.points(levels, 1)[0], parameters.variances(levels, 1)[0]


@lru_cache(maxsize=8)
def columns_of(parameters: Parameters) -> tuple[int, ...]:
    """Return where `SLOTS` are among the parameters."""
    return tuple(parameters.index(name) for name in SLOTS)


def work_class(spec: ModelSpec) -> str:
    """Return the class of work that a model trains as: lm, moe, encoder, seq2seq, conv, vit, diffusion or speech."""
    if spec.generates_tokens:
        if spec.kind is ModelKind.ENCODER_DECODER:
            return "seq2seq"
        return "moe" if spec.experts else "lm"
    if spec.kind is ModelKind.VISION:
        return "vit" if spec.attention else "conv"
    return spec.kind.value


def level_keys(
    *,
    accelerator: str,
    architecture: str,
    engine: str,
    precision: str,
    work: str,
    method: str = "full",
    memory: bool = False,
    source: str = "",
    model: str = "",
    group: str = "",
) -> dict[str, str]:
    """Return the key of each level for one job.

    `format`: what an architecture makes of a precision; `class`: the kind of work; `stack`: how an engine runs that kind of work;
    `framework`, `memory_stack`: whose memory is asked for, and with which method. source, model and group are "" for a user's request.
    """
    wide = "32bit" if precision in {"fp32", "tf32"} else NARROW.get(precision, "16bit")
    sampled = work not in {"lm", "moe"}
    return {
        "architecture": architecture,
        "chip": accelerator,
        "engine": engine,
        "format": f"{architecture} {precision if wide == '32bit' else wide}",
        "class": work,
        "stack": f"{engine} {work}",
        "framework": engine if memory else "",
        "memory_stack": f"{engine} {method}" if memory else "",
        "method": "" if method == "full" else method,
        "source": source,
        "model": model,
        "sampled_class": work if sampled else "",
        "sampled_model": model if sampled else "",
        "group": group,
    }


RUNTIME_OF_KIND = {AcceleratorKind.NEURON: "neuron", AcceleratorKind.GAUDI: "habana", AcceleratorKind.TPU: "jax"}


def engine_key(engine: str, kind: AcceleratorKind) -> str:
    """Return the name that parameters know a training engine by; chips with a compiler of their own run everything through it."""
    return RUNTIME_OF_KIND.get(kind, "torch" if engine == "pytorch" else engine)
