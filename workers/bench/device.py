"""The device suite: how fast this chip really multiplies matrices, by dtype and size, and copies memory.

Figures are those of a call as a program makes it (one library call after another, device time), not datasheet peaks. A product of
(m x k) and (k x n) counts 2*m*n*k FLOP; a copy counts its bytes twice, read and written. Inputs are normal random numbers, since
zeros would draw less power and run faster than real weights do.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from workers.bench.series import BANDWIDTH, TFLOPS, TOPS, Progress, Timer, take_series
from workers.errors import Unavailable
from workers.model import Architecture, Device, Dtype, Job, Rules, Series, Shape, Skipped

GPU_SIZES, CPU_SIZES = (4096, 8192), (1024,)
GPU_COPY_BYTES, CPU_COPY_BYTES = 1 << 30, 256 << 20  # many times the largest last-level cache (H100: 50 MB)
CPU_DTYPES = (Dtype.FP32, Dtype.BF16)
# first compute capability whose tensor cores (fp32: cores) do the arithmetic; CUDA C++ Programming Guide, "Compute Capabilities"
FIRST_CAPABILITY = {
    Dtype.FP32: (3, 5),
    Dtype.FP16: (7, 0),
    Dtype.INT8: (7, 5),
    Dtype.TF32: (8, 0),
    Dtype.BF16: (8, 0),
    Dtype.FP8: (8, 9),
}
STORED_BYTES = {Dtype.FP32: 4, Dtype.TF32: 4, Dtype.FP16: 2, Dtype.BF16: 2, Dtype.FP8: 1, Dtype.INT8: 1}

Size = tuple[str, int, int, int]  # name, m, n, k


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every series of a run shares."""

    torch: Any  # the module
    device: Any  # a torch.device
    timer: Timer
    rules: Rules


def run_device(job: Job, progress: Progress) -> tuple[str, tuple[Series, ...], tuple[Skipped, ...]]:
    """Return what it ran on, the series that could be taken, and what was skipped and why."""
    torch = _torch()
    device = _device(torch, job)
    bench = Bench(
        torch=torch,
        device=device,
        timer=_gpu_timer(torch, device) if device.type == "cuda" else _cpu_timer,
        rules=job.rules,
    )
    series: list[Series] = []
    skipped: list[Skipped] = []

    def take(name: str, measure: Callable[[], Series]) -> None:
        progress(f"{name} …")
        try:
            series.append(measure())
        except RuntimeError as e:  # torch's base error: no kernel for the dtype, out of memory
            skipped.append(Skipped(name=name, why=str(e).strip().splitlines()[0][:200]))
            progress(f"{name}: skipped: {skipped[-1].why}")
        else:
            figure = series[-1].figures[0]
            progress(
                f"{name}: {figure.value:.4g} {figure.unit}{'' if series[-1].validity.valid else ' (not valid: ' + '; '.join(series[-1].validity.reasons) + ')'}"
            )
        if device.type == "cuda":
            torch.cuda.empty_cache()

    for dtype in job.dtypes or _dtypes_of(torch, device):
        lacking = _lacking(torch, device, dtype)
        for name, m, n, k in _sizes(job, device):
            label = f"{name} {dtype} {m}x{k}x{n}"
            if lacking:
                skipped.append(Skipped(name=label, why=lacking))
                progress(f"{label}: skipped: {lacking}")
            else:
                take(label, lambda d=dtype, s=(name, m, n, k): _matmul(bench, d, s))  # type: ignore[misc]  # default arguments bind the loop's values
    size = job.copy_bytes or (GPU_COPY_BYTES if device.type == "cuda" else CPU_COPY_BYTES)
    take(f"copy {size} bytes", lambda: _copy(bench, size))
    return _label(torch, device), tuple(series), tuple(skipped)


def projections(architecture: Architecture, tokens: int) -> tuple[Size, ...]:
    """Return the products that one layer and the head of a model do for `tokens` rows, as (name, m, n, k)."""
    a = architecture
    return (
        ("attention_qkv", tokens, (a.heads + 2 * a.kv_heads) * a.head_dim, a.hidden_size),
        ("attention_out", tokens, a.hidden_size, a.heads * a.head_dim),
        ("mlp_up", tokens, a.intermediate_size * (2 if a.gated else 1), a.hidden_size),
        ("mlp_down", tokens, a.hidden_size, a.intermediate_size),
        ("head", tokens, a.vocab_size, a.hidden_size),
    )


def _sizes(job: Job, device: Any) -> tuple[Size, ...]:
    squares = job.matmul_sizes or (GPU_SIZES if device.type == "cuda" else CPU_SIZES)
    model = () if job.architecture is None else projections(job.architecture, job.tokens)
    return (*(("matmul", n, n, n) for n in squares), *model)


