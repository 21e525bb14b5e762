"""A market of a few machines with round figures, and outcomes of `perf` as plain values, so that every expected figure can be worked out by hand."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from planner.models.spec import ModelKind, ModelSpec, TensorClass, TensorGroup
from planner.perf.model import (
    Basis,
    Evaluation,
    Infeasible,
    Layout,
    MemoryFit,
    MemoryLine,
    Percentiles,
    Performance,
    Rates,
    RejectionReason,
)
from pricing.catalog import Catalog
from pricing.contents import SnapshotContents
from pricing.model import Accelerator, AcceleratorKind, InstanceType, Interruption, PurchaseOption, Quote, SourceAge
from pricing.snapshot import open_snapshot, write_snapshot

OPENED: list[Catalog] = []  # closed after each test
DAY = datetime(2026, 7, 1, tzinfo=UTC)
NOW = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
BAND = Interruption(
    provider="aws", instance_type="old.xlarge", region="us-east-1", band="5-10%", monthly_low_fraction=0.05, monthly_high_fraction=0.10,
    savings_over_on_demand_fraction=0.6, source="hand", retrieved_on=date(2026, 7, 1),
)  # fmt: skip

SPEC = ModelSpec(
    name="Hand-1B", kind=ModelKind.DECODER, architecture="HandForCausalLM", model_type="hand", native_dtype="bf16", hidden_size=1000, layers=1, vocab_size=1000,
    max_context=4096, tensors=(TensorGroup(name="all", tensor_class=TensorClass.MLP, parameters=10**9, matmul_parameters=10**9, quantisable=True),),
    parameters_total=10**9, parameters_active=10**9, source="hand",
)  # fmt: skip
IMAGES = dataclasses.replace(SPEC, name="Hand-Images", kind=ModelKind.VISION, architecture="HandForImages")


def chip(name: str) -> Accelerator:
    return Accelerator(
        name=name, vendor="NVIDIA", architecture="Ampere", kind=AcceleratorKind.GPU, form_factor="PCIe", release_year=2020, memory_gib=24.0, memory_visible_gib=23.0,
        memory_bandwidth_gb_s=600.0, peak_tflops={"bf16": 70.0}, tdp_w=300.0, compute_capability=8.0, source="hand",
    )  # fmt: skip


def machine(name: str, accelerator: str, *, provider: str = "aws", **what: object) -> InstanceType:
    base = InstanceType(
        provider=provider, instance_type=name, family=name.partition(".")[0], vcpus=4, memory_gib=16.0, cpu_arch="x86_64", accelerator=accelerator,
        accelerator_kind=AcceleratorKind.GPU, device_count=1, device_memory_gib=24.0, source="hand",
    )  # fmt: skip
    return dataclasses.replace(base, **what)


def quote(
    name: str,
    usd: str,
    option: str = "on_demand",
    *,
    region: str = "us-east-1",
    zone: str | None = None,
    provider: str = "aws",
    **what: object,
) -> Quote:
    base = Quote(
        provider=provider, instance_type=name, region=region, availability_zone_id=zone, purchase_option=PurchaseOption(option), list_unit_price=Decimal(usd),
        effective_unit_price=Decimal(usd), source=f"hand {option}", retrieved_at=DAY,
    )  # fmt: skip
    return dataclasses.replace(base, **what)


CHIPS = tuple(chip(name) for name in ("Old 24GB", "New 24GB", "Small 8GB"))
TYPES = (
    machine("old.xlarge", "Old 24GB"),
    machine("new.xlarge", "New 24GB"),
    machine("small.xlarge", "Small 8GB"),
    machine("block.48xlarge", "New 24GB", capacity_block_only=True),
    machine("unpriced.xlarge", "New 24GB"),
    machine("far.xlarge", "New 24GB"),
    machine("china.xlarge", "Old 24GB"),
)
QUOTES = (
    quote("old.xlarge", "1.00"),
    quote("old.xlarge", "0.40", "spot", zone="use1-az1"),
    quote("old.xlarge", "0.30", "spot", zone="use1-az2"),
    quote("old.xlarge", "0.20", "spot", zone="use1-az3", at_on_demand_cap=True),
    quote("new.xlarge", "1.50"),
    quote("new.xlarge", "1.50", "spot", zone="use1-az2", at_on_demand_cap=True),
    quote("small.xlarge", "0.50"),
    quote("far.xlarge", "1.10", region="eu-west-1"),
    quote("china.xlarge", "9.51389", currency="CNY"),
)  # fmt: skip


def catalog_of(
    folder: Path, *, quotes: tuple[Quote, ...] = QUOTES, types: tuple[InstanceType, ...] = TYPES, interruptions: tuple[Interruption, ...] = (BAND,)
) -> Catalog:  # fmt: skip
    contents = SnapshotContents(
        accelerators=CHIPS, aliases={"old": "Old 24GB", "new": "New 24GB"}, instance_types=types, quotes=quotes, rates=(), interruptions=interruptions,
        sources=(SourceAge(source="hand", kind="on_demand", as_of=DAY, quotes=len(quotes)),),
    )  # fmt: skip
    path = folder / "hand.sqlite"
    write_snapshot(path, contents, published_at=DAY, origin="shipped", replace=True)
    OPENED.append(open_snapshot(path))
    return OPENED[-1]


FIT = MemoryFit(
    lines=(MemoryLine(name="weights", gib=2.0), MemoryLine(name="kv_cache", gib=10.0)),
    available_gib_per_accelerator=20.7,
)


def serving(
    requests_per_s: float,
    *,
    e2e_p99_ms: float = 1000.0,
    low: float = 0.5,
    high: float = 2.0,
    prefill: float | None = 0.25,
) -> Evaluation:
    return Evaluation(
        layout=Layout(engine="vllm", precision="bf16", kv_precision="fp16", tensor_parallel=1, replicas_per_instance=1, max_concurrency=8),
        instances=1,
        memory=FIT,
        performance=Performance(
            basis=Basis.MODELLED, low_factor=low, high_factor=high, prefill_time_fraction=prefill, power_w=200.0, sources=("hand",),
            rates=Rates(requests_per_s=requests_per_s, output_tokens_per_s=requests_per_s * 1000, total_tokens_per_s=requests_per_s * 2000),
            e2e_ms=Percentiles(p50=e2e_p99_ms / 2, p99=e2e_p99_ms),
        ),
    )  # fmt: skip


def training(
    samples_per_s: float, *, instances: int = 1, low: float = 0.5, high: float = 2.0, sharding: str = "ddp"
) -> Evaluation:
    return Evaluation(
        layout=Layout(engine="pytorch", precision="bf16", method="full", micro_batch=1, accumulation=1, checkpointing="none", sharding=sharding, data_parallel=instances),
        instances=instances,
        memory=FIT,
        performance=Performance(
            basis=Basis.MODELLED, low_factor=low, high_factor=high, power_w=250.0 * instances, rates=Rates(samples_per_s=samples_per_s, total_tokens_per_s=samples_per_s * 1000)
        ),
    )  # fmt: skip


TOO_SMALL = Infeasible(
    reason=RejectionReason.OUT_OF_MEMORY, detail="needs 12.0 GiB, 7.2 available", figures={"required_gib": 12.0}
)
