"""One training row: what ran, on what, how it was spread, and what of the published figure follows from the time of a step.

Every rate, FLOP rate and utilisation is `scale / step time`, every duration `scale x step time`: the scale is what a step holds in the
metric's own definition (tokens, items, FLOPs per device as the source counts them).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from planner.calibration.model import Facts, Row, Skipped
from planner.calibration.training_layouts import Spread, accumulation_of, spread_of
from planner.calibration.training_models import TrainingModel, at_pixels, training_model, usual_batch
from planner.calibration.training_peaks import Degrees, peak_of
from planner.models.spec import ModelSpec
from planner.perf.model import TrainingWork
from planner.perf.training_machine import PCIE_BYTES_S, Node, peaks_of
from planner.perf.training_memory import PeakTerms
from planner.perf.training_step import StepWork
from planner.perf.training_step_work import step_work
from planner.perf.training_work import counted_in_tokens
from pricing.model import Accelerator, AcceleratorKind

RATES = {"tokens_s_gpu", "tokens_s", "samples_s"}
SHARES = {"mfu_pct", "hfu_pct"}
FLOP_RATES = {"tflops_gpu", "hw_tflops_gpu"}
DURATIONS = {"step_ms", "epoch_min"}
MEMORY = "peak_mem_gib"
WHOLE_RUNS = {"time_to_train_min": "time to train", "gpu_hours": "accelerator-hours of a whole run"}
FLASH_SINCE = 2022.5
"""Attention without a score matrix came into use with FlashAttention (May 2022) and PyTorch 2.0's SDPA (March 2023)."""
UNPADDED_BERT = 0.5
"""MLPerf's BERT removes padding: about half of the 512 tokens are there."""
LAMB_BATCH = 65536.0
"""Sequences per step of BERT pre-training with LAMB, where a row gives the micro-batch alone."""
PIPELINE_FULL = 8
"""Micro-batches per pipeline stage where no global batch is given: a bubble of an eighth, as big runs are planned."""
USUAL_TOKENS = 8192.0
"""Tokens a device trains at once where neither micro-batch nor global batch is given."""
LARGEST, LONGEST, MOST_DEVICES = 1e15, 1e8, 1e7
COUNTS = ("gpu_count", "nodes", "seq_len", "micro_batch", "global_batch", "params_b", "active_params_b")
"""Columns that hold a number or nothing."""
FORMAT = re.compile(
    r"(?<![a-z0-9])(?:(?:mx|nv)?fp4|(?:mx)?fp8|int[48]|tf32|fp32|fp16|bf16|float(?:16|32)|bfloat16|half|single|mixed|(?:auto)?cast|amp|nf4)"
    r"(?![0-9])"
)
"""Words of a precision that say a format of training."""
CONTAINER = re.compile(r"\b(2\d)\.(0[1-9]|1[0-2])\b")
"""Year and month of a container release in a framework's text."""
EPOCH_ITEMS = {"alpaca-2k": 2000.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCase:
    """A row ready for the physics."""

    row_id: str
    metric: str
    measured: float
    inverse: bool  # the figure grows with the step time
    scale: float
    work: StepWork
    node: Node
    spread: Spread
    data: float
    micro_batch: float
    accumulation: float
    recompute: float
    recompute_attention: float
    spec: ModelSpec
    training: TrainingWork
    model: TrainingModel
    accelerator: Accelerator
    precision: str
    framework: str
    devices: float
    peak: PeakTerms | None = None  # of rows that give memory


def number(text: str | None) -> float | None:
    """Return the number of a cell, None where there is none that a count, a size or a figure could be: above 0, at most 1e15."""
    try:
        value = float(text) if text and text.strip() else None
    except ValueError:
        return None
    return value if value is not None and 0 < value <= LARGEST else None


def case_of(row: Row, facts: Facts) -> TrainingCase | Skipped:
    """Return a row as a case, or why it is not one."""
    row_id = row.get("id", "")
    metric = row.get("metric_name", "").strip()

    def skipped(reason: str, detail: str = "", *, eligible: bool = True) -> Skipped:
        return Skipped(row_id=row_id, reason=reason, detail=detail or metric, eligible=eligible)

    if metric in WHOLE_RUNS:
        return skipped(WHOLE_RUNS[metric], eligible=False)
    known = metric in RATES | SHARES | FLOP_RATES | DURATIONS | {MEMORY}
    if not known:
        return skipped("unknown metric", eligible=False)
    if row.get("unit", "").startswith("as published"):
        return skipped("unit not stated", row.get("model", ""))
    measured = number(row.get("metric_value"))
    if measured is None:
        return skipped("no figure", row.get("metric_value", ""), eligible=False)
    chip = _chip(row.get("gpu", ""), facts)
    if chip is None:
        return skipped("unknown accelerator", row.get("gpu", ""))
    if chip.memory_bandwidth_gb_s is None or not chip.peak_tflops:
        return skipped("accelerator without datasheet figures", chip.name)
    odd = next((column for column in COUNTS if row.get(column, "").strip() and number(row[column]) is None), None)
    if odd is not None:
        return skipped("unreadable cell", f"{odd} is {row[odd]!r}", eligible=False)
    try:
        model = training_model(row, facts)
    except ValueError as e:
        return skipped("no stated shape", f"{row.get('model', '')}: {e}", eligible=False)
    if model is None:
        return skipped("unknown model", row.get("model", ""))
    precision = precision_of(row.get("precision", ""), chip)
    if precision is None:
        return skipped("format not supported", f"precision is {row['precision']!r}")
    try:
        peak, wide = peaks_of(chip.peak_tflops, precision)
    except LookupError as e:
        return skipped("format not supported", f"{chip.name}: {e}")
    if metric == "epoch_min" and _epoch_items(row) is None:
        return skipped("epoch of unknown length", eligible=False)
    method = method_of(row)
    spec = at_pixels(model, number(row.get("image_size")))
    tokens = _tokens(row, model, spec)
    if tokens is None or not 1 <= tokens <= LONGEST:
        return skipped("no lengths stated", row.get("model", ""), eligible=False)
    training = TrainingWork(
        method=method,
        sequence_length=int(tokens),
        optimizer="adamw_8bit" if "8-bit" in row.get("strategy", "") else "adamw",
        lora_rank=_rank(row.get("strategy", "")),
        attention_backend=attention_of(row),
    )
    value_bytes = 4.0 if precision in {"fp32", "tf32"} else 2.0
    devices = min(MOST_DEVICES, max(1.0, number(row.get("gpu_count")) or 1.0))
    nodes = min(devices, max(1.0, number(row.get("nodes")) or np.ceil(devices / _usual_devices(chip))))
    memory_gib = chip.memory_gib or 16.0
    counted = counted_in_tokens(spec)
    global_batch = number(row.get("global_batch"))
    framework = row.get("framework", "")
    spread = spread_of(
        row.get("strategy", ""),
        spec=spec,
        method=method,
        devices=int(devices),
        memory_gib=memory_gib,
        node_devices=max(1, int(devices / nodes)),
        global_batch=global_batch,
        framework=framework,
        counted=counted,
    )
    data = devices / spread.split
    micro = number(row.get("micro_batch"))
    cores = 2.0 if chip.kind is AcceleratorKind.NEURON else 1.0
    if micro is not None:
        micro *= cores
    elif global_batch:
        micro = (
            1.0
            if counted and spread.split > 1
            else min(global_batch / data, usual_batch(model, memory_gib, value_bytes))
        )
    elif model.work in {"lm", "moe"} and spread.split == 1:
        micro = max(1.0, USUAL_TOKENS / tokens)
    else:
        micro = usual_batch(model, memory_gib, value_bytes)
    micro = max(micro, 1e-3)
    if global_batch is None and model.work == "encoder" and row.get("task") == "pretrain":
        global_batch = LAMB_BATCH
    if global_batch and model.work in {"lm", "moe"} and global_batch < micro * data:
        global_batch = micro * data
    accumulation = accumulation_of(global_batch, micro, data)
    if not global_batch and spread.pipeline > 1:
        accumulation = float(PIPELINE_FULL * spread.pipeline)
    recompute, recompute_attention = recomputation(row, method)
    work = step_work(spec, training, precision)
    peak_terms = None
    if metric == MEMORY:
        peak_terms = peak_of(
            row,
            spec,
            Degrees(
                data=data,
                tensor=spread.tensor,
                pipeline=spread.pipeline,
                context=spread.context,
                expert=spread.expert,
                zero=spread.zero,
                micro_batch=micro,
                accumulation=accumulation,
            ),
            method=method,
            precision=precision,
            sequence_length=int(tokens),
            visible_gib=chip.memory_visible_gib or memory_gib,
        )
    items = data * micro * accumulation
    scale, inverse = _scale(row, metric, work=work, units=model.units, items=items, devices=devices, peak_flops=peak)
    return TrainingCase(
        row_id=row_id,
        metric=metric,
        measured=measured,
        inverse=inverse,
        scale=scale,
        work=work,
        node=_node(row, chip, devices / nodes, peak, wide),
        spread=spread,
        data=data,
        micro_batch=micro,
        accumulation=accumulation,
        recompute=recompute,
        recompute_attention=recompute_attention,
        spec=spec,
        training=training,
        model=model,
        accelerator=chip,
        precision=precision,
        framework=framework,
        devices=devices,
        peak=peak_terms,
    )


def _chip(name: str, facts: Facts) -> Accelerator | None:
    plain = name.strip()
    found = facts.accelerators.get(plain)
    return found or facts.accelerators.get(facts.accelerator_names.get(plain.lower(), ""))


def precision_of(text: str, chip: Accelerator) -> str | None:
    """Return the format that the blocks train in, by our names; None for words that name none.

    "mixed" and silence are 16-bit, and Neuron's fp32 runs reduced matrix products.
    """
    word = text.strip().lower()
    if word and not FORMAT.search(word):
        return None
    if "fp4" in word and "fp8" not in word:
        return "fp4"
    if "fp8" in word:
        return "fp8"
    if word.startswith("int8"):
        return "int8"
    if "tf32" in word or (word.startswith("fp32") and chip.kind is AcceleratorKind.NEURON):
        return "tf32"
    if word.startswith(("fp32", "float32", "single")):
        return "fp32"
    wanted = "fp16" if re.search(r"(?<!b)(?:fp16|float16|half)", word) else "bf16"
    return wanted if wanted in chip.peak_tflops else ("fp16" if "fp16" in chip.peak_tflops else "bf16")


def method_of(row: Row) -> str:
    """Return full, lora or qlora."""
    text = f"{row.get('task', '')} {row.get('strategy', '')} {row.get('precision', '')} {row.get('model', '')}".lower()
    quantised = "qlora" in text or "q-lora" in text or "nf4" in text or "int4 base" in text
    if quantised:
        return "qlora"
    return "lora" if "lora" in text or "adapter" in text else "full"


def _rank(strategy: str) -> int:
    found = re.search(r"(?:lora\s*)?\br\s*=?\s*(\d+)\b", strategy.lower())
    return int(found[1]) if found else 16


def year_of(row: Row) -> float:
    """Return the year of a row's software: of its container, else of its date, the first where it gives a range; 2024 where it gives none."""
    release = CONTAINER.search(row.get("framework", ""))
    if release:
        return 2000 + int(release[1]) + (int(release[2]) - 0.5) / 12
    found = re.search(r"(20[0-2]\d)(?:-(\d\d))?", row.get("date", ""))
    if not found:
        return 2024.0
    month = int(found[2]) if found[2] and 1 <= int(found[2]) <= 12 else 6
    return int(found[1]) + (month - 0.5) / 12


def attention_of(row: Row) -> str:
    """Return "math" for software from before fused attention, else "flash".

    A page's last update decides, unless it ran the examples of 2020 throughout (Lambda's suite); TensorFlow had no fused attention.
    """
    updated = re.search(r"20[0-2]\d-(20[0-2]\d) \(snapshot", row.get("date", ""))
    framework = row.get("framework", "").lower()
    if "tensorflow" in framework or "deeplearningexamples" in framework:
        return "math"
    return "math" if (float(updated[1]) if updated else year_of(row)) < FLASH_SINCE else "flash"


def _tokens(row: Row, model: TrainingModel, spec: ModelSpec) -> float | None:
    """Return tokens of a sequence; 1 for models that are not counted in tokens, None where nothing says."""
    if not counted_in_tokens(spec):
        return 1.0
    stated = number(row.get("seq_len"))
    if row.get("metric_name") == MEMORY:  # the longest sequence decides
        return stated or model.tokens
    if model.tokens is not None and (stated is None or "longest" in row.get("notes", "")):
        return float(model.tokens)
    if "alpaca" in row.get("unit", "").lower():
        return 120.0
    if stated is None:
        return 384.0 if model.work == "encoder" else 2048.0 if row.get("metric_name") != MEMORY else None
    if "padding removed" in row.get("notes", ""):
        return stated * UNPADDED_BERT
    return stated


def recomputation(row: Row, method: str) -> tuple[float, float]:
    """Return the shares of the blocks' matrices and of the scores that run again in the backward pass."""
    text = row.get("activation_checkpointing", "").lower()
    if text.startswith("full"):
        return 1.0, 1.0
    if text == "selective-op":
        return 0.5, 0.0
    if text.startswith("selective"):
        return (0.5, 0.5) if "layer" in text or "fsdp" in row.get("strategy", "").lower() else (0.0, 1.0)
    if not text and "megatron" in row.get("framework", "").lower() and year_of(row) < FLASH_SINCE:
        return 1.0, 1.0
    return 0.0, 0.0


def _usual_devices(chip: Accelerator) -> float:
    if chip.kind is AcceleratorKind.NEURON:
        return 16.0
    if chip.kind is AcceleratorKind.TPU:
        return 1e9
    return 4.0 if chip.name.startswith("GB") else 8.0


SCALE_UP_DEVICES = 72
NETWORK_GBPS = {"Volta": 100.0, "Ampere": 1600.0, "Hopper": 3200.0, "Blackwell": 3200.0, "Blackwell Ultra": 6400.0}
"""Network of a node of eight by generation of chip (DGX-1V and its kin; DGX A100, H100, B200, B300), Gbit/s."""


def _node(row: Row, chip: Accelerator, devices: float, peak: float, wide: float) -> Node:
    """Return the node of a row: links as stated, else as the chip has them; network as stated, else usual for its generation."""
    text = row.get("interconnect", "")
    low = text.lower()
    bridged = "bridge" in low
    pcie = ("pcie" in low or low.startswith("n/a")) and "nvlink" not in low
    link = chip.interconnect_gb_s_bidirectional
    host = chip.host_interface_gb_s_bidirectional
    over_pcie = (
        link is None or pcie or bridged or "PCIe" in chip.name or (chip.form_factor or "").lower().startswith("pcie")
    )
    both = (host if over_pcie else link) or 2 * PCIE_BYTES_S / 1e9
    if over_pcie and host is not None and host > 200:
        both = 64.0
    inside = devices
    if "nvl72" in low or ("gen5" in low and chip.name.startswith("GB")):
        inside = max(devices, min(SCALE_UP_DEVICES, number(row.get("gpu_count")) or devices))
    return Node(
        peak_flops=peak,
        wide_peak_flops=wide,
        bandwidth=(chip.memory_bandwidth_gb_s or np.nan) * 1e9,
        devices=inside,
        link=both / 2 * 1e9,
        network=_network_gbps(low, chip, devices) / 8 * 1e9 * inside / devices,
        link_latency_s=20e-6 if over_pcie else 6e-6,
    )


def _network_gbps(text: str, chip: Accelerator, devices: float) -> float:
    per_device = re.search(r"rdma\s*(\d+)\s*gb/?p?s?\s*(?:/s)?\s*per gpu", text)
    if per_device:
        return float(per_device[1]) * devices
    per_node = re.search(r"(\d{3,5})\s*gbps", text)
    if per_node:
        return float(per_node[1])
    if "omnipath" in text or "omni-path" in text:
        return 400.0
    compute = text.rsplit("compute:", 1)[-1]
    cards = re.findall(r"(\d+)x[^,;:]*?(?<!\d)(100|200|400|800)\s*gb", compute)
    if cards:
        return float(sum(int(count) * int(rate) for count, rate in cards))
    if chip.kind is AcceleratorKind.NEURON:
        return 800.0
    if chip.kind is AcceleratorKind.TPU:
        return 25.0 * devices
    return NETWORK_GBPS.get(chip.architecture, 800.0) * devices / 8


def _epoch_items(row: Row) -> float | None:
    text = f"{row.get('unit', '')} {row.get('notes', '')}".lower()
    for name, items in EPOCH_ITEMS.items():
        if name in text:
            return items
    found = re.search(r"epoch of ([\d,]+) (?:examples|samples|images|sequences)", text)
    return float(found[1].replace(",", "")) if found else None


def _scale(
    row: Row, metric: str, *, work: StepWork, units: float, items: float, devices: float, peak_flops: float
) -> tuple[float, bool]:
    """Return what a step of `items` holds in the metric's unit, and whether the figure grows with the step time."""
    if metric == "step_ms":
        return 1e3, True
    if metric == "epoch_min":
        alone = "same runtime" in row.get("notes", "")  # a recipe of a fixed number of steps, whatever the devices
        return (_epoch_items(row) or 0.0) / (items / devices if alone else items) / 60, True
    if metric == MEMORY:
        decimal = "litgpt" in row.get("framework", "").lower() and "GiB" not in row.get("unit", "")
        return 2**30 / 1e9 if decimal else 1.0, True
    if metric == "samples_s":
        return items * units, False
    if metric in {"tokens_s", "tokens_s_gpu"}:
        tokens = float(np.asarray(work.tokens)) if work.tokens != 1.0 else units
        return items * tokens / (devices if metric.endswith("_gpu") else 1.0), False
    flops = counted_flops(row, work) * items / devices
    if metric in {"hw_tflops_gpu", "hfu_pct"}:
        again = recomputation(row, "full")[0]
        flops *= 1 + again / 3
    if metric in FLOP_RATES:
        return flops / 1e12, False
    return 100 * flops / peak_flops, False


FULL_ATTENTION = ("llm-foundry", "torchtitan", "bigscience", "megatron-lm", "maxtext")
NO_ATTENTION = ("levanter", "aws-neuron")


def counted_flops(row: Row, work: StepWork) -> float:
    """Return the model FLOPs of one item as the source counts them.

    Megatron's formula of 2021, llm-foundry and torchtitan count scores over the whole square; others as the causal mask leaves them.
    """
    family = row.get("source_family", "")
    matrices = _value(work.narrow_flops) + _value(work.expert_flops) + _value(work.wide_flops)
    scores = _value(work.attention_flops)
    if any(name in family for name in FULL_ATTENTION):
        scores *= 2
    elif any(name in family for name in NO_ATTENTION):
        scores = 0.0
    return matrices * (1 + _value(work.backward)) + 3 * scores


def _value(x: object) -> float:
    return float(np.asarray(x))
