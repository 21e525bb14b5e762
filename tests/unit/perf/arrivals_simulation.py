"""A discrete-event simulation of continuous batching under Poisson arrivals: the oracle for the open-loop latency model.

A request that arrives takes a slot if one is free, else it waits for one, first come first served. Every step decodes one token of each
request whose prompt is read and carries at most `step_tokens` prompt tokens, first come first served. A step takes decode_s(decoding), or
nothing where none decodes, plus prefill_s a prompt for its share of prompts. The step that ends a prompt gives the first token. Every fourth
request has the stated lengths and is watched; the others vary with a gamma distribution of the stated coefficient of variation (evenly
where that is below 0.2). Between arrivals, ends and prompts all steps are alike, so they are taken at one leap.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

WATCHED = 4


@dataclass
class Seen:
    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)
    e2e: list[float] = field(default_factory=list)
    itl: list[tuple[float, int]] = field(default_factory=list)  # gap and how many tokens had it
    in_flight: float = 0.0  # mean requests in a slot
    busy: float = 0.0  # share of the time in which a step runs


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def weighted_quantile(values: list[tuple[float, int]], q: float) -> float:
    ordered, reached = sorted(values), 0.0
    total = sum(w for _, w in ordered)
    for value, weight in ordered:
        reached += weight
        if reached >= q * total:
            return value
    raise AssertionError("no values")


def drawn(rng: random.Random, mean: int, variation: float) -> int:
    if variation == 0:
        return mean
    if variation < 0.2:
        return max(1, round(mean * rng.uniform(1 - math.sqrt(3) * variation, 1 + math.sqrt(3) * variation)))
    shape = 1 / variation**2
    return max(1, round(rng.gammavariate(shape, mean / shape)))


def simulate_arrivals(
    *,
    rate_per_s: float,
    slots: int,
    input_tokens: int,
    output_tokens: int,
    step_tokens: int,
    decode_s: Callable[[int], float],
    prefill_s: float,
    requests: int,
    output_variation: float = 0.2 / math.sqrt(3),
    input_variation: float = 0.0,
    seed: int = 1,
) -> Seen:
    rng = random.Random(seed)
    seen, warm = Seen(), requests // 10
    now, step, arrived = 0.0, 0, 0
    next_arrival = rng.expovariate(rate_per_s)
    waiting: deque[list[float]] = deque()  # [arrival, prompt tokens left, output tokens, number]
    prompts: deque[list[float]] = deque()
    ends: list[tuple[int, int, float, float, int]] = []  # step of the last token, number, arrival, first token, tokens
    occupied_s = busy_s = began = 0.0
    per_token = prefill_s / input_tokens
    last = requests + warm
    while arrived < last or waiting or prompts or ends:
        while arrived < last and next_arrival <= now:
            watched = arrived % WATCHED == 0
            tokens = output_tokens if watched else drawn(rng, output_tokens, output_variation)
            prompt = input_tokens if watched else drawn(rng, input_tokens, input_variation)
            waiting.append([next_arrival, prompt, tokens, arrived])
            arrived += 1
            if arrived == warm:
                began, occupied_s, busy_s = now, 0.0, 0.0
            next_arrival += rng.expovariate(rate_per_s)
        while waiting and len(ends) + len(prompts) < slots:
            prompts.append(waiting.popleft())
        if not ends and not prompts:
            now = next_arrival
            continue
        n = len(ends)
        if not prompts:
            one = decode_s(n)
            leap = ends[0][0] - step
            if arrived < last and (len(ends) < slots):
                leap = min(leap, max(1, math.ceil((next_arrival - now) / one)))
            taken, step = leap * one, step + leap
            if arrived > warm:
                seen.itl.append((one, n * leap))
        else:
            room, carried = float(step_tokens), 0.0
            ready = []
            for r in prompts:
                part = min(room, r[1])
                r[1] -= part
                room -= part
                carried += part
                if r[1] <= 0:
                    ready.append(r)
                if room <= 0:
                    break
            taken, step = (decode_s(n) if n else 0.0) + carried * per_token, step + 1
            if arrived > warm and n:
                seen.itl.append((taken, n))
        if arrived < last:
            occupied_s += taken * (n + len(prompts))
            busy_s += taken
        now += taken
        while ends and ends[0][0] <= step:
            _, number, came, first, tokens = heapq.heappop(ends)
            if number >= warm and number % WATCHED == 0:
                note(seen, came, first, now, tokens)
        if prompts and n >= 0:
            while prompts and prompts[0][1] <= 0:
                came, _, tokens_left, number = prompts.popleft()
                if tokens_left <= 1:
                    if number >= warm and number % WATCHED == 0:
                        note(seen, came, now, now, 1)
                else:
                    heapq.heappush(ends, (step + int(tokens_left) - 1, int(number), came, now, int(tokens_left)))
        if arrived < last:
            over = now - began
    seen.in_flight, seen.busy = occupied_s / over, busy_s / over
    return seen


def note(seen: Seen, came: float, first: float, now: float, tokens: int) -> None:
    seen.ttft.append(first - came)
    seen.e2e.append(now - came)
    if tokens > 1:
        seen.tpot.append((now - first) / (tokens - 1))
