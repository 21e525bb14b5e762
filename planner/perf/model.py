"""The nouns of `perf`: hardware as a roofline sees it, layouts, memory fits, performance, and why something cannot be.

All figures of an `Evaluation` are for `instances` instances of the type (1 unless the layout spans several).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pricing.model import AcceleratorKind, InterconnectKind

if TYPE_CHECKING:
    from planner.perf.arrivals import Arrivals


class Basis(StrEnum):
    """Where a performance figure comes from, best first; the weakest link labels a total."""

    MEASURED = "measured"
    SILICON = "silicon"
    PUBLISHED = "published"
    MODELLED = "modelled"


class RejectionReason(StrEnum):
    """Why a candidate is not in the ranking."""

    OUT_OF_MEMORY = "out_of_memory"
    PRECISION_UNSUPPORTED = "precision_unsupported"
    LAYOUT_IMPOSSIBLE = "layout_impossible"
    ENGINE_UNSUPPORTED = "engine_unsupported"
    SLO_INFEASIBLE = "slo_infeasible"
    DEADLINE = "deadline"
    BUDGET = "budget"
    NOT_OFFERED = "not_offered"
    NO_PRICE = "no_price"
    NO_QUOTA = "no_quota"
    CAPACITY_BLOCK_ONLY = "capacity_block_only"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The devices of one instance type. Figures are PER DEVICE (a g6f device is an eighth of an L4; a CPU type is one device)."""

    accelerator: str  # canonical chip name
    vendor: str
    architecture: str
    kind: AcceleratorKind
    devices: int
    fraction: float
    memory_visible_gib: float  # what a process can use, before the engine's share of 0.9
    memory_bandwidth_gb_s: float | None
    peak_tflops: Mapping[str, float]
    interconnect_kind: InterconnectKind
    interconnect_gb_s_bidirectional: float | None
    tdp_w: float | None
    compute_capability: float | None
    vcpus: int | None
    host_memory_gib: float | None
    network_gbps: float | None
    efa_supported: bool
    local_nvme_gb: float | None = None  # of the whole instance
    host_interface_gb_s_bidirectional: float | None = None  # PCIe or the like between device and host, both directions


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the work is laid out. Fields that do not apply are None. Field names are those of the JSON contract."""

    engine: str | None
    engine_version: str | None = None
    precision: str
    kv_precision: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    expert_parallel: int | None = None
    data_parallel: int | None = None
    replicas_per_instance: int | None = None
    max_concurrency: int | None = None  # requests in flight per replica
    speculative_tokens: int | None = None  # proposed each decode step
    batch: int | None = None  # samples per step per replica (vision, encoders)
    method: str | None = None  # training: full | lora | qlora
    micro_batch: int | None = None  # per device
    accumulation: int | None = None
    checkpointing: str | None = None  # none | selective | full
    sharding: str | None = None  # ddp | zero1 | zero2 | zero3


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLine:
    """One named share of the memory of one accelerator."""

    name: str  # "weights", "kv_cache", "activations", "runtime_reserve", "gradients", "optimizer_states" …
    gib: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """Required against available memory of one accelerator; fits when required <= available (visible x 0.9)."""

    lines: tuple[MemoryLine, ...]
    available_gib_per_accelerator: float
    available_is: str = "0.9 of what a process can see"
    max_concurrency_at_context: int | None = (
        None  # serving: most requests of the asked lengths in a replica, by memory alone
    )
    max_context_tokens: int | None = (
        None  # serving: longest request, input and output, with the layout's requests in flight
    )
    max_context_tokens_of_one: int | None = None  # the same for a single request
    max_batch_at_size: int | None = (
        None  # models priced per sample: most samples of the asked size in a batch, by memory alone
    )
    max_size: int | None = (
        None  # their largest sample (tokens, pixels along the edge, output tokens) at the layout's batch
    )
    max_size_of_one: int | None = None  # the same in a batch of one
    max_micro_batch: int | None = None  # training: most samples of the asked length or size at once, by memory alone
    max_sequence_tokens: int | None = None  # training: longest sequence with the layout's micro-batch
    max_sequence_tokens_of_one: int | None = None  # the same with a micro-batch of one

    @property
    def required_gib_per_accelerator(self) -> float:
        """Sum of the lines, GiB."""
        return sum(line.gib for line in self.lines)

    @property
    def fits(self) -> bool:
        """Whether the layout can start and hold its load."""
        return self.required_gib_per_accelerator <= self.available_gib_per_accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """A latency at two percentiles, ms."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """The latencies of a request; None where one does not apply."""

    ttft_ms: Percentiles | None
    tpot_ms: Percentiles | None
    e2e_ms: Percentiles | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderLoad:
    """What a stated rate of random arrivals makes of a layout, whose latencies are those at that rate; none where the queue has no end."""

    requests_per_s: float  # that arrive at the evaluated instances
    utilisation: float  # of a replica's capacity; 1 or more: the queue grows without bound
    waiting: float  # share of requests that wait for a slot; of samples, share of the time in which a batch runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Sustained rates of the evaluated instances together; None where the unit does not apply to the work."""

    requests_per_s: float | None = None
    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    samples_per_s: float | None = None  # training: samples (sequences for LMs)

    def scaled(self, factor: float) -> Rates:
        """Return all rates times `factor`."""

        def times(x: float | None) -> float | None:
            return None if x is None else x * factor

        return Rates(
            requests_per_s=times(self.requests_per_s),
            output_tokens_per_s=times(self.output_tokens_per_s),
            total_tokens_per_s=times(self.total_tokens_per_s),
            samples_per_s=times(self.samples_per_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One line of an explanation: a named figure, its unit, the formula or table it comes from."""

    name: str
    value: float | str
    unit: str
    formula: str = ""
    source: str = ""


class LateTerms(Sequence[Term]):
    """Lines of an explanation that are made when somebody looks: of a hundred evaluations ten are shown, and few are explained."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Iterable[Term]]) -> None:
        self._make = make
        self._made: tuple[Term, ...] | None = None

    def made(self) -> tuple[Term, ...]:
        """Return the lines, made once."""
        if self._made is None:
            self._made = tuple(self._make())
        return self._made

    def __getitem__(self, index: Any) -> Any:
        return self.made()[index]

    def __iter__(self) -> Iterator[Term]:
        return iter(self.made())

    def __len__(self) -> int:
        return len(self.made())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.made() == tuple(other)

    def __hash__(self) -> int:
        return hash(self.made())

    def __repr__(self) -> str:
        return repr(self.made())


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What a layout sustains. `low_factor` <= 1 <= `high_factor` scale the rates to p10 and p90 (latencies inversely)."""

    basis: Basis
    rates: Rates
    low_factor: float
    high_factor: float
    ttft_ms: Percentiles | None = None
    tpot_ms: Percentiles | None = None
    e2e_ms: Percentiles | None = None
    mfu_fraction: float | None = None
    prefill_time_fraction: float | None = None  # of accelerator time; splits cost into input and output tokens
    power_w: float | None = None  # of the evaluated instances' accelerators under this load
    sources: tuple[str, ...] = ()
    terms: Sequence[Term] = ()
    under_load: UnderLoad | None = None  # latencies are those of random arrivals; None: of a closed loop at full load


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A layout that works on some hardware."""

    layout: Layout
    instances: int  # instances the layout spans (1, or more for multi-node training)
    memory: MemoryFit
    performance: Performance
    notes: tuple[str, ...] = ()
    arrivals: Arrivals | None = field(default=None, compare=False, repr=False)  # where requests come at random


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """Why no layout works on some hardware, with the figures behind it in `detail` (one readable clause)."""

    reason: RejectionReason
    detail: str
    figures: Mapping[str, float | str] = field(default_factory=dict)


Outcome = Evaluation | Infeasible


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLimits:
    """Limits in ms at `percentile` (99 unless asked otherwise); None = no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    percentile: int = 99

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return not (self.ttft_ms is None and self.tpot_ms is None and self.e2e_ms is None)


OBJECTIVES = ("throughput", "latency")
"""What the best layout of an instance is best at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceWork:
    """What is to be served. Token counts are ignored by models priced per sample."""

    input_tokens: int = 1000
    output_tokens: int = 1000
    precision: str | None = None  # None = the checkpoint's own format (fp16 where the chip has no bf16)
    allowed_precisions: tuple[str, ...] = ()  # quantisations that may be chosen besides
    kv_precision: str | None = None
    engine: str = "vllm"
    limits: LatencyLimits = LatencyLimits()
    tensor_parallel: int | None = None  # fixed by the user, else searched
    pipeline_parallel: int | None = None  # the same
    expert_parallel: int | None = None  # devices that experts are dealt out over
    max_instances: int = 1  # that one replica may span
    speculative_tokens: int | None = None  # proposed each step, with
    acceptance_rate: float | None = None  # the chance that a proposed token is accepted
    max_concurrency: int | None = None  # fixed by the user, else the best feasible
    objective: str = "throughput"  # "throughput": most requests/s of the instance; "latency": lowest e2e p99
    open_loop: bool = (
        False  # requests come at random, at a rate that is stated; else a number of them is kept in flight
    )
    max_batch: int | None = None  # open loop, models priced per sample: most samples of a batch; None = chosen
    max_queue_delay_ms: float = 0.0  # the same: longest that a sample is held back for others

    def __post_init__(self) -> None:
        """Refuse an objective that means nothing."""
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective {self.objective!r} is not one of {', '.join(OBJECTIVES)}")
        if (self.speculative_tokens is None) != (self.acceptance_rate is None):
            raise ValueError("speculative_tokens and acceptance_rate are given together")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingWork:
    """What is to be trained, per optimizer step and in total."""

    method: str = "full"  # full | lora | qlora
    precision: str | None = None
    sequence_length: int = 2048  # tokens per sequence (language models)
    global_batch: int | None = None  # samples per optimizer step; None = chosen
    optimizer: str = "adamw"  # adamw (fp32 states) | adamw_8bit | sgd | adafactor
    lora_rank: int = 16
    checkpointing: str | None = None  # none | selective | full; None = chosen
    max_instances: int = 64
    input_size: int | None = None  # pixels, vision
    tensor_parallel: int | None = None  # these five: None = chosen
    pipeline_parallel: int | None = None
    expert_parallel: int | None = None
    micro_batch: int | None = None
    sharding: str | None = None  # ddp | zero1 | zero2 | zero3
    attention_backend: str = "sdpa"  # sdpa | flash | math
    activation_offload: bool = False  # kept activations wait in host memory
    activation_dtype: str | None = None  # fp32 | bf16 | fp16 | fp8; None = that of the arithmetic
    chunked_loss: bool = False  # the loss is computed in chunks, so that no logits are kept
    allreduce: str = "ring"  # ring | tree | parameter_server
    data_format: str | None = None  # how samples are stored; None = the usual one of the model
    storage: str | None = (
        None  # where samples are read from: nvme | ebs | fsx | s3; None = local NVMe where there is some, else ebs
    )
    decode_factor: float = 1.0  # on the table's figures of samples per vCPU
    read_factor: float = 1.0  # on the table's figures of storage
