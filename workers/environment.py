"""The machine as it describes itself: CPU, memory, driver, GPUs, torch. Everything beyond the standard library is imported late and may be missing."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workers import __version__
from workers.model import Environment, Gpu

MIB = 1 << 20


def describe(nvml: Any | None = None, torch: Any | None = None) -> Environment:
    """Return this machine's environment. What cannot be read is None, and `notes` say why.

    `nvml` and `torch` stand in for the modules `pynvml` and `torch`, which are looked for when not given.
    """
    notes: list[str] = []
    nvml = nvml or _module("pynvml", "nvidia-ml-py is not installed: driver and GPUs were not read", notes)
    torch = torch or _module("torch", "torch is not installed: benchmarks cannot run", notes)
    driver, gpus = _gpus(nvml, notes) if nvml is not None else (None, ())
    cudnn = torch.backends.cudnn.version() if torch is not None and torch.backends.cudnn.is_available() else None
    return Environment(
        worker_version=__version__,
        python_version=platform.python_version(),
        operating_system=f"{platform.system()} {platform.release()}",
        cpu_model=cpu_model(),
        cpu_count=_cpu_count(),
        memory_total_mib=_memory_total_mib(),
        driver_version=driver,
        gpus=gpus,
        torch_version=None if torch is None else str(torch.__version__),
        cuda_version=None if torch is None or torch.version.cuda is None else str(torch.version.cuda),
        cudnn_version=None if cudnn is None else str(cudnn),
        notes=tuple(notes),
    )


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Return the CPU's name as the kernel gives it, or None."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or None
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    if "model name" in named:
        return named["model name"]
    # Arm cores have no name here, only numbers of the maker and the part (Arm ARM, MIDR_EL1)
    return (
        f"implementer {named['CPU implementer']} part {named['CPU part']}"
        if {"CPU implementer", "CPU part"} <= named.keys()
        else None
    )


def _cpu_count() -> int | None:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count()


def _memory_total_mib() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
    except (AttributeError, ValueError, OSError):
        return None


def _module(name: str, missing: str, notes: list[str]) -> Any | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        notes.append(missing)
    except (ImportError, OSError) as e:  # installed, but a library that it links to is not
        notes.append(f"{name} cannot be loaded: {e}")
    return None


def _gpus(nvml: Any, notes: list[str]) -> tuple[str | None, tuple[Gpu, ...]]:
    """Return driver version and GPUs. A figure that a driver does not give (vGPU, old boards) is None, not an error."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as e:
        notes.append(f"no NVIDIA driver answers: {e}")
        return None, ()
    try:
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        return driver, tuple(_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError as e:
        notes.append(f"the NVIDIA driver answered with an error: {e}")
        return None, ()
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except nvml.NVMLError:
            return None

    memory = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total)
    capability = ask(lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    power_mw = ask(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    ecc = ask(lambda: nvml.nvmlDeviceGetEccMode(handle)[0])
    mig = ask(lambda: nvml.nvmlDeviceGetMigMode(handle)[0])
    generation = ask(lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle))
    width = ask(lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle))
    return Gpu(
        index=index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory_total_mib=None if memory is None else memory // MIB,
        compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        power_limit_w=None if power_mw is None else power_mw / 1000,
        sm_clock_max_mhz=ask(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        memory_clock_max_mhz=ask(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)),
        temperature_c=ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        ecc_enabled=None if ecc is None else bool(ecc),
        mig_enabled=None if mig is None else bool(mig),
        pci_link=None if generation is None or width is None else f"gen{generation} x{width}",
    )


def _text(answer: str | bytes) -> str:
    """Return text: old versions of the binding answer with bytes."""
    return answer.decode() if isinstance(answer, bytes) else answer
