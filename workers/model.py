"""The wire contract: `Job` (what is to be measured) and `Measurement` (what was), each one self-describing JSON document.

A measurement carries its job, its environment, the raw samples of every series with shape, warm-up and duration, and says whether it
is valid and why not. Standard library only; a reader needs nothing else. Times are in seconds, sizes in bytes, memory in MiB as
drivers report it. `None` means "does not apply" or "not known", never zero.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from workers.documents import content_hash, from_plain, parse_json, to_plain
from workers.errors import DocumentError

JOB_SCHEMA = "gpu-cost-planner/job"
MEASUREMENT_SCHEMA = "gpu-cost-planner/measurement"
SCHEMA_VERSION = 1


class Suite(StrEnum):
    """What a job runs."""

    DEVICE = "device"  # matrix multiplication by dtype and size, copy bandwidth


class Device(StrEnum):
    """Where a job runs."""

    AUTO = "auto"  # a GPU when torch sees one, else the CPU
    CUDA = "cuda"
    CPU = "cpu"


class Dtype(StrEnum):
    """Arithmetic of a matrix multiplication. TF32 is fp32 storage multiplied in 19 bits."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"  # e4m3
    INT8 = "int8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A model as plain numbers, so that the worker needs no model library and no download."""

    name: str
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int  # of the dense MLP, or of one expert
    gated: bool
    vocab_size: int
    experts: int = 0
    experts_per_token: int = 0

    def __post_init__(self) -> None:
        for name in ("hidden_size", "layers", "heads", "kv_heads", "head_dim", "intermediate_size", "vocab_size"):
            _at_least(name, getattr(self, name), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When a series is long and steady enough to count."""

    warmup_s: float = 1.0
    min_duration_s: float = 2.0  # of timed work, warm-up left out
    min_samples: int = 100  # 69 are the least for a p99, see stats.samples_needed
    max_samples: int = 2000
    max_duration_s: float = (
        60.0  # of one series, warm-up and timed work each: what is too slow for that is too short, not endless
    )
    max_spread_fraction: float = 0.15  # interquartile range ÷ median
    max_drift_fraction: float = 0.05  # median of the second half against the first

    def __post_init__(self) -> None:
        for name in ("warmup_s", "min_duration_s", "max_duration_s", "max_spread_fraction", "max_drift_fraction"):
            _at_least(name, getattr(self, name), 0)
        _at_least("min_samples", self.min_samples, 2)
        if self.max_samples < self.min_samples:
            raise ValueError(f"max_samples ({self.max_samples}) must not be less than min_samples ({self.min_samples})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be measured. Empty lists mean: chosen by the device, and stated in the measurement."""

    name: str
    suite: Suite = Suite.DEVICE
    device: Device = Device.AUTO
    device_index: int = 0
    dtypes: tuple[Dtype, ...] = ()
    matmul_sizes: tuple[int, ...] = ()  # n of an n x n x n product
    tokens: int = 4096  # rows of the products of `architecture`
    copy_bytes: int | None = None  # size of the buffer that is copied
    architecture: Architecture | None = None  # its projections are multiplied besides the square sizes
    rules: Rules = field(default_factory=Rules)
    notes: str = ""
    schema: str = JOB_SCHEMA
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        _check_schema(self.schema, JOB_SCHEMA, self.schema_version)
        _at_least("device_index", self.device_index, 0)
        _at_least("tokens", self.tokens, 1)
        for size in self.matmul_sizes:
            _at_least("matmul_sizes", size, 16)
        if self.copy_bytes is not None:
            _at_least("copy_bytes", self.copy_bytes, 1 << 20)

    @classmethod
    def parse(cls, text: str | bytes, *, source: str = "job") -> Job:
        """Return the job that a JSON text describes; DocumentError names the field that is wrong."""
        plain = parse_json(text, source=source)
        _check_version(plain, JOB_SCHEMA, source)
        return from_plain(cls, plain, source)

    def to_json(self) -> str:
        """Return the job as JSON text that `parse` reads back."""
        return _json(to_plain(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as the driver describes it at the start of the measurement."""

    index: int
    name: str
    memory_total_mib: int | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    temperature_c: int | None = None
    ecc_enabled: bool | None = None
    mig_enabled: bool | None = None
    pci_link: str | None = None  # "gen4 x16": the widest the link can be


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The machine and software that a measurement was taken on. No host name, address or serial number."""

    worker_version: str
    python_version: str
    operating_system: str
    cpu_model: str | None
    cpu_count: int | None  # logical CPUs that this process may use
    memory_total_mib: int | None
    driver_version: str | None = None
    gpus: tuple[Gpu, ...] = ()
    torch_version: str | None = None
    cuda_version: str | None = None  # that torch was built for
    cudnn_version: str | None = None
    notes: tuple[str, ...] = ()  # what could not be read, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What one sample of a series is. Fields that do not apply are None."""

    dtype: str | None = None
    m: int | None = None  # matrix product: (m x k) times (k x n)
    n: int | None = None
    k: int | None = None
    buffer_bytes: int | None = None
    batch: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    concurrency: int | None = None
    calls_per_sample: int = 1  # a sample is the mean of this many back-to-back calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmup:
    """What ran before the first sample and is not among the samples."""

    calls: int
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """Whether figures may be read off, and if not, why."""

    valid: bool
    reasons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.valid == bool(self.reasons):
            raise ValueError("valid needs no reasons, and invalid needs at least one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One rate read off a series: at the median sample, at the p90 sample (slower: low) and at the p10 sample (faster: high)."""

    name: str
    unit: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Equal samples of one thing. `samples_s` are seconds per call, in the order they were taken."""

    name: str  # "matmul", "copy", …
    shape: Shape
    work_per_call: Mapping[str, float] = field(default_factory=dict)  # "flop", "bytes": what one call does
    warmup: Warmup
    duration_s: float
    samples_s: tuple[float, ...]
    unsettled: int = 0  # leading samples that the figures leave out (stats.warmup_end)
    figures: tuple[Figure, ...] = ()
    validity: Validity

    def __post_init__(self) -> None:
        if any(sample <= 0 for sample in self.samples_s):
            raise ValueError("samples_s must all be more than 0")
        if not 0 <= self.unsettled <= len(self.samples_s):
            raise ValueError(f"unsettled must be between 0 and the {len(self.samples_s)} samples, not {self.unsettled}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What the job asked for and this machine could not do."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What was measured, whole. `content_hash` covers every other field."""

    job: Job
    environment: Environment
    device: str  # what it ran on: "cuda:0 NVIDIA L4", "cpu"
    started_at: datetime
    duration_s: float
    series: tuple[Series, ...]
    skipped: tuple[Skipped, ...] = ()
    validity: Validity
    schema: str = MEASUREMENT_SCHEMA
    schema_version: int = SCHEMA_VERSION
    content_hash: str = ""

    def __post_init__(self) -> None:
        _check_schema(self.schema, MEASUREMENT_SCHEMA, self.schema_version)
        if self.started_at.tzinfo is None:
            raise ValueError("started_at must say its time zone")

    @classmethod
    def parse(cls, text: str | bytes, *, source: str = "measurement") -> Measurement:
        """Return the measurement that a JSON text describes; a document that was changed after it was written is refused."""
        plain = parse_json(text, source=source)
        _check_version(plain, MEASUREMENT_SCHEMA, source)
        measurement = from_plain(cls, plain, source)
        expected = measurement.sealed().content_hash
        if measurement.content_hash != expected:
            raise DocumentError(
                f"{source}.content_hash",
                f"is {measurement.content_hash or 'empty'}, the content has {expected}: the document was changed or cut",
            )
        return measurement

    def sealed(self) -> Measurement:
        """Return the measurement with the hash of its content."""
        return replace(self, content_hash=content_hash(to_plain(self)))

    def to_json(self) -> str:
        """Return the sealed measurement as JSON text that `parse` reads back."""
        return _json(to_plain(self.sealed()))


def _json(plain: Any) -> str:
    return json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _at_least(name: str, value: float, least: float) -> None:
    if value < least:
        raise ValueError(f"{name} must be at least {least:g}, not {value:g}")


def _check_schema(schema: str, expected: str, version: int) -> None:
    if schema != expected or version != SCHEMA_VERSION:
        raise ValueError(f"schema must be {expected} version {SCHEMA_VERSION}, not {schema} version {version}")


def _check_version(plain: Any, expected: str, source: str) -> None:
    """Look at schema and version first: another version's fields would only give confusing messages."""
    if not isinstance(plain, dict):
        raise DocumentError(source, "must be a JSON object")
    schema, version = plain.get("schema"), plain.get("schema_version")
    if schema != expected:
        raise DocumentError(f"{source}.schema", f"must be {expected!r}, not {schema!r}")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise DocumentError(f"{source}.schema_version", f"is {version!r}, this worker reads version {SCHEMA_VERSION}")
