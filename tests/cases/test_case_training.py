"""Memory of full training in mixed precision with AdamW: 16 bytes a parameter before sharding."""

from __future__ import annotations

import pytest
from case_machines import A100_40, A100_80, fits, machine, model

from planner.perf.model import TrainingWork
from planner.perf.training import evaluate_training
from planner.perf.training_memory import state_bytes, training_memory

WORK = TrainingWork(method="full", precision="bf16", sequence_length=2048, optimizer="adamw", checkpointing="full")


@pytest.mark.parametrize(
    ("name", "chip", "gpus", "state", "right"),
    [
        ("llama-3.1-70b", A100_80, 8, 1128859303936, False),  # 1,051 GiB of state on 8 x 79
        ("qwen2.5-7b", A100_40, 1, 121849864192, False),  # 113 GiB on one of 39
        ("qwen2.5-7b", A100_40, 8, 121849864192, True),  # 14 GiB each
    ],
)
def test_train_70b_full(name: str, chip: str, gpus: int, *, state: int, right: bool) -> None:
    # 2 (weights) + 2 (gradients) + 4 (fp32 master) + 8 (two fp32 moments). Half of it (54 GB for a 7B) is what a tool printed that forgot the moments' width.
    spec, hardware = model(name), machine(chip, gpus)
    assert state_bytes(spec, WORK, "bf16").total == pytest.approx(state, rel=0.02)
    memory = training_memory(
        spec, WORK, precision="bf16", sharding="zero3", ranks=gpus, micro_batch=1, checkpointing="full", visible_gib=hardware.memory_visible_gib
    )  # fmt: skip
    assert memory.fits is right
    ((outcome,),) = evaluate_training(spec, [hardware], WORK, [1])
    assert fits(outcome) is right
