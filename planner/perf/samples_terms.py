"""The numbers behind the time of a batch, in the order of the calculation, each with what it was computed from.

Every formula has its numbers filled in, so that the time can be redone with a calculator from what is printed: of one device (a core of
it on Neuron chips). Per class of operators: FLOPs, bytes, arithmetic intensity and the side of the roofline that it is on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelKind, ModelSpec, SampleWork
from planner.perf.model import Term
from planner.perf.samples_loads import PreparedSample
from planner.perf.samples_rates import COLUMN
from planner.perf.samples_time import OVERLAP, RACE, Loads, Phase, phase_of
from planner.perf.training_operators import ELEMENTWISE_FLOPS

Array = npt.NDArray[np.float64]

DATASHEET = "datasheet"
COMPUTE, MEMORY, OPERATORS, HOST = "compute", "memory", "operators", "launches"
PACE_FORMULA = "fitted factor of the model, and of the engine with its family, on the time of a batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A chosen batch on one hardware: what it asks, what the device reaches."""

    spec: ModelSpec
    sample: SampleWork
    item: PreparedSample
    loads: Loads  # of this hardware alone
    values: Array  # [1, slots]
    batch: int
    time_s: float
    novelty: str
    citation: str

    def reached(self, name: str) -> float:
        """Return the value of a fitted parameter."""
        return float(self.values[0, COLUMN[name]])


def terms_of(p: Priced) -> tuple[Term, ...]:
    """Return the numbers behind a batch: machine, then each phase, then their sum."""
    phases = [phase_of(p.loads, p.values, np.array([[float(p.batch)]]), k) for k in range(p.loads.repeats.shape[1])]
    names = phase_names(p.spec, len(phases))
    out = list(machine_terms(p))
    for k, (name, phase) in enumerate(zip(names, phases, strict=True)):
        out += phase_terms(p, phase, k, name)
    each = [float(phase.seconds[0, 0]) * 1e3 for phase in phases]
    repeats = [float(r) for r in p.loads.repeats[0]]
    parts = " + ".join(
        f"{r:g} x {ms:.6g} ms" if r != 1 else f"{ms:.6g} ms" for r, ms in zip(repeats, each, strict=True)
    )
    pace = p.reached("pace")
    out.append(Term(name="pace", value=pace, unit="factor", formula=PACE_FORMULA, source=p.citation))
    out.append(
        Term(
            name="batch_time",
            value=p.time_s * 1e3,
            unit="ms",
            formula=f"pace x {'sum of the passes' if len(each) > 1 else 'pass'} = {pace:.6g} x ({parts})",
        )
    )
    replicas = p.item.hardware.devices * p.item.cores
    out.append(
        Term(
            name="samples_per_s",
            value=replicas * p.batch / p.time_s,
            unit="samples/s",
            formula=f"{replicas} replica{'' if replicas == 1 else 's'} x batch {p.batch} / {p.time_s * 1e3:.6g} ms",
        )
    )
    return tuple(out)


def phase_names(spec: ModelSpec, phases: int) -> tuple[str, ...]:
    """Return what each phase is, "" where there is but one of one pass."""
    if phases > 1:
        return ("encoder", "token")
    return ("step",) if spec.kind is ModelKind.DIFFUSION else ("",)


