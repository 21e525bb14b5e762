"""The parameters of the serving roofline and the usable rates that they make of a datasheet: one place for the fit and for requests.

Every parameter is a slot of `tables/parameters_serving.json`; `machine` turns values of the slots and peaks into an `llm.Machine`.
All shares of a peak are bounded by `parameters.CEILING`, so nothing is faster than the roofline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.perf.collectives import datasheet_link
from planner.perf.llm import Machine
from planner.perf.model import Hardware
from planner.perf.parameters import Link, Slot
from planner.perf.precision import Format

Array = npt.NDArray[np.float64]

CHIPS = {"architecture": 0.25, "chip": 0.15}
ENGINES = {"engine": 0.25, "generation": 0.2}


def _share(name: str, unit: str, start: float, start_sd: float, /, **levels: float) -> Slot:
    return Slot(name=name, unit=unit, link=Link.FRACTION, start=start, start_sd=start_sd, levels=levels)


def _amount(name: str, unit: str, start: float, start_sd: float, /, **levels: float) -> Slot:
    return Slot(name=name, unit=unit, link=Link.LOG, start=start, start_sd=start_sd, levels=levels)


SLOTS = (
    _share(
        "pace",
        "share of the usable rates, all times",
        *(0.75, 0.3),
        engine=0.3,
        generation=0.3,
        engine_chip=0.2,
        source=0.3,
        family=0.15,
        precision=0.15,
    ),
    _amount("set_up", "factor on the usable rates, of a user's own set-up", 1.0, 1e-4),
    _share("weights_bandwidth", "share of peak memory bandwidth", 0.8, 0.3, **CHIPS, engine=0.3),
    _share("kv_bandwidth", "share of peak memory bandwidth", 0.65, 0.3, **CHIPS, **ENGINES, group=0.2),
    _share("compute", "share of dense peak, 16 bits", 0.6, 0.4, **CHIPS, **ENGINES),
    _share("share_8bit", "share of the 16-bit share", 0.75, 0.5, architecture=0.4, engine=0.3),
    _share("share_4bit", "share of the 16-bit share", 0.5, 0.5, architecture=0.4, engine=0.3),
    _share("attention_compute", "share of dense peak, 16 bits", 0.35, 0.5, **ENGINES, architecture=0.3),
    _share("experts", "share of the rates, grouped products", 0.6, 0.5, **ENGINES, architecture=0.3),
    _amount(
        "widening", "operations a weight stored narrower than it is multiplied", 1.0, 0.7, engine=0.4, architecture=0.3
    ),
    _amount("routing_overhead", "s a layer", 20e-6, 0.8, engine=0.7, generation=0.5, architecture=0.3),
    _amount("expert_overhead", "s an expert", 0.3e-6, 0.8, engine=0.7, generation=0.5, architecture=0.3),
    _share("own_routing", "share of tokens that go to experts of their own", 0.6, 0.7, bench=0.7),
    _amount("activation_traffic", "factor", 1.0, 0.5, engine=0.4),
    _amount("ramp_tokens", "tokens", 32.0, 0.7, architecture=0.3),
    _share("unhidden", "share of the shorter of compute and traffic", 0.2, 0.7),
    _amount("layer_overhead", "s", 30e-6, 0.7, engine=0.7, generation=0.5, architecture=0.3, group=0.2),
    _amount("step_overhead", "s", 0.5e-3, 0.7, engine=0.7, generation=0.5),
    _amount("sequence_overhead", "s", 10e-6, 0.8, engine=0.7, generation=0.5),
    _amount("link_latency", "factor", 1.0, 0.5, topology=0.4, engine=0.4, generation=0.3),
    _share("link_bandwidth", "share of the link", 0.5, 0.5, topology=0.4, engine=0.3),
    _amount("longest_stay", "times the mean, of a finite run", 2.5, 0.5),
    _share("limited", "share of the highest rate, under latency limits", 0.85, 0.5, limit=0.4, family=0.2),
)
COLUMN = {slot.name: i for i, slot in enumerate(SLOTS)}
EIGHT_BITS, FOUR_BITS = frozenset({"fp8", "int8"}), frozenset({"fp4", "mxfp4", "int4"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """What the datasheet says, as arrays that broadcast against the slots' values."""

    bandwidth: Array  # bytes/s
    narrow: Array  # FLOP/s of the compute format
    wide: Array  # FLOP/s of the 16-bit format
    narrow_bits: Array  # 16, 8 or 4: of the compute format
    link_latency_s: Array
    link_bytes_per_s: Array  # one direction
    vector: Array  # instructions/s of the vector units, a lane each


