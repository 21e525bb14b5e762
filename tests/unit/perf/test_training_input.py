"""The input pipeline by hand: vCPUs, storage and files; what is not known does not bind."""

import csv
import math
from dataclasses import replace
from importlib.resources import files

import pytest
from training_cases import LLAMA_8B, RESNET_50, machine, whisper

from planner.perf.model import TrainingWork
from planner.perf.training_input import formats_of, images_per_s_per_vcpu, loader_of

HOST = replace(machine("A100 SXM4 40GB", 8, network_gbps=400, efa=True, vcpus=96), local_nvme_gb=8000.0)


def loader(spec=RESNET_50, hardware=HOST, **work):
    return loader_of(spec, TrainingWork(**work), hardware)


def test_images_by_hand() -> None:
    found = loader()
    assert (found.data_format, found.storage) == ("jpeg", "nvme")
    assert found.cpu_per_s == 96 * 100
    assert found.storage_per_s == pytest.approx(min(16e9 / 108_000, 400_000))  # 8 TB x 2 GB/s; a file an image
    assert found.per_s(4) == 4 * 9600
    assert "96 vCPUs x 100 samples/s" in found.said(4)
    assert images_per_s_per_vcpu() == 100


@pytest.mark.parametrize(
    ("storage", "data_format", "expected"),
    [
        ("ebs", "webdataset", 1.049e9 / 108_000),
        ("ebs", "jpeg", 1.049e9 / 108_000),  # 9,713 images, below 16,000 files
        ("s3", "jpeg", 5500.0),  # requests, not bytes: 400 Gb/s x 0.64 would be 296,000
        ("s3", "webdataset", 50e9 * 0.64 / 108_000),
        ("nvme", "decoded", 16e9 / (3 * 224 * 224)),
    ],
)
def test_storage_by_hand(storage, data_format, expected) -> None:
    assert loader(storage=storage, data_format=data_format).storage_per_s == pytest.approx(expected)


def test_a_shared_file_system_has_one_rate() -> None:
    found = loader(storage="fsx", data_format="decoded", hardware=replace(HOST, vcpus=10_000))
    each = 12e9 / (3 * 224 * 224)
    assert found.per_s(1) == found.per_s(64) == pytest.approx(each)
    assert "12 GB/s for all instances" in found.said(64)


def test_tokens_and_clips() -> None:
    text = loader(LLAMA_8B, sequence_length=4096, data_format="text")
    assert text.cpu_per_s == pytest.approx(96 * 250_000 / 4096)
    assert text.storage_per_s == pytest.approx(16e9 / (4.2 * 4096))
    assert loader(LLAMA_8B).data_format == "tokens"
    speech = loader(whisper())
    assert (speech.data_format, speech.cpu_per_s) == ("audio", 96 * 20)


def test_what_is_not_known_does_not_bind() -> None:
    bare = loader(hardware=replace(HOST, vcpus=None, local_nvme_gb=None))
    assert bare.per_s(3) == math.inf
    assert loader(hardware=replace(HOST, local_nvme_gb=0.0)).storage == "ebs"
    assert loader(hardware=replace(HOST, local_nvme_gb=None), storage="nvme").storage_per_s == pytest.approx(400_000)


def test_factors_scale() -> None:
    assert loader(decode_factor=2.0).cpu_per_s == 2 * loader().cpu_per_s
    assert (
        loader(read_factor=0.5, data_format="decoded").storage_per_s == loader(data_format="decoded").storage_per_s / 2
    )


def test_every_figure_has_a_source_and_a_day() -> None:
    text = files("planner.perf").joinpath("tables", "training_input.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert len({(r["name"], r["figure"]) for r in rows}) == len(rows)
    assert all(float(r["value"]) >= 0 and r["unit"] and r["source"] and r["as_of"] for r in rows)
    named = {r["name"] for r in rows if r["kind"] == "format"}
    assert {f for spec in (RESNET_50, LLAMA_8B, whisper()) for f in formats_of(spec)} <= named
