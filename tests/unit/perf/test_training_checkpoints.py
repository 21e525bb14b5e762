"""Size of training checkpoints and the time of writing them, by hand."""

import pytest
from training_cases import LLAMA_8B

from planner.perf.training_checkpoints import Writer, checkpoint_bytes, write_time
from planner.perf.training_work import adapter_parameters

N = 8_030_261_248
P5 = Writer(devices=8.0, local_nvme_gb=30_400.0, network_gbps=3200.0)


@pytest.mark.parametrize(
    ("optimizer", "each"), [("adamw", 12.0), ("adamw_8bit", 6.0), ("sgd", 8.0), ("adafactor", 4 + 8 / 4096)]
)
def test_bytes_of_a_checkpoint(optimizer, each) -> None:
    assert checkpoint_bytes(LLAMA_8B, method="full", optimizer=optimizer, lora_rank=16) == pytest.approx(each * N)
    adapters = adapter_parameters(LLAMA_8B, 16)
    assert checkpoint_bytes(LLAMA_8B, method="lora", optimizer=optimizer, lora_rank=16) == pytest.approx(
        each * adapters
    )


def time_of(storage, *, writers=2, asynchronous=False, writer=P5):
    return write_time(
        96e9, storage=storage, writer=writer, writers=writers, asynchronous=asynchronous, usual_gb_per_s=1.0
    )


@pytest.mark.parametrize(
    ("storage", "seconds"),
    [
        (None, 48.0),  # 48 GB each at the assumed 1 GB/s
        ("ebs", 48 / 1.049),
        ("nvme", 48 / 30.4),  # 1 GB/s for each TB
        ("fsx", 96 / 12),  # 12 GB/s for all writers together
        ("s3", 48 / (400 * 0.64)),
    ],
)
def test_seconds_of_a_write(storage, seconds) -> None:
    found = time_of(storage)
    assert found.durable_s == pytest.approx(seconds)
    assert found.blocking_s == found.durable_s


def test_in_the_background_training_waits_for_the_copy() -> None:
    # 48 GB over eight devices at 25 GB/s each: 0.24 s; a write that is faster than the copy is all there is to wait for.
    found = time_of(None, asynchronous=True)
    assert found.durable_s == pytest.approx(48.0)
    assert found.blocking_s == pytest.approx(0.24)
    assert time_of("s3", asynchronous=True).blocking_s == pytest.approx(48 / 256)


def test_what_is_not_known_takes_the_assumed_rate() -> None:
    bare = Writer(devices=1.0, local_nvme_gb=None, network_gbps=None)
    assert time_of("nvme", writer=bare).durable_s == time_of("s3", writer=bare).durable_s == pytest.approx(48.0)
