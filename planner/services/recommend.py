"""`recommend`: from a request, a catalog and a model to the ranked, priced answer of the contract.

One straight line: names → offers → hardware → layouts and rates (`perf`) → sizing and bills (`tco`) → ranking → document.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

import planner
from planner.models.spec import ModelKind, ModelSpec
from planner.perf.model import InferenceWork, LatencyLimits, Outcome, TrainingWork
from planner.perf.training_checkpoints import checkpoint_bytes
from planner.ports import Document
from planner.recommend.arrivals import ends_known, under_load
from planner.recommend.candidates import select
from planner.recommend.errors import BadRequest
from planner.recommend.model import Offer, Rejection, Run, Sized, Spread
from planner.recommend.offers import Terms
from planner.recommend.quotas import ENFORCE, IGNORE, NOTE, run_within_quota, within_quota
from planner.recommend.ranking import identity, pareto_front, ranked
from planner.recommend.rejections import grouped
from planner.recommend.request import EstimateRequest, RecommendRequest
from planner.recommend.sizing import (
    Load,
    TrainingLoad,
    reject,
    run_spread,
    serving_or_rejection,
    serving_spread,
)
from planner.recommend.stages import presets_held
from planner.services.applies import check_use, with_sample_size
from planner.services.documents import defaults_of, model_document, prices_document, rejection_document, row_document
from planner.services.evidence import SHIPPED_ONLY, Evidence, Tiers, evaluated_inference, evaluated_training
from planner.services.explain import explanation_of
from planner.services.facts import HardwareSet, hardware_set, offers_of
from planner.services.identity import answer_id, evidence_id
from planner.services.notes import notes_of
from planner.services.scope import scope_of
from planner.tco.assumptions import AssumptionError, Assumptions
from pricing.catalog import Catalog
from pricing.market import Quota


def recommend(
    request: RecommendRequest, *, catalog: Catalog, spec: ModelSpec, now: datetime, evidence: Evidence = SHIPPED_ONLY
) -> Document:
    """Return the answer document; "nothing fits" is an answer with no recommendations and every rejection.

    Raises `BadRequest` for what cannot be asked. On `now` depend ages and what follows from them (`stale`, `after_clock` and its note), the day
    of a stated rate, and what is dated in the snapshot: blocks that have begun and agreements that have ended, and then the id as well.
    """
    assumptions = assumptions_of(request.assume)
    spec = with_sample_size(request, spec)
    check_applies(request, spec)
    tiers = Tiers(evidence=evidence, asked=request.evidence)
    scope = scope_of(request, catalog, now)
    providers = set(scope.regions_of)
    types = [t for t in catalog.instance_types() if t.provider in providers]
    kept, rejections = select(
        types, scope.filters, options=tuple(dict.fromkeys(request.purchase)), regions_of=scope.regions_of
    )
    offers, unpriced = offers_of(
        kept,
        scope.today,
        regions_of=scope.regions_of,
        options=request.purchase,
        terms=Terms(
            plan_type=request.plan_type, payment_option=request.payment_option, offering_class=request.offering_class
        ),
        catalog=catalog,
        assumptions=assumptions,
    )
    rejections += unpriced
    buyable = {(o.instance.provider, o.instance.instance_type): o.instance for o in offers}
    machines = hardware_set(list(buyable.values()), catalog)
    quotas = () if request.quota == IGNORE else catalog.quotas()
    bound = quotas if request.quota == ENFORCE else ()
    if request.mode == "training":
        rows, failed = training_rows(request, spec, offers, machines, assumptions, quotas=bound, tiers=tiers)
    else:
        rows, failed = serving_rows(request, spec, offers, machines, quotas=bound, tiers=tiers)
    rejections += failed
    order = ranked(rows, request.sort)
    front = pareto_front(rows)
    ends_known(order[: request.top])
    echoed = request.to_document()
    return {
        "id": answer_id(
            "recommend",
            echoed,
            snapshot_id=catalog.meta.snapshot_id,
            spec=spec,
            turned=scope.today.turned,
            beside=evidence.id,
        ),
        "request": echoed,
        "stage_presets": {name: list(v) if isinstance(v, tuple) else v for name, v in presets_held(request).items()},
        "model": model_document(spec, request.model, tokens=(request.input_tokens, request.output_tokens)),
        "assumptions": [*defaults_of(request, spec), *assumptions.listed(request.mode)],
        "planner_version": planner.__version__,
        "evidence_id": evidence_id(evidence.id),
        "prices": prices_document(catalog.meta, [o.quote for o in offers], now),
        "counts": {"candidates": len(rows) + len(rejections), "feasible": len(rows), "rejected": len(rejections)},
        "recommendations": [
            document_of(
                row,
                rank,
                request=request,
                spec=spec,
                assumptions=assumptions,
                now=now,
                on_front=identity(row) in front,
                quotas=quotas if request.quota == NOTE else (),
            )
            for rank, row in enumerate(order[: request.top], start=1)
        ],
        "rejections": [rejection_document(g) for g in grouped(rejections)],
    }


def document_of(
    row: Sized,
    rank: int | None,
    *,
    request: RecommendRequest | EstimateRequest,
    spec: ModelSpec,
    assumptions: Assumptions,
    now: datetime,
    on_front: bool | None,
    quotas: Sequence[Quota] = (),
) -> Document:
    """Return the document of one sized row, with its cost interval, notes and (if asked) explanation."""
    low: Spread
    high: Spread
    if isinstance(row, Run):
        low, high = run_spread(row, training_load(request, spec), assumptions)
    else:
        low, high = serving_spread(row, load_of(request, spec))
    return row_document(
        row,
        rank=rank,
        low=low,
        high=high,
        pue=assumptions.pue,
        now=now,
        pareto=on_front,
        notes=notes_of(
            row,
            assumptions,
            images=spec.kind is ModelKind.VISION,
            quotas=quotas,
        ),
        explanation=explanation_of(row, request=request, spec=spec, assumptions=assumptions)
        if request.explain
        else None,
    )


def serving_rows(
    request: RecommendRequest,
    spec: ModelSpec,
    offers: Sequence[Offer],
    machines: HardwareSet,
    *,
    tiers: Tiers,
    quotas: Sequence[Quota] = (),
) -> tuple[list[Sized], list[Rejection]]:
    """Return the priced ways to serve, and why the other offers cannot. `quotas` are those that must hold."""
    load = load_of(request, spec)
    outcomes = under_load(evaluated_inference(spec, machines.distinct, inference_work(request), tiers), load)
    rows: list[Sized] = []
    failed: list[Rejection] = []
    for offer in offers:
        key = (offer.instance.provider, offer.instance.instance_type)
        outcome: Outcome = machines.unknown[key] if key in machines.unknown else outcomes[machines.place[key]]
        sized = within_quota(serving_or_rejection(offer, outcome, load, budget_usd=request.budget_usd), quotas)
        if isinstance(sized, Rejection):
            failed.append(sized)
        else:
            rows.append(sized)
    return rows, failed


def training_rows(
    request: RecommendRequest,
    spec: ModelSpec,
    offers: Sequence[Offer],
    machines: HardwareSet,
    assumptions: Assumptions,
    *,
    tiers: Tiers,
    quotas: Sequence[Quota] = (),
) -> tuple[list[Sized], list[Rejection]]:
    """Return the cheapest run of every offer that meets deadline and budget, and why the others cannot. `quotas` are those that must hold."""
    counts = instance_counts(request.max_instances)
    outcomes = evaluated_training(
        spec, machines.distinct, training_work(request, assumptions), counts, tiers, explain=request.explain
    )
    load = training_load(request, spec)
    rows: list[Sized] = []
    failed: list[Rejection] = []
    for offer in offers:
        key = (offer.instance.provider, offer.instance.instance_type)
        if key in machines.unknown:
            why = machines.unknown[key]
            failed.append(reject(offer, why.reason, why.detail))
            continue
        sized = run_within_quota(offer, outcomes[machines.place[key]], load, assumptions, quotas)
        if isinstance(sized, Run):
            rows.append(sized)
        else:
            failed.append(sized)
    return rows, failed


def instance_counts(most: int) -> tuple[int, ...]:
    """Return the numbers of instances to try: 1, 2, 4 … and the most that is allowed."""
    counts = []
    n = 1
    while n < most:
        counts.append(n)
        n *= 2
    return (*counts, most)


def assumptions_of(overrides: Sequence[str]) -> Assumptions:
    """Return the assumptions with the request's changes; an impossible one is a `BadRequest`."""
    try:
        return Assumptions.with_overrides(overrides)
    except AssumptionError as e:
        raise BadRequest(field="assume", value=e.text, why=e.why) from e


