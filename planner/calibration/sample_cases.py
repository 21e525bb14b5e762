"""One row of models priced per sample as cases: which work on what share of which chip, at which batch, and what was measured."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from planner.calibration.model import Facts, Row
from planner.calibration.sample_guesses import guess_of
from planner.calibration.sample_models import Stated, Work, tokens_of, work_of
from planner.calibration.sample_rows import (
    COMPILED,
    FORMAT_WIDTH,
    activations_m,
    engine_of,
    format_of,
    number,
    share_of,
)
from planner.perf.samples_loads import cache_bytes
from planner.perf.samples_rates import silicon_of
from pricing.model import Accelerator, AcceleratorKind

RATES = {
    "samples_s": "samples_per_s",
    "audio_samples_s": "audio_samples_per_s",
    "audio_s_per_s": "audio_seconds_per_s",
    "frames_s": "frames_per_s",
    "tok_s": "tokens_per_s",
    "output_tok_s": "output_tokens_per_s",
    "total_tok_s": "total_tokens_per_s",
}
LATENCIES = {
    "latency_ms_avg": "latency_ms",
    "latency_ms_p50": "latency_ms",
    "latency_ms_p90": "latency_p90_ms",
    "latency_ms_p99": "latency_p99_ms",
}
SQUAD_TOKENS = 180
"""Mean tokens of a SQuAD v1.1 question with its paragraph, which MLPerf pads to at most 384; engines drop the padding."""
HALF_FILLED = "mean real length is half of seq"
"""FasterTransformer drops the padding of such batches ("EFF-FT")."""
NAMES = {  # names of benchmark suites -> names of configs
    "bert": "bert-large",
    "whisper": "whisper-large-v3",
    "stable-diffusion-xl": "sdxl",
    "stabilityai/stable-diffusion-xl-base-1.0": "sdxl",
    "stable diffusion xl base": "sdxl",
    "stable diffusion xl": "sdxl",
    "languagemodeling/electra": "electra-base",
    "distilbert-base-cased-distilled-squad": "distilbert-base",
    "bert-large-cased": "bert-large",
}
QUOTED_UNIT = re.compile(r'unit of the source column: "([^"]*)"')
MILLIONS = ("TensorFlow/Recommendation/NCF",)
"""Sources whose throughput is in 1e6 samples/s although the column does not say so: 1,024 pairs would take ten minutes."""
RAW_OUTPUT_WORKERS = 2
"""AWS's script of the Neuron pages starts two workers, also on the larger instances: its rate x latency / batch is two everywhere."""
ALONE = ("resnet", "vgg", "unet", "vit-base", "multimodal-perceiver")
"""Networks of the Neuron pages whose real-time rows have one request at a time on one core: rate x latency / batch is one everywhere."""
DEFAULT_BATCH = {
    "single-stream": 1.0,
    "multi-stream": 8.0,
    "batch translation": 32.0,
}  # the last: CTranslate2's translator
REDUCED = 2 / 7
"""Products of a layer after which tensor parallel devices add up what each has: one of attention's, one of the MLP's."""


class Load(StrEnum):
    """What a figure is: a rate, a rate under a latency limit, the latency of a batch, a percentile of that."""

    RATE = "rate"
    SERVED = "served"
    MEAN = "mean"
    PERCENTILE = "percentile"


