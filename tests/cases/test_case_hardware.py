"""How many accelerators an instance type has, and of what memory, from DescribeInstanceTypes; the shipped tables say the same."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from case_machines import aws_type, chips, fits, model, serve

from planner.perf.hardware import hardware_of
from pricing.aws.instance_types import parse_instance_type
from pricing.model import InstanceType


def described(name: str, chip: str, mib: int, *, count: int, total: int, **more: Any) -> InstanceType:
    entry = {"Name": chip, "Manufacturer": "NVIDIA", "Count": count, "MemoryInfo": {"SizeInMiB": mib}} | more
    reply = {"InstanceType": name, "GpuInfo": {"Gpus": [entry], "TotalGpuMemoryInMiB": total}}
    return parse_instance_type(reply, chips=chips(), retrieved_on=date(2026, 11, 30))


def test_hw_p5_count0() -> None:
    # The reply counts 0 of the one whole H100 that a p5.4xlarge has: neither dropped nor divided by.
    reply = described("p5.4xlarge", "H100", 81920, count=0, total=81920)
    for found in (reply, aws_type("p5.4xlarge")):
        assert found.accelerator == "H100 SXM5 80GB"
        assert (found.device_count, found.device_fraction, found.accelerators_per_instance) == (1, 1.0, 1.0)
        assert found.device_memory_gib == 81920 / 1024


def test_hw_g6f_fraction() -> None:
    # An eighth of an L4: 2,861 of 22,888 MiB. At 0.2375 USD/h it must not pass for the cheapest whole L4.
    reply = described("g6f.xlarge", "L4", 2861, count=0, total=2861, LogicalGpuCount=1)
    for found in (reply, aws_type("g6f.xlarge")):
        assert found.accelerator == "L4"
        assert found.accelerators_per_instance == pytest.approx(0.125, rel=0.02)
        assert found.device_memory_gib == pytest.approx(2861 / 1024)
        hardware = hardware_of(found, chips()["L4"])
        assert hardware.memory_bandwidth_gb_s == pytest.approx(300 / 8)
        assert not fits(serve(model("llama-2-7b"), hardware, context=512, precision="int4"))


@pytest.mark.parametrize(("each", "total"), [(91552, 366208), (22888, 91552)])
def test_hw_l4_times4(each: int, total: int) -> None:
    # The first reply repeats the memory of all four as that of one; 366,208 MiB for four cards of 24 GB is impossible.
    found = described("g6.12xlarge", "L4", each, count=4, total=total)
    assert found.device_memory_gib is not None
    assert (found.accelerators_per_instance, found.device_memory_gib * 1024) == (4, 22888)
    assert found.device_count * found.device_memory_gib * 1024 == 91552
    assert aws_type("g6.12xlarge").device_memory_gib == found.device_memory_gib


@pytest.mark.parametrize(
    ("chip", "low", "high"),
    [("T4", 14.6, 14.8), ("V100 SXM2 16GB", 15.8, 15.8), ("A10G", 22.0, 22.4), ("L4", 22.0, 22.4), ("A100 SXM4 40GB", 39.4, 39.5), ("L40S", 44.5, 44.5),
     ("A100 SXM4 80GB", 79.1, 79.2), ("H100 SXM5 80GB", 79.1, 79.2), ("H200 SXM 141GB", 139.8, 139.8)],
)  # fmt: skip
def test_memory_that_a_process_sees(chip: str, low: float, high: float) -> None:
    # As start-up logs and out-of-memory messages in public reports say it, GiB.
    visible = chips()[chip].memory_visible_gib
    assert visible is not None
    assert low <= visible <= high
