"""What can train at all: the software of each kind of chip, and the precision it trains in."""

from __future__ import annotations

from planner.models.spec import ModelKind, ModelSpec, TensorClass
from planner.perf.model import Hardware, Infeasible, RejectionReason, TrainingWork
from planner.perf.precision import is_native, sixteen_bit
from planner.perf.training_work import PARAMETER_EFFICIENT
from pricing.model import AcceleratorKind

ENGINES = {
    AcceleratorKind.GPU: "pytorch",
    AcceleratorKind.CPU: "pytorch",
    AcceleratorKind.GAUDI: "optimum-habana",
    AcceleratorKind.NEURON: "neuronx-distributed",
    AcceleratorKind.TPU: "maxtext",
}
TRAINING_PRECISIONS = ("bf16", "fp16", "tf32", "fp32", "fp8", "fp4")
CURRENT_CAPABILITY, CUDA_12_6_CAPABILITY = 7.5, 5.0
"""PyTorch 2.11's wheels for CUDA 12.8 and 13.0 start at compute capability 7.5, those for CUDA 12.6 at 5.0 (pytorch/pytorch
RELEASE.md, change 175253 of 2026-02-18); older chips need an old release."""


def training_engine(spec: ModelSpec, hardware: Hardware, work: TrainingWork) -> str | Infeasible:
    """Return the software that trains this model on this hardware, or why there is none."""

    def none(why: str) -> Infeasible:
        return Infeasible(
            reason=RejectionReason.ENGINE_UNSUPPORTED,
            detail=why,
            figures={"accelerator": hardware.accelerator, "method": work.method},
        )

    kind = hardware.kind
    if kind not in ENGINES and kind is not AcceleratorKind.INFERENCE_CARD:
        return none(f"no training software is known for {hardware.accelerator}")
    if kind is AcceleratorKind.INFERENCE_CARD or hardware.accelerator.startswith("Inferentia"):
        return none(f"{hardware.accelerator} only runs inference")
    if (
        kind is AcceleratorKind.GPU
        and hardware.compute_capability is None
        and not hardware.architecture.upper().startswith("CDNA")
    ):
        return none(f"{hardware.accelerator} ({hardware.architecture}) has no training build of PyTorch")
    convolutional = spec.kind is ModelKind.VISION and not spec.attention
    if kind is AcceleratorKind.NEURON and (convolutional or spec.kind is ModelKind.DIFFUSION):
        return none("the Neuron training stack covers transformers, not convolutional networks")
    projections = {TensorClass.ATTENTION, TensorClass.MLP, TensorClass.EXPERT, TensorClass.STATE_SPACE}
    if work.method in PARAMETER_EFFICIENT and not any(g.tensor_class in projections for g in spec.tensors):
        return none(f"{work.method} adapts projection matrices; {spec.name} has none")
    if work.method == "qlora" or work.optimizer == "adamw_8bit":
        what = "4-bit base weights (bitsandbytes NF4)" if work.method == "qlora" else "8-bit Adam (bitsandbytes)"
        if kind is not AcceleratorKind.GPU:
            return none(f"{what} need a GPU")
        if hardware.compute_capability is not None and hardware.compute_capability < 6.0:
            return none(
                f"{what} need compute capability 6.0; {hardware.accelerator} has {hardware.compute_capability:g}"
            )
    return ENGINES[kind]


def training_precision(
    spec: ModelSpec, hardware: Hardware, requested: str | None
) -> tuple[str, tuple[str, ...]] | Infeasible:
    """Return the arithmetic that training runs in and what to say of it, or why the chip cannot.

    Without a request: 16-bit mixed precision, bf16 where the chip has it, else fp16 with loss scaling, else fp32.
    """
    chip = hardware.accelerator

    def none(why: str) -> Infeasible:
        return Infeasible(
            reason=RejectionReason.PRECISION_UNSUPPORTED,
            detail=why,
            figures={"accelerator": chip, "precision": requested or "16-bit"},
        )

    notes: list[str] = []
    capability = hardware.compute_capability
    if capability is not None and capability < CUDA_12_6_CAPABILITY:
        notes.append(f"{chip} (compute capability {capability:g}) needs an old PyTorch release")
    elif capability is not None and capability < CURRENT_CAPABILITY:
        notes.append(
            f"PyTorch's wheels for CUDA 12.8 and newer start at compute capability {CURRENT_CAPABILITY:g}: {chip} ({capability:g}) "
            "needs those for CUDA 12.6"
        )
    if requested is not None and requested not in TRAINING_PRECISIONS:
        return none(
            f"nothing trains in {requested}; possible: {', '.join(TRAINING_PRECISIONS)} (method qlora keeps a 4-bit base)"
        )
    if requested in {"fp8", "fp4"} and (spec.kind is ModelKind.DIFFUSION or not spec.attention):
        return none(f"{requested} training covers the matrix products of transformers, not convolutions ({spec.name})")
    if requested in {"fp8", "fp4", "tf32", "fp32"}:
        if not is_native(hardware, requested):
            return none(f"{chip} has no {requested} arithmetic that we know a peak of")
        return requested, tuple(notes)
    wanted = requested or (spec.native_dtype if spec.native_dtype == "bf16" else "bf16")
    precision = sixteen_bit(hardware, wanted)
    if precision is None:
        if "fp32" not in hardware.peak_tflops:
            return none(f"{chip} has no arithmetic that we know a peak of")
        notes.append(f"{chip} has no 16-bit arithmetic: fp32 is used")
        return "fp32", tuple(notes)
    if precision == "fp16" and wanted == "bf16":
        notes.append(f"{chip} has no bf16: fp16 with loss scaling is used")
    return precision, tuple(notes)
