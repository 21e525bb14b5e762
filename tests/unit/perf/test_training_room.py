"""The largest micro-batch and the longest sequence, against whole layouts that fit and do not fit by one more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_cases import LLAMA_8B, RESNET_50, machine

from planner.models.spec import ModelSpec
from planner.perf.memory import GIB
from planner.perf.model import Evaluation, TrainingWork
from planner.perf.training import evaluate_training
from planner.perf.training_activations import CHECKPOINTING
from planner.perf.training_memory import MemoryFactors, Split, peak_bytes, peak_terms
from planner.perf.training_room import Room, room_of

H100_NODE = machine("H100 SXM5 80GB", 8)
LLAMA, RESNET = LLAMA_8B, RESNET_50
FACTORS = MemoryFactors(activations=1.1, loss=0.9, fragmentation=0.05, reserve_gib=1.5)


def room(spec: ModelSpec, work: TrainingWork, split: Split, usable_gib: float, host_gib: float = np.inf) -> Room:
    return room_of(
        spec, work, "bf16", terms=peak_terms(spec, work, "bf16", split), split=split, factors=FACTORS, usable_bytes=usable_gib * GIB,
        host_bytes=host_gib * GIB,
    )  # fmt: skip


def test_room_by_hand() -> None:
    """Weights, gradients and states of 8 B parameters over eight ranks: 16 GB. What is left over 1.05 goes to what 2,048 tokens keep."""
    split = Split(data=8.0, stage=3.0, micro_batch=1.0, checkpointing=0.0)
    work = TrainingWork(sequence_length=2048)
    terms = peak_terms(LLAMA, work, "bf16", split)
    state = float(terms.weights + terms.gradients + terms.optimizer)
    assert state == pytest.approx(16 * 8.030e9 / 8, rel=1e-3)
    left = (71.2 - 1.5) * GIB / 1.05 - state
    per_sample = 1.1 * float(terms.activations) + 0.9 * float(
        terms.loss
    )  # the loss is more than a block with gathered weights
    found = room(LLAMA, work, split, 71.2)
    assert found.micro_batch == int(left / per_sample) == 3
    assert found.sequence_tokens == int(2048 * left / per_sample)
    assert found.sequence_tokens_of_one == found.sequence_tokens


@settings(deadline=None, max_examples=60)
@given(
    method=st.sampled_from(["full", "lora", "qlora"]),
    level=st.integers(0, 2),
    stage=st.integers(0, 3),
    split=st.sampled_from([(1, 1), (2, 1), (1, 4), (4, 2)]),
    micro=st.integers(1, 8),
    tokens=st.sampled_from([512, 2048, 8192]),
    usable=st.sampled_from([40.0, 70.0, 160.0]),
    backend=st.sampled_from(["flash", "math"]),
    offload=st.booleans(),
    host=st.sampled_from([20.0, 300.0]),
)
def test_one_more_does_not_fit(
    *, method: str, level: int, stage: int, split: tuple[int, int], micro: int, tokens: int, usable: float, backend: str,
    offload: bool, host: float,
) -> None:  # fmt: skip
    tensor, pipeline = split
    work = TrainingWork(method=method, sequence_length=tokens, attention_backend=backend, activation_offload=offload)

    def at(batch: int) -> Split:
        return Split(
            data=8.0, tensor=float(tensor), pipeline=float(pipeline), stage=float(stage if pipeline == 1 else min(stage, 1)),
            micro_batch=float(batch), micro_batches=8.0, checkpointing=float(level),
        )  # fmt: skip

    def fits(batch: int, length: int) -> bool:
        asked = TrainingWork(
            method=method, sequence_length=length, attention_backend=backend, activation_offload=offload
        )
        terms = peak_terms(LLAMA, asked, "bf16", at(batch))
        return bool(peak_bytes(terms, FACTORS) <= usable * GIB and terms.hosted <= host * GIB)

    found = room(LLAMA, work, at(micro), usable, host)
    most = found.micro_batch or 0
    assert most == 0 or fits(most, tokens)
    assert not fits(most + 1, tokens)
    for batch, longest in ((micro, found.sequence_tokens or 0), (1, found.sequence_tokens_of_one or 0)):
        assert longest == 0 or fits(batch, longest)
        assert longest == LLAMA.max_context or not fits(batch, longest + 1)


def test_answers_have_the_room_of_their_layout() -> None:
    ((found,),) = evaluate_training(LLAMA, [H100_NODE], TrainingWork(sequence_length=2048), [1])
    assert isinstance(found, Evaluation)
    memory, layout = found.memory, found.layout
    assert layout.micro_batch is not None
    assert memory.max_micro_batch is not None
    assert memory.max_micro_batch >= layout.micro_batch
    assert memory.max_sequence_tokens is not None
    assert memory.max_sequence_tokens >= 2048
    assert memory.max_sequence_tokens_of_one is not None
    assert memory.max_sequence_tokens_of_one >= memory.max_sequence_tokens
    assert layout.checkpointing in CHECKPOINTING
    ((image,),) = evaluate_training(RESNET, [H100_NODE], TrainingWork(), [1])
    assert isinstance(image, Evaluation)
    assert image.memory.max_micro_batch is not None
    assert image.memory.max_sequence_tokens is None


def test_what_does_not_fit_has_no_room() -> None:
    found = room(LLAMA, TrainingWork(), Split(data=1.0), 70.0)
    assert found == Room(micro_batch=None, sequence_tokens=None, sequence_tokens_of_one=None)
