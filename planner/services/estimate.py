"""`estimate`: memory, throughput and latency of one layout on one kind of machine, and its cost where it is priced.

The document is one element of `recommendations` without its rank, beside the fields that name request, model and prices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import planner
from planner.models.spec import ModelSpec
from planner.perf.hardware import UnknownChipFigure, hardware_of
from planner.perf.model import Evaluation, Hardware, Infeasible, Outcome
from planner.ports import Document
from planner.recommend.arrivals import under_load
from planner.recommend.errors import BadRequest
from planner.recommend.model import Offer, Rejection, Sized
from planner.recommend.offers import Terms, offer_or_rejection
from planner.recommend.rejections import grouped
from planner.recommend.request import EstimateRequest
from planner.recommend.scaling import USUAL_DEVICES, scaling_counts
from planner.recommend.sizing import reject, run_or_rejection, serve, unit_rate
from planner.recommend.today import Today
from planner.services.applies import check_use, with_sample_size
from planner.services.documents import (
    ROW_FIELDS,
    clock_notes,
    defaults_of,
    energy_fields,
    finished,
    hourly_only,
    offer_fields,
    performance_document,
    prices_document,
    rejection_document,
    unpriced_row,
)
from planner.services.documents import model_document as described
from planner.services.evidence import SHIPPED_ONLY, Evidence, Tiers, evaluated_inference, evaluated_training
from planner.services.explain import unpriced_explanation
from planner.services.facts import at_risk, prices_today
from planner.services.identity import answer_id, evidence_id
from planner.services.notes import commitment_notes, queueing_notes
from planner.services.recommend import (
    assumptions_of,
    check_context,
    check_dataset,
    check_sequence,
    document_of,
    inference_work,
    load_of,
    training_load,
    training_work,
)
from planner.services.scaling import scaling_field
from planner.services.scope import resolved
from planner.tco.assumptions import Assumptions
from pricing.catalog import Catalog
from pricing.model import Accelerator, AcceleratorKind, InstanceType, InterconnectKind, PurchaseOption, Quote

OMITTED = ("rank", "pareto")
HOME = "aws"  # of several machines with the same accelerators, this cloud's first


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is estimated: an instance type of the catalog, or accelerators alone (no name, no price)."""

    instance: InstanceType
    hardware: Hardware
    named: bool


def estimate(
    request: EstimateRequest, *, catalog: Catalog, spec: ModelSpec, now: datetime, evidence: Evidence = SHIPPED_ONLY
) -> Document:
    """Return the estimate; a layout that cannot work has null figures and one rejection that says why."""
    assumptions = assumptions_of(request.assume)
    region = resolved("region", request.region, catalog.region)
    spec = with_sample_size(request, spec)
    check_use(request, spec)
    check_dataset(request.dataset_tokens, spec)
    if request.mode == "inference":
        check_context(request, spec)
    else:
        check_sequence(request.sequence_length, spec)
    machine = machine_of(request, region, catalog, now)
    today = today_of(request, machine, region, catalog, now) if machine.named else Today(quotes=())
    offer = offer_of(request, machine, today, catalog, assumptions, region=region) if machine.named else None
    tiers = Tiers(evidence=evidence, asked=request.evidence)
    outcome = outcome_of(request, spec, machine.hardware, assumptions, tiers)
    if request.mode == "inference" and isinstance(outcome, Evaluation):
        outcome = under_load([outcome], load_of(request, spec), copies=copies_of(request, outcome))[0]
    row: Document = dict.fromkeys(ROW_FIELDS)
    rejections: list[Rejection] = []
    sized: Outcome | Sized | Rejection = outcome
    if (
        isinstance(offer, Offer)
        and isinstance(outcome, Evaluation)
        and (request.mode == "inference" or has_dataset(request))
    ):
        sized = sized_offer(request, spec, offer, outcome, assumptions)
    if isinstance(sized, (Infeasible, Rejection)):
        row |= identity_fields(machine) | {"notes": []}
        if isinstance(offer, Offer):
            row |= offer_fields(offer, now)
            rejections.append(sized if isinstance(sized, Rejection) else reject(offer, sized.reason, sized.detail))
        elif isinstance(sized, Infeasible):
            rejections.append(infeasible(machine, sized))
    elif isinstance(sized, Evaluation):
        row = unpriced(
            request, spec=spec, machine=machine, evaluation=sized, offer=offer, assumptions=assumptions, now=now
        )
    else:
        row = document_of(sized, None, request=request, spec=spec, assumptions=assumptions, now=now, on_front=None)
    if not request.explain:
        row.pop("explanation", None)
    echoed = request.to_document()
    quotes: Sequence[Quote] = [offer.quote] if isinstance(offer, Offer) else []
    return {
        "id": answer_id(
            "estimate", echoed, snapshot_id=catalog.meta.snapshot_id, spec=spec, turned=today.turned, beside=evidence.id
        ),
        "request": echoed,
        "model": described(spec, request.model, tokens=(request.input_tokens, request.output_tokens)),
        "assumptions": [*defaults_of(request, spec), *assumptions.listed(request.mode)],
        "planner_version": planner.__version__,
        "evidence_id": evidence_id(evidence.id),
        "prices": prices_document(catalog.meta, quotes, now),
        **{name: value for name, value in row.items() if name not in OMITTED},
        **scaling_field(
            request,
            spec,
            machine.hardware,
            training_work(request, assumptions),
            tiers=tiers,
            notes=row["notes"],
        ),
        "rejections": [rejection_document(g) for g in grouped(rejections)],
    }


