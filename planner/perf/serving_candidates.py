"""Every (format, split over devices) that could start on a hardware, and why the others could not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec
from planner.perf import engines, llm
from planner.perf.layouts import Split, quantization_of, spans_of, splits_of
from planner.perf.model import Hardware, Infeasible, InferenceWork, RejectionReason
from planner.perf.parameters import Parameters
from planner.perf.precision import KV_BITS, KV_OF_ENGINE, Format, is_native, resolve
from planner.perf.serving_parameters import Keys, request_keys, values_of
from planner.perf.serving_rates import machine, peaks_from, peaks_of

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One hardware as one (format, split) may run it: everything that does not depend on concurrency."""

    row: int  # index among the distinct hardware
    hardware: Hardware
    form: Format
    kv_precision: str
    support: engines.Support
    split: Split
    keys: Keys  # what describes it to the fitted parameters
    parameters: Parameters

    @property
    def replicas(self) -> int:
        """Replicas of the evaluated instances together."""
        return self.split.replicas(self.hardware.devices)


def why_too_long(spec: ModelSpec, work: InferenceWork) -> Infeasible | None:
    """Return the refusal of a request that is longer than the model's context."""
    total = work.input_tokens + work.output_tokens
    if spec.max_context is None or total <= spec.max_context:
        return None
    detail = f"a request of {work.input_tokens} + {work.output_tokens} tokens is longer than {spec.name}'s context of {spec.max_context}"
    return Infeasible(
        reason=RejectionReason.LAYOUT_IMPOSSIBLE,
        detail=detail,
        figures={"tokens": total, "max_context": spec.max_context},
    )


Known = dict[tuple[object, ...], tuple[list[Split], str]]
"""Splits that were found for as many devices, the same engine and grouping of weights."""


def candidates_of(
    spec: ModelSpec,
    row: int,
    h: Hardware,
    work: InferenceWork,
    *,
    parameters: Parameters,
    spanning: bool = False,
    known: Known | None = None,
) -> list[Candidate | Infeasible]:
    """Return every format and split that could start on one hardware, and why the others could not.

    `spanning`: one replica over several machines, which is tried where the model fits no single one. `known` is kept from one hardware
    to the next of the same question.
    """
    known = {} if known is None else known
    support = engines.support_of(work.engine, h)
    if isinstance(support, Infeasible):
        return [support]
    if h.memory_bandwidth_gb_s is None or not h.peak_tflops:
        why = f"{h.accelerator}: memory bandwidth or dense peak is not known, so nothing can be said of its speed"
        return [
            Infeasible(reason=RejectionReason.ENGINE_UNSUPPORTED, detail=why, figures={"accelerator": h.accelerator})
        ]
    out: list[Candidate | Infeasible] = []
    for requested in dict.fromkeys((work.precision, *work.allowed_precisions)):
        form = resolve(spec, h, requested, engine=work.engine)
        kv = form if isinstance(form, Infeasible) else _kv_precision(h, form, work)
        if isinstance(form, Infeasible) or isinstance(kv, Infeasible):
            out.append(form if isinstance(form, Infeasible) else kv)  # type: ignore[arg-type]  # one of the two is
            continue
        stored = quantization_of(spec, form)
        key = (support, h.devices, h.network_gbps, h.accelerator, stored, spanning)
        if key not in known:
            known[key] = (
                (spans_of(spec, h, work, support, stored), "")
                if spanning
                else splits_of(spec, h, work, support, stored)
            )
        splits, why = known[key]
        described = {
            alone: request_keys(spec, h, form, work.engine, 1 if alone else 2)
            for alone in {split.devices == 1 for split in splits}
        }
        if not splits and why:
            out.append(Infeasible(reason=RejectionReason.LAYOUT_IMPOSSIBLE, detail=why, figures={"devices": h.devices}))
        out.extend(
            Candidate(
                row=row,
                hardware=h,
                form=form,
                kv_precision=kv,
                support=support,
                split=split,
                keys=described[split.devices == 1],
                parameters=parameters,
            )
            for split in splits
        )
    return out


def _kv_precision(h: Hardware, form: Format, work: InferenceWork) -> str | Infeasible:
    """Return the cache format: the asked one where the chip can keep it, else that of the 16-bit (or fp32) arithmetic."""
    wanted = work.kv_precision
    if wanted is None or wanted in ("bf16", "fp16"):
        return form.wide if form.wide in KV_BITS else "fp32"
    if wanted not in KV_BITS:
        return Infeasible(
            reason=RejectionReason.PRECISION_UNSUPPORTED,
            detail=f"KV cache format {wanted} is not known",
            figures={"kv_precision": wanted},
        )
    if wanted != "fp32" and wanted not in KV_OF_ENGINE[work.engine]:
        kept = ", ".join(("fp16", "bf16", *KV_OF_ENGINE[work.engine]))
        return Infeasible(
            reason=RejectionReason.PRECISION_UNSUPPORTED,
            detail=f"{work.engine} cannot keep a KV cache in {wanted}; it can in {kept}",
            figures={"engine": work.engine, "kv_precision": wanted},
        )
    stored_only = work.engine == "llama.cpp" or (h.compute_capability is not None and h.compute_capability >= 8.0)
    if wanted == "fp32" or is_native(h, wanted) or stored_only:
        return wanted
    return Infeasible(
        reason=RejectionReason.PRECISION_UNSUPPORTED,
        detail=f"{h.accelerator} cannot keep a KV cache in {wanted}",
        figures={"accelerator": h.accelerator, "kv_precision": wanted},
    )


def machine_of(members: Sequence[Candidate]) -> llm.Machine:
    """Return usable rates of many candidates as columns [hardware, 1]."""
    values = np.stack([values_of(c.keys, c.parameters) for c in members])[:, None, :]
    peaks = np.array([peaks_of(c.hardware, c.form) for c in members], dtype=np.float64)[:, None, :]
    return machine(values, peaks_from(peaks))
