"""Number formats: how many bits a weight takes, what a chip computes natively, and what it can only store.

Native = the chip's dense peak for the format is known. Weight-only = weights are stored narrow and widened on the fly, so they
count at their stored size and compute runs at the 16-bit peak. What is neither is unsupported.

Sources: NVIDIA CUDA programming guide (arithmetic by compute capability: bf16 from 8.0, fp8 from 8.9, fp4 from 10.0); vLLM
documentation, "Quantization: supported hardware" (weight-only kernels: fp8 and fp4 Marlin from 8.0, AWQ from 7.5, GPTQ and GGUF
from 7.0); AWS Neuron and Gaudi documentation; read 2026-11.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.models.gguf import GGUF_FORMATS
from planner.models.precision import group_bits
from planner.models.spec import ModelSpec, Quantization, TensorGroup
from planner.perf.model import Hardware, Infeasible, RejectionReason
from pricing.model import AcceleratorKind

BITS_PER_WEIGHT = {
    "fp32": 32.0,
    "tf32": 32.0,  # stored as fp32
    "fp16": 16.0,
    "bf16": 16.0,
    "fp8": 8.0,
    "int8": 8.0,
    "int4": 4.0 + 16 / 128,  # one fp16 scale per group of 128
    "fp4": 4.0 + 8 / 16,  # NVFP4: one 8-bit scale per 16
    "mxfp4": 4.0 + 8 / 32,  # OCP MX: one 8-bit scale per 32
    "gguf-q8_0": 8.5,
    "gguf-q6_k": 6.5625,
    "gguf-q5_k_m": 5.7,
    "gguf-q4_k_m": 4.85,  # GGUF mix of 4- and 6-bit blocks, embeddings included: 42.52 GB for 70.55e9 parameters
    "gguf-q4_0": 4.6,
}
"""Stored bits per quantised weight, scales included; of mixes the mean over the tensors of a model (`models.gguf` has each tensor's)."""
SHORT_NAMES = {name.removeprefix("gguf-"): name for name in GGUF_FORMATS}  # as llama.cpp calls them

WIDE = frozenset({"fp32", "tf32", "fp16", "bf16"})
WHOLE_MODEL = frozenset(GGUF_FORMATS)  # formats that convert embeddings and head too
SIXTEEN_BIT = ("bf16", "fp16")
FOUR_BIT_FLOATS = frozenset({"fp4", "mxfp4"})  # e2m1 numbers; their scales differ
KV_BITS: dict[str, float] = {
    "fp16": 16,
    "bf16": 16,
    "fp32": 32,
    "fp8": 8,
    "int8": 8,
    "int4": 4 + 2 * 16 / 128,  # a 16-bit scale and offset for each token and head of 128
}
KV_OF_ENGINE = {
    "vllm": ("fp8", "int8", "int4"),
    "tensorrt-llm": ("fp8", "int8"),
    "sglang": ("fp8",),
    "tgi": ("fp8",),
    "llama.cpp": ("int8", "int4"),
    "neuron": ("fp8",),
    "pytorch": ("int8", "int4"),
}
"""Narrow formats that engines can keep a cache in. vLLM CacheDType (int8 and int4 per token and head), TensorRT-LLM KV cache system,
SGLang and TGI --kv-cache-dtype, llama.cpp --cache-type-k (q8_0, q4_0), NxD Inference KV cache quantization, Transformers
QuantizedCache; read 2026-11."""
NO_GGUF = ("tensorrt-llm", "tgi", "neuron", "pytorch")
GGUF_ONLY = ("llama.cpp",)
IN_GGUF = frozenset({*GGUF_FORMATS, "fp32", "fp16", "bf16", "mxfp4"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Weights as stored, arithmetic as executed on one chip.

    `weights` is the stored format (a key of `BITS_PER_WEIGHT`), `compute` the format whose dense peak bounds quantised matrix
    products, `wide` the one of the rest. `native` is False when the format only shrinks the weights.
    """

    weights: str
    compute: str
    wide: str
    native: bool
    stored: bool = False  # as the checkpoint stores it, tensor by tensor
    notes: tuple[str, ...] = ()


def is_native(hardware: Hardware, name: str) -> bool:
    """Return whether the chip has arithmetic for a format."""
    capability = hardware.compute_capability
    if capability is not None:
        least = {"bf16": 8.0, "tf32": 8.0, "fp8": 8.9, "fp4": 10.0, "mxfp4": 10.0, "int8": 6.1, "fp16": 5.3}.get(name)
        if least is not None and capability < least:
            return False
    return ("fp4" if name == "mxfp4" else name) in hardware.peak_tflops


def is_weight_only(hardware: Hardware, name: str) -> bool:
    """Return whether engines can keep weights in this format on the chip and compute in 16 bits."""
    if hardware.kind is AcceleratorKind.GPU:
        if hardware.compute_capability is None:  # AMD: AWQ, GPTQ, GGUF and fp8 kernels on CDNA
            return hardware.architecture.upper().startswith("CDNA")
        least = {"fp8": 8.0, "fp4": 8.0, "mxfp4": 8.0, "int8": 7.0, "int4": 7.0}.get(name)
        if name in GGUF_FORMATS:
            least = 5.0
        return least is not None and hardware.compute_capability >= least
    if hardware.kind is AcceleratorKind.CPU:
        return name in {"int8", "int4", *GGUF_FORMATS}
    if hardware.kind is AcceleratorKind.NEURON:
        return name in {"int8", "fp8"} and hardware.architecture != "NeuronCore-v1 x4"
    if hardware.kind is AcceleratorKind.GAUDI:
        return name in {"int4", "int8"}
    return False


def stored_format(quantization: Quantization) -> str:
    """Return the key of `BITS_PER_WEIGHT` nearest to how a checkpoint is stored."""
    method = quantization.method.lower()
    for name in ("mxfp4", *GGUF_FORMATS, "fp8"):
        if name in method:
            return name
    if "fp4" in method:
        return "fp4"
    return "int8" if quantization.bits > 6 else "int4"


def sixteen_bit(hardware: Hardware, wanted: str) -> str | None:
    """Return the 16-bit format that a chip computes: the wanted one, else the other, else None."""
    others = [wanted, *(f for f in SIXTEEN_BIT if f != wanted)]
    return next((f for f in others if is_native(hardware, f)), None)


def resolve(
    spec: ModelSpec, hardware: Hardware, requested: str | None, *, engine: str | None = None
) -> Format | Infeasible:
    """Return how a chip and an engine run the model in the requested format (None: the checkpoint's own), or why they cannot.

    bf16 on a chip without it becomes fp16 (and the other way round on chips that have only bf16), with a note. A CPU without
    16-bit arithmetic computes in fp32. A format that the checkpoint is published in already (fp4 and mxfp4 are both its 4 bits)
    keeps the checkpoint's own tensors: quantising them again would only lose accuracy.
    """
    requested = requested if requested is None else SHORT_NAMES.get(requested, requested)
    own = stored_format(spec.quantization) if spec.quantization else None
    stored = own is not None and (requested is None or requested == own or {requested, own} <= FOUR_BIT_FLOATS)
    wanted = own if stored else requested
    native_wide = spec.native_dtype if spec.native_dtype in SIXTEEN_BIT else "bf16"
    if wanted is None:
        wanted = native_wide
    if wanted not in BITS_PER_WEIGHT:
        return _unsupported(hardware, wanted, f"unknown format; known: {', '.join(sorted(BITS_PER_WEIGHT))}")
    if engine in NO_GGUF and wanted in GGUF_FORMATS:
        return _unsupported(hardware, wanted, f"{engine} does not read GGUF files; llama.cpp and vllm do")
    if engine in GGUF_ONLY and wanted not in IN_GGUF:
        return _unsupported(
            hardware, wanted, f"{engine} reads GGUF files, which have no {wanted}: ask for {', '.join(SHORT_NAMES)}"
        )
    if wanted in ("fp32", "tf32"):
        if is_native(hardware, wanted):
            return Format(weights="fp32", compute=wanted, wide=wanted, native=True)
        return _unsupported(
            hardware, wanted, f"{hardware.accelerator} has no {wanted} arithmetic that we know a peak of"
        )
    wide = sixteen_bit(hardware, wanted if wanted in SIXTEEN_BIT else native_wide)
    notes: list[str] = []
    if stored and requested not in (None, own):
        notes.append(f"{requested} was asked for: the checkpoint is published in {own} and keeps its own tensors")
    if wide is None:
        if hardware.kind is not AcceleratorKind.CPU or "fp32" not in hardware.peak_tflops:
            return _unsupported(
                hardware, wanted, f"{hardware.accelerator} has no 16-bit arithmetic that we know a peak of"
            )
        wide = "fp32"
    if wanted in SIXTEEN_BIT:
        if wide != wanted:
            notes.append(f"{hardware.accelerator} has no {wanted}: {wide} is used instead")
        return Format(weights=wide, compute=wide, wide=wide, native=True, notes=tuple(notes))
    if is_native(hardware, wanted):
        compute = (
            "fp8" if wanted == "mxfp4" and "fp8" in hardware.peak_tflops else "fp4" if wanted == "mxfp4" else wanted
        )
        return Format(weights=wanted, compute=compute, wide=wide, native=True, stored=stored, notes=tuple(notes))
    if is_weight_only(hardware, wanted):
        if wanted != "int4" and wanted not in GGUF_FORMATS:  # these are weight-only everywhere; nothing to warn of
            notes.append(
                f"{hardware.accelerator} has no {wanted} arithmetic: weights are stored in {wanted}, compute runs in {wide}"
            )
        return Format(weights=wanted, compute=wide, wide=wide, native=False, stored=stored, notes=tuple(notes))
    return _unsupported(
        hardware, wanted, f"{hardware.accelerator} neither computes {wanted} nor has weight-only kernels for it"
    )


def _unsupported(hardware: Hardware, wanted: str, why: str) -> Infeasible:
    return Infeasible(
        reason=RejectionReason.PRECISION_UNSUPPORTED,
        detail=why,
        figures={"accelerator": hardware.accelerator, "precision": wanted},
    )


def bits_of(group_bits: float | None, *, quantisable: bool, form: Format) -> float:
    """Return the stored bits per parameter of a tensor group under a format.

    `group_bits` is what the checkpoint says (None = its native 16 bits). Norms, routers, embeddings and the head stay 16-bit in
    quantised formats unless the format converts the whole model.
    """
    wide_bits = 32.0 if form.wide in ("fp32", "tf32") else 16.0
    if form.stored:
        return wide_bits if group_bits is None else group_bits
    if form.weights in WIDE or form.weights in WHOLE_MODEL or quantisable:
        return BITS_PER_WEIGHT[form.weights]
    return wide_bits


def tensor_bits(spec: ModelSpec, tensor: TensorGroup, form: Format) -> float:
    """Return the stored bits per parameter of one tensor group: the checkpoint's own, or those of the format asked for."""
    if form.stored:
        return tensor.stored_bits if tensor.stored_bits is not None else (32.0 if form.wide == "fp32" else 16.0)
    return group_bits(spec, tensor, form.weights)
