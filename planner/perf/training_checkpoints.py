"""What a training checkpoint holds, and how long writing it takes: to the storage, and as far as training waits for it.

Synchronous: training waits until the storage has it. Asynchronous (PyTorch DCP `async_save`, Megatron `--async-save`): training waits for
the copy to host memory, and the write goes on beside the next steps. Rates of storage: `tables/training_input.csv`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.models.spec import ModelSpec
from planner.perf.training_input import figures
from planner.perf.training_work import adapter_parameters

MOMENT_BYTES = {"adamw": 8.0, "adamw_8bit": 2.0, "sgd": 4.0}
"""Bytes of the moments of one trained parameter: two in fp32, two in 8 bits, one in fp32 (SGD with momentum)."""
MASTER_BYTES = 4.0
"""Bytes of one trained parameter's fp32 weight."""
HOST_COPY_GB_PER_S = 25.0
"""Copy of one device to host memory: PCIe 4.0 x16, 32 GB/s, at 0.8 of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """One instance that writes a checkpoint, or its share of one; None where a figure is not known."""

    devices: float
    local_nvme_gb: float | None
    network_gbps: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTime:
    """Seconds of one checkpoint: until the storage has it, and how long training waits."""

    durable_s: float
    blocking_s: float
    how: str


def checkpoint_bytes(spec: ModelSpec, *, method: str, optimizer: str, lora_rank: int) -> float:
    """Return the size of one checkpoint, bytes: trained parameters x (fp32 weight and optimizer moments).

    LoRA and QLoRA store the adapters alone; full training the whole model. AdamW: 12 bytes a parameter.
    """
    trained = spec.parameters_total if method == "full" else adapter_parameters(spec, lora_rank)
    moments = MOMENT_BYTES.get(optimizer, 8.0 / max(1, spec.hidden_size))
    return trained * (MASTER_BYTES + moments)


def write_time(
    size_bytes: float,
    *,
    storage: str | None,
    writer: Writer,
    writers: int,
    asynchronous: bool,
    usual_gb_per_s: float,
) -> WriteTime:
    """Return the time of a checkpoint that `writers` equal instances write at once, each its share.

    `usual_gb_per_s`: the rate of a writer where no storage is named, or where a figure of it is not known.
    """
    rate, shared, how = write_gb_per_s(storage, writer, usual_gb_per_s)
    share = size_bytes / writers
    durable = max(share / (rate * 1e9), size_bytes / (shared * 1e9))
    copied = share / (HOST_COPY_GB_PER_S * 1e9 * max(1.0, writer.devices))
    return WriteTime(
        durable_s=durable,
        blocking_s=min(copied, durable) if asynchronous else durable,
        how=f"{size_bytes / 1e9:.6g} GB / {writers} writers / {how}",
    )


def write_gb_per_s(storage: str | None, writer: Writer, usual_gb_per_s: float) -> tuple[float, float, str]:
    """Return GB/s of one writer, GB/s that all writers share, and what that rests on."""
    table = figures()
    if storage == "nvme" and writer.local_nvme_gb:
        rate = table["nvme", "write_gb_per_s_per_tb"] * writer.local_nvme_gb / 1000
        return rate, math.inf, f"{rate:.4g} GB/s (nvme; lost with its instance)"
    if storage == "fsx":
        shared = table["fsx", "read_gb_per_s_shared"]
        rate = math.inf if writer.network_gbps is None else writer.network_gbps / 8
        return rate, shared, f"{min(rate, shared):.4g} GB/s (fsx, {shared:g} GB/s for all)"
    if storage == "s3" and writer.network_gbps is not None:
        rate = writer.network_gbps / 8 * table["s3", "read_share_of_network"]
        return rate, math.inf, f"{rate:.4g} GB/s (s3)"
    if storage == "ebs":
        rate = table["ebs", "read_gb_per_s"]
        return rate, math.inf, f"{rate:.4g} GB/s (ebs)"
    return usual_gb_per_s, math.inf, f"{usual_gb_per_s:g} GB/s"
