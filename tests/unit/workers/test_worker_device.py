"""The device suite: shapes by hand, what a chip lacks, and a real run on the CPU where torch is installed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from workers.bench import run_job
from workers.bench.device import _device, _lacking, projections
from workers.errors import Unavailable
from workers.model import Architecture, Device, Dtype, Job, Measurement, Rules


def test_the_products_of_a_model() -> None:
    """Llama-3.1-8B: q, k, v = (32 + 2 x 8) x 128 = 6,144 columns; gate and up = 2 x 14,336."""
    llama = Architecture(
        name="Llama-3.1-8B", hidden_size=4096, layers=32, heads=32, kv_heads=8, head_dim=128, intermediate_size=14336, gated=True, vocab_size=128256
    )  # fmt: skip
    products = projections(llama, 512)
    assert products == (
        ("attention_qkv", 512, 6144, 4096),
        ("attention_out", 512, 4096, 4096),
        ("mlp_up", 512, 28672, 4096),
        ("mlp_down", 512, 4096, 14336),
        ("head", 512, 128256, 4096),
    )
    # 32 layers and the head hold every parameter but the embedding and 65 norm vectors: 8,030,261,248 in all
    parameters = 32 * sum(n * k for _, _, n, k in products[:-1]) + 128256 * 4096
    assert parameters == 8_030_261_248 - 128256 * 4096 - 65 * 4096


def chip(capability: tuple[int, int], cuda: str | None = "12.8") -> Any:
    return SimpleNamespace(
        version=SimpleNamespace(cuda=cuda), cuda=SimpleNamespace(get_device_capability=lambda _: capability)
    )


@pytest.mark.parametrize(
    ("name", "capability", "has"),
    [
        ("V100", (7, 0), {"fp32", "fp16"}),
        ("T4", (7, 5), {"fp32", "fp16", "int8"}),
        ("A100", (8, 0), {"fp32", "fp16", "int8", "tf32", "bf16"}),
        ("A10G", (8, 6), {"fp32", "fp16", "int8", "tf32", "bf16"}),
        ("L4", (8, 9), {"fp32", "fp16", "int8", "tf32", "bf16", "fp8"}),
        ("H100", (9, 0), {"fp32", "fp16", "int8", "tf32", "bf16", "fp8"}),
    ],
)
def test_what_a_chip_multiplies_in_hardware(name: str, capability: tuple[int, int], has: set[str]) -> None:
    gpu = SimpleNamespace(type="cuda")
    assert {d.value for d in Dtype if not _lacking(chip(capability), gpu, d)} == has, name


def test_a_cpu_has_no_tf32() -> None:
    cpu = SimpleNamespace(type="cpu")
    assert _lacking(chip((9, 0)), cpu, Dtype.TF32) == "tf32 on a CPU would be emulated"
    assert _lacking(chip((9, 0)), cpu, Dtype.BF16) == ""


def test_a_gpu_that_is_not_there_is_said() -> None:
    torch = SimpleNamespace(
        __version__="2.9",
        cuda=SimpleNamespace(is_available=lambda: True, device_count=lambda: 2, set_device=lambda _: None),
        device=lambda *where: where,
    )
    with pytest.raises(Unavailable, match=r"the job asks for GPU 2, torch 2\.9 sees 2"):
        _device(torch, Job(name="x", device=Device.CUDA, device_index=2))
    assert _device(torch, Job(name="x", device_index=1)) == ("cuda", 1)
    torch.cuda.is_available = lambda: False
    assert _device(torch, Job(name="x")) == ("cpu",)
    with pytest.raises(Unavailable, match="sees 0"):
        _device(torch, Job(name="x", device=Device.CUDA))


def test_without_torch_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("workers.bench.device.importlib.import_module", missing)
    with pytest.raises(Unavailable, match="torch is not installed: `pip install torch`"):
        run_job(Job(name="x"), lambda _: None)


@pytest.mark.parametrize(
    "error",
    [
        ImportError("libcudart.so.12: cannot open shared object file"),
        OSError("libcudart.so.12: cannot open shared object file"),
    ],
)
def test_a_broken_torch_is_not_called_missing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def broken(_: str) -> None:
        raise error

    monkeypatch.setattr("workers.bench.device.importlib.import_module", broken)
    with pytest.raises(Unavailable, match=r"torch cannot be loaded: libcudart\.so\.12"):
        run_job(Job(name="x"), lambda _: None)


# a busy test machine is no benchmark: only the machinery is tested, not how steady it is
BRIEF = Rules(
    warmup_s=0.05, min_duration_s=0.1, min_samples=20, max_samples=200, max_spread_fraction=1e9, max_drift_fraction=1e9
)


def test_a_real_run_on_the_cpu() -> None:
    pytest.importorskip("torch")
    said: list[str] = []
    job = Job(
        name="cpu",
        device=Device.CPU,
        dtypes=(Dtype.FP32, Dtype.TF32),
        matmul_sizes=(256,),
        copy_bytes=8 << 20,
        rules=BRIEF,
    )
    found = run_job(job, said.append)
    assert [s.name for s in found.series] == ["matmul", "copy"]
    assert [s.why for s in found.skipped] == ["tf32 on a CPU would be emulated"]
    assert found.validity.valid
    matmul, copy = found.series
    assert matmul.work_per_call["flop"] == 2 * 256**3
    assert 1e-4 < matmul.figures[0].value < 100  # TFLOP/s of any CPU
    assert copy.work_per_call["bytes"] == 16 << 20
    assert 0.1 < copy.figures[0].value < 10_000
    assert found.device.startswith("cpu, ")
    assert any("TFLOP/s" in line for line in said)
    assert Measurement.parse(found.to_json()) == found


@pytest.mark.gpu
def test_a_real_run_on_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    found = run_job(Job(name="gpu", device=Device.CUDA, matmul_sizes=(4096,)), lambda _: None)
    assert {s.shape.dtype for s in found.series if s.name == "matmul"} >= {"fp32", "fp16"}
    by_dtype = {s.shape.dtype: s.figures[0].value for s in found.series}
    assert by_dtype["fp16"] > by_dtype["fp32"]
    assert found.environment.gpus
