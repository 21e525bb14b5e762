"""A hand-made snapshot of a few rows, small enough to see what each look-up must give."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pricing.contents import SnapshotContents
from pricing.model import (
    Accelerator,
    AcceleratorKind,
    InstanceType,
    Interruption,
    PurchaseOption,
    Quote,
    Rate,
    SourceAge,
)

DAY = date(2026, 7, 20)
MOMENT = datetime(2026, 7, 20, tzinfo=UTC)
LATER = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def chip(name: str, **over: Any) -> Accelerator:
    given: dict[str, Any] = {
        "vendor": "NVIDIA",
        "architecture": "Hopper",
        "kind": AcceleratorKind.GPU,
        "form_factor": None,
        "release_year": 2022,
        "memory_gib": 80.0,
        "memory_visible_gib": 79.1,
        "memory_bandwidth_gb_s": 3350.0,
        "peak_tflops": {"fp16": 989.0, "bf16": 989.0},
        "retrieved_on": DAY,
    }
    return Accelerator(name=name, **(given | over))


def shape(provider: str, name: str, accelerator: str, count: int = 8, **over: Any) -> InstanceType:
    given: dict[str, Any] = {
        "family": name.split(".", maxsplit=1)[0],
        "vcpus": 192,
        "memory_gib": 2048.0,
        "cpu_arch": "x86_64",
        "accelerator_kind": AcceleratorKind.GPU,
        "retrieved_on": DAY,
    }
    return InstanceType(
        provider=provider, instance_type=name, accelerator=accelerator, device_count=count, **(given | over)
    )


def quote(
    provider: str, name: str, region: str, price: str, option: PurchaseOption = PurchaseOption.ON_DEMAND, **over: Any
) -> Quote:
    given: dict[str, Any] = {"source": "price list", "retrieved_at": MOMENT}
    return Quote(
        provider=provider,
        instance_type=name,
        region=region,
        purchase_option=option,
        effective_unit_price=Decimal(price),
        **(given | over),
    )


def small_contents(**over: Any) -> SnapshotContents:
    """Two clouds that both have a `1x H100`, three regions, on-demand and spot."""
    given: dict[str, Any] = {
        "accelerators": (chip("H100 SXM5 80GB"), chip("L4", architecture="Ada", peak_tflops={"fp16": 121.0, "fp8": 242.5})),
        "aliases": {"H100": "H100 SXM5 80GB", "NVIDIA L4": "L4"},
        "instance_types": (
            shape("aws", "p5.48xlarge", "H100 SXM5 80GB"),
            shape("aws", "g6.xlarge", "L4", 1),
            shape("aws", "g6f.xlarge", "L4", 1, device_fraction=0.125),
            shape("lambda", "1x H100", "H100 SXM5 80GB", 1),
            shape("nebius", "1x H100", "H100 SXM5 80GB", 1),
        ),
        "quotes": (
            quote("aws", "p5.48xlarge", "us-east-1", "55.04"),
            quote("aws", "p5.48xlarge", "us-west-2", "55.040"),
            quote("aws", "p5.48xlarge", "us-east-1", "16.95", PurchaseOption.SPOT, availability_zone_id="use1-az6", at_on_demand_cap=False),
            quote("aws", "p5.48xlarge", "us-east-1", "55.04", PurchaseOption.SPOT, availability_zone_id="use1-az2", at_on_demand_cap=True),
            quote("aws", "g6.xlarge", "us-east-1", "0.8048", effective_from=date(2024, 4, 1)),
            quote("lambda", "1x H100", "us-south-1", "3.29"),
            quote("nebius", "1x H100", "us-central1", "2.95"),
        ),
        "rates": (Rate(provider="aws", service="EBS", item="gp3 storage", region="us-east-1", unit_price=Decimal("0.08"), unit="GB-month", source="price list", retrieved_on=DAY),),
        "interruptions": (
            Interruption(
                provider="aws", instance_type="g6.xlarge", region="us-east-1", band="5-10%", monthly_low_fraction=0.05, monthly_high_fraction=0.10,
                savings_over_on_demand_fraction=0.6, source="advisor", retrieved_on=DAY,
            ),
        ),
        "sources": (SourceAge(source="price list", kind="on_demand", as_of=MOMENT, quotes=5),),
    }  # fmt: skip
    return SnapshotContents(**(given | over))
