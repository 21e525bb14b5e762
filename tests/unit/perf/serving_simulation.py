"""A discrete-event simulation of continuous batching: the oracle for the latency formulas.

Every step decodes one token of each running request and carries at most `step_tokens` prompt tokens, first come first served. A step
takes decode_s(running) plus its share of prompts at prefill_s a prompt. A client sends its next request after a short pause (mean half a
step), so arrivals fall anywhere within a step. Client 0 always asks for the stated length; the others vary evenly by ±20 %.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Request:
    client: int
    arrived: float
    prompt_left: float
    tokens_left: int
    tokens: int
    first_token: float = -1.0


@dataclass
class Seen:
    ttft: list[float]
    tpot: list[float]
    e2e: list[float]
    requests_per_s: float

    @staticmethod
    def quantile(values: list[float], q: float) -> float:
        ordered = sorted(values)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def simulate(
    *,
    concurrency: int,
    input_tokens: int,
    output_tokens: int,
    step_tokens: int,
    decode_s: Callable[[int], float],
    prefill_s: float,
    requests: int,
    seed: int = 1,
) -> Seen:
    rng = random.Random(seed)
    now, done, seen = 0.0, 0, Seen([], [], [], 0.0)
    running: list[Request] = []
    prompts: list[Request] = []
    coming: list[Request] = []

    def length(client: int) -> int:
        return output_tokens if client == 0 else max(1, round(output_tokens * rng.uniform(0.8, 1.2)))

    for client in range(concurrency):  # start spread over a request's life, as in steady state
        tokens = length(client)
        running.append(Request(client, -1.0, 0.0, rng.randint(1, tokens), tokens, first_token=-1.0))
    warm, started = concurrency * 2, None
    while done < requests + warm:
        coming.sort(key=lambda r: r.arrived)
        while coming and coming[0].arrived <= now:
            prompts.append(coming.pop(0))
        if not running and not prompts:
            now = coming[0].arrived
            continue
        room, carried, ready = float(step_tokens), 0.0, []
        for r in prompts:
            part = min(room, r.prompt_left)
            r.prompt_left -= part
            room -= part
            carried += part
            if r.prompt_left <= 0:
                ready.append(r)
            if room <= 0:
                break
        now += (decode_s(len(running)) if running else 0.0) + carried / input_tokens * prefill_s
        ended: list[Request] = []
        for r in running:
            r.tokens_left -= 1
            if r.tokens_left == 0:
                ended.append(r)
        for r in ready:
            prompts.remove(r)
            r.first_token = now
            r.tokens_left -= 1
            (running if r.tokens_left else ended).append(r)
        for r in ended:
            if r in running:
                running.remove(r)
            done += 1
            if started is None and done >= warm:
                started = now
            if started is not None and r.arrived >= started and r.client == 0:
                seen.ttft.append(r.first_token - r.arrived)
                seen.e2e.append(now - r.arrived)
                if r.tokens > 1:
                    seen.tpot.append((now - r.first_token) / (r.tokens - 1))
            tokens = length(r.client)
            pause = rng.expovariate(2 / decode_s(concurrency))
            coming.append(Request(r.client, now + pause, float(input_tokens), tokens, tokens))
    assert started is not None
    seen.requests_per_s = requests / (now - started)
    return seen
