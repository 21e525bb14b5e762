"""Bytes and FLOPs by hand calculation and from public reports of real runs."""

from __future__ import annotations

import pytest

from planner.models import counting
from planner.models.errors import ModelError
from planner.services.find_model import find_model

GIB = 2**30


def test_kv_of_grouped_queries() -> None:
    spec = find_model("llama-3.1-8b", None)
    assert counting.kv_bytes_per_token(spec) == 2 * 32 * 8 * 128 * 2 == 131072
    assert counting.kv_bytes_per_token(spec) * 32768 / GIB == 4.0


def test_kv_uses_the_explicit_head_dim() -> None:
    assert counting.kv_bytes_per_token(find_model("qwen3-30b-a3b", None)) == 98304  # 2·48·4·128·2, not 64
    assert counting.kv_bytes_per_token(find_model("mistral-nemo-12b", None)) == 163840  # 2·40·8·128·2, not 160


def test_latent_cache_is_replicated() -> None:
    spec = find_model("deepseek-v3", None)
    assert [counting.kv_bytes_per_token(spec, "bf16", tp) for tp in (None, 1, 8)] == [61 * (512 + 64) * 2] * 3


def test_kv_heads_are_split_then_replicated() -> None:
    spec = find_model("qwen2.5-7b", None)  # 4 KV heads
    whole = 57344
    assert [counting.kv_bytes_per_token(spec, "fp16", tp) for tp in (1, 2, 4, 8)] == [
        whole,
        whole // 2,
        whole // 4,
        whole // 4,
    ]
    with pytest.raises(ModelError, match="tensor_parallel"):
        counting.kv_bytes_per_token(spec, "fp16", 0)


def test_int8_weights_do_not_make_an_int8_cache() -> None:
    spec = find_model("7b", None)
    assert counting.kv_bytes_per_token(spec, "fp16") * 3072 / GIB == 0.1640625


def test_capacity_of_a_cache_in_blocks() -> None:
    # logs of a 24 GB card: 2.89 GiB hold 23,648 tokens, 3.81 GiB 31,232, in blocks of 16 (GiB rounded to 0.01 in the logs)
    spec = find_model("8b", None)
    for gib, tokens in ((2.89, 23648), (3.81, 31232)):
        assert counting.max_cached_tokens(spec, gib * GIB) == pytest.approx(tokens, rel=0.005)
    assert counting.max_cached_tokens(find_model("bert-base", None), GIB) is None


def test_windowed_cache_lies_between_its_bounds() -> None:
    spec = find_model("gpt-oss-20b", None)  # 12 full layers, 12 of 128 tokens
    low = counting.windowed_kv_bytes(spec, 8192, "bf16") * 32 / GIB
    high = counting.kv_bytes_per_token(spec, "bf16") * 8192 * 32 / GIB
    assert high == 12.0
    assert low == pytest.approx(12.0 * (8192 + 128) / 2 / 8192)
    assert low == pytest.approx(6.09, rel=0.01)


def test_window_beyond_the_context_saves_nothing() -> None:
    spec = find_model("mistral-7b", None)
    assert counting.windowed_kv_bytes(spec, 4096) == 4096 * 131072
    assert counting.windowed_kv_bytes(spec, 8192) == 4096 * 131072


def test_cross_attention_is_cached_once_per_input_position() -> None:
    whisper, t5 = find_model("whisper-large-v3", None), find_model("flan-t5-xxl", None)
    assert counting.cross_kv_bytes_per_input_token(whisper) == 163840
    assert counting.cross_kv_bytes_per_input_token(t5) == 393216
    assert counting.cross_kv_bytes_per_input_token(find_model("7b", None)) == 0


def test_mamba_state_does_not_grow() -> None:
    spec = find_model("nemotron-h-56b", None)
    # 54 mixers: 256 heads · 64 · 256 state numbers, and 4 inputs of (16384 + 2·8·256) convolved channels
    assert counting.state_bytes_per_sequence(spec) == 54 * (256 * 64 * 256 + (16384 + 2 * 8 * 256) * 4) * 2


