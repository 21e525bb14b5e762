"""The answers' shapes, for the OpenAPI document. A test holds real answers against them; nothing is parsed with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from planner.api.market_shapes import Availability, PriceDiff, PriceHistory, SnapshotList
from planner.api.shape import Money, Open, Paged, Shape


class Source(Shape):
    """A source of prices and its age."""

    source: str
    kind: str
    as_of: str
    oldest_as_of: str
    age_hours: int
    stale: bool
    after_clock: bool
    quotes: int


class Prices(Shape):
    """Where the prices come from and how old they are."""

    snapshot_id: str
    as_of: str
    origin: str
    sources: list[Source]


class ModelMeant(Shape):
    """What the request's model became."""

    name: str
    alias: str | None
    architecture: str
    kind: str
    parameters_total: int
    parameters_active: int
    native_dtype: str
    max_context: int | None
    one_inference: str | None
    source: str
    assumptions: list[str]


class Percentiles(Shape):
    """A latency, ms."""

    p50: float | None
    p99: float | None


class Rates(Shape):
    """Rates of the whole recommendation, and latencies: under a stated load with its queue (null where that has no end), else at full load."""

    requests_per_s: float | None
    output_tokens_per_s: float | None
    total_tokens_per_s: float | None
    samples_per_s: float | None
    ttft_ms: Percentiles
    tpot_ms: Percentiles
    e2e_ms: Percentiles
    mfu_fraction: float | None


class PerformanceFigures(Rates):
    """What it sustains; `low` and `high` are p10 and p90 of each field."""

    basis: str = Field(description="measured, silicon, published or modelled: the weakest link")
    at_requests_per_s: float | None = Field(description="what is served and paid by: the load, or full load")
    low: Rates
    high: Rates
    sources: list[str]


class MemoryLine(Shape):
    """One share of an accelerator's memory."""

    name: str
    gib: float
    note: str


class Memory(Shape):
    """Memory per accelerator, GiB; `required` is the sum of the lines.

    What a replica could hold at most: requests of the asked lengths, tokens of a request with the layout's requests in flight, and of a
    single one (within the model's context). Models priced per sample: samples of the asked size in a batch, the largest sample (tokens,
    pixels along the edge, output tokens) at the layout's batch, and in a batch of one. Training: samples of the asked length or size that an
    accelerator works on at once, tokens of a sequence with the layout's micro-batch, and with a micro-batch of one.
    """

    required_gib_per_accelerator: float
    available_gib_per_accelerator: float
    lines: list[MemoryLine]
    max_concurrency_at_context: int | None
    max_context_tokens: int | None
    max_context_tokens_of_one: int | None
    max_batch_at_size: int | None
    max_size: int | None
    max_size_of_one: int | None
    max_micro_batch: int | None
    max_sequence_tokens: int | None
    max_sequence_tokens_of_one: int | None
    available_is: str


class Layout(Shape):
    """How the work is laid out; null where it does not apply."""

    engine: str | None
    engine_version: str | None
    precision: str
    kv_precision: str | None
    tensor_parallel: int | None
    pipeline_parallel: int | None
    expert_parallel: int | None
    data_parallel: int | None
    replicas_per_instance: int | None
    max_concurrency: int | None
    batch: int | None
    method: str | None
    micro_batch: int | None
    accumulation: int | None
    checkpointing: str | None
    sharding: str | None
    speculative_tokens: int | None


class Costs(Shape):
    """Costs in USD, decimal strings."""

    usd_per_hour: Money | None
    usd_per_million_inferences: Money | None
    usd_per_million_total_tokens: Money | None
    usd_per_million_input_tokens: Money | None
    usd_per_million_output_tokens: Money | None
    usd_per_epoch: Money | None
    usd_total: Money | None
    usd_per_month: Money | None


class CostLine(Shape):
    """One line of the bill: quantity x unit price = usd."""

    name: str
    quantity: float
    unit: str
    unit_price: Money
    usd: Money
    source: str


class CostFigures(Costs):
    """Costs, their p10 and p90, and the lines that sum to the total."""

    low: Costs
    high: Costs
    lines: list[CostLine]


class Purchase(Shape):
    """Terms of a commitment; null where it does not apply."""

    plan_type: str | None
    payment_option: str | None
    offering_class: str | None
    term_years: int | None


