"""What must hold between the rows of a snapshot, as one function a rule: the shipped tables and every refresh get the same checks.

A rule yields findings and never raises; an empty result means that the rule holds. Rules look only at what is there: a missing
figure is no finding (it is unknown, not wrong).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise

from pricing.amounts import HOURLY_PRICE, shown
from pricing.contents import SnapshotContents
from pricing.discounts import as_listed
from pricing.history import list_price, period_key
from pricing.market import PricePeriod
from pricing.model import (
    ACCELERATOR_PART_HOUR,
    INSTANCE_HOUR,
    Accelerator,
    AcceleratorKind,
    InstanceType,
    InterconnectKind,
    PurchaseOption,
    Quote,
)
from pricing.reading import CONFIDENCES

ROUNDING = Decimal("0.001")  # sources round prices to 4 or 5 decimals: differences below this share are no finding
MEMORY_TOLERANCE = 0.002  # likewise for GiB worked out from whole MiB
FIRST_DAY = date(2020, 1, 1)  # nothing in a snapshot can have been retrieved before
VOLUME_PRICE = "volume price"  # how a note says that a larger size really is cheaper for each device
ORDERED_PEAKS = (  # the first is never above the second on one chip
    ("fp64", "fp32"),
    ("fp32", "tf32"),
    ("fp32", "fp16"),
    ("tf32", "fp16"),
    ("tf32", "bf16"),
    ("bf16", "fp8"),
    ("fp8", "fp4"),
    ("fp16", "int8"),
    ("bf16", "int8"),
)
SLOW_INT8 = frozenset({"Volta", "Blackwell Ultra"})  # int8 outside the tensor cores; int8 units removed
FIRST_CAPABILITY = {"bf16": 8.0, "fp8": 8.9, "fp4": 10.0}  # NVIDIA compute capability that brought the format
FIRST_CDNA = {"bf16": 1, "fp8": 3, "fp4": 4}  # likewise AMD CDNA generations


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that cannot be right: which rule, about what, and why."""

    rule: str
    subject: str
    why: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}: {self.why}"


Rule = Callable[[SnapshotContents, date], Iterator[Finding]]


def check_snapshot(contents: SnapshotContents, *, today: date) -> list[Finding]:
    """Return everything that any rule finds wrong, in the order of the rules; empty when all hold."""
    return [finding for rule in RULES for finding in rule(contents, today)]


def quote_key(quote: Quote) -> tuple[Hashable, ...]:
    """Return what tells two quotes of one snapshot apart."""
    return (
        quote.provider,
        quote.instance_type,
        quote.region,
        quote.availability_zone_id,
        quote.availability_zone,
        quote.purchase_option,
        quote.plan_type,
        quote.offering_class,
        quote.term_years,
        quote.payment_option,
    )