def machine_terms(p: Priced) -> Iterator[Term]:
    """Yield the work of a sample, the peaks of a device, and how much of them is reached."""
    item, h = p.item, p.item.hardware
    core = f" / {item.cores} cores" if item.cores > 1 else ""
    yield Term(name="flops_per_sample", value=p.sample.flops, unit="FLOP", formula=p.sample.description)
    yield Term(
        name="peak",
        value=float(p.loads.peak_flops[0]) / 1e12,
        unit="TFLOP/s",
        formula=f"dense, {item.format.compute}, per {'core' if core else 'device'}"
        + (f": {item.peak_flops / 1e12:g} TFLOP/s{core}" if core else ""),
        source=DATASHEET,
    )
    if h.memory_bandwidth_gb_s is not None:
        yield Term(
            name="peak_bandwidth",
            value=float(p.loads.bandwidth[0]) / 1e9,
            unit="GB/s",
            formula=f"{h.memory_bandwidth_gb_s:g} GB/s{core}" if core else "",
            source=DATASHEET,
        )
    shown = [("compute_efficiency", "compute", 1.0, "fraction of peak", f"fitted; {p.novelty}")]
    if p.loads.grouped_flops[0].any():
        shown.append(
            ("grouped_efficiency", "grouped", 1.0, "fraction of peak", "fitted: grouped and depthwise convolutions")
        )
    shown.append(("bandwidth_efficiency", "bandwidth", 1.0, "fraction of peak", "fitted"))
    shown.append(
        (
            "unfused_share",
            "unfused",
            1.0,
            "fraction",
            "fitted: element-wise results that are written to memory and read back",
        )
    )
    shown.append(("operator_time", "operator", 1e6, "us per matrix product", "fitted"))
    if p.loads.operators[0].any():
        shown.append(("launch_time", "launch", 1e6, "us of the host per operator", "fitted"))
    for name, slot, scale, unit, formula in shown:
        yield Term(name=name, value=scale * p.reached(slot), unit=unit, formula=formula, source=p.citation)


def phase_terms(p: Priced, phase: Phase, k: int, name: str) -> Iterator[Term]:
    """Yield the parts of one pass: what crosses memory, the classes of operators, their times, and the pass."""
    end = f"_of_{name}" if name else ""
    b, loads = p.batch, p.loads
    yield crossing_term(p, phase, end)
    yield from intensity_terms(p, phase, k, end)
    dense, grouped = ms(phase.dense_s), ms(phase.grouped_s)
    peak = f"{float(loads.peak_flops[0]) / 1e12:.6g} TFLOP/s"
    flops = [(float(loads.flops[0, k]), p.reached("compute")), (float(loads.grouped_flops[0, k]), p.reached("grouped"))]
    yield Term(
        name=f"compute_time{end}",
        value=dense + grouped,
        unit="ms",
        formula=" + ".join(f"{b} samples x {f:.6g} FLOP / ({peak} x {e:.6g})" for f, e in flops if f),
    )
    moved = [
        (float(phase.weights_bytes[0, 0]), "weights"),
        (float(phase.products_bytes[0, 0]), "results of products"),
        (float(phase.elementwise_bytes[0, 0]), "element-wise results"),
        (float(phase.cache_bytes[0, 0]), "cached keys and values"),
    ]
    told = " + ".join(f"{size:.6g} B of {what}" for size, what in moved if size)
    yield Term(
        name=f"traffic_time{end}",
        value=ms(phase.memory_s),
        unit="ms",
        formula=f"({told}) / ({float(loads.bandwidth[0]) / 1e9:.6g} GB/s x {p.reached('bandwidth'):.6g})",
    )
    products, operator = float(loads.products[0, k]), p.reached("operator")
    yield Term(
        name=f"operators_time{end}",
        value=1e3 * products * operator,
        unit="ms",
        formula=f"{products:g} matrix products and convolutions x {operator * 1e6:.6g} us, whatever their size",
    )
    launches, host = float(loads.operators[0, k]), ms(phase.host_s)
    if launches:
        yield Term(
            name=f"host_time{end}",
            value=host,
            unit="ms",
            formula=f"{launches:g} operators x {p.reached('launch') * 1e6:.6g} us to launch one, beside the device",
        )
    device = f"({dense + grouped:.6g}^{OVERLAP:g} + {ms(phase.memory_s):.6g}^{OVERLAP:g})^(1/{OVERLAP:g}) + {1e3 * products * operator:.6g} ms"
    yield Term(
        name=f"pass_time{end}",
        value=ms(phase.seconds),
        unit="ms",
        formula=f"(({device})^{RACE:g} + {host:.6g}^{RACE:g})^(1/{RACE:g})" if launches else device,
    )
    yield bound_term(p, phase, k, end)


