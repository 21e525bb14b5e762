"""Each integrity rule holds on a sound snapshot and finds exactly the row that was broken."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from pricing import checks
from pricing.contents import SnapshotContents
from pricing.discounts import contracted
from pricing.market import Discount, PricePeriod
from pricing.model import (
    Accelerator,
    AcceleratorKind,
    InstanceType,
    InterconnectKind,
    Interruption,
    PurchaseOption,
    Quote,
    Rate,
)

TODAY = date(2026, 11, 30)
DAY = date(2026, 7, 20)
AT = datetime(2026, 7, 20, tzinfo=UTC)


def chip(**changes) -> Accelerator:
    whole = Accelerator(
        name="Chip 16GB",
        vendor="NVIDIA",
        architecture="Ada Lovelace",
        kind=AcceleratorKind.GPU,
        form_factor=None,
        release_year=None,
        memory_gib=16.0,
        memory_visible_gib=15.5,
        memory_bandwidth_gb_s=300.0,
        peak_tflops={"fp32": 30.0, "fp16": 121.0, "bf16": 121.0, "fp8": 242.0, "int8": 242.0},
        compute_capability=8.9,
        source="a sheet",
        retrieved_on=DAY,
    )
    return replace(whole, **changes)


def size(name="x1.large", devices=1, **changes) -> InstanceType:
    shape = InstanceType(
        provider="aws",
        instance_type=name,
        family="x1",
        vcpus=8 * devices,
        memory_gib=32.0 * devices,
        cpu_arch="x86_64",
        accelerator="Chip 16GB",
        accelerator_kind=AcceleratorKind.GPU,
        device_count=devices,
        device_memory_gib=16.0,
        interconnect_kind=InterconnectKind.PCIE if devices > 1 else InterconnectKind.NONE,
        source="a list",
        retrieved_on=DAY,
    )
    return replace(shape, **changes)


def quote(name="x1.large", price="1.00", **changes) -> Quote:
    offered = Quote(
        provider="aws",
        instance_type=name,
        region="us-east-1",
        purchase_option=PurchaseOption.ON_DEMAND,
        list_unit_price=Decimal(price),
        effective_unit_price=Decimal(price),
        source="a list",
        retrieved_at=AT,
    )
    return replace(offered, **changes)


RATE = Rate(
    provider="aws",
    service="EBS",
    item="gp3",
    region="us-east-1",
    unit_price=Decimal("0.08"),
    unit="GB-month",
    source="a list",
    retrieved_on=DAY,
)
BAND = Interruption(
    provider="aws",
    instance_type="x1.large",
    region="us-east-1",
    band="<5%",
    monthly_low_fraction=0.0,
    monthly_high_fraction=0.05,
    savings_over_on_demand_fraction=0.6,
    source="a list",
    retrieved_on=DAY,
)
SPOT = quote(price="0.40", purchase_option=PurchaseOption.SPOT, availability_zone_id="use1-az1", at_on_demand_cap=False)
BEFORE = PricePeriod(
    provider="aws",
    instance_type="x1.large",
    region="us-east-1",
    purchase_option=PurchaseOption.ON_DEMAND,
    unit="Hrs",
    unit_price=Decimal("1.50"),
    first_seen=datetime(2024, 8, 26, tzinfo=UTC),
    last_seen=datetime(2025, 4, 28, tzinfo=UTC),
    source="a list",
)
NOW = replace(BEFORE, unit_price=Decimal("1.00"), first_seen=datetime(2025, 6, 23, tzinfo=UTC), last_seen=AT)
SOUND = SnapshotContents(
    accelerators=(chip(),),
    aliases={"chip": "Chip 16GB"},
    instance_types=(size(), size("x1.2xlarge", 2)),
    quotes=(quote(), quote("x1.2xlarge", "2.10"), SPOT),
    rates=(RATE,),
    interruptions=(BAND,),
    sources=(),
    price_periods=(BEFORE, NOW),
)


def test_a_sound_snapshot_has_no_findings():
    assert checks.check_snapshot(SOUND, today=TODAY) == []


def broken(**changes) -> SnapshotContents:
    return replace(SOUND, **changes)


CASES = {
    "period that ends before it begins": (
        checks.periods_in_order,
        broken(price_periods=(replace(NOW, first_seen=AT, last_seen=NOW.first_seen),)),
        "x1.large",
    ),
    "periods that overlap": (
        checks.periods_in_order,
        broken(price_periods=(NOW, replace(BEFORE, last_seen=NOW.first_seen))),
        "x1.large",
    ),
    "period at no price": (
        checks.periods_in_order,
        broken(price_periods=(replace(NOW, unit_price=Decimal(0)),)),
        "x1.large",
    ),
    "period of the future": (
        checks.periods_in_order,
        broken(price_periods=(replace(NOW, last_seen=datetime(2026, 12, 1, tzinfo=UTC)),)),
        "x1.large",
    ),
    "period from nowhere": (checks.periods_in_order, broken(price_periods=(replace(NOW, source=""),)), "x1.large"),
    "two chips of one name": (checks.keys_unique, broken(accelerators=(chip(), chip(name="CHIP 16gb"))), "chip 16gb"),
    "two prices of one thing": (checks.keys_unique, broken(quotes=(*SOUND.quotes, quote(price="1.01"))), "x1.large"),
    "two aliases in other case": (
        checks.keys_unique,
        broken(aliases={"chip": "Chip 16GB", "Chip": "Chip 16GB"}),
        "alias chip",
    ),
    "two rates": (checks.keys_unique, broken(rates=(RATE, RATE)), "gp3"),
    "two bands": (checks.keys_unique, broken(interruptions=(BAND, BAND)), "x1.large"),
    "two sizes": (checks.keys_unique, broken(instance_types=(size(), size())), "x1.large"),
    "unknown chip": (
        checks.names_known,
        broken(instance_types=(size(accelerator="Chip"), size("x1.2xlarge", 2))),
        "x1.large",
    ),
    "kind of another chip": (
        checks.names_known,
        broken(instance_types=(size(accelerator_kind=AcceleratorKind.TPU), size("x1.2xlarge", 2))),
        "x1.large",
    ),
    "price of an unknown type": (checks.names_known, broken(quotes=(*SOUND.quotes, quote("y1.large"))), "y1.large"),
    "band of an unknown type": (
        checks.names_known,
        broken(interruptions=(replace(BAND, instance_type="y2.large"),)),
        "y2.large",
    ),
    "alias of nothing": (checks.aliases_resolve, broken(aliases={"chip": "Chip 24GB"}), "chip"),
    "alias that hides a chip": (
        checks.aliases_resolve,
        broken(accelerators=(chip(), chip(name="Other")), aliases={"OTHER": "Chip 16GB"}),
        "OTHER",
    ),
    "free instance": (
        checks.prices_positive,
        broken(quotes=(quote(price="0"), quote("x1.2xlarge", "2.10"))),
        "x1.large",
    ),
    "price beyond all": (checks.prices_positive, broken(quotes=(quote(price="10000000.01"),)), "x1.large"),
    "rate beyond all": (checks.prices_positive, broken(rates=(replace(RATE, unit_price=Decimal("1e999")),)), "gp3"),
    "free rate without a word": (checks.prices_positive, broken(rates=(replace(RATE, unit_price=Decimal(0)),)), "gp3"),
    "negative rate": (
        checks.prices_positive,
        broken(rates=(replace(RATE, unit_price=Decimal(-1), notes="why"),)),
        "gp3",
    ),
    "yuan": (checks.currency_and_unit, broken(quotes=(quote(currency="CNY"),)), "x1.large"),
    "per month": (checks.currency_and_unit, broken(quotes=(quote(unit="Mo"),)), "x1.large"),
    "rate in yuan": (checks.currency_and_unit, broken(rates=(replace(RATE, currency="CNY"),)), "gp3"),
    "spot above on-demand": (
        checks.discounts_below_on_demand,
        broken(quotes=(quote(), replace(SPOT, effective_unit_price=Decimal("1.01")))),
        "use1-az1",
    ),
    "reserved above on-demand": (
        checks.discounts_below_on_demand,
        broken(quotes=(quote(), quote(price="1.01", purchase_option=PurchaseOption.RESERVED_1YR, term_years=1))),
        "reserved_1yr",
    ),
    "two prices swapped": (
        checks.larger_not_cheaper,
        broken(
            instance_types=(size(), size("x1.2xlarge", vcpus=16, memory_gib=64.0)),
            quotes=(quote(price="1.212"), quote("x1.2xlarge", "1.006")),
        ),
        "x1.2xlarge",
    ),
    "larger size cheaper for each device": (
        checks.larger_not_cheaper,
        broken(quotes=(quote(), quote("x1.2xlarge", "1.90"))),
        "x1.2xlarge",
    ),
    "memory of another chip": (
        checks.memory_adds_up,
        broken(instance_types=(size(device_memory_gib=24.0), size("x1.2xlarge", 2))),
        "x1.large",
    ),
    "memory of a whole chip on a fraction": (
        checks.memory_adds_up,
        broken(instance_types=(size(device_fraction=0.125), size("x1.2xlarge", 2))),
        "x1.large",
    ),
    "more visible than there": (
        checks.memory_adds_up,
        broken(accelerators=(chip(memory_visible_gib=16.5),)),
        "Chip 16GB",
    ),
    "count of zero": (
        checks.devices_and_links,
        broken(instance_types=(size(device_count=0), size("x1.2xlarge", 2))),
        "x1.large",
    ),
    "device of two chips": (
        checks.devices_and_links,
        broken(instance_types=(size(device_fraction=2.0), size("x1.2xlarge", 2))),
        "x1.large",
    ),
    "lone device with a link": (
        checks.devices_and_links,
        broken(instance_types=(size(interconnect_kind=InterconnectKind.NVSWITCH),)),
        "x1.large",
    ),
    "several devices without a link": (
        checks.devices_and_links,
        broken(instance_types=(size("x1.2xlarge", 2, interconnect_kind=InterconnectKind.NONE),)),
        "x1.2xlarge",
    ),
    "capacity block sold on demand": (
        checks.capacity_blocks_only,
        broken(instance_types=(size(capacity_block_only=True), size("x1.2xlarge", 2))),
        "x1.large",
    ),
    "sparse bf16 beside dense fp8": (
        checks.peaks_ordered,
        broken(accelerators=(chip(peak_tflops={"bf16": 484.0, "fp8": 242.0}),)),
        "Chip 16GB",
    ),
    "bf16 on a Turing chip": (
        checks.precisions_fit_generation,
        broken(accelerators=(chip(compute_capability=7.5, peak_tflops={"bf16": 65.0}),)),
        "Chip 16GB",
    ),
    "fp8 on an Ampere chip": (
        checks.precisions_fit_generation,
        broken(accelerators=(chip(compute_capability=8.6),)),
        "Chip 16GB",
    ),
    "fp4 on an Ada chip": (
        checks.precisions_fit_generation,
        broken(accelerators=(chip(peak_tflops={"bf16": 121.0, "fp8": 242.0, "fp4": 484.0}),)),
        "Chip 16GB",
    ),
    "no fp8 on an Ada chip": (
        checks.precisions_fit_generation,
        broken(accelerators=(chip(peak_tflops={"bf16": 121.0}),)),
        "Chip 16GB",
    ),
    "fp4 on CDNA3": (
        checks.precisions_fit_generation,
        broken(
            accelerators=(
                chip(
                    vendor="AMD",
                    architecture="CDNA3",
                    compute_capability=None,
                    peak_tflops={"bf16": 1.0, "fp8": 2.0, "fp4": 4.0},
                ),
            )
        ),
        "Chip 16GB",
    ),
    "unheard-of confidence": (checks.confidence_known, broken(accelerators=(chip(confidence="sure"),)), "Chip 16GB"),
    "confidence of a quote": (checks.confidence_known, broken(quotes=(quote(confidence=""),)), "x1.large"),
    "no source": (checks.sourced_and_dated, broken(rates=(replace(RATE, source=""),)), "gp3"),
    "no day": (checks.sourced_and_dated, broken(accelerators=(chip(retrieved_on=None),)), "Chip 16GB"),
    "tomorrow": (
        checks.sourced_and_dated,
        broken(interruptions=(replace(BAND, retrieved_on=date(2026, 12, 1)),)),
        "x1.large",
    ),
    "year typed wrong": (
        checks.sourced_and_dated,
        broken(quotes=(quote(retrieved_at=datetime(206, 7, 20, tzinfo=UTC)),)),
        "x1.large",
    ),
    "no time zone": (
        checks.sourced_and_dated,
        broken(quotes=(quote(retrieved_at=datetime(2026, 7, 20)),)),  # noqa: DTZ001 - the fault that is looked for
        "x1.large",
    ),
}


@pytest.mark.parametrize(("rule", "contents", "subject"), CASES.values(), ids=CASES.keys())
def test_a_rule_finds_the_broken_row(rule, contents, subject):
    findings = list(rule(contents, TODAY))
    assert len(findings) == 1, [str(f) for f in findings]
    assert findings[0].rule == rule.__name__
    assert subject in findings[0].subject
    assert findings[0] in checks.check_snapshot(contents, today=TODAY)


def test_every_rule_is_shown_to_fail():
    assert {rule for rule, _, _ in CASES.values()} == set(checks.RULES)


def test_spot_at_its_cap_may_stand_a_hair_above_on_demand():
    capped = replace(SPOT, effective_unit_price=Decimal("1.01"), at_on_demand_cap=True)
    assert list(checks.discounts_below_on_demand(broken(quotes=(quote(), capped)), TODAY)) == []


def test_an_agreement_on_on_demand_alone_puts_no_commitment_above_it():
    plan = quote(purchase_option=PurchaseOption.SAVINGS_PLAN_1YR, term_years=1, list_unit_price=Decimal("0.9"), effective_unit_price=Decimal("0.9"))  # fmt: skip
    listed = (quote(list_unit_price=Decimal(1), effective_unit_price=Decimal(1)), plan)
    line = Discount(provider=plan.provider, agreement="EDP", purchase_option=PurchaseOption.ON_DEMAND, percent_off=Decimal(20), source="edp.toml")  # fmt: skip
    paid = contracted(listed, (line,), TODAY)
    assert [q.effective_unit_price for q in paid] == [Decimal("0.8"), Decimal("0.9")]
    assert list(checks.discounts_below_on_demand(broken(quotes=paid), TODAY)) == []
    dearer = replace(plan, list_unit_price=Decimal("1.1"), effective_unit_price=Decimal("1.1"))
    off = replace(line, purchase_option=PurchaseOption.SAVINGS_PLAN_1YR)  # 1.10 listed, 0.88 paid: the list is odd
    (found,) = checks.discounts_below_on_demand(broken(quotes=contracted((listed[0], dearer), (off,), TODAY)), TODAY)
    assert found.why == "1.1 is above on-demand 1"


def test_a_volume_price_may_be_lower_when_a_note_says_so():
    cheaper = quote("x1.2xlarge", "1.90", notes="volume price: less per GPU than the smaller size")
    assert list(checks.larger_not_cheaper(broken(quotes=(quote(), cheaper)), TODAY)) == []


def test_a_size_with_one_device_between_sizes_with_four_is_no_finding():
    """g5.12xlarge has four GPUs at 5.672, g5.16xlarge one at 4.096: dearer for its GPU, cheaper in total, and right."""
    sizes = (
        size("x1.large", vcpus=4),
        size("x1.12xlarge", 4, vcpus=48, memory_gib=192.0),
        size("x1.16xlarge", 1, vcpus=64, memory_gib=256.0),
    )
    prices = (quote(price="1.006"), quote("x1.12xlarge", "5.672"), quote("x1.16xlarge", "4.096"))
    assert checks.check_snapshot(broken(instance_types=sizes, quotes=prices), today=TODAY) == []


def test_a_free_rate_with_a_reason_is_no_finding():
    free = replace(RATE, unit_price=Decimal(0), notes="gateway endpoint")
    assert list(checks.prices_positive(broken(rates=(free,)), TODAY)) == []


def test_a_finding_reads_as_one_line():
    assert str(checks.Finding("a_rule", "x1.large", "cannot be")) == "a_rule: x1.large: cannot be"
