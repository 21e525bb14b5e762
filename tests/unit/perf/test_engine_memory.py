"""How engines fill a device's memory, against start-up logs and the engines' own formulas."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_cases import bad, good, instance, machine, model, one, types

from planner.perf.engines import ENGINES, engine_table, residence_of
from planner.perf.memory import (
    available_gib,
    cache_room_bytes,
    chunk_tokens,
    fragmentation_bytes,
    kv_bytes_per_request,
    reserve_of,
)
from planner.perf.model import Evaluation, Infeasible, RejectionReason
from pricing.model import InterconnectKind

GIB, MIB = 2.0**30, 2.0**20


def test_tensorrt_llm_takes_a_share_of_what_is_left() -> None:
    # NVIDIA/TensorRT-LLM#1400: Llama-2-7B in int8 on an A100 80 GB, engine of 6,683 MiB: 69,524,783,104 bytes of cache, 132,608 tokens.
    spec = model("llama-2-7b")
    assert kv_bytes_per_request(spec, 1, 0, 16) == 69_524_783_104 / 132_608
    a100 = machine("A100 SXM4 80GB")
    activations = 2 * 4096 * (3 * 11008 + 3 * 4096)  # its --max_num_tokens 4096
    fixed = 6683 * MIB + activations + residence_of("tensorrt-llm", "gpu").runtime_gib * GIB
    assert cache_room_bytes(a100, "tensorrt-llm", fixed) == pytest.approx(69_524_783_104, rel=0.01)
    # More than vLLM's 0.9 of everything would leave.
    assert cache_room_bytes(a100, "tensorrt-llm", fixed) > cache_room_bytes(a100, "vllm", fixed)


def test_vllm_s_room_matches_a_start_up_log() -> None:
    # vllm-project/vllm#11251: 15.77 GiB x 0.90 = 14.20; weights 7.51, outside PyTorch 0.39, activations 2.53: 3.76 are left for the cache.
    from dataclasses import replace

    card = replace(machine("V100 SXM2 16GB"), memory_visible_gib=15.77)
    assert available_gib(card, "vllm") == pytest.approx(14.20, abs=0.01)
    assert cache_room_bytes(card, "vllm", (7.51 + 0.39 + 2.53) * GIB) / GIB == pytest.approx(3.76, abs=0.01)


@pytest.mark.parametrize(
    ("name", "hidden", "vocabulary", "buffer_mib"),
    [("llama-3.1-8b", 4096, 128256, 258.5), ("qwen2.5-7b", 3584, 152064, 304.0)],
)
def test_llama_cpp_s_compute_buffer(name: str, hidden: int, vocabulary: int, buffer_mib: float) -> None:
    # Logged for 512 tokens of a step: 258.5 MiB (Llama-3-8B), 304.0 (Qwen2.5-7B): (vocabulary + hidden size) x 512 x 4 bytes.
    assert 512 * (hidden + vocabulary) * 4 / MIB == buffer_mib
    h = machine("L4")
    assert reserve_of(model(name), h, "llama.cpp").activations / MIB == pytest.approx(buffer_mib, abs=0.01)


def test_llama_cpp_keeps_whole_slots_and_leaves_a_gib() -> None:
    # 36 layers x 2 x 256 x 4,096 tokens x 2 bytes = 144 MiB were logged for Qwen2.5-3B; here Llama-3.1-8B: 131,072 B a token.
    spec, h = model("llama-3.1-8b"), machine("L4")
    found = good(
        spec, h, engine="llama.cpp", precision="q4_k_m", input_tokens=1000, output_tokens=100, max_concurrency=4
    )
    lines = {line.name: line for line in found.memory.lines}
    assert lines["kv_cache"].gib == 4 * 1100 * 131_072 / GIB
    assert lines["fragmentation"].gib == 4 * 180 * 131_072 / GIB  # 1,100 tokens in slots of 256 take 1,280
    assert "slots of 256: 1280 tokens each" in lines["fragmentation"].note
    assert found.memory.available_gib_per_accelerator == pytest.approx(22.0 - 1.0)
    weights = found.memory.lines[0].gib * GIB
    assert weights == pytest.approx(4.92e9, rel=0.01)  # Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf: 4.92 GB
    assert found.layout.precision == "gguf-q4_k_m"


def test_llama_cpp_splits_layers_and_decoding_gets_no_faster() -> None:
    spec = model("llama-3.1-70b")
    asked = {
        "engine": "llama.cpp",
        "precision": "q8_0",
        "max_concurrency": 1,
        "input_tokens": 500,
        "output_tokens": 100,
    }
    refused = bad(spec, machine("L40S"), **asked)
    assert refused.reason is RejectionReason.OUT_OF_MEMORY
    two = good(spec, machine("L40S", 2, InterconnectKind.PCIE), **asked)
    four = good(spec, machine("L40S", 4, InterconnectKind.PCIE), **asked, pipeline_parallel=4)
    assert (two.layout.tensor_parallel, two.layout.pipeline_parallel) == (1, 2)
    assert two.performance.tpot_ms is not None
    assert four.performance.tpot_ms is not None
    assert four.performance.tpot_ms.p50 >= two.performance.tpot_ms.p50
    assert four.memory.lines[0].gib < 0.6 * two.memory.lines[0].gib
    assert any("splits layers over 2 devices" in note for note in two.notes)
    assert "has no tensor parallelism" in bad(spec, machine("L40S", 2), **asked, tensor_parallel=2).detail


@pytest.mark.parametrize(
    ("chip", "memory_mib", "chunk", "graph"), [("H100 SXM5 80GB", 81_000, 8192, 256), ("L4", 22_528, 2048, 256)]
)
def test_sglang_s_reserve(chip: str, memory_mib: int, chunk: int, graph: int) -> None:
    # server_args.py: 512 + 1.5 x chunk + 2 x largest graph MiB, at least 10 GiB on more than 60 GiB.
    formula = 512 + 1.5 * chunk + 2 * graph
    formula = max(formula, 10 * 1024) if memory_mib > 60 * 1024 else formula
    h, spec = machine(chip), model("llama-3.1-8b")
    assert chunk_tokens(h, "sglang") == chunk
    assert reserve_of(spec, h, "sglang").total / MIB == pytest.approx(formula, rel=1e-6)
    found = good(spec, h, engine="sglang")
    weights, cache = (x.gib for x in found.memory.lines if x.name in {"weights", "kv_cache"})
    assert weights + cache <= h.memory_visible_gib - formula / 1024 + 1e-9


def test_every_engine_has_its_behaviour_and_shows_it() -> None:
    assert {row.engine for row in engine_table()} == set(ENGINES)
    spec = model("llama-3.1-8b")
    told = {}
    lost = {}
    for engine in ENGINES:
        h = instance("inf2.24xlarge") if engine == "neuron" else machine("L40S")
        found = one(spec, h, engine=engine, precision="q8_0" if engine == "llama.cpp" else None, max_concurrency=4)
        assert isinstance(found, Evaluation), (engine, found)
        names = [line.name for line in found.memory.lines]
        assert names[:4] == ["weights", "kv_cache", "activations", "runtime_reserve"]
        assert found.memory.fits
        assert found.layout.engine == engine
        assert names[4] == "fragmentation"
        told[engine] = (found.memory.available_is, names[5:])
        lost[engine] = round(found.memory.lines[4].gib * GIB / 4 / 131_072 * (1 if engine != "neuron" else 0), 6)
    # Tokens of a request of 2,000 that its cache holds beyond them: half a page of 16 or 32 less half a token, a slot of 256.
    assert lost == {
        "vllm": 7.5,
        "tensorrt-llm": 15.5,
        "sglang": 0,
        "tgi": 0,
        "llama.cpp": 48,
        "neuron": 0,
        "pytorch": 0,
    }
    assert told["vllm"] == ("0.9 of what a process can see", ["graphs"])
    assert told["tensorrt-llm"] == (
        "weights and reserve, and 0.9 of what they leave of what a process can see",
        ["graphs"],
    )
    assert told["llama.cpp"] == ("what a process can see, less 1 GiB left free", [])
    assert told["tgi"][1] == told["sglang"][1] == ["graphs"]
    assert told["pytorch"][1] == told["neuron"][1] == []


def test_vllm_s_graphs_are_what_start_up_logs_say() -> None:
    # "Graph capturing finished in ... took": 0.21 GiB (Llama-3.2-1B, vllm-project/vllm#11349), 0.36 (gpustack/runner#251), 0.65 (#21489).
    logged = (0.21, 0.36, 0.65, 1.3)
    fit = good(model("llama-3.1-8b"), machine("L4"), max_concurrency=8).memory
    (graphs,) = [line for line in fit.lines if line.name == "graphs"]
    assert min(logged) < graphs.gib < max(logged)
    assert graphs.gib == pytest.approx(math.exp(sum(math.log(x) for x in logged) / len(logged)), rel=0.1)


@given(length=st.integers(1, 40_000), page=st.sampled_from([16, 32]))
def test_pages_lose_half_of_one_a_sequence(length: int, page: int) -> None:
    # The mean over lengths of a whole page of ceil(n / page) x page - n.
    spec = model("llama-3.1-8b")
    lost = fragmentation_bytes(spec, length, 0, 16, 1, pp=1, engine="vllm", page_tokens=page)
    mean = sum(-n % page for n in range(length, length + page)) / page
    assert lost == pytest.approx(mean * 131_072, rel=1e-9)


def test_the_room_bounds_what_an_engine_keeps_in_flight() -> None:
    spec = model("llama-3.1-8b")
    for engine, name in (
        ("vllm", "g6e.xlarge"),
        ("tensorrt-llm", "g6e.xlarge"),
        ("sglang", "p5.4xlarge"),
        ("pytorch", "g5.xlarge"),
    ):
        found = good(spec, instance(name), engine=engine)
        most = found.memory.max_concurrency_at_context
        assert most is not None
        assert found.layout.max_concurrency is not None
        assert found.layout.max_concurrency <= most
        full = good(spec, instance(name), engine=engine, max_concurrency=most)
        assert full.memory.fits
        assert isinstance(one(spec, instance(name), engine=engine, max_concurrency=most + 1), Infeasible)


def test_engines_refuse_formats_they_do_not_read() -> None:
    spec, h = model("llama-3.1-8b"), machine("L40S")
    assert "does not read GGUF" in bad(spec, h, engine="tensorrt-llm", precision="q4_k_m").detail
    assert "ask for q4_k_m" in bad(spec, h, engine="llama.cpp", precision="fp8").detail
    assert (
        "cannot keep a KV cache in int4; it can in fp16, bf16, fp8"
        in bad(spec, h, engine="sglang", kv_precision="int4").detail
    )
    assert good(spec, h, precision="q8_0").layout.precision == "gguf-q8_0"  # vLLM loads GGUF files


def test_narrow_caches_hold_more_tokens() -> None:
    # Llama-3.1-8B: 65,536 numbers a token. int4 with a 16-bit scale and offset for each 128: 4.25 bits.
    spec, h = model("llama-3.1-8b"), machine("L40S")
    sizes = {}
    for kv in (None, "fp8", "int8", "int4"):
        found = good(spec, h, kv_precision=kv, max_concurrency=16)
        (cache,) = [line for line in found.memory.lines if line.name == "kv_cache"]
        sizes[kv] = cache.gib * GIB / (16 * 2000) / 65_536 * 8
    assert sizes == {
        None: pytest.approx(16),
        "fp8": pytest.approx(8),
        "int8": pytest.approx(8),
        "int4": pytest.approx(4.25),
    }


def test_no_engine_fills_more_than_there_is() -> None:
    spec = model("qwen2.5-7b")
    seen = 0
    for name in list(types())[::7]:
        for engine in ENGINES:
            h = instance(name)
            found = one(spec, h, engine=engine, precision="q4_k_m" if engine == "llama.cpp" else None)
            if isinstance(found, Evaluation):
                seen += 1
                assert found.memory.required_gib_per_accelerator <= found.memory.available_gib_per_accelerator + 1e-9
                assert found.memory.available_gib_per_accelerator <= h.memory_visible_gib
    assert seen > 40
