"""Region codes and location names."""

from __future__ import annotations

import pytest

from pricing.aws.regions import LOCATIONS, location_names, misspelt, region_code
from pricing.errors import UnknownName
from pricing.static import load_tables


def test_every_spelling_leads_back_to_its_region() -> None:
    for code, names in LOCATIONS.items():
        assert names
        assert [region_code(name) for name in names] == [code] * len(names)
    assert region_code("  us east   (OHIO) ") == "us-east-2"


def test_every_european_region_has_both_spellings() -> None:
    for code, names in LOCATIONS.items():
        assert [n.split(" (")[0] for n in names] == ["EU", "Europe"] if code.startswith("eu-") else "EU" not in names[0]


def test_every_region_of_the_shipped_prices_is_known() -> None:
    assert {q.region for q in load_tables().quotes if q.provider == "aws"} <= set(LOCATIONS)


def test_a_local_zone_is_no_region_and_a_slip_is_named() -> None:
    with pytest.raises(UnknownName, match="us-west-2"):
        location_names("us-west-2-lax-1")
    with pytest.raises(UnknownName, match=r"Europe \(Ireland\)"):
        region_code("Europe (Irland)")


def test_a_region_that_exists_is_not_called_misspelt() -> None:
    assert misspelt("cn-north-1") == ""
    assert misspelt("eu-centra1-1") == "check the region's name"
