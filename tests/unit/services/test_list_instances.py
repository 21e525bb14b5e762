"""`list_instances` over the shipped tables. Expected figures: AWS instance specifications and NVIDIA datasheets (dense peaks)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from planner.services.documents import to_json_bytes
from planner.services.list_instances import list_instances
from pricing.catalog import Catalog
from pricing.errors import UnknownName
from pricing.publish import publish_shipped
from pricing.snapshot import open_snapshot


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with open_snapshot(publish_shipped(tmp_path_factory.mktemp("shipped") / "snapshot-0.sqlite")) as opened:
        yield opened


def one(catalog: Catalog, name: str) -> dict[str, Any]:
    (found,) = list_instances(catalog, provider="aws", instance_type=name)["instance_types"]
    assert isinstance(found, dict)
    return found


def test_a_large_instance(catalog: Catalog) -> None:
    p5 = one(catalog, "p5.48xlarge")
    assert (p5["accelerator"], p5["accelerators_per_instance"], p5["device_count"]) == ("H100 SXM5 80GB", 8, 8)
    assert (p5["vcpus"], p5["memory_gib"], p5["efa_supported"], p5["network_gbps"]) == (192, 2048, True, 3200)
    chip = p5["chip"]
    assert (chip["memory_gib"], chip["compute_capability"], chip["tdp_w"]) == (80, 9.0, 700)
    assert chip["peak_tflops"]["bf16"] == pytest.approx(989, abs=1)  # dense; 1,979 is with sparsity
    assert chip["memory_bandwidth_gb_s"] == pytest.approx(3350, rel=0.01)
    assert "us-east-1" in p5["regions"]


@pytest.mark.parametrize(
    ("name", "chips"),
    [
        ("p5.4xlarge", 1),
        ("g6.16xlarge", 1),
        ("g6.12xlarge", 4),
        ("g5.48xlarge", 8),
        ("g6f.xlarge", 0.125),
        ("g6f.4xlarge", 0.5),
    ],
)
def test_accelerators_per_instance(catalog: Catalog, name: str, chips: float) -> None:
    assert one(catalog, name)["accelerators_per_instance"] == chips


def test_a_cpu_type_has_no_count_of_accelerators(catalog: Catalog) -> None:
    cpu = one(catalog, "m7i.4xlarge")
    assert cpu["accelerator_kind"] == "cpu"
    assert cpu["accelerators_per_instance"] is None


def test_a_type_without_any_price_is_listed_with_no_region(catalog: Catalog) -> None:
    unpriced = [t for t in list_instances(catalog, provider="aws")["instance_types"] if not t["regions"]]
    assert "trn2.48xlarge" in {t["instance_type"] for t in unpriced}


def test_filters(catalog: Catalog) -> None:
    l4 = list_instances(catalog, accelerator="nvidia l4", provider="aws")["instance_types"]
    assert {t["accelerator"] for t in l4} == {"L4"}
    assert {"g6.xlarge", "gr6.4xlarge", "g6f.xlarge"} <= {t["instance_type"] for t in l4}
    there = list_instances(catalog, region="us-east-1", accelerator=["L4", "H100"])["instance_types"]
    assert all("us-east-1" in t["regions"] for t in there)
    assert {t["accelerator"] for t in there} == {"L4", "H100 SXM5 80GB"}
    everything = list_instances(catalog)
    assert len(everything["instance_types"]) == catalog.meta.instance_type_count
    assert list_instances(catalog, limit=2)["instance_types"] == everything["instance_types"][:2]
    assert list(everything) == ["snapshot_id", "as_of", "instance_types"]
    assert json.loads(to_json_bytes(everything))["instance_types"][0] == everything["instance_types"][0]


def test_every_chip_is_there(catalog: Catalog) -> None:
    assert all((t["accelerator"] is None) == (t["chip"] is None) for t in list_instances(catalog)["instance_types"])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"accelerator": "H1000"}, "unknown accelerator 'H1000'; did you mean H100"),
        ({"instance_type": "p5.48xlrage"}, r"unknown instance type 'p5\.48xlrage'; did you mean p5\.48xlarge"),
        ({"region": "mars-1"}, "unknown region 'mars-1'"),
    ],
)
def test_a_name_that_nothing_has_is_an_error_not_an_empty_list(
    catalog: Catalog, given: dict[str, Any], why: str
) -> None:
    with pytest.raises(UnknownName, match=why):
        list_instances(catalog, **given)
