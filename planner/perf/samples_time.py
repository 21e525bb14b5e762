"""Time of one batch of a model that is priced per sample, on one device, for thousands of rows and batches at once.

A batch passes through phases, each repeated: one pass for vision and encoders, a denoising step each for diffusion, the encoder and
then one step per output token for speech. In a phase, b samples take

    C   = b (F / (P e) + G / (P e_g))                         arithmetic
    s   = 1 - (1 - c) / (1 + live / (k L))                    share of results that crosses memory; live = 2 w A b / n
    M   = (W + w (s (2 A + 2 u E) + K) b) / (B m)             memory traffic
    D   = (C^p + M^p)^(1/p) + n t_d                           device
    t   = pace * sum over phases of r (D^q + (N t_h)^q)^(1/q)

F, G = FLOPs of dense and of grouped convolutions and products, P = dense peak, e, e_g = fractions reached; W = weight bytes, A = results
of matrix products and convolutions (written once, read once), E = results of element-wise operators, of which the share u crosses memory
(compilers fuse the rest), L = bytes of the last-level cache, which keeps what the next operator reads (c = share that crosses however
little is live, k = live bytes, in caches, at which half of the rest crosses too: larger batches spill), K = cached keys and values that a decoding step reads, w = bytes of a number, B m = usable bandwidth. p = 3
lies between no overlap (1) and the longer of both alone; n products cost t_d each however small they are; N operators are
launched one by one by the host in t_h each where nothing is compiled: host and device run side by side (q = 4). Compiled: t_h = 0.
Reference for the roofline: Williams, Waterman, Patterson 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from planner.perf.samples_rates import COLUMN

Array = npt.NDArray[np.float64]

OVERLAP = 3.0
"""p: how far arithmetic and memory traffic of a network hide each other."""
RACE = 4.0
"""q: host and device run side by side, nearly the longer of both."""

TINY = 1e-9
"""Bytes that keep 0 / 0 away where a phase writes nothing and a chip has no cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """What rows ask of their device. Arrays [rows, phases] of one pass of one sample, or [rows]."""

    repeats: Array  # [rows, phases]; 0 where a row has no such phase
    flops: Array  # [rows, phases] dense
    grouped_flops: Array  # [rows, phases]
    matrix_elements: Array  # [rows, phases] results of matrix products and convolutions
    elementwise_elements: Array  # [rows, phases]
    cache_elements: Array  # [rows, phases]
    weight_bytes: Array  # [rows, phases] read once per pass
    products: Array  # [rows, phases] matrix products and convolutions
    operators: Array  # [rows, phases] all operators; 0 where compiled
    width_bytes: Array  # [rows] of an activation
    peak_flops: Array  # [rows] dense, FLOP/s
    bandwidth: Array  # [rows] bytes/s
    off_chip: Array  # [rows] share of activations that leaves the core's own memory
    cache_bytes: Array  # [rows] last-level cache of the device; 0 where it has none or none is known

    def row(self, at: int) -> Loads:
        """Return the loads of one row."""
        return Loads(**{name: getattr(self, name)[at : at + 1] for name in self.__slots__})


class Phase(NamedTuple):
    """One pass of a batch, seconds [rows, batches] of one repetition and what they come from."""

    dense_s: Array  # arithmetic of products and convolutions
    grouped_s: Array  # arithmetic of grouped convolutions
    weights_bytes: Array  # read once
    products_bytes: Array  # results of products and convolutions that cross memory, written and read
    elementwise_bytes: Array
    cache_bytes: Array
    live_bytes: Array  # of one operator's results of the batch, written and read
    crossing: Array  # share of results that crosses memory
    memory_s: Array
    device_s: Array
    host_s: Array
    seconds: Array  # of one repetition, before pace


def phase_of(loads: Loads, values: Array, batch: Array, k: int) -> Phase:
    """Return phase k of batches [rows or 1, batches] for values [rows, slots] of the parameters."""

    def slot(name: str) -> Array:
        return values[:, COLUMN[name], None]

    def each(x: Array) -> Array:
        return x[:, None]

    def of(x: Array) -> Array:
        return x[:, k, None]

    kept = each(loads.cache_bytes) * slot("keeps")
    written = each(2 * loads.width_bytes * loads.matrix_elements[:, k])
    live = written / np.maximum(of(loads.products), 1.0) * batch
    crossing = 1 - (1 - slot("crossing")) * kept / (kept + live + TINY)
    moved = crossing * each(loads.off_chip) * batch
    products = moved * written
    elementwise = moved * each(2 * loads.width_bytes * loads.elementwise_elements[:, k]) * slot("unfused")
    cache = each(loads.width_bytes * loads.cache_elements[:, k]) * batch
    dense_s = of(loads.flops) * batch / (each(loads.peak_flops) * slot("compute"))
    grouped_s = of(loads.grouped_flops) * batch / (each(loads.peak_flops) * slot("grouped"))
    memory_s = (of(loads.weight_bytes) + products + elementwise + cache) / (each(loads.bandwidth) * slot("bandwidth"))
    device_s = ((dense_s + grouped_s) ** OVERLAP + memory_s**OVERLAP) ** (1 / OVERLAP) + of(loads.products) * slot(
        "operator"
    )
    host_s = of(loads.operators) * slot("launch")
    return Phase(
        dense_s=dense_s,
        grouped_s=grouped_s,
        weights_bytes=of(loads.weight_bytes),
        products_bytes=products,
        elementwise_bytes=elementwise,
        cache_bytes=cache,
        live_bytes=live,
        crossing=crossing,
        memory_s=memory_s,
        device_s=device_s,
        host_s=host_s,
        seconds=(device_s**RACE + host_s**RACE) ** (1 / RACE),
    )


def batch_seconds(loads: Loads, values: Array, batch: Array) -> Array:
    """Return seconds of a batch [rows, batches] for values [rows, slots] of the parameters and batches [rows or 1, batches]."""
    total = np.zeros(np.broadcast_shapes((len(values), 1), batch.shape))
    for k in range(loads.repeats.shape[1]):
        total += loads.repeats[:, k, None] * phase_of(loads, values, batch, k).seconds
    return total * values[:, COLUMN["pace"], None]
