"""One layout at one concurrency, with the step times behind it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.perf import llm
from planner.perf.latency import Latency
from planner.perf.memory import DeviceWeights
from planner.perf.queue_serving import Replica
from planner.perf.serving_candidates import Candidate
from planner.perf.speculation import Speculation


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An operating point: a candidate at a concurrency, with the step times behind it."""

    candidate: Candidate
    weights: DeviceWeights
    shape: llm.Shape
    machine: llm.Machine
    concurrency: int
    replicas: int
    decode: llm.Step
    prefill: llm.Step
    alone_s: float
    step_tokens: float
    p50: Latency
    p99: Latency
    speculation: Speculation  # decode is the time of one token under it
    replica: Replica | None = None  # step times from one request to `concurrency`, where requests come at random
