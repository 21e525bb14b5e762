"""What a replica that spans several machines has between them: the network, beside the links inside a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.perf import llm
from planner.perf.serving_candidates import Candidate
from planner.perf.training_network import network_bytes_per_s

NETWORK_LATENCY_S = {True: 30e-6, False: 60e-6}
"""One message from device to device over two machines' network with its kernels' start, or one there and back inside a collective,
with EFA and over TCP: 16 to 20 µs of the fabric (OSU latency benchmark over EFA); an all-reduce of 8 B over 16 GPUs of two p6-b200
takes 50.6 µs (nccl-tests in dstackai/dstack#3961), 20 of which are those inside one. Over TCP twice that, assumed."""


def networked(machine: llm.Machine, members: Sequence[Candidate]) -> llm.Machine:
    """Return the machine with the network between instances where a candidate spans several."""
    if all(c.split.instances == 1 for c in members):
        return machine
    latency = [NETWORK_LATENCY_S[c.hardware.efa_supported] for c in members]
    rate = [network_bytes_per_s(c.hardware) or np.inf for c in members]  # a span has a known network
    return replace(
        machine,
        network_latency_s=np.asarray(latency, dtype=np.float64)[:, None],
        network_bytes_per_s=np.asarray(rate, dtype=np.float64)[:, None],
    )