def check_applies(request: RecommendRequest, spec: ModelSpec) -> None:
    """Raise `BadRequest` for what the answer would pass over: an option that the mode, the model or the purchase options have no use for."""
    if not request.purchase:
        raise BadRequest(
            field="purchase", value="", why="names no purchase option", expected="for example on_demand, spot"
        )
    check_use(request, spec)
    if request.mode == "training":
        check_dataset(request.dataset_tokens, spec)
        check_sequence(request.sequence_length, spec)
    else:
        check_context(request, spec)


def check_context(request: RecommendRequest | EstimateRequest, spec: ModelSpec) -> None:
    """Raise `BadRequest` when a request is longer than what the model can attend to."""
    length = request.input_tokens + request.output_tokens
    if spec.kind is ModelKind.DECODER and spec.max_context is not None and length > spec.max_context:
        raise BadRequest(
            field="input_tokens",
            value=request.input_tokens,
            why=f"and {request.output_tokens} output tokens together are longer than the context of {spec.name}, {spec.max_context} tokens",
        )


def check_sequence(length: int, spec: ModelSpec) -> None:
    """Raise `BadRequest` when a training sequence is longer than what the model can attend to. Encoders cut theirs, and say so."""
    if spec.kind is ModelKind.DECODER and spec.max_context is not None and length > spec.max_context:
        raise BadRequest(
            field="sequence_length",
            value=length,
            why=f"is longer than the context of {spec.name}, {spec.max_context} tokens",
        )


