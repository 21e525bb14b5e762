"""Memory of training against hand sums and against peaks that others published."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_cases import LLAMA_3B, LLAMA_8B, LLAMA_70B, MIXTRAL, MPT_13B, QWEN1_7B, QWEN_7B

from planner.perf.model import TrainingWork
from planner.perf.training_activations import activations_of, kept_by
from planner.perf.training_memory import (
    MEMORY_SLOTS,
    SHARDING,
    Keeping,
    MemoryFactors,
    Split,
    optimizer_bytes_per_parameter,
    peak_bytes,
    peak_gib,
    peak_terms,
    stacked,
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
        ("sgd", "bf16", True, 8),  # fp32 copy and one fp32 moment
        ("sgd", "fp32", True, 4),
        ("adafactor", "bf16", True, 4 + 8 / 4096),  # a row and a column of fp32 sums a matrix of width 4,096
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
    # Rajbhandari et al. 2020, figure 1: 7.5e9 parameters, 64 ranks: 120, 31.4, 16.6 and 1.9 GB. Llama-3.1-8B by its own count.
    n, ranks = 8_030_261_248, 64
    total = []
    for stage in range(4):
        t = peak_terms(LLAMA_8B, TrainingWork(), "bf16", Split(data=float(ranks), stage=float(stage)))
        total.append(float(t.weights + t.gradients + t.optimizer) / n * 7.5e9 / 1e9)
    assert total == pytest.approx([120.0, 31.4, 16.6, 1.9], abs=0.05)


def kept(spec, work, level=0, **split) -> object:
    return activations_of(
        kept_by(spec, work), work, "bf16", micro_batch=np.array(1.0), checkpointing=np.array(level), **split
    )


def test_activations_follow_korthikanti() -> None:
    # GPT blocks (I = 4 h, plain MLP): 34 s b h bytes per layer with dropout; we count no dropout masks (2 s b h).
    s, h, layers = 2048, 5120, 40
    work = TrainingWork(sequence_length=s)
    none = kept(MPT_13B, work)
    assert float(none.kept) == pytest.approx((34 - 2) * s * h * layers)
    assert float(none.loss) == pytest.approx(12 * s * 50368)
    full = kept(MPT_13B, work, 2)
    assert float(full.kept) == pytest.approx(2 * s * h * layers)
    assert float(full.block) == pytest.approx((34 - 2) * s * h)
    # Tensor and sequence parallelism divide all of it (their equation 4).
    assert float(kept(MPT_13B, work, tensor=8.0).kept) == pytest.approx((34 - 2) * s * h * layers / 8)
    # Without sequence parallelism norms and their inputs stay whole: 4 h of 16 h numbers (their equation 2: 10 s b h, less dropout).
    whole = kept(MPT_13B, work, tensor=8.0, sequence_parallel=False)
    assert float(whole.kept) == pytest.approx(2 * s * h * layers * (4 + 12 / 8))


def test_math_attention_keeps_its_scores() -> None:
    # Korthikanti et al. 2022, equation 1: 5 a s^2 b bytes a layer beside 34 s b h; selective recomputation drops them.
    s, layers, heads = 2048, 40, 40
    math = TrainingWork(sequence_length=s, attention_backend="math")
    flash = kept(MPT_13B, TrainingWork(sequence_length=s))
    assert float(kept(MPT_13B, math).kept) == pytest.approx(float(flash.kept) + 5 * heads * s * s * layers)
    assert float(kept(MPT_13B, math, 1).kept) == pytest.approx(float(flash.kept))
    assert float(kept(MPT_13B, math, tensor=8.0).kept) == pytest.approx(
        float(flash.kept) / 8 + 5 * heads * s * s * layers / 8
    )


def test_pipeline_keeps_its_micro_batches() -> None:
    # 1F1B: the first of p stages holds p micro-batches of L / p blocks, so as much as without a pipeline; fewer where a step has fewer.
    work = TrainingWork(sequence_length=2048)
    alone = float(kept(MPT_13B, work).kept)
    deep = kept(MPT_13B, work, pipeline=4.0, micro_batches=32.0)
    assert float(deep.kept) == pytest.approx(alone)
    assert float(deep.loss) == 0.0  # the last stage has one micro-batch and the loss, and is lighter
    assert float(kept(MPT_13B, work, pipeline=4.0, micro_batches=2.0).kept) == pytest.approx(alone / 2)
    # Weights: 40 blocks over 8 stages are 5 each; the embedding on one of them.
    t = peak_terms(MPT_13B, work, "bf16", Split(pipeline=8.0, tensor=2.0))
    blocks = MPT_13B.parameters_total - 50368 * 5120
    assert float(t.weights) == pytest.approx(2 * (blocks / 8 + 50368 * 5120) / 2, rel=0.02)


def test_offloaded_activations_wait_in_host_memory() -> None:
    s, h, layers = 2048, 5120, 40
    off = kept(MPT_13B, TrainingWork(sequence_length=s, activation_offload=True))
    assert float(off.moved) == float(off.hosted) == pytest.approx(32 * s * h * layers)
    assert float(off.kept) == pytest.approx(2 * 32 * s * h)  # two blocks at once
    assert float(kept(MPT_13B, TrainingWork(sequence_length=s)).moved) == 0.0


@pytest.mark.parametrize(("dtype", "width"), [("fp32", 4.0), ("bf16", 2.0), ("fp8", 1.0), (None, 2.0)])
def test_activation_dtype(dtype, width) -> None:
    work = TrainingWork(sequence_length=1024, activation_dtype=dtype)
    assert float(kept(MPT_13B, work).kept) == pytest.approx(width * 16 * 1024 * 5120 * 40)


def test_expert_activations_count_the_experts_of_a_token() -> None:
    # Mixtral: 4 h + 2 x (4,096 + 1,024) for attention, 4 x 2 x 14,336 for two gated experts, 2 bytes each.
    one = kept(MIXTRAL, TrainingWork(sequence_length=1))
    assert float(one.kept) == pytest.approx(2 * 32 * (4 * 4096 + 2 * (4096 + 1024) + 4 * 2 * 14336))


def test_experts_are_dealt_out() -> None:
    # 8 experts over 8 of 64 ranks: one each, 3 x 4,096 x 14,336 x 32 parameters; everything else is whole without ZeRO.
    experts = 32 * 8 * 3 * 4096 * 14336
    t = peak_terms(MIXTRAL, TrainingWork(), "bf16", Split(data=64.0, expert=8.0))
    assert float(t.weights) == pytest.approx(2 * (MIXTRAL.parameters_total - experts + experts / 8))
    sharded = peak_terms(MIXTRAL, TrainingWork(), "bf16", Split(data=64.0, expert=8.0, stage=3.0))
    assert float(sharded.weights) == pytest.approx(2 * MIXTRAL.parameters_total / 64)


def test_peak_by_hand() -> None:
    # (state + f_a kept + max(f_l loss, f_a block + working)) x (1 + fragmentation) + reserve
    t = peak_terms(LLAMA_8B, TrainingWork(sequence_length=2048), "bf16", Split(checkpointing=2.0))
    state = 16 * 8_030_261_248
    inputs = 2 * 2048 * 4096 * 32 * 1.2
    loss = 12 * 2048 * 128256 * 1.5
    block = 2 * 2048 * (4 * 4096 + 2 * (4096 + 1024) + 4 * 14336) * 1.2
    factors = MemoryFactors(activations=1.2, loss=1.5, fragmentation=0.05, reserve_gib=2.0)
    assert loss > block
    assert float(peak_bytes(t, factors)) == pytest.approx((state + inputs + loss) * 1.05 + 2 * GIB)
    inside = peak_terms(
        LLAMA_8B, TrainingWork(sequence_length=2048), "bf16", Split(), keeping=Keeping(outside_allocator=False)
    )
    free = MemoryFactors(activations=1.0, loss=1.0, fragmentation=0.0, reserve_gib=2.0)
    assert float(peak_bytes(inside, free)) < float(peak_bytes(t, free)) + float(inside.activations)
    # The fitted columns are those of the slots, in their order.
    assert [slot.name for slot in MEMORY_SLOTS] == [
        "activation_memory",
        "loss_memory",
        "fragmentation",
        "reserve_memory",
    ]
    values = np.array([[1.2, 1.5, 0.05, 2.0], [1.0, 1.0, 0.0, 2.0]])
    both = peak_gib(stacked([t, t]), values)
    assert both[0] == pytest.approx(((state + inputs + loss) * 1.05) / GIB + 2.0)
    assert both[0] > both[1]


def test_optimizer_in_the_backward_pass_keeps_no_gradients() -> None:
    t = peak_terms(LLAMA_3B, TrainingWork(), "bf16", Split(), keeping=Keeping(gradients_kept=False))
    assert float(t.gradients) == 0.0
    assert float(t.weights) == 2 * LLAMA_3B.parameters_total


def test_adapters_by_hand() -> None:
    # Llama-3.1-8B, rank 16: q and o 2 x (4096 + 4096), k and v 2 x (4096 + 1024), three MLP matrices of 4096 + 14336.
    per_layer = 16 * (2 * 8192 + 2 * 5120 + 3 * 18432)
    assert adapter_parameters(LLAMA_8B, 16) == 32 * per_layer == 41_943_040


def test_nf4_base_by_hand() -> None:
    # 4 bits + an 8-bit scale per 64 + an fp32 scale per 256 blocks = 4.127 bits; embedding and head stay 16-bit.
    wide = 2 * 128256 * 4096 + 65 * 4096
    narrow = 8_030_261_248 - wide
    assert nf4_weight_bytes(LLAMA_8B) == pytest.approx(narrow * 4.126953125 / 8 + 2 * wide)


# Published peaks, GiB. Qwen README (A100 80 GB, batch 1, checkpointing; "G" read as GB), 2023-11; torchtitan benchmarks 2024-12.
PUBLISHED = [
    ("Qwen-7B LoRA 512", QWEN1_7B, "lora", 512, 1, 1, "ddp", "full", 20.4 / GB_PER_GIB, 0.15),
    ("Qwen-7B LoRA 2k", QWEN1_7B, "lora", 2048, 1, 1, "ddp", "full", 23.8 / GB_PER_GIB, 0.15),
    ("Qwen-7B LoRA 8k", QWEN1_7B, "lora", 8192, 1, 1, "ddp", "full", 36.6 / GB_PER_GIB, 0.15),
    ("Qwen-7B QLoRA 512", QWEN1_7B, "qlora", 512, 1, 1, "ddp", "full", 11.5 / GB_PER_GIB, 0.25),
    ("Qwen-7B QLoRA 2k", QWEN1_7B, "qlora", 2048, 1, 1, "ddp", "full", 13.9 / GB_PER_GIB, 0.25),
    ("Qwen-7B full on two", QWEN1_7B, "full", 512, 1, 2, "zero3", "full", 74.0 / GB_PER_GIB, 0.15),
    ("Llama-3.1-8B FSDP 8", LLAMA_8B, "full", 8192, 2, 8, "zero3", "selective", 82.4, 0.15),
    ("Llama-3.1-8B FSDP 128", LLAMA_8B, "full", 8192, 2, 128, "zero3", "selective", 67.0, 0.15),
    ("Llama-3.1-8B FSDP 32k", LLAMA_8B, "full", 32768, 1, 8, "zero3", "full", 83.9, 0.2),
]


@pytest.mark.parametrize("case", PUBLISHED, ids=[c[0] for c in PUBLISHED])
def test_published_peaks(case) -> None:
    _, spec, method, sequence, micro_batch, ranks, sharding, checkpointing, measured, tolerance = case
    work = TrainingWork(method=method, sequence_length=sequence)
    found = fit(spec, work, ranks=ranks, sharding=sharding, micro_batch=micro_batch, checkpointing=checkpointing)
    assert found.required_gib_per_accelerator == pytest.approx(measured, rel=tolerance)


@pytest.mark.parametrize(
    ("level", "strategy", "kept_gradients", "measured"),
    [
        (0, {}, True, 60.0),
        (0, {"chunked_loss": True}, True, 42.9),
        (2, {"chunked_loss": True}, True, 24.9),
        (2, {"chunked_loss": True}, False, 23.1),
        (2, {"chunked_loss": True, "activation_offload": True}, False, 21.8),
    ],
)
def test_published_memory_strategies(level, strategy, kept_gradients, measured) -> None:
    # torchtune README: Llama-3.2-3B, full fine-tune in pure bf16, 2 x 4,096 tokens on one A100; GiB that the allocator held.
    work = TrainingWork(sequence_length=4096, **strategy)
    keeping = Keeping(master_weights=False, gradients_kept=kept_gradients, outside_allocator=False)
    t = peak_terms(LLAMA_3B, work, "bf16", Split(micro_batch=2.0, checkpointing=float(level)), keeping=keeping)
    plain = MemoryFactors(activations=1.0, loss=1.0, fragmentation=0.0, reserve_gib=0.0)
    assert float(peak_bytes(t, plain)) / GIB == pytest.approx(measured, rel=0.2)


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
