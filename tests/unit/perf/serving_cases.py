"""Models and machines for the tests of serving: shipped configs, and instance types built from the shipped chip table."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

from planner.models.parse import parse_config
from planner.models.spec import ModelSpec
from planner.perf.hardware import hardware_of
from planner.perf.inference import evaluate_inference
from planner.perf.model import Evaluation, Hardware, Infeasible, InferenceWork, Outcome
from pricing.model import Accelerator, AcceleratorKind, InstanceType, InterconnectKind
from pricing.static import load_tables


def model(name: str, **override: Any) -> ModelSpec:
    text = (files("planner.models") / "configs" / f"{name}.json").read_text(encoding="utf-8")
    return parse_config(json.dumps(json.loads(text) | override), source=name, name=name)


@lru_cache(maxsize=1)
def chips() -> dict[str, Accelerator]:
    return {a.name: a for a in load_tables().accelerators}


@lru_cache(maxsize=1)
def types() -> dict[str, InstanceType]:
    return {i.instance_type: i for i in load_tables().instance_types if i.provider == "aws"}


def instance(name: str) -> Hardware:
    it = types()[name]
    assert it.accelerator is not None
    return hardware_of(it, chips()[it.accelerator])


def machine(
    chip: str, devices: int = 1, link: InterconnectKind = InterconnectKind.NVSWITCH, *, fraction: float = 1.0
) -> Hardware:
    a = chips()[chip]
    it = InstanceType(
        provider="test",
        instance_type=f"{chip} x{devices}",
        family="test",
        vcpus=32,
        memory_gib=256.0,
        cpu_arch=None,
        accelerator=chip,
        accelerator_kind=a.kind,
        device_count=devices,
        device_fraction=fraction,
        device_memory_gib=None if a.memory_gib is None else a.memory_gib * fraction,
        interconnect_kind=link if devices > 1 else InterconnectKind.NONE,
    )
    return hardware_of(it, a)


def one(spec: ModelSpec, hardware: Hardware, **work: Any) -> Outcome:
    return evaluate_inference(spec, [hardware], InferenceWork(**work))[0]


def good(spec: ModelSpec, hardware: Hardware, **work: Any) -> Evaluation:
    outcome = one(spec, hardware, **work)
    assert isinstance(outcome, Evaluation), outcome
    return outcome


def bad(spec: ModelSpec, hardware: Hardware, **work: Any) -> Infeasible:
    outcome = one(spec, hardware, **work)
    assert isinstance(outcome, Infeasible), outcome
    return outcome


def requests(evaluation: Evaluation) -> float:
    rate = evaluation.performance.rates.requests_per_s
    assert rate is not None
    return rate


def plain(name: str = "Test", *, devices: int = 1, **figures: Any) -> Hardware:
    """A device with round figures: 1,000 GB/s, 100 TFLOP/s, 40 GiB."""
    given: dict[str, Any] = {
        "accelerator": name,
        "vendor": "NVIDIA",
        "architecture": "Test",
        "kind": AcceleratorKind.GPU,
        "devices": devices,
        "fraction": 1.0,
        "memory_visible_gib": 40.0,
        "memory_bandwidth_gb_s": 1000.0,
        "peak_tflops": {"fp32": 50.0, "fp16": 100.0, "bf16": 100.0, "fp8": 200.0},
        "interconnect_kind": InterconnectKind.NVSWITCH if devices > 1 else InterconnectKind.NONE,
        "interconnect_gb_s_bidirectional": 600.0 if devices > 1 else None,
        "tdp_w": 400.0,
        "compute_capability": 9.0,
        "vcpus": 8,
        "host_memory_gib": 64.0,
        "network_gbps": 25.0,
        "efa_supported": False,
    }
    return Hardware(**(given | figures))
