"""What the words of a serving row mean: engine, generation, number formats, hardware and lengths. Pure text and figures in, values out."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from planner.calibration.model import Facts, Row
from planner.models.spec import ModelSpec
from planner.perf.hardware import VISIBLE_SHARE_WHERE_UNKNOWN
from planner.perf.model import Hardware, Infeasible
from planner.perf.precision import Format, is_native, resolve, sixteen_bit
from pricing.model import Accelerator, AcceleratorKind, InterconnectKind

ENGINES = (  # first word of the engine's name that fits, in lower case
    ("tensorrt", "tensorrt-llm"),
    ("trt", "tensorrt-llm"),
    ("cuda", "tensorrt-llm"),  # MLPerf submissions that name only CUDA
    ("optimum nvidia", "tensorrt-llm"),
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("text-generation-inference", "tgi"),
    ("tgi", "tgi"),
    ("transformers neuron", "neuron"),
    ("neuron", "neuron"),
    ("llama.cpp", "llama.cpp"),
    ("ollama", "llama.cpp"),
    ("ctransformers", "llama.cpp"),
    ("deepspeed-mii", "deepspeed-mii"),
    ("deepspeed", "deepspeed"),
    ("transformers", "pytorch"),
    ("pytorch", "pytorch"),
    ("hf", "pytorch"),
    ("lmdeploy", "lmdeploy"),
    ("fastertransformer", "fastertransformer"),
    ("gpt-fast", "gpt-fast"),
    ("autogptq", "autogptq"),
    ("autoawq", "autoawq"),
    ("exllama", "exllama"),
)
FORMATS = {
    "fp16": "fp16",
    "bf16": "bf16",
    "fp32": "fp32",
    "fp8": "fp8",
    "int8": "int8",
    "w8a8": "int8",
    "nvfp4": "fp4",
    "fp4": "fp4",
    "mxfp4": "mxfp4",
    "q4_k_m": "gguf-q4_k_m",
    "gguf-q4_k_m": "gguf-q4_k_m",
}
KV_BITS = {"fp32": 32.0, "fp16": 16.0, "bf16": 16.0, "fp8": 8.0, "int8": 8.0, "int4": 4.0}
MLPERF_TOKENS = {  # mean prompt and answer of MLPerf's data sets, tokens (mlcommons/inference, language folder, read 2026-11)
    "gpt-j": (870.0, 69.0),  # CNN-DailyMail, prompt of the reference included
    "llama-2-70b": (294.4, 294.4),  # OpenOrca, 24,576 samples
    "mixtral-8x7b": (280.0, 145.0),  # OpenOrca, GSM8K and MBXP in equal parts
    "llama-3.1-405b": (9428.0, 684.7),
    "llama-3.1-8b": (778.0, 73.0),  # CNN-DailyMail
}
TRTLLM_BENCH_REQUESTS = {  # of a run, by prompt and answer: NVIDIA/TensorRT-LLM, performance/perf-overview.md, "Preparing a Dataset"
    (128, 128): 30_000,
    (128, 2048): 3_000,
    (128, 4096): 1_500,
    (500, 2000): 3_000,
    (1000, 1000): 3_000,
    (1000, 2000): 1_500,
    (2048, 128): 3_000,
    (2048, 2048): 1_500,
    (5000, 500): 1_500,
    (20000, 2000): 1_000,
}
REQUESTS = re.compile(r"\b(\d{2,6}) (?:requests|prompts|samples)", re.IGNORECASE)
SHAREGPT_TOKENS = (220.0, 200.0)
"""Mean prompt and answer of ShareGPT samples as serving benchmarks cut them."""


def number(text: str | None) -> float | None:
    """Return the number in a cell; None where there is none."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def engine_of(name: str, notes: str = "") -> str:
    """Return the key of an engine: ours where we know it, else its own name in lower case without version.

    AutoAWQ has two kernels; its GEMV works on one token after another and is as good as another engine.
    """
    low = name.strip().lower()
    if "gemv kernel" in notes.lower():
        return f"{engine_of(name)} gemv"
    if low in ("", "unknown"):
        return ""
    for start, key in ENGINES:
        if low.startswith(start):
            return key
    for start, key in ENGINES[:10]:
        if start in low:
            return key
    return re.split(r"[\s(,]", low)[0]


