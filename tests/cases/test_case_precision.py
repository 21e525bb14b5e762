"""What a chip computes, what it only stores, and what is said when something else is used."""

from __future__ import annotations

import pytest
from case_machines import A10G, A100_40, GIB, H100, L4, L40S, T4, V100, fits, machine, model, serve

from planner.models.counting import weight_bytes
from planner.perf.model import Evaluation
from planner.perf.precision import Format, is_native, is_weight_only, resolve


def test_dtype_t4_bf16() -> None:
    # bf16 needs capability 8.0, a T4 has 7.5. In fp16: 12.55 GiB + 4,096 x 524,288 B = 14.55 GiB, against 14.6 visible.
    spec, t4 = model("llama-2-7b"), machine(T4)
    assert not is_native(t4, "bf16")
    form = resolve(spec, t4, "bf16")
    assert isinstance(form, Format)
    assert form.weights == form.compute == "fp16"
    assert form.notes == ("T4 has no bf16: fp16 is used instead",)
    assert not fits(serve(spec, t4, context=4096, precision="bf16"))


@pytest.mark.parametrize("chip", [T4, V100])
def test_dtype_t4_bf16_is_never_recommended(chip: str) -> None:
    for precision in (None, "bf16"):
        found = serve(model("llama-3.2-3b"), machine(chip), context=4096, precision=precision)
        assert isinstance(found, Evaluation)
        assert found.layout.precision == "fp16"
        assert any("has no bf16: fp16 is used instead" in note for note in found.notes)


@pytest.mark.parametrize(
    ("chip", "native"), [(T4, False), (A10G, False), (A100_40, False), (L4, True), (L40S, True), (H100, True)]
)
def test_dtype_a100_fp8(chip: str, *, native: bool) -> None:
    # fp8 arithmetic came with capability 8.9; from 8.0 on there are kernels that widen fp8 weights.
    assert is_native(machine(chip), "fp8") is native
    assert is_weight_only(machine(chip), "fp8") is (chip != T4)


@pytest.mark.parametrize("chip", [A10G, A100_40])
def test_dtype_a100_fp8_weight_only(chip: str) -> None:
    # One byte a weight (norms and tables 16-bit), arithmetic at the 16-bit peak, and the row says so.
    spec = model("llama-3.1-8b")
    form = resolve(spec, machine(chip), "fp8")
    assert isinstance(form, Format)
    assert (form.weights, form.compute) == ("fp8", "bf16")
    found = serve(spec, machine(chip), context=4096, precision="fp8")
    assert isinstance(found, Evaluation)
    assert found.memory.lines[0].gib == pytest.approx(weight_bytes(spec, "fp8") / GIB, rel=0.01)
    assert any("no fp8 arithmetic" in note for note in found.notes)
