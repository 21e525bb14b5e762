"""A small answer whose figures are easy to check by hand, in the shape of the contract."""

from copy import deepcopy
from typing import Any

Document = dict[str, Any]


def answer(*rows: Document, rejections: list[Document] | None = None, **request: Any) -> Document:
    asked = {
        "model": "7b",
        "mode": "inference",
        "input_tokens": 1000,
        "output_tokens": 1000,
        "utilisation": 1,
        "requests_per_s": None,
        "region": ["us-east-1"],
        "purchase": ["on_demand", "spot"],
        "sort": "cost",
        "method": "full",
        "epochs": 1,
        "sequence_length": 2048,
        "dataset_tokens": None,
        "dataset_size": None,
        "stage": None,
    } | request
    return {
        "id": "0123456789abcdef",
        "request": asked,
        "stage_presets": {},
        "model": {"name": "Qwen2.5-7B", "alias": "7b", "kind": "decoder", "parameters_total": 7_615_616_512, "parameters_active": 7_615_616_512, "one_inference": None},
        "assumptions": [{"name": "pue", "value": 1.15}, {"name": "storage_cost", "value": "off"}, {"name": "tax", "value": "off"}],
        "planner_version": "0.1.0",
        "prices": {
            "snapshot_id": "5f0c12ab9d0011223344",
            "as_of": "2026-07-20T00:00:00Z",
            "sources": [
                {"source": "list", "kind": "on_demand", "as_of": "2026-07-20T00:00:00Z", "oldest_as_of": "2026-07-20T00:00:00Z", "age_hours": 480, "stale": False},
                {"source": "zones", "kind": "spot", "as_of": "2026-07-09T00:00:00Z", "oldest_as_of": "2026-07-09T00:00:00Z", "age_hours": 744, "stale": True},
            ],
        },
        "recommendations": [dict(row, rank=i) for i, row in enumerate(rows, start=1)],
        "rejections": rejections or [],
    }  # fmt: skip


def row(instance_type: str = "g6e.xlarge", **changes: Any) -> Document:
    """One instance at 0.36 USD/h that serves 1 request/s: 3,600 an hour, so a million cost 100 USD."""
    base: Document = {
        "rank": 1, "provider": "aws", "instance_type": instance_type, "region": "us-east-1", "availability_zone_id": None, "purchase_option": "on_demand",
        "purchase": {"plan_type": None, "payment_option": None, "offering_class": None, "term_years": None},
        "price": {"usd_per_instance_hour": "0.36", "as_of": "2026-07-20T00:00:00Z", "stale": False, "derived": False, "source": "price list"},
        "instance_count": 1, "accelerator": "L40S", "accelerators_per_instance": 1,
        "layout": {"precision": "bf16", "tensor_parallel": 1, "pipeline_parallel": 1, "replicas_per_instance": 1, "max_concurrency": 64, "batch": None, "method": None, "micro_batch": None, "checkpointing": None, "sharding": None},
        "memory": {"required_gib_per_accelerator": 30.0, "available_gib_per_accelerator": 40.05, "lines": [{"name": "weights", "gib": 14.19, "note": ""}, {"name": "kv_cache", "gib": 15.81, "note": "64 requests"}]},
        "performance": {
            "basis": "modelled", "requests_per_s": 1.0, "output_tokens_per_s": 1000.0, "total_tokens_per_s": 2000.0, "samples_per_s": None, "at_requests_per_s": 1.0, "mfu_fraction": 0.1,
            "ttft_ms": {"p50": 200.0, "p99": 310.2}, "tpot_ms": {"p50": 25.0, "p99": 28.43}, "e2e_ms": {"p50": 25_200.0, "p99": 28_700.0},
            "low": {"requests_per_s": 0.8, "samples_per_s": None, "total_tokens_per_s": 1600.0}, "high": {"requests_per_s": 1.25, "samples_per_s": None, "total_tokens_per_s": 2500.0},
        },
        "cost": {
            "usd_per_hour": "0.360000", "usd_per_million_inferences": "100.000000", "usd_per_epoch": None, "usd_total": None, "usd_per_month": "262.800000",
            "low": {"usd_per_million_inferences": "80.000000", "usd_per_epoch": None, "usd_total": None}, "high": {"usd_per_million_inferences": "125.000000", "usd_per_epoch": None, "usd_total": None},
            "lines": [{"name": "compute", "quantity": 1, "unit": "instance-hour", "unit_price": "0.36", "usd": "0.360000", "source": "price list"}],
        },
        "time": {"hours_per_epoch": None, "hours_total": None}, "energy": {"kwh_per_million_inferences": 58.1}, "notes": [],
    }  # fmt: skip
    out = deepcopy(base)
    for path, value in changes.items():
        *parents, name = path.split("__")
        place = out
        for parent in parents:
            place = place[parent]
        place[name] = value
    return out


def run(**changes: Any) -> Document:
    """A training run: 2 h per epoch, 3 epochs, 12 USD/h on 2 instances of 6 USD/h: 72 USD in total."""
    figures = {
        "low__usd_total": "60.000000",
        "high__usd_total": "90.000000",
        "low__usd_per_epoch": "20.000000",
        "high__usd_per_epoch": "30.000000",
    }
    return row(
        "p9.48xlarge", instance_count=2, accelerators_per_instance=8, accelerator="H100 SXM5 80GB",
        layout={"precision": "bf16", "method": "full", "sharding": "zero3", "micro_batch": 4, "checkpointing": "full", "tensor_parallel": None, "pipeline_parallel": None, "replicas_per_instance": None, "max_concurrency": None, "batch": None},
        performance__requests_per_s=None, performance__total_tokens_per_s=None, performance__output_tokens_per_s=None, performance__samples_per_s=1234.5,
        time__hours_per_epoch=2.0, time__hours_total=6.0, cost__usd_per_hour="12.000000", cost__usd_per_epoch="24.000000", cost__usd_total="72.000000", cost__usd_per_million_inferences=None,
        **{f"cost__{name}": value for name, value in figures.items()}, **changes,
    )  # fmt: skip


def rejection(instance_type: str, reason: str, detail: str) -> Document:
    return {
        "provider": "aws",
        "instance_type": instance_type,
        "reason": reason,
        "regions": ["us-east-1"],
        "purchase_options": ["on_demand"],
        "count": 1,
        "detail": detail,
    }