def test_weights_in_gib() -> None:
    assert round(counting.weight_bytes(find_model("7b", None)) / GIB, 2) == 14.19
    assert round(counting.weight_bytes(find_model("8b", None)) / GIB, 3) == 14.958
    assert 64 * 2000 * counting.kv_bytes_per_token(find_model("8b", None)) / GIB == 15.625
    assert round(1e9 * 4 / GIB, 2) == 3.73
    billion = find_model(None, 1e9)
    assert counting.weight_bytes(billion, "fp32") / GIB == pytest.approx(3.73, rel=0.002)


def test_all_experts_are_in_memory() -> None:
    assert counting.weight_bytes(find_model("qwen3-30b-a3b", None), "bf16") == 61064245248


def test_mxfp4_checkpoints_as_their_headers_say() -> None:
    assert counting.weight_bytes(find_model("gpt-oss-120b", None)) == 65248815744
    assert counting.weight_bytes(find_model("gpt-oss-20b", None)) == 13761264768


def test_gguf_is_larger_than_its_nominal_width() -> None:
    # published files: Llama 3.1 70B 42.52 GB, 8B 4.92 GB (metadata included)
    assert counting.weight_bytes(find_model("70b", None), "gguf-q4_k_m") / 1e9 == pytest.approx(42.52, rel=0.001)
    assert counting.weight_bytes(find_model("8b", None), "gguf-q4_k_m") / 1e9 == pytest.approx(4.92, rel=0.002)
    assert counting.weight_bytes(find_model("8b", None), "gguf-q8_0") / 1e9 == pytest.approx(8.54, rel=0.002)


def test_int4_keeps_embeddings_and_head_wide() -> None:
    spec = find_model("8b", None)
    tables = 2 * 128256 * 4096
    norms = 65 * 4096
    linear = 8030261248 - tables - norms
    assert counting.weight_bytes(spec, "int4") == linear // 2 + linear // 128 * 2 + (tables + norms) * 2
    assert counting.weight_bytes(spec, "fp8") == linear + (tables + norms) * 2


def test_weight_bytes_by_tensor_sum_to_the_total() -> None:
    for name in ("7b", "mixtral-8x7b", "deepseek-v3", "gemma-3-27b", "whisper-large-v3", "nemotron-h-56b", "sdxl"):
        spec = find_model(name, None)
        for precision in (None, "bf16", "fp8", "int4"):
            total = counting.weight_bytes(spec, precision)
            assert sum(counting.weight_bytes_by_tensor(spec, precision).values()) == total


def test_a_tied_head_is_read_though_it_stores_nothing() -> None:
    spec = find_model("llama-3.2-1b", None)
    read = counting.matmul_bytes_by_class(spec, "bf16")
    assert sum(read.values()) == 2 * (1235814400 - 33 * 2048)  # everything but the norms: the one table is the head


def test_unknown_precision_is_named() -> None:
    with pytest.raises(ModelError, match="bf17"):
        counting.weight_bytes(find_model("7b", None), "bf17")
    with pytest.raises(ModelError, match="fp6"):
        counting.kv_bytes_per_token(find_model("7b", None), "fp6")


def test_experts_touched_by_a_batch() -> None:
    spec = find_model("mixtral-8x7b", None)
    assert counting.active_expert_fraction(spec, 1) == pytest.approx(0.25)
    assert counting.active_expert_fraction(spec, 2) == pytest.approx(1 - 0.75**2)
    assert counting.active_expert_fraction(spec, 64) == pytest.approx(1.0, abs=1e-7)
    assert counting.active_expert_fraction(find_model("7b", None), 1) == 1.0


