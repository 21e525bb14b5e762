"""Notes of a row: what its reader must know of the price, of interruptions and of commitments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.perf.model import Performance
from planner.recommend.model import Offer, Run, Serving, Sized
from planner.recommend.offers import COMMITMENTS
from planner.recommend.quotas import quota_note
from planner.recommend.sizing import block_fee, block_hours, counted
from planner.tco.assumptions import Assumptions
from planner.tco.commitments import term_hours
from planner.tco.spot import expected_hours
from planner.tco.training import MINUTES_PER_HOUR
from pricing.market import CapacityBlock, Quota
from pricing.model import AcceleratorKind, PurchaseOption
from pricing.money import CENT, from_measured

ARM = "arm64"
MOST_IN_A_BLOCK = 64
"""Instances of one Capacity Block at most. Source: EC2 user guide, Capacity Blocks for ML."""
COMPILE_SHARE = 3.0
"""Host memory per weights that Neuron's compiler is taken to need at least: 2.1 failed (see `starting_notes`), 8 is known to do."""
FEW_WAIT = 0.01
"""Share of requests that wait for a slot below which a row says nothing of it."""
LONGEST_TOLD_HOURS = 1e6  # an expectation beyond a century is told as such


def notes_of(row: Sized, assumptions: Assumptions, *, images: bool = False, quotas: Sequence[Quota] = ()) -> list[str]:
    """Return what a reader of the row must know: where the price is weak, what may be interrupted, what the layout implies.

    `images`: a sample is a picture to be looked at. `quotas` are those whose excess is to be told.
    """
    hours = row.hours.total if isinstance(row, Run) else None
    notes = [*row.offer.notes, *commitment_notes(row.offer, row.instance_count, hours=hours), *starting_notes(row)]
    if (beyond := quota_note(row.offer, row.instance_count, quotas)) is not None:
        notes.append(beyond)
    if isinstance(row, Serving):
        notes.extend(queueing_notes(row.evaluation.performance, peak_per_s=row.peak_per_s, mean_per_s=row.served_per_s))
        notes.extend(feeding_notes(row) if images else ())
    risk = row.offer.interruption
    if risk is not None:
        unknown = risk.assumed and isinstance(row, Serving)
        notes.append(
            "may be interrupted: no source says how often here" if unknown else f"may be interrupted: {risk.source}"
        )
        if isinstance(row, Run):
            notes.append(without_checkpoints(row, assumptions))
    notes.extend(n for n in row.evaluation.notes if n not in notes)
    return notes


def commitment_notes(offer: Offer, instances: int, *, hours: float | None = None) -> Iterator[str]:
    """Yield what must be paid beyond the bill of the row: the rest of a term, or of a block. `hours` are those of a run."""
    quote = offer.quote
    if offer.block is not None:
        yield from block_notes(offer.block, instances, hours=hours)
    elif quote.purchase_option is PurchaseOption.CAPACITY_BLOCK:
        yield (
            "a Capacity Block is paid up front for whole days, used or not; only the hours of use are in this bill; "
            "the price is a published rate, no offer: where and when a block begins is not known"
        )
    elif quote.purchase_option in COMMITMENTS and quote.term_years is not None:
        due = offer.price.for_hours(term_hours(quote.term_years)) * instances
        years = "1 year" if quote.term_years == 1 else f"{quote.term_years} years"
        yield f"committed for {years}: {due.rounded(CENT)} USD is due whether used or not; only the hours of use are in this bill"


def block_notes(block: CapacityBlock, instances: int, *, hours: float | None) -> Iterator[str]:
    """Yield where and when an offered block is and what all of it costs; and where the row needs more instances or hours than it has."""
    zone = " ".join(part for part in (block.availability_zone_id, block.availability_zone) if part) or block.region
    yield (
        f"Capacity Block in {zone}, {block.starts_at:%Y-%m-%d %H:%M} to {block.ends_at:%Y-%m-%d %H:%M} UTC, offered for "
        f"{counted(block.instance_count)}: {block_fee(block)} for {block_hours(block)}, due at once, used or not; only the hours of use are in this bill"
    )
    if instances > block.instance_count:
        most = f", more than the {MOST_IN_A_BLOCK} of one block" if instances > MOST_IN_A_BLOCK else ""
        yield (
            f"needs {counted(instances)}{most}; the block was offered for {block.instance_count}: "
            "whether more can be had, when and for what fee, AWS says when asked for as many"
        )
    if hours is not None and hours * 60 > block.minutes:
        yield f"takes {hours:,.1f} h, the block lasts {block_hours(block)}: a longer block, or several, may have another price"


