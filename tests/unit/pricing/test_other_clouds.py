"""Items of gpuhunt's catalogs as our quotes and types: one name for one thing, every row left out counted."""

import builtins
import csv
import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest

from pricing.checks import check_snapshot
from pricing.contents import SnapshotContents
from pricing.errors import SourceFailed, Unreachable
from pricing.market import NoticeKind
from pricing.model import InterconnectKind, PurchaseOption
from pricing.other_clouds import CLOUDS, Chips, fetch_items, gpuhunt_sources, parse_items
from pricing.refresh.plan import chosen
from pricing.source import Ask
from pricing.static import load_tables

AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HEADER = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,provider_data"
# rows as the catalog files have them: sizes as each cloud publishes them, prices as read in July 2026
FILES = {
    "gcp": (
        "a2-highgpu-1g,us-central1-a,3.67339,12,85.0,1,A100,40.0,False,,nvidia,,x86,{}",
        "a2-highgpu-1g,us-central1-b,3.67339,12,85.0,1,A100,40.0,False,,nvidia,,x86,{}",
        "a2-highgpu-1g,us-central1-a,1.92802,12,85.0,1,A100,40.0,True,,nvidia,,x86,{}",
        "a3-highgpu-8g,us-east4-a,87.83247,208,1872.0,8,H100,80.0,False,,nvidia,,x86,{}",
        'a3-highgpu-8g,us-east4-a,40.0,208,1872.0,8,H100,80.0,False,,nvidia,gcp-dws-calendar-mode,x86,"{""is_dws_calendar_mode"": true}"',
        "n1-standard-4,us-east1-c,0.54,4,15.0,1,T4,16.0,False,,nvidia,,x86,{}",
        "n1-standard-8,us-east1-c,1.08,8,30.0,2,T4,16.0,False,,nvidia,,x86,{}",
        "v6e-8,us-east5-b,21.6,180,1440,1,v6e-8,256.0,False,,google,,x86,{}",
        "v5litepod-1,us-west4-a,1.2,24,48,1,v5litepod-1,16.0,False,,google,,x86,{}",
        "v4-8,us-central2-b,12.88,240,400,1,v4-8,128.0,False,,google,,x86,{}",
        "v6e-256,us-east5-b,691.2,180,1440,1,v6e-256,8192.0,False,,google,,x86,{}",
        "e2-standard-4,us-east1-b,0.134,4,16.0,0,,,False,,,,x86,{}",
        "g2-standard-4,us-west1-a,0,4,16.0,1,L4,24.0,False,,nvidia,,x86,{}",
    ),
    "azure": (
        "Standard_NC24ads_A100_v4,eastus,3.673,24,220.0,1,A100,80.0,False,,nvidia,,x86,{}",
        "Standard_NC24ads_A100_v4,eastus,0.67877,24,220.0,1,A100,80.0,True,,nvidia,,x86,{}",
        "Standard_NC80adis_H100_v5,eastus,13.96,80,640.0,2,H100NVL,94.0,False,,nvidia,,x86,{}",
        "Standard_ND96isr_H100_v5,eastus,98.32,96,1900.0,8,H100,80.0,False,,nvidia,,x86,{}",
        "Standard_NV6ads_A10_v5,eastus,0.454,6,55.0,1,A10,4.0,False,,nvidia,,x86,{}",
    ),
    "lambdalabs": (
        "gpu_1x_h100_pcie,us-east-1,3.29,26,241.65,1,H100,80.0,False,1099.0,nvidia,,x86,{}",
        "gpu_1x_h100_pcie,us-west-1,3.29,26,241.65,1,H100,80.0,False,1099.0,nvidia,,x86,{}",
        "gpu_1x_gh200,us-east-3,2.29,64,464.0,1,GH200,96.0,False,4398.0,nvidia,lambda-arm,arm,{}",
    ),
    "runpod": (
        "NVIDIA A100 80GB PCIe,EU-RO-1,1.39,8,117.0,1,A100,80.0,False,,nvidia,,x86,{}",
        "NVIDIA A100 80GB PCIe,US-KS-2,2.78,16,234.0,2,A100,80.0,False,,nvidia,,x86,{}",
        "NVIDIA H100 80GB HBM3,US-KS-2,2.69,16,251.0,1,H100,80.0,False,,nvidia,,x86,{}",
        "NVIDIA GeForce RTX 4090,CZ,0.34,6,25.0,1,RTX4090,24.0,False,,nvidia,,x86,{}",
        'NVIDIA H100 80GB HBM3,US-KS-2,25.6,160,1500.0,8,H100,80.0,False,,nvidia,runpod-cluster,x86,"{""pod_counts"": [2, 4]}"',
    ),
    "nebius": (
        "gpu-h200-sxm 8gpu-128vcpu-1600gb,eu-north1,28.0,128,1600,8,H200,141.0,False,,nvidia,,x86,{}",
        "gpu-h200-sxm 8gpu-128vcpu-1600gb,us-central1,28.0,128,1600,8,H200,141.0,True,,nvidia,,x86,{}",
    ),
    "oci": (
        "BM.GPU.MI300X.8,us-ashburn-1,48.0,224,2048.0,8,MI300X,192.0,False,,amd,,x86,{}",
        "BM.GPU.STRANGE.1,us-ashburn-1,4.0,8,64.0,1,X9000,48.0,False,,nvidia,,x86,{}",
    ),
    "verda": ("1V100.6V,FIN-01,0.1381,6,23.0,1,V100,16.0,True,,nvidia,,x86,{}",),
}  # fmt: skip