def requests_of(row: Row, prompt: float, answer: float) -> float:
    """Return the requests of a row's whole run, stated or known of the benchmark; 0 where neither.

    MLPerf states the samples of its data set, which a run of at least ten minutes repeats.
    """
    source = row.get("source", "")
    if source.startswith("MLPerf"):
        return 0.0
    if found := REQUESTS.search(row.get("notes", "")):
        return float(found.group(1))
    if "TensorRT-LLM docs/source/performance/perf-overview" in source:
        return float(TRTLLM_BENCH_REQUESTS.get((round(prompt), round(answer)), 0))
    return 0.0


def year_of(row: Row) -> int | None:
    """Return the year of a row's date (the first of a range)."""
    found = re.search(r"20[12]\d", row.get("date", ""))
    return int(found.group()) if found else None


def format_of(spec: ModelSpec, hardware: Hardware, text: str) -> Format | Infeasible:
    """Return the weights' format of a row on some hardware; "unspecified" is the narrowest float of the chip's generation."""
    word = text.strip().lower()
    if word in ("", "unspecified", "unknown"):
        word = "fp8" if is_native(hardware, "fp8") else "fp16"
    if word.startswith("w4a8"):
        form = resolve(spec, hardware, "int4")
        compute = next((name for name in ("int8", "fp8") if is_native(hardware, name)), None)
        if isinstance(form, Infeasible) or compute is None:
            return form
        return replace(form, compute=compute, native=True)
    if word.startswith(("int4", "exl2", "gptq", "awq", "w4a16")):
        word = "int4"
    name = FORMATS.get(word, word)
    form = resolve(spec, hardware, name)
    if isinstance(form, Infeasible):
        wide = sixteen_bit(hardware, "fp16")
        if wide is not None and name in ("int8", "int4", "fp8", "fp4", "mxfp4", "gguf-q4_k_m"):
            return Format(weights=name, compute=wide, wide=wide, native=False)
    return form


def kv_bits_of(text: str, form: Format) -> float:
    """Return the bits of a cached number; 16 where the row does not say."""
    word = text.strip().lower()
    return KV_BITS.get(word, 32.0 if form.wide == "fp32" else 16.0)


def accelerator_of(name: str, facts: Facts) -> Accelerator | None:
    """Return the chip that a cell names, in any spelling."""
    plain = name.strip()
    if plain in facts.accelerators:
        return facts.accelerators[plain]
    return facts.accelerators.get(facts.accelerator_names.get(plain.lower(), ""))


def topology_kind(chip: Accelerator, devices: int) -> InterconnectKind:
    """Return how the devices of one server usually reach each other, from the chip's datasheet alone."""
    if devices <= 1:
        return InterconnectKind.NONE
    if chip.kind is AcceleratorKind.NEURON:
        return InterconnectKind.NEURONLINK
    if chip.kind is AcceleratorKind.GAUDI:
        return InterconnectKind.ROCE
    if chip.vendor == "AMD":
        return InterconnectKind.XGMI
    if chip.interconnect_gb_s_bidirectional is None:
        return InterconnectKind.PCIE
    return InterconnectKind.NVLINK if "bridge" in (chip.interconnect or "") else InterconnectKind.NVSWITCH


def hardware_of(chip: Accelerator, devices: int, *, fraction: float = 1.0) -> Hardware | None:
    """Return `devices` devices of a chip in one server; None where the datasheet lacks memory, bandwidth or peak."""
    memory = chip.memory_visible_gib
    if memory is None and chip.memory_gib is not None:
        memory = chip.memory_gib * VISIBLE_SHARE_WHERE_UNKNOWN
    if memory is None or chip.memory_bandwidth_gb_s is None or not chip.peak_tflops:
        return None
    kind = topology_kind(chip, devices)
    link = (
        chip.host_interface_gb_s_bidirectional
        if kind is InterconnectKind.PCIE
        else chip.interconnect_gb_s_bidirectional
    )
    return Hardware(
        accelerator=chip.name,
        vendor=chip.vendor,
        architecture=chip.architecture,
        kind=chip.kind,
        devices=devices,
        fraction=fraction,
        memory_visible_gib=memory * fraction,
        memory_bandwidth_gb_s=chip.memory_bandwidth_gb_s * fraction,
        peak_tflops={name: peak * fraction for name, peak in chip.peak_tflops.items()},
        interconnect_kind=kind,
        interconnect_gb_s_bidirectional=None if devices == 1 else link,
        tdp_w=chip.tdp_w,
        compute_capability=chip.compute_capability,
        vcpus=None,
        host_memory_gib=None,
        network_gbps=None,
        efa_supported=False,
    )