VECTOR_SHARE = 1 / 16
"""Of the 16-bit peak that vector units are assumed to have where no fp32 peak is known: as of A100 (19.5 of 312 TFLOP/s)."""


def peaks_of(hardware: Hardware, form: Format) -> tuple[float, float, float, float, float, float, float]:
    """Return the fields of `Peaks` of one hardware under a format; a multiply-add of fp32 is one instruction."""
    latency, link = datasheet_link(hardware)
    vector = hardware.peak_tflops.get("fp32", hardware.peak_tflops[form.wide] * VECTOR_SHARE)
    bits = 8.0 if form.compute in EIGHT_BITS else 4.0 if form.compute in FOUR_BITS else 16.0
    return (
        (hardware.memory_bandwidth_gb_s or 0.0) * 1e9,
        hardware.peak_tflops[form.compute] * 1e12,
        hardware.peak_tflops[form.wide] * 1e12,
        bits,
        latency,
        link,
        vector * 1e12 / 2,
    )


def peaks_from(rows: Array) -> Peaks:
    """Return the peaks of a table whose last axis is `peaks_of`."""
    return Peaks(
        bandwidth=rows[..., 0],
        narrow=rows[..., 1],
        wide=rows[..., 2],
        narrow_bits=rows[..., 3],
        link_latency_s=rows[..., 4],
        link_bytes_per_s=rows[..., 5],
        vector=rows[..., 6],
    )


def machine(values: Array, peaks: Peaks) -> Machine:
    """Return usable rates and overheads of values of the slots (last axis) on some peaks."""

    def value(name: str) -> Array:
        return np.asarray(values[..., COLUMN[name]], dtype=np.float64)

    pace, compute = np.minimum(value("pace") * value("set_up"), 1.0), value("compute")
    narrow = compute * np.where(
        peaks.narrow_bits >= 16, 1.0, np.where(peaks.narrow_bits >= 8, value("share_8bit"), value("share_4bit"))
    )
    return Machine(
        weights_bytes_per_s=peaks.bandwidth * value("weights_bandwidth") * pace,
        cache_bytes_per_s=peaks.bandwidth * value("kv_bandwidth") * pace,
        narrow_flops=peaks.narrow * narrow * pace,
        wide_flops=peaks.wide * compute * pace,
        attention_flops=peaks.wide * value("attention_compute") * pace,
        expert_share=value("experts"),
        widened_per_s=peaks.vector / value("widening") * pace,
        routing_overhead_s=value("routing_overhead") / pace,
        expert_overhead_s=value("expert_overhead") / pace,
        own_routing=value("own_routing"),
        activation_bytes_per_s=peaks.bandwidth / value("activation_traffic") * pace,
        ramp_tokens=value("ramp_tokens"),
        unhidden=value("unhidden"),
        link_latency_s=peaks.link_latency_s * value("link_latency") / pace,
        link_bytes_per_s=peaks.link_bytes_per_s * value("link_bandwidth") * pace,
        layer_overhead_s=value("layer_overhead") / pace,
        step_overhead_s=value("step_overhead") / pace,
        sequence_overhead_s=value("sequence_overhead") / pace,
    )


def silicon_of(hardware: Hardware) -> str:
    """Return the key of a chip's architecture: its name, with the compute capability where NVIDIA's says more (Ampere 8.0 and 8.6)."""
    capability = hardware.compute_capability
    return hardware.architecture if capability is None else f"{hardware.architecture} {capability:.1f}"


def topology_of(hardware: Hardware, ranks: int) -> str:
    """Return the key of how devices that work together reach each other; "" for one device."""
    return hardware.interconnect_kind.value if ranks > 1 else ""
