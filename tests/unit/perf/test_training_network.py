"""Sums of gradients by hand: ring, double tree and parameter servers, inside a node and between nodes."""

import numpy as np
import pytest

from planner.perf.training_network import Wires, reduction_s

WIRES = Wires(devices=8.0, link=100e9, network=80e9, link_latency_s=0.0, network_latency_s=1e-3)
RING, TREE, SERVERS = 0, 1, 2


def seconds(algorithm: int, *, ranks: float = 32.0, servers: float = 0.0, payload: float = 8e9) -> float:
    return float(reduction_s(payload, ranks, 1.0, WIRES, algorithm=algorithm, servers=servers))


# 32 ranks in 4 nodes of 8, 8 GB of gradients. Inside: 2 x 7/8 x 8 GB / 100 GB/s = 0.14 s. Between: each device moves its eighth, 1 GB,
# over its share of the node's network, 10 GB/s: 0.1 s a pass.
INSIDE, PART = 0.14, 0.1


@pytest.mark.parametrize(
    ("algorithm", "servers", "between"),
    [
        (RING, 0, 2 * (3 / 4 * PART + 3 * 1e-3)),  # scatter and gather of (n - 1)/n, n - 1 hops each
        (TREE, 0, 2 * (PART + 2 * 1e-3)),  # all of it up and down, log2 n hops each
        (SERVERS, 0, 2 * (3 / 4 * PART + 1e-3)),  # every node serves its share
        (SERVERS, 4, 2 * (PART + 1e-3)),  # as many servers as nodes: each takes in what one node sends
        (SERVERS, 1, 2 * (4 * PART + 1e-3)),  # one server takes in four nodes' sums
    ],
)
def test_sums_by_hand(algorithm, servers, between) -> None:
    assert seconds(algorithm, servers=servers) == pytest.approx(INSIDE + between)


def test_inside_a_node_all_are_alike() -> None:
    assert [seconds(algorithm, ranks=8.0) for algorithm in (RING, TREE, SERVERS)] == pytest.approx([INSIDE] * 3)


def test_a_ring_waits_for_its_hops_and_a_tree_does_not() -> None:
    many = 8.0 * 512
    assert seconds(TREE, ranks=many, payload=1e6) < seconds(RING, ranks=many, payload=1e6)
    assert seconds(RING, ranks=16.0, payload=8e10) < seconds(TREE, ranks=16.0, payload=8e10)


def test_arrays_are_answered_element_by_element() -> None:
    both = reduction_s(8e9, 32.0, 1.0, WIRES, algorithm=np.array([RING, TREE]), servers=0.0)
    assert both.tolist() == pytest.approx([seconds(RING), seconds(TREE)])
