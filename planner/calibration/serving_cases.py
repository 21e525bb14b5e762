"""A serving row as a case: what ran, on what, under which load, and which figure was measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from planner.calibration.model import Facts, Row
from planner.calibration.serving_models import model_of
from planner.calibration.serving_rows import (
    MLPERF_TOKENS,
    SHAREGPT_TOKENS,
    accelerator_of,
    engine_of,
    format_of,
    hardware_of,
    kv_bits_of,
    number,
    requests_of,
    year_of,
)
from planner.models.spec import ModelSpec
from planner.perf.engines import ENGINES, ranks_of
from planner.perf.llm import Shape, shape_of
from planner.perf.memory import GIB, cache_room_bytes, chunk_tokens, device_weights, kv_bytes_per_request, reserve_of
from planner.perf.model import Hardware, Infeasible
from planner.perf.precision import Format
from planner.perf.serving_parameters import COMPILED, NEW_SINCE, family_of, generation_of
from pricing.model import AcceleratorKind


class Load(StrEnum):
    """How requests came."""

    STATIC = "static"  # one batch, prompts and all tokens
    DECODE = "decode"  # the tokens of one batch, prompts not timed
    PROMPT = "prompt"  # the prompts of one batch alone
    OFFLINE = "offline"  # all requests queued at once
    CLOSED = "closed"  # a fixed number in flight
    OPEN = "open"  # arrivals at a rate
    LIMITED = "limited"  # the most arrivals under latency limits (MLPerf Server)


METRICS = {
    "output_tok_s": "output_tokens_per_s",
    "total_tok_s": "total_tokens_per_s",
    "req_s": "requests_per_s",
    "prefill_tok_s": "prompt_tokens_per_s",
    "e2e_latency_ms": "e2e_ms",
    "ttft_ms": "ttft_ms",
    "tpot_ms": "tpot_ms",
}
UNITS = {"output_tok_s": "tokens/s", "total_tok_s": "tokens/s", "req_s": "requests/s", "prefill_tok_s": "tokens/s"}
TIMED_DECODE = re.compile(
    r"decode only|generation only|llama-bench|short-context generation|one request at a time", re.IGNORECASE
)
BEAMS = re.compile(r"beam width (\d+)", re.IGNORECASE)
SPECULATIVE = re.compile(r"specul|medusa|eagle|mtp|draft", re.IGNORECASE)
ATTENTION_GROUPS = re.compile(r"attention-DP|enable-dp-attention|--dp-size", re.IGNORECASE)
MULTIPLIER = re.compile(r"(\d+(?:\.\d+)?) ?(?:x|×) (?:speed-?up )?(?:from|by|with) specul", re.IGNORECASE)

CHAT_TOKENS = (64.0, 128.0)
"""Prompt and answer of a single-stream run that says neither: "a short prompt"; the figure hardly depends on them."""
MEMORY_OF = {"deepspeed-mii": "tgi", "lmdeploy": "tgi"}
"""Engines whose memory is that of another: pages in 0.9 of what is free (DeepSpeed-MII leaves 1 GB free, LMDeploy up to a fifth)."""
MEMORY_OTHERWISE = "pytorch"
"""Engine whose use of memory is assumed of others that cannot be asked for."""
RESERVING = ("tensorrt-llm",)
"""Engines that let a request in only when the cache has room for the whole of it (GUARANTEED_NO_EVICT, the default of its scheduler)."""
STEP_TOKENS = 8192.0
IN_FLIGHT = {"tensorrt-llm": 2048, "sglang": 2048, "vllm": 256, "lmdeploy": 256, "tgi": 128}
"""Most requests in flight by the engine's default (`max_batch_size`, `max_running_requests`, `max_num_seqs`)."""
IN_FLIGHT_OTHERWISE = 256
LARGE_GIB, IN_FLIGHT_LARGE = 70.0, 1024
"""vLLM since 2025 on devices of 70 GiB and more but A100: `max_num_seqs` 1,024."""
DEGREES = (1, 2, 4, 8, 16)
QUANTISED_CACHE = ("fp8", "fp4", "mxfp4")
LEAST_ROOM = 256.0
"""Requests for which a replica of an unstated degree should have room: MLPerf states only the total of accelerators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One figure to predict. Lengths are tokens of one request; `concurrency` is requests in flight of one replica."""

    load: Load
    metric: str  # key of METRICS
    measured: float
    spec: ModelSpec
    form: Format
    hardware: Hardware
    shape: Shape
    ranks: int
    stages: int
    input_tokens: float
    output_tokens: float
    concurrency: float
    waves: float  # batches one after another, where the cache has no room for all
    chunk: float  # most tokens of a prefill step
    requests: float  # of the whole run; 0 where not stated
    rate: float  # arrivals/s; 0 where not stated
    beams: float
    replicas: float
    multiplier: float  # tokens a step that speculation is stated to bring
    engine: str
    generation: str
    limit: str
    family: str
    weights: str  # the row's own word, for labels
    kv_bits: float  # of a cached number