def has_dataset(request: EstimateRequest) -> bool:
    """Return whether the amount of training work is known."""
    return request.dataset_tokens is not None or request.dataset_size is not None


def machine_of(request: EstimateRequest, region: str, catalog: Catalog, now: datetime) -> Machine:
    """Return the machine that is named, or one with the named accelerators: the cheapest priced in the region, else one of AWS, else bare ones."""
    if request.instance is not None:
        provider = None if request.provider is None else resolved("provider", request.provider, catalog.provider)
        instance = resolved("instance", request.instance, lambda name: catalog.instance_type(name, provider))
        return machine(request, instance, catalog, named=True)
    name = request.accelerator or ""
    chip = resolved("accelerator", name, catalog.accelerator)
    count = request.count or devices_of(request)
    having = [
        t
        for t in catalog.instance_types()
        if t.accelerator == chip.name
        and t.device_count == count
        and t.device_fraction == 1
        and t.accelerator_kind is not AcceleratorKind.CPU
    ]
    if not having:
        return machine(request, bare_machine(chip, count), catalog, named=False)
    quotes = catalog.quotes(
        regions=[region], purchase_options=[request.purchase], instance_types=[t.instance_type for t in having]
    )
    prices = {
        (q.provider, q.instance_type): q.effective_unit_price
        for q in reversed(prices_today(request, quotes, catalog, now).quotes)
        if q.currency == "USD"
    }
    known = [t for t in having if (t.provider, t.instance_type) in prices] or [t for t in having if t.provider == HOME]
    if not known:
        return machine(request, bare_machine(chip, count), catalog, named=False)

    def preference(t: InstanceType) -> tuple[bool, Decimal, str, str]:
        return (t.provider != HOME, prices.get((t.provider, t.instance_type), Decimal(0)), t.instance_type, t.provider)

    return machine(request, min(known, key=preference), catalog, named=True)


def devices_of(request: EstimateRequest) -> int:
    """Return the accelerators of a machine when nobody says: one, or the eight of common hosts where many are compared."""
    return 1 if request.scaling is None else min(USUAL_DEVICES, max(scaling_counts(request.scaling)))


def machine(request: EstimateRequest, instance: InstanceType, catalog: Catalog, *, named: bool) -> Machine:
    """Return the machine with its hardware, or raise `BadRequest` when what does the work is not known."""
    field, value = (
        ("instance", request.instance) if request.instance is not None else ("accelerator", request.accelerator)
    )
    chip = None if instance.accelerator is None else catalog.accelerators.get(instance.accelerator)
    if chip is None:
        raise BadRequest(
            field=field, value=value, why="has no chip in the accelerator table, so nothing can be estimated"
        )
    try:
        return Machine(instance=instance, hardware=hardware_of(instance, chip), named=named)
    except UnknownChipFigure as e:
        raise BadRequest(field=field, value=value, why=str(e), expected="name an instance type instead") from e


def bare_machine(chip: Accelerator, count: int) -> InstanceType:
    """Return accelerators in a machine of no cloud: linked as their form factor is, without a name or a price."""
    fast = (chip.interconnect or "").lower().startswith("nvlink") and (chip.form_factor or "").upper().startswith("SXM")
    kind = InterconnectKind.NONE if count == 1 else InterconnectKind.NVSWITCH if fast else InterconnectKind.PCIE
    link = chip.interconnect_gb_s_bidirectional if fast else chip.host_interface_gb_s_bidirectional
    return InstanceType(
        provider="",
        instance_type="",
        family="",
        vcpus=None,
        memory_gib=None,
        cpu_arch=None,
        accelerator=chip.name,
        accelerator_kind=chip.kind,
        device_count=count,
        device_memory_gib=chip.memory_gib,
        interconnect_kind=kind,
        interconnect_gb_s_bidirectional=link,
    )


def quotes_of(instance: InstanceType, catalog: Catalog) -> list[Quote]:
    """Return every quote of an instance type, in every region."""
    return [q for q in catalog.quotes(instance_types=[instance.instance_type]) if q.provider == instance.provider]


