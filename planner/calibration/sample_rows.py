"""What the words of a row of models priced per sample mean: engine, number format, share of a chip, batch. Pure text and figures in, values out."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from planner.calibration.model import Row
from planner.perf.samples_loads import NEURON_CORES
from pricing.model import Accelerator, AcceleratorKind

ENGINES = (  # first that fits, in lower case
    ("fastertransformer pytorch / torchscript", "torchscript"),
    ("fastertransformer  / torch.jit.trace", "torchscript"),
    ("fastertransformer  / torch op", "fastertransformer"),
    ("fastertransformer  / torch", "pytorch eager"),
    ("fastertransformer", "fastertransformer"),
    ("torch.compile", "torch.compile"),
    ("pytorch tensorrt", "tensorrt"),
    ("tensorrt", "tensorrt"),
    ("trt", "tensorrt"),
    ("cuda", "tensorrt"),  # MLPerf submissions that name only CUDA
    ("ngc mlperf", "tensorrt"),
    ("onnxruntime", "onnxruntime"),
    ("vllm", "vllm"),
    ("ctranslate2", "ctranslate2"),
    ("marian", "marian"),
    ("transformers", "pytorch eager"),
    ("shark", "iree"),
    ("thestage", "tensorrt"),
    ("pytorch", "pytorch eager"),
    ("dglpytorch", "pytorch eager"),
    ("tensorflow", "tensorflow"),
    ("paddle", "paddle"),
)
XLA_PAGES: Final = (
    "tensorflow/languagemodeling/bert",
    "tensorflow2/languagemodeling/bert",
    "tensorflow/segmentation/unet_industrial",
    "tensorflow2/classification/convnets/efficientnet",
    "tensorflow2/detection/efficientdet",
)
"""Pages of DeepLearningExamples whose inference benchmark scripts switch XLA on, without the page saying so."""
COMPILED: Final = frozenset({"tensorrt", "torch.compile", "fastertransformer", "neuron", "iree"})
"""Engines that replay a compiled program: the host launches no operator by itself."""
FORMAT_WIDTH = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "int8": 1.0, "fp8": 1.0, "fp4": 1.0}
FORMAT_WORDS = (  # the first that occurs; mixed precision computes its products in 16 bits
    (("int8", "w8a8"), "int8"),
    (("fp8", "float8", "e4m3"), "fp8"),
    (("fp4", "float4"), "fp4"),
    (("bf16", "bfloat16"), "bf16"),
    (("fp16", "float16", "amp", "mixed", "half"), "fp16"),
    (("tf32",), "tf32"),
    (("fp32", "float32", "single"), "fp32"),
)
NOT_SAID = frozenset({"", "unspecified", "unknown", "n/a", "-", "none"})
AS_STATED = frozenset({"whisper"})
"""Models of MLPerf whose TensorRT engines run in the format that is stated: converters of encoder-decoders had no fp8."""
NEXT_FORMAT = {"fp4": "fp8", "fp8": "int8", "int8": "fp16", "bf16": "fp16", "tf32": "fp32", "fp16": "bf16"}
"""What a chip computes in that lacks a format."""
MIG_COMPUTE, MIG_MEMORY = {"A30": 4}, {"A30": 4}
"""Slices of a chip that is divided; 7 of compute and 8 of memory on all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What of a chip one device of a row is."""

    compute: float
    memory: float
    name: str  # "" for whole chips


def engine_of(row: Row, chip: Accelerator) -> str:
    """Return the engine class of a row."""
    if chip.kind is AcceleratorKind.NEURON:
        return "neuron"
    text = row.get("engine", "").lower()
    found = next((engine for word, engine in ENGINES if word in text), "other")
    context = row.get("notes", "").lower()
    page = row.get("source", "").lower()
    if found == "tensorflow" and ("xla" in context or any(each in page for each in XLA_PAGES)):
        return "tensorflow 2 xla" if "tensorflow2" in text else "tensorflow xla"
    if found == "pytorch eager" and "torchscript" in context:
        return "torchscript"
    if "nhwc" in text:
        return found + " nhwc"
    return found


def generation_of(row: Row, engine: str) -> str:
    """Return engine and version as far as a row states one: "torch.compile 2.91"."""
    found = re.search(r"(\d+\.\d+)", row.get("engine", ""))
    return f"{engine} {found[1]}" if found else ""


def is_mlperf(row: Row) -> bool:
    """Return whether a row is of MLPerf's closed division, whose precision may be that of the input alone."""
    return "mlperf" in row.get("source", "").lower()


def format_of(row: Row, chip: Accelerator, engine: str) -> str | None:
    """Return the number format that the products are computed in; None where the row names one that nobody knows.

    MLPerf states the format of the weights before the engine was built, or that of the input; submitters take the narrowest format
    that the accuracy target allows: 8 bits, but 16 for BERT's stricter target where a chip has no fp8, and for Whisper.
    """
    stated = row.get("precision", "").lower().strip()
    if stated in NOT_SAID:
        stated = ""
    word = next((form for words, form in FORMAT_WORDS if any(each in stated for each in words)), None)
    if stated and word is None:
        return None
    if is_mlperf(row) and engine.startswith("tensorrt") and row.get("model", "").lower() not in AS_STATED:
        wide = "fp16" in stated and "int8" not in stated and row.get("model", "").lower() == "bert"
        found = ("fp8" if "fp8" in chip.peak_tflops else "fp16") if wide else "fp8" if "fp8" in stated else "int8"
    else:
        context = row.get("notes", "").lower()
        found = word or next((form for words, form in FORMAT_WORDS if any(each in context for each in words)), "fp32")
    if chip.kind is AcceleratorKind.NEURON and found == "fp32":
        found = "bf16"  # its compiler casts matrix products
    return available(found, chip)


def available(wanted: str, chip: Accelerator) -> str:
    """Return the format itself where the chip has it, else what it computes in instead."""
    found, tried = wanted, set()
    while found not in chip.peak_tflops and found in NEXT_FORMAT and found not in tried:
        tried.add(found)
        found = NEXT_FORMAT[found]
    return found if found in chip.peak_tflops else "fp32"


def share_of(gpu: str, chip: Accelerator) -> Share:
    """Return the share of a chip that one device of a row is: a MIG slice, a NeuronCore, or all of it."""
    slices = re.search(r"MIG[- ](\d)g", gpu, re.IGNORECASE)
    if slices:
        compute, memory = MIG_COMPUTE.get(chip.name, 7), MIG_MEMORY.get(chip.name, 8)
        return Share(compute=int(slices[1]) / compute, memory=int(slices[1]) / memory, name=f"{slices[1]}g")
    cores = NEURON_CORES.get(chip.architecture, 1)
    return Share(compute=1 / cores, memory=1 / cores, name="core" if cores > 1 else "")


def number(text: str) -> float | None:
    """Return a positive number of a cell, None where there is none."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def activations_m(row: Row) -> float | None:
    """Return the activations of one sample in 1e6 elements where the notes state them."""
    found = re.search(r"activations ([\d.]+) M", row.get("notes", ""))
    return float(found[1]) if found else None