class Unpredictable(Exception):  # noqa: N818 - reads as what it says
    """A row that is not predicted."""

    def __init__(self, reason: str, detail: str = "", *, eligible: bool = True) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.eligible = reason, detail, eligible


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One figure of a row, and all that its prediction needs."""

    work: Work
    chip: Accelerator
    slice: str  # "" for whole chips
    memory_share: float  # of the chip's memory: a slice's, or of all tensor parallel ranks
    devices: int
    engine: str
    compiled: bool
    format: str
    width_bytes: float
    peak_flops: float  # of one device
    bandwidth: float  # bytes/s of one device
    off_chip: float
    cache_bytes: float  # last-level cache of one device
    batch: float | None  # None: the best
    load: Load
    metric: str
    unit: str
    measured: float

    @property
    def silicon(self) -> str:
        """Return architecture and, on NVIDIA chips, compute capability: GA100 and GA102 are both Ampere."""
        return silicon_of(self.chip.architecture, self.chip.compute_capability)


def cases_of(row: Row, facts: Facts) -> Iterator[tuple[Case, bool]]:
    """Yield the cases of a row and whether each is its main one.

    Raises
    ------
    Unpredictable
        The row cannot be predicted, and why.
    """
    metric, value = row.get("metric_name", "").strip().lower(), number(row.get("metric_value", ""))
    if value is None:
        raise Unpredictable("no figure", row.get("metric_value", ""), eligible=False)
    if metric not in RATES and metric not in LATENCIES:
        raise Unpredictable("unknown metric", metric, eligible=False)
    gpu = row.get("gpu", "")
    canonical = facts.accelerator_names.get(gpu.lower())
    chip = facts.accelerators.get(canonical or "")
    if chip is None or not chip.peak_tflops:
        raise Unpredictable("unknown accelerator", gpu)
    for column in ("batch_size", "gpus_total"):
        if row.get(column, "").strip() and number(row[column]) is None:
            raise Unpredictable("unreadable cell", f"{column} is {row[column]!r}", eligible=False)
    engine = engine_of(row, chip)
    form = format_of(row, chip, engine)
    if form is None:
        raise Unpredictable("format not supported", f"precision is {row['precision']!r}")
    work = _work(row, facts, engine)
    share = share_of(gpu, chip)
    devices = int(number(row.get("gpus_total", "")) or 1)
    batch = number(row.get("batch_size", ""))
    if chip.kind is AcceleratorKind.NEURON:
        devices, batch = _as_run_on_neuron(row, devices, batch)
    ranks = devices if "tensor parallel" in row.get("notes", "").lower() else 1
    devices //= ranks
    work = _reduced(work, ranks)
    scenario = row.get("scenario", "").lower()
    load = Load.RATE if metric in RATES else Load.MEAN
    if "server" in scenario and metric in RATES:
        load = Load.SERVED
    if metric in {"latency_ms_p90", "latency_ms_p99"}:
        load = Load.PERCENTILE
    if batch is None:
        batch = next((b for word, b in DEFAULT_BATCH.items() if word in scenario), None)
    yield (
        Case(
            work=work,
            chip=chip,
            slice=share.name,
            memory_share=share.memory * ranks,
            devices=devices,
            engine=engine,
            compiled=engine.removesuffix(" nhwc") in COMPILED,
            format=form,
            width_bytes=FORMAT_WIDTH[form],
            peak_flops=chip.peak_tflops[form] * 1e12 * share.compute * ranks,
            bandwidth=(chip.memory_bandwidth_gb_s or 1e6) * 1e9 * share.memory * ranks,
            cache_bytes=cache_bytes(chip.name) * share.memory * ranks,
            off_chip=0.0 if chip.kind is AcceleratorKind.NEURON else 1.0,
            batch=batch,
            load=load,
            metric=RATES.get(metric) or LATENCIES[metric],
            unit="ms" if metric in LATENCIES else RATES[metric].replace("_per_", "/").replace("_", " "),
            measured=value * (1e6 if any(part in row.get("source", "") for part in MILLIONS) else 1.0),
        ),
        True,
    )


def _reduced(work: Work, ranks: int) -> Work:
    """Return the work on tensor parallel ranks: an all-reduce takes log2 hops, each as long as a product however small."""
    factor = 1 + REDUCED * math.log2(ranks)
    return (
        work
        if ranks == 1
        else replace(work, passes=tuple(replace(p, products=p.products * factor) for p in work.passes))
    )


def _as_run_on_neuron(row: Row, cores: int, batch: float | None) -> tuple[int, float | None]:
    """Return the cores that worked and the batch of each, for a row of the Neuron pages.

    By Little's law rate x latency / batch is the number of batches in work. Where a page says nothing of it, that number is the same
    in all its rows of a kind: two workers of "raw output"; one request on one core in real time (Inferentia1's data parallel rows, and
    `ALONE`); one batch for the whole instance, dealt out to its cores, in TensorFlow.
    """
    notes, name = row.get("notes", "").lower(), row.get("model", "").lower()
    if "raw output" in notes:
        return min(cores, RAW_OUTPUT_WORKERS), batch
    if "tensorflow" in row.get("engine", "").lower() and batch is not None:
        return cores, max(1.0, batch / cores)
    if "real-time" in row.get("scenario", "").lower() and "data parallel" in notes:
        first = "inferentia1" in row.get("gpu", "").lower() and batch != 1
        if first or any(each in name for each in ALONE):
            return 1, batch
    return cores, batch


def _work(row: Row, facts: Facts, engine: str) -> Work:
    name, size = row.get("model", ""), row.get("input_size", "")
    notes = row.get("notes", "")
    plain = re.sub(r"\s*\(.*?\)", "", name).strip(" *").lower()
    if plain == "languagemodeling/bert":
        base = "base" in size.lower() or "bert-base" in notes.lower()
        plain = "bert-base" if base else "bert-large"
    if plain == "detection/ssd":
        plain += "@tensorflow" if engine.startswith("tensorflow") else "@pytorch"
    if plain == "segmentation/nnunet":
        plain += "@3" if "Dimension=3" in size else "@2"
    if plain == "3d-unet" and re.search(r"v(0\.\d|1\.[01])\b", row.get("source", "")):
        plain = "3d-unet-brats"
    if plain == "bert" and "squad" in size.lower():
        size = f"seq {SQUAD_TOKENS}"
    if HALF_FILLED in notes.lower() and (padded := tokens_of(size)):
        size = f"seq {padded // 2}"
    stated = Stated(
        gmacs=number(row.get("gmacs", "")), params_m=number(row.get("params_m", "")), activations_m=activations_m(row)
    )
    work = work_of(NAMES.get(plain, plain), size, stated, facts)
    if work is None:
        context = " ".join((row.get("scenario", ""), row.get("metric_name", ""), *QUOTED_UNIT.findall(notes)))
        work = guess_of(plain, size, context, stated, facts)
    if work is None:
        raise Unpredictable(
            "no stated shape",
            f"{name}: no model of that name, no multiply-adds, no input size, no task",
            eligible=False,
        )
    return work