def crossing_term(p: Priced, phase: Phase, end: str) -> Term:
    """Return the share of results that crosses memory, and why not all."""
    if not float(p.loads.off_chip[0]):
        return Term(
            name=f"crossing_share{end}", value=0.0, unit="fraction", formula="results stay in the core's own memory"
        )
    least = p.reached("crossing")
    live, cache = float(phase.live_bytes[0, 0]), float(p.loads.cache_bytes[0])
    kept = cache * p.reached("keeps")
    formula = (
        f"1 - (1 - {least:.6g}) / (1 + {live:.6g} B live / ({p.reached('keeps'):.6g} x {cache:.6g} B of last-level cache))"
        if cache
        else "no last-level cache is known: all"
    )
    value = float(phase.crossing[0, 0]) if kept else 1.0
    return Term(name=f"crossing_share{end}", value=value, unit="fraction", formula=formula, source=p.citation)


def intensity_terms(p: Priced, phase: Phase, k: int, end: str) -> Iterator[Term]:
    """Yield each class of operators: FLOPs over bytes, held against the ridge of what the device reaches."""
    b, loads = p.batch, p.loads
    bandwidth = float(loads.bandwidth[0]) * p.reached("bandwidth")
    dense = b * float(loads.flops[0, k])
    grouped = b * float(loads.grouped_flops[0, k])
    written = float(phase.products_bytes[0, 0])
    share = dense / (dense + grouped) if dense + grouped else 1.0
    classes = [
        (
            "products",
            dense,
            float(phase.weights_bytes[0, 0]) + share * written,
            "compute",
            dense,
            "weights and results",
        ),
        (
            "grouped_convolutions",
            grouped,
            (1 - share) * written,
            "grouped",
            grouped,
            "their share of the results, by FLOPs",
        ),
        (
            "elementwise",
            ELEMENTWISE_FLOPS * b * float(loads.elementwise_elements[0, k]),
            float(phase.elementwise_bytes[0, 0]),
            "",
            0.0,
            f"results that are not fused; {ELEMENTWISE_FLOPS:g} operations a number, not in the time",
        ),
        (
            "attention_over_cache",
            0.0,
            float(phase.cache_bytes[0, 0]),
            "",
            0.0,
            "keys and values; FLOPs are in the products",
        ),
    ]
    for name, flops, moved, slot, timed, what in classes:
        if not flops and not moved:
            continue
        compute_s = timed / (float(loads.peak_flops[0]) * p.reached(slot)) if timed else 0.0
        memory_s = moved / bandwidth
        told = f"{compute_s * 1e3:.6g} ms of compute, {memory_s * 1e3:.6g} ms of memory"
        bound = COMPUTE if compute_s > memory_s else MEMORY
        ridge = f" (ridge {float(loads.peak_flops[0]) * p.reached(slot) / bandwidth:.4g})" if timed else ""
        yield Term(
            name=f"intensity_{name}{end}",
            value=flops / moved if moved else "nothing crosses memory",
            unit="FLOP/byte",
            formula=f"{flops:.6g} FLOPs / {moved:.6g} bytes of {what}; bound by {bound}{ridge}: {told}",
            source="roofline",
        )


def bound_term(p: Priced, phase: Phase, k: int, end: str) -> Term:
    """Return what a pass is bound by most."""
    shares = {
        COMPUTE: ms(phase.dense_s) + ms(phase.grouped_s),
        MEMORY: ms(phase.memory_s),
        OPERATORS: 1e3 * float(p.loads.products[0, k]) * p.reached("operator"),
        HOST: ms(phase.host_s),
    }
    told = ", ".join(f"{name} {t:.4g} ms" for name, t in sorted(shares.items(), key=lambda item: -item[1]) if t)
    return Term(name=f"bound{end}", value=max(shares, key=lambda n: shares[n]), unit="", formula=f"longest of {told}")


def ms(seconds: Array) -> float:
    """Return the milliseconds of one row and batch."""
    return 1e3 * float(seconds.flat[0])
