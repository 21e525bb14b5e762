"""DescribeInstanceTypes replies, written by hand from the public memory sizes of the chips (MiB)."""

from __future__ import annotations

from datetime import date
from fnmatch import fnmatch
from typing import Any

import pytest
from aws_doors import alone, asking, door_to, loopback
from moto import mock_aws

from pricing.aws.instance_types import (
    CHIPS,
    PATTERNS,
    instance_types_source,
    is_wanted,
    parse_instance_type,
    parse_instance_types,
)
from pricing.aws.session import Aws
from pricing.errors import AccessDenied, ReplyError
from pricing.market import NoticeKind
from pricing.model import AcceleratorKind, InstanceType, InterconnectKind
from pricing.static import load_tables

TABLES = load_tables()
CHIP_TABLE = {chip.name: chip for chip in TABLES.accelerators}
DAY = date(2026, 11, 30)


def gpu(name: str, mib: int, count: int = 1, *, total: int | None = None, **more: Any) -> dict[str, Any]:
    entry = {"Name": name, "Count": count, "MemoryInfo": {"SizeInMiB": mib}} | more
    return {"GpuInfo": {"Gpus": [entry], "TotalGpuMemoryInMiB": mib * count if total is None else total}}


def neuron(name: str, mib: int, count: int) -> dict[str, Any]:
    entry = {"Name": name, "Count": count, "MemoryInfo": {"SizeInMiB": mib}, "CoreInfo": {"Count": 2, "Version": 2}}
    return {"NeuronInfo": {"NeuronDevices": [entry], "TotalNeuronDeviceMemoryInMiB": mib * count}}


def read(name: str, info: dict[str, Any], **more: Any) -> InstanceType:
    return parse_instance_type({"InstanceType": name} | info | more, chips=CHIP_TABLE, retrieved_on=DAY)


@pytest.mark.parametrize(
    ("name", "info", "expected"),
    [
        ("g5.xlarge", gpu("A10G", 22888), ("A10G", 1, 1.0, 22888)),
        ("p4d.24xlarge", gpu("A100", 40960, 8), ("A100 SXM4 40GB", 8, 1.0, 40960)),
        ("p4de.24xlarge", gpu("A100", 81920, 8), ("A100 SXM4 80GB", 8, 1.0, 81920)),
        ("p3dn.24xlarge", gpu("V100", 32768, 8), ("V100 SXM2 32GB", 8, 1.0, 32768)),
        ("p5en.48xlarge", gpu("H200", 144384, 8), ("H200 SXM 141GB", 8, 1.0, 144384)),
        ("p6-b200.48xlarge", gpu("B200", 183359, 8), ("B200 SXM 180GB", 8, 1.0, 183359)),
        # the share of a chip is said
        ("g6f.large", gpu("L4", 2861, 0, total=2861, LogicalGpuCount=1, GpuPartitionSize=0.125), ("L4", 1, 0.125, 2861)),
        ("gr6f.4xlarge", gpu("L4", 11444, 0, total=11444, LogicalGpuCount=1, GpuPartitionSize=0.5), ("L4", 1, 0.5, 11444)),
        ("g6.12xlarge", gpu("L4", 22888, 4, LogicalGpuCount=4, GpuPartitionSize=1.0), ("L4", 4, 1.0, 22888)),
        ("g6f.8xlarge", gpu("L4", 11444, 1, LogicalGpuCount=2, GpuPartitionSize=0.5), ("L4", 2, 0.5, 11444)),
        # nothing is said: memory decides (22888 / 4 = 5722; 163840 / 81920 = 2)
        ("g6f.2xlarge", gpu("L4", 5722, 0, total=5722), ("L4", 1, 0.25, 5722)),
        ("p5.8xlarge", gpu("H100", 81920, 0, total=163840), ("H100 SXM5 80GB", 2, 1.0, 81920)),
        # the memory of all is given as that of one
        ("g5.12xlarge", gpu("A10G", 91552, 4), ("A10G", 4, 1.0, 22888)),
        # Neuron
        ("trn1.32xlarge", neuron("Trainium", 32768, 16), ("Trainium1", 16, 1.0, 32768)),
        ("trn2.48xlarge", neuron("Trainium2", 524288, 16), ("Trainium2", 16, 1.0, 96 * 1024)),
    ],
)  # fmt: skip
def test_devices(name: str, info: dict[str, Any], expected: tuple[str, int, float, float]) -> None:
    chip, count, fraction, mib = expected
    found = read(name, info)
    assert (found.accelerator, found.device_count, found.device_fraction) == (chip, count, fraction)
    assert found.device_memory_gib == pytest.approx(mib / 1024)
    assert found.accelerators_per_instance == count * fraction