class Unpredictable(Exception):  # noqa: N818 - reads as what it says
    """A row that is not predicted: a reason that many rows share, a detail, and whether it should count as eligible."""

    def __init__(self, reason: str, detail: str = "", *, eligible: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.eligible = reason, detail, eligible


def metric_of(row: Row) -> tuple[str, float]:
    """Return the metric and its value for all accelerators of the row."""
    metric, value = row.get("metric_name", "").strip().lower(), number(row.get("metric_value"))
    if value is None or value <= 0:
        raise Unpredictable("no figure", f"metric_value is {row.get('metric_value')!r}", eligible=False)
    if metric == "tok_s_ambiguous":
        # The one source of these, AWS Neuron before SDK 2.16, counted input and output in the release after it.
        metric = "total_tok_s" if "neuron" in row.get("source", "").lower() else "output_tok_s"
    if metric not in METRICS:
        raise Unpredictable("unknown metric", metric, eligible=False)
    return metric, value


def lengths_of(row: Row, metric: str, spec: ModelSpec, batch: float | None) -> tuple[float, float]:
    """Return the mean tokens of a prompt and of an answer, stated or known of the data set."""
    prompt, answer = number(row.get("input_len")), number(row.get("output_len"))
    notes, source = row.get("notes", ""), row.get("source", "")
    if metric == "prefill_tok_s":
        answer = 1.0
    if metric == "ttft_ms":
        answer = 1.0
    if prompt is None and source.startswith("MLPerf"):
        known = next((v for k, v in MLPERF_TOKENS.items() if spec.name.lower().startswith(k)), None)
        prompt, answer = (None, answer) if known is None else (known[0], answer or known[1])
    if (prompt is None or answer is None) and "sharegpt" in notes.lower():
        prompt, answer = prompt or SHAREGPT_TOKENS[0], answer or SHAREGPT_TOKENS[1]
    if (prompt is None or answer is None) and batch == 1:
        total = re.search(r"sequence length (\d+)", notes)
        rest = (float(total.group(1)) / 2,) * 2 if total else CHAT_TOKENS
        prompt, answer = prompt or rest[0], answer or rest[1]
    if prompt is None or answer is None:
        total = re.search(r"sequence length (\d+)", notes)
        if total is None:
            raise Unpredictable("no lengths stated", "input_len or output_len is empty", eligible=False)
        prompt, answer = float(total.group(1)) / 2, float(total.group(1)) / 2
    return max(prompt, 1.0), max(answer, 1.0)


def load_of(row: Row, metric: str, batch: float | None) -> Load:
    """Return how requests came."""
    scenario, rate = row.get("scenario", "").strip().lower(), number(row.get("request_rate"))
    if metric in ("prefill_tok_s", "ttft_ms"):
        return Load.PROMPT
    if scenario.startswith("server"):
        if batch is not None:
            return Load.CLOSED
        if row.get("source", "").startswith("MLPerf") or rate is None:
            return Load.LIMITED
        return Load.OPEN
    if scenario.startswith("offline") or (not scenario and batch is None):
        return Load.OFFLINE
    return Load.DECODE if TIMED_DECODE.search(row.get("notes", "")) else Load.STATIC


def layout_of(row: Row, chip_kind: AcceleratorKind) -> tuple[int, int | None, int]:
    """Return (accelerators in all, tensor-parallel degree or None where nothing says it, pipeline stages)."""
    total = int(number(row.get("gpus_total")) or 0)
    each = int(number(row.get("gpus_per_replica")) or 0)
    tp, pp = int(number(row.get("tp")) or 0), int(number(row.get("pp")) or 1)
    total = total or each or tp * pp or 1
    if engine_of(row.get("engine", "")) == "llama.cpp" and total > 1 and tp <= 1:
        return total, 1, max(pp, each or total)
    if tp == 0 and each:
        tp = max(1, each // max(pp, 1))
    if chip_kind is AcceleratorKind.NEURON and total > 1:  # the unit is a core; a chip has two
        return max(1, total // 2), max(1, tp // 2) if tp else None, pp
    return total, tp or None, pp


def room_of(
    spec: ModelSpec,
    form: Format,
    hardware: Hardware,
    engine: str,
    *,
    split: tuple[int, int, int],
    tokens: float,
    kv_bits: float,
) -> float:
    """Return how many requests of so many tokens the cache of one replica holds, split over (tp, pp, groups)."""
    tp, pp, groups = split
    keeper = engine if engine in ENGINES else MEMORY_OF.get(engine, MEMORY_OTHERWISE)
    reserve = reserve_of(spec, hardware, keeper, tp=tp, ranks=tp * pp * groups)
    fixed = device_weights(spec, form, tp, pp, groups).total + reserve.activations + reserve.runtime + reserve.graphs
    each = kv_bytes_per_request(spec, tokens, 0.0, kv_bits, tp, pp=pp) + reserve.per_sequence
    return groups * cache_room_bytes(hardware, keeper, fixed) / each if each > 0 else 1e6


def chunk_of(load: Load, engine: str, generation: str, hardware: Hardware) -> float:
    """Return the most tokens of a prefill step: the engine's own since prompts are cut into chunks, many before and in static batches."""
    served = load in (Load.OFFLINE, Load.CLOSED, Load.OPEN, Load.LIMITED)
    if served and engine in ENGINES and generation == generation_of(engine, NEW_SINCE):
        return float(chunk_tokens(hardware, engine))
    return STEP_TOKENS


def cap_of(engine: str, generation: str, hardware: Hardware) -> int:
    """Return the most requests in flight by the engine's default."""
    large = hardware.memory_visible_gib >= LARGE_GIB and not hardware.accelerator.startswith("A100")
    if engine == "vllm" and generation == generation_of(engine, NEW_SINCE) and large:
        return IN_FLIGHT_LARGE
    return IN_FLIGHT.get(engine, IN_FLIGHT_OTHERWISE)


def cases_of(row: Row, facts: Facts) -> Iterator[tuple[Case, bool]]:
    """Yield the cases of a row, the main one first, with whether each is the main one.

    Raises
    ------
    Unpredictable
        The row says too little, or what cannot be.
    """
    metric, value = metric_of(row)
    if "CLIENT-BOUND" in row.get("notes", ""):
        raise Unpredictable("bound by the load generator", "noted CLIENT-BOUND", eligible=False)
    chip = accelerator_of(row.get("gpu", ""), facts)
    if chip is None:
        raise Unpredictable("unknown accelerator", row.get("gpu", ""))
    spec = model_of(row, facts)
    if spec is None or not spec.generates_tokens:
        raise Unpredictable("unknown model", row.get("model", ""))
    batch = number(row.get("batch_or_concurrency"))
    if batch is not None and batch < 1:
        batch = None
    if batch is None and row.get("scenario", "").strip().lower() == "single-stream":
        batch = 1.0
    total, tp, pp = layout_of(row, chip.kind)
    cores = chip.kind is AcceleratorKind.NEURON and int(number(row.get("gpus_total")) or 1) == 1
    fraction = 0.5 if cores else 1.0
    hardware = hardware_of(chip, total, fraction=fraction)
    if hardware is None:
        raise Unpredictable("accelerator without datasheet figures", chip.name)
    form = format_of(spec, hardware, row.get("precision_weights", ""))
    if isinstance(form, Infeasible):
        raise Unpredictable("format not supported", form.detail)
    kv_bits = kv_bits_of(row.get("precision_kv", ""), form)
    if row.get("source", "").startswith("MLPerf") and form.native and form.compute in QUANTISED_CACHE:
        kv_bits = 8.0  # its submissions keep the cache in fp8 wherever the weights are
    prompt, answer = lengths_of(row, metric, spec, batch)
    load = load_of(row, metric, batch)
    if load is Load.STATIC and batch is None:
        raise Unpredictable("no batch stated", "a static batch without its size", eligible=False)
    notes = row.get("notes", "")
    engine = "neuron" if chip.kind is AcceleratorKind.NEURON else engine_of(row.get("engine", ""), notes)
    generation = generation_of(engine, year_of(row))
    beams = float(found.group(1)) if (found := BEAMS.search(notes)) else 1.0
    cached = prompt + beams * answer
    if load in (Load.OFFLINE, Load.CLOSED, Load.OPEN, Load.LIMITED) and engine not in RESERVING:
        cached = prompt + beams * answer / 2  # blocks are taken as tokens come
    degrees = [tp] if tp else [d for d in DEGREES if total % d == 0] or [total]
    shared = bool(spec.experts and ATTENTION_GROUPS.search(notes))
    splits = [(1, pp, d) if shared else (d, pp, 1) for d in degrees]
    rooms = [room_of(spec, form, hardware, engine, split=s, tokens=cached, kv_bits=kv_bits) for s in splits]
    at = next((i for i, r in enumerate(rooms) if r >= LEAST_ROOM), len(rooms) - 1)
    (tp, _, groups), room = splits[at], rooms[at]
    weights_gib = device_weights(spec, form, tp, pp, groups).total / GIB
    if weights_gib > hardware.memory_visible_gib:
        raise Unpredictable(
            "weights exceed the memory", f"{weights_gib:.0f} GiB a device of {hardware.memory_visible_gib:.0f}"
        )
    stated = requests_of(row, prompt, answer)
    waves = 1.0
    if load in (Load.STATIC, Load.DECODE, Load.PROMPT):
        in_flight = batch or 1.0
        if load is Load.STATIC and in_flight > max(room, 1.0):
            waves = -(-in_flight // max(1.0, room // 1))
            in_flight /= waves
    else:
        in_flight = min(batch or 1e9, float(cap_of(engine, generation, hardware)), max(1.0, room // 1))
        if stated:
            in_flight = min(in_flight, stated)
    replicas = max(1, total // (tp * pp * groups))
    if load in (Load.STATIC, Load.DECODE, Load.PROMPT):
        replicas = 1
    if load is Load.CLOSED:
        in_flight = max(1.0, in_flight / replicas)
    if str(row.get("per_gpu", "")).strip().lower() == "true":
        value *= total
    stages_at_once = engine == "llama.cpp"  # one token in flight passes through the stages one after another

    def case(load: Load, metric: str, measured: float, answer: float) -> Case:
        return Case(
            load=load,
            metric=metric,
            measured=measured,
            spec=spec,
            form=form,
            hardware=hardware,
            shape=shape_of(
                spec,
                form,
                kv_bits=kv_bits,
                tp=tp,
                pp=1 if stages_at_once else pp,
                input_tokens=prompt,
                output_tokens=answer,
                groups=groups,
                padded=engine in COMPILED,
                shards=1 if cores else ranks_of(hardware, engine),
            ),
            ranks=tp * groups,
            stages=pp,
            input_tokens=prompt,
            output_tokens=answer,
            concurrency=in_flight,
            waves=waves,
            chunk=chunk_of(load, engine, generation, hardware),
            requests=stated,
            rate=number(row.get("request_rate")) or 0.0,
            beams=beams,
            replicas=float(replicas),
            multiplier=float(found.group(1)) if (found := MULTIPLIER.search(notes)) else 1.0,
            engine=engine,
            generation=generation,
            limit=row.get("scenario", "").strip().lower() if load is Load.LIMITED else "",
            family=family_of(row.get("model", ""), spec),
            weights=row.get("precision_weights", "").strip().lower(),
            kv_bits=kv_bits,
        )

    yield case(load, metric, value, answer), True
    tpot = number(row.get("tpot_ms_p50")) or number(row.get("tpot_ms_mean"))
    if tpot and metric != "tpot_ms" and load is not Load.LIMITED:
        yield case(load, "tpot_ms", tpot, answer), False
    ttft = number(row.get("ttft_ms_mean")) or number(row.get("ttft_ms_p50"))
    if ttft and metric != "ttft_ms" and load is Load.STATIC and waves == 1:  # later waves wait
        yield case(Load.PROMPT, "ttft_ms", ttft, answer), False
