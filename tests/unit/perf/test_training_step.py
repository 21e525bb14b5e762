"""The time of an optimizer step against hand calculations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.perf.training_step import StepLayout, StepMachine, StepWork, step_seconds

WORK = StepWork(
    tokens=2048.0,
    narrow_flops=4e12,
    expert_flops=0.0,
    wide_flops=0.0,
    attention_flops=0.0,
    backward=2.0,
    activation_bytes=0.0,
    head_bytes=0.0,
    width=4096.0,
    kv_width=8192.0,
    matrix_width=np.inf,
    expert_width=1.0,
    blocks=32.0,
    experts_per_token=0.0,
    routed_width=0.0,
    weight_bytes=0.0,
    gradient_bytes=0.0,
    expert_share=0.0,
    optimizer_bytes=0.0,
    dequantised_bytes=0.0,
    value_bytes=2.0,
)
MACHINE = StepMachine(
    peak_flops=100e12,
    wide_peak_flops=100e12,
    bandwidth=1e12,
    devices=8.0,
    link=100e9,
    network=50e9,
    link_latency_s=0.0,
    network_latency_s=0.0,
    matmul_share=0.5,
    expert_share=0.8,
    attention_share=0.25,
    traffic_share=0.5,
    half_width=300.0,
    launch_s=0.0,
    host_s=0.0,
    link_share=1.0,
    network_share=1.0,
    overlap_share=0.0,
)


def total(work: StepWork = WORK, layout: StepLayout | None = None, machine: StepMachine = MACHINE) -> float:
    return float(step_seconds(work, layout or StepLayout(), machine).total)


def test_matrices_at_their_share_of_the_peak() -> None:
    # 3 x 4 TFLOP over 50 TFLOP/s; with full recomputation 4 x 4; frozen weights 2 x 4.
    assert total() == pytest.approx(0.24)
    assert total(layout=StepLayout(recompute=1.0, recompute_attention=1.0)) == pytest.approx(0.32)
    assert total(replace(WORK, backward=1.0)) == pytest.approx(0.16)


def test_narrow_formats_speed_up_blocks_alone() -> None:
    work = replace(WORK, wide_flops=1e12, attention_flops=1e12)
    wide = step_seconds(work, StepLayout(), MACHINE)
    narrow = step_seconds(work, StepLayout(), replace(MACHINE, peak_flops=200e12))
    # head 3 TFLOP at 50, attention 3 TFLOP at 25, blocks 12 TFLOP at 50 or 100.
    assert float(wide.compute) == pytest.approx(0.06 + 0.12 + 0.24)
    assert float(narrow.compute) == pytest.approx(0.06 + 0.12 + 0.12)


def test_activation_weight_and_optimizer_traffic() -> None:
    work = replace(WORK, activation_bytes=10e9, weight_bytes=2e9, gradient_bytes=2e9, optimizer_bytes=28e9)
    at = step_seconds(work, StepLayout(accumulation=4.0), MACHINE)
    # 30 GB of activations, weights read twice and gradients read and written (8 GB) per micro-batch, over 500 GB/s.
    assert float(at.compute) == pytest.approx(4 * (0.24 + 0.06 + 0.016))
    assert float(at.optimizer) == pytest.approx(28 / 500)


def test_gradients_of_eight_devices_on_one_node() -> None:
    work = replace(WORK, gradient_bytes=8e9)
    # A ring all-reduce moves 2 x 7/8 of 8 GB over 100 GB/s; nothing hides.
    assert float(step_seconds(work, StepLayout(data=8.0), MACHINE).exposed_data) == pytest.approx(0.14)
    # Nine tenths of the backward pass (2 / 3 of 0.24 s and the traffic) to hide under leave 0.014 s, a tenth.
    hidden = step_seconds(work, StepLayout(data=8.0), replace(MACHINE, overlap_share=0.9))
    assert float(hidden.exposed_data) == pytest.approx(0.014)


def test_gradients_between_nodes_share_the_network() -> None:
    work = replace(WORK, gradient_bytes=8e9)
    at = step_seconds(work, StepLayout(data=32.0), MACHINE)
    # Inside: 2 x 7/8 x 8 GB / 100 GB/s. Between 4 nodes each device moves 1 GB: 2 x 3/4 x 1 GB over 50/8 GB/s.
    assert float(at.exposed_data) == pytest.approx(0.14 + 2 * 0.75 * 1 / 6.25)


def test_fully_sharded_weights_move_three_times_per_micro_batch() -> None:
    work = replace(WORK, weight_bytes=8e9, gradient_bytes=8e9)
    at = step_seconds(work, StepLayout(data=8.0, zero=3.0, accumulation=2.0), MACHINE)
    assert float(at.exposed_data) == pytest.approx(2 * 3 * 7 / 8 * 8 / 100)


def test_parameter_servers_against_ring_and_tree() -> None:
    work = replace(WORK, gradient_bytes=8e9)
    machine = replace(MACHINE, devices=1.0, network=10e9)

    def exposed(reduction: float, servers: float = 0.0) -> float:
        layout = StepLayout(data=8.0, reduction=reduction, servers=servers)
        return float(step_seconds(work, layout, machine).exposed_data)

    assert exposed(0.0) == pytest.approx(2 * 7 / 8 * 0.8)
    assert exposed(1.0) == pytest.approx(2 * 0.8)
    # Two servers take the pushes of eight workers: 8/2 x 0.8 s each way.
    assert exposed(2.0, 2.0) == pytest.approx(2 * 4 * 0.8)


def test_pipeline_bubble() -> None:
    # Four stages, eight micro-batches: (p - 1)/m of the work again; half of that with two chunks a stage.
    layout = StepLayout(pipeline=4.0, accumulation=8.0)
    machine = replace(MACHINE, network=np.inf)
    at = step_seconds(WORK, layout, machine)
    assert float(at.exposed_pipeline) == pytest.approx(3 / 8 * float(at.compute))
    halved = step_seconds(WORK, replace(layout, interleave=2.0), machine)
    assert float(halved.exposed_pipeline) == pytest.approx(float(at.exposed_pipeline) / 2)


def test_tensor_parallel_all_reduces() -> None:
    at = step_seconds(WORK, StepLayout(tensor=8.0), MACHINE)
    # Two gathers and two scatters of 2,048 x 4,096 x 2 bytes per block and pass (forward, backward).
    assert float(at.exposed_tensor) == pytest.approx(4 * 2 * 32 * 7 / 8 * 2048 * 4096 * 2 / 100e9)
    assert float(at.compute) == pytest.approx(0.03)


def test_host_bound_steps_wait_for_launches() -> None:
    at = step_seconds(WORK, StepLayout(), replace(MACHINE, launch_s=0.1))
    # 32 blocks x 3 passes x 0.1 s = 9.6 s of launches hide 0.24 s of device time.
    assert float(at.total) == pytest.approx(9.6, rel=1e-4)


def test_more_of_anything_good_is_never_slower() -> None:
    work = replace(WORK, weight_bytes=14e9, gradient_bytes=14e9, activation_bytes=20e9, optimizer_bytes=200e9)
    layout = StepLayout(data=16.0, tensor=2.0, zero=3.0, pipeline=2.0, accumulation=4.0)
    for name in ("peak_flops", "bandwidth", "link", "network", "matmul_share", "traffic_share", "overlap_share"):
        better = replace(MACHINE, **{name: np.asarray(getattr(MACHINE, name)) * 1.1 + 0.01})
        assert total(work, layout, better) <= total(work, layout) * (1 + 1e-12), name


def test_arrays_broadcast() -> None:
    layout = StepLayout(data=np.array([[8.0], [16.0]]), micro_batch=np.array([1.0, 2.0, 4.0]))
    assert step_seconds(WORK, layout, MACHINE).total.shape == (2, 3)


def test_what_does_not_occur_costs_the_same_whether_said_by_a_number_or_for_every_step() -> None:
    """One gradient ring of 16 devices on two nodes waits for its own messages, not for those of experts that are not there."""
    work = replace(WORK, gradient_bytes=8e9, weight_bytes=8e9)
    machine = replace(MACHINE, link_latency_s=1e-5, network_latency_s=1e-3)
    layout = StepLayout(data=16.0, zero=0.0)
    alone = step_seconds(work, layout, machine)
    many = step_seconds(
        replace(work, expert_share=np.zeros(3), routed_width=np.zeros(3)), replace(layout, context=np.ones(3)), machine
    )
    # 2 x 7/8 of 8 GB at 100 GB/s and three steps of a tree each way, then half of an eighth each way at 6.25 GB/s and one network latency each.
    assert float(alone.exposed_data) == pytest.approx(2 * (0.07 + 3e-5 + 0.5 * 1e9 / 6.25e9 + 1e-3))
    assert many.total == pytest.approx(np.full(3, float(alone.total)))