def test_inferentia_is_not_counted_twice() -> None:
    listed = {"Accelerators": [{"Name": "Inferentia2", "Count": 12, "MemoryInfo": {"SizeInMiB": 32768}}]}
    found = read("inf2.48xlarge", neuron("Inferentia2", 32768, 12) | {"InferenceAcceleratorInfo": listed})
    assert (found.accelerator, found.device_count, found.accelerator_kind) == ("Inferentia2", 12, AcceleratorKind.NEURON)  # fmt: skip
    alone = {"Accelerators": [{"Name": "Qualcomm AI100", "Count": 8, "MemoryInfo": {"SizeInMiB": 16000}}]}
    assert read("dl2q.24xlarge", {"InferenceAcceleratorInfo": alone}).device_count == 8


def test_everything_else_of_a_type() -> None:
    found = read(
        "p5.48xlarge",
        gpu("H100", 81920, 8),
        VCpuInfo={"DefaultVCpus": 192},
        MemoryInfo={"SizeInMiB": 2097152},
        ProcessorInfo={"SupportedArchitectures": ["x86_64"]},
        NetworkInfo={"EfaSupported": True, "NetworkCards": [{"BaselineBandwidthInGbps": 100.0}] * 32},
        InstanceStorageInfo={"TotalSizeInGB": 30400, "NvmeSupport": "required"},
        SupportedUsageClasses=["capacity-block", "on-demand", "spot"],
    )
    assert (found.family, found.vcpus, found.memory_gib, found.cpu_arch) == ("p5", 192, 2048.0, "x86_64")
    assert (found.network_gbps, found.efa_supported, found.local_nvme_gb) == (3200.0, True, 30400.0)
    assert (found.interconnect_kind, found.interconnect_gb_s_bidirectional) == (InterconnectKind.NVSWITCH, 900.0)
    assert not found.capacity_block_only
    assert read("p5e.48xlarge", gpu("H200", 144384, 8), SupportedUsageClasses=["capacity-block"]).capacity_block_only


def test_what_the_reply_does_not_say_stays_unknown() -> None:
    found = read("g5.xlarge", gpu("A10G", 22888))
    assert (found.vcpus, found.memory_gib, found.network_gbps, found.local_nvme_gb) == (None, None, None, None)
    assert read("g5.xlarge", gpu("A10G", 22888), InstanceStorageSupported=False).local_nvme_gb == 0.0


def test_a_cpu_type_has_one_device_and_no_chip_of_the_reply() -> None:
    found = read("m7i.large", {}, VCpuInfo={"DefaultVCpus": 2}, MemoryInfo={"SizeInMiB": 8192})
    assert (found.accelerator, found.accelerator_kind, found.device_count) == (None, AcceleratorKind.CPU, 1)
    assert found.accelerators_per_instance is None


@pytest.mark.parametrize(
    ("name", "info", "message"),
    [
        ("trn2u.48xlarge", {}, "every trn2u type has one"),
        ("g9.xlarge", gpu("L9", 99999), "'L9' is not in the table"),
        ("g5.xlarge", gpu("A10G", 30000), "A10G with 30000 MiB: the chip has 22888"),
        ("g6f.large", gpu("L4", 9000, 0, total=9000), "no count or share of it gives that"),
        ("g5.xlarge", gpu("A10G", 0), "no memory"),
        ("g5.xlarge", gpu("A10G", 22888, -1), "whole number"),
        ("g5.xlarge", {"GpuInfo": {"Gpus": []}}, "lists 0 sorts"),
        ("g5.xlarge", {"GpuInfo": {}}, "must be a list"),
    ],
)
def test_what_cannot_be_right_is_an_error(name: str, info: dict[str, Any], message: str) -> None:
    with pytest.raises(ReplyError, match=message):
        read(name, info)


def test_pages_keep_what_can_be_read_and_say_why_the_rest_is_left_out() -> None:
    media = {"MediaAcceleratorInfo": {"Accelerators": [{"Name": "U30", "Count": 1, "MemoryInfo": {"SizeInMiB": 24576}}]}}  # fmt: skip
    pages = [
        {"InstanceTypes": [{"InstanceType": "vt1.3xlarge"} | media, {"InstanceType": "trn2u.48xlarge"}]},
        {"InstanceTypes": [{"InstanceType": "g5.xlarge"} | gpu("A10G", 22888)]},
    ]
    reading = parse_instance_types(pages, chips=TABLES.accelerators, retrieved_on=DAY)
    assert [i.instance_type for i in reading.instance_types] == ["g5.xlarge"]
    assert set(reading.excluded) == {"vt1.3xlarge", "trn2u.48xlarge"}
    with pytest.raises(ReplyError, match="has no InstanceTypes"):
        parse_instance_types([{"ResponseMetadata": {}}], chips=TABLES.accelerators, retrieved_on=DAY)


def test_every_chip_name_leads_to_a_chip_of_the_table_and_every_shipped_chip_has_one() -> None:
    named = {chip for chips in CHIPS.values() for chip in chips}
    assert named <= set(CHIP_TABLE)
    rented = {i.accelerator for i in TABLES.instance_types if i.provider == "aws" and i.accelerator_kind != "cpu"}
    assert rented <= named


