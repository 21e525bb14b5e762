"""`RecommendRequest`: every option of the main job, once. CLI flags, the REST schema and the docs are generated from its fields.

Each field's `Option` says what it means, its unit and its bounds; `__post_init__` checks them, so no door lets a bad request in.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from planner.perf.engines import ENGINES
from planner.recommend.as_of import WHICH, AsOf
from planner.recommend.errors import BadRequest
from planner.recommend.scaling import MOST_INSTANCES, most_of, scaling_counts
from pricing.model import PurchaseOption


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What a request field means: help text, unit, bounds, choices. `repeatable` fields are tuples of at most `longest` values.

    A field with a `column` is a series: on the command line it is a CSV file with that column.
    """

    help: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    choices: tuple[str, ...] = ()
    repeatable: bool = False
    longest: int = 500
    column: str | None = None
    example: Any = None
    group: str = "general"  # general | inference | training | constraints | prices | output


def option(default: Any = dataclasses.MISSING, **what: Any) -> Any:
    """Return a dataclass field that carries an `Option`."""
    return field(default=default, metadata={"option": Option(**what)})


MODES = ("inference", "training")
OPTIMIZERS = ("adamw", "adamw_8bit", "sgd", "adafactor")
RECOMPUTATION = ("none", "selective", "full")
SHARDING = ("ddp", "zero1", "zero2", "zero3")
STORAGE = ("nvme", "ebs", "fsx", "s3")
METHODS = ("full", "lora", "qlora")
SORTS = ("cost", "time", "latency", "energy")
NEEDS = ("nvlink", "efa", "local-nvme")
STAGES = ("dev", "prototype", "production", "pretrain")
PERCENTILES = ("50", "90", "95", "99")
GGUF = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0")  # as llama.cpp calls its file formats
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "fp4", *GGUF)
KV_PRECISIONS = ("fp16", "bf16", "fp8", "int8", "int4")
EVIDENCE = ("all", "measured", "silicon", "published", "model")
QUOTA_MODES = ("note", "enforce", "ignore")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendRequest:
    """What is to run, under which limits, and what may be bought. Defaults are those of the documentation, echoed in every answer."""

    model: str | None = option(
        None, help="alias (7b), name (Qwen2.5-7B) or path of a Hugging Face config.json", example="7b"
    )
    params: float | None = option(
        None,
        help="total parameters of a model without a config (assumptions are stated)",
        minimum=1e6,
        maximum=1e14,
        example=6.7e9,
    )
    mode: str = option("inference", help="what the hardware is for", choices=MODES, example="inference")
    stage: str | None = option(
        None, help="presets for what is not given: dev, prototype, production, pretrain", choices=STAGES
    )
    precision: str | None = option(
        None,
        help="weights and arithmetic; default: the checkpoint's own 16-bit format; q8_0 to q4_0 are GGUF files (llama.cpp, vllm)",
        choices=PRECISIONS,
    )
    allow_precision: tuple[str, ...] = option(
        (), help="quantisation that may be chosen if it is cheaper", choices=PRECISIONS, repeatable=True
    )
    kv_precision: str | None = option(None, help="KV cache format; default: 16-bit", choices=KV_PRECISIONS)
    engine: str = option(
        "vllm",
        help="serving engine; neuron is AWS's own library (Transformers NeuronX, NxD Inference)",
        choices=ENGINES,
    )
    evidence: str = option(
        "all",
        help="what may answer beside the model: all that is at hand, one kind alone (own measurements, measured operators, published figures), or the model only",
        choices=EVIDENCE,
        example="all",
    )
    input_size: int | None = option(
        None,
        help="size of one sample of a model priced per sample: tokens of a sequence (encoders), pixels along an edge (vision, diffusion), text tokens of a clip (speech); default: the model's usual one",
        minimum=1,
        maximum=1e6,
    )
    steps: int | None = option(
        None,
        help="denoising steps of one image (diffusion); default: the model's usual number",
        minimum=1,
        maximum=10000,
    )

    input_tokens: int = option(
        1000, help="input tokens of one request", unit="tokens", minimum=1, maximum=1e8, group="inference"
    )
    output_tokens: int = option(
        1000, help="output tokens of one request", unit="tokens", minimum=1, maximum=1e8, group="inference"
    )
    requests_per_s: float | None = option(
        None,
        help="load to be served, requests that come at random; without it: one instance at full load",
        unit="requests/s",
        minimum=0,
        exclusive_minimum=True,
        maximum=1e9,
        group="inference",
    )
    max_batch: int | None = option(
        None,
        help="dynamic batching of a model priced per sample: most samples of a batch; needs a load; default: the best feasible",
        unit="samples",
        minimum=1,
        maximum=256,
        group="inference",
    )
    max_queue_delay_ms: float | None = option(
        None,
        help="dynamic batching: longest that a sample is held back until its batch is full; needs a load; default: not at all",
        unit="ms",
        minimum=0,
        maximum=60000,
        group="inference",
        example=5.0,
    )
    traffic: tuple[float, ...] = option(
        (),
        help="load over time, one figure for each of equal intervals: sized for its peak, paid by its mean",
        unit="requests/s",
        minimum=0,
        maximum=1e9,
        repeatable=True,
        column="requests_per_s",
        longest=8784,
        group="inference",
        example=[2.0, 8.0, 5.0],
    )
    utilisation: float = option(
        1.0,
        help="share of the sustained throughput that is really used",
        unit="fraction",
        minimum=0,
        exclusive_minimum=True,
        maximum=1,
        group="inference",
    )
    max_concurrency: int | None = option(
        None,
        help="requests in flight per replica; default: the best feasible",
        minimum=1,
        maximum=1e6,
        group="inference",
    )
    tensor_parallel: int | None = option(
        None,
        help="accelerators that split each matrix of a replica; default: searched",
        minimum=1,
        maximum=1024,
    )
    pipeline_parallel: int | None = option(
        None,
        help="pipeline stages of a replica; default: 1, and one an instance where a replica spans several",
        minimum=1,
        maximum=1024,
    )
    expert_parallel: int | None = option(
        None,
        help="accelerators that experts are dealt out over; more than tensor_parallel: groups that attend to requests of their own",
        minimum=1,
        maximum=1024,
    )
    speculative_tokens: int | None = option(
        None,
        help="speculative decoding: tokens proposed each step; needs acceptance_rate",
        unit="tokens",
        minimum=1,
        maximum=64,
        group="inference",
    )
    acceptance_rate: float | None = option(
        None,
        help="speculative decoding: chance that a proposed token is accepted; needs speculative_tokens",
        unit="fraction",
        minimum=0,
        maximum=1,
        group="inference",
        example=0.7,
    )

    max_instances: int = option(
        64,
        help="most instances that a training job, or one replica of a model too large for one instance (at most 8), may span",
        minimum=1,
        maximum=MOST_INSTANCES,
    )

    method: str = option("full", help="training method", choices=METHODS, group="training")
    dataset_tokens: float | None = option(
        None,
        help="tokens of one epoch (language models)",
        unit="tokens",
        minimum=1,
        maximum=1e16,
        group="training",
        example=1e9,
    )
    dataset_size: float | None = option(
        None, help="samples of one epoch", unit="samples", minimum=1, maximum=1e13, group="training", example=1281167
    )
    epochs: float = option(
        1.0, help="passes over the data set", minimum=0, exclusive_minimum=True, maximum=1e6, group="training"
    )
    sequence_length: int = option(
        2048, help="tokens of one training sequence", unit="tokens", minimum=1, maximum=1e8, group="training"
    )
    global_batch: int | None = option(
        None, help="samples per optimizer step; default: chosen", minimum=1, maximum=1e8, group="training"
    )
    optimizer: str = option("adamw", help="optimizer", choices=OPTIMIZERS, group="training")
    lora_rank: int = option(16, help="rank of LoRA adapters", minimum=1, maximum=8192, group="training")
    micro_batch: int | None = option(
        None,
        help="samples that one accelerator works on at once; default: chosen",
        minimum=1,
        maximum=65536,
        group="training",
    )
    checkpointing: str | None = option(
        None,
        help="activations that are computed again instead of kept; default: chosen",
        choices=RECOMPUTATION,
        group="training",
    )
    sharding: str | None = option(
        None, help="what data-parallel ranks share; default: chosen", choices=SHARDING, group="training"
    )
    attention_backend: str = option(
        "sdpa",
        help="attention kernels: math keeps every score; sdpa and flash keep none",
        choices=("sdpa", "flash", "math"),
        group="training",
    )
    activation_offload: bool = option(False, help="kept activations wait in host memory", group="training")
    activation_dtype: str | None = option(
        None,
        help="format of kept activations; default: that of the arithmetic",
        choices=("fp32", "bf16", "fp16", "fp8"),
        group="training",
    )
    chunked_loss: bool = option(
        False, help="the loss is computed in chunks, so that no logits of a whole batch are kept", group="training"
    )
    allreduce: str = option(
        "ring",
        help="how gradients are summed between instances",
        choices=("ring", "tree", "parameter_server"),
        group="training",
    )
    data_format: str | None = option(
        None,
        help="how samples are stored; default: jpeg (vision), audio (speech), latents (diffusion), tokens (others)",
        choices=("jpeg", "webdataset", "decoded", "audio", "features", "latents", "tokens", "text"),
        group="training",
    )
    storage: str | None = option(
        None,
        help="where samples are read from; default: local NVMe where the instance has some, else a volume",
        choices=STORAGE,
        group="training",
    )
    checkpoint_storage: str | None = option(
        None,
        help="where checkpoints are written to; default: at the rate of the assumption checkpoint_write_gb_per_s",
        choices=STORAGE,
        group="training",
    )
    async_checkpoints: bool = option(
        False,
        help="training waits for the copy of a checkpoint to host memory alone, not for its write",
        group="training",
    )

    max_ttft_ms: float | None = option(
        None, help="limit on time to first token", unit="ms", minimum=0, exclusive_minimum=True, group="constraints"
    )
    max_tpot_ms: float | None = option(
        None,
        help="limit on time per output token after the first",
        unit="ms",
        minimum=0,
        exclusive_minimum=True,
        group="constraints",
    )
    max_e2e_ms: float | None = option(
        None,
        help="limit on the whole request's latency",
        unit="ms",
        minimum=0,
        exclusive_minimum=True,
        group="constraints",
    )
    percentile: int = option(
        99, help="percentile that the latency limits apply to", choices=PERCENTILES, group="constraints"
    )
    deadline_hours: float | None = option(
        None, help="training must end within", unit="h", minimum=0, exclusive_minimum=True, group="constraints"
    )
    budget_usd: float | None = option(
        None,
        help="limit: training in total, inference per month of 730 h",
        unit="USD",
        minimum=0,
        exclusive_minimum=True,
        group="constraints",
    )
    instance: tuple[str, ...] = option(
        (), help="only these instance types", repeatable=True, group="constraints", example=["g5.xlarge"]
    )
    accelerator: tuple[str, ...] = option(
        (), help="only these accelerators", repeatable=True, group="constraints", example=["L40S"]
    )
    exclude: tuple[str, ...] = option(
        (), help="instance types, families or accelerators to leave out", repeatable=True, group="constraints"
    )
    needs: tuple[str, ...] = option(
        (), help="what the instance must have", choices=NEEDS, repeatable=True, group="constraints"
    )
    quota: str = option(
        "note",
        help="rows beyond the account's vCPU quota, where the snapshot has it: note it, enforce it (leave them out), or ignore it",
        choices=QUOTA_MODES,
        group="constraints",
    )

    region: tuple[str, ...] = option(
        ("us-east-1",),
        help="region, repeatable; all = everywhere",
        repeatable=True,
        group="prices",
        example=["us-east-1"],
    )
    provider: tuple[str, ...] = option(
        (),
        help="only these clouds (aws, gcp, azure, …); default: whoever is in the regions",
        repeatable=True,
        group="prices",
    )
    purchase: tuple[str, ...] = option(
        (PurchaseOption.ON_DEMAND.value, PurchaseOption.SPOT.value),
        help="purchase options to compare",
        choices=tuple(p.value for p in PurchaseOption),
        repeatable=True,
        group="prices",
    )
    plan_type: str | None = option(None, help="Savings Plan type", choices=("compute", "ec2_instance"), group="prices")
    payment_option: str | None = option(
        None, help="payment of commitments", choices=("no_upfront", "partial_upfront", "all_upfront"), group="prices"
    )
    offering_class: str | None = option(
        None, help="class of reserved instances", choices=("standard", "convertible"), group="prices"
    )
    prices_as_of: AsOf | None = option(  # noqa: RUF009 - option() only makes a dataclass field
        None, help=f"which price snapshot: {WHICH}", group="prices", example="2026-07-01"
    )

    usd_rate: tuple[str, ...] = option(
        (),
        help="units of a currency per USD, CODE=UNITS, by which prices in it are ranked; without it they are not",
        repeatable=True,
        longest=50,
        group="prices",
        example=["CNY=7.1"],
    )

    assume: tuple[str, ...] = option(
        (),
        help="change an assumption, NAME=VALUE; every answer lists them",
        repeatable=True,
        group="prices",
        example=["pue=1.2"],
    )

    top: int = option(10, help="how many recommendations to return", minimum=1, maximum=10000, group="output")
    sort: str = option("cost", help="what to rank by", choices=SORTS, group="output")
    explain: bool = option(False, help="give every figure with its formula, inputs and source", group="output")

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            check_field(f.name, getattr(self, f.name), f.metadata["option"])
        check_one_model(self.model, self.params)
        usd_rates(self.usd_rate)
        if self.mode == "inference":
            check_speculation(self.speculative_tokens, self.acceptance_rate)
            loaded = self.requests_per_s is not None or bool(self.traffic)
            check_batching(self.max_batch, self.max_queue_delay_ms, self.max_concurrency, loaded=loaded)
        if self.traffic and self.requests_per_s is not None:
            raise BadRequest(
                field="requests_per_s", value=self.requests_per_s, why="excludes traffic", expected="give one load"
            )
        if self.traffic and not any(self.traffic):
            raise BadRequest(
                field="traffic", value="all zero", why="is no load", expected="give at least one figure above 0"
            )
        if self.mode == "training":
            check_global_batch(self.global_batch, self.dataset_size)
        if self.mode == "training" and (self.dataset_tokens is None) == (self.dataset_size is None):
            raise BadRequest(
                field="dataset_tokens",
                value=self.dataset_tokens,
                why="training needs exactly one of dataset_tokens (language models) and dataset_size (samples)",
            )

    def to_document(self) -> dict[str, Any]:
        """Return the request as plain JSON values, every default filled in."""
        return plain_fields(self)