class Price(Shape):
    """The price that was picked."""

    usd_per_instance_hour: Money
    as_of: str
    age_hours: int
    stale: bool
    after_clock: bool
    derived: bool
    confidence: str
    sku: str | None
    rate_code: str | None
    source: str


class Time(Shape):
    """Hours of training; null for inference."""

    hours_per_epoch: float | None
    hours_total: float | None


class Energy(Shape):
    """Energy at the meter."""

    kwh_per_million_inferences: float | None
    kwh_total: float | None
    pue: float | None


class Term(Shape):
    """One line of an explanation: a figure, its formula, and the table or source it comes from."""

    name: str
    value: float | str
    unit: str
    formula: str
    source: str


class Assumption(Shape):
    """A figure that could be disputed, and that `assume` changes."""

    name: str
    value: float | str
    unit: str
    source: str


class Counts(Shape):
    """How many candidates were looked at."""

    candidates: int
    feasible: int
    rejected: int


class Recommendation(Shape):
    """One ranked row."""

    rank: int
    provider: str
    instance_type: str
    region: str
    availability_zone_id: str | None
    purchase_option: str
    purchase: Purchase
    price: Price
    instance_count: int
    accelerator: str | None
    accelerators_per_instance: float | None
    layout: Layout
    memory: Memory
    performance: PerformanceFigures
    cost: CostFigures
    time: Time
    energy: Energy
    pareto: bool | None
    notes: list[str]
    explanation: list[Term] = Field(
        default=[], description="with `explain` alone: every figure with its formula and source"
    )


class Rejection(Shape):
    """Why candidates were left out, grouped by type and reason."""

    provider: str | None
    instance_type: str
    reason: str
    regions: list[str]
    purchase_options: list[str]
    count: int
    detail: str


class PriceRow(Shape):
    """One quote."""

    provider: str
    instance_type: str
    region: str
    availability_zone_id: str | None
    availability_zone: str | None
    purchase_option: str
    plan_type: str | None
    offering_class: str | None
    term_years: int | None
    payment_option: str | None
    currency: str
    unit: str
    list_unit_price: Money | None
    contracted_unit_price: Money | None
    upfront: Money | None
    effective_unit_price: Money
    source: str
    sku: str | None
    rate_code: str | None
    effective_from: str | None
    retrieved_at: str


class PriceList(Paged):
    """Quotes of one snapshot."""

    snapshot_id: str
    as_of: str
    prices: list[PriceRow]


class RateRow(Shape):
    """One price of storage or network; of a tier, the part of a month's amount from `tier_from` to `tier_to`."""

    provider: str
    service: str
    item: str
    region: str
    tier_from: float | None
    tier_to: float | None
    unit_price: Money
    currency: str
    unit: str
    source: str
    sku: str | None
    rate_code: str | None
    retrieved_on: str
    confidence: str
    notes: str


class RateList(Paged):
    """Prices of storage and network of one snapshot."""

    snapshot_id: str
    as_of: str
    rates: list[RateRow]


class Checkpoint(Shape):
    """How a model is published."""

    precision: str
    weight_bytes: int


class ModelFigures(Shape):
    """Sizes of one model."""

    name: str
    architecture: str
    parameters_total: int
    parameters_active: int
    kv_bytes_per_token: dict[str, int]
    weight_bytes: dict[str, int]
    checkpoint: Checkpoint
    max_context: int | None
    source: str


class ModelLine(Shape):
    """One model known by name."""

    name: str
    aliases: list[str]
    kind: str
    architecture: str
    parameters_total: int
    parameters_active: int
    max_context: int | None
    source: str


class ModelList(Shape):
    """The models known by name."""

    models: list[ModelLine]


class Answer(Shape):
    """A ranking, cheapest per unit of work first, with everything it was made from."""

    id: str = Field(description="hash of request, prices, evidence, model and version")
    request: dict[str, Any] = Field(description="the request with every default filled in")
    stage_presets: dict[str, Any]
    model: ModelMeant
    assumptions: list[Assumption]
    planner_version: str
    evidence_id: str
    prices: Prices
    counts: Counts
    recommendations: list[Recommendation]
    rejections: list[Rejection]


