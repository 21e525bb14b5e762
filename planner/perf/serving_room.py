"""What a candidate holds in memory and how many requests that leaves room for; kept for candidates that are alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from planner.models.spec import ModelSpec
from planner.perf import llm
from planner.perf.engines import SPLIT_BY_LAYERS, Residence, ranks_of, residence_of
from planner.perf.layouts import Split
from planner.perf.memory import (
    SGLANG_LARGE_GIB,
    DeviceWeights,
    Reserve,
    available_gib,
    cache_room_bytes,
    chunk_tokens,
    device_weights,
    fragmentation_bytes,
    kv_bytes_per_request,
    reserve_of,
)
from planner.perf.model import Hardware, InferenceWork
from planner.perf.precision import KV_BITS, Format
from planner.perf.serving_candidates import Candidate, Known
from planner.perf.serving_parameters import padded


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One format and split on devices that an engine treats alike: bytes of one device, and what a step of it works on."""

    engine: str
    split: Split
    weights: DeviceWeights
    reserve: Reserve
    request: float  # bytes of one request on one device, logits included
    residence: Residence
    chunk: int  # tokens of a prefill step
    shaped: Callable[[], llm.Shape]

    @property
    def shape(self) -> llm.Shape:
        """What a step works on; made when it is asked for, which nobody does where the layout has no room."""
        return self.shaped()

    @property
    def fixed(self) -> float:
        """Bytes of one device before any request."""
        return self.weights.total + self.reserve.total

    def required(self, requests: int) -> float:
        """Return the bytes of one device with so many requests in the replica."""
        return self.fixed + math.ceil(requests / self.split.groups) * self.request

    def room(self, hardware: Hardware) -> int:
        """Return how many requests a replica has room for; negative where it cannot even start."""
        left = cache_room_bytes(hardware, self.engine, self.fixed)
        if left < 0:
            return -1
        return int(left / self.request) * self.split.groups if self.request else self.residence.max_sequences

    def available_gib(self, hardware: Hardware) -> float:
        """Return the memory of one device that may be filled, GiB."""
        return available_gib(hardware, self.engine, self.fixed)


class Plans:
    """The plans of one question, each made once."""

    def __init__(self, spec: ModelSpec, work: InferenceWork) -> None:
        self.spec = spec
        self.work = work
        self.splits: Known = {}
        self._plans: dict[tuple[object, ...], Plan] = {}
        self._weights: dict[tuple[object, ...], DeviceWeights] = {}
        self._shapes: dict[tuple[object, ...], llm.Shape] = {}

    def of(self, c: Candidate) -> Plan:
        """Return the plan of a candidate."""
        engine, kind = self.work.engine, c.hardware.kind.value
        chunk = chunk_tokens(c.hardware, engine)
        large = c.hardware.memory_visible_gib >= SGLANG_LARGE_GIB
        key = (c.form, c.kv_precision, c.split, kind, c.hardware.architecture if kind == "neuron" else "", chunk, large)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._made(c, chunk)
        return plan

    def _made(self, c: Candidate, chunk: int) -> Plan:
        spec, work, s = self.spec, self.work, c.split
        bits = KV_BITS[c.kv_precision]
        residence = residence_of(work.engine, c.hardware.kind.value)
        weights = self._weights_of(c.form, s)
        reserve = reserve_of(spec, c.hardware, work.engine, tp=s.tp, ranks=s.devices)
        lengths = (spec, work.input_tokens, work.output_tokens, bits, s.tp)
        cache = kv_bytes_per_request(*lengths, pp=s.pp)
        lost = fragmentation_bytes(*lengths, pp=s.pp, engine=work.engine, page_tokens=residence.page_tokens)
        return Plan(
            engine=work.engine,
            split=s,
            weights=weights,
            reserve=reserve,
            request=cache + lost + reserve.per_sequence,
            residence=residence,
            chunk=chunk,
            shaped=lambda: self._shape_of(c, bits),
        )

    def _weights_of(self, form: Format, s: Split) -> DeviceWeights:
        key = (form, s.tp, s.pp, s.groups)
        if key not in self._weights:
            self._weights[key] = device_weights(self.spec, form, s.tp, s.pp, s.groups)
        return self._weights[key]

    def _shape_of(self, c: Candidate, kv_bits: float) -> llm.Shape:
        form, s = c.form, c.split
        # An engine that splits layers works on one device at a time: a step is one pass through all of them, not one of several.
        stages = 1 if self.work.engine in SPLIT_BY_LAYERS else s.pp
        whole = padded(c.hardware, self.work.engine)
        shards = ranks_of(c.hardware, self.work.engine) if whole else 1
        key = (form, kv_bits, s.tp, stages, s.groups, s.instances, whole, shards)
        if key not in self._shapes:
            self._shapes[key] = llm.shape_of(
                self.spec,
                form,
                kv_bits=kv_bits,
                tp=s.tp,
                input_tokens=self.work.input_tokens,
                output_tokens=self.work.output_tokens,
                pp=stages,
                spans=s.spans,
                machines=s.machines,
                groups=s.groups,
                padded=whole,
                shards=shards,
            )
        return self._shapes[key]
