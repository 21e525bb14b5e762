"""What runs models priced per sample: the runtime of each kind of chip, and the number format they compute in."""

from __future__ import annotations

from planner.models.spec import ModelSpec
from planner.perf.model import Hardware, Infeasible, InferenceWork, RejectionReason
from planner.perf.precision import Format, resolve
from pricing.model import AcceleratorKind

TENSORRT_CAPABILITY = 7.0
"""Oldest compute capability with tensor cores; TensorRT 10 starts at 7.5 (NVIDIA/TensorRT-LLM#2400), TensorRT 8 still runs 7.0."""
TENSORRT_10_CAPABILITY = 7.5


def sample_engine(hardware: Hardware, work: InferenceWork) -> str | Infeasible:
    """Return the runtime for models priced per sample; serving engines for token generation do not apply to them.

    NVIDIA chips with tensor cores run TensorRT unless plain PyTorch is asked for; Neuron chips the Neuron runtime; TPUs JAX.
    """
    kind = hardware.kind
    if kind is AcceleratorKind.GPU:
        if hardware.compute_capability is None:
            if hardware.architecture.upper().startswith("CDNA"):
                return "pytorch"
            return Infeasible(
                reason=RejectionReason.ENGINE_UNSUPPORTED,
                detail=f"{hardware.accelerator} ({hardware.architecture}) has no build of PyTorch or TensorRT",
                figures={"accelerator": hardware.accelerator},
            )
        return (
            "tensorrt" if hardware.compute_capability >= TENSORRT_CAPABILITY and work.engine != "pytorch" else "pytorch"
        )
    if kind is AcceleratorKind.NEURON:
        return "neuron"
    if kind is AcceleratorKind.TPU:
        return "jax"
    if kind is AcceleratorKind.GAUDI:
        return "optimum-habana"
    if kind is AcceleratorKind.CPU:
        return "pytorch"
    return "qaic" if hardware.vendor == "Qualcomm" else "vendor runtime"


def sample_format(spec: ModelSpec, hardware: Hardware, work: InferenceWork) -> Format | Infeasible:
    """Return the number format: the asked one, else 16-bit, else fp32 on chips without 16-bit arithmetic."""
    found = resolve(spec, hardware, work.precision)
    if isinstance(found, Infeasible) and work.precision is None and "fp32" in hardware.peak_tflops:
        note = f"{hardware.accelerator} has no 16-bit arithmetic: fp32 is used"
        return Format(weights="fp32", compute="fp32", wide="fp32", native=True, notes=(note,))
    return found


def support_notes(hardware: Hardware, engine: str) -> tuple[str, ...]:
    """Return what has to be seen to before the runtime starts on old chips."""
    capability = hardware.compute_capability
    if capability is None or capability >= TENSORRT_10_CAPABILITY:
        return ()
    if engine == "tensorrt":
        return (
            f"TensorRT 10 starts at compute capability {TENSORRT_10_CAPABILITY:g}: {hardware.accelerator} ({capability:g}) needs TensorRT 8",
        )
    return ()