def items(cloud: str) -> list[SimpleNamespace]:
    """The rows of a file as gpuhunt's loader makes items of them."""
    return [
        SimpleNamespace(
            instance_name=row["instance_name"],
            location=row["location"],
            price=float(row["price"]),
            cpu=int(row["cpu"]),
            memory=float(row["memory"]),
            gpu_count=int(row["gpu_count"]),
            gpu_name=row["gpu_name"] or None,
            gpu_memory=float(row["gpu_memory"]) if row["gpu_memory"] else None,
            spot=row["spot"] == "True",
            flags=row["flags"].split(),
            cpu_arch=SimpleNamespace(value=row["cpu_arch"]),
            provider_data=json.loads(row["provider_data"]),
        )
        for row in csv.DictReader(io.StringIO("\n".join((HEADER, *FILES[cloud]))))
    ]


@pytest.fixture(scope="module")
def tables() -> SnapshotContents:
    return load_tables()


@pytest.fixture(scope="module")
def read(tables):
    chips = Chips.of(tables.accelerators, tables.aliases)
    return lambda cloud: parse_items(items(cloud), cloud=cloud, chips=chips, at=AT, version="20260720")


def prices(reading) -> dict[tuple[str, str, str], str]:
    return {(q.instance_type, q.region, q.purchase_option.value): str(q.effective_unit_price) for q in reading.quotes}


def shapes(reading) -> dict[str, tuple[str, int, float]]:
    return {i.instance_type: (i.accelerator, i.device_count, i.device_fraction) for i in reading.instance_types}


def test_zones_of_google_become_regions_and_everything_left_out_is_counted(read):
    reading = read("gcp")
    assert prices(reading) == {
        ("a2-highgpu-1g", "us-central1", "on_demand"): "3.67339",
        ("a2-highgpu-1g", "us-central1", "spot"): "1.92802",
        ("a3-highgpu-8g", "us-east4", "on_demand"): "87.83247",
        ("n1-standard-4+t4", "us-east1", "on_demand"): "0.54",
        ("n1-standard-8+2xt4", "us-east1", "on_demand"): "1.08",
        ("tpu-v6e-8", "us-east5", "on_demand"): "21.6",
        ("tpu-v5e per chip-hour", "us-west4", "on_demand"): "1.2",
        ("tpu-v4-8", "us-central2", "on_demand"): "12.88",
    }
    assert reading.excluded == {
        "a slice of several hosts": 1,
        "no accelerator": 1,
        "no price or a price of zero": 1,
        "reserved for fixed days (GCP calendar mode), not on demand": 1,
        "the same thing in another zone": 1,
    }
    assert (reading.published, reading.source) == ("20260720", "gpuhunt.gcp")