def test_flops_of_a_token() -> None:
    spec = find_model("8b", None)
    matrices = 8030261248 - 128256 * 4096 - 65 * 4096  # all but the input table and the norms
    attention = 4 * 32 * 4096  # per token seen: two products over 32 heads of 128, in 32 layers
    assert counting.flops_per_token(spec, 0) == 2 * matrices
    assert counting.flops_per_token(spec, 1000) == 2 * matrices + attention * 1000


def test_flops_of_a_prompt() -> None:
    spec = find_model("8b", None)
    head = 128256 * 4096
    matrices = 8030261248 - 2 * head - 65 * 4096
    n = 100
    assert counting.prefill_flops(spec, n) == 2 * matrices * n + 2 * head + 4 * 32 * 4096 * n * (n + 1) / 2


def test_a_window_bounds_the_pairs_of_a_prompt() -> None:
    assert counting.seen_pairs(4, None) == 1 + 2 + 3 + 4
    assert counting.seen_pairs(4, 2) == 1 + 2 + 2 + 2
    assert counting.seen_pairs(2, 4) == 1 + 2


def test_active_experts_decide_the_flops_of_a_mixture() -> None:
    spec = find_model("qwen3-30b-a3b", None)
    assert counting.flops_per_token(spec, 0) / 2 == pytest.approx(3353032704 - 151936 * 2048, rel=0.001)


def test_latent_attention_decodes_over_the_latent() -> None:
    spec = find_model("deepseek-v3", None)
    assert counting.attention_flops_per_token(spec, 1) == 61 * 2 * 128 * (192 + 128)
    assert counting.attention_flops_per_token(spec, 1, absorbed=True) == 61 * 2 * 128 * (576 + 512)


def test_an_encoder_decoder_reads_the_prompt_with_its_encoder() -> None:
    spec = find_model("t5-base", None)
    layer = 4 * 768 * 768 + 2 * 768 * 3072
    keys_and_values = 12 * 2 * 768 * 768
    n = 10
    assert counting.prefill_flops(spec, n) == 2 * (12 * layer + keys_and_values) * n + 12 * 4 * 768 * n * n


def test_an_int4_checkpoint_with_wide_attention() -> None:
    # published size of the checkpoint: 594 GB; experts 60·384·3·7168·2048 numbers at 4 + 16/32 bits, the rest 16 bits
    spec = find_model("kimi-k2-thinking", None)
    experts = 60 * 384 * 3 * 7168 * 2048
    assert counting.weight_bytes(spec) == experts * 9 // 16 + (1026408232448 - experts) * 2
    assert counting.weight_bytes(spec) / 1e9 == pytest.approx(594, rel=0.001)


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("glm-5", 744e9, 40e9),
        ("qwen3.5-397b-a17b", 397e9, 17e9),
        ("qwen3-next-80b-a3b", 80e9, 3e9),
        ("glm-4.5-air", 106e9, 12e9),
    ],
)
def test_sizes_in_the_names_of_new_models(name: str, total: float, active: float) -> None:
    spec = find_model(name, None)
    assert spec.parameters_total == pytest.approx(total, rel=0.01)
    in_and_out = 2 * spec.vocab_size * spec.hidden_size  # names leave the tables out of the active part
    assert active * 0.95 <= spec.parameters_active <= active * 1.1 + in_and_out


def test_a_sparse_indexer_caches_its_own_key() -> None:
    spec = find_model("glm-5", None)
    assert counting.kv_bytes_per_token(spec) == 78 * (512 + 64 + 128) * 2


def test_delta_networks_keep_a_matrix_per_head() -> None:
    spec = find_model("qwen3-next", None)
    # 36 of 48 layers: 32 value heads of 128 x 128, and 4 inputs of 2·16·128 + 32·128 channels
    assert counting.state_bytes_per_sequence(spec) == 36 * (32 * 128 * 128 + (2 * 16 * 128 + 32 * 128) * 4) * 2
    assert counting.kv_bytes_per_token(spec) == 2 * 12 * 2 * 256 * 2
