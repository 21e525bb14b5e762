"""Memory fit, throughput and latency from a `ModelSpec` and a `Hardware`. Pure; NumPy inside."""
