"""Size of the KV cache: bytes per token = 2 x layers x KV heads x head size x bytes per element, whole model unless said."""

from __future__ import annotations

import pytest
from case_machines import GIB, H100, fits, machine, model, serve

from planner.models.counting import kv_bytes_per_token, max_cached_tokens, windowed_kv_bytes
from planner.perf.model import Evaluation


def test_kv_gqa_8b() -> None:
    # Grouped queries: rows exist per KV head (8), not per query head (32, four times too much).
    spec = model("llama-3.1-8b")
    assert kv_bytes_per_token(spec, "fp16") == 2 * 32 * 8 * 128 * 2 == 131072
    assert kv_bytes_per_token(spec, "fp16") * 32768 / GIB == 4.0


@pytest.mark.parametrize(
    ("name", "layers", "kv_heads", "right"), [("qwen3-30b-a3b", 48, 4, 98304), ("mistral-nemo-12b", 40, 8, 163840)]
)
def test_kv_headdim(name: str, layers: int, kv_heads: int, right: int) -> None:
    # The config states a head size of 128; hidden size / heads would be 64 and 160.
    assert kv_bytes_per_token(model(name), "fp16") == 2 * layers * kv_heads * 128 * 2 == right


def test_kv_mla_deepseek() -> None:
    # One latent of 512 + 64 numbers a layer is cached, not K and V of 128 heads (57 times more), and each GPU of a group holds all of it.
    spec = model("deepseek-v3")
    assert kv_bytes_per_token(spec, "bf16") == 61 * (512 + 64) * 2 == 70272
    assert [kv_bytes_per_token(spec, "bf16", tp) for tp in (1, 8)] == [70272, 70272]


def test_kv_bits_bytes() -> None:
    # Weights in int8 leave the cache at 16 bits, and a byte is a byte: 28 layers x 4 KV heads x 128. A server showed about 0.16 GB a request.
    spec = model("qwen2.5-7b")
    assert kv_bytes_per_token(spec, "fp16") == 2 * 28 * 4 * 128 * 2 == 57344
    served = serve(spec, machine(H100), context=3072, precision="int8")
    assert isinstance(served, Evaluation)
    (cache,) = [line for line in served.memory.lines if line.name == "kv_cache"]
    assert served.layout.precision == "int8"
    assert cache.gib == pytest.approx(0.1640625, rel=1e-6)


@pytest.mark.parametrize(("gib", "tokens", "context", "enough"), [(2.89, 23648, 29000, False), (3.81, 31232, 20000, True)])  # fmt: skip
def test_kv_capacity_3090(gib: float, tokens: int, context: int, *, enough: bool) -> None:
    # Room for the cache and tokens in it as an engine logged them for an 8B model in bf16, blocks of 16 tokens (GiB rounded in the log).
    spec = model("llama-3.1-8b")
    cached = max_cached_tokens(spec, gib * GIB, "bf16", 1, 16)
    assert cached == pytest.approx(tokens, rel=0.005)
    assert (cached >= context) is enough


def test_kv_swa_bounds() -> None:
    # Half of 24 layers look back 128 tokens. Some engines keep only those, others reserve the whole length: 32 x 8,192 x 49,152 B = 12 GiB.
    spec = model("gpt-oss-20b")
    low = 32 * windowed_kv_bytes(spec, 8192, "bf16") / GIB
    high = 32 * 8192 * kv_bytes_per_token(spec, "bf16") / GIB
    assert low == pytest.approx(6.09, rel=0.01)
    assert high == 12.0
    served = serve(spec, machine(H100), context=8192, concurrent=32)
    assert isinstance(served, Evaluation)
    assert fits(served)
    (cache,) = [line for line in served.memory.lines if line.name == "kv_cache"]
    assert low <= cache.gib <= high
    assert "windowed layers counted in full" in cache.note
