"""How fast samples reach the accelerators: vCPUs that decode, storage that is read. Training is no faster than its input pipeline.

    samples/s = min(vCPUs x rate of the format, bandwidth / bytes of a sample, files/s / files of a sample)

Figures with their sources: `tables/training_input.csv`; `--assume input_decode_factor` and `storage_read_factor` scale them. Reads are
taken from storage in every epoch: what the page cache holds is not counted.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from planner.models.spec import ModelKind, ModelSpec
from planner.perf.model import Hardware, TrainingWork

TABLE = "training_input.csv"
DEFAULT_FORMAT = {ModelKind.VISION: "jpeg", ModelKind.SPEECH: "audio", ModelKind.DIFFUSION: "latents"}
OF_TOKENS = ("tokens", "text")
STORAGE = ("nvme", "ebs", "fsx", "s3")
UNKNOWN = "unknown storage"
STORED = {
    ModelKind.VISION: ("jpeg", "webdataset", "decoded"),
    ModelKind.SPEECH: ("audio", "features"),
    ModelKind.DIFFUSION: ("latents", "decoded"),
}
"""Formats that each kind of model can be fed with; the others read `OF_TOKENS`."""
USUAL_PIXELS = {ModelKind.VISION: 224, ModelKind.DIFFUSION: 1024}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """What feeds the accelerators: samples/s of one instance, and of what all instances share; inf where nothing is known to bind."""

    data_format: str
    storage: str
    cpu_per_s: float  # of one instance
    storage_per_s: float  # of one instance
    shared_per_s: float  # of all instances together
    cpu_note: str
    storage_note: str

    @property
    def per_instance_per_s(self) -> float:
        """Return samples/s of one instance alone."""
        return min(self.cpu_per_s, self.storage_per_s)

    def per_s(self, instances: float) -> float:
        """Return samples/s of so many instances."""
        return min(self.per_instance_per_s * instances, self.shared_per_s)

    def said(self, instances: float) -> str:
        """Return what binds, with its figures."""
        if self.shared_per_s < self.per_instance_per_s * instances:
            return self.storage_note
        return self.cpu_note if self.cpu_per_s <= self.storage_per_s else self.storage_note


@lru_cache(maxsize=1)
def figures() -> dict[tuple[str, str], float]:
    """Return the table as (name, figure) -> value."""
    text = files("planner.perf").joinpath("tables", TABLE).read_text(encoding="utf-8")
    return {(row["name"], row["figure"]): float(row["value"]) for row in csv.DictReader(text.splitlines())}


@lru_cache(maxsize=1)
def sources() -> dict[tuple[str, str], str]:
    """Return where each figure of the table comes from."""
    text = files("planner.perf").joinpath("tables", TABLE).read_text(encoding="utf-8")
    return {(row["name"], row["figure"]): row["source"] for row in csv.DictReader(text.splitlines())}


def images_per_s_per_vcpu() -> float:
    """Return images decoded and augmented per second and vCPU."""
    return figures()["jpeg", "samples_per_s_per_vcpu"]


def formats_of(spec: ModelSpec) -> tuple[str, ...]:
    """Return the formats that a model can be fed with, the usual one first."""
    return STORED.get(spec.kind, OF_TOKENS)


def format_of(spec: ModelSpec, work: TrainingWork) -> str:
    """Return how samples are stored: as asked, else as is usual for the model."""
    return work.data_format or formats_of(spec)[0]


def bytes_of_sample(spec: ModelSpec, work: TrainingWork, name: str) -> float:
    """Return the bytes that one sample is read as."""
    table = figures()
    if (name, "bytes_per_token") in table:
        return table[name, "bytes_per_token"] * work.sequence_length
    if (name, "bytes_per_pixel") in table:
        stated = work.input_size or (spec.sample.size if spec.sample is not None else None)
        pixels = stated or USUAL_PIXELS.get(spec.kind, 224)
        return table[name, "bytes_per_pixel"] * pixels * pixels
    return table[name, "bytes_per_sample"]


def loader_of(spec: ModelSpec, work: TrainingWork, hardware: Hardware) -> Loader:
    """Return the input pipeline of one kind of instance; what is not known of it does not bind."""
    table = figures()
    name = format_of(spec, work)
    size = bytes_of_sample(spec, work, name)
    storage = work.storage or storage_of(hardware)
    each = table.get((name, "samples_per_s_per_vcpu"))
    if each is None:
        each = table[name, "tokens_per_s_per_vcpu"] / work.sequence_length
    each *= work.decode_factor
    cpu = hardware.vcpus * each if hardware.vcpus else math.inf
    rate, shared, how = read_bytes_per_s(storage, hardware, work.read_factor)
    per_file = table[name, "files_per_sample"]
    opened = table[storage, "files_per_s"] / per_file if per_file and storage != UNKNOWN else math.inf
    slow = "files opened" if opened < rate / size else "read"
    return Loader(
        data_format=name,
        storage=storage,
        cpu_per_s=cpu,
        storage_per_s=min(rate / size, opened),
        shared_per_s=shared / size,
        cpu_note=(
            f"the input pipeline binds: {hardware.vcpus or 0} vCPUs x {each:.4g} samples/s per vCPU and instance ({name}, assumed)"
        ),
        storage_note=(
            f"the input pipeline binds: samples of {size:.4g} bytes ({name}) {slow} from {storage}, {how} (assumed)"
        ),
    )


def storage_of(hardware: Hardware) -> str:
    """Return where samples are read from when nobody says: local NVMe where there is some, else a volume."""
    if hardware.local_nvme_gb is None:
        return UNKNOWN
    return "nvme" if hardware.local_nvme_gb > 0 else "ebs"


def read_bytes_per_s(storage: str, hardware: Hardware, factor: float) -> tuple[float, float, str]:
    """Return bytes/s that one instance reads, that all instances share, and how that comes about."""
    table = figures()
    network = math.inf if hardware.network_gbps is None else hardware.network_gbps / 8 * 1e9
    if storage == UNKNOWN or (storage == "nvme" and hardware.local_nvme_gb is None):
        return math.inf, math.inf, "whose speed is not known"
    if storage == "nvme":
        rate = table["nvme", "read_gb_per_s_per_tb"] * 1e9 * (hardware.local_nvme_gb or 0.0) / 1000 * factor
        return rate, math.inf, f"{rate / 1e9:.3g} GB/s an instance"
    if storage == "fsx":
        rate = table["fsx", "read_gb_per_s_shared"] * 1e9 * factor
        return network, rate, f"{rate / 1e9:.3g} GB/s for all instances"
    if storage == "s3":
        rate = network * table["s3", "read_share_of_network"] * factor
        return rate, math.inf, f"{rate / 1e9:.3g} GB/s an instance"
    rate = table["ebs", "read_gb_per_s"] * 1e9 * factor
    return rate, math.inf, f"{rate / 1e9:.3g} GB/s an instance"