def test_types_of_a_real_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies of moto are copies of AWS's: parts of a GPU with Count 0, Neuron listed twice, Trainium2 with the wrong memory."""
    alone(monkeypatch, AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    with mock_aws():
        aws = Aws()
        reading = instance_types_source(aws).read(asking())
        aws.close()
    found = {row.instance_type: row for row in reading.instance_types}
    parts = {name: found[name].accelerators_per_instance for name in ("g6f.large", "g6f.2xlarge", "g6f.4xlarge", "gr6f.4xlarge")}  # fmt: skip
    assert parts == {"g6f.large": 0.125, "g6f.2xlarge": 0.25, "g6f.4xlarge": 0.5, "gr6f.4xlarge": 0.5}
    assert found["p5.4xlarge"].accelerators_per_instance == 1
    assert (found["inf2.48xlarge"].device_count, found["inf1.24xlarge"].device_count) == (12, 16)  # not 24 and 32
    assert found["trn2.48xlarge"].device_memory_gib == 96  # the reply says 512
    assert (found["p4d.24xlarge"].accelerator, found["p4de.24xlarge"].accelerator) == ("A100 SXM4 40GB", "A100 SXM4 80GB")  # fmt: skip
    assert found["g7.48xlarge"].accelerator == "RTX PRO 4500 Blackwell Server"
    assert (found["p5.48xlarge"].memory_gib, found["p5.48xlarge"].local_nvme_gb) == (
        2048,
        30400,
    )  # GiB, and 8 x 3,800 GB
    shipped = {i.instance_type: i for i in TABLES.instance_types if i.provider == "aws"}
    for name in found.keys() & shipped.keys():
        live, table = found[name], shipped[name]
        assert (live.accelerator, live.accelerators_per_instance, live.vcpus, live.memory_gib) == (table.accelerator, table.accelerators_per_instance, table.vcpus, table.memory_gib), name  # fmt: skip
    assert reading.excluded == {"FPGA, not for models": 3, "media accelerator, not for models": 3, "cannot be read": 1}
    (notice,) = reading.notices  # moto has it without its accelerators, as AWS once had
    assert (notice.kind, notice.subject) == (NoticeKind.UNRESOLVED, "trn2u.48xlarge us-east-1")


def test_types_are_asked_by_pattern_as_a_list_of_names_fails_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback(page_size=5) as fake, door_to(fake, monkeypatch) as aws:
        reading = instance_types_source(aws).read(asking())
        assert len(fake.calls) > 2
        (asked,) = {tuple(sorted(v for k, v in call.given.items() if "Value" in k)) for call in fake.calls}
        assert asked == ("dl*", "f*", "g*", "inf*", "p*", "trn*", "vt*")
        assert not any("InstanceType" in call.given for call in fake.calls)
        assert {call.given["MaxResults"] for call in fake.calls} == {"100"}
        names = {row.instance_type for row in reading.instance_types}
        assert {"g4dn.metal", "g6f.xlarge", "p5.4xlarge", "trn2.48xlarge", "inf2.xlarge"} <= names
        assert "m5.large" not in names
        assert reading.excluded == {"media accelerator, not for models": 1}
        assert reading.scope.tables == {"instance_types"}
        fake.fail("duplicate_page")
        assert instance_types_source(aws).read(asking()) == reading
        fake.heal()
        fake.fail("malformed_item", page=2)
        broken = instance_types_source(aws).read(asking())
        assert len(reading.instance_types) - len(broken.instance_types) == 1  # the others are kept
        assert broken.excluded["cannot be read"] == len(broken.notices) == 1
        fake.heal()
        fake.fail("access_denied")
        with pytest.raises(AccessDenied, match="ec2:DescribeInstanceTypes"):
            instance_types_source(aws).read(asking())


def test_every_accelerated_family_of_the_tables_is_asked_for() -> None:
    families = {i.family for i in TABLES.instance_types if i.provider == "aws" and i.accelerator_kind is not AcceleratorKind.CPU}  # fmt: skip
    assert all(any(fnmatch(family, pattern) for pattern in PATTERNS) for family in families)
    assert all(is_wanted(f"{family}.xlarge", ()) for family in families)
    assert not any(is_wanted(name, ()) for name in ("m7i.large", "c7g.large", "inferno.large", "grx.large", "t3.micro"))
    assert is_wanted("m7i.large", {"m7i.large"})


def test_an_unknown_chip_is_said_with_its_type_and_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with loopback() as fake, door_to(fake, monkeypatch) as aws:
        chips = tuple(chip for chip in TABLES.accelerators if chip.name != "L4")
        reading = instance_types_source(aws).read(asking(chips=chips))
        assert "g5.xlarge" in {row.instance_type for row in reading.instance_types}
    assert {n.subject for n in reading.notices} == {"g6.xlarge us-east-1", "g6f.xlarge us-east-1"}
    assert all("chip 'L4' is not in the table" in n.detail for n in reading.notices)
    assert reading.excluded["cannot be read"] == 2
    with pytest.raises(ReplyError, match="'H100e' is not in the table; the nearest is 'H100'"):
        read("p5x.48xlarge", gpu("H100e", 81920, 8))