def test_tpus_are_counted_in_chips(read):
    """v6e and v5litepod are named by chips, v4 by TensorCores, two a chip."""
    found = shapes(read("gcp"))
    assert found["tpu-v6e-8"] == ("TPU v6e", 8, 1.0)
    assert found["tpu-v5e per chip-hour"] == ("TPU v5e", 1, 1.0)
    assert found["tpu-v4-8"] == ("TPU v4", 4, 1.0)


def test_the_form_of_a_chip_follows_from_the_clouds_own_name(read):
    azure, cards = shapes(read("azure")), shapes(read("lambdalabs"))
    assert azure["NC24ads_A100_v4"] == ("A100 PCIe 80GB", 1, 1.0)
    assert azure["NC80adis_H100_v5"] == ("H100 NVL 94GB", 2, 1.0)
    assert azure["ND96isr_H100_v5"] == ("H100 SXM5 80GB", 8, 1.0)
    assert azure["NV6ads_A10_v5"] == ("A10", 1, pytest.approx(1 / 6))
    assert cards["gpu_1x_h100_pcie"] == ("H100 PCIe 80GB", 1, 1.0)
    assert cards["gpu_1x_gh200"] == ("GH200 96GB", 1, 1.0)


def test_lambda_lists_every_type_in_every_region_and_its_memory_in_gb(read):
    """225 GiB x 1.074 = 241.65; the catalog's regions say nothing of where a type is."""
    reading = read("lambdalabs")
    assert prices(reading)["gpu_1x_h100_pcie", "any", "on_demand"] == "3.29"
    assert reading.excluded == {"the same thing in another zone": 1}
    memory = {i.instance_type: (i.memory_gib, i.cpu_arch) for i in reading.instance_types}
    assert memory["gpu_1x_h100_pcie"] == (225.0, "x86_64")
    assert memory["gpu_1x_gh200"][1] == "arm64"


def test_runpod_counts_are_part_of_the_name_and_its_clouds_are_regions(read):
    reading = read("runpod")
    assert prices(reading) == {
        ("1x_A100-80GB_SECURE", "all secure cloud regions", "on_demand"): "1.39",
        ("2x_A100-80GB_SECURE", "all secure cloud regions", "on_demand"): "2.78",
        ("H100 SXM secure cloud", "secure-cloud", "on_demand"): "2.69",
        ("1x_NVIDIA-GeForce-RTX-4090_COMMUNITY", "all community cloud regions", "on_demand"): "0.34",
    }
    assert reading.excluded == {"part of a cluster of several instances": 1}


def test_a_thing_that_our_tables_have_keeps_its_name(read, tables):
    """A name of the tables, or a new one; never the same machine under a second name."""
    ours = {(i.provider, i.instance_type): i for i in tables.instance_types}
    new = set()
    for kind in (kind for cloud in FILES for kind in read(cloud).instance_types):
        known = ours.get((kind.provider, kind.instance_type))
        if known is None:
            new.add((kind.provider, kind.instance_type))
            continue
        assert kind.accelerator == known.accelerator
        assert kind.accelerators_per_instance == pytest.approx(known.accelerators_per_instance, rel=1e-5)
    assert new == {
        ("gcp", "n1-standard-8+2xt4"),
        ("gcp", "tpu-v4-8"),
        ("azure", "NC80adis_H100_v5"),
        ("runpod", "1x_NVIDIA-GeForce-RTX-4090_COMMUNITY"),
        ("oci", "BM.GPU.MI300X.8"),
    }
    assert set(CLOUDS.values()) - {"cloudrift"} <= {i.provider for i in tables.instance_types}


def test_an_unknown_chip_is_a_notice_and_not_a_guess(read):
    reading = read("oci")
    assert [q.instance_type for q in reading.quotes] == ["BM.GPU.MI300X.8"]
    assert reading.excluded == {"a chip that no table knows": 1}
    (notice,) = reading.notices
    assert (notice.kind, notice.subject, notice.count) == (NoticeKind.NOTE, "X9000 48 GB", 1)


def test_prices_that_differ_by_zone_are_the_dearest_and_said(tables):
    rows = items("gcp")[:2]
    rows[1].price = 4.0
    reading = parse_items(rows, cloud="gcp", chips=Chips.of(tables.accelerators, tables.aliases), at=AT)
    assert [q.effective_unit_price for q in reading.quotes] == [Decimal("4.0")]
    (notice,) = reading.notices
    assert notice.kind is NoticeKind.UNRESOLVED
    assert notice.detail == "costs 3.67339 to 4.0 USD per hour by zone: the dearest stands"