def same_as_recommend(name: str) -> Any:
    """Return a dataclass field with the default and the `Option` that `RecommendRequest` has for it."""
    of = next(f for f in dataclasses.fields(RecommendRequest) if f.name == name)
    return field(default=of.default, metadata=of.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRequest:
    """One layout on one kind of instance: what memory it takes, what it sustains, and what that costs where it is priced."""

    model: str | None = same_as_recommend("model")
    params: float | None = same_as_recommend("params")
    mode: str = same_as_recommend("mode")
    instance: str | None = option(None, help="instance type", group="general", example="g5.xlarge")
    accelerator: str | None = option(None, help="accelerator, instead of an instance type", example="L40S")
    count: int | None = option(
        None, help="accelerators in the machine, with --accelerator; default: 1", minimum=1, maximum=1024, example=1
    )
    instances: int = option(1, help="how many such instances", minimum=1, maximum=MOST_INSTANCES)
    precision: str | None = same_as_recommend("precision")
    kv_precision: str | None = same_as_recommend("kv_precision")
    engine: str = same_as_recommend("engine")
    evidence: str = same_as_recommend("evidence")
    input_size: int | None = same_as_recommend("input_size")
    steps: int | None = same_as_recommend("steps")

    input_tokens: int = same_as_recommend("input_tokens")
    output_tokens: int = same_as_recommend("output_tokens")
    requests_per_s: float | None = option(
        None,
        help="load, requests that come at random: latencies at it; without it: at full load",
        unit="requests/s",
        minimum=0,
        exclusive_minimum=True,
        maximum=1e9,
        group="inference",
    )
    max_batch: int | None = same_as_recommend("max_batch")
    max_queue_delay_ms: float | None = same_as_recommend("max_queue_delay_ms")
    utilisation: float = same_as_recommend("utilisation")
    max_concurrency: int | None = same_as_recommend("max_concurrency")
    tensor_parallel: int | None = same_as_recommend("tensor_parallel")
    pipeline_parallel: int | None = same_as_recommend("pipeline_parallel")
    expert_parallel: int | None = same_as_recommend("expert_parallel")
    speculative_tokens: int | None = same_as_recommend("speculative_tokens")
    acceptance_rate: float | None = same_as_recommend("acceptance_rate")

    method: str = same_as_recommend("method")
    dataset_tokens: float | None = same_as_recommend("dataset_tokens")
    dataset_size: float | None = same_as_recommend("dataset_size")
    epochs: float = same_as_recommend("epochs")
    sequence_length: int = same_as_recommend("sequence_length")
    global_batch: int | None = same_as_recommend("global_batch")
    optimizer: str = same_as_recommend("optimizer")
    lora_rank: int = same_as_recommend("lora_rank")
    micro_batch: int | None = same_as_recommend("micro_batch")
    checkpointing: str | None = same_as_recommend("checkpointing")
    sharding: str | None = same_as_recommend("sharding")
    attention_backend: str = same_as_recommend("attention_backend")
    activation_offload: bool = same_as_recommend("activation_offload")
    activation_dtype: str | None = same_as_recommend("activation_dtype")
    chunked_loss: bool = same_as_recommend("chunked_loss")
    allreduce: str = same_as_recommend("allreduce")
    data_format: str | None = same_as_recommend("data_format")
    storage: str | None = same_as_recommend("storage")
    checkpoint_storage: str | None = same_as_recommend("checkpoint_storage")
    async_checkpoints: bool = same_as_recommend("async_checkpoints")
    scaling: str | None = option(
        None,
        help="compare so many instances, or accelerators where an accelerator is named: powers of two (1..64) or a list (1,2,4,8)",
        group="training",
        example="1..64",
    )

    provider: str | None = option(None, help="cloud, where several have an instance type of that name", group="prices")
    region: str = option("us-east-1", help="region of the price", group="prices", example="us-east-1")
    purchase: str = option(
        PurchaseOption.ON_DEMAND.value,
        help="purchase option of the price",
        choices=tuple(p.value for p in PurchaseOption),
        group="prices",
    )
    plan_type: str | None = same_as_recommend("plan_type")
    payment_option: str | None = same_as_recommend("payment_option")
    offering_class: str | None = same_as_recommend("offering_class")
    prices_as_of: AsOf | None = same_as_recommend("prices_as_of")  # noqa: RUF009 - it only makes a dataclass field
    usd_rate: tuple[str, ...] = same_as_recommend("usd_rate")
    assume: tuple[str, ...] = same_as_recommend("assume")

    explain: bool = same_as_recommend("explain")

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            check_field(f.name, getattr(self, f.name), f.metadata["option"])
        check_one_model(self.model, self.params)
        usd_rates(self.usd_rate)
        if self.mode == "inference":
            check_speculation(self.speculative_tokens, self.acceptance_rate)
            loaded = self.requests_per_s is not None
            check_batching(self.max_batch, self.max_queue_delay_ms, self.max_concurrency, loaded=loaded)
        if (self.instance is None) == (self.accelerator is None):
            raise BadRequest(
                field="instance",
                value=self.instance,
                why="give exactly one of instance and accelerator",
                expected="for example --instance g5.xlarge or --accelerator L40S --count 2",
            )
        if self.instance is not None and self.count is not None:
            raise BadRequest(
                field="count",
                value=self.count,
                why="goes with accelerator; an instance type has its own number",
                expected="--instances sets how many instances",
            )
        if self.scaling is not None:
            scaling_counts(self.scaling, most_of(accelerators=self.instance is None, devices=self.count))
        if self.mode == "training":
            check_global_batch(self.global_batch, self.dataset_size)
        if self.mode == "training" and self.dataset_tokens is not None and self.dataset_size is not None:
            raise BadRequest(
                field="dataset_tokens",
                value=self.dataset_tokens,
                why="give one of dataset_tokens (language models) and dataset_size (samples)",
            )

    def to_document(self) -> dict[str, Any]:
        """Return the request as plain JSON values, every default filled in."""
        return plain_fields(self)


def check_one_model(model: str | None, params: float | None) -> None:
    """Raise `BadRequest` unless exactly one of model and params is given."""
    if (model is None) == (params is None):
        raise BadRequest(
            field="model",
            value=model,
            why="give exactly one of model and params",
            expected="for example --model 7b or --params 6.7e9",
        )


def check_global_batch(global_batch: int | None, dataset_size: float | None) -> None:
    """Raise `BadRequest` where one optimizer step has more samples than the whole data set."""
    if global_batch is not None and dataset_size is not None and global_batch > dataset_size:
        raise BadRequest(
            field="global_batch",
            value=global_batch,
            why=f"is more samples than the data set has ({dataset_size:,.0f})",
            expected="at most dataset_size",
        )


def check_batching(max_batch: int | None, delay_ms: float | None, max_concurrency: int | None, *, loaded: bool) -> None:
    """Raise `BadRequest` when dynamic batching is asked for without a load, or beside another limit on the batch."""
    given = {"max_batch": max_batch, "max_queue_delay_ms": delay_ms}
    for name, value in given.items():
        if value is not None and not loaded:
            raise BadRequest(
                field=name,
                value=value,
                why="says nothing without a load",
                expected="give requests_per_s too: how batches fill hangs on it",
            )
    if max_batch is not None and max_concurrency is not None:
        raise BadRequest(
            field="max_batch", value=max_batch, why="excludes max_concurrency", expected="give one of them"
        )


def check_speculation(tokens: int | None, rate: float | None) -> None:
    """Raise `BadRequest` when one half of speculative decoding is given without the other."""
    if (tokens is None) == (rate is None):
        return
    given, missing, example = (
        ("speculative_tokens", "acceptance_rate", "0.7")
        if rate is None
        else ("acceptance_rate", "speculative_tokens", "4")
    )
    raise BadRequest(
        field=given,
        value=tokens if rate is None else rate,
        why=f"says nothing without {missing}",
        expected=f"give {missing} too, for example {example}: it depends on draft and texts, and is not guessed",
    )


CODE = re.compile(r"[A-Z]{3}")
LEAST_RATE, MOST_RATE = Decimal("1e-6"), Decimal("1e9")


def usd_rates(stated: Iterable[str]) -> dict[str, Decimal]:
    """Return the units per USD of each currency of a request, "CNY=7.1" each; `BadRequest` for what is no rate, or a second one."""
    found: dict[str, Decimal] = {}
    for text in stated:
        code, equals, units = (part.strip() for part in text.partition("="))
        try:
            per_usd = Decimal(units)
        except InvalidOperation:
            per_usd = Decimal("NaN")
        why = ""
        if not equals or not CODE.fullmatch(code):
            why = "names no currency by its ISO 4217 code of three capital letters"
        elif code == "USD":
            why = "is a rate of the USD itself"
        elif not (per_usd.is_finite() and LEAST_RATE <= per_usd <= MOST_RATE):
            why = f"needs a positive number of {code} per USD, {LEAST_RATE:f} to {MOST_RATE:f}"
        elif found.get(code, per_usd) != per_usd:
            why = f"is a second rate of {code}"
        if why:
            raise BadRequest(field="usd_rate", value=text, why=why, expected="write units per USD, for example CNY=7.1")
        found[code] = per_usd
    return found


def plain_fields(request: Any) -> dict[str, Any]:
    """Return the fields of a request dataclass as plain JSON values in order; whole floats become integers (1281167, not 1281167.0).

    What is echoed can be asked again: every field is there, also those that the mode has no use for.
    """
    out: dict[str, Any] = {}
    for f in dataclasses.fields(request):
        value = getattr(request, f.name)
        if isinstance(value, tuple):
            out[f.name] = list(value)
        elif isinstance(value, date):
            out[f.name] = value.isoformat()
        elif isinstance(value, float) and value.is_integer():
            out[f.name] = int(value)
        else:
            out[f.name] = value
    return out


def check_field(name: str, value: Any, what: Option) -> None:
    """Raise `BadRequest` unless `value` obeys its option; None always passes (it means "not given")."""
    if value is None:
        return
    values = value if what.repeatable else (value,)
    if what.repeatable and not isinstance(value, tuple):
        raise BadRequest(field=name, value=value, why="must be a list")
    if what.repeatable and len(value) > what.longest:
        raise BadRequest(field=name, value=f"{len(value)} values", why=f"is longer than {what.longest}")
    for v in values:
        if what.choices and str(v) not in what.choices:
            raise BadRequest(
                field=name,
                value=v,
                why="is not one of " + ", ".join(what.choices),
                expected=suggestion(str(v), what.choices),
            )
        if isinstance(v, (int, float)) and not isinstance(v, bool):
            check_bounds(name, v, what)


def check_bounds(name: str, value: float, what: Option) -> None:
    """Raise `BadRequest` unless a number is finite and inside its bounds."""
    unit = f" {what.unit}" if what.unit else ""
    if not math.isfinite(value):
        raise BadRequest(field=name, value=value, why="must be a finite number")
    if what.minimum is not None and (value < what.minimum or (what.exclusive_minimum and value == what.minimum)):
        raise BadRequest(
            field=name,
            value=value,
            why=f"must be {'more than' if what.exclusive_minimum else 'at least'} {what.minimum:g}{unit.removesuffix('s') if what.minimum == 1 else unit}",
        )
    if what.maximum is not None and value > what.maximum:
        raise BadRequest(field=name, value=value, why=f"must be at most {what.maximum:g}{unit}")


def suggestion(word: str, known: tuple[str, ...]) -> str:
    """Return "did you mean X?" for a near miss, else nothing."""
    import difflib  # noqa: PLC0415 - only on the way to an error

    near = difflib.get_close_matches(word.lower(), known, n=2, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else ""


def options() -> Mapping[str, Option]:
    """Return every field of the request with its `Option`, in order."""
    return {f.name: f.metadata["option"] for f in dataclasses.fields(RecommendRequest)}
