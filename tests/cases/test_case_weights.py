"""Size of the weights, and what fits: weights + cache + activations + reserve within 0.9 of what a process can see."""

from __future__ import annotations

import pytest
from case_machines import A10G, A100_40, H100, L40S, T4, fits, machine, model, serve

from planner.models.counting import weight_bytes
from planner.perf.model import Evaluation


@pytest.mark.parametrize(("name", "right"), [("gpt-oss-120b", 65248815744), ("gpt-oss-20b", 13761264768)])
def test_w_mxfp4(name: str, right: int) -> None:
    # 4 bits and an 8-bit scale per 32 numbers for expert matrices alone; attention, router, embeddings and biases stay at 16. Right value: headers of the checkpoint.
    assert weight_bytes(model(name)) == pytest.approx(right, rel=0.02)


def test_w_4bit_70b() -> None:
    # The published q4_k_m file has 42.52 GB, not the 35.3 GB of a bare 4 bits: too much for a 40 GB card.
    spec = model("llama-3.1-70b")
    assert 41.0 <= weight_bytes(spec, "gguf-q4_k_m") / 1e9 <= 44.0
    for chip, right in ((A100_40, False), (H100, True)):
        outcome = serve(spec, machine(chip), context=4096, precision="gguf-q4_k_m")
        assert fits(outcome) is right
        if isinstance(outcome, Evaluation):
            (weights,) = [line for line in outcome.memory.lines if line.name == "weights"]
            assert 41.0 <= weights.gib * 1.073741824 <= 44.0


def test_w_moe_total() -> None:
    # Routing picks experts token by token, so all of them are in memory, not the 3B that one token uses.
    assert weight_bytes(model("qwen3-30b-a3b"), "bf16") == pytest.approx(61064245248, rel=0.01)


@pytest.mark.parametrize(("chip", "count", "right"), [(T4, 1, False), (A10G, 1, False), (L40S, 1, False), (H100, 1, True), (A10G, 4, True)])  # fmt: skip
def test_w_moe_total_fits(chip: str, count: int, *, right: bool) -> None:
    assert fits(serve(model("qwen3-30b-a3b"), machine(chip, count), context=8192, precision="bf16")) is right