def test_how_chips_are_linked_follows_from_their_form(read):
    links = {i.instance_type: i for cloud in FILES for i in read(cloud).instance_types}
    assert links["a3-highgpu-8g"].interconnect_kind is InterconnectKind.NVSWITCH
    assert links["a3-highgpu-8g"].interconnect_gb_s_bidirectional == 900
    assert links["NC80adis_H100_v5"].interconnect_kind is InterconnectKind.PCIE
    assert links["BM.GPU.MI300X.8"].interconnect_kind is InterconnectKind.XGMI
    assert links["tpu-v6e-8"].interconnect_kind is InterconnectKind.ICI
    assert links["a2-highgpu-1g"].interconnect_kind is InterconnectKind.NONE


@pytest.mark.parametrize("cloud", FILES)
def test_the_rules_of_a_snapshot_hold_for_what_is_read(read, tables, cloud):
    """But for rules that a market may break (prices of sizes against each other)."""
    from dataclasses import replace

    reading = read(cloud)
    contents = replace(
        tables, instance_types=reading.instance_types, quotes=reading.quotes, interruptions=(), price_periods=()
    )
    assert [str(f) for f in check_snapshot(contents, today=AT.date()) if f.rule != "larger_not_cheaper"] == []
    assert all(q.provider == reading.scope.provider for q in reading.quotes)


def test_sources_are_one_a_cloud_not_asked_by_default_and_chosen_together():
    sources = gpuhunt_sources()
    assert [s.name for s in sources][:3] == ["gpuhunt.azure", "gpuhunt.cloudrift", "gpuhunt.datacrunch"]
    assert not any(s.default or s.regional or s.needs_credentials for s in sources)
    assert "aws" not in CLOUDS
    assert chosen(sources, ["gpuhunt"]) == sources
    assert [s.name for s in chosen(sources, ["gpuhunt.gcp"])] == ["gpuhunt.gcp"]


def test_a_missing_package_is_one_line_with_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "gpuhunt":
            raise ModuleNotFoundError("No module named 'gpuhunt'", name="gpuhunt")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SourceFailed) as caught:
        fetch_items("gcp")
    assert str(caught.value) == (
        "gpuhunt.gcp: the package gpuhunt is not installed; pip install 'gpu-cost-planner[other-clouds]'"
    )


LEFT_OPEN = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
"""gpuhunt leaves the files of GPUHUNT_CATALOG_DIR to the garbage collector."""


@pytest.fixture
def catalogs(tmp_path, monkeypatch):
    pytest.importorskip("gpuhunt")
    for cloud, rows in FILES.items():
        (tmp_path / f"{cloud}.csv").write_text("\n".join((HEADER, *rows)) + "\n", encoding="utf-8")
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(tmp_path))
    return tmp_path


@LEFT_OPEN
def test_gpuhunt_itself_reads_its_catalogs(catalogs, tables, read):
    ask = Ask(region=None, at=AT, chips=tables.accelerators, instance_types=frozenset())
    for source in gpuhunt_sources():
        cloud = {ours: theirs for theirs, ours in CLOUDS.items()}[source.name.removeprefix("gpuhunt.")]
        if cloud in FILES:
            got = source.read(ask)
            assert prices(got) == prices(read(cloud))
            assert shapes(got) == shapes(read(cloud))
            assert got.excluded == read(cloud).excluded


@LEFT_OPEN
def test_a_catalog_that_is_not_there_is_a_failed_source(catalogs):
    (catalogs / "oci.csv").unlink()
    with pytest.raises(Unreachable, match=r"gpuhunt\.oci: its catalog could not be read"):
        fetch_items("oci")


def test_spot_rows_are_spot(read):
    assert {q.purchase_option for q in read("verda").quotes} == {PurchaseOption.SPOT}
    assert prices(read("nebius"))["gpu-h200-sxm_8gpu-128vcpu-1600gb", "us-central1", "spot"] == "28.0"
