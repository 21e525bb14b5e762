"""Memory of training against hand sums and against peaks that others published."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_cases import LLAMA_3B, LLAMA_8B, LLAMA_70B, MIXTRAL, MPT_13B, QWEN1_7B, QWEN_7B

from planner.perf.model import TrainingWork
from planner.perf.training_memory import (
    SHARDING,
    activation_bytes,
    optimizer_bytes_per_parameter,
    shares,
    state_bytes,
    training_memory,
)
from planner.perf.training_work import adapter_parameters, nf4_weight_bytes

GIB = 2**30
GB_PER_GIB = 1.073741824


def test_adamw_state_is_16_bytes_a_parameter() -> None:
    # 2 (weights) + 2 (gradients) + 4 (fp32 master) + 8 (two fp32 moments); parameters of the published checkpoints.
    assert (
        state_bytes(LLAMA_70B, TrainingWork(), "bf16").total == pytest.approx(16 * 70_553_706_496) == 1_128_859_303_936
    )
    assert state_bytes(QWEN_7B, TrainingWork(), "bf16").total == pytest.approx(16 * 7_615_616_512) == 121_849_864_192
    assert state_bytes(QWEN_7B, TrainingWork(), "fp32").total == pytest.approx(16 * 7_615_616_512)  # 4 + 4 + 8


@pytest.mark.parametrize(
    ("optimizer", "precision", "master", "expected"),
    [
        ("adamw", "bf16", True, 12),
        ("adamw", "fp32", True, 8),
        ("adamw_8bit", "bf16", True, 6),
        ("adamw", "bf16", False, 4),
        ("adamw_8bit", "bf16", False, 2),
    ],
)
def test_optimizer_bytes(optimizer: str, precision: str, master: bool, expected: float) -> None:
    assert optimizer_bytes_per_parameter(optimizer, precision, master_weights=master) == expected


def fit(spec, work, *, ranks=1, sharding="ddp", micro_batch=1, checkpointing="full", visible=79.1, master=True):
    return training_memory(
        spec,
        work,
        precision="bf16",
        sharding=sharding,
        ranks=ranks,
        micro_batch=micro_batch,
        checkpointing=checkpointing,
        visible_gib=visible,
        master_weights=master,
    )


@pytest.mark.parametrize(
    ("spec", "visible", "ranks", "fits"),
    [(LLAMA_70B, 79.1, 8, False), (QWEN_7B, 39.4, 1, False), (QWEN_7B, 39.4, 8, True)],
)
def test_full_training_fits_where_it_does(spec, visible, ranks, fits) -> None:
    work = TrainingWork(sequence_length=2048)
    assert fit(spec, work, ranks=ranks, sharding="zero3", visible=visible).fits is fits


def test_zero_stages_shard_what_the_paper_says() -> None:
    # Rajbhandari et al. 2020, figure 1: 7.5e9 parameters, 64 ranks: 120, 31.4, 16.6 and 1.9 GB.
    psi, ranks = 7.5e9, np.array(64.0)
    total = []
    for stage in SHARDING:
        w, g, o = shares(stage, ranks)
        total.append(float(2 * psi * w + 2 * psi * g + 12 * psi * o) / 1e9)
    assert total == pytest.approx([120.0, 31.4, 16.6, 1.9], abs=0.05)


def test_activations_follow_korthikanti() -> None:
    # GPT blocks (I = 4 h, plain MLP): 34 s b h bytes per layer with dropout; we count no dropout masks (2 s b h).
    s, h, layers = 2048, 5120, 40
    kept = activation_bytes(MPT_13B, TrainingWork(sequence_length=s), "bf16")
    assert kept.none == pytest.approx((34 - 2) * s * h * layers)
    assert kept.full == pytest.approx(2 * s * h * layers)
    assert kept.logits == pytest.approx(12 * s * 50368)


def test_expert_activations_count_the_experts_of_a_token() -> None:
    # Mixtral: 4 h + 2 x (4,096 + 1,024) for attention, 4 x 2 x 14,336 for two gated experts, 2 bytes each.
    kept = activation_bytes(MIXTRAL, TrainingWork(sequence_length=1), "bf16")
    assert kept.none == pytest.approx(2 * 32 * (4 * 4096 + 2 * (4096 + 1024) + 4 * 2 * 14336))


def test_adapters_by_hand() -> None:
    # Llama-3.1-8B, rank 16: q and o 2 x (4096 + 4096), k and v 2 x (4096 + 1024), three MLP matrices of 4096 + 14336.
    per_layer = 16 * (2 * 8192 + 2 * 5120 + 3 * 18432)
    assert adapter_parameters(LLAMA_8B, 16) == 32 * per_layer == 41_943_040


def test_nf4_base_by_hand() -> None:
    # 4 bits + an 8-bit scale per 64 + an fp32 scale per 256 blocks = 4.127 bits; embedding and head stay 16-bit.
    wide = 2 * 128256 * 4096 + 65 * 4096
    narrow = 8_030_261_248 - wide
    assert nf4_weight_bytes(LLAMA_8B) == pytest.approx(narrow * 4.126953125 / 8 + 2 * wide)


# Published peaks, GiB. Qwen README (A100 80 GB, batch 1, checkpointing; "G" read as GB), 2023-11; torchtune README 2025;
# torchtitan benchmarks 2024-12; litgpt config hub 2024 ("bf16-true": no master weights).
PUBLISHED = [
    ("Qwen-7B LoRA 512", QWEN1_7B, "lora", 512, 1, 1, "ddp", "full", 20.4 / GB_PER_GIB, 0.15),
    ("Qwen-7B LoRA 2k", QWEN1_7B, "lora", 2048, 1, 1, "ddp", "full", 23.8 / GB_PER_GIB, 0.15),
    ("Qwen-7B LoRA 8k", QWEN1_7B, "lora", 8192, 1, 1, "ddp", "full", 36.6 / GB_PER_GIB, 0.15),
    ("Qwen-7B QLoRA 512", QWEN1_7B, "qlora", 512, 1, 1, "ddp", "full", 11.5 / GB_PER_GIB, 0.15),
    ("Qwen-7B QLoRA 2k", QWEN1_7B, "qlora", 2048, 1, 1, "ddp", "full", 13.9 / GB_PER_GIB, 0.15),
    ("Qwen-7B QLoRA 8k", QWEN1_7B, "qlora", 8192, 1, 1, "ddp", "full", 23.5 / GB_PER_GIB, 0.25),
    ("Qwen-7B full on two", QWEN1_7B, "full", 512, 1, 2, "zero3", "full", 74.0 / GB_PER_GIB, 0.15),
    ("Llama-3.1-8B FSDP 8", LLAMA_8B, "full", 8192, 2, 8, "zero3", "selective", 82.4, 0.15),
    ("Llama-3.1-8B FSDP 128", LLAMA_8B, "full", 8192, 2, 128, "zero3", "selective", 67.0, 0.15),
    ("Llama-3.1-8B FSDP 32k", LLAMA_8B, "full", 32768, 1, 8, "zero3", "full", 83.9, 0.15),
]


@pytest.mark.parametrize("case", PUBLISHED, ids=[c[0] for c in PUBLISHED])
def test_published_peaks(case) -> None:
    _, spec, method, sequence, micro_batch, ranks, sharding, checkpointing, measured, tolerance = case
    work = TrainingWork(method=method, sequence_length=sequence)
    found = fit(spec, work, ranks=ranks, sharding=sharding, micro_batch=micro_batch, checkpointing=checkpointing)
    assert found.required_gib_per_accelerator == pytest.approx(measured, rel=tolerance)


def test_published_peaks_without_master_weights() -> None:
    # torchtune README: Llama-3.2-3B full fine-tune in pure bf16, 2 x 4,096 tokens: 60.0 GiB packed.
    work = TrainingWork(sequence_length=4096)
    eager = fit(LLAMA_3B, work, micro_batch=2, checkpointing="none", master=False)
    assert eager.required_gib_per_accelerator == pytest.approx(60.0, rel=0.1)
    # With the loss in chunks (no logits kept): 42.9 none, 24.9 with checkpointing, 17.6 with 8-bit Adam as well.
    for checkpointing, optimizer, measured in (
        ("none", "adamw", 42.9),
        ("full", "adamw", 24.9),
        ("full", "adamw_8bit", 17.6),
    ):
        found = fit(
            LLAMA_3B,
            TrainingWork(sequence_length=4096, optimizer=optimizer),
            micro_batch=2,
            checkpointing=checkpointing,
            master=False,
        )
        without_logits = found.required_gib_per_accelerator - next(x.gib for x in found.lines if x.name == "logits")
        assert without_logits == pytest.approx(measured, rel=0.3)
    # litgpt, A10G, 512 tokens: Llama-3-8B LoRA 19.73 GB.
    lora = fit(LLAMA_8B, TrainingWork(method="lora", sequence_length=512), master=False, visible=22.0)
    assert lora.required_gib_per_accelerator == pytest.approx(19.73 / GB_PER_GIB, rel=0.15)


@given(
    method=st.sampled_from(["full", "lora", "qlora"]),
    sharding=st.sampled_from(SHARDING),
    ranks=st.integers(1, 512),
    micro_batch=st.integers(1, 64),
    sequence=st.sampled_from([128, 2048, 8192]),
)
def test_order_of_memory(method: str, sharding: str, ranks: int, micro_batch: int, sequence: int) -> None:
    work = TrainingWork(method=method, sequence_length=sequence)
    here = fit(LLAMA_8B, work, ranks=ranks, sharding=sharding, micro_batch=micro_batch, checkpointing="none")
    saved = fit(LLAMA_8B, work, ranks=ranks, sharding=sharding, micro_batch=micro_batch, checkpointing="full")
    assert saved.required_gib_per_accelerator < here.required_gib_per_accelerator
    assert all(line.gib >= 0 for line in here.lines)
    more = fit(LLAMA_8B, work, ranks=ranks + 1, sharding=sharding, micro_batch=micro_batch, checkpointing="none")
    if ranks > 1:  # the first second rank brings ZeRO-3's gathered layers
        assert more.required_gib_per_accelerator <= here.required_gib_per_accelerator + 1e-9


def test_methods_need_less_and_less() -> None:
    need = [fit(LLAMA_8B, TrainingWork(method=m)).required_gib_per_accelerator for m in ("full", "lora", "qlora")]
    assert need[0] > 4 * need[1] > 4 * need[2]
