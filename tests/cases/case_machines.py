"""Models, machines and questions that the cases share; everything from the shipped configs and tables."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

from planner.models.parse import parse_config
from planner.models.spec import ModelSpec
from planner.perf.hardware import hardware_of
from planner.perf.inference import evaluate_inference
from planner.perf.model import Evaluation, Hardware, InferenceWork, Outcome, RejectionReason
from pricing.contents import SnapshotContents
from pricing.model import Accelerator, InstanceType, InterconnectKind
from pricing.static import load_tables

GIB = 2**30
T4, V100, A10G, L4, L40S = "T4", "V100 SXM2 16GB", "A10G", "L4", "L40S"
A100_40, A100_80, H100 = "A100 SXM4 40GB", "A100 SXM4 80GB", "H100 SXM5 80GB"
SWITCHED = (A100_40, A100_80, H100)


@lru_cache(maxsize=1)
def tables() -> SnapshotContents:
    return load_tables()


@lru_cache(maxsize=1)
def chips() -> dict[str, Accelerator]:
    return {chip.name: chip for chip in tables().accelerators}


def aws_type(name: str) -> InstanceType:
    (found,) = [i for i in tables().instance_types if (i.provider, i.instance_type) == ("aws", name)]
    return found


def model(name: str, **override: Any) -> ModelSpec:
    """A shipped config, with fields replaced."""
    text = (files("planner.models") / "configs" / f"{name}.json").read_text(encoding="utf-8")
    return parse_config(json.dumps(json.loads(text) | override), source=name, name=name)


def machine(chip: str, count: int = 1) -> Hardware:
    link = InterconnectKind.NVSWITCH if chip in SWITCHED else InterconnectKind.PCIE
    shape = InstanceType(
        provider="case", instance_type=f"{count} x {chip}", family="case", vcpus=96, memory_gib=768.0, cpu_arch="x86_64", accelerator=chip,
        accelerator_kind=chips()[chip].kind, device_count=count, device_memory_gib=chips()[chip].memory_gib,
        interconnect_kind=link if count > 1 else InterconnectKind.NONE,
    )  # fmt: skip
    return hardware_of(shape, chips()[chip])


def serve(spec: ModelSpec, hardware: Hardware, *, context: int, concurrent: int = 1, **work: Any) -> Outcome:
    """The best layout for requests that fill `context` tokens, input and output together."""
    asked = InferenceWork(input_tokens=context - 128, output_tokens=128, max_concurrency=concurrent, **work)
    return evaluate_inference(spec, [hardware], asked)[0]


def fits(outcome: Outcome) -> bool:
    """Whether there is a layout; a refusal must be one for memory, or the case is about something else."""
    if isinstance(outcome, Evaluation):
        return outcome.memory.fits
    assert outcome.reason is RejectionReason.OUT_OF_MEMORY, outcome
    return False