def _matmul(bench: Bench, dtype: Dtype, size: Size) -> Series:
    name, m, n, k = size
    with _float32_mode(bench.torch, dtype):
        return take_series(
            name,
            Shape(dtype=dtype.value, m=m, n=n, k=k),
            _product(bench, dtype, size),
            timer=bench.timer,
            work_per_call={
                "flop": 2.0 * m * n * k,
                "bytes": float(STORED_BYTES[dtype] * (m * k + k * n) + _out_bytes(dtype) * m * n),
            },
            rate=TOPS if dtype is Dtype.INT8 else TFLOPS,
            rules=bench.rules,
        )


def _product(bench: Bench, dtype: Dtype, size: Size) -> Callable[[], object]:
    """Return a call that multiplies (m x k) by (k x n) in the given arithmetic."""
    torch, device = bench.torch, bench.device
    _, m, n, k = size
    if dtype is Dtype.FP8:
        left = torch.randn(m, k, device=device).to(torch.float8_e4m3fn)
        right = (
            torch.randn(n, k, device=device).to(torch.float8_e4m3fn).t()
        )  # cuBLASLt wants the right side column-major
        one = torch.ones((), device=device)
        return lambda: torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    if dtype is Dtype.INT8:
        left = torch.randint(-127, 128, (m, k), device=device, dtype=torch.int8)
        right = torch.randint(-127, 128, (n, k), device=device, dtype=torch.int8).t()
        return lambda: torch._int_mm(left, right)
    kind = {
        Dtype.FP32: torch.float32,
        Dtype.TF32: torch.float32,
        Dtype.FP16: torch.float16,
        Dtype.BF16: torch.bfloat16,
    }[dtype]
    left = torch.randn(m, k, device=device).to(kind)
    right = torch.randn(k, n, device=device).to(kind)
    out = torch.empty(m, n, device=device, dtype=kind)
    return lambda: torch.mm(left, right, out=out)


def _out_bytes(dtype: Dtype) -> int:
    return {Dtype.FP8: 2, Dtype.INT8: 4}.get(dtype, STORED_BYTES[dtype])


def _copy(bench: Bench, size: int) -> Series:
    source = bench.torch.empty(size, dtype=bench.torch.uint8, device=bench.device).random_()
    target = bench.torch.empty_like(source)
    return take_series(
        "copy",
        Shape(buffer_bytes=size),
        lambda: target.copy_(source),
        timer=bench.timer,
        work_per_call={"bytes": 2.0 * size},
        rate=BANDWIDTH,
        rules=bench.rules,
    )


@contextmanager
def _float32_mode(torch: Any, dtype: Dtype) -> Iterator[None]:
    """Set whether fp32 products may use TF32, and put back what was set before."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if dtype is Dtype.TF32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as e:
        raise Unavailable(
            f"{e.name or 'torch'} is not installed: `pip install torch` (or the distribution's extra [worker])"
        ) from e
    except (ImportError, OSError) as e:  # a library that torch links to is missing
        raise Unavailable(f"torch cannot be loaded: {e}") from e


def _device(torch: Any, job: Job) -> Any:
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if job.device is Device.CPU or (job.device is Device.AUTO and not found):
        return torch.device("cpu")
    if job.device_index >= found:
        raise Unavailable(f"the job asks for GPU {job.device_index}, torch {torch.__version__} sees {found}")
    torch.cuda.set_device(job.device_index)
    return torch.device("cuda", job.device_index)


def _label(torch: Any, device: Any) -> str:
    return (
        f"{device} {torch.cuda.get_device_name(device)}"
        if device.type == "cuda"
        else f"cpu, {torch.get_num_threads()} threads"
    )


def _dtypes_of(torch: Any, device: Any) -> tuple[Dtype, ...]:
    return tuple(d for d in Dtype if not _lacking(torch, device, d)) if device.type == "cuda" else CPU_DTYPES


def _lacking(torch: Any, device: Any, dtype: Dtype) -> str:
    """Return why the device has no arithmetic of that dtype, or nothing. An emulated product would be a figure of something else."""
    if device.type != "cuda":
        return f"{dtype} on a CPU would be emulated" if dtype in {Dtype.TF32, Dtype.FP8} else ""
    if torch.version.cuda is None:
        return ""  # ROCm: torch itself says what it cannot
    capability = torch.cuda.get_device_capability(device)
    first = FIRST_CAPABILITY[dtype]
    return (
        ""
        if capability >= first
        else f"compute capability {capability[0]}.{capability[1]} has no {dtype} arithmetic (from {first[0]}.{first[1]})"
    )


def _cpu_timer(call: Callable[[], object], calls: int) -> float:
    start = perf_counter()
    for _ in range(calls):
        call()
    return perf_counter() - start


def _gpu_timer(torch: Any, device: Any) -> Timer:
    """Return a timer by CUDA events: time on the device between the first call's start and the last one's end."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def timed(call: Callable[[], object], calls: int) -> float:
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize(device)
        return float(begin.elapsed_time(end)) / 1000

    return timed