class ScalingRow(Shape):
    """The same training on so many machines; figures are null where no layout fits (`why_not` says why)."""

    instances: int
    accelerators: int
    kind: Literal["strong", "weak"] = Field(
        description="strong: every row trains with the same global batch; weak: every accelerator keeps its micro-batch, the global batch grows"
    )
    global_batch: int | None = Field(description="samples per optimizer step")
    samples_per_s: float | None
    tokens_per_s: float | None
    speedup: float | None = Field(description="against the first row that fits")
    efficiency_fraction: float | None
    mfu_fraction: float | None
    step_ms: dict[str, float] | None = Field(
        description="total and its parts; global_batch / total is samples_per_s: input is the wait for the input pipeline"
    )
    limited_by: str | None = Field(
        description="compute, dequantisation, memory, tensor collectives, pipeline bubble and transfers, data-parallel traffic, expert exchange, kernel launches, activation offload, host, input pipeline or global batch"
    )
    limit_fraction: float | None
    layout: Layout | None
    why_not: str | None


class EstimateAnswer(Shape):
    """One layout on one kind of machine; figures are null when it cannot work (`rejections` says why), cost where no price is known."""

    id: str
    request: dict[str, Any]
    model: ModelMeant
    assumptions: list[Assumption]
    planner_version: str
    evidence_id: str
    prices: Prices
    provider: str | None
    instance_type: str | None
    region: str | None
    availability_zone_id: str | None
    purchase_option: str | None
    purchase: Purchase | None
    price: Price | None
    instance_count: int | None
    accelerator: str | None
    accelerators_per_instance: float | None
    layout: Layout | None
    memory: Memory | None
    performance: PerformanceFigures | None
    cost: CostFigures | None
    time: Time | None
    energy: Energy | None
    notes: list[str]
    explanation: list[Term] = Field(default=[], description="with `explain` alone")
    scaling: list[ScalingRow] = Field(default=[], description="with `scaling` alone: one row per number of machines")
    rejections: list[Rejection]


class InstanceTypeList(Open):
    """Instance types with their chips."""

    snapshot_id: str
    as_of: str
    instance_types: list[dict[str, Any]]


class Health(Open):
    """The process is alive."""

    status: str
    planner_version: str


class RefreshState(Shape):
    """How the scheduled refreshes went; nothing here makes a server unready."""

    every_s: float
    running: bool
    last_run: str | None
    last_success: str | None = Field(description="when a refresh ended in which every source answered")
    last_published: str | None = Field(description="when a refresh ended with a new snapshot")
    next_run: str | None
    snapshot_id: str | None
    failures: int = Field(description="in a row")
    failed_sources: list[dict[str, Any]]
    alert_faults: list[str] = Field(
        description="what is wrong with the file of watched prices, or why it could not be told; no failure of the refresh"
    )
    why: str | None


class Readiness(Health):
    """Every part is fine."""

    checks: list[dict[str, Any]]
    refresh: RefreshState | None = Field(description="null where no refreshes are scheduled")


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """An answer's model and its description."""

    model: type[BaseModel]

    @property
    def name(self) -> str:
        """Name among the OpenAPI schemas."""
        return self.model.__name__

    @property
    def description(self) -> str:
        """What the answer is."""
        return (self.model.__doc__ or "").strip()


SHAPES: Mapping[str, AnswerShape] = {
    "recommendation": AnswerShape(Answer),
    "estimate": AnswerShape(EstimateAnswer),
    "prices": AnswerShape(PriceList),
    "rates": AnswerShape(RateList),
    "history": AnswerShape(PriceHistory),
    "diff": AnswerShape(PriceDiff),
    "snapshots": AnswerShape(SnapshotList),
    "availability": AnswerShape(Availability),
    "instance_types": AnswerShape(InstanceTypeList),
    "models": AnswerShape(ModelList),
    "model": AnswerShape(ModelFigures),
    "health": AnswerShape(Health),
    "readiness": AnswerShape(Readiness),
}


def shape_documents() -> dict[str, Any]:
    """Return the JSON Schemas of all answers by name."""
    _, schema = models_json_schema(
        [(shape.model, "serialization") for shape in SHAPES.values()], ref_template="#/components/schemas/{model}"
    )
    return dict(schema["$defs"])