def keys_unique(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield every key that two rows share; names of chips and aliases are compared without regard to case."""
    del today
    groups: tuple[tuple[str, Iterable[Hashable]], ...] = (
        ("accelerator", (a.name.casefold() for a in contents.accelerators)),
        ("alias", (alias.casefold() for alias in contents.aliases)),
        ("instance type", ((i.provider, i.instance_type) for i in contents.instance_types)),
        ("quote", (quote_key(q) for q in contents.quotes)),
        ("rate", ((r.provider, r.service, r.item, r.region, r.tier_from) for r in contents.rates)),
        ("interruption", ((i.provider, i.instance_type, i.region) for i in contents.interruptions)),
    )
    for kind, keys in groups:
        for key, times in Counter(keys).items():
            if times > 1:
                yield Finding("keys_unique", f"{kind} {key}", f"given {times} times")


def names_known(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield instance types whose chip, and quotes and bands whose instance type, no table knows."""
    del today
    chips = {a.name: a for a in contents.accelerators}
    types = {(i.provider, i.instance_type) for i in contents.instance_types}
    for instance in contents.instance_types:
        chip = chips.get(instance.accelerator or "")
        if chip is None:
            yield Finding("names_known", _name(instance), f"accelerator {instance.accelerator!r} is in no table")
        elif chip.kind is not instance.accelerator_kind:
            why = f"says {instance.accelerator_kind}, its chip {chip.name} is of kind {chip.kind}"
            yield Finding("names_known", _name(instance), why)
    named = {(q.provider, q.instance_type) for q in contents.quotes}
    named |= {(i.provider, i.instance_type) for i in contents.interruptions}
    for provider, name in sorted(named - types):
        yield Finding("names_known", f"{provider} {name}", "has prices or bands but is no known instance type")


def aliases_resolve(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield aliases of unknown chips and aliases that hide the name of another chip."""
    del today
    names = {a.name.casefold(): a.name for a in contents.accelerators}
    for alias, name in contents.aliases.items():
        if name not in names.values():
            yield Finding("aliases_resolve", alias, f"stands for {name!r}, which is in no table")
        elif names.get(alias.casefold(), name) != name:
            yield Finding("aliases_resolve", alias, f"stands for {name!r} but is itself the name of a chip")


def prices_positive(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield prices that are not above zero, or above what any hour costs, and rates below zero or at zero without a note that says why."""
    del today
    for quote in contents.quotes:
        if not 0 < quote.effective_unit_price <= HOURLY_PRICE.most:
            yield Finding("prices_positive", _where(quote), f"price is {shown(quote.effective_unit_price)}")
    for rate in contents.rates:
        if rate.unit_price > HOURLY_PRICE.most:
            yield Finding(
                "prices_positive", f"{rate.service} {rate.item} {rate.region}", f"price is {shown(rate.unit_price)}"
            )
        if rate.unit_price < 0 or (rate.unit_price == 0 and not rate.notes):
            subject = f"{rate.service} {rate.item} {rate.region}"
            yield Finding("prices_positive", subject, f"price is {rate.unit_price} and no note says why")


def currency_and_unit(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield quotes that are not in USD per hour and rates that are not in USD."""
    del today
    for quote in contents.quotes:
        if quote.currency != "USD" or quote.unit not in {INSTANCE_HOUR, ACCELERATOR_PART_HOUR}:
            yield Finding("currency_and_unit", _where(quote), f"is in {quote.currency} per {quote.unit}")
    for rate in contents.rates:
        if rate.currency != "USD":
            yield Finding("currency_and_unit", f"{rate.service} {rate.item} {rate.region}", f"is in {rate.currency}")


def discounts_below_on_demand(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield spot and committed prices above on-demand of the same type and region, unless spot stands at its cap.

    List prices are compared: what an agreement takes off on-demand alone makes no list wrong.
    """
    del today
    on_demand = {key: list_price(quote) for key, quote in _on_demand(contents).items()}
    for quote in contents.quotes:
        most = on_demand.get((quote.provider, quote.instance_type, quote.region))
        if most is None or quote.purchase_option is PurchaseOption.ON_DEMAND:
            continue
        price = list_price(as_listed(quote))
        if price is not None and price > most * (1 + ROUNDING) and not quote.at_on_demand_cap:
            yield Finding("discounts_below_on_demand", _where(quote), f"{price} is above on-demand {most}")


def larger_not_cheaper(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield on-demand prices that fall where size grows, in one family and region, unless a note says that it is a volume price.

    A size that has no less of anything (devices, vCPUs, memory) must not cost less; and one with more devices must not cost
    less for each device than the cheapest smaller size (no cloud here gives a discount for size without saying so).
    """
    del today
    types = {(i.provider, i.instance_type): i for i in contents.instance_types}
    families: dict[tuple[Hashable, ...], list[tuple[InstanceType, Quote]]] = defaultdict(list)
    for quote in _on_demand(contents).values():
        instance = types.get((quote.provider, quote.instance_type))
        if instance is not None:
            group = (quote.provider, instance.family, instance.accelerator, quote.region)
            families[group].append((instance, quote))
    for sizes in families.values():
        for large, dear in sizes:
            if VOLUME_PRICE in dear.notes:
                continue
            for small, cheap in sizes:
                if _no_less(large, small) and dear.effective_unit_price < cheap.effective_unit_price * (1 - ROUNDING):
                    why = f"{dear.effective_unit_price} is less than {small.instance_type} at {cheap.effective_unit_price}"
                    yield Finding("larger_not_cheaper", _where(dear), why)
            yield from _no_volume_discount(large, dear, sizes)


def _no_volume_discount(large: InstanceType, dear: Quote, sizes: list[tuple[InstanceType, Quote]]) -> Iterator[Finding]:
    each = [
        (cheap.effective_unit_price / Decimal(str(chips)), small.instance_type)
        for small, cheap in sizes
        if (chips := small.accelerators_per_instance) and chips < (large.accelerators_per_instance or 0)
    ]
    chips = large.accelerators_per_instance
    if each and chips and dear.effective_unit_price / Decimal(str(chips)) < min(each)[0] * (1 - ROUNDING):
        why = f"{dear.effective_unit_price / Decimal(str(chips)):f} per device is less than {min(each)[0]:f} of {min(each)[1]}"
        yield Finding("larger_not_cheaper", _where(dear), why)


def memory_adds_up(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield devices whose memory is not their share of the chip's, and chips of which a process would see more than there is."""
    del today
    chips = {a.name: a for a in contents.accelerators}
    for chip in contents.accelerators:
        if (
            chip.memory_gib is not None
            and chip.memory_visible_gib is not None
            and chip.memory_visible_gib > chip.memory_gib
        ):
            why = f"a process sees {chip.memory_visible_gib} GiB of {chip.memory_gib}"
            yield Finding("memory_adds_up", chip.name, why)
    for instance in contents.instance_types:
        known = chips.get(instance.accelerator or "")
        if known is None or known.memory_gib is None or instance.device_memory_gib is None:
            continue
        share = known.memory_gib * instance.device_fraction
        if abs(instance.device_memory_gib - share) > share * MEMORY_TOLERANCE:
            why = (
                f"{instance.device_memory_gib} GiB a device, but {instance.device_fraction} of {known.name} is {share}"
            )
            yield Finding("memory_adds_up", _name(instance), why)


def devices_and_links(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield shapes that cannot be: no device, a share above one, a lone device with a link, several with none."""
    del today
    for instance in contents.instance_types:
        if instance.device_count < 1 or instance.device_fraction <= 0:
            why = f"{instance.device_count} devices of {instance.device_fraction} of a chip"
            yield Finding("devices_and_links", _name(instance), why)
        if instance.accelerator_kind is not AcceleratorKind.CPU and instance.device_fraction > 1:
            yield Finding("devices_and_links", _name(instance), f"a device of {instance.device_fraction} chips")
        linked = instance.interconnect_kind is not InterconnectKind.NONE
        if linked is not (instance.device_count > 1):
            why = f"{instance.device_count} devices and interconnect {instance.interconnect_kind}"
            yield Finding("devices_and_links", _name(instance), why)


def capacity_blocks_only(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield types that are sold as capacity blocks only and yet have an on-demand price."""
    del today
    only = {(i.provider, i.instance_type) for i in contents.instance_types if i.capacity_block_only}
    for quote in _on_demand(contents).values():
        if (quote.provider, quote.instance_type) in only:
            yield Finding("capacity_blocks_only", _where(quote), "is sold as a capacity block only")


def peaks_ordered(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield chips whose wider format is faster than the narrower, which mixes dense with sparse or tensor with vector rates."""
    del today
    for chip in contents.accelerators:
        for slow, fast in ORDERED_PEAKS:
            if fast == "int8" and chip.architecture in SLOW_INT8:
                continue
            if slow in chip.peak_tflops and chip.peak_tflops[slow] > chip.peak_tflops.get(fast, float("inf")) * 1.005:
                why = f"{slow} {chip.peak_tflops[slow]} is above {fast} {chip.peak_tflops[fast]}"
                yield Finding("peaks_ordered", chip.name, why)


def precisions_fit_generation(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield peaks in a format that the chip's generation does not have, and generations that lack theirs.

    NVIDIA: bf16 from compute capability 8.0, fp8 from 8.9, fp4 from 10.0. AMD: bf16 from CDNA, fp8 from CDNA3, fp4 from CDNA4.
    """
    del today
    for chip in contents.accelerators:
        for dtype, has in _formats_of(chip):
            if has is not (dtype in chip.peak_tflops):
                why = f"{'lacks' if has else 'has'} a {dtype} peak, against its generation ({chip.architecture})"
                yield Finding("precisions_fit_generation", chip.name, why)


def _formats_of(chip: Accelerator) -> Iterator[tuple[str, bool]]:
    if chip.compute_capability is not None:
        yield from ((dtype, chip.compute_capability >= first) for dtype, first in FIRST_CAPABILITY.items())
    elif chip.architecture.startswith("CDNA"):
        generation = int(chip.architecture.removeprefix("CDNA") or 1)
        yield from ((dtype, generation >= first) for dtype, first in FIRST_CDNA.items())
    elif chip.vendor in ("AMD", "NVIDIA") and chip.kind is AcceleratorKind.GPU:
        yield from ((dtype, False) for dtype in ("fp8", "fp4"))


def confidence_known(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield rows whose confidence is not high, medium or low."""
    del today
    rows = (
        *((a.name, a.confidence) for a in contents.accelerators),
        *((_name(i), i.confidence) for i in contents.instance_types),
        *((_where(q), q.confidence) for q in contents.quotes),
        *((f"{r.service} {r.item} {r.region}", r.confidence) for r in contents.rates),
    )
    for subject, confidence in rows:
        if confidence not in CONFIDENCES:
            yield Finding("confidence_known", subject, f"{confidence!r} is not one of {', '.join(CONFIDENCES)}")


def sourced_and_dated(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield rows without source, without a day, with a day after `today`, or from before any source was read."""
    rows: list[tuple[str, str, date | None]] = [(a.name, a.source, a.retrieved_on) for a in contents.accelerators]
    rows += [(_name(i), i.source, i.retrieved_on) for i in contents.instance_types]
    rows += [(_where(q), q.source, q.retrieved_at.date() if q.retrieved_at.tzinfo else None) for q in contents.quotes]
    rows += [(f"{r.service} {r.item} {r.region}", r.source, r.retrieved_on) for r in contents.rates]
    rows += [(f"{i.instance_type} {i.region}", i.source, i.retrieved_on) for i in contents.interruptions]
    for subject, source, day in rows:
        if not source:
            yield Finding("sourced_and_dated", subject, "has no source")
        if day is None:
            yield Finding("sourced_and_dated", subject, "has no day, or a time without zone")
        elif not FIRST_DAY <= day <= today:
            yield Finding("sourced_and_dated", subject, f"{day} is not between {FIRST_DAY} and {today}")


def periods_in_order(contents: SnapshotContents, today: date) -> Iterator[Finding]:
    """Yield price periods that end before they begin, reach into another of the same price's history, lie after `today`, have no source or no price."""
    histories: dict[tuple[Hashable, ...], list[PricePeriod]] = defaultdict(list)
    for period in contents.price_periods:
        subject = f"{period.provider} {period.instance_type} {period.region} {period.purchase_option} {period.unit_price} {period.currency}"
        histories[period_key(period)].append(period)
        if period.unit_price <= 0:
            yield Finding("periods_in_order", subject, "is not above zero")
        if not period.source:
            yield Finding("periods_in_order", subject, "has no source")
        if period.first_seen > period.last_seen:
            why = f"was first seen {period.first_seen}, after it was last seen {period.last_seen}"
            yield Finding("periods_in_order", subject, why)
        if period.last_seen.date() > today:
            yield Finding("periods_in_order", subject, f"was last seen {period.last_seen}, after {today}")
    for history in histories.values():
        for before, after in pairwise(sorted(history, key=lambda p: p.first_seen)):
            if after.first_seen <= before.last_seen:
                subject = f"{after.provider} {after.instance_type} {after.region} {after.purchase_option}"
                why = f"{after.unit_price} was seen {after.first_seen}, when {before.unit_price} was still seen"
                yield Finding("periods_in_order", subject, why)


RULES: tuple[Rule, ...] = (
    keys_unique,
    names_known,
    aliases_resolve,
    prices_positive,
    currency_and_unit,
    discounts_below_on_demand,
    larger_not_cheaper,
    memory_adds_up,
    devices_and_links,
    capacity_blocks_only,
    peaks_ordered,
    precisions_fit_generation,
    confidence_known,
    sourced_and_dated,
    periods_in_order,
)


def _on_demand(contents: SnapshotContents) -> dict[tuple[str, str, str], Quote]:
    """Return the on-demand quotes as listed: an agreement for one size or option makes no list wrong."""
    return {
        (q.provider, q.instance_type, q.region): as_listed(q)
        for q in contents.quotes
        if q.purchase_option is PurchaseOption.ON_DEMAND
    }


def _no_less(large: InstanceType, small: InstanceType) -> bool:
    """Return whether `large` has at least as much of everything that is known of both, and more of something."""
    pairs = (
        (large.device_count * large.device_fraction, small.device_count * small.device_fraction),
        (large.vcpus, small.vcpus),
        (large.memory_gib, small.memory_gib),
    )
    if any(a is None or b is None for a, b in pairs):
        return False
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    return all(a >= b for a, b in known) and any(a > b for a, b in known)


def _name(instance: InstanceType) -> str:
    return f"{instance.provider} {instance.instance_type}"


def _where(quote: Quote) -> str:
    zone = quote.availability_zone_id or quote.availability_zone
    place = f"{quote.region}/{zone}" if zone else quote.region
    return f"{quote.provider} {quote.instance_type} {place} {quote.purchase_option}"