def check_dataset(dataset_tokens: float | None, spec: ModelSpec) -> None:
    """Raise `BadRequest` when tokens are given for a model that trains on images, clips or the like."""
    if dataset_tokens is not None and not (spec.generates_tokens or spec.kind is ModelKind.ENCODER):
        raise BadRequest(
            field="dataset_tokens",
            value=dataset_tokens,
            why=f"does not apply: {spec.name} trains on samples",
            expected="give dataset_size",
        )


def inference_work(request: RecommendRequest | EstimateRequest) -> InferenceWork:
    """Return what `perf` is asked to serve."""
    limits = LatencyLimits()
    allowed: tuple[str, ...] = ()
    if isinstance(request, RecommendRequest):
        limits = LatencyLimits(
            ttft_ms=request.max_ttft_ms,
            tpot_ms=request.max_tpot_ms,
            e2e_ms=request.max_e2e_ms,
            percentile=request.percentile,
        )
        allowed = request.allow_precision
    return InferenceWork(
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        precision=request.precision,
        allowed_precisions=allowed,
        kv_precision=request.kv_precision,
        engine=request.engine,
        limits=limits,
        tensor_parallel=request.tensor_parallel,
        pipeline_parallel=request.pipeline_parallel,
        expert_parallel=request.expert_parallel,
        max_instances=request.max_instances if isinstance(request, RecommendRequest) else request.instances,
        speculative_tokens=request.speculative_tokens,
        acceptance_rate=request.acceptance_rate,
        max_concurrency=request.max_concurrency,
        objective="latency" if getattr(request, "sort", None) == "latency" else "throughput",
        open_loop=request.requests_per_s is not None or bool(getattr(request, "traffic", ())),
        max_batch=request.max_batch,
        max_queue_delay_ms=request.max_queue_delay_ms or 0.0,
    )


def training_work(request: RecommendRequest | EstimateRequest, assumptions: Assumptions) -> TrainingWork:
    """Return what `perf` is asked to train."""
    return TrainingWork(
        method=request.method,
        precision=request.precision,
        sequence_length=request.sequence_length,
        global_batch=request.global_batch,
        optimizer=request.optimizer,
        lora_rank=request.lora_rank,
        max_instances=request.max_instances if isinstance(request, RecommendRequest) else request.instances,
        tensor_parallel=request.tensor_parallel,
        pipeline_parallel=request.pipeline_parallel,
        expert_parallel=request.expert_parallel,
        micro_batch=request.micro_batch,
        checkpointing=request.checkpointing,
        sharding=request.sharding,
        attention_backend=request.attention_backend,
        activation_offload=request.activation_offload,
        activation_dtype=request.activation_dtype,
        chunked_loss=request.chunked_loss,
        allreduce=request.allreduce,
        data_format=request.data_format,
        storage=request.storage,
        decode_factor=assumptions.input_decode_factor,
        read_factor=assumptions.storage_read_factor,
    )


def load_of(request: RecommendRequest | EstimateRequest, spec: ModelSpec) -> Load:
    """Return the load to serve; tokens only for models that are priced by them."""
    tokens = spec.generates_tokens
    traffic = request.traffic if isinstance(request, RecommendRequest) else ()
    return Load(
        requests_per_s=max(traffic) if traffic else request.requests_per_s,
        mean_requests_per_s=math.fsum(traffic) / len(traffic) if traffic else None,
        utilisation=request.utilisation,
        input_tokens=request.input_tokens if tokens else None,
        output_tokens=request.output_tokens if tokens else None,
    )


def training_load(request: RecommendRequest | EstimateRequest, spec: ModelSpec) -> TrainingLoad:
    """Return the work of the run, its checkpoint size, and its limits."""
    limits = (request.deadline_hours, request.budget_usd) if isinstance(request, RecommendRequest) else (None, None)
    return TrainingLoad(
        tokens_per_epoch=request.dataset_tokens,
        samples_per_epoch=request.dataset_size,
        epochs=request.epochs,
        checkpoint_gb=checkpoint_bytes(
            spec, method=request.method, optimizer=request.optimizer, lora_rank=request.lora_rank
        )
        / 1e9,
        checkpoint_storage=request.checkpoint_storage,
        async_checkpoints=request.async_checkpoints,
        deadline_hours=limits[0],
        budget_usd=limits[1],
    )