def today_of(request: EstimateRequest, machine: Machine, region: str, catalog: Catalog, now: datetime) -> Today:
    """Return the quotes of the machine in a region as they stand: those of the asked option, and on-demand, by which spot is judged."""
    options = {PurchaseOption(request.purchase), PurchaseOption.ON_DEMAND}
    here = [q for q in quotes_of(machine.instance, catalog) if q.region == region and q.purchase_option in options]
    return prices_today(request, here, catalog, now)


def offer_of(
    request: EstimateRequest, machine: Machine, today: Today, catalog: Catalog, assumptions: Assumptions, *, region: str
) -> Offer | Rejection:
    """Return the offer for the asked region and purchase option, or why there is none."""
    instance = machine.instance
    quotes = quotes_of(instance, catalog)
    found = offer_or_rejection(
        instance,
        region,
        PurchaseOption(request.purchase),
        today.quotes,
        quoted=frozenset(q.purchase_option for q in quotes if q.region == region),
        terms=Terms(
            plan_type=request.plan_type, payment_option=request.payment_option, offering_class=request.offering_class
        ),
        elsewhere=frozenset(q.purchase_option for q in quotes if q.region != region),
        today=today,
        discounts=catalog.discounts,
    )
    if isinstance(found, Offer) and found.quote.purchase_option is PurchaseOption.SPOT:
        return at_risk(found, catalog, assumptions)
    return found


def outcome_of(
    request: EstimateRequest, spec: ModelSpec, hardware: Hardware, assumptions: Assumptions, tiers: Tiers
) -> Outcome:
    """Return what `perf` and the nearest evidence say of the model on this hardware."""
    if request.mode == "training":
        work = training_work(request, assumptions)
        return evaluated_training(spec, [hardware], work, [request.instances], tiers, explain=request.explain)[0][0]
    return evaluated_inference(spec, [hardware], inference_work(request), tiers)[0]


def copies_of(request: EstimateRequest, evaluation: Evaluation) -> int:
    """Return how many copies of the layout the asked instances hold."""
    return 1 if request.mode == "training" else max(1, request.instances // evaluation.instances)


def sized_offer(
    request: EstimateRequest, spec: ModelSpec, offer: Offer, evaluation: Evaluation, assumptions: Assumptions
) -> Sized | Rejection:
    """Return the layout with its bill, or why the run would never end."""
    if request.mode == "training":
        return run_or_rejection(offer, [evaluation], training_load(request, spec), assumptions)
    return serve(offer, evaluation, load_of(request, spec), groups=copies_of(request, evaluation))


def unpriced(
    request: EstimateRequest,
    *,
    spec: ModelSpec,
    machine: Machine,
    evaluation: Evaluation,
    offer: Offer | Rejection | None,
    assumptions: Assumptions,
    now: datetime,
) -> Document:
    """Return the row without unit costs: no price, or an unknown amount of training."""
    copies = copies_of(request, evaluation)
    served = None
    if request.mode == "inference":
        served = unit_rate(evaluation.performance.rates) * copies
        served = served * request.utilisation if request.requests_per_s is None else min(request.requests_per_s, served)
    row = unpriced_row(evaluation) | identity_fields(machine)
    row["instance_count"] = evaluation.instances * copies
    row["performance"] = performance_document(evaluation, copies, served_per_s=served)
    row["energy"] = energy_fields(evaluation.performance.power_w, copies, served, assumptions.pue)
    if isinstance(offer, Offer):
        row |= offer_fields(offer, now)
        row["cost"] = hourly_only(offer, evaluation.instances * copies)
        row["notes"] = [
            *offer.notes,
            *commitment_notes(offer, evaluation.instances * copies),
            *row["notes"],
            *clock_notes(offer.quote, now),
            "the data set is not given, so neither time nor cost of the run is known",
        ]
    else:
        why = "accelerators of no cloud" if offer is None else offer.detail
        row["notes"] = [*row["notes"], f"not priced: {why}"]
    row["notes"] += queueing_notes(evaluation.performance, peak_per_s=request.requests_per_s, mean_per_s=None)
    return finished(
        row,
        unpriced_explanation(evaluation, spec=spec, accelerator=machine.hardware.accelerator)
        if request.explain
        else None,
    )


def identity_fields(machine: Machine) -> Document:
    """Return what is known of the machine without a price."""
    instance = machine.instance
    chips = instance.accelerators_per_instance
    return {
        "provider": instance.provider or None,
        "instance_type": instance.instance_type or None,
        "accelerator": machine.hardware.accelerator,
        "accelerators_per_instance": None if chips is None else int(chips) if float(chips).is_integer() else chips,
    }


def infeasible(machine: Machine, outcome: Infeasible) -> Rejection:
    """Return the rejection of a machine that has no price."""
    instance = machine.instance
    return Rejection(
        provider=instance.provider,
        instance_type=instance.instance_type or f"{instance.device_count} x {machine.hardware.accelerator}",
        reason=outcome.reason,
        region=None,
        purchase_option=None,
        detail=outcome.detail,
    )
