"""What a machine says of itself, with stand-ins for the driver's binding and torch."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workers.environment import cpu_model, describe


class NVMLError(Exception):
    """As pynvml raises it."""


class Driver:
    """A machine with one L4; `without` names questions that its driver does not answer."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, without: tuple[str, ...] = (), name: str | bytes = "NVIDIA L4") -> None:
        self.without, self.name, self.open = without, name, False
        self.answers: dict[str, Any] = {
            "nvmlSystemGetDriverVersion": "570.86.15",
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": object(),
            "nvmlDeviceGetName": name,
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=24_152_899_584),  # 23,034 MiB
            "nvmlDeviceGetCudaComputeCapability": (8, 9),
            "nvmlDeviceGetEnforcedPowerLimit": 72_000,  # mW
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetMaxPcieLinkGeneration": 4,
            "nvmlDeviceGetMaxPcieLinkWidth": 16,
            "nvmlDeviceGetTemperature": 41,
        }

    def nvmlInit(self) -> None:
        if "nvmlInit" in self.without:
            raise NVMLError("Driver Not Loaded")
        self.open = True

    def nvmlShutdown(self) -> None:
        self.open = False

    def nvmlDeviceGetMaxClockInfo(self, _: object, clock: int) -> int:
        return {1: 2040, 2: 6251}[clock]

    def __getattr__(self, name: str) -> Any:
        def answer(*_: object) -> Any:
            assert self.open
            if name in self.without:
                raise NVMLError("Not Supported")
            return self.answers[name]

        return answer


TORCH = SimpleNamespace(
    __version__="2.9.0+cu128",
    version=SimpleNamespace(cuda="12.8"),
    backends=SimpleNamespace(cudnn=SimpleNamespace(is_available=lambda: True, version=lambda: 91002)),
)


def test_a_gpu_machine() -> None:
    driver = Driver()
    found = describe(nvml=driver, torch=TORCH)
    (gpu,) = found.gpus
    assert (found.driver_version, found.torch_version, found.cuda_version, found.cudnn_version) == (
        "570.86.15",
        "2.9.0+cu128",
        "12.8",
        "91002",
    )
    assert (gpu.name, gpu.memory_total_mib, gpu.compute_capability, gpu.power_limit_w) == (
        "NVIDIA L4",
        23034,
        "8.9",
        72.0,
    )
    assert (gpu.sm_clock_max_mhz, gpu.memory_clock_max_mhz, gpu.ecc_enabled, gpu.mig_enabled, gpu.pci_link) == (
        2040,
        6251,
        True,
        False,
        "gen4 x16",
    )
    assert found.notes == ()
    assert not driver.open


def test_what_a_driver_does_not_tell_is_unknown() -> None:
    driver = Driver(
        without=(
            "nvmlDeviceGetEccMode",
            "nvmlDeviceGetMigMode",
            "nvmlDeviceGetEnforcedPowerLimit",
            "nvmlDeviceGetMaxPcieLinkWidth",
        ),
        name=b"Tesla V100",
    )
    (gpu,) = describe(nvml=driver, torch=TORCH).gpus
    assert gpu.name == "Tesla V100"
    assert (gpu.ecc_enabled, gpu.mig_enabled, gpu.power_limit_w, gpu.pci_link) == (None, None, None, None)


@pytest.mark.parametrize(
    ("without", "note"),
    [
        ("nvmlInit", "no NVIDIA driver answers: Driver Not Loaded"),
        ("nvmlDeviceGetCount", "answered with an error: Not Supported"),
    ],
)
def test_without_a_driver_there_is_a_note(without: str, note: str) -> None:
    driver = Driver(without=(without,))
    found = describe(nvml=driver, torch=TORCH)
    assert (found.gpus, found.driver_version) == ((), None)
    assert note in found.notes[0]
    assert not driver.open


def test_without_torch_and_binding_there_are_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("workers.environment.importlib.import_module", missing)
    found = describe()
    assert (found.torch_version, found.driver_version, found.gpus) == (None, None, ())
    assert found.notes == (
        "nvidia-ml-py is not installed: driver and GPUs were not read",
        "torch is not installed: benchmarks cannot run",
    )
    assert found.cpu_count is not None
    assert found.cpu_count >= 1
    assert found.memory_total_mib is not None
    assert found.memory_total_mib > 64


def test_a_cpu_build_of_torch_has_no_cuda() -> None:
    torch = SimpleNamespace(
        __version__="2.9.0+cpu",
        version=SimpleNamespace(cuda=None),
        backends=SimpleNamespace(cudnn=SimpleNamespace(is_available=lambda: False)),
    )
    found = describe(nvml=Driver(without=("nvmlInit",)), torch=torch)
    assert (found.torch_version, found.cuda_version, found.cudnn_version) == ("2.9.0+cpu", None, None)


def test_cpu_names(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8488C\nflags\t\t: fpu vme\n\nprocessor\t: 1\nmodel name\t: Intel(R) Xeon(R) Platinum 8488C\n"
    )
    assert cpu_model(cpuinfo) == "Intel(R) Xeon(R) Platinum 8488C"
    cpuinfo.write_text("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n")
    assert cpu_model(cpuinfo) == "implementer 0x41 part 0xd40"  # Neoverse V1: Graviton3
    cpuinfo.write_text("processor\t: 0\n")
    assert cpu_model(cpuinfo) is None
