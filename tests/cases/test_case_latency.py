"""Percentiles of latencies: start-up is not service, and few samples carry no high percentile."""

from __future__ import annotations

from workers.stats import summarise


def test_bench_latency() -> None:
    # Ten slow requests while the server warms up, ninety of 0.7 s: the p95 is 0.7 s, not 50 s.
    latencies_s = [50.0] * 10 + [0.7] * 90
    for warmup in (10, None):  # stated, and found
        found = summarise(latencies_s, warmup=warmup)
        assert (found.p95, found.p99, found.warmup, found.count) == (0.7, 0.7, 10, 90)
        assert "p99" not in found.too_few_for


def test_bench_latency_few_samples() -> None:
    # Three samples have a p99 only in name: it lies below the largest, and is marked.
    found = summarise([10, 20, 30], warmup=0)
    assert 28.9 <= found.p95 <= 30
    assert 29.79 <= found.p99 <= 30
    assert "p99" in found.too_few_for