def starting_notes(row: Sized) -> Iterator[str]:
    """Yield what may keep the software from starting: an Arm host beside a GPU, and a host too small to compile for Neuron.

    Neuron: Llama-3.1-8B (15 GiB) is killed while compiling on the 32 GiB of a trn1.2xlarge (aws-neuron/nki-samples issue 87, 2025-08).
    """
    instance, layout = row.offer.instance, row.evaluation.layout
    if instance.accelerator_kind is AcceleratorKind.GPU and instance.cpu_arch == ARM:
        yield "its CPUs are Arm: see first that image and engine have a build for Arm and this GPU, or build them"
    weights = sum(line.gib for line in row.evaluation.memory.lines if line.name == "weights") * (
        layout.tensor_parallel or 1
    )
    host = instance.memory_gib
    if instance.accelerator_kind is AcceleratorKind.NEURON and host is not None and host < COMPILE_SHARE * weights:
        yield (
            f"{host:g} GiB of host memory may be too little to compile and load {weights:.1f} GiB of weights for Neuron: "
            "compile on a larger instance first, or take one"
        )


def queueing_notes(performance: Performance, *, peak_per_s: float | None, mean_per_s: float | None) -> Iterator[str]:
    """Yield what a load that comes at random does: a queue without end, waits for a slot that are not rare, latencies of a peak."""
    load = performance.under_load
    if load is None or peak_per_s is None:
        return
    if load.utilisation >= 1:
        yield (
            f"{peak_per_s:g} requests/s that come at random are more than the {peak_per_s / load.utilisation:.4g}/s that can be served: the queue "
            "would grow without bound, so there are no latencies; a utilisation below 1, latency limits or more instances make room"
        )
        return
    if load.waiting > FEW_WAIT and performance.ttft_ms is not None:
        yield (
            f"runs at {load.utilisation:.0%} of capacity: if requests come at random, {load.waiting:.0%} of them wait for a slot, which is in the "
            "latencies; a utilisation below 1 or latency limits make room"
        )
    if mean_per_s is not None and mean_per_s < peak_per_s:
        yield f"latencies are those at the peak of {peak_per_s:g} requests/s"


def feeding_notes(row: Serving) -> Iterator[str]:
    """Yield that the accelerators take more pictures than the CPUs beside them decode: the rate holds for inputs that arrive ready."""
    from planner.perf.training_input import images_per_s_per_vcpu  # noqa: PLC0415 - its table is read only where a sample is a picture

    vcpus = row.offer.instance.vcpus
    if not vcpus:
        return
    each = images_per_s_per_vcpu()
    fed = each * vcpus * row.instance_count
    if row.served_per_s > fed:
        yield (
            f"the rate is of the accelerators alone, inputs ready: {vcpus * row.instance_count:,} vCPUs decode about {fed:,.0f} images/s "
            f"(assumed {each:g} each), which makes {row.cost.usd_per_hour.amount * 1_000_000 / from_measured(fed * 3600):.3g} USD per million"
        )


def without_checkpoints(row: Run, assumptions: Assumptions) -> str:
    """Return what the run would take on spot if it never saved its state."""
    work = row.hours.compute + row.hours.evaluation
    restart = assumptions.restart_minutes / MINUTES_PER_HOUR
    bare = row.hours.startup + expected_hours(
        work, interval_hours=None, restart_hours=restart, rate_per_hour=row.interruptions_per_hour
    )
    told = f"{bare:,.1f} h" if bare < LONGEST_TOLD_HOURS else "more than a million hours"
    return (
        f"expected {row.hours.total:,.1f} h with checkpoints; without any the same run would be expected to take {told}"
    )
